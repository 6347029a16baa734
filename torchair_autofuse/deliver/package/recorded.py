"""The definitions that a package is built from: read, validated, each op type once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchair_autofuse.opdef.check import validate
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.library import load_library
from torchair_autofuse.opdef.store import BINARY, load

_LIBRARY = (".afoplib.pb", ".afoplib.textproto")


@dataclass(frozen=True)
class Recorded:
    """``ops``: FusedOpDefs by op type, sorted; ``problems``: one line per file that holds none that is valid."""

    ops: tuple[Any, ...]
    problems: tuple[str, ...]


def read_recorded(source: Path) -> Recorded:
    """The definitions in ``source``: a file (of one or a library), an op's folder, a folder of these, or a cache.

    Of one op type this release's own definition is taken before an older one's, else the first by path. Raises
    FileNotFoundError when there is no such file or folder.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such file or folder")
    found: dict[str, Any] = {}
    problems = []
    for file in _files(source):
        try:
            ops = load_library(file) if file.name.endswith(_LIBRARY) else [_valid(file)]
        except OpDefError as error:
            said = str(error)
            problems.append(said if str(file) in said else f"{file}: {said}")
            continue
        except OSError as error:
            problems.append(f"{file}: {error.strerror}")
            continue
        for op in ops:
            if op.op_type not in found or (_is_current(op) and not _is_current(found[op.op_type])):
                found[op.op_type] = op
    return Recorded(tuple(found[t] for t in sorted(found)), tuple(problems))


def _valid(file: Path) -> Any:
    op = load(file)
    validate(op)
    return op


def _is_current(op: Any) -> bool:
    return bool(op.generator_digest == generator_digest())


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
        return
    seen: set[Path] = set()
    for pattern in (BINARY, "*.afop.pb", "*.afoplib.pb", f"*/{BINARY}", f"ops/*/{BINARY}"):
        for file in sorted(source.glob(pattern)):
            hidden = any(part.startswith(".") for part in file.relative_to(source).parts)  # folders being written
            if not hidden and file not in seen and file.is_file():
                seen.add(file)
                yield file
