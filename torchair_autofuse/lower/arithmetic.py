"""Arithmetic: sums, products, quotients, remainders and their combinations with scalars."""

from __future__ import annotations

from collections.abc import Sequence

from torchair_autofuse.dtypes import BOOL, F32, I32
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.checks import (
    FLOATS,
    INTS,
    NUMBERS,
    SIGNED,
    all_of,
    dims,
    fits,
    number,
    one_element,
    operands,
    refuse,
    same_dims,
    scalar_attr_fits,
    shape_text,
)
from torchair_autofuse.lower.registry import Check, Emit, Emitter, OpView, Rule, Val, register
from torchair_autofuse.messages import Reason

Args = Sequence["Val | None"]


def get(args: Args, i: int) -> Val:
    """An operand that the check has found to be present."""
    value = args[i]
    assert value is not None
    return value


def unary(name: str) -> Emit:
    return lambda e, op, args: [e.op(name, get(args, 0))]


def binary(name: str) -> Emit:
    return lambda e, op, args: [e.op(name, get(args, 0), get(args, 1))]


def _rule(kind: str, check: Check, emit: Emit, *, predicate: bool = False) -> None:
    register(Rule(kind, "pointwise", check, emit, predicate=predicate))


_BINARY_FLOAT = operands(FLOATS, required=2)
_BINARY = operands(NUMBERS, required=2)


def zero(e: Emitter, x: Val) -> Val:
    return e.const(0, x.dtype)


# ---- sums and products --------------------------------------------------------------------------------------------


def _mul(e: Emitter, op: OpView, args: Args) -> list[Val]:
    a, b = get(args, 0), get(args, 1)
    return [e.op("and" if a.dtype == BOOL else "mul", a, b)]


