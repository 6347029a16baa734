"""The artefact folder of a fused op: everything needed to read it, run it again and mail it to a colleague.

``<cache root>/ops/<op_type>/`` holds kernel.cpp, tiling.h, op_host.cpp, op.afop.pb, op.afop.textproto, loop.txt (the
loop-level IR), schedule.txt, subgraph.pbtxt (the GE nodes it replaces) and run.py.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from torchair_autofuse.opdef.build import build
from torchair_autofuse.opdef.check import check_files, validate
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.files import SOURCES
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.regenerate import artefact_files
from torchair_autofuse.opdef.store import TEXT, load, to_textproto
from torchair_autofuse.soc.chip import Chip

if TYPE_CHECKING:
    from torchair_autofuse.generated import GeneratedOp

_MODE = 0o755  # set whatever the umask: others must not be able to replace code that is going to run here


def write(
    root: str | Path,
    generated: GeneratedOp,
    chip: Chip,
    model_def: Any = None,
    hints: Mapping[str, int] | None = None,
    op: Any = None,
) -> Path:
    """Writes the folder of an op under the cache ``root`` and returns it.

    A folder that is there already stays when it was made by this generator for this chip and all its files are as
    recorded; else it is replaced. Readers see the old folder or the new one. ``op``: its definition if there is one
    already, else it is built with ``model_def``, the ModelDef (message or bytes) that the op's nodes are from, and
    ``hints``, example sizes of the kernel's symbols. Raises ArtefactError when others could write to the folder.
    """
    ops = _safe_folder(Path(root), "ops")
    folder = ops / generated.op_type
    if is_current(folder, chip):
        return folder
    files = artefact_files(build(generated, chip, hints, _messages(model_def)) if op is None else op, generated.text)
    with _lock(folder):
        if not is_current(folder, chip):
            _replace(folder, files)
    return folder


@dataclass(frozen=True)
class Stored:
    """An op's folder as it was read: its definition and the sources of its kernel, name -> text."""

    folder: Path
    op: Any
    sources: Mapping[str, str]


def read(root: str | Path, op_type: str) -> Stored:
    """The folder of an op, with the kernel sources checked against the definition's digests.

    Raises ArtefactError when it is missing or damaged or others could have written to it, OpDefError when its
    definition breaks a rule.
    """
    folder = Path(root) / "ops" / op_type
    with _lock(folder):
        if not folder.is_dir():
            raise ArtefactError(
                f"{op_type}: there is no folder {folder}. Compile the model again with fusion on, or point "
                "TORCHAIR_AUTOFUSE_CACHE_DIR at the cache it was compiled with"
            )
        for part in (folder.parent.parent, folder.parent, folder):
            _check_mode(part)
        try:
            op = load(folder)
        except FileNotFoundError as error:
            raise ArtefactError(f"{op_type}: {error}; delete the folder, it is written again") from error
        if op.op_type != op_type:
            raise ArtefactError(f"{folder} holds the definition of {op.op_type}; delete it, it is written again")
        check_files(op, folder, SOURCES)
        sources = {name: (folder / name).read_text(encoding="utf-8") for name in SOURCES}
    validate(op)
    return Stored(folder, op, sources)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Holds an op's lock; a cache that cannot be written to is not written by others either."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(FileLock(str(folder.parent / f".{folder.name}.lock")))
        yield


def is_current(folder: Path, chip: Chip) -> bool:
    """Whether a folder was made by this generator for ``chip`` and none of its files was changed since."""
    try:
        op = load(folder)
        if op.op_type != folder.name or op.generator_digest != generator_digest():
            return False
        if [s.soc for s in op.schedule] != [chip.soc] or (folder / TEXT).read_bytes() != to_textproto(op).encode():
            return False
        _check_mode(folder)
        check_files(op, folder, [a.name for a in op.artefact])
    except (OSError, OpDefError, ArtefactError):
        return False
    return True


def _safe_folder(root: Path, name: str) -> Path:
    folder = root / name
    for part in (root, folder):
        if not part.is_dir():
            try:
                part.mkdir(mode=_MODE, parents=True, exist_ok=True)
            except OSError as error:
                text = f"{part} cannot be made ({error.strerror}): set TORCHAIR_AUTOFUSE_CACHE_DIR to a folder"
                raise ArtefactError(f"{text} that you can write to") from error
        _check_mode(part)
    return folder


def _check_mode(folder: Path) -> None:
    if os.name == "posix" and folder.stat().st_mode & stat.S_IWOTH:
        raise ArtefactError(
            f"{folder} may be written by every user of this machine, so kernels in it are not run: "
            f"chmod o-w {folder}, or set TORCHAIR_AUTOFUSE_CACHE_DIR to a folder of your own"
        )


def _messages(model_def: Any) -> dict[str, Any]:
    """The OpDef messages of a ModelDef (message or bytes) by name."""
    if model_def is None:
        return {}
    message = _parsed(bytes(model_def)) if isinstance(model_def, (bytes, bytearray, memoryview)) else model_def
    return {op.name: op for op in message.graph[0].op}


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fresh = work / "new"
        fresh.mkdir(mode=_MODE)
        fresh.chmod(_MODE)
        for name, data in files.items():
            (fresh / name).write_bytes(data)
            (fresh / name).chmod(0o644)
        if folder.exists():
            os.replace(folder, work / "old")
        os.replace(fresh, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@lru_cache(maxsize=1)
def _parsed(model_def: bytes) -> Any:
    from torchair_autofuse.ge.reader import parse

    return parse(model_def)
