"""Gradients of elementwise ops. Inputs come in GE's order, which differs from op to op: forward value or grad first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torchair_autofuse.host.ops.activation import (
    GELU_CUBIC,
    SELU_ALPHA,
    SELU_SCALE,
    SQRT_2_OVER_PI,
    prelu_weight,
    softplus,
)
from torchair_autofuse.host.ops.pointwise import (
    FLOAT,
    ORDERED,
    common_dtype,
    down,
    pointwise,
    require_equal_shapes,
    required_attr,
    up,
)
from torchair_autofuse.host.ops.registry import OpCall, op


def _where(condition: Tensor, value: Tensor) -> Tensor:
    return torch.where(condition, value, torch.zeros_like(value))


# ---------------------------------------------------------------- (forward value, grad)


@pointwise("AcosGrad", arity=2, broadcast=False)
def _acos_grad(call: OpCall, x: Tensor, dy: Tensor) -> Tensor:
    return -dy / torch.sqrt(1 - x * x)


@pointwise("AsinGrad", arity=2, broadcast=False)
def _asin_grad(call: OpCall, x: Tensor, dy: Tensor) -> Tensor:
    return dy / torch.sqrt(1 - x * x)


@pointwise("SigmoidGrad", arity=2, broadcast=False)
def _sigmoid_grad(call: OpCall, y: Tensor, dy: Tensor) -> Tensor:
    return dy * y * (1 - y)


@pointwise("TanhGrad", arity=2, broadcast=False)
def _tanh_grad(call: OpCall, y: Tensor, dy: Tensor) -> Tensor:
    return dy * (1 - y * y)


@pointwise("ReciprocalGrad", "InvGrad", arity=2, broadcast=False)
def _reciprocal_grad(call: OpCall, y: Tensor, dy: Tensor) -> Tensor:
    return -dy * y * y


@pointwise("RsqrtGrad", arity=2, broadcast=False)
def _rsqrt_grad(call: OpCall, y: Tensor, dy: Tensor) -> Tensor:
    return -0.5 * dy * y * y * y


@pointwise("SqrtGrad", arity=2, broadcast=False)
def _sqrt_grad(call: OpCall, y: Tensor, dy: Tensor) -> Tensor:
    return dy / (2 * y)


@pointwise("HardtanhGrad", arity=2, broadcast=False)
def _hardtanh_grad(call: OpCall, y: Tensor, dy: Tensor) -> Tensor:
    stopped = (y <= call.attr("min_val", -1.0)) | (y >= call.attr("max_val", 1.0))
    return _where(~stopped, dy)


# ---------------------------------------------------------------- (grad, forward value)


@pointwise("ReluGrad", arity=2, kinds=ORDERED)
def _relu_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return _where(x > 0, dy)


@pointwise("Relu6Grad", arity=2, kinds=ORDERED, broadcast=False)
def _relu6_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return _where((x > 0) & (x < 6), dy)


@pointwise("LeakyReluGrad", arity=2)
def _leaky_relu_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return torch.where(x > 0, dy, call.attr("negative_slope", 0.0) * dy)


@pointwise("ThresholdGradV2D", arity=2, kinds=ORDERED, broadcast=False)
def _threshold_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return _where(x > required_attr(call, "threshold"), dy)


@pointwise("EluGrad", arity=2, broadcast=False)
def _elu_grad(call: OpCall, dy: Tensor, y: Tensor) -> Tensor:
    return torch.where(y > 0, dy, dy * (y + 1))


@pointwise("EluGradV2", arity=2, broadcast=False)
def _elu_grad_v2(call: OpCall, dy: Tensor, a: Tensor) -> Tensor:
    alpha, scale, slope = call.attr("alpha", 1.0), call.attr("scale", 1.0), call.attr("input_scale", 1.0)
    if call.attr("is_result", False):
        negative = dy * slope * (a + scale * alpha)
    else:
        negative = dy * (slope * scale * alpha) * torch.exp(slope * a)
    return torch.where(a > 0, dy * scale, negative)


@pointwise("SeluGrad", arity=2, broadcast=False)
def _selu_grad(call: OpCall, dy: Tensor, y: Tensor) -> Tensor:
    return torch.where(y > 0, dy * SELU_SCALE, dy * (y + SELU_SCALE * SELU_ALPHA))


@pointwise("HardSigmoidGrad", arity=2, broadcast=False)
def _hard_sigmoid_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    slope = call.attr("alpha", 0.16666666)
    inner = slope * x + call.attr("beta", 0.5)
    return _where((inner > 0) & (inner < 1), slope * dy)


@pointwise("HardSwishGrad", arity=2, broadcast=False)
def _hard_swish_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return torch.where(x <= -3, torch.zeros_like(dy), torch.where(x >= 3, dy, dy * (x / 3 + 0.5)))


@pointwise("HardShrinkGrad", "SoftShrinkGrad", arity=2, broadcast=False)
def _shrink_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return _where(x.abs() > call.attr("lambd", 0.5), dy)


@pointwise("LogSigmoidGrad", arity=2)
def _log_sigmoid_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return dy / (1 + torch.exp(x))


@pointwise("SoftplusGrad", arity=2, broadcast=False)
def _softplus_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    return dy * torch.sigmoid(x)


@pointwise("SoftplusV2Grad", arity=2, broadcast=False)
def _softplus_v2_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    scaled = call.attr("beta", 1.0) * x
    return torch.where(scaled > call.attr("threshold", 20.0), dy, dy * torch.sigmoid(scaled))


@pointwise("FastGeluGrad", arity=2, broadcast=False)
def _fast_gelu_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    s = torch.sigmoid(1.702 * x)
    return dy * s * (1 + 1.702 * x * (1 - s))


@pointwise("SiluGrad", arity=2, broadcast=False)
def _silu_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


@pointwise("SwishGrad", arity=2, broadcast=False)  # the third input, the forward output, is not needed
def _swish_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    scaled = call.attr("scale", 1.0) * x
    s = torch.sigmoid(scaled)
    return dy * s * (1 + scaled * (1 - s))


@pointwise("GeluGrad", arity=2, broadcast=False)  # TorchAir feeds the third input, the forward output, with a dummy
def _gelu_grad(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    t = torch.tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x))
    slope = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * x * x)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


@pointwise("GeluGradV2", arity=2, broadcast=False)
def _gelu_grad_v2(call: OpCall, dy: Tensor, x: Tensor) -> Tensor:
    approximate = call.attr("approximate", "none")
    if approximate == "tanh":
        return _gelu_grad(call, dy, x)
    if approximate != "none":
        raise ValueError(f"approximate must be none or tanh, not {approximate!r}")
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    tail = torch.where(x.isinf(), torch.zeros_like(x), x * density)
    return dy * (0.5 * (1 + torch.erf(x * math.sqrt(0.5))) + tail)


@op("MishGrad")
def _mish_grad(call: OpCall) -> Tensor:
    dy, x, tanhx = call.tensor(0), call.tensor(1), call.optional(2)
    dtype = common_dtype(call, [t for t in (dy, x, tanhx) if t is not None], FLOAT)
    require_equal_shapes((dy, x))
    wide = up(x)
    t = torch.tanh(softplus(wide)) if tanhx is None else up(tanhx)
    return down(up(dy) * (t + wide * torch.sigmoid(wide) * (1 - t * t)), dtype)


@op("PReluGrad")
def _prelu_grad(call: OpCall) -> Sequence[Tensor]:
    dy, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    dtype = common_dtype(call, (dy, x, weight), FLOAT)
    require_equal_shapes((dy, x))
    dx = torch.where(x > 0, up(dy), prelu_weight(x, up(weight)) * up(dy))
    share = _where(x <= 0, up(dy) * up(x))
    channel = 1 if weight.numel() > 1 else -1
    others = [d for d in range(x.dim()) if d != channel]
    da = share.sum(others) if others else share
    return down(dx, dtype), down(da.reshape(weight.shape), dtype)
