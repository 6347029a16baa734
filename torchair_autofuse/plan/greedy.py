"""The greedy planner: merges along data edges, the largest saved tensor first, as long as every rule allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.domain import data_positions
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Cluster, Clusters
from torchair_autofuse.plan.legality import Context, node_reason
from torchair_autofuse.report import Refusal

Fits = Callable[[Sequence[Node]], "Reason | None"]


@dataclass
class Plan:
    """Groups of nodes (topological order) that each become one fused op, and every refusal met on the way."""

    groups: list[tuple[Node, ...]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def plan(graph: Graph, context: Context, options: Options, hints: Mapping[str, int], fits: Fits) -> Plan:
    """Clusters of ``graph``.

    ``fits`` builds and schedules a group and returns why that fails (UB, symbols), or None. ``hints`` are example sizes
    of the symbols; they only order merges.
    """
    made = Plan()
    on_host = host_nodes(graph)
    reasons: dict[str, Reason] = {}
    candidates: list[str] = []
    for node in graph.nodes:
        if node.type not in RULES or node.name in on_host:
            if is_kernel(node, graph):
                reasons[node.name] = _reason_of(graph, node, context, options)
            continue
        reason = node_reason(graph, node, context, options)
        if reason is None:
            candidates.append(node.name)
        elif is_kernel(node, graph):
            reasons[node.name] = reason
    # A view at the rim would be trimmed in the end; in a cluster its other readers would only close cycles.
    candidates = [n.name for n in trim(graph, [graph.by_name[name] for name in candidates])]
    clusters = Clusters(graph, candidates)
    refused = _merge_all(graph, clusters, options, hints)
    for cluster in clusters:
        _emit(graph, cluster, options, fits, made, refused)
    made.refusals += [Refusal(name, "", r.code, r.text) for name, r in reasons.items()]
    made.refusals += [Refusal(a, b, r.code, r.text) for (a, b), r in refused.items()]
    return made


def _reason_of(graph: Graph, node: Node, context: Context, options: Options) -> Reason:
    reason = node_reason(graph, node, context, options)
    return reason if reason is not None else Reason("AF222", f"{node.name} is computed on the host")


def _merge_all(
    graph: Graph, clusters: Clusters, options: Options, hints: Mapping[str, int]
) -> dict[tuple[str, str], Reason]:
    edges = sorted(_edges(graph, clusters), key=lambda e: (-(tensor_bytes(e[0], graph, hints) or 0), e[1], e[2]))
    refused: dict[tuple[str, str], Reason] = {}
    pending = [(ref.node, consumer) for ref, _, consumer in edges]
    while True:
        again: list[tuple[str, str]] = []
        for producer, consumer in pending:
            a, b = clusters.of[producer], clusters.of[consumer]
            if a is b:
                refused.pop((producer, consumer), None)
                continue
            reason = _too_big(a, b, options) or clusters.merge(a, b)
            if reason is None:
                refused.pop((producer, consumer), None)
            else:
                refused[producer, consumer] = reason
                again.append((producer, consumer))
        if len(again) == len(pending):
            break
        pending = again
    inside = [pair for pair in refused if clusters.of[pair[0]] is clusters.of[pair[1]]]
    for pair in inside:
        del refused[pair]
    return refused


def _edges(graph: Graph, clusters: Clusters) -> list[tuple[TensorRef, int, str]]:
    found = []
    for node in graph.nodes:
        if node.name not in clusters.of or clusters.of[node.name].domain is None:
            continue
        for i in data_positions(node, RULES[node.type]):
            ref = node.inputs[i]
            if ref is not None and ref.node in clusters.of and clusters.of[ref.node].domain is not None:
                found.append((ref, graph.position[ref.node], node.name))
    return found


def _too_big(a: Cluster, b: Cluster, options: Options) -> Reason | None:
    limit = options.max_fusion_size
    if limit is not None and len(a.nodes) + len(b.nodes) > limit:
        return Reason("AF213", f"more than {limit} nodes (--max_fusion_size)")
    return None


def _emit(
    graph: Graph,
    cluster: Cluster,
    options: Options,
    fits: Fits,
    made: Plan,
    refused: dict[tuple[str, str], Reason],
) -> None:
    """The cluster as one group, or as the largest pieces of it that fit."""
    if cluster.domain is None:
        return
    waiting = [sorted(cluster.nodes, key=lambda n: graph.position[n.name])]
    while waiting:
        nodes = trim(graph, waiting.pop(0))
        if not worthwhile(graph, nodes):
            kernels = [n for n in nodes if is_kernel(n, graph)]
            if kernels and not any(kernels[0].name in pair for pair in refused):
                made.refusals.append(
                    Refusal(kernels[0].name, "", "AF216", f"{kernels[0].name} has no neighbour to fuse with")
                )
            continue
        reason = fits(nodes)
        if reason is None:
            made.groups.append(tuple(nodes))
            continue
        cut = _largest_prefix(graph, nodes, fits)
        made.refusals.append(
            Refusal(nodes[0].name, nodes[cut].name if cut < len(nodes) else "", reason.code, reason.text)
        )
        if cut:
            waiting.append(list(nodes[:cut]))
        waiting += _components(graph, nodes[max(cut, 1) :])


def _largest_prefix(graph: Graph, nodes: Sequence[Node], fits: Fits) -> int:
    """Length of a prefix (in topological order, so convex) that fits; 0 if not even two nodes do."""
    low, high = 0, len(nodes)
    while high - low > 1:
        middle = (low + high) // 2
        part = trim(graph, nodes[:middle])
        if not part or len(_components(graph, part)) > 1 or fits(part) is not None:
            high = middle
        else:
            low = middle
    return low


def _components(graph: Graph, nodes: Sequence[Node]) -> list[list[Node]]:
    """Connected parts (along data edges) in order of their first node."""
    owner = {n.name: {n.name} for n in nodes}
    for node in nodes:
        for ref in node.inputs:
            if ref is not None and ref.node in owner and owner[ref.node] is not owner[node.name]:
                joined = owner[ref.node] | owner[node.name]
                for name in joined:
                    owner[name] = joined
    seen: set[int] = set()
    parts = []
    for node in nodes:
        group = owner[node.name]
        if id(group) not in seen:
            seen.add(id(group))
            parts.append([n for n in nodes if n.name in group])
    return parts


def trim(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The nodes without reshapes at the rim: a view whose source, or all of whose readers, are outside is free."""
    kept = list(nodes)
    while True:
        names = {n.name for n in kept}
        rim = [n for n in kept if _free_view(n) and _at_rim(graph, n, names)]
        if not rim:
            return kept
        gone = {n.name for n in rim}
        kept = [n for n in kept if n.name not in gone]


def _free_view(node: Node) -> bool:
    rule = RULES[node.type]
    return rule.kind == "view" and rule.view == "reshape"


def _at_rim(graph: Graph, node: Node, names: set[str]) -> bool:
    source = node.inputs[data_positions(node, RULES[node.type])[0]]
    if source is None or source.node not in names:
        return True
    return all(c.name not in names for ref in node.outputs for c, _ in graph.consumers.get(ref, ()))


def worthwhile(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether fusing saves a kernel: at least two of the nodes launch one."""
    return sum(is_kernel(n, graph) for n in nodes) >= 2
