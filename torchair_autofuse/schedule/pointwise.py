"""The templates of one pass over tiles, double buffered, split over the cores.

pointwise: tiles of rows x columns, or flat. transpose: the same where some tensors lie along the rows in memory.
row_resident: whole rows in UB, which are reduced there.
"""

from __future__ import annotations

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expand import expand_combiners
from torchair_autofuse.loop.ir import Axis, Kernel, Nest
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import copies_reason, row_unit, with_empty_axes
from torchair_autofuse.schedule.program import LANES, ONE_ROW, Layout, Program
from torchair_autofuse.schedule.reasons import types_reason
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.select import Selector
from torchair_autofuse.schedule.sizes import BYTES_PER_CORE, capacity_steps, extent_steps, size_steps, used_step
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.turn import TurnSelector, turn_reason, turn_steps, turned
from torchair_autofuse.schedule.ub import UbPlan, bytes_per, fixed_bytes, plan, row_align, slots_reason, tile_reason
from torchair_autofuse.soc.chip import Chip


def tiles_schedule(
    kernel: Kernel, plain: Nest, chip: Chip, *, resident: bool, seams: frozenset[str] = frozenset()
) -> Schedule | Reason:
    """A schedule of tiles that hold whole rows (``resident``: all that is reduced) or any part of the elements.

    ``seams``: see access.copies_reason. Refuses with AF210 what is not contiguous, AF202 without instructions, AF212
    when the smallest tile does not fit.
    """
    nest, empty = with_empty_axes(plain, {plain.axes[-1].name} if resident else set())
    axes = nest.axes
    cols = axes[-1] if axes else None
    rows = axes[-2] if len(axes) > 1 else None
    outer = axes[:-2]
    if resident:
        nest = expand_combiners(nest)
        rows = rows or Axis(ONE_ROW, 1)
    access = plain.axes if len(axes) > 1 or rows is None else (rows, *plain.axes)
    turns = not resident and rows is not None and cols is not None and turned(nest, rows, cols)
    selector = TurnSelector if turns else Selector
    program = selector(nest, rows.name if rows else None, cols.name if cols else None).program()
    reason = copies_reason(program, access, seams, permuted=True) or types_reason(program) or turn_reason(program)
    if reason is not None:
        return reason
    ub = plan(program, chip.max_live_tensors)
    reason = slots_reason(ub)
    if reason is not None:
        return reason
    align = row_align(program)
    lengths = tuple(Let(f"len_{a.name}", t.from_expr(a.size), field=True) for a in empty)
    if rows is None or cols is None:
        steps = _flat_steps(program, ub, nest, cols, chip)
    elif turns:
        steps = turn_steps(program, ub, nest, access, outer, rows, cols, align, chip)
    else:
        steps = _rows_steps(program, ub, nest, access, outer, rows, cols, align, chip, resident=resident)
    steps = (*lengths, *steps)
    template = "row_resident" if resident else "transpose" if turns else "pointwise"
    made = Schedule(template, chip.npu_arch, kernel, nest, outer, rows, cols, program, ub, align, steps, empty)
    # where rows may be cut: one that fits in UB, and one that does not
    fits = made.fits(chip, 1) and made.at(chip)["fit"] > 0 if resident else made.fits(chip, 1, 1 << 24)
    if not fits:
        return tile_reason(program, ub, chip.ub_plan_bytes)
    return made


def _flat_steps(program: Program, ub: UbPlan, nest: Nest, cols: Axis | None, chip: Chip) -> tuple[Let, ...]:
    size: Tree = t.from_expr(cols.size) if cols else 1
    full, fixed = bytes_per(program, ub, Layout.FULL), fixed_bytes(program, ub)
    traffic = max(1, sum(program.bufs[x.buf].itemsize for x in (*program.loads, *program.stores)))
    spare = t.sub(t.sub(Var("ub_bytes"), chip.ub_reserved_bytes), fixed)
    return (
        *size_steps(nest, flat=True),
        Let("total", size, field=True),
        Let("work", t.maximum(Var("total"), 1)),
        Let("room", t.rounddown(t.floordiv(spare, max(full, 1)), LANES)),
        Let(
            "wanted", t.minimum(Var("core_num"), t.maximum(t.floordiv(t.mul(Var("work"), traffic), BYTES_PER_CORE), 1))
        ),
        Let("core_cols", t.roundup(t.ceildiv(Var("work"), Var("wanted")), LANES), field=True),
        Let("tile_cols", t.minimum(Var("room"), Var("core_cols")), field=True),
        Let("block_dim", t.ceildiv(Var("work"), Var("core_cols"))),
        Let("cap_full", Var("tile_cols"), field=True),
        Let("ub_used", t.add(t.mul(Var("cap_full"), full), fixed)),
    )


