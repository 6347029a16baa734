"""The streaming templates: reductions too long for UB, in passes over tiles of the reduced axes.

``row_streaming`` reduces the innermost axis and keeps rows; ``column_streaming`` reduces an axis outside the innermost
one and keeps columns. Further reduced axes are loops around the tiles of a pass.
"""

from __future__ import annotations

from math import gcd, lcm

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expand import expand_combiners
from torchair_autofuse.loop.ir import Axis, Kernel, Nest
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import apart, copies_reason, order_reason, with_empty_axes
from torchair_autofuse.schedule.emit import Unstreamable
from torchair_autofuse.schedule.program import LANES, ONE_ROW, Layout, Program, Transfer
from torchair_autofuse.schedule.reasons import types_reason
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.sizes import capacity_steps, size_steps, used_step
from torchair_autofuse.schedule.split import with_split
from torchair_autofuse.schedule.stream_select import StreamSelector
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.ub import UbPlan, bytes_per, fixed_bytes, plan, row_align, slots_reason, tile_reason
from torchair_autofuse.soc.chip import Chip

_COLUMNS = 128  # least columns of a tile that keeps columns: 512 bytes of f32, one line of GM


def stream_schedule(kernel: Kernel, nest: Nest, reduced: frozenset[str], chip: Chip) -> Schedule | Reason:
    """Schedules ``nest``, the canonical nest of ``kernel``, whose reductions are over ``reduced``.

    With the variant that splits the reduction over cores, where that can pay.
    """
    made = _streaming(kernel, nest, reduced, chip)
    return made if isinstance(made, Reason) else with_split(made, chip)


def _streaming(kernel: Kernel, nest: Nest, reduced: frozenset[str], chip: Chip) -> Schedule | Reason:
    nest = expand_combiners(nest, ("welford",))
    others = nest.axes[:-1]
    if nest.axes[-1].name not in reduced:
        return _schedule(kernel, nest, next(a for a in reversed(others) if a.name in reduced), reduced, chip)
    kept = [a for a in others if a.name not in reduced]
    made = _schedule(kernel, nest, kept[-1] if kept else Axis(ONE_ROW, 1), reduced, chip)
    if isinstance(made, Reason) and kept:  # an operand that is not contiguous along the rows: one row at a time
        single = _schedule(kernel, nest, Axis(ONE_ROW, 1), reduced, chip)
        made = single if isinstance(single, Schedule) else made
    return made


def _schedule(kernel: Kernel, plain: Nest, rows: Axis, reduced: frozenset[str], chip: Chip) -> Schedule | Reason:
    access = (*(a for a in plain.axes[:-1] if a.name != rows.name), rows, plain.axes[-1])
    nest, empty = with_empty_axes(plain, set(reduced))
    cols, rows = nest.axes[-1], nest.axis.get(rows.name, rows)
    outer = tuple(a for a in nest.axes[:-1] if a.name != rows.name)
    try:
        program = StreamSelector(nest, rows.name, cols.name, reduced).program()
    except Unstreamable as error:
        return Reason("AF210", f"cannot be computed in passes over tiles: {error}")
    reason = copies_reason(program, access) or order_reason(program, plain.axes) or types_reason(program)
    if reason is not None:
        return reason
    ub = plan(program, chip.max_live_tensors)
    live, most = sum(g.num for g in ub.queues if g.shares < 0), 2 * chip.max_live_tensors
    if live > most:
        return Reason("AF212", f"{live} tensors at once (with their copies), the queues of the chip hold {most}")
    reason = slots_reason(ub)
    if reason is not None:
        return reason
    align = row_align(program)
    by_rows = cols.name in reduced
    steps = (
        *(Let(f"len_{a.name}", t.from_expr(a.size), field=True) for a in empty),
        *_steps(program, ub, nest, outer, rows, cols, align, reduced, chip),
    )
    template = "row_streaming" if by_rows else "column_streaming"
    made = Schedule(template, chip.npu_arch, kernel, nest, outer, rows, cols, program, ub, align, steps, empty, reduced)
    if not made.fits(chip, 1, 1 << 20):
        return tile_reason(program, ub, chip.ub_plan_bytes)
    return made


