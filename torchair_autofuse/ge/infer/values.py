"""Evaluation of small tensors element by element: integers and bools symbolically, floats when they are constant.

Elements are what TensorInfo.value holds: int or sympy expression for integer tensors, float, or bool. A function
returns None where the element cannot be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchair_autofuse.dtypes import BOOL, F32, F64, DType
from torchair_autofuse.ge.infer.bounds import nonnegative, positive
from torchair_autofuse.ge.infer.registry import Call, ObjectArray, Unknown, ValueRule, to_array
from torchair_autofuse.ge.infer.shapes import maximum, minimum, subtract
from torchair_autofuse.loop import expr

Element = Any
Scalar = Callable[..., Element]


def fits(value: Element, dtype: DType) -> bool:
    """False for a plain integer outside the range of ``dtype``. Symbols are sizes, which fit."""
    if not isinstance(value, int) or not dtype.is_int:
        return True
    info = np.iinfo(dtype.numpy)
    return bool(info.min <= value <= info.max)


def rounded(value: float, dtype: DType) -> float:
    """A float rounded to ``dtype`` (nearest even)."""
    with np.errstate(all="ignore"):
        return float(np.asarray(np.float64(value)).astype(dtype.numpy))


def convert(value: Element, dtype: DType) -> Element:
    """The GE Cast of one element: float to integer truncates, anything to bool is != 0. None if not representable."""
    if isinstance(value, bool):
        return value if dtype == BOOL else int(value) if dtype.is_int else float(value)
    if dtype == BOOL:
        if isinstance(value, (int, float)):
            return value != 0
        return True if positive(value) else None
    if dtype.is_float:
        if not isinstance(value, (int, float)):
            return value if dtype in (F32, F64) else None  # a size, taken to be below 2^24
        try:
            return rounded(float(value), dtype)
        except OverflowError:
            return None
    if isinstance(value, float):
        value = math.trunc(value) if math.isfinite(value) else None
    return value if value is not None and fits(value, dtype) else None


def elementwise(function: Scalar) -> ValueRule:
    """Value rule that applies ``function(*elements, dtype)`` over the broadcast inputs."""

    def value(call: Call, dtype: DType) -> ObjectArray:
        arrays = np.broadcast_arrays(*(call.array(i) for i in range(len(call.inputs))))
        flat = [a.reshape(-1).tolist() for a in arrays]
        out = [function(*elements, dtype) for elements in zip(*flat)]
        if any(v is None or not fits(v, dtype) for v in out):
            raise Unknown("value is not a known element of its dtype")
        return to_array(out, arrays[0].shape)

    return value


def _arithmetic(exact: Scalar, real: Callable[[Any, Any], Any]) -> Scalar:
    """Integers through ``exact``, constant floats through ``real`` in the precision the op has (f32 at least)."""

    def evaluate(a: Element, b: Element, dtype: DType) -> Element:
        if dtype.is_int:
            return None if isinstance(a, (bool, float)) or isinstance(b, (bool, float)) else exact(a, b)
        if dtype.is_float and isinstance(a, float) and isinstance(b, float):
            compute = np.float64 if dtype == F64 else np.float32
            with np.errstate(all="ignore"):
                return rounded(float(real(compute(a), compute(b))), dtype)
        return None

    return evaluate


def _floordiv(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 else None
    return expr.floordiv(a, b) if nonnegative(b) and b != 0 else None


def _truncdiv(a: Element, b: Element) -> Element:
    if nonnegative(a) and nonnegative(b):
        return _floordiv(a, b)
    return expr.quotient(a, b)


def _floormod(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b != 0 else None
    return expr.mod(a, b) if nonnegative(b) and b != 0 else None


def _truncmod(a: Element, b: Element) -> Element:
    return _floormod(a, b) if nonnegative(a) and nonnegative(b) else None


def _power(a: Element, b: Element) -> Element:
    return expr.product([a] * b) if isinstance(b, int) and 0 <= b <= 8 else None


def _no_nan(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    # Whether the chip's min and max propagate NaN is open: a NaN operand gives NaN here only if both are.
    return lambda a, b: function(a, b) if not (np.isnan(a) or np.isnan(b)) else _undecided()


def _undecided() -> Any:
    raise Unknown("minimum or maximum with NaN")


ADD = _arithmetic(expr.add, lambda a, b: a + b)
SUB = _arithmetic(subtract, lambda a, b: a - b)
MUL = _arithmetic(expr.mul, lambda a, b: a * b)
REALDIV = _arithmetic(expr.quotient, lambda a, b: a / b)
DIV = _arithmetic(_truncdiv, lambda a, b: a / b)
FLOORDIV = _arithmetic(_floordiv, lambda a, b: np.floor(a / b))
FLOORMOD = _arithmetic(_floormod, lambda a, b: np.mod(a, b))
MOD = _arithmetic(_truncmod, lambda a, b: np.fmod(a, b))
MAXIMUM = _arithmetic(maximum, _no_nan(max))
MINIMUM = _arithmetic(minimum, _no_nan(min))
POW = _arithmetic(_power, lambda a, b: _undecided())


def NEG(a: Element, dtype: DType) -> Element:
    return -a if isinstance(a, float) else expr.mul(-1, a) if dtype.is_int else None


def ABS(a: Element, dtype: DType) -> Element:
    if isinstance(a, (int, float)):
        return abs(a)
    return a if nonnegative(a) else None


def compare(decide: Callable[[Any, Any], bool], symbolic: Callable[[Any, Any], bool | None]) -> Scalar:
    """A comparison; of symbols only where the assumptions (sizes are >= 0) decide it."""

    def evaluate(a: Element, b: Element, dtype: DType) -> Element:
        plain = isinstance(a, (int, float)) and isinstance(b, (int, float))
        if not plain and (isinstance(a, float) or isinstance(b, float)):
            return None
        return decide(a, b) if plain else symbolic(a, b)

    return evaluate


def _greater(a: Element, b: Element) -> bool | None:
    difference = subtract(a, b)
    return True if positive(difference) else False if nonnegative(expr.mul(-1, difference)) else None


def _greater_equal(a: Element, b: Element) -> bool | None:
    return _not(_greater(b, a))


def _equal(a: Element, b: Element) -> bool | None:
    if expr.equal(a, b):
        return True
    difference = subtract(a, b)
    return False if positive(difference) or positive(expr.mul(-1, difference)) else None


def _not(a: bool | None) -> bool | None:
    return None if a is None else not a


GREATER = compare(lambda a, b: a > b, _greater)
GREATER_EQUAL = compare(lambda a, b: a >= b, _greater_equal)
LESS = compare(lambda a, b: a < b, lambda a, b: _greater(b, a))
LESS_EQUAL = compare(lambda a, b: a <= b, lambda a, b: _greater_equal(b, a))
EQUAL = compare(lambda a, b: a == b, _equal)
NOT_EQUAL = compare(lambda a, b: a != b, lambda a, b: _not(_equal(a, b)))


def cast_value(call: Call, dtype: DType) -> ObjectArray:
    source = call.dtype(0)
    array = call.array(0)
    out = [convert(v, dtype) for v in array.reshape(-1).tolist()]
    if any(v is None for v in out):
        raise Unknown(f"value has no known image in {dtype} (from {source})")
    return to_array(out, array.shape)


def select_value(call: Call, dtype: DType) -> ObjectArray:
    condition, then, other = np.broadcast_arrays(call.array(0), call.array(1), call.array(2))
    out = [a if c else b for c, a, b in zip(condition.reshape(-1), then.reshape(-1), other.reshape(-1))]
    return to_array(out, condition.shape)
