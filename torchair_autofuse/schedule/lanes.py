"""Loads and stores with a stride along the inner axis of a tile: elements picked out of, or put into, lanes of several.

A tensor of lanes of k elements is copied whole, in one run for all of its members at hand; instructions then pick a
member out of every lane (x[..., ::2], x[..., 0]), or put members side by side (stack along a new last axis).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torchair_autofuse.dtypes import BOOL, DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Index, Load, Nest, Store, Strides
from torchair_autofuse.schedule.emit import EXACT, ProgramBuilder, Unstreamable
from torchair_autofuse.schedule.program import Layout, Table, Transfer

MAX_LANE = 64
"""Elements of a lane; copying longer ones to pick a few elements costs more than a kernel of its own."""

_PATTERNS = {2: 1, 4: 3}  # elements of a lane -> GatherMask's built-in pattern for the first of them
_KEPT_IN_HALF = {BOOL: ("half", 2)}  # what is picked and put together as another type


@dataclass(frozen=True)
class Lanes:
    """Accesses of one tensor that differ only by which element of a lane they touch; ``members``: in order."""

    width: int
    first: Expr  # offset of the first member
    members: tuple[int, ...]  # distances from it
    back: bool

    @property
    def span(self) -> int:
        """Elements of a lane from the first member to the last."""
        return self.members[-1] + 1

    @property
    def whole(self) -> bool:
        """Whether every element of a lane is a member."""
        return len(self.members) == self.width


_Key = tuple[str, Strides, tuple[Index, ...], Expr]


def picks(dtype: DType) -> bool:
    """Whether instructions move single elements of a type in UB."""
    return dtype == BOOL or dtype.itemsize in (2, 4)


def _alike(access: Load | Store) -> tuple[str, Strides, tuple[Index, ...]]:
    """What accesses in the same lanes have in common."""
    return access.param, access.strides, access.indices if isinstance(access, Load) else ()


class LaneSelector(ProgramBuilder):
    """The part of instruction selection that deals with lanes."""

    def __init__(self, nest: Nest, rows: str | None, cols: str | None) -> None:
        super().__init__(nest, rows, cols)
        loads = [v for v in nest.values if isinstance(v, Load) and picks(v.dtype)]
        stores = [s for s in nest.stores if picks(nest.dtypes[s.value])]
        self._lanes: dict[_Key, Lanes] = {**self._groups(loads)}
        for key, lanes in self._groups(stores).items():
            if lanes.whole and not lanes.back:
                self._lanes[key] = lanes
        # of an output being put together -> (buffer, segment) by member
        self._members: dict[_Key, dict[int, tuple[int, int]]] = {}

    def _lanes_of(self, access: Load | Store) -> Lanes | None:
        """The lanes that an access is a member of, None where it is contiguous (or where no instruction helps)."""
        return self._lanes.get((*_alike(access), access.offset))

    def _groups(self, accesses: Iterable[Load | Store]) -> dict[_Key, Lanes]:
        """Accesses by the lanes they share: same tensor, same strides, offsets less than a lane apart."""
        alike: dict[tuple[str, Strides, tuple[Index, ...]], dict[Expr, None]] = {}
        for a in accesses:
            alike.setdefault(_alike(a), {})[a.offset] = None
        found: dict[_Key, Lanes] = {}
        for (param, strides, indices), offsets in alike.items():
            stride = self._inner(strides, indices)
            if stride is None or stride == 1 or not 1 <= abs(stride) <= MAX_LANE:
                continue
            if any(isinstance(s, int) and abs(s) < abs(stride) for _, s in strides):
                continue  # lanes of rows that lie in each other: a transposition
            left = list(offsets)
            while left:
                distances = {o: expr.add(o, expr.mul(-1, left[0])) for o in left}
                near = {o: d for o, d in distances.items() if isinstance(d, int)}
                low = min(near.values())
                near = {o: d - low for o, d in near.items() if d - low < abs(stride)}
                first = next(o for o, d in near.items() if d == 0)
                lanes = Lanes(abs(stride), first, tuple(sorted(near.values())), stride < 0)
                found.update(((param, strides, indices, o), lanes) for o in near)
                left = [o for o in left if o not in near]
        return found

    def _inner(self, strides: Strides, indices: tuple[Index, ...]) -> int | None:
        """The stride along the axis that is contiguous in a buffer, None where there is none or it is symbolic."""
        by_axis: Mapping[str | None, Expr] = dict(strides)
        looked_up = [a for i in indices for a in self._nest.domains[i.value]]
        layout = self.layout([*(a for a, _ in strides), *looked_up])
        stride = by_axis.get(self._rows if layout == Layout.COL else self._cols)
        return stride if isinstance(stride, int) else None

    def _pick(self, load: Load, layout: Layout) -> int:
        """The member of a load, in a buffer of its own; the run of lanes is copied once for all members."""
        lanes = self._lanes_of(load)
        assert lanes is not None
        member = expr.add(load.offset, expr.mul(-1, lanes.first))
        assert isinstance(member, int)
        cpp, element = _KEPT_IN_HALF.get(load.dtype, (load.dtype.cpp, load.dtype.itemsize))
        key = (*_alike(load), lanes.first)
        wide = self._cached(("lanes", *key), lambda: self._wide(load, lanes, layout, cpp))
        pattern = 0 if lanes.back else _PATTERNS.get(lanes.width, 0)
        api = "GatherMask" if pattern else "Gather"
        number = str(pattern + member if pattern else member * element)
        table = None if pattern else Table(lanes.width, element, back=lanes.back)
        return self._cached(
            ("member", *key, member),
            lambda: self._emit(api, cpp, layout, [wide], form="pick", scalars=(number,), table=table, in_place=False),
        )

    def _wide(self, load: Load, lanes: Lanes, layout: Layout, cpp: str) -> int:
        buf = self._new(load.dtype.cpp, layout, "in", lanes.width)
        moved = Transfer(
            buf,
            load.param,
            load.strides,
            lanes.first,
            lanes.width,
            lanes.span,
            lanes.back,
            self._lookups(load),
            self._single(load.strides, layout),
        )
        self._loads[self._bufs[buf].segment].append(moved)
        if cpp == load.dtype.cpp:
            return buf
        return self._emit("Cast", cpp, layout, [buf], width=lanes.width, scalars=EXACT, in_place=False)

    def _interleave(self, store: Store, buf: int) -> None:
        """Takes ``buf`` as a member of an output; the last one puts all of them together and stores them."""
        lanes = self._lanes_of(store)
        assert lanes is not None
        member = expr.add(store.offset, expr.mul(-1, lanes.first))
        key = (*_alike(store), lanes.first)
        members = self._members.setdefault(key, {})
        assert isinstance(member, int)
        layout = self._bufs[buf].layout
        members[member] = buf, self._home(layout)
        if len({segment for _, segment in members.values()}) > 1:
            raise Unstreamable(f"the values interleaved in {store.param} are not computed together")
        if len(members) < lanes.width:
            return
        dtype = self._nest.dtypes[store.value]
        cpp, element = _KEPT_IN_HALF.get(dtype, (dtype.cpp, dtype.itemsize))
        srcs = [members[m][0] for m in range(lanes.width)]
        work = self._new(cpp, layout, width=lanes.width)
        table = Table(lanes.width, element, layout)
        wide = self._emit(
            "Gather",
            cpp,
            layout,
            srcs,
            width=lanes.width,
            form="interleave",
            work=work,
            table=table,
            in_place=False,
        )
        if cpp != dtype.cpp:
            wide = self._emit("Cast", dtype.cpp, layout, [wide], width=lanes.width, scalars=EXACT, in_place=False)
        self._send_out(wide, Transfer(wide, store.param, store.strides, lanes.first, lanes.width, lanes.width))
