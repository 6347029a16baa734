"""Cast: conversion between element types."""

from __future__ import annotations

import torch

from torchair_autofuse.host.decode import dtype_name, torch_dtype
from torchair_autofuse.host.ops.pointwise import required_attr
from torchair_autofuse.host.ops.registry import OpCall, op

_NARROW = frozenset({torch.int8, torch.uint8, torch.uint16})
_COMPLEX = frozenset({torch.complex64, torch.complex128})


def convert(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``x`` as ``dtype``.

    Float to integer truncates toward zero, NaN gives 0. Out of range it saturates for i16, i32, i64, u32 and u64;
    for i8, u8 and u16 the value goes through i32, saturating there, and wraps. Integer to integer wraps, to bool is
    ``x != 0``, float to a narrower float rounds to nearest even. Raises ValueError for complex to real.
    """
    if x.dtype == dtype:
        return x
    if x.dtype in _COMPLEX and dtype not in _COMPLEX:
        raise ValueError(f"a cast from {dtype_name(x.dtype)} to {dtype_name(dtype)} is not modelled")
    if dtype == torch.bool:
        return x.to(torch.float32) != 0 if x.dtype in (torch.float16, torch.bfloat16) else x != 0
    if not x.is_floating_point() or dtype.is_floating_point or dtype in _COMPLEX:
        return x.to(dtype)
    if dtype in _NARROW:
        return _float_to_int(x, torch.int32).to(dtype)
    return _float_to_int(x, dtype)


def _float_to_int(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Truncated and saturated; NaN gives 0. f64 holds every value of f32 and every bound but those of 64 bits."""
    limits = torch.iinfo(dtype)
    value = torch.nan_to_num(x.to(torch.float64), 0.0, float("inf"), float("-inf")).trunc()
    if limits.bits < 64:
        return value.clamp(limits.min, limits.max).to(torch.int64).to(dtype)
    top = float(limits.max)  # 2**63 or 2**64: the first value that does not fit
    inside = torch.where((value >= top) | (value < limits.min), torch.zeros_like(value), value)
    if dtype == torch.uint64:
        high = inside >= 2.0**63
        low_part = torch.where(high, inside - 2.0**63, inside).to(torch.int64)
        whole = torch.where(high, low_part ^ torch.iinfo(torch.int64).min, low_part)
        return torch.where(value >= top, torch.full_like(whole, -1), whole).to(dtype)
    whole = inside.to(torch.int64)
    whole = torch.where(value >= top, torch.full_like(whole, limits.max), whole)
    return torch.where(value < limits.min, torch.full_like(whole, limits.min), whole)


@op("Cast")
def _cast(call: OpCall) -> torch.Tensor:
    return convert(call.tensor(0), torch_dtype(required_attr(call, "dst_type")))
