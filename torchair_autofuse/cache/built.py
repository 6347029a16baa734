"""Files that were compiled, in the cache: each built once by whoever is first, with its digest recorded beside it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchair_autofuse.cache import growth
from torchair_autofuse.cache.lease import hold
from torchair_autofuse.cache.locks import locked
from torchair_autofuse.cache.notice import made_again
from torchair_autofuse.cache.safety import CacheError, check_file, check_folder, make_folder, remove_work, work_folder

RECORD = ".json"
"""``x.so.json`` says what ``x.so`` is: its SHA-256, its size in bytes and what release it was built by."""
LOCKS = ".locks"

_Stamp = tuple[int, int, int]
_seen: dict[Path, _Stamp] = {}  # files this process has checked and holds, as they were then
_guard = threading.Lock()


class Damaged(Exception):
    """A file that is not what was built."""


@dataclass(frozen=True)
class Store:
    """The files under ``<cache>/<kind>``. ``release``: digest of the sources that this release builds them from."""

    cache: Path
    kind: str
    release: str

    @property
    def folder(self) -> Path:
        return self.cache / self.kind

    def find(self, name: str) -> Path | None:
        """The file ``name`` (relative, with ``/``) when it is there and is what was built; it is held from then on.

        None when it is missing or damaged, or nobody recorded what it should be. Raises CacheError when its folder is
        one that others could have written to.
        """
        target = self.folder / name
        if _is_seen(target):
            return target
        with locked(self._lock(name), shared=True):
            return self._checked(name)

    def once(self, name: str, make: Callable[[Path], Path]) -> Path:
        """:meth:`find`, else the file that ``make`` writes into the folder it is given, moved into place.

        Concurrent callers, of this process or others, wait for the first and share its result. A damaged file is
        replaced with a warning AF506. Raises CacheError for a folder that is not safe, and what ``make`` raises.
        """
        target = self.folder / name
        found = self.find(name)
        if found is not None:
            return found
        make_folder(self.cache, self.kind, *name.split("/")[:-1])
        make_folder(self.cache, self.kind, LOCKS)
        with locked(self._lock(name)) as ours:
            try:
                found = self._checked(name, strict=True)
            except Damaged as problem:
                made_again(target, str(problem))
            if found is not None:
                return found
            if ours:
                remove_work(target)
            self._make(name, make)
            found = self._checked(name)
        if found is None:
            raise CacheError(f"{target} was built, but cannot be read back; is the disk full?")
        return found

    def discard(self, name: str) -> None:
        """Deletes a file, so that it is built anew."""
        with locked(self._lock(name)):
            remove(self.folder / name)

    def problem(self, name: str) -> str | None:
        """What is wrong with the file ``name``, None for nothing; it is read in full."""
        try:
            verify(self.folder / name)
        except FileNotFoundError:
            return "it or the record of its digest is missing"
        except (Damaged, CacheError) as problem:
            return str(problem)
        return None

    def _lock(self, name: str) -> Path:
        return self.folder / LOCKS / f"{name.replace('/', '+')}.lock"

    @cached_property
    def _real(self) -> Path:
        return self.folder.resolve()

    def _checked(self, name: str, strict: bool = False) -> Path | None:
        target = self.folder / name
        hold(self._real.parent, f"{self.kind}/{name}")  # first: what is held from here on is not deleted
        for folder in self._parents(name):
            if not folder.is_dir():
                return None
            check_folder(folder, root=folder == self.cache)
        try:
            stamp = verify(target)
        except FileNotFoundError:
            return None
        except (Damaged, CacheError) as problem:
            if strict:
                raise Damaged(str(problem)) from problem
            return None
        with suppress(OSError):  # when it was last used; not in a cache of others
            os.utime(target)
            stamp = _stamp(target)
        with _guard:
            _seen[target] = stamp
        return target

    def _parents(self, name: str) -> Iterator[Path]:
        yield self.cache
        folder = self.folder
        for part in ("", *name.split("/")[:-1]):
            folder = folder / part
            yield folder

    def _make(self, name: str, make: Callable[[Path], Path]) -> None:
        target = self.folder / name
        work = work_folder(target)
        try:
            made = make(work)
            made.chmod(0o755)
            size = made.stat().st_size
            record = {"sha256": _digest(made), "bytes": size, "release": self.release}
            text = work / "record"
            text.write_text(json.dumps(record) + "\n")
            text.chmod(0o644)
            # The record first: a file without one is never used, one with another's is seen to be damaged.
            os.replace(text, record_of(target))
            os.replace(made, target)
            growth.add(self.cache, size)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def record_of(target: Path) -> Path:
    return target.with_name(target.name + RECORD)


def release_of(target: Path) -> str:
    """What a file was built by, "" when nobody recorded it."""
    try:
        return str(json.loads(record_of(target).read_text())["release"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def verify(target: Path) -> _Stamp:
    """The state of a file that is as recorded. Raises Damaged, CacheError, FileNotFoundError (file or record)."""
    record = record_of(target)
    for path in (target, record):
        check_file(path)
    stamp = _stamp(target)
    try:
        expected = json.loads(record.read_text())
        same = expected["bytes"] == stamp[2] and expected["sha256"] == _digest(target)
    except (ValueError, KeyError, TypeError):
        raise Damaged(f"{record.name} is not a record of a digest") from None
    if not same:
        raise Damaged("it is not the file that was built")
    return stamp


def remove(target: Path) -> None:
    """Deletes a file and its record; the caller has its lock."""
    target.unlink(missing_ok=True)
    record_of(target).unlink(missing_ok=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_seen(target: Path) -> bool:
    with _guard:
        before = _seen.get(target)
    try:
        return before is not None and before == _stamp(target)
    except OSError:
        return False
