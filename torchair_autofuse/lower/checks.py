"""Building blocks of the checkers beside each rule: dtypes, operand shapes, attributes, one-element operands.

A check returns None when the node can be lowered, else a Reason that names the node, what it has and what is expected:
AF202 for dtypes, AF204 for dims, AF218 for attributes and operand forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8, DType
from torchair_autofuse.ge.graph import TensorInfo
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.registry import Check, OpView
from torchair_autofuse.messages import Reason

FLOATS: tuple[DType, ...] = (F32, F16, BF16)
INTS: tuple[DType, ...] = (I32, I64, I16, I8, U8)
SIGNED: tuple[DType, ...] = (I32, I64, I16, I8)
NUMBERS: tuple[DType, ...] = FLOATS + INTS
ALL: tuple[DType, ...] = (*NUMBERS, BOOL)


def label(op: OpView) -> str:
    """How a reason names a node: type and name, once where they are the same."""
    return op.node.type if op.node.name == op.node.type else f"{op.node.type} {op.node.name}"


def refuse(op: OpView, text: str, code: str = "AF218") -> Reason:
    return Reason(code, f"{label(op)}: {text}")


def shape_text(shape: Sequence[Expr]) -> str:
    return "[" + ", ".join(expr.to_str(d) for d in shape) + "]"


def input_name(op: OpView, i: int) -> str:
    names = op.node.input_names
    return f"input {names[i]}" if i < len(names) and names[i] else f"input {i}"


def present(op: OpView, i: int) -> TensorInfo | None:
    """What is known of input ``i``, or None when it is absent."""
    return op.inputs[i] if i < len(op.inputs) else None


def dims(info: TensorInfo) -> tuple[Expr, ...]:
    assert info.shape is not None, "a rule sees known shapes only"
    return info.shape


def same_dims(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(expr.equal(x, y) for x, y in zip(a, b))


def all_of(*checks: Check) -> Check:
    """The first refusal of several checks."""

    def check(op: OpView) -> Reason | None:
        for c in checks:
            reason = c(op)
            if reason is not None:
                return reason
        return None

    return check


def operands(
    dtypes: tuple[DType, ...],
    *,
    required: int = 1,
    data: tuple[int, ...] | None = None,
    result: DType | None = None,
    same_shape: bool = False,
) -> Check:
    """Checks the tensors of an elementwise op.

    ``required``: how many leading inputs must be present. ``data``: positions to look at (None: all present ones).
    They share one dtype out of ``dtypes``, which is also the result's unless ``result`` says otherwise.
    ``same_shape``: the GE op does not broadcast.
    """

    def check(op: OpView) -> Reason | None:
        positions = range(len(op.inputs)) if data is None else data
        found = [(i, info) for i in positions if (info := present(op, i)) is not None]
        for i in range(required):
            if present(op, i) is None:
                return refuse(op, f"required {input_name(op, i)} is absent")
        first: DType | None = None
        for i, info in found:
            if info.dtype not in dtypes:
                known = ", ".join(str(d) for d in dtypes)
                return refuse(op, f"{input_name(op, i)} is {info.dtype}, a fused op takes {known}", "AF202")
            if first is not None and info.dtype != first:
                return refuse(op, f"inputs of different dtypes, {first} and {info.dtype}", "AF202")
            first = info.dtype
        expected = result or first
        for info in op.outputs:
            if info.dtype != expected:
                return refuse(op, f"result is {info.dtype}, expected {expected}", "AF202")
        if same_shape:
            a = dims(found[0][1])
            for i, info in found[1:]:
                if not same_dims(a, dims(info)):
                    text = f"operands of shapes {shape_text(a)} and {shape_text(dims(info))} ({input_name(op, i)})"
                    return refuse(op, f"{text}, but this op does not broadcast")
        return None

    return check


def one_element(*positions: int) -> Check:
    """The inputs at ``positions``, where present, have one element and do not raise the rank of the result."""

    def check(op: OpView) -> Reason | None:
        rank = max((len(dims(info)) for i, info in enumerate(op.inputs) if info and i not in positions), default=0)
        for i in positions:
            info = present(op, i)
            if info is None:
                continue
            shape = dims(info)
            if any(d != 1 for d in shape) or len(shape) > rank:
                return refuse(op, f"{input_name(op, i)} has shape {shape_text(shape)}, expected one element")
        return None

    return check


def number(name: str, default: float | None = None, *, where: Callable[[float], bool] = math.isfinite) -> Check:
    """Attribute ``name`` is a number that satisfies ``where`` (finite, unless said); absent only with a default."""

    def check(op: OpView) -> Reason | None:
        value = op.attr(name, default)
        if value is None:
            return refuse(op, f"required attribute {name} is absent")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not where(value):
            return refuse(op, f"attribute {name} = {value!r} is not supported")
        return None

    return check


def int_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = 8 * dtype.itemsize
    return (0, (1 << bits) - 1) if dtype.kind == "uint" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def fits(value: float | int, dtype: DType) -> bool:
    """Whether a number is a value of ``dtype`` (any number is for a float type: it is rounded)."""
    if dtype.is_float:
        return True
    if not math.isfinite(value) or value != int(value):
        return False
    low, high = (0, 1) if dtype == BOOL else int_range(dtype)
    return low <= value <= high


def scalar_attr_fits(name: str) -> Check:
    """Float attribute ``name`` is a value of the dtype of input 0: a fraction has no meaning for integers."""

    def check(op: OpView) -> Reason | None:
        value = op.attr(name)
        if value is None:
            return refuse(op, f"required attribute {name} is absent")
        if not fits(value, op.dtype(0)):
            return refuse(op, f"attribute {name} = {value!r} is not a value of {op.dtype(0)}")
        return None

    return check


def inputs_are(dtypes: Sequence[DType], *required: int, optional: Sequence[int] = ()) -> Check:
    """Each input at these positions is of one of ``dtypes``; only ``optional`` ones may be absent."""

    def check(op: OpView) -> Reason | None:
        for i in (*required, *optional):
            info = present(op, i)
            if info is None:
                if i in optional:
                    continue
                return refuse(op, f"required {input_name(op, i)} is absent")
            if info.dtype not in dtypes:
                known = ", ".join(str(d) for d in dtypes)
                return refuse(op, f"{input_name(op, i)} is {info.dtype}, a fused op takes {known}", "AF202")
        return None

    return check


def outputs_are(*expected: DType | Sequence[DType] | int) -> Check:
    """One entry per output: its dtype, the dtypes it may have, or the input that has the same one."""

    def check(op: OpView) -> Reason | None:
        if len(op.outputs) != len(expected):
            return refuse(op, f"{len(op.outputs)} results, expected {len(expected)}")
        for k, (info, wanted) in enumerate(zip(op.outputs, expected)):
            allowed = (op.dtype(wanted),) if isinstance(wanted, int) else wanted
            allowed = (allowed,) if isinstance(allowed, DType) else allowed
            if info.dtype not in allowed:
                known = " or ".join(str(d) for d in allowed)
                return refuse(op, f"result {k} is {info.dtype}, expected {known}", "AF202")
        return None

    return check


def choice(name: str, default: object, *allowed: object) -> Check:
    """Attribute ``name`` is one of ``allowed``."""

    def check(op: OpView) -> Reason | None:
        value = op.attr(name, default)
        if value in allowed:
            return None
        known = ", ".join(repr(v) for v in allowed)
        return refuse(op, f"attribute {name} = {value!r} is not supported, only {known}")

    return check
