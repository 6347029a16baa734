"""Batch norm in training, and the gradients of softmax and of the normalisations. Computed in f32, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchair_autofuse.host.ops.norm import moments
from torchair_autofuse.host.ops.numerics import (
    axes_of,
    channels_back,
    channels_first,
    channels_last,
    f32,
    mean,
    per_channel,
    reduce_rows,
)
from torchair_autofuse.host.ops.registry import OpCall, op


def _sum(t: torch.Tensor, dims: Sequence[int], keep: bool = True) -> torch.Tensor:
    return reduce_rows(t, dims, keep, lambda r: r.sum(-1))


@op("SoftmaxGrad")
def softmax_grad(call: OpCall) -> torch.Tensor:
    """softmax, grad_softmax -> softmax * (grad - sum over axes of grad * softmax)."""
    y, grad = call.tensor("softmax"), f32(call.tensor("grad_softmax"))
    dims = axes_of(call, list(call.attr("axes", [-1])), y.dim())
    return (f32(y) * (grad - _sum(grad * f32(y), dims))).to(y.dtype)


@op("LogSoftmaxGrad")
def log_softmax_grad(call: OpCall) -> torch.Tensor:
    """grad, x (the log softmax output) -> grad - e^x * sum over axis of grad."""
    grad, y = call.tensor("grad"), f32(call.tensor("x"))
    dims = axes_of(call, list(call.attr("axis", [-1])), y.dim())
    return (f32(grad) - y.exp() * _sum(f32(grad), dims)).to(grad.dtype)


@op("ConfusionSoftmaxGrad")
def confusion_softmax_grad(call: OpCall) -> torch.Tensor:
    """grad - sum over the last dim of grad * x."""
    grad, x = call.tensor("grad"), f32(call.tensor("x"))
    return (f32(grad) - _sum(f32(grad) * x, axes_of(call, [-1], x.dim()))).to(grad.dtype)


def _norm_grad(
    d: torch.Tensor, xh: torch.Tensor, rstd: torch.Tensor, dims: Sequence[int], centred: bool = True
) -> torch.Tensor:
    """rstd * (d - mean(d) - xh * mean(d * xh)): the input gradient of y = xh; without centring mean(d) is left out."""
    inner = d - xh * mean(d * xh, dims)
    return rstd * (inner - mean(d, dims) if centred else inner)


@op("LayerNormGrad", "LayerNormGradV3")
def layer_norm_grad(call: OpCall) -> list[torch.Tensor]:
    """dy, x, rstd (V3) or variance, mean, gamma -> (pd_x in x's dtype, pd_gamma, pd_beta in gamma's dtype).

    The variance form has no epsilon: it takes the variance as it was used.
    """
    dy, x, gamma = f32(call.tensor("dy")), call.tensor("x"), call.tensor("gamma")
    rstd = f32(call.tensor("rstd")) if call.type == "LayerNormGradV3" else f32(call.tensor("variance")).rsqrt()
    lead = x.dim() - gamma.dim()
    xh = (f32(x) - f32(call.tensor("mean"))) * rstd
    pd_x = _norm_grad(dy * f32(gamma), xh, rstd, list(range(lead, x.dim())))
    outer = list(range(lead))
    pd_gamma, pd_beta = _sum(dy * xh, outer, False), _sum(dy, outer, False)
    return [pd_x.to(x.dtype), pd_gamma.to(gamma.dtype), pd_beta.to(gamma.dtype)]


@op("LayerNormXBackpropV3")
def layer_norm_x_backprop(call: OpCall) -> list[torch.Tensor]:
    """dy, x, rstd, mean, gamma -> (pd_x, res_for_gamma f32 = (x - mean) * rstd)."""
    x, gamma, rstd = call.tensor("x"), call.tensor("gamma"), f32(call.tensor("rstd"))
    xh = (f32(x) - f32(call.tensor("mean"))) * rstd
    dims = list(range(x.dim() - gamma.dim(), x.dim()))
    return [_norm_grad(f32(call.tensor("dy")) * f32(gamma), xh, rstd, dims).to(x.dtype), xh]


@op("LayerNormBetaGammaBackpropV2")
def layer_norm_gamma_backprop(call: OpCall) -> list[torch.Tensor]:
    """dy, res_for_gamma -> sums over the leading dims of dy * res_for_gamma and of dy, both f32."""
    dy, xh = f32(call.tensor("dy")), f32(call.tensor("res_for_gamma"))
    outer = list(range(dy.dim() - len(call.attr("shape_gamma"))))
    return [_sum(dy * xh, outer, False), _sum(dy, outer, False)]


@op("RmsNormGrad")
def rms_norm_grad(call: OpCall) -> list[torch.Tensor]:
    """dy, x, rstd, gamma -> (dx in x's dtype, dgamma f32)."""
    dy, x, gamma = f32(call.tensor("dy")), call.tensor("x"), call.tensor("gamma")
    rstd, lead = f32(call.tensor("rstd")), x.dim() - gamma.dim()
    xh = f32(x) * rstd
    dx = _norm_grad(dy * f32(gamma), xh, rstd, list(range(lead, x.dim())), centred=False)
    return [dx.to(x.dtype), _sum(dy * xh, list(range(lead)), False)]


@op("GroupNormGrad")
def group_norm_grad(call: OpCall) -> list[torch.Tensor]:
    """dy, mean, rstd (both (N, num_groups)), x, gamma -> (dx, dgamma, dbeta), x with channels at dim 1."""
    x, groups, last = call.tensor("x"), int(call.attr("num_groups")), channels_last(call)
    a, dy = f32(channels_first(x, last)), f32(channels_first(call.tensor("dy"), last))
    gamma = call.tensor("gamma")
    split = [a.shape[0], groups, a.shape[1] // groups, *a.shape[2:]]
    stat = [a.shape[0], groups] + [1] * (len(split) - 2)
    m, rstd = f32(call.tensor("mean")).reshape(stat), f32(call.tensor("rstd")).reshape(stat)
    xh = (a.reshape(split) - m) * rstd
    d = (dy * per_channel(gamma, a)).reshape(split)
    dx = _norm_grad(d, xh, rstd, list(range(2, len(split)))).reshape(a.shape)
    outer = [0, *range(2, a.dim())]
    sums = [_sum(dy * xh.reshape(a.shape), outer, False), _sum(dy, outer, False)]
    return [channels_back(dx, last).to(x.dtype), *(t.to(gamma.dtype) for t in sums)]


def _space(a: torch.Tensor) -> list[int]:
    """The dims batch norm reduces: all but the channels."""
    return [0, *range(2, a.dim())]


def _count(a: torch.Tensor) -> int:
    return a.numel() // a.shape[1] if a.shape[1] else 0


@op("BNTrainingReduce")
def bn_training_reduce(call: OpCall) -> list[torch.Tensor]:
    """Per channel (sum, sum of squares), f32 of shape (C,)."""
    a = f32(channels_first(call.tensor("x"), channels_last(call)))
    return [_sum(a, _space(a), False), _sum(a.square(), _space(a), False)]


@op("BNTrainingUpdate")
def bn_training_update(call: OpCall) -> list[torch.Tensor]:
    """x, sum, square_sum, scale, offset, mean, variance -> (y, mean, variance, batch_mean, batch_variance).

    The running statistics become (1 - factor) * old + factor * new with the biased batch variance.
    """
    x, last = call.tensor("x"), channels_last(call)
    a, factor = f32(channels_first(x, last)), float(call.attr("factor"))
    m = f32(call.tensor("sum")) / _count(a)
    v = f32(call.tensor("square_sum")) / _count(a) - m.square()
    rstd = (v + float(call.attr("epsilon"))).rsqrt()
    scale, offset = per_channel(call.tensor("scale"), a), per_channel(call.tensor("offset"), a)
    y = scale * (a - per_channel(m, a)) * per_channel(rstd, a) + offset
    running = [
        (1.0 - factor) * f32(call.tensor(k)) + factor * new.reshape(call.tensor(k).shape)
        for k, new in (("mean", m), ("variance", v))
    ]
    return [channels_back(y, last).to(x.dtype), *running, m, v]


@op("BatchNormV3")
def batch_norm_v3(call: OpCall) -> list[torch.Tensor]:
    """x, weight, bias, running_mean, running_var -> (y, running_mean, running_var, save_mean, save_rstd).

    The running variance takes the unbiased batch variance. Without ``is_training`` the running statistics are used
    and returned unchanged. The running inputs are not written: the outputs carry their new values.
    """
    x, last = call.tensor("x"), channels_last(call)
    a = f32(channels_first(x, last))
    running_mean, running_var = f32(call.tensor("running_mean")), f32(call.tensor("running_var"))
    momentum, n = float(call.attr("momentum", 0.1)), _count(a)
    if call.attr("is_training", True):
        m, v = (t.reshape(-1) for t in moments(a, _space(a)))
        running_mean = (1.0 - momentum) * running_mean + momentum * m.reshape(running_mean.shape)
        unbiased = v * (n / max(n - 1, 1))
        running_var = (1.0 - momentum) * running_var + momentum * unbiased.reshape(running_var.shape)
    else:
        m, v = running_mean.reshape(-1), running_var.reshape(-1)
        running_mean, running_var = running_mean.clone(), running_var.clone()
    rstd = (v + float(call.attr("epsilon", 1e-5))).rsqrt()
    y = (a - per_channel(m, a)) * per_channel(rstd, a)
    y = y * per_channel(call.tensor("weight"), a) + per_channel(call.tensor("bias"), a)
    return [channels_back(y, last).to(x.dtype), running_mean, running_var, m, rstd]


@op("BatchNormGradV3")
def batch_norm_grad_v3(call: OpCall) -> list[torch.Tensor]:
    """dy, x, weight, running_mean, running_var, save_mean, save_rstd -> (dx, dweight, dbias)."""
    x, weight, last = call.tensor("x"), call.tensor("weight"), channels_last(call)
    a, dy = f32(channels_first(x, last)), f32(channels_first(call.tensor("dy"), last))
    training = bool(call.attr("is_training", True))
    if training:
        m, rstd = call.tensor("save_mean"), f32(call.tensor("save_rstd"))
    else:
        m = call.tensor("running_mean")
        rstd = (f32(call.tensor("running_var")) + float(call.attr("epsilon", 1e-5))).rsqrt()
    rstd = per_channel(rstd, a)
    xh = (a - per_channel(m, a)) * rstd
    d = dy * per_channel(weight, a)
    dx = _norm_grad(d, xh, rstd, _space(a)) if training else d * rstd
    sums = [_sum(dy * xh, _space(a), False), _sum(dy, _space(a), False)]
    return [channels_back(dx, last).to(x.dtype), *(t.to(weight.dtype) for t in sums)]


@op("BNTrainingUpdateGrad", "BN3DTrainingUpdateGrad")
def bn_training_update_grad(call: OpCall) -> list[torch.Tensor]:
    """grads, x, batch_mean, batch_variance -> (diff_scale, diff_offset), f32 of shape (C,)."""
    last = channels_last(call)
    grads, a = (f32(channels_first(call.tensor(k), last)) for k in ("grads", "x"))
    rstd = (per_channel(call.tensor("batch_variance"), a) + float(call.attr("epsilon", 1e-4))).rsqrt()
    xh = (a - per_channel(call.tensor("batch_mean"), a)) * rstd
    return [_sum(grads * xh, _space(a), False), _sum(grads, _space(a), False)]


@op("BNTrainingReduceGrad")
def bn_training_reduce_grad(call: OpCall) -> torch.Tensor:
    """grads, x, diff_scale, diff_offset, scale, batch_mean, batch_variance -> the gradient of x."""
    x, last = call.tensor("x"), channels_last(call)
    grads, a = f32(channels_first(call.tensor("grads"), last)), f32(channels_first(x, last))
    diff_scale, diff_offset, scale, m, v = (
        per_channel(call.tensor(k), a) for k in ("diff_scale", "diff_offset", "scale", "batch_mean", "batch_variance")
    )
    n, rstd = _count(a), (v + float(call.attr("epsilon", 1e-4))).rsqrt()
    y = scale * rstd * (grads - diff_offset / n - (a - m) * rstd * diff_scale / n)
    return channels_back(y, last).to(x.dtype)


@op("BNInferGrad")
def bn_infer_grad(call: OpCall) -> torch.Tensor:
    """grads, scale, batch_variance -> grads * scale / sqrt(batch_variance + epsilon)."""
    grads, last = call.tensor("grads"), channels_last(call)
    a = f32(channels_first(grads, last))
    rstd = (per_channel(call.tensor("batch_variance"), a) + float(call.attr("epsilon", 1e-4))).rsqrt()
    return channels_back(a * per_channel(call.tensor("scale"), a) * rstd, last).to(grads.dtype)
