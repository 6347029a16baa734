"""Clusters: blocks of nodes that become fused ops, with their iteration domains, and merging them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.ordering import connected_order
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.alias import SOURCES, Writes
from torchair_autofuse.plan.contraction import Block, Contraction


@dataclass(eq=False)
class Cluster(Block):
    """One group of nodes; a node that cannot be fused is a cluster of its own without a domain."""

    domain: Domain | None = None


class Clusters(Contraction[Cluster]):
    """All clusters of a graph. ``writes``: who overwrites memory that others read (plan.alias)."""

    def __init__(self, graph: Graph, candidates: Iterable[str], writes: Writes | None = None) -> None:
        super().__init__(graph)
        self.barred: dict[str, Reason] = {}  # candidates that no fused op can hold, such as a reshape without axes
        self._writes = writes if writes is not None else Writes()
        wanted = set(candidates)
        for i, node in enumerate(n for n in graph.nodes if n.type not in SOURCES):
            domain = None
            if node.name in wanted:
                domain = Domain(graph)
                reason = domain.try_add(node)
                if reason is not None:
                    domain = None
                    self.barred[node.name] = reason
            self.of[node.name] = self._by_id[i] = Cluster(i, [node], i, domain=domain)
        self._connect(self._writes.waits)

    def merge(self, a: Cluster, b: Cluster) -> Reason | None:
        """Makes one cluster of two, or says why not; on refusal nothing has changed."""
        assert a.domain is not None and b.domain is not None
        if a.nodes[0].scope != b.nodes[0].scope:
            one, other = a.nodes[0], b.nodes[0]
            return Reason("AF207", f"scope labels {one.scope!r} of {one.name} and {other.scope!r} of {other.name}")
        first, last = (a, b) if a.rank < b.rank else (b, a)
        between = self._reach(first, last)
        if isinstance(between, Reason):
            return between
        big, small = (a, b) if len(a.nodes) >= len(b.nodes) else (b, a)
        assert big.domain is not None
        mark = big.domain.mark()
        for node in connected_order(self.graph, small.nodes, big.domain.nodes):
            reason = big.domain.try_add(node)
            if reason is not None:
                big.domain.rollback(mark)
                return reason
        reason = self._writes.conflict(self.graph, big.domain)
        if reason is not None:
            big.domain.rollback(mark)
            return reason
        self._reorder(first, last, big, between)
        self._join(big, small)
        return None
