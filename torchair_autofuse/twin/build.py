"""Builds kernels for the CPU twin into a content-addressed cache.

The checking runtime and, per chip, a precompiled ``kernel_operator.h`` are built once per compiler; a kernel then takes
well under a second. What several processes want at once is built by one of them, and each result is compared with its
recorded digest before it is used (cache.built).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from torchair_autofuse import progress
from torchair_autofuse.cache.built import Store
from torchair_autofuse.digests import digest

from .errors import KernelBuildError
from .toolchain import (
    ARCHS,
    INCLUDE,
    KERNEL_FLAGS,
    RUNTIME,
    RUNTIME_FLAGS,
    Toolchain,
    find_compiler,
    sources_key,
)

Sources = Mapping[str, str]


@dataclass(frozen=True)
class BuildJob:
    """A kernel to build: its files (name -> text), entry function and chip (``__NPU_ARCH__``).

    ``files`` must hold ``main`` (default ``kernel.cpp``), which is compiled; the others are what it includes.
    """

    files: Sources
    entry: str
    npu_arch: int = 2201
    main: str = "kernel.cpp"
    defines: tuple[str, ...] = field(default=())

    def key(self, toolchain: Toolchain) -> str:
        parts = [toolchain.key, sources_key(), self.entry, str(self.npu_arch), self.main, *self.defines]
        for name in sorted(self.files):
            parts += [name, self.files[name]]
        return digest("\0".join(parts).encode())


def default_cache_root() -> Path:
    """``TORCHAIR_AUTOFUSE_CACHE_DIR``, or the user's cache folder."""
    configured = os.environ.get("TORCHAIR_AUTOFUSE_CACHE_DIR")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("torchair_autofuse"))


def read_sources(source: Path | str | Sources) -> dict[str, str]:
    """Files of a kernel: of a folder (its ``*.cpp`` and ``*.h``), of one text (``kernel.cpp``), or a mapping."""
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, Path):
        if not source.is_dir():
            raise FileNotFoundError(f"{source} is not a folder with kernel sources")
        return {p.name: p.read_text() for p in sorted(source.iterdir()) if p.suffix in (".cpp", ".h", ".hpp")}
    return {"kernel.cpp": source}


def build(
    source: Path | str | Sources,
    entry: str,
    *,
    npu_arch: int = 2201,
    cache_root: Path | None = None,
    main: str = "kernel.cpp",
    defines: tuple[str, ...] = (),
) -> Path:
    """Builds one kernel and returns the shared library; a second call with the same text finds it in the cache.

    Args:
        source: a folder, the text of ``kernel.cpp``, or a mapping of file names to texts.
        entry: name of the ``extern "C"`` kernel function.
        npu_arch: 2201, 3510 or 2002.
        cache_root: where to keep results; see :func:`default_cache_root`.
        main: the file to compile.
        defines: extra preprocessor definitions (``NAME`` or ``NAME=VALUE``).

    Raises:
        NoCompiler: no C++ compiler (AF404).
        KernelBuildError: the kernel does not compile (AF405).
        CacheError: others could write to the cache, or it cannot be written.
    """
    return build_job(BuildJob(read_sources(source), entry, npu_arch, main, defines), cache_root)


def build_job(job: BuildJob, cache_root: Path | None = None) -> Path:
    """:func:`build` for a :class:`BuildJob`."""
    if job.npu_arch not in ARCHS:
        raise ValueError(f"npu_arch {job.npu_arch} is not one of {', '.join(map(str, ARCHS))}")
    if job.main not in job.files:
        raise ValueError(f"the kernel has no file {job.main!r} (it has {', '.join(sorted(job.files)) or 'none'})")
    toolchain = find_compiler()
    kept = store(cache_root)
    name = f"kernels/{job.key(toolchain)}.so"
    runtime = runtime_library(toolchain, kept)
    built = kept.find(name)
    if built is not None:
        return built
    header = precompiled_header(toolchain, kept, job.npu_arch)
    return kept.once(name, lambda work: _compile_kernel(job, toolchain, runtime, header, work))


def discard(job: BuildJob, cache_root: Path | None = None) -> None:
    """Removes a kernel that cannot be loaded and its runtime, so that the next build makes them anew."""
    toolchain, kept = find_compiler(), store(cache_root)
    kept.discard(f"kernels/{job.key(toolchain)}.so")
    kept.discard(_runtime_name(toolchain))


def build_many(
    jobs: Iterable[BuildJob], *, cache_root: Path | None = None, workers: int | None = None
) -> list[Path | KernelBuildError]:
    """Builds many kernels in parallel; the result of a kernel that does not compile is its error, in the same place.

    On a terminal it shows how far it is.
    """
    todo = list(jobs)
    if not todo:
        return []

    def one(job: BuildJob) -> Path | KernelBuildError:
        try:
            return build_job(job, cache_root)
        except KernelBuildError as error:
            return error
        finally:
            shown.done()

    workers = workers or os.cpu_count() or 1
    with progress.steps("building kernels", len(todo)) as shown, ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, todo))


