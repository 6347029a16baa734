"""Every lowering rule on floats against torch: accuracy against f64, NaN, infinities, subnormals; f32, f16 and bf16."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rule_harness import FLOATS, INF, floor_mod, fmod, run, samples, ulps, view, words

from torchair_autofuse.lower import RULES


@dataclass(frozen=True)
class Case:
    """A rule and its meaning in torch, on tensors of any float dtype.

    ``worse``: by how many ulp the largest error against f64 may exceed that of torch in f32. ``eager``: what stands for
    the unfused op where torch's own f32 result is more exact than GE's formula can be.
    """

    type: str
    reference: Callable[..., torch.Tensor]
    attrs: dict[str, Any] = field(default_factory=dict)
    inputs: int = 1
    worse: float = 1.0
    low: float = -INF
    high: float = INF
    specials: bool = True
    eager: Callable[..., torch.Tensor] | None = None
    nan: bool = True  # compare where the result is NaN or infinite
    floor: float = 0.0  # for a function with a root: an ulp is taken at this part of the first input at least


def grad_of(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """(gradient, input) -> gradient of the input, by autograd."""

    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        leaf = x.clone().requires_grad_(True)
        return torch.autograd.grad(function(leaf), leaf, g)[0]

    return backward


def swapped(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda a, b: function(b, a)


def fast_gelu_v2(x: torch.Tensor) -> torch.Tensor:
    sign = (x + 1e-12) / (x + 1e-12).abs()
    return x * (sign * (-0.1444 * ((0.7071 * x).abs().clamp(max=1.769) - 1.769) ** 2 + 0.5) + 0.5)


GELU_TANH = lambda x: F.gelu(x, approximate="tanh")  # noqa: E731
BIG = 1e4  # beyond, autograd's own formulas overflow

UNARY = [
    Case("Neg", torch.neg, worse=0),
    Case("Abs", torch.abs, worse=0),
    Case("Sign", lambda x: (x > 0).to(x.dtype) - (x < 0).to(x.dtype), worse=0),
    Case("Square", torch.square, worse=0),
    Case("Reciprocal", torch.reciprocal, worse=0),
    Case("Inv", torch.reciprocal, worse=0),
    Case("Muls", lambda x: x * 0.3, {"value": 0.3}),
    Case("Adds", lambda x: x + 0.3, {"value": 0.3}),
    Case("Exp", torch.exp),
    Case("Exp", lambda x: torch.exp(2 * x + 0.5), {"scale": 2.0, "shift": 0.5}),
    Case("Exp", lambda x: torch.exp(x * math.log(10)), {"base": 10.0}, low=-30, high=30),
    Case("Log", torch.log),
    Case("Log", torch.log2, {"base": 2.0}),
    Case("Log", torch.log10, {"base": 10.0}, eager=lambda x: torch.log(x) / math.log(10)),
    Case("Log", lambda x: torch.log(3 * x + 1), {"scale": 3.0, "shift": 1.0}),
    Case("Expm1", torch.expm1),
    Case("Log1p", torch.log1p),
    Case("Sqrt", torch.sqrt, worse=0),
    Case("Rsqrt", torch.rsqrt),
    Case("Erf", torch.erf),
    Case("Erfc", torch.erfc, worse=4),
    Case("Sin", torch.sin, low=-1e5, high=1e5),
    Case("Cos", torch.cos, low=-1e5, high=1e5),
    Case("Tan", torch.tan, low=-1e5, high=1e5),
    Case("Asin", torch.asin),
    Case("Acos", torch.acos),
    Case("Atan", torch.atan),
    Case("Sinh", torch.sinh),
    Case("Cosh", torch.cosh),
    Case("Asinh", torch.asinh),
    Case("Acosh", torch.acosh),
    Case("Atanh", torch.atanh),
    Case("Power", lambda x: (2 * x + 1) ** 3, {"power": 3.0, "scale": 2.0, "shift": 1.0}),
    Case("Relu", torch.relu, worse=0),
    Case("Relu6", F.relu6, worse=0),
    Case("LeakyRelu", lambda x: F.leaky_relu(x, 0.0)),
    Case("LeakyRelu", lambda x: F.leaky_relu(x, 0.01), {"negative_slope": 0.01}),
    Case("LeakyRelu", lambda x: F.leaky_relu(x, 1.5), {"negative_slope": 1.5}),
    Case("LeakyRelu", lambda x: F.leaky_relu(x, -0.5), {"negative_slope": -0.5}),
    Case("Threshold", lambda x: (x > 0.5).to(x.dtype), {"threshold": 0.5}, worse=0),
    Case("HardShrink", F.hardshrink, worse=0),
    Case("SoftShrink", F.softshrink),
    Case("HardSigmoid", lambda x: (0.16666666 * x + 0.5).clamp(0, 1)),
    Case("HardSigmoid", lambda x: (0.2 * x + 0.4).clamp(0, 1), {"alpha": 0.2, "beta": 0.4}),
    Case("HardSwish", F.hardswish, high=1e37),
    Case("Elu", F.elu),
    Case("Elu", lambda x: 2 * F.elu(x, 0.5), {"alpha": 0.5, "scale": 2.0}),
    Case("Elu", lambda x: torch.where(x > 0, x, torch.expm1(0.5 * x)), {"input_scale": 0.5}),
    Case("Elu", lambda x: torch.where(x > 0, x, torch.expm1(-0.5 * x)), {"input_scale": -0.5}),
    Case("Celu", F.celu),
    Case("CeluV2", lambda x: F.celu(x, 0.3), {"alpha": 0.3}),
    Case("CeluV2", lambda x: F.celu(x, 2.0), {"alpha": 2.0}),
    Case("Selu", F.selu),
    Case("Sigmoid", torch.sigmoid),
    Case("Tanh", torch.tanh),
    Case("Swish", F.silu),
    Case("Swish", lambda x: x * torch.sigmoid(1.5 * x), {"scale": 1.5}, eager=lambda x: x / (1 + torch.exp(-1.5 * x))),
    Case("FastGelu", lambda x: x / (1 + torch.exp(-1.702 * x))),
    Case("FastGeluV2", fast_gelu_v2),
    Case("Gelu", GELU_TANH),
    Case("GeluV2", lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))),
    Case("GeluV2", GELU_TANH, {"approximate": "tanh"}),
    Case("Mish", F.mish, worse=1.5),
    Case("LogSigmoid", F.logsigmoid),
    Case("Softplus", lambda x: F.softplus(x, threshold=1e9), high=80, eager=torch.log1p),
    Case("SoftplusV2", F.softplus),
    Case("SoftplusV2", lambda x: F.softplus(x, 3.0, 5.0), {"beta": 3.0, "threshold": 5.0}),
    Case("Softsign", F.softsign),
    Case("Floor", torch.floor, worse=0),
    Case("Ceil", torch.ceil, worse=0),
    Case("Round", torch.round, worse=0),
    Case("Rint", torch.round, worse=0),
    Case("Trunc", torch.trunc, worse=0),
    Case("NanToNum", lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), {"nan": 1.0, "posinf": 2.0, "neginf": -3.0},
         worse=0),
]  # fmt: skip

BINARY = [
    Case("Add", torch.add, worse=0),
    Case("AddV2", torch.add, worse=0),
    Case("Sub", torch.sub, worse=0),
    Case("Mul", torch.mul, worse=0),
    Case("RealDiv", torch.div, worse=0),
    Case("Div", torch.div, worse=0),
    Case("FloorDiv", lambda a, b: torch.floor(a / b), eager=lambda a, b: torch.floor(a / b), high=300),
    Case("TruncateDiv", lambda a, b: torch.trunc(a / b), high=300),
    Case("Mod", fmod, worse=0),
    Case("TruncateMod", fmod, worse=0),
    Case("FloorMod", floor_mod, worse=0),
    Case("Maximum", torch.maximum, worse=0),
    Case("Minimum", torch.minimum, worse=0),
    Case("SquaredDifference", lambda a, b: (a - b) ** 2),
    Case("Pow", torch.pow),
    Case("Pows", torch.pow),
    Case("DivNoNan", lambda a, b: torch.where(b == 0, torch.zeros_like(a), a / b), worse=0),
    Case("MulNoNan", lambda a, b: torch.where(b == 0, torch.zeros_like(a), a * b), worse=0),
    Case("Xdivy", lambda a, b: torch.where(a == 0, torch.zeros_like(a), a / b), worse=0),
    Case("Xlogy", torch.xlogy),
    Case("Axpy", lambda a, b: a + 0.3 * b, {"alpha": 0.3}),
    Case("Axpy", lambda a, b: a - b, {"alpha": -1.0}, worse=0),
    Case("ReluGrad", lambda g, x: torch.where(x > 0, g, 0.0), worse=0),
    Case("Relu6Grad", lambda g, x: torch.where((x > 0) & (x < 6), g, 0.0), worse=0),
    Case("LeakyReluGrad", lambda g, x: torch.where(x > 0, g, 0.1 * g), {"negative_slope": 0.1}),
    Case("ThresholdGradV2D", lambda g, x: torch.where(x > 0.7, g, 0.0), {"threshold": 0.7}, worse=0),
    Case("HardShrinkGrad", lambda g, x: torch.where(x.abs() > 0.5, g, 0.0), worse=0),
    Case("SoftShrinkGrad", lambda g, x: torch.where(x.abs() > 0.5, g, 0.0), worse=0),
    Case("HardSigmoidGrad", lambda g, x: torch.where((0.2 * x + 0.4 > 0) & (0.2 * x + 0.4 < 1), 0.2 * g, 0.0),
         {"alpha": 0.2, "beta": 0.4}),
    Case("HardSwishGrad", lambda g, x: torch.where(x <= -3, 0.0, torch.where(x >= 3, g, g * (x / 3 + 0.5)))),
    Case("HardtanhGrad", lambda y, g: torch.where((y <= -2) | (y >= 3), 0.0, g), {"min_val": -2.0, "max_val": 3.0},
         worse=0),
    Case("EluGrad", lambda g, a: torch.where(a > 0, g, g * (a + 1))),
    Case("EluGradV2", grad_of(F.elu), high=BIG, low=-BIG, nan=False),
    Case("EluGradV2", lambda g, a: torch.where(a > 0, 2 * g, 0.5 * g * (a + 6)),
         {"scale": 2.0, "alpha": 3.0, "input_scale": 0.5, "is_result": True}),
    Case("EluGradV2", lambda g, a: torch.where(a > 0, 2 * g, 3 * g * torch.exp(0.5 * a)),
         {"scale": 2.0, "alpha": 3.0, "input_scale": 0.5}, high=BIG, low=-BIG),
    Case("SeluGrad", lambda g, a: torch.where(a > 0, 1.05070098735548049 * g, g * (a + 1.7580993408473766))),
    Case("SwishGrad", grad_of(F.silu), high=BIG, low=-BIG),
    Case("SiluGrad", grad_of(F.silu), high=BIG, low=-BIG),
    Case("FastGeluGrad", grad_of(lambda x: x * torch.sigmoid(1.702 * x)), high=BIG, low=-BIG, floor=1 / 8),
    Case("GeluGrad", grad_of(GELU_TANH), high=BIG, low=-BIG),
    Case("GeluGradV2", grad_of(F.gelu), high=BIG, low=-BIG),
    Case("GeluGradV2", grad_of(GELU_TANH), {"approximate": "tanh"}, high=BIG, low=-BIG),
    Case("MishGrad", grad_of(F.mish), high=BIG, low=-BIG, floor=1 / 8),
    Case("SigmoidGrad", lambda y, g: g * y * (1 - y)),
    Case("TanhGrad", lambda y, g: g * (1 - y * y)),
    Case("SoftplusGrad", lambda g, x: g * torch.sigmoid(x), eager=lambda g, x: g / (1 + torch.exp(-x)),
         high=BIG, low=-80),
    Case("SoftplusV2Grad", lambda g, x: torch.where(3 * x <= 5, g * torch.sigmoid(3 * x), g),
         {"beta": 3.0, "threshold": 5.0}, low=-25, high=BIG),
    Case("LogSigmoidGrad", grad_of(F.logsigmoid), high=80, low=-BIG),
    Case("SqrtGrad", lambda y, g: g / (2 * y), worse=0),
    Case("RsqrtGrad", lambda y, g: -0.5 * g * y**3, low=-1e9, high=1e9),
    Case("ReciprocalGrad", lambda y, g: -g * y * y, low=-1e9, high=1e9),
    Case("InvGrad", lambda y, g: -g * y * y, low=-1e9, high=1e9),
    Case("AsinGrad", swapped(grad_of(torch.asin)), low=-0.99, high=0.99, eager=lambda x, g: g / torch.sqrt(1 - x * x)),
    Case("AcosGrad", swapped(grad_of(torch.acos)), low=-0.99, high=0.99, eager=lambda x, g: -g / torch.sqrt(1 - x * x)),
]  # fmt: skip

TERNARY = [
    Case("FusedMulAdd", lambda a, b, c: a * b + c),
    Case("Lerp", lambda a, b, w: a + w * (b - a)),
    Case("ClipByValueV2", torch.clamp, worse=0),
    Case("ClipByValue", torch.clamp, worse=0),
    Case("AddN", lambda a, b, c: a + b + c),
    Case("MishGrad", lambda g, x, t: g * (t + x * torch.sigmoid(x) * (1 - t) * (1 + t)), low=-20, high=20, worse=4),
]


def name_of(case: Case) -> str:
    return "-".join([case.type, *(f"{k}{v}" for k, v in case.attrs.items())])


def tensors(case: Case, count: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """``count`` tensors of one length; special values of one meet ordinary and special ones of the others."""
    first = samples(dtype, 1, special=case.specials, low=case.low, high=case.high)
    g = torch.Generator().manual_seed(7)
    return [first, *(first[torch.randperm(len(first), generator=g)] for _ in range(count - 1))]


def compare(case: Case, xs: list[torch.Tensor], actual: torch.Tensor) -> None:
    dtype = actual.dtype
    exact = case.reference(*(x.double() for x in xs))
    eager = (case.eager or case.reference)(*(x.float() for x in xs)).to(dtype)
    usual = case.reference(*(x.float() for x in xs)).to(dtype)
    if case.nan:
        assert torch.equal(torch.isnan(actual), torch.isnan(usual)), _show(xs, actual, usual, "NaN")
        both = torch.isinf(actual) != torch.isinf(usual)
        assert not both.any(), _show(xs, actual, usual, "inf")
    least = case.floor * xs[0].double().abs()
    mine, theirs = ulps(actual, exact, least), ulps(eager, exact, least)
    order = torch.argsort(xs[-1].float())
    order = order[torch.isfinite(usual[order])]
    for start in range(0, len(order), 64):  # neighbours on the axis of the last input: one hard spot hides no other
        here, around = order[start : start + 64], order[max(0, start - 64) : start + 128]
        at = int(here[mine[here].argmax()])
        detail = f"inputs {[x[at].item() for x in xs]}: {actual[at].item()} for {exact[at].item()}"
        limit = theirs[around].max() + case.worse
        assert mine[at] <= limit, f"{mine[at]:.2f} ulp, torch {limit - case.worse:.2f}; {detail}"


def _show(xs: list[torch.Tensor], actual: torch.Tensor, usual: torch.Tensor, what: str) -> str:
    test = torch.isnan if what == "NaN" else torch.isinf
    bad = torch.nonzero(test(actual) != test(usual)).reshape(-1)[:5].tolist()
    return f"{what}: " + "; ".join(f"{[x[i].item() for x in xs]} -> {actual[i].item()}, {usual[i].item()}" for i in bad)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", UNARY, ids=name_of)
def test_unary(case: Case, dtype: torch.dtype) -> None:
    xs = tensors(case, 1, dtype)
    compare(case, xs, run(view(case.type, xs, case.attrs), xs))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", BINARY, ids=name_of)
def test_binary(case: Case, dtype: torch.dtype) -> None:
    xs = tensors(case, 2, dtype)
    if case.type == "Pows":
        xs[1] = torch.tensor([1.7], dtype=dtype)
    compare(case, [xs[0], xs[1].expand_as(xs[0])], run(view(case.type, xs, case.attrs), xs))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", TERNARY, ids=name_of)
def test_ternary(case: Case, dtype: torch.dtype) -> None:
    xs = tensors(case, 3, dtype)
    compare(case, xs, run(view(case.type, xs, case.attrs), xs))


def test_the_tables_cover_every_float_rule() -> None:
    """Rules that are in no table here have their own tests in test_lower_rules.py and test_lower_norm.py."""
    elsewhere = words(
        """
        AxpyV2 Sxpy Addcmul Addcdiv PRelu BiasAdd ThresholdV2 Select SelectV2 MaskedFill Cast Fill FillD Fills ZerosLike
        OnesLike LogicalAnd LogicalOr LogicalNot IsNan IsInf IsFinite Equal NotEqual Less LessEqual Greater GreaterEqual
        BitwiseAnd BitwiseOr BitwiseXor Invert SmoothL1Loss SmoothL1LossGrad SigmoidCrossEntropyWithLogits
        SigmoidCrossEntropyWithLogitsGrad
        """
    )
    tables = {c.type for c in (*UNARY, *BINARY, *TERNARY)}
    pointwise = {kind for kind, rule in RULES.items() if rule.kind == "pointwise"}
    assert sorted(pointwise - tables - elsewhere) == []
