"""Gradients of activations and elementary functions that GE has as one op; order of inputs as GE has it."""

from __future__ import annotations

import math
from collections.abc import Callable

from torchair_autofuse.dtypes import F32
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.activation import GELU_CUBE, GELU_RATE, SELU_ALPHA, SELU_SCALE, gelu_form
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import FLOATS, NUMBERS, all_of, number, operands
from torchair_autofuse.lower.registry import Check, Emit, Emitter, OpView, Rule, Val, register

_TWO = operands(FLOATS, required=2, data=(0, 1), same_shape=True)
_TWO_BROADCAST = operands(FLOATS, required=2)


def _rule(
    kind: str, emit: Emit, check: Check = _TWO, *, predicate: bool = False, data: tuple[int, ...] | None = None
) -> None:
    register(Rule(kind, "pointwise", check, emit, data_inputs=data, predicate=predicate))


def _pair(formula: Callable[[Emitter, Val, Val], Val]) -> Emit:
    """A formula of the first two inputs alone."""
    return lambda e, op, args: [formula(e, get(args, 0), get(args, 1))]


def _where(e: Emitter, condition: Val, a: Val) -> Val:
    return e.op("select", condition, a, e.const(0, a.dtype))


# ---- piecewise linear: (gradient, features) -------------------------------------------------------------------------


def _relu_grad(e: Emitter, g: Val, x: Val) -> Val:
    return _where(e, e.op("gt", x, e.const(0, x.dtype)), g)


def _between(e: Emitter, x: Val, low: float, high: float) -> Val:
    above = e.op("gt", x, e.const(f.f32(low), F32))
    return e.op("and", above, e.op("lt", x, e.const(f.f32(high), F32)))


def _leaky_relu_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    g, x = get(args, 0), get(args, 1)
    scaled = e.op("mul", g, e.const(f.f32(op.attr("negative_slope", 0.0)), F32))
    return [e.op("select", f.positive(e, x), g, scaled)]


def _threshold_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    g, x = get(args, 0), get(args, 1)
    threshold = op.attr("threshold")
    if x.dtype.is_float:
        return [_where(e, e.op("gt", x, e.const(f.f32(threshold), F32)), g)]
    # for integers x > t is x > floor(t)
    return [_where(e, e.op("gt", x, e.const(math.floor(threshold), x.dtype)), g)]


def _shrink_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    g, x = get(args, 0), get(args, 1)
    outside = e.op("gt", e.op("abs", x), e.const(f.f32(op.attr("lambd", 0.5)), F32))
    return [_where(e, outside, g)]


def _hard_sigmoid_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    alpha = op.attr("alpha", 0.16666666)
    z = f.shift(e, f.scale(e, get(args, 1), alpha), op.attr("beta", 0.5))
    return [_where(e, _between(e, z, 0.0, 1.0), f.scale(e, get(args, 0), alpha))]


def _hard_swish_grad(e: Emitter, g: Val, x: Val) -> Val:
    middle = e.op("mul", g, f.shift(e, f.divide(e, x, 3.0), 0.5))
    upper = e.op("select", e.op("ge", x, e.const(3.0, F32)), g, middle)
    return e.op("select", e.op("le", x, e.const(-3.0, F32)), e.const(0.0, F32), upper)


def _hardtanh_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """Inputs (result, gradient): 0 where the result is at a bound."""
    result, g = get(args, 0), get(args, 1)
    low = e.op("le", result, e.const(f.f32(op.attr("min_val", -1.0)), F32))
    high = e.op("ge", result, e.const(f.f32(op.attr("max_val", 1.0)), F32))
    return [e.op("select", e.op("or", low, high), e.const(0.0, F32), g)]


