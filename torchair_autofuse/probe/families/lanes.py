"""H18, H19, H20, H32, H39, H40: masks, repeats, gathers and turns inside UB."""

from __future__ import annotations

import numpy as np

from torchair_autofuse.probe.families.values import V, elements, packed
from torchair_autofuse.probe.record import Array, Case

_NAN = np.float32(np.nan)


def _numbers(count: int, seed: int = 1) -> Array:
    """Small whole numbers as f32, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(-9, 10, count).astype(np.float32)


def compare_counts() -> tuple[Case, ...]:
    cases = []
    for count in (64, 128, 192, 256, 2048):
        a, b = _numbers(count, 2), _numbers(count, 3)
        cases.append(elements(f"Compare of {count} float", "Compare(c, a, b, CMPMODE::LT, n);", a, b, packed(a < b)))
        code = "CompareScalar(c, a, 1.0f, CMPMODE::GE, n);"
        cases.append(elements(f"CompareScalar of {count} float", code, a, b, packed(a >= 1)))
    return tuple(cases)


def strides() -> tuple[Case, ...]:
    a, b = _numbers(512, 4), _numbers(512, 5)
    spread = f"LocalTensor<float> q = t.ReinterpretCast<float>(); Brcb(q, b, 1, BrcbRepeatParams(1, 8)); {V} "
    column = spread + "Sub(c, a, q, 64, 8, BinaryRepeatParams(1, 1, 0, 8, 8, 1));"
    minus_column = (a.reshape(8, 64) - b[:8, None]).reshape(-1)
    many = _numbers(255 * 8, 6)
    scalar = "Mul(c, a, b, 8, 255, BinaryRepeatParams(1, 1, 0, 1, 1, 0));"
    ones = np.ones(255 * 8, np.float32)
    row = "Add(c, a, b, 64, 8, BinaryRepeatParams(1, 1, 1, 8, 8, 0));"
    wide = np.ones(4 * 2040, np.float32)
    x = _numbers(4 * 2040, 7)
    wide.reshape(4, 2040)[:, :64] = x.reshape(4, 2040)[:, :64] + x[:64]
    far = f"Duplicate(c, 1.0f, n); {V} Add(c, a, b, 64, 4, BinaryRepeatParams(1, 1, 1, 255, 255, 0));"
    copied = np.repeat(a[:128].reshape(16, 1, 8), 8, axis=1).reshape(-1)[:1024]
    return (
        elements("Brcb, then a column by block stride 0", column, a, b, minus_column),
        elements("one block for 255 repeats of 8 lanes", scalar, many, ones * 3, many * 3),
        elements("one row for 8 repeats", row, a, b, (a.reshape(8, 64) + b[:64]).reshape(-1)),
        elements("rows 255 blocks apart", far, x, x, wide, temporary=32768),
        elements("Copy from block stride 0", "Copy(c, a, 64, 16, CopyRepeatParams(1, 0, 8, 1));", a, b, copied),
    )


def barriers() -> tuple[Case, ...]:
    a = _numbers(1024, 8)
    want = a.copy()
    for _ in range(300):
        want = want * np.float32(0.5) + a
    code = (
        f"Adds(c, a, 0.0f, n); for (uint32_t i = 0; i < 300; ++i) {{ {V} Muls(c, c, 0.5f, n); {V} Add(c, c, a, n); }}"
    )
    return (elements("600 dependent instructions", code, a, None, want, launches=10),)


def _reductions() -> list[Case]:
    cases = []
    for width in (1, 7, 63, 64):
        a = np.full((20, 64), _NAN, np.float32)
        a[:, :width] = _numbers(20 * width, 9 + width).reshape(20, width)
        rows, flat = a[:, :width], a.reshape(-1)
        for name, want, more in (
            ("Sum", rows.sum(1), ""),
            ("Max", rows.max(1), ", ReduceOrder::ORDER_ONLY_VALUE"),
            ("Min", rows.min(1), ", ReduceOrder::ORDER_ONLY_VALUE"),
        ):
            code = f"WholeReduce{name}(c, a, {width}, 20, 1, 1, 8{more});"
            label = f"WholeReduce{name} of {width} lanes, NaN in the rest"
            cases.append(elements(label, code, flat, None, want.astype(np.float32)))
    return cases


def _picks() -> list[Case]:
    cases = []
    for dtype, per in ((np.float32, 64), (np.float16, 128)):
        a = _numbers(4 * per, 10).astype(dtype)
        for pattern in range(1, 7):
            want = a[pattern - 1 :: 2] if pattern < 3 else a[pattern - 3 :: 4]
            code = f"uint64_t kept = 0; GatherMask(c, a, {pattern}, false, 0, GatherMaskParams(1, 4, 8, 0), kept);"
            cases.append(
                elements(f"GatherMask {pattern} of {a.dtype.name}", f"{code} ResetMask();", a, None, want.copy())
            )
    return cases


_LOOKED_UP = """    TPipe pipe;
    TBuf<TPosition::VECIN> index;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q;
    pipe.InitBuffer(index, 64);
    pipe.InitBuffer(q, 2, 256);
    LocalTensor<int32_t> rows = index.Get<int32_t>();
    In(rows, Gm<int32_t>(y), m);
    Follow<HardEvent::MTE2_S>(pipe);
    for (uint32_t i = 0; i < m; ++i) {
        const int32_t row = rows.GetValue(i);
        Follow<HardEvent::S_MTE2>(pipe);
        LocalTensor<float> a = q.AllocTensor<float>();
        In(a, Gm<float>(x)[row * n], n);
        q.EnQue(a);
        a = q.DeQue<float>();
        Out(Gm<float>(out)[i * n], a, n);
        q.FreeTensor(a);
    }"""


def _turns() -> list[Case]:
    cases = []
    lists = "uint64_t to[16], from[16]; for (uint32_t i = 0; i < 16; ++i) { FROM TO } "
    for dtype, cpp, lanes in ((np.float16, "half", 16), (np.float32, "float", 8)):
        for repeat in (1, 2):
            width = lanes * repeat
            a = _numbers(16 * width, 11).astype(dtype)
            into = "i * 16" if lanes == 16 else "i / 2 * 16 + i % 2 * 8"
            fill = lists.replace("FROM", f"from[i] = (uint64_t)a[i * {width}].GetPhyAddr();")
            fill = fill.replace("TO ", f"to[i] = (uint64_t)c[{into}].GetPhyAddr(); ")
            strides = "16, 1" if repeat > 1 else "0, 0"  # a block of every source line fills 16 blocks
            call = f"TransDataTo5HD<{cpp}>(to, from, TransDataTo5HDParams(false, false, {repeat}, {strides}));"
            want = a.reshape(16, width).T.reshape(-1).copy()
            cases.append(elements(f"TransDataTo5HD of {cpp}, {repeat} repeats", fill + call, a, None, want))
    return cases


def inside_ub() -> tuple[Case, ...]:
    a = _numbers(256, 12)
    gather = (
        f"LocalTensor<int32_t> o = t.ReinterpretCast<int32_t>(); CreateVecIndex(o, 0, 128); {V} "
        f"Muls(o, o, 8, 128); {V} Gather(c, a, o.ReinterpretCast<uint32_t>(), 4, 128);"
    )
    rows = np.array([3, 0, 7, 7, 2], np.int32)
    x = _numbers(8 * 48, 13)
    looked = x.reshape(8, 48)[rows].reshape(-1)
    index = np.resize(rows, 8)
    return (
        *_reductions(),
        *_picks(),
        elements("Gather from a base of 4 bytes", gather, a, None, a[1::2].copy()),
        Case("an index read by GetValue", _LOOKED_UP, np.zeros_like(looked), looked, x, index, n=48, m=rows.size),
        *_turns(),
    )


def own_patterns() -> tuple[Case, ...]:
    cases = []
    for width, rows in ((33, 6), (700, 4), (4081, 2)):
        pitch = (width + 15) // 16 * 16
        a = np.zeros((rows, pitch), np.float16)
        a[:, :width] = _numbers(rows * width, width).reshape(rows, width)
        keep = np.zeros(rows * pitch // 16, np.uint16)
        keep[: pitch // 16] = np.packbits(np.arange(pitch) < width, bitorder="little").view(np.uint16)
        code = (
            f"uint64_t kept = 0; GatherMask(c, a, b.ReinterpretCast<uint16_t>(), true, {pitch}, "
            f"GatherMaskParams(1, {rows}, {pitch // 16}, 0), kept); ResetMask();"
        )
        y = np.zeros(rows * pitch, np.uint16)
        y[: keep.size] = keep
        want = a[:, :width].reshape(-1).copy()
        name = f"rows of {width} half without their pads"
        cases.append(elements(name, code, a.reshape(-1), y.view(np.float16), want, temporary=32768))
    return tuple(cases)


def scalar_writes() -> tuple[Case, ...]:
    code = (
        "LocalTensor<int16_t> w = t.ReinterpretCast<int16_t>(); Duplicate(w, static_cast<int16_t>(0x1111), n); "
        "Follow<HardEvent::V_S>(pipe); "
        "for (uint32_t i = 3; i < n * 2; i += 5) { t.SetValue(i, static_cast<uint8_t>(0x22)); } "
        "Follow<HardEvent::S_V>(pipe); Adds(c, w, static_cast<int16_t>(1), n);"
    )
    x = np.zeros(256, np.int16)
    held = np.full(512, 0x11, np.uint8)
    held[3::5] = 0x22
    return (elements("bytes among vector results", code, x, None, held.view(np.int16) + np.int16(1), launches=5),)
