"""Where the JIT route keeps what it builds."""

from __future__ import annotations

import re
from pathlib import Path

from torchair_autofuse.deliver.cann import Cann

CXX11_ABI = 0
"""``_GLIBCXX_USE_CXX11_ABI`` that GE is built with."""


def jit_folder(cann: Cann, root: Path) -> Path:
    """``<root>/jit/<CANN version>-<machine>-abi<n>``: headers of two CANN versions give libraries that do not mix."""
    version = re.sub(r"[^A-Za-z0-9.]+", "_", cann.text)
    return root.absolute() / "jit" / f"{version}-{cann.machine}-abi{CXX11_ABI}"
