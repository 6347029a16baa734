"""Cast of every pair and round mode, Compare and Select, against numpy."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from twin_support import CPP, NP, OpCase, case_kernel, launch, same, sample, widen

from torchair_autofuse.twin.errors import TwinViolation

BF16 = ml_dtypes.bfloat16
R5 = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")

# (src, dst, modes) of 2201.
PAIRS = [
    ("i8", "f16", ("NONE",)), ("u8", "f16", ("NONE",)), ("i16", "f16", (*R5, "NONE")), ("i16", "f32", ("NONE",)),
    ("f16", "i8", (*R5, "NONE")), ("f16", "u8", (*R5, "NONE")), ("f16", "i16", R5), ("f16", "i32", R5),
    ("f16", "f32", ("NONE",)), ("bf16", "i32", R5), ("bf16", "f32", ("NONE",)), ("i32", "i16", ("NONE",)),
    ("i32", "f32", (*R5, "NONE")), ("i32", "i64", ("NONE",)), ("f32", "i16", R5), ("f32", "f16", (*R5, "NONE", "ODD")),
    ("f32", "bf16", R5), ("f32", "i32", R5), ("f32", "f32", R5), ("f32", "i64", R5), ("i64", "i32", ("NONE",)),
    ("i64", "f32", R5),
]  # fmt: skip
PAIRS_3510 = [
    ("f16", "bf16", R5), ("bf16", "f16", R5), ("i8", "i32", ("NONE",)), ("u8", "u16", ("NONE",)), ("i32", "u8", ("NONE",)),
    ("u32", "i16", ("NONE",)), ("i16", "u32", ("NONE",)),
]  # fmt: skip


def cast_cases(pairs):
    return [
        OpCase(f"{s}-{d}-{m}", s, d, f"Cast(c, a, RoundMode::CAST_{m}, n);", (s, d, m))
        for s, d, ms in pairs
        for m in ms
    ]


CASES, CASES_3510 = cast_cases(PAIRS), cast_cases(PAIRS_3510)


def to_int(v: float, mode: str, dtype: str) -> int:
    info = np.iinfo(NP[dtype])
    if v != v:
        return 0
    if math.isinf(v):
        return info.max if v > 0 else info.min
    if mode == "FLOOR":
        r = math.floor(v)
    elif mode == "CEIL":
        r = math.ceil(v)
    elif mode == "TRUNC":
        r = math.trunc(v)
    elif mode == "ROUND":
        r = math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1)
    else:
        r = round(v)
    return min(max(r, info.min), info.max)


def to_float(v: float | int, mode: str, dtype: str) -> float:
    """Rounds to a float format by looking at the two neighbours of the value (exact arithmetic on Python ints)."""
    np_type = NP[dtype]
    if isinstance(v, float) and (v != v or math.isinf(v)):
        return v
    with np.errstate(over="ignore"):
        near = np_type(v)
    exact = float(near)
    if exact == v:
        return math.copysign(exact, v) if isinstance(v, float) else exact
    inf = np_type(np.inf)
    up_near = exact > v
    below = float(np.nextafter(near, -inf)) if up_near else exact
    above = exact if up_near else float(np.nextafter(near, inf))
    toward, away = (below, above) if v > 0 else (above, below)
    if mode == "FLOOR":
        return below
    if mode == "CEIL":
        return above
    if mode == "TRUNC":
        return toward
    if mode == "ODD":
        bits = int(np_type(toward).view(np.uint16 if np_type != np.float32 else np.uint32))
        return toward if bits & 1 else away
    if mode == "ROUND" and not math.isinf(away) and abs(v - toward) == abs(away - v):
        return away
    return exact


def cast_reference(x: np.ndarray, mode: str, dst: str) -> np.ndarray:
    values = [int(v) for v in x] if x.dtype.kind in "iu" else [float(v) for v in widen(x)]
    if dst[0] in "iu":
        return np.array([to_int(v, mode, dst) for v in values], NP[dst])
    if dst == "f32" and x.dtype == np.float32:  # rounds to integral values
        big = [v if v != v or math.isinf(v) else math.copysign(to_int(v, mode, "i64"), v) for v in values]
        return np.array(big, np.float32)
    return np.array([to_float(v, mode, dst) for v in values], np.float64).astype(NP[dst])


def cast_data(dtype: str, n: int) -> np.ndarray:
    if dtype[0] in "iu":
        x = sample("any", dtype, n, 5)
        x[: n // 2] = sample("small", dtype, n // 2, 6)
        return x
    x = np.concatenate([sample(k, dtype, n // 4, 7) for k in ("normal", "wide", "ties", "special")])
    return np.resize(x, n)


@pytest.mark.parametrize("arch", [2201, 3510])
def test_cast(arch):
    cases = CASES if arch == 2201 else CASES_3510
    source = case_kernel(cases)
    for i, case in enumerate(cases):
        src, dst, mode = case.reference
        a = cast_data(src, 400)
        out = np.zeros(400, NP[dst])
        launch(source, "cases", [a, a], [out], arch=arch, n=400, key=i + 1)
        with np.errstate(over="ignore"):
            try:
                same(out, cast_reference(a, mode, dst))
            except AssertionError as error:
                raise AssertionError(f"{case.name}: {error}") from None


@pytest.mark.parametrize(
    ("arch", "src", "dst", "mode"),
    [
        (2201, "f32", "bf16", "NONE"),
        (2201, "f16", "f32", "RINT"),
        (2201, "f16", "i32", "NONE"),
        (2002, "f16", "i16", "CEIL"),
    ],
)
def test_round_modes_that_do_not_exist(arch, src, dst, mode):
    pad = "" if arch != 2002 else None
    source = case_kernel([OpCase("x", src, dst, f"Cast(c, a, RoundMode::CAST_{mode}, n);", None)])
    if pad is None:  # that chip has no DataCopyPad
        source = source.replace(
            "DataCopyPad(a, gx, p, pad); DataCopyPad(b, gy, p, pad);", "DataCopy(a, gx, n); DataCopy(b, gy, n);"
        )
        source = source.replace("DataCopyPad(gz, c, q);", "DataCopy(gz, c, n);").replace("AIV_ONLY", "AICORE")
    a = np.ones(64, NP[src])
    with pytest.raises(TwinViolation) as error:
        launch(source, "cases", [a, a], [np.zeros(64, NP[dst])], arch=arch, n=64)
    assert error.value.rule == "cast-mode"


def test_int32_to_half_needs_a_scale():
    code = "{}Cast(c, a, RoundMode::CAST_NONE, n);"
    a, out = np.arange(-32, 32, dtype=np.int32), np.zeros(64, np.float16)
    with pytest.raises(TwinViolation, match="SetDeqScale"):
        launch(case_kernel([OpCase("x", "i32", "f16", code.format(""), None)]), "cases", [a, a], [out], n=64)
    scaled = code.format("SetDeqScale(static_cast<half>(0.5)); ")
    launch(case_kernel([OpCase("x", "i32", "f16", scaled, None)]), "cases", [a, a], [out], n=64)
    same(out, (a * 0.5).astype(np.float16))


MODES = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}
COUNT = "((n * sizeof(*a.GetPhyAddr()) + 255) / 256 * 256 / sizeof(*a.GetPhyAddr()))"
BITS = "LocalTensor<uint8_t> bits = t[4096];"


def compare_cases():
    out = []
    for t in ("f32", "f16"):
        zero = f"static_cast<{CPP[t]}>(0)"
        for m, f in MODES.items():
            tail = "PipeBarrier<PIPE_V>(); Select(c, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, n);"
            out.append(
                OpCase(
                    f"Compare-{t}-{m}",
                    t,
                    t,
                    f"{BITS} Compare(bits, a, b, CMPMODE::{m}, {COUNT}); {tail}",
                    lambda a, b, f=f: np.where(f(a, b), a, b),
                    data="special",
                )
            )
            tail = f"PipeBarrier<PIPE_V>(); Select(c, bits, b, {zero}, SELMODE::VSEL_TENSOR_SCALAR_MODE, n);"
            out.append(
                OpCase(
                    f"CompareScalar-{t}-{m}",
                    t,
                    t,
                    f"{BITS} CompareScalar(bits, a, static_cast<{CPP[t]}>(0.5), CMPMODE::{m}, {COUNT}); {tail}",
                    lambda a, b, f=f: np.where(f(a, a.dtype.type(0.5)), b, 0),
                    data="special",
                )
            )
    out.append(
        OpCase(
            "CompareScalar-i32-EQ",
            "i32",
            "f32",
            f"{BITS} CompareScalar(bits, a, 3, CMPMODE::EQ, {COUNT}); LocalTensor<float> one = t[8192].ReinterpretCast<float>();"
            "Duplicate(one, 1.0f, n); PipeBarrier<PIPE_V>();"
            "Select(c, bits, one, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, n);",
            lambda a, b: (a == 3).astype(np.float32),
            data="small",
        )
    )
    # And of two masks, as 16-bit words; the tail lanes of both are garbage.
    out.append(
        OpCase(
            "mask-and",
            "f32",
            "f32",
            f"{BITS} LocalTensor<uint8_t> more = t[6144]; CompareScalar(bits, a, 0.0f, CMPMODE::GT, {COUNT});"
            f"Compares(more, b, 0.0f, CMPMODE::GT, {COUNT}); PipeBarrier<PIPE_V>(); And(bits.ReinterpretCast<uint16_t>(),"
            f"bits.ReinterpretCast<uint16_t>(), more.ReinterpretCast<uint16_t>(), static_cast<int32_t>({COUNT} / 16));"
            "PipeBarrier<PIPE_V>(); Select(c, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, n);",
            lambda a, b: np.where((a > 0) & (b > 0), a, b),
        )
    )
    # Repeat forms: mode 0 uses the same 64 bits for every repeat.
    out.append(
        OpCase(
            "Select-mode0",
            "f32",
            "f32",
            f"{BITS} CompareScalar(bits, a, 0.0f, CMPMODE::GT, 64); PipeBarrier<PIPE_V>();"
            "BinaryRepeatParams r(1, 1, 1, 8, 8, 8); Select(c, bits, a, b, SELMODE::VSEL_CMPMASK_SPR, 64, 3, r);",
            lambda a, b: np.where(np.resize(a[:64] > 0, 192), a, b),
            out_count="192",
        )
    )
    out.append(
        OpCase(
            "Select-rows",
            "f32",
            "f32",
            f"{BITS} BinaryRepeatParams s(1, 1, 1, 8, 8, 0); Compare(bits, a, b, CMPMODE::LT, 64, 3, s); PipeBarrier<PIPE_V>();"
            "BinaryRepeatParams r(1, 1, 1, 8, 8, 0); Select(c, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64, 3, r);",
            lambda a, b: np.minimum(a, np.resize(b[:64], 192)),
            out_count="192",
        )
    )
    return out


COMPARES = compare_cases()


@pytest.mark.parametrize("n", [192, 50 * 4 - 8])
def test_compare_and_select(n):
    source = case_kernel(COMPARES)
    for i, case in enumerate(COMPARES):
        if case.out_count == "192" and n != 192:
            continue
        a, b = sample(case.data, case.ins, n, 1), sample(case.data, case.ins, n, 2)
        out = np.zeros(n, NP[case.out])
        launch(source, "cases", [a, b], [out], n=n, key=i + 1)
        same(out, case.reference(a, b))