_NUMBER_PAIR = operands(NUMBERS, required=2)
_rule("ReluGrad", _pair(_relu_grad), _NUMBER_PAIR, predicate=True)
_rule("Relu6Grad", _pair(lambda e, g, x: _where(e, _between(e, x, 0.0, 6.0), g)), predicate=True)
_rule("LeakyReluGrad", _leaky_relu_grad, all_of(_TWO_BROADCAST, number("negative_slope", 0.0)), predicate=True)
_rule(
    "ThresholdGradV2D",
    _threshold_grad,
    all_of(
        operands(NUMBERS, required=2, same_shape=True), number("threshold", where=lambda v: -(2.0**31) <= v < 2.0**31)
    ),
    predicate=True,
)
_rule("HardShrinkGrad", _shrink_grad, all_of(_TWO, number("lambd", 0.5)), predicate=True)
_rule("SoftShrinkGrad", _shrink_grad, all_of(_TWO, number("lambd", 0.5)), predicate=True)
_rule(
    "HardSigmoidGrad",
    _hard_sigmoid_grad,
    all_of(_TWO, number("alpha", 0.16666666), number("beta", 0.5)),
    predicate=True,
)
_rule("HardSwishGrad", _pair(_hard_swish_grad), predicate=True)
_rule("HardtanhGrad", _hardtanh_grad, all_of(_TWO, number("min_val", -1.0), number("max_val", 1.0)), predicate=True)


# ---- exponential linear units: (gradient, activation) ---------------------------------------------------------------


def _elu_grad(e: Emitter, g: Val, a: Val) -> Val:
    return e.op("select", f.positive(e, a), g, e.op("mul", g, f.shift(e, a, 1.0)))


