"""H30, H31, H38: several cores, workspace, several TPipes."""

from __future__ import annotations

import numpy as np

from torchair_autofuse.probe.record import Case

# Every core puts 64 numbers into its slot of 1 KB and, when all have, adds up all slots in order.
_MEET = """    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q;
    TQue<TPosition::VECIN, 1> qa;
    TQue<TPosition::VECOUT, 1> qc;
    pipe.InitBuffer(q, 1, 256);
    pipe.InitBuffer(qa, 2, 256);
    pipe.InitBuffer(qc, 1, 256);
    const uint32_t core = static_cast<uint32_t>(GetBlockIdx()), cores = static_cast<uint32_t>(GetBlockNum());
    GlobalTensor<float> slots = Gm<float>(GetUserWorkspace(workspace));
    LocalTensor<float> mine = q.AllocTensor<float>();
    In(mine, Gm<float>(x)[core * 64], 64);
    q.EnQue(mine);
    mine = q.DeQue<float>();
    Out(slots[core * 256], mine, 64);
    q.FreeTensor(mine);
    SyncAll();
    LocalTensor<float> c = qc.AllocTensor<float>();
    Duplicate(c, 0.0f, 64);
    for (uint32_t i = 0; i < cores; ++i) {
        LocalTensor<float> a = qa.AllocTensor<float>();
        In(a, slots[i * 256], 64);
        qa.EnQue(a);
        a = qa.DeQue<float>();
        PipeBarrier<PIPE_V>();
        Add(c, c, a, 64);
        qa.FreeTensor(a);
    }
    qc.EnQue(c);
    c = qc.DeQue<float>();
    Out(Gm<float>(out)[core * 64], c, 64);
    qc.FreeTensor(c);"""
MOST_CORES = 128


def _meeting(cores: int) -> Case:
    x = np.random.default_rng(21).standard_normal(MOST_CORES * 64).astype(np.float32)
    want = np.zeros(64, np.float32)
    for i in range(cores):
        want = want + x[i * 64 : i * 64 + 64]
    return Case(
        f"SyncAll of {cores} cores", _MEET, np.zeros(cores * 64, np.float32), np.tile(want, cores), x,
        blocks=cores, launches=1000, workspace=MOST_CORES * 1024,
    )  # fmt: skip


def meet(vector_cores: int) -> tuple[Case, ...]:
    """For a device with so many vector cores: all of them, half of them, two."""
    return tuple(_meeting(n) for n in dict.fromkeys((vector_cores, max(2, vector_cores // 2), 2)))


# The user's workspace: its address modulo 32, whether it begins in or right after the system's part, what its last 256
# bytes hold.
_WORKSPACE = """    TPipe pipe;
    TBuf<TPosition::VECOUT> words;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q;
    pipe.InitBuffer(words, 32);
    pipe.InitBuffer(q, 1, 256);
    GM_ADDR user = GetUserWorkspace(workspace);
    LocalTensor<int32_t> w = words.Get<int32_t>();
    w.SetValue(0, static_cast<int32_t>((uint64_t)user % 32));
    w.SetValue(1, (uint64_t)user - (uint64_t)workspace <= 16777216 ? 1 : 0);
    Follow<HardEvent::S_MTE3>(pipe);
    Out(Gm<int32_t>(out), w, 2);
    GlobalTensor<int32_t> last = Gm<int32_t>(user)[n - 64];
    LocalTensor<int32_t> a = q.AllocTensor<int32_t>();
    In(a, Gm<int32_t>(x), 64);
    q.EnQue(a);
    a = q.DeQue<int32_t>();
    Out(last, a, 64);
    q.FreeTensor(a);
    a = q.AllocTensor<int32_t>();
    Follow<HardEvent::MTE3_MTE2>(pipe);
    In(a, last, 64);
    q.EnQue(a);
    a = q.DeQue<int32_t>();
    Out(Gm<int32_t>(out)[8], a, 64);
    q.FreeTensor(a);"""


def workspace() -> tuple[Case, ...]:
    x = np.arange(64, dtype=np.int32) + 1000
    out = np.zeros(72, np.int32)
    want = out.copy()
    want[1], want[8:] = 1, x
    size = 1 << 16
    return (Case("where the user part lies", _WORKSPACE, out, want, x, n=size // 4, workspace=size),)


# m scopes with a TPipe each: nearly all of UB, a queue, and a fetched event.
_SCOPES = """    for (uint32_t i = 0; i < m; ++i) {
        TPipe pipe;
        TQue<TPosition::VECIN, 1> qa;
        TQue<TPosition::VECOUT, 1> qc;
        TBuf<TPosition::VECCALC> most;
        pipe.InitBuffer(qa, 2, 1024);
        pipe.InitBuffer(qc, 2, 1024);
        pipe.InitBuffer(most, 176 * 1024);
        LocalTensor<float> a = qa.AllocTensor<float>();
        In(a, Gm<float>(x)[i * n], n);
        qa.EnQue(a);
        a = qa.DeQue<float>();
        LocalTensor<float> held = most.Get<float>()[44 * 1024 - 256];
        Adds(held, a, static_cast<float>(i), n);
        Follow<HardEvent::V_S>(pipe);
        Follow<HardEvent::S_V>(pipe);
        LocalTensor<float> c = qc.AllocTensor<float>();
        Muls(c, held, 2.0f, n);
        qa.FreeTensor(a);
        qc.EnQue(c);
        c = qc.DeQue<float>();
        Out(Gm<float>(out)[i * n], c, n);
        qc.FreeTensor(c);
    }"""


def scopes() -> tuple[Case, ...]:
    x = np.arange(64 * 256, dtype=np.float32)
    want = (x.reshape(64, 256) + np.arange(64, dtype=np.float32)[:, None]).reshape(-1) * np.float32(2)
    return (Case("64 TPipes one after the other", _SCOPES, np.zeros_like(x), want, x, n=256, m=64, launches=5),)
