"""What is known about the sign of symbolic sizes. Symbols are non-negative integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import sympy

from torchair_autofuse.loop.expr import Expr


def nonnegative(e: Expr) -> bool:
    """True only if ``e`` is known to be >= 0."""
    return e >= 0 if isinstance(e, int) else _nonnegative(e)


def positive(e: Expr) -> bool:
    """True only if ``e`` is known to be > 0."""
    return e > 0 if isinstance(e, int) else _nonnegative(sympy.expand(e - 1))


def at_least(e: Expr, bound: int, minimum: Callable[[str], int]) -> bool:
    """True only if ``e`` >= ``bound`` is known when each symbol is at least ``minimum(name)``."""
    if isinstance(e, int):
        return e >= bound
    shifted = {s: s + minimum(s.name) for s in e.free_symbols}
    return _nonnegative(sympy.expand(e.subs(shifted, simultaneous=True) - bound))


@lru_cache(maxsize=65536)
def _nonnegative(e: sympy.Expr) -> bool:
    if e.is_nonnegative:
        return True
    bound = _below(e)
    return bound is not None and bool(sympy.expand(bound).is_nonnegative)


def _below(e: sympy.Expr) -> sympy.Expr | None:
    """A lower bound of ``e`` without floor: (p - q + 1) / q <= floor(p / q) <= p / q. None if the signs are mixed."""
    stand_in = {f: sympy.Dummy(nonnegative=True) for f in sorted(e.atoms(sympy.floor), key=str)}
    if not stand_in:
        return None
    smooth = e.xreplace(stand_in)
    bound = {}
    for f, t in stand_in.items():
        numerator, denominator = sympy.fraction(sympy.together(f.args[0]))
        slope = sympy.diff(smooth, t)
        if not denominator.is_Integer:
            return None
        if slope.is_nonnegative:
            bound[t] = (numerator - (denominator - 1)) / denominator
        elif slope.is_nonpositive:
            bound[t] = numerator / denominator
        else:
            return None
    return smooth.xreplace(bound)
