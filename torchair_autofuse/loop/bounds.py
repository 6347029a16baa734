"""A sound, incomplete prover for ``e >= 0`` over symbolic sizes: "yes" is a proof, "no" means not proved.

Symbols are non-negative integers. ``facts`` are expressions known to be >= 0; contradictory facts prove anything, which
is what makes empty loops fine. The method: split Min and Max into cases, name every floor and Mod with its defining
inequalities, shift each symbol by its lower bound, and look for a polynomial without negative coefficients; otherwise
subtract a non-negative multiple of a fact, or try the ends of a bounded symbol, and look again. A counterexample among
small sizes is looked for first, and the number of steps is bounded, so that a refusal is quick too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import sympy

from torchair_autofuse.loop.expr import Expr, add, evaluate, free_symbols, mul, simplify

_DEPTH = 6  # nested steps (cases, subtracted facts, bounded symbols) before giving up
_STEPS = 80  # goals looked at in one query
_SMALL = 8  # symbols with at most this many values are enumerated


def nonnegative(e: Expr, facts: Iterable[Expr] = ()) -> bool:
    """True only if ``e >= 0`` whenever every one of ``facts`` is >= 0."""
    if isinstance(e, int) and e >= 0:
        return True
    kept = tuple(dict.fromkeys(f for f in facts if not (isinstance(f, int) and f >= 0)))
    if any(isinstance(f, int) for f in kept):
        return True  # a constant negative "fact": the case cannot occur
    return _nonnegative(e, kept)


@lru_cache(maxsize=65536)
def _nonnegative(e: Expr, facts: tuple[Expr, ...]) -> bool:
    if _plainly(e):
        return True
    return not _refuted(e, facts) and _Search().prove(e, facts, _DEPTH)


def _refuted(e: Expr, facts: tuple[Expr, ...]) -> bool:
    """Whether some sizes satisfy all facts and make ``e`` negative."""
    names = sorted({n for f in (e, *facts) for n in free_symbols(f)})
    grid = (0, 1, 2, 3, 7, 64) if len(names) <= 2 else (1, 2, 5) if len(names) <= 4 else (1, 3)
    for sizes in product(grid, repeat=min(len(names), 6)):
        # beyond six symbols the rest repeat the first: any point will do
        point = {n: sizes[i % len(sizes)] for i, n in enumerate(names)}
        if evaluate(e, point) < 0 and all(evaluate(f, point) >= 0 for f in facts):
            return True
    return False


def less_equal(a: Expr, b: Expr, facts: Iterable[Expr] = ()) -> bool:
    """True only if ``a <= b`` under ``facts``."""
    return nonnegative(add(b, mul(-1, a)), facts)


def _terms(e: Expr) -> dict[Any, Any]:
    """Monomial -> coefficient of an expanded expression."""
    return {1: e} if isinstance(e, int) else dict(e.as_coefficients_dict())


def _plainly(e: Expr) -> bool:
    """No negative coefficient, and only non-negative factors."""
    if isinstance(e, int):
        return e >= 0
    return all(c >= 0 and (m == 1 or bool(sympy.sympify(m).is_nonnegative)) for m, c in _terms(e).items())


def _atoms(es: Sequence[Expr], *kinds: Any) -> list[Any]:
    found = {a for e in es if not isinstance(e, int) for a in e.atoms(*kinds)}
    return sorted(found, key=lambda a: (len(str(a)), str(a)))


def _replace(es: Sequence[Expr], old: Any, new: Any) -> list[Expr]:
    return [e if isinstance(e, int) else simplify(e.xreplace({old: sympy.sympify(new)})) for e in es]


def _tidy(facts: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple(dict.fromkeys(f for f in facts if not _plainly(f)))


def _bounds(facts: Sequence[Expr]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Lower and upper bounds of single symbols that the facts give directly."""
    low: dict[Any, int] = {}
    high: dict[Any, int] = {}
    for f in facts:
        terms = _terms(f)
        constant = int(terms.pop(1, 0))
        if len(terms) != 1:
            continue
        ((monomial, c),) = terms.items()
        if c > 0 and constant < 0:
            if monomial.is_Symbol:
                low[monomial] = max(low.get(monomial, 0), int(-(constant // c)))
            else:  # c * s * t * ... >= 1: no factor is zero
                for s in monomial.atoms(sympy.Symbol):
                    low[s] = max(low.get(s, 0), 1)
        elif c < 0 and monomial.is_Symbol:
            high[monomial] = min(high.get(monomial, constant), int(constant // -c))
    return low, high


def _split(both: Sequence[Expr]) -> tuple[Expr, tuple[Expr, ...]]:
    return both[0], _tidy(both[1:])


def _multipliers(e: Expr, fact: Expr) -> list[Any]:
    found: dict[Any, None] = {}
    negative = [(m, c) for m, c in _terms(e).items() if c < 0]
    for m, c in sorted(negative, key=str):
        for n, d in sorted(((n, d) for n, d in _terms(fact).items() if d < 0), key=str):
            ratio = sympy.sympify(c) * m / (sympy.sympify(d) * n)
            if ratio.is_Integer or (sympy.denom(ratio) == 1 and ratio.is_polynomial()):
                found[ratio] = None
    return list(found)


class _Search:
    """One query: a bounded depth-first search with the goals seen so far."""

    def __init__(self) -> None:
        self.steps = _STEPS
        self.tried: dict[tuple[Expr, tuple[Expr, ...]], int] = {}  # goal -> depth it was last tried with
        self.proved: set[tuple[Expr, tuple[Expr, ...]]] = set()

    def prove(self, e: Expr, facts: tuple[Expr, ...], depth: int) -> bool:
        if _plainly(e):
            return True
        if any(isinstance(f, int) and f < 0 for f in facts) or (e, facts) in self.proved:
            return True
        if depth == 0 or self.steps == 0 or self.tried.get((e, facts), 0) >= depth:
            return False
        self.steps -= 1
        self.tried[e, facts] = depth
        found = self.by_atoms(e, facts, depth)
        if found:
            self.proved.add((e, facts))
        return found

    def by_atoms(self, e: Expr, facts: tuple[Expr, ...], depth: int) -> bool:
        """Removes Min, Max, Mod and floor one at a time, then looks at the polynomial."""
        both = [e, *facts]
        choices = _atoms(both, sympy.Min, sympy.Max)
        if choices:
            atom = choices[0]
            sign = 1 if isinstance(atom, sympy.Min) else -1
            return all(
                self.by_case(both, atom, arg, [sign * (other - arg) for other in atom.args], depth) for arg in atom.args
            )

        mods = _atoms(both, sympy.Mod)
        if mods:
            p, k = mods[0].args
            if k.is_Integer and k > 0:  # p = k*floor(p/k) + Mod(p, k)
                return self.by_case(both, mods[0], p - k * sympy.floor(sympy.expand(p / k)), [], depth)
        floors = _atoms(both, sympy.floor)
        if floors:
            return self.by_floor(both, floors[0], depth) or self.by_residues(both, floors[0], depth)
        return self.by_polynomial(e, facts, depth)

    def by_case(self, both: Sequence[Expr], old: Any, new: Any, more: Sequence[Any], depth: int) -> bool:
        """The goal with ``old`` replaced by ``new`` everywhere, under further facts about the new form."""
        goal, *facts = _replace(both, old, new)
        facts += [f if isinstance(f, int) else simplify(f) for f in _replace([simplify(m) for m in more], old, new)]
        return self.prove(goal, _tidy(facts), depth - 1)

    def by_floor(self, both: Sequence[Expr], atom: Any, depth: int) -> bool:
        """``q = floor(p/k)`` is a new symbol with ``0 <= p - k*q <= k - 1``; only for p >= 0, so that q >= 0."""
        argument = sympy.expand(atom.args[0])
        coefficients = argument.as_coefficients_dict().values()
        if not all(c.is_Rational for c in coefficients):
            return False
        k = sympy.ilcm(1, *[c.q for c in coefficients])
        p = simplify(argument * k)
        if not self.prove(p, tuple(both[1:]) if atom not in _atoms(both[1:], sympy.floor) else (), depth - 1):
            return False
        taken = {s.name for s in _atoms(both, sympy.Symbol)}
        name = next(n for n in (f"q{i}_" for i in range(len(taken) + 1)) if n not in taken)
        q = sympy.Symbol(name, integer=True, nonnegative=True)
        return self.by_case(both, atom, q, [p - k * q, k * q + k - 1 - p], depth)

    def by_residues(self, both: Sequence[Expr], atom: Any, depth: int) -> bool:
        """Each remainder of ``s`` by a small k in turn, for ``floor((s + d)/k)``: relates floors of the same symbol."""
        argument = sympy.expand(atom.args[0])
        symbols = sorted(argument.free_symbols, key=str)
        if depth < _DEPTH - 2 or len(symbols) != 1 or argument.atoms(sympy.Function):
            return False
        k = 1 / argument.coeff(symbols[0])
        if not k.is_Integer or not 1 < k <= 4:
            return False
        return all(self.by_case(both, symbols[0], k * symbols[0] + r, [], depth) for r in range(int(k)))

    def by_polynomial(self, e: Expr, facts: tuple[Expr, ...], depth: int) -> bool:
        low, high = _bounds(facts)
        if any(high[s] < low.get(s, 0) for s in high):
            return True
        both: list[Expr] = [e, *facts]
        for s in sorted(low, key=str):
            both = _replace(both, s, s + low[s])
        if low:
            return self.prove(both[0], _tidy(both[1:]), depth - 1)

        for s in sorted(high, key=str):
            if isinstance(e, int) or s not in e.free_symbols:
                continue
            if sympy.degree(e, s) <= 1:  # linear: the least value is at an end
                return all(self.prove(*_split(_replace(both, s, end)), depth - 1) for end in sorted({0, high[s]}))
            if high[s] < _SMALL:
                return all(self.prove(*_split(_replace(both, s, v)), depth - 1) for v in range(high[s] + 1))

        for f in facts:  # e = (e - m*f) + m*f with a monomial m >= 0 that cancels a negative term of e
            for m in _multipliers(e, f):
                if self.prove(add(e, simplify(-m * f)), facts, depth - 1):
                    return True
        return False
