"""Logic on bool, bit operations on integers (on bool they are the logical ones)."""

from __future__ import annotations

from torchair_autofuse.dtypes import BOOL
from torchair_autofuse.lower.arithmetic import Args, binary, get, unary
from torchair_autofuse.lower.checks import INTS, operands
from torchair_autofuse.lower.registry import Emit, Emitter, OpView, Rule, Val, register


def _bitwise(integer: str, boolean: str) -> Emit:
    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        values = [get(args, i) for i in range(len(args))]
        return [e.op(boolean if values[0].dtype == BOOL else integer, *values)]

    return emit


register(Rule("LogicalAnd", "pointwise", operands((BOOL,), required=2), binary("and")))
register(Rule("LogicalOr", "pointwise", operands((BOOL,), required=2), binary("or")))
register(Rule("LogicalNot", "pointwise", operands((BOOL,)), unary("not")))
for _type, _integer, _boolean in (
    ("BitwiseAnd", "bitand", "and"),
    ("BitwiseOr", "bitor", "or"),
    ("BitwiseXor", "bitxor", "ne"),
):
    register(Rule(_type, "pointwise", operands((*INTS, BOOL), required=2), _bitwise(_integer, _boolean)))
register(Rule("Invert", "pointwise", operands((*INTS, BOOL)), _bitwise("bitnot", "not")))
