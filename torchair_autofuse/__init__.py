"""Fuses small vector ops in TorchAir's GE graphs into generated Ascend C kernels.

Import it before torch on a machine without CANN; it makes TorchAir importable there and installs the hook.
"""

from __future__ import annotations

from typing import Any

from torchair_autofuse.host import loader as _loader
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.plugin import clear_reports, disable, enable, reports
from torchair_autofuse.plugin import install as _install

__all__ = ["AutofuseWarning", "clear_reports", "disable", "enable", "fuse_model_def", "reports"]
__version__ = "0.1.0"

_loader.install()
_install()


def __getattr__(name: str) -> Any:
    # numpy, sympy and protobuf are loaded on first use, not by the import of this package
    if name == "fuse_model_def":
        from torchair_autofuse.api import fuse_model_def

        return fuse_model_def
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