def _elu_grad_v2(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """From the result (is_result) or from the input of the activation."""
    g, a = get(args, 0), get(args, 1)
    gain, rate = op.attr("scale", 1.0), op.attr("input_scale", 1.0)
    alpha = gain * op.attr("alpha", 1.0)
    if op.attr("is_result", False):
        below = f.scale(e, e.op("mul", g, f.shift(e, a, alpha)), rate)
    else:
        below = e.op("mul", f.scale(e, g, rate * alpha), e.op("exp", f.scale(e, a, rate)))
    return [e.op("select", f.positive(e, a), f.scale(e, g, gain), below)]


def _selu_grad(e: Emitter, g: Val, a: Val) -> Val:
    below = e.op("mul", g, f.shift(e, a, SELU_SCALE * SELU_ALPHA))
    return e.op("select", f.positive(e, a), f.scale(e, g, SELU_SCALE), below)


_rule("EluGrad", _pair(_elu_grad), predicate=True)
_rule(
    "EluGradV2",
    _elu_grad_v2,
    all_of(_TWO, number("alpha", 1.0), number("scale", 1.0), number("input_scale", 1.0)),
    predicate=True,
)
_rule("SeluGrad", _pair(_selu_grad), predicate=True)


# ---- sigmoid and its kin --------------------------------------------------------------------------------------------


def logistic_grad(e: Emitter, g: Val, x: Val, rate: float) -> Val:
    """Gradient of x sigmoid(rate x): g s (1 + rate x (1 - s))."""
    s = f.logistic(e, x, rate)
    return e.op("mul", e.op("mul", g, s), f.shift(e, e.op("mul", f.scale(e, x, rate), f.one_minus(e, s)), 1.0))


def _swish_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [logistic_grad(e, get(args, 0), get(args, 1), op.attr("scale", 1.0))]


def _gelu_tanh_grad(e: Emitter, g: Val, x: Val) -> Val:
    """With s = sigmoid(2 k (x + c x^3)): g (s + x s (1 - s) 2 k (1 + 3 c x^2)), equal to the form with tanh.

    s (1 - s) comes from |x|, where neither factor cancels: with q = exp(-2 k (|x| + c |x|^3)) it is q / (1 + q)^2.
    """
    square = e.op("mul", x, x)
    inner = f.shift(e, f.scale(e, square, -GELU_RATE * GELU_CUBE), -GELU_RATE)
    q = e.op("exp", e.op("mul", inner, e.op("abs", x)))
    large = e.op("div", e.const(1.0, F32), f.shift(e, q, 1.0))
    small = e.op("mul", q, large)
    slope = f.shift(e, f.scale(e, square, 3 * GELU_RATE * GELU_CUBE), GELU_RATE)
    bump = e.op("mul", e.op("mul", small, large), e.op("mul", x, slope))
    return e.op("mul", g, e.op("add", e.op("select", f.positive(e, x), large, small), bump))


def _gelu_erf_grad(e: Emitter, g: Val, x: Val) -> Val:
    """g (Phi(x) + x phi(x)); the density is 0 in f32 beyond 16, where the clamp keeps infinities out of the product."""
    phi = f.scale(e, f.shift(e, e.op("erf", f.scale(e, x, math.sqrt(0.5))), 1.0), 0.5)
    near = f.clamp(e, x, -16.0, 16.0)
    density = e.op("exp", f.scale(e, e.op("mul", near, near), -0.5))
    bump = f.scale(e, e.op("mul", near, density), 1 / math.sqrt(2 * math.pi))
    return e.op("mul", g, e.op("add", phi, bump))


def _gelu_grad_v2(e: Emitter, op: OpView, args: Args) -> list[Val]:
    form = _gelu_tanh_grad if op.attr("approximate", "none") == "tanh" else _gelu_erf_grad
    return [form(e, get(args, 0), get(args, 1))]


def _mish_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """g (t + x sigmoid(x) (1 - t^2)), t = tanh(ln(1 + exp(x))) given as third input or computed."""
    g, x = get(args, 0), get(args, 1)
    t = args[2] if len(args) > 2 else None
    if t is None:
        t, rest = f.tanh_softplus(e, x)
    else:
        rest = e.op("mul", f.one_minus(e, t), f.shift(e, t, 1.0))
    bump = e.op("mul", e.op("mul", x, f.logistic(e, x)), rest)
    return [e.op("mul", g, e.op("add", t, bump))]


def _sigmoid_grad(e: Emitter, y: Val, dy: Val) -> Val:
    return e.op("mul", e.op("mul", dy, f.one_minus(e, y)), y)


def _tanh_grad(e: Emitter, y: Val, dy: Val) -> Val:
    return e.op("mul", dy, f.one_minus(e, e.op("mul", y, y)))


def _softplus_v2_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    g, x = get(args, 0), get(args, 1)
    beta = op.attr("beta", 1.0)
    below = e.op("le", f.scale(e, x, beta), e.const(f.f32(op.attr("threshold", 20.0)), F32))
    return [e.op("select", below, f.logistic_quotient(e, g, x, beta), g)]


def _log_sigmoid_grad(e: Emitter, g: Val, x: Val) -> Val:
    return e.op("div", g, f.shift(e, e.op("exp", x), 1.0))


_rule("SwishGrad", _swish_grad, all_of(_TWO, number("scale", 1.0)), data=(0, 1))
_rule("SiluGrad", _pair(lambda e, g, x: logistic_grad(e, g, x, 1.0)))
_rule("FastGeluGrad", _pair(lambda e, g, x: logistic_grad(e, g, x, 1.702)))
_rule("GeluGrad", _pair(_gelu_tanh_grad), data=(0, 1))
_rule("GeluGradV2", _gelu_grad_v2, all_of(_TWO, gelu_form), data=(0, 1))
_rule("MishGrad", _mish_grad, operands(FLOATS, required=2, same_shape=True))
_rule("SigmoidGrad", _pair(_sigmoid_grad))
_rule("TanhGrad", _pair(_tanh_grad))
_rule("SoftplusGrad", _pair(lambda e, g, x: f.logistic_quotient(e, g, x, 1.0)))
_rule(
    "SoftplusV2Grad",
    _softplus_v2_grad,
    all_of(_TWO, number("beta", 1.0), number("threshold", 20.0)),
    predicate=True,
)
_rule("LogSigmoidGrad", _pair(_log_sigmoid_grad), _TWO_BROADCAST)


# ---- elementary functions: (result, gradient), the inverse sines (input, gradient) -----------------------------------


def _root_of_one_minus_square(e: Emitter, y: Val) -> Val:
    return e.op("sqrt", e.op("mul", f.one_minus(e, y), f.shift(e, y, 1.0)))


def _rsqrt_grad(e: Emitter, y: Val, dy: Val) -> Val:
    cube = e.op("mul", e.op("mul", y, y), y)
    return e.op("mul", f.scale(e, dy, -0.5), cube)


def _reciprocal_grad(e: Emitter, y: Val, dy: Val) -> Val:
    return e.op("mul", e.op("neg", dy), e.op("mul", y, y))


_rule("SqrtGrad", _pair(lambda e, y, dy: e.op("div", dy, f.scale(e, y, 2.0))))
_rule("RsqrtGrad", _pair(_rsqrt_grad))
_rule("ReciprocalGrad", _pair(_reciprocal_grad))
_rule("InvGrad", _pair(_reciprocal_grad))
_rule("AsinGrad", _pair(lambda e, y, dy: e.op("div", dy, _root_of_one_minus_square(e, y))))
_rule("AcosGrad", _pair(lambda e, y, dy: e.op("neg", e.op("div", dy, _root_of_one_minus_square(e, y)))))
