"""H13, H14, H16, H17, H23: copies between GM and UB, tiles, and how many tensors may live at once."""

from __future__ import annotations

import numpy as np

from torchair_autofuse.probe.record import Case

# Fills a TBuf in VECIN with 7, loads 5 elements of x into its start, stores the 5 and what lies behind their block.
_GUARDED = """    TPipe pipe;
    TBuf<TPosition::VECIN> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<TYPE> a = buffer.Get<TYPE>();
    Duplicate(a, static_cast<TYPE>(7), 256 / sizeof(TYPE));
    Follow<HardEvent::V_MTE2>(pipe);
    In(a, Gm<TYPE>(x), 5);
    Follow<HardEvent::MTE2_MTE3>(pipe);
    Follow<HardEvent::V_MTE3>(pipe);
    Out(Gm<TYPE>(out), a, 5);
    Out(Gm<TYPE>(out)[32 / sizeof(TYPE)], a[32 / sizeof(TYPE)], 224 / sizeof(TYPE));"""


def load_stays_in_block() -> tuple[Case, ...]:
    cases = []
    for cpp, dtype in (("half", np.float16), ("float", np.float32)):
        x = np.arange(11, 27, dtype=dtype)
        lanes = 32 // x.itemsize
        want = np.full(8 * lanes, 7, dtype)
        want[:5] = x[:5]
        want[5:lanes] = 99
        out = np.full_like(want, 99)
        cases.append(Case(f"5 {cpp}, then guards", _GUARDED.replace("TYPE", cpp), out, want, x))
    return tuple(cases)


# m rows of n bytes from blocks of UB to GM, 3 bytes apart, from byte 5 on.
_ROWS = """    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q;
    pipe.InitBuffer(q, 1, 8192);
    LocalTensor<uint8_t> a = q.AllocTensor<uint8_t>();
    In(a, Gm<uint8_t>(x), m * ((n + 31) / 32 * 32));
    q.EnQue(a);
    a = q.DeQue<uint8_t>();
    const DataCopyExtParams rows(static_cast<uint16_t>(m), n, 0, 3, 0);
    DataCopyPad(Gm<uint8_t>(out)[5], a, rows);
    q.FreeTensor(a);"""


def store_is_exact() -> tuple[Case, ...]:
    cases = []
    for width in (1, 7, 31, 33, 64, 77):
        rows, pitch = 9, (width + 31) // 32 * 32
        x = (np.arange(rows * pitch) % 251).astype(np.uint8)
        out = np.full(5 + rows * (width + 3) + 40, 0xEE, np.uint8)
        want = out.copy()
        for r in range(rows):
            at = 5 + r * (width + 3)
            want[at : at + width] = x[r * pitch : r * pitch + width]
        cases.append(Case(f"rows of {width} bytes, guards between", _ROWS, out, want, x, n=width, m=rows))
    return tuple(cases)


# m tiles of n half: in, plus 1, out; a tile ends inside a 32-byte block of GM.
_TILES = """    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa;
    TQue<TPosition::VECOUT, 1> qc;
    pipe.InitBuffer(qa, 2, 256);
    pipe.InitBuffer(qc, 2, 256);
    for (uint32_t i = 0; i < m; ++i) {
        LocalTensor<half> a = qa.AllocTensor<half>();
        In(a, Gm<half>(x)[i * n], n);
        qa.EnQue(a);
        a = qa.DeQue<half>();
        LocalTensor<half> c = qc.AllocTensor<half>();
        Adds(c, a, static_cast<half>(1), n);
        qa.FreeTensor(a);
        qc.EnQue(c);
        c = qc.DeQue<half>();
        Out(Gm<half>(out)[i * n], c, n);
        qc.FreeTensor(c);
    }"""


def neighbouring_tiles() -> tuple[Case, ...]:
    x = (np.arange(17 * 200) % 1000).astype(np.float16)
    return (Case("tiles of 17 half", _TILES, np.zeros_like(x), x + np.float16(1), x, n=17, m=200, launches=5),)


# m tiles of n float; the vector pipe writes into the buffer of the input before it is read again.
_IN_PLACE = """    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa;
    TQue<TPosition::VECOUT, 1> qc;
    pipe.InitBuffer(qa, 2, n * sizeof(float));
    pipe.InitBuffer(qc, 2, n * sizeof(float));
    for (uint32_t i = 0; i < m; ++i) {
        LocalTensor<float> a = qa.AllocTensor<float>();
        In(a, Gm<float>(x)[i * n], n);
        qa.EnQue(a);
        a = qa.DeQue<float>();
        Adds(a, a, 1.0f, n);
        PipeBarrier<PIPE_V>();
        LocalTensor<float> c = qc.AllocTensor<float>();
        Muls(c, a, 2.0f, n);
        qa.FreeTensor(a);
        qc.EnQue(c);
        c = qc.DeQue<float>();
        Out(Gm<float>(out)[i * n], c, n);
        qc.FreeTensor(c);
    }"""


def in_place_input() -> tuple[Case, ...]:
    x = np.arange(64 * 512, dtype=np.float32)
    want = (x + 1) * np.float32(2)
    return (Case("64 tiles of 512 float, two buffers", _IN_PLACE, np.zeros_like(x), want, x, n=512, m=64, launches=5),)


# Eight inputs alive at once, and 56 buffers in all; the sum of everything.
_MANY = """    TPipe pipe;
    TQue<TPosition::VECIN, 1> q[8];
    TBuf<TPosition::VECCALC> more[47];
    TQue<TPosition::VECOUT, 1> qc;
    for (uint32_t i = 0; i < 8; ++i) {
        pipe.InitBuffer(q[i], 1, n * sizeof(float));
    }
    for (uint32_t i = 0; i < 47; ++i) {
        pipe.InitBuffer(more[i], n * sizeof(float));
    }
    pipe.InitBuffer(qc, 1, n * sizeof(float));
    LocalTensor<float> a[8];
    for (uint32_t i = 0; i < 8; ++i) {
        a[i] = q[i].AllocTensor<float>();
        In(a[i], Gm<float>(x)[i * n], n);
        q[i].EnQue(a[i]);
    }
    LocalTensor<float> c = qc.AllocTensor<float>();
    Duplicate(c, 0.0f, n);
    for (uint32_t i = 0; i < 47; ++i) {
        Duplicate(more[i].Get<float>(), static_cast<float>(i), n);
    }
    for (uint32_t i = 0; i < 8; ++i) {
        a[i] = q[i].DeQue<float>();
        PipeBarrier<PIPE_V>();
        Add(c, c, a[i], n);
    }
    for (uint32_t i = 0; i < 47; ++i) {
        PipeBarrier<PIPE_V>();
        Add(c, c, more[i].Get<float>(), n);
    }
    for (uint32_t i = 0; i < 8; ++i) {
        q[i].FreeTensor(a[i]);
    }
    qc.EnQue(c);
    c = qc.DeQue<float>();
    Out(Gm<float>(out), c, n);
    qc.FreeTensor(c);"""


def live_tensors() -> tuple[Case, ...]:
    x = np.arange(8 * 256, dtype=np.float32)
    want = x.reshape(8, 256).sum(0) + np.float32(sum(range(47)))
    return (Case("8 live inputs, 56 buffers", _MANY, np.zeros(256, np.float32), want, x, n=256),)
