"""Collects refusals: each once, in graph order, and at least one for every fusible kernel that stayed alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.pieces import Cut
from torchair_autofuse.report import Refusal


class Refusals:
    """Refusals of one plan."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found: dict[Refusal, None] = {}
        self._cut: dict[str, Reason] = {}  # node -> why the cluster it was in had to be cut

    def add(self, node: str, other: str, reason: Reason) -> None:
        """Why ``node`` is in no fused op or, with ``other``, why the two are in different ones."""
        self._found.setdefault(Refusal(node, other, reason.code, reason.text))

    def add_cuts(self, nodes: Iterable[Node], cuts: Sequence[Cut]) -> None:
        """Why a cluster was cut; each of its nodes gets the last reason in case that it stays alone."""
        for first, other, reason in cuts:
            self.add(first.name, "" if other is None else other.name, reason)
        for node in nodes if cuts else ():
            self._cut[node.name] = cuts[-1][2]

    def add_fuel(self, nodes: Sequence[Node], limit: int) -> None:
        """The group is left out because ``limit`` fused ops were made before it."""
        reason = Reason("AF221", f"max_fusions = {limit} fused ops were made before this one")
        for node in nodes:
            if is_kernel(node, self._graph):
                self.add(node.name, "", reason)

    def explain(self, alone: Sequence[Node], clusters: Clusters, refused: Mapping[tuple[str, str], Reason]) -> None:
        """Gives each of ``alone`` that no refusal names yet the reason of the cluster it was in, or AF216."""
        named = {name for r in self._found for name in (r.node, r.other)}
        by_cluster: dict[int, tuple[str, str]] = {}
        for source, reader in refused:
            for name in (source, reader):
                by_cluster.setdefault(clusters.of[name].id, (source, reader))
        for node in alone:
            if node.name in named:
                continue
            pair = by_cluster.get(clusters.of[node.name].id) if node.name in clusters.of else None
            if node.name in self._cut:
                self.add(node.name, "", self._cut[node.name])
            elif pair is not None:
                source, reader = pair
                other = reader if clusters.of[source] is clusters.of[node.name] else source
                self.add(node.name, other, refused[pair])
            else:
                self.add(node.name, "", Reason("AF216", self._no_neighbour(node)))

    def _no_neighbour(self, node: Node) -> str:
        sources = [self._graph.by_name[r.node] for r in node.inputs if r is not None]
        readers = [c for ref in node.outputs for c, _ in self._graph.consumers.get(ref, ())]
        text = f"{node.name} ({node.type}) has no neighbour to fuse with"
        for word, nodes in (("reads", sources), ("is read by", readers)):
            types = list(dict.fromkeys(n.type for n in nodes if n.type not in ("Const", "Constant")))
            text += f"; it {word} {', '.join(types[:4])}" if types else ""
        return text

    def sorted(self) -> tuple[Refusal, ...]:
        """All of them, by the graph positions of node and other."""
        place = self._graph.position

        def key(r: Refusal) -> tuple[int, int, str, str]:
            return place[r.node], place.get(r.other, -1), r.code, r.reason

        return tuple(sorted(self._found, key=key))
