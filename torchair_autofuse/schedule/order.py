"""The order of a nest's axes: only an order of loops, but it decides which copies are contiguous and who owns what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Load, Nest, Store
from torchair_autofuse.loop.rewrite import merge_axes
from torchair_autofuse.schedule.access import BLOCK
from torchair_autofuse.schedule.lanes import MAX_LANE, picks
from torchair_autofuse.schedule.program import Layout, layout_of, turns
from torchair_autofuse.schedule.turn import lane_of

_ENOUGH_ROWS = 32
"""Rows of a panel beyond which copies get no faster."""


def orders(nest: Nest, reduced: frozenset[str] = frozenset(), seams: frozenset[str] = frozenset()) -> tuple[Nest, ...]:
    """``nest`` (canonical) with its axes in the orders that a template may take, the best first, merged again.

    Best is where no copy has lines shorter than a block, and every one runs along the columns of a tile; then: outputs
    that lie in the order of the axes (those in ``seams`` have to) or in rows of whole blocks; the fewest axes; many
    rows; loads that are strided rather than stores. A nest whose accesses all have its own order stays as it is. With
    reductions (over ``reduced``) nothing is transposed in UB. The nest itself is the last where it is not among the
    best.
    """
    accesses = _accesses(nest)
    names = tuple(a.name for a in nest.axes)
    if all(_ordered(x, names) for x in accesses):
        return (nest,)
    found = []
    for i, order in enumerate(dict.fromkeys(_candidates(accesses, names))):
        score = _score(nest, accesses, order, reduced, seams) if _tiled(order, reduced) else None
        if score is None:
            continue
        moved = merge_axes(replace(nest, axes=tuple(nest.axis[n] for n in order)))
        rows = _hint(moved.axes[-2].size) if len(moved.axes) > 1 else _ENOUGH_ROWS
        short, turned, sliced, strided = score
        found.append(((short, turned, sliced, len(moved.axes), -min(rows, _ENOUGH_ROWS), strided, i), moved))
    best = [moved for _, moved in sorted(found, key=lambda x: x[0])]
    return tuple(dict.fromkeys([*best, nest]))


def conflict(nest: Nest) -> str:
    """Two accesses whose axes have different orders in memory, as text; empty if there are none."""
    names = [a.name for a in nest.axes]
    first, *others = sorted(_accesses(nest), key=lambda x: -len(x.strides))
    for x in others:
        mine = [
            [n for n in _by_stride(y, names) if n in dict(x.strides) and n in dict(first.strides)] for y in (first, x)
        ]
        if mine[0] != mine[1]:
            texts = [
                f"{y.param} [{', '.join(f'{n}: {nest.axis[n].size}' for n in o)}]" for y, o in zip((first, x), mine)
            ]
            return " and ".join(texts)
    return ""


def _accesses(nest: Nest) -> list[Load | Store]:
    return [*(v for v in nest.values if isinstance(v, Load)), *nest.stores]


def _hint(e: Expr) -> int:
    return expr.sample(e, alike=True)


def _by_stride(access: Load | Store, names: Sequence[str]) -> tuple[str, ...]:
    """The axes of an access, outermost in memory first."""
    strides = {a: abs(_hint(s)) for a, s in access.strides}
    return tuple(sorted((n for n in names if n in strides), key=lambda n: -strides[n]))


def _ordered(access: Load | Store, names: Sequence[str]) -> bool:
    return _by_stride(access, names) == tuple(n for n in names if n in dict(access.strides))


def _candidates(accesses: Sequence[Load | Store], names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The nest's own order and that of every access, each also with any axis as rows and any contiguous one last."""
    last = list(dict.fromkeys([*names[-1:], *(a for x in accesses for a, s in x.strides if s == 1)]))
    bases = [names]
    for x in sorted(accesses, key=lambda x: isinstance(x, Load)):
        mine = _by_stride(x, names)
        bases.append((*(n for n in names if n not in mine), *mine))
    for base in dict.fromkeys(bases):
        yield base
        for cols in last:
            for rows in (n for n in reversed(base) if n != cols):
                yield (*(n for n in base if n not in (rows, cols)), rows, cols)


def _tiled(order: Sequence[str], reduced: frozenset[str]) -> bool:
    """Whether the last two axes are the tile that a template for reductions takes."""
    if not reduced or len(order) < 2:
        return True
    return (order[-1] in reduced) != (order[-2] in reduced) or reduced.issuperset(order)


def _score(
    nest: Nest,
    accesses: Sequence[Load | Store],
    order: Sequence[str],
    reduced: frozenset[str],
    seams: frozenset[str],
) -> tuple[int, int, int, int] | None:
    """(Copies of lines shorter than a block, bytes per element that are rearranged in UB, outputs owned in slices,
    outputs strided), as far as strides tell.

    None where a tile is known to be no copy of some tensor.
    """
    rows, cols = (order[-2] if len(order) > 1 else None), (order[-1] if order else None)
    short = moved = sliced = strided = 0
    for node in accesses:
        dtype = node.dtype if isinstance(node, Load) else nest.dtypes[node.value]
        steps: dict[str | None, int] = {a: _hint(s) for a, s in node.strides}
        layout = layout_of(nest.domains[node.name] if isinstance(node, Load) else dict(node.strides), rows, cols)
        inner = rows if layout == Layout.COL else cols if layout != Layout.ONE else None
        if not reduced and turns(dict(node.strides), rows, cols):
            moved += dtype.itemsize
            laned = lane_of(node.strides, nest.axis[order[-2]], order[-1], dtype, whole=isinstance(node, Store))
            short += not laned and _hint(nest.axis[order[-2]].size) * dtype.itemsize < BLOCK
        elif inner is not None and steps.get(inner, 0) != 1:
            lane = abs(steps.get(inner, MAX_LANE + 1))  # more than the least of all: lines that lie in each other
            if lane != min(map(abs, steps.values()), default=0) or lane > MAX_LANE or not picks(dtype):
                return None
            moved += lane * dtype.itemsize
        elif layout == Layout.FULL and rows is not None:
            short += _hint(nest.axis[order[-1]].size) * dtype.itemsize < BLOCK
        if isinstance(node, Store):
            ordered = _ordered(node, order)
            columns = [_hint(nest.axis[n].size) for n in order[-1:] if n in steps]
            lines = [s for a, s in steps.items() if a != cols] + columns
            on_blocks = layout in (Layout.FULL, Layout.ROW) and all(n * dtype.itemsize % BLOCK == 0 for n in lines)
            sliced += not ordered and (node.param in seams or not on_blocks)
            strided += not ordered
    return short, moved, sliced, strided
