"""Compiles a generated op_host.cpp as it stands against look-alikes of CANN's headers, and runs its functions here.

Beside the numbers, this shows that the host code keeps to the rules of registration and tiling: what CANN would
overwrite silently or report only on a device (a block dim beyond the cores, an output that was not set, two columns of
different length, ...) raises HostRuleError.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from torchair_autofuse import dtypes
from torchair_autofuse.cache.built import Store
from torchair_autofuse.digests import digest, files_digest
from torchair_autofuse.dtypes import DType
from torchair_autofuse.soc.chip import Chip

from .build import run_compiler, store
from .errors import HostRuleError
from .toolchain import HERE, Toolchain, find_compiler

CANN = HERE / "cann"
FLAGS = ("-std=c++17", "-fPIC", "-pipe", "-O1", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
TILING_CAPACITY = 16384
"""Bytes of tiling data that GE makes room for when a graph is compiled."""
UNKNOWN_RANK = (-2,)
"""The shape of a tensor whose rank is not known yet; a dim that is not known is -1."""

Shape = Sequence[int]
Shapes = Sequence[Shape]
_MAX_DIMS = 25  # of a gert::Shape
_ERROR_BYTES = 1024


@dataclass(frozen=True)
class Platform:
    """What PlatformAscendC tells a tiling function. Sizes in bytes."""

    vector_cores: int
    ub_bytes: int
    lib_workspace_bytes: int

    @classmethod
    def of(cls, chip: Chip) -> Platform:
        """As CANN reports a chip: 2201 keeps 256 bytes of UB back; the library's workspace is 16 MiB, 2 MiB on 2002."""
        kept = 256 if chip.npu_arch == 2201 else 0
        return cls(chip.vector_cores, chip.ub_bytes - kept, (2 if chip.npu_arch == 2002 else 16) << 20)


@dataclass(frozen=True)
class HostTiling:
    """What a tiling function has set; ``workspace_bytes``: the kernel's own, without the library's part."""

    tiling: bytes
    tiling_key: int
    block_dim: int
    workspace_bytes: int
    schedule_mode: int


@dataclass(frozen=True)
class HostParam:
    """One input or output as OpDef declares it; entry k of all lists is combination k."""

    name: str
    param_type: str
    dtypes: tuple[DType | None, ...]
    formats: tuple[int, ...]
    unknown_shape_formats: tuple[int, ...]


@dataclass(frozen=True)
class Registration:
    """What OpDef declares; ``configs``: chip -> flag -> value."""

    op_type: str
    inputs: tuple[HostParam, ...]
    outputs: tuple[HostParam, ...]
    configs: Mapping[str, Mapping[str, bool]]


class HostOp:
    """The host functions of one op. The plural methods run many cases in one call."""

    def __init__(self, library: ctypes.CDLL, index: int) -> None:
        self._library, self._index = library, ctypes.c_int64(index)
        self._error = ctypes.create_string_buffer(_ERROR_BYTES)
        self.op_type: str = library.twin_host_type(self._index).decode()

    @functools.cached_property
    def registration(self) -> Registration:
        """What the op declares. Raises HostRuleError for a registration that CANN would refuse or misread."""
        text = self._library.twin_host_describe(self._index, self._error, ctypes.c_int64(_ERROR_BYTES))
        if text is None:
            raise self._violation(0)
        found = json.loads(text)
        inputs, outputs = (tuple(_param(p) for p in found[kind]) for kind in ("inputs", "outputs"))
        return Registration(found["op_type"], inputs, outputs, found["configs"])

    def tiling(self, shapes: Shapes, platform: Platform) -> HostTiling | None:
        """The launch for these input shapes on a chip; None where the tiling function fails (GRAPH_FAILED)."""
        return self.tilings([(shapes, platform)])[0]

    def tilings(self, cases: Sequence[tuple[Shapes, Platform]]) -> list[HostTiling | None]:
        """:meth:`tiling` of many cases. Raises HostRuleError where a case breaks a rule."""
        stream: list[int] = []
        for shapes, p in cases:
            stream += (p.vector_cores, p.ub_bytes, p.lib_workspace_bytes)
            self._append(stream, shapes)
        rows = np.zeros((len(cases), 6), np.int64)
        data = np.zeros((len(cases), TILING_CAPACITY), np.uint8)
        self._call("twin_host_tiling", len(cases), stream, rows, data)
        return [self._tiling(row, packed, p) for row, packed, (_, p) in zip(rows.tolist(), data, cases)]

    def infer_shape(self, shapes: Shapes) -> tuple[tuple[int, ...], ...] | None:
        """Output shapes for input shapes, in which -1 is an unknown dim and (-2,) an unknown rank; None: it failed."""
        return self.infer_shapes([shapes])[0]

    def infer_shapes(self, cases: Sequence[Shapes]) -> list[tuple[tuple[int, ...], ...] | None]:
        """:meth:`infer_shape` of many cases. Raises HostRuleError where an output is not set."""
        stream: list[int] = []
        for shapes in cases:
            self._append(stream, shapes)
        outputs, words = len(self.registration.outputs), _MAX_DIMS + 1
        rows = np.zeros((len(cases), 1 + words * outputs), np.int64)
        self._call("twin_host_infer_shape", len(cases), stream, rows)
        found: list[tuple[tuple[int, ...], ...] | None] = []
        for status, *row in rows.tolist():
            each = (row[words * k : words * (k + 1)] for k in range(outputs))
            found.append(tuple(tuple(dims[:rank]) for rank, *dims in each) if status == 0 else None)
        return found

    def infer_data_types(self, types: Sequence[DType]) -> tuple[DType | None, ...] | None:
        """Output types for input types; None where the function fails."""
        self._check_count(len(types))
        status = np.zeros(1, np.int64)
        found = np.zeros(len(self.registration.outputs), np.int64)
        given = np.array([t.ge_c for t in types], np.int64)
        error = (self._error, ctypes.c_int64(_ERROR_BYTES))
        if not self._library.twin_host_infer_data_type(self._index, *map(_pointer, (given, status, found)), *error):
            raise self._violation(0)
        return tuple(dtypes.from_ge_c(n) for n in found.tolist()) if status[0] == 0 else None

    def _call(self, name: str, cases: int, stream: Sequence[int], *results: npt.NDArray[Any]) -> None:
        given = np.array(stream, np.int64)
        args = [_pointer(a) for a in (given, *results)]
        if name == "twin_host_tiling":
            args.append(ctypes.c_int64(TILING_CAPACITY))
        error = (self._error, ctypes.c_int64(_ERROR_BYTES))
        done = getattr(self._library, name)(self._index, ctypes.c_int64(cases), *args, *error)
        if done < cases:
            raise self._violation(done)

    def _append(self, stream: list[int], shapes: Shapes) -> None:
        self._check_count(len(shapes))
        for shape in shapes:
            stream.append(len(shape))
            stream += shape

    def _check_count(self, given: int) -> None:
        if given != len(self.registration.inputs):
            raise ValueError(f"{self.op_type}: {given} inputs given, it takes {len(self.registration.inputs)}")

    def _tiling(self, row: Sequence[int], packed: npt.NDArray[np.uint8], platform: Platform) -> HostTiling | None:
        status, key, block_dim, workspace, mode, size = row
        if status != 0:
            return None
        return HostTiling(packed[:size].tobytes(), key, block_dim, workspace - platform.lib_workspace_bytes, mode)

    def _violation(self, case: int) -> HostRuleError:
        return HostRuleError(f"op_host.cpp of {self.op_type}, case {case}: {self._error.value.decode()}")


