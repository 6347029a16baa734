"""How much this process has added to a cache: what decides when it is worth while to look at its size."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path

_added: dict[Path, int] = defaultdict(int)
_guard = threading.Lock()


def add(root: Path, size: int) -> None:
    """Counts ``size`` bytes that were written under the cache ``root``."""
    with _guard:
        _added[root.absolute()] += size


def added(root: Path) -> int:
    """Bytes since the last ``reset``."""
    with _guard:
        return _added[root.absolute()]


def reset(root: Path) -> None:
    with _guard:
        _added[root.absolute()] = 0
