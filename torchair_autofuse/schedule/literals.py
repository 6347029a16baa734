"""Numbers as C++ text."""

from __future__ import annotations

import math

from torchair_autofuse.dtypes import F32, I32, DType


def literal(value: float | int | bool, dtype: DType) -> str:
    """A C++ literal of a value of ``dtype``, exact."""
    if not dtype.is_float:
        text = "(-2147483647 - 1)" if int(value) == -(2**31) else str(int(value))
        return text if dtype == I32 else f"({dtype.cpp}){text}"
    text = _float_literal(float(value), dtype)
    return text if dtype == F32 else f"({dtype.cpp}){text}"


def _float_literal(f: float, dtype: DType) -> str:
    if math.isnan(f):
        return '__builtin_nanf("")'
    if math.isinf(f):
        return "__builtin_inff()" if f > 0 else "-__builtin_inff()"
    text = repr(float(dtype.numpy.type(f)))
    short = str(dtype.numpy.type(f))  # shortest decimal that reads back to the same float
    if float(dtype.numpy.type(float(short))) == f:
        text = short
    if "e" not in text and "." not in text:
        text += ".0"
    return text + "f"
