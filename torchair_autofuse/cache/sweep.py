"""What is in a cache, and deleting from it: whole entries only, least recently used first, never what is in use."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torchair_autofuse.cache import built, growth
from torchair_autofuse.cache.lease import FOLDER as LEASES
from torchair_autofuse.cache.lease import held
from torchair_autofuse.cache.locks import locked
from torchair_autofuse.cache.safety import work_folder

OPS, VARIANTS, TWIN, JIT, PACKAGE = "ops", "variants", "twin", "jit", "package"
FOLDERS = (OPS, VARIANTS)  # artefact folders
BUILT = (TWIN, JIT)  # files that were compiled
PARTS = (OPS, VARIANTS, TWIN, JIT, PACKAGE, LEASES)
"""The folders of a cache."""
_MANY = ("kernels", "op_host")  # of the twin's folders, those with many files
_DEVICE = ("k/*/*.o", "rt-*/*.so")  # in a folder of the JIT route: device binaries, its runtime
_TARGETS = {"runtime": "libtwin_rt.so", "pch": "kernel_operator.h.gch"}  # each in a folder of its own
_PACKAGE_HAS = ("project", "vendors")
TAG = "CACHEDIR.TAG"
TAG_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# The cache of torchair_autofuse: python -m torchair_autofuse cache
"""
_SWEPT = ".swept"  # its time is when the size was last looked at
_SWEEP_SECONDS = 600
_OLD_WORK_SECONDS = 86400  # a folder of work whose owner cannot be told is left alone for a day


@dataclass(frozen=True)
class Unit:
    """An entry that is deleted as a whole. ``name``: what leases call it; ``used``: seconds since the epoch."""

    kind: str
    name: str
    path: Path
    lock: Path
    size: int
    used: float


def op_lock(root: Path, op_type: str) -> Path:
    """The lock of an op: of its artefact folder and of the same op's variants."""
    return root / OPS / f".{op_type}.lock"


def op_lease(op_type: str) -> str:
    """The name under which an op, with its variants, is held."""
    return f"{OPS}/{op_type}"


def package_lock(out: Path) -> Path:
    """The lock of a package, wherever its folder is."""
    return out / ".lock"


def mark(root: Path) -> None:
    """Says in the folder itself that it is a cache of ours, in a form that backup programs know."""
    with suppress(OSError), open(root / TAG, "x", encoding="ascii") as file:
        file.write(TAG_TEXT)


def is_ours(root: Path) -> bool:
    """Whether a folder is a cache of ours: it is marked so, or holds what only we make."""
    try:
        if (root / TAG).read_text(encoding="ascii") == TAG_TEXT:
            return True
    except (OSError, UnicodeDecodeError):
        pass
    return any(root.glob(f"{OPS}/Autofuse*/op.afop.pb")) or (root / TWIN / "kernels").is_dir()


def units(root: Path) -> list[Unit]:
    """All entries of a cache, in a stable order. Folders that are links are not entered: they lead out of it."""
    return [*_folders(root), *_files(root), *_packages(root)]


def _folders(root: Path) -> Iterator[Unit]:
    for kind in FOLDERS:
        for path in _listed(root / kind):
            if path.name.startswith("Autofuse") and path.is_dir() and not path.is_symlink():
                op_type = path.name.split("@")[0]
                size = sum(_size(p) for p in path.rglob("*"))
                yield Unit(kind, op_lease(op_type), path, op_lock(root, op_type), size, _used(path))


def _files(root: Path) -> Iterator[Unit]:
    folder = root / TWIN
    for kind in _MANY:
        for path in _listed(folder / kind):
            if path.suffix in (".so", ".o") and not path.name.startswith("."):
                yield _file(root, path)
    for kind, name in _TARGETS.items():
        for path in _listed(folder / kind):
            if (path / name).exists():
                yield _file(root, path / name)
    for place in _listed(root / JIT):
        for pattern in _DEVICE:
            for path in sorted(place.glob(pattern)):
                yield _file(root, path)


