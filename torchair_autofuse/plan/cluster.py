"""The contracted graph during planning: clusters, which of them reach which, and merging with undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.lower.domain import Domain, connected_order
from torchair_autofuse.messages import Reason

_SOURCES = ("Data", "RefData", "Const", "Constant", "ConstPlaceHolder")  # nothing reaches them


@dataclass
class Cluster:
    """One group of nodes; a node that cannot be fused is a cluster of its own without a domain."""

    id: int
    domain: Domain | None
    nodes: list[Node]


class Clusters:
    """All clusters of a graph and the reachability between them, as bit sets over cluster ids."""

    def __init__(self, graph: Graph, candidates: Iterable[str]) -> None:
        self.graph = graph
        self.of: dict[str, Cluster] = {}
        wanted = set(candidates)
        nodes = [n for n in graph.nodes if n.type not in _SOURCES]
        for i, node in enumerate(nodes):
            domain = None
            if node.name in wanted:
                domain = Domain(graph)
                if domain.try_add(node) is not None:
                    domain = None
            self.of[node.name] = Cluster(i, domain, [node])
        self._below = [0] * len(nodes)  # ids of the clusters that a cluster reaches
        self._above = [0] * len(nodes)
        self._members = [1 << i for i in range(len(nodes))]  # ids that have been merged into a cluster
        before = [
            {self.of[r.node].id for r in node.inputs if r is not None and r.node in self.of}
            | {self.of[c].id for c in node.controls if c in self.of}
            for node in nodes
        ]
        for i, ids in enumerate(before):
            for j in ids:
                self._above[i] |= self._above[j] | 1 << j
        for i in reversed(range(len(nodes))):
            for j in before[i]:
                self._below[j] |= self._below[i] | 1 << i

    def __iter__(self) -> Iterator[Cluster]:
        """Each cluster once, by id."""
        seen = {c.id: c for c in self.of.values()}
        return iter(seen[i] for i in sorted(seen))

    def merge(self, a: Cluster, b: Cluster) -> Reason | None:
        """Makes one cluster of two, or says why not; on refusal nothing has changed."""
        assert a.domain is not None and b.domain is not None
        if a.nodes[0].scope != b.nodes[0].scope:
            return Reason("AF207", f"{a.nodes[0].name} and {b.nodes[0].name} have different scope labels")
        between = (self._below[a.id] & self._above[b.id]) | (self._below[b.id] & self._above[a.id])
        if between:
            return Reason("AF206", f"another op lies on a path between {a.nodes[0].name} and {b.nodes[0].name}")
        big, small = (a, b) if len(a.nodes) >= len(b.nodes) else (b, a)
        assert big.domain is not None
        mark = big.domain.mark()
        for node in connected_order(self.graph, small.nodes, big.domain.nodes):
            reason = big.domain.try_add(node)
            if reason is not None:
                big.domain.rollback(mark)
                return reason
        big.nodes.extend(small.nodes)
        for node in small.nodes:
            self.of[node.name] = big
        self._join(big.id, small.id)
        return None

    def _join(self, kept: int, gone: int) -> None:
        self._members[kept] |= self._members[gone]
        inside = self._members[kept]
        self._below[kept] = (self._below[kept] | self._below[gone]) & ~inside
        self._above[kept] = (self._above[kept] | self._above[gone]) & ~inside
        below, above = self._below[kept] | 1 << kept, self._above[kept] | 1 << kept
        for i in _bits(self._above[kept]):
            self._below[i] |= below
        for i in _bits(self._below[kept]):
            self._above[i] |= above


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
