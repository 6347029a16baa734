"""Horizontal fusion: clusters without an edge between them that both read one whole tensor share the read.

Sum, sum of squares and maximum of one x become one kernel that reads x once. A tensor as large as both iteration
domains counts, or a smaller one of several dims where both domains have equally many elements: query and key that are
rotated by the same cosines. What two kernels read of a vector, such as a bias, is no reason to join them.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from torchair_autofuse.plan.pieces import Fits, trim

NEAR = 32
"""Nodes between two siblings beyond which large results are not made earlier: they would only occupy memory."""
_OPEN = 4  # clusters that a sibling is tried with, the last ones first: those before them are full, or far away


def merge_siblings(
    graph: Graph, clusters: Clusters, options: Options, hints: Mapping[str, int], fits: Fits
) -> tuple[dict[int, frozenset[TensorRef]], dict[Pair, Reason]]:
    """Merges siblings, those that share the largest tensor first; ``fits``: why nodes cannot be one fused op, or None.

    Returns the tensors by which each cluster (its id) holds together besides its own edges, and the AF224 refusals:
    nodes of two clusters that are apart because live memory would grow.
    """
    shared: dict[int, set[TensorRef]] = {}
    refused: dict[Pair, Reason] = {}
    for ref in _read_by_many(graph, clusters, hints):
        made: list[Cluster] = []
        for node, i in graph.consumers[ref]:
            cluster = clusters.of[node.name]
            if cluster.domain is None or cluster in made or i not in data_positions(node, RULES[node.type]):
                continue
            if not _shares_well(graph, cluster.domain, ref) or not any(is_kernel(n, graph) for n in cluster.nodes):
                continue
            alike = islice((c for c in reversed(made) if _equal_domains(graph, c, cluster, ref)), _OPEN)
            other = next(
                (c for c in alike if _merge(graph, clusters, c, cluster, ref, options, hints, fits, refused)), None
            )
            if other is None:
                made.append(cluster)
                continue
            kept = clusters.of[node.name]
            made[made.index(other)] = kept
            known = shared.pop(other.id, set()) | shared.pop(cluster.id, set())
            shared[kept.id] = known | {ref}
    apart = {pair: why for pair, why in refused.items() if clusters.of[pair[0]] is not clusters.of[pair[1]]}
    return {i: frozenset(refs) for i, refs in shared.items()}, apart


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
    b: Cluster,
    ref: TensorRef,
    options: Options,
    hints: Mapping[str, int],
    fits: Fits,
    refused: dict[Pair, Reason],
) -> bool:
    limit = options.max_fusion_size
    if limit is not None and len(a.nodes) + len(b.nodes) > limit:
        return False
    if clusters.between(a, b) is not None:
        return False
    late = _too_late(graph, a, b, ref, hints)
    if late is not None:
        refused[a.nodes[0].name, b.nodes[0].name] = late
        return False
    nodes = trim(graph, sorted((*a.nodes, *b.nodes), key=lambda n: graph.position[n.name]))
    return fits(nodes) is None and clusters.merge(a, b) is None


def _too_late(graph: Graph, a: Cluster, b: Cluster, ref: TensorRef, hints: Mapping[str, int]) -> Reason | None:
    """AF224 where they are far from each other and the later one's results are not smaller than what is read once.

    ``ref`` stays in memory until the later one has run; merged, the later one's results take its place.
    """
    first, last = sorted((a, b), key=lambda c: min(graph.position[n.name] for n in c.nodes))
    gap = min(graph.position[n.name] for n in last.nodes) - max(graph.position[n.name] for n in first.nodes)
    if gap <= NEAR:
        return None
    inside = {n.name for n in last.nodes}
    stored = [
        tensor_bytes(r, graph, hints)
        for n in last.nodes
        for r in n.outputs
        if any(c.name not in inside for c, _ in graph.consumers.get(r, ()))
    ]
    size = tensor_bytes(ref, graph, hints)
    if size is None or any(s is None for s in stored):
        return Reason("AF224", f"{gap} nodes apart, more than {NEAR}, to read {ref} of unknown size once")
    results = sum(s or 0 for s in stored)
    if results < size:
        return None
    text = f"{results} bytes of results would be in memory {gap} nodes earlier, more than {NEAR}"
    return Reason("AF224", f"{text}, to read {ref} of {size} bytes once instead of twice")
