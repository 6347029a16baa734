"""The digests of an installed package: told apart from one that was copied in part or damaged on disk.

GE loads kernels and libraries without a look at what is in them. Files that are not listed, such as what GE or Python
add, do not matter.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from torchair_autofuse.deliver.package.names import DEFINITIONS
from torchair_autofuse.messages import Reason

SEAL = "FILES.json"
"""Beside the definitions: path from the package's folder -> [bytes, SHA-256]. A package that was installed by hand
from ``build.sh`` has none."""
_MODE = 0o644


def seal(folder: Path) -> None:
    """Records what is in ``folder``, but for links. Raises OSError."""
    target = folder / DEFINITIONS / SEAL
    target.unlink(missing_ok=True)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    record = {p.relative_to(folder).as_posix(): [p.stat().st_size, _digest(p)] for p in files}
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    target.chmod(_MODE)


def broken(folder: Path) -> Iterator[Reason]:
    """The files of ``folder`` that are not as recorded (AF502); nothing where nothing is recorded."""
    target = folder / DEFINITIONS / SEAL
    if not os.path.lexists(target):
        return
    try:
        record = json.loads(target.read_text(encoding="utf-8"))
        expected = {str(name): (int(size), str(digest)) for name, (size, digest) in record.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        yield Reason("AF502", f"{target}: is damaged; build the package again")
        return
    for name, (size, digest) in expected.items():
        file = folder / name
        try:
            same = file.is_file() and file.stat().st_size == size and _digest(file) == digest
        except OSError as error:
            yield Reason("AF502", f"{file}: cannot be read ({error.strerror})")
            continue
        if not same:
            what = "is not the file that was built (its SHA-256 is another)" if file.is_file() else "is missing"
            yield Reason("AF502", f"{file}: {what}; build the package again")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
