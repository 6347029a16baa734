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

from torchair_autofuse.host.ops import OPS, OpCall

Tensor = torch.Tensor
F64 = torch.float64
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32)
NUMBERS = FLOATS + INTS
BOOL = (torch.bool,)
# f32 results may differ in the last bits of the transcendental functions; halves are rounded once, so by one unit
# where the f32 value sits on the middle of two.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7, F64: 1e-13}
FAMILIES = ("elementwise", "select", "activation", "compare", "bitwise", "cast", "generator", "grad", "pointwise")


def run(kind: str, *inputs: Tensor | None, names: Sequence[str] = (), **attrs: Any) -> Any:
    """Executes one op; results are as the op gives them."""
    names = names or [f"x{i}" for i in range(len(inputs))]
    return OPS[kind](OpCall(kind, "node", inputs, names, attrs, 1))


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


def gradient(forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """(grad, x) -> the derivative of ``forward`` at x times grad, by autograd."""

    def reference(dy: Tensor, x: Tensor) -> Tensor:
        dy, x = torch.broadcast_tensors(dy, x)
        x = x.clone().requires_grad_()
        return torch.autograd.grad(forward(x), x, dy)[0]

    return reference


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


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


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


def wide(t: Tensor) -> Tensor:
    return t if t.dtype == torch.bool else t.to(F64) if t.is_floating_point() else t.to(torch.int64)


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


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kind", "inputs", "want"),
    [
        ("Relu", [[NAN, -INF, INF, -1.0]], [NAN, 0, INF, 0]),
        ("Relu6", [[NAN, INF, -INF]], [NAN, 6, 0]),
        ("Maximum", [[NAN, 1, INF], [1, NAN, 2]], [NAN, NAN, INF]),
        ("Minimum", [[NAN, 1, -INF], [1, NAN, 2]], [NAN, NAN, -INF]),
        ("ClipByValueV2", [[NAN, 9, -9, INF], [-1] * 4, [1] * 4], [NAN, 1, -1, 1]),
        ("ClipByValueV2", [[0], [3], [-3]], [-3]),
        ("Sign", [[NAN, INF, -0.0]], [0, 1, 0]),
        ("LeakyRelu", [[NAN, -INF]], [NAN, NAN]),  # -inf times the default slope of 0
        ("Round", [[0.5, 1.5, 2.5, -0.5, -1.5, NAN]], [0, 2, 2, 0, -2, NAN]),
        ("RealDiv", [[1, -1, 0], [0, 0, 0]], [INF, -INF, NAN]),
        ("FloorMod", [[-7, 7, 1], [3, -3, 0]], [2, -2, NAN]),
        ("Mod", [[-7, 7, 1], [3, -3, 0]], [-1, 1, NAN]),
        ("FloorDiv", [[1.0, -7], [0.1, 2]], [10, -4]),  # the floor of the rounded quotient
        ("DivNoNan", [[1, 0], [0, 0]], [0, 0]),
        ("MulNoNan", [[INF, NAN, 2], [0, 0, 3]], [0, 0, 6]),
        ("Xdivy", [[0, 1], [0, 0]], [0, INF]),
        ("Xlogy", [[0, 0, 1], [0, NAN, 0]], [0, NAN, -INF]),
        ("Equal", [[NAN, 1], [NAN, 1]], [False, True]),
        ("NotEqual", [[NAN, 1], [NAN, 1]], [True, False]),
        ("GreaterEqual", [[NAN, 1], [1, 1]], [False, True]),
        ("IsInf", [[NAN, INF, -INF, 1]], [False, True, True, False]),
        ("IsNan", [[NAN, INF]], [True, False]),
        ("IsFinite", [[NAN, INF, -INF, 1]], [False, False, False, True]),
        ("Sigmoid", [[-INF, INF, NAN]], [0, 1, NAN]),
        ("Softplus", [[-INF, 1000.0]], [0, 1000]),
        ("Mish", [[1000.0]], [1000]),
        ("LogSigmoid", [[-1000.0, 1000.0]], [-1000, 0]),
        ("Elu", [[1000.0, -INF, NAN]], [1000, -1, NAN]),
        ("ReluGrad", [[1, 1, 1], [NAN, 0, 2]], [0, 0, 1]),
        ("SoftShrink", [[NAN, 1]], [NAN, 0.5]),
        ("HardShrink", [[NAN, 0.5]], [NAN, 0]),
        ("GeluGradV2", [[2, 2], [INF, -INF]], [2, 0]),
        ("Pow", [[-8, 0, NAN, -2], [1 / 3, 0, 0, 3]], [NAN, 1, 1, -8]),
    ],
)
def test_special_values(kind: str, inputs: list[list[float]], want: list[float]) -> None:
    got = run(kind, *(torch.tensor(i, dtype=torch.float32) for i in inputs))
    torch.testing.assert_close(got, torch.tensor(want, dtype=got.dtype), rtol=0, atol=0, equal_nan=True)


