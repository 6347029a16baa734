"""The vector program of a nest: Ascend C instructions over virtual UB buffers, before buffers get places.

A value in UB has a *layout*: which of the tile's two axes (rows, columns) it varies over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

ONE_ROW = "one"
"""Name of the row axis of a nest that reduces its only axis."""


LANES = 256
"""Buffers hold a multiple of this many elements, so that every instruction may be rounded up to full repeats."""


class Layout(Enum):
    """How a buffer is laid out. Capacities in elements are decided by the tiling."""

    FULL = "full"  # rows x pitch
    ROW = "row"  # one value per column: pitch elements
    COL = "col"  # one value per row: dense
    ONE = "one"  # one value
    COLB = "colb"  # a COL spread by Brcb: every row's value fills one 32-byte block
    ONEB = "oneb"  # a ONE spread by Brcb: eight blocks, the first one filled with the value


@dataclass(frozen=True)
class Buf:
    """A virtual buffer. ``kind``: "in" and "out" belong to queues, "tmp" gets a place in the UB plan."""

    id: int
    cpp: str  # element type; "bits" for a bit mask
    layout: Layout
    kind: str = "tmp"
    segment: int = 0  # index of the segment that fills it first

    @property
    def itemsize(self) -> int:
        """Bytes per element (a block of 32 bytes per element for spread layouts; bits count as one byte)."""
        if self.layout in (Layout.COLB, Layout.ONEB):
            return 32
        return _SIZES[self.cpp]


_SIZES = {
    "float": 4, "half": 2, "bfloat16_t": 2, "int32_t": 4, "uint32_t": 4, "int16_t": 2, "uint16_t": 2,
    "int8_t": 1, "uint8_t": 1, "int64_t": 8, "uint64_t": 8, "bits": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Instr:
    """One vector instruction.

    ``api``: the Ascend C name. ``form``: "count" (whole buffers), "tile" (two sources of unlike layouts, repeat
    strides), "brcb" (spread), "expand" (write a smaller layout out in full), "reduce" (one value per row; ``api`` folds
    two halves, ``work`` is the buffer it folds in, -1 if rows need none), "reduce_down" (one value per column), "carry"
    and "levels" (pairwise sums over tiles, in the buffers of ``updates``), "send" (a result of this core to workspace;
    ``dst`` is -1) and "receive" (the parts of all cores combined by ``api``); the scalars of both number the result in
    workspace, of a sum of exponentials its maximum too, whose common value is the source then. ``view``: element type
    the buffers are reinterpreted to, "" for their own. ``scalars`` are printed after the sources. ``scratch``: bytes of
    temporary buffer per element. ``in_place``: the destination may be one of the sources. ``cost``: key of
    soc.chip.Cost.
    """

    api: str
    dst: int
    srcs: tuple[int, ...]
    form: str = "count"
    scalars: tuple[str, ...] = ()
    view: str = ""
    scratch: int = 0
    in_place: bool = True
    cost: str = "simple"
    comment: str = ""
    work: int = -1
    updates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """A load into, or a store from, a queue buffer: which nest node it is for (index into loads or stores)."""

    buf: int
    param: str
    strides: tuple[tuple[str, object], ...]
    offset: object


@dataclass(frozen=True)
class Segment:
    """Loads, then instructions, then stores, run together.

    ``loop``: run for every tile of the block at hand; else once per block. What a segment before it has filled stays
    for all its rounds.
    """

    name: str
    loop: bool
    loads: tuple[Transfer, ...]
    instrs: tuple[Instr, ...]
    stores: tuple[Transfer, ...]
    keeps: bool = False  # what it loads stays for the segments after it


@dataclass(frozen=True)
class Program:
    """The segments of one block of work, in order."""

    bufs: tuple[Buf, ...]
    segments: tuple[Segment, ...]

    @property
    def loads(self) -> tuple[Transfer, ...]:
        return tuple(x for s in self.segments for x in s.loads)

    @property
    def stores(self) -> tuple[Transfer, ...]:
        return tuple(x for s in self.segments for x in s.stores)

    @property
    def instrs(self) -> tuple[Instr, ...]:
        return tuple(i for s in self.segments for i in s.instrs)

    @property
    def scratch(self) -> int:
        """Temporary bytes per element that the costliest instruction needs."""
        return max((i.scratch for i in self.instrs), default=0)
