"""Collects refusals: each once, in graph order, and at least one for every fusible kernel that stayed alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, is_view
from torchair_autofuse.ge.graph import Node
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.alias import SOURCES
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.pieces import Cut
from torchair_autofuse.report import Refusal

_SHOWN = 4  # neighbours that a text names


class Refusals:
    """Refusals of one plan."""

    def __init__(self, costs: NodeCosts) -> None:
        self._graph, self._costs = costs.graph, costs
        self._found: dict[Refusal, None] = {}
        self._on_host = host_nodes(self._graph)
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

    def explain(
        self,
        alone: Sequence[Node],
        clusters: Clusters,
        refused: Mapping[tuple[str, str], Reason],
        apart: Mapping[str, str],
    ) -> None:
        """Gives each of ``alone`` that no refusal names yet the reason of the cluster it was in, or AF216.

        ``apart``: why a node has no kernel beside it, where that was tried.
        """
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
                self.add(node.name, "", Reason("AF216", self._no_neighbour(node, apart.get(node.name, ""))))

    def _no_neighbour(self, node: Node, apart: str) -> str:
        """What keeps each neighbour out, what the node costs as it is, and why no small kernel is beside it."""
        sources = [(self._graph.by_name[r.node], False) for r in node.inputs if r is not None]
        readers = [(c, True) for ref in node.outputs for c, _ in self._graph.consumers.get(ref, ())]
        text = f"{node.name} ({node.type}) has no neighbour to fuse with"
        for word, nodes in (("reads", sources), ("is read by", readers)):
            found = list(dict.fromkeys(t for n, down in nodes for t in self._kept_out(n, down)))
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            text += f"; it {word} {', '.join(found[:_SHOWN])}{more}" if found else ""
        work, ns = self._costs.work(node), self._costs.ns(node)
        if work is not None and ns is not None:
            text += f"; its kernel takes {ns} ns (predicted) and moves {work.read + work.written} bytes"
        else:
            text += "; what its kernel takes is unknown without example sizes"
        return f"{text}; {apart}" if apart else text

    def _kept_out(self, node: Node, down: bool) -> Iterator[str]:
        """The node, or what is behind it where it is a reshape, and the code of why it is in no fused op."""
        if is_view(node, self._graph):
            around = (
                [c for ref in node.outputs for c, _ in self._graph.consumers.get(ref, ())]
                if down
                else [self._graph.by_name[r.node] for r in node.inputs[:1] if r is not None]
            )
            for other in around:
                yield from self._kept_out(other, down)
        elif node.type not in ("Const", "Constant"):
            yield self._word(node)

    def _word(self, node: Node) -> str:
        if node.type == "NetOutput":
            return "the outputs"
        if node.type in SOURCES:
            return f"{node.name} (an input)"
        name = node.name if node.name.startswith(node.type) else f"{node.name} ({node.type})"
        codes = [*dict.fromkeys(r.code for r in self._found if node.name == r.node and not r.other)]
        if node.name in self._on_host:
            codes = ["computed on the host"]
        return f"{name} ({', '.join(codes) or 'not by its values'})"

    def sorted(self) -> tuple[Refusal, ...]:
        """All of them, by the graph positions of node and other."""
        place = self._graph.position

        def key(r: Refusal) -> tuple[int, int, str, str]:
            return place[r.node], place.get(r.other, -1), r.code, r.reason

        return tuple(sorted(self._found, key=key))
