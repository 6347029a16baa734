"""Rows of several parts put together in UB: one tile of whole output rows, which one contiguous copy stores.

The results of all parts are placed side by side, each from a 32-byte block on, and an instruction drops the pads
between them. Storing the parts one by one instead is slow where their rows are short and off the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Kernel, Nest, Store
from torchair_autofuse.loop.rewrite import drop_unit_axes
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import BLOCK, copies_reason
from torchair_autofuse.schedule.program import LANES, Buf, Layout
from torchair_autofuse.schedule.reasons import types_reason
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.seams import Group
from torchair_autofuse.schedule.select import Selector
from torchair_autofuse.schedule.sizes import BYTES_PER_CORE, size_steps
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.ub import Slot, plan, row_align, slots_reason
from torchair_autofuse.soc.chip import Chip

_MOST_OUTPUTS = 24  # two buffers each, of 64 that a kernel may have
_SHORT = 512  # bytes; a run that is off the blocks and longer than this costs little more than one that is on them


@dataclass(frozen=True)
class Place:
    """A store of a part: ``cols`` elements of every row of ``param``, after those of the places before it."""

    part: int
    index: int  # of the part's stores
    param: str
    cols: Expr


class MemberSelector(Selector):
    """All values belong to the tile; what a store takes is placed in the tile of its output."""

    def _home(self, layout: Layout) -> int:
        return 1

    def _store(self, store: Store) -> None:
        index = sum(i.form == "place" for i in self._instrs[1])
        if self._cols is None:
            buf = self._spread(self._in_layout(store.value, Layout.COL))
        else:
            buf = self._in_layout(store.value, Layout.FULL)
        self._instrs[1].append(self._instr("DataCopy", -1, [buf], form="place", scalars=(store.param, f"at{index}")))


def assemble(kernel: Kernel, parts: Sequence[Schedule], group: Group, chip: Chip) -> Schedule | None:
    """The schedule that puts the rows of a group of ``parts`` together, or None where it has no such rows.

    It takes types of 2 and 4 bytes, one tile row of every part per row of its outputs, and whole rows of all outputs.
    Its tiling value ``active`` is positive where whole rows fit in UB, the parts' stores would be slow, and there are
    enough rows to share among cores: see :func:`pays`.
    """
    if group.kind != "rows" or any(not expr.equal(i, 1) for i in group.inner):
        return None
    chosen = [parts[k] for k in group.parts]
    if any(p.outer or p.empty for p in chosen):
        return None
    places = _places(kernel, chosen)
    if places is None or len({p.param for p in places}) > _MOST_OUTPUTS:
        return None
    made = [m for m in (_member(kernel, p, chip) for p in chosen) if m is not None]
    if len(made) < len(chosen):
        return None
    members = [replace(m, prefix=f"m{k}_") for k, m in enumerate(made)]
    steps = _Steps(kernel, members, places, group, chip).steps()
    return replace(made[0], template="assembled", steps=steps, members=tuple(members))


def pays(assembled: Schedule, chip: Chip) -> bool | None:
    """Whether to put the rows together for all sizes (True), or for none (False); None where the tiling decides."""
    if not all(isinstance(m.cols.size, int) for m in assembled.members if m.cols is not None):
        return None
    values = assembled.at(chip)
    if values["slow"] == 0 or values["fit"] == 0:
        return False
    assert assembled.rows is not None
    if isinstance(assembled.rows.size, int):
        return values["active"] > 0
    shared = values["unit"] * values["row_bytes"] <= 2 * BYTES_PER_CORE  # a core's least share is small enough
    return True if shared else None


def _places(kernel: Kernel, parts: Sequence[Schedule]) -> tuple[Place, ...] | None:
    """Every store, in the order of the outputs and of their columns; None where they are not all of each row."""
    found: dict[str, list[tuple[Expr, Place]]] = {}
    for k, part in enumerate(parts):
        assert part.cols is not None
        for i, store in enumerate(part.program.stores):
            buf, dtype = part.program.bufs[store.buf], kernel.param[store.param].dtype
            if buf.layout != Layout.FULL or store.lanes != 1 or dtype.itemsize not in (2, 4):
                return None
            found.setdefault(store.param, []).append((store.offset, Place(k, i, store.param, part.cols.size)))
    for param, stores in found.items():
        stores.sort(key=lambda s: expr.sample(s[0]))
        at: Expr = 0
        for offset, place in stores:
            if not expr.equal(offset, at):
                return None
            at = expr.add(at, place.cols)
        part = parts[stores[0][1].part]
        assert part.rows is not None
        if not expr.equal(expr.mul(part.rows.size, at), expr.product(kernel.param[param].dims)):
            return None
    return tuple(place for p in kernel.outputs for _, place in found.get(p.name, []))


def _member(kernel: Kernel, part: Schedule, chip: Chip) -> Schedule | None:
    """One part as it computes its results of a tile, if a tile of it is made of plain copies."""
    for nest, rows, cols in _forms(part):
        program = MemberSelector(nest, rows.name, cols.name if cols else None).program()
        if program.tables or any(x.lanes != 1 or x.back or x.lookups for x in program.loads):
            continue
        if types_reason(program) or copies_reason(program, (rows, cols) if cols else (rows,)):
            continue
        ub = plan(program, 2)  # all loads in one buffer of the queue that the parts share
        if slots_reason(ub) is None:
            return Schedule("member", chip.npu_arch, kernel, nest, (), rows, cols, program, ub, row_align(program), ())
    return None


def _forms(part: Schedule) -> Iterable[tuple[Nest, Axis, Axis | None]]:
    """The nest without its only column where its loads are contiguous along the rows then, and as it is."""
    assert part.rows is not None and part.cols is not None
    if part.cols.size == 1:
        nest = drop_unit_axes(part.nest)
        loads = [dict(getattr(v, "strides", ())).get(part.rows.name, 1) for v in nest.values]
        if nest.axes == (part.rows,) and all(stride == 1 for stride in loads):
            yield nest, part.rows, None
    yield part.nest, part.rows, part.cols


# ---- tiling ---------------------------------------------------------------------------------------------------------


def in_buffers(member: Schedule) -> list[Buf]:
    """What the queue of loads holds of a part."""
    return [b for b in member.program.bufs if b.kind == "in"]


def work_slots(member: Schedule) -> list[Slot]:
    """Its places for working values; parts use the same memory for theirs."""
    return [s for s in member.plan.slots if s.queue < 0]


class _Steps:
    def __init__(
        self, kernel: Kernel, members: Sequence[Schedule], places: Sequence[Place], group: Group, chip: Chip
    ) -> None:
        self._members, self._places, self._group, self._chip = members, places, group, chip
        self._itemsize = {p.name: p.dtype.itemsize for p in kernel.outputs}
        self._outputs = list(dict.fromkeys(p.param for p in places))
        self._found: list[Let] = []

    def steps(self) -> tuple[Let, ...]:
        self._sizes()
        self._rows()
        self._memory()
        return tuple(self._found)

    def _let(self, name: str, value: Tree, *, field: bool = False) -> None:
        self._found.append(Let(name, value, field))

    def _sizes(self) -> None:
        """Columns and pitches of the parts, of their outputs, and where each place begins in a row of the tile."""
        self._let("total_rows", t.from_expr(self._group.rows), field=True)
        self._let("rows_work", t.maximum(Var("total_rows"), 1))
        moved: list[Tree] = [t.mul(t.from_expr(p.cols), self._itemsize[p.param]) for p in self._places]
        for m in self._members:
            self._found += [replace(s, name=f"{m.prefix}{s.name}") for s in size_steps(m.nest)]
            cols = t.from_expr(m.cols.size if m.cols else 1)
            self._let(f"{m.prefix}total_cols", cols, field=True)
            self._let(f"{m.prefix}pitch", t.roundup(cols, m.align), field=True)
            moved.append(t.mul(cols, sum(b.itemsize for b in in_buffers(m) if b.layout != Layout.ROW)))
        self._let("row_bytes", t.add(*moved))
        self._let("bytes", t.mul(Var("rows_work"), Var("row_bytes")))
        for name in self._outputs:  # an output without columns has a tile all the same
            at: Tree = 0
            for p in (p for p in self._places if p.param == name):
                self._let(f"m{p.part}_at{p.index}", at, field=True)
                at = t.add(Var(f"m{p.part}_at{p.index}"), t.roundup(t.from_expr(p.cols), BLOCK // self._itemsize[name]))
            self._let(f"{name}_pitch", t.maximum(at, BLOCK // self._itemsize[name]), field=True)
            self._let(
                f"{name}_cols", t.from_expr(expr.add(*(p.cols for p in self._places if p.param == name))), field=True
            )

    def _rows(self) -> None:
        """Rows that fit, rows of a core and of a tile: whole blocks of every output if enough fit."""
        slack = [self._bytes(m, LANES, fixed=True) for m in self._members]
        rows = [self._bytes(m, 0, fixed=False) for m in self._members]
        tiles = [(self._itemsize[y], Var(f"{y}_pitch"), Var(f"{y}_cols")) for y in self._outputs]
        fixed = t.add(
            _most([t.add(t.mul(a, 2), b) for a, b in slack]),
            *(3 * LANES * size for size, _, _ in tiles),
            *(t.roundup(t.floordiv(pitch, 8), BLOCK) for _, pitch, _ in tiles),
        )
        row = t.add(
            t.mul(2, _most([a for a, _ in rows])),
            _most([b for _, b in rows]),
            t.mul(2, _most([t.mul(cols, size) for size, _, cols in tiles])),
            *(t.mul(pitch, size) for size, pitch, _ in tiles),
        )
        unit = self._group.units[0]
        spare = t.sub(Var("ub_bytes"), self._chip.ub_reserved_bytes)
        self._let("spare", t.sub(spare, t.minimum(fixed, spare)))
        self._let("fit", t.floordiv(Var("spare"), t.maximum(row, 1)))
        self._let("unit", unit)
        short = [t.from_expr(expr.mul(p.cols, self._itemsize[p.param])) for p in self._places]
        slow = [t.select(t.mod(b, BLOCK), t.sub(_SHORT, t.minimum(b, _SHORT)), 0) for b in short]
        self._let("slow", _most(slow))
        cores = t.maximum(t.floordiv(Var("bytes"), BYTES_PER_CORE), 1)
        self._let("wanted", t.minimum(Var("core_num"), cores))
        self._let("core_rows", t.roundup(t.ceildiv(Var("rows_work"), Var("wanted")), Var("unit")), field=True)
        self._let("block_dim", t.ceildiv(Var("rows_work"), Var("core_rows")))
        busy = t.add(t.mul(Var("block_dim"), 2), 1)
        self._let("busy", t.sub(busy, t.minimum(Var("wanted"), busy)))  # 0 where less than half of the cores are
        self._let("active", t.minimum(t.minimum(Var("slow"), Var("fit")), Var("busy")))
        even = t.select(t.floordiv(Var("fit"), Var("unit")), t.rounddown(Var("fit"), Var("unit")), Var("fit"))
        most = t.minimum(Var("core_rows"), self._chip.max_block_count)
        self._let("tile_rows", t.maximum(t.minimum(even, most), 1), field=True)

    def _memory(self) -> None:
        """Bytes of everything in UB, and what the parts' layouts hold."""
        for m in self._members:
            self._let(f"{m.prefix}cap_row", t.roundup(Var(f"{m.prefix}pitch"), LANES), field=True)
            tile = t.mul(Var("tile_rows"), Var(f"{m.prefix}pitch"))
            self._let(f"{m.prefix}cap_full", t.roundup(tile, LANES), field=True)
            self._let(f"{m.prefix}cap_col", t.roundup(Var("tile_rows"), LANES), field=True)
            self._let(f"{m.prefix}cap_colb", t.roundup(Var("tile_rows"), 8), field=True)
        ins, works = zip(*(self._held(m) for m in self._members))
        self._let("in_bytes", _most(ins), field=True)
        self._let("work_bytes", _most(works), field=True)
        outs = [(y, t.maximum(Var(f"{y}_cols"), 1)) for y in self._outputs]
        self._let("out_bytes", _most([self._tile(y, cols) for y, cols in outs]), field=True)
        used: list[Tree] = [t.mul(t.add(Var("in_bytes"), Var("out_bytes")), 2), Var("work_bytes")]
        for y in self._outputs:
            self._let(f"{y}_tile", self._tile(y, Var(f"{y}_pitch")), field=True)
            self._let(f"{y}_keep", t.roundup(t.floordiv(Var(f"{y}_pitch"), 8), BLOCK), field=True)
            used += [Var(f"{y}_tile"), Var(f"{y}_keep")]
        self._let("ub_used", t.add(*used))

    def _tile(self, output: str, per_row: Tree) -> Tree:
        """Bytes of a tile of an output with so many elements per row."""
        return t.mul(t.roundup(t.mul(Var("tile_rows"), per_row), LANES), self._itemsize[output])

    def _bytes(self, m: Schedule, lanes: int, *, fixed: bool) -> tuple[Tree, Tree]:
        """Bytes of the loads and of the working values: that do not depend on the rows of a tile, or of one row."""
        pitch = Var(f"{m.prefix}pitch")
        per = {
            Layout.FULL: lanes if fixed else pitch,
            Layout.COL: lanes if fixed else 1,
            Layout.COLB: 8 if fixed else 1,
            Layout.ROW: t.roundup(pitch, LANES) if fixed else 0,
            Layout.ONE: LANES if fixed else 0,
            Layout.ONEB: 8 if fixed else 0,
        }  # fmt: skip
        return self._total(m, per, scratch=fixed)

    def _held(self, m: Schedule) -> tuple[Tree, Tree]:
        """Bytes of the loads and of the working values of a tile."""
        caps: dict[Layout, Tree] = {
            k: Var(f"{m.prefix}cap_{k.value}") for k in (Layout.FULL, Layout.ROW, Layout.COL, Layout.COLB)
        }
        return self._total(m, {**caps, Layout.ONE: LANES, Layout.ONEB: 8}, scratch=True)

    def _total(self, m: Schedule, per: dict[Layout, Tree], *, scratch: bool) -> tuple[Tree, Tree]:
        ins = t.add(*(t.mul(per[b.layout], b.itemsize) for b in in_buffers(m)))
        works = [t.mul(per[s.layout], s.itemsize) for s in work_slots(m)]
        if m.program.scratch:
            works.append(t.mul(per[Layout.FULL], m.program.scratch))
            works += [m.program.scratch * LANES + 512] if scratch else []
        return ins, t.add(*works)


def _most(values: Iterable[Tree]) -> Tree:
    return reduce(t.maximum, dict.fromkeys(values))
