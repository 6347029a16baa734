"""The host C++ compiler: which one, with which flags, and a key that names both."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from torchair_autofuse.digests import digest, files_digest

from .errors import NoCompiler

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"
ARCHS = (2201, 3510, 2002)

_CANDIDATES = ("g++", "c++", "clang++")
_COMMON = ("-std=c++17", "-fPIC", "-pipe", "-ffp-contract=off")
KERNEL_FLAGS = (*_COMMON, "-O1", "-g1", "-fvisibility=hidden", "-Werror=narrowing", "-Wno-unused")
RUNTIME_FLAGS = (*_COMMON, "-O3", "-fno-math-errno", "-pthread")


@dataclass(frozen=True)
class Toolchain:
    """A compiler with the machine flags the runtime is built with; ``key`` changes when any of it does."""

    compiler: str
    version: str
    machine_flags: tuple[str, ...]
    is_gcc: bool

    @property
    def key(self) -> str:
        text = "\n".join((self.version, platform.machine(), *self.machine_flags, *KERNEL_FLAGS, *RUNTIME_FLAGS))
        return digest(text.encode())


def find_compiler() -> Toolchain:
    """The compiler of ``CXX``, or the first of g++, c++, clang++ on the path.

    Raises:
        NoCompiler: there is none, or it cannot be run.
    """
    wanted = os.environ.get("CXX")
    names = (wanted,) if wanted else _CANDIDATES
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return _probe(path)
    raise NoCompiler(
        f"no C++ compiler found (looked for {', '.join(names)}); generated kernels are built with g++ on the host. "
        "Install g++ 9 or later, or point CXX at a C++17 compiler"
    )


@functools.lru_cache(maxsize=8)
def _probe(path: str) -> Toolchain:
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoCompiler(f"{path} --version failed: {error}") from error
    version = run.stdout.splitlines()[0] if run.stdout else path
    return Toolchain(path, version, _machine_flags(), "clang" not in run.stdout.lower())


def _machine_flags() -> tuple[str, ...]:
    """Vector extensions of this machine that the runtime uses (they are part of the cache key)."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    line = next((x for x in text.splitlines() if x.startswith("flags")), "")
    words = set(line.split())
    return tuple(f"-m{name}" for name in ("avx2", "f16c") if name in words)


@functools.lru_cache(maxsize=1)
def sources_key() -> str:
    """Digest of every header and runtime source of the twin."""
    return files_digest((p.relative_to(HERE).as_posix(), p) for p in (*INCLUDE.rglob("*.h"), *RUNTIME.glob("*")))
