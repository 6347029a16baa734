"""Reductions: Reduce* and their D forms, p-norms, standard deviations, searches for an extreme.

An op whose axes are empty reduces nothing or everything, by the attribute noop_with_empty_axes; a reduction over an
empty set gives the op's identity. f16 and bf16 accumulate in f32, integers wrap in their own type.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torchair_autofuse.dtypes import BOOL, F16, F32, HALF_FLOATS, I32, I64
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import (
    FLOATS,
    NUMBERS,
    all_of,
    choice,
    dims,
    inputs_are,
    number,
    outputs_are,
    present,
    refuse,
)
from torchair_autofuse.lower.reduced import (
    Over,
    all_but_channels,
    axes_attr,
    axes_input,
    channel,
    dropped,
    every_dim,
    full,
    keep_by,
    mean,
    normalised,
    per_element,
    reduce,
    reduction,
    total,
)
from torchair_autofuse.lower.registry import Check, Emit, Emitter, OpView, Val
from torchair_autofuse.lower.transcendental import power
from torchair_autofuse.messages import Reason

_SAME = outputs_are(0)
_FLOAT = all_of(inputs_are(FLOATS, 0), _SAME)
_NUMBER = all_of(inputs_are(NUMBERS, 0), _SAME)
_TRUTH = all_of(inputs_are((BOOL,), 0), outputs_are(BOOL))


def square(e: Emitter, x: Val) -> Val:
    return e.op("mul", x, x)


def _plain(combiner: str) -> Emit:
    return lambda e, op, args: [reduce(e, op, combiner, get(args, 0))[0]]


def _of(function: Callable[[Emitter, OpView, Val], Val]) -> Emit:
    return lambda e, op, args: [function(e, op, get(args, 0))]


_AXES = axes_input(1)
_REDUCTIONS: dict[str, tuple[Emit, Check]] = {
    "ReduceSum": (_plain("sum"), _NUMBER),
    "ReduceProd": (_plain("prod"), _NUMBER),
    "ReduceMax": (_plain("max"), _NUMBER),
    "ReduceMin": (_plain("min"), _NUMBER),
    "ReduceMean": (_of(mean), _FLOAT),
    "ReduceAny": (_plain("any"), _TRUTH),
    "ReduceAll": (_plain("all"), _TRUTH),
    "EuclideanNorm": (_of(lambda e, op, x: e.op("sqrt", total(e, op, square(e, x)))), _FLOAT),
    "ReduceLogSum": (_of(lambda e, op, x: e.op("log", total(e, op, x))), _FLOAT),
    # as documented, without a maximum taken out: who emits this op has subtracted it before
    "ReduceLogSumExp": (_of(lambda e, op, x: e.op("log", total(e, op, e.op("exp", x)))), _FLOAT),
}
for _type, (_emit, _check) in _REDUCTIONS.items():
    reduction(_type, _emit, _check, _AXES, {0: full}, (keep_by("keep_dims"),))
for _type in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"):
    _emit, _check = _REDUCTIONS[_type]
    _noop = False if _type == "ReduceMean" else None
    reduction(_type + "D", _emit, _check, axes_attr("axes", noop=_noop), {0: full}, (keep_by("keep_dims"),))
reduction(
    "SquareSumV1",
    _of(lambda e, op, x: total(e, op, square(e, x))),
    _FLOAT,
    axes_attr("axis"),
    {0: full},
    (keep_by("keep_dims"),),
)
reduction(
    "L2Loss",
    _of(lambda e, op, x: f.scale(e, total(e, op, square(e, x)), 0.5)),
    _FLOAT,
    every_dim,
    {0: full},
    (dropped,),
)


def _mean_with_cast(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """x is converted to the attribute dtype, the result's, before it is summed."""
    x, dest = get(args, 0), op.out_dtype()
    if dest in HALF_FLOATS and op.dtype(0) != dest:
        x = e.cast(e.cast(x, dest), F32)
    return [mean(e, op, x)]


reduction(
    "ReduceMeanWithCast",
    _mean_with_cast,
    all_of(inputs_are(FLOATS, 0), outputs_are(FLOATS)),
    _AXES,
    {0: full},
    (keep_by("keep_dims"),),
)


# ---- p-norm --------------------------------------------------------------------------------------------------------

_LEAST_F16 = 2.0**-24


def _order(op: OpView) -> float:
    """p; infinity is sent as the ends of 32-bit integers."""
    p = float(op.attr("p", 2.0))
    return math.copysign(math.inf, p) if abs(p) >= 2147483647 else p