def _packages(root: Path) -> Iterator[Unit]:
    """With their projects and builds."""
    for path in _listed(root / PACKAGE):
        made = any((path / name).is_dir() for name in _PACKAGE_HAS)
        if made and not path.is_symlink() and not path.name.startswith("."):
            size = sum(_size(p) for p in path.rglob("*"))
            yield Unit(PACKAGE, f"{PACKAGE}/{path.name}", path, package_lock(path), size, _used(path))


def _file(root: Path, path: Path) -> Unit:
    kind = path.relative_to(root).parts[0]
    name = path.relative_to(root / kind).as_posix()
    lock = root / kind / built.LOCKS / f"{name.replace('/', '+')}.lock"
    size = _size(path) + _size(built.record_of(path))
    return Unit(kind, f"{kind}/{name}", path, lock, size, _used(path))


def remove(root: Path, unit: Unit) -> bool:
    """Deletes an entry; False when a live process uses it or works on it, or it cannot be deleted."""
    with locked(unit.lock, wait=False) as ours:
        # A process that wants it says so with the lock held, so what is not held now will not be before we are done.
        if not ours or unit.name in held(root):
            return False
        try:
            if unit.kind == TWIN:
                built.remove(unit.path)
                _remove_empty(unit.path.parent)
            elif unit.kind == JIT:  # with the sources and the log beside it
                remove_folder(unit.path.parent)
            else:
                remove_folder(unit.path)
        except OSError:
            return False
        if not _still_needed(root, unit):
            unit.lock.unlink(missing_ok=True)
    return True


def remove_folder(folder: Path) -> None:
    """Deletes a folder so that nobody sees a part of it; the caller has its lock."""
    if folder.exists():
        work = work_folder(folder)
        try:
            os.replace(folder, work / "old")
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _remove_empty(folder: Path) -> None:
    """Of a precompiled header or a runtime, each in a folder of its own."""
    if folder.parent.name in _TARGETS:
        (folder / "kernel_operator.h").unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _still_needed(root: Path, unit: Unit) -> bool:
    """Whether a lock has another entry: an op's is that of its variants too."""
    op_type = unit.path.name.split("@")[0]
    return unit.kind in FOLDERS and ((root / OPS / op_type).exists() or any((root / VARIANTS).glob(f"{op_type}@*")))


def remove_leftovers(root: Path) -> int:
    """Deletes what dead processes left: folders of work, records and locks of nothing, leases. Returns the bytes."""
    freed = 0
    held(root)
    for kind in FOLDERS:
        for path in _listed(root / kind):
            if path.name.startswith(".Autofuse") and "-" in path.name and path.is_dir():
                op_type = path.name[1:].rpartition("-")[0].split("@")[0]
                freed += _remove_work(path, op_lock(root, op_type))
    twin = root / TWIN
    jit = [folder for place in _listed(root / JIT) for folder in (*_listed(place / "k"), *place.glob("rt-*"))]
    for folder in (*(twin / kind for kind in _MANY), *_listed(twin / "runtime"), *_listed(twin / "pch"), *jit):
        for path in _listed(folder):
            freed += _remove_left(root, path)
        name = _TARGETS.get(folder.parent.name)
        if name is not None:
            with locked(_file(root, folder / name).lock, wait=False) as ours:
                if ours and not (folder / name).exists():
                    _remove_empty(folder)
    for path in _listed(root / PACKAGE):
        if path.name.startswith("."):  # was being deleted: its lock went with it
            freed += _remove_work(path, None)
    for kind in BUILT:
        for lock in _listed(root / kind / built.LOCKS):
            _remove_lock(lock, root / kind / lock.name.removesuffix(".lock").replace("+", "/"))
    for lock in (root / OPS).glob(".Autofuse*.lock"):
        op_type = lock.name[1:].removesuffix(".lock")
        if not any((root / VARIANTS).glob(f"{op_type}@*")):
            _remove_lock(lock, root / OPS / op_type)
    return freed


