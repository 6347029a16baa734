"""Whose folders and files code is loaded from: only the user's own and root's, that nobody else may write to."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

_MODE = 0o755  # set whatever the umask: others must not be able to replace code that is going to run here
_ADVICE = "set TORCHAIR_AUTOFUSE_CACHE_DIR to a folder of your own"


class CacheError(RuntimeError):
    """A cache folder that cannot be used, or is not safe to use."""


def check_folder(folder: Path, *, root: bool = False) -> None:
    """Raises CacheError unless ``folder`` is a folder of this user or of root that others may not write to.

    A link must be theirs too, and so must what it leads to. A ``root`` such as /tmp may be open to all when it is
    sticky: others cannot replace what is in it, and what is in it is checked on its own.
    """
    for found in _stats(folder):
        _check_owner(folder, found)
    if not stat.S_ISDIR(found.st_mode):
        raise CacheError(f"{folder} is not a folder; delete it, or {_ADVICE}")
    open_to_all = os.name == "posix" and found.st_mode & stat.S_IWOTH
    if open_to_all and not (root and found.st_mode & stat.S_ISVTX):
        raise CacheError(
            f"{folder} may be written by every user of this machine, so kernels in it are not run: "
            f"chmod o-w {folder}, or {_ADVICE}"
        )


def check_file(path: Path) -> None:
    """Raises CacheError unless ``path`` is a plain file, no link, of this user or of root that others may not write.

    Raises FileNotFoundError when there is none.
    """
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise CacheError(f"{path} is not a plain file")
    _check_owner(path, found)
    if os.name == "posix" and found.st_mode & stat.S_IWOTH:
        raise CacheError(f"{path} may be written by every user of this machine")


def make_folder(root: Path, *names: str) -> Path:
    """``root/names...``, made where it is not there, each level checked. Raises CacheError."""
    folder = root
    for part in ("", *names):
        folder = folder / part
        if not folder.is_dir():
            try:
                folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
            except OSError as error:
                text = f"{folder} cannot be made ({error.strerror}): set TORCHAIR_AUTOFUSE_CACHE_DIR to a folder"
                raise CacheError(f"{text} that you can write to") from error
        check_folder(folder, root=folder == root)
    return folder


def work_folder(target: Path) -> Path:
    """A new folder beside ``target``, where it is made before it is moved into place: ``.<its name>-<random>``.

    Whoever makes one has the target's lock as long as it is there, so that others can tell it from a dead writer's.
    """
    while True:
        try:
            return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        except FileNotFoundError:  # somebody cleared the cache just now
            target.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)


def remove_work(target: Path) -> None:
    """Deletes the work folders of dead writers of ``target``; the caller has its lock, so there is no live one."""
    for left in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(left, ignore_errors=True)


def _stats(path: Path) -> list[os.stat_result]:
    """Of the link, if it is one, and of what it leads to."""
    first = os.lstat(path)
    return [first, os.stat(path)] if stat.S_ISLNK(first.st_mode) else [first]


def _check_owner(path: Path, found: os.stat_result) -> None:
    if os.name == "posix" and found.st_uid not in (0, os.geteuid()):
        raise CacheError(
            f"{path} belongs to another user (uid {found.st_uid}), so kernels in it are not run: "
            f"delete it, or {_ADVICE}"
        )
