"""Short SHA-256 digests: keys of what is built, and of the sources it is built from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_DIGITS = 24


def digest(data: bytes) -> str:
    """The first 24 hex digits of the SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def files_digest(files: Iterable[tuple[str, Path]]) -> str:
    """24 hex digits over files, each with the name that it counts under; their order does not matter."""
    sha = hashlib.sha256()
    for name, path in sorted(files):
        data = path.read_bytes()
        sha.update(f"{name}\0{len(data)}\0".encode())
        sha.update(data)
    return sha.hexdigest()[:_DIGITS]
