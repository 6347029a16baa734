"""Lowering rules on constants, integers and bool, choice, broadcasting, casts and generators, against torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rule_harness import (
    FLOATS,
    HALVES,
    INF,
    INTS,
    NAN,
    OF_TORCH,
    Eager,
    bools,
    floor_mod,
    ints,
    refusal,
    run,
    samples,
    ulps,
    view,
)

from torchair_autofuse.dtypes import F32
from torchair_autofuse.lower import RULES

# ---- constants as operands -----------------------------------------------------------------------------------------


def with_constant(
    kind: str, x: torch.Tensor, value: float, attrs: dict[str, Any] | None = None, *, at: int = 1
) -> torch.Tensor:
    """A binary op whose operand ``at`` is a 0-d constant."""
    c = torch.tensor(value, dtype=x.dtype)
    inputs = [x, c] if at == 1 else [c, x]
    return run(view(kind, inputs, attrs, constants=(at,)), inputs)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, -0.5, 1.5, -3.0, 2.25])
def test_power_of_a_constant_exponent(exponent: float, dtype: torch.dtype) -> None:
    x = samples(dtype, 3)
    if exponent == -2:  # as torch, the reciprocal of the square: no subnormal results
        x = x[~((x.abs() > 1e18) & torch.isfinite(x)) & ((x == 0) | ~(x.abs() < 1e-18))]
    actual = with_constant("Pow", x, exponent)
    exact = torch.tensor([ieee_pow(v, exponent) for v in x.double().tolist()], dtype=torch.float64)
    assert torch.equal(torch.isnan(actual), torch.isnan(exact))
    expected = exact.to(dtype)
    assert torch.equal(torch.isinf(actual), torch.isinf(expected))
    assert torch.equal(torch.signbit(actual)[expected == 0], torch.signbit(expected)[expected == 0])
    error = ulps(actual, exact, torch.zeros_like(exact))[torch.isfinite(expected)]
    assert error.max() <= 1.6, x[torch.isfinite(expected)][error.argmax()]


def ieee_pow(x: float, y: float) -> float:
    """IEEE 754 pow; Python's raises where the result is infinite or NaN."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(INF, x) if y % 2 == 1 else INF
    except ValueError:
        if x == 0:
            return math.copysign(INF, x) if y % 2 == 1 else INF
        return NAN


@pytest.mark.parametrize("divisor", [2.0, 0.125, -4.0, 3.0, 0.1, 2.0**-126, 2.0**127, 0.0, INF])
def test_division_by_a_constant_is_the_ieee_quotient(divisor: float) -> None:
    x = samples(torch.float32, 4)
    assert torch.equal(_bits(with_constant("RealDiv", x, divisor)), _bits(x / divisor))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("divisor", [2.5, -2.5, 3.0, INF, 0.0])
def test_floor_mod_by_a_constant(divisor: float, dtype: torch.dtype) -> None:
    x = samples(dtype, 5, low=-1000, high=1000)
    expected = floor_mod(x.float(), torch.full_like(x.float(), divisor)).to(dtype)
    torch.testing.assert_close(with_constant("FloorMod", x, divisor), expected, rtol=0, atol=0, equal_nan=True)


def _bits(t: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(t), 0x7FC00000, t.view(torch.int32))


