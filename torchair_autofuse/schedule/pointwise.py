"""The pointwise template: tiles of rows x columns, or flat, double buffered, split over the cores."""

from __future__ import annotations

from dataclasses import dataclass

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expand import expand_combiners
from torchair_autofuse.loop.ir import Axis, Cast, Const, Iota, Kernel, Nest, Pointwise, Reduce
from torchair_autofuse.loop.rewrite import canonical
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import isa
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.access import copies_reason, row_unit, with_empty_axes
from torchair_autofuse.schedule.program import ONE_ROW, Layout, Program
from torchair_autofuse.schedule.select import Selector
from torchair_autofuse.schedule.sizes import symbolic_sizes
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.ub import UbPlan, plan
from torchair_autofuse.soc.chip import Chip

LANES = (
    256  # buffers hold a multiple of this many elements, so that every instruction may be rounded up to full repeats
)
_BYTES_PER_CORE = 4096  # a core is not started for less traffic than this (guides for 2201)


@dataclass(frozen=True)
class Schedule:
    """How one kernel runs on one architecture, total over all sizes: by itself, or by choice among ``variants``.

    ``rows``: the tile's row axis, None for a flat tile; ``cols``: its column axis, None when everything is a scalar;
    ``outer``: the axes around it, outermost first; rows that share all outer indices form a panel. ``steps`` compute
    the tiling from the symbols, ``core_num`` and ``ub_bytes``. ``align``: the pitch of a row is a multiple of it.
    ``empty``: axes that may have size 0 while outputs without them are stored; the nest's run once then.
    """

    template: str
    npu_arch: int
    kernel: Kernel
    nest: Nest
    outer: tuple[Axis, ...]
    rows: Axis | None
    cols: Axis | None
    program: Program
    plan: UbPlan
    align: int
    steps: tuple[Let, ...]
    empty: tuple[Axis, ...] = ()
    streamed: frozenset[str] = frozenset()  # names of the axes that passes over tiles reduce
    variants: tuple[Schedule, ...] = ()  # what this one chooses among by ``tiling_key``, a tiling value then
    prefix: str = ""  # of the names of its tiling values, as one of several variants
    tiling_key: int | str = 1
    shared: bool = False  # several cores share a block of kept work and exchange results through workspace

    def tiling(self, symbols: dict[str, int], core_num: int, ub_bytes: int) -> dict[str, int]:
        """All tiling values for these sizes; ``block_dim`` and ``ub_used`` (bytes) are among them."""
        return t.evaluate(self.steps, {**symbols, "core_num": core_num, "ub_bytes": ub_bytes})

    @property
    def workspace_bytes(self) -> str:
        """The tiling value, or number, of the workspace the kernel needs."""
        return "workspace_bytes" if any(s.name == "workspace_bytes" for s in self.steps) else "0"

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the values that the kernel reads from its tiling data, in order (int64 each)."""
        return tuple(s.name for s in self.steps if s.field)


def schedule(kernel: Kernel, chip: Chip) -> Schedule | Reason:
    """The schedule of a single-nest kernel, or why there is none.

    Without reductions: the pointwise template. Reductions over the innermost axis: the row-resident template, rows in
    UB as a whole. Refuses with AF210 for what the templates do not cover and AF212 when even the smallest tile does
    not fit in UB.
    """
    if len(kernel.nests) != 1:
        return Reason("AF210", "kernels of several nests have no schedule yet")
    plain = canonical(kernel).nests[0]
    reason = _values_reason(plain)
    if reason is not None:
        return reason
    reduced = {a for v in plain.values if isinstance(v, Reduce) for a in v.axes}
    if reduced:
        return _reduction(kernel, plain, frozenset(reduced), chip)
    return _tiles(kernel, plain, chip, resident=False)


def _reduction(kernel: Kernel, nest: Nest, reduced: frozenset[str], chip: Chip) -> Schedule | Reason:
    """Rows in UB as a whole where they are known to fit, else passes over tiles."""
    from torchair_autofuse.schedule.columns import column_schedule
    from torchair_autofuse.schedule.stream import stream_schedule
    from torchair_autofuse.schedule.variants import combine

    uneven = next((v for v in nest.values if isinstance(v, Reduce) and set(v.axes) != reduced), None)
    if uneven is not None:
        return Reason("AF210", "reductions over different axes have no schedule together")
    cols = nest.axes[-1]
    if reduced != {cols.name}:
        streaming = stream_schedule(kernel, nest, reduced, chip)
        if len(reduced) > 1 or cols.name in reduced or isinstance(streaming, Reason):
            return streaming
        return _choose(column_schedule(kernel, nest, reduced, chip), streaming, chip)
    resident = _tiles(kernel, nest, chip, resident=True)
    if isinstance(resident, Reason):
        return stream_schedule(kernel, nest, reduced, chip) if resident.code == "AF212" else resident
    if isinstance(cols.size, int):
        return resident
    streaming = stream_schedule(kernel, nest, reduced, chip)
    return streaming if isinstance(streaming, Reason) else combine(resident, "fit", streaming)


def _choose(resident: Schedule | Reason, streaming: Schedule, chip: Chip) -> Schedule:
    """The resident schedule where it is known to fit, both by ``fit`` where sizes decide, else the streaming one."""
    from torchair_autofuse.schedule.variants import combine

    if isinstance(resident, Reason):
        return streaming
    if resident.kernel.symbols:
        return combine(resident, "fit", streaming)
    fits = resident.tiling({}, chip.vector_cores, chip.ub_bytes)["fit"] > 0
    return resident if fits else streaming


def _tiles(kernel: Kernel, plain: Nest, chip: Chip, *, resident: bool) -> Schedule | Reason:
    nest, empty = with_empty_axes(plain, {plain.axes[-1].name} if resident else set())
    axes = nest.axes
    cols = axes[-1] if axes else None
    rows = axes[-2] if len(axes) > 1 else None
    outer = axes[:-2]
    if resident:
        nest = expand_combiners(nest)
        rows = rows or Axis(ONE_ROW, 1)
    access = plain.axes if len(axes) > 1 or rows is None else (rows, *plain.axes)
    program = Selector(nest, rows.name if rows else None, cols.name if cols else None).program()
    reason = copies_reason(program, access) or types_reason(program)
    if reason is not None:
        return reason
    ub = plan(program, chip.max_live_tensors)
    if len(ub.slots) > 56:
        return Reason("AF212", f"{len(ub.slots)} buffers; a kernel has at most 64")
    align = max(
        [8, *(32 // b.itemsize for b in program.bufs if b.layout in (Layout.FULL, Layout.ROW) and b.cpp != "bits")]
    )
    steps = (
        *(Let(f"len_{a.name}", t.from_expr(a.size), field=True) for a in empty),
        *(
            _flat_steps(program, ub, cols, chip)
            if rows is None or cols is None
            else _rows_steps(program, ub, nest, access, outer, rows, cols, align, chip, resident=resident)
        ),
    )
    template = "row_resident" if resident else "pointwise"
    made = Schedule(template, chip.npu_arch, kernel, nest, outer, rows, cols, program, ub, align, steps, empty)
    for size in (1,) if resident else (1, 1 << 24):  # a row that fits in UB, and one that does not
        tiling = made.tiling({s.name: size for s in kernel.symbols}, chip.vector_cores, chip.ub_bytes)
        whole = not resident or tiling["fit"] > 0
        if not whole or tiling["tile_cols"] < 1 or tiling["ub_used"] > chip.ub_plan_bytes:
            return Reason("AF212", f"the smallest tile does not fit in {chip.ub_plan_bytes} bytes of UB")
    return made


def _values_reason(nest: Nest) -> Reason | None:
    """Why some value of the nest has no instructions."""
    for value in nest.values:
        reason = None
        if isinstance(value, Pointwise):
            reason = isa.supports_op(value.op, nest.dtypes[value.args[-1]])
        elif isinstance(value, Cast):
            reason = isa.supports_cast(nest.dtypes[value.arg], value.dtype)
        elif isinstance(value, Const):
            reason = isa.supports_const(value.value, value.dtype)
        elif isinstance(value, Reduce):
            reason = isa.supports_reduce(value.combiner, nest.dtypes[value.args[0]])
        elif isinstance(value, Iota) and value.strides:
            reason = Reason("AF202", "no instructions for an index that varies")
        if reason is not None:
            return reason
    return None


def types_reason(program: Program) -> Reason | None:
    """Why a value cannot be repeated along an axis: only 16 and 32 bit types can."""
    for instr in program.instrs:
        if instr.form in ("brcb", "expand") and program.bufs[instr.dst].cpp not in isa.REPEATABLE:
            return Reason("AF202", f"no instruction repeats {program.bufs[instr.dst].cpp} values in UB")
    return None


def bytes_per(program: Program, ub: UbPlan, layout: Layout) -> int:
    return ub.bytes_per_element(layout, program.scratch if layout == Layout.FULL else 0)


def fixed_bytes(program: Program, ub: UbPlan, *, single: bool = False) -> int:
    """Bytes that do not depend on the tile: scalars, spread scalars (eight blocks each), the scratch minimum."""
    ones = ub.bytes_per_element(Layout.ONE, single=single) * LANES + ub.bytes_per_element(Layout.ONEB) * 8
    return ones + (program.scratch * LANES + 512 if program.scratch else 0)


def size_steps(nest: Nest) -> list[Let]:
    return [Let(name, t.from_expr(e), field=True) for e, name in symbolic_sizes(nest).items()]


def _flat_steps(program: Program, ub: UbPlan, cols: Axis | None, chip: Chip) -> tuple[Let, ...]:
    size: Tree = t.from_expr(cols.size) if cols else 1
    full, fixed = bytes_per(program, ub, Layout.FULL), fixed_bytes(program, ub)
    traffic = max(1, sum(program.bufs[x.buf].itemsize for x in (*program.loads, *program.stores)))
    spare = t.sub(t.sub(Var("ub_bytes"), chip.ub_reserved_bytes), fixed)
    return (
        Let("total", size, field=True),
        Let("work", t.maximum(Var("total"), 1)),
        Let("room", t.rounddown(t.floordiv(spare, max(full, 1)), LANES)),
        Let(
            "wanted", t.minimum(Var("core_num"), t.maximum(t.floordiv(t.mul(Var("work"), traffic), _BYTES_PER_CORE), 1))
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
    traffic = max(
        1,
        sum(
            program.bufs[x.buf].itemsize
            for x in (*program.loads, *program.stores)
            if program.bufs[x.buf].layout == Layout.FULL
        ),
    )
    split = all(program.bufs[s.buf].layout != Layout.COL for s in program.stores)
    spare = t.sub(t.sub(Var("ub_bytes"), chip.ub_reserved_bytes), fixed + (full + row + col) * LANES + colb * 8)
    cores_per_row = t.maximum(t.floordiv(Var("wanted"), Var("row_cores")), 1)
    most_rows = t.minimum(Var("core_rows"), chip.max_block_count)
    widest: Tree = t.rounddown(t.maximum(t.floordiv(Var("spare"), max(full + row + col, 1)), 0), LANES)
    steps = [
        *size_steps(nest),
        Let("total_rows", t.from_expr(expr.product(a.size for a in (*outer, rows))), field=True),
        Let("total_cols", t.from_expr(cols.size), field=True),
        Let("rows_work", t.maximum(Var("total_rows"), 1)),
        Let("cols_work", t.maximum(Var("total_cols"), 1)),
        Let("spare", spare),
        Let("pitch", t.roundup(Var("cols_work"), align)),
        Let("row_room", t.maximum(t.sub(Var("spare"), t.mul(Var("pitch"), row)), 0)),
        Let("fit_double", t.floordiv(Var("row_room"), t.add(t.mul(Var("pitch"), full), more))),
        *(
            (
                Let("fit_single", t.floordiv(Var("row_room"), t.add(t.mul(Var("pitch"), full1), more))),
                Let("buffers", t.select(Var("fit_double"), 2, 1), field=True),
                # rows without elements have no tile: what they reduce to is made by passes over none
                Let(
                    "fit",
                    t.select(Var("total_cols"), t.select(Var("fit_double"), Var("fit_double"), Var("fit_single")), 0),
                ),
            )
            if resident
            else (Let("fit", Var("fit_double")),)
        ),
        Let("traffic", t.floordiv(t.mul(Var("rows_work"), Var("cols_work"), traffic), _BYTES_PER_CORE)),
        Let("wanted", t.minimum(Var("core_num"), t.maximum(Var("traffic"), 1))),
        Let("unit", row_unit(program, access, (*outer, rows))),
        Let("core_rows", t.roundup(t.ceildiv(Var("rows_work"), Var("wanted")), t.maximum(Var("unit"), 1)), field=True),
        Let("row_cores", t.ceildiv(Var("rows_work"), Var("core_rows"))),
        # columns are shared out only where every row starts on a 32-byte block
        Let("spread", t.select(t.mod(Var("cols_work"), align), 1, cores_per_row) if split and not resident else 1),
        Let("core_cols", t.roundup(t.ceildiv(Var("cols_work"), Var("spread")), LANES), field=True),
        Let("col_cores", t.ceildiv(Var("cols_work"), Var("core_cols")), field=True),
        Let("block_dim", t.mul(Var("row_cores"), Var("col_cores"))),
        Let("tile_rows", t.maximum(t.minimum(Var("fit"), most_rows), 1), field=True),
        Let("tile_cols", t.minimum(t.select(Var("fit"), Var("cols_work"), widest), Var("core_cols")), field=True),
        Let("cap_row", t.roundup(Var("tile_cols"), LANES), field=True),
        Let("cap_full", t.roundup(t.mul(Var("tile_rows"), t.roundup(Var("tile_cols"), align)), LANES), field=True),
        Let("cap_col", t.roundup(Var("tile_rows"), LANES), field=True),
        Let("cap_colb", t.roundup(Var("tile_rows"), 8), field=True),
        Let(
            "ub_used",
            t.add(
                t.mul(Var("cap_full"), t.select(Var("fit_double"), full, full1) if resident else full),
                t.mul(Var("cap_row"), t.select(Var("fit_double"), row, row1) if resident else row),
                t.mul(Var("cap_col"), t.select(Var("fit_double"), col, col1) if resident else col),
                t.mul(Var("cap_colb"), colb),
                fixed,
            ),
        ),
    ]
    return tuple(steps)
