"""Where the JIT route keeps what it builds: ``<cache>/jit/<CANN>-<machine>-abi<n>/``."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from torchair_autofuse.cache.built import Store
from torchair_autofuse.codegen.templates import resource
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.digests import files_digest

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
    """24 hex digits over the sources of the runtime library."""
    return files_digest((path.name, path) for path in (resource("op_templates") / "runtime").iterdir())
