"""Indexing: gathers, scatters, advanced indexing, sorting, arg-extremes, running sums, strided views.

Ops whose IR output bears the name of an input (Assign, ScatterNdUpdate, ...) write into that input and return it, as
they do on the device; TorchAir puts a TensorMove before them where the input must survive.
"""

from __future__ import annotations

import torch

from torchair_autofuse.host.ops.numerics import axis_of, dtype_attr, scalar, wide
from torchair_autofuse.host.ops.registry import OpCall, op


def positions(call: OpCall, indices: torch.Tensor, size: int, *, negative: bool) -> torch.Tensor:
    """Indices as i64 in [0, size). Raises ValueError when one is outside, or negative where that is not supported."""
    found = indices.long()
    if found.numel():
        low, high = int(found.min()), int(found.max())
        if low < (-size if negative else 0) or high >= size:
            raise ValueError(
                f"{call.type} {call.name}: indices {low}..{high} leave a dim of size {size}"
                + ("" if negative or low >= 0 else " (negative_index_support is off)")
            )
    return torch.where(found < 0, found + size, found)


def _gather(call: OpCall, axis: int) -> torch.Tensor:
    """x taken at ``indices`` along ``axis``: shape x[:axis] + indices[batch_dims:] + x[axis + 1:]."""
    x, indices = call.tensor("x"), call.tensor("indices")
    axis, batch = axis_of(call, axis, x.dim()), int(call.attr("batch_dims", 0))
    batch = batch + indices.dim() if batch < 0 else batch
    found = positions(call, indices, x.shape[axis], negative=bool(call.attr("negative_index_support", False)))
    if not batch:
        shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
        return x.index_select(axis, found.reshape(-1)).reshape(shape)
    lead, inner = list(x.shape[:batch]), list(indices.shape[batch:])
    flat_x = x.reshape(-1, *x.shape[batch:])
    flat_i = found.reshape(flat_x.shape[0], -1)
    parts = [flat_x[b].index_select(axis - batch, flat_i[b]) for b in range(flat_x.shape[0])]
    return torch.stack(parts).reshape([*lead, *x.shape[batch:axis], *inner, *x.shape[axis + 1 :]])


@op("Gather")
def gather(call: OpCall) -> torch.Tensor:
    """x, indices -> x[indices] along the first dim after ``batch_dims``."""
    return _gather(call, int(call.attr("batch_dims", 0)))


@op("GatherV2")
def gather_v2(call: OpCall) -> torch.Tensor:
    """x, indices, axis (a one-element input)."""
    return _gather(call, scalar(call, "axis"))


@op("GatherElements")
def gather_elements(call: OpCall) -> torch.Tensor:
    """x, index -> x at index along ``dim``, of the shape of index."""
    x, index = call.tensor("x"), call.tensor("index")
    dim = axis_of(call, int(call.attr("dim", 0)), x.dim())
    return torch.gather(x, dim, positions(call, index, x.shape[dim] if x.dim() else 1, negative=False))


@op("GatherNd")
def gather_nd(call: OpCall) -> torch.Tensor:
    """x, indices (..., k) -> x[indices[..., 0], ..., indices[..., k - 1]]."""
    x, indices = call.tensor("x"), call.tensor("indices")
    negative = bool(call.attr("negative_index_support", False))
    parts = [positions(call, t, x.shape[k], negative=negative) for k, t in enumerate(indices.unbind(-1))]
    return x[tuple(parts)] if parts else x.expand(*indices.shape[:-1], *x.shape).contiguous()


def _masked_index(call: OpCall, x: torch.Tensor, mask: list[int], first: int) -> torch.Tensor:
    tensors = iter([call.tensor(i).long() for i in range(first, len(call.inputs))])
    mask = mask or [1] * (len(call.inputs) - first)
    return x[tuple(next(tensors) if m else slice(None) for m in mask)].contiguous()


@op("IndexByTensor")
def index_by_tensor(call: OpCall) -> torch.Tensor:
    """x, indices0.. -> advanced indexing; ``indices_mask`` is 1 for an indexed dim, 0 for a kept one."""
    return _masked_index(call, call.tensor(0), [int(m) for m in call.attr("indices_mask", [])], 1)


