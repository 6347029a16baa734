"""The last look at a plan: fused ops that raise the peak of live bytes beyond what is allowed are undone.

Merging along data edges never asks for memory: an op mostly keeps more from memory than it makes early. But one with
several results makes them all at once, where the ops it replaces made one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.alias import Writes
from torchair_autofuse.plan.contraction import Block, Contraction, of_groups
from torchair_autofuse.plan.group import Fits, Group, without
from torchair_autofuse.plan.memory import above, allowed, at_peaks, peak_bytes, peak_text
from torchair_autofuse.plan.pieces import separated, worthwhile

_TRIED = 8  # ops that are tried to go, those with most bytes at the peak


def keep_peak(
    graph: Graph, groups: Sequence[Group], writes: Writes, hints: Mapping[str, int], fits: Fits
) -> tuple[list[Group], list[tuple[Node, Reason]]]:
    """``groups`` with those that raise the peak too much made smaller, until it is within the limit.

    Also returns the AF224 refusals: the first node of each op that was made smaller. Sizes that are unknown count as 0.
    """

    def blocks_of(plan: Sequence[Group]) -> Contraction[Block]:
        return of_groups(graph, plan, writes)

    made = list(groups)
    undone: list[tuple[Node, Reason]] = []
    before = peak_bytes(graph, blocks_of([]), hints)
    limit = allowed(before)
    blocks = blocks_of(made)
    while (now := above(graph, blocks, hints, limit))[0] > limit:
        peaks = [_there(graph, made, there) for there in at_peaks(graph, blocks, hints, limit)]
        wanted = peaks[0]
        if not wanted:
            break  # what is live there is not made by a fused op
        plans = [(_undone(graph, made, [g], fits), [g]) for g in wanted[:_TRIED]]
        (plan, gone), least = min(
            ((p, above(graph, blocks_of(p[0]), hints, limit)) for p in plans), key=lambda found: found[1]
        )
        if least >= now:
            plan, gone = _undone(graph, made, wanted, fits), wanted  # no single one is to blame
        elif alike := _alike(gone[0], peaks[1:]):
            gone += alike
            plan = _undone(graph, made, gone, fits)
        undone += [(g.nodes[0], Reason("AF224", peak_text(now[0], before))) for g in gone]
        made, blocks = plan, blocks_of(plan)
    return made, undone


def _there(graph: Graph, groups: Sequence[Group], there: Mapping[str, int]) -> list[Group]:
    """The groups that made what lives at a peak, those with most bytes first."""
    return sorted(
        (g for g in groups if any(n.name in there for n in g.nodes)),
        key=lambda g: (-sum(there.get(n.name, 0) for n in g.nodes), graph.position[g.nodes[0].name]),
    )


def _alike(group: Group, peaks: Sequence[Sequence[Group]]) -> list[Group]:
    """One group of equal node types at each other peak, as in the layers of a model: they are all undone at once."""
    types = [n.type for n in group.nodes]
    found: dict[int, Group] = {}
    for there in peaks:
        if group in there or any(id(g) in found for g in there):
            continue
        other = next((g for g in there if [n.type for n in g.nodes] == types), None)
        if other is not None:
            found[id(other)] = other
    return list(found.values())


def _undone(graph: Graph, groups: Sequence[Group], gone: Sequence[Group], fits: Fits) -> list[Group]:
    """The plan with some groups made smaller: their parts, or halves, instead; nothing of those with copies."""
    kept: list[Group] = []
    left: list[Group] = []
    for group in groups:
        smaller = (group.parts or _halves(graph, group)) if group in gone else [group]
        for part in smaller:
            made = worthwhile(graph, part.nodes) and (part is group or fits(part) is None)
            (kept if made else left).append(part)
        if not smaller:
            left.append(group)
    return without(kept, left, fits)


def _halves(graph: Graph, group: Group) -> list[Group]:
    if group.copies or group.unstored:
        return []
    middle = len(group.nodes) // 2
    return [Group(tuple(p)) for p in separated(graph, (group.nodes[:middle], group.nodes[middle:]))]
