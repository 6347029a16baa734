"""Helpers shared by the op families: half types are computed in f32 and rounded once, axes are normalised once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair_autofuse import dtypes
from torchair_autofuse.host.ops.registry import OpCall

_TORCH: dict[str, torch.dtype] = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
    "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "u16": torch.uint16, "i32": torch.int32,
    "u32": torch.uint32, "i64": torch.int64, "u64": torch.uint64, "bool": torch.bool,
}  # fmt: skip
HALF = (torch.float16, torch.bfloat16)


def wide(t: torch.Tensor) -> torch.Tensor:
    """f16 and bf16 as f32; every other dtype as it is."""
    return t.float() if t.dtype in HALF else t


def f32(t: torch.Tensor) -> torch.Tensor:
    """A floating tensor as f32, f64 as it is: the type norms and losses are computed in."""
    return t if t.dtype == torch.float64 else t.float()


def dtype_attr(call: OpCall, name: str, default: torch.dtype | None) -> torch.dtype:
    """A dtype attribute (C enum number, DType or torch dtype). Raises ValueError for an unknown or a missing one."""
    value: Any = call.attr(name)
    if isinstance(value, torch.dtype):
        return value
    if isinstance(value, int):
        value = dtypes.from_ge_c(value)
    if isinstance(value, dtypes.DType):
        return _TORCH[value.name]
    if default is None or call.attr(name) is not None:
        raise ValueError(f"{call.type} {call.name}: attr {name}={call.attr(name)!r} is no dtype known on the host")
    return default


def axis_of(call: OpCall, axis: int, rank: int) -> int:
    """A dim as a number in [0, rank); rank 0 counts as 1. Raises ValueError when it is out of range."""
    size = max(rank, 1)
    if not -size <= axis < size:
        raise ValueError(f"{call.type} {call.name}: axis {axis} is out of range for rank {rank}")
    return axis % size


def axes_of(call: OpCall, axes: Sequence[int], rank: int) -> list[int]:
    """Distinct dims, ascending; on a 0-d tensor dim 0 is no dim at all. Raises ValueError when one is out of range."""
    found = {axis_of(call, int(a), rank) for a in axes}
    return sorted(found) if rank else []


def scalar(call: OpCall, key: int | str) -> int:
    """A one-element integer input (shape [] or [1]) as an int. Raises ValueError when it has another size."""
    values = call.ints(key)
    if len(values) != 1:
        raise ValueError(f"{call.type} {call.name}: input {key!r} must hold one integer, got {len(values)}")
    return values[0]


def rows(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """``x`` with ``dims`` moved to the end and merged into one: shape (kept dims ..., product of ``dims``)."""
    kept = [d for d in range(x.dim()) if d not in dims]
    count = 1
    for d in dims:
        count *= x.shape[d]
    return x.permute(kept + list(dims)).reshape([x.shape[d] for d in kept] + [count])


def kept_shape(x: torch.Tensor, dims: Sequence[int], keep: bool) -> list[int]:
    """The shape left after ``dims`` are reduced, with 1 in their place when ``keep``."""
    return [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]


def reduce_rows(
    x: torch.Tensor, dims: Sequence[int], keep: bool, function: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """``function`` (which reduces the last dim) over ``dims``; no dims means a reduction of single elements."""
    return function(rows(x, dims)).reshape(kept_shape(x, dims, keep))


def mean(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """The mean over ``dims``, kept as 1. 0/0 is NaN, as for any empty mean."""
    return reduce_rows(x, dims, True, lambda t: t.sum(-1) / t.shape[-1] if t.shape[-1] else t.sum(-1) / 0.0)


def channels_last(call: OpCall, default: str = "NCHW") -> bool:
    """Whether the op's first tensor is laid out with channels last.

    TorchAir writes the true layout into ``input_layout_info`` and leaves ``data_format`` at the IR's default there. It
    knows channels-first layouts only, so an info without names (a mixed list decodes to its numbers) is one of them.
    """
    info = call.attr("input_layout_info")
    if info is not None:
        names = [v.decode() if isinstance(v, bytes) else v for v in info if isinstance(v, (str, bytes))]
        layout = next((n for n in names if n != "ND"), "NCHW")
    else:
        layout = call.attr("data_format", default)
    return str(layout) in ("NHWC", "NDHWC")


def channels_first(x: torch.Tensor, last: bool) -> torch.Tensor:
    """``x`` with its channels at dim 1, coming from the last dim when ``last``."""
    return x.movedim(-1, 1) if last and x.dim() > 2 else x


def channels_back(y: torch.Tensor, last: bool) -> torch.Tensor:
    """Undoes ``channels_first``; the result is contiguous."""
    return (y.movedim(1, -1) if last and y.dim() > 2 else y).contiguous()


def per_channel(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A vector of one value per channel as f32, shaped to broadcast against ``x`` (channels at dim 1)."""
    return f32(values).reshape([1, -1] + [1] * (x.dim() - 2))
