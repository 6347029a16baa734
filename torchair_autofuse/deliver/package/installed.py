"""Checks an installed package by the rules GE has for it, most of which GE does not report when they are broken.

Rules of the tree: names.py. Rules of the ops-info file: its entries have to match the ops' registration, names and
order included, and a column of data types and formats has to match the node exactly.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchair_autofuse.deliver.package.names import (
    DEFINITIONS,
    MANIFEST,
    TBE,
    VENDOR,
    ops_info,
    proto_library,
    tiling_library,
)
from torchair_autofuse.deliver.package.project import SCHEMA
from torchair_autofuse.deliver.package.seal import broken
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.store import load

_DTYPES = {
    "f32": ("float", "float32"), "f16": ("float16",), "bf16": ("bfloat16",), "f64": ("double",), "i8": ("int8",),
    "u8": ("uint8",), "i16": ("int16",), "u16": ("uint16",), "i32": ("int32",), "u32": ("uint32",), "i64": ("int64",),
    "u64": ("uint64",), "bool": ("bool",),
}  # fmt: skip
# Flags of an entry, as op_host.cpp asks for them; precision_reduce would let GE run the op in another type. One that
# the entry does not have is taken to be as asked for, but for _STATED.
_FLAGS = {
    "dynamicShapeSupport": "true", "dynamicRankSupport": "true", "dynamicCompileStatic": "true",
    "dynamicFormat": "false", "needCheckSupport": "false", "precision_reduce": "false",
}  # fmt: skip
_STATED = {"dynamicShapeSupport"}  # absent, it is false
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_COMPILER = re.compile(r"^custom_opp_compiler_version=\W*((\d+)\.(\d+)(?:\.(\d+))?[\w.+-]*)", re.MULTILINE)


@dataclass(frozen=True)
class Installed:
    """A package that keeps the rules. ``cann``: the version of the CANN that built it, (major, minor, patch) and as it
    is written; ``units``: CANN's names of the chips it is for; ``manifest``: its MANIFEST.json; ``ops``: op type ->
    definition."""

    folder: Path
    cann: tuple[int, int, int]
    cann_text: str
    units: tuple[str, ...]
    manifest: Mapping[str, Any]
    ops: Mapping[str, Any]


def read_installed(folder: str | Path, machine: str | None = None) -> Installed | tuple[Reason, ...]:
    """The package in ``<out>/vendors/torchair_autofuse``, or everything that is wrong with it (AF502).

    ``machine``: architecture of the host libraries, this machine's when None. Definitions are read and compared with
    their digests, not validated again: that was done when the package was built. Other files are compared with theirs
    where the build recorded them (seal.py).
    """
    folder = Path(folder)
    problems = list(_place(folder))
    if problems:
        return tuple(problems)
    manifest = _manifest(folder)
    if isinstance(manifest, Reason):
        return (manifest,)
    cann = _built_with(folder)
    ops: dict[str, Any] = {}
    problems += [cann] if isinstance(cann, Reason) else []
    problems += _definitions(folder, manifest, ops)
    problems += _libraries(folder, machine or platform.machine())
    if not (folder / TBE / f"{VENDOR}_impl").is_dir():
        problems.append(_bad(folder / TBE, f"has no folder {VENDOR}_impl: GE skips a package without one"))
    for unit in manifest["units"]:
        problems += _config(folder, unit, ops)
        for op_type in ops:
            problems += _kernel(folder, unit, op_type, manifest["ops"][op_type]["entry"])
    if not problems:  # rules first: they say more
        problems += broken(folder)
    if problems or isinstance(cann, Reason):
        return tuple(problems)
    return Installed(folder, *cann, tuple(manifest["units"]), manifest, ops)


def _bad(file: Path, rule: str) -> Reason:
    return Reason("AF502", f"{file}: {rule}")


def _place(folder: Path) -> Iterator[Reason]:
    if not folder.is_absolute():
        yield _bad(folder, "GE takes absolute paths only")
    elif not folder.is_dir():
        yield _bad(folder, "there is no such folder")
    elif folder.name != VENDOR:
        rule = f"GE looks for {folder.name}_impl in it; the folder must be called {VENDOR}"
        yield _bad(folder, rule)
    elif ":" in str(folder):
        yield _bad(folder, "a ':' separates the folders of ASCEND_CUSTOM_OPP_PATH; use a path without one")
    elif (open_to_all := _writable(folder)) is not None:
        yield _bad(open_to_all, "every user of this machine may write to it, so it is not loaded: chmod -R o-w it")


def _writable(folder: Path) -> Path | None:
    """The first place that every user may write to: the package, what is in it, and the two folders around it."""
    if os.name != "posix":
        return None
    around = [folder.parent.parent, folder.parent, folder]
    inside = (Path(where) / name for where, dirs, files in os.walk(folder) for name in sorted((*dirs, *files)))
    for path in (*around, *inside):
        mode = path.lstat().st_mode
        sticky = path in around[:2] and mode & stat.S_ISVTX  # others cannot replace what is in it
        if mode & stat.S_IWOTH and not stat.S_ISLNK(mode) and not sticky:
            return path
    return None


def _manifest(folder: Path) -> Mapping[str, Any] | Reason:
    file = folder / DEFINITIONS / MANIFEST
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        return _bad(file, f"cannot be read ({error.strerror}); is this a package of torchair_autofuse?")
    except (ValueError, RecursionError) as error:
        return _bad(file, f"is damaged ({error}); build the package again")
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        return _bad(file, f"has schema {found}, this release reads {SCHEMA}; build the package again")
    ops, files, units = content.get("ops"), content.get("files"), content.get("units")
    good = isinstance(files, dict) and isinstance(units, list) and units and all(isinstance(u, str) for u in units)
    if not good or not isinstance(ops, dict) or not all(isinstance(o, dict) and "entry" in o for o in ops.values()):
        return _bad(file, "is damaged (units, ops or files are not as written); build the package again")
    return content


def _built_with(folder: Path) -> tuple[tuple[int, int, int], str] | Reason:
    file = folder / "version.info"
    found = _COMPILER.search(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else None
    if found is None:
        return _bad(file, "does not name the CANN that built the package (custom_opp_compiler_version=)")
    text, *numbers = found.groups()
    major, minor, patch = (int(n or 0) for n in numbers)
    return (major, minor, patch), text


def _definitions(folder: Path, manifest: Mapping[str, Any], ops: dict[str, Any]) -> Iterator[Reason]:
    for op_type, entry in ((t, str(o["entry"])) for t, o in manifest["ops"].items()):
        file = folder / DEFINITIONS / f"{entry}.afop.pb"
        problem = _digest(file, manifest["files"].get(f"op_def/{entry}.afop.pb"))
        if problem is not None:
            yield problem
            continue
        try:
            op = load(file)
        except OpDefError as error:
            yield _bad(file, error.problem)
            continue
        if op.op_type != op_type:
            yield _bad(file, f"defines {op.op_type}, the manifest says {op_type}")
        else:
            ops[op_type] = op


def _digest(file: Path, expected: str | None) -> Reason | None:
    if not file.is_file():
        return _bad(file, "is missing; build the package again")
    if hashlib.sha256(file.read_bytes()).hexdigest() != expected:
        return _bad(file, "is not the file that was built (its SHA-256 is not the manifest's); build the package again")
    return None


def _libraries(folder: Path, machine: str) -> Iterator[Reason]:
    for name in (proto_library(machine), tiling_library(machine)):
        file = folder / name
        if not file.is_file():
            yield _bad(file, f"is missing; the package was not built on a machine of this architecture ({machine})")
            continue
        with file.open("rb") as stream:
            head = stream.read(20)
        if len(head) < 20 or head[:4] != b"\x7fELF":
            yield _bad(file, "is not a shared library")
        elif struct.unpack("<H", head[18:20])[0] != _ELF_MACHINES.get(machine, -1):
            yield _bad(file, f"is built for another architecture than this machine's ({machine})")
    link = folder / TBE / "op_tiling" / "liboptiling.so"
    if not link.is_file():
        yield _bad(link, f"must lead to the tiling library {tiling_library(machine)}")


def _config(folder: Path, unit: str, ops: Mapping[str, Any]) -> Iterator[Reason]:
    file = folder / ops_info(unit)
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        yield _bad(file, f"cannot be read ({error.strerror}); GE finds no op for {unit} without it")
        return
    except (ValueError, RecursionError) as error:
        yield _bad(file, f"is damaged ({error}); build the package again")
        return
    if not isinstance(entries, dict):
        yield _bad(file, "is damaged (not an object); build the package again")
        return
    for op_type in sorted(entries.keys() - ops.keys()):
        yield _bad(file, f"has {op_type}, which has no definition in {DEFINITIONS}/")
    for op_type, op in ops.items():
        if not isinstance(entries.get(op_type), dict):
            yield _bad(file, f"has no entry for {op_type}")
        else:
            for problem in _entry(op, entries[op_type]):
                yield _bad(file, f"{op_type}: {problem}")


def _entry(op: Any, entry: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an op's entry in an ops-info file."""
    for kind, params in (("input", op.input), ("output", op.output)):
        count = sum(bool(re.fullmatch(rf"{kind}\d+", key)) for key in entry)
        if count != len(params):
            yield f"has {count} {kind}s, the definition {len(params)}"
            continue
        for i, p in enumerate(params):
            found = _object(entry, f"{kind}{i}")
            if found.get("name") != p.name:
                yield f"{kind} {i} is called {found.get('name')}, in the definition {p.name}"
            for key, known in (("dtype", _DTYPES[p.dtype]), ("format", ("ND",)), ("paramType", ("required",))):
                if str(found.get(key)).strip() not in known:
                    yield f"{key} of {kind} {p.name} is {found.get(key)}, expected {known[0]}"
    for flag, value in _FLAGS.items():
        stated = _object(entry, flag).get("flag", "absent" if flag in _STATED else value)
        if stated != value:
            yield f"{flag} is {stated}, expected {value}"


def _object(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = entry.get(key)
    return found if isinstance(found, dict) else {}


def _kernel(folder: Path, unit: str, op_type: str, entry: str) -> Iterator[Reason]:
    """GE runs the binaries of a chip series, or compiles the sources; a package has to have one of the two whole."""
    binaries = folder / TBE / "kernel" / unit / entry
    configs = folder / TBE / "kernel" / "config" / unit
    objects = sorted(binaries.glob(f"{op_type}_*.o"))
    if objects:
        wanted = [*(o.with_suffix(".json") for o in objects), configs / f"{entry}.json"]
        for file in (*wanted, configs / "binary_info_config.json"):
            if not file.is_file():
                yield _bad(file, f"is missing, so GE does not find the kernel of {op_type}")
        return
    sources = folder / TBE / f"{VENDOR}_impl" / "dynamic"
    places = [sources / f"{entry}.cpp", sources / entry / f"{entry}.cpp"]
    if not (sources / f"{entry}.py").is_file() or not any(p.is_file() for p in places):
        yield _bad(binaries, f"there is no kernel of {op_type}, neither binary nor source")
