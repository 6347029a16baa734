"""Softmax and normalisations, forward. Variances are biased and come from deviations, never from E[x^2] - E[x]^2."""

from __future__ import annotations

from collections.abc import Mapping

from torchair_autofuse.dtypes import F16, F32, DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import (
    FLOATS,
    all_of,
    dims,
    input_name,
    inputs_are,
    number,
    outputs_are,
    present,
    refuse,
    shape_text,
)
from torchair_autofuse.lower.reduced import (
    Axes,
    DimMap,
    Form,
    Over,
    affine,
    aligned,
    axes_attr,
    channel,
    full,
    kept,
    mean,
    moments,
    normalised,
    optional,
    rank,
    reduce,
    reduction,
    refine,
    rstd,
    spec,
    tail,
)
from torchair_autofuse.lower.registry import Check, Emit, Emitter, IndexSpec, OpView, Val
from torchair_autofuse.messages import Reason

_SAME = outputs_are(0)


def in_order(*names: str) -> Check:
    """The inputs stand at their positions: ops with absent optional inputs may be written without a gap for them."""

    def check(op: OpView) -> Reason | None:
        for i, name in enumerate(op.node.input_names):
            if name in names and names.index(name) != i:
                return refuse(op, f"input {name} stands at position {i}, expected {names.index(name)}")
        return None

    return check


# ---- softmax -------------------------------------------------------------------------------------------------------


