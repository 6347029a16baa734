"""Selections, masks and complex numbers: the value of an operand passes unchanged or is left out."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair_autofuse.host.ops.pointwise import BOOL, FLOAT, NUMBER, common_dtype, down, one_element, up
from torchair_autofuse.host.ops.registry import OpCall, op


@op("SelectV2")
def _select_v2(call: OpCall) -> Tensor:
    condition, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    common_dtype(call, (condition,), BOOL)
    common_dtype(call, (a, b), NUMBER | BOOL)
    return torch.where(condition, a, b)


@op("Select")
def _select(call: OpCall) -> Tensor:
    condition, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    common_dtype(call, (condition,), BOOL)
    common_dtype(call, (a, b), NUMBER | BOOL)
    if condition.dim() == 1 and a.dim() > 1:  # one decision per row
        condition = condition.reshape([-1] + [1] * (a.dim() - 1))
    return torch.where(condition, a, b)


@op("MaskedFill")
def _masked_fill(call: OpCall) -> Tensor:
    x, mask, value = call.tensor(0), call.tensor(1), call.tensor(2)
    common_dtype(call, (mask,), BOOL)
    common_dtype(call, (x,), NUMBER | BOOL)
    # TorchAir passes a value of another dtype as it is (logsumexp of halves): it counts as one of x's
    return torch.where(mask, one_element(value, "value").to(x.dtype), x)


@op("DropOutDoMask")
def _dropout_do_mask(call: OpCall) -> Tensor:
    x, mask = call.tensor(0), call.tensor(1)
    common_dtype(call, (mask,), frozenset({torch.uint8}))
    bits = (mask.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8)) & 1  # little-endian in each byte
    if bits.numel() < x.numel():
        raise ValueError(f"mask holds {bits.numel()} bits for {x.numel()} elements")
    return _keep(call, x, bits.reshape(-1)[: x.numel()].reshape(x.shape) != 0)


@op("DropOutDoMaskV3")
def _dropout_do_mask_v3(call: OpCall) -> Tensor:
    x, mask = call.tensor(0), call.tensor(1)
    common_dtype(call, (mask,), frozenset({torch.uint8, torch.bool}))
    if mask.numel() < x.numel():
        raise ValueError(f"mask has {mask.numel()} elements for {x.numel()}")
    return _keep(call, x, mask.reshape(-1)[: x.numel()].reshape(x.shape) != 0)


def _keep(call: OpCall, x: Tensor, kept: Tensor) -> Tensor:
    common_dtype(call, (x,), FLOAT)
    y = up(x) / up(one_element(call.tensor(2), "keep_prob")).to(up(x).dtype)
    return down(torch.where(kept, y, torch.zeros_like(y)), x.dtype)


# ---------------------------------------------------------------- complex numbers


@op("Complex")
def _complex(call: OpCall) -> Tensor:
    real, imag = call.tensor(0), call.tensor(1)
    common_dtype(call, (real, imag), frozenset({torch.float32, torch.float64}))
    return torch.complex(real, imag)


@op("Real")
def _real(call: OpCall) -> Tensor:
    return torch.real(call.tensor(0)).clone()


@op("Imag")
def _imag(call: OpCall) -> Tensor:
    return torch.imag(call.tensor(0)).clone()
