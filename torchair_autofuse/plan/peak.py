"""The last look at a plan: fused ops that raise the peak of live bytes beyond what is allowed are undone.

Merging along data edges never asks for memory: an op mostly keeps more from memory than it makes early. But one with
several results makes them all at once, where the ops it replaces made one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.alias import Writes
from torchair_autofuse.plan.contraction import of_groups
from torchair_autofuse.plan.group import Fits, Group, without
from torchair_autofuse.plan.memory import allowed, at_peak, peak_bytes, peak_text
from torchair_autofuse.plan.pieces import components, trim, worthwhile

_TRIED = 8  # ops that are tried to go, those with most bytes at the peak


def keep_peak(
    graph: Graph, groups: Sequence[Group], writes: Writes, hints: Mapping[str, int], fits: Fits
) -> tuple[list[Group], list[tuple[Node, Reason]]]:
    """``groups`` with those that raise the peak too much made smaller, until it is within the limit.

    Also returns the AF224 refusals: the first node of each op that was made smaller. Sizes that are unknown count as 0.
    """

    def peak_of(plan: Sequence[Group]) -> int:
        return peak_bytes(graph, of_groups(graph, plan, writes), hints)

    made = list(groups)
    undone: list[tuple[Node, Reason]] = []
    before = peak_of([])
    limit = allowed(before)
    while (peak := peak_of(made)) > limit:
        blocks = of_groups(graph, made, writes)
        there = at_peak(graph, blocks, hints)
        wanted = sorted(
            (g for g in made if any(n.name in there for n in g.nodes)),
            key=lambda g: (-sum(there.get(n.name, 0) for n in g.nodes), graph.position[g.nodes[0].name]),
        )
        if not wanted:
            break  # what is live there is not made by a fused op
        plans = [(_undone(graph, made, [g], fits), [g]) for g in wanted[:_TRIED]]
        plan, gone = min(plans, key=lambda p: peak_of(p[0]))
        if peak_of(plan) >= peak:
            plan, gone = _undone(graph, made, wanted, fits), wanted  # no single one is to blame
        undone += [(g.nodes[0], Reason("AF224", peak_text(peak, before))) for g in gone]
        made = plan
    return made, undone


def _undone(graph: Graph, groups: Sequence[Group], gone: Sequence[Group], fits: Fits) -> list[Group]:
    """The plan with some groups made smaller: their parts, or halves, instead; nothing of those with copies."""
    kept: list[Group] = []
    left: list[Group] = []
    for group in groups:
        smaller = (group.parts or _halves(graph, group)) if group in gone else [group]
        for part in smaller:
            (kept if worthwhile(graph, part.nodes) else left).append(part)
        if not smaller:
            left.append(group)
    return without(kept, left, fits)


def _halves(graph: Graph, group: Group) -> list[Group]:
    if group.copies or group.unstored:
        return []
    middle = len(group.nodes) // 2
    halves = (group.nodes[:middle], group.nodes[middle:])
    return [Group(tuple(p)) for half in halves for p in components(graph, trim(graph, half))]
