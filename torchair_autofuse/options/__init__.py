"""The flag variables of CANN's AutoFuse and our own, read into one frozen ``Options``."""

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

__all__ = [
    "CANN_ONLY_PASSES", "PASSES", "PLANNERS", "PRECISIONS", "ROUTES", "Options", "default_cache_dir", "read_options",
]  # fmt: skip
