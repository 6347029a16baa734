"""Reductions over an axis that consists of parts: values in several pieces, reduced piece by piece and merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchair_autofuse.dtypes import F32, DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ops import COMBINERS
from torchair_autofuse.lower.builder import NestBuilder
from torchair_autofuse.lower.registry import Emitter, Val


@dataclass(frozen=True)
class Bundle(Val):
    """One value per part of the reduced axes, in the order of :class:`PartsBuilder`'s parts; ``name`` is not used."""

    parts: tuple[Val, ...] = ()


@dataclass(frozen=True)
class Part:
    """One part of the reduced axes: their names in loop order, and how many elements they have."""

    axes: tuple[str, ...]
    size: Expr


class PartsBuilder(Emitter):
    """What rules emit with when the axes they reduce over have several parts."""

    def __init__(self, builder: NestBuilder, parts: Sequence[Part]) -> None:
        self._builder, self._parts = builder, tuple(parts)

    def op(self, name: str, *args: Val) -> Val:
        return self._each(lambda *of: self._builder.op(name, *of), args)

    def const(self, value: float | int | bool, dtype: DType = F32) -> Val:
        return self._builder.const(value, dtype)

    def cast(self, value: Val, dtype: DType, mode: str = "rint") -> Val:
        return self._each(lambda x: self._builder.cast(x, dtype, mode), [value])

    def reduce(self, combiner: str, *args: Val) -> tuple[Val, ...]:
        found = []
        for i, part in enumerate(self._parts):
            self._builder.reduced, self._builder.reduced_size = part.axes, part.size
            found.append(self._builder.reduce(combiner, *(_of(a, i) for a in args)))
        if combiner == "maxsumexp":
            return self._merge_exponentials(found)
        if combiner == "welford":
            return self._merge_moments(found)
        merge = COMBINERS[combiner].merge
        assert merge, f"{combiner} over parts: legality refuses it, no chip has instructions for it"
        total = found[0][0]
        for other in found[1:]:
            total = self._builder.op(merge, total, other[0])
        return (total,)

    def count(self) -> Val:
        self._builder.reduced_size = expr.add(*(p.size for p in self._parts))
        return self._builder.count()

    def _each(self, make: Callable[..., Val], args: Sequence[Val]) -> Val:
        if not any(isinstance(a, Bundle) for a in args):
            return make(*args)
        made = tuple(make(*(_of(a, i) for a in args)) for i in range(len(self._parts)))
        return Bundle("", made[0].dtype, made)

    def _count_of(self, part: Part) -> Val:
        self._builder.reduced_size = part.size
        return self._builder.count()

    def _merge_exponentials(self, found: Sequence[Sequence[Val]]) -> tuple[Val, Val]:
        """(maximum, sum of exponentials): every part's sum is brought to the common maximum."""
        op = self._builder.op
        most = found[0][0]
        for m, _ in found[1:]:
            most = op("max", most, m)
        scaled = [op("mul", s, op("exp", op("sub", m, most))) for m, s in found]
        total = scaled[0]
        for s in scaled[1:]:
            total = op("add", total, s)
        return most, total

    def _merge_moments(self, found: Sequence[Sequence[Val]]) -> tuple[Val, Val]:
        """(mean, sum of squared deviations) by Chan, Golub, LeVeque: Updating formulae, 1979, eq. 2.1."""
        op = self._builder.op
        counts = [self._count_of(p) for p in self._parts]
        sums = [op("mul", mean, n) for (mean, _), n in zip(found, counts)]
        total = sums[0]
        for s in sums[1:]:
            total = op("add", total, s)
        centre = op("div", total, self.count())
        squares = None
        for (mean, m2), n in zip(found, counts):
            off = op("sub", mean, centre)
            mine = op("add", m2, op("mul", n, op("mul", off, off)))
            squares = mine if squares is None else op("add", squares, mine)
        assert squares is not None
        return centre, squares


def _of(value: Val, part: int) -> Val:
    return value.parts[part] if isinstance(value, Bundle) else value