@op("Index")
def index(call: OpCall) -> torch.Tensor:
    """x, indexed_sizes (the mask), indexed_strides, indices0.. -> as IndexByTensor."""
    return _masked_index(call, call.tensor(0), call.ints(1), 3)


def _put(call: OpCall, data: torch.Tensor, dim: int) -> torch.Tensor:
    """``data`` with updates at indices along ``dim``; only the region of the indices is read from the updates."""
    indices, updates = call.tensor("indices"), call.tensor("updates")
    reduction = str(call.attr("reduction", "none"))
    found = positions(call, indices, data.shape[dim] if data.dim() else 1, negative=False)
    names = {"add": "sum", "mul": "prod", "sum": "sum", "mean": "mean"}
    if reduction == "none":
        return data.scatter(dim, found, updates.to(data.dtype))
    if reduction not in names:
        raise ValueError(f"{call.type} {call.name}: unknown reduction {reduction!r}")
    include = bool(call.attr("include_self", True))
    result = wide(data).scatter_reduce(dim, found, wide(updates), names[reduction], include_self=include)
    return result.to(data.dtype)


@op("ScatterElements", "ScatterElementsV2")
def scatter_elements(call: OpCall) -> torch.Tensor:
    """data, indices, updates -> a copy of data with updates along ``axis`` (reduction none, add, mul, mean)."""
    data = call.tensor(0)
    return _put(call, data, axis_of(call, int(call.attr("axis", 0)), data.dim()))


@op("ScatterNdUpdate")
def scatter_nd_update(call: OpCall) -> torch.Tensor:
    """var[indices] = updates in place, indices (..., k)."""
    var, indices = call.tensor("var"), call.tensor("indices")
    parts = [positions(call, t, var.shape[k], negative=False) for k, t in enumerate(indices.unbind(-1))]
    var[tuple(parts)] = call.tensor("updates").to(var.dtype)
    return var


@op("ScatterUpdate")
def scatter_update(call: OpCall) -> torch.Tensor:
    """var[indices[i]] = updates[i] along dim 0, in place."""
    var = call.tensor("var")
    found = positions(call, call.tensor("indices"), var.shape[0], negative=False)
    var[found] = call.tensor("updates").to(var.dtype)
    return var


@op("Scatter")
def scatter(call: OpCall) -> torch.Tensor:
    """Batch b of var gets updates[b] from position indices[b] along ``axis``, in place (a key-value cache write).

    indices (B,): B is dim 0 of var. Raises ValueError for another reduce, or an update that leaves var.
    """
    var, indices, updates = call.tensor("var"), call.tensor("indices"), call.tensor("updates")
    if call.attr("reduce", "update") != "update" or indices.dim() != 1:
        raise ValueError(f"Scatter {call.name}: only reduce=update with 1-d indices is modelled on the host")
    axis = axis_of(call, int(call.attr("axis", 0)), var.dim())
    for b, start in enumerate(call.ints("indices")):
        length = updates.shape[axis]
        if axis == 0 or start < 0 or start + length > var.shape[axis]:
            raise ValueError(f"Scatter {call.name}: {start}..{start + length} leaves dim {axis} of {list(var.shape)}")
        var[b].narrow(axis - 1, start, length).copy_(updates[b])
    return var


@op("InplaceIndexAdd")
def inplace_index_add(call: OpCall) -> torch.Tensor:
    """var[.., indices[k], ..] += alpha * updates[.., k, ..] along ``axis``, in place; alpha is an optional input."""
    var, alpha = call.tensor("var"), call.optional("alpha")
    axis = axis_of(call, int(call.attr("axis")), var.dim())
    found = positions(call, call.tensor("indices"), var.shape[axis], negative=False)
    updates = wide(call.tensor("updates")).to(wide(var).dtype)
    updates = updates if alpha is None else updates * alpha.to(updates.dtype)
    return var.copy_(wide(var).index_add(axis, found, updates))


@op("Assign")
def assign(call: OpCall) -> torch.Tensor:
    """ref <- value in place."""
    return call.tensor("ref").copy_(call.tensor("value"))


