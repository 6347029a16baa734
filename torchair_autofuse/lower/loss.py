"""Losses and their gradients. ``reduction`` is none, mean or sum; a reduced loss is 0-d."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torchair_autofuse.dtypes import F32
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import (
    FLOATS,
    all_of,
    choice,
    dims,
    inputs_are,
    number,
    operands,
    outputs_are,
    present,
)
from torchair_autofuse.lower.norm import in_order
from torchair_autofuse.lower.reduced import (
    Axes,
    DimMap,
    Form,
    aligned,
    every_dim,
    full,
    optional,
    per_element,
    reduction,
    total,
)
from torchair_autofuse.lower.registry import RULES, Check, Emit, Emitter, OpView, Rule, Val, register

Formula = Callable[[Emitter, OpView, Args], Val]


def _reduction(op: OpView) -> str:
    return str(op.attr("reduction", "mean"))


_KNOWN = choice("reduction", "mean", "none", "mean", "sum")


def _over(op: OpView) -> tuple[int, ...]:
    return () if _reduction(op) == "none" else every_dim(op)


def _result(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    return axes.parts if _reduction(op) == "none" else ()


def _loss(kind: str, formula: Formula, *, check: Check | None = None, inputs: Mapping[int, Form] | None = None) -> None:
    """A loss per element, then its reduction. Inputs 0 and 1 have the shape of the loss."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        loss = formula(e, op, args)
        if _reduction(op) == "none":
            return [loss]
        loss = total(e, op, loss)
        return [per_element(e, op, loss) if _reduction(op) == "mean" else loss]

    forms = inputs or {0: full, 1: full}
    base = all_of(inputs_are(FLOATS, 0, 1, optional=[i for i in forms if i > 1]), outputs_are(0), _KNOWN)
    reduction(kind, emit, base if check is None else all_of(base, check), _over, forms, (_result,))


def _numel(op: OpView) -> int | None:
    info = present(op, 0)
    assert info is not None
    count = expr.product(dims(info))
    return count if isinstance(count, int) else None


def _shared(op: OpView) -> tuple[int, ...]:
    """A gradient reduces nothing; all dims only where a mean has to count its elements when the op runs."""
    return every_dim(op) if _reduction(op) == "mean" and _numel(op) is None else ()


