"""Ops that change only the shape (Reshape, Squeeze, Flatten, ...), read it (Shape, Size, Rank) or broadcast it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from torchair_autofuse.host.ops.numerics import axes_of, axis_of, dtype_attr, scalar
from torchair_autofuse.host.ops.registry import OpCall, op


@op("Identity")
def identity(call: OpCall) -> torch.Tensor:
    """The input itself: an alias, as in GE."""
    return call.tensor(0)


@op("IdentityN")
def identity_n(call: OpCall) -> list[torch.Tensor]:
    """Every input itself."""
    return [call.tensor(i) for i in range(len(call.inputs))]


@op("Reshape")
def reshape(call: OpCall) -> torch.Tensor:
    """Row-major reshape; one -1 takes the rest, 0 copies the dim of x at that position.

    On an empty x a 0 that cannot be a copy is a plain size. Raises ValueError when the element counts differ.
    """
    x = call.tensor("x")
    target = call.ints("shape")
    axis, count = int(call.attr("axis", 0)), int(call.attr("num_axes", -1))
    start = axis + x.dim() + 1 if axis < 0 else axis
    stop = x.dim() if count < 0 else start + count
    for copies in (True, False):
        taken = {start + i for i, n in enumerate(target) if copies and n == 0 and start + i < stop}
        sizes = [x.shape[start + i] if start + i in taken else n for i, n in enumerate(target)]
        free = prod(n for d, n in enumerate(x.shape) if start <= d < stop and d not in taken)
        fixed = prod(n for i, n in enumerate(sizes) if n != -1 and start + i not in taken)
        if sizes.count(-1) == 1 and free % max(fixed, 1) == 0:
            sizes = [free // max(fixed, 1) if n == -1 else n for n in sizes]
        full = [*x.shape[:start], *sizes, *x.shape[stop:]]
        if min(full, default=0) >= 0 and prod(full) == x.numel():
            return x.reshape(full)
    raise ValueError(f"Reshape {call.name}: shape {list(x.shape)} does not fit the target {target}")


def _squeezed(call: OpCall, axes: Sequence[int]) -> torch.Tensor:
    x = call.tensor("x")
    dims = axes_of(call, axes, x.dim()) if axes else [d for d, n in enumerate(x.shape) if n == 1]
    wrong = [d for d in dims if x.shape[d] != 1]
    if wrong:
        raise ValueError(f"{call.type} {call.name}: dim {wrong[0]} of shape {list(x.shape)} is not 1")
    return x.reshape([n for d, n in enumerate(x.shape) if d not in dims])


@op("Squeeze", "SqueezeV2")
def squeeze(call: OpCall) -> torch.Tensor:
    """Drops the dims of ``axis`` (none given: every dim of size 1). Raises ValueError if one is not 1."""
    return _squeezed(call, list(call.attr("axis", []) or []))


@op("SqueezeV3")
def squeeze_v3(call: OpCall) -> torch.Tensor:
    """Squeeze with the axes as an optional input."""
    return _squeezed(call, [] if call.optional("axes") is None else call.ints("axes"))


def _unsqueezed(call: OpCall, axes: Sequence[int]) -> torch.Tensor:
    x = call.tensor("x")
    dims = axes_of(call, axes, x.dim() + len(axes))
    if len(dims) != len(axes):
        raise ValueError(f"{call.type} {call.name}: axes {list(axes)} repeat a dim")
    sizes = iter(x.shape)
    return x.reshape([1 if d in dims else next(sizes) for d in range(x.dim() + len(dims))])


@op("Unsqueeze")
def unsqueeze(call: OpCall) -> torch.Tensor:
    """Inserts dims of size 1 at ``axes``, positions in the result."""
    return _unsqueezed(call, list(call.attr("axes", []) or []))


@op("UnsqueezeV2")
def unsqueeze_v2(call: OpCall) -> torch.Tensor:
    """Unsqueeze with the attribute ``axis``."""
    return _unsqueezed(call, list(call.attr("axis", []) or []))


@op("UnsqueezeV3")
def unsqueeze_v3(call: OpCall) -> torch.Tensor:
    """Unsqueeze with the axes as an input."""
    return _unsqueezed(call, call.ints("axes"))


@op("ExpandDims")
def expand_dims(call: OpCall) -> torch.Tensor:
    """Inserts one dim of size 1 at the input ``axis``."""
    return _unsqueezed(call, [scalar(call, "axis")])


def _merged(x: torch.Tensor, first: int, last: int) -> torch.Tensor:
    """Dims first..last (inclusive) merged into one; nothing when last < first."""
    if last < first:
        return x
    return x.reshape([*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]])


@op("FlattenV2")
def flatten_v2(call: OpCall) -> torch.Tensor:
    """Merges dims ``axis``..``end_axis``; a 0-d input becomes 1-d."""
    x = call.tensor("x")
    if x.dim() == 0:
        return x.reshape(1)
    start = int(call.attr("axis", 1))
    if x.dim() == 1 and start == 1:  # the default on a vector: nothing to merge
        return x
    first = axis_of(call, start, x.dim())
    return _merged(x, first, axis_of(call, int(call.attr("end_axis", -1)), x.dim()))


@op("Flatten")
def flatten(call: OpCall) -> torch.Tensor:
    """To 2-d: the product of the dims before ``axis``, the product of the rest."""
    x = call.tensor("x")
    axis = int(call.attr("axis", 1))
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@op("Shape")
def shape(call: OpCall) -> torch.Tensor:
    """The shape of x as a 1-d tensor of the attribute ``dtype`` (C enum, i32 by default)."""
    return torch.tensor(list(call.tensor(0).shape), dtype=dtype_attr(call, "dtype", torch.int32))


@op("ShapeN")
def shape_n(call: OpCall) -> list[torch.Tensor]:
    """The shapes of all inputs."""
    dtype = dtype_attr(call, "dtype", torch.int32)
    return [torch.tensor(list(call.tensor(i).shape), dtype=dtype) for i in range(len(call.inputs))]


@op("Size")
def size(call: OpCall) -> torch.Tensor:
    """The number of elements of x, 0-d."""
    return torch.tensor(call.tensor(0).numel(), dtype=dtype_attr(call, "dtype", torch.int32))


@op("Rank")
def rank(call: OpCall) -> torch.Tensor:
    """The rank of x, 0-d i32."""
    return torch.tensor(call.tensor(0).dim(), dtype=torch.int32)


@op("Bitcast")
def bitcast(call: OpCall) -> torch.Tensor:
    """The bits of x as the attribute ``type``: a smaller type adds a trailing dim, a larger one drops it.

    With ``keep_dim`` the last dim grows or shrinks instead.
    """
    x = call.tensor("x").contiguous()
    target = dtype_attr(call, "type", None)
    if target.itemsize == x.dtype.itemsize:
        return x.view(target)
    keep = bool(call.attr("keep_dim", False))
    if target.itemsize < x.dtype.itemsize:
        ratio = x.dtype.itemsize // target.itemsize
        flat = x.reshape(-1).view(target)
        return flat.reshape([*x.shape[:-1], x.shape[-1] * ratio] if keep and x.dim() else [*x.shape, ratio])
    ratio = target.itemsize // x.dtype.itemsize
    if x.dim() == 0 or (x.shape[-1] % ratio if keep else x.shape[-1] != ratio):
        raise ValueError(
            f"Bitcast {call.name}: the last dim of {list(x.shape)} does not hold {ratio} parts of {target}"
        )
    tail = [x.shape[-1] // ratio] if keep else []
    return x.reshape(-1).view(target).reshape([*x.shape[:-1], *tail])


def _broadcast(call: OpCall, target: Sequence[int]) -> torch.Tensor:
    """x expanded to ``target``; -1 keeps the dim of x, and is 1 for a new leading dim."""
    x = call.tensor("x")
    lead = len(target) - x.dim()
    if lead < 0:
        raise ValueError(f"{call.type} {call.name}: target {list(target)} has fewer dims than x {list(x.shape)}")
    sizes = [1] * lead + list(x.shape)
    full = [n if n != -1 else sizes[i] for i, n in enumerate(target)]
    return x.expand(full).contiguous()


@op("BroadcastTo")
def broadcast_to(call: OpCall) -> torch.Tensor:
    """x broadcast to the input ``shape``."""
    return _broadcast(call, call.ints("shape"))


@op("BroadcastToD")
def broadcast_to_d(call: OpCall) -> torch.Tensor:
    """x broadcast to the attribute ``shape``."""
    return _broadcast(call, list(call.attr("shape", [])))


def _expanded(call: OpCall, target: Sequence[int]) -> torch.Tensor:
    """x broadcast against ``target`` by numpy's rule: a 1 in the target keeps the dim of x."""
    x = call.tensor("x")
    lead = max(0, x.dim() - len(target))
    sizes = [1] * max(0, len(target) - x.dim()) + list(x.shape)
    wanted = [1] * lead + list(target)
    full = [sizes[i] if n in (-1, 1) else n for i, n in enumerate(wanted)]
    return x.expand(full).contiguous()


@op("Expand")
def expand(call: OpCall) -> torch.Tensor:
    """x broadcast against the input ``shape``."""
    return _expanded(call, call.ints("shape"))


@op("ExpandD")
def expand_d(call: OpCall) -> torch.Tensor:
    """x broadcast against the attribute ``shape``."""
    return _expanded(call, list(call.attr("shape", [])))
