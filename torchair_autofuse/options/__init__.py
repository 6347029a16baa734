"""The flag variables of CANN's AutoFuse and our own, read into one frozen ``Options``.

The module can be called: ``torchair_autofuse.options(...)`` is a scope (options.scope).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from torchair_autofuse.options.model import (
    CANN_ONLY_PASSES,
    PASSES,
    PLANNERS,
    PRECISIONS,
    ROUTES,
    Options,
    default_cache_dir,
)
from torchair_autofuse.options.read import read_options
from torchair_autofuse.options.scope import Scope, scope

__all__ = [
    "CANN_ONLY_PASSES", "PASSES", "PLANNERS", "PRECISIONS", "ROUTES", "Options", "Scope", "default_cache_dir",
    "read_options", "scope",
]  # fmt: skip


class _Callable(ModuleType):
    def __call__(self, flags: str | Options | None = None, **changes: Any) -> Scope:
        """See :func:`torchair_autofuse.options.scope.scope`."""
        return scope(flags, **changes)


sys.modules[__name__].__class__ = _Callable
