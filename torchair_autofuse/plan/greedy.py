"""The greedy planner: merges along data edges, the largest saved tensor first, as long as every rule allows."""

from __future__ import annotations

from collections.abc import Mapping

from torchair_autofuse.ge.catalogue import tensor_bytes
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.limits import Pair, data_edges, too_big


def merge_greedily(graph: Graph, clusters: Clusters, options: Options, costs: NodeCosts) -> dict[Pair, Reason]:
    """Merges to a fixed point; returns why the edges that are left between clusters are left."""
    pending = edges_by_size(graph, clusters, costs.hints)
    refused: dict[Pair, Reason] = {}
    tried: dict[tuple[int, int], tuple[int, int, Reason]] = {}
    while True:
        merged = False
        again: list[Pair] = []
        for producer, consumer in pending:
            a, b = clusters.of[producer], clusters.of[consumer]
            if a is b:
                continue
            known = tried.get((a.id, b.id))
            if known is not None and known[:2] == (a.version, b.version):
                reason: Reason | None = known[2]  # nothing that could change the answer has happened since
            else:
                reason = too_big(a, b, options) or clusters.merge(a, b)
            if reason is None:
                merged = True
            else:
                tried[a.id, b.id] = (a.version, b.version, reason)
                refused[producer, consumer] = reason
                again.append((producer, consumer))
        pending = again
        if not merged:
            break
    return {pair: refused[pair] for pair in pending if clusters.of[pair[0]] is not clusters.of[pair[1]]}


def edges_by_size(graph: Graph, clusters: Clusters, hints: Mapping[str, int]) -> list[Pair]:
    """(producer, consumer) of every data edge between candidates, the largest tensor first, then in graph order."""
    size: dict[TensorRef, int] = {}
    found: dict[Pair, tuple[int, int, int]] = {}
    for (producer, consumer), refs in data_edges(graph, clusters).items():
        for ref in refs:
            if ref not in size:
                size[ref] = tensor_bytes(ref, graph, hints) or 0
        place = graph.position[producer], graph.position[consumer]
        found[producer, consumer] = (-max(size[ref] for ref in refs), *place)
    return sorted(found, key=found.__getitem__)
