"""An NPU as a :class:`Device`: kernels compiled by CANN's compiler, loaded and launched by its runtime library."""

from __future__ import annotations

import ctypes
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.probe.acl import Acl
from torchair_autofuse.probe.compiler import compile_kernel
from torchair_autofuse.probe.device import DeviceSpec, Ran, Source, Unavailable, known_chip
from torchair_autofuse.probe.record import Array

SYSTEM_WORKSPACE = 16 << 20
"""Bytes ahead of the user's workspace on 2201 and 3510 (Ascend C: GetLibApiWorkSpaceSize)."""


def cann_of(home: str) -> Cann:
    """The CANN in ``home``. Raises Unavailable."""
    found = find_cann({"ASCEND_HOME_PATH": home})
    if not isinstance(found, Cann):
        raise Unavailable(str(found))
    return found


class NpuDevice:
    """A device of this machine, for one process: it is given back when the process ends."""

    npu = True

    def __init__(self, spec: DeviceSpec) -> None:
        self._cann = cann_of(spec.home)
        self._acl = Acl(self._cann.home)
        soc = self._acl.open(spec.index)
        self.chip = known_chip(soc)
        self._functions: dict[Source, int] = {}

    def run(
        self, source: Source, inputs: Sequence[Array], out: Array, *, workspace: int, block_dim: int, tiling: bytes,
        count: int = 1,
    ) -> Ran:  # fmt: skip
        """See :class:`Device`. Of several launches the first one is not timed."""
        acl, function = self._acl, self._function(source)
        made = out.copy()
        packed = tiling + struct.pack("<Q", acl.meeting_place() if source.all_cores else 0)
        held = [acl.allocate(a.nbytes) for a in (*inputs, out)]
        held += [acl.allocate(SYSTEM_WORKSPACE + workspace), acl.allocate(len(packed))]
        for address, a in zip(held, (*inputs, out)):
            acl.upload(address, a.ctypes.data, a.nbytes)
        if workspace:
            acl.fill(held[-2], 0, SYSTEM_WORKSPACE)
            acl.fill(held[-2] + SYSTEM_WORKSPACE, 0xFF, workspace)
        acl.upload(held[-1], _address(packed), len(packed))
        if count > 1:
            acl.launch(function, block_dim, held, source.all_cores)
            acl.wait()
        start = time.perf_counter()
        for _ in range(count):
            acl.launch(function, block_dim, held, source.all_cores)
        acl.wait()
        seconds = (time.perf_counter() - start) / count
        acl.download(made.ctypes.data, held[len(inputs)], made.nbytes)
        for address in held:
            acl.free(address)
        return Ran(made, seconds)

    def _function(self, source: Source) -> int:
        if source not in self._functions:
            with tempfile.TemporaryDirectory(prefix="afprobe-") as folder:
                binary = compile_kernel(source, self._cann, self.chip.npu_arch, Path(folder))
                self._functions[source] = self._acl.load(binary, source.entry, source.all_cores)
        return self._functions[source]


def _address(data: bytes) -> int:
    """Where the bytes lie; they must outlive its use."""
    return int(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0)
