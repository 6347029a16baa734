"""Artefact folders on disk: found, checked, written and kept apart by chip and release.

``<cache>/ops/<op_type>/`` is the folder that was written last. One that it took the place of, for another chip or by
another release, is kept as ``<cache>/variants/<op_type>@<soc>-<8 hex of its generator's digest>/`` and found there: two
processes that share a cache do not write over each other's. All of it is done under one lock per op.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchair_autofuse.cache import growth, sweep
from torchair_autofuse.cache.lease import hold
from torchair_autofuse.cache.locks import locked
from torchair_autofuse.cache.notice import made_again
from torchair_autofuse.cache.safety import CacheError, check_file, check_folder, make_folder, remove_work, work_folder
from torchair_autofuse.opdef.check import check_files, validate
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.files import SOURCES
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.store import BINARY, TEXT, load, to_textproto
from torchair_autofuse.soc.chip import Chip

_MODE = 0o755
_TRIES = 5  # of a reader that cannot have the lock: a writer's two moves take far less than its waits


@dataclass(frozen=True)
class Stored:
    """An op's folder as it was read: its definition and the sources of its kernel, name -> text."""

    folder: Path
    op: Any
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """A folder as it is. ``state``: ok, other release, damaged or missing; ``problem`` says what is damaged."""

    folder: Path
    state: str
    op: Any = None
    problem: str = ""

    @property
    def socs(self) -> list[str]:
        return [s.soc for s in self.op.schedule] if self.op is not None else []

    def serves(self, soc: str) -> bool:
        return self.state == "ok" and self.socs == [soc]


def inspect(folder: Path) -> Found:
    """What is in an artefact folder: every file is compared with its recorded digest."""
    if not folder.is_dir():
        return Found(folder, "missing")
    op = None
    try:
        check_folder(folder)
        check_file(folder / BINARY)
        op = load(folder)
        if op.op_type != folder.name.split("@")[0]:
            return Found(folder, "damaged", op, f"holds the definition of {op.op_type}")
        for name in (TEXT, *(a.name for a in op.artefact)):
            if (folder / name).exists():
                check_file(folder / name)
        check_files(op, folder, [a.name for a in op.artefact])
        if op.generator_digest != generator_digest():
            return Found(folder, "other release", op)
        if (folder / TEXT).read_bytes() != to_textproto(op).encode():
            return Found(folder, "damaged", op, f"{TEXT} is not {BINARY} in text form")
    except (OSError, OpDefError, ArtefactError, CacheError) as error:
        missing = isinstance(error, FileNotFoundError)
        return Found(folder, "damaged", op, f"{TEXT if op else BINARY} is missing" if missing else str(error))
    return Found(folder, "ok", op)


def is_current(folder: Path, chip: Chip) -> bool:
    """Whether a folder was made by this generator for ``chip`` and none of its files was changed since."""
    return inspect(folder).serves(chip.soc)


def put(root: Path, op_type: str, chip: Chip, make: Callable[[], Mapping[str, bytes]], *, cache: bool = True) -> Path:
    """The folder of an op for ``chip`` as this release generates it, written with ``make``'s files if there is none.

    A damaged one is made again with a warning AF506. ``cache``: whether ``root`` is a cache, whose entries are held
    while they are used. Raises ArtefactError when others could write to the cache.
    """
    with _refusing():
        ops = make_folder(root, sweep.OPS)
    if cache:
        sweep.mark(root)
    lock = sweep.op_lock(root, op_type)
    places = (ops / op_type, _variant(root, op_type, [chip.soc], generator_digest()))
    with locked(lock, shared=True):
        if cache:
            hold(root, sweep.op_lease(op_type))
        current = _current(places, chip)
    if current is not None:
        return current
    files = make()
    with locked(lock) as ours, _refusing():
        current = _current(places, chip)
        if current is not None:
            return current
        if ours:
            for place in places:
                remove_work(place)
        for found in map(inspect, places):
            if found.state == "damaged":
                made_again(found.folder, found.problem)
                if found.folder != places[0]:
                    sweep.remove_folder(found.folder)
        _replace(root, places[0], files)
    growth.add(root, sum(map(len, files.values())))
    return places[0]