def runtime_library(toolchain: Toolchain, kept: Store) -> Path:
    """The checking runtime, built on first use."""
    name = _runtime_name(toolchain)
    return kept.once(name, lambda work: _compile_runtime(toolchain, work))


def precompiled_header(toolchain: Toolchain, kept: Store, arch: int) -> Path | None:
    """The folder with the precompiled header of a chip, or None where the compiler has no such thing."""
    if not toolchain.is_gcc:
        return None
    key = digest((toolchain.key + sources_key() + str(INCLUDE) + str(arch)).encode())
    folder = kept.folder / "pch" / f"{arch}-{key}"

    def compile_header(work: Path) -> Path:
        out = work / "kernel_operator.h.gch"
        command = [toolchain.compiler, *KERNEL_FLAGS, f"-D__NPU_ARCH__={arch}", f"-I{INCLUDE}"]
        command += ["-x", "c++-header", str(INCLUDE / "kernel_operator.h"), "-o", str(out)]
        with progress.note("building the twin, once"):
            run_compiler(command, work, "the twin's headers")
        return out

    kept.once(f"pch/{folder.name}/kernel_operator.h.gch", compile_header)
    # A later #include of the same name must find a file beside the precompiled one.
    stub = folder / "kernel_operator.h"
    if not stub.exists():
        stub.write_text("#include_next <kernel_operator.h>\n")
        stub.chmod(0o644)
    return folder


def store(cache_root: Path | None) -> Store:
    """What is built for the twin in a cache, by default in :func:`default_cache_root`."""
    return Store(cache_root or default_cache_root(), "twin", sources_key())


def _runtime_name(toolchain: Toolchain) -> str:
    return f"runtime/{digest((toolchain.key + sources_key()).encode())}/libtwin_rt.so"


def _compile_runtime(toolchain: Toolchain, work: Path) -> Path:
    flags = [toolchain.compiler, *RUNTIME_FLAGS, *toolchain.machine_flags]

    def compile_one(source: Path) -> Path:
        out = work / f"{source.stem}.o"
        run_compiler([*flags, "-c", str(source), "-o", str(out)], work, f"the twin's {source.name}")
        return out

    with progress.note("building the twin, once"), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_one, sorted(RUNTIME.glob("*.cpp"))))
    out = work / "libtwin_rt.so"
    run_compiler(
        [*flags, "-shared", *map(str, objects), "-o", str(out), "-Wl,-soname,libtwin_rt.so", "-ldl"],
        work,
        "the runtime",
    )
    return out


def _compile_kernel(job: BuildJob, toolchain: Toolchain, runtime: Path, header: Path | None, work: Path) -> Path:
    for name, text in job.files.items():
        if Path(name).name != name:
            raise ValueError(f"kernel file name {name!r} must not contain a folder")
        (work / name).write_text(text)
    # The wrapper includes the header first, which a precompiled header needs.
    wrapper = work / "twin_wrapper_.cpp"
    wrapper.write_text(f'#include "kernel_operator.h"\n#include "{job.main}"\nTWIN_EXPORT_KERNEL({job.entry})\n')
    out = work / "kernel.so"
    command = [toolchain.compiler, *KERNEL_FLAGS, f"-D__NPU_ARCH__={job.npu_arch}", *(f"-D{d}" for d in job.defines)]
    if header is not None:
        command.append(f"-I{header}")
    command += [f"-I{INCLUDE}", f"-I{work}", f"-fdebug-prefix-map={work}=.", f"-fdebug-prefix-map={INCLUDE}=twin"]
    up = os.path.relpath(runtime.parent, work.parent)
    command += ["-shared", str(wrapper), "-o", str(out), f"-L{runtime.parent}", "-ltwin_rt", f"-Wl,-rpath,$ORIGIN/{up}"]
    run_compiler(command, work, f"kernel {job.entry}")
    return out


def run_compiler(command: list[str], work: Path, what: str) -> None:
    """Runs a command in ``work``. Raises KernelBuildError for ``what`` with the compiler's first errors."""
    run = subprocess.run(command, cwd=work, capture_output=True, text=True, errors="replace")
    if run.returncode != 0:
        raise KernelBuildError(f"{what} did not build", _first_errors(run.stderr, work))


def _first_errors(text: str, work: Path, limit: int = 12) -> str:
    lines = [line.replace(f"{work}/", "") for line in text.splitlines()]
    starts = [i for i, line in enumerate(lines) if "error" in line]
    if not starts:
        return "\n".join(lines[:limit])
    picked: list[str] = []
    for i in starts:
        picked += [line for line in lines[i : i + 2] if line not in picked]
        if len(picked) >= limit:
            break
    return "\n".join(picked[:limit])
