"""Split reduce: where kept work leaves cores idle, several cores share one block of it.

Every core of a block takes a range of the stream, the tiles of a pass. After a pass that reduces, each leaves its part
of the results in workspace; after a SyncAll all of them combine the parts in the same order. Stored results are stored
by one core of the block, what is stored per tile by the core that has the tile.
"""

from __future__ import annotations

from dataclasses import replace

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Axis
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import BLOCK, whole_blocks
from torchair_autofuse.schedule.program import LANES, ONE_ROW, Layout, Program
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.sizes import capacity_steps, size_steps, used_step
from torchair_autofuse.schedule.stream_select import StreamSelector
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.ub import MAX_SLOTS, UbPlan, bytes_per, fixed_bytes, plan, slots_reason
from torchair_autofuse.schedule.variants import combine
from torchair_autofuse.soc.chip import Chip

PART_LANES = 2048
"""Values of all parts of a result that one buffer of the kernel holds; there are two buffers."""
_SYNC_BYTES = 98304  # a sync and the exchange pay when they save one core this much traffic (kernel techniques, 6)
_PART_BYTES = 8192  # a core is not added to a block for less traffic than this
_LONG = 4096  # a range of so many elements has two tiles at least
_WIDE = 512  # columns of a tile that are enough for good copies


def split_schedule(plain: Schedule, chip: Chip) -> Schedule | None:
    """The split variant of a streaming schedule; None where it can never be used.

    Its tiling value ``pays`` is positive where it is worth its cost; it is right for all sizes.
    """
    assert plain.rows is not None and plain.cols is not None
    if plain.empty or not _ownable(plain):
        return None
    program = StreamSelector(plain.nest, plain.rows.name, plain.cols.name, plain.streamed, shared=True).program()
    ub = plan(program, chip.max_live_tensors - 2)  # two tensors move through the queues of the exchange
    if slots_reason(ub, MAX_SLOTS - 2) is not None:
        return None
    if sum(g.num for g in ub.queues if g.shares < 0) > 2 * (chip.max_live_tensors - 2):
        return None
    template = plain.template.replace("streaming", "split")
    made = replace(plain, template=template, program=program, plan=ub, steps=(), shared=True)
    unit = next(step.value for step in plain.steps if step.name == "unit")
    made = replace(made, steps=_steps(made, unit, chip))
    return made if made.fits(chip, 1, 1 << 20) else None


def results(program: Program) -> int:
    """The most results that one pass leaves in workspace."""
    return max(sum(i.form == "send" for i in s.instrs) for s in program.segments)


def with_split(plain: Schedule, chip: Chip) -> Schedule:
    """The streaming schedule, or its split variant, or both where the sizes decide."""
    made = split_schedule(plain, chip)
    if made is None:
        return plain
    if plain.kernel.symbols:
        return combine(made, "pays", plain)
    return made if made.at(chip)["pays"] > 0 else plain


def _kept(schedule: Schedule) -> list[Axis]:
    assert schedule.rows is not None and schedule.cols is not None
    return [a for a in (*schedule.outer, schedule.rows, schedule.cols) if a.name not in schedule.streamed]


def _ownable(schedule: Schedule) -> bool:
    """Whether cores that own whole runs of kept units never meet in a 32-byte block of a stored result."""
    kept = [a.name for a in _kept(schedule) if a.name != ONE_ROW]
    for store in schedule.program.stores:
        if schedule.program.bufs[store.buf].layout != Layout.FULL:
            axes = [a for a in kept if a in dict(store.strides)]
            if axes != kept[len(kept) - len(axes) :]:
                return False
    return True


def _steps(s: Schedule, plain_unit: Tree, chip: Chip) -> tuple[Let, ...]:
    """``plain_unit``: kept units per core are a multiple of it without the split."""
    assert s.rows is not None and s.cols is not None
    by_rows = s.cols.name in s.streamed
    outer = [a for a in s.outer if a.name not in s.streamed]
    units = [*outer, s.rows] if by_rows else outer
    inner = s.cols if by_rows else s.rows
    stream = expr.product(a.size for a in (*(a for a in s.outer if a.name in s.streamed), inner))
    return (
        *size_steps(s.nest),
        Let("total_units", t.from_expr(expr.product(a.size for a in units)), field=True),
        Let("total_cols", t.from_expr(s.cols.size), field=not by_rows),
        Let("total_stream", t.from_expr(stream), field=True),
        Let("units_work", t.maximum(Var("total_units"), 1)),
        Let("rows_work", t.maximum(t.from_expr(s.rows.size), 1)),
        Let("cols_work", t.maximum(Var("total_cols"), 1)),
        Let("stream_work", t.maximum(Var("total_stream"), 1)),
        Let("uneven", t.mod(Var("cols_work"), s.align)),
        *_groups(s, by_rows),
        *_parts(s, by_rows),
        *_tile(s, by_rows, outer, chip),
        *_worth(s, plain_unit, by_rows, outer),
    )


