"""The contracted graph: merges close no cycle, ranks stay topological, refusals change nothing."""

from __future__ import annotations

from ge_build import GraphBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_build import barrier, graph_of, has_cycle

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.lower import RULES
from torchair_autofuse.plan.alias import Writes
from torchair_autofuse.plan.cluster import Clusters


def random_graph(draw: st.DrawFn) -> tuple[Graph, list[str]]:
    """A DAG of binary ops over tensors of one shape, some of them barriers, and the names of the others."""
    b = GraphBuilder()
    tensors = [b.data([8]), b.data([8])]
    names: list[str] = []
    for i in range(draw(st.integers(4, 24))):
        recent = tensors[-6:]
        x = draw(st.sampled_from(recent if draw(st.booleans()) else tensors))
        y = draw(st.sampled_from(recent))
        if draw(st.integers(0, 3)) == 0:
            tensors.append(barrier(b, x))
        else:
            tensors.append(b.op("Add", x, y, name=f"op{i}"))
            names.append(f"op{i}")
    b.output(*dict.fromkeys(tensors[2:]))
    return graph_of(b), names


def edges(graph: Graph, clusters: Clusters, waits: tuple[tuple[str, str], ...] = ()) -> set[tuple[int, int]]:
    found = set()
    for node in graph.nodes:
        for ref in node.inputs:
            if ref is not None and ref.node in clusters.of and node.name in clusters.of:
                found.add((clusters.of[ref.node].id, clusters.of[node.name].id))
    found |= {(clusters.of[a].id, clusters.of[c].id) for a, c in waits}
    return {(a, c) for a, c in found if a != c}


def would_close_a_cycle(pairs: set[tuple[int, int]], a: int, b: int) -> bool:
    """Brute force: the edges with a and b made one."""
    joined = {(a if x == b else x, a if y == b else y) for x, y in pairs}
    return has_cycle({(x, y) for x, y in joined if x != y})


def check_invariants(graph: Graph, clusters: Clusters, pairs: set[tuple[int, int]]) -> None:
    by_id = {c.id: c for c in clusters}
    assert not has_cycle(pairs)
    assert all(by_id[a].rank < by_id[c].rank for a, c in pairs)
    assert len({c.rank for c in clusters}) == len(by_id)
    for c in clusters:
        assert c.after >= {y for x, y in pairs if x == c.id} and c.before >= {x for x, y in pairs if y == c.id}
        assert c.after | c.before <= set(by_id)
        assert c.id not in c.after | c.before
        assert c.data_after <= c.after
        assert all(clusters.of[n.name] is c for n in c.nodes)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_merges_are_refused_exactly_where_they_would_close_a_cycle(data: st.DataObject) -> None:
    graph, names = random_graph(data.draw)
    clusters = Clusters(graph, names)
    tries = [(x, y) for x in names for y in names if x < y]
    for x, y in data.draw(st.permutations(tries))[:60]:
        a, b = clusters.of[x], clusters.of[y]
        if a is b:
            continue
        before = edges(graph, clusters)
        expected = would_close_a_cycle(before, a.id, b.id)
        sizes = (len(a.nodes), len(b.nodes), a.rank, b.rank)
        reason = clusters.merge(a, b)
        if expected:
            assert reason is not None and reason.code == "AF206"
        if reason is not None:
            assert reason.code in ("AF206", "AF210", "AF211")
            assert (len(a.nodes), len(b.nodes), a.rank, b.rank) == sizes and edges(graph, clusters) == before
        check_invariants(graph, clusters, edges(graph, clusters))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_readers_stay_before_writers(data: st.DataObject) -> None:
    """Random pairs (reader, writer): those that are consistent with the graph hold through all merges."""
    graph, names = random_graph(data.draw)
    kernels = [n.name for n in graph.nodes if n.type in RULES or n.type == "Cumsum"]
    wanted = [(data.draw(st.sampled_from(kernels)), data.draw(st.sampled_from(kernels))) for _ in range(4)]
    kept: list[tuple[str, str]] = []
    for pair in wanted:
        plain = Clusters(graph, [])
        if pair[0] != pair[1] and not has_cycle(edges(graph, plain, (*kept, pair))):
            kept.append(pair)
    clusters = Clusters(graph, names, Writes(tuple(wanted)))
    check_invariants(graph, clusters, edges(graph, clusters, tuple(kept)))
    for x, y in data.draw(st.permutations([(x, y) for x in names for y in names if x < y]))[:40]:
        a, b = clusters.of[x], clusters.of[y]
        if a is b:
            continue
        expected = would_close_a_cycle(edges(graph, clusters, tuple(kept)), a.id, b.id)
        by_data = would_close_a_cycle(edges(graph, clusters), a.id, b.id)
        reason = clusters.merge(a, b)
        if expected:
            assert reason is not None and reason.code == ("AF206" if by_data else "AF209")
        check_invariants(graph, clusters, edges(graph, clusters, tuple(kept)))


def test_the_refusal_names_an_op_on_the_path() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([8]), name="first")
    b.output(b.op("Add", x, barrier(b, x), name="last"))
    graph = graph_of(b)
    clusters = Clusters(graph, ["first", "last"])
    reason = clusters.merge(clusters.of["last"], clusters.of["first"])
    assert reason is not None and reason.code == "AF206"
    assert "Cumsum" in reason.text and "first" in reason.text and "last" in reason.text
