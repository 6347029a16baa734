"""The template for rows that several outer indices need: they stay in UB while the kernel goes through those.

Cosines [s, d] that rotate x[b, h, s, d] are loaded once per tile of rows and used for every b and h, instead of being
read again for each. As many cores share a tile of rows, each for some of the indices inside, as read no more than 4 %
in addition: tiles are the larger for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Kernel, Load, Nest, Store, Value, defined_names
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import apart, copies_reason
from torchair_autofuse.schedule.program import LANES, Layout, Program
from torchair_autofuse.schedule.reasons import types_reason
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.select import Selector
from torchair_autofuse.schedule.sizes import BYTES_PER_CORE, capacity_steps, size_steps, used_step
from torchair_autofuse.schedule.tiling import Let, Var
from torchair_autofuse.schedule.ub import UbPlan, bytes_per, fixed_bytes, plan, row_align, slots_reason
from torchair_autofuse.soc.chip import Chip


class KeptSelector(Selector):
    """What does not vary over the axes ``inside`` is made once per tile of rows, the rest for each of their indices."""

    def __init__(self, nest: Nest, rows: str, cols: str, inside: frozenset[str]) -> None:
        super().__init__(nest, rows, cols)
        self._inside = inside
        self._segment = 0

    def _enter(self, item: Value | Store) -> None:
        super()._enter(item)
        axes = [a for a, _ in item.strides] if isinstance(item, Store) else self._nest.domains[defined_names(item)[0]]
        self._segment = int(bool(self._inside & set(axes)))

    def _home(self, layout: Layout) -> int:
        return self._segment

    def _cached(self, key: tuple[object, ...], make: Callable[[], int]) -> int:
        return super()._cached((self._segment, *key), make)  # the loop cannot fill what comes before it


def kept_schedule(kernel: Kernel, nest: Nest, chip: Chip) -> Schedule | None:
    """A schedule of ``nest`` (canonical, without reductions), or None where it keeps nothing or does not fit."""
    if len(nest.axes) < 3:
        return None
    rows, cols = nest.axes[-2], nest.axes[-1]
    inside = _inside(nest, rows, cols)
    if not inside or not _stores_everything(nest, frozenset(a.name for a in inside)):
        return None
    around = [a for a in nest.axes[:-2] if a not in inside]
    nest = Nest(nest.name, (*around, *inside, rows, cols), nest.values, nest.stores)
    outer = nest.axes[:-2]
    selector = KeptSelector(nest, rows.name, cols.name, frozenset(a.name for a in inside))
    program = selector.program()
    if copies_reason(program, nest.axes, permuted=True) is not None or types_reason(program) is not None:
        return None
    transfers = (*program.loads, *program.stores)
    if any(x.lookups or x.back for x in transfers):
        return None
    if not all(apart(program, store, cols) for store in program.stores):
        return None
    ub = plan(program, chip.max_live_tensors)
    if slots_reason(ub) is not None:
        return None
    align = row_align(program)
    steps = _steps(program, ub, nest, around, inside, rows, cols, align, chip)
    made = Schedule(
        "kept_rows", chip.npu_arch, kernel, nest, outer, rows, cols, program, ub, align, steps, inside=tuple(inside)
    )
    return made if made.fits(chip, 1, 1 << 24) else None  # a row that fits in UB, and one that does not


def _inside(nest: Nest, rows: Axis, cols: Axis) -> list[Axis]:
    """The outer axes that the load that is read most often lacks, in order."""
    best: list[Axis] = []
    most = 1
    for value in nest.values:
        if isinstance(value, Load):
            axes = {a for a, _ in value.strides}
            absent = [a for a in nest.axes[:-2] if a.name not in axes]
            times = expr.sample(expr.product(a.size for a in absent), alike=True)
            if {rows.name, cols.name} <= axes and absent and times > most:
                best, most = absent, times
    return best


def _stores_everything(nest: Nest, inside: frozenset[str]) -> bool:
    """Whether every store has all axes, and a value that varies over those inside."""
    names = {a.name for a in nest.axes}
    return all({a for a, _ in s.strides} == names and inside & set(nest.domains[s.value]) for s in nest.stores)


def _steps(
    program: Program,
    ub: UbPlan,
    nest: Nest,
    around: Sequence[Axis],
    inside: Sequence[Axis],
    rows: Axis,
    cols: Axis,
    align: int,
    chip: Chip,
) -> tuple[Let, ...]:
    """Tiling of rows x columns per index of the axes ``around``, gone through for every index of those ``inside``.

    A unit of work is a tile of rows for one index inside; a core has a run of ``core_units`` of them.
    """
    full, row = bytes_per(program, ub, Layout.FULL), bytes_per(program, ub, Layout.ROW)
    col, colb = ub.bytes_per_element(Layout.COL), ub.bytes_per_element(Layout.COLB)
    fixed = fixed_bytes(program, ub)
    moved = [b for b in (program.bufs[x.buf] for x in (*program.loads, *program.stores)) if b.layout == Layout.FULL]
    kept, traffic = (sum(b.itemsize for b in moved if b.segment == k) for k in (0, 1))
    spare = t.sub(t.sub(Var("ub_bytes"), chip.ub_reserved_bytes), fixed + (full + row + col) * LANES + colb * 8)
    widest = t.rounddown(t.maximum(t.floordiv(Var("spare"), full + row + col), 0), LANES)

    def size(axes: Sequence[Axis]) -> Expr:
        return expr.product(a.size for a in axes)

    return (
        *size_steps(nest),
        Let("total_rows", t.from_expr(rows.size), field=True),
        Let("total_cols", t.from_expr(cols.size), field=True),
        Let("inside", t.from_expr(size(inside)), field=True),
        Let("inside_work", t.maximum(Var("inside"), 1)),
        Let("around", t.from_expr(size(around))),
        Let("rows_work", t.maximum(Var("total_rows"), 1)),
        Let("cols_work", t.maximum(Var("total_cols"), 1)),
        Let("spare", spare),
        Let("pitch", t.roundup(Var("cols_work"), align)),
        Let("row_room", t.maximum(t.sub(Var("spare"), t.mul(Var("pitch"), row)), 0)),
        Let("fit", t.floordiv(Var("row_room"), t.add(t.mul(Var("pitch"), full), col + colb))),
        Let("work", t.mul(Var("rows_work"), Var("cols_work"), t.maximum(t.mul(Var("inside"), Var("around")), 1))),
        Let(
            "wanted", t.minimum(Var("core_num"), t.maximum(t.floordiv(t.mul(Var("work"), traffic), BYTES_PER_CORE), 1))
        ),
        Let("sharers", t.minimum(t.add(t.floordiv(t.mul(Var("inside"), traffic), 25 * kept), 1), Var("inside_work"))),
        # rows of the cores that share them, in as few tiles as fit, of equal size
        Let("all_rows", t.mul(Var("rows_work"), t.maximum(Var("around"), 1))),
        Let("share", t.maximum(t.ceildiv(t.mul(Var("all_rows"), Var("sharers")), Var("wanted")), 1)),
        Let("most", t.maximum(t.minimum(t.minimum(Var("fit"), Var("rows_work")), chip.max_block_count), 1)),
        Let(
            "tile_rows",
            t.minimum(t.ceildiv(Var("share"), t.ceildiv(Var("share"), Var("most"))), Var("most")),
            field=True,
        ),
        Let("tile_cols", t.select(Var("fit"), Var("cols_work"), t.minimum(widest, Var("cols_work"))), field=True),
        Let("row_tiles", t.ceildiv(Var("total_rows"), Var("tile_rows")), field=True),
        Let("blocks", t.mul(Var("row_tiles"), Var("around"))),
        Let("total_units", t.mul(Var("blocks"), Var("inside")), field=True),
        Let("units_work", t.maximum(Var("total_units"), 1)),
        # no more sharers than that, unless the tiles of rows are too few for half of the cores
        Let("enough", t.maximum(t.sub(t.add(t.mul(Var("blocks"), Var("sharers"), 2), 1), Var("wanted")), 0)),
        Let("run", t.select(Var("enough"), t.ceildiv(Var("inside_work"), Var("sharers")), 1)),
        Let("core_units", t.roundup(t.ceildiv(Var("units_work"), Var("wanted")), Var("run")), field=True),
        Let("block_dim", t.ceildiv(Var("units_work"), Var("core_units"))),
        *capacity_steps(t.roundup(Var("tile_cols"), align)),
        used_step(full, row, col, colb, fixed),
    )
