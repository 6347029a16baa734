"""UB plan: places for the virtual buffers of a program, shared by liveness, in place where an instruction allows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchair_autofuse.schedule.program import Buf, Instr, Layout, Program

_FOREVER = 1 << 30


@dataclass(frozen=True)
class Slot:
    """A place in UB that holds one buffer after another. ``queue`` names the queue buffer it is, -1 for a TBuf."""

    id: int
    layout: Layout
    itemsize: int
    panel: bool
    queue: int = -1


@dataclass(frozen=True)
class QueueGroup:
    """Buffers that travel through one TQue together: one allocation, one EnQue. ``num``: 2 is double buffering."""

    kind: str  # "in" or "out"
    panel: bool
    bufs: tuple[int, ...]
    num: int


@dataclass(frozen=True)
class UbPlan:
    """Where every buffer lives. ``place``: buffer id -> slot id."""

    slots: tuple[Slot, ...]
    place: tuple[int, ...]
    queues: tuple[QueueGroup, ...]

    def bytes_per_element(self, layout: Layout, scratch: int = 0, *, single: bool = False) -> int:
        """Bytes that one element (row, column) of ``layout`` costs over all places.

        Queues count ``num`` times, or once with ``single``.
        """
        copies = {b: 1 if single else g.num for g in self.queues for b in g.bufs}
        total = sum(s.itemsize * copies.get(s.queue, 1) for s in self.slots if s.layout == layout)
        return total + scratch


@dataclass
class _Lane:
    """A slot under construction with the spans (first write, last read) it holds already."""

    slot: Slot
    spans: list[tuple[int, int, int]] = field(default_factory=list)  # (def, last use, buffer)


def plan(program: Program, max_live: int) -> UbPlan:
    """Places all buffers. ``max_live``: queue buffers per position, each with an event of its own (chip limit)."""
    bufs = program.bufs
    queues = _queues(bufs, max_live)
    lanes: list[_Lane] = []
    place: dict[int, int] = {}
    for b in bufs:
        if b.kind != "tmp":
            lanes.append(_Lane(Slot(len(lanes), b.layout, b.itemsize, b.panel, b.id)))
            place[b.id] = lanes[-1].slot.id
    for panel, instrs in ((True, program.panel), (False, program.tile)):
        _place_phase(panel, instrs, program, lanes, place)
    return UbPlan(tuple(lane.slot for lane in lanes), tuple(place[b.id] for b in bufs), queues)


def _queues(bufs: tuple[Buf, ...], max_live: int) -> tuple[QueueGroup, ...]:
    groups: list[QueueGroup] = []
    for kind in ("in", "out"):
        panel = [b.id for b in bufs if b.kind == kind and b.panel]
        tile = [b.id for b in bufs if b.kind == kind and not b.panel]
        # every buffer of a queue holds an event of its pipe pair while it is free, a double buffer holds two
        few, many = _shares([len(panel), len(tile)], [1, 2], max_live)
        groups += [QueueGroup(kind, True, g, 1) for g in _deal(panel, few)]
        groups += [QueueGroup(kind, False, g, 2) for g in _deal(tile, many)]
    return tuple(groups)


def _shares(sizes: list[int], costs: list[int], budget: int) -> list[int]:
    """How many groups ``sizes[k]`` buffers get, at ``costs[k]`` each: one at least, then the fullest get more."""
    shares = [min(1, n) for n in sizes]
    while True:
        spent = sum(s * c for s, c in zip(shares, costs))
        more = [k for k, n in enumerate(sizes) if shares[k] < n and spent + costs[k] <= budget]
        if not more:
            return shares
        shares[max(more, key=lambda k: (sizes[k] / shares[k], -k))] += 1


def _deal(ids: list[int], groups: int) -> list[tuple[int, ...]]:
    size = -(-len(ids) // groups) if ids else 1
    return [tuple(ids[i : i + size]) for i in range(0, len(ids), size)]


def _place_phase(
    panel: bool, instrs: tuple[Instr, ...], program: Program, lanes: list[_Lane], place: dict[int, int]
) -> None:
    bufs = program.bufs
    spans = _spans(panel, instrs, program)
    for lane in lanes:  # queue buffers of this phase are taken from the start (in) or until the end (out)
        queue = lane.slot.queue
        if queue in spans:
            first, last = spans[queue]
            lane.spans.append((-1, last, queue) if bufs[queue].kind == "in" else (first, _FOREVER, queue))
    for instr in instrs:
        for buf in (bufs[b] for b in (instr.work, instr.dst) if b >= 0):
            if buf.kind != "tmp":
                continue
            first, last = spans[buf.id]
            chosen = _choose(buf, first, last, instr, instrs, lanes, place, panel)
            chosen.spans.append((first, last, buf.id))
            place[buf.id] = chosen.slot.id


def _spans(panel: bool, instrs: tuple[Instr, ...], program: Program) -> dict[int, tuple[int, int]]:
    """buffer -> (index of the instruction that writes it, index of the last that reads it)."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, instr in enumerate(instrs):
        first[instr.dst] = k
        last.setdefault(instr.dst, k)
        if instr.work >= 0:
            first[instr.work] = last[instr.work] = k
        for s in instr.srcs:
            last[s] = k
    read_by_tile = {s for i in program.tile for s in i.srcs} if panel else set()
    stored = {t.buf for t in program.stores}
    spans = {}
    for b in program.bufs:
        if b.panel != panel:
            continue
        end = _FOREVER if b.id in read_by_tile or b.id in stored else last.get(b.id, -1)
        spans[b.id] = (first.get(b.id, -1), end)
    return spans


def _choose(
    buf: Buf,
    first: int,
    last: int,
    instr: Instr,
    instrs: tuple[Instr, ...],
    lanes: list[_Lane],
    place: dict[int, int],
    panel: bool,
) -> _Lane:
    def fits(lane: _Lane) -> bool:
        slot = lane.slot
        if slot.layout != buf.layout or slot.panel != panel or slot.itemsize < buf.itemsize:
            return False
        if slot.queue >= 0 and slot.itemsize != buf.itemsize:
            return False
        return all(_apart(span, (first, last, buf.id), instrs, buf, slot) for span in lane.spans)

    sources = [place[s] for s in instr.srcs if s in place]
    candidates = [lane for lane in lanes if fits(lane)]
    if candidates:
        return min(
            candidates,
            key=lambda lane: (lane.slot.id not in sources, lane.slot.itemsize, lane.slot.queue < 0, lane.slot.id),
        )
    lanes.append(_Lane(Slot(len(lanes), buf.layout, buf.itemsize, panel)))
    return lanes[-1]


def _apart(a: tuple[int, int, int], b: tuple[int, int, int], instrs: tuple[Instr, ...], buf: Buf, slot: Slot) -> bool:
    """Whether two buffers may share a place: one dies before the other is written, or is overwritten in place."""
    early, late = (a, b) if a[0] <= b[0] else (b, a)
    if early[1] < late[0]:
        return True
    if early[1] > late[0] or late[0] < 0:
        return False
    instr = instrs[late[0]]
    return instr.in_place and early[2] in instr.srcs and late[2] in (instr.dst, instr.work)
