"""What a compilation fused, what it did not and why."""

from torchair_autofuse.report.report import FusedOp, FusionReport, Refusal, Why

__all__ = ["FusedOp", "FusionReport", "Refusal", "Why"]
