"""Device binaries of probe kernels, by CANN's compiler as the JIT route calls it."""

from __future__ import annotations

from pathlib import Path

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.jit.command import BuildFailed, MissingTool
from torchair_autofuse.deliver.jit.device import SOURCE, build_binary
from torchair_autofuse.probe.device import DeviceError, Source, Unavailable


def compile_kernel(source: Source, cann: Cann, npu_arch: int, work: Path) -> Path:
    """The binary, in the folder ``work``. Raises Unavailable, and DeviceError when the compiler refuses the text."""
    (work / SOURCE).write_text(source.text, encoding="utf-8")
    try:
        return build_binary(cann, npu_arch, work, work / "build.log")
    except MissingTool as error:
        raise Unavailable(str(error)) from None
    except BuildFailed as error:
        raise DeviceError(f"the kernel does not compile: {error}") from None
