"""Planning: which nodes become one fused op. Candidates, merges by the chosen planner, siblings that share an input,
cuts and splits, values computed again, small kernels side by side, the peak of memory; and why nothing else was fused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torchair_autofuse.ge.catalogue import host_nodes, is_kernel
from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.lower import RULES
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.alias import Writes, writes
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.contraction import of_groups, unfused
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.greedy import merge_greedily
from torchair_autofuse.plan.group import Costs, Fits, Group, without
from torchair_autofuse.plan.horizontal import join_small
from torchair_autofuse.plan.legality import Context, node_reason
from torchair_autofuse.plan.limits import Pair
from torchair_autofuse.plan.partition import merge_by_benefit
from torchair_autofuse.plan.peak import keep_peak
from torchair_autofuse.plan.pieces import pieces, trim
from torchair_autofuse.plan.recompute import recompute
from torchair_autofuse.plan.refine import Refiner
from torchair_autofuse.plan.refusals import Refusals
from torchair_autofuse.plan.siblings import merge_siblings
from torchair_autofuse.report import Refusal


@dataclass(frozen=True)
class Plan:
    """Groups of nodes that each become one fused op, and every refusal met on the way, in graph order."""

    groups: tuple[Group, ...] = ()
    refusals: tuple[Refusal, ...] = ()


Planner = Callable[[Graph, Clusters, Options, NodeCosts], dict[Pair, Reason]]
"""Merges clusters along data edges; returns why the edges that are left between clusters are left."""

PLANNERS: Mapping[str, Planner] = MappingProxyType({"greedy": merge_greedily, "partition": merge_by_benefit})
"""By the name that ``Options.planner`` has."""


def plan(
    graph: Graph,
    context: Context,
    options: Options,
    fits: Fits,
    costs: Costs,
) -> Plan:
    """The groups of ``graph`` that become fused ops, none of which leads to itself through others.

    ``fits`` builds and schedules a group and returns why that fails (UB, symbols), or None. ``costs``: predicted times
    at example sizes of the symbols.
    """

    def nodes_fit(nodes: Sequence[Node]) -> Reason | None:
        return fits(Group(tuple(nodes)))

    refusals = Refusals(costs.nodes)
    names = candidates(graph, context, options, refusals)
    overwritten = writes(graph, context.ref_outputs)
    clusters = Clusters(graph, names, overwritten)
    for name, reason in clusters.barred.items():
        refusals.add(name, "", reason)
    refused = PLANNERS[options.planner](graph, clusters, options, costs.nodes)
    shared, late = merge_siblings(graph, clusters, options, costs.nodes.hints, nodes_fit)
    refiner = Refiner(graph, costs)
    groups: list[Group] = []
    for cluster in clusters:
        if cluster.domain is None:
            continue
        links = shared.get(cluster.id, frozenset())
        found, cuts = pieces(graph, cluster.nodes, nodes_fit, links)
        split = [refiner.split(Group(tuple(nodes))) for nodes in found]
        groups += [group for parts, _ in split for group in parts]
        cuts = [*cuts, *(cut for _, more in split for cut in more)]
        refusals.add_cuts(cluster.nodes, cuts)
    groups.sort(key=lambda g: graph.position[g.nodes[0].name])
    alone = _alone(graph, names, groups)
    pinned = frozenset(reader for reader, _ in overwritten.waits)
    groups, stored = recompute(graph, groups, alone, options, fits, costs, pinned)
    for node, reason in stored:
        refusals.add(node.name, "", reason)
    joined = join_small(graph, groups, _alone(graph, names, groups), overwritten, options, costs)
    groups, too_large = keep_peak(graph, joined.groups, overwritten, costs.nodes.hints, fits)
    groups, too_late = _in_order(graph, groups, overwritten, fits)
    for node, reason in (*too_large, *too_late):
        refusals.add(node.name, "", reason)
    for one, other, reason in joined.refused:
        refusals.add(one.name, other.name, reason)
    if options.max_fusions is not None:
        left_out = groups[options.max_fusions :]
        groups = without(groups[: options.max_fusions], left_out, fits)
        for group in left_out:
            refusals.add_fuel(group.nodes, options.max_fusions)
    for (producer, consumer), reason in (*late.items(), *refused.items()):
        refusals.add(producer, consumer, reason)
    alone = [n for n in _alone(graph, names, groups) if is_kernel(n, graph)]
    refusals.explain(alone, clusters, refused, joined.apart)
    return Plan(tuple(groups), refusals.sorted())


def _alone(graph: Graph, names: Sequence[str], groups: Sequence[Group]) -> list[Node]:
    """The candidates that run by themselves."""
    found = unfused(graph, groups)
    return [graph.by_name[name] for name in names if name in found]


def _in_order(
    graph: Graph, groups: Sequence[Group], overwritten: Writes, fits: Fits
) -> tuple[list[Group], list[tuple[Node, Reason]]]:
    """``groups`` without those that would read memory after another op has overwritten it; and the AF209 refusals.

    Merges keep these orders (plan.alias), but what is cut inside one cluster follows data edges alone.
    """
    made = list(groups)
    refused: list[tuple[Node, Reason]] = []
    if not overwritten.waits:
        return made, refused
    known = of_groups(graph, [], overwritten).late
    while late := of_groups(graph, made, overwritten).late - known:
        reader, writer = min(late, key=lambda pair: [graph.position[name] for name in pair])
        ends = [g for g in made if any(n.name in (reader, writer) for n in g.nodes)] or made
        text = f"{writer} ({graph.by_name[writer].type}) overwrites memory that {reader} reads, and would run before it"
        reason = Reason("AF209", text)
        refused += [(g.nodes[0], reason) for g in ends]
        made = without([g for g in made if g not in ends], ends, fits)
    return made, refused


def candidates(graph: Graph, context: Context, options: Options, refusals: Refusals | None = None) -> list[str]:
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
        elif refusals is not None and is_kernel(node, graph):
            refusals.add(node.name, "", reason)
    # A view at the rim would be trimmed in the end; in a cluster its other readers would only close cycles.
    return [n.name for n in trim(graph, found)]
