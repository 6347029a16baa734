"""The column-resident template: an outer axis is reduced, and all of it fits in UB for some columns at a time."""

from __future__ import annotations

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expand import expand_combiners
from torchair_autofuse.loop.ir import Axis, Kernel, Nest, Reduce
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import copies_reason, order_reason, with_empty_axes
from torchair_autofuse.schedule.program import LANES, Layout, Program
from torchair_autofuse.schedule.reasons import types_reason
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.select import Selector
from torchair_autofuse.schedule.sizes import capacity_steps, size_steps, used_step
from torchair_autofuse.schedule.stream import owned_units
from torchair_autofuse.schedule.tiling import Let, Var
from torchair_autofuse.schedule.ub import UbPlan, bytes_per, fixed_bytes, plan, row_align, slots_reason
from torchair_autofuse.soc.chip import Chip

_LEAST_COLUMNS = 64  # narrower tiles move less than 256 bytes of f32 per row


class ColumnSelector(Selector):
    """Everything belongs to the tile, which holds all rows; reductions give one value per column."""

    def _home(self, layout: Layout) -> int:
        return 1

    def _reduce(self, reduce: Reduce) -> None:
        x = self._folded(reduce.args[0], Layout.FULL)
        self._reduced(reduce.names[0], self._fold(reduce.combiner, x, Layout.ROW))

    def program(self) -> Program:
        for value in self._nest.values:
            if isinstance(value, Reduce) and self.layout(self._nest.domains[value.args[0]]) != Layout.FULL:
                raise ValueError(f"{value.args[0]} does not vary over both axes of a tile")
        super().program()
        return self._finish(("begin", "pass0"), (False, True))


def column_schedule(kernel: Kernel, nest: Nest, reduced: frozenset[str], chip: Chip) -> Schedule | Reason:
    """Schedules ``nest``, the canonical nest of ``kernel``, which reduces one axis that is not the innermost.

    The tiling value ``fit`` is positive where the template can run.
    """
    plain = expand_combiners(nest)
    nest, empty = with_empty_axes(plain, set(reduced))
    cols, rows = nest.axes[-1], next(a for a in nest.axes if a.name in reduced)
    outer = tuple(a for a in nest.axes[:-1] if a.name != rows.name)
    access = (*(a for a in plain.axes[:-1] if a.name != rows.name), rows, plain.axes[-1])
    try:
        program = ColumnSelector(nest, rows.name, cols.name).program()
    except ValueError as error:
        return Reason("AF210", f"cannot be computed in tiles of columns: {error}")
    reason = copies_reason(program, access) or order_reason(program, plain.axes) or types_reason(program)
    if reason is not None:
        return reason
    ub = plan(program, chip.max_live_tensors)
    reason = slots_reason(ub)
    if reason is not None:
        return reason
    align = row_align(program)
    steps = (
        *(Let(f"len_{a.name}", t.from_expr(a.size), field=True) for a in empty),
        *_steps(program, ub, nest, outer, rows, cols, align, chip),
    )
    return Schedule(
        "column_resident", chip.npu_arch, kernel, nest, outer, rows, cols, program, ub, align, steps, empty, reduced
    )


def _steps(
    program: Program, ub: UbPlan, nest: Nest, outer: tuple[Axis, ...], rows: Axis, cols: Axis, align: int, chip: Chip
) -> tuple[Let, ...]:
    full, row = bytes_per(program, ub, Layout.FULL), bytes_per(program, ub, Layout.ROW)
    full1 = ub.bytes_per_element(Layout.FULL, program.scratch, single=True)
    row1, col1 = (ub.bytes_per_element(k, single=True) for k in (Layout.ROW, Layout.COL))
    twice = t.sub(Var("buffers"), 1)
    col, colb = ub.bytes_per_element(Layout.COL), ub.bytes_per_element(Layout.COLB)
    fixed = fixed_bytes(program, ub)
    spare = t.sub(Var("ub_bytes"), chip.ub_reserved_bytes + fixed + (full + row + col) * LANES + colb * 8)
    room = t.maximum(t.sub(Var("spare"), t.mul(Var("rows_work"), col + colb)), 0)

    def columns(per_element: int) -> t.Tree:
        return t.rounddown(t.floordiv(Var("room"), t.add(t.mul(Var("rows_work"), per_element), row)), align)

    enough = t.minimum(t.roundup(Var("cols_work"), align), _LEAST_COLUMNS)
    share = t.maximum(t.floordiv(Var("core_num"), Var("unit_cores")), 1)
    return (
        *size_steps(nest),
        Let("total_units", t.from_expr(expr.product(a.size for a in outer)), field=True),
        Let("total_rows", t.from_expr(rows.size), field=True),
        Let("total_cols", t.from_expr(cols.size), field=True),
        Let("units_work", t.maximum(Var("total_units"), 1)),
        Let("rows_work", t.maximum(Var("total_rows"), 1)),
        Let("cols_work", t.maximum(Var("total_cols"), 1)),
        Let("spare", spare),
        Let("room", room),
        Let("doubled", columns(full)),
        Let("single", columns(full1)),
        Let("buffers", t.select(t.sub(t.add(Var("doubled"), 1), enough), 2, 1), field=True),
        Let("columns", t.select(t.sub(Var("buffers"), 1), Var("doubled"), Var("single"))),
        # 1 where all rows of enough columns fit and one copy can hold them; no rows are left to the streaming template
        Let("narrow", t.select(t.sub(t.add(Var("columns"), 1), enough), 1, 0)),
        Let("counted", t.select(t.sub(chip.max_block_count + 1, Var("total_rows")), Var("narrow"), 0)),
        Let("fit", t.minimum(Var("total_rows"), Var("counted"))),
        Let("unit", owned_units(program, nest, frozenset({rows.name}), align)),
        Let(
            "core_units",
            t.roundup(t.ceildiv(Var("units_work"), Var("core_num")), t.maximum(Var("unit"), 1)),
            field=True,
        ),
        Let("unit_cores", t.ceildiv(Var("units_work"), Var("core_units"))),
        Let("spread", t.select(t.mod(Var("cols_work"), align), 1, share)),
        Let("core_cols", t.roundup(t.ceildiv(Var("cols_work"), Var("spread")), _LEAST_COLUMNS), field=True),
        Let("col_cores", t.ceildiv(Var("cols_work"), Var("core_cols")), field=True),
        Let("block_dim", t.mul(Var("unit_cores"), Var("col_cores"))),
        Let(
            "tile_cols",
            t.maximum(t.minimum(t.minimum(Var("columns"), Var("core_cols")), Var("cols_work")), 1),
            field=True,
        ),
        Let("tile_rows", Var("rows_work"), field=True),
        Let("pitch", t.roundup(Var("tile_cols"), align)),
        *capacity_steps(Var("pitch")),
        used_step(
            t.select(twice, full, full1),
            t.select(twice, row, row1),
            t.select(twice, col, col1),
            colb,
            t.select(twice, fixed, fixed_bytes(program, ub, single=True)),
        ),
    )
