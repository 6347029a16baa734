"""How the parts of a kernel share cores where several of them store to one output, so that no 32-byte block has two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.bounds import less_equal, nonnegative
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Kernel
from torchair_autofuse.loop.verify_memory import kernel_facts
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import BLOCK, apart, dense_from_offset, meeting_cores, whole_blocks
from torchair_autofuse.schedule.program import ONE_ROW, Layout, Transfer
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.tiling import Tree
from torchair_autofuse.schedule.turn import stores_panels

_SPLIT_BY_ROWS = ("pointwise", "transpose", "row_resident")  # templates whose shares of rows can be set from outside


@dataclass(frozen=True)
class Group:
    """Parts, by index, that share cores in one way. ``kind``:

    "own": a single part, which shares out its work as it would alone.
    "rows": every part is ``rows`` outer rows, of ``inner`` tile rows each; a core owns the same outer rows of all of
    them, a multiple of ``unit``. With a ``span``, which is then the size of an outer row of all outputs, a core may own
    any run of them instead: its columns of a part begin where ``offsets`` says in the row.
    "run": every part is one run of each output, one after the other; a core's share ends where ``phase`` plus its last
    row (or element, where the part is flat) is a multiple of ``unit``. The core that ends one part begins the next.
    """

    kind: str
    parts: tuple[int, ...]
    rows: Expr = 1
    inner: tuple[Expr, ...] = ()
    span: Expr = 0
    offsets: tuple[Expr, ...] = ()
    phases: tuple[Expr, ...] = ()
    units: tuple[Tree, ...] = ()  # of every part, or one for all


def groups(kernel: Kernel, parts: Sequence[Schedule]) -> list[Group] | Reason:
    """All parts in groups, in the order they should run; AF210 names an output that nothing is known to be safe for."""
    tied = _tied(parts)
    found = []
    for members in _components(len(parts), tied):
        if len(members) == 1 and not any(members[0] in of for of in tied.values()):
            found.append(Group("own", members))
            continue
        names = frozenset(name for name, of in tied.items() if members[0] in of or set(of) & set(members))
        group = _run(kernel, parts, members, names) or _rows(kernel, parts, members, names)
        if group is None:
            return meeting_cores(", ".join(sorted(names)))
        found.append(group)
    return found


def _runs_in_blocks(run: Expr, itemsize: int) -> Tree:
    """The least number of runs of so many elements that fill whole 32-byte blocks (a power of two)."""
    if isinstance(run, int):
        return whole_blocks(run * itemsize)
    size = t.mul(t.from_expr(run), itemsize)
    found: Tree = BLOCK // itemsize
    block = 2 * itemsize
    while block <= BLOCK:
        found = t.select(t.mod(size, block), found, BLOCK // block)
        block *= 2
    return found


def _tied(parts: Sequence[Schedule]) -> dict[str, tuple[int, ...]]:
    """Outputs that several stores fill, not all of them in whole blocks -> the parts that these belong to."""
    users: dict[str, list[int]] = {}
    loose: set[str] = set()
    for k, part in enumerate(parts):
        for store in part.program.stores:
            users.setdefault(store.param, []).append(k)
            if not apart(part.program, store, part.cols):
                loose.add(store.param)
    return {name: tuple(dict.fromkeys(of)) for name, of in users.items() if len(of) > 1 and name in loose}


def _components(count: int, tied: Mapping[str, Sequence[int]]) -> list[tuple[int, ...]]:
    """The parts 0..count-1, together where an output ties them."""
    leader = list(range(count))
    for of in tied.values():
        together = {leader[k] for k in of}
        leader = [min(together) if x in together else x for x in leader]
    return [tuple(k for k in range(count) if leader[k] == x) for x in dict.fromkeys(leader)]


def _row_axes(part: Schedule) -> list[tuple[str, Expr]]:
    """(name, true size) of the axes around the columns, outermost first."""
    axes = [*part.outer, *([part.rows] if part.rows is not None and part.rows.name != ONE_ROW else [])]
    true = {a.name: a.size for a in part.empty}
    return [(a.name, true.get(a.name, a.size)) for a in axes]


def _columns(part: Schedule) -> list[tuple[str, Expr]]:
    true = {a.name: a.size for a in part.empty}
    return [(part.cols.name, true.get(part.cols.name, part.cols.size))] if part.cols is not None else []


def _splits_by_rows(part: Schedule) -> bool:
    """Whether a core may have any number of the part's rows."""
    return part.template in _SPLIT_BY_ROWS and not stores_panels(part.program)


