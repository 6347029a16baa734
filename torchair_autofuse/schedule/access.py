"""How a nest touches memory: which copies a tile can make, what a core must own, and axes that may be empty."""

from __future__ import annotations

from collections.abc import Sequence
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

_BLOCK = 32  # bytes


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


def copies_reason(program: Program, axes: Sequence[Axis], seams: frozenset[str] = frozenset()) -> Reason | None:
    """Why some load or store of a tile is not one copy, or could meet another core's; None if all is well.

    ``seams``: outputs for which the caller sees to it that no two cores meet.
    """
    rows, cols = (axes[-2] if len(axes) > 1 else None), (axes[-1] if axes else None)
    stores = {x.buf for x in program.stores}
    for transfer in (*program.loads, *program.stores):
        strides = dict(transfer.strides)
        layout = program.bufs[transfer.buf].layout
        by_row = program.by_row(transfer)
        if any(program.bufs[x.buf].layout in (Layout.FULL, Layout.ROW) for x in transfer.lookups):
            return Reason("AF210", f"{transfer.param} is looked up along the inner axis")
        if by_row and (layout != Layout.FULL or transfer.back):
            return Reason("AF210", f"single elements of {transfer.param} are looked up")
        inner = cols if layout in (Layout.FULL, Layout.ROW) else rows if layout == Layout.COL else None
        step = -transfer.lanes if transfer.back else transfer.lanes
        if inner is not None and inner.size != 1 and strides.get(inner.name) != step:
            return _strided_reason(program, transfer, strides.get(inner.name), transfer.buf in stores)
        if layout == Layout.FULL and rows is not None and cols is not None and not by_row:
            run = expr.add(expr.mul(expr.add(cols.size, -1), transfer.lanes), transfer.span)
            gap = expr.add(strides.get(rows.name, 0), expr.mul(-1, run))
            if rows.size != 1 and not nonnegative(gap):
                return Reason("AF210", f"rows of {transfer.param} may overlap or run backwards")
        owned = transfer.buf not in stores or transfer.param in seams
        if not owned and not (_dense(transfer, axes) or apart(program, transfer, cols)):
            return Reason("AF210", f"two cores could write one 32-byte block of {transfer.param}")
    return None


def _strided_reason(program: Program, transfer: Transfer, stride: object, stored: bool) -> Reason:
    """Why an access with ``stride`` along the inner axis is not one run of lanes."""
    cpp = program.bufs[transfer.buf].cpp
    if isinstance(stride, int) and not 1 <= abs(stride) <= MAX_LANE:
        return Reason("AF210", f"{transfer.param} has a stride of {stride} along the inner axis, more than {MAX_LANE}")
    if isinstance(stride, int) and program.bufs[transfer.buf].element not in (2, 4):
        return Reason("AF202", f"no instruction moves single {cpp} values of {transfer.param} in UB")
    if isinstance(stride, int) and stored:
        return Reason("AF210", f"{transfer.param} is stored with gaps, or backwards, along the inner axis")
    return Reason("AF210", f"{transfer.param} is not contiguous along the inner axis")


def _dense(store: Transfer, axes: Sequence[Axis]) -> bool:
    """Whether a store fills its output in the order of the axes."""
    strides = dict(store.strides)
    return store.offset == 0 and dense_from_offset(store, [(a.name, a.size) for a in axes if a.name in strides])


def dense_from_offset(store: Transfer, axes: Sequence[tuple[str, Expr]]) -> bool:
    """Whether a store fills one run of its output in the order of ``axes`` (name, size), and has all of them."""
    strides: dict[str, Expr] = dict(store.strides)
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
    return all(s == 0 or expr.quotient(expr.mul(s, element), _BLOCK) is not None for s in (*moves, width, store.offset))


def row_unit(program: Program, axes: Sequence[Axis], around: Sequence[Axis]) -> Tree:
    """Rows per core are a multiple of this: no two cores then write one 32-byte block of any output.

    A store that lacks an axis inside one it has is made by a few of the rows only; a core then owns whole slices of
    the axes it has. ``axes`` have their true sizes; ``around`` are all but the columns, with
    sizes of at least 1.
    """
    cols = axes[-1]
    first, step = len(around), 1
    for store in program.stores:
        buf = program.bufs[store.buf]
        if apart(program, store, cols):
            continue
        strides = dict(store.strides)
        has = [a.name in strides for a in around]
        if not any(has):
            continue
        stop = next((i for i in range(has.index(True), len(has)) if not has[i]), len(has))
        sizes = [a.size for a in axes[stop:] if a.name in strides]
        run = expr.product(sizes)  # elements that a slice has in memory
        blocks = _BLOCK // gcd(_BLOCK, buf.itemsize * (run if isinstance(run, int) else 1))
        first, step = min(first, stop), step * blocks // gcd(step, blocks)
    return t.mul(*(t.from_expr(a.size) for a in around[first:]), step)
