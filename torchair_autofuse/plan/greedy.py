"""The greedy planner: merges along data edges, the largest saved tensor first, as long as every rule allows; then
siblings that share an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.registry import data_positions
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.alias import writes
from torchair_autofuse.plan.cluster import Cluster, Clusters
from torchair_autofuse.plan.legality import Context, node_reason
from torchair_autofuse.plan.pieces import pieces, trim
from torchair_autofuse.plan.recompute import Group, recompute
from torchair_autofuse.plan.refusals import Refusals
from torchair_autofuse.plan.siblings import merge_siblings
from torchair_autofuse.report import Refusal

Pair = tuple[str, str]


@dataclass(frozen=True)
class Plan:
    """Groups of nodes that each become one fused op, and every refusal met on the way, in graph order."""

    groups: tuple[Group, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def plan(
    graph: Graph,
    context: Context,
    options: Options,
    hints: Mapping[str, int],
    fits: Callable[[Group], Reason | None],
) -> Plan:
    """Clusters of ``graph``.

    ``fits`` builds and schedules a group and returns why that fails (UB, symbols), or None. ``hints`` are example sizes
    of the symbols; they only order merges.
    """

    def nodes_fit(nodes: Sequence[Node]) -> Reason | None:
        return fits(Group(tuple(nodes)))

    refusals = Refusals(graph)
    candidates = _candidates(graph, context, options, refusals)
    overwritten = writes(graph, context.ref_outputs)
    clusters = Clusters(graph, candidates, overwritten)
    for name, reason in clusters.barred.items():
        refusals.add(name, "", reason)
    refused = _merge_all(graph, clusters, options, hints)
    shared = merge_siblings(graph, clusters, options, hints, nodes_fit)
    groups: list[Group] = []
    for cluster in clusters:
        if cluster.domain is None:
            continue
        links = shared.get(cluster.id, frozenset())
        found, cuts = pieces(graph, cluster.nodes, nodes_fit, links)
        groups += [Group(tuple(nodes)) for nodes in found]
        refusals.add_cuts(cluster.nodes, cuts)
    groups.sort(key=lambda g: graph.position[g.nodes[0].name])
    if options.max_fusions is not None:
        for group in groups[options.max_fusions :]:
            refusals.add_fuel(group.nodes, options.max_fusions)
        groups = groups[: options.max_fusions]
    inside = {n.name for g in groups for n in g.nodes}
    alone = [graph.by_name[name] for name in candidates if name not in inside]
    groups, too_many = recompute(
        graph, groups, alone, options, fits, frozenset(reader for reader, _ in overwritten.waits)
    )
    for node, reason in too_many:
        refusals.add(node.name, "", reason)
    for (producer, consumer), reason in refused.items():
        refusals.add(producer, consumer, reason)
    gone = {name for g in groups for name in g.copies}
    refusals.explain([n for n in alone if n.name not in gone and is_kernel(n, graph)], clusters, refused)
    return Plan(tuple(groups), refusals.sorted())


def _candidates(graph: Graph, context: Context, options: Options, refusals: Refusals) -> list[str]:
    """Names of the nodes that may be fused, in order; why others may not goes to ``refusals``."""
    on_host = host_nodes(graph)
    found: list[Node] = []
    for node in graph.nodes:
        if node.name in on_host:
            continue
        if node.type not in RULES and not is_kernel(node, graph):
            continue
        reason = node_reason(graph, node, context, options)
        if reason is None:
            found.append(node)
        elif is_kernel(node, graph):
            refusals.add(node.name, "", reason)
    # A view at the rim would be trimmed in the end; in a cluster its other readers would only close cycles.
    return [n.name for n in trim(graph, found)]


def _merge_all(graph: Graph, clusters: Clusters, options: Options, hints: Mapping[str, int]) -> dict[Pair, Reason]:
    """Merges to a fixed point; returns why the edges that are left between clusters are left."""
    pending = _edges(graph, clusters, hints)
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
                reason = _too_big(a, b, options) or clusters.merge(a, b)
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


def _edges(graph: Graph, clusters: Clusters, hints: Mapping[str, int]) -> list[Pair]:
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


def _too_big(a: Cluster, b: Cluster, options: Options) -> Reason | None:
    limit = options.max_fusion_size
    if limit is not None and len(a.nodes) + len(b.nodes) > limit:
        return Reason("AF213", f"more than {limit} nodes (--max_fusion_size)")
    return None
