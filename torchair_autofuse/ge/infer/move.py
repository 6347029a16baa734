"""Inference rules of views and of ops that move, repeat or cut data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.infer.bounds import nonnegative
from torchair_autofuse.ge.infer.registry import (
    Call,
    ObjectArray,
    Shape,
    Unknown,
    ValueRule,
    rule,
    rule_of_all_outputs,
    to_array,
)
from torchair_autofuse.ge.infer.shapes import (
    axes,
    axis,
    broadcast,
    maximum,
    minimum,
    plain,
    reshape,
    subtract,
)
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr


# -- views: the value is kept, the shape changes --------------------------------------------------------------------
def _value_reshaped(shape_of: Callable[[Call], Shape]) -> ValueRule:
    def value(call: Call, dtype: DType) -> ObjectArray:
        return to_array(call.array(0).reshape(-1).tolist(), shape_of(call))

    return value


def _view(types: str, shape_of: Callable[[Call], Shape]) -> None:
    rule(types, shape_of, 0, _value_reshaped(shape_of))


def _squeeze(call: Call, over: list[int]) -> Shape:
    x = call.shape(0)
    if not over:
        if any(not isinstance(d, int) for d in x):
            raise Unknown("squeeze of all dims of size one with a symbolic dim")
        return tuple(d for d in x if d != 1)
    gone = axes(over, len(x))
    for g in gone:
        if x and isinstance(x[g], int) and x[g] != 1:
            raise Unknown(f"squeezed dim {g} has size {x[g]}")
    return tuple(d for i, d in enumerate(x) if i not in gone)


def _unsqueeze(call: Call, where: list[int]) -> Shape:
    x = list(call.shape(0))
    rank = len(x) + len(where)
    at = sorted(axes(where, rank))
    if len(set(at)) != len(at):
        raise Unknown(f"repeated axes {where}")
    for a in at:
        x.insert(a, 1)
    return tuple(x)


def _flatten_v2(call: Call) -> Shape:
    x = call.shape(0)
    first, last = axis(int(call.attr("axis", 1)), len(x)), axis(int(call.attr("end_axis", -1)), len(x))
    return (*x[:first], expr.product(x[first : last + 1]), *x[last + 1 :])


def _flatten(call: Call) -> Shape:
    x, at = call.shape(0), int(call.attr("axis", 1))
    return (expr.product(x[:at]), expr.product(x[at:]))


def _reshape(call: Call) -> Shape:
    if int(call.attr("axis", 0)) != 0 or int(call.attr("num_axes", -1)) != -1:
        raise Unknown("reshape of some of the dims only")
    return reshape(call.shape(0), call.exprs(1))


def _identity_n(call: Call) -> list[Shape | None]:
    return [call.info(i).shape for i in range(call.n_outputs)]


_view("Identity", lambda call: call.shape(0))
_view("Reshape", _reshape)
_view("Squeeze SqueezeV2", lambda call: _squeeze(call, call.int_list("axis", [])))
_view("SqueezeV3", lambda call: _squeeze(call, list(call.ints(1)) if call.has(1) else []))
_view("Unsqueeze", lambda call: _unsqueeze(call, call.int_list("axes", [])))
_view("UnsqueezeV2", lambda call: _unsqueeze(call, call.int_list("axis", [])))
_view("UnsqueezeV3 ExpandDims", lambda call: _unsqueeze(call, list(call.ints(1))))
_view("FlattenV2", _flatten_v2)
_view("Flatten", _flatten)


def _bitcast(call: Call) -> Shape:
    source, target = call.dtype(0), call.ge_dtype("type", None)
    if source.itemsize != target.itemsize:
        raise Unknown("bitcast between types of different size")
    return call.shape(0)


rule("Bitcast", _bitcast, lambda call: call.ge_dtype("type", None))


# -- broadcast, tile, transpose --------------------------------------------------------------------------------------
def _broadcast_to(call: Call) -> Shape:
    """-1 keeps the dim of x (1 for a new leading dim)."""
    x, target = call.shape(0), call.exprs(1)
    pad = len(target) - len(x)
    if pad < 0:
        raise Unknown("target rank is smaller than the input's")
    old = (*[1] * pad, *x)
    dims = tuple(o if isinstance(t, int) and t == -1 else t for o, t in zip(old, target))
    for o, t in zip(old, dims):
        if isinstance(o, int) and o != 1 and isinstance(t, int) and o != t:
            raise Unknown(f"dim {o} does not broadcast to {t}")
    return dims


def _broadcast_value(call: Call, dtype: DType) -> ObjectArray:
    out: ObjectArray = np.broadcast_to(call.array(0), plain(_broadcast_to(call)))
    return out


def _tile(call: Call) -> Shape:
    x, times = call.shape(0), call.exprs(1)
    x = (*[1] * (len(times) - len(x)), *x)
    times = (*[1] * (len(x) - len(times)), *times)
    return tuple(expr.mul(d, t) for d, t in zip(x, times))


def _tile_value(call: Call, dtype: DType) -> ObjectArray:
    plain(_tile(call))
    out: ObjectArray = np.tile(call.array(0), call.ints(1))
    return out


def _transpose(call: Call) -> Shape:
    x, perm = call.shape(0), axes(call.ints(1), call.rank(0))
    if sorted(perm) != list(range(len(x))):
        raise Unknown(f"perm {perm} is no permutation of rank {len(x)}")
    return tuple(x[p] for p in perm)


rule("BroadcastTo", _broadcast_to, 0, _broadcast_value)
rule("Expand", lambda call: broadcast(call.shape(0), call.exprs(1)), 0)
rule("Tile", _tile, 0, _tile_value)
rule("Transpose", _transpose, 0, lambda call, dtype: call.array(0).transpose(call.ints(1)))
rule("TransposeD", lambda call: tuple(call.shape(0)[p] for p in axes(call.int_list("perm"), call.rank(0))), 0)
rule("AsStrided", lambda call: call.exprs(1), 0)
rule("ViewCopy", 0)


# -- concat, pack, split ---------------------------------------------------------------------------------------------
def concat_parts(call: Call) -> tuple[list[int], int]:
    """Positions of the concatenated inputs and the axis: the first or last input, or an attribute.

    An empty part of one dim among parts of other ranks counts for nothing: torch allows it.
    """
    last = len(call.inputs) - 1
    if call.node.type == "ConcatV2":
        parts, at = list(range(last)), call.int_scalar(last)
    elif call.node.type == "Concat":
        parts, at = list(range(1, last + 1)), call.int_scalar(0)
    else:
        parts, at = list(range(last + 1)), int(call.attr("concat_dim"))
    if len({call.rank(i) for i in parts}) > 1:
        parts = [i for i in parts if call.shape(i) != (0,)]
    return parts, axis(at, call.rank(parts[0]))


def _concat(call: Call) -> Shape:
    parts, at = concat_parts(call)
    shapes = [call.shape(i) for i in parts]
    if len({len(s) for s in shapes}) != 1:
        raise Unknown("parts of different ranks")
    first = list(shapes[0])
    for k in range(len(first)):
        if k == at:
            first[k] = expr.add(*(s[at] for s in shapes))
        else:
            # any part's dim would do in a valid graph: an integer says most
            first[k] = next((s[k] for s in shapes if isinstance(s[k], int)), first[k])
    return tuple(first)


def _concat_value(call: Call, dtype: DType) -> ObjectArray:
    parts, at = concat_parts(call)
    out: ObjectArray = np.concatenate([call.array(i) for i in parts], axis=at)
    return out


def _parts_dtype(call: Call) -> DType:
    """The dtype all parts share."""
    shape_input = {"ConcatV2": len(call.inputs) - 1, "Concat": 0}.get(call.node.type)
    found = {call.dtype(i) for i in range(len(call.inputs)) if i != shape_input}
    if len(found) != 1:
        raise Unknown(f"parts of different dtypes: {', '.join(sorted(d.name for d in found))}")
    return found.pop()


def _pack(call: Call) -> Shape:
    x = call.shape(0)
    at = axis(int(call.attr("axis", 0)), len(x) + 1)
    return (*x[:at], len(call.inputs), *x[at:])


def _pack_value(call: Call, dtype: DType) -> ObjectArray:
    out: ObjectArray = np.stack([call.array(i) for i in range(len(call.inputs))], axis=int(call.attr("axis", 0)))
    return out


rule("ConcatV2 Concat ConcatD ConcatV2D", _concat, _parts_dtype, _concat_value)
rule("Pack", _pack, _parts_dtype, _pack_value)


def _split_v(call: Call) -> list[Shape]:
    x, at = call.shape(0), axis(call.int_scalar(2), call.rank(0))
    sizes = list(call.exprs(1))
    rest = [k for k, s in enumerate(sizes) if s == -1]
    if len(rest) > 1:
        raise Unknown("two split sizes are -1")
    if rest:
        sizes[rest[0]] = subtract(x[at], expr.add(*(s for s in sizes if s != -1)))
    return [(*x[:at], s, *x[at + 1 :]) for s in sizes]


def _split(call: Call) -> list[Shape]:
    x, at = call.shape(1), axis(call.int_scalar(0), call.rank(1))
    part = expr.floordiv(x[at], call.n_outputs)
    return [(*x[:at], part, *x[at + 1 :])] * call.n_outputs


def _split_d(call: Call) -> list[Shape]:
    x = call.shape(0)
    at = axis(int(call.attr("split_dim")), len(x))
    sizes: list[Expr] = (
        list(call.int_list("size_splits", [])) or [expr.floordiv(x[at], call.n_outputs)] * call.n_outputs
    )
    return [(*x[:at], s, *x[at + 1 :]) for s in sizes]


def _unpack(call: Call) -> list[Shape]:
    x = call.shape(0)
    at = axis(int(call.attr("axis", 0)), len(x))
    return [(*x[:at], *x[at + 1 :])] * call.n_outputs


rule_of_all_outputs("SplitV", _split_v)
rule_of_all_outputs("Split", _split, 1)
rule_of_all_outputs("SplitD SplitVD", _split_d)
rule_of_all_outputs("Unpack", _unpack)
rule_of_all_outputs("IdentityN", _identity_n)


# -- slices ----------------------------------------------------------------------------------------------------------
_OPEN_END = 2**31 - 1  # TorchAir writes this, or more, for a slice without an end


def slice_start(value: Expr, size: Expr) -> Expr:
    """A slice bound counted from the front and clamped to 0..size."""
    if isinstance(value, int) and value < 0:
        shifted = expr.add(size, value)
        return shifted if nonnegative(shifted) else maximum(shifted, 0)
    if not nonnegative(value):
        raise Unknown(f"sign of slice bound {value} is unknown")
    if isinstance(value, int) and value >= _OPEN_END:
        return size
    return minimum(value, size)


def sliced(size: Expr, begin: Expr, end: Expr, stride: int = 1) -> Expr:
    """Length of ``range(size)[begin:end:stride]`` for a positive stride."""
    first, last = slice_start(begin, size), slice_start(end, size)
    if last == size and nonnegative(begin):
        length = maximum(subtract(size, begin), 0)
    else:
        length = subtract(last, first)
        length = length if nonnegative(length) else maximum(length, 0)
    length = expr.tidy(length)
    return length if stride == 1 else expr.ceildiv(length, stride)


def slice_bounds(call: Call) -> list[tuple[int, Expr, Expr, int]]:
    """(axis, begin, end, stride) per sliced dim of a StridedSliceV2/V3 or StridedSlice."""
    if any(int(call.attr(f"{m}_mask", 0)) for m in ("ellipsis", "new_axis", "shrink_axis")):
        raise Unknown("ellipsis, new axis and shrink axis masks are not modelled")
    rank = call.rank(0)
    begin, end = call.exprs(1), call.exprs(2)
    over = list(range(len(begin)))
    if call.node.type == "StridedSlice":
        strides: tuple[int, ...] = call.ints(3)
    else:
        over = axes(call.ints(3), rank) if call.has(3) else over
        strides = call.ints(4) if call.has(4) else (1,) * len(begin)
    if not len(begin) == len(end) == len(over) == len(strides):
        raise Unknown("begin, end, axes and strides differ in length")
    if any(s <= 0 for s in strides):
        raise Unknown("a stride that is not positive")
    begin_mask, end_mask = int(call.attr("begin_mask", 0)), int(call.attr("end_mask", 0))
    return [
        (a, 0 if begin_mask >> k & 1 else b, _OPEN_END if end_mask >> k & 1 else e, s)
        for k, (a, b, e, s) in enumerate(zip(over, begin, end, strides))
    ]


def _strided_slice(call: Call) -> Shape:
    dims = list(call.shape(0))
    for a, begin, end, stride in slice_bounds(call):
        dims[a] = sliced(dims[a], begin, end, stride)
    return tuple(dims)


def _strided_slice_value(call: Call, dtype: DType) -> ObjectArray:
    index = [slice(None)] * call.rank(0)
    for a, begin, end, stride in slice_bounds(call):
        if not isinstance(begin, int) or not isinstance(end, int):
            raise Unknown("symbolic bounds")
        index[a] = slice(begin, end, stride)
    return call.array(0)[tuple(index)]


def _slice(call: Call) -> Shape:
    return tuple(
        subtract(d, o) if isinstance(s, int) and s == -1 else s
        for d, o, s in zip(call.shape(0), call.exprs(1), call.exprs(2))
    )


rule("StridedSliceV2 StridedSliceV3 StridedSlice", _strided_slice, 0, _strided_slice_value)
rule("Slice", _slice, 0)
rule("SliceD", lambda call: tuple(call.int_list("size")) if -1 not in call.int_list("size") else None, 0)


# -- padding ---------------------------------------------------------------------------------------------------------
def paddings(call: Call) -> list[tuple[Expr, Expr]]:
    flat, rank = call.exprs(1), call.rank(0)
    if len(flat) != 2 * rank:
        raise Unknown(f"{len(flat)} paddings for rank {rank}")
    if call.attr("paddings_contiguous", True):
        return [(flat[2 * k], flat[2 * k + 1]) for k in range(rank)]
    return [(flat[k], flat[rank + k]) for k in range(rank)]


rule(
    "PadV3 Pad PadV2 MirrorPad",
    lambda call: tuple(expr.add(d, a, b) for d, (a, b) in zip(call.shape(0), paddings(call))),
    0,
)
rule("PadV3Grad", lambda call: tuple(subtract(d, expr.add(a, b)) for d, (a, b) in zip(call.shape(0), paddings(call))))
