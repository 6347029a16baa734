"""Softmax and normalisations, forward. Everything is computed in f32 (f64 stays f64) and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchair_autofuse.host.ops.numerics import (
    axes_of,
    channels_back,
    channels_first,
    channels_last,
    f32,
    mean,
    per_channel,
    reduce_rows,
    rows,
)
from torchair_autofuse.host.ops.registry import OpCall, op


def log_sum_exp(z: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """ln(sum of e^z) over ``dims``, kept as 1."""
    return reduce_rows(z, dims, True, lambda t: t.exp().sum(-1).log())


def centred(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """x minus its maximum over ``dims``. A row of -inf becomes NaN, as in the unfused op."""
    if not rows(x, dims).shape[-1]:
        return x
    return x - reduce_rows(x, dims, True, lambda t: t.amax(-1))


@op("SoftmaxV2")
def softmax(call: OpCall) -> torch.Tensor:
    """Softmax over the attribute ``axes``; ``half_to_float`` gives f32."""
    x = call.tensor(0)
    dims = axes_of(call, list(call.attr("axes", [-1])), x.dim())
    e = centred(f32(x), dims).exp()
    y = e / reduce_rows(e, dims, True, lambda t: t.sum(-1))
    return y.to(torch.float32 if call.attr("half_to_float", False) else x.dtype)


@op("LogSoftmaxV2")
def log_softmax(call: OpCall) -> torch.Tensor:
    """z - ln(sum e^z), z = x - max, over the attribute ``axes``."""
    x = call.tensor(0)
    dims = axes_of(call, list(call.attr("axes", [-1])), x.dim())
    z = centred(f32(x), dims)
    return (z - log_sum_exp(z, dims)).to(x.dtype)


def moments(x: torch.Tensor, dims: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """(mean, biased variance) over ``dims``, kept as 1."""
    m = mean(x, dims)
    return m, mean((x - m).square(), dims)


def _affine(y: torch.Tensor, gamma: torch.Tensor | None, beta: torch.Tensor | None) -> torch.Tensor:
    y = y if gamma is None else y * f32(gamma)
    return y if beta is None else y + f32(beta)


def _layer_norm(
    x: torch.Tensor, n: int, gamma: torch.Tensor | None, beta: torch.Tensor | None, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(y, mean, variance, rstd) of a layer norm over the last ``n`` dims, all f32."""
    dims = list(range(x.dim() - n, x.dim()))
    m, v = moments(x, dims)
    rstd = (v + epsilon).rsqrt()
    return _affine((x - m) * rstd, gamma, beta), m, v, rstd


@op("LayerNormV4")
def layer_norm_v4(call: OpCall) -> list[torch.Tensor]:
    """x, normalized_shape, gamma?, beta? -> (y, mean f32, rstd f32); the normalised dims are kept as 1.

    Raises ValueError when normalized_shape is not the tail of x's shape.
    """
    x, shape = call.tensor("x"), call.ints("normalized_shape")
    if list(x.shape[x.dim() - len(shape) :]) != shape:
        raise ValueError(f"LayerNormV4 {call.name}: {shape} is not the tail of x's shape {list(x.shape)}")
    gamma, beta = call.optional("gamma"), call.optional("beta")
    y, m, _, rstd = _layer_norm(f32(x), len(shape), gamma, beta, float(call.attr("epsilon", 1e-5)))
    return [y.to(x.dtype), m, rstd]


@op("LayerNorm", "LayerNormV3")
def layer_norm(call: OpCall) -> list[torch.Tensor]:
    """x, gamma, beta over the dims from ``begin_norm_axis``: (y, mean, variance), for V3 (y, mean, rstd)."""
    x, gamma, beta = call.tensor("x"), call.tensor("gamma"), call.tensor("beta")
    begin = int(call.attr("begin_norm_axis", 0)) % max(x.dim(), 1)
    first = int(call.attr("begin_params_axis", 0)) % max(x.dim(), 1)
    tail = list(x.shape[first:])
    epsilon = float(call.attr("epsilon", 1e-7 if call.type == "LayerNorm" else 1e-5))
    y, m, v, rstd = _layer_norm(f32(x), x.dim() - begin, gamma.reshape(tail), beta.reshape(tail), epsilon)
    return [y.to(x.dtype), m.to(x.dtype), (v if call.type == "LayerNorm" else rstd).to(x.dtype)]


@op("AddLayerNorm")
def add_layer_norm(call: OpCall) -> list[torch.Tensor]:
    """x = x1 + x2 (+ bias), layer norm over the dims of gamma: (y, mean f32, rstd f32, x)."""
    x1, gamma, bias = call.tensor("x1"), call.tensor("gamma"), call.optional("bias")
    x = f32(x1) + f32(call.tensor("x2"))
    x = x if bias is None else x + f32(bias)
    epsilon = float(call.attr("epsilon", 1e-5))
    y, m, _, rstd = _layer_norm(x, gamma.dim(), gamma, call.tensor("beta"), epsilon)
    return [y.to(x1.dtype), m, rstd, x.to(x1.dtype)]


@op("DeepNorm")
def deep_norm(call: OpCall) -> list[torch.Tensor]:
    """z = alpha * x + gx, layer norm over the dims of gamma: (mean f32, rstd f32, y)."""
    x, gamma = call.tensor("x"), call.tensor("gamma")
    z = f32(x) * float(call.attr("alpha", 0.3)) + f32(call.tensor("gx"))
    y, m, _, rstd = _layer_norm(z, gamma.dim(), gamma, call.tensor("beta"), float(call.attr("epsilon", 1e-6)))
    return [m, rstd, y.to(x.dtype)]


