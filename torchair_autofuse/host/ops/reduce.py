"""Reductions: Reduce*, their D forms (axes as an attribute), norms, standard deviations, dynamic quantisation.

Empty ``axes`` reduce nothing unless ``noop_with_empty_axes`` is false. A reduction over an empty set gives the
identity of the op. f16 and bf16 accumulate in f32; integers wrap in their own type.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchair_autofuse.host.ops.numerics import (
    axes_of,
    dtype_attr,
    f32,
    kept_shape,
    reduce_rows,
    wide,
)
from torchair_autofuse.host.ops.numerics import mean as mean_over
from torchair_autofuse.host.ops.registry import OpCall, op

Rows = Callable[[torch.Tensor], torch.Tensor]


def _extreme(t: torch.Tensor, largest: bool) -> torch.Tensor:
    """Maximum or minimum of the last dim; of nothing: -inf or inf, for integers the end of their range."""
    if t.shape[-1]:
        return t.amax(-1) if largest else t.amin(-1)
    if t.is_floating_point():
        fill: float | int = float("-inf") if largest else float("inf")
    elif t.dtype == torch.bool:
        fill = 0 if largest else 1
    else:
        fill = torch.iinfo(t.dtype).min if largest else torch.iinfo(t.dtype).max
    return torch.full(t.shape[:-1], fill, dtype=t.dtype)


def _mean(t: torch.Tensor) -> torch.Tensor:
    if t.is_floating_point():
        return t.sum(-1) / t.shape[-1] if t.shape[-1] else t.sum(-1) / 0.0
    return torch.div(t.sum(-1, dtype=t.dtype), max(t.shape[-1], 1), rounding_mode="trunc").to(t.dtype)


_ROWS: dict[str, Rows] = {
    "ReduceSum": lambda t: t.sum(-1, dtype=t.dtype),
    "ReduceMean": _mean,
    "ReduceMax": lambda t: _extreme(t, True),
    "ReduceMin": lambda t: _extreme(t, False),
    "ReduceProd": lambda t: t.prod(-1, dtype=t.dtype),
    "ReduceAny": lambda t: t.bool().any(-1),
    "ReduceAll": lambda t: t.bool().all(-1),
    "ReduceLogSum": lambda t: f32(t).sum(-1).log(),
    # the plain formula, which overflows on its own: TorchAir subtracts the maximum before
    "ReduceLogSumExp": lambda t: f32(t).exp().sum(-1).log(),
    "EuclideanNorm": lambda t: f32(t).square().sum(-1).sqrt(),
    "SquareSumV1": lambda t: t.square().sum(-1, dtype=t.dtype),
}


def _reduced(call: OpCall, kind: str, axes: list[int], noop: bool) -> torch.Tensor:
    x = call.tensor("x")
    dims = axes_of(call, axes, x.dim())
    if not axes and not noop:
        dims = list(range(x.dim()))
    result = reduce_rows(wide(x), dims, bool(call.attr("keep_dims", False)), _ROWS[kind])
    return result.to(x.dtype)


@op(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceAny", "ReduceAll", "ReduceLogSum",
    "ReduceLogSumExp", "EuclideanNorm",
)  # fmt: skip
def reduction(call: OpCall) -> torch.Tensor:
    """x, axes (integer tensor) -> y of x's dtype."""
    noop = bool(call.attr("noop_with_empty_axes", call.type != "ReduceLogSumExp"))
    return _reduced(call, call.type, call.ints("axes"), noop)


@op("ReduceSumD", "ReduceMeanD", "ReduceMaxD", "ReduceMinD", "ReduceProdD")
def reduction_d(call: OpCall) -> torch.Tensor:
    """x -> y over the attribute ``axes``."""
    noop = bool(call.attr("noop_with_empty_axes", call.type != "ReduceMeanD"))
    return _reduced(call, call.type[:-1], list(call.attr("axes", [])), noop)


@op("SquareSumV1")
def square_sum(call: OpCall) -> torch.Tensor:
    """Sum of squares over the attribute ``axis``."""
    return _reduced(call, call.type, list(call.attr("axis", [])), bool(call.attr("noop_with_empty_axes", False)))


@op("ReduceMeanWithCast")
def reduce_mean_with_cast(call: OpCall) -> torch.Tensor:
    """Mean of x converted to the attribute ``dtype``, which is also the result's."""
    x = call.tensor("x")
    dtype = dtype_attr(call, "dtype", None) if call.attr("dtype", 28) != 28 else x.dtype  # 28: undefined
    axes = call.ints("axes")
    dims = axes_of(call, axes, x.dim())
    if not axes and not call.attr("noop_with_empty_axes", True):
        dims = list(range(x.dim()))
    return reduce_rows(wide(x.to(dtype)), dims, bool(call.attr("keep_dims", False)), _mean).to(dtype)


@op("L2Loss")
def l2_loss(call: OpCall) -> torch.Tensor:
    """Half the sum of squares, 0-d."""
    x = call.tensor("x")
    return (wide(x).square().sum() / 2).to(x.dtype)


