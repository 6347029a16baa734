"""H1, H5, H6, H9 to H12: what arithmetic instructions give for values at the ends of their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchair_autofuse.probe.frame import elementwise
from torchair_autofuse.probe.record import Array, Case

NAN, INF = np.float32(np.nan), np.float32(np.inf)
V = "PipeBarrier<PIPE_V>();"


def f32(*values: Any, count: int = 64) -> Array:
    """The values, repeated to ``count`` elements of f32."""
    with np.errstate(over="ignore"):
        return np.resize(np.array(values, np.float32), count)


def elements(
    name: str, code: str, x: Array, y: Array | None, want: Array, *, temporary: int = 8192, **more: Any
) -> Case:
    """A case of :func:`elementwise` over all of x and y; what is stored has the type and size of ``want``."""
    body = elementwise(code, x.dtype.name, want.dtype.name, str(want.size), temporary)
    out = np.zeros_like(want)
    return Case(name, body, out, want, x, x if y is None else y, n=x.size, **more)


def nan_of_max_min() -> tuple[Case, ...]:
    a, b = f32(NAN, 1, NAN, -INF, INF, NAN), f32(1, NAN, NAN, NAN, NAN, -INF)
    want = np.full(64, NAN)
    numbers = f32(1, -2, INF, -INF)
    cases = [
        elements(f"{op} of NaN and a number, both orders", f"{op}(c, a, b, n);", a, b, want) for op in ("Max", "Min")
    ]
    for op in ("Maxs", "Mins"):
        nans = np.full(64, NAN)
        cases.append(elements(f"{op} of NaN with 1", f"{op}(c, a, 1.0f, n);", nans, None, want))
        cases.append(elements(f"{op} of a number with NaN", f'{op}(c, a, __builtin_nanf(""), n);', numbers, None, want))
    return tuple(cases)


def _patterns(seed: int, subnormal: bool) -> Array:
    """1024 random bit patterns of f32, with or without subnormals only."""
    bits = np.random.default_rng(seed).integers(0, 2**32, 1024, dtype=np.uint32)
    exponent = bits >> 23 & 0xFF
    if subnormal:
        bits &= np.uint32(0x807FFFFF)
    else:
        bits = np.where(exponent == 0, bits | np.uint32(1 << 23), bits)
    return bits.view(np.float32)


def ieee() -> tuple[Case, ...]:
    ops: dict[str, Callable[[Array, Array], Array]] = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Div": np.divide,
    }
    cases = []
    with np.errstate(all="ignore"):
        for subnormal in (False, True):
            a, b = _patterns(1, subnormal), _patterns(2, subnormal)
            kind = "subnormals" if subnormal else "random bits"
            for op, reference in ops.items():
                want = reference(a, b)
                care = None if subnormal else (np.abs(want) >= np.finfo(np.float32).tiny) | (want == 0) | np.isnan(want)
                cases.append(elements(f"{op}, {kind}", f"{op}(c, a, b, n);", a, b, want, care=care))
            cases.append(elements(f"Sqrt, {kind}", "Sqrt(c, a, n);", a, None, np.sqrt(a)))
        small = _patterns(3, False)[:512] * np.float32(2.0**-100)
        tiny = f32(*np.linspace(1e-38, 1e-30, 512), count=512)
        cases.append(elements("Mul, results that are subnormal", "Mul(c, a, b, n);", tiny, f32(1e-8, count=512),
                              tiny * np.float32(1e-8)))  # fmt: skip
        cases.append(elements("Div, results that are subnormal", "Div(c, a, b, n);", small, f32(2.0**60, count=512),
                              small / np.float32(2.0**60)))  # fmt: skip
    return tuple(cases)


def exp_and_log() -> tuple[Case, ...]:
    why = "public documents promise one unit in the last place on 3510"
    rng = np.random.default_rng(5)
    x = rng.uniform(-87, 88.5, 2048).astype(np.float32)
    positive = np.exp(rng.uniform(-80, 80, 2048)).astype(np.float32)
    near_one = (1 + rng.uniform(-0.01, 0.01, 1024)).astype(np.float32)
    cases = []
    for name, code, data, f in (
        ("Exp, sweep", "Exp(c, a, n);", x, np.exp),
        ("Ln, sweep", "Ln(c, a, n);", positive, np.log),
        ("Ln near 1", "Ln(c, a, n);", near_one, np.log),
    ):
        exact = f(data.astype(np.float64))
        cases.append(elements(name, code, data, None, exact.astype(np.float32), exact=exact, ulps=1.0, why=why))
    ends = f32(89, 1000, INF, -110, -1000, -INF, NAN, 0)
    cases.append(elements("Exp at the ends", "Exp(c, a, n);", ends, None, f32(INF, INF, INF, 0, 0, 0, NAN, 1)))
    ends = f32(0, -0.0, INF, -1, -INF, NAN, 1)
    cases.append(elements("Ln at the ends", "Ln(c, a, n);", ends, None, f32(-INF, -INF, INF, NAN, NAN, NAN, 0)))
    return tuple(cases)


def select_moves_bits() -> tuple[Case, ...]:
    special = [0x7F800001, 0xFFC12345, 0x80000000, 0x00000001, 0x7FFFFFFF, 0xFF812345, 0x12345678]
    a = np.resize(np.array(special, np.uint32), 256).view(np.int32)
    b = np.arange(256, dtype=np.int32) * -3
    mask = f"Duplicate(t.ReinterpretCast<uint16_t>(), static_cast<uint16_t>(0x5555), 128); {V} "
    cast = "c.ReinterpretCast<float>(), t, a.ReinterpretCast<float>(), "
    even = np.arange(256) % 2 == 0
    tensors = f"{mask} Select({cast}b.ReinterpretCast<float>(), SELMODE::VSEL_TENSOR_TENSOR_MODE, n);"
    scalar = f"{mask} Select({cast}0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, n);"
    return (
        elements("Select of two tensors", tensors, a, b, np.where(even, a, b), bits=True),
        elements("Select of a tensor and 0", scalar, a, b, np.where(even, a, 0).astype(np.int32), bits=True),
    )


def packed(mask: Array) -> Array:
    """A bool array as the bits that Compare writes, the first one lowest."""
    return np.packbits(mask, bitorder="little")


def order_of_i32() -> tuple[Case, ...]:
    ends = [-(2**31), 2**31 - 1, -1, 0, 1, 2**24 + 1, 2**24, -(2**24) - 1]
    a = np.repeat(np.array(ends, np.int32), 8)
    b = np.tile(np.array(ends, np.int32), 8)
    code = f"LocalTensor<int32_t> least = t.ReinterpretCast<int32_t>(); Min(least, a, b, n); {V} " + (
        "Compare(c, least, a, CMPMODE::EQ, n);"
    )
    return (
        elements("Min of int32", "Min(c, a, b, n);", a, b, np.minimum(a, b)),
        elements("Max of int32", "Max(c, a, b, n);", a, b, np.maximum(a, b)),
        elements("Compare EQ of int32", "Compare(c, a, b, CMPMODE::EQ, n);", a, b, packed(a == b)),
        elements("a <= b as Min(a, b) == a", code, a, b, packed(a <= b)),
    )


_MODES: dict[str, Callable[[Array, Array], Array]] = {
    "LT": np.less, "GT": np.greater, "EQ": np.equal, "LE": np.less_equal, "GE": np.greater_equal, "NE": np.not_equal,
}  # fmt: skip


def compares_of_nan() -> tuple[Case, ...]:
    a, b = f32(NAN, 1, NAN, 1, 2, -0.0, count=256), f32(1, NAN, NAN, 1, 1, 0.0, count=256)
    cases = []
    for mode, reference in _MODES.items():
        want = packed(reference(a, b))
        cases.append(elements(f"Compare {mode}", f"Compare(c, a, b, CMPMODE::{mode}, n);", a, b, want))
        against = packed(reference(a, np.float32(1)))
        code = f"CompareScalar(c, a, 1.0f, CMPMODE::{mode}, n);"
        cases.append(elements(f"CompareScalar {mode} with 1", code, a, b, against))
    return tuple(cases)


def wraps() -> tuple[Case, ...]:
    cases = []
    for dtype in (np.int32, np.int16):
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.max, -1, 0, 1, 3, info.max // 2 + 1, -181], dtype)
        a, b = np.repeat(ends, 8), np.tile(ends, 8)
        kind = np.dtype(dtype).name
        with np.errstate(over="ignore"):
            for op, want in (("Add", a + b), ("Sub", a - b), ("Mul", a * b)):
                cases.append(elements(f"{op} of {kind}", f"{op}(c, a, b, n);", a, b, want))
            number = f"static_cast<{kind}_t>"
            cases.append(elements(f"Adds of {kind}", f"Adds(c, a, {number}(5), n);", a, b, a + dtype(5)))
            cases.append(elements(f"Muls by -1 of {kind}", f"Muls(c, a, {number}(-1), n);", a, b, a * dtype(-1)))
    return tuple(cases)
