"""Quantisation to and from 8-bit integers with given scales. int4 is not modelled."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torchair_autofuse.host.decode import dtype_name, torch_dtype
from torchair_autofuse.host.ops.pointwise import FLOAT, common_dtype, down, required_attr
from torchair_autofuse.host.ops.registry import OpCall, op

_ROUND: dict[str, Callable[[Tensor], Tensor]] = {
    "round": torch.round,  # half to even
    "rint": torch.round,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
}
_QUANTIZED = {"torch.qint8": torch.int8, "torch.quint8": torch.uint8, "torch.qint32": torch.int32}


def _rounding(call: OpCall) -> Callable[[Tensor], Tensor]:
    mode = str(call.attr("round_mode", "round")).lower()
    if mode not in _ROUND:
        raise ValueError(f"round_mode must be one of {', '.join(_ROUND)}, not {mode}")
    return _ROUND[mode]


def _clip(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Integral values clipped to the range of an integer dtype; NaN gives 0."""
    limits = torch.iinfo(dtype)
    return torch.nan_to_num(values.double(), 0.0).clamp(limits.min, limits.max).to(dtype)


def _int8(call: OpCall) -> torch.dtype:
    dtype = call.attr("dst_type", 2)
    if dtype != 2:
        raise ValueError(f"dst_type must be 2 (int8), not {dtype}: the host packs no other type")
    return torch.int8


def _along(call: OpCall, values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Scales as f32: a vector lies along ``axis``, anything else broadcasts as it is."""
    if values.dim() != 1 or values.numel() == 1 or x.dim() <= 1:
        return values.float()
    if not -x.dim() <= axis < x.dim():
        raise ValueError(f"axis {axis} is out of range for {list(x.shape)}")
    axis %= x.dim()
    if values.numel() != x.shape[axis]:
        raise ValueError(f"{values.numel()} scales do not fit dim {axis} of {list(x.shape)}")
    return values.float().reshape([-1] + [1] * (x.dim() - 1 - axis))


@op("AscendQuant")
def _ascend_quant(call: OpCall) -> Tensor:
    x = call.tensor(0)
    common_dtype(call, (x,), FLOAT)
    scale = required_attr(call, "scale")
    scaled = x.float() * scale
    scaled = scaled * scale if call.attr("sqrt_mode", False) else scaled
    return _clip(_rounding(call)(scaled + required_attr(call, "offset")), _int8(call))


@op("AscendQuantV2")
def _ascend_quant_v2(call: OpCall) -> Tensor:
    x, offset = call.tensor(0), call.optional(2)
    common_dtype(call, (x,), FLOAT)
    axis = call.attr("axis", -1)
    scale = _along(call, call.tensor(1), x, axis)
    scaled = x.float() * scale
    scaled = scaled * scale if call.attr("sqrt_mode", False) else scaled
    scaled = scaled if offset is None else scaled + _along(call, offset, x, axis)
    return _clip(_rounding(call)(scaled), _int8(call))


@op("Quantize")
def _quantize(call: OpCall) -> Tensor:
    x, zero = call.tensor(0), call.optional(2)
    common_dtype(call, (x,), FLOAT)
    name = required_attr(call, "dtype")
    if name not in _QUANTIZED:
        raise ValueError(f"dtype must be one of {', '.join(_QUANTIZED)}, not {name}")
    axis = call.attr("axis", 1)
    scaled = x.float() / _along(call, call.tensor(1), x, axis)
    scaled = scaled if zero is None else scaled + _along(call, zero, x, axis)
    return _clip(torch.round(scaled), _QUANTIZED[name])


def _dequantized(x: Tensor, offset: Tensor | float, scale: Tensor | float, sqrt_mode: bool) -> Tensor:
    y = (x.float() + offset) * scale
    return y * scale if sqrt_mode else y


@op("AscendAntiQuant")
def _ascend_anti_quant(call: OpCall) -> Tensor:
    x = call.tensor(0)
    common_dtype(call, (x,), frozenset({torch.int8}))
    dtype = torch_dtype(call.attr("dtype", 0))
    y = _dequantized(
        x, required_attr(call, "offset"), required_attr(call, "scale"), bool(call.attr("sqrt_mode", False))
    )
    return down(y, dtype)


@op("AscendAntiQuantV2")
def _ascend_anti_quant_v2(call: OpCall) -> Tensor:
    x, offset = call.tensor(0), call.optional(2)
    common_dtype(call, (x,), frozenset({torch.int8}))
    dtype = torch_dtype(call.attr("dst_type", 1))
    if dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"dst_type must be f16 or bf16, not {dtype_name(dtype)}")
    shift = 0.0 if offset is None else offset.float()
    return down(_dequantized(x, shift, call.tensor(1).float(), bool(call.attr("sqrt_mode", False))), dtype)
