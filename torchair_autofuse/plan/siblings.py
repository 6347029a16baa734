"""Horizontal fusion: clusters without an edge between them that both read one whole tensor share the read.

Sum, sum of squares and maximum of one x become one kernel that reads x once. A tensor as large as both iteration
domains counts, or a smaller one of several dims where both domains have equally many elements: query and key that are
rotated by the same cosines. What two kernels read of a vector, such as a bias, is no reason to join them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from torchair_autofuse.ge.catalogue import is_kernel, tensor_bytes
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.registry import data_positions
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cluster import Cluster, Clusters
from torchair_autofuse.plan.limits import Pair
from torchair_autofuse.plan.pieces import NodesFit, results_outside, trim

NEAR = 32
"""Nodes between two siblings beyond which large results are not made earlier: they would only occupy memory."""
_OPEN = 4  # clusters that a sibling is tried with, the last ones first: those before them are full, or far away


def merge_siblings(
    graph: Graph, clusters: Clusters, options: Options, hints: Mapping[str, int], fits: NodesFit
) -> tuple[dict[int, frozenset[TensorRef]], dict[Pair, Reason]]:
    """Merges siblings, those that share the largest tensor first; ``fits``: why nodes cannot be one fused op, or None.

    Returns the tensors by which each cluster (its id) holds together besides its own edges, and the AF224 refusals:
    nodes of two clusters that are apart because live memory would grow.
    """
    shared: dict[int, set[TensorRef]] = {}
    refused: dict[Pair, Reason] = {}
    for ref in _read_by_many(graph, clusters, hints):
        made: list[Cluster] = []
        readers = _readers(graph, clusters, ref)
        ahead = _Ahead(graph, ref, fits)
        for k, cluster in enumerate(readers):
            alike = islice((c for c in reversed(made) if _equal_domains(graph, c, cluster, ref)), _OPEN)
            left = readers[k:]
            other = next(
                (c for c in alike if _merge(graph, clusters, c, left, ref, options, hints, ahead, refused)), None
            )
            if other is None:
                made.append(cluster)
                continue
            kept = clusters.of[cluster.nodes[0].name]
            made[made.index(other)] = kept
            known = shared.pop(other.id, set()) | shared.pop(cluster.id, set())
            shared[kept.id] = known | {ref}
    apart = {pair: why for pair, why in refused.items() if clusters.of[pair[0]] is not clusters.of[pair[1]]}
    return {i: frozenset(refs) for i, refs in shared.items()}, apart


class _Ahead:
    """Whether siblings fit into one op with a cluster, asked of several at once.

    One that takes up many small siblings would be built anew for each. So it is built with twice as many as the last
    time, or as many as the one before it had room for; what fits with all of them is taken to fit with the first ones.
    If it does not, the cluster is cut later, as any other is (plan.pieces).
    """

    def __init__(self, graph: Graph, ref: TensorRef, fits: NodesFit) -> None:
        self._graph, self._ref, self._fits = graph, ref, fits
        self._fitting: set[str] = set()  # nodes that fit into one op, those of the cluster that grows among them
        self._taken = self._room = 0  # siblings that it took, and that the last full one took
        self._next = 1

    def fit(self, a: Cluster, left: Sequence[Cluster]) -> bool:
        """Whether the first of ``left`` fits into one op with ``a``."""
        if self._fitting.issuperset(n.name for c in (a, left[0]) for n in c.nodes):
            return True
        grows = self._fitting.issuperset(n.name for n in a.nodes)
        wanted = left[: self._next if grows else 1]
        some = [c for c in wanted if _equal_domains(self._graph, a, c, self._ref)]
        low, high, count = 0, len(some) + 1, len(some)
        while count > low:
            if self._all_fit(a, some[:count]):
                low = count
            else:
                high = count
            count = (low + high) // 2
        taken = low + (self._taken if grows else 0)
        if low == len(some):
            self._next = max(self._room - taken, 1) if taken <= self._room else 2 * low
        elif grows:
            self._room, self._next = taken, 1
        if low:
            self._fitting = {n.name for c in (a, *some[:low]) for n in c.nodes}
            self._taken = taken
        return low > 0

    def _all_fit(self, a: Cluster, others: Sequence[Cluster]) -> bool:
        nodes = sorted((n for c in (a, *others) for n in c.nodes), key=lambda n: self._graph.position[n.name])
        return self._fits(trim(self._graph, nodes)) is None


def _readers(graph: Graph, clusters: Clusters, ref: TensorRef) -> list[Cluster]:
    """The clusters that may share their read of the tensor, in graph order of the nodes that do."""
    found: dict[int, Cluster] = {}
    for node, i in graph.consumers[ref]:
        cluster = clusters.of[node.name]
        if cluster.domain is None or cluster.id in found or i not in data_positions(node, RULES[node.type]):
            continue
        if _shares_well(graph, cluster.domain, ref) and any(is_kernel(n, graph) for n in cluster.nodes):
            found[cluster.id] = cluster
    return list(found.values())


def _read_by_many(graph: Graph, clusters: Clusters, hints: Mapping[str, int]) -> list[TensorRef]:
    """Tensors that several clusters read, the largest first, then in graph order."""
    found = [
        ref
        for ref, readers in graph.consumers.items()
        if len({clusters.of[n.name].id for n, _ in readers}) > 1 and uniform_value(graph, ref) is None
    ]
    return sorted(found, key=lambda r: (-(tensor_bytes(r, graph, hints) or 0), graph.position[r.node], r.index))


def _shares_well(graph: Graph, domain: Domain, ref: TensorRef) -> bool:
    """Whether the tensor is as large as the domain, or has several dims."""
    shape = graph.info(ref).shape
    return shape is not None and (sum(d != 1 for d in shape) > 1 or _reads_all(graph, domain, ref))


def _equal_domains(graph: Graph, a: Cluster, b: Cluster, ref: TensorRef) -> bool:
    """Whether both have as many elements as the tensor they share, or as each other."""
    assert a.domain is not None and b.domain is not None
    if _reads_all(graph, a.domain, ref):
        return _reads_all(graph, b.domain, ref)
    sizes = (expr.product([d.size(x) for x in d.resolve(d.widest)]) for d in (a.domain, b.domain))
    return expr.equal(*sizes)


def _reads_all(graph: Graph, domain: Domain, ref: TensorRef) -> bool:
    """Whether the tensor has as many elements as the domain."""
    shape = graph.info(ref).shape
    if shape is None:
        return False
    atoms = domain.resolve(domain.widest)
    return expr.equal(expr.product(shape), expr.product([domain.size(a) for a in atoms]))


def _merge(
    graph: Graph,
    clusters: Clusters,
    a: Cluster,
    left: Sequence[Cluster],
    ref: TensorRef,
    options: Options,
    hints: Mapping[str, int],
    ahead: _Ahead,
    refused: dict[Pair, Reason],
) -> bool:
    """Merges ``a`` with the first of the readers that are left, where that is allowed and pays."""
    b = left[0]
    limit = options.max_fusion_size
    if limit is not None and len(a.nodes) + len(b.nodes) > limit:
        return False
    if clusters.between(a, b) is not None:
        return False
    late = _too_late(graph, a, b, ref, hints)
    if late is not None:
        refused[a.nodes[0].name, b.nodes[0].name] = late
        return False
    return ahead.fit(a, left) and clusters.merge(a, b) is None


def _too_late(graph: Graph, a: Cluster, b: Cluster, ref: TensorRef, hints: Mapping[str, int]) -> Reason | None:
    """AF224 where they are far from each other and the later one's results are not smaller than what is read once.

    ``ref`` stays in memory until the later one has run; merged, the later one's results take its place.
    """
    first, last = sorted((a, b), key=lambda c: min(graph.position[n.name] for n in c.nodes))
    gap = min(graph.position[n.name] for n in last.nodes) - max(graph.position[n.name] for n in first.nodes)
    if gap <= NEAR:
        return None
    stored = [tensor_bytes(r, graph, hints) for r in results_outside(graph, last.nodes)]
    size = tensor_bytes(ref, graph, hints)
    if size is None or any(s is None for s in stored):
        return Reason("AF224", f"{gap} nodes apart, more than {NEAR}, to read {ref} of unknown size once")
    results = sum(s or 0 for s in stored)
    if results < size:
        return None
    text = f"{results} bytes of results would be in memory {gap} nodes earlier, more than {NEAR}"
    return Reason("AF224", f"{text}, to read {ref} of {size} bytes once instead of twice")