def _steps(
    program: Program,
    ub: UbPlan,
    nest: Nest,
    outer: tuple[Axis, ...],
    rows: Axis,
    cols: Axis,
    align: int,
    reduced: frozenset[str],
    chip: Chip,
) -> tuple[Let, ...]:
    """Units of kept work are shared out over the cores, columns too where they are kept and rows start on blocks."""
    by_rows = cols.name in reduced
    full, row = bytes_per(program, ub, Layout.FULL), bytes_per(program, ub, Layout.ROW)
    col, colb = ub.bytes_per_element(Layout.COL), ub.bytes_per_element(Layout.COLB)
    fixed = fixed_bytes(program, ub)
    kept_outer = [a for a in outer if a.name not in reduced]
    units = [*kept_outer, rows] if by_rows else kept_outer
    unit = owned_units(program, nest, reduced, align)
    spare = t.sub(Var("ub_bytes"), chip.ub_reserved_bytes + fixed + (full + row + col) * LANES + colb * 8)
    per_column = max(1, full + row)
    room: Tree = t.rounddown(t.floordiv(t.maximum(t.sub(Var("spare"), col + colb), 0), per_column), LANES)
    share = t.maximum(t.floordiv(Var("core_num"), Var("unit_cores")), 1)
    wanted_cols = t.maximum(t.roundup(t.ceildiv(Var("cols_work"), Var("spread")), LANES), _COLUMNS)
    steps = [
        *size_steps(nest),
        Let("total_units", t.from_expr(expr.product(a.size for a in units)), field=True),
        Let("total_rows", t.from_expr(rows.size), field=True),
        Let("total_cols", t.from_expr(cols.size), field=True),
        Let("units_work", t.maximum(Var("total_units"), 1)),
        Let("rows_work", t.maximum(Var("total_rows"), 1)),
        Let("cols_work", t.maximum(Var("total_cols"), 1)),
        Let("spare", spare),
        Let("unit", unit),
        Let(
            "core_units",
            t.roundup(t.ceildiv(Var("units_work"), Var("core_num")), t.maximum(Var("unit"), 1)),
            field=True,
        ),
        Let("unit_cores", t.ceildiv(Var("units_work"), Var("core_units"))),
        Let("spread", 1 if by_rows else t.select(t.mod(Var("cols_work"), align), 1, share)),
        Let("core_cols", Var("cols_work") if by_rows else wanted_cols, field=True),
        Let("col_cores", t.ceildiv(Var("cols_work"), Var("core_cols")), field=True),
        Let("block_dim", t.mul(Var("unit_cores"), Var("col_cores"))),
        Let("room", room),
        Let("tile_cols", t.minimum(Var("core_cols"), t.minimum(Var("cols_work"), Var("room"))), field=True),
        Let("pitch", t.roundup(Var("tile_cols"), align)),
        Let(
            "fit",
            t.floordiv(
                t.maximum(t.sub(Var("spare"), t.mul(Var("pitch"), row)), 0),
                t.add(t.mul(Var("pitch"), full), col + colb),
            ),
        ),
        Let(
            "tile_rows",
            t.maximum(
                t.minimum(
                    t.minimum(Var("fit"), chip.max_block_count), Var("core_units") if by_rows else Var("rows_work")
                ),
                1,
            ),
            field=True,
        ),
        *capacity_steps(Var("pitch")),
        used_step(full, row, col, colb, fixed),
    ]
    return tuple(steps)


def owned_units(program: Program, nest: Nest, reduced: frozenset[str], align: int) -> Tree:
    """Kept units per core are a multiple of this: no two cores then write one 32-byte block of any output.

    A unit is one index of the kept axes but the columns. Rows that start on blocks are free, others are owned as whole
    slices of the axes that lie within a reduced axis of an output, or within one that the output lacks. Uses the step
    ``cols_work``.
    """
    cols = nest.axes[-1]
    tiled = [x for x in program.stores if program.bufs[x.buf].layout in (Layout.FULL, Layout.ROW)]
    results = [x for x in program.stores if x not in tiled]
    on_blocks = _owned(program, results, nest, reduced)
    if not tiled or (isinstance(cols.size, int) and cols.size % align == 0):
        return on_blocks
    off_blocks = _owned(program, [*results, *tiled], nest, reduced)
    return off_blocks if isinstance(cols.size, int) else t.select(t.mod(Var("cols_work"), align), off_blocks, on_blocks)


def _owned(program: Program, stores: list[Transfer], nest: Nest, reduced: frozenset[str]) -> Tree:
    axes = nest.axes[:-1]
    units = [a for a in axes if a.name not in reduced]
    first, step = len(units), 1
    for store in stores:
        strides = dict(store.strides)
        if apart(program, store, nest.axes[-1]) or not any(a.name in strides for a in units):
            continue
        stop, started = len(units), False
        for axis in axes:
            if axis.name in strides:
                started = True
                if axis.name in reduced:
                    stop = min(stop, len([a for a in units if axes.index(a) < axes.index(axis)]))
            elif started and axis.name not in reduced:
                stop = min(stop, units.index(axis))
        inside = nest.axes[axes.index(units[stop - 1]) + 1 :] if stop else nest.axes
        run = expr.product(a.size for a in inside if a.name in strides)  # elements that a slice has in memory
        blocks = 32 // gcd(32, program.bufs[store.buf].itemsize * (run if isinstance(run, int) else 1))
        first, step = min(first, stop), lcm(step, blocks)
    return t.mul(*(t.from_expr(a.size) for a in units[first:]), step)
