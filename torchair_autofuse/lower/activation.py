"""Activation functions (float tensors; Relu and Relu6 of integers too).

Formulas are GE's, in forms that neither overflow nor lose the small results; a NaN input gives NaN, and an infinite one
what GE's formula gives (swish and gelu at -inf: NaN, as -inf * 0).
"""

from __future__ import annotations

import math

from torchair_autofuse.dtypes import F32
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.arithmetic import Args, get, unary
from torchair_autofuse.lower.checks import (
    FLOATS,
    NUMBERS,
    all_of,
    dims,
    number,
    one_element,
    operands,
    refuse,
    same_dims,
    shape_text,
)
from torchair_autofuse.lower.registry import Check, Emit, Emitter, OpView, Rule, Val, register
from torchair_autofuse.messages import Reason

_FLOAT = operands(FLOATS)


def _rule(kind: str, emit: Emit, check: Check = _FLOAT, *, predicate: bool = False) -> None:
    register(Rule(kind, "pointwise", check, emit, predicate=predicate))


# ---- piecewise linear ---------------------------------------------------------------------------------------------


def _relu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [e.op("max", x, e.const(0, x.dtype))]


def _relu6(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [e.op("min", e.op("max", x, e.const(0, x.dtype)), e.const(6, x.dtype))]


def _leaky_relu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """x where x > 0, else slope x; for slopes in (0, 1] that is the larger of the two, NaN and infinities included."""
    x, slope = get(args, 0), op.attr("negative_slope", 0.0)
    scaled = e.op("mul", x, e.const(f.f32(slope), F32))
    if 0 < f.f32(slope) <= 1:
        return [e.op("max", x, scaled)]
    return [e.op("select", f.positive(e, x), x, scaled)]


def _prelu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x, weight = get(args, 0), get(args, 1)
    return [e.op("select", f.positive(e, x), x, e.op("mul", x, weight))]


def _prelu_weight(op: OpView) -> Reason | None:
    """One weight, or one per channel (dim 1) where broadcasting from the right puts it there."""
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    shape, w = dims(x), dims(weight)
    if len(w) <= len(shape):
        aligned = (1,) * (len(shape) - len(w)) + tuple(w)
        others = [d for k, d in enumerate(aligned) if k != 1]
        if all(d == 1 for d in others) and (len(shape) < 2 or aligned[1] == 1 or same_dims(aligned[1:2], shape[1:2])):
            return None
    text = f"weight {shape_text(w)} of x {shape_text(shape)}"
    return refuse(op, f"{text}; expected one element, or the channels in dim 1 and ones elsewhere, as in [1, C, 1, 1]")


def _threshold(e: Emitter, op: OpView, args: Args) -> list[Val]:
    above = e.op("gt", get(args, 0), e.const(f.f32(op.attr("threshold", 0.0)), F32))
    return [e.op("select", above, e.const(1.0, F32), e.const(0.0, F32))]


def _threshold_v2(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """x above the threshold, else the value (0 where that input is absent)."""
    x, threshold = get(args, 0), get(args, 1)
    value = args[2] if len(args) > 2 else None
    fill = value if value is not None else e.const(0, x.dtype)
    return [e.op("select", e.op("le", x, threshold), fill, x)]


def _hard_shrink(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    inside = e.op("le", e.op("abs", x), e.const(f.f32(op.attr("lambd", 0.5)), F32))
    return [e.op("select", inside, e.const(0.0, F32), x)]


def _soft_shrink(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """x moved toward 0 by lambda, stopping there: x - clamp(x, -lambda, lambda)."""
    x, bound = get(args, 0), op.attr("lambd", 0.5)
    return [e.op("sub", x, f.clamp(e, x, -bound, bound))]


def _hard_sigmoid(e: Emitter, op: OpView, args: Args) -> list[Val]:
    z = f.shift(e, f.scale(e, get(args, 0), op.attr("alpha", 0.16666666)), op.attr("beta", 0.5))
    return [f.clamp(e, z, 0.0, 1.0)]


def _hard_swish(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [f.divide(e, e.op("mul", x, f.clamp(e, f.shift(e, x, 3.0), 0.0, 6.0)), 6.0)]


_rule("Relu", _relu, operands(NUMBERS))
_rule("Relu6", _relu6, operands(NUMBERS))
_rule("LeakyRelu", _leaky_relu, all_of(_FLOAT, number("negative_slope", 0.0)))
_rule("PRelu", _prelu, all_of(operands(FLOATS, required=2), _prelu_weight))
_rule("Threshold", _threshold, all_of(_FLOAT, number("threshold", 0.0)), predicate=True)
_rule("ThresholdV2", _threshold_v2, all_of(operands(NUMBERS, required=2), one_element(1, 2)), predicate=True)
_rule("HardShrink", _hard_shrink, all_of(_FLOAT, number("lambd", 0.5)), predicate=True)
_rule(
    "SoftShrink", _soft_shrink, all_of(_FLOAT, number("lambd", 0.5, where=lambda v: 0 <= v < math.inf)), predicate=True
)
_rule("HardSigmoid", _hard_sigmoid, all_of(_FLOAT, number("alpha", 0.16666666), number("beta", 0.5)))
_rule("HardSwish", _hard_swish)


# ---- exponential linear units ---------------------------------------------------------------------------------------


def exponential_linear(e: Emitter, x: Val, gain: float, alpha: float, rate: float, *, quotient: bool = False) -> Val:
    """gain x where x > 0, else alpha (exp(rate x) - 1); ``quotient``: exp(x / rate)."""
    inner = f.divide(e, x, rate) if quotient else f.scale(e, x, rate)
    below = f.scale(e, f.expm1(e, inner, nonpositive=rate > 0), alpha)
    return e.op("select", f.positive(e, x), f.scale(e, x, gain), below)


def _elu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    gain = op.attr("scale", 1.0)
    return [exponential_linear(e, get(args, 0), gain, gain * op.attr("alpha", 1.0), op.attr("input_scale", 1.0))]


def _celu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)): one of the two is 0 whatever the sign of alpha."""
    alpha = op.attr("alpha", 1.0)
    return [exponential_linear(e, get(args, 0), 1.0, alpha, alpha, quotient=True)]


SELU_SCALE = 1.05070098735548049
SELU_ALPHA = 1.67326324235437728


def _selu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [exponential_linear(e, get(args, 0), SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1.0)]


def _celu_alphas(op: OpView) -> Reason | None:
    alphas = [op.attr(f"alpha{i}", 1.0) for i in (1, 2, 3)]
    if alphas == [1.0, 1.0, 1.0]:
        return None
    return refuse(op, f"alpha1..3 = {alphas}: their meaning is documented for 1 only")


_rule(
    "Elu",
    _elu,
    all_of(_FLOAT, number("alpha", 1.0), number("scale", 1.0), number("input_scale", 1.0, where=lambda v: v != 0)),
)
_rule("Celu", _celu, all_of(_FLOAT, _celu_alphas))
_rule("CeluV2", _celu, all_of(_FLOAT, number("alpha", 1.0, where=lambda v: math.isfinite(v) and v != 0)))
_rule("Selu", _selu)


# ---- sigmoid and its kin --------------------------------------------------------------------------------------------


def _swish(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [f.logistic_quotient(e, x, x, op.attr("scale", 1.0))]


def _fast_gelu(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [f.logistic_quotient(e, x, x, 1.702)]


def _fast_gelu_v2(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """x (s (-0.1444 (min(|0.7071 x|, 1.769) - 1.769)^2 + 0.5) + 0.5), s the sign of x + 1e-12 as a quotient."""
    x = get(args, 0)
    moved = f.shift(e, x, 1e-12)
    sign = e.op("div", moved, e.op("abs", moved))
    near = f.shift(e, e.op("min", e.op("abs", f.scale(e, x, 0.7071)), e.const(f.f32(1.769), F32)), -1.769)
    bump = f.shift(e, f.scale(e, e.op("mul", near, near), -0.1444), 0.5)
    return [e.op("mul", x, f.shift(e, e.op("mul", sign, bump), 0.5))]


GELU_RATE = 2 * math.sqrt(2 / math.pi)
GELU_CUBE = 0.044715


def gelu_tanh(e: Emitter, x: Val) -> Val:
    """x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))), equal to the form with tanh."""
    inner = f.shift(e, f.scale(e, e.op("mul", x, x), -GELU_RATE * GELU_CUBE), -GELU_RATE)
    return e.op("div", x, f.shift(e, e.op("exp", e.op("mul", inner, x)), 1.0))


def gelu_erf(e: Emitter, x: Val) -> Val:
    """x (1 + erf(x / sqrt 2)) / 2."""
    phi = f.shift(e, e.op("erf", f.scale(e, x, math.sqrt(0.5))), 1.0)
    return e.op("mul", f.scale(e, x, 0.5), phi)


def _gelu_v2(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [gelu_tanh(e, x) if op.attr("approximate", "none") == "tanh" else gelu_erf(e, x)]


def gelu_form(op: OpView) -> Reason | None:
    form = op.attr("approximate", "none")
    return None if form in ("none", "tanh") else refuse(op, f"attribute approximate = {form!r} is not supported")


def _mish(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [e.op("mul", x, f.tanh_softplus(e, x)[0])]


def _log_sigmoid(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    tail = f.log1p_unit(e, e.op("exp", e.op("neg", e.op("abs", x))))
    return [e.op("sub", e.op("min", x, e.const(0.0, F32)), tail)]


def _softplus_v2(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """softplus(beta x) / beta up to the threshold, x beyond; from 20 on with beta 1 the two are the same f32."""
    x, beta, threshold = get(args, 0), op.attr("beta", 1.0), op.attr("threshold", 20.0)
    z = f.scale(e, x, beta)
    smooth = f.divide(e, f.softplus(e, z), beta)
    if beta == 1 and threshold >= 20:
        return [smooth]
    return [e.op("select", e.op("le", z, e.const(f.f32(threshold), F32)), smooth, x)]


def _softsign(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [e.op("div", x, f.shift(e, e.op("abs", x), 1.0))]


_rule("Sigmoid", unary("sigmoid"))
_rule("Tanh", unary("tanh"))
_rule("Swish", _swish, all_of(_FLOAT, number("scale", 1.0)))
_rule("FastGelu", _fast_gelu)
_rule("FastGeluV2", _fast_gelu_v2)
_rule("Gelu", lambda e, op, args: [gelu_tanh(e, get(args, 0))])
_rule("GeluV2", _gelu_v2, all_of(_FLOAT, gelu_form))
_rule("Mish", _mish)
_rule("LogSigmoid", _log_sigmoid)
_rule("Softplus", lambda e, op, args: [f.softplus(e, get(args, 0))])
_rule(
    "SoftplusV2",
    _softplus_v2,
    all_of(_FLOAT, number("beta", 1.0, where=lambda v: math.isfinite(v) and v != 0), number("threshold", 20.0)),
)
_rule("Softsign", _softsign)
