"""Comparisons and float classification; the result is bool, and half-precision operands are rounded first."""

from __future__ import annotations

import math

from torchair_autofuse.dtypes import BOOL, F32
from torchair_autofuse.lower.arithmetic import Args, binary, get
from torchair_autofuse.lower.checks import ALL, FLOATS, NUMBERS, operands
from torchair_autofuse.lower.registry import Emitter, OpView, Rule, Val, register

for _type, _name, _dtypes in (
    ("Equal", "eq", ALL),
    ("NotEqual", "ne", ALL),
    ("Less", "lt", NUMBERS),
    ("LessEqual", "le", NUMBERS),
    ("Greater", "gt", NUMBERS),
    ("GreaterEqual", "ge", NUMBERS),
):
    register(
        Rule(_type, "pointwise", operands(_dtypes, required=2, result=BOOL), binary(_name), predicate=True),
    )


def _is_nan(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [e.op("ne", x, x)]


def _is_inf(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [e.op("eq", e.op("abs", get(args, 0)), e.const(math.inf, F32))]


def _is_finite(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [e.op("lt", e.op("abs", get(args, 0)), e.const(math.inf, F32))]


for _type, _emit in (("IsNan", _is_nan), ("IsInf", _is_inf), ("IsFinite", _is_finite)):
    register(Rule(_type, "pointwise", operands(FLOATS, result=BOOL), _emit, predicate=True))
