"""AF506: an entry was damaged and is made again."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from torchair_autofuse.messages import AutofuseWarning, Reason

_told: set[Path] = set()


def made_again(path: Path, problem: str) -> None:
    """Warns of a damaged entry, once per process. ``problem``: the message of the check that found it."""
    if path not in _told:
        _told.add(path)
        short = re.sub(r"(?: \(.*?\))|;.*|: chmod .*", "", problem.replace(f"{path}/", "").replace(f"{path} ", "it "))
        short = short.removeprefix(f"{path.name}: ")
        text = f"{path.name}: {short}; the entry was made again ({path})"
        warnings.warn(str(Reason("AF506", text)), AutofuseWarning, stacklevel=2)
