"""What a schedule is: how one kernel runs on one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torchair_autofuse.loop.ir import Axis, Kernel, Nest
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.program import Program
from torchair_autofuse.schedule.tiling import Let
from torchair_autofuse.schedule.ub import UbPlan
from torchair_autofuse.soc.chip import Chip


@dataclass(frozen=True)
class Schedule:
    """How one kernel runs on one architecture, total over all sizes: by itself, by choice among ``variants``, or as
    ``parts`` in order; with those it has the nest, axes, program and plan of the first.

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
    parts: tuple[Schedule, ...] = ()  # a schedule per nest, which run one after the other
    members: tuple[Schedule, ...] = ()  # the parts whose rows one tile puts together; it has no program of its own
    prefix: str = ""  # of the names of its tiling values, as one of several variants or parts
    tiling_key: int | str = 1
    inside: tuple[Axis, ...] = ()  # the last of the outer axes, which a tile of rows goes through before the next one
    shared: bool = False  # several cores share a block of kept work and exchange results through workspace

    def tiling(self, symbols: dict[str, int], core_num: int, ub_bytes: int) -> dict[str, int]:
        """All tiling values for these sizes; ``block_dim`` and ``ub_used`` (bytes) are among them."""
        return t.evaluate(self.steps, {**symbols, "core_num": core_num, "ub_bytes": ub_bytes})

    def at(self, chip: Chip, size: int = 1) -> dict[str, int]:
        """All tiling values on a whole chip where every symbol is ``size``."""
        return self.tiling({s.name: size for s in self.kernel.symbols}, chip.vector_cores, chip.ub_bytes)

    def fits(self, chip: Chip, *sizes: int) -> bool:
        """Whether a tile, the smallest at least, fits in UB where all symbols are one of ``sizes``."""
        made = (self.at(chip, size) for size in sizes)
        return all(tiling["tile_cols"] >= 1 and tiling["ub_used"] <= chip.ub_plan_bytes for tiling in made)

    @property
    def pieces(self) -> tuple[Schedule, ...]:
        """What it chooses among, or runs one after the other: schedules of a class each in the kernel."""
        return self.variants or self.parts or (self,)

    def running(self, tiling: Mapping[str, int]) -> tuple[Schedule, ...]:
        """Those of its pieces that run at these tiling values."""
        if self.variants:
            return (self.variants[tiling["tiling_key"] - 1],)
        return tuple(p for p in self.pieces if not self.parts or tiling[f"{p.prefix}cores"] > 0)

    @property
    def nests(self) -> tuple[Schedule, ...]:
        """The schedules of single nests of a piece: itself, or its members with their prefixes in full."""
        return tuple(replace(m, prefix=self.prefix + m.prefix) for m in self.members) or (self,)

    @property
    def workspace_bytes(self) -> str:
        """The tiling value, or number, of the workspace the kernel needs."""
        return "workspace_bytes" if any(s.name == "workspace_bytes" for s in self.steps) else "0"

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the values that the kernel reads from its tiling data, in order (int64 each)."""
        return tuple(s.name for s in self.steps if s.field)
