"""UB plan: places for the virtual buffers of a program, shared by liveness, in place where an instruction allows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule.program import LANES, Buf, Instr, Layout, Program, Table


@dataclass(frozen=True)
class Slot:
    """A place in UB that holds one buffer after another. ``queue`` names the queue buffer it is, -1 for a TBuf.

    ``index``: it holds an index buffer and nothing else.
    """

    id: int
    layout: Layout
    itemsize: int
    queue: int = -1
    index: bool = False


@dataclass(frozen=True)
class QueueGroup:
    """Buffers that travel through one TQue together: one allocation, one EnQue. ``num``: 2 is double buffering."""

    kind: str  # "in" or "out"
    segment: int
    bufs: tuple[int, ...]
    num: int
    shares: int = -1  # index of the earlier group whose TQue it uses again, -1 for a TQue of its own


@dataclass(frozen=True)
class UbPlan:
    """Where every buffer lives. ``place``: buffer id -> slot id. ``tables`` have places of their own."""

    slots: tuple[Slot, ...]
    place: tuple[int, ...]
    queues: tuple[QueueGroup, ...]
    tables: tuple[Table, ...] = ()

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
    """Places all buffers. ``max_live``: tensors that may be allocated at once per queue position (chip limit).

    Beyond MAX_SLOTS places none is shared any more: there is no kernel then, however many they are.
    """
    bufs = program.bufs
    spans = _spans(program)
    lanes: list[_Lane] = []
    place: dict[int, int] = {}
    queues = _queues(program, max_live)
    first = {g.bufs[0]: queues[g.shares].bufs[0] for g in queues if g.shares >= 0}
    for b in bufs:
        if b.kind == "tmp":
            continue
        if b.id in first:  # through the queue of an earlier loop
            place[b.id] = place[first[b.id]]
        else:
            index = b.kind == "index"
            lanes.append(_Lane(Slot(len(lanes), b.layout, b.itemsize, -1 if index else b.id, index)))
            place[b.id] = lanes[-1].slot.id
        lanes[place[b.id]].spans.append((*spans[b.id], b.id))
    for instr in program.instrs:
        for buf in (bufs[b] for b in (instr.work, *instr.updates, instr.dst) if b >= 0):
            if buf.kind != "tmp" or buf.id in place:
                continue
            chosen = _choose(buf, spans[buf.id], instr, program, lanes, place)
            chosen.spans.append((*spans[buf.id], buf.id))
            place[buf.id] = chosen.slot.id
    return UbPlan(tuple(lane.slot for lane in lanes), tuple(place[b.id] for b in bufs), queues, program.tables)


def _queues(program: Program, max_live: int) -> tuple[QueueGroup, ...]:
    """Groups so that the buffers of one position are never more than the chip allows.

    Every buffer of a queue holds an event of its pipe pair while it is free, so that all segments count together, and
    a double buffer twice.
    """
    groups: list[QueueGroup] = []
    again = _again(program)
    costs = [2 if s.loop else 1 for s in program.segments]
    for kind in ("in", "out"):
        mine = [b for b in program.bufs if b.kind == kind and b.id not in again]
        per = [[b.id for b in mine if b.segment == k] for k in range(len(costs))]
        for k, share in enumerate(_shares([len(p) for p in per], costs, max_live)):
            groups += [QueueGroup(kind, k, g, costs[k]) for g in _deal(per[k], share)]
    alone = {g.bufs[0]: i for i, g in enumerate(groups) if len(g.bufs) == 1}
    for buf, earlier in again.items():
        groups.append(QueueGroup("in", program.bufs[buf].segment, (buf,), 2, alone.get(earlier, -1)))
    return tuple(groups)


def _again(program: Program) -> dict[int, int]:
    """Loads that a loop repeats of an earlier loop: buffer -> buffer of the first one."""
    first: dict[object, int] = {}
    found: dict[int, int] = {}
    for x in (x for s in program.segments if s.loop for x in s.loads if program.bufs[x.buf].kind == "in"):
        earlier = first.setdefault((x.param, x.strides, x.offset, x.lanes, x.lookups), x.buf)
        if earlier != x.buf:
            found[x.buf] = earlier
    return found


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


def _spans(program: Program) -> dict[int, tuple[int, int]]:
    """buffer -> (index of the instruction that first writes it, index of the last that needs it).

    Indices run over the instructions of all segments. A loaded buffer is taken from the start of its segment. What a
    loop reads but does not fill has to last to its end, and so has what a segment stores. Only the first segment's
    loads stay for the whole block: the loops after it read them.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    at = 0
    for k, segment in enumerate(program.segments):
        start, end = at, at + len(segment.instrs)
        filled = {i.dst for i in segment.instrs} | {i.work for i in segment.instrs}
        for transfer in segment.loads:
            first[transfer.buf], last[transfer.buf] = start - 1, start - 1
        for instr in segment.instrs:
            for b in (instr.work, instr.dst, *instr.updates):
                if b >= 0:
                    first.setdefault(b, at)
                    last[b] = max(last.get(b, at), at)
            for s in instr.srcs:
                own = program.bufs[s].segment == k and (s in filled or program.bufs[s].kind == "in")
                last[s] = max(last.get(s, -1), at if own or not segment.loop else end)
            at += 1
        for transfer in segment.stores:
            last[transfer.buf] = end  # until it is enqueued
    return {b: (first[b], last[b]) for b in first}


