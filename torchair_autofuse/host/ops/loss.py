"""Losses and their gradients. Computed in f32 and rounded once; ``reduction`` is none, mean or sum."""

from __future__ import annotations

import torch

from torchair_autofuse.host.ops.norm import centred, log_sum_exp
from torchair_autofuse.host.ops.numerics import f32
from torchair_autofuse.host.ops.registry import OpCall, op


def _reduced(call: OpCall, loss: torch.Tensor, dtype: torch.dtype, default: str = "mean") -> torch.Tensor:
    """A loss by the attribute ``reduction``; 0-d unless it is none. Raises ValueError for an unknown one."""
    reduction = str(call.attr("reduction", default))
    if reduction == "none":
        return loss.to(dtype)
    if reduction == "sum":
        return loss.sum().to(dtype)
    if reduction == "mean":
        return loss.mean().to(dtype)
    if reduction == "batchmean":
        return (loss.sum() / loss.shape[0]).to(dtype)
    raise ValueError(f"{call.type} {call.name}: unknown reduction {reduction!r}")


def _share(call: OpCall, gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A gradient of the sum, divided by the number of elements when the reduction is the mean."""
    mean = str(call.attr("reduction", "mean")) == "mean"
    return (gradient / like.numel() if mean else gradient).to(like.dtype)


@op("MseLoss")
def mse_loss(call: OpCall) -> torch.Tensor:
    """predict, label -> (predict - label)^2."""
    x = call.tensor("predict")
    return _reduced(call, (f32(x) - f32(call.tensor("label"))).square(), x.dtype)


@op("MseLossGrad")
def mse_loss_grad(call: OpCall) -> torch.Tensor:
    """predict, label, dout -> 2 * (predict - label) * dout."""
    x = call.tensor("predict")
    return _share(call, 2.0 * (f32(x) - f32(call.tensor("label"))) * f32(call.tensor("dout")), x)


@op("LpLoss")
def lp_loss(call: OpCall) -> torch.Tensor:
    """predict, label -> |predict - label|. Raises ValueError unless p is 1."""
    if int(call.attr("p", 1)) != 1:
        raise ValueError(f"LpLoss {call.name}: p must be 1, got {call.attr('p')}")
    x = call.tensor("predict")
    return _reduced(call, (f32(x) - f32(call.tensor("label"))).abs(), x.dtype)


@op("L1LossGrad")
def l1_loss_grad(call: OpCall) -> torch.Tensor:
    """grads, predict, label -> grads * sign(predict - label)."""
    x = call.tensor("predict")
    return _share(call, f32(call.tensor("grads")) * (f32(x) - f32(call.tensor("label"))).sign(), x)


@op("SmoothL1Loss", "SmoothL1LossV2")
def smooth_l1_loss(call: OpCall) -> torch.Tensor:
    """d = |predict - label|: d^2 / (2 sigma) below sigma, d - sigma / 2 above; only V2 reduces."""
    x, sigma = call.tensor("predict"), float(call.attr("sigma", 1.0))
    d = (f32(x) - f32(call.tensor("label"))).abs()
    loss = torch.where(d < sigma, 0.5 * d.square() / sigma if sigma else d, d - 0.5 * sigma)
    return loss.to(x.dtype) if call.type == "SmoothL1Loss" else _reduced(call, loss, x.dtype)


@op("SmoothL1LossGrad", "SmoothL1LossGradV2")
def smooth_l1_loss_grad(call: OpCall) -> torch.Tensor:
    """predict, label, dout -> dout * clip((predict - label) / sigma, -1, 1)."""
    x, sigma = call.tensor("predict"), float(call.attr("sigma", 1.0))
    d = f32(x) - f32(call.tensor("label"))
    gradient = f32(call.tensor("dout")) * ((d / sigma).clamp(-1.0, 1.0) if sigma else d.sign())
    return gradient.to(x.dtype) if call.type == "SmoothL1LossGrad" else _share(call, gradient, x)


@op("KLDiv", "KLDivV2")
def kl_div(call: OpCall) -> torch.Tensor:
    """x (log probabilities), target -> target * (ln target - x), 0 where the target is 0; ``log_target`` of V2."""
    x, target = call.tensor("x"), f32(call.tensor("target"))
    if call.attr("log_target", False):
        return _reduced(call, target.exp() * (target - f32(x)), x.dtype)
    return _reduced(call, torch.xlogy(target, target) - target * f32(x), x.dtype)


@op("BinaryCrossEntropy")
def binary_cross_entropy(call: OpCall) -> torch.Tensor:
    """x (probabilities), y, weight? -> -w * (y * max(ln x, -100) + (1 - y) * max(ln(1 - x), -100))."""
    x, y, weight = call.tensor("x"), f32(call.tensor("y")), call.optional("weight")
    p = f32(x)
    loss = -(y * p.log().clamp(min=-100.0) + (1.0 - y) * (1.0 - p).log().clamp(min=-100.0))
    return _reduced(call, loss if weight is None else loss * f32(weight), x.dtype)


@op("BinaryCrossEntropyGrad")
def binary_cross_entropy_grad(call: OpCall) -> torch.Tensor:
    """x, y, grad_output, weight? -> w * grad_output * (x - y) / max(x * (1 - x), 1e-12)."""
    x, weight = call.tensor("x"), call.optional("weight")
    p = f32(x)
    gradient = f32(call.tensor("grad_output")) * (p - f32(call.tensor("y"))) / (p * (1.0 - p)).clamp(min=1e-12)
    return _share(call, gradient if weight is None else gradient * f32(weight), x)


def _log_one_plus_exp(p: torch.Tensor) -> torch.Tensor:
    """ln(1 + e^-|p|), which never overflows."""
    return (-p.abs()).exp().log1p()


@op("SigmoidCrossEntropyWithLogits", "SigmoidCrossEntropyWithLogitsV2")
def sigmoid_cross_entropy(call: OpCall) -> torch.Tensor:
    """predict, target, V2: weight?, pos_weight? -> max(p, 0) - p * t + ln(1 + e^-|p|); only V2 reduces."""
    x, t = call.tensor("predict"), f32(call.tensor("target"))
    p, weight, positive = f32(x), call.optional("weight"), call.optional("pos_weight")
    if call.type == "SigmoidCrossEntropyWithLogits":
        return (p.clamp(min=0.0) - p * t + _log_one_plus_exp(p)).to(x.dtype)
    slope = 1.0 if positive is None else 1.0 + (f32(positive) - 1.0) * t
    loss = (1.0 - t) * p + slope * (_log_one_plus_exp(p) + (-p).clamp(min=0.0))
    return _reduced(call, loss if weight is None else loss * f32(weight), x.dtype)


@op("SigmoidCrossEntropyWithLogitsGrad")
def sigmoid_cross_entropy_grad(call: OpCall) -> torch.Tensor:
    """predict, target, dout -> (sigmoid(predict) - target) * dout."""
    x = call.tensor("predict")
    return ((f32(x).sigmoid() - f32(call.tensor("target"))) * f32(call.tensor("dout"))).to(x.dtype)


@op("SoftMarginLoss")
def soft_margin_loss(call: OpCall) -> torch.Tensor:
    """input_x, input_y -> ln(1 + e^(-input_y * input_x))."""
    x = call.tensor("input_x")
    z = -f32(call.tensor("input_y")) * f32(x)
    return _reduced(call, z.clamp(min=0.0) + _log_one_plus_exp(z), x.dtype)


def _log_softmax(x: torch.Tensor) -> torch.Tensor:
    z = centred(x, [x.dim() - 1])
    return z - log_sum_exp(z, [z.dim() - 1])


@op("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(call: OpCall) -> list[torch.Tensor]:
    """features (N, C), labels (N, C), sparse: class ids (N,) -> (loss (N,), softmax(features) - labels)."""
    x, labels = call.tensor("features"), call.tensor("labels")
    logp = _log_softmax(f32(x))
    if call.type.startswith("Sparse"):
        hot = torch.zeros_like(logp).scatter(-1, labels.long().unsqueeze(-1), 1.0)
    else:
        hot = f32(labels)
    loss = -torch.where(hot == 0, torch.zeros_like(logp), hot * logp).sum(-1)
    return [loss.to(x.dtype), (logp.exp() - hot).to(x.dtype)]


def _classes(call: OpCall, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(x as (N, C, ...), valid class ids with a class dim, weight of each element, 0 where it is ignored)."""
    a = x if x.dim() > 1 else x.unsqueeze(0)
    ids = target.long().reshape(a.shape[0], *a.shape[2:])
    ignored = ids == int(call.attr("ignore_index", -100))
    ids = ids.masked_fill(ignored, 0)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < a.shape[1]:
        raise ValueError(f"{call.type} {call.name}: a target is outside the {a.shape[1]} classes")
    weight = call.optional("weight")
    w = torch.ones(ids.shape, dtype=f32(x).dtype) if weight is None else f32(weight)[ids]
    return a, ids.unsqueeze(1), w.masked_fill(ignored, 0.0)


@op("NLLLoss")
def nll_loss(call: OpCall) -> list[torch.Tensor]:
    """x (N, C, ...), target (N, ...), weight? -> (y, total_weight), 0-d unless the reduction is none.

    The mean divides by the sum of the weights: NaN when every target is ignored.
    """
    x, target = call.tensor("x"), call.tensor("target")
    a, ids, w = _classes(call, x, target)
    picked = f32(a).gather(1, ids).squeeze(1)
    loss = torch.where(w == 0, torch.zeros_like(picked), -w * picked)
    total = w.sum()
    reduction = str(call.attr("reduction", "mean"))
    if reduction == "mean":
        return [(loss.sum() / total).to(x.dtype), total.to(x.dtype)]
    return [_reduced(call, loss, x.dtype).reshape(target.shape if reduction == "none" else ()), total.to(x.dtype)]


@op("NLLLossGrad")
def nll_loss_grad(call: OpCall) -> torch.Tensor:
    """x, y_grad, target, weight, total_weight -> the gradient of x: -weight * g at the target, 0 elsewhere."""
    x, target = call.tensor("x"), call.tensor("target")
    a, ids, w = _classes(call, x, target)
    g = f32(call.tensor("y_grad"))
    if str(call.attr("reduction", "mean")) == "mean":
        g = g / f32(call.tensor("total_weight")).reshape(())
    g = g.reshape(w.shape) if g.numel() == w.numel() else g.reshape(()).expand(w.shape)
    picked = torch.where(w == 0, torch.zeros_like(w), -w * g)
    return torch.zeros_like(f32(a)).scatter(1, ids, picked.unsqueeze(1)).reshape(x.shape).to(x.dtype)
