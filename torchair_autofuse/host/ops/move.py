"""Data movement: transpose, concat, pack, split, slice, tile, flip, roll, triangles. Results are contiguous."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchair_autofuse.host.ops.numerics import axes_of, axis_of, scalar
from torchair_autofuse.host.ops.registry import OpCall, op


@op("TensorMove")
def tensor_move(call: OpCall) -> torch.Tensor:
    """A real copy: it protects its input from ops that write in place."""
    return call.tensor(0).clone(memory_format=torch.contiguous_format)


@op("TransData")
def trans_data(call: OpCall) -> torch.Tensor:
    """A change of physical layout: logical values stay."""
    return call.tensor(0)


def _permuted(call: OpCall, perm: Sequence[int]) -> torch.Tensor:
    x = call.tensor("x")
    order = [p + x.dim() if p < 0 else p for p in perm]
    if sorted(order) != list(range(x.dim())):
        raise ValueError(f"{call.type} {call.name}: {list(perm)} is no permutation of the dims of {list(x.shape)}")
    return x.permute(order).contiguous()


@op("Transpose")
def transpose(call: OpCall) -> torch.Tensor:
    """x, perm -> y with y.shape[i] = x.shape[perm[i]]."""
    return _permuted(call, call.ints("perm"))


@op("TransposeD")
def transpose_d(call: OpCall) -> torch.Tensor:
    """Transpose with the attribute ``perm``."""
    return _permuted(call, list(call.attr("perm")))


def _joined(call: OpCall, parts: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
    if not parts:
        raise ValueError(f"{call.type} {call.name}: no inputs to join")
    return torch.cat(list(parts), dim=axis_of(call, axis, max(p.dim() for p in parts)))


@op("ConcatV2")
def concat_v2(call: OpCall) -> torch.Tensor:
    """x0..xN-1, concat_dim (the last input) -> the inputs joined along it."""
    last = len(call.inputs) - 1
    return _joined(call, [call.tensor(i) for i in range(last)], scalar(call, last))


@op("Concat")
def concat(call: OpCall) -> torch.Tensor:
    """concat_dim (the first input), x0..xN-1 -> the inputs joined along it."""
    return _joined(call, [call.tensor(i) for i in range(1, len(call.inputs))], scalar(call, 0))


@op("ConcatD", "ConcatV2D")
def concat_d(call: OpCall) -> torch.Tensor:
    """The inputs joined along the attribute ``concat_dim``."""
    return _joined(call, [call.tensor(i) for i in range(len(call.inputs))], int(call.attr("concat_dim")))


@op("Pack")
def pack(call: OpCall) -> torch.Tensor:
    """The inputs stacked along a new dim ``axis``; scalars make a vector."""
    parts = [call.tensor(i) for i in range(len(call.inputs))]
    if len({tuple(p.shape) for p in parts}) > 1:  # a one-element vector among scalars counts as a scalar
        if any(p.numel() != 1 for p in parts):
            raise ValueError(f"Pack {call.name}: inputs differ in shape: {[list(p.shape) for p in parts]}")
        parts = [p.reshape(()) for p in parts]
    return torch.stack(parts, dim=axis_of(call, int(call.attr("axis", 0)), parts[0].dim() + 1))


@op("Unpack")
def unpack(call: OpCall) -> list[torch.Tensor]:
    """x cut into its slices along ``axis``, which is dropped."""
    x = call.tensor("x")
    axis = axis_of(call, int(call.attr("axis", 0)), x.dim())
    if int(call.attr("num", x.shape[axis])) != x.shape[axis]:
        raise ValueError(f"Unpack {call.name}: num {call.attr('num')} is not dim {axis} of {list(x.shape)}")
    return [t.contiguous() for t in x.unbind(axis)]


def _split(call: OpCall, sizes: Sequence[int], axis: int) -> list[torch.Tensor]:
    """Consecutive slices; one size may be -1. Raises ValueError when they do not add up to the dim."""
    x = call.tensor("x")
    dim = axis_of(call, axis, x.dim())
    known = sum(n for n in sizes if n != -1)
    full = [x.shape[dim] - known if n == -1 else n for n in sizes]
    if min(full, default=0) < 0 or sum(full) != x.shape[dim]:
        raise ValueError(f"{call.type} {call.name}: sizes {list(sizes)} do not fit dim {dim} of {list(x.shape)}")
    return [t.contiguous() for t in x.split(full, dim)]


def _equal_parts(call: OpCall, axis: int) -> list[int]:
    x, parts = call.tensor("x"), int(call.attr("num_split"))
    n = x.shape[axis_of(call, axis, x.dim())]
    return [n // parts] * parts


@op("SplitV")
def split_v(call: OpCall) -> list[torch.Tensor]:
    """x, size_splits, split_dim (a scalar input) -> y0.., sizes as given."""
    return _split(call, call.ints("size_splits"), scalar(call, "split_dim"))


@op("SplitVD")
def split_vd(call: OpCall) -> list[torch.Tensor]:
    """SplitV with attributes."""
    return _split(call, list(call.attr("size_splits")), int(call.attr("split_dim")))


@op("Split")
def split(call: OpCall) -> list[torch.Tensor]:
    """split_dim, x -> ``num_split`` equal slices."""
    axis = scalar(call, "split_dim")
    return _split(call, _equal_parts(call, axis), axis)


@op("SplitD")
def split_d(call: OpCall) -> list[torch.Tensor]:
    """Split with the attribute ``split_dim``."""
    axis = int(call.attr("split_dim"))
    return _split(call, _equal_parts(call, axis), axis)


def _sliced(x: torch.Tensor, dim: int, index: slice) -> torch.Tensor:
    """``x[index]`` along one dim by Python's rules: negative bounds count from the end, bounds are clamped."""
    chosen = range(*index.indices(x.shape[dim]))
    if chosen.step > 0:
        start, count = (chosen.start, len(chosen)) if len(chosen) else (0, 0)
        return x[(slice(None),) * dim + (slice(start, start + count * chosen.step, chosen.step),)]
    return x.index_select(dim, torch.tensor(list(chosen), dtype=torch.int64))