def _remove_left(root: Path, path: Path) -> int:
    """Something in a folder of built files that is not one."""
    if path.name == built.LOCKS and path.parent.name != TWIN:  # where an earlier release had its locks
        return _remove_work(path, None)
    if path.name.startswith(".build-"):  # its work: it does not say of what
        return _remove_work(path, None)
    if path.name.startswith(".") and "-" in path.name and path.is_dir():
        return _remove_work(path, _file(root, path.with_name(path.name[1:].rpartition("-")[0])).lock)
    target = path.with_name(path.name.removesuffix(built.RECORD))
    if path.name.endswith(built.RECORD) and not target.exists():
        with locked(_file(root, target).lock, wait=False) as ours:
            if ours and not target.exists():
                size = _size(path)
                path.unlink(missing_ok=True)
                return size
    return 0


def _remove_work(folder: Path, lock: Path | None) -> int:
    """Writers have the lock of what they write as long as they live; without one, age must do."""
    size = sum(_size(p) for p in folder.rglob("*"))
    if lock is None:
        if time.time() - _used(folder) < _OLD_WORK_SECONDS:
            return 0
        shutil.rmtree(folder, ignore_errors=True)
        return size
    with locked(lock, wait=False) as ours:
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
    return size if ours else 0


def _remove_lock(lock: Path, target: Path) -> None:
    if not target.exists():
        with locked(lock, wait=False) as ours:
            if ours and not target.exists():
                lock.unlink(missing_ok=True)


def trim(root: Path, limit: int, of: Iterable[Unit] | None = None) -> list[Unit]:
    """Deletes the entries that were not used for longest until the cache has at most ``limit`` bytes.

    Returns those deleted. What live processes use stays, so that the cache may remain larger. Packages, which the user
    asked for, neither count nor go.
    """
    found = [u for u in (units(root) if of is None else of) if u.kind != PACKAGE]
    total = sum(u.size for u in found)
    gone: list[Unit] = []
    for unit in sorted(found, key=lambda u: (u.used, u.name)):
        if total <= limit:
            break
        if remove(root, unit):
            total -= unit.size
            gone.append(unit)
    return gone


def keep_within(root: Path, limit: int) -> None:
    """To be called after something was built: keeps the cache within ``limit`` bytes (0: no limit).

    It looks only when this process has added a twentieth of the limit, or anything and nobody looked for ten minutes
    (or the clock was set back since).
    """
    added = growth.added(root)
    if not limit or not added or (added * 20 < limit and 0 <= _age(root / _SWEPT) < _SWEEP_SECONDS):
        return
    growth.reset(root)
    with locked(root / _SWEPT, wait=False) as ours:  # one at a time: 16 ranks would all find the same
        if ours:
            with suppress(OSError):
                os.utime(root / _SWEPT)
            remove_leftovers(root)
            trim(root, limit)


def clear(root: Path) -> tuple[int, list[Path]]:
    """Deletes all that is ours and not in use. Returns the bytes freed, and what was left in the folder."""
    freed = remove_leftovers(root)
    freed += sum(u.size for u in units(root) if remove(root, u))
    freed += remove_leftovers(root)
    if not any(u.kind == JIT for u in units(root)) and not _listed(root / JIT / built.LOCKS):
        shutil.rmtree(root / JIT, ignore_errors=True)  # logs, and sources that did not compile; nobody is at work
    parts = (*_MANY, *_TARGETS, built.LOCKS)
    for name in (*(f"{TWIN}/{part}" for part in parts), *PARTS):
        with suppress(OSError):
            (root / name).rmdir()
    left = [p for p in _listed(root) if p.name not in (TAG, _SWEPT)]
    if not left:
        for name in (TAG, _SWEPT):
            (root / name).unlink(missing_ok=True)
    return freed, left


def _listed(folder: Path) -> list[Path]:
    if folder.is_symlink() or folder.parent.is_symlink():
        return []
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _age(path: Path) -> float:
    """Seconds since a file was last changed; endless when there is none."""
    used = _used(path)
    return time.time() - used if used else float("inf")