def test_attributes_of_exp_and_log() -> None:
    x = torch.tensor([0.5, 2.0])
    torch.testing.assert_close(run("Exp", x, base=2.0, scale=3.0, shift=1.0), 2 ** (3 * x + 1))
    torch.testing.assert_close(run("Exp", x, base=-1.0, scale=3.0, shift=1.0), torch.exp(3 * x + 1))
    torch.testing.assert_close(run("Log", x, base=2.0), torch.log2(x))
    torch.testing.assert_close(run("Log", x, base=-1.0, scale=3.0, shift=1.0), torch.log(3 * x + 1))
    assert run("Log", torch.tensor([8], dtype=torch.int32)).dtype == torch.float32
    for kind in ("Exp", "Log"):
        with pytest.raises(ValueError, match="base must be positive, or -1 for e, not -2"):
            run(kind, x, base=-2.0)


def test_attribute_operands() -> None:
    assert run("Muls", torch.tensor([3, -3], dtype=torch.int32), value=0.5).tolist() == [1, -1]
    half = torch.tensor([1.001], dtype=torch.float16)
    assert run("Muls", half, value=0.1) == (half.float() * 0.1).half()
    assert run("Adds", torch.tensor([200], dtype=torch.uint8), value=100.0).tolist() == [44]
    assert run("Axpy", torch.tensor([3], dtype=torch.int32), torch.tensor([5], dtype=torch.int32), alpha=0.5) == 5
    assert run("Sxpy", torch.tensor([3]), torch.tensor([5])).tolist() == [-2]
    assert run("Round", torch.tensor([1.25, -1.35]), decimals=1).tolist() == pytest.approx([1.2, -1.4])
    assert run("HardSigmoid", torch.tensor([1], dtype=torch.int32)).item() == pytest.approx(2 / 3)
    x, dy = torch.linspace(-3, 3, 9, dtype=F64), torch.ones(9, dtype=F64)
    torch.testing.assert_close(run("Swish", x, scale=2.0), x * torch.sigmoid(2 * x))
    torch.testing.assert_close(
        run("SwishGrad", dy, x, x, scale=2.0), gradient(lambda t: t * torch.sigmoid(2 * t))(dy, x)
    )
    y = F.elu(x, 2.0) * 3
    torch.testing.assert_close(
        run("EluGradV2", dy, y, alpha=2.0, scale=3.0, is_result=True), gradient(lambda t: 3 * F.elu(t, 2.0))(dy, x)
    )
    torch.testing.assert_close(run("MishGrad", dy, x, torch.tanh(F.softplus(x))), gradient(F.mish)(dy, x))
    for kind, forward in (("GeluV2", gelu), ("GeluGradV2", lambda t: gradient(gelu)(dy, t))):
        inputs = (x,) if kind == "GeluV2" else (dy, x)
        torch.testing.assert_close(run(kind, *inputs, approximate="tanh"), forward(x))
        with pytest.raises(ValueError, match="approximate must be none or tanh, not 'erf'"):
            run(kind, *inputs, approximate="erf")
    with pytest.raises(ValueError, match="required attribute value is missing"):
        run("Muls", x)
    with pytest.raises(ValueError, match=r"input 2 must have one element, its shape is \[2\]"):
        run("AxpyV2", x, x, torch.ones(2, dtype=F64))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_integer_edges(dtype: torch.dtype) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    a = torch.tensor([low, high, -7, 7, 5], dtype=dtype)
    b = torch.tensor([-1, -1, 2, -2, 0], dtype=dtype)
    assert run("FloorDiv", a, b).tolist() == [low, -high, -4, -4, -1]
    assert run("TruncateDiv", a, b).tolist() == run("Div", a, b).tolist() == [low, -high, -3, -3, -1]
    assert run("RealDiv", a, b).dtype == dtype
    assert run("FloorMod", a, b).tolist() == [0, 0, 1, -1, -1]
    assert run("Mod", a, b).tolist() == [0, 0, -1, 1, -1]
    assert run("Add", a[1:2], -b[:1]).tolist() == [low] and run("Neg", a[:1]).tolist() == [low]


