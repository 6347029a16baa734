"""What instruction selection builds on: the buffers, transfers and instructions of a program, by segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torchair_autofuse.loop.bounds import nonnegative
from torchair_autofuse.loop.expr import mul
from torchair_autofuse.loop.ir import Load, Nest, Strides
from torchair_autofuse.schedule.program import Buf, Instr, Layout, Lookup, Transfer, layout_of

EXACT = ("RoundMode::CAST_NONE",)
"""Scalars of a Cast that loses nothing, such as between bytes and halves."""


class Unstreamable(ValueError):
    """A nest that has no passes over tiles."""


class ProgramBuilder:
    """Collects the program of one nest whose tile has the axes ``rows`` (None: a flat tile) and ``cols``."""

    def __init__(self, nest: Nest, rows: str | None, cols: str | None) -> None:
        self._nest, self._rows, self._cols = nest, rows, cols
        self._bufs: list[Buf] = []
        self._loads: list[list[Transfer]] = [[], []]  # per segment
        self._stores: list[list[Transfer]] = [[], []]
        self._instrs: list[list[Instr]] = [[], []]
        self._cache: dict[tuple[object, ...], int] = {}
        self._origin = ""

    def layout(self, axes: Sequence[str]) -> Layout:
        """Layout of a value that varies over ``axes``."""
        return layout_of(axes, self._rows, self._cols)

    def _home(self, layout: Layout) -> int:
        """The segment that fills buffers of a layout: what does not vary over rows, once for all tiles of a panel."""
        return 0 if layout in (Layout.ROW, Layout.ONE, Layout.ONEB) else 1

    def _new(self, cpp: str, layout: Layout, kind: str = "tmp", width: int = 1) -> int:
        self._bufs.append(Buf(len(self._bufs), cpp, layout, kind, self._home(layout), width))
        return len(self._bufs) - 1

    def _emit(self, api: str, cpp: str, layout: Layout, srcs: Sequence[int], *, width: int = 1, **more: object) -> int:
        dst = self._new(cpp, layout, width=width)
        self._instrs[self._bufs[dst].segment].append(self._instr(api, dst, srcs, **more))
        return dst

    def _instr(self, api: str, dst: int, srcs: Sequence[int], **more: object) -> Instr:
        return Instr(api, dst, tuple(srcs), comment=self._origin, **more)  # type: ignore[arg-type]

    def _cached(self, key: tuple[object, ...], make: Callable[[], int]) -> int:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def _lookups(self, load: Load) -> tuple[Lookup, ...]:
        """What a load looks up rows by; the values come to an index buffer of their own."""
        return tuple(Lookup(self._index(i.value), i.pitch, i.size, i.wraps) for i in load.indices)

    def _single(self, strides: Strides, layout: Layout) -> bool:
        """Whether the rows of a tile lie in the opposite order in memory."""
        step = dict(strides).get(self._rows or "", 0)
        return layout == Layout.FULL and step != 0 and nonnegative(mul(-1, step))

    def _index(self, name: str) -> int:
        def copied() -> int:
            value = self._nest.defs[name]
            assert isinstance(value, Load)
            buf = self._new(value.dtype.cpp, self.layout(self._nest.domains[name]), "index")
            self._loads[self._bufs[buf].segment].append(Transfer(buf, value.param, value.strides, value.offset))
            return buf

        return self._cached(("index", name), copied)

    def _send_out(self, buf: int, transfer: Transfer) -> None:
        """Makes a buffer one of a queue, which its segment stores."""
        self._bufs[buf] = replace(self._bufs[buf], kind="out")
        self._stores[self._bufs[buf].segment].append(transfer)
