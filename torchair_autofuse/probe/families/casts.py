"""H2 to H4: conversions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from torchair_autofuse.probe.families.values import INF, NAN, elements, f32
from torchair_autofuse.probe.record import Array, Case


def _cast(mode: str) -> str:
    return f"Cast(c, a, RoundMode::CAST_{mode}, n);"


def narrow_overflow() -> tuple[Case, ...]:
    x = f32(1e6, -1e6, 65504, 65519, 65520, -65520, INF, -INF, NAN, 6e-8, 2e-8, 1e30)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    big = f32(3.3e38, 3.3961776e38, -3.4028235e38, INF, -INF, NAN, 1e38)
    with np.errstate(over="ignore"):
        brain = big.astype(ml_dtypes.bfloat16)
    return (
        elements("float to half", _cast("RINT"), x, None, half),
        elements("float to bfloat16", _cast("RINT"), big, None, brain),
    )


def _saturated(x: Array, dtype: Any, mode: str) -> Array:
    """What is assumed: NaN gives 0, the rest is rounded and saturates."""
    info = np.iinfo(dtype)
    made = []
    for v in x.astype(np.float64):
        if np.isnan(v):
            made.append(0)
        elif np.isinf(v):
            made.append(info.max if v > 0 else info.min)
        else:
            made.append(min(max(int(np.rint(v) if mode == "RINT" else np.trunc(v)), info.min), info.max))
    return np.array(made, dtype)


def saturation() -> tuple[Case, ...]:
    x = f32(INF, -INF, NAN, 3e9, -3e9, 2.5, -2.5, 3.5, 1e19, -1e19, -0.0, 2147483520)
    cases = []
    for dtype in (np.int32, np.int64):
        for mode in ("RINT", "TRUNC"):
            name = f"float to {np.dtype(dtype).name}, {mode}"
            cases.append(elements(name, _cast(mode), x, None, _saturated(x, dtype, mode)))
    return tuple(cases)


def integral_values() -> tuple[Case, ...]:
    x = f32(0.5, -0.5, 1.5, -1.5, 2.5, -2.5, -0.3, 0.3, 1e30, 8388609, INF, -INF, NAN, -0.0, 0.0, 4194304.5)
    modes = {"RINT": np.rint, "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}
    return tuple(elements(mode, _cast(mode), x, None, f(x)) for mode, f in modes.items())