def _rows_steps(
    program: Program,
    ub: UbPlan,
    nest: Nest,
    access: tuple[Axis, ...],
    outer: tuple[Axis, ...],
    rows: Axis,
    cols: Axis,
    align: int,
    chip: Chip,
    *,
    resident: bool,
) -> tuple[Let, ...]:
    """Tiling of rows x columns. ``access``: all axes with their true sizes.

    ``resident``: a tile holds whole rows, with single buffers where double ones do not fit.
    """
    full, row = bytes_per(program, ub, Layout.FULL), bytes_per(program, ub, Layout.ROW)
    full1, row1, col1 = (
        ub.bytes_per_element(k, program.scratch if k == Layout.FULL else 0, single=True)
        for k in (Layout.FULL, Layout.ROW, Layout.COL)
    )
    col, colb = ub.bytes_per_element(Layout.COL), ub.bytes_per_element(Layout.COLB)
    more = col + colb if full else max(col + colb, 1)  # a row costs at least a byte, to divide by
    fixed = fixed_bytes(program, ub)
    moved = (program.bufs[x.buf] for x in (*program.loads, *program.stores))
    traffic = max(1, sum(b.itemsize for b in moved if b.layout == Layout.FULL))
    split = not resident and all(program.bufs[s.buf].layout != Layout.COL for s in program.stores)
    # what every core reads of the rows that all share: where that is more than 2 %, cores have columns of their own
    shared = sum(program.bufs[x.buf].itemsize for x in program.loads if program.bufs[x.buf].layout == Layout.ROW)
    again = t.sub(t.mul(Var("wanted"), shared * 50), t.mul(Var("rows_work"), traffic))
    own = t.select(t.maximum(again, 0), t.minimum(Var("wanted"), t.ceildiv(Var("cols_work"), LANES)), 1)
    columns_first = (Let("columns", t.select(t.mod(Var("cols_work"), align), 1, own)),) if split and shared else ()
    row_wanted = t.maximum(t.floordiv(Var("wanted"), Var("columns")), 1) if columns_first else Var("wanted")
    spare = t.sub(t.sub(Var("ub_bytes"), chip.ub_reserved_bytes), fixed + (full + row + col) * LANES + colb * 8)
    cores_per_row = t.maximum(t.floordiv(Var("wanted"), Var("row_cores")), 1)
    most_rows = t.minimum(Var("core_rows"), chip.max_block_count)
    widest: Tree = t.rounddown(t.maximum(t.floordiv(Var("spare"), max(full + row + col, 1)), 0), LANES)
    return (
        *size_steps(nest),
        *extent_steps(expr.product(a.size for a in (*outer, rows)), cols.size),
        Let("traffic", t.floordiv(t.mul(Var("rows_work"), Var("cols_work"), traffic), BYTES_PER_CORE)),
        Let("wanted", t.minimum(Var("core_num"), t.maximum(Var("traffic"), 1))),
        Let("unit", row_unit(program, access, (*outer, rows))),
        *columns_first,
        Let("core_rows", t.roundup(t.ceildiv(Var("rows_work"), row_wanted), t.maximum(Var("unit"), 1)), field=True),
        Let("row_cores", t.ceildiv(Var("rows_work"), Var("core_rows"))),
        # columns are shared out only where every row starts on a 32-byte block
        Let("spread", t.select(t.mod(Var("cols_work"), align), 1, cores_per_row) if split else 1),
        Let("core_cols", t.roundup(t.ceildiv(Var("cols_work"), Var("spread")), LANES), field=True),
        Let("col_cores", t.ceildiv(Var("cols_work"), Var("core_cols")), field=True),
        Let("block_dim", t.mul(Var("row_cores"), Var("col_cores"))),
        Let("spare", spare),
        Let("pitch", t.roundup(t.minimum(Var("cols_work"), Var("core_cols")), align)),
        Let("row_room", t.maximum(t.sub(Var("spare"), t.mul(Var("pitch"), row)), 0)),
        Let("fit_double", t.floordiv(Var("row_room"), t.add(t.mul(Var("pitch"), full), more))),
        *(_resident_fit(full1, more) if resident else [Let("fit", Var("fit_double"))]),
        Let("tile_rows", t.maximum(t.minimum(Var("fit"), most_rows), 1), field=True),
        Let("tile_cols", t.minimum(t.select(Var("fit"), Var("cols_work"), widest), Var("core_cols")), field=True),
        *capacity_steps(t.roundup(Var("tile_cols"), align)),
        used_step(
            t.select(Var("fit_double"), full, full1) if resident else full,
            t.select(Var("fit_double"), row, row1) if resident else row,
            t.select(Var("fit_double"), col, col1) if resident else col,
            colb,
            fixed,
        ),
    )


def _resident_fit(full: int, more: int) -> list[Let]:
    """Whole rows that fit with double buffers, else with single ones, at ``full`` bytes per element then."""
    # rows without elements have no tile: what they reduce to is made by passes over none
    fit = t.select(Var("total_cols"), t.select(Var("fit_double"), Var("fit_double"), Var("fit_single")), 0)
    return [
        Let("fit_single", t.floordiv(Var("row_room"), t.add(t.mul(Var("pitch"), full), more))),
        Let("buffers", t.select(Var("fit_double"), 2, 1), field=True),
        Let("fit", fit),
    ]
