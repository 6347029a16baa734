"""What lies in UB at given sizes, buffer by buffer: the bytes that the HTML report draws to scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torchair_autofuse.codegen.assembled import Assembled
from torchair_autofuse.codegen.names import Names
from torchair_autofuse.schedule.program import LANES, Layout
from torchair_autofuse.schedule.schedule import Schedule

_CAPACITY = {
    Layout.FULL: "cap_full", Layout.TURNED: "cap_full", Layout.ROW: "cap_row", Layout.COL: "cap_col",
    Layout.COLB: "cap_colb",
}  # fmt: skip
_FIXED = {Layout.ONE: LANES, Layout.ONEB: 8}  # elements, whatever the tile


@dataclass(frozen=True)
class UbBuffer:
    """A place in UB. ``size``: bytes of one copy; ``copies``: 2 is double buffering; ``holds``: what goes through."""

    name: str
    layout: str
    size: int
    copies: int
    holds: str


@dataclass(frozen=True)
class UbPart:
    """What is in UB together. Parts of a kernel run one after the other and use the same bytes again."""

    name: str
    buffers: tuple[UbBuffer, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(b.size * b.copies for b in self.buffers)


def ub_parts(schedule: Schedule, tiling: Mapping[str, int]) -> tuple[UbPart, ...]:
    """The parts that run at these tiling values (``Schedule.tiling``); the largest is as large as ``ub_used``."""
    return tuple(_part(s, tiling) for s in _running(schedule, tiling))


def _running(schedule: Schedule, tiling: Mapping[str, int]) -> list[Schedule]:
    found: list[Schedule] = []
    for piece in schedule.running(tiling):
        if piece.parts and piece is not schedule:
            inner = [replace(p, prefix=piece.prefix + p.prefix) for p in piece.parts]
            found += [p for p in inner if tiling[f"{p.prefix}cores"] > 0]
        else:
            found.append(piece)
    return found


def _part(s: Schedule, tiling: Mapping[str, int]) -> UbPart:
    name = f"{s.template} {s.prefix.rstrip('_')}".strip()
    return UbPart(name, tuple(_assembled(s, tiling) if s.members else _places(s, tiling)))


def _places(s: Schedule, tiling: Mapping[str, int]) -> list[UbBuffer]:
    names, places = Names(s), s.plan.place
    copies = {b: group.num for group in s.plan.queues for b in group.bufs}
    transfers = (*s.program.loads, *s.program.stores)
    found = []
    for slot in s.plan.slots:
        capacity = _FIXED[slot.layout] if slot.layout in _FIXED else tiling[s.prefix + _CAPACITY[slot.layout]]
        holds = ", ".join(dict.fromkeys(t.param for t in transfers if t.buf == slot.queue)) or "working values"
        name = names.place(places.index(slot.id)).rstrip("_")
        found.append(UbBuffer(name, slot.layout.value, slot.itemsize * capacity, copies.get(slot.queue, 1), holds))
    if s.program.scratch:  # of high-level calls: per element, and a minimum (schedule.ub.fixed_bytes)
        size = s.program.scratch * (tiling[f"{s.prefix}cap_full"] + LANES) + 2 * LANES
        found.append(UbBuffer("scratch", "full", size, 1, "room of high-level calls"))
    for i, table in enumerate(s.plan.tables):
        found.append(UbBuffer(f"table{i}", "once", table.bytes, 1, "offsets for Gather"))
    return found


def _assembled(s: Schedule, tiling: Mapping[str, int]) -> list[UbBuffer]:
    """One queue for the loads of all parts, one for the stores, and a tile of whole rows per output."""
    found = [
        UbBuffer("in", "rows", tiling[f"{s.prefix}in_bytes"], 2, "inputs of the parts"),
        UbBuffer("out", "rows", tiling[f"{s.prefix}out_bytes"], 2, "rows to store"),
        UbBuffer("work", "rows", tiling[f"{s.prefix}work_bytes"], 1, "working values"),
    ]
    for y in Assembled(s).outputs:
        found.append(UbBuffer(f"{y.name}Tile", "rows", tiling[f"{s.prefix}{y.name}_tile"], 1, y.name))
        found.append(UbBuffer(f"{y.name}Keep", "bits", tiling[f"{s.prefix}{y.name}_keep"], 1, f"mask of {y.name}"))
    return [b for b in found if b.size]
