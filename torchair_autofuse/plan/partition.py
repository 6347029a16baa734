"""The partition planner: a priority queue of merges along data edges, the one that saves the most predicted time first.

What a merge saves is found anew for all neighbours of what was merged, or of the smaller one if there are very many.
Clusters have no schedule yet, so their time is the coarse one of plan.cost: launch and heads, the bytes that go in and
out, and the vector work of all nodes. Each cluster keeps the sums, so that a merge is judged by what the two share.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.cost import PROFIT_NS, NodeCosts, Work, predicted_ns
from torchair_autofuse.plan.limits import Pair, data_edges, too_big

WIDE = 64
"""Neighbours of a cluster beyond which those keep their places in the queue when it grows, as looking at all of them
after every merge would take the square of their number. They lose the place if less than half of the benefit is left
when it comes up; and those that were refused are looked at again in the end."""
_UNKNOWN = 1 << 100  # bytes of a tensor of unknown size: more than all that are known together


def merge_by_benefit(graph: Graph, clusters: Clusters, options: Options, costs: NodeCosts) -> dict[Pair, Reason]:
    """Merges until none saves time; returns why the edges that are left between clusters are left."""
    return _Queue(graph, clusters, options, costs).run()


@dataclass
class Part:
    """Some nodes as one kernel, unless none of them ``launches`` one: what it does, and its time in ns.

    ``reads``: how many inputs of the nodes each tensor from outside is. ``stored``: how many inputs outside each tensor
    is that the nodes make.
    """

    launches: bool
    work: Work
    ns: int
    reads: dict[TensorRef, int]
    stored: dict[TensorRef, int]


class ClusterCosts:
    """Coarse predicted times of sets of nodes as one kernel each, from those of their parts.

    A set of unknown sizes takes the time of its launch, one without a kernel none.
    """

    def __init__(self, graph: Graph, costs: NodeCosts) -> None:
        self._graph, self._costs = graph, costs

    def part(self, node: Node) -> Part:
        """The node alone."""
        reads = dict(Counter(r for r in node.inputs if r is not None))
        stored = {r: len(self._graph.consumers[r]) for r in node.outputs if r in self._graph.consumers}
        read, written = sum(map(self._loaded, reads)), sum(map(self._size, stored))
        work = self._costs.work(node)
        found = Work(read + _UNKNOWN, written) if work is None else replace(work, read=read, written=written)
        launches = is_kernel(node, self._graph)
        return Part(launches, found, self._ns(launches, found), reads, stored)

    def together(self, a: Part, b: Part) -> int:
        """Time of the two as one; costs no more than to look at what the smaller one reads and stores."""
        return self._ns(a.launches or b.launches, self._work(a, b))

    def join(self, big: Part, small: Part) -> None:
        """Makes ``big`` the two as one."""
        big.work = self._work(big, small)
        big.launches |= small.launches
        big.ns = self._ns(big.launches, big.work)
        for maker, reader in ((big, small), (small, big)):
            for ref in _common(maker.stored, reader.reads):
                maker.stored[ref] -= reader.reads.pop(ref)
                if not maker.stored[ref]:
                    del maker.stored[ref]
        for ref, count in small.reads.items():
            big.reads[ref] = big.reads.get(ref, 0) + count
        big.stored.update(small.stored)

    def _work(self, a: Part, b: Part) -> Work:
        read = a.work.read + b.work.read - sum(map(self._loaded, _common(a.reads, b.reads)))
        written = a.work.written + b.work.written
        for maker, reader in ((a, b), (b, a)):
            for ref in _common(maker.stored, reader.reads):
                read -= self._loaded(ref)
                if maker.stored[ref] == reader.reads[ref]:
                    written -= self._size(ref)
        return Work(
            read,
            written,
            a.work.cycles + b.work.cycles,
            a.work.heads + b.work.heads,
            max(a.work.elements, b.work.elements),
            a.work.copies + b.work.copies,
            min(a.work.units or b.work.units, b.work.units or a.work.units),
        )

    def _ns(self, launches: bool, work: Work) -> int:
        if not launches:
            return 0
        unknown = max(work.read, work.written) >= _UNKNOWN
        return self._costs.launch_ns if unknown else predicted_ns(self._costs.chip, work)

    def _loaded(self, ref: TensorRef) -> int:
        found = self._costs.loaded(ref)
        return _UNKNOWN if found is None else found

    def _size(self, ref: TensorRef) -> int:
        found = self._costs.size(ref)
        return _UNKNOWN if found is None else found


def _common(a: Mapping[TensorRef, int], b: Mapping[TensorRef, int]) -> list[TensorRef]:
    """The tensors that are in both, by looking at each of the smaller one."""
    few, many = (a, b) if len(a) <= len(b) else (b, a)
    return [ref for ref in few if ref in many]


class _Queue:
    """Pairs of neighbours, by what they are known to save.

    Each pair waits at most once, with its benefit as of when one of the two last changed; but see :data:`WIDE`.
    """

    def __init__(self, graph: Graph, clusters: Clusters, options: Options, costs: NodeCosts) -> None:
        self._clusters, self._options = clusters, options
        self._costs = ClusterCosts(graph, costs)
        self._edges = data_edges(graph, clusters)
        self._by_id = {c.id: c for c in clusters}
        self._parts = {c.id: self._costs.part(c.nodes[0]) for c in clusters if c.domain is not None}
        self._heap: list[tuple[int, int, int]] = []  # (-benefit, ids), of which those in _waiting count
        self._waiting: dict[tuple[int, int], int] = {}
        self._near: dict[int, set[int]] = {}
        self._refused: dict[tuple[int, int], tuple[int, int, Reason]] = {}  # with the versions of the two

    def run(self) -> dict[Pair, Reason]:
        for producer, consumer in self._edges:
            one, other = (self._clusters.of[name].id for name in (producer, consumer))
            if one != other:
                self._near.setdefault(one, set()).add(other)
                self._near.setdefault(other, set()).add(one)
        while self._push_changed():
            while self._heap:
                benefit, i, j = heapq.heappop(self._heap)
                if self._waiting.get((i, j)) == -benefit:
                    del self._waiting[i, j]
                    self._take(i, j, -benefit)
        return self._left()

    def _push_changed(self) -> bool:
        """Queues all pairs that are not refused as they are now; whether there are any."""
        for i in sorted(self._near):
            for j in sorted(self._near[i]):
                versions = self._by_id[i].version, self._by_id[j].version
                if i < j and self._refused.get((i, j), ())[:2] != versions:
                    self._push(i, j)
        return bool(self._heap)

    def _push(self, i: int, j: int) -> None:
        low, high = min(i, j), max(i, j)
        benefit = self._waiting[low, high] = self._benefit(low, high)
        heapq.heappush(self._heap, (-benefit, low, high))

    def _benefit(self, i: int, j: int) -> int:
        a, b = self._parts[i], self._parts[j]
        return a.ns + b.ns - self._costs.together(a, b)

    def _take(self, i: int, j: int, queued: int) -> None:
        benefit = self._benefit(i, j)
        if max(2 * benefit, 0) < queued:  # it fell a lot since it was queued
            self._push(i, j)
            return
        reason = self._merge(i, j, benefit)
        if reason is not None:
            self._refused[i, j] = (self._by_id[i].version, self._by_id[j].version, reason)

    def _merge(self, i: int, j: int, benefit: int) -> Reason | None:
        a, b = self._by_id[i], self._by_id[j]
        times = self._parts[i].ns, self._parts[j].ns
        if benefit < (PROFIT_NS if all(times) else 0):  # a reshape costs nothing either way
            before = sum(times)
            text = f"one op would take {before - benefit} ns, the two take {before} ns (predicted)"
            return Reason("AF216", f"{text}, {PROFIT_NS} ns less is asked for")
        reason = too_big(a, b, self._options) or self._clusters.merge(a, b)
        if reason is not None:
            return reason
        kept = self._clusters.of[a.nodes[0].name].id
        gone = j if kept == i else i
        del self._by_id[gone]
        self._costs.join(self._parts[kept], self._parts.pop(gone))
        ours, moved = self._near[kept], self._near.pop(gone) - {kept}
        ours.discard(gone)
        ours |= moved
        for other in moved:
            self._near[other].discard(gone)
            self._near[other].add(kept)
            self._waiting.pop((min(other, gone), max(other, gone)), None)
        for other in sorted(ours if len(ours) <= WIDE else moved):
            self._push(kept, other)
        return None

    def _left(self) -> dict[Pair, Reason]:
        found: dict[Pair, Reason] = {}
        for producer, consumer in self._edges:
            a, b = (self._clusters.of[name].id for name in (producer, consumer))
            if a != b:
                found[producer, consumer] = self._refused[min(a, b), max(a, b)][2]
        return found