def _square(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    return [e.op("mul", x, x)]


def _squared_difference(e: Emitter, op: OpView, args: Args) -> list[Val]:
    d = e.op("sub", get(args, 0), get(args, 1))
    return [e.op("mul", d, d)]


def _sign(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """(x > 0) - (x < 0): NaN gives 0. Two selects are cheaper than the sign instruction sequence."""
    x = get(args, 0)
    one, minus, none = e.const(1, x.dtype), e.const(-1, x.dtype), zero(e, x)
    if x.dtype != F32:
        return [e.op("max", e.op("min", x, one), minus)]
    return [e.op("select", e.op("gt", x, none), one, e.op("select", e.op("lt", x, none), minus, none))]


def _add_n(e: Emitter, op: OpView, args: Args) -> list[Val]:
    total = get(args, 0)
    for i in range(1, len(args)):
        total = e.op("add", total, get(args, i))
    return [total]


def _bias_add(op: OpView) -> Reason | None:
    x, bias = op.inputs[0], op.inputs[1]
    assert x is not None and bias is not None
    shape, b = dims(x), dims(bias)
    layout = op.attr("data_format", "NHWC")
    channel_first = layout in ("NCHW", "NCDHW")
    if not channel_first and layout not in ("NHWC", "NDHWC", "ND"):
        return refuse(op, f"data_format {layout!r} is not supported")
    if len(b) != 1 or len(shape) < 2 or (channel_first and len(shape) != 2 and b[0] != 1):
        text = f"bias {shape_text(b)} along the channels of {shape_text(shape)} in {layout}"
        return refuse(op, f"{text}; only a bias over the last dim is")
    if not same_dims(dims(op.outputs[0]), shape):
        return refuse(op, f"bias {shape_text(b)} does not fit {shape_text(shape)}", "AF204")
    return None


def _fused_mul_add(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [e.op("add", e.op("mul", get(args, 0), get(args, 1)), get(args, 2))]


_rule("Add", _BINARY, binary("add"))
_rule("AddV2", _BINARY, binary("add"))
_rule("Sub", _BINARY, binary("sub"))
_rule("Mul", operands((*NUMBERS, BOOL), required=2), _mul)
_rule("Maximum", _BINARY, binary("max"))
_rule("Minimum", _BINARY, binary("min"))
_rule("SquaredDifference", _BINARY, _squared_difference)
_rule("FusedMulAdd", operands(NUMBERS, required=3), _fused_mul_add)
_rule("AddN", operands(NUMBERS, same_shape=True), _add_n)
_rule("BiasAdd", all_of(operands(NUMBERS, required=2), _bias_add), binary("add"))
_rule("Neg", operands((*FLOATS, *SIGNED)), unary("neg"))
_rule("Abs", operands((*FLOATS, *SIGNED)), unary("abs"))
_rule("Square", operands(NUMBERS), _square)
_rule("Sign", operands((*FLOATS, *SIGNED)), _sign, predicate=True)


# ---- with a scalar ------------------------------------------------------------------------------------------------


def _with_attr(name: str) -> Emit:
    """x <name> value: the f32 attribute is not rounded to a half type first."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        x, value = get(args, 0), op.attr("value")
        return [e.op(name, x, e.const(f.f32(value) if x.dtype.is_float else int(value), x.dtype))]

    return emit


def _multiply_add(sign: str, alpha: int) -> Emit:
    """x1 <sign> alpha * x2, ``alpha`` being the position of an optional one-element input."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        x1, x2 = get(args, 0), get(args, 1)
        factor = args[alpha] if alpha < len(args) else None
        known = op.scalar(alpha)
        if factor is None or known == 1:
            return [e.op(sign, x1, x2)]
        if known == -1:
            return [e.op("sub" if sign == "add" else "add", x1, x2)]
        return [e.op(sign, x1, e.op("mul", x2, factor))]

    return emit


def _axpy(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x1, x2, alpha = get(args, 0), get(args, 1), op.attr("alpha")
    if alpha in (1, -1):
        return [e.op("add" if alpha == 1 else "sub", x1, x2)]
    factor = e.const(f.f32(alpha) if x1.dtype.is_float else int(alpha), x1.dtype)
    return [e.op("add", x1, e.op("mul", x2, factor))]


def _axpy_alpha(op: OpView) -> Reason | None:
    alpha = op.attr("alpha")
    return None if fits(alpha, op.dtype(0)) else refuse(op, f"attribute alpha = {alpha!r} is not a value of i32")


def _addc(name: str) -> Emit:
    """input + value * (x1 <name> x2); the value scales x1 first in a product, as torch does."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        x0, x1, x2, value = (get(args, i) for i in range(4))
        known = op.scalar(3)
        if known in (1, -1):
            return [e.op("add" if known == 1 else "sub", x0, e.op(name, x1, x2))]
        if name == "mul":
            return [e.op("add", x0, e.op("mul", e.op("mul", x1, value), x2))]
        return [e.op("add", x0, e.op("mul", e.op("div", x1, x2), value))]

    return emit


def _lerp(e: Emitter, op: OpView, args: Args) -> list[Val]:
    start, end, weight = (get(args, i) for i in range(3))
    return [e.op("add", start, e.op("mul", e.op("sub", end, start), weight))]


_rule("Muls", all_of(operands((*FLOATS, *INTS)), scalar_attr_fits("value")), _with_attr("mul"))
_rule("Adds", all_of(operands((*FLOATS, *INTS)), scalar_attr_fits("value")), _with_attr("add"))
_rule("Axpy", all_of(operands((*FLOATS, I32), required=2), number("alpha"), _axpy_alpha), _axpy)
_rule("AxpyV2", all_of(operands(NUMBERS, required=3), one_element(2)), _multiply_add("add", 2))
_rule("Sxpy", all_of(operands(NUMBERS, required=2), one_element(2)), _multiply_add("sub", 2))
_rule("Addcmul", all_of(operands(NUMBERS, required=4), one_element(3)), _addc("mul"))
_rule("Addcdiv", all_of(operands(FLOATS, required=4), one_element(3)), _addc("div"))
_rule("Lerp", operands(FLOATS, required=3), _lerp)


# ---- quotients ----------------------------------------------------------------------------------------------------


def quotient(e: Emitter, op: OpView, args: Args) -> Val:
    """x1 / x2; by a constant power of two it is a product, the same for every x1."""
    known = op.scalar(1)
    if known is not None and f.power_of_two(float(known)):
        return f.divide(e, get(args, 0), float(known))
    return e.op("div", get(args, 0), get(args, 1))


def _real_div(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [quotient(e, op, args)]


def _rounded_quotient(integer: str, rounding: str) -> Emit:
    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        if get(args, 0).dtype == F32:
            return [e.op(rounding, quotient(e, op, args))]
        return [e.op(integer, get(args, 0), get(args, 1))]

    return emit


def _floor_mod(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """fmod, moved by x2 where its sign differs from that of x2 (min < 0 < max says so exactly, zeros and NaN not)."""
    a, b = get(args, 0), get(args, 1)
    if a.dtype != F32:
        return [e.op("floormod", a, b)]
    r = e.op("fmod", a, b)
    none = zero(e, r)
    known = op.scalar(1)
    if known is not None and known != 0:
        differs = e.op("lt" if known > 0 else "gt", r, none)
    else:
        differs = e.op("and", e.op("lt", e.op("min", r, b), none), e.op("gt", e.op("max", r, b), none))
    return [e.op("select", differs, e.op("add", r, b), r)]


def _trunc_mod(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """The remainder with the sign of x1."""
    a, b = get(args, 0), get(args, 1)
    if a.dtype == F32:
        return [e.op("fmod", a, b)]
    return [e.op("sub", a, e.op("mul", e.op("truncdiv", a, b), b))]


def _zero_where_zero(name: str, decides: int) -> Emit:
    """x1 <name> x2, but 0 where operand ``decides`` is 0."""

    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        a, b = get(args, 0), get(args, 1)
        none = zero(e, a)
        return [e.op("select", e.op("eq", (a, b)[decides], none), none, e.op(name, a, b))]

    return emit


def _xlogy(e: Emitter, op: OpView, args: Args) -> list[Val]:
    """0 where x1 == 0 and x2 is not NaN, else x1 ln(x2)."""
    a, b = get(args, 0), get(args, 1)
    none = zero(e, a)
    vanishes = e.op("and", e.op("eq", a, none), e.op("eq", b, b))
    return [e.op("select", vanishes, none, e.op("mul", a, e.op("log", b)))]


_rule("RealDiv", _BINARY_FLOAT, _real_div)
_rule("Div", _BINARY_FLOAT, _real_div)
_rule("FloorDiv", _BINARY, _rounded_quotient("floordiv", "floor"), predicate=True)
_rule("TruncateDiv", _BINARY, _rounded_quotient("truncdiv", "trunc"), predicate=True)
_rule("FloorMod", _BINARY, _floor_mod, predicate=True)
_rule("Mod", _BINARY, _trunc_mod, predicate=True)
_rule("TruncateMod", _BINARY, _trunc_mod, predicate=True)
_rule("DivNoNan", _BINARY_FLOAT, _zero_where_zero("div", 1), predicate=True)
_rule("MulNoNan", _BINARY, _zero_where_zero("mul", 1), predicate=True)
_rule("Xdivy", _BINARY_FLOAT, _zero_where_zero("div", 0), predicate=True)
_rule("Xlogy", _BINARY_FLOAT, _xlogy, predicate=True)
_rule("Reciprocal", operands(FLOATS), unary("reciprocal"))
_rule("Inv", operands(FLOATS), unary("reciprocal"))
