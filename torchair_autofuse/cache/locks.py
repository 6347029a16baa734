"""Locks on files: freed by the kernel when their owner dies, so that none is ever stale, and safe to delete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Holds the lock ``path`` and yields True; yields False when it cannot be had.

    Many may hold it ``shared``, else only one, threads of this process included. It cannot be had where the cache is
    read-only and nobody made the file, where the file system has no locks, or, without ``wait``, where another has it.
    """
    fd = acquire(path, shared=shared, wait=wait)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def acquire(path: Path, *, shared: bool = False, wait: bool = True) -> int | None:
    """As ``locked``; returns a file descriptor, whose closing gives the lock back, or None."""
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    while True:
        fd = _open(path, shared)
        if fd is None:
            return None
        try:
            fcntl.flock(fd, operation)
            if _same(fd, path):
                return fd
        except OSError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # its last owner deleted the file: what others lock now is another one


def release(fd: int) -> None:
    """Gives a lock of ``acquire`` back, from child processes that have the file descriptor too."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _open(path: Path, shared: bool) -> int | None:
    try:
        return os.open(path, _CREATE, 0o644)
    except OSError:
        try:  # of a cache that only others write to
            return os.open(path, _READ) if shared else None
        except OSError:
            return None


def _same(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False