def _choose(
    buf: Buf,
    span: tuple[int, int],
    instr: Instr,
    program: Program,
    lanes: list[_Lane],
    place: dict[int, int],
) -> _Lane:
    if len(lanes) > MAX_SLOTS:
        lanes.append(_Lane(Slot(len(lanes), buf.layout, buf.itemsize)))
        return lanes[-1]
    start = sum(len(s.instrs) for s in program.segments[: buf.segment])
    stays = span[1] >= start + len(program.segments[buf.segment].instrs)  # read by later segments

    def fits(lane: _Lane) -> bool:
        slot = lane.slot
        if slot.index or slot.layout != buf.layout or slot.itemsize < buf.itemsize:
            return False
        if slot.queue >= 0:  # a queue's tensor exists within its segment only
            here = {program.bufs[b].segment for _, _, b in lane.spans if program.bufs[b].kind != "tmp"}
            if stays or slot.itemsize != buf.itemsize or buf.segment not in here:
                return False
        return all(_apart(other, (*span, buf.id), program.instrs) for other in lane.spans)

    sources = [place[s] for s in instr.srcs if s in place]
    candidates = [lane for lane in lanes if fits(lane)]
    if candidates:
        return min(
            candidates,
            key=lambda lane: (lane.slot.id not in sources, lane.slot.itemsize, lane.slot.queue < 0, lane.slot.id),
        )
    lanes.append(_Lane(Slot(len(lanes), buf.layout, buf.itemsize)))
    return lanes[-1]


def _apart(a: tuple[int, int, int], b: tuple[int, int, int], instrs: tuple[Instr, ...]) -> bool:
    """Whether two buffers may share a place: one dies before the other is written, or is overwritten in place."""
    early, late = (a, b) if a[0] <= b[0] else (b, a)
    if early[1] < late[0]:
        return True
    if early[1] > late[0] or not 0 <= late[0] < len(instrs):
        return False
    instr = instrs[late[0]]
    return instr.in_place and early[2] in instr.srcs and late[2] in (instr.dst, instr.work)


MAX_SLOTS = 56
"""A TPipe manages at most 64 buffers (Ascend C); up to eight of the places are queues with two."""


def slots_reason(ub: UbPlan, most: int = MAX_SLOTS) -> Reason | None:
    """Why there are too many places (AF212)."""
    places = len(ub.slots) + len(ub.tables)
    return None if places <= most else Reason("AF212", f"more than {most} places in UB, which a kernel has at most")


def tile_reason(program: Program, ub: UbPlan, limit: int) -> Reason:
    """AF212 of a kernel whose smallest tile takes more than ``limit`` bytes."""
    each, fixed = bytes_per(program, ub, Layout.FULL), fixed_bytes(program, ub)
    text = (
        f"{each} bytes per element of a tile and {fixed} besides: the smallest tile does not fit in {limit} bytes of UB"
    )
    return Reason("AF212", text)


def row_align(program: Program) -> int:
    """Elements that the pitch of a row is a multiple of: whole 32-byte blocks of every type in it.

    Both sides of a tile that is transposed are padded to it.
    """
    wide = [b for b in program.bufs if b.layout in (Layout.FULL, Layout.ROW, Layout.TURNED) and b.cpp != "bits"]
    square = 16 if any(b.layout == Layout.TURNED for b in wide) else 8  # what one transposition moves
    return max([square, *(32 // b.element for b in wide)])


def bytes_per(program: Program, ub: UbPlan, layout: Layout) -> int:
    """Bytes that one element (row, column) of a tile costs, scratch included."""
    return ub.bytes_per_element(layout, program.scratch if layout == Layout.FULL else 0)


def fixed_bytes(program: Program, ub: UbPlan, *, single: bool = False) -> int:
    """Bytes that do not depend on the tile: scalars, spread ones (eight blocks each), tables, the scratch minimum."""
    ones = ub.bytes_per_element(Layout.ONE, single=single) * LANES + ub.bytes_per_element(Layout.ONEB) * 8
    ones += sum(table.bytes for table in ub.tables)
    return ones + (program.scratch * LANES + 512 if program.scratch else 0)
