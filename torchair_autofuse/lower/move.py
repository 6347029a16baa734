"""Ops that move data: transposes, slices, splits, concats and padding. Inside a kernel they are index arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torchair_autofuse.dtypes import BOOL
from torchair_autofuse.ge.infer.move import concat_parts, paddings, slice_bounds, slice_start
from torchair_autofuse.ge.infer.registry import Call, Unknown
from torchair_autofuse.ge.infer.shapes import axes, axis
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.bounds import nonnegative
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.checks import ALL, dims, fits, refuse, shape_text
from torchair_autofuse.lower.registry import (
    RULES,
    Check,
    Join,
    Margin,
    Movement,
    OpView,
    Permute,
    Rule,
    Windows,
    data_positions,
    register,
)
from torchair_autofuse.messages import Reason

Moves = Callable[[Call, OpView], Movement]


def _call(op: OpView) -> Call:
    return Call(op.node, op.inputs)


def _check(moves: Moves) -> Check:
    """One dtype throughout, and a movement that is known."""

    def check(op: OpView) -> Reason | None:
        positions = data_positions(op.node, RULES[op.node.type])
        dtypes = [op.dtype(i) for i in positions] + [op.out_dtype(k) for k in range(len(op.outputs))]
        for dtype in dtypes:
            if dtype not in ALL:
                known = ", ".join(str(d) for d in ALL)
                return refuse(op, f"a tensor of {dtype}, a fused op moves {known}", "AF202")
            if dtype != dtypes[0]:
                return refuse(op, f"tensors of different dtypes, {dtypes[0]} and {dtype}", "AF202")
        moved = movement_or_reason(op, moves)
        return moved if isinstance(moved, Reason) else None

    return check


def movement_or_reason(op: OpView, moves: Moves) -> Movement | Reason:
    """How the op moves its elements, or what of that is not known (AF218)."""
    try:
        return moves(_call(op), op)
    except Unknown as unknown:
        return refuse(op, str(unknown))


def register_move(
    types: str,
    moves: Moves,
    data_inputs: tuple[int, ...] | slice | None,
    check: Callable[[Moves], Check] = _check,
) -> None:
    """Registers one rule of view "move" for the space-separated ``types``."""
    for name in types.split():
        made = Rule(name, "view", check(moves), data_inputs=data_inputs, view="move")
        register(replace(made, movement=lambda op: moves(_call(op), op)))


# -- transpose --------------------------------------------------------------------------------------------------------
def _transpose(call: Call, op: OpView) -> Movement:
    perm = call.int_list("perm") if call.node.type == "TransposeD" else call.ints(1)
    return Permute(tuple(axes(perm, call.rank(0))))


register_move("Transpose TransposeD", _transpose, (0,))


# -- slices -----------------------------------------------------------------------------------------------------------
def one_window(call: Call, starts: dict[int, Expr], steps: dict[int, int], dropped: int | None = None) -> Windows:
    """A slice: where it begins and its steps, per dim that does not start at 0 or has a step."""
    rank = range(call.rank(0))
    return Windows((tuple(starts.get(k, 0) for k in rank),), (tuple(steps.get(k, 1) for k in rank),), dropped)


def _strided_slice(call: Call, op: OpView) -> Movement:
    starts: dict[int, Expr] = {}
    steps: dict[int, int] = {}
    for at, begin, _, stride in slice_bounds(call):
        starts[at] = slice_start(begin, call.shape(0)[at])
        steps[at] = stride
    return one_window(call, starts, steps)


def _slice(call: Call, op: OpView) -> Movement:
    offsets = tuple(call.int_list("offsets")) if call.node.type == "SliceD" else call.exprs(1)
    if not all(nonnegative(o) for o in offsets):
        raise Unknown("an offset that may be negative")
    return one_window(call, dict(enumerate(offsets)), {})


def _reverse(call: Call, op: OpView) -> Movement:
    """Every element, from the last one on."""
    over = axes(call.ints(1), call.rank(0))
    return one_window(call, {k: expr.add(call.shape(0)[k], -1) for k in over}, dict.fromkeys(over, -1))


register_move("StridedSliceV2 StridedSliceV3 StridedSlice", _strided_slice, (0,))
register_move("ReverseV2", _reverse, (0,))
register_move("Slice SliceD", _slice, (0,))


# -- splits -----------------------------------------------------------------------------------------------------------
def _split(call: Call, op: OpView) -> Movement:
    """Every result begins where the one before it ends."""
    kind = call.node.type
    if kind == "SplitV":
        at = call.int_scalar(2)
    elif kind == "Split":
        at = call.int_scalar(0)
    else:
        at = int(call.attr("split_dim"))
    position = 1 if kind == "Split" else 0
    rank = call.rank(position)
    at = axis(at, rank)
    starts: list[tuple[Expr, ...]] = []
    begin: Expr = 0
    for info in op.outputs:
        starts.append(tuple(begin if k == at else 0 for k in range(rank)))
        begin = expr.add(begin, dims(info)[at])
    if not expr.equal(begin, call.shape(position)[at]):
        raise Unknown("the parts are not known to add up to the whole")
    return Windows(tuple(starts), ((1,) * rank,) * len(op.outputs))


def _unpack(call: Call, op: OpView) -> Movement:
    rank = call.rank(0)
    at = axis(int(call.attr("axis", 0)), rank)
    starts = tuple(tuple(i if k == at else 0 for k in range(rank)) for i in range(len(op.outputs)))
    return Windows(starts, ((1,) * rank,) * len(op.outputs), at)


register_move("SplitV SplitVD SplitD", _split, (0,))
register_move("Split", _split, (1,))
register_move("Unpack", _unpack, (0,))


# -- joins ------------------------------------------------------------------------------------------------------------
def _concat(call: Call, op: OpView) -> Movement:
    parts, at = concat_parts(call)
    starts: list[Expr] = []
    begin: Expr = 0
    result = dims(op.outputs[0])
    for i in data_positions(op.node, RULES[op.node.type]):
        starts.append(begin)
        if i not in parts:
            continue
        shape = call.shape(i)
        if not all(k == at or expr.equal(d, result[k]) for k, d in enumerate(shape)):
            text = f"dims of input {i} {shape_text(shape)} are not known to be those of the result {shape_text(result)}"
            raise Unknown(text)
        begin = expr.add(begin, shape[at])
    return Join(at, tuple(starts))


def _pack(call: Call, op: OpView) -> Movement:
    at = axis(int(call.attr("axis", 0)), call.rank(0) + 1)
    return Join(at, tuple(range(len(call.inputs))), added=True)


def _pad(call: Call, op: OpView) -> Movement:
    """Padding with a constant; a negative one, which cuts, and other modes stay."""
    if call.attr("mode", "constant") not in ("constant", b"constant"):
        raise Unknown(f"mode {call.attr('mode')!r}")
    pairs = paddings(call)
    if not all(nonnegative(n) for pair in pairs for n in pair):
        raise Unknown("a padding that may be negative")
    value = op.scalar(2) if call.has(2) else 0
    if value is None or not fits(value, op.out_dtype()):
        raise Unknown("the value to pad with is not a known number of the tensor's dtype")
    made = bool(value) if op.out_dtype() == BOOL else value
    return Margin(tuple(b for b, _ in pairs), tuple(a for _, a in pairs), made)


register_move("ConcatV2", _concat, slice(0, -1))
register_move("Concat", _concat, slice(1, None))
register_move("ConcatD ConcatV2D", _concat, None)
register_move("Pack", _pack, None)
register_move("PadV3 PadV2 Pad", _pad, (0,))