def test_constant_on_the_left() -> None:
    x = samples(torch.float32, 6)
    assert torch.equal(_bits(with_constant("Sub", x, 1.0, at=0)), _bits(1.0 - x))
    assert torch.equal(_bits(with_constant("RealDiv", x, 2.0, at=0)), _bits(torch.full_like(x, 2.0) / x))
    expected = torch.pow(torch.tensor(2.0, dtype=torch.float64), x.double()).float()
    torch.testing.assert_close(with_constant("Pow", x, 2.0, at=0), expected, rtol=2e-7, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("value", [1.0, -1.0, 0.3])
@pytest.mark.parametrize(
    "kind, count, reference",
    [
        ("AxpyV2", 2, lambda a, b, v: a + v * b),
        ("Sxpy", 2, lambda a, b, v: a - v * b),
        ("Addcmul", 3, lambda a, b, c, v: a + v * b * c),
        ("Addcdiv", 3, lambda a, b, c, v: a + v * (b / c)),
    ],
)
def test_one_element_scale(
    kind: str, count: int, reference: Callable[..., torch.Tensor], value: float, known: bool, dtype: torch.dtype
) -> None:
    xs = [samples(dtype, 10 + i, special=False) for i in range(count)]
    scale = torch.tensor(value, dtype=dtype)
    actual = run(view(kind, [*xs, scale], constants=(count,) if known else ()), [*xs, scale])
    wide = [x.float() for x in xs]
    torch.testing.assert_close(actual, reference(*wide, scale.float()).to(dtype), rtol=0, atol=0)


def test_sxpy_without_alpha() -> None:
    a, b = samples(torch.float32, 1, special=False), samples(torch.float32, 2, special=False)
    assert torch.equal(run(view("Sxpy", [a, b]), [a, b]), a - b)
    assert torch.equal(run(view("Sxpy", [a, b, None]), [a, b, None]), a - b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_clip_bounds(dtype: torch.dtype) -> None:
    x = samples(dtype, 8)
    limits = torch.finfo(dtype)
    for low, high in ((-1.0, 2.0), (-INF, 0.5), (0.5, INF), (limits.min, 3.0), (-3.0, limits.max), (2.0, -1.0)):
        bounds = [torch.tensor(low, dtype=dtype), torch.tensor(high, dtype=dtype)]
        for constants in ((), (1, 2)):
            actual = run(view("ClipByValueV2", [x, *bounds], constants=constants), [x, *bounds])
            expected = torch.minimum(torch.maximum(x, bounds[0]), bounds[1])
            assert torch.equal(torch.nan_to_num(actual, 77), torch.nan_to_num(expected, 77)), (low, high)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_clip_of_integers_drops_the_limits_of_the_type(dtype: torch.dtype) -> None:
    x = ints(dtype, 8)
    limits = torch.iinfo(dtype)
    bounds = [torch.tensor(3, dtype=dtype), torch.tensor(limits.max, dtype=dtype)]
    op = view("ClipByValueV2", [x, *bounds], constants=(1, 2))
    assert torch.equal(run(op, [x, *bounds]), x.clamp(min=3))


@pytest.mark.parametrize("known", [True, False])
def test_threshold_v2(known: bool) -> None:
    x = samples(torch.float32, 9)
    threshold, value = torch.tensor([0.5]), torch.tensor([-7.0])
    constants = (1, 2) if known else ()
    op = view("ThresholdV2", [x, threshold, value], constants=constants)
    torch.testing.assert_close(
        run(op, [x, threshold, value]), F.threshold(x, 0.5, -7.0), rtol=0, atol=0, equal_nan=True
    )
    without = view("ThresholdV2", [x, threshold, None], constants=constants[:1])
    torch.testing.assert_close(
        run(without, [x, threshold, None]), F.threshold(x, 0.5, 0.0), rtol=0, atol=0, equal_nan=True
    )


# ---- integers and bool ---------------------------------------------------------------------------------------------


def _int_div(mode: str) -> Callable[..., torch.Tensor]:
    return lambda a, b: torch.div(a, b, rounding_mode=mode)


SIGNED = tuple(t for t in INTS if t != torch.uint8)

INTEGER: list[tuple[str, int, Callable[..., torch.Tensor], tuple[torch.dtype, ...], dict[str, Any]]] = [
    ("Add", 2, torch.add, INTS, {}), ("Sub", 2, torch.sub, INTS, {}), ("Mul", 2, torch.mul, INTS, {}),
    ("FloorDiv", 2, _int_div("floor"), INTS, {}), ("TruncateDiv", 2, _int_div("trunc"), INTS, {}),
    ("FloorMod", 2, torch.remainder, INTS, {}), ("Mod", 2, torch.fmod, INTS, {}),
    ("TruncateMod", 2, torch.fmod, INTS, {}), ("Maximum", 2, torch.maximum, INTS, {}),
    ("Minimum", 2, torch.minimum, INTS, {}), ("SquaredDifference", 2, lambda a, b: (a - b) * (a - b), INTS, {}),
    ("MulNoNan", 2, torch.mul, INTS, {}), ("FusedMulAdd", 3, lambda a, b, c: a * b + c, INTS, {}),
    ("AddN", 3, lambda a, b, c: a + b + c, INTS, {}), ("Neg", 1, torch.neg, SIGNED, {}),
    ("Abs", 1, torch.abs, SIGNED, {}), ("Sign", 1, torch.sign, SIGNED, {}), ("Square", 1, lambda a: a * a, INTS, {}),
    ("Muls", 1, lambda a: a * 3, INTS, {"value": 3.0}), ("Adds", 1, lambda a: a + 3, INTS, {"value": 3.0}),
    ("Axpy", 2, lambda a, b: a + 3 * b, (torch.int32,), {"alpha": 3.0}),
    ("Relu", 1, lambda a: a.clamp(min=0), INTS, {}), ("Relu6", 1, lambda a: a.clamp(0, 6), INTS, {}),
    ("Round", 1, lambda a: a, INTS, {}),
    ("Trunc", 1, lambda a: a, INTS, {}), ("ReluGrad", 2, lambda g, x: torch.where(x > 0, g, 0), INTS, {}),
    ("ThresholdGradV2D", 2, lambda g, x: torch.where(x > 2.5, g, 0), INTS, {"threshold": 2.5}),
    ("BitwiseAnd", 2, torch.bitwise_and, INTS, {}), ("BitwiseOr", 2, torch.bitwise_or, INTS, {}),
    ("BitwiseXor", 2, torch.bitwise_xor, INTS, {}), ("Invert", 1, torch.bitwise_not, INTS, {}),
]  # fmt: skip


@pytest.mark.parametrize("kind, count, reference, types, attrs", INTEGER, ids=[c[0] for c in INTEGER])
def test_integers(
    kind: str, count: int, reference: Callable[..., torch.Tensor], types: tuple[torch.dtype, ...], attrs: dict[str, Any]
) -> None:
    for dtype in types:
        xs = [ints(dtype, 20 + i, nonzero=i == 1) for i in range(count)]
        if dtype in SIGNED and count == 2 and ("Div" in kind or "Mod" in kind):
            xs[1] = torch.where(xs[1] == -1, torch.full_like(xs[1], 7), xs[1])  # the least number has no opposite
        assert torch.equal(run(view(kind, xs, attrs), xs), reference(*xs)), dtype


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 16])
def test_integer_power(exponent: int) -> None:
    for dtype in INTS:
        x = ints(dtype, 30)
        expected = torch.ones_like(x)
        for _ in range(exponent):
            expected = expected * x
        assert torch.equal(with_constant("Pow", x, exponent), expected)


