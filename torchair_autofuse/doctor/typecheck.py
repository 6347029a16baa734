"""Type-checks generated kernels against Ascend C headers of the user's, with the user's compiler."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.deliver.jit.command import BuildFailed, run
from torchair_autofuse.deliver.jit.device import DeviceKernel, device_kernel
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef import artefact
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.options import read_options
from torchair_autofuse.probe.samples import sample_ops


@dataclass(frozen=True)
class _Compiler:
    """``program`` and its flags. ``device``: it is CANN's, which knows a kernel from host code."""

    program: str
    device: bool
    flags: tuple[str, ...]

    def command(self, kernel: DeviceKernel) -> list[str]:
        arch = kernel.npu_arch
        if self.device:
            return [self.program, "-fsyntax-only", f"--npu-arch=dav-{arch}", "-std=c++17", *self.flags, "kernel.asc"]
        return [self.program, "-fsyntax-only", f"-D__NPU_ARCH__={arch}", "-std=c++17", *self.flags, "kernel.cpp"]


def typecheck(includes: Sequence[Path], program: str, flags: Sequence[str]) -> int:
    """Prints one line per kernel: those recorded in the cache, and a set that uses every helper; 0 if all compile."""
    for folder in includes:
        if not folder.is_dir():
            return _fail(f"--ascendc-include {folder}: no such folder; it is the one that holds kernel_operator.h")
    found = _compiler(program, [*flags, *(f"-I{folder.absolute()}" for folder in includes)])
    if found is None:
        return _fail(f"{program or 'neither bisheng nor a C++ compiler'}: not found; name one with --compiler")
    kernels = list(_kernels(read_options().soc))
    print(f"{found.program} checks {len(kernels)} kernels")
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        problems = list(pool.map(lambda k: _check(found, k[1]), kernels))
    for (name, _), problem in zip(kernels, problems):
        print(f"{name}: {problem or 'ok'}")
    bad = sum(bool(p) for p in problems)
    print(f"{len(kernels) - bad} of {len(kernels)} kernels compile")
    if bad == len(kernels) and not found.device:
        print("the headers of CANN are for its own compiler: --compiler <CANN>/bin/bisheng")
    return 1 if bad else 0


def _compiler(program: str, flags: Sequence[str]) -> _Compiler | None:
    cann = find_cann()
    own = cann.tool("bisheng") if isinstance(cann, Cann) else shutil.which("bisheng")
    path = shutil.which(program) if program else own or shutil.which(os.environ.get("CXX", "g++"))
    return None if path is None else _Compiler(str(path), "bisheng" in Path(path).name, tuple(flags))


def _kernels(soc: str) -> Iterator[tuple[str, DeviceKernel]]:
    """(name, kernel): the samples, then what the cache holds for ``soc``."""
    for name, sample in sample_ops(soc).items():
        made = device_kernel(sample.op, soc, sample.text)
        if isinstance(made, DeviceKernel):
            yield name, made
    root = Path(read_options().cache_root())
    for folder in sorted((root / "ops").glob("Autofuse*")):
        try:
            op = artefact.read(root, folder.name, soc).op
        except (ArtefactError, OpDefError) as error:
            print(f"{folder.name}: left out, {error}", file=sys.stderr)
            continue
        made = device_kernel(op, soc)
        if isinstance(made, Reason):
            print(f"{folder.name}: left out, {made.text}", file=sys.stderr)
        else:
            yield folder.name, made


def _check(compiler: _Compiler, kernel: DeviceKernel) -> str:
    """What the compiler says against a kernel, "" if nothing."""
    with tempfile.TemporaryDirectory() as work:
        for name, text in kernel.files.items():
            Path(work, name).write_text(text, encoding="utf-8")
        try:
            run([compiler.command(kernel)], Path(work), Path(work, "log"))
        except BuildFailed as error:
            return str(error)
    return ""


def _fail(text: str) -> int:
    print(f"torchair_autofuse: {text}", file=sys.stderr)
    return 2