def test_unsigned_edges() -> None:
    a, b = torch.tensor([250, 7], dtype=torch.uint8), torch.tensor([10, 0], dtype=torch.uint8)
    assert run("Add", a, b).tolist() == [4, 7] and run("Sub", b, a).tolist() == [16, 249]
    assert run("FloorDiv", a, b).tolist() == [25, 255] and run("Mod", a, b).tolist() == [0, 255]
    big = torch.tensor([2**63 + 5, 3], dtype=torch.uint64)
    small = torch.tensor([1, 4], dtype=torch.uint64)
    assert run("Greater", big, small).tolist() == [True, False]
    assert run("Add", big, big).dtype == torch.uint64 and run("Add", big, big).tolist() == [10, 6]
    with pytest.raises(ValueError, match="Div does not take u64"):
        run("Div", big, small)
    assert run("RealDiv", torch.tensor([True]), torch.tensor([True])).dtype == torch.float32


# ---------------------------------------------------------------- selections


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool])
def test_select(dtype: torch.dtype) -> None:
    condition = torch.tensor([[True], [False]])
    a, b = torch.tensor([1, 0, 1]).to(dtype), torch.tensor(0).to(dtype)
    got = run("SelectV2", condition, a, b)
    assert got.dtype == dtype and wide(got).tolist() == [wide(a).tolist(), [0, 0, 0]]
    filled = run("MaskedFill", a, condition, b)
    assert filled.dtype == dtype and wide(filled).tolist() == [[0, 0, 0], wide(a).tolist()]
    rows = run("Select", torch.tensor([True, False]), torch.ones(2, 2).to(dtype), torch.zeros(2, 2).to(dtype))
    assert rows.dtype == dtype and wide(rows).tolist() == [[1, 1], [0, 0]]


def test_select_does_not_leak() -> None:
    got = run("SelectV2", torch.tensor([True, False]), torch.tensor([1.0, NAN]), torch.tensor([INF, 2.0]))
    assert got.tolist() == [1, 2]
    x = torch.tensor([NAN, 1.0])
    assert run("MaskedFill", x, torch.tensor([True, False]), torch.tensor([-INF])).tolist() == [-INF, 1]
    with pytest.raises(ValueError, match="SelectV2 does not take u8; it takes bool"):
        run("SelectV2", torch.tensor([1], dtype=torch.uint8), x, x)
    with pytest.raises(ValueError, match="operands must have one dtype, got f32, f64"):
        run("MaskedFill", x, torch.tensor([True, False]), torch.tensor(0.0, dtype=F64))


def test_dropout_masks() -> None:
    x, keep = torch.arange(1.0, 11.0), torch.tensor(0.5)
    bits = torch.tensor([0b00000101, 0b00000010] + [0] * 14, dtype=torch.uint8)
    want = [2, 0, 6, 0, 0, 0, 0, 0, 0, 20]
    assert run("DropOutDoMask", x, bits, keep).tolist() == want
    mask = torch.tensor([1, 0, 1, 0, 0, 0, 0, 0, 0, 1], dtype=torch.uint8)
    assert run("DropOutDoMaskV3", x, mask, keep).tolist() == want
    assert run("DropOutDoMaskV3", x.half(), mask.bool(), keep.half()).dtype == torch.float16
    with pytest.raises(ValueError, match="mask holds 8 bits for 10 elements"):
        run("DropOutDoMask", x, bits[:1], keep)
    with pytest.raises(ValueError, match="mask has 2 elements for 10"):
        run("DropOutDoMaskV3", x, mask[:2], keep)


