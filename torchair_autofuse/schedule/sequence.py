"""Kernels of several nests: every core runs its share of one after the other, and UB is used again by each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Iota, Kernel, Load, Nest, Reduce, Store, Strides
from torchair_autofuse.loop.rewrite import drop_dead_values, map_strides
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.assembled import assemble, pays
from torchair_autofuse.schedule.program import LANES, Layout
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.seams import Group, groups
from torchair_autofuse.schedule.sizes import BYTES_PER_CORE
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.variants import prefixed
from torchair_autofuse.soc.chip import Chip

MAX_NESTS = 64
"""Loop nests of one kernel, each a class of its own in the generated source."""

MakePart = Callable[[Kernel, Nest, Chip, frozenset[str]], "Schedule | Reason"]


def sequence_schedule(kernel: Kernel, nests: Sequence[Nest], chip: Chip, make: MakePart) -> Schedule | Reason:
    """A schedule with one part per canonical nest of ``kernel``, each made by ``make``.

    No nest may read what another stores (the verifier of the IR allows no such thing). Where the outputs of one nest
    ask for different shares of the cores, it becomes several parts, each of which computes what it stores. Refuses with
    AF213 more than MAX_NESTS parts, with AF210 parts that are several variants or need workspace, and outputs that
    several parts store to without a known way to keep cores out of each other's 32-byte blocks.
    """
    if len(nests) > MAX_NESTS:
        return Reason("AF213", f"{len(nests)} loop nests; a kernel has at most {MAX_NESTS}")
    stored = [s.param for nest in nests for s in nest.stores]
    seams = frozenset(p.name for p in kernel.outputs if stored.count(p.name) > 1)
    parts = []
    for nest in nests:
        part = make(kernel, nest, chip, seams)
        narrow = _with_columns(nest)
        if isinstance(part, Reason) and narrow != nest:
            part = make(kernel, narrow, chip, seams)
        if isinstance(part, Reason):
            return part
        if part.variants or part.shared:
            return Reason("AF210", f"{part.template} is not possible in a kernel of several loop nests yet")
        parts.append(part)
    found = groups(kernel, parts)
    if isinstance(found, Reason):
        for split in (_by_output, _by_piece):
            apart = [part for nest in nests for part in split(nest, seams)]
            if len(apart) > len(nests):
                return sequence_schedule(kernel, apart, chip, make)
        return found
    return _Sequence(kernel, parts, chip).schedule(found)


def _by_output(nest: Nest, seams: frozenset[str]) -> list[Nest]:
    """A nest for each output in ``seams``, and one for all other stores."""
    return _divided(nest, [s.param if s.param in seams else "" for s in nest.stores])


def _by_piece(nest: Nest, seams: frozenset[str]) -> list[Nest]:
    """A nest for the first store to each output, one for the second ones, and so on."""
    params = [s.param for s in nest.stores]
    return _divided(nest, [params[:k].count(name) if name in seams else 0 for k, name in enumerate(params)])


def _divided(nest: Nest, labels: Sequence[Hashable]) -> list[Nest]:
    """A nest per label, in order of the first store with it; ``labels``: one per store."""
    stores: dict[Hashable, list[Store]] = {}
    for label, store in zip(labels, nest.stores):
        stores.setdefault(label, []).append(store)
    return [drop_dead_values(replace(nest, stores=tuple(of))) for of in stores.values()]


def _with_columns(nest: Nest) -> Nest:
    """The nest with columns of one element where a store puts every element by itself."""
    if not nest.axes or any(isinstance(v, Reduce) and nest.axes[-1].name in v.axes for v in nest.values):
        return nest
    inner = nest.axes[-1].name
    accesses = [x for x in (*nest.values, *nest.stores) if isinstance(x, (Load, Iota, Store))]
    gaps = [s for s in nest.stores if dict(s.strides).get(inner, 1) != 1]
    if not gaps or any(stride == 1 for s in gaps for _, stride in s.strides):
        return nest
    taken = {a.name for a in nest.axes} | {n for x in accesses for e in _sizes(x) for n in expr.free_symbols(e)}
    name = next(n for n in (f"a{i}" for i in range(len(nest.axes), len(nest.axes) + len(taken) + 1)) if n not in taken)

    def widen(strides: Strides) -> Strides:
        return (*strides, (name, 1)) if inner in dict(strides) else strides

    return map_strides(replace(nest, axes=(*nest.axes, Axis(name, 1))), widen)


def _sizes(access: Load | Iota | Store) -> list[Expr]:
    return [access.offset, *(e for _, e in access.strides)]


@dataclass(frozen=True)
class _Piece:
    """A schedule among the others.

    ``then``: where the next one begins: on the core "after" its last, on its "last" or its "first". ``optional``:
    whether sizes decide if it runs. ``counts``: whether its bytes are not those of another piece too.
    """

    schedule: Schedule
    then: str
    optional: bool = False
    counts: bool = True

    def var(self, name: str) -> Var:
        return Var(f"{self.schedule.prefix}{name}")

    @property
    def next(self) -> Tree:
        if self.then == "first":
            return self.var("first")
        end = t.add(self.var("first"), self.var("cores"))
        return t.sub(end, 1) if self.then == "last" else end


class _Sequence:
    """Puts the tiling of all parts together."""

    def __init__(self, kernel: Kernel, parts: Sequence[Schedule], chip: Chip) -> None:
        self._kernel, self._parts, self._chip = kernel, parts, chip
        self._steps: list[Let] = []
        self._pieces: list[_Piece] = []

    def schedule(self, found: Sequence[Group]) -> Schedule:
        for g in found:
            self._add_group(g)
        self._launch()
        made = tuple(p.schedule for p in self._pieces)
        templates = ["assembled"] if any(p.members for p in made) else []
        templates += [] if all(p.members for p in made) else ["sequence"]
        whole = replace(made[0], template=", ".join(templates), prefix="", empty=(), members=(), parts=made)
        return replace(whole, steps=tuple(self._steps))

    def _let(self, name: str, value: Tree, *, field: bool = False) -> None:
        self._steps.append(Let(name, value, field))

    def _prefix(self) -> str:
        return f"p{len(self._pieces)}_"

    def _add_group(self, g: Group) -> None:
        """The parts of a group, or their rows put together where that pays; both, if symbolic sizes decide."""
        whole = assemble(self._kernel, self._parts, g, self._chip)
        always = whole is not None and pays(whole, self._chip)
        if whole is not None and always:
            self._add(whole, "after", Var(f"{self._prefix()}block_dim"))
            return
        if always is False:
            whole = None
        active = Var(f"{self._prefix()}active")
        if whole is not None:
            cores = t.select(active, Var(f"{self._prefix()}block_dim"), 0)
            self._add(whole, "after", cores, optional=True, counts=False)
        begin = len(self._pieces)
        for i, part in enumerate(self._shares(g)):
            last = i == len(g.parts) - 1
            then = "after" if last else "last" if g.kind == "run" else "first"
            alone = Var(f"p{begin + i}_block_dim")
            self._add(part, then, t.select(active, 0, alone) if whole else alone, optional=whole is not None)

    def _add(self, made: Schedule, then: str, cores: Tree, *, optional: bool = False, counts: bool = True) -> None:
        made = replace(made, prefix=self._prefix(), tiling_key=1)
        self._pieces.append(_Piece(made, then, optional, counts))
        self._steps += prefixed(made, made.prefix)
        self._let(f"{made.prefix}cores", cores, field=True)

    def _shares(self, g: Group) -> list[Schedule]:
        """The parts of a group with the shares of its cores. ``bytes`` are those that a part moves."""
        parts = [self._parts[k] for k in g.parts]
        parts = [replace(p, steps=(Let("bytes", _traffic(p)), *p.steps)) for p in parts]
        if g.kind == "own":
            return parts
        if g.kind == "run":
            return [_run_share(*of) for of in zip(parts, g.phases, g.units)]
        name = self._prefix()
        moved = t.floordiv(t.add(*(_traffic(p) for p in parts)), BYTES_PER_CORE)
        self._let(f"{name}all_wanted", t.minimum(Var("core_num"), t.maximum(moved, 1)))
        if g.span != 0:
            total = t.mul(t.from_expr(g.rows), t.from_expr(g.span))
            self._let(f"{name}all_elements", t.maximum(total, 1))
            self._let(
                f"{name}all_run", t.roundup(t.ceildiv(Var(f"{name}all_elements"), Var(f"{name}all_wanted")), LANES)
            )
            cores = t.ceildiv(Var(f"{name}all_elements"), Var(f"{name}all_run"))
            span = t.from_expr(g.span)
            return [
                _span_share(p, Var(f"{name}all_run"), span, t.from_expr(at), cores) for p, at in zip(parts, g.offsets)
            ]
        outer = t.maximum(t.from_expr(g.rows), 1)
        self._let(f"{name}all_rows", t.roundup(t.ceildiv(outer, Var(f"{name}all_wanted")), g.units[0]))
        return [_rows_share(part, t.mul(Var(f"{name}all_rows"), t.from_expr(i))) for part, i in zip(parts, g.inner)]

    def _launch(self) -> None:
        """Which core begins each piece, of how many in all."""
        cores: list[Tree] = [p.var("cores") for p in self._pieces]
        traffic = t.floordiv(t.add(*(p.var("bytes") for p in self._pieces if p.counts)), BYTES_PER_CORE)
        spread = t.minimum(t.minimum(t.add(*cores), traffic), Var("core_num"))
        self._let("block_dim", t.maximum(reduce(t.maximum, cores), spread), field=True)
        at: Tree = 0
        for p in self._pieces:
            self._let(p.var("first").name, t.mod(at, Var("block_dim")), field=True)
            at = p.next
        used: list[Tree] = []
        for p in self._pieces:
            held = p.var("ub_used")
            used.append(t.select(p.var("cores"), held, 0) if p.optional else held)
        self._let("ub_used", reduce(t.maximum, used))


def _traffic(part: Schedule) -> Tree:
    """Bytes that the part moves in its tiles."""
    moved = (part.program.bufs[x.buf] for x in (*part.program.loads, *part.program.stores))
    size = sum(b.itemsize for b in moved if b.layout in (Layout.FULL, Layout.TURNED))
    return t.mul(t.from_expr(expr.product(a.size for a in part.nest.axes)), max(size, 1))


def _changed(part: Schedule, values: Mapping[str, Tree]) -> Schedule:
    """The part with other values for some of its tiling steps; those that it does not have come first."""
    known = {s.name for s in part.steps}
    added = [Let(name, value, field=True) for name, value in values.items() if name not in known]
    steps = [replace(s, value=values.get(s.name, s.value)) for s in part.steps]
    return replace(part, steps=(*added, *steps))


def _rows_share(part: Schedule, core_rows: Tree) -> Schedule:
    """A core owns so many rows of the tile's, whole (of none, where the part is empty)."""
    return _changed(part, {"core_rows": t.maximum(core_rows, 1), "spread": 1})


def _span_share(part: Schedule, run: Tree, span: Tree, at: Tree, cores: Tree) -> Schedule:
    """A core owns ``run`` elements of the outputs, whose rows have ``span``, the part's columns from ``at`` on."""
    rows = t.minimum(Var("rows_work"), t.add(t.floordiv(run, t.maximum(span, 1)), 1))
    values = {"run": run, "span": span, "at": at, "core_rows": rows, "spread": 1, "block_dim": cores}
    return _changed(part, values)


def _run_share(part: Schedule, before: Expr, unit: Tree) -> Schedule:
    """The first core's share is shorter by ``phase`` rows, or elements: what ``before`` leaves modulo ``unit``."""
    phase = t.mod(t.from_expr(before), unit)
    work, share, cores = ("work", "core_cols", "block_dim") if part.rows is None else (
        "rows_work", "core_rows", "row_cores")  # fmt: skip
    covered = t.add(Var(work), Var("phase"))
    even = LANES if part.rows is None else unit
    values = {
        "phase": phase,
        share: t.roundup(t.ceildiv(covered, Var("wanted")), even),
        cores: t.ceildiv(covered, Var(share)),
    }
    return _changed(part, values if part.rows is None else {**values, "spread": 1})