def _strided(
    call: OpCall, begin: Sequence[int], end: Sequence[int], axes: Sequence[int], strides: Sequence[int]
) -> torch.Tensor:
    y = call.tensor("x")
    for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        if call.attr(mask, 0):
            raise ValueError(f"{call.type} {call.name}: {mask} {call.attr(mask)} is not modelled on the host")
    if not len(begin) == len(end) == len(axes) == len(strides):
        raise ValueError(f"{call.type} {call.name}: begin, end, axes and strides differ in length")
    if 0 in strides:
        raise ValueError(f"{call.type} {call.name}: a stride is 0")
    begin_mask, end_mask = int(call.attr("begin_mask", 0)), int(call.attr("end_mask", 0))
    for i, axis in enumerate(axes):
        lower = None if begin_mask >> i & 1 else begin[i]
        upper = None if end_mask >> i & 1 else end[i]
        y = _sliced(y, axis_of(call, axis, y.dim()), slice(lower, upper, strides[i]))
    return y.contiguous()


@op("StridedSliceV2", "StridedSliceV3")
def strided_slice_v2(call: OpCall) -> torch.Tensor:
    """x, begin, end, axes?, strides? -> x[begin:end:stride] on the listed axes (absent: the leading ones)."""
    begin = call.ints("begin")
    axes = list(range(len(begin))) if call.optional("axes") is None else call.ints("axes")
    strides = [1] * len(begin) if call.optional("strides") is None else call.ints("strides")
    return _strided(call, begin, call.ints("end"), axes, strides)


@op("StridedSlice")
def strided_slice(call: OpCall) -> torch.Tensor:
    """x, begin, end, strides over the leading dims."""
    begin = call.ints("begin")
    return _strided(call, begin, call.ints("end"), list(range(len(begin))), call.ints("strides"))


@op("StridedSliceD")
def strided_slice_d(call: OpCall) -> torch.Tensor:
    """StridedSlice with attributes."""
    begin = list(call.attr("begin"))
    strides = list(call.attr("strides") or [1] * len(begin))
    return _strided(call, begin, list(call.attr("end")), list(range(len(begin))), strides)


def _window(call: OpCall, offsets: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
    """x[offset : offset + size] per dim, size -1 taking the rest. Raises ValueError when it leaves x."""
    x = call.tensor("x")
    if not len(offsets) == len(sizes) == x.dim():
        raise ValueError(f"{call.type} {call.name}: offsets and sizes need one value per dim of {list(x.shape)}")
    y = x
    for d, (o, n) in enumerate(zip(offsets, sizes)):
        count = x.shape[d] - o if n == -1 else n
        if o < 0 or count < 0 or o + count > x.shape[d]:
            raise ValueError(f"{call.type} {call.name}: offset {o} and size {n} leave dim {d} of {list(x.shape)}")
        y = y.narrow(d, o, count)
    return y.contiguous()


@op("Slice")
def slice_op(call: OpCall) -> torch.Tensor:
    """x, offsets, size -> a window of x."""
    return _window(call, call.ints("offsets"), call.ints("size"))


@op("SliceD")
def slice_d(call: OpCall) -> torch.Tensor:
    """Slice with attributes."""
    return _window(call, list(call.attr("offsets")), list(call.attr("size")))


def _tiled(call: OpCall, multiples: Sequence[int]) -> torch.Tensor:
    x = call.tensor("x")
    full = [1] * (x.dim() - len(multiples)) + list(multiples)
    return x.repeat(full)


@op("Tile")
def tile(call: OpCall) -> torch.Tensor:
    """x repeated ``multiples[i]`` times along dim i; a longer list adds leading dims."""
    return _tiled(call, call.ints("multiples"))


@op("TileD")
def tile_d(call: OpCall) -> torch.Tensor:
    """Tile with an attribute."""
    return _tiled(call, list(call.attr("multiples")))


@op("ReverseV2")
def reverse(call: OpCall) -> torch.Tensor:
    """x reversed along the dims of the input ``axis``."""
    x = call.tensor("x")
    return x.flip(axes_of(call, call.ints("axis"), x.dim()))


@op("Roll")
def roll(call: OpCall) -> torch.Tensor:
    """x rotated by ``shifts`` along ``dims``; no dims: the flattened tensor."""
    return torch.roll(call.tensor("x"), list(call.attr("shifts")), list(call.attr("dims", []) or []))


@op("Tril")
def tril(call: OpCall) -> torch.Tensor:
    """Elements with column - row <= ``diagonal`` of the last two dims, 0 elsewhere."""
    return torch.tril(call.tensor("x"), int(call.attr("diagonal", 0)))


@op("Triu")
def triu(call: OpCall) -> torch.Tensor:
    """Elements with column - row >= ``diagonal`` of the last two dims, 0 elsewhere."""
    return torch.triu(call.tensor("x"), int(call.attr("diagonal", 0)))
