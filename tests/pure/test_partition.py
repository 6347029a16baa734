"""The queue of the partition planner: times of clusters from those of their parts, and how its work grows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from ge_build import GraphBuilder
from plan_build import ALL, barrier, graph_of, node_costs

from benchmarks.captured import case, context
from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.plan import partition
from torchair_autofuse.plan.alias import SOURCES
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.cost import NodeCosts, Work, predicted_ns
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.partition import WIDE, ClusterCosts, merge_by_benefit
from torchair_autofuse.plan.plan import candidates


def test_cluster_costs_count_what_goes_in_and_out_once() -> None:
    b = GraphBuilder()
    x = b.data((1 << 20,))
    y = b.op("Neg", x, name="a")
    b.output(b.op("Add", y, x, name="b"))
    graph = graph_of(b)
    costs = node_costs(graph).nodes
    made = ClusterCosts(graph, costs)
    one, two = (made.part(graph.by_name[n]) for n in "ab")
    both = made.together(one, two)
    assert both < one.ns + two.ns
    assert both < 1.1 * (costs.ns(graph.by_name["a"]) or 0)  # x is read once, y stays inside
    made.join(one, two)
    assert one.ns == both and one.reads == {TensorRef("arg0", 0): 2} and one.stored == {TensorRef("b", 0): 1}


def walked(graph: Graph, costs: NodeCosts, nodes: list[Node]) -> Work | None:
    """What ClusterCosts adds up part by part, by a walk over all nodes; None where a size is unknown."""
    inside = {n.name for n in nodes}
    read = {r for n in nodes for r in n.inputs if r is not None and r.node not in inside | host_nodes(graph)}
    read = {r for r in read if uniform_value(graph, r) is None}
    stored = {r for n in nodes for r in n.outputs if any(c.name not in inside for c, _ in graph.consumers.get(r, ()))}
    works = [costs.work(n) for n in nodes]
    sizes = [[tensor_bytes(r, graph, costs.hints) for r in refs] for refs in (read, stored)]
    if any(x is None for x in (*works, *sizes[0], *sizes[1])):
        return None
    known = [w for w in works if w is not None]
    return Work(
        *(sum(s or 0 for s in found) for found in sizes),
        sum(w.cycles for w in known),
        sum(w.heads for w in known),
        max(w.elements for w in known),
        sum(w.copies for w in known),
        min((w.units for w in known if w.units), default=0),
    )


@pytest.mark.parametrize(
    ("name", "hints"),
    [("train_bert__static__g1", True), ("topk_gate__static__g0", True)]
    + [("dlrm__dynamic__g0", hints) for hints in (True, False)],
)
def test_cluster_costs_of_any_nodes_joined_in_any_order(name: str, hints: bool) -> None:
    graph = case(name).simplified
    costs = node_costs(graph, context(name).hints if hints else {}).nodes
    made = ClusterCosts(graph, costs)
    draw = random.Random(name)
    pool = [n for n in graph.nodes if n.type not in SOURCES]
    for size in (2, 5, 20, 60):
        nodes = draw.sample(pool, min(size, len(pool)))
        parts = [made.part(n) for n in nodes]
        while len(parts) > 1:
            draw.shuffle(parts)
            small = parts.pop()
            together = made.together(parts[-1], small)
            made.join(parts[-1], small)
            assert parts[-1].ns == together
        work = walked(graph, costs, nodes)
        if not any(is_kernel(n, graph) for n in nodes):
            assert parts[0].ns == 0
        elif work is None:
            assert not hints and parts[0].ns == predicted_ns(costs.chip, Work(1, 1))
        else:
            found = parts[0].work
            assert replace(found, cycles=0.0, heads=0.0, copies=0.0) == replace(work, cycles=0.0, heads=0.0, copies=0.0)
            for what in ("cycles", "heads", "copies"):  # sums of floats, in another order
                assert getattr(found, what) == pytest.approx(getattr(work, what))


# ---- growth ---------------------------------------------------------------------------------------------------------


def dense(count: int) -> Graph:
    """Adds, each over two of the last 40 values."""
    draw = random.Random(0)
    b = GraphBuilder()
    pool = [b.data((64, 64)) for _ in range(2)]
    for _ in range(count):
        pool.append(b.op("Add", *draw.choices(pool[-40:], k=2)))
    b.output(pool[-1])
    return graph_of(b)


def star(count: int) -> Graph:
    """Adds that all read one value, every tenth of them behind a kernel that also reads it."""
    b = GraphBuilder()
    hub = b.op("Neg", b.data((64, 64)))
    b.output(*(b.op("Add", hub, barrier(b, hub) if i % 10 == 0 else b.data((64, 64))) for i in range(count)))
    return graph_of(b)


def merged(graph: Graph) -> tuple[Clusters, int]:
    """The clusters, and how many pairs were neighbours that are none."""
    clusters = Clusters(graph, candidates(graph, Context(), ALL))
    left = merge_by_benefit(graph, clusters, ALL, node_costs(graph).nodes)
    return clusters, len(left)


@pytest.mark.parametrize("shape", [dense, star])
def test_work_grows_as_the_graph_does(shape: Callable[[int], Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: pairs that are judged, merges that are tried, and tensors that are looked at for it."""
    seen = {"judged": 0, "tried": 0, "tensors": 0}
    together, merge, common = ClusterCosts.together, Clusters.merge, partition._common

    def judged(*args: object) -> int:
        seen["judged"] += 1
        return together(*args)  # type: ignore[arg-type]

    def tried(*args: object) -> object:
        seen["tried"] += 1
        return merge(*args)  # type: ignore[arg-type]

    def looked(a: dict[TensorRef, int], b: dict[TensorRef, int]) -> list[TensorRef]:
        seen["tensors"] += min(len(a), len(b))
        return common(a, b)

    monkeypatch.setattr(ClusterCosts, "together", judged)
    monkeypatch.setattr(Clusters, "merge", tried)
    monkeypatch.setattr(partition, "_common", looked)
    counts = []
    for count in (300, 900):
        seen.update(dict.fromkeys(seen, 0))
        merged(shape(count))
        counts.append(dict(seen))
    assert all(counts[1][k] <= 4 * counts[0][k] for k in seen), counts


def test_neighbours_of_a_wide_cluster_are_merged_all_the_same() -> None:
    count = 2 * WIDE
    clusters, left = merged(star(count))
    behind = len(range(0, count, 10))
    assert left == behind  # those have a kernel in between
    assert max(len(c.nodes) for c in clusters) == 1 + count - behind