def read(
    root: Path, op_type: str, soc: str | None = None, remake: Callable[[Any], Mapping[str, bytes]] | None = None
) -> Stored:
    """See artefact.read. ``remake`` gives the files of a damaged folder anew from its definition, if that is good."""
    for left in reversed(range(_TRIES)):
        with locked(sweep.op_lock(root, op_type), shared=True) as ours:
            hold(root, sweep.op_lease(op_type))
            try:
                stored = _read(root, op_type, soc)
                break
            except (ArtefactError, OpDefError) as error:
                problem = error
        if not ours and left:
            time.sleep(0.01 * 2 ** (_TRIES - left))  # it may have been read while it was replaced
        elif remake is None or not _remade(root, op_type, soc, remake):
            raise problem
    else:
        stored = _read(root, op_type, soc)
    validate(stored.op)
    return stored


def _remade(root: Path, op_type: str, soc: str | None, remake: Callable[[Any], Mapping[str, bytes]]) -> bool:
    """Whether a damaged folder could be made again from its definition."""
    with locked(sweep.op_lock(root, op_type)) as ours:
        found = inspect(_place(root, op_type, soc))
        if found.state == "ok":
            return True  # somebody else was faster
        if not ours or found.state != "damaged" or found.op is None or found.op.op_type != op_type:
            return False
        try:
            validate(found.op)
            files = remake(found.op)
        except (ArtefactError, OpDefError):
            return False
        made_again(found.folder, found.problem)
        with _refusing():
            _replace(root, found.folder, files)
        return True


def _read(root: Path, op_type: str, soc: str | None) -> Stored:
    folder = _place(root, op_type, soc)
    if not folder.is_dir():
        raise ArtefactError(
            f"{op_type}: there is no folder {folder}. Compile the model again with fusion on, or point "
            "TORCHAIR_AUTOFUSE_CACHE_DIR at the cache it was compiled with"
        )
    with _refusing():
        for part in (root, folder.parent, folder):
            check_folder(part, root=part == root)
    try:
        op = load(folder)
    except FileNotFoundError as error:
        raise ArtefactError(f"{op_type}: {error}; delete the folder, it is written again") from error
    if op.op_type != op_type:
        raise ArtefactError(f"{folder} holds the definition of {op.op_type}; delete it, it is written again")
    check_files(op, folder, SOURCES)
    with _refusing():
        for name in (BINARY, *SOURCES):
            check_file(folder / name)
    sources = {name: (folder / name).read_text(encoding="utf-8") for name in SOURCES}
    _touch(folder)
    return Stored(folder, op, sources)


def _place(root: Path, op_type: str, soc: str | None) -> Path:
    """Where the op for a chip is: among the variants only if what is in ``ops/`` will not do."""
    folder = root / sweep.OPS / op_type
    if soc is not None:
        variant = _variant(root, op_type, [soc], generator_digest())
        if variant.is_dir() and inspect(variant).serves(soc) and not inspect(folder).serves(soc):
            return variant
    return folder


@contextmanager
def _refusing() -> Iterator[None]:
    """A cache that is not safe is an ArtefactError here."""
    try:
        yield
    except CacheError as error:
        raise ArtefactError(str(error)) from error


def _current(places: tuple[Path, ...], chip: Chip) -> Path | None:
    for place in places:
        if is_current(place, chip):
            _touch(place)
            return place
    return None


def _touch(folder: Path) -> None:
    """Notes when a folder was last used; not in a cache of others."""
    with suppress(OSError):
        os.utime(folder)


def _variant(root: Path, op_type: str, socs: list[str], generator: str) -> Path:
    name = re.sub(r"[^\w+]", "_", "+".join(socs))
    return root / sweep.VARIANTS / f"{op_type}@{name}-{re.sub(r'[^0-9a-f]', '_', generator[:8])}"


def _replace(root: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    work = work_folder(folder)
    try:
        fresh = work / "new"
        fresh.mkdir(mode=_MODE)
        fresh.chmod(_MODE)
        for name, data in files.items():
            (fresh / name).write_bytes(data)
            (fresh / name).chmod(0o644)
        if folder.exists():
            _set_aside(root, folder, work)
        os.replace(fresh, folder)
    except PermissionError as error:
        raise ArtefactError(f"{folder} cannot be replaced ({error.strerror}): it belongs to another user") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _set_aside(root: Path, folder: Path, work: Path) -> None:
    """Moves a folder out of the way: to its place among the variants if it is good for somebody else."""
    old = inspect(folder)
    target = work / "old"
    if old.state != "damaged":
        make_folder(root, sweep.VARIANTS)
        target = _variant(root, folder.name, old.socs, old.op.generator_digest)
        if target.exists():
            os.replace(target, work / "before")
    os.replace(folder, target)
