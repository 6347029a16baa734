"""The contracted graph during planning: clusters, the edges between them in topological order, and merging.

Every merge keeps the contracted graph free of cycles. Instead of all-pairs reachability it holds a topological rank per
cluster and looks only at clusters ranked between the two (D. J. Pearce, P. H. J. Kelly, "A dynamic topological sort
algorithm for directed acyclic graphs", 2006); for neighbours in a chain that is next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.ordering import connected_order
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.alias import SOURCES, Writes


@dataclass(eq=False)
class Cluster:
    """One group of nodes; a node that cannot be fused is a cluster of its own without a domain.

    ``rank``: place in a topological order of the clusters. ``after``, ``before``: ids of the clusters that must run
    later and earlier; those in ``data_after`` by data or control edges, the others because they write what this one
    reads. ``version``: how often something was merged into it.
    """

    id: int
    domain: Domain | None
    nodes: list[Node]
    rank: int
    after: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)
    data_after: set[int] = field(default_factory=set)
    version: int = 0


class Clusters:
    """All clusters of a graph. ``writes``: who overwrites memory that others read (plan.alias)."""

    def __init__(self, graph: Graph, candidates: Iterable[str], writes: Writes | None = None) -> None:
        self.graph = graph
        self.of: dict[str, Cluster] = {}
        self.barred: dict[str, Reason] = {}  # candidates that no fused op can hold, such as a reshape without axes
        self._by_id: dict[int, Cluster] = {}
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
            made = self.of[node.name] = self._by_id[i] = Cluster(i, domain, [node], i)
            for name in (*(r.node for r in node.inputs if r is not None), *node.controls):
                if name in self.of and self.of[name] is not made:
                    self._link(self.of[name], made)
                    self.of[name].data_after.add(i)
        for reader, writer in self._writes.waits:
            self._wait(self.of[reader], self.of[writer])

    def __iter__(self) -> Iterator[Cluster]:
        """Each cluster once, by id."""
        return iter(self._by_id[i] for i in sorted(self._by_id))

    def merge(self, a: Cluster, b: Cluster) -> Reason | None:
        """Makes one cluster of two, or says why not; on refusal nothing has changed."""
        assert a.domain is not None and b.domain is not None
        if a.nodes[0].scope != b.nodes[0].scope:
            return Reason("AF207", f"{a.nodes[0].name} and {b.nodes[0].name} have different scope labels")
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

    def between(self, a: Cluster, b: Cluster) -> Reason | None:
        """Why something has to run between the two, or None if nothing has to."""
        found = self._reach(*((a, b) if a.rank < b.rank else (b, a)))
        return found if isinstance(found, Reason) else None

    # ---- edges --------------------------------------------------------------------------------------------------

    def _link(self, earlier: Cluster, later: Cluster) -> None:
        earlier.after.add(later.id)
        later.before.add(earlier.id)

    def _wait(self, reader: Cluster, writer: Cluster) -> None:
        """Adds the edge reader -> writer where it closes no cycle: a reader that comes later anyway is GE's concern."""
        if reader is writer or writer.id in reader.after:
            return
        if reader.rank > writer.rank:
            found = self._walk(writer.after, reader)
            if reader.id in found:
                return
            behind = self._back(reader, writer)
            places = sorted(self._by_id[i].rank for i in found | behind | {reader.id, writer.id})
            order = [*self._ranked(behind), reader, writer, *self._ranked(found)]
            for cluster, rank in zip(order, places):
                cluster.rank = rank
        self._link(reader, writer)

    # ---- reachability -------------------------------------------------------------------------------------------

    def _reach(self, first: Cluster, last: Cluster) -> set[int] | Reason:
        """Ids reached from ``first`` that are ranked before ``last``, or why the two cannot be one: a path between."""
        found = self._walk(first.after - {last.id}, last)
        if last.id not in found:
            return found
        starts = self._ranked(i for i in first.after & found if i != last.id)
        node = next(c for c in starts if c.id == last.id or last.id in self._walk({c.id}, last)).nodes[0]
        names = f"{first.nodes[0].name} and {last.nodes[0].name}"
        if last.id not in self._walk(first.data_after - {last.id}, last, data_only=True):
            return Reason(
                "AF209", f"{names}: an op has to read or write in between, as one of them overwrites its memory"
            )
        return Reason("AF206", f"{node.name} ({node.type}) lies on a path between {names}")

    def _walk(self, start: Iterable[int], last: Cluster, *, data_only: bool = False) -> set[int]:
        """Ids reached from ``start``, itself included, without passing a rank beyond that of ``last``."""
        found = {i for i in start if self._by_id[i].rank <= last.rank}
        stack = list(found)
        while stack:
            here = self._by_id[stack.pop()]
            if here is last:
                continue
            for i in here.data_after if data_only else here.after:
                if i not in found and self._by_id[i].rank <= last.rank:
                    found.add(i)
                    stack.append(i)
        return found

    def _back(self, last: Cluster, first: Cluster) -> set[int]:
        """Ids that reach ``last`` and are ranked after ``first``."""
        found = {i for i in last.before if self._by_id[i].rank > first.rank}
        stack = list(found)
        while stack:
            for i in self._by_id[stack.pop()].before:
                if i not in found and self._by_id[i].rank > first.rank:
                    found.add(i)
                    stack.append(i)
        return found

    def _ranked(self, ids: Iterable[int]) -> list[Cluster]:
        return sorted((self._by_id[i] for i in ids), key=lambda c: c.rank)

    # ---- joining ------------------------------------------------------------------------------------------------

    def _reorder(self, first: Cluster, last: Cluster, kept: Cluster, forward: set[int]) -> None:
        """Ranks for the two as one: what leads to ``last`` goes before it, what follows ``first`` after it."""
        behind = self._back(last, first)
        places = sorted([first.rank, *(self._by_id[i].rank for i in forward | behind)])
        order = [*self._ranked(behind), kept, *self._ranked(forward)]
        for cluster, rank in zip(order, places):
            cluster.rank = rank

    def _join(self, big: Cluster, small: Cluster) -> None:
        big.nodes.extend(small.nodes)
        big.version += 1
        for node in small.nodes:
            self.of[node.name] = big
        for i in small.after:
            self._swap(self._by_id[i].before, small.id, big.id, i)
        for i in small.before:
            earlier = self._by_id[i]
            self._swap(earlier.after, small.id, big.id, i)
            self._swap(earlier.data_after, small.id, big.id, i)
        big.after = (big.after | small.after) - {big.id, small.id}
        big.before = (big.before | small.before) - {big.id, small.id}
        big.data_after = (big.data_after | small.data_after) - {big.id, small.id}
        del self._by_id[small.id]

    @staticmethod
    def _swap(ids: set[int], gone: int, kept: int, owner: int) -> None:
        if gone in ids:
            ids.discard(gone)
            if owner != kept:
                ids.add(kept)