def _softmax(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """e^(x - m) / sum of e^(x - m), m the maximum. A row of -inf gives NaN."""
    x = get(args, 0)
    m, s = reduce(e, op, "maxsumexp", x)
    return [e.op("div", e.op("exp", e.op("sub", x, m)), s)]


def _log_softmax(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    m, s = reduce(e, op, "maxsumexp", x)
    return [e.op("sub", e.op("sub", x, m), e.op("log", s))]


def _softmax_result(op: OpView) -> Reason | None:
    """f16 may give f32 (half_to_float); for bf16 that is not documented."""
    widened = op.attr("half_to_float", False) and op.dtype(0) == F16
    expected: DType | int = F32 if widened else 0
    return outputs_are(expected)(op)


_LAST = axes_attr("axes", (-1,), noop=None)
reduction("SoftmaxV2", _softmax, all_of(inputs_are(FLOATS, 0), _softmax_result), _LAST, {0: full}, (full,))
reduction("LogSoftmaxV2", _log_softmax, all_of(inputs_are(FLOATS, 0), _SAME), _LAST, {0: full}, (full,))


# ---- layer norm ----------------------------------------------------------------------------------------------------


def _layer_norm(e: Emitter, op: OpView, x: Val, gamma: Val | None, beta: Val | None, eps: float) -> list[Val]:
    """[y, mean, variance, rstd] with y = (x - mean) * rstd * gamma + beta."""
    centre, variance = moments(e, op, x)
    inverse = rstd(e, variance, eps)
    y = affine(e, e.op("mul", e.op("sub", x, centre), inverse), gamma, beta)
    return [y, centre, variance, inverse]


def _eps(op: OpView, default: float, name: str = "epsilon") -> float:
    return float(op.attr(name, default))


def _layer_norm_v4(e: Emitter, op: OpView, args: Args) -> list[Val]:
    y, centre, _, inverse = _layer_norm(e, op, get(args, 0), optional(args, 2), optional(args, 3), _eps(op, 1e-5))
    return [y, centre, inverse]


def _normalized_shape(op: OpView) -> tuple[int, ...] | Reason:
    """As many last dims as the input normalized_shape has elements, which are their sizes."""
    info, sizes = present(op, 0), op.ints(1)
    assert info is not None
    if sizes is None:
        return refuse(op, f"{input_name(op, 1)} (the normalised shape) is not a constant")
    last = dims(info)[max(0, rank(op) - len(sizes)) :]
    if len(last) != len(sizes) or not all(expr.equal(a, b) for a, b in zip(last, sizes)):
        text = f"normalised shape {shape_text(sizes)} is not known to be the tail of {shape_text(dims(info))}"
        return refuse(op, text, "AF204")
    return tuple(range(rank(op) - len(sizes), rank(op)))


reduction(
    "LayerNormV4",
    _layer_norm_v4,
    all_of(
        inputs_are(FLOATS, 0, optional=(2, 3)),
        in_order("x", "normalized_shape", "gamma", "beta"),
        outputs_are(0, FLOATS, FLOATS),
        number("epsilon", 1e-5),
    ),
    _normalized_shape,
    {0: full, 2: tail, 3: tail},
    (full, kept, kept),
)


def _from_begin(op: OpView) -> tuple[int, ...] | Reason:
    """Dims from attribute begin_norm_axis on."""
    begin = normalised(op, (op.attr("begin_norm_axis", 0),), "attribute begin_norm_axis")
    return begin if isinstance(begin, Reason) else tuple(range(begin[0], rank(op))) if begin else ()


def _params(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """gamma and beta: dims from attribute begin_params_axis on."""
    begin = normalised(op, (op.attr("begin_params_axis", 0),), "attribute begin_params_axis")
    assert not isinstance(begin, Reason)
    return axes.parts[begin[0] :] if begin else ()


def _begin_params(op: OpView) -> Reason | None:
    begin = normalised(op, (op.attr("begin_params_axis", 0),), "attribute begin_params_axis")
    return begin if isinstance(begin, Reason) else None


def _old_layer_norm(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """(y, mean, variance); of V3 (y, mean, rstd)."""
    eps = _eps(op, _OLD_EPS[op.node.type])
    y, centre, variance, inverse = _layer_norm(e, op, get(args, 0), get(args, 1), get(args, 2), eps)
    return [y, centre, variance if op.node.type == "LayerNorm" else inverse]


_OLD_EPS = {"LayerNorm": 1e-7, "LayerNormV3": 1e-5}
for _type, _default in _OLD_EPS.items():
    reduction(
        _type,
        _old_layer_norm,
        all_of(inputs_are(FLOATS, 0, 1, 2), outputs_are(0, FLOATS, FLOATS), number("epsilon", _default), _begin_params),
        _from_begin,
        {0: full, 1: _params, 2: _params},
        (full, kept, kept),
    )


def _dims_of(position: int) -> Over:
    """As many last dims as input ``position`` has."""

    def over(op: OpView) -> tuple[int, ...] | Reason:
        info = present(op, position)
        assert info is not None
        count = len(dims(info))
        if count > rank(op):
            return refuse(op, f"{input_name(op, position)} has rank {count}, input 0 rank {rank(op)}")
        return tuple(range(rank(op) - count, rank(op)))

    return over


def _add_layer_norm(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """(y, mean, rstd, x) of x = x1 + x2 (+ bias), which is not rounded before it is normalised."""
    x, bias = e.op("add", get(args, 0), get(args, 1)), optional(args, 4)
    x = x if bias is None else e.op("add", x, bias)
    y, centre, _, inverse = _layer_norm(e, op, x, get(args, 2), get(args, 3), _eps(op, 1e-5))
    return [y, centre, inverse, x]


reduction(
    "AddLayerNorm",
    _add_layer_norm,
    all_of(inputs_are(FLOATS, 0, 1, 2, 3, optional=(4,)), outputs_are(0, F32, F32, 0), number("epsilon", 1e-5)),
    _dims_of(2),
    {0: full, 1: full, 2: tail, 3: tail, 4: aligned},
    (full, kept, kept, full),
)


# ---- root mean square ----------------------------------------------------------------------------------------------


def _rms_norm(e: Emitter, op: OpView, x: Val, gamma: Val) -> tuple[Val, Val]:
    """(x * rstd * gamma, rstd) with rstd = 1 / sqrt(mean of x^2 + epsilon)."""
    inverse = rstd(e, mean(e, op, e.op("mul", x, x)), _eps(op, 1e-6))
    return e.op("mul", e.op("mul", x, inverse), gamma), inverse


def _rms(one: bool) -> Emit:
    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        gamma = get(args, 1)
        return list(_rms_norm(e, op, get(args, 0), f.shift(e, gamma, 1.0) if one else gamma))

    return emit


def _add_rms_norm(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """(y, rstd, x) of x = x1 + x2, not rounded before the norm; the Cast form has y as f32, then y, in front."""
    x = e.op("add", get(args, 0), get(args, 1))
    y, inverse = _rms_norm(e, op, x, get(args, 2))
    if op.node.type == "AddRmsNorm":
        return [y, inverse, x]
    y = e.cast(e.cast(y, op.dtype(0)), F32)
    return [y, y, inverse, x]


for _type in ("RmsNorm", "GemmaRmsNorm"):
    reduction(
        _type,
        _rms(_type == "GemmaRmsNorm"),
        all_of(inputs_are(FLOATS, 0, 1), outputs_are(0, F32), number("epsilon", 1e-6)),
        _dims_of(1),
        {0: full, 1: tail},
        (full, kept),
    )
for _type in ("AddRmsNorm", "AddRmsNormCast"):
    reduction(
        _type,
        _add_rms_norm,
        all_of(
            inputs_are(FLOATS, 0, 1, 2),
            outputs_are(0, F32, 0) if _type == "AddRmsNorm" else outputs_are(F32, 0, F32, 0),
            number("epsilon", 1e-6),
        ),
        _dims_of(2),
        {0: full, 1: full, 2: tail},
        (full, kept, full) if _type == "AddRmsNorm" else (full, full, kept, full),
    )


# ---- per channel ---------------------------------------------------------------------------------------------------


def channels_first(default: str) -> Check:
    """The channels are dim 1.

    TorchAir writes the layout it has, always channels first, into input_layout_info and leaves data_format alone. A
    list that is not of names is what is left of a mixed one, of such layouts.
    """

    def check(op: OpView) -> Reason | None:
        if rank(op) < 2:
            return refuse(op, f"input 0 has rank {rank(op)}, expected the channels in dim 1")
        info = op.attr("input_layout_info")
        if info is None:
            layout = str(op.attr("data_format", default))
        else:
            names = [v.decode() if isinstance(v, bytes) else v for v in info if isinstance(v, (bytes, str))]
            layout = next((n for n in names if n != "ND"), "NCHW")
        if rank(op) == 2 or layout in ("NCHW", "NCDHW", "NCL", "ND"):
            return None
        return refuse(op, f"layout {layout} is not supported, only channels in dim 1")

    return check


def _groups(op: OpView) -> tuple[Expr, Expr] | Reason:
    """(groups, channels per group)."""
    info, groups = present(op, 0), op.attr("num_groups")
    assert info is not None
    channels = dims(info)[1]
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        return refuse(op, f"attribute num_groups = {groups!r}, expected a positive integer")
    each: Expr | None = 0 if channels == 0 else expr.quotient(channels, groups)
    if each is None:
        return refuse(op, f"num_groups {groups} is not known to divide {expr.to_str(channels)} channels")
    return groups, each


def _group_dims(op: OpView) -> tuple[int, ...] | Reason:
    """The dims whose inner part is reduced: the channels within a group, and space."""
    found = _groups(op)
    return found if isinstance(found, Reason) else tuple(range(1, rank(op)))


def _group_statistic(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """[N, groups]"""
    groups = _groups(op)
    assert not isinstance(groups, Reason)
    return axes.parts[0], axes.parts[1][:1] if groups[0] != 1 else ()


_GROUP_INPUTS: Mapping[int, Form] = {0: full, 1: channel, 2: channel}
_GROUP_OUTPUTS: tuple[Form, ...] = (full, _group_statistic, _group_statistic)


def _group_index(op: OpView) -> IndexSpec:
    info, groups = present(op, 0), _groups(op)
    assert info is not None and not isinstance(groups, Reason)
    axes = refine(dims(info), {1: groups})
    within = axes.parts[1] if groups[0] == 1 else axes.parts[1][1:]
    reduced = (*within, *axes.positions(range(2, rank(op))))
    return spec(op, axes, reduced, (), _GROUP_INPUTS, _GROUP_OUTPUTS)


_GROUP_NORMS: dict[str, tuple[float, str]] = {  # default of eps, and of data_format
    "GroupNorm": (1e-4, "NHWC"),
    "GroupNormV2": (1e-5, "NHWC"),
    "GroupNormSilu": (1e-4, "NCHW"),
    "GroupNormSwish": (1e-5, "NCHW"),
}


def _group_norm(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """(y, mean, statistic): the variance of GroupNorm, the rstd of the others. Silu and Swish: y * sigmoid(scale y)."""
    kind = op.node.type
    eps = _eps(op, _GROUP_NORMS[kind][0], "eps")
    y, centre, variance, inverse = _layer_norm(e, op, get(args, 0), optional(args, 1), optional(args, 2), eps)
    if kind == "GroupNormSilu" and op.attr("activate_silu", True):
        y = e.op("mul", y, f.logistic(e, y))
    if kind == "GroupNormSwish" and op.attr("activate_swish", True):
        y = e.op("mul", y, f.logistic(e, y, float(op.attr("swish_scale", 1.0))))
    return [y, centre, variance if kind == "GroupNorm" else inverse]


for _type, (_default, _layout) in _GROUP_NORMS.items():
    reduction(
        _type,
        _group_norm,
        all_of(
            inputs_are(FLOATS, 0, optional=(1, 2)),
            in_order("x", "gamma", "beta"),
            outputs_are(0, FLOATS, FLOATS),
            channels_first(_layout),
            number("eps", _default),
            number("swish_scale", 1.0),
        ),
        _group_dims,
        _GROUP_INPUTS,
        _GROUP_OUTPUTS,
        index=_group_index,
    )


def _bn_infer(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """scale * (x - mean) / sqrt(variance + epsilon) + offset; the factor per channel is computed once."""
    x, scale, offset, centre, variance = (get(args, i) for i in range(5))
    factor = e.op("mul", scale, rstd(e, variance, _eps(op, 1e-5)))
    return [e.op("add", e.op("mul", e.op("sub", x, centre), factor), offset)]


def no_dims(op: OpView) -> tuple[int, ...]:
    """Nothing is reduced: the index maps only say which dim holds the channels."""
    return ()


reduction(
    "BNInfer",
    _bn_infer,
    all_of(inputs_are(FLOATS, 0, 1, 2, 3, 4), _SAME, channels_first("NCHW"), number("epsilon", 1e-5)),
    no_dims,
    {0: full, 1: channel, 2: channel, 3: channel, 4: channel},
    (full,),
)