def _groups(s: Schedule, by_rows: bool) -> list[Let]:
    """Blocks of cores, each with its kept units and, where columns are kept, its columns."""
    if by_rows:
        sizes = [s.program.bufs[x.buf] for x in s.program.stores]
        unit = max((whole_blocks(b.itemsize) for b in sizes if b.layout == Layout.COL), default=1)
        most = t.ceildiv(Var("units_work"), unit)
        return [
            *_shares("core_units", Var("units_work"), most, unit, Var("core_num")),
            Let("groups", t.ceildiv(Var("units_work"), Var("core_units")), field=True),
        ]
    owned = t.roundup(t.ceildiv(Var("units_work"), Var("core_num")), t.select(Var("uneven"), BLOCK, 1))
    strips = t.select(Var("uneven"), 1, t.ceildiv(Var("cols_work"), LANES))
    return [
        Let("core_units", t.minimum(owned, Var("units_work")), field=True),
        Let("unit_cores", t.ceildiv(Var("units_work"), Var("core_units"))),
        Let("share", t.maximum(t.floordiv(Var("core_num"), Var("unit_cores")), 1)),
        *_shares("core_cols", Var("cols_work"), strips, LANES, Var("share")),
        Let("col_cores", t.ceildiv(Var("cols_work"), Var("core_cols")), field=True),
        Let("groups", t.mul(Var("unit_cores"), Var("col_cores")), field=True),
    ]


def _shares(name: str, work: Tree, most: Tree, unit: int, cores: Tree) -> list[Let]:
    """``name``: how much of ``work`` one block of cores has, a multiple of ``unit`` or all of it.

    Either as many blocks as there can be (``most``), or fewer: 30 units leave 48 cores one each and 18 idle, 15 pairs
    of units have three each. The one where a core has less to do.
    """

    def some(blocks: Tree) -> Tree:
        return t.minimum(t.roundup(t.ceildiv(work, blocks), unit), work)

    fewer = t.maximum(t.floordiv(cores, t.ceildiv(cores, Var("finest"))), 1)
    fine, wide = Var("fine_share"), Var("wide_share")
    parts = [t.floordiv(cores, t.ceildiv(work, x)) for x in (fine, wide)]
    less = t.maximum(t.sub(t.mul(fine, Var("wide_parts")), t.mul(wide, Var("fine_parts"))), 0)
    return [
        Let("finest", t.minimum(most, cores)),
        Let("fine_share", some(Var("finest"))),
        Let("wide_share", some(fewer)),
        Let("fine_parts", parts[0]),
        Let("wide_parts", parts[1]),
        Let(name, t.select(less, wide, fine), field=True),
    ]