def _in_order(part: Schedule, store: Transfer) -> bool:
    """Whether a store fills its output in the order of the part's axes."""
    strides = dict(store.strides)
    return dense_from_offset(store, [a for a in (*_row_axes(part), *_columns(part)) if a[0] in strides])


def _size(axes: Sequence[tuple[str, Expr]]) -> Expr:
    return expr.product(size for _, size in axes)


# ---- runs -----------------------------------------------------------------------------------------------------------


def _run(kernel: Kernel, parts: Sequence[Schedule], members: tuple[int, ...], tied: frozenset[str]) -> Group | None:
    """The group of parts that fill their outputs one after the other, or None."""
    facts = kernel_facts(kernel)
    begins: dict[int, dict[str, Expr]] = {}
    phases: dict[int, Expr] = {}
    units: dict[int, Tree] = {}
    for k in members:
        found = _run_of(parts[k], tied)
        if found is None:
            return None
        begins[k], phases[k], units[k] = found
    order = sorted(members, key=lambda k: (max(expr.sample(b) for b in begins[k].values()), k))
    for name in tied:
        storing = [i for i, k in enumerate(order) if name in begins[k]]
        if storing != list(range(storing[0], storing[0] + len(storing))):
            return None
        for i in storing[:-1]:
            part = parts[order[i]]
            lanes = next(x.lanes for x in part.program.stores if x.param == name)
            end = expr.add(begins[order[i]][name], expr.mul(_size([*_row_axes(part), *_columns(part)]), lanes))
            if not less_equal(end, begins[order[i + 1]][name], facts):
                return None
    return Group("run", tuple(order), phases=tuple(phases[k] for k in order), units=tuple(units[k] for k in order))


def _run_of(part: Schedule, tied: frozenset[str]) -> tuple[dict[str, Expr], Expr, Tree] | None:
    """(output -> offset of the run, phase, unit) of one part; None where it is not one run of each tied output."""
    rows, cols = _row_axes(part), _columns(part)
    if not _splits_by_rows(part) or (part.rows is None and rows):
        return None
    step: Expr = 1 if part.rows is None else _size(cols)  # elements between the places where a share may end
    single = part.rows is not None and _size(rows) == 1
    begins: dict[str, Expr] = {}
    at: list[tuple[Expr, Expr, int]] = []  # (elements before the first step in steps, elements per step, itemsize)
    for store in part.program.stores:
        buf = part.program.bufs[store.buf]
        run = expr.mul(step, store.lanes)
        has = [name in dict(store.strides) for name, _ in (rows if part.rows is not None else cols)]
        if store.param in tied:
            if store.param in begins or not dense_from_offset(store, [*rows, *cols]):
                return None
            begins[store.param] = store.offset
            before = 0 if store.offset == 0 else expr.quotient(store.offset, run)
            if before is None and not single:
                return None
            at.append((before or 0, run, buf.element))
        elif any(has) and (part.rows is None or not apart(part.program, store, part.cols)):
            if not all(has) or not _in_order(part, store):
                return None
            at.append((0, store.lanes if buf.layout == Layout.COL else run, buf.element))
    if single:
        return begins, 0, 1
    unit = reduce(t.maximum, dict.fromkeys(_runs_in_blocks(run, size) for _, run, size in at))
    if any(not expr.equal(before, at[0][0]) for before, _, _ in at):
        if not isinstance(unit, int) or not all(isinstance(b, int) and b % unit == 0 for b, _, _ in at):
            return None
        return begins, 0, unit
    return begins, at[0][0], unit


# ---- rows -----------------------------------------------------------------------------------------------------------


