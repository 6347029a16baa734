"""Lookups: rows of a tensor by the values of others. A single constant index makes a slice instead."""

from __future__ import annotations

from torchair_autofuse.dtypes import I32, I64
from torchair_autofuse.ge.infer.registry import Call, Unknown
from torchair_autofuse.ge.infer.shapes import axis
from torchair_autofuse.loop import expr
from torchair_autofuse.lower.checks import ALL, dims, refuse
from torchair_autofuse.lower.move import Moves, movement_or_reason, one_window, register_move
from torchair_autofuse.lower.registry import RULES, Check, Movement, OpView, Rows, data_positions
from torchair_autofuse.messages import Reason


def _gather(call: Call, op: OpView) -> Movement:
    if int(call.attr("batch_dims", 0)) != 0:
        raise Unknown("batch_dims is not 0")
    at = axis(call.int_scalar(2) if call.node.type == "GatherV2" else 0, call.rank(0))
    size, index = call.shape(0)[at], op.scalar(1)
    if index is None:
        return Rows((at,), bool(call.attr("negative_index_support", False)))
    if not isinstance(size, int) or not -size <= index < size:
        raise Unknown(f"index {index} may be out of range for a dim of {expr.to_str(size)}")
    return one_window(call, {at: int(index) % size}, {}, at if call.rank(1) == 0 else None)


def _by_tensor(call: Call, op: OpView) -> Movement:
    """Advanced indexing of adjacent dims."""
    places = tuple(k for k, m in enumerate(call.int_list("indices_mask", [])) if m)
    if len(places) != len(call.inputs) - 1 or not places:
        raise Unknown(f"indices_mask names {len(places)} dims for {len(call.inputs) - 1} index tensors")
    if places != tuple(range(places[0], places[0] + len(places))):
        raise Unknown("dims that are not adjacent are indexed")
    if len(set(call.node.inputs)) < len(call.node.inputs):
        raise Unknown("one tensor is used twice")
    return Rows(places, True)


def _check(moves: Moves) -> Check:
    """Rows of a type that is moved, looked up by integers, as far as the movement is known."""

    def check(op: OpView) -> Reason | None:
        if op.dtype(0) not in ALL or op.out_dtype() != op.dtype(0):
            known = ", ".join(str(d) for d in ALL)
            return refuse(op, f"{op.out_dtype()} rows of {op.dtype(0)}; a fused op moves {known}", "AF202")
        moved = movement_or_reason(op, moves)
        if isinstance(moved, Reason):
            return moved
        if isinstance(moved, Rows):
            for i in data_positions(op.node, RULES[op.node.type])[1:]:
                if op.dtype(i) not in (I32, I64):
                    return refuse(op, f"indices of {op.dtype(i)}, a fused op looks up by i32 and i64", "AF202")
            table = op.inputs[0]
            assert table is not None
            if expr.product(dims(table)[moved.axes[-1] + 1 :]) == 1:
                return refuse(op, "single elements are looked up, a fused op takes rows")
        return None

    return check


register_move("GatherV2 Gather", _gather, (0, 1), _check)
register_move("IndexByTensor", _by_tensor, None, _check)
