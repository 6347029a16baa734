"""Functions composed of loop.ops that several families use. All take and give f32 values unless said otherwise.

The polynomials were fitted in double precision (near-minimax: interpolation at Chebyshev points) and their coefficients
rounded to f32; they depend on IEEE add, mul and div only, so a chip whose log or exp is coarse near the hard point
(log near 1, exp near 0) loses nothing there. Errors in ulp of f32 are those of tests/pure/test_lower_rules.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from torchair_autofuse.dtypes import F16, F32
from torchair_autofuse.lower.registry import Emitter, Val


def f32(value: float) -> float:
    """``value`` rounded to f32."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def power_of_two(c: float) -> bool:
    """Whether x / c == x * (1 / c) for every x: c and 1 / c are normal f32 powers of two."""
    return c != 0 and math.isfinite(c) and abs(math.frexp(c)[0]) == 0.5 and 2.0**-126 <= abs(c) <= 2.0**126


def scale(e: Emitter, x: Val, c: float) -> Val:
    """c * x; nothing is emitted for c == 1."""
    return x if c == 1 else e.op("mul", x, e.const(f32(c), F32))


def shift(e: Emitter, x: Val, c: float) -> Val:
    """x + c; nothing is emitted for c == 0."""
    return x if c == 0 else e.op("add", x, e.const(f32(c), F32))


def divide(e: Emitter, x: Val, c: float) -> Val:
    """x / c, a true quotient; a product only where that is the same for every x."""
    if power_of_two(c):
        return scale(e, x, 1.0 / c)
    return e.op("div", x, e.const(f32(c), F32))


def one_minus(e: Emitter, x: Val) -> Val:
    return e.op("sub", e.const(1.0, F32), x)


def clamp(e: Emitter, x: Val, low: float, high: float) -> Val:
    """min(max(x, low), high); NaN stays NaN."""
    return e.op("min", e.op("max", x, e.const(f32(low), F32)), e.const(f32(high), F32))


def positive(e: Emitter, x: Val) -> Val:
    """x > 0, a bool."""
    return e.op("gt", x, e.const(0.0, F32))


