"""Gradients of softmax and batch norm. Gradients that sum over two different sets of dims in one op are not here."""

from __future__ import annotations

from torchair_autofuse.dtypes import F32
from torchair_autofuse.loop import expr
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import FLOATS, all_of, inputs_are, number, outputs_are
from torchair_autofuse.lower.norm import channels_first, no_dims
from torchair_autofuse.lower.reduced import (
    all_but_channels,
    axes_attr,
    channel,
    full,
    per_element,
    rank,
    reduction,
    rstd,
    total,
)
from torchair_autofuse.lower.registry import Emitter, OpView, Val
from torchair_autofuse.messages import Reason

_PAIR = all_of(inputs_are(FLOATS, 0, 1), outputs_are(0))


def _softmax_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """y, dy -> y * (dy - sum of dy * y)."""
    y, dy = get(args, 0), get(args, 1)
    return [e.op("mul", y, e.op("sub", dy, total(e, op, e.op("mul", dy, y))))]


def _log_softmax_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """dy, y -> dy - e^y * sum of dy, y being the log softmax."""
    dy, y = get(args, 0), get(args, 1)
    return [e.op("sub", dy, e.op("mul", e.op("exp", y), total(e, op, dy)))]


def _confusion_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """dy, y -> dy - sum of dy * y over the last dim."""
    dy = get(args, 0)
    return [e.op("sub", dy, total(e, op, e.op("mul", dy, get(args, 1))))]


def _last_dim(op: OpView) -> tuple[int, ...]:
    return (rank(op) - 1,) if rank(op) else ()


_BOTH = {0: full, 1: full}
reduction("SoftmaxGrad", _softmax_grad, _PAIR, axes_attr("axes", (-1,), noop=None), _BOTH, (full,))
reduction("LogSoftmaxGrad", _log_softmax_grad, _PAIR, axes_attr("axis", (-1,), noop=None), _BOTH, (full,))
reduction("ConfusionSoftmaxGrad", _confusion_grad, _PAIR, _last_dim, _BOTH, (full,))


# ---- batch norm ----------------------------------------------------------------------------------------------------


def _inverse(e: Emitter, op: OpView, variance: Val) -> Val:
    return rstd(e, variance, float(op.attr("epsilon", 1e-4)))


def _bn_infer_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """grads * scale / sqrt(variance + epsilon)."""
    return [e.op("mul", get(args, 0), e.op("mul", get(args, 1), _inverse(e, op, get(args, 2))))]


def _bn_update_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """grads, x, mean, variance -> per channel (sum of grads * (x - mean) / sqrt(variance + epsilon), sum of grads)."""
    g, x, centre, variance = (get(args, i) for i in range(4))
    products = total(e, op, e.op("mul", g, e.op("sub", x, centre)))
    return [e.op("mul", products, _inverse(e, op, variance)), total(e, op, g)]


def _bn_reduce_grad(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """With n elements per channel and xh = (x - mean) * rstd: scale * rstd * (grads - d_offset/n - xh * d_scale/n).

    grads, x, d_scale, d_offset, scale, mean, variance; nothing but the last product varies within a channel.
    """
    g, x, d_scale, d_offset, scale, centre, variance = (get(args, i) for i in range(7))
    inverse = _inverse(e, op, variance)
    slope = e.op("mul", inverse, _per_channel_element(e, op, d_scale))
    inner = e.op(
        "sub", e.op("sub", g, _per_channel_element(e, op, d_offset)), e.op("mul", e.op("sub", x, centre), slope)
    )
    return [e.op("mul", inner, e.op("mul", scale, inverse))]


def _channel_size(op: OpView) -> int | None:
    """Elements per channel, if that is no symbolic size."""
    info = op.inputs[0]
    assert info is not None and info.shape is not None
    size = expr.product(d for k, d in enumerate(info.shape) if k != 1)
    return size if isinstance(size, int) else None


def _per_channel_element(e: Emitter, op: OpView, x: Val) -> Val:
    size = _channel_size(op)
    return per_element(e, op, x) if size is None else f.divide(e, x, float(size))


def _counted(op: OpView) -> tuple[int, ...] | Reason:
    """The dims that a channel extends over, where their number of elements has to be counted when the op runs."""
    return () if rank(op) >= 2 and _channel_size(op) is not None else all_but_channels(op)


_EPSILON = number("epsilon", 1e-4)
_CHANNELS = channels_first("NCHW")
reduction(
    "BNInferGrad",
    _bn_infer_grad,
    all_of(inputs_are(FLOATS, 0, 1, 2), outputs_are(0), _CHANNELS, _EPSILON),
    no_dims,
    {0: full, 1: channel, 2: channel},
    (full,),
)
for _type in ("BNTrainingUpdateGrad", "BN3DTrainingUpdateGrad"):
    reduction(
        _type,
        _bn_update_grad,
        all_of(inputs_are(FLOATS, 0, 1, 2, 3), outputs_are(F32, F32), _CHANNELS, _EPSILON),
        all_but_channels,
        {0: full, 1: full, 2: channel, 3: channel},
        (channel, channel),
    )
reduction(
    "BNTrainingReduceGrad",
    _bn_reduce_grad,
    all_of(inputs_are(FLOATS, *range(7)), outputs_are(0), _CHANNELS, _EPSILON),
    _counted,
    {0: full, 1: full, **dict.fromkeys(range(2, 7), channel)},
    (full,),
)