def _gradient(
    kind: str, formula: Formula, inputs: Mapping[int, Form], *, check: Check, predicate: bool = False
) -> None:
    """The gradient of the sum, divided by the number of elements when the reduction is the mean."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        g, count = formula(e, op, args), _numel(op)
        if _reduction(op) != "mean":
            return [g]
        return [per_element(e, op, g) if count is None else f.divide(e, g, float(count))]

    base = all_of(inputs_are(FLOATS, 0, 1, 2, optional=[i for i in inputs if i > 2]), outputs_are(0), _KNOWN, check)
    reduction(kind, emit, base, _shared, inputs, (full,), predicate=predicate)


def _plain(kind: str, formula: Formula, check: Check) -> None:
    """An op on tensors of equal shapes that never reduces."""
    emit: Emit = lambda e, op, args: [formula(e, op, args)]  # noqa: E731
    register(Rule(kind, "pointwise", check, emit))


# ---- formulas ------------------------------------------------------------------------------------------------------


def _difference(e: Emitter, args: Args, first: int = 0) -> Val:
    return e.op("sub", get(args, first), get(args, first + 1))


def _mse(e: Emitter, op: OpView, args: Args) -> Val:
    d = _difference(e, args)
    return e.op("mul", d, d)


def _mse_grad(e: Emitter, op: OpView, args: Args) -> Val:
    return e.op("mul", f.scale(e, _difference(e, args), 2.0), get(args, 2))


def _l1(e: Emitter, op: OpView, args: Args) -> Val:
    return e.op("abs", _difference(e, args))


def _l1_grad(e: Emitter, op: OpView, args: Args) -> Val:
    """grads, predict, label -> grads * sign(predict - label)."""
    sign = RULES["Sign"].emit
    assert sign is not None
    return e.op("mul", get(args, 0), sign(e, op, [_difference(e, args, 1)])[0])


def _smooth_l1(e: Emitter, op: OpView, args: Args) -> Val:
    """d = |predict - label|: d^2 / (2 sigma) below sigma, else d - sigma / 2."""
    d, sigma = _l1(e, op, args), float(op.attr("sigma", 1.0))
    if sigma == 0:
        return d
    near = f.divide(e, f.scale(e, e.op("mul", d, d), 0.5), sigma)
    return e.op("select", e.op("lt", d, e.const(f.f32(sigma), F32)), near, f.shift(e, d, -0.5 * sigma))


def _smooth_l1_grad(e: Emitter, op: OpView, args: Args) -> Val:
    """predict, label, dout -> dout * clip((predict - label) / sigma, -1, 1)."""
    slope = f.divide(e, _difference(e, args), float(op.attr("sigma", 1.0)))
    return e.op("mul", get(args, 2), f.clamp(e, slope, -1.0, 1.0))


def _weighted(e: Emitter, loss: Val, weight: Val | None) -> Val:
    return loss if weight is None else e.op("mul", loss, weight)


def _bounded_log(e: Emitter, x: Val) -> Val:
    return e.op("max", e.op("log", x), e.const(-100.0, F32))


def _bce(e: Emitter, op: OpView, args: Args) -> Val:
    """x (probabilities), y, weight? -> -w * (y * max(ln x, -100) + (1 - y) * max(ln(1 - x), -100))."""
    x, y = get(args, 0), get(args, 1)
    hit = e.op("mul", y, _bounded_log(e, x))
    miss = e.op("mul", f.one_minus(e, y), _bounded_log(e, f.one_minus(e, x)))
    return _weighted(e, e.op("neg", e.op("add", hit, miss)), optional(args, 2))


def _bce_grad(e: Emitter, op: OpView, args: Args) -> Val:
    """x, y, grad, weight? -> w * grad * (x - y) / max(x * (1 - x), 1e-12)."""
    x = get(args, 0)
    below = e.op("max", e.op("mul", x, f.one_minus(e, x)), e.const(f.f32(1e-12), F32))
    slope = e.op("div", e.op("mul", get(args, 2), _difference(e, args)), below)
    return _weighted(e, slope, optional(args, 3))


def _log_one_plus_exp(e: Emitter, p: Val) -> Val:
    """ln(1 + e^-|p|)."""
    return f.log1p_unit(e, e.op("exp", e.op("neg", e.op("abs", p))))


def _sigmoid_cross_entropy(e: Emitter, op: OpView, args: Args) -> Val:
    """predict p, target t -> max(p, 0) - p t + ln(1 + e^-|p|)."""
    p = get(args, 0)
    linear = e.op("sub", e.op("max", p, e.const(0.0, F32)), e.op("mul", p, get(args, 1)))
    return e.op("add", linear, _log_one_plus_exp(e, p))


def _sigmoid_cross_entropy_v2(e: Emitter, op: OpView, args: Args) -> Val:
    """With weight? and pos_weight? q: w ((1 - t) p + (1 + (q - 1) t) (ln(1 + e^-|p|) + max(-p, 0)))."""
    p, t, positive = get(args, 0), get(args, 1), optional(args, 3)
    log = e.op("add", _log_one_plus_exp(e, p), e.op("max", e.op("neg", p), e.const(0.0, F32)))
    if positive is not None:
        log = e.op("mul", f.shift(e, e.op("mul", f.shift(e, positive, -1.0), t), 1.0), log)
    return _weighted(e, e.op("add", e.op("mul", f.one_minus(e, t), p), log), optional(args, 2))


def _sigmoid_cross_entropy_grad(e: Emitter, op: OpView, args: Args) -> Val:
    """predict, target, dout -> (sigmoid(predict) - target) * dout."""
    return e.op("mul", e.op("sub", f.logistic(e, get(args, 0)), get(args, 1)), get(args, 2))


def _soft_margin(e: Emitter, op: OpView, args: Args) -> Val:
    """ln(1 + e^(-y x))."""
    return f.softplus(e, e.op("neg", e.op("mul", get(args, 1), get(args, 0))))


# ---- rules ---------------------------------------------------------------------------------------------------------

_TWO = operands(FLOATS, required=2, same_shape=True)
_THREE = operands(FLOATS, required=3, same_shape=True)
_SIGMA = number("sigma", 1.0, where=lambda v: 0 <= v < float("inf"))
_POSITIVE_SIGMA = number("sigma", 1.0, where=lambda v: 0 < v < float("inf"))
_ALWAYS = all_of()

_loss("MseLoss", _mse)
_loss("LpLoss", _l1, check=choice("p", 1, 1))
_loss("SmoothL1LossV2", _smooth_l1, check=_SIGMA)
_loss("SoftMarginLoss", _soft_margin)
_loss("BinaryCrossEntropy", _bce, inputs={0: full, 1: full, 2: aligned})
_loss(
    "SigmoidCrossEntropyWithLogitsV2",
    _sigmoid_cross_entropy_v2,
    check=in_order("predict", "target", "weight", "pos_weight"),
    inputs={0: full, 1: full, 2: aligned, 3: aligned},
)
_plain("SmoothL1Loss", _smooth_l1, all_of(_TWO, _SIGMA))
_plain("SmoothL1LossGrad", _smooth_l1_grad, all_of(_THREE, _POSITIVE_SIGMA))
_plain("SigmoidCrossEntropyWithLogits", _sigmoid_cross_entropy, _TWO)
_plain("SigmoidCrossEntropyWithLogitsGrad", _sigmoid_cross_entropy_grad, _THREE)

_gradient("MseLossGrad", _mse_grad, {0: full, 1: full, 2: aligned}, check=_ALWAYS)
_gradient("L1LossGrad", _l1_grad, {0: full, 1: full, 2: full}, check=_ALWAYS, predicate=True)
_gradient("SmoothL1LossGradV2", _smooth_l1_grad, {0: full, 1: full, 2: aligned}, check=_POSITIVE_SIGMA)
_gradient("BinaryCrossEntropyGrad", _bce_grad, {0: full, 1: full, 2: aligned, 3: aligned}, check=_ALWAYS)
