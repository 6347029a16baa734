"""Rounding to integral values; integers pass through. A jump sits between two neighbours: halves are rounded first."""

from __future__ import annotations

from torchair_autofuse.lower.arithmetic import Args, get, unary
from torchair_autofuse.lower.checks import FLOATS, NUMBERS, all_of, operands, refuse
from torchair_autofuse.lower.registry import Emit, Emitter, OpView, Rule, Val, register
from torchair_autofuse.messages import Reason


def _float_only(name: str) -> Emit:
    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        x = get(args, 0)
        return [e.op(name, x) if x.dtype.is_float else x]

    return emit


def _decimals(op: OpView) -> Reason | None:
    decimals = op.attr("decimals", 0)
    return None if decimals == 0 else refuse(op, f"attribute decimals = {decimals!r}; only 0 is supported")


register(Rule("Floor", "pointwise", operands(FLOATS), unary("floor"), predicate=True))
register(Rule("Ceil", "pointwise", operands(FLOATS), unary("ceil"), predicate=True))
register(Rule("Rint", "pointwise", operands(FLOATS), unary("rint"), predicate=True))
register(Rule("Round", "pointwise", all_of(operands(NUMBERS), _decimals), _float_only("rint"), predicate=True))
register(Rule("Trunc", "pointwise", operands(NUMBERS), _float_only("trunc"), predicate=True))
