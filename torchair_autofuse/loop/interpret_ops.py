"""What the pointwise ops and casts of the loop IR mean on numpy arrays.

f32 arithmetic is IEEE single; transcendental functions are computed in double and rounded once. With float64 values
nothing is rounded to a narrower type. Integers wrap; dividing an integer by zero gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from torchair_autofuse.dtypes import DType

Array = npt.NDArray[Any]


def pointwise(op: str, args: list[Array]) -> Array:
    """``op`` of loop.ops on arrays that broadcast; "same" ops keep the dtype. Call under np.errstate(all="ignore")."""
    if op in _WIDE:
        return np.asarray(_WIDE[op](*(a.astype(np.float64) for a in args))).astype(args[0].dtype)
    return np.asarray(_OPS[op](*args))


def erf(x: Array) -> Array:
    """The error function of float64 values to about 1e-15.

    DLMF 7.6.2 (a series of positive terms) below 3, the continued fraction of DLMF 7.9.1 above; 1 beyond 6.
    """
    a = np.minimum(np.abs(x), 6.0)
    small, large = np.minimum(a, 3.0), np.maximum(a, 3.0)
    term = small.copy()
    total = small.copy()
    for n in range(1, 70):
        term = term * (2.0 * small * small / (2 * n + 1))
        total = total + term
    series = 2.0 / math.sqrt(math.pi) * np.exp(-small * small) * total
    tail = large.copy()
    for n in range(60, 0, -1):
        tail = large + (n / 2.0) / tail
    fraction = 1.0 - np.exp(-large * large) / (math.sqrt(math.pi) * tail)
    return np.asarray(np.where(np.isnan(x), x, np.copysign(np.where(a < 3.0, series, fraction), x)))


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e)))


def _quotient(a: Array, b: Array, floor: bool) -> Array:
    q = np.floor_divide(a, b)
    if not floor and a.dtype.kind == "i":
        inexact = q * b != a
        q = q + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)
    return np.where(b == 0, np.zeros((), a.dtype), q)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros((), a.dtype), np.remainder(a, b))


def _one(x: Array) -> Any:
    return x.dtype.type(1)


# Computed in double, rounded once to the type of the arguments.
_WIDE: dict[str, Callable[..., Any]] = {
    "pow": np.power, "exp": np.exp, "log": np.log, "rsqrt": lambda x: 1.0 / np.sqrt(x), "tanh": np.tanh,
    "sigmoid": _sigmoid, "erf": erf, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
_OPS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "fmod": np.fmod,
    "floordiv": lambda a, b: _quotient(a, b, floor=True), "truncdiv": lambda a, b: _quotient(a, b, floor=False),
    "floormod": _remainder, "max": np.maximum, "min": np.minimum, "neg": np.negative, "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "rint": np.rint, "trunc": np.trunc, "sqrt": np.sqrt,
    "reciprocal": lambda x: _one(x) / x,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "bitnot": np.invert,
    "select": np.where,
}  # fmt: skip


def numpy_dtype(dtype: DType, float64: bool) -> np.dtype[Any]:
    """The array type that holds values of ``dtype``: float64 for every float type in a float64 evaluation."""
    return np.dtype(np.float64) if float64 and dtype.is_float else dtype.numpy


def cast(x: Array, source: DType, target: DType, mode: str, float64: bool) -> Array:
    """A Cast node. Call under np.errstate(all="ignore").

    Float to integer rounds by ``mode``, saturates, and turns NaN into 0. To bool: ``x != 0`` (true for NaN). Between
    floats to nearest even, or not at all in a float64 evaluation. Integers wrap.
    """
    if target.kind == "bool":
        return np.asarray(x != np.zeros((), x.dtype))
    if source.is_float and target.is_int:
        return _saturate(_round(x.astype(np.float64), mode), target)
    if source.kind == "bool" and target.is_float:
        x = x.astype(np.int32)
    return x.astype(numpy_dtype(target, float64))


def _round(x: Array, mode: str) -> Array:
    if mode == "round":  # half away from zero; x + 0.5 could round up, so look at the exact fraction
        whole = np.trunc(x)
        return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0))
    rounding: dict[str, Any] = {"rint": np.rint, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil}
    return np.asarray(rounding[mode](x))


def _saturate(x: Array, target: DType) -> Array:
    info = np.iinfo(target.numpy)
    low, past = float(info.min), float(info.max + 1)  # powers of two (or 0): exact in float64
    inside = (x >= low) & (x < past)
    result = np.where(inside, x, 0.0).astype(target.numpy)
    result = np.where(x >= past, np.array(info.max, target.numpy), result)
    return np.where(x < low, np.array(info.min, target.numpy), result)
