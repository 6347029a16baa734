"""What a machine without an NPU needs, and what the user chose."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator

from torchair_autofuse.doctor.finding import Finding
from torchair_autofuse.host import loader
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.soc.chip import chip


def installed() -> Iterator[Finding]:
    """Python and the packages that matter."""
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.machine()}")
    for package, need in (("torch", "2.13.0"), ("torch_npu", "2.13.0"), ("protobuf", "3.20 to 7")):
        yield _package(package, need)
    yield _torchair()


def chosen(options: Options) -> Iterator[Finding]:
    """Compiler, chip, cache and flags."""
    yield _compiler()
    target = chip(options.soc)
    if isinstance(target, Reason):
        yield Finding("chip", "missing", str(target), "set TORCHAIR_AUTOFUSE_SOC to a supported SoC")
    else:
        yield Finding("chip", "ok", f"{target.soc}: architecture {target.npu_arch}, {target.vector_cores} vector cores")
    yield _cache(options.cache_root())
    state = "ok" if options.enabled else "note"
    passes = ", ".join(sorted(options.passes)) or "none beyond elementwise"
    text = f"fusion {'on' if options.enabled else 'off'}; passes: {passes}"
    yield Finding("flags", state, text, "" if options.enabled else 'AUTOFUSE_FLAGS="--enable_autofuse=true"')
    for reason in options.warnings:
        yield Finding("flags", "note", str(reason), f"see docs/codes/{reason.code}.md")


def _package(name: str, need: str) -> Finding:
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", f"not installed (needs {need})", "pip install -e '.[host]' in a checkout")
    tested = " to " in need or found.split("+")[0] == need
    return Finding(name, "ok" if tested else "note", found, "" if tested else f"tested with {need} only")


def _torchair() -> Finding:
    try:
        import torchair
    except Exception as error:
        advice = "import torchair_autofuse before torch" if "torch" in sys.modules else "pip install torch_npu==2.13.0"
        return Finding("torchair", "missing", f"{type(error).__name__}: {error}", advice)
    where = "its own CANN" if loader.cann_present() else "the torch_npu wheel, on the host"
    return Finding("torchair", "ok", f"imports from {where}" if torchair else "")


def _compiler() -> Finding:
    from torchair_autofuse.twin.toolchain import find_compiler

    try:
        found = find_compiler()
    except RuntimeError as error:
        return Finding("C++ compiler", "missing", str(error), "install g++ (apt-get install g++)")
    return Finding("C++ compiler", "ok", f"{found.compiler}: {found.version}")


def _cache(root: str | os.PathLike[str]) -> Finding:
    try:
        os.makedirs(root, exist_ok=True)
        if not os.access(root, os.W_OK):
            raise PermissionError(f"{root} is not writable")
    except OSError as error:
        return Finding("cache", "missing", str(error), "set TORCHAIR_AUTOFUSE_CACHE_DIR to a folder of yours")
    return Finding("cache", "ok", str(root))
