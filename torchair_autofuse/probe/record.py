"""What a probe is: frozen records, one per assumption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.soc.chip import Chip

Array = npt.NDArray[Any]
ARCHS = (2201, 3510)
HOLDS, DIFFERS, FAILED, NOT_RUN, MEASURED = "holds", "differs", "failed", "not run", "measured"
"""Results. "failed": the compiler, a crash, a device error or the time limit ended the probe."""


def nothing() -> Array:
    """An input that a case does not read."""
    return np.zeros(8, np.float32)


@dataclass(frozen=True, eq=False)
class Case:
    """One launch of a kernel and what it must give.

    ``body``: Ascend C statements of a function that sees the GM addresses ``x``, ``y``, ``out`` and ``workspace`` and
    the integers ``n`` and ``m`` (the module ``frame`` writes common bodies). ``out``: the output before the launch;
    ``want``: after it. Elements whose ``care`` is false may hold anything. Values agree when their bits do, or when
    both are NaN unless ``bits``; floats also when |got - exact| <= ``ulps`` units in the last place of the exact value
    or <= ``atol``, with ``exact`` in double and ``why`` the reason for the tolerance. ``launches``: so many on an NPU,
    all must give the same. ``workspace``: user bytes.
    """

    name: str
    body: str
    out: Array
    want: Array
    x: Array = field(default_factory=nothing)
    y: Array = field(default_factory=nothing)
    n: int = 0
    m: int = 0
    exact: Array | None = None
    ulps: float = 0.0
    atol: float = 0.0
    why: str = ""
    care: Array | None = None
    bits: bool = False
    blocks: int = 1
    launches: int = 1
    workspace: int = 0

    def __post_init__(self) -> None:
        if self.out.shape != self.want.shape or self.out.dtype != self.want.dtype:
            raise ValueError(f"case {self.name!r}: out and want differ in shape or dtype")
        if (self.ulps or self.atol) and not (self.why and self.exact is not None):
            raise ValueError(f"case {self.name!r}: a tolerance needs exact values and a reason")


@dataclass(frozen=True)
class Kernel:
    """A kernel of several cases. ``all_cores``: it calls SyncAll, so its blocks must run at once."""

    cases: Callable[[Chip], tuple[Case, ...]]
    all_cores: bool = False
    device: str = "kernel"


@dataclass(frozen=True)
class Point:
    """One timed launch, ``count`` times in a row: see ``Case`` for n, m and blocks."""

    n: int
    m: int
    blocks: int = 1
    count: int = 1


@dataclass(frozen=True)
class Measure:
    """Numbers from the seconds per launch of several points, beside the cost table's; never right or wrong.

    ``numbers(seconds, blocks, chip)``: (name, measured, table, unit) rows; ``blocks``: those of each point.
    """

    name: str
    body: str
    points: tuple[Point, ...]
    numbers: Callable[[tuple[float, ...], tuple[int, ...], Chip], list[tuple[str, float, float, str]]]
    x_elements: int  # of f32
    out_elements: int
    all_cores: bool = False  # as of Kernel


@dataclass(frozen=True)
class Timing:
    """Kernels whose time is measured."""

    measures: tuple[Measure, ...]
    device: str = "timing"


@dataclass(frozen=True)
class Finding:
    """One line of a probe that is not a kernel: ``ok`` None means that it could not be tried, ``text`` says why."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True)
class Host:
    """Needs files and tools of CANN only, or its runtime too (``npu``). ``check(cann, soc, folder)``: ``soc`` is ""
    where no device names one; ``folder`` is for scratch files."""

    check: Callable[[Cann, str, Path], list[Finding]]
    npu: bool = False
    device: str = "host"


@dataclass(frozen=True)
class Graph:
    """Needs torch, torch_npu and TorchAir on an NPU. ``check(device)``: ``device`` is "npu"."""

    check: Callable[[str], list[Finding]]
    device: str = "graph"


@dataclass(frozen=True)
class NoProbe:
    """Cannot be decided by a small probe, or need not be."""

    why: str
    device: str = "none"


How = Kernel | Timing | Host | Graph | NoProbe


@dataclass(frozen=True)
class Probe:
    """``id``: the entry of docs/hardware-assumptions.md; ``title``: a short name; ``assumed``: one sentence."""

    id: str
    title: str
    assumed: str
    how: How
    archs: tuple[int, ...] = ARCHS


@dataclass(frozen=True)
class Result:
    """What came out. ``notes``: sentences; ``numbers``: (name, measured, table or None, unit); ``first``: the first
    elements that differ as dicts of case, index, input, expected, got (bits in hex beside values)."""

    id: str
    state: str
    notes: tuple[str, ...] = ()
    numbers: tuple[tuple[str, float, float | None, str], ...] = ()
    first: tuple[dict[str, str], ...] = ()
    seconds: float = 0.0
