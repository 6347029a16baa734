"""Activations. Formulas in the comments; half types are computed in f32 and rounded once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchair_autofuse.host.ops.pointwise import (
    FLOAT,
    ORDERED,
    common_dtype,
    down,
    one_element,
    pointwise,
    up,
)
from torchair_autofuse.host.ops.registry import OpCall, op

SELU_ALPHA = 1.67326324235437728
SELU_SCALE = 1.05070098735548049
GELU_CUBIC = 0.044715
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def softplus(x: Tensor) -> Tensor:
    """ln(1 + e^x) without overflow."""
    return torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))


def relu(x: Tensor) -> Tensor:
    """0 where x <= 0, else x: NaN stays, -0 gives 0."""
    return torch.where(x <= 0, torch.zeros_like(x), x)


@pointwise("Relu", arity=1, kinds=ORDERED)
def _relu(call: OpCall, x: Tensor) -> Tensor:
    return relu(x)


@pointwise("Relu6", arity=1, kinds=ORDERED)
def _relu6(call: OpCall, x: Tensor) -> Tensor:
    return torch.clamp(relu(x), max=6)


@pointwise("Sigmoid", arity=1)
def _sigmoid(call: OpCall, x: Tensor) -> Tensor:
    return torch.sigmoid(x)


@pointwise("Swish", arity=1)
def _swish(call: OpCall, x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-call.attr("scale", 1.0) * x))


@pointwise("Gelu", arity=1)
def _gelu(call: OpCall, x: Tensor) -> Tensor:
    # x * (1 + tanh(u)) / 2 = x / (1 + e^-2u), u = sqrt(2/pi) * (x + 0.044715 x^3); the right side keeps small tails
    return x / (1 + torch.exp(-2 * SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)))


@pointwise("GeluV2", arity=1)
def _gelu_v2(call: OpCall, x: Tensor) -> Tensor:
    approximate = call.attr("approximate", "none")
    if approximate == "tanh":
        return _gelu(call, x)
    if approximate != "none":
        raise ValueError(f"approximate must be none or tanh, not {approximate!r}")
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


@pointwise("FastGelu", arity=1)
def _fast_gelu(call: OpCall, x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-1.702 * x))


@pointwise("FastGeluV2", arity=1)
def _fast_gelu_v2(call: OpCall, x: Tensor) -> Tensor:
    shifted = x + 1e-12
    sign = shifted / shifted.abs()
    bent = torch.clamp((0.7071 * x).abs(), max=1.769) - 1.769
    return x * (sign * (-0.1444 * bent * bent + 0.5) + 0.5)


@pointwise("LeakyRelu", arity=1)
def _leaky_relu(call: OpCall, x: Tensor) -> Tensor:
    return torch.where(x > 0, x, call.attr("negative_slope", 0.0) * x)


@pointwise("Elu", arity=1)
def _elu(call: OpCall, x: Tensor) -> Tensor:
    scale, alpha, slope = call.attr("scale", 1.0), call.attr("alpha", 1.0), call.attr("input_scale", 1.0)
    return torch.where(x > 0, scale * x, scale * alpha * torch.expm1(slope * x))


@pointwise("Selu", arity=1)
def _selu(call: OpCall, x: Tensor) -> Tensor:
    return torch.where(x > 0, SELU_SCALE * x, SELU_SCALE * SELU_ALPHA * torch.expm1(x))


@pointwise("Celu", arity=1)
def _celu(call: OpCall, x: Tensor) -> Tensor:
    a1, a2, a3 = call.attr("alpha1", 1.0), call.attr("alpha2", 1.0), call.attr("alpha3", 1.0)
    return torch.clamp(a3 * x, min=0) + torch.clamp(a1 * torch.expm1(x / a2), max=0)


@pointwise("CeluV2", arity=1)
def _celu_v2(call: OpCall, x: Tensor) -> Tensor:
    alpha = call.attr("alpha", 1.0)
    return torch.clamp(x, min=0) + torch.clamp(alpha * torch.expm1(x / alpha), max=0)


@pointwise("HardSwish", arity=1)
def _hard_swish(call: OpCall, x: Tensor) -> Tensor:
    return x * torch.clamp(x + 3, 0, 6) / 6


@op("HardSigmoid")
def _hard_sigmoid(call: OpCall) -> Tensor:
    x = call.tensor(0)
    dtype = common_dtype(call, (x,), FLOAT | {torch.int32})
    if dtype == torch.int32:
        dtype, x = torch.float32, x.float()
    # the default slope is the f32 number next to 1/6, as the IR has it
    slope, offset = call.attr("alpha", 0.16666666), call.attr("beta", 0.5)
    return down(torch.clamp(slope * up(x) + offset, 0, 1), dtype)


@pointwise("Mish", arity=1)
def _mish(call: OpCall, x: Tensor) -> Tensor:
    return x * torch.tanh(softplus(x))


@pointwise("LogSigmoid", arity=1)
def _log_sigmoid(call: OpCall, x: Tensor) -> Tensor:
    return torch.clamp(x, max=0) - torch.log1p(torch.exp(-x.abs()))


@pointwise("Softplus", arity=1)
def _softplus(call: OpCall, x: Tensor) -> Tensor:
    return softplus(x)


@pointwise("SoftplusV2", arity=1)
def _softplus_v2(call: OpCall, x: Tensor) -> Tensor:
    beta = call.attr("beta", 1.0)
    return torch.where(beta * x > call.attr("threshold", 20.0), x, softplus(beta * x) / beta)


@pointwise("Softsign", arity=1)
def _softsign(call: OpCall, x: Tensor) -> Tensor:
    return x / (1 + x.abs())


@pointwise("SoftShrink", arity=1)
def _soft_shrink(call: OpCall, x: Tensor) -> Tensor:
    bound = call.attr("lambd", 0.5)
    rest = torch.where(x.isnan(), x, torch.zeros_like(x))
    return torch.where(x > bound, x - bound, torch.where(x < -bound, x + bound, rest))


@pointwise("HardShrink", arity=1)
def _hard_shrink(call: OpCall, x: Tensor) -> Tensor:
    return torch.where(x.abs() <= call.attr("lambd", 0.5), torch.zeros_like(x), x)


@pointwise("Threshold", arity=1)
def _threshold(call: OpCall, x: Tensor) -> Tensor:
    return (x > call.attr("threshold", 0.0)).to(x.dtype)


@op("ThresholdV2")
def _threshold_v2(call: OpCall) -> Tensor:
    x, threshold, value = call.tensor(0), call.tensor(1), call.optional(2)
    common_dtype(call, [t for t in (x, threshold, value) if t is not None], ORDERED)
    fill = torch.zeros((), dtype=x.dtype) if value is None else one_element(value, "value")
    return torch.where(up(x) > up(one_element(threshold, "threshold")), x, fill)


def prelu_weight(x: Tensor, weight: Tensor) -> Tensor:
    """The weight shaped to broadcast against ``x``: one element, or one per channel (dim 1 of ``x``)."""
    if weight.numel() == 1:
        return weight.reshape(())
    if x.dim() < 2 or weight.numel() != x.shape[1]:
        raise ValueError(f"weight {list(weight.shape)} does not fit the channels (dim 1) of {list(x.shape)}")
    return weight.reshape([-1] + [1] * (x.dim() - 2))


@pointwise("PRelu", arity=2)
def _prelu(call: OpCall, x: Tensor, weight: Tensor) -> Tensor:
    return torch.where(x > 0, x, prelu_weight(x, weight) * x)
