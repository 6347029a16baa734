"""Device binaries of fused ops: the kernel in an entry for a direct launch, compiled by CANN's compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchair_autofuse.cache.safety import CacheError
from torchair_autofuse.codegen.kernel import KernelText
from torchair_autofuse.codegen.op_host import tiling_struct
from torchair_autofuse.codegen.templates import render
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.jit.command import BuildFailed, MissingTool, run
from torchair_autofuse.deliver.jit.folder import place, store
from torchair_autofuse.digests import digest
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.regenerate import regenerate

ARCHS = (2201, 3510)
"""Architectures that run custom ops of GE's second kind."""
MEETING_ARCHS = (2201,)
"""Of these, where the runtime names a place for the blocks of a kernel to meet (aclrtGetHardwareSyncAddr)."""

SOURCE, BINARY = "kernel.asc", "kernel.aicore.o"
"""What :func:`commands` compile, and what they leave."""
_MEETS = "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0)"


@dataclass(frozen=True)
class DeviceKernel:
    """What is compiled of an op for one SoC: ``files`` by name. ``meets``: its blocks wait for each other."""

    op: Any
    soc: str
    npu_arch: int
    files: dict[str, str]
    meets: bool

    def digest(self) -> str:
        parts = [str(self.npu_arch), *(f"{n}\0{self.files[n]}" for n in sorted(self.files))]
        return digest("\0".join(parts).encode())


def device_kernel(op: Any, soc: str, text: KernelText | None = None) -> DeviceKernel | Reason:
    """The sources of an op's device binary for ``soc``, or why it has none (AF503).

    ``text``: its kernel for that SoC where it is at hand, else it is made again from the definition.
    """
    try:
        made = Definition.of(op, soc)
        text = regenerate(op, soc).text if text is None else text
    except OpDefError as error:
        return Reason("AF503", str(error))
    arch, meets = made.schedule.npu_arch, _MEETS in text.kernel_cpp
    if arch not in ARCHS or (meets and arch not in MEETING_ARCHS):
        what = "an op whose blocks wait for each other" if arch in ARCHS else "the JIT route"
        return Reason("AF503", f"{op.op_type}: {what} is not available on {soc} (architecture {arch})")
    names = [f"a{i}" for i in range(len(op.input) + len(op.output))]
    wrapper = render(
        "jit/kernel.asc.j2",
        op_type=op.op_type,
        npu_arch=arch,
        entry=text.entry,
        tiling=tiling_struct(made.kernel),
        tiling_bytes=8 * len(text.fields),
        meets=meets,
        params=", ".join(f"GM_ADDR {n}" for n in names),
        args=", ".join(names),
    )
    files = {"kernel.cpp": text.kernel_cpp, "tiling.h": text.tiling_h, SOURCE: wrapper}
    return DeviceKernel(op, made.schedule.soc, arch, files, meets)


def compile_all(kernels: Sequence[DeviceKernel], cann: Cann, root: Path) -> list[Path | Reason]:
    """The device binaries of ``kernels`` in the cache ``root``, compiled in parallel where they are missing.

    In the place of one that does not compile is its AF503. Sources, commands and their output stay beside each.
    """
    if not kernels:
        return []
    with ThreadPoolExecutor(min(len(kernels), os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda kernel: _compile(kernel, cann, root), kernels))


def _compile(kernel: DeviceKernel, cann: Cann, root: Path) -> Path | Reason:
    kept, name = store(root), f"{place(cann)}/k/{kernel.digest()}/{BINARY}"
    folder = (kept.folder / name).parent

    def make(work: Path) -> Path:
        for target in (work, folder):
            for file, text in kernel.files.items():
                (target / file).write_text(text, encoding="utf-8")
        return build_binary(cann, kernel.npu_arch, work, folder / "build.log")

    try:
        return kept.once(name, make)
    except BuildFailed as error:
        return Reason("AF503", f"{kernel.op.op_type}: {error} (in {folder})")
    except (OSError, CacheError) as error:
        return Reason("AF503", f"{kernel.op.op_type}: its device binary cannot be kept: {error}")


def build_binary(cann: Cann, npu_arch: int, work: Path, log: Path) -> Path:
    """Compiles SOURCE in the folder ``work`` to BINARY beside it, and writes ``log``.

    Raises MissingTool, and BuildFailed when the compiler refuses the source.
    """
    run(_commands(cann, npu_arch, work), work, log, {"ASCEND_HOME_PATH": str(cann.home)})
    binary = work / BINARY
    if not binary.is_file() or binary.stat().st_size == 0:
        raise BuildFailed("the compiler made no code for the device")
    return binary


def _commands(cann: Cann, npu_arch: int, work: Path) -> list[list[str]]:
    bisheng, objcopy = _tool(cann, "bisheng"), _tool(cann, "llvm-objcopy")
    include = cann.home / "asc" / "include"
    flags = [f"--npu-arch=dav-{npu_arch}", "-O2", "-std=c++17", f"-I{work}"]
    flags += [f"-I{include}"] if include.is_dir() else []
    return [
        [bisheng, "-c", SOURCE, "-o", "kernel.host.o", *flags],
        [objcopy, "-O", "binary", "--only-section=.aicore_binary", "kernel.host.o", BINARY],
    ]


def _tool(cann: Cann, name: str) -> str:
    found = cann.tool(name)
    if found is None:
        raise MissingTool(f"{name}: not in {cann.home} and not on the path; source {cann.set_env}")
    return str(found)
