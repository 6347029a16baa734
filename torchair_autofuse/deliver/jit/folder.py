"""Where the JIT route keeps what it builds: ``<cache>/jit/<CANN>-<machine>-abi<n>/``."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from torchair_autofuse.cache.built import Store
from torchair_autofuse.codegen.templates import resource
from torchair_autofuse.deliver.cann import Cann

CXX11_ABI = 0
"""``_GLIBCXX_USE_CXX11_ABI`` that GE is built with."""


def store(root: Path) -> Store:
    """The built files of the route in the cache ``root``."""
    return Store(root.absolute(), "jit", runtime_digest())


def place(cann: Cann) -> str:
    """The folder for ``cann`` in the store: headers of two CANN versions give libraries that do not mix."""
    version = re.sub(r"[^A-Za-z0-9.]+", "_", cann.text)
    return f"{version}-{cann.machine}-abi{CXX11_ABI}"


@lru_cache(maxsize=1)
def runtime_digest() -> str:
    """16 hex digits over the sources of the runtime library."""
    digest = hashlib.sha256()
    for path in sorted((resource("op_templates") / "runtime").iterdir()):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
