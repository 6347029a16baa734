"""What all planners start from: the edges along which clusters may merge, and the limit that the user sets."""

from __future__ import annotations

from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.registry import data_positions
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Cluster, Clusters

Pair = tuple[str, str]
"""Names of a producer and a consumer."""


def too_big(a: Cluster, b: Cluster, options: Options) -> Reason | None:
    """Why the two together have more nodes than the user allows, or None."""
    limit = options.max_fusion_size
    if limit is not None and len(a.nodes) + len(b.nodes) > limit:
        return Reason("AF213", f"{len(a.nodes) + len(b.nodes)} nodes, --max_fusion_size is {limit}")
    return None


def data_edges(graph: Graph, clusters: Clusters) -> dict[Pair, list[TensorRef]]:
    """The tensors of every data edge between two nodes that may be fused, in graph order of the consumers."""
    found: dict[Pair, list[TensorRef]] = {}
    for node in graph.nodes:
        if node.name not in clusters.of or clusters.of[node.name].domain is None:
            continue
        for i in data_positions(node, RULES[node.type]):
            ref = node.inputs[i]
            if ref is not None and ref.node in clusters.of and clusters.of[ref.node].domain is not None:
                found.setdefault((ref.node, node.name), []).append(ref)
    return found
