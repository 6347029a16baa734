"""Ops that make tensors from sizes and scalars. Random generators are not modelled: their values cannot be matched."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchair_autofuse.host.decode import torch_dtype
from torchair_autofuse.host.ops.pointwise import FLOAT, INT, NUMBER, common_dtype, down, one_element, required_attr, up
from torchair_autofuse.host.ops.registry import OpCall, op


def _sizes(dims: list[int]) -> list[int]:
    if any(d < 0 for d in dims):
        raise ValueError(f"dims must not be negative: {dims}")
    return dims


@op("Fill")
def _fill(call: OpCall) -> Tensor:
    value = one_element(call.tensor(1), "value")
    return value.expand(_sizes(call.ints(0))).clone(memory_format=torch.contiguous_format)


@op("FillD")
def _fill_d(call: OpCall) -> Tensor:
    value = one_element(call.tensor(0), "value")
    return value.expand(_sizes(list(required_attr(call, "dims")))).clone(memory_format=torch.contiguous_format)


@op("Fills")
def _fills(call: OpCall) -> Tensor:
    x = call.tensor(0)
    return torch.full(x.shape, required_attr(call, "value"), dtype=torch.float32).to(x.dtype)


@op("ZerosLike")
def _zeros_like(call: OpCall) -> Tensor:
    x = call.tensor(0)
    return torch.zeros(x.shape, dtype=x.dtype)


@op("OnesLike")
def _ones_like(call: OpCall) -> Tensor:
    x = call.tensor(0)
    return torch.ones(x.shape, dtype=x.dtype)


@op("Empty")
def _empty(call: OpCall) -> Tensor:
    # Undefined values are zeros here, whatever attr init says: runs repeat, and TorchAir's select gradient needs zeros.
    return torch.zeros(_sizes(call.ints(0)), dtype=torch_dtype(call.attr("dtype", 3)))


@op("Eye")
def _eye(call: OpCall) -> Tensor:
    rows = required_attr(call, "num_rows")
    columns = call.attr("num_columns", 0) or rows
    eye = torch.arange(rows).unsqueeze(1) == torch.arange(columns)
    batch = _sizes(list(call.attr("batch_shape", [])))
    return eye.to(torch_dtype(call.attr("dtype", 0))).expand([*batch, rows, columns]).contiguous()


@op("Range")
def _range(call: OpCall) -> Tensor:
    start, limit, delta = (one_element(call.tensor(i), f"input {i}") for i in range(3))
    for t in (start, limit, delta):
        common_dtype(call, (t,), NUMBER)
    same = start.dtype == limit.dtype == delta.dtype
    dtype = start.dtype if same else torch.float32  # mixed dtypes give f32
    count = _range_count(start, limit, delta, bool(call.attr("is_closed", False)))
    if dtype in INT:
        return down(int(start) + torch.arange(count) * int(delta), dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return down(start.to(wide) + torch.arange(count, dtype=torch.int64).to(wide) * delta.to(wide), dtype)


def _range_count(start: Tensor, limit: Tensor, delta: Tensor, closed: bool) -> int:
    """How many values from ``start`` in steps of ``delta`` lie before ``limit`` (``closed``: it counts too)."""
    first, end, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise ValueError("delta must not be zero")
    if all(isinstance(v, int) for v in (first, end, step)):
        whole, rest = divmod(end - first, step)
        count = whole + 1 if rest or closed else whole
    else:
        ratio = (end - first) / step
        if not math.isfinite(ratio):
            raise ValueError(f"start, limit and delta must be finite: {first}, {end}, {step}")
        count = math.floor(ratio) + 1 if closed else math.ceil(ratio)
    return max(0, int(count))


@op("LinSpace")
def _lin_space(call: OpCall) -> Tensor:
    start, stop = (one_element(call.tensor(i), f"input {i}") for i in range(2))
    dtype = common_dtype(call, (start, stop), NUMBER)
    if dtype not in FLOAT:  # TorchAir sends integer bounds as i64 where f32 is meant
        dtype, start, stop = torch.float32, start.float(), stop.float()
    num = int(one_element(call.tensor(2), "num"))
    if num < 0:
        raise ValueError(f"num must not be negative: {num}")
    low, high = up(start), up(stop)
    steps = torch.arange(num).to(low.dtype)
    return down(low + steps * (high - low) / max(num - 1, 1), dtype)


def _one_hot(call: OpCall, depth: int, on: Tensor, off: Tensor) -> Tensor:
    x = call.tensor(0)
    common_dtype(call, (on, off), NUMBER | {torch.bool})
    axis = call.attr("axis", -1)
    if not -1 <= axis <= x.dim():
        raise ValueError(f"axis must be in [-1, {x.dim()}], not {axis}")
    axis = x.dim() if axis == -1 else axis
    classes = torch.arange(depth).reshape([-1] + [1] * (x.dim() - axis))
    return torch.where(x.to(torch.int64).unsqueeze(axis) == classes, one_element(on, "on_value"), off.reshape(()))


@op("OneHot")
def _one_hot_v1(call: OpCall) -> Tensor:
    return _one_hot(call, int(one_element(call.tensor(1), "depth")), call.tensor(2), call.tensor(3))


@op("OneHotD")
def _one_hot_d(call: OpCall) -> Tensor:
    return _one_hot(call, required_attr(call, "depth"), call.tensor(1), call.tensor(2))
