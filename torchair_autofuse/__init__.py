"""Fuses small vector ops in TorchAir's GE graphs into generated Ascend C kernels.

Import it before torch on a machine without CANN; it makes TorchAir importable there and installs the hook.
"""

from __future__ import annotations

from typing import Any

from torchair_autofuse import options
from torchair_autofuse.host import loader as _loader
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.plugin import clear_reports, disable, enable, reports
from torchair_autofuse.plugin import install as _install

__all__ = [
    "AutofuseWarning", "bisect", "clear_reports", "disable", "enable", "fuse_model_def", "options", "reports", "verify",
]  # fmt: skip
__version__ = "0.1.0"

_loader.install()
_install()


def __getattr__(name: str) -> Any:
    # torch, numpy, sympy and protobuf are loaded on first use, not by the import of this package
    where = {
        "fuse_model_def": "torchair_autofuse.api",
        "bisect": "torchair_autofuse.trust.bisect",
        "verify": "torchair_autofuse.trust.verify",
    }.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(where), name)
