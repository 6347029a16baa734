"""Elementwise, comparison, cast and generator ops against eager PyTorch in f64: one row per GE op.

Gradients are compared with autograd of the forward function, so the formulas are not written down twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opcall import BOOL, F64, FLOATS, HALVES, INTS, NUMBERS, Tensor, gelu, gradient, run, wide

from torchair_autofuse.host.ops import OPS

# f32 results may differ in the last bits of the transcendental functions; halves are rounded once, so by one unit
# where the f32 value sits on the middle of two.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7, F64: 1e-13}
FAMILIES = ("elementwise", "select", "activation", "compare", "bitwise", "cast", "generator", "grad")


@dataclass(frozen=True)
class Row:
    """``reference`` gets the operands in f64 (integers in i64, bool as it is), with the numbers the dtype holds."""

    reference: Callable[..., Tensor]
    arity: int = 1
    dtypes: Sequence[torch.dtype] = FLOATS
    low: float = -4.0
    high: float = 4.0
    attrs: dict[str, Any] = field(default_factory=dict)
    broadcast: bool = True
    scalars: int = 0  # operands at the end that have one element
    out: torch.dtype | None = None  # None: the dtype of the operands
    tolerance: float = 1.0  # times TOLERANCE


def from_output(forward: Callable[[Tensor], Tensor], inverse: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """(y, grad) -> the same, for an op that gets the forward result."""
    return lambda y, dy: gradient(forward)(dy, inverse(y))


def swap(reference: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, dy: reference(dy, x)


def python_mod(rounding: str) -> Callable[[Tensor, Tensor], Tensor]:
    def reference(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype == F64:
            return torch.remainder(a, b) if rounding == "floor" else torch.fmod(a, b)
        b = torch.where(b == 0, 1 << 40, b)
        rest = a - torch.div(a, b, rounding_mode=rounding) * b
        return torch.where(b == 1 << 40, -1, rest)  # all ones for a zero divisor

    return reference


def python_div(rounding: str) -> Callable[[Tensor, Tensor], Tensor]:
    def reference(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype == F64:
            return torch.div(a, b, rounding_mode=rounding)
        safe = torch.where(b == 0, 1, b)
        return torch.where(b == 0, -1, torch.div(a, safe, rounding_mode=rounding))

    return reference


def fast_gelu_v2(x: Tensor) -> Tensor:
    bend = (torch.clamp(abs(0.7071 * x), max=1.769) - 1.769) ** 2
    return x * (torch.sign(x + 1e-12) * (0.5 - 0.1444 * bend) + 0.5)


def true_div(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.dtype == F64 else python_div("trunc")(a, b)


def binary(reference: Callable[..., Tensor], dtypes: Sequence[torch.dtype] = NUMBERS, **kw: Any) -> Row:
    return Row(reference, arity=2, dtypes=dtypes, **kw)


def grad2(reference: Callable[..., Tensor], **kw: Any) -> Row:
    return Row(reference, arity=2, **{"broadcast": False, "tolerance": 4, **kw})


ROWS: dict[str, Row] = {
    # functions of one operand
    "Acos": Row(torch.acos, low=-1, high=1),
    "Acosh": Row(torch.acosh, low=1, high=9),
    "Asin": Row(torch.asin, low=-1, high=1),
    "Asinh": Row(torch.asinh),
    "Atan": Row(torch.atan),
    "Atanh": Row(torch.atanh, low=-0.9, high=0.9),
    "Ceil": Row(torch.ceil),
    "Cos": Row(torch.cos, tolerance=2),
    "Cosh": Row(torch.cosh),
    "Erf": Row(torch.erf),
    "Erfc": Row(torch.erfc, tolerance=4),
    "Erfinv": Row(torch.erfinv, low=-0.9, high=0.9, tolerance=4),
    "Expm1": Row(torch.expm1),
    "Floor": Row(torch.floor),
    "Inv": Row(lambda x: 1 / x, low=0.5),
    "Log1p": Row(torch.log1p, low=-0.9),
    "Reciprocal": Row(lambda x: 1 / x, low=0.5),
    "Rint": Row(torch.round),
    "Rsqrt": Row(lambda x: x**-0.5, low=0.1),
    "Sin": Row(torch.sin, tolerance=2),
    "Sinh": Row(torch.sinh),
    "Sqrt": Row(torch.sqrt, low=0),
    "Tan": Row(torch.tan, low=-1.4, high=1.4, tolerance=4),
    "Tanh": Row(torch.tanh),
    "Abs": Row(torch.abs, dtypes=NUMBERS),
    "Neg": Row(torch.neg, dtypes=NUMBERS),
    "Sign": Row(torch.sgn, dtypes=NUMBERS),
    "Square": Row(lambda x: x * x, dtypes=NUMBERS),
    "Trunc": Row(lambda x: torch.fix(x) if x.dtype == F64 else x, dtypes=NUMBERS),
    "Round": Row(lambda x: torch.round(x) if x.dtype == F64 else x, dtypes=NUMBERS),
    "Exp": Row(torch.exp),
    "Log": Row(torch.log, low=0.1),
    "NanToNum": Row(lambda x: x, attrs={"nan": 1.0, "posinf": 2.0, "neginf": -2.0}),
    "Adds": Row(lambda x: x + 3, dtypes=NUMBERS, attrs={"value": 3.0}),
    "Muls": Row(lambda x: x * 3, dtypes=NUMBERS, attrs={"value": 3.0}),
    "Power": Row(lambda x: (2 * x + 1) ** 3, low=0, attrs={"power": 3.0, "scale": 2.0, "shift": 1.0}, tolerance=4),
    # two operands
    "Add": binary(torch.add),
    "AddV2": binary(torch.add),
    "Sub": binary(torch.sub),
    "Mul": binary(torch.mul, NUMBERS + BOOL),
    "MulNoNan": binary(torch.mul),
    "SquaredDifference": binary(lambda a, b: (a - b) ** 2),
    "Div": binary(true_div, low=0.5),
    "RealDiv": binary(true_div, low=0.5),
    "DivNoNan": binary(lambda a, b: torch.where(b == 0, 0, true_div(a, b)), low=0.5),
    "FloorDiv": binary(python_div("floor"), low=0.5),
    "TruncateDiv": binary(python_div("trunc"), low=0.5),
    "FloorMod": binary(python_mod("floor"), (*INTS, torch.float32, F64)),
    "Mod": binary(python_mod("trunc"), (*INTS, torch.float32, F64)),
    "TruncateMod": binary(python_mod("trunc"), (*INTS, torch.float32, F64)),
    "Pow": binary(torch.pow, low=0.1, tolerance=4),
    "Pows": binary(torch.pow, FLOATS, low=0.1, scalars=1, tolerance=4),
    "Atan2": binary(torch.atan2, FLOATS),
    "Xdivy": binary(lambda a, b: torch.where(a == 0, 0, a / b), FLOATS),
    "Xlogy": binary(torch.xlogy, FLOATS, low=0.1),
    "Maximum": binary(torch.maximum),
    "Minimum": binary(torch.minimum),
    "AddN": Row(lambda a, b, c: a + b + c, arity=3, dtypes=NUMBERS, broadcast=False, tolerance=4),
    # multiply-adds
    "ClipByValue": Row(lambda x, a, b: torch.clamp(x, a, b), arity=3, dtypes=NUMBERS),
    "ClipByValueV2": Row(lambda x, a, b: torch.clamp(x, a, b), arity=3, dtypes=NUMBERS),
    "Axpy": binary(lambda a, b: a + 2 * b, attrs={"alpha": 2.0}, tolerance=4),
    "AxpyV2": Row(lambda a, b, c: a + c * b, arity=3, dtypes=NUMBERS, scalars=1, tolerance=4),
    "Sxpy": Row(lambda a, b, c: a - c * b, arity=3, dtypes=NUMBERS, scalars=1, tolerance=4),
    "FusedMulAdd": Row(lambda a, b, c: a * b + c, arity=3, dtypes=NUMBERS, tolerance=4),
    "Addcmul": Row(lambda x, a, b, v: x + v * a * b, arity=4, dtypes=NUMBERS, scalars=1, tolerance=8),
    "Addcdiv": Row(lambda x, a, b, v: x + v * a / b, arity=4, low=0.5, scalars=1, tolerance=4),
    "Lerp": Row(torch.lerp, arity=3, tolerance=16),
    # comparisons and logic
    "Equal": binary(torch.eq, NUMBERS + BOOL, out=torch.bool),
    "NotEqual": binary(torch.ne, NUMBERS + BOOL, out=torch.bool),
    "Greater": binary(torch.gt, NUMBERS + BOOL, out=torch.bool),
    "GreaterEqual": binary(torch.ge, NUMBERS + BOOL, out=torch.bool),
    "Less": binary(torch.lt, NUMBERS + BOOL, out=torch.bool),
    "LessEqual": binary(torch.le, NUMBERS + BOOL, out=torch.bool),
    "LogicalAnd": binary(lambda a, b: a & b, BOOL, out=torch.bool),
    "LogicalOr": binary(lambda a, b: a | b, BOOL, out=torch.bool),
    "LogicalNot": Row(lambda a: a == False, dtypes=BOOL, out=torch.bool),  # noqa: E712
    "IsFinite": Row(torch.isfinite, out=torch.bool),
    "IsInf": Row(torch.isinf, out=torch.bool),
    "IsNan": Row(lambda x: x != x, out=torch.bool),
    # bits
    "BitwiseAnd": binary(torch.bitwise_and, INTS),
    "BitwiseOr": binary(torch.bitwise_or, INTS),
    "BitwiseXor": binary(torch.bitwise_xor, INTS),
    "Invert": Row(lambda x: -x - 1, dtypes=INTS),
    "LeftShift": binary(lambda a, b: a * 2**b, INTS, low=0),
    "RightShift": binary(lambda a, b: torch.div(a, 2**b, rounding_mode="floor"), INTS, low=0),
    # activations
    "Relu": Row(torch.relu, dtypes=NUMBERS),
    "Relu6": Row(lambda x: torch.clamp(x, 0, 6), dtypes=NUMBERS, high=9),
    "Sigmoid": Row(torch.sigmoid),
    "Swish": Row(F.silu),
    "Gelu": Row(gelu),
    "GeluV2": Row(F.gelu, tolerance=8),
    "FastGelu": Row(lambda x: x * torch.sigmoid(1.702 * x)),
    "FastGeluV2": Row(fast_gelu_v2, tolerance=32),
    "LeakyRelu": Row(lambda x: F.leaky_relu(x, 0.25), attrs={"negative_slope": 0.25}),
    "Elu": Row(
        lambda x: torch.where(x > 0, 3 * x, 6 * torch.expm1(0.5 * x)),
        attrs={"alpha": 2.0, "scale": 3.0, "input_scale": 0.5},
    ),
    "Selu": Row(F.selu),
    "Celu": Row(F.celu),
    "CeluV2": Row(lambda x: F.celu(x, 2.0), attrs={"alpha": 2.0}),
    "HardSwish": Row(F.hardswish, tolerance=2),
    "HardSigmoid": Row(F.hardsigmoid, dtypes=FLOATS[:3], tolerance=2),
    "Mish": Row(F.mish),
    "LogSigmoid": Row(F.logsigmoid, tolerance=2),
    "Softplus": Row(lambda x: F.softplus(x, threshold=1e9), tolerance=2),
    "SoftplusV2": Row(lambda x: F.softplus(x, 2.0, 3.0), attrs={"beta": 2.0, "threshold": 3.0}, tolerance=2),
    "Softsign": Row(F.softsign),
    "SoftShrink": Row(F.softshrink),
    "HardShrink": Row(F.hardshrink),
    "Threshold": Row(lambda x: torch.heaviside(x - 0.25, torch.zeros((), dtype=F64)), attrs={"threshold": 0.25}),
    # gradients that get the forward value first
    "AcosGrad": grad2(swap(gradient(torch.acos)), low=-0.9, high=0.9),
    "AsinGrad": grad2(swap(gradient(torch.asin)), low=-0.9, high=0.9),
    "SigmoidGrad": grad2(from_output(torch.sigmoid, torch.logit), low=0.1, high=0.9),
    "TanhGrad": grad2(from_output(torch.tanh, torch.atanh), low=-0.9, high=0.9),
    "ReciprocalGrad": grad2(from_output(torch.reciprocal, torch.reciprocal), low=0.5),
    "InvGrad": grad2(from_output(torch.reciprocal, torch.reciprocal), low=0.5),
    "RsqrtGrad": grad2(from_output(torch.rsqrt, lambda y: y**-2), low=0.5),
    "SqrtGrad": grad2(from_output(torch.sqrt, lambda y: y * y), low=0.5),
    "HardtanhGrad": grad2(swap(gradient(lambda x: F.hardtanh(x, -2.0, 3.0))), attrs={"min_val": -2.0, "max_val": 3.0}),
    # gradients that get the grad first
    "ReluGrad": grad2(gradient(torch.relu), broadcast=True),
    "Relu6Grad": grad2(gradient(F.relu6), high=9),
    "LeakyReluGrad": grad2(gradient(lambda x: F.leaky_relu(x, 0.25)), attrs={"negative_slope": 0.25}, broadcast=True),
    "ThresholdGradV2D": grad2(gradient(lambda x: F.threshold(x, 0.7, 0.0)), attrs={"threshold": 0.7}),
    "EluGrad": grad2(lambda dy, y: gradient(F.elu)(dy, torch.where(y > 0, y, torch.log1p(y))), low=-0.9, high=0.9),
    "EluGradV2": grad2(gradient(lambda x: F.elu(x, 2.0)), attrs={"alpha": 2.0}),
    "SeluGrad": grad2(lambda dy, y: dy * torch.where(y > 0, 1.0507009873554805, y + 1.7580993408473766)),
    "HardSigmoidGrad": grad2(gradient(F.hardsigmoid), dtypes=FLOATS[:3]),  # the slope is 1/6 as an f32 number
    "HardSwishGrad": grad2(gradient(F.hardswish)),
    "HardShrinkGrad": grad2(gradient(F.hardshrink)),
    "SoftShrinkGrad": grad2(gradient(F.softshrink)),
    "LogSigmoidGrad": grad2(gradient(F.logsigmoid), broadcast=True),
    "SoftplusGrad": grad2(gradient(F.softplus)),
    "SoftplusV2Grad": grad2(gradient(lambda x: F.softplus(x, 2.0, 3.0)), attrs={"beta": 2.0, "threshold": 3.0}),
    "FastGeluGrad": grad2(gradient(lambda x: x * torch.sigmoid(1.702 * x)), tolerance=64),
    "SiluGrad": grad2(gradient(F.silu), tolerance=64),
    "SwishGrad": grad2(gradient(F.silu), tolerance=64),
    "GeluGrad": grad2(gradient(gelu), tolerance=64),
    "GeluGradV2": grad2(gradient(F.gelu), tolerance=64),
    "MishGrad": grad2(gradient(F.mish), tolerance=64),
}
# Ops with tests of their own below.
SPECIAL = {
    "SelectV2", "Select", "MaskedFill", "DropOutDoMask", "DropOutDoMaskV3", "Complex", "Real", "Imag", "BiasAdd",
    "ThresholdV2", "PRelu", "PReluGrad", "Cast", "Fill", "FillD", "Fills", "ZerosLike", "OnesLike", "Empty", "Eye",
    "Range", "LinSpace", "OneHot", "OneHotD",
}  # fmt: skip

SHAPES: dict[str, Sequence[tuple[int, ...]]] = {
    "same": [(7, 13)] * 4,
    "broadcast": [(3, 1, 5), (2, 1), (1, 2, 5), (5,)],
    "0-d": [()] * 4,
    "empty": [(0, 3)] * 4,
}


def operands(row: Row, dtype: torch.dtype, form: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(row.arity * 31 + len(form))
    shapes = list(SHAPES[form][: row.arity])
    for i in range(row.arity - row.scalars, row.arity):
        shapes[i] = ()
    return [_values(row, dtype, shape, generator) for shape in shapes]


def _values(row: Row, dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator, dtype=F64) * (row.high - row.low) + row.low).to(dtype)
    low = max(math.floor(row.low), 0 if dtype in (torch.uint8, torch.uint16, torch.uint32) else -99)
    high = max(math.ceil(row.high), low + 1)
    return torch.randint(low, high + 1, shape, generator=generator).to(dtype)


def check(got: Tensor, want: Tensor, dtype: torch.dtype, tolerance: float) -> None:
    assert got.dtype == dtype and got.shape == want.shape
    want = want.to(dtype)
    if not dtype.is_floating_point:
        assert torch.equal(wide(got), wide(want))
        return
    bound = TOLERANCE[dtype] if dtype in HALVES else TOLERANCE[dtype] * tolerance
    torch.testing.assert_close(got.to(F64), want.to(F64), rtol=bound, atol=bound, equal_nan=True)


CASES = [
    pytest.param(kind, dtype, form, id=f"{kind}-{str(dtype)[6:]}-{form}")
    for kind, row in ROWS.items()
    for dtype in row.dtypes
    for form in SHAPES
    if form != "broadcast" or (row.broadcast and row.arity - row.scalars > 1)
]


@pytest.mark.parametrize(("kind", "dtype", "form"), CASES)
def test_row(kind: str, dtype: torch.dtype, form: str) -> None:
    row = ROWS[kind]
    inputs = operands(row, dtype, form)
    kept = [t.clone() for t in inputs]
    got = run(kind, *inputs, **row.attrs)
    check(got, row.reference(*map(wide, kept)), row.out or dtype, row.tolerance)
    assert all(torch.equal(wide(a), wide(b)) for a, b in zip(inputs, kept)), "an op must not write its inputs"


def test_every_op_has_a_row() -> None:
    mine = {k for k, f in OPS.items() if f.__module__.rsplit(".", 1)[-1] in FAMILIES}
    assert mine == set(ROWS) | SPECIAL


PROMOTE = ("Mul", "Pow", "Sxpy")


@pytest.mark.parametrize("kind", [k for k, r in ROWS.items() if r.arity - r.scalars > 1 and k not in PROMOTE])
def test_nothing_is_promoted(kind: str) -> None:
    row = ROWS[kind]
    inputs = operands(row, row.dtypes[0], "same")
    inputs[1] = inputs[1].to(torch.int64 if row.dtypes[0].is_floating_point else torch.float32)
    with pytest.raises(ValueError, match="operands must have one dtype"):
        run(kind, *inputs, **row.attrs)


@pytest.mark.parametrize("kind", PROMOTE)
def test_ops_that_promote(kind: str) -> None:
    """Their IR gives the operands types of their own; a 0-d operand counts like any other."""
    x = torch.tensor([2.0, 3.0], dtype=torch.float16)
    for other, want in ((torch.int64, torch.float16), (torch.float32, torch.float32), (F64, F64)):
        assert run(kind, x, torch.tensor(2).to(other)).dtype == want
    a, b = torch.tensor(3, dtype=torch.int32), torch.tensor(4)
    y = run(kind, a, b)
    assert y.dtype == torch.int64 and y.item() == {"Mul": 12, "Pow": 81, "Sxpy": -1}[kind]


def test_sizes_of_different_integers_add() -> None:
    a, b = torch.tensor(3, dtype=torch.int32), torch.tensor(2**40)
    assert run("Add", a, b).item() == 2**40 + 3 and run("Sub", b, a).item() == 2**40 - 3


@pytest.mark.parametrize("kind", [k for k, r in ROWS.items() if set(r.dtypes) <= set(FLOATS) and r.arity == 1])
def test_float_ops_refuse_integers(kind: str) -> None:
    if kind in ("Log", "HardSigmoid"):  # these take them and give f32
        assert run(kind, torch.tensor([1, 2], dtype=torch.int32)).dtype == torch.float32
        return
    with pytest.raises(ValueError, match=f"{kind} does not take i32; it takes bf16, f16, f32, f64"):
        run(kind, torch.tensor([1, 2], dtype=torch.int32), **ROWS[kind].attrs)


@pytest.mark.parametrize("kind", [k for k, r in ROWS.items() if not r.broadcast and k != "AddN"])
def test_gradients_do_not_broadcast(kind: str) -> None:
    with pytest.raises(ValueError, match="operands must have equal shapes"):
        run(kind, torch.ones(2, 3) / 2, torch.ones(3, 2) / 2, **ROWS[kind].attrs)


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_rounded_once(dtype: torch.dtype) -> None:
    """Operands for which a result of two roundings differs: 1 + 3e-4 * 2 and Lerp, in f32 and then once to half."""
    generator = torch.Generator().manual_seed(5)
    a, b, c = (torch.randn(4096, generator=generator).to(dtype) for _ in range(3))
    once = (a.float() * b.float() + c.float()).to(dtype)
    assert not torch.equal(once, a * b + c)
    assert torch.equal(run("FusedMulAdd", a, b, c), once)
    assert torch.equal(run("Lerp", a, b, c), (a.float() + c.float() * (b.float() - a.float())).to(dtype))
    x = a.float()
    assert torch.equal(run("Swish", a), (x / (1 + torch.exp(-x))).to(dtype))