def rms(x: torch.Tensor, n: int, epsilon: float) -> torch.Tensor:
    """1 / sqrt(mean of x^2 over the last ``n`` dims + epsilon), those dims kept as 1."""
    return (mean(x.square(), list(range(x.dim() - n, x.dim()))) + epsilon).rsqrt()


@op("RmsNorm", "GemmaRmsNorm")
def rms_norm(call: OpCall) -> list[torch.Tensor]:
    """x, gamma -> (y, rstd f32) over the dims of gamma; the Gemma form multiplies by 1 + gamma."""
    x, gamma = call.tensor("x"), call.tensor("gamma")
    rstd = rms(f32(x), gamma.dim(), float(call.attr("epsilon", 1e-6)))
    scale = f32(gamma) + (1.0 if call.type == "GemmaRmsNorm" else 0.0)
    return [(f32(x) * rstd * scale).to(x.dtype), rstd]


@op("AddRmsNorm", "AddRmsNormCast")
def add_rms_norm(call: OpCall) -> list[torch.Tensor]:
    """x = x1 + x2 (not rounded before the norm): (y, rstd f32, x); the Cast form (y f32, y, rstd, x)."""
    x1, gamma = call.tensor("x1"), call.tensor("gamma")
    x = f32(x1) + f32(call.tensor("x2"))
    rstd = rms(x, gamma.dim(), float(call.attr("epsilon", 1e-6)))
    y = (x * rstd * f32(gamma)).to(x1.dtype)
    rest = [y, rstd, x.to(x1.dtype)]
    return [y.float(), *rest] if call.type == "AddRmsNormCast" else rest


_GROUP_EPS = {"GroupNorm": 1e-4, "GroupNormV2": 1e-5, "GroupNormSilu": 1e-4, "GroupNormSwish": 1e-5}


@op("GroupNorm", "GroupNormV2", "GroupNormSilu", "GroupNormSwish")
def group_norm(call: OpCall) -> list[torch.Tensor]:
    """x (N, C, ...), gamma, beta -> (y, mean, statistic), statistics of shape (N, num_groups) in x's dtype.

    The statistic is the biased variance of GroupNorm and the rstd of the others. Silu and Swish multiply the result
    by its sigmoid. Raises ValueError when num_groups does not divide C.
    """
    x, groups, last = call.tensor("x"), int(call.attr("num_groups")), channels_last(call)
    a = f32(channels_first(x, last))
    if groups < 1 or a.shape[1] % groups:
        raise ValueError(f"{call.type} {call.name}: num_groups {groups} does not divide {a.shape[1]} channels")
    grouped = a.reshape(a.shape[0], groups, a.shape[1] // groups, *a.shape[2:])
    dims = list(range(2, grouped.dim()))
    m, v = moments(grouped, dims)
    rstd = (v + float(call.attr("eps", _GROUP_EPS[call.type]))).rsqrt()
    y = ((grouped - m) * rstd).reshape(a.shape)
    gamma, beta = call.optional("gamma"), call.optional("beta")
    y = y if gamma is None else y * per_channel(gamma, a)
    y = y if beta is None else y + per_channel(beta, a)
    if call.type == "GroupNormSilu" and call.attr("activate_silu", True):
        y = y * y.sigmoid()
    if call.type == "GroupNormSwish" and call.attr("activate_swish", True):
        y = y * (y * float(call.attr("swish_scale", 1.0))).sigmoid()
    third = v if call.type == "GroupNorm" else rstd
    stats = [t.reshape(a.shape[0], groups).to(x.dtype) for t in (m, third)]
    return [channels_back(y, last).to(x.dtype), *stats]


@op("InstanceNorm")
def instance_norm(call: OpCall) -> list[torch.Tensor]:
    """Statistics per sample and channel: (y, mean, variance), the spatial dims of the statistics kept as 1."""
    x, last = call.tensor("x"), channels_last(call, "NDHWC")
    a = f32(channels_first(x, last))
    m, v = moments(a, list(range(2, a.dim())))
    y = (a - m) * (v + float(call.attr("epsilon", 1e-6))).rsqrt()
    y = y * per_channel(call.tensor("gamma"), a) + per_channel(call.tensor("beta"), a)
    return [channels_back(t, last).to(x.dtype) for t in (y, m, v)]


@op("BNInfer")
def bn_infer(call: OpCall) -> torch.Tensor:
    """x, scale, offset, mean, variance per channel: scale * (x - mean) / sqrt(variance + epsilon) + offset."""
    x, last = call.tensor("x"), channels_last(call)
    a = f32(channels_first(x, last))
    scale, offset, m, v = (per_channel(call.tensor(k), a) for k in ("scale", "offset", "mean", "variance"))
    y = scale * (a - m) * (v + float(call.attr("epsilon", 1e-5))).rsqrt() + offset
    return channels_back(y, last).to(x.dtype)


@op("MaskedSoftmaxWithRelPosBias")
def masked_softmax_with_bias(call: OpCall) -> torch.Tensor:
    """softmax(x * scale_value + atten_mask + relative_pos_bias) over the last dim."""
    x, mask = call.tensor("x"), call.optional("atten_mask")
    z = f32(x) * float(call.attr("scale_value", 1.0)) + f32(call.tensor("relative_pos_bias"))
    z = z if mask is None else z + f32(mask)
    e = centred(z, [z.dim() - 1]).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)