def test_complex() -> None:
    re, im = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    z = run("Complex", re, im)
    assert z.tolist() == [1 + 3j, 2 + 4j]
    assert torch.equal(run("Real", z), re) and torch.equal(run("Imag", z), im)


def test_bias_add() -> None:
    x, bias = torch.zeros(2, 3, 4), torch.tensor([1.0, 2.0, 3.0])
    assert run("BiasAdd", x, bias, data_format="NCHW")[0, :, 0].tolist() == [1, 2, 3]
    assert run("BiasAdd", x.transpose(1, 2), bias)[0, 0].tolist() == [1, 2, 3]


def test_threshold_v2() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    assert run("ThresholdV2", x, torch.tensor(2.0), torch.tensor([9.0])).tolist() == [9, 9, 3]
    assert run("ThresholdV2", x, torch.tensor(2.0)).tolist() == [0, 0, 3]


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3)])
@pytest.mark.parametrize("form", ["vector", "full", "one"])
def test_prelu(shape: tuple[int, ...], form: str) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    weight = torch.tensor([0.1, -0.2, 0.3]) if form != "one" else torch.tensor([0.25])
    given = weight.reshape([1, 3] + [1] * (len(shape) - 2)) if form == "full" else weight
    torch.testing.assert_close(run("PRelu", x, given), F.prelu(x, weight))
    dy = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    x0, w0 = x.clone().requires_grad_(), weight.clone().requires_grad_()
    want = torch.autograd.grad(F.prelu(x0, w0), (x0, w0), dy)
    dx, da = run("PReluGrad", dy, x, given)
    torch.testing.assert_close(dx, want[0])
    assert da.shape == given.shape
    torch.testing.assert_close(da.reshape(-1), want[1])


def test_prelu_of_wrong_size() -> None:
    with pytest.raises(ValueError, match=r"weight \[4\] does not fit the channels \(dim 1\) of \[2, 3\]"):
        run("PRelu", torch.ones(2, 3), torch.ones(4))


# ---------------------------------------------------------------- cast

CAST_C = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6,
    torch.uint16: 7, torch.uint32: 8, torch.int64: 9, torch.uint64: 10, F64: 11, torch.bool: 12, torch.bfloat16: 27,
}  # fmt: skip


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    y = run("Cast", x, dst_type=CAST_C[dtype])
    assert y.dtype == dtype and y.shape == x.shape
    return y


