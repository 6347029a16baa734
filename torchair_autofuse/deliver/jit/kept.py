"""Files that were built, in the cache: each built once by whoever is first, moved into place, its digest beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from torchair_autofuse.messages import AutofuseWarning, Reason

_MODE = 0o755  # whatever the umask: others must not be able to replace code that is going to run here


class UnsafeFolder(OSError):
    """A folder that other users may write to."""


def once(target: Path, root: Path, make: Callable[[Path], Path]) -> Path:
    """``target``, a file in the cache ``root``; else what ``make`` writes into the folder it is given, moved there.

    Concurrent callers, of this process or others, wait for the first and share its result. A file that is not the one
    that was built is made again, with a warning AF506. Raises OSError for a folder that cannot be written to,
    UnsafeFolder for one that others may write to, and what ``make`` raises.
    """
    for part in (root, *reversed(target.relative_to(root).parents[:-1])):
        _make_folder(root / part)
    with FileLock(str(target.parent / f".{target.name}.lock")):
        if target.exists():
            if _is_intact(target):
                return target
            text = str(Reason("AF506", f"{target} is not the file that was built; it is built again"))
            warnings.warn(text, AutofuseWarning, stacklevel=2)
            target.unlink()
        work = Path(tempfile.mkdtemp(prefix=".build-", dir=target.parent))
        try:
            made = make(work)
            made.chmod(_MODE)
            record = work / "digest"
            record.write_text(_digest(made) + "\n")
            os.replace(record, _record(target))  # first: a file without a digest is never taken
            os.replace(made, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    if os.name == "posix" and folder.stat().st_mode & stat.S_IWOTH:
        raise UnsafeFolder(
            f"{folder} may be written by every user of this machine: chmod o-w {folder}, or set "
            "TORCHAIR_AUTOFUSE_CACHE_DIR to a folder of your own"
        )


def _record(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


def _is_intact(target: Path) -> bool:
    try:
        return _record(target).read_text().strip() == _digest(target)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
