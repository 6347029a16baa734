"""Inference rules of gathers, scatters and other data-dependent indexing."""

from __future__ import annotations

import numpy as np

from torchair_autofuse.dtypes import BOOL, I64, U8, DType
from torchair_autofuse.ge.infer.registry import Call, ObjectArray, Shape, Unknown, rule
from torchair_autofuse.ge.infer.shapes import axis, broadcast
from torchair_autofuse.loop import expr


def _gather_axis(call: Call) -> int:
    return axis(call.int_scalar(2), call.rank(0)) if call.node.type == "GatherV2" else int(call.attr("batch_dims", 0))


def _gather(call: Call) -> Shape:
    """x[:axis] + indices[batch_dims:] + x[axis + 1:]; Gather takes its axis right after the batch dims."""
    x, indices, at = call.shape(0), call.shape(1), _gather_axis(call)
    batch = int(call.attr("batch_dims", 0))
    if at >= len(x):
        raise Unknown("gather from a 0-d tensor")
    return (*x[:at], *indices[batch:], *x[at + 1 :])


def _gather_value(call: Call, dtype: DType) -> ObjectArray:
    if int(call.attr("batch_dims", 0)):
        raise Unknown("batched gather")
    x, at = call.array(0), _gather_axis(call)
    indices = np.asarray(call.ints(1), dtype=np.int64).reshape(call.array(1).shape)
    if indices.size and (indices.min() < -x.shape[at] or indices.max() >= x.shape[at]):
        raise Unknown("index out of range")
    if indices.size and indices.min() < 0 and not call.attr("negative_index_support", False):
        raise Unknown("negative index")
    out: ObjectArray = np.asarray(np.take(x, indices, axis=at), dtype=object)
    return out


rule("Gather GatherV2", _gather, 0, _gather_value)
rule("GatherElements", 1, 0)


def _gather_nd(call: Call) -> Shape:
    x, indices = call.shape(0), call.shape(1)
    if not indices or not isinstance(indices[-1], int):
        raise Unknown("last dim of the indices is unknown")
    return (*indices[:-1], *x[indices[-1] :])


rule("GatherNd", _gather_nd, 0)


def _index_by_tensor(call: Call) -> Shape:
    """Advanced indexing: the index dims stand where the first indexed dim was, or in front if those are separated."""
    x = call.shape(0)
    mask = call.int_list("indices_mask", [])
    places = [k for k, m in enumerate(mask) if m]
    count = len(call.inputs) - 1
    if len(places) != count or (places and places[-1] >= len(x)):
        raise Unknown(f"indices_mask {mask} does not match {count} index tensors")
    if any(call.dtype(i) in (BOOL, U8) for i in range(1, count + 1)):
        raise Unknown("boolean indices: the shape depends on data")
    taken = broadcast(*(call.shape(i) for i in range(1, count + 1)))
    adjacent = not places or places[-1] - places[0] == len(places) - 1
    before = places[0] if places and adjacent else 0
    kept = [d for k, d in enumerate(x) if k not in places]
    return (*kept[:before], *taken, *kept[before:])


rule("IndexByTensor", _index_by_tensor, 0)

# the result is the first input with some elements replaced
rule(
    "Scatter ScatterElements ScatterElementsV2 ScatterNdUpdate ScatterUpdate InplaceIndexAdd IndexFill IndexPutV2 "
    "MaskedScatter Assign",
    0,
)
rule(
    "EmbeddingDenseGrad",
    lambda call: (int(call.attr("num_weights")), call.shape(0)[-1]),
    0,
)


def _repeat_interleave(call: Call) -> Shape:
    """Known for one common repeat count; else the size is the sum of the repeats."""
    x, repeats = call.shape(0), call.exprs(1)
    at = int(call.attr("axis", 1000))
    flat = at == 1000
    x = (expr.product(x),) if flat else x
    at = 0 if flat else axis(at, len(x))
    size = expr.mul(x[at], repeats[0]) if len(repeats) == 1 else expr.add(*repeats)
    return (*x[:at], size, *x[at + 1 :])


rule("RepeatInterleave", _repeat_interleave, 0)
rule("SearchSorted", 1, lambda call: call.ge_dtype("dtype", I64))
rule("Bucketize", 0, lambda call: call.ge_dtype("dtype", I64))
rule("Where", lambda call: None, I64)
rule("NonZero", lambda call: None, lambda call: call.ge_dtype("dtype", I64))
rule("MaskedSelect", lambda call: None, 0)
