"""The hook in TorchAir: the only package that touches its internals. Checks for drift, takes a snapshot, rolls back."""

from torchair_autofuse.plugin.hooks import install
from torchair_autofuse.plugin.state import (
    active_options,
    clear_reports,
    disable,
    enable,
    impose,
    on_fused,
    reports,
    reset,
)

__all__ = [
    "active_options", "clear_reports", "disable", "enable", "impose", "install", "on_fused", "reports", "reset",
]  # fmt: skip
