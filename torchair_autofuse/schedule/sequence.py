"""Kernels of several nests: every core runs its share of one after the other, and UB is used again by each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Iota, Kernel, Load, Nest, Reduce, Store, Strides
from torchair_autofuse.loop.rewrite import map_strides
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.program import LANES, Layout
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.seams import Group, groups
from torchair_autofuse.schedule.sizes import BYTES_PER_CORE
from torchair_autofuse.schedule.tiling import Let, Tree, Var
from torchair_autofuse.schedule.variants import prefixed
from torchair_autofuse.soc.chip import Chip

MAX_PARTS = 64
MakePart = Callable[[Kernel, Nest, Chip, frozenset[str]], "Schedule | Reason"]


def sequence_schedule(kernel: Kernel, nests: Sequence[Nest], chip: Chip, make: MakePart) -> Schedule | Reason:
    """A schedule with one part per canonical nest of ``kernel``, each made by ``make``.

    No nest may read what another stores (the verifier of the IR allows no such thing). Refuses with AF213 more than
    MAX_PARTS nests, with AF210 parts that are several variants or need workspace, and outputs that several parts store
    to without a known way to keep cores out of each other's 32-byte blocks.
    """
    if len(nests) > MAX_PARTS:
        return Reason("AF213", f"{len(nests)} loop nests; a kernel has at most {MAX_PARTS}")
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
        return found
    return _Sequence(parts, found).schedule()


def _with_columns(nest: Nest) -> Nest:
    """The nest with columns of one element where its innermost axis is not that of its stores."""
    if not nest.axes or any(isinstance(v, Reduce) and nest.axes[-1].name in v.axes for v in nest.values):
        return nest
    inner = nest.axes[-1].name
    accesses = [x for x in (*nest.values, *nest.stores) if isinstance(x, (Load, Iota, Store))]
    if all(dict(s.strides).get(inner, 1) == 1 for s in nest.stores):
        return nest
    taken = {a.name for a in nest.axes} | {n for x in accesses for e in _sizes(x) for n in expr.free_symbols(e)}
    name = next(n for n in (f"a{i}" for i in range(len(nest.axes), len(nest.axes) + len(taken) + 1)) if n not in taken)

    def widen(strides: Strides) -> Strides:
        return (*strides, (name, 1)) if inner in dict(strides) else strides

    return map_strides(replace(nest, axes=(*nest.axes, Axis(name, 1))), widen)


def _sizes(access: Load | Iota | Store) -> list[Expr]:
    return [access.offset, *(e for _, e in access.strides)]


class _Sequence:
    """Puts the tiling of all parts together."""

    def __init__(self, parts: Sequence[Schedule], found: Sequence[Group]) -> None:
        self._parts, self._groups = parts, found
        self._steps: list[Let] = []

    def schedule(self) -> Schedule:
        order = [k for g in self._groups for k in g.parts]
        prefix = {k: f"p{i}_" for i, k in enumerate(order)}
        parts: dict[int, Schedule] = {}
        for g in self._groups:
            for k in g.parts:
                self._let(f"{prefix[k]}bytes", _traffic(self._parts[k]))
            for k, part in zip(g.parts, self._shares(g, prefix)):
                parts[k] = replace(part, prefix=prefix[k], tiling_key=1)
                self._steps += prefixed(replace(part, steps=_with_field(part.steps, "block_dim")), prefix[k])
        made = [parts[k] for k in order]
        self._launch(made, prefix)
        return replace(made[0], template="sequence", steps=tuple(self._steps), prefix="", empty=(), parts=tuple(made))

    def _let(self, name: str, value: Tree, *, field: bool = False) -> None:
        self._steps.append(Let(name, value, field))

    def _shares(self, g: Group, prefix: Mapping[int, str]) -> list[Schedule]:
        """The parts of a group with the shares of its cores."""
        parts = [self._parts[k] for k in g.parts]
        if g.kind == "own":
            return parts
        if g.kind == "run":
            return [_run_share(*of) for of in zip(parts, g.phases, g.units)]
        name = prefix[g.parts[0]]
        total = t.add(*(Var(f"{prefix[k]}bytes") for k in g.parts))
        wanted = t.minimum(Var("core_num"), t.maximum(t.floordiv(total, BYTES_PER_CORE), 1))
        self._let(f"{name}outer", t.maximum(t.from_expr(g.rows), 1))
        self._let(f"{name}owned", t.roundup(t.ceildiv(Var(f"{name}outer"), wanted), g.units[0]))
        return [_rows_share(part, t.mul(Var(f"{name}owned"), t.from_expr(i))) for part, i in zip(parts, g.inner)]

    def _launch(self, parts: Sequence[Schedule], prefix: Mapping[int, str]) -> None:
        """Which core begins each part, of how many in all.

        A part begins on the core after the last of the part before it; at a seam inside a block on that same core.
        """
        blocks: list[Tree] = [Var(f"{p.prefix}block_dim") for p in parts]
        traffic = t.floordiv(t.add(*(Var(f"{p.prefix}bytes") for p in parts)), BYTES_PER_CORE)
        most = reduce(t.maximum, blocks)
        spread = t.minimum(t.minimum(t.add(*blocks), traffic), Var("core_num"))
        self._let("block_dim", t.maximum(most, spread), field=True)
        at: Tree = 0
        for g in self._groups:
            for k in g.parts:
                self._let(f"{prefix[k]}first", t.mod(at, Var("block_dim")), field=True)
                at = Var(f"{prefix[k]}first")
                cores = Var(f"{prefix[k]}block_dim")
                if k == g.parts[-1]:
                    at = t.add(at, cores)
                elif g.kind == "run":
                    at = t.sub(t.add(at, cores), 1)
        used: list[Tree] = [Var(f"{p.prefix}ub_used") for p in parts]
        self._let("ub_used", reduce(t.maximum, used))


def _with_field(steps: Sequence[Let], name: str) -> tuple[Let, ...]:
    return tuple(replace(s, field=True) if s.name == name else s for s in steps)


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
