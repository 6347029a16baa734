"""Tiles whose transfers run along the rows for some tensors and along the columns for others.

What lies along the rows is copied as it is, columns x rows, and transposed in UB in squares of 16 x 16 elements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torchair_autofuse.dtypes import BOOL, DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Axis, Load, Nest, Store, Strides
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import BLOCK, row_unit, whole_blocks
from torchair_autofuse.schedule.emit import EXACT
from torchair_autofuse.schedule.lanes import MAX_LANE
from torchair_autofuse.schedule.program import LANES, Layout, Program, Table, Transfer, turns
from torchair_autofuse.schedule.select import Selector
from torchair_autofuse.schedule.sizes import BYTES_PER_CORE, capacity_steps, extent_steps, size_steps, used_step
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.ub import UbPlan, bytes_per, fixed_bytes
from torchair_autofuse.soc.chip import Chip

_SHORTEST_RUN = 128
"""Bytes along the rows that a core has at least: shorter runs of a strided copy are slow (guides for 2201).

Half of that where columns cannot be shared out, to use more cores.
"""

_LEAST_COLUMNS = 64  # of a core

_SIDES = (128, 64, 32)  # rows of a square-like tile, the largest whose square fits


def lane_of(strides: Strides, rows: Axis, cols: str, dtype: DType, *, whole: bool) -> int:
    """Elements of a lane, where a line along the rows is too short to be copied by itself; else 0.

    ``whole``: the lanes have to be nothing but the rows, as those of a store do.
    """
    lane = dict(strides)[cols]
    if not isinstance(rows.size, int) or not isinstance(lane, int) or dtype.itemsize > 4:
        return 0
    short = rows.size * dtype.itemsize < BLOCK and rows.size <= lane <= MAX_LANE
    return lane if short and (lane == rows.size or not whole) else 0


class TurnSelector(Selector):
    """Selects what is transposed: loads right after they arrive, stores right before they leave.

    Copies of lines shorter than a block are the slowest there are. Where the rows are so few, all lines are copied as
    one run of lanes, one per column, and ``Gather`` takes rows out of them or puts them into them.
    """

    def _load(self, load: Load) -> None:
        if self._is_index(load) or not turns(dict(load.strides), self._rows, self._cols):
            super()._load(load)
            return
        lane = self._lane(load, load.dtype)
        buf = self._memory_side(load.dtype.cpp, lane, "in")
        moved = Transfer(buf, load.param, load.strides, load.offset, lane or 1, lane or 1, False, self._lookups(load))
        self._loads[1].append(moved)
        if load.dtype.itemsize > 1:
            self._at[load.name] = self._rows_of(buf, lane)
            return
        half = self._memory_side("half", lane)
        self._append("Cast", half, buf, scalars=EXACT)
        rows = self._rows_of(half, lane)
        if load.dtype == BOOL:
            self._halves[load.name] = rows
        else:
            self._at[load.name] = self._append("Cast", self._new(load.dtype.cpp, Layout.FULL), rows, scalars=EXACT)

    def _store(self, store: Store) -> None:
        if not turns(dict(store.strides), self._rows, self._cols):
            super()._store(store)
            return
        dtype = self._nest.dtypes[store.value]
        lane = self._lane(store, dtype)
        if dtype == BOOL:
            rows = self._half(store.value, Layout.FULL)
        else:
            rows = self._in_layout(store.value, Layout.FULL)
            if dtype.itemsize == 1:
                rows = self._append("Cast", self._new("half", Layout.FULL), rows, scalars=EXACT)
        buf = self._turned(rows, lane)
        if dtype.itemsize == 1:
            buf = self._append("Cast", self._memory_side(dtype.cpp, lane), buf, scalars=EXACT)
        self._out.add(buf)
        # a tile has all rows of its lanes
        strides = tuple((a, s) for a, s in store.strides if not lane or a != self._rows)
        self._send_out(buf, Transfer(buf, store.param, strides, store.offset, lane or 1, lane or 1))

    def _lane(self, access: Load | Store, dtype: DType) -> int:
        assert self._rows is not None and self._cols is not None
        whole = isinstance(access, Store)
        return lane_of(access.strides, self._nest.axis[self._rows], self._cols, dtype, whole=whole)

    def _memory_side(self, cpp: str, lane: int, kind: str = "tmp") -> int:
        """A buffer of the tile as it lies in memory: columns x rows, or one row of lanes."""
        buf = self._new(cpp, Layout.ROW if lane else Layout.TURNED, kind, lane or 1)
        self._bufs[buf] = replace(self._bufs[buf], segment=1)
        return buf

    def _rows_of(self, buf: int, lane: int) -> int:
        """The tile in rows and columns."""
        b = self._bufs[buf]
        table = Table(lane, b.element) if lane else None
        return self._transpose(self._new(b.cpp, Layout.FULL), buf, table)

    def _turned(self, buf: int, lane: int) -> int:
        """The tile as it lies in memory."""
        b = self._bufs[buf]
        table, work = (Table(lane, b.element, Layout.ROW), self._memory_side(b.cpp, lane)) if lane else (None, -1)
        return self._transpose(self._memory_side(b.cpp, lane), buf, table, work)

    def _transpose(self, dst: int, src: int, table: Table | None, work: int = -1) -> int:
        view = "half" if self._bufs[src].cpp == "bfloat16_t" else ""  # not a type of the instructions on 2201
        api = "Gather" if table else "TransDataTo5HD"
        return self._append(api, dst, src, form="transpose", view=view, table=table, work=work)

    def _append(self, api: str, dst: int, src: int, **more: Any) -> int:
        self._instrs[1].append(self._instr(api, dst, [src], in_place=False, **more))
        return dst


def turned(nest: Nest, rows: Axis, cols: Axis) -> bool:
    """Whether some load or store of a tile of ``rows`` and ``cols`` is to be transposed."""
    nodes: list[Load | Store] = [*(v for v in nest.values if isinstance(v, Load)), *nest.stores]
    return any(turns(dict(x.strides), rows.name, cols.name) for x in nodes)


def stores_panels(program: Program) -> bool:
    """Whether a tile has to have all rows of its panel: a store puts them into lanes, and these are stored whole."""
    bufs = (program.bufs[x.buf] for x in program.stores)
    return any(b.width > 1 and b.layout == Layout.ROW and b.segment == 1 for b in bufs)


def turn_reason(program: Program) -> Reason | None:
    """Why something cannot be transposed in UB: only 16 and 32 bit types can, and bytes as halves."""
    for instr in program.instrs:
        buf = program.bufs[instr.dst]
        if instr.form == "transpose" and buf.element not in (2, 4):
            return Reason("AF202", f"no instruction transposes {buf.cpp} values in UB")
    return None


def turn_steps(
    program: Program,
    ub: UbPlan,
    nest: Nest,
    access: tuple[Axis, ...],
    outer: tuple[Axis, ...],
    rows: Axis,
    cols: Axis,
    align: int,
    chip: Chip,
) -> tuple[Let, ...]:
    """Tiling of rows x columns where both are runs in memory. ``access``: all axes with their true sizes.

    A tile is as square as its axes allow, no side longer than one copy can hold. Both sides are padded to ``align``,
    so that the two layouts of a tile need the same room. Rows are shared out over the cores first, then columns where
    that leaves every 32-byte block to one core.
    """
    full = bytes_per(program, ub, Layout.FULL) + ub.bytes_per_element(Layout.TURNED)
    row, col = ub.bytes_per_element(Layout.ROW), ub.bytes_per_element(Layout.COL)
    colb, fixed = ub.bytes_per_element(Layout.COLB), fixed_bytes(program, ub)
    spare = t.sub(t.sub(Var("ub_bytes"), chip.ub_reserved_bytes), fixed + (full + row + col) * LANES + colb * 8)
    moved = [program.bufs[x.buf] for x in (*program.loads, *program.stores)]
    lines = [b.element for b in moved if b.layout == Layout.TURNED]
    run = _SHORTEST_RUN // min(lines) if lines else 1
    tile_bytes = sum(b.itemsize for b in moved if b.layout == Layout.FULL) + sum(lines)
    unit = t.maximum(row_unit(program, access, (*outer, rows)), 1)
    if stores_panels(program):
        panel = t.maximum(t.from_expr(rows.size), 1)
        unit = t.select(t.mod(unit, panel), t.mul(unit, panel), unit)
    longest = chip.max_block_count // align * align
    per_row = col + colb
    side: Tree = align
    for length in reversed(_SIDES):
        side = t.select(t.sub(t.add(Var("room"), 1), length * length), length, side)

    def fits(other: Tree, per_other: int, per_this: int) -> Tree:
        """Elements along one side of a tile where the other has ``other``."""
        left = t.maximum(t.sub(Var("spare"), t.mul(other, per_other)), 0)
        return t.rounddown(t.floordiv(left, t.maximum(t.add(t.mul(other, full), per_this), 1)), align)

    return (
        *size_steps(nest),
        *extent_steps(expr.product(a.size for a in (*outer, rows)), cols.size),
        Let("panel_rows", t.maximum(t.from_expr(rows.size), 1)),
        Let("spare", t.maximum(spare, 0)),
        Let("room", t.floordiv(Var("spare"), full)),
        Let(
            "traffic",
            t.floordiv(t.mul(Var("rows_work"), Var("cols_work"), max(tile_bytes, 1)), BYTES_PER_CORE),
        ),
        Let("wanted", t.minimum(Var("core_num"), t.maximum(Var("traffic"), 1))),
        Let("uneven", _uneven(program, cols)),
        Let("run", t.select(Var("uneven"), max(run // 2, 1), run)),
        Let("unit", t.roundup(Var("run"), unit)),
        Let("core_rows", t.roundup(t.ceildiv(Var("rows_work"), Var("wanted")), Var("unit")), field=True),
        Let("row_cores", t.ceildiv(Var("rows_work"), Var("core_rows"))),
        Let(
            "spread",
            t.select(Var("uneven"), 1, t.maximum(t.floordiv(Var("wanted"), Var("row_cores")), 1)),
        ),
        Let("core_cols", t.roundup(t.ceildiv(Var("cols_work"), Var("spread")), max(run, _LEAST_COLUMNS)), field=True),
        Let("col_cores", t.ceildiv(Var("cols_work"), Var("core_cols")), field=True),
        Let("block_dim", t.mul(Var("row_cores"), Var("col_cores"))),
        Let("side", side),
        Let("most_rows", t.roundup(t.minimum(t.minimum(Var("panel_rows"), Var("core_rows")), longest), align)),
        Let("most_cols", t.roundup(t.minimum(t.minimum(Var("cols_work"), Var("core_cols")), longest), align)),
        Let("first_rows", t.minimum(Var("most_rows"), Var("side"))),
        Let("tile_cols", t.minimum(Var("most_cols"), fits(Var("first_rows"), per_row, row)), field=True),
        Let("tile_rows", t.minimum(Var("most_rows"), fits(Var("tile_cols"), row, per_row)), field=True),
        *capacity_steps(Var("tile_cols")),
        used_step(full, row, col, colb, fixed),
    )


def _uneven(program: Program, cols: Axis) -> Tree:
    """Positive where several cores cannot share the columns of the same rows: some block would have two writers."""
    uneven: list[Tree] = []
    for store in program.stores:
        buf = program.bufs[store.buf]
        block = whole_blocks(buf.itemsize)
        if buf.layout == Layout.COL:
            uneven.append(1)
        elif buf.layout in (Layout.FULL, Layout.ROW):  # every row has to start on a block
            uneven.append(t.mod(Var("cols_work"), block))
        elif buf.layout == Layout.TURNED:  # what all columns fill together has to
            strides = dict(store.strides)
            uneven.append(t.mod(t.from_expr(expr.mul(strides[cols.name], cols.size)), block))
    return t.add(*uneven)
