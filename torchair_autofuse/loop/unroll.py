"""Writes the innermost axis of a nest out: a value per index of it, and a load and a store per index of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expand import EXPANDED, expand_combiners
from torchair_autofuse.loop.ir import Cast, Const, Iota, Load, Nest, Pointwise, Reduce, Store, Value, defined_names
from torchair_autofuse.loop.ops import COMBINERS


def unroll_innermost(nest: Nest) -> Nest | None:
    """The nest without its last axis, whose size is a known number above 1; None for an argmax over it.

    What varies along the axis becomes one value per index, loads and stores move by their stride. A reduction over it
    combines these in pairs; one over other axes too is made per index first.
    """
    axis = nest.axes[-1]
    assert isinstance(axis.size, int) and axis.size > 1
    over = [v for v in nest.values if isinstance(v, Reduce) and axis.name in v.axes]
    if any(v.combiner in EXPANDED for v in over):
        nest = expand_combiners(nest)
        over = [v for v in nest.values if isinstance(v, Reduce) and axis.name in v.axes]
    if any(not COMBINERS[v.combiner].merge for v in over):
        return None
    return _Unrolling(nest, axis.name, axis.size).result()


class _Unrolling:
    def __init__(self, nest: Nest, axis: str, size: int) -> None:
        self.nest, self.axis, self.size = nest, axis, size
        self.used = {n for v in nest.values for n in defined_names(v)}
        self.values: list[Value] = []
        self.copies: dict[str, list[str]] = {}  # what varies along the axis -> its name at every index

    def result(self) -> Nest:
        for v in self.nest.values:
            names = defined_names(v)
            if isinstance(v, Reduce) and self.axis in v.axes:
                self._reduce(v)
            elif self.axis in self.nest.domains[names[0]]:
                for n in names:
                    self.copies[n] = [self._fresh(f"{n}_{i}") for i in range(self.size)]
                self.values += [self._at(v, i) for i in range(self.size)]
            else:
                self.values.append(v)
        stores = tuple(s for store in self.nest.stores for s in self._stores(store))
        return replace(self.nest, axes=self.nest.axes[:-1], values=tuple(self.values), stores=stores)

    def _fresh(self, name: str) -> str:
        while name in self.used:
            name += "_"
        self.used.add(name)
        return name

    def _names(self, i: int) -> Mapping[str, str]:
        return {n: copies[i] for n, copies in self.copies.items()}

    def _at(self, v: Value, i: int) -> Value:
        """The value at index ``i``; its own names are among the copies."""
        names = self._names(i)
        if isinstance(v, (Load, Iota)):
            strides = dict(v.strides)
            offset = expr.add(v.offset, expr.mul(strides.pop(self.axis, 0), i))
            v = replace(v, name=names[v.name], strides=tuple(strides.items()), offset=offset)
            if isinstance(v, Iota):
                return v
            rows = (replace(r, value=names.get(r.value, r.value)) for r in v.indices)
            return replace(v, indices=tuple(rows))
        if isinstance(v, Reduce):
            return replace(v, names=tuple(names[n] for n in v.names), args=_renamed(v.args, names))
        if isinstance(v, Cast):
            return replace(v, name=names[v.name], arg=names[v.arg])
        assert not isinstance(v, Const)
        return replace(v, name=names[v.name], args=_renamed(v.args, names))

    def _reduce(self, v: Reduce) -> None:
        """One result of the values at all indices, which other reduced axes are gone from first."""
        (arg,), (result,), (dtype,) = v.args, v.names, v.dtypes
        parts = self.copies.get(arg, [arg] * self.size)
        others = tuple(a for a in v.axes if a != self.axis)
        if others:
            made = [self._fresh(f"{result}_{i}") for i in range(self.size)]
            self.values += [replace(v, names=(m,), args=(p,), axes=others) for m, p in zip(made, parts)]
            parts = made
        while len(parts) > 1:
            whole = [self._pair(v, parts[k], parts[k + 1]) for k in range(0, len(parts) - 1, 2)]
            parts = whole + parts[len(whole) * 2 :]
        last = self.values[-1]
        assert isinstance(last, Pointwise) and last.name == parts[0] and dtype == last.dtype
        self.values[-1] = replace(last, name=result)

    def _pair(self, v: Reduce, a: str, b: str) -> str:
        name = self._fresh(f"{v.names[0]}_{a}")
        self.values.append(Pointwise(name, COMBINERS[v.combiner].merge, (a, b), v.dtypes[0], v.origin))
        return name

    def _stores(self, store: Store) -> list[Store]:
        strides = dict(store.strides)
        if self.axis not in strides:
            return [store]
        step = strides.pop(self.axis)
        values = self.copies.get(store.value, [store.value] * self.size)
        return [
            replace(store, strides=tuple(strides.items()), offset=expr.add(store.offset, expr.mul(step, i)), value=v)
            for i, v in enumerate(values)
        ]


def _renamed(args: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(a, a) for a in args)