def _lp_norm(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """max((sum of |x|^p)^(1/p), epsilon); p = 0 counts what is not zero."""
    x, p, least = get(args, 0), _order(op), float(op.attr("epsilon", 1e-12))
    if p == 0:
        y = total(e, op, e.cast(e.op("ne", x, e.const(0.0, F32)), F32))
    elif p == 2:
        y = e.op("sqrt", total(e, op, square(e, x)))
    elif math.isinf(p):
        y = reduce(e, op, "max" if p > 0 else "min", e.op("abs", x))[0]
    elif p == 1:
        y = total(e, op, e.op("abs", x))
    else:
        y = power(e, total(e, op, power(e, e.op("abs", x), p)), 1.0 / p)
    # what is not negative needs no clamp at 0, but the maximum of nothing is -inf
    return [e.op("max", y, e.const(f.f32(max(least, 0.0)), F32)) if least > 0 or p == math.inf else y]


def _lp_norm_epsilon(op: OpView) -> Reason | None:
    least = float(op.attr("epsilon", 1e-12))
    if op.dtype(0) == F16 and 0 < least < _LEAST_F16:
        return refuse(op, f"attribute epsilon = {least!r} on f16, where the op clamps at a larger value of its own")
    return None


reduction(
    "LpNormV2",
    _lp_norm,
    all_of(_FLOAT, number("p", 2.0, where=lambda p: not math.isnan(p)), number("epsilon", 1e-12), _lp_norm_epsilon),
    axes_attr("axes", ()),
    {0: full},
    (keep_by("keepdim"),),
    predicate=True,  # p = 0 compares
)


# ---- variance ------------------------------------------------------------------------------------------------------

_DIM = axes_attr("dim", ())


def _correction(op: OpView) -> int:
    return int(op.attr("correction", 1)) if op.attr("unbiased", True) else 0


def _deviation(root: Callable[[OpView], bool]) -> Emit:
    """Of x and a mean of its shape: the variance over ``dim``, or its root."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        squares = total(e, op, square(e, e.op("sub", get(args, 0), get(args, 1))))
        variance = per_element(e, op, squares, _correction(op))
        return [e.op("sqrt", variance) if root(op) else variance]

    return emit


def _variance(root: bool) -> Emit:
    """(variance over ``dim`` or its root, mean)."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        centre, squares = reduce(e, op, "welford", get(args, 0))
        variance = per_element(e, op, squares, _correction(op))
        return [e.op("sqrt", variance) if root else variance, centre]

    return emit


_WITH_MEAN = all_of(inputs_are(FLOATS, 0, 1), _SAME)
reduction(
    "ReduceStdWithMean",
    _deviation(lambda op: True),
    all_of(_WITH_MEAN, choice("invert", False, False)),  # where epsilon enters the reciprocal is open
    _DIM,
    {0: full, 1: full},
    (keep_by("keepdim"),),
)
reduction(
    "ReduceStdV2Update",
    _deviation(lambda op: bool(op.attr("if_std", False))),
    _WITH_MEAN,
    axes_attr("dim"),
    {0: full, 1: full},
    (keep_by("keepdim"),),
)
for _type in ("ReduceVar", "ReduceStdV2"):
    reduction(
        _type,
        _variance(_type == "ReduceStdV2"),
        all_of(inputs_are(FLOATS, 0), outputs_are(0, 0)),
        _DIM,
        {0: full},
        (keep_by("keepdim"),) * 2,
    )


def _channel_sums(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """Sums of x and of x^2 per channel."""
    x = get(args, 0)
    return [total(e, op, x), total(e, op, square(e, x))]


reduction(
    "BNTrainingReduce",
    _channel_sums,
    all_of(inputs_are(FLOATS, 0), outputs_are(F32, F32)),
    all_but_channels,
    {0: full},
    (channel, channel),
)


# ---- position of an extreme ----------------------------------------------------------------------------------------


def _extreme(e: Emitter, op: OpView, x: Val, least: bool) -> tuple[Val, Val]:
    """(greatest or least value, index of its first occurrence). The least is the greatest of the negated."""
    value, index = reduce(e, op, "argmax", e.op("neg", x) if least else x)
    return (e.op("neg", value) if least else value), index


def _arg_with_value(least: bool) -> Emit:
    """(index i32, value): the index is the first output."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        value, index = _extreme(e, op, get(args, 0), least)
        return [index, value]

    return emit


def _arg(least: bool) -> Emit:
    return lambda e, op, args: [e.cast(_extreme(e, op, get(args, 0), least)[1], op.out_dtype())]


def _one(over: Over) -> Over:
    """Exactly one dim is searched."""

    def check(op: OpView) -> tuple[int, ...] | Reason:
        found = over(op)
        if isinstance(found, Reason) or len(found) == 1:
            return found
        return refuse(op, f"a search over {len(found)} dims, expected one")

    return check


def _dimension_input(op: OpView) -> tuple[int, ...] | Reason:
    values, info = op.ints(1), present(op, 1)
    if values is None or info is None or len(dims(info)) > 1:
        return refuse(op, "input dimension is not a constant with one element")
    return normalised(op, values, "input dimension")


for _type in ("ArgMaxWithValue", "ArgMinWithValue"):
    _least = _type == "ArgMinWithValue"
    reduction(
        _type,
        _arg_with_value(_least),
        all_of(inputs_are(FLOATS if _least else NUMBERS, 0), outputs_are(I32, 0)),
        _one(axes_attr("dimension", noop=True)),
        {0: full},
        (keep_by("keep_dims"),) * 2,
        predicate=True,
    )
for _type in ("ArgMaxV2", "ArgMin"):
    _least = _type == "ArgMin"
    reduction(
        _type,
        _arg(_least),
        all_of(inputs_are(FLOATS if _least else NUMBERS, 0), outputs_are((I32, I64))),
        _one(_dimension_input),
        {0: full},
        (dropped,),
        predicate=True,
    )
reduction(
    "ArgMaxD",
    _arg(False),
    all_of(inputs_are(FLOATS, 0), outputs_are((I32, I64))),
    _one(axes_attr("dimension", noop=True)),
    {0: full},
    (dropped,),
    predicate=True,
)