def _rows(kernel: Kernel, parts: Sequence[Schedule], members: tuple[int, ...], tied: frozenset[str]) -> Group | None:
    """The group of parts that lie side by side in the same outer rows of their outputs, or None."""
    if any(not _splits_by_rows(parts[k]) or parts[k].rows is None for k in members):
        return None
    first = _row_axes(parts[members[0]])
    for stop in range(len(first), 0, -1):
        rows = _size(first[:stop])
        found = [_rows_of(kernel, parts[k], tied, rows) for k in members]
        known = [f for f in found if f is not None]
        if len(known) == len(members):
            unit = reduce(t.maximum, dict.fromkeys(u for _, units in known for u in units))
            inner = tuple(inner for inner, _ in known)
            span, offsets = _span(kernel, [parts[k] for k in members], tied, rows, inner)
            return Group("rows", members, rows, inner, span, offsets, units=(unit,))
    return None


def _span(
    kernel: Kernel, parts: Sequence[Schedule], tied: frozenset[str], rows: Expr, inner: Sequence[Expr]
) -> tuple[Expr, tuple[Expr, ...]]:
    """(elements of an outer row, where each part begins in it); (0, ()) where cores cannot own a part of a row.

    They can where parts store nothing but the same columns of all outputs, and no value of a row needs all of it.
    """
    none: tuple[Expr, tuple[Expr, ...]] = (0, ())
    sizes = [expr.quotient(expr.product(kernel.param[name].dims), rows) for name in sorted(tied)]
    if not all(expr.equal(i, 1) for i in inner) or sizes[0] is None:
        return none
    if any(size is None or not expr.equal(size, sizes[0]) for size in sizes):
        return none
    offsets = []
    for part in parts:
        stores = part.program.stores
        plain = all(part.program.bufs[x.buf].layout == Layout.FULL and x.lanes == 1 for x in stores)
        if part.template != "pointwise" or not plain or {x.param for x in stores} != tied or len(stores) > len(tied):
            return none
        if any(not expr.equal(x.offset, stores[0].offset) for x in stores):
            return none
        offsets.append(stores[0].offset)
    return sizes[0], tuple(offsets)


def _rows_of(kernel: Kernel, part: Schedule, tied: frozenset[str], rows: Expr) -> tuple[Expr, list[Tree]] | None:
    """(tile rows per outer row, units of all outputs) of a part that is ``rows`` outer rows of each tied output."""
    axes = _row_axes(part)
    stop = next((i for i in range(len(axes), 0, -1) if expr.equal(_size(axes[:i]), rows)), None)
    if stop is None:
        return None
    units: list[Tree] = []
    for store in part.program.stores:
        itemsize = part.program.bufs[store.buf].element
        if store.param in tied:
            pitch = _pitch(kernel, part, store, axes[:stop], rows)
            if pitch is None:
                return None
            units.append(_runs_in_blocks(pitch, itemsize))
            continue
        strides = dict(store.strides)
        has = [name in strides for name, _ in axes[:stop]]
        if apart(part.program, store, part.cols) or not any(has):
            continue
        if not all(has) or not _in_order(part, store):
            return None
        inside = [(n, size) for n, size in [*axes[stop:], *_columns(part)] if n in strides]
        units.append(_runs_in_blocks(expr.mul(_size(inside), store.lanes), itemsize))
    return _size(axes[stop:]), units


def _pitch(
    kernel: Kernel, part: Schedule, store: Transfer, outer: Sequence[tuple[str, Expr]], rows: Expr
) -> Expr | None:
    """Elements of an outer row of the store's output, if the store keeps within it at every step of ``outer``."""
    strides = dict(store.strides)
    if any(name not in strides for name, _ in outer):
        return None
    pitch = strides[outer[-1][0]]
    if any(not expr.equal(strides[a], expr.mul(strides[b], size)) for (a, _), (b, size) in pairwise(outer)):
        return None
    if not expr.equal(expr.mul(rows, pitch), expr.product(kernel.param[store.param].dims)):
        return None
    names = {name for name, _ in outer}
    inside = [(n, size) for n, size in [*_row_axes(part), *_columns(part)] if n in strides and n not in names]
    facts = (*kernel_facts(kernel), *(expr.add(size, -1) for _, size in inside))
    if not all(nonnegative(strides[n], facts) for n, _ in inside) or not nonnegative(store.offset, facts):
        return None
    reach = expr.add(store.offset, store.lanes, *(expr.mul(strides[n], expr.add(size, -1)) for n, size in inside))
    return pitch if less_equal(reach, pitch, facts) else None
