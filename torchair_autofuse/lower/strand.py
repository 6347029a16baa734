"""Runs of indices of a dim: what the parts of its digits (lower.atoms) amount to."""

from __future__ import annotations

from dataclasses import dataclass

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr


@dataclass(frozen=True)
class Strand:
    """A run of indices of one dim: ``offset + sum(step * atom)`` over atoms that are whole.

    ``key``: which part of each cut atom, as (atom, number of the part).
    """

    key: frozenset[tuple[int, int]] = frozenset()
    steps: tuple[tuple[int, Expr], ...] = ()
    offset: Expr = 0

    def times(self, size: Expr) -> Strand:
        return Strand(self.key, tuple((a, expr.mul(s, size)) for a, s in self.steps), expr.mul(self.offset, size))

    def plus(self, other: Strand) -> Strand:
        return Strand(self.key | other.key, self.steps + other.steps, expr.add(self.offset, other.offset))
