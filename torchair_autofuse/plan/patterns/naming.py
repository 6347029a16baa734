"""What patterns are for: to name what was fused, and to keep clusters of a name from being fused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.patterns.match import Match
from torchair_autofuse.report import FusedOp


def barred(matches: Sequence[Match], names: Collection[str]) -> Mapping[str, Reason]:
    """Node -> why it stays, for the nodes of all occurrences of the patterns ``names``."""
    found: dict[str, Reason] = {}
    for match in matches:
        if match.pattern in names:
            for node in match.nodes:
                text = f"{node} is of a pattern that is switched off: {match.pattern}"
                found.setdefault(node, Reason("AF214", text))
    return found


def outermost(matches: Sequence[Match]) -> tuple[Match, ...]:
    """``matches`` without those that lie inside another one; of two of the same nodes the first stays."""
    owners: dict[str, list[set[str]]] = {}
    kept: list[Match] = []
    for match in sorted(matches, key=lambda m: -len(m.nodes)):
        nodes = set(match.nodes)
        if not any(nodes <= other for other in owners.get(match.nodes[0], ())):
            kept.append(match)
            for node in nodes:
                owners.setdefault(node, []).append(nodes)
    return tuple(kept)


def name_ops(fused: Sequence[FusedOp], matches: Sequence[Match]) -> tuple[FusedOp, ...]:
    """``fused`` with the names of the patterns that lie in each of them, the larger ones first.

    What lies inside a larger pattern of the same op is not named.
    """
    owners: dict[str, list[int]] = {}
    nodes = [set(op.nodes) for op in fused]
    for i, op in enumerate(fused):
        for node in op.nodes:
            owners.setdefault(node, []).append(i)
    inside: list[list[Match]] = [[] for _ in fused]
    for match in matches:
        for i in owners.get(match.nodes[0], ()):
            if nodes[i].issuperset(match.nodes):
                inside[i].append(match)
    names = [tuple(dict.fromkeys(m.pattern for m in outermost(found))) for found in inside]
    return tuple(replace(op, patterns=found) if found else op for op, found in zip(fused, names))
