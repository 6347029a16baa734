"""The vector program of a nest: Ascend C instructions over virtual UB buffers, before buffers get places.

A value in UB has a *layout*: which of the tile's two axes (rows, columns) it varies over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Strides

ONE_ROW = "one"
"""Name of the row axis of a nest that reduces its only axis."""


LANES = 256
"""Buffers hold a multiple of this many elements, so that every instruction may be rounded up to full repeats."""


class Layout(Enum):
    """How a buffer is laid out. Capacities in elements are decided by the tiling."""

    FULL = "full"  # rows x pitch
    TURNED = "turned"  # a tile as it lies in memory when that runs along the rows: columns x rows, both padded alike
    ROW = "row"  # one value per column: pitch elements
    COL = "col"  # one value per row: dense
    ONE = "one"  # one value
    COLB = "colb"  # a COL spread by Brcb: every row's value fills one 32-byte block
    ONEB = "oneb"  # a ONE spread by Brcb: eight blocks, the first one filled with the value


def layout_of(axes: Collection[str], rows: str | None, cols: str | None) -> Layout:
    """Layout of what varies over ``axes`` in a tile of ``rows`` and ``cols`` (no rows: a flat tile)."""
    row, col = rows is not None and (rows in axes or rows == ONE_ROW), cols is not None and cols in axes
    if rows is None:
        return Layout.FULL if col else Layout.ONE
    return {(True, True): Layout.FULL, (False, True): Layout.ROW, (True, False): Layout.COL}.get((row, col), Layout.ONE)


def turns(strides: Mapping[str, object], rows: str | None, cols: str | None) -> bool:
    """Whether an access over both axes of a tile is contiguous along the rows, not along the columns."""
    if rows is None or cols is None:
        return False
    return strides.get(rows, 0) == 1 and strides.get(cols, 1) != 1


@dataclass(frozen=True)
class Buf:
    """A virtual buffer. ``kind``: "in" and "out" belong to queues, "tmp" gets a place in the UB plan, "index" one of
    its own, which the scalar unit reads rows to look up from.

    ``width``: elements per lane of the tile, of which instructions pick one or which they fill side by side.
    """

    id: int
    cpp: str  # element type; "bits" for a bit mask
    layout: Layout
    kind: str = "tmp"
    segment: int = 0  # index of the segment that fills it first
    width: int = 1

    @property
    def itemsize(self) -> int:
        """Bytes per lane (a block of 32 bytes per element for spread layouts; bits count as one byte)."""
        return 32 if self.layout in (Layout.COLB, Layout.ONEB) else self.element * self.width

    @property
    def element(self) -> int:
        """Bytes per element."""
        return _SIZES[self.cpp]


_SIZES = {
    "float": 4, "half": 2, "bfloat16_t": 2, "int32_t": 4, "uint32_t": 4, "int16_t": 2, "uint16_t": 2,
    "int8_t": 1, "uint8_t": 1, "int64_t": 8, "uint64_t": 8, "bits": 1,
}  # fmt: skip


TABLE_LANES = 512
"""Most entries of a table of offsets; instructions work through a buffer in as many lanes at a time."""


@dataclass(frozen=True)
class Table:
    """Byte offsets for Gather, made once per kernel. ``width``: elements per lane; ``element``: bytes of one.

    Without ``layout`` entry i is lane i's distance from lane 0 in a buffer of ``width``; with ``back``, counted from
    the last entry. With it, entry i is where element i of an interleaved buffer lies among ``width`` buffers of that
    layout, side by side.
    """

    width: int
    element: int
    layout: Layout | None = None
    back: bool = False

    @property
    def entries(self) -> int:
        """Of an interleaving table: whole lanes, so many that they start on 32-byte blocks."""
        return TABLE_LANES if self.layout is None else max(TABLE_LANES // self.width // 16, 1) * 16 * self.width

    @property
    def bytes(self) -> int:
        """UB that it takes; an interleaving table has room to work in behind it."""
        return 4 * self.entries * (1 if self.layout is None else 2)


@dataclass(frozen=True)
class Instr:
    """One vector instruction.

    ``api``: the Ascend C name. ``form``: "count" (whole buffers), "tile" (two sources of unlike layouts, repeat
    strides), "brcb" (spread), "expand" (write a smaller layout out in full), "reduce" (one value per row; ``api`` folds
    two halves, ``work`` is the buffer it folds in, -1 if rows need none), "reduce_down" (one value per column), "carry"
    and "levels" (pairwise sums over tiles, in the buffers of ``updates``), "send" (a result of this core to workspace;
    ``dst`` is -1) and "receive" (the parts of all cores combined by ``api``); the scalars of both number the result in
    workspace, of a sum of exponentials its maximum too, whose common value is the source then, "pick" (an element of
    every lane of a wide buffer: its byte in the lane with a ``table``, else GatherMask's pattern) and "interleave"
    (narrow buffers, put side by side in ``work``, to a wide one by ``table``), "transpose" (FULL to TURNED or back;
    with a ``table``, to or from lanes of all rows),
    "place" (rows into the tile of an output: its name and the tiling value of its first column are the scalars; ``dst``
    is -1). ``view``: element type the buffers are reinterpreted to, "" for their own. ``scalars`` are printed after the
    sources. ``scratch``: bytes of temporary buffer per element. ``in_place``: the destination may be one of the
    sources. ``cost``: key of soc.chip.Cost.
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
    table: Table | None = None


@dataclass(frozen=True)
class Lookup:
    """Rows looked up by the values of an "index" buffer: ``size`` rows of ``pitch`` elements; see loop.ir.Index."""

    buf: int
    pitch: Expr
    size: Expr
    wraps: bool


@dataclass(frozen=True)
class Transfer:
    """A load into, or a store from, a queue or index buffer.

    ``lanes``: elements from one lane to the next, which are all copied, the width of the buffer; of the last lane in a
    run only the first ``span``. ``back``: the lanes run backwards in memory. ``lookups``: of rows that are gathered.
    ``single``: rows lie in the opposite order, and are copied one by one.
    """

    buf: int
    param: str
    strides: Strides
    offset: Expr
    lanes: int = 1
    span: int = 1
    back: bool = False
    lookups: tuple[Lookup, ...] = ()
    single: bool = False


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

    @cached_property  # the UB plan asks for it per buffer
    def instrs(self) -> tuple[Instr, ...]:
        return tuple(i for s in self.segments for i in s.instrs)

    def by_row(self, transfer: Transfer) -> bool:
        """Whether every row of a tile is copied by itself: they are looked up, or lie in the opposite order."""
        return transfer.single or any(self.bufs[x.buf].layout == Layout.COL for x in transfer.lookups)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of its instructions, each once."""
        return tuple(dict.fromkeys(i.table for i in self.instrs if i.table is not None))

    @property
    def scratch(self) -> int:
        """Temporary bytes per element that the costliest instruction needs."""
        return max((i.scratch for i in self.instrs), default=0)