@pytest.mark.parametrize("source", CAST_C, ids=str)
@pytest.mark.parametrize("target", CAST_C, ids=str)
def test_cast_of_small_numbers(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor([0, 1, 2, 100]).to(source)
    want = x.to(F64)
    want = (want != 0).to(F64) if target == torch.bool else want
    assert torch.equal(cast(x, target).to(F64), want)
    assert cast(x[:0], target).shape == (0,)


BIG = [NAN, INF, -INF, 2.9, -2.9, 3e9, -3e9, 1e30, 300.0, -300.0]
I32, I64 = torch.iinfo(torch.int32), torch.iinfo(torch.int64)


@pytest.mark.parametrize("source", [torch.float32, F64])
@pytest.mark.parametrize(
    ("target", "want"),
    [
        (torch.int32, [0, I32.max, I32.min, 2, -2, I32.max, I32.min, I32.max, 300, -300]),
        (torch.int64, [0, I64.max, I64.min, 2, -2, 3 * 10**9, -3 * 10**9, I64.max, 300, -300]),
        (torch.int16, [0, 32767, -32768, 2, -2, 32767, -32768, 32767, 300, -300]),
        (torch.int8, [0, -1, 0, 2, -2, -1, 0, -1, 44, -44]),
        (torch.uint8, [0, 255, 0, 2, 254, 255, 0, 255, 44, 212]),
        (torch.uint16, [0, 65535, 0, 2, 65534, 65535, 0, 65535, 300, 65236]),
        (torch.uint32, [0, 2**32 - 1, 0, 2, 0, 3 * 10**9, 0, 2**32 - 1, 300, 0]),
        (torch.uint64, [0, 2**64 - 1, 0, 2, 0, 3 * 10**9, 0, 2**64 - 1, 300, 0]),
        (torch.bool, [True] * 10),
    ],
    ids=str,
)
def test_cast_of_big_floats(source: torch.dtype, target: torch.dtype, want: list[int]) -> None:
    assert cast(torch.tensor(BIG, dtype=source), target).tolist() == want


def test_cast_edges() -> None:
    assert cast(torch.tensor([2.0**63, -(2.0**63), 2.0**62]), torch.int64).tolist() == [I64.max, I64.min, 2**62]
    assert cast(torch.tensor([2.0**63, 2.0**64], dtype=F64), torch.uint64).tolist() == [2**63, 2**64 - 1]
    assert cast(torch.tensor([65504.0, INF], dtype=torch.float16), torch.int32).tolist() == [65504, I32.max]
    assert cast(torch.tensor([300, -1, 2**31]), torch.int8).tolist() == [44, -1, 0]
    assert cast(torch.tensor([1 + 2**-11, 1 + 3 * 2**-11]), torch.float16).tolist() == [1, 1 + 2**-9]  # ties to even
    assert cast(torch.tensor([1 + 2**-8, 1 + 3 * 2**-8]), torch.bfloat16).tolist() == [1, 1 + 2**-6]
    assert cast(torch.tensor([70000.0, -70000.0]), torch.float16).tolist() == [INF, -INF]
    assert cast(torch.tensor([0.0, -0.0, 1e-40, NAN]), torch.bool).tolist() == [False, False, True, True]
    assert cast(torch.tensor([6e-8], dtype=torch.float16), torch.bool).tolist() == [True]
    with pytest.raises(ValueError, match="dtype 13 of GE's C enum has no counterpart on the host"):
        run("Cast", torch.ones(1), dst_type=13)
    with pytest.raises(ValueError, match="required attribute dst_type is missing"):
        run("Cast", torch.ones(1))
    assert run("Cast", torch.ones(1), dst_type=16).dtype == torch.complex64
    with pytest.raises(ValueError, match="a cast from complex64 to f32 is not modelled"):
        run("Cast", torch.ones(1, dtype=torch.complex64), dst_type=0)


# ---------------------------------------------------------------- generators


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_fills(dtype: torch.dtype) -> None:
    value = torch.tensor([1]).to(dtype)
    for y in (
        run("Fill", torch.tensor([2, 3], dtype=torch.int32), value),
        run("FillD", value, dims=[2, 3]),
        run("Fills", torch.zeros(2, 3).to(dtype), value=1.0),
        run("OnesLike", torch.full((2, 3), 0.0).to(dtype)),
        1 - wide(run("ZerosLike", torch.ones(2, 3).to(dtype))).to(torch.int64),
    ):
        assert y.shape == (2, 3) and y.is_contiguous() and bool((wide(y) == 1).all())
        assert y.dtype in (dtype, torch.int64)
    assert run("ZerosLike", torch.tensor([NAN]).to(dtype)).dtype == dtype
    assert wide(run("ZerosLike", torch.tensor([NAN]).to(dtype))).tolist() == [0]
    assert run("Fill", torch.tensor([], dtype=torch.int64), value.reshape(())).shape == ()
    assert run("Fill", torch.tensor([0, 2]), value).shape == (0, 2)
    empty = run("Empty", torch.tensor([2, 2]), dtype=CAST_C[dtype])
    assert empty.dtype == dtype and not wide(empty).any()


def test_bad_sizes() -> None:
    with pytest.raises(ValueError, match=r"dims must not be negative: \[-1\]"):
        run("Fill", torch.tensor([-1]), torch.tensor(1.0))
    with pytest.raises(ValueError, match="num must not be negative: -1"):
        run("LinSpace", torch.tensor(0.0), torch.tensor(1.0), torch.tensor(-1))
    with pytest.raises(ValueError, match="delta must not be zero"):
        run("Range", torch.tensor(0), torch.tensor(1), torch.tensor(0))
    with pytest.raises(ValueError, match=r"must be finite"):
        run("Range", torch.tensor(0.0), torch.tensor(INF), torch.tensor(1.0))


@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 5, 1), (5, 0, -2), (1, 1, 1), (3, 0, 1), (0, 7, 3), (-4, 5, 4)]
)
def test_range_of_integers(start: int, limit: int, delta: int) -> None:
    want = list(range(start, limit, delta))
    for dtype in (torch.int32, torch.int64):
        y = run("Range", *(torch.tensor(v, dtype=dtype) for v in (start, limit, delta)))
        assert y.dtype == dtype and y.tolist() == want
    # TorchAir's arange: i32 start and step, i64 limit; mixed dtypes give f32
    y = run(
        "Range",
        torch.tensor(start, dtype=torch.int32),
        torch.tensor([limit]),
        torch.tensor(delta, dtype=torch.int32),
    )
    assert y.dtype == torch.float32 and y.tolist() == want


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0.0, 1.0, 0.25), (0.0, 1.1, 0.25), (2.0, -1.0, -0.5), (1.0, 0.0, 1.0)]
)
def test_range_of_floats(dtype: torch.dtype, start: float, limit: float, delta: float) -> None:
    y = run("Range", *(torch.tensor(v, dtype=dtype) for v in (start, limit, delta)))
    count = max(0, math.ceil((limit - start) / delta))
    assert y.dtype == dtype and y.tolist() == [start + k * delta for k in range(count)]


