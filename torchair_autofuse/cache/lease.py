"""Which entries of a cache live processes use, so that nobody deletes those.

Each process has one file in ``<cache>/.leases/``, locked as long as it lives, with a name per line. One file descriptor
per process and cache, however many entries it uses.
"""

from __future__ import annotations

import atexit
import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from torchair_autofuse.cache.locks import acquire, locked
from torchair_autofuse.cache.safety import CacheError, make_folder

FOLDER = ".leases"


class _Lease:
    def __init__(self, root: Path, names: set[str]) -> None:
        self.pid, self.names = os.getpid(), names
        self.path = make_folder(root, FOLDER) / f"{self.pid}-{uuid.uuid4().hex[:8]}"
        self.fd = acquire(self.path)
        self._append(sorted(names))

    def add(self, name: str) -> None:
        if name not in self.names:
            self.names.add(name)
            self._append([name])

    def _append(self, names: list[str]) -> None:
        if self.fd is not None and names:
            os.write(self.fd, "".join(f"{n}\n" for n in names).encode())

    def end(self) -> None:
        if self.fd is not None and self.pid == os.getpid():
            self.path.unlink(missing_ok=True)
            os.close(self.fd)


_leases: dict[str, _Lease] = {}  # by root
_guard = threading.Lock()


def hold(root: Path, name: str) -> None:
    """Keeps the entry ``name`` of the cache ``root`` until this process ends; call it with the entry's lock held.

    Does nothing in a cache that cannot be written to.
    """
    key = os.path.realpath(root)
    with _guard, suppress(OSError, CacheError):
        lease = _leases.get(key)
        if lease is None or lease.pid != os.getpid():  # a fork uses what its parent does, and may outlive it
            lease = _leases[key] = _Lease(Path(key), set(lease.names) if lease else set())
        lease.add(name)


def held(root: Path) -> set[str]:
    """The names that live processes use, this one included. Files of dead processes are deleted."""
    names: set[str] = set()
    with suppress(FileNotFoundError):
        for path in sorted((root / FOLDER).iterdir()):
            with locked(path, wait=False) as dead:
                if dead:
                    path.unlink(missing_ok=True)
                    continue
            with suppress(OSError):
                names.update(path.read_text().splitlines())
    return names


@atexit.register
def release() -> None:
    """Gives up what this process holds."""
    with _guard:
        for lease in _leases.values():
            with suppress(OSError):
                lease.end()
        _leases.clear()
