"""Choice and clamping. The condition is bool; a branch that is not taken never leaks, be it NaN or infinite."""

from __future__ import annotations

import math

from torchair_autofuse.dtypes import BOOL
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import (
    ALL,
    FLOATS,
    NUMBERS,
    all_of,
    dims,
    input_name,
    int_range,
    number,
    one_element,
    operands,
    present,
    refuse,
    same_dims,
    shape_text,
)
from torchair_autofuse.lower.formulas import f32
from torchair_autofuse.lower.registry import Check, Emitter, OpView, Rule, Val, register
from torchair_autofuse.messages import Reason


def _bool_input(i: int) -> Check:
    def check(op: OpView) -> Reason | None:
        info = present(op, i)
        if info is None:
            return refuse(op, f"required {input_name(op, i)} is absent")
        if info.dtype != BOOL:
            return refuse(op, f"{input_name(op, i)} is {info.dtype}, expected bool", "AF202")
        return None

    return check


def _same_shapes(op: OpView) -> Reason | None:
    shapes = [dims(info) for info in op.inputs if info is not None]
    if all(same_dims(shapes[0], s) for s in shapes[1:]):
        return None
    text = ", ".join(shape_text(s) for s in shapes)
    return refuse(op, f"operands of shapes {text}; only equal shapes are supported")


def _select(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [e.op("select", get(args, 0), get(args, 1), get(args, 2))]


def _masked_fill(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """Inputs (x, mask, value): the value where the mask is true."""
    return [e.op("select", get(args, 1), get(args, 2), get(args, 0))]


_BRANCHES = all_of(_bool_input(0), operands(ALL, required=3, data=(1, 2)))
register(Rule("SelectV2", "pointwise", _BRANCHES, _select))
register(Rule("Select", "pointwise", all_of(_BRANCHES, _same_shapes), _select))
register(
    Rule(
        "MaskedFill",
        "pointwise",
        all_of(_bool_input(1), operands(ALL, required=3, data=(0, 2)), one_element(2)),
        _masked_fill,
    )
)


def _clip(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """min(max(x, low), high); a bound that every value of the type satisfies is dropped."""
    y = get(args, 0)
    least, greatest = (-math.inf, math.inf) if y.dtype.is_float else int_range(y.dtype)
    low, high = op.scalar(1), op.scalar(2)
    if low is None or not low <= least:
        y = e.op("max", y, get(args, 1))
    if high is None or not high >= greatest:
        y = e.op("min", y, get(args, 2))
    return [y]


for _type in ("ClipByValue", "ClipByValueV2"):
    register(Rule(_type, "pointwise", operands(NUMBERS, required=3), _clip))


def _nan_to_num(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    y = e.op("select", e.op("ne", x, x), e.const(f32(op.attr("nan")), x.dtype), x)
    y = e.op("select", e.op("eq", x, e.const(math.inf, x.dtype)), e.const(f32(op.attr("posinf")), x.dtype), y)
    return [e.op("select", e.op("eq", x, e.const(-math.inf, x.dtype)), e.const(f32(op.attr("neginf")), x.dtype), y)]


def _any(value: float) -> bool:
    return True


register(
    Rule(
        "NanToNum",
        "pointwise",
        all_of(operands(FLOATS), *(number(name, where=_any) for name in ("nan", "posinf", "neginf"))),
        _nan_to_num,
        predicate=True,
    )
)