@pytest.mark.parametrize(
    "kind, count, reference",
    [
        ("LogicalAnd", 2, torch.logical_and), ("LogicalOr", 2, torch.logical_or), ("LogicalNot", 1, torch.logical_not),
        ("BitwiseAnd", 2, torch.logical_and), ("BitwiseOr", 2, torch.logical_or), ("BitwiseXor", 2, torch.logical_xor),
        ("Invert", 1, torch.logical_not), ("Mul", 2, torch.logical_and), ("Equal", 2, torch.eq),
        ("NotEqual", 2, torch.ne),
    ],
)  # fmt: skip
def test_bool(kind: str, count: int, reference: Callable[..., torch.Tensor]) -> None:
    xs = [bools(i) for i in range(count)]
    assert torch.equal(run(view(kind, xs), xs), reference(*xs))


# ---- comparisons, classification, choice ---------------------------------------------------------------------------

COMPARISONS = {
    "Equal": torch.eq, "NotEqual": torch.ne, "Less": torch.lt, "LessEqual": torch.le, "Greater": torch.gt,
    "GreaterEqual": torch.ge,
}  # fmt: skip


@pytest.mark.parametrize("kind", COMPARISONS)
def test_comparisons(kind: str) -> None:
    for dtype in (*FLOATS, *INTS):
        make = ints if dtype in INTS else samples
        a = make(dtype, 40)
        b = a[torch.randperm(len(a), generator=torch.Generator().manual_seed(1))]
        b = torch.where(torch.arange(len(a)) % 3 == 0, a, b)
        assert torch.equal(run(view(kind, [a, b], out=torch.bool), [a, b]), COMPARISONS[kind](a, b)), dtype
    assert RULES[kind].predicate


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "kind, reference", [("IsNan", torch.isnan), ("IsInf", torch.isinf), ("IsFinite", torch.isfinite)]
)
def test_classification(kind: str, reference: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    x = samples(dtype, 41)
    assert torch.equal(run(view(kind, [x], out=torch.bool), [x]), reference(x))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_choice(dtype: torch.dtype) -> None:
    a = bools(3) if dtype == torch.bool else (ints if dtype in INTS else samples)(dtype, 42)
    b = a.flip(0)
    condition = bools(5, tuple(a.shape))
    expected = torch.where(condition, a, b)
    for kind in ("SelectV2", "Select"):
        actual = run(view(kind, [condition, a, b], out=dtype), [condition, a, b])
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    fill = torch.tensor(True if dtype == torch.bool else 5, dtype=dtype)
    for constants in ((), (2,)):
        actual = run(view("MaskedFill", [a, condition, fill], constants=constants), [a, condition, fill])
        torch.testing.assert_close(actual, a.masked_fill(condition, fill), rtol=0, atol=0, equal_nan=True)


def test_masked_fill_with_infinity_leaks_nothing() -> None:
    x, mask, fill = torch.randn(4, 5), bools(6, (5,)), torch.tensor(-INF)
    op = view("MaskedFill", [x, mask, fill], constants=(2,))
    assert torch.equal(run(op, [x, mask, fill]), x.masked_fill(mask, -INF))


# ---- broadcasting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, reference", [("Add", torch.add), ("RealDiv", torch.div), ("Maximum", torch.maximum)])
def test_broadcasting(kind: str, reference: Callable[..., torch.Tensor]) -> None:
    a, b = torch.randn(3, 1, 5), torch.randn(4, 1)
    assert torch.equal(run(view(kind, [a, b]), [a, b]), reference(a, b))


def test_select_broadcasts_its_condition() -> None:
    condition, a, b = bools(7, (3, 1)), torch.randn(4), torch.tensor(2.0)
    op = view("SelectV2", [condition, a, b], out=torch.float32)
    assert torch.equal(run(op, [condition, a, b]), torch.where(condition, a, b))


def test_channel_operands() -> None:
    x, w = torch.randn(2, 3, 4), torch.randn(3)
    for weight in (w.reshape(1, 3, 1), w.reshape(3, 1), w[:1], w[0]):
        assert torch.equal(run(view("PRelu", [x, weight]), [x, weight]), torch.where(x > 0, x, weight * x))
    flat = torch.randn(5, 3)
    assert torch.equal(run(view("PRelu", [flat, w]), [flat, w]), F.prelu(flat, w))
    bias = torch.randn(4)
    assert torch.equal(run(view("BiasAdd", [x, bias]), [x, bias]), x + bias)
    first = {"data_format": "NCHW"}
    assert torch.equal(run(view("BiasAdd", [flat, w], first), [flat, w]), flat + w)


# ---- casts ---------------------------------------------------------------------------------------------------------

C_ENUM = {t: d.ge_c for t, d in ((t, OF_TORCH[t]) for t in (*FLOATS, *INTS, torch.bool, torch.float64))}


def cast(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    return run(view("Cast", [x], {"dst_type": C_ENUM[to]}, out=to), [x])


def supported(source: torch.dtype, to: torch.dtype) -> bool:
    """What every chip does alike: to float, bool, i32 and i64 always, to an integer type that holds all values."""
    if source == to or to in (*FLOATS, torch.bool, torch.int32, torch.int64) or source == torch.bool:
        return True
    return (source, to) in {(torch.int8, torch.int16), (torch.uint8, torch.int16)}


@pytest.mark.parametrize("to", [*FLOATS, *INTS, torch.bool], ids=str)
@pytest.mark.parametrize("source", [*FLOATS, *INTS, torch.bool], ids=str)
def test_casts(source: torch.dtype, to: torch.dtype) -> None:
    if source in FLOATS:
        x = samples(source, 50) if to in (*FLOATS, torch.bool) else samples(source, 50, low=-2e9, high=2e9)
        x = x if to in (*FLOATS, torch.bool) else x[torch.isfinite(x)]
    else:
        x = ints(source, 50) if source in INTS else bools(50)
    if supported(source, to):
        expected = (x.float() if to in HALVES else x).to(to)
        torch.testing.assert_close(cast(x, to), expected, rtol=0, atol=0, equal_nan=True)
    else:
        reason = refusal(view("Cast", [x], {"dst_type": C_ENUM[to]}, out=to))
        assert reason is not None and reason.code == "AF202" and "depends on the chip" in reason.text


def test_a_cast_rounds_what_jumps() -> None:
    """A half value that was not rounded yet is rounded before it is truncated or compared with 0."""
    for to, expected in ((torch.int32, 3), (torch.bool, False)):
        x = torch.zeros(1, dtype=torch.float16)
        op = view("Cast", [x], {"dst_type": C_ENUM[to]}, out=to)
        eager = Eager()
        raw = eager.const(2.9999 if to == torch.int32 else 1e-9, F32)
        emit = RULES["Cast"].emit
        assert emit is not None
        assert eager.arrays[emit(eager, op, [raw])[0].name] == expected


# ---- generators ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_generators(dtype: torch.dtype) -> None:
    x = torch.ones(2, 3, dtype=dtype)
    if dtype in FLOATS:
        x[0, 0] = NAN
    assert torch.equal(run(view("ZerosLike", [x]), [x]), torch.zeros_like(x))
    assert torch.equal(run(view("OnesLike", [x]), [x]), torch.ones_like(x))
    assert torch.equal(run(view("Fills", [x], {"value": 1.0}), [x]), torch.ones_like(x))
    shape, value = torch.tensor([2, 3]), torch.tensor(1, dtype=dtype)
    for constants in ((0, 1), (0,)):
        op = view("Fill", [shape, value], constants=constants, out=dtype, shape=(2, 3))
        assert torch.equal(run(op, [shape, value]), torch.ones_like(x))
    op = view("FillD", [value], {"dims": [2, 3]}, constants=(0,), shape=(2, 3))
    assert torch.equal(run(op, [value]), torch.ones_like(x))


def test_a_half_constant_is_rounded_to_its_type() -> None:
    x = torch.ones(2, dtype=torch.float16)
    assert torch.equal(run(view("Fills", [x], {"value": 0.1}), [x]), torch.full((2,), 0.1, dtype=torch.float16))
