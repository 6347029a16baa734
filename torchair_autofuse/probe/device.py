"""What runs a probe's kernel: the CPU twin or an NPU, behind one small interface."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from torchair_autofuse.probe.record import Array
from torchair_autofuse.soc.chip import DEFAULT_SOC, Chip, chip
from torchair_autofuse.twin.build import build
from torchair_autofuse.twin.errors import TwinViolation
from torchair_autofuse.twin.launcher import load


class DeviceError(RuntimeError):
    """A step on the device failed after a kernel was launched: the kernel did not do what was assumed."""


class Unavailable(RuntimeError):
    """Something failed before a launch; nothing is known about the assumption."""


@dataclass(frozen=True)
class Source:
    """Kernel text with the signature of ``frame.source``. ``all_cores``: its blocks must run at once."""

    text: str
    entry: str
    all_cores: bool = False


@dataclass(frozen=True)
class Ran:
    """``out``: the output buffer after the last launch; ``seconds`` per launch, waiting included."""

    out: Array
    seconds: float


class Device(Protocol):
    """``npu``: whether times and numeric results are those of an NPU. ``chip``: what the kernels are compiled for."""

    npu: bool
    chip: Chip

    def run(
        self, source: Source, inputs: Sequence[Array], out: Array, *, workspace: int, block_dim: int, tiling: bytes,
        count: int = 1,
    ) -> Ran:  # fmt: skip
        """Launches the kernel ``count`` times over x, y = ``inputs`` and a copy of ``out``.

        ``workspace``: user bytes, filled with 0xFF (NaN as f32) before the first launch. Raises Unavailable or
        DeviceError.
        """


@dataclass(frozen=True)
class DeviceSpec:
    """How a process of its own opens the device. ``kind``: "twin" or "npu"; ``home``: CANN's folder for "npu"."""

    kind: str
    soc: str = DEFAULT_SOC
    home: str = ""
    index: int = 0
    cache: str = ""

    def open(self) -> Device:
        """Raises Unavailable."""
        if self.kind == "twin":
            return TwinDevice(self.soc, Path(self.cache) if self.cache else None)
        from torchair_autofuse.probe.npu import NpuDevice

        return NpuDevice(self)


def known_chip(soc: str) -> Chip:
    """The chip of a SoC that is known. Raises Unavailable otherwise."""
    found = chip(soc)
    if not isinstance(found, Chip):
        raise Unavailable(str(found))
    return found


def _aligned(a: Array) -> Array:
    """A copy that starts where memory of a device does: at a multiple of 512 bytes."""
    room = np.empty(a.nbytes + 512, np.uint8)
    start = -room.ctypes.data % 512
    made: Array = room[start : start + a.nbytes].view(a.dtype)
    made[:] = a
    return made


class TwinDevice:
    """The CPU twin of the chip of ``soc``; it implements the assumptions, so its results check the probes."""

    npu = False

    def __init__(self, soc: str = DEFAULT_SOC, cache: Path | None = None) -> None:
        self.chip = known_chip(soc)
        self._cache = cache

    def run(
        self, source: Source, inputs: Sequence[Array], out: Array, *, workspace: int, block_dim: int, tiling: bytes,
        count: int = 1,
    ) -> Ran:  # fmt: skip
        """See :class:`Device`; a broken rule of the chip is a DeviceError."""
        try:
            kernel = load(build(source.text, source.entry, npu_arch=self.chip.npu_arch, cache_root=self._cache))
        except RuntimeError as error:
            raise Unavailable(str(error)) from None
        given, made = [_aligned(a) for a in inputs], _aligned(out)
        scratch = _aligned(np.full(max(1, workspace), 0xFF, np.uint8))
        args = [(a.ctypes.data, a.nbytes, "in") for a in given] + [(made.ctypes.data, made.nbytes, "out")]
        if workspace:
            args.append((scratch.ctypes.data, workspace, "workspace"))
        start = time.perf_counter()
        for seed in range(count):
            try:
                kernel.launch(
                    args, tiling, block_dim=block_dim, seed=seed, max_blocks=self.chip.vector_cores,
                    threads=os.cpu_count(),
                )  # fmt: skip
            except TwinViolation as error:
                raise DeviceError(str(error)) from None
        return Ran(made, (time.perf_counter() - start) / count)
