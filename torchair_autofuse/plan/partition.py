"""The partition planner: a priority queue of merges along data edges, the one that saves the most predicted time first.

What a merge saves is found anew for all neighbours of what was merged. Clusters have no schedule yet, so their time is
the coarse one of plan.cost: launch and heads, the bytes that go in and out, and the vector work of all nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Cluster, Clusters
from torchair_autofuse.plan.cost import PROFIT_NS, NodeCosts, Work, predicted_ns
from torchair_autofuse.plan.limits import Pair, data_edges, too_big


def merge_by_benefit(graph: Graph, clusters: Clusters, options: Options, costs: NodeCosts) -> dict[Pair, Reason]:
    """Merges until none saves time; returns why the edges that are left between clusters are left."""
    return _Queue(graph, clusters, options, costs).run()


class ClusterCosts:
    """Coarse predicted times of sets of nodes as one kernel each."""

    def __init__(self, graph: Graph, costs: NodeCosts) -> None:
        self._graph, self._costs = graph, costs
        self._launch = predicted_ns(costs.chip, Work(1, 1))
        self._on_host = host_nodes(graph)

    def ns(self, nodes: Sequence[Node]) -> int:
        """Predicted nanoseconds; of a set with unknown sizes those of its launch, 0 for one without a kernel."""
        if not any(is_kernel(n, self._graph) for n in nodes):
            return 0
        works = [self._costs.work(n) for n in nodes]
        known = [w for w in works if w is not None]
        inside = {n.name for n in nodes}
        read = self._bytes(r for n in nodes for r in n.inputs if r is not None and self._outer(r, inside))
        written = self._bytes(
            r
            for n in nodes
            for r in n.outputs
            if any(c.name not in inside for c, _ in self._graph.consumers.get(r, ()))
        )
        if len(known) < len(works) or read is None or written is None:
            return self._launch
        return predicted_ns(
            self._costs.chip,
            Work(
                read,
                written,
                sum(w.cycles for w in known),
                sum(w.heads for w in known),
                max(w.elements for w in known),
                sum(w.copies for w in known),
                min((w.units for w in known if w.units), default=0),
            ),
        )

    def _outer(self, ref: TensorRef, inside: set[str]) -> bool:
        return ref.node not in inside and ref.node not in self._on_host and uniform_value(self._graph, ref) is None

    def _bytes(self, refs: Iterable[TensorRef]) -> int | None:
        found = [tensor_bytes(r, self._graph, self._costs.hints) for r in dict.fromkeys(refs)]
        return None if any(size is None for size in found) else sum(size or 0 for size in found)


class _Queue:
    def __init__(self, graph: Graph, clusters: Clusters, options: Options, costs: NodeCosts) -> None:
        self._graph, self._clusters, self._options = graph, clusters, options
        self._costs = ClusterCosts(graph, costs)
        self._edges = data_edges(graph, clusters)
        self._by_id = {c.id: c for c in clusters}
        self._ns: dict[tuple[int, int], int] = {}  # (cluster, version) -> its time
        self._heap: list[tuple[int, int, int, int, int]] = []
        self._near: dict[int, set[int]] = {}
        self._reasons: dict[tuple[int, int], Reason] = {}

    def run(self) -> dict[Pair, Reason]:
        for producer, consumer in self._edges:
            one, other = (self._clusters.of[name].id for name in (producer, consumer))
            if one != other:
                self._near.setdefault(one, set()).add(other)
                self._near.setdefault(other, set()).add(one)
        for i in sorted(self._near):
            for j in sorted(self._near[i]):
                if i < j:
                    self._push(self._by_id[i], self._by_id[j])
        while self._heap:
            benefit, i, j, first, second = heapq.heappop(self._heap)
            if i not in self._by_id or j not in self._by_id:
                continue
            a, b = self._by_id[i], self._by_id[j]
            if (a.version, b.version) == (first, second):
                self._try(a, b, -benefit)
        return self._left()

    def _push(self, a: Cluster, b: Cluster) -> None:
        benefit = self._time(a) + self._time(b) - self._costs.ns([*a.nodes, *b.nodes])
        heapq.heappush(self._heap, (-benefit, a.id, b.id, a.version, b.version))

    def _time(self, cluster: Cluster) -> int:
        key = (cluster.id, cluster.version)
        if key not in self._ns:
            self._ns[key] = self._costs.ns(cluster.nodes)
        return self._ns[key]

    def _try(self, a: Cluster, b: Cluster, benefit: int) -> None:
        free = not (self._time(a) and self._time(b))  # a reshape costs nothing either way
        reason: Reason | None
        if benefit < (0 if free else PROFIT_NS):
            before = self._time(a) + self._time(b)
            reason = Reason("AF216", f"one op would take {before - benefit} ns, the two take {before} ns (predicted)")
        else:
            reason = too_big(a, b, self._options) or self._clusters.merge(a, b)
        if reason is not None:
            self._reasons[min(a.id, b.id), max(a.id, b.id)] = reason
            return
        kept = self._clusters.of[a.nodes[0].name]
        gone = b if kept is a else a
        del self._by_id[gone.id]
        for other in self._near.pop(gone.id, set()):
            self._near[other].discard(gone.id)
            if other != kept.id:
                self._near[other].add(kept.id)
                self._near[kept.id].add(other)
        for other in sorted(self._near[kept.id]):
            low, high = sorted((kept.id, other))
            self._push(self._by_id[low], self._by_id[high])

    def _left(self) -> dict[Pair, Reason]:
        found: dict[Pair, Reason] = {}
        for producer, consumer in self._edges:
            a, b = (self._clusters.of[name].id for name in (producer, consumer))
            if a != b:
                found[producer, consumer] = self._reasons[min(a, b), max(a, b)]
        return found
