"""Where a plan stays behind the upper bound: one refusal for each merge that the bound makes and the plan does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.bound import Bound
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.report import FusionReport, Refusal

UNEXPLAINED = "none"
NO_PROFIT = "AF216"


@dataclass(frozen=True)
class Loss:
    """The kernels ``producer`` and ``consumer`` are apart; ``code`` and ``reason`` of the report say why."""

    producer: str
    consumer: str
    producer_type: str
    consumer_type: str
    code: str
    reason: str


def losses(graph: Graph, bound: Bound, report: FusionReport) -> list[Loss]:
    """One entry per missing merge: a group of the bound that the plan leaves in ``k`` pieces has ``k - 1``.

    So ``kernels_after - bound.kernels`` is their number, less the merges the plan makes beyond the bound. ``graph`` is
    the simplified graph that ``bound`` and ``report`` are about.
    """
    piece = {name: name for group in bound.groups for name in group}
    for i, op in enumerate(report.fused):
        piece.update((name, f"\0{i}") for name in op.nodes if name in piece)
    union = _Union(piece.values())
    pairs, single = _index(report.refused)
    found = []
    edges = [(*edge, _why(edge, pairs, single)) for edge in bound.edges]
    edges.sort(key=lambda e: e[3] is None)  # stable: an edge with an explanation speaks for its pieces first
    for producer, consumer, _, why in edges:
        if union.join(piece[producer], piece[consumer]):
            types = graph.by_name[producer].type, graph.by_name[consumer].type
            code, reason = (why.code, why.reason) if why is not None else (UNEXPLAINED, "no refusal in the report")
            found.append(Loss(producer, consumer, *types, code, reason))
    return found


def _index(refused: Iterable[Refusal]) -> tuple[dict[frozenset[str], Refusal], dict[str, Refusal]]:
    pairs: dict[frozenset[str], Refusal] = {}
    single: dict[str, Refusal] = {}
    for refusal in refused:
        if refusal.other:
            pairs.setdefault(frozenset((refusal.node, refusal.other)), refusal)
        else:
            single.setdefault(refusal.node, refusal)
    return pairs, single


def _why(
    edge: tuple[str, str, tuple[str, ...]], pairs: Mapping[frozenset[str], Refusal], single: Mapping[str, Refusal]
) -> Refusal | None:
    """A refusal of the edge itself, else of a step over its views, of one of its ends, or of a cut there."""
    producer, consumer, views = edge
    path = [consumer, *views, producer]
    for a, b in [(producer, consumer), *pairwise(path)]:
        if frozenset((a, b)) in pairs:
            return pairs[frozenset((a, b))]
    ends = [single[name] for name in (producer, consumer, *views) if name in single]
    # A cluster that did not fit is cut: the report names its first node and the first one that was cut off.
    cuts = [pairs[pair] for name in (consumer, producer, *views) for pair in pairs if name == pairs[pair].other]
    follows = [refusal for refusal in ends if refusal.code == NO_PROFIT]  # only follows from other refusals
    return next(iter([*(r for r in ends if r.code != NO_PROFIT), *cuts, *follows]), None)


class _Union:
    def __init__(self, items: Iterable[str]) -> None:
        self._parent = {item: item for item in items}

    def _root(self, item: str) -> str:
        while self._parent[item] != item:
            item = self._parent[item]
        return item

    def join(self, a: str, b: str) -> bool:
        """Whether the two were apart until now."""
        first, second = self._root(a), self._root(b)
        self._parent[second] = first
        return first != second
