"""Compares what a case gave with what it must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from torchair_autofuse.probe.record import Array, Case

SHOWN = 8
"""Differing elements that a report shows per case."""


@dataclass(frozen=True)
class Differences:
    """``bad`` of ``size`` elements; ``ulps``: the largest error in units in the last place where there is a tolerance
    (None else); ``first``: the first bad elements as in ``Result.first``."""

    size: int
    bad: int
    ulps: float | None
    first: tuple[dict[str, str], ...]


def differences(case: Case, got: Array) -> Differences:
    """Of ``got`` against ``case.want``."""
    want = case.want
    care = np.ones(want.size, bool) if case.care is None else case.care
    same = _bits(got) == _bits(want)
    ulps = None
    if _is_float(want.dtype) and not case.bits:
        with np.errstate(invalid="ignore"):  # signalling NaN
            g, w = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(g) & np.isnan(w)
        if case.exact is not None and (case.ulps or case.atol):
            exact = np.where(np.isfinite(w), case.exact, 0.0)
            with np.errstate(invalid="ignore", over="ignore"):
                finite = np.isfinite(g) & np.isfinite(w)
                error = np.abs(np.where(finite, g - exact, 0.0))
                unit = np.abs(np.spacing(np.where(finite, want, want.dtype.type(1)))).astype(np.float64)
            same |= finite & ((error <= case.ulps * unit) | (error <= case.atol))
            ulps = float(np.max(error / unit, where=finite & care, initial=0.0)) if case.ulps else None
    wrong = np.flatnonzero(~same & care)
    return Differences(want.size, int(wrong.size), ulps, tuple(_shown(case, got, int(i)) for i in wrong[:SHOWN]))


def _is_float(dtype: Any) -> bool:
    return bool(dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16))


def _bits(a: Array) -> Array:
    return a.view(f"u{a.dtype.itemsize}")


def _shown(case: Case, got: Array, i: int) -> dict[str, str]:
    shown = {"case": case.name, "index": str(i)}
    if case.x.size == case.want.size:  # element i comes from element i
        shown["input"] = _text(case.x, i)
        if case.y is not case.x and case.y.size == case.want.size:
            shown["input"] += f", {_text(case.y, i)}"
    return {**shown, "expected": _text(case.want, i), "got": _text(got, i)}


def _text(a: Array, i: int) -> str:
    """A value and its bits."""
    return f"{a[i]} (0x{int(_bits(a)[i]):0{2 * a.dtype.itemsize}x})"