def _parts(s: Schedule, by_rows: bool) -> list[Let]:
    """Cores per block, and the range of the stream that each has."""
    unit: Tree = LANES if by_rows else t.select(Var("uneven"), BLOCK, 1) if _stores_tiles(s) else 1
    own: Tree = Var("core_units") if by_rows else t.mul(Var("core_units"), Var("core_cols"))
    return [
        Let("per_position", t.mul(own, _traffic(s))),
        Let("wanted", t.maximum(t.floordiv(t.mul(Var("per_position"), Var("stream_work")), _PART_BYTES), 1)),
        Let("spare_cores", t.minimum(t.maximum(t.floordiv(Var("core_num"), Var("groups")), 1), PART_LANES // 8)),
        Let("most_parts", t.minimum(Var("spare_cores"), Var("wanted"))),
        Let("core_stream", t.roundup(t.ceildiv(Var("stream_work"), Var("most_parts")), unit), field=True),
        Let("parts", t.ceildiv(Var("stream_work"), Var("core_stream")), field=True),
        Let("block_dim", t.mul(Var("groups"), Var("parts"))),
    ]


def _tile(s: Schedule, by_rows: bool, outer: list[Axis], chip: Chip) -> list[Let]:
    program, ub = s.program, s.plan
    full, row, col, colb, fixed = _bytes(program, ub, by_rows)
    spare = t.sub(Var("ub_bytes"), chip.ub_reserved_bytes + fixed + (full + row + col) * LANES + colb * 8)

    def columns(rows: Tree) -> Tree:
        """Columns of a tile of so many rows that fit."""
        left = t.maximum(t.sub(Var("spare"), t.mul(rows, col + colb)), 0)
        return t.rounddown(t.floordiv(left, t.add(t.mul(rows, full), max(row, 1))), LANES)

    tallest = Var("core_units") if by_rows else Var("core_stream")
    rounds: Tree = t.ceildiv(Var("core_units"), Var("tile_rows"))
    if by_rows and outer:  # a block ends where the outer indices change
        breaks = t.add(t.ceildiv(Var("core_units"), Var("rows_work")), 1)
        rounds = t.minimum(Var("core_units"), t.add(t.floordiv(Var("core_units"), Var("tile_rows")), breaks))
    elif not by_rows:
        rounds = t.mul(Var("core_units"), Var("col_tiles"))
    fit = t.floordiv(
        t.maximum(t.sub(Var("spare"), t.mul(Var("pitch"), row)), 0), t.add(t.mul(Var("pitch"), full), col + colb)
    )
    most_rows = t.minimum(t.minimum(tallest, Var("rows_work")), chip.max_block_count)
    slot = "cap_col" if by_rows else "cap_row"
    copies = 8 * results(program)  # the slots of one round are read while the next one fills others; 4 bytes each
    return [
        Let("spare", spare),
        Let("whole", columns(Var("core_units")) if by_rows else 0),
        # narrower tiles of all rows of the block spare rounds, and so exchanges
        Let("room", t.select(t.floordiv(Var("whole"), _WIDE), Var("whole"), columns(1))),
        Let("longest", t.minimum(Var("core_stream"), Var("cols_work")) if by_rows else Var("core_cols")),
        Let("tile_cols", t.minimum(_even(Var("longest"), Var("room"), LANES, by_rows), Var("longest")), field=True),
        Let("pitch", t.roundup(Var("tile_cols"), s.align)),
        Let("fit", fit),
        Let("most_rows", t.maximum(t.minimum(Var("fit"), most_rows), 1)),
        Let("tile_rows", Var("most_rows") if by_rows else _even(tallest, Var("most_rows"), 1, False), field=True),
        *capacity_steps(Var("pitch")),
        *([] if by_rows else [Let("col_tiles", t.ceildiv(Var("core_cols"), Var("tile_cols")), field=True)]),
        Let("rounds", rounds, field=True),
        Let("slot", Var(slot), field=True),
        Let("workspace_bytes", t.mul(Var("block_dim"), Var("slot"), copies)),
        used_step(full, row, col, colb, fixed),
    ]


def _even(total: Tree, most: Tree, unit: int, two: bool) -> Tree:
    """The size of tiles of at most ``most`` that share ``total`` evenly; ``two``: two at least where that is long."""
    tiles = t.maximum(t.ceildiv(total, t.maximum(most, 1)), 1)
    if two:  # the second one is loaded while the first is computed
        tiles = t.maximum(tiles, t.minimum(t.floordiv(total, _LONG), 2))
    return t.minimum(t.roundup(t.ceildiv(total, tiles), unit), most)


def _bytes(program: Program, ub: UbPlan, by_rows: bool) -> tuple[int, int, int, int, int]:
    """Bytes per element of the four layouts and those that are fixed; a part on its way out has the kept layout."""
    full, row = bytes_per(program, ub, Layout.FULL), bytes_per(program, ub, Layout.ROW)
    col, colb = ub.bytes_per_element(Layout.COL), ub.bytes_per_element(Layout.COLB)
    fixed = fixed_bytes(program, ub) + 2 * 4 * PART_LANES
    return full, row + 4 * (not by_rows), col + 4 * by_rows, colb, fixed


def _worth(s: Schedule, plain_unit: Tree, by_rows: bool, outer: list[Axis]) -> list[Let]:
    """``pays``: bytes that the busiest core moves less than without the split, beyond what the exchanges cost."""
    syncs = sum(any(i.form == "send" for i in x.instrs) for x in s.program.segments)
    unit = t.maximum(plain_unit, 1)
    plain = t.minimum(t.roundup(t.ceildiv(Var("units_work"), Var("core_num")), unit), Var("units_work"))
    if not by_rows:
        strip = t.roundup(t.ceildiv(Var("cols_work"), t.select(Var("uneven"), 1, Var("share"))), LANES)
        plain = t.mul(plain, t.minimum(strip, Var("cols_work")))
    saved = t.sub(t.mul(plain, _traffic(s), Var("stream_work")), t.mul(Var("per_position"), Var("core_stream")))
    flat = not outer and (not by_rows or (not s.outer and s.rows == Axis(ONE_ROW, 1)))
    gain = t.maximum(t.sub(saved, t.mul(Var("rounds"), syncs * _SYNC_BYTES)), 0)
    # tiles that start within a 32-byte block of their output: only if the ranges follow each other in memory
    return [Let("pays", t.select(Var("uneven"), 0, gain) if _stores_tiles(s) and not flat else gain)]


def _stores_tiles(s: Schedule) -> bool:
    return any(s.program.bufs[x.buf].layout == Layout.FULL for x in s.program.stores)


def _traffic(s: Schedule) -> int:
    """Bytes that the passes move per element of a tile."""
    tiles = [s.program.bufs[x.buf] for x in (*s.program.loads, *s.program.stores)]
    return max(1, sum(b.itemsize for b in tiles if b.layout == Layout.FULL))