def build_op_host(files: Mapping[str, str], *, cache_root: Path | None = None) -> HostOp:
    """:func:`build_op_hosts` of one op."""
    return build_op_hosts([files], cache_root=cache_root)[0]


def build_op_hosts(ops: Sequence[Mapping[str, str]], *, cache_root: Path | None = None) -> list[HostOp]:
    """Compiles the host code of ops of different types into one library and opens it; results are cached by content.

    Args:
        ops: per op its files, name -> text: ``op_host.cpp`` and what it includes (``tiling.h``). A warning is an error.
        cache_root: where to keep results; see :func:`torchair_autofuse.twin.build.default_cache_root`.

    Raises:
        NoCompiler: no C++ compiler (AF404).
        KernelBuildError: the host code does not compile (AF405).
        ValueError: there are no ops, or one has no ``op_host.cpp``.
    """
    if not ops or any("op_host.cpp" not in files for files in ops):
        raise ValueError("build_op_hosts takes at least one op, each with a file op_host.cpp")
    toolchain = find_compiler()
    kept = store(cache_root)
    own = sorted((CANN / "op_host").glob("*.cpp"))
    jobs = [({p.name: p.read_text()}, p.name) for p in own] + [(dict(files), "op_host.cpp") for files in ops]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(lambda job: _object(toolchain, kept, *job), jobs))
    name = f"op_host/{digest(' '.join(p.name for p in objects).encode())}.so"
    library = kept.once(name, lambda work: _link(toolchain, objects, work))
    opened = ctypes.CDLL(str(library))
    for name in ("count", "tiling", "infer_shape", "infer_data_type"):
        getattr(opened, f"twin_host_{name}").restype = ctypes.c_int64
    for name in ("type", "describe"):
        getattr(opened, f"twin_host_{name}").restype = ctypes.c_char_p
    # Entries are in the order of the link, one per op.
    if opened.twin_host_count() != len(ops):
        raise ValueError(f"{len(ops)} ops were compiled, {opened.twin_host_count()} are registered by OP_ADD")
    return [HostOp(opened, i) for i in range(len(ops))]


def _object(toolchain: Toolchain, kept: Store, files: Mapping[str, str], main: str) -> Path:
    parts = [toolchain.key, *FLAGS, _headers_key(), main, *(x for name in sorted(files) for x in (name, files[name]))]
    name = f"op_host/{digest(chr(0).join(parts).encode())}.o"

    def compile_one(work: Path) -> Path:
        for name, text in files.items():
            if Path(name).name != name:
                raise ValueError(f"file name {name!r} must not contain a folder")
            (work / name).write_text(text)
        out = work / "out.o"
        command = [toolchain.compiler, *FLAGS, f"-I{CANN / 'include'}", f"-I{work}", "-c", str(work / main)]
        run_compiler([*command, "-o", str(out)], work, f"host code {main}")
        return out

    return kept.once(name, compile_one)


def _link(toolchain: Toolchain, objects: Sequence[Path], work: Path) -> Path:
    out = work / "op_host.so"
    run_compiler([toolchain.compiler, "-shared", *map(str, objects), "-o", str(out)], work, "the host code of the ops")
    return out


@functools.lru_cache(maxsize=1)
def _headers_key() -> str:
    return files_digest((p.relative_to(CANN).as_posix(), p) for p in (CANN / "include").rglob("*.h"))


def _param(found: Mapping[str, Any]) -> HostParam:
    kind = ("IGNORE", "OPTIONAL", "REQUIRED", "DYNAMIC")[found["param_type"]]
    types = tuple(dtypes.from_ge_c(n) for n in found["data_types"])
    return HostParam(found["name"], kind, types, tuple(found["formats"]), tuple(found["unknown_shape_formats"]))


def _pointer(array: npt.NDArray[Any]) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)
