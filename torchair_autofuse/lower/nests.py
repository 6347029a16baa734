"""Which loop nests store the pieces of a kernel's results."""

from __future__ import annotations

from collections.abc import Sequence

from torchair_autofuse.loop.ir import Axis, Load, Nest, Reduce, Store, Value, arguments, defined_names
from torchair_autofuse.messages import Reason

MAX_TRANSFERS = 16
"""Loads and stores of a nest above which pieces that share no data get nests of their own: all are in UB at once."""


def nests_of(
    axes: Sequence[Axis], values: Sequence[Value], stores: Sequence[Store], *, cut: bool
) -> tuple[Nest, ...] | Reason:
    """Nests n0, n1, ... in order of their first store, each with the values it needs; ``axes`` in loop order.

    ``cut``: some tensor is computed in several pieces.

    Stores over the same axes share a nest, and one over fewer axes joins one that has them. Refuses (AF210) a
    reduction that several nests would have to make.
    """
    defs = {n: v for v in values for n in defined_names(v)}
    needed = [_needed(s, defs) for s in stores]
    domains = Nest("", tuple(axes), tuple(values), ()).domains
    spans = [
        frozenset(a for a, _ in s.strides) | {a for n in names for a in domains[n]} for s, names in zip(stores, needed)
    ]
    groups: list[list[int]] = []  # numbers of stores
    data = [{n for n in names if isinstance(defs[n], (Load, Reduce))} for names in needed]
    for i in sorted(range(len(stores)), key=lambda i: -len(spans[i])):
        # a piece over fewer axes is made apart unless it is made of the same data
        homes = (g for g in groups if spans[i] <= spans[g[0]])
        home = next((g for g in homes if not cut or spans[i] == spans[g[0]] or any(data[i] & data[j] for j in g)), None)
        if home is None:
            groups.append([i])
        else:
            home.append(i)
    split = [part for g in groups for part in (_apart(g, stores, needed, defs) if cut else [g])]
    split.sort(key=min)
    made: list[Nest] = []
    reduced: set[str] = set()
    for k, group in enumerate(split):
        names = set().union(*(needed[i] for i in group))
        span = frozenset().union(*(spans[i] for i in group))
        mine = tuple(v for v in values if names & set(defined_names(v)))
        again = next((v for v in mine if isinstance(v, Reduce) and reduced & set(v.names)), None)
        if again is not None:
            return Reason("AF210", f"{', '.join(again.origin)}: several loops need the result of the reduction")
        reduced |= {n for v in mine if isinstance(v, Reduce) for n in v.names}
        chosen = tuple(a for a in axes if a.name in span)
        made.append(Nest(f"n{k}", chosen, mine, tuple(stores[i] for i in sorted(group))))
    return tuple(made)


def _needed(store: Store, defs: dict[str, Value]) -> set[str]:
    """The values that a store depends on."""
    found = {store.value}
    stack = [store.value]
    while stack:
        for name in arguments(defs[stack.pop()]):
            if name not in found:
                found.add(name)
                stack.append(name)
    return found


def _apart(
    group: list[int], stores: Sequence[Store], needed: Sequence[set[str]], defs: dict[str, Value]
) -> list[list[int]]:
    """The group as one nest, or as one per set of stores that share data where that would be too much at once."""
    loads = {n for i in group for n in needed[i] if isinstance(defs[n], Load)}
    if len(group) + len(loads) <= MAX_TRANSFERS:
        return [group]
    parts: list[list[int]] = []
    for i in group:
        mine = {n for n in needed[i] if isinstance(defs[n], (Load, Reduce))}
        joined = [p for p in parts if any(mine & needed[j] for j in p)]
        parts = [p for p in parts if p not in joined] + [[j for p in joined for j in p] + [i]]
    return parts
