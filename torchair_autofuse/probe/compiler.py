"""Device binaries of probe kernels, by CANN's compiler as the JIT route calls it."""

from __future__ import annotations

from pathlib import Path

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.jit.command import BuildFailed, run
from torchair_autofuse.deliver.jit.device import BINARY, SOURCE, commands
from torchair_autofuse.probe.device import DeviceError, Source, Unavailable


def compile_kernel(source: Source, cann: Cann, npu_arch: int, work: Path) -> Path:
    """The binary, in the folder ``work``. Raises Unavailable, and DeviceError when the compiler refuses the text."""
    (work / SOURCE).write_text(source.text, encoding="utf-8")
    try:
        todo = commands(cann, npu_arch, work)
    except BuildFailed as error:
        raise Unavailable(str(error)) from None
    try:
        run(todo, work, work / "build.log", {"ASCEND_HOME_PATH": str(cann.home)})
    except BuildFailed as error:
        raise DeviceError(f"the kernel does not compile: {error}") from None
    binary = work / BINARY
    if not binary.is_file() or binary.stat().st_size == 0:
        raise DeviceError("the compiler made no code for the device")
    return binary
