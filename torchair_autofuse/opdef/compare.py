"""Whether what a kernel computed agrees with the IR interpreter, within the numeric contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchair_autofuse.dtypes import DType

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """Of one output: ``bad`` elements out of ``size``; the largest absolute error; the first bad element, if any."""

    size: int
    bad: int
    max_abs: float
    first: tuple[int, ...] | None = None
    got: Any = None
    expected: Any = None

    @property
    def ok(self) -> bool:
        return self.bad == 0

    def __str__(self) -> str:
        if self.ok:
            return f"{self.size} values agree (max abs error {self.max_abs:.3g})"
        return (
            f"{self.bad} of {self.size} values are wrong (max abs error {self.max_abs:.3g}); "
            f"first at {list(self.first or ())}: {self.got}, expected {self.expected}"
        )


def compare(got: Array, expected: Array, dtype: DType, *, f32_rtol: float, half_ulps: int) -> Difference:
    """Compares arrays of the same shape and dtype.

    Integers and bools must be equal, NaN must be where NaN is expected, infinities must be equal. Other floats may
    differ by ``f32_rtol`` times the largest finite expected magnitude; half-precision floats also by ``half_ulps``
    units in the last place.
    """
    if not dtype.is_float:
        ok = got == expected
        wide = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        return _difference(got, expected, ok, wide)
    x, y = got.astype(np.float64), expected.astype(np.float64)
    both_nan = np.isnan(x) & np.isnan(y)
    finite = np.isfinite(x) & np.isfinite(y)
    error = np.where(finite, np.abs(np.where(finite, x, 0.0) - np.where(finite, y, 0.0)), 0.0)
    scale = float(np.max(np.abs(y), where=np.isfinite(y), initial=0.0))
    close = finite & (error <= f32_rtol * scale)
    if dtype.itemsize == 2:
        close |= ~(np.isnan(x) | np.isnan(y)) & (np.abs(_ordinal(got) - _ordinal(expected)) <= half_ulps)
    return _difference(got, expected, close | both_nan | (x == y), error)


def _ordinal(a: Array) -> Array:
    """Half-precision floats numbered in order, so that neighbours differ by 1 and both zeros are 0."""
    bits = a.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def _difference(got: Array, expected: Array, ok: Array, error: Array) -> Difference:
    bad = int(ok.size - np.count_nonzero(ok))
    largest = float(np.max(error, initial=0.0))
    if not bad:
        return Difference(ok.size, 0, largest)
    first = tuple(int(i) for i in np.unravel_index(int(np.argmin(ok)), ok.shape)) if ok.ndim else ()
    return Difference(ok.size, bad, largest, first, got[first], expected[first])