@op("LpNormV2")
def lp_norm(call: OpCall) -> torch.Tensor:
    """p-norm over ``axes`` (none given: all), clamped from below by ``epsilon``. Infinity is sent as +-(2^31 - 1)."""
    x = call.tensor("x")
    p = float(call.attr("p", 2.0))
    if abs(p) >= 2147483647:
        p = float("inf") if p > 0 else float("-inf")
    axes = list(call.attr("axes", []))
    dims = axes_of(call, axes, x.dim()) if axes else list(range(x.dim()))

    def norm(t: torch.Tensor) -> torch.Tensor:
        t = t.abs()
        if p == float("inf"):
            return _extreme(t, True).clamp(min=0.0)
        if p == float("-inf"):
            return _extreme(t, False)
        if p == 0:
            return (t != 0).sum(-1).to(t.dtype)
        return t.pow(p).sum(-1).pow(1.0 / p)

    result = reduce_rows(f32(x), dims, bool(call.attr("keepdim", False)), norm)
    return result.clamp(min=float(call.attr("epsilon", 1e-12))).to(x.dtype)


def _dims(call: OpCall) -> list[int]:
    axes = list(call.attr("dim", []) or [])
    rank = call.tensor("x").dim()
    return axes_of(call, axes, rank) if axes else list(range(rank))


def _variance(call: OpCall, mean: torch.Tensor) -> torch.Tensor:
    """Variance over the attribute ``dim`` (none given: all); the divisor is max(0, N - correction)."""
    x = call.tensor("x")
    correction = int(call.attr("correction", 1)) if call.attr("unbiased", True) else 0
    keep = bool(call.attr("keepdim", False))
    squares = (f32(x) - f32(mean)).square()
    return reduce_rows(squares, _dims(call), keep, lambda t: t.sum(-1) / float(max(0, t.shape[-1] - correction)))


@op("ReduceVar", "ReduceStdV2")
def reduce_var(call: OpCall) -> list[torch.Tensor]:
    """(variance or standard deviation, mean)."""
    x, dims = call.tensor("x"), _dims(call)
    centre = mean_over(f32(x), dims)
    variance = _variance(call, centre)
    first = variance.sqrt() if call.type == "ReduceStdV2" else variance
    shape = kept_shape(x, dims, bool(call.attr("keepdim", False)))
    return [first.to(x.dtype), centre.reshape(shape).to(x.dtype)]


@op("ReduceStdWithMean")
def reduce_std_with_mean(call: OpCall) -> torch.Tensor:
    """Standard deviation from x and a mean of the shape of x; ``invert`` gives 1/sqrt(variance + epsilon)."""
    variance = _variance(call, call.tensor("mean"))
    if call.attr("invert", False):
        variance = (variance + float(call.attr("epsilon", 0.001))).reciprocal()
    return variance.sqrt().to(call.tensor("x").dtype)


@op("ReduceStdV2Update")
def reduce_std_update(call: OpCall) -> torch.Tensor:
    """Variance, or standard deviation with ``if_std``, from x and a mean of the shape of x."""
    variance = _variance(call, call.tensor("mean"))
    return (variance.sqrt() if call.attr("if_std", False) else variance).to(call.tensor("x").dtype)


def _scaled(call: OpCall) -> torch.Tensor:
    if call.optional("group_index") is not None:
        raise ValueError(f"{call.type} {call.name}: input group_index is not modelled on the host")
    if dtype_attr(call, "dst_type", torch.int8) != torch.int8:
        raise ValueError(f"{call.type} {call.name}: only dst_type int8 is modelled on the host")
    smooth = call.optional("smooth_scales")
    x = f32(call.tensor("x"))
    return x if smooth is None else x * f32(smooth)


@op("DynamicQuant")
def dynamic_quant(call: OpCall) -> list[torch.Tensor]:
    """Symmetric int8 quantisation per row of the last dim: (y i8, scale f32 without the last dim)."""
    z = _scaled(call)
    scale = z.abs().amax(-1, keepdim=True) / 127.0
    quantised = torch.where(scale == 0, torch.zeros_like(z), (z / scale).round())  # a zero row stays zero
    return [quantised.to(torch.int8), scale.squeeze(-1)]


@op("DynamicQuantV2")
def dynamic_quant_v2(call: OpCall) -> list[torch.Tensor]:
    """Asymmetric int8 quantisation per row of the last dim: (y i8, scale f32, offset f32)."""
    if call.attr("is_symmetrical", False) or call.attr("quant_mode", "pertoken") != "pertoken":
        raise ValueError(f"{call.type} {call.name}: only asymmetric pertoken quantisation is modelled on the host")
    z = _scaled(call)
    top = z.amax(-1, keepdim=True)
    scale = (top - z.amin(-1, keepdim=True)) / 255.0
    offset = 127.0 - top / scale
    return [(z / scale + offset).round().to(torch.int8), scale.squeeze(-1), offset.squeeze(-1)]
