"""Limits that every planner keeps."""

from __future__ import annotations

from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Cluster

Pair = tuple[str, str]
"""Names of a producer and a consumer."""


def too_big(a: Cluster, b: Cluster, options: Options) -> Reason | None:
    """Why the two together have more nodes than the user allows, or None."""
    limit = options.max_fusion_size
    if limit is not None and len(a.nodes) + len(b.nodes) > limit:
        return Reason("AF213", f"more than {limit} nodes (--max_fusion_size)")
    return None
