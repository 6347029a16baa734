"""Loads a kernel built for the twin and launches it over memory of this process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .build import BuildJob, build_job, discard
from .errors import TwinViolation

KINDS = {"in": 0, "out": 1, "workspace": 2}


@dataclass(frozen=True)
class ArgProfile:
    """Traffic of one kernel argument in bytes; ``unwritten`` counts bytes of an output that nobody wrote."""

    kind: str
    nbytes: int
    read: int
    written: int
    unwritten: int


@dataclass(frozen=True)
class TwinProfile:
    """What a launch did, summed over its blocks (``ub_peak_bytes``: the maximum).

    ``dma_in``, ``dma_out``: copy instructions between GM and UB; ``dma_blocks``: the contiguous pieces they move.
    """

    block_dim: int
    scalar_instructions: int
    vector_instructions: int
    mte2_instructions: int
    mte3_instructions: int
    vector_elements: int
    vector_repeats: int
    gm_read_bytes: int
    gm_written_bytes: int
    dma_in: int
    dma_out: int
    ub_peak_bytes: int
    barriers: int
    flags: int
    sync_alls: int
    queue_allocs: int
    dma_blocks: int
    args: tuple[ArgProfile, ...]

    @property
    def gm_bytes(self) -> int:
        """Bytes moved between GM and UB, both directions."""
        return self.gm_read_bytes + self.gm_written_bytes

    @property
    def mean_dma_bytes(self) -> float:
        """Mean bytes of a copy instruction (0 without any)."""
        count = self.dma_in + self.dma_out
        return self.gm_bytes / count if count else 0.0

    @property
    def mean_block_bytes(self) -> float:
        """Mean bytes of a contiguous piece of a copy (0 without any)."""
        return self.gm_bytes / self.dma_blocks if self.dma_blocks else 0.0


class _Info(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32), ("arch", ctypes.c_uint32), ("params", ctypes.c_uint32), ("call", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("marks", ctypes.POINTER(ctypes.c_uint32)),
    ]  # fmt: skip


class _Arg(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32), ("read", ctypes.c_uint64), ("written", ctypes.c_uint64),
        ("unwritten", ctypes.c_uint64),
    ]  # fmt: skip


class _Result(ctypes.Structure):
    _fields_ = [
        ("status", ctypes.c_int32), ("nframes", ctypes.c_int32), ("block", ctypes.c_int64),
        ("rule", ctypes.c_char * 32), ("message", ctypes.c_char * 1024),
        ("frames", ctypes.c_uint64 * 32), ("counters", ctypes.c_uint64 * 20),
    ]  # fmt: skip


class TwinKernel:
    """A built kernel. Loading is cheap; keep one object per library when launching often."""

    def __init__(self, so_path: str | os.PathLike[str]) -> None:
        self.path = Path(so_path)
        self._lib = ctypes.CDLL(str(self.path))
        info = self._lib.twin_kernel_info
        info.restype = ctypes.POINTER(_Info)
        self._info = info()
        record = self._info.contents
        self.arch = int(record.arch)
        self.entry = record.name.decode()
        self.params = int(record.params)
        self.uses_sync_all = bool(record.marks[0] & 1)
        self._launch = self._lib.twin_launch  # from the runtime library the kernel is linked to
        self._launch.restype = ctypes.c_int

    def launch(
        self,
        args: Sequence[tuple[int, int, str]],
        tiling: bytes,
        tiling_key: int = 0,
        block_dim: int = 1,
        seed: int = 0,
        max_blocks: int = 48,
        threads: int | None = None,
    ) -> TwinProfile:
        """Runs the kernel over all its blocks.

        Args:
            args: (address, size in bytes, kind) of inputs and outputs in the kernel's order, and at most one workspace
                (its user part: what ``GetUserWorkspace`` returns). Kinds: "in", "out", "workspace". An output may
                have the address of an input.
            tiling: bytes of the tiling struct.
            tiling_key: what ``TILING_KEY_IS`` compares with.
            block_dim: blocks to run, 1..max_blocks.
            seed: order in which blocks start.
            max_blocks: vector cores of the chip.
            threads: host threads (default: the machine's); kernels with SyncAll use one per block.

        Raises:
            TwinViolation: the kernel broke a rule (AF406).
            TypeError: the number of arguments is not the kernel's.
            ValueError: an unknown kind or a second workspace.
        """
        records = (_Arg * max(1, len(args)))()
        for record, (address, nbytes, kind) in zip(records, args):
            if kind not in KINDS:
                raise ValueError(f"argument kind {kind!r} is not one of {', '.join(KINDS)}")
            record.address, record.bytes, record.kind = address, nbytes, KINDS[kind]
        if sum(kind == "workspace" for _, _, kind in args) > 1:
            raise ValueError("a kernel has at most one workspace")
        buffer = ctypes.create_string_buffer(tiling, max(8, len(tiling)))
        result = _Result()
        status = self._launch(
            self._info, records, ctypes.c_uint32(len(args)), buffer, ctypes.c_uint64(len(tiling)),
            ctypes.c_uint64(tiling_key), ctypes.c_int64(block_dim), ctypes.c_uint64(seed & (2**64 - 1)),
            ctypes.c_int64(max_blocks), ctypes.c_uint32(threads or os.cpu_count() or 1), ctypes.byref(result),
        )  # fmt: skip
        if status == 2:
            error = TypeError if result.rule == b"params" else RuntimeError
            raise error(f"{self.entry}: {result.message.decode()}")
        if status != 0:
            block = None if result.block < 0 else int(result.block)
            where = self._where([int(result.frames[i]) for i in range(result.nframes)])
            raise TwinViolation(result.rule.decode(), result.message.decode(errors="replace"), block=block, where=where)
        return self._profile(block_dim, args, records, result)

    def _profile(
        self, block_dim: int, args: Sequence[tuple[int, int, str]], records: ctypes.Array[_Arg], result: _Result
    ) -> TwinProfile:
        c = [int(x) for x in result.counters]
        per_arg = tuple(
            ArgProfile(kind, nbytes, int(r.read), int(r.written), int(r.unwritten))
            for r, (_, nbytes, kind) in zip(records, args)
        )
        return TwinProfile(
            block_dim=block_dim, scalar_instructions=c[0], vector_instructions=c[1], mte2_instructions=c[2],
            mte3_instructions=c[3], vector_elements=c[4], vector_repeats=c[5], gm_read_bytes=c[6],
            gm_written_bytes=c[7], dma_in=c[8], dma_out=c[9], ub_peak_bytes=c[10], barriers=c[11], flags=c[12],
            sync_alls=c[13], queue_allocs=c[14], dma_blocks=c[15],
            args=per_arg,
        )  # fmt: skip

    def _where(self, frames: list[int]) -> str | None:
        """File and line in the kernel's own source of the call that broke the rule, when addr2line is there."""
        tool = shutil.which("addr2line")
        if tool is None or not frames:
            return None
        command = [tool, "-i", "-e", str(self.path), *(hex(address - 1) for address in frames)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            return None
        for line in run.stdout.splitlines():
            place = line.split(" ")[0]
            name, _, number = place.rpartition(":")
            if number.isdigit() and "twin/" not in name and "twin_wrapper_" not in name and not name.startswith("?"):
                return f"{Path(name).name}:{number}"
        return None


def open_built(job: BuildJob, built: Path, cache_root: Path | None = None) -> TwinKernel:
    """The kernel of ``job`` in its library ``built``, which is built anew if it cannot be loaded.

    Raises KernelBuildError, and OSError when what was just built cannot be loaded either.
    """
    try:
        return TwinKernel(built)
    except OSError:
        discard(job, cache_root)
        return TwinKernel(build_job(job, cache_root))


_LOADED: dict[str, TwinKernel] = {}


def load(so_path: str | os.PathLike[str]) -> TwinKernel:
    """The kernel of a library, loaded once per process."""
    key = str(so_path)
    if key not in _LOADED:
        _LOADED[key] = TwinKernel(so_path)
    return _LOADED[key]