def horner(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """The polynomial with these coefficients, lowest power first."""
    value = e.const(f32(coefficients[-1]), F32)
    for c in reversed(coefficients[:-1]):
        value = e.op("add", e.op("mul", value, x), e.const(f32(c), F32))
    return value


def logistic_quotient(e: Emitter, numerator: Val, x: Val, k: float) -> Val:
    """numerator / (1 + exp(-k x)): exp may overflow to inf, the quotient is then the right zero."""
    return e.op("div", numerator, shift(e, e.op("exp", scale(e, x, -k)), 1.0))


def logistic(e: Emitter, x: Val, k: float = 1.0) -> Val:
    """1 / (1 + exp(-k x)). For k == 1 the op of the IR, which a chip may have as one instruction."""
    return e.op("sigmoid", x) if k == 1 else logistic_quotient(e, e.const(1.0, F32), x, k)


# (exp(x) - 1 - x) / x^2 on [-0.75, 0] and on [-0.75, 1]
_EXPM1_NEGATIVE = (0.5, 0.16666651, 0.04166413, 0.00831873, 0.0013504181, 0.00015042374)
_EXPM1 = (0.5, 0.16666666, 0.041666683, 0.008333429, 0.0013887781, 0.00019808536, 2.5106183e-05, 3.088765e-06)


def expm1(e: Emitter, x: Val, *, nonpositive: bool = False) -> Val:
    """exp(x) - 1 without cancellation; ``nonpositive``: only x <= 0 matters (a shorter polynomial)."""
    square = e.op("mul", x, x)
    near = e.op("add", x, e.op("mul", square, horner(e, x, _EXPM1_NEGATIVE if nonpositive else _EXPM1)))
    far = shift(e, e.op("exp", x), -1.0)
    if nonpositive:
        inside = e.op("gt", x, e.const(-0.75, F32))
    else:
        inside = e.op("lt", e.op("abs", shift(e, x, -0.125)), e.const(0.875, F32))
    return e.op("select", inside, near, far)


# 2 (atanh(s) / s - 1) / s^2 in z = s^2, for x in [0, 1] (z <= 1/9) and for x in [-0.5, 1.72] (z <= 0.2138)
_LOG1P_UNIT = (0.6666664, 0.4000756, 0.2823662, 0.268515)
_LOG1P = (0.6666666, 0.40000385, 0.2855065, 0.22625281, 0.14737786, 0.28132582)


def _log1p_series(e: Emitter, x: Val, coefficients: Sequence[float]) -> Val:
    """ln(1 + x) = 2 atanh(s) with s = x / (2 + x), written x - s (x - w) so that the rounding of s hardly counts."""
    s = e.op("div", x, shift(e, x, 2.0))
    z = e.op("mul", s, s)
    w = e.op("mul", z, horner(e, z, coefficients))
    return e.op("sub", x, e.op("mul", s, e.op("sub", x, w)))


def log1p_unit(e: Emitter, x: Val) -> Val:
    """ln(1 + x) for 0 <= x <= 1."""
    return _log1p_series(e, x, _LOG1P_UNIT)


def log1p(e: Emitter, x: Val) -> Val:
    """ln(1 + x). Outside [-0.5, 1.72] the log itself: below, 1 + x is exact; above, its rounding is half an ulp."""
    near = _log1p_series(e, x, _LOG1P)
    inside = e.op("lt", e.op("abs", shift(e, x, -0.61)), e.const(1.11, F32))
    return e.op("select", inside, near, e.op("log", shift(e, x, 1.0)))


def softplus(e: Emitter, x: Val) -> Val:
    """ln(1 + exp(x)) = max(x, 0) + ln(1 + exp(-|x|)): neither overflow nor cancellation."""
    return e.op("add", e.op("max", x, e.const(0.0, F32)), log1p_unit(e, e.op("exp", e.op("neg", e.op("abs", x)))))


def tanh_softplus(e: Emitter, x: Val) -> tuple[Val, Val]:
    """(t, 1 - t^2) with t = tanh(ln(1 + exp(x))) = n / (n + 2), n = w (w + 2), w = exp(x).

    Beyond x = 20 t is 1 in f32; the clamp there keeps n finite. r = 2 / (n + 2) = 1 - t has full relative accuracy.
    """
    w = e.op("exp", e.op("min", x, e.const(20.0, F32)))
    n = e.op("mul", w, shift(e, w, 2.0))
    below = shift(e, n, 2.0)
    r = e.op("div", e.const(2.0, F32), below)
    return e.op("div", n, below), e.op("mul", r, e.op("sub", e.const(2.0, F32), r))


# (1 + 2 x) exp(x^2) erfc(x) in u = (x - 2.5) / (x + 2.5), for 0 <= x <= 11
_ERFC = (
    1.2648382, -0.12235668, -0.09902412, 0.15762763, -0.10297485, 0.032777723, 0.0009854957, -0.0044165775,
    0.0003356689, 0.0006043499, 7.604772e-05,
)  # fmt: skip


def erfc(e: Emitter, x: Val) -> Val:
    """1 - erf(x), with relative accuracy in the tail too.

    exp(-a^2), a = min(|x|, 11), is exp(-h^2) exp(-(a - h)(a + h)) with h the f16 value nearest a, whose square is exact
    in f32; at a = 11 it is zero.
    """
    a = e.op("min", e.op("abs", x), e.const(11.0, F32))
    h = e.cast(e.cast(a, F16), F32)
    rest = e.op("exp", e.op("mul", e.op("sub", h, a), e.op("add", h, a)))
    gauss = e.op("mul", e.op("exp", e.op("neg", e.op("mul", h, h))), rest)
    u = e.op("div", shift(e, a, -2.5), shift(e, a, 2.5))
    tail = e.op("mul", gauss, e.op("div", horner(e, u, _ERFC), shift(e, scale(e, a, 2.0), 1.0)))
    return e.op("select", e.op("gt", x, e.const(0.5, F32)), tail, one_minus(e, e.op("erf", x)))
