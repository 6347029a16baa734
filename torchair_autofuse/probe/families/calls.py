"""H7, H8: high-level calls over the whole domain of the op they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchair_autofuse.probe.families.values import INF, NAN, elements, f32
from torchair_autofuse.probe.record import Array, Case

_ULPS = 4.0
_WHY = "ours: no error bound was found; four units keep a fused op as good as its GE op in practice"


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x])


def _sweep(largest: float, seed: int) -> Array:
    """1024 values of both signs, magnitudes from 1e-6 to ``largest`` evenly in the logarithm, and the ends."""
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(np.log(1e-6), np.log(largest), 1024)) * rng.choice([-1, 1], 1024)
    x[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    made: Array = x.astype(np.float32)
    return made


def _one(name: str, f: Callable[[Array], Array], largest: float) -> Case:
    x = _sweep(largest, 11)
    with np.errstate(all="ignore"):
        exact = f(x.astype(np.float64))
        want = exact.astype(np.float32)
    return elements(name, f"{name}(c, a, t, n);", x, None, want, exact=exact, ulps=_ULPS, why=_WHY)


def accuracy() -> tuple[Case, ...]:
    cases = [
        _one("Tanh", np.tanh, 30), _one("Erf", _erf, 6), _one("Atan", np.arctan, 1e6), _one("Sinh", np.sinh, 85),
        _one("Cosh", np.cosh, 85),
    ]  # fmt: skip
    rng = np.random.default_rng(12)
    base, power = np.exp(rng.uniform(-3, 3, 1024)).astype(np.float32), rng.uniform(-8, 8, 1024).astype(np.float32)
    cases.append(_two("Power, positive bases", "Power", base, power))
    specials = f32(-2, 0, -0.0, INF, -INF, NAN, 1, -1)
    cases.append(
        _two("Power, special values", "Power", np.repeat(specials, 8), np.tile(f32(0, 1, -1, 2, 3, 0.5, INF, -INF), 1))
    )
    x, y = _sweep(1e8, 13)[5:517], np.abs(_sweep(10, 14))[5:517] + np.float32(0.01)
    cases.append(_two("Fmod, quotients to 1e10", "Fmod", x, y, 0.0))
    ends = _two("Fmod, special values", "Fmod", f32(1, INF, -3.5, NAN, 1, 5), f32(INF, 2, INF, 1, 0, -3), 0.0)
    return (*cases, ends)


def _two(name: str, call: str, a: Array, b: Array, ulps: float = _ULPS) -> Case:
    b = np.resize(b, a.size)
    with np.errstate(all="ignore"):
        f = np.power if call == "Power" else np.fmod
        exact = f(a.astype(np.float64), b.astype(np.float64))
        want = exact.astype(np.float32)
    why = _WHY if ulps else ""
    return elements(name, f"{call}(c, a, b, t, n);", a, b, want, exact=exact, ulps=ulps, why=why)


def wide_angles() -> tuple[Case, ...]:
    x = f32(6e4, -6e4, 65504, 7e4, 1e5, 1e6, -1e7, 1e30, INF, -INF, NAN, 0)
    why = "a sine near zero has few digits after a reduction by 2 pi in f32"
    cases = []
    for name, f in (("Sin", np.sin), ("Cos", np.cos)):
        with np.errstate(invalid="ignore"):
            exact = f(x.astype(np.float64))
        want = exact.astype(np.float32)
        cases.append(elements(name, f"{name}(c, a, t, n);", x, None, want, exact=exact, atol=1e-6, why=why))
    return tuple(cases)