@op("IndexFill")
def index_fill(call: OpCall) -> torch.Tensor:
    """x with the rows ``indices`` along ``dim`` set to the scalar input val."""
    x = call.tensor("x")
    dim = axis_of(call, int(call.attr("dim", 0)), x.dim())
    return x.index_fill(dim, call.tensor("indices").long(), call.tensor("val").reshape(()).to(x.dtype))


@op("MaskedScatter")
def masked_scatter(call: OpCall) -> torch.Tensor:
    """x with the k-th true position of mask replaced by updates[k]."""
    x = call.tensor("x")
    return x.masked_scatter(call.tensor("mask"), call.tensor("updates"))


@op("MaskedSelect")
def masked_select(call: OpCall) -> torch.Tensor:
    """The elements of x where mask, 1-d."""
    return torch.masked_select(call.tensor("x"), call.tensor("mask"))


@op("NonZero", "Where")
def non_zero(call: OpCall) -> torch.Tensor:
    """Positions of the nonzero elements, (n, rank), or (rank, n) with ``transpose``."""
    found = call.tensor("x").nonzero()
    return (
        (found.t() if call.attr("transpose", False) else found).contiguous().to(dtype_attr(call, "dtype", torch.int64))
    )


def _extreme(call: OpCall, axis: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(first position i64, value) of the extreme along ``axis``, the dim kept as 1."""
    x = call.tensor("x")
    dim = axis_of(call, axis, x.dim())
    found = (torch.argmax if largest else torch.argmin)(x, dim=dim, keepdim=True)
    return found, torch.gather(x, dim, found) if x.dim() else x


@op("ArgMaxV2", "ArgMin", "ArgMaxD")
def arg_extreme(call: OpCall) -> torch.Tensor:
    """The first position of the extreme along ``dimension`` (input; attribute of the D form), that dim dropped."""
    axis = int(call.attr("dimension")) if call.type == "ArgMaxD" else scalar(call, "dimension")
    found, _ = _extreme(call, axis, call.type != "ArgMin")
    found = found.squeeze(axis_of(call, axis, found.dim())) if found.dim() else found
    return found.to(dtype_attr(call, "dtype", torch.int64))


@op("ArgMaxWithValue", "ArgMinWithValue")
def arg_extreme_with_value(call: OpCall) -> list[torch.Tensor]:
    """(first position i32, value), in this order, along the attribute ``dimension``."""
    axis = int(call.attr("dimension"))
    pair = _extreme(call, axis, call.type == "ArgMaxWithValue")
    if not call.attr("keep_dims", False) and pair[0].dim():
        axis = axis_of(call, axis, pair[0].dim())
        pair = (pair[0].squeeze(axis), pair[1].squeeze(axis))
    return [pair[0].to(dtype_attr(call, "indice_dtype", torch.int32)), pair[1]]


def _running(call: OpCall, axis: int) -> torch.Tensor:
    x, product = call.tensor("x"), call.type == "Cumprod"
    dim, y = axis_of(call, axis, x.dim()), wide(x)
    if not x.dim():
        one = torch.ones_like(x) if product else torch.zeros_like(x)
        return one if call.attr("exclusive", False) else x
    reverse = bool(call.attr("reverse", False))
    y = y.flip(dim) if reverse else y
    if call.attr("exclusive", False):
        first = torch.full_like(y.narrow(dim, 0, min(1, y.shape[dim])), 1 if product else 0)
        y = torch.cat([first, y.narrow(dim, 0, max(y.shape[dim] - 1, 0))], dim)
    y = y.cumprod(dim, dtype=y.dtype) if product else y.cumsum(dim, dtype=y.dtype)
    return (y.flip(dim) if reverse else y).to(x.dtype)


@op("Cumsum", "Cumprod")
def cumulative(call: OpCall) -> torch.Tensor:
    """x, axis (one element) -> running sum or product; ``exclusive`` starts one later, ``reverse`` at the end."""
    return _running(call, scalar(call, "axis"))


@op("CumsumD")
def cumsum_d(call: OpCall) -> torch.Tensor:
    """Cumsum with the attribute ``axis``."""
    return _running(call, int(call.attr("axis")))


@op("Sort")
def sort(call: OpCall) -> list[torch.Tensor]:
    """(values, positions i32) along ``axis``. Equal keys keep their order, whatever ``stable`` says."""
    x = call.tensor("x")
    dim = axis_of(call, int(call.attr("axis", -1)), x.dim())
    y, found = torch.sort(x, dim=dim, descending=bool(call.attr("descending", False)), stable=True)
    return [y, found.to(dtype_attr(call, "y2_dtype", torch.int32))]


@op("TopKV2", "TopK")
def top_k(call: OpCall) -> list[torch.Tensor]:
    """x, k -> (k largest or smallest values along ``dim``, in order, positions i32); ties go to the lower position."""
    x, k = call.tensor("x"), scalar(call, "k")
    dim = axis_of(call, int(call.attr("dim", -1)), x.dim())
    if not 0 <= k <= (x.shape[dim] if x.dim() else 1):
        raise ValueError(f"{call.type} {call.name}: k {k} is out of range for dim {dim} of {list(x.shape)}")
    y, found = torch.sort(x, dim=dim, descending=bool(call.attr("largest", True)), stable=True)
    if x.dim():
        y, found = (t.narrow(dim, 0, k).contiguous() for t in (y, found))
    return [y, found.to(dtype_attr(call, "indices_dtype", torch.int32))]


@op("SearchSorted")
def search_sorted(call: OpCall) -> torch.Tensor:
    """For each value the number of elements of the sorted last dim that are below it (``right``: not above it)."""
    sequence, values, sorter = call.tensor("sorted_sequence"), call.tensor("values"), call.optional("sorter")
    right = bool(call.attr("right", False))
    found = torch.searchsorted(sequence.contiguous(), values.contiguous(), right=right, sorter=sorter)
    return found.to(dtype_attr(call, "dtype", torch.int64))


@op("Bucketize")
def bucketize(call: OpCall) -> torch.Tensor:
    """The position of each element among the ascending attribute ``boundaries``."""
    bounds = torch.tensor([float(b) for b in call.attr("boundaries")])
    found = torch.bucketize(call.tensor("x"), bounds, right=bool(call.attr("right", True)))
    return found.to(dtype_attr(call, "dtype", torch.int32))


@op("RepeatInterleave")
def repeat_interleave(call: OpCall) -> torch.Tensor:
    """Each element along ``axis`` (1000: the flattened tensor) repeated as ``repeats`` says."""
    x, repeats = call.tensor("x"), call.tensor("repeats").long().reshape(-1)
    axis = int(call.attr("axis", 1000))
    x, axis = (x.reshape(-1), 0) if axis == 1000 else (x, axis_of(call, axis, x.dim()))
    return x.repeat_interleave(repeats.expand(x.shape[axis]), axis)


def _view(call: OpCall, base: torch.Tensor, size: list[int], stride: list[int], offset: int) -> torch.Tensor:
    """A strided view of a contiguous tensor. Raises ValueError when it leaves the tensor."""
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride))
    if 0 not in size and not 0 <= reach < base.numel():
        raise ValueError(f"{call.type} {call.name}: size {size}, stride {stride}, offset {offset} leave {base.numel()}")
    return base.as_strided(size, stride, base.storage_offset() + offset)


@op("AsStrided")
def as_strided(call: OpCall) -> torch.Tensor:
    """x, size, stride, storage_offset: x is taken as contiguous."""
    x = call.tensor("x").contiguous()
    view = _view(call, x, call.ints("size"), call.ints("stride"), scalar(call, "storage_offset"))
    return view.clone(memory_format=torch.contiguous_format)


@op("ViewCopy")
def view_copy(call: OpCall) -> torch.Tensor:
    """A strided view of src written into a strided view of dst; the result is a new tensor.

    TorchAir emits it for as_strided_scatter, which must leave its input alone, without a TensorMove.
    """
    dst = call.tensor("dst").clone(memory_format=torch.contiguous_format)
    src = call.tensor("src").contiguous()
    target, source = (
        _view(call, t, call.ints(f"{n}_size"), call.ints(f"{n}_stride"), scalar(call, f"{n}_storage_offset"))
        for n, t in (("dst", dst), ("src", src))
    )
    target.copy_(source)
    return dst
