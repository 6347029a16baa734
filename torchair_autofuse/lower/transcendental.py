"""Exponentials, logarithms, roots, powers, trigonometric and hyperbolic functions (float tensors)."""

from __future__ import annotations

import math

from torchair_autofuse.dtypes import F32
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.arithmetic import Args, get, unary
from torchair_autofuse.lower.checks import FLOATS, INTS, all_of, number, one_element, operands, refuse
from torchair_autofuse.lower.registry import Check, Emit, Emitter, OpView, Rule, Val, register
from torchair_autofuse.messages import Reason

_FLOAT = operands(FLOATS)


def _rule(kind: str, emit: Emit, check: Check = _FLOAT) -> None:
    register(Rule(kind, "pointwise", check, emit))


for _type, _name in (
    ("Sqrt", "sqrt"),
    ("Rsqrt", "rsqrt"),
    ("Erf", "erf"),
    ("Sin", "sin"),
    ("Cos", "cos"),
    ("Tan", "tan"),
    ("Asin", "asin"),
    ("Acos", "acos"),
    ("Atan", "atan"),
    ("Sinh", "sinh"),
    ("Cosh", "cosh"),
    ("Asinh", "asinh"),
    ("Acosh", "acosh"),
    ("Atanh", "atanh"),
):
    _rule(_type, unary(_name))


# ---- exp and log: scale * x + shift, in a base (-1 stands for e) ----------------------------------------------------


def _affine(e: Emitter, op: OpView, x: Val) -> Val:
    return f.shift(e, f.scale(e, x, op.attr("scale", 1.0)), op.attr("shift", 0.0))


def _exp(e: Emitter, op: OpView, args: Args) -> list[Val]:
    base = op.attr("base", -1.0)
    z = _affine(e, op, get(args, 0))
    return [e.op("exp", z if base == -1 else f.scale(e, z, math.log(base)))]


def _log(e: Emitter, op: OpView, args: Args) -> list[Val]:
    base = op.attr("base", -1.0)
    y = e.op("log", _affine(e, op, get(args, 0)))
    return [y if base == -1 else f.scale(e, y, 1.0 / math.log(base))]


def _base(value: float) -> bool:
    return value == -1 or (0 < value < math.inf and value != 1)


_EXP_LOG = all_of(_FLOAT, number("base", -1.0, where=_base), number("scale", 1.0), number("shift", 0.0))

_rule("Exp", _exp, _EXP_LOG)
_rule("Log", _log, _EXP_LOG)
_rule("Expm1", lambda e, op, args: [f.expm1(e, get(args, 0))])
_rule("Log1p", lambda e, op, args: [f.log1p(e, get(args, 0))])
_rule("Erfc", lambda e, op, args: [f.erfc(e, get(args, 0))])


# ---- powers -------------------------------------------------------------------------------------------------------


def power(e: Emitter, x: Val, exponent: float) -> Val:
    """x ^ exponent for a known exponent, as IEEE pow: x^0 is 1 even for NaN, (-0)^0.5 is +0, (-inf)^0.5 is +inf."""
    if exponent == 0:
        return e.const(1, x.dtype)
    if exponent == 1:
        return x
    if exponent in (2, 3):
        square = e.op("mul", x, x)
        return square if exponent == 2 else e.op("mul", square, x)
    if exponent == -1:
        return e.op("reciprocal", x)
    if exponent == -2:
        return e.op("reciprocal", e.op("mul", x, x))
    if exponent in (0.5, -0.5):
        infinite = e.op("eq", x, e.const(-math.inf, F32))
        usual = e.op("add", x, e.const(0.0, F32))  # -0 becomes +0
        return e.op("sqrt" if exponent > 0 else "rsqrt", e.op("select", infinite, e.const(math.inf, F32), usual))
    return e.op("pow", x, e.const(f.f32(exponent), F32))


_MAX_INT_EXPONENT = 16


def _int_power(e: Emitter, x: Val, exponent: int) -> Val:
    """x ^ exponent by repeated squaring; wraps as the product does."""
    result: Val | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else e.op("mul", result, x)
        exponent >>= 1
        if exponent:
            x = e.op("mul", x, x)
    return result if result is not None else e.const(1, x.dtype)


def _pow(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x, known = get(args, 0), op.scalar(1)
    if x.dtype != F32:
        assert known is not None
        return [_int_power(e, x, int(known))]
    if known is not None:
        return [power(e, x, float(known))]
    return [e.op("pow", x, get(args, 1))]


def _pow_exponent(op: OpView) -> Reason | None:
    known = op.scalar(1)
    if op.dtype(0).is_float or (known is not None and 0 <= known <= _MAX_INT_EXPONENT):
        return None
    shown = "an exponent tensor" if known is None else f"exponent {known}"
    return refuse(op, f"{shown} on {op.dtype(0)}; an integer power needs a constant exponent 0..{_MAX_INT_EXPONENT}")


def _power(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [power(e, _affine(e, op, get(args, 0)), f.f32(op.attr("power", 1.0)))]


_rule("Pow", _pow, all_of(operands((*FLOATS, *INTS), required=2), _pow_exponent))
_rule("Pows", _pow, all_of(operands(FLOATS, required=2), one_element(1)))
_rule("Power", _power, all_of(_FLOAT, number("power", 1.0), number("scale", 1.0), number("shift", 0.0)))
