"""How a nest touches memory: which copies a tile can make, what a core must own, and axes that may be empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd

import sympy

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.bounds import nonnegative
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Nest
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.lanes import MAX_LANE
from torchair_autofuse.schedule.program import Layout, Program, Transfer
from torchair_autofuse.schedule.tiling import Tree

BLOCK = 32
"""Bytes of a block: the least that two cores write independently of each other."""


def with_empty_axes(nest: Nest, reduced: set[str]) -> tuple[Nest, tuple[Axis, ...]]:
    """The nest as it is iterated, and the axes that may be empty while an output without them has to be stored.

    Those axes run once at least; copies along them are left out when they are empty. Not the ``reduced`` ones.
    """
    stored = [{a for a, _ in s.strides} for s in nest.stores]
    empty = tuple(
        a
        for a in nest.axes
        if not ((isinstance(a.size, int) and a.size > 0) or a.name in reduced)
        and any(a.name not in axes for axes in stored)
    )
    axes = tuple(replace(a, size=_at_least_one(a.size)) if a in empty else a for a in nest.axes)
    return (replace(nest, axes=axes) if empty else nest), empty


def _at_least_one(size: Expr) -> Expr:
    return 1 if isinstance(size, int) else expr.simplify(sympy.Max(size, 1))


def copies_reason(
    program: Program, axes: Sequence[Axis], seams: frozenset[str] = frozenset(), *, permuted: bool = False
) -> Reason | None:
    """Why some load or store of a tile is not one copy, or could meet another core's; None if all is well.

    The last two of ``axes`` are the rows and columns of the tile. ``seams``: outputs for which the caller sees to it
    that no two cores meet. ``permuted``: the template owns what a store writes by :func:`row_unit`, which knows
    outputs with other orders of the axes too.
    """
    rows, cols = (axes[-2] if len(axes) > 1 else None), (axes[-1] if axes else None)
    sides = {Layout.FULL: (cols, rows), Layout.ROW: (cols, None), Layout.COL: (rows, None), Layout.TURNED: (rows, cols)}
    stores = {x.buf for x in program.stores}
    some = tuple(expr.add(a.size, -1) for a in axes)  # nothing is copied where an axis is empty
    for transfer in (*program.loads, *program.stores):
        strides = dict(transfer.strides)
        layout = program.bufs[transfer.buf].layout
        by_row = program.by_row(transfer)
        if any(program.bufs[x.buf].layout in (Layout.FULL, Layout.ROW) for x in transfer.lookups):
            return Reason("AF210", f"{transfer.param} is looked up along the inner axis")
        if by_row and layout != Layout.FULL:
            return Reason("AF210", f"single elements of {transfer.param} are looked up")
        inner, lines = sides.get(layout, (None, None))
        step = -transfer.lanes if transfer.back else transfer.lanes
        if inner is not None and inner.size != 1 and strides.get(inner.name) != step:
            return _strided_reason(program, transfer, strides.get(inner.name), transfer.buf in stores)
        if lines is not None and inner is not None and not by_row:
            run = expr.add(expr.mul(expr.add(inner.size, -1), transfer.lanes), transfer.span)
            gap = expr.add(strides.get(lines.name, 0), expr.mul(-1, run))
            if lines.size != 1 and not nonnegative(gap, some):
                return Reason("AF210", f"rows of {transfer.param} may overlap or run backwards")
        if transfer.buf not in stores or transfer.param in seams:
            continue
        order = memory_order(program, transfer, axes) if permuted else None
        if not (dense(transfer, axes) or apart(program, transfer, cols) or order):
            return meeting_cores(transfer.param)
    return None


def order_reason(program: Program, axes: Sequence[Axis]) -> Reason | None:
    """Why a template that owns outputs in the order of ``axes`` does not serve: a store that has another order."""
    stores = (x for x in program.stores if not apart(program, x, axes[-1]))
    other = next((x for x in stores if not dense(x, axes)), None)
    return None if other is None else meeting_cores(other.param)


def meeting_cores(outputs: str) -> Reason:
    """AF210 for outputs of which nothing is known that keeps cores out of each other's 32-byte blocks."""
    return Reason("AF210", f"two cores could write one 32-byte block of {outputs}")


def _strided_reason(program: Program, transfer: Transfer, stride: object, stored: bool) -> Reason:
    """Why an access with ``stride`` along the inner axis is not one run of lanes."""
    cpp = program.bufs[transfer.buf].cpp
    if isinstance(stride, int) and any(isinstance(s, int) and abs(s) < abs(stride) for _, s in transfer.strides):
        return Reason("AF210", f"{transfer.param} has a stride of {stride} along the inner axis, less along another")
    if isinstance(stride, int) and not 1 <= abs(stride) <= MAX_LANE:
        return Reason("AF210", f"{transfer.param} has a stride of {stride} along the inner axis, more than {MAX_LANE}")
    if isinstance(stride, int) and program.bufs[transfer.buf].element not in (2, 4):
        return Reason("AF202", f"no instruction moves single {cpp} values of {transfer.param} in UB")
    if isinstance(stride, int) and stored:
        return Reason("AF210", f"{transfer.param} is stored with gaps, or backwards, along the inner axis")
    return Reason("AF210", f"{transfer.param} is not contiguous along the inner axis")


def dense(store: Transfer, axes: Sequence[Axis]) -> bool:
    """Whether a store fills its output in the order of the axes."""
    strides = dict(store.strides)
    return store.offset == 0 and dense_from_offset(store, [(a.name, a.size) for a in axes if a.name in strides])