def test_closed_range() -> None:
    ints = [torch.tensor(v) for v in (0, 6, 3)]
    assert run("Range", *ints, is_closed=True).tolist() == [0, 3, 6]
    assert run("Range", torch.tensor(0), torch.tensor(5), torch.tensor(3), is_closed=True).tolist() == [0, 3]
    floats = [torch.tensor(v) for v in (0.0, 1.0, 0.5)]
    assert run("Range", *floats, is_closed=True).tolist() == [0, 0.5, 1]


def test_linspace() -> None:
    y = run("LinSpace", torch.tensor(-1.0), torch.tensor(2.0), torch.tensor(7, dtype=torch.int32))
    torch.testing.assert_close(y, torch.linspace(-1, 2, 7))
    assert run("LinSpace", torch.tensor(3.0, dtype=F64), torch.tensor(4.0, dtype=F64), torch.tensor(1)).tolist() == [3]
    ints = run("LinSpace", torch.tensor(0), torch.tensor(1), torch.tensor(5))
    assert ints.dtype == torch.float32 and ints.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert run("LinSpace", torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0)).shape == (0,)


def test_eye() -> None:
    assert run("Eye", num_rows=2).tolist() == [[1, 0], [0, 1]]
    y = run("Eye", num_rows=2, num_columns=3, batch_shape=[4], dtype=3)
    assert y.dtype == torch.int32 and torch.equal(y, torch.eye(2, 3, dtype=torch.int32).expand(4, 2, 3))


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
def test_one_hot(axis: int) -> None:
    x = torch.tensor([[0, 2], [1, 7]], dtype=torch.int32)  # 7: no class, all off
    on, off = torch.tensor([5.0]), torch.tensor(1.0)
    want = 1 + 4 * (x.unsqueeze(-1) == torch.arange(3)).float()
    want = want if axis in (-1, 2) else want.movedim(-1, axis)
    assert torch.equal(run("OneHot", x, torch.tensor(3), on, off, axis=axis), want)
    assert torch.equal(run("OneHotD", x, on, off, depth=3, axis=axis), want)
    with pytest.raises(ValueError, match=r"axis must be in \[-1, 2\], not 3"):
        run("OneHot", x, torch.tensor(3), on, off, axis=3)
