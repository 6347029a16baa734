"""Predicted time of a fused kernel, from its schedule at example sizes: never a measurement.

Per piece and core: the tiles it goes through, and for each the cycles of its loads (MTE2), vector instructions and
stores (MTE3). A double-buffered loop takes the first load, then the slowest of the three per tile, then the last
instructions and store; a single-buffered one waits for every load. The slowest core counts. Numbers: soc/chips.toml.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torchair_autofuse.loop import expr
from torchair_autofuse.plan.cost import head_cycles, load_rate, store_rate, to_ns
from torchair_autofuse.schedule.program import LANES, Instr, Layout, Segment, Transfer
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import Chip

Sizes = Mapping[str, int]
_KIND_OF_API = {
    **dict.fromkeys(("Adds", "Muls", "Maxs", "Mins"), "scalar"),
    **dict.fromkeys(("Compare", "CompareScalar"), "compare"),
    **dict.fromkeys(("Duplicate", "DataCopy"), "fill"),
    "Cast": "cast",
    "Select": "select",
    "Gather": "gather",
    "GatherMask": "pick",
    "TransDataTo5HD": "transpose",
}
_KIND_OF_FORM = {"brcb": "spread", "reduce": "reduce", "reduce_compact": "reduce", "interleave": "gather"}
_STRIP = 64  # columns that one repeat covers, and below which an instruction is issued per row
_BLOCK = 32


@dataclass(frozen=True)
class Walk:
    """What the busiest core of a piece goes through: ``blocks`` times what is outside the loops and, for each,
    ``tiles`` tiles of ``rows`` x ``cols``, which are averages. ``double``: whether loads run ahead."""

    blocks: float
    tiles: float
    rows: float
    cols: float
    double: bool = True


@dataclass(frozen=True)
class Time:
    """Cycles of the three pipes for one run of a segment."""

    load: float = 0.0
    vector: float = 0.0
    store: float = 0.0

    def __add__(self, other: Time) -> Time:
        return Time(self.load + other.load, self.vector + other.vector, self.store + other.store)

    def times(self, count: float) -> Time:
        return Time(self.load * count, self.vector * count, self.store * count)

    def once(self) -> float:
        return self.load + self.vector + self.store

    def loop(self, tiles: float, *, double: bool) -> float:
        """Of ``tiles`` rounds: fill, the slowest pipe per further tile, drain."""
        if tiles <= 0:
            return 0.0
        steady = max(self.load, self.vector, self.store) if double else max(self.load + self.vector, self.store)
        return self.once() + (tiles - 1) * steady


@dataclass(frozen=True)
class Pipes:
    """Nanoseconds of a kernel (``ns``, as :func:`schedule_ns` gives them), of its launch with its heads, and of each
    pipe of the busiest core: these run side by side."""

    ns: int
    launch: int
    load: int
    vector: int
    store: int

    @property
    def times(self) -> dict[str, int]:
        """By the name of each."""
        return {"launch": self.launch, "MTE2": self.load, "vector": self.vector, "MTE3": self.store}

    @property
    def limit(self) -> str:
        """The name of what takes longest."""
        return max(self.times, key=lambda name: self.times[name])


def schedule_pipes(schedule: Schedule, sizes: Sizes, chip: Chip) -> Pipes:
    """Of what the time that :func:`schedule_ns` gives is made."""
    tiling = schedule.tiling(dict(sizes), chip.vector_cores, chip.ub_bytes)
    return _Prediction(schedule, sizes, tiling, chip).pipes()


def schedule_ns(schedule: Schedule, sizes: Sizes, chip: Chip) -> int:
    """Nanoseconds of the kernel on a whole chip; ``sizes``: of the kernel's symbols."""
    tiling = schedule.tiling(dict(sizes), chip.vector_cores, chip.ub_bytes)
    return _Prediction(schedule, sizes, tiling, chip).ns()