def dense_from_offset(store: Transfer, axes: Sequence[tuple[str, Expr]]) -> bool:
    """Whether a store fills one run of its output in the order of ``axes`` (name, size), and has all of them."""
    strides = dict(store.strides)
    pitch: Expr = store.lanes
    for name, size in reversed(axes):
        if name not in strides or not expr.equal(strides[name], pitch):
            return False
        pitch = expr.mul(pitch, size)
    return True


def apart(program: Program, store: Transfer, cols: Axis | None) -> bool:
    """Whether every row of a store is known to start and end on a 32-byte block."""
    if program.bufs[store.buf].layout not in (Layout.FULL, Layout.ROW) or cols is None:
        return False
    moves = [s for a, s in store.strides if a != cols.name]
    width = expr.mul(cols.size, store.lanes)
    element = program.bufs[store.buf].element
    return all(_blocks(s, element) for s in (*moves, width, store.offset))


def memory_order(program: Program, store: Transfer, axes: Sequence[Axis]) -> tuple[str, ...]:
    """The axes of a store that fills its output in some order, outermost first; empty if it does not."""
    if not _blocks(store.offset, program.bufs[store.buf].element):
        return ()
    strides = dict(store.strides)
    left = {a.name: a.size for a in axes if a.name in strides}
    found: list[str] = []
    pitch: Expr = store.lanes
    while left:
        name = next((n for n in left if expr.equal(strides[n], pitch)), None)
        if name is None:
            return ()
        pitch = expr.mul(pitch, left.pop(name))
        found.append(name)
    return tuple(reversed(found))


def _blocks(elements: Expr, itemsize: int) -> bool:
    """Whether so many elements are known to be whole blocks."""
    return elements == 0 or expr.quotient(expr.mul(elements, itemsize), BLOCK) is not None


def row_unit(program: Program, axes: Sequence[Axis], around: Sequence[Axis]) -> Tree:
    """Rows per core are a multiple of this: no two cores then write one 32-byte block of any output.

    A store that lacks an axis inside one it has is made by a few of the rows only; a core then owns whole slices of
    the axes it has. So it does where an output has its axes in another order, unless the innermost one of the output
    is whole blocks: then every line of the output is apart from the others. ``axes`` have their true sizes; ``around``
    are all but the columns, with sizes of at least 1.
    """
    stores = [x for x in program.stores if not apart(program, x, axes[-1])]
    permuted = [x for x in stores if not dense(x, axes) and memory_order(program, x, axes)]
    ordered = [x for x in stores if x not in permuted]
    if not permuted:
        return _slices(program, ordered, axes, around)
    slices = _slices(program, stores, axes, around, exact=True)
    lines, splits = zip(*(_line(program, x, axes) for x in permuted))
    split = max(splits) if all(splits) else 0
    if not split:
        return slices
    return t.select(t.add(*lines), slices, _slices(program, ordered, axes, around, split))


def _slices(
    program: Program,
    stores: Iterable[Transfer],
    axes: Sequence[Axis],
    around: Sequence[Axis],
    split: int = 1,
    *,
    exact: bool = False,
) -> Tree:
    """Rows of whole slices, as many (a multiple of ``split``) as fill blocks of every store.

    ``exact``: as many as the sizes need, where they are symbolic; else what is enough for all sizes.
    """
    first = len(around)
    step: Tree = split
    for store in stores:
        strides = dict(store.strides)
        has = [a.name for a in around if a.name in strides]
        if not has:
            continue
        order = memory_order(program, store, axes) or has
        stop = next(k for k in range(len(around), -1, -1) if _whole(around[:k], has, order))
        run = expr.product(a.size for a in axes[stop:] if a.name in strides)  # lanes that a slice has in memory
        itemsize = program.bufs[store.buf].itemsize
        blocks: Tree = whole_blocks(itemsize * (run if isinstance(run, int) else 1))
        if exact and not isinstance(run, int):
            blocks = t.select(t.mod(t.from_expr(run), blocks), blocks, 1)
        first, step = min(first, stop), t.maximum(step, blocks)  # powers of two
    return t.mul(*(t.from_expr(a.size) for a in around[first:]), step)


def _whole(outer: Sequence[Axis], has: Sequence[str], order: Sequence[str]) -> bool:
    """Whether what a store writes for one index of the ``outer`` axes is one run in memory, in order of the index."""
    named = [a.name for a in outer if a.name in has]
    started = [a.name for a in outer][len(outer) - len(named) :]
    return named == started and named == list(order[: len(named)])


def _line(program: Program, store: Transfer, axes: Sequence[Axis]) -> tuple[Tree, int]:
    """(A tree that is 0 where lines along the innermost axis in memory are whole blocks, rows that are whole blocks).

    The second is 0 where the innermost axis is not one of the tile's.
    """
    rows, cols = axes[-2], axes[-1]
    axis = {rows.name: rows, cols.name: cols}.get(memory_order(program, store, axes)[-1])
    if axis is None:
        return 1, 0
    block = whole_blocks(program.bufs[store.buf].itemsize)
    return t.mod(t.from_expr(axis.size), block), block if axis is rows else 1


def whole_blocks(itemsize: int) -> int:
    """The least number of items of so many bytes that are whole blocks: a power of two."""
    return BLOCK // gcd(BLOCK, itemsize)
