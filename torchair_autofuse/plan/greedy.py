"""The greedy planner: merges along data edges, the largest saved tensor first, as long as every rule allows."""

from __future__ import annotations

from collections.abc import Mapping

from torchair_autofuse.ge.catalogue import tensor_bytes
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.registry import data_positions
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.limits import Pair, too_big


def merge_greedily(graph: Graph, clusters: Clusters, options: Options, hints: Mapping[str, int]) -> dict[Pair, Reason]:
    """Merges to a fixed point; returns why the edges that are left between clusters are left."""
    pending = edges_by_size(graph, clusters, hints)
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
    found: dict[Pair, tuple[int, int, int]] = {}
    size: dict[TensorRef, int] = {}
    for node in graph.nodes:
        if node.name not in clusters.of or clusters.of[node.name].domain is None:
            continue
        for i in data_positions(node, RULES[node.type]):
            ref = node.inputs[i]
            if ref is None or ref.node not in clusters.of or clusters.of[ref.node].domain is None:
                continue
            if ref not in size:
                size[ref] = tensor_bytes(ref, graph, hints) or 0
            key = (-size[ref], graph.position[ref.node], graph.position[node.name])
            found[ref.node, node.name] = min(key, found.get((ref.node, node.name), key))
    return sorted(found, key=found.__getitem__)