class _Prediction:
    def __init__(self, schedule: Schedule, sizes: Sizes, tiling: Sizes, chip: Chip) -> None:
        self._schedule, self._sizes, self._tiling, self._chip = schedule, sizes, tiling, chip
        self._cores = max(tiling["block_dim"], 1)
        self._loaded = self._bytes("inputs")
        self._in_l2 = self._loaded <= chip.l2_bytes
        self._stored = self._bytes("outputs")

    def ns(self) -> int:
        return to_ns(self._chip, self._head() + max(cycles for cycles, _ in self._cores_busy()))

    def pipes(self) -> Pipes:
        cycles, busiest = max(self._cores_busy(), key=lambda core: core[0])
        parts = (round(1000 * c / self._chip.clock_mhz) for c in (busiest.load, busiest.vector, busiest.store))
        return Pipes(to_ns(self._chip, self._head() + cycles), to_ns(self._chip, self._head()), *parts)

    def _head(self) -> float:
        return head_cycles(self._chip, self._cores, self._loaded, self._stored)

    def _cores_busy(self) -> list[tuple[float, Time]]:
        """Of each core the cycles that it runs, and of each pipe."""
        busy = [(0.0, Time())] * self._cores
        for piece in self._schedule.running(self._tiling):
            made = [self._nest(piece, nest) for nest in piece.nests]
            first, cores = 0, self._cores
            if self._schedule.parts:
                first, cores = (self._value(piece, name, 0) for name in ("first", "cores"))
            for i in range(min(cores, self._cores)):
                cycles, pipes = busy[(first + i) % self._cores]
                cycles += sum(c for c, _ in made)
                busy[(first + i) % self._cores] = cycles, sum((t for _, t in made), pipes)
        return busy

    def _bytes(self, kind: str) -> int:
        params = getattr(self._schedule.kernel, kind)
        return sum(self._size(expr.product(p.dims)) * p.dtype.itemsize for p in params)

    def _size(self, e: expr.Expr) -> int:
        return e if isinstance(e, int) else expr.evaluate(e, dict(self._sizes))

    def _value(self, piece: Schedule, name: str, default: int = 1) -> int:
        return self._tiling.get(piece.prefix + name, default)

    # ---- what a core goes through -----------------------------------------------------------------------------------

    def _walk(self, piece: Schedule, nest: Schedule) -> Walk:
        def of(name: str) -> int:
            return max(self._value(piece, name), 1)

        if nest is not piece and piece.members:  # put together: a tile has the same rows of every part
            cols = float(self._size(nest.cols.size)) if nest.cols is not None else 1.0
            share = min(of("core_rows"), of("rows_work"))
            tiles = math.ceil(share / of("tile_rows"))
            return Walk(1, tiles, share / tiles, cols)
        if piece.rows is None:
            share = min(of("core_cols"), of("work"))
            tiles = math.ceil(share / of("tile_cols"))
            return Walk(1, tiles, 1, share / tiles)
        if piece.shared:
            return self._split(piece)
        if piece.inside:
            units, col_tiles = min(of("core_units"), of("units_work")), math.ceil(of("cols_work") / of("tile_cols"))
            blocks = math.ceil(units / min(of("inside_work"), units)) * col_tiles
            return Walk(blocks, units * col_tiles / blocks, of("tile_rows"), of("cols_work") / col_tiles)
        if piece.streamed:
            return self._streaming(piece)
        rows, size = min(of("core_rows"), of("rows_work")), max(self._size(piece.rows.size), 1)
        cols = min(of("core_cols"), of("cols_work"))
        panels = math.ceil(rows / size) if piece.outer else 1
        col_tiles = math.ceil(cols / of("tile_cols"))
        tiles = math.ceil(rows / panels / of("tile_rows"))
        double = self._value(piece, "buffers", 2) > 1
        return Walk(panels * col_tiles, tiles, rows / panels / tiles, cols / col_tiles, double)

    def _streaming(self, piece: Schedule) -> Walk:
        def of(name: str) -> int:
            return max(self._value(piece, name), 1)

        assert piece.cols is not None and piece.rows is not None
        units = min(of("core_units"), of("units_work"))
        around = math.prod(max(self._size(a.size), 1) for a in piece.outer if a.name in piece.streamed)
        if piece.cols.name in piece.streamed:
            rows = min(of("tile_rows"), units, max(self._size(piece.rows.size), 1))
            tiles = math.ceil(of("cols_work") / of("tile_cols"))
            return Walk(math.ceil(units / rows), tiles * around, rows, of("cols_work") / tiles)
        cols = min(of("core_cols"), of("cols_work"))
        col_tiles = math.ceil(cols / of("tile_cols"))
        double = self._value(piece, "buffers", 2) > 1
        tiles = math.ceil(of("rows_work") / of("tile_rows"))
        return Walk(units * col_tiles, tiles * around, of("rows_work") / tiles, cols / col_tiles, double)

    def _split(self, piece: Schedule) -> Walk:
        def of(name: str) -> int:
            return max(self._value(piece, name), 1)

        assert piece.cols is not None
        stream = min(of("core_stream"), of("stream_work"))
        if piece.cols.name in piece.streamed:
            tiles = math.ceil(stream / of("tile_cols"))
            return Walk(of("rounds"), tiles, of("tile_rows"), stream / tiles)
        tiles = math.ceil(stream / of("tile_rows"))
        return Walk(of("rounds"), tiles, stream / tiles, of("tile_cols"))

    # ---- cycles -----------------------------------------------------------------------------------------------------

    def _nest(self, piece: Schedule, nest: Schedule) -> tuple[float, Time]:
        walk = self._walk(piece, nest)
        seen: set[object] = set()
        total, pipes = 0.0, Time()
        for segment in nest.program.segments:
            time = self._segment(piece, nest, segment, walk, seen)
            cycles = time.loop(walk.tiles, double=walk.double) if segment.loop else time.once()
            if any(i.form == "send" for i in segment.instrs):
                cycles += self._chip.cost.sync
            total += walk.blocks * cycles
            pipes += time.times(walk.blocks * (max(walk.tiles, 0.0) if segment.loop else 1.0))
        return total, pipes

    def _segment(self, piece: Schedule, nest: Schedule, segment: Segment, walk: Walk, seen: set[object]) -> Time:
        load = store = 0.0
        for x in segment.loads:
            key = (x.param, x.strides, x.offset, x.lanes)
            again = key in seen and self._in_l2
            seen.add(key)
            load += self._copy(nest, x, walk, stores=False, again=again)
        for x in segment.stores:
            store += self._copy(nest, x, walk, stores=True)
        if nest is not piece and piece.members:  # what the parts place is stored as whole rows of the tile
            for i in (i for i in segment.instrs if i.form == "place"):
                size = nest.program.bufs[i.srcs[0]].element
                store += walk.rows * walk.cols * size / store_rate(self._chip, self._cores)
        return Time(load, sum(self._instr(nest, i, walk) for i in segment.instrs), store)

    def _copy(self, nest: Schedule, x: Transfer, walk: Walk, *, stores: bool, again: bool = False) -> float:
        """Cycles of one copy between GM and UB: its issue, its bytes, and what short, uneven or strided blocks cost."""
        c, buf = self._chip.cost, nest.program.bufs[x.buf]
        blocks, block = self._blocks(nest, x, walk)
        issues = blocks if nest.program.by_row(x) else 1.0
        gap = self._gap(nest, x, block) if blocks > 1 else 0.0
        if not stores:
            rate = c.l2_rate if again else load_rate(self._chip, self._cores, self._loaded)
            size = max(block, c.short_load_bytes) if block < _BLOCK and blocks > 1 else block
            return issues * c.load_copy + blocks * (size / rate + c.load_gap * gap)
        cycles = block / store_rate(self._chip, self._cores)
        if blocks > 1 and block % _BLOCK and buf.layout != Layout.ONE:
            if block < _BLOCK:
                cycles = max(self._short_store(block), cycles)
            elif block <= c.uneven_store_bytes:
                cycles = max(block / c.uneven_store_rate, cycles)
            else:
                cycles += c.uneven_store
        return issues * c.store_copy + blocks * (cycles + c.store_gap * gap)

    def _short_store(self, block: float) -> float:
        c = self._chip.cost
        crowd = (self._cores - 1) / max(self._chip.vector_cores - 1, 1)
        return (c.short_store[0] - c.short_store[1] * block) * (c.short_store_alone + (1 - c.short_store_alone) * crowd)

    def _blocks(self, nest: Schedule, x: Transfer, walk: Walk) -> tuple[float, float]:
        """(contiguous blocks, bytes of one) of a copy of a tile."""
        buf = nest.program.bufs[x.buf]
        size = buf.element * x.lanes
        if buf.layout == Layout.FULL:
            if nest.rows is None or self._contiguous(nest, x, walk):
                return 1.0, walk.rows * walk.cols * size
            return walk.rows, walk.cols * size
        if buf.layout == Layout.TURNED:
            return walk.cols, walk.rows * size
        if buf.layout == Layout.ROW:
            return 1.0, walk.cols * size
        if buf.layout == Layout.COL:
            dense = nest.rows is not None and abs(self._stride(x, nest.rows.name)) in (1, x.lanes)
            return (1.0, walk.rows * size) if dense else (walk.rows, float(size))
        return 1.0, float(size)

    def _stride(self, x: Transfer, axis: str) -> int:
        return self._size(dict(x.strides).get(axis, 0))

    def _contiguous(self, nest: Schedule, x: Transfer, walk: Walk) -> bool:
        assert nest.rows is not None
        return abs(self._stride(x, nest.rows.name)) == round(walk.cols) * x.lanes

    def _gap(self, nest: Schedule, x: Transfer, block: float) -> float:
        if nest.rows is None or nest.cols is None:
            return 0.0
        buf = nest.program.bufs[x.buf]
        axis = nest.cols.name if buf.layout == Layout.TURNED else nest.rows.name
        return (abs(self._stride(x, axis)) * buf.element - block) % 256

    def _instr(self, nest: Schedule, i: Instr, walk: Walk) -> float:
        bufs = nest.program.bufs
        touched = [bufs[b] for b in (i.dst, *i.srcs) if b >= 0]
        kind = _KIND_OF_FORM.get(i.form) or (_KIND_OF_API.get(i.api, i.cost) if i.cost == "simple" else i.cost)
        if i.api == "Tanh":
            kind = "tanh"
        wide, half, head = getattr(self._chip.cost.vector, kind)
        widest = max((b.element for b in touched if b.cpp != "bits"), default=4)
        per_element = half if widest <= 2 else wide * max(widest / 4, 1)
        row_pitch = math.ceil(walk.cols / nest.align) * nest.align
        counts = {
            Layout.FULL: walk.rows * row_pitch,
            Layout.TURNED: walk.rows * row_pitch,
            Layout.ROW: row_pitch,
            Layout.COL: walk.rows,
            Layout.COLB: 8 * walk.rows,
        }
        elements = max((counts.get(b.layout, 1) * b.width for b in touched), default=1)
        if i.form == "brcb":
            elements = counts.get(bufs[i.dst].layout, 8)
        elements = math.ceil(elements / LANES) * LANES
        issues = 1.0
        if i.form in ("tile", "expand") and nest.rows is not None:  # by rows, or by strips of columns
            issues = max(min(walk.rows, row_pitch / _STRIP), 1.0)
        elif i.form in ("reduce", "reduce_compact", "reduce_down"):
            issues = 2.0 + math.log2(max(row_pitch / _STRIP, 1.0))
        elif i.form == "carry":
            issues, elements = 2.0, 2 * elements
        return float(per_element * elements + issues * head)
