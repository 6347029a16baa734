"""Horizontal fusion: clusters that read one whole tensor become one op, where that saves something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from ge_build import GraphBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_build import (
    ALL,
    barrier,
    check_plan,
    edges_of_groups,
    graph_of,
    groups,
    has_cycle,
    node_costs,
    numbers,
    plan_of,
    run_nodes,
)

from torchair_autofuse.ge.graph import Node
from torchair_autofuse.lower.ordering import connected_order
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan import pieces
from torchair_autofuse.plan.cluster import Clusters
from torchair_autofuse.plan.group import Group
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.pieces import _neighbours
from torchair_autofuse.plan.plan import plan
from torchair_autofuse.plan.siblings import NEAR, merge_siblings


def reduced(b: GraphBuilder, op: str, x: str, axis: int, name: str) -> str:
    return b.op(op, x, b.const([axis]), name=name, keep_dims=False)


@pytest.mark.parametrize("shape", [(4, 6), ("s0", "s1")])
def test_sums_of_one_tensor(shape: tuple[int | str, ...]) -> None:
    b = GraphBuilder()
    x = b.data((4, 6) if shape == (4, 6) else (-1, -1))
    b.output(
        reduced(b, "ReduceSum", x, 1, "sum"),
        reduced(b, "ReduceSum", b.op("Mul", x, x, name="square"), 1, "squares"),
        reduced(b, "ReduceMax", x, 1, "max"),
    )
    graph = graph_of(b, d0=shape)
    made = plan_of(graph)
    assert groups(made) == [["sum", "square", "squares", "max"]] and made.refusals == ()
    if shape == (4, 6):
        check_plan(graph, made, run_nodes(graph, [numbers((4, 6))]))


def test_readers_of_a_whole_tensor_and_of_a_small_one() -> None:
    b = GraphBuilder()
    x, y, bias = b.data((4, 6)), b.data((4, 6)), b.data((6,))
    b.output(b.op("Relu", x, name="a"), b.op("Sigmoid", x, name="b"))
    assert groups(plan_of(graph_of(b))) == [["a", "b"]]
    b = GraphBuilder()
    x, y, bias = b.data((4, 6)), b.data((4, 6)), b.data((6,))
    b.output(b.op("Add", x, bias, name="a"), b.op("Add", y, bias, name="b"))
    assert groups(plan_of(graph_of(b))) == []


def test_what_has_to_run_between_them() -> None:
    b = GraphBuilder()
    x = b.data((4, 6))
    first = b.op("Relu", x, name="first")
    b.output(b.op("Add", barrier(b, first), x, name="last"))
    assert groups(plan_of(graph_of(b))) == []


@pytest.mark.parametrize("apart", [NEAR - 2, NEAR + 1])
@pytest.mark.parametrize("small", [False, True])
def test_large_results_are_not_made_long_before_they_are_needed(apart: int, small: bool) -> None:
    b = GraphBuilder()
    x, other = b.data((4, 6)), b.data((4, 6))
    first = b.op("Relu", x, name="first")
    for _ in range(apart // 2):
        other = barrier(b, other)  # with its constant two nodes
    last = reduced(b, "ReduceSum", x, 1, "last") if small else b.op("Sigmoid", x, name="last")
    b.output(first, other, last)
    made = plan_of(graph_of(b))
    assert groups(made) == ([["first", "last"]] if small or apart < NEAR else [])
    found = [r for r in made.refusals if r.code == "AF224"]
    if made.groups:
        assert not found
    else:
        (refusal,) = found
        assert (refusal.node, refusal.other) == ("first", "last")
        assert refusal.reason.startswith("96 bytes of results would be in memory ")
        assert refusal.reason.endswith(
            f" nodes earlier, more than {NEAR}, to read arg0:0 of 96 bytes once instead of twice"
        )


def test_limits_hold() -> None:
    b = GraphBuilder()
    x = b.data((4, 6))
    b.output(*(b.op("Exp", b.op("Relu", x, name=f"a{i}"), name=f"b{i}") for i in range(2)))
    graph = graph_of(b)
    assert groups(plan_of(graph)) == [["a0", "b0", "a1", "b1"]]
    assert groups(plan_of(graph, max_fusion_size=3)) == [["a0", "b0"], ["a1", "b1"]]


def test_what_does_not_fit_together_stays_as_it_was() -> None:
    b = GraphBuilder()
    x = b.data((4, 6))
    b.output(*(b.op("Exp", b.op("Relu", x, name=f"a{i}"), name=f"b{i}") for i in range(3)))
    graph = graph_of(b)
    fits = lambda group: Reason("AF212", "too large") if len(group.nodes) > 4 else None  # noqa: E731
    made = plan(graph, Context(), ALL, fits, node_costs(graph))
    assert groups(made) == [["a0", "b0", "a1", "b1"], ["a2", "b2"]] and made.refusals == ()


def test_tries_grow_with_the_siblings_alone() -> None:
    def tries(n: int) -> int:
        b = GraphBuilder()
        x = b.data((64, 64))
        b.output(*(reduced(b, "ReduceSum", x, 1, f"n{i}") for i in range(n)))
        graph = graph_of(b)
        asked: list[int] = []

        def fits(group: Group) -> Reason | None:
            asked.append(len(group.nodes))
            return Reason("AF212", "too large") if len(group.nodes) > 2 else None

        made = plan(graph, Context(), ALL, fits, node_costs(graph))
        assert groups(made) == [[f"n{i}", f"n{i + 1}"] for i in range(0, n, 2)]
        return len(asked)

    assert tries(48) <= 2.2 * tries(24)


@pytest.mark.parametrize("most", [1, 2, 7, 20, 55])
def test_clusters_of_many_siblings_are_not_built_anew_for_each(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many go into one op as fit, as if they were asked one by one; what is built for that, and the neighbours that
    are visited, grow as the siblings do."""
    built = visited = 0

    def fits(nodes: Sequence[Node]) -> Reason | None:
        nonlocal built
        built += len(nodes)
        return Reason("AF212", "too large") if len(nodes) > most else None

    def neighbours(*args: object) -> Iterator[str]:
        nonlocal visited
        for name in _neighbours(*args):  # type: ignore[arg-type]
            visited += 1
            yield name

    monkeypatch.setattr(pieces, "_neighbours", neighbours)

    def work(count: int) -> tuple[int, int]:
        nonlocal built, visited
        built = visited = 0
        b = GraphBuilder()
        x = b.data((64, 64))
        b.output(*(b.op(("Relu", "Exp", "Abs")[i % 3], x, name=f"n{i}") for i in range(count)))
        graph = graph_of(b)
        clusters = Clusters(graph, [f"n{i}" for i in range(count)])
        links, _ = merge_siblings(graph, clusters, ALL, {}, fits)
        made = sorted(sorted(int(n.name[1:]) for n in c.nodes) for c in clusters if c.domain is not None)
        assert made == [list(range(i, min(i + most, count))) for i in range(0, count, most)]
        total = built
        for c in clusters:
            pieces.components(graph, c.nodes, links.get(c.id, frozenset()))
        return total, visited

    few, many = work(300), work(900)
    assert all(y <= 3.5 * x for x, y in zip(few, many)), (few, many)
    assert many[0] <= 900 * (16 if most < 20 else 8)  # each with four full ones first, then in what it becomes part of


def test_the_first_of_what_fits_together_may_differ_in_size() -> None:
    """Large siblings between small ones: as they come, each where there is room."""
    sizes = [1, 3, 1, 1, 4, 1, 2, 2, 1, 1, 1, 5, 1, 1]
    b = GraphBuilder()
    x = b.data((64, 64))
    ends = []
    for i, size in enumerate(sizes):
        y = x
        for k in range(size):
            y = b.op("Relu", y, name=f"n{i}_{k}")
        ends.append(y)
    b.output(*ends)
    graph = graph_of(b)

    def fits(group: Group) -> Reason | None:
        return Reason("AF212", "too large") if len(group.nodes) > 6 else None

    expected: list[list[int]] = []
    for i, size in enumerate(sizes):
        room = (c for c in expected[:-5:-1] if sum(sizes[j] for j in c) + size <= 6)
        found = next(room, None)
        if found is None:
            expected.append([i])
        else:
            found.append(i)
    made = plan(graph, Context(), ALL, fits, node_costs(graph))
    parts = [sorted({int(n.split("_")[0][1:]) for n in names}) for names in groups(made)]
    assert sorted(parts) == sorted(c for c in expected if sum(sizes[j] for j in c) > 1)


def test_thousands_of_siblings_are_put_in_order_at_once() -> None:
    b = GraphBuilder()
    x = b.data((4, 6))
    b.output(*(b.op("Relu", x, name=f"n{i}") for i in range(4000)))
    graph = graph_of(b)
    nodes = [n for n in graph.nodes if n.type == "Relu"]
    assert connected_order(graph, nodes) == nodes
    assert connected_order(graph, nodes[1:], {"n0"}) == nodes[1:]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_random_readers_close_no_cycle_and_keep_their_values(data: st.DataObject) -> None:
    b = GraphBuilder()
    tensors = [b.data((4, 6)), b.data((4, 6))]
    sums = []
    for i in range(data.draw(st.integers(4, 12))):
        x, y = (data.draw(st.sampled_from(tensors)) for _ in range(2))
        kind = data.draw(st.sampled_from(["Relu", "Mul", "sum", "barrier"]))
        if kind == "sum":
            sums.append(reduced(b, "ReduceSum", x, 1, f"n{i}"))
        elif kind == "barrier":
            tensors.append(barrier(b, x))
        else:
            tensors.append(b.op(kind, *((x,) if kind == "Relu" else (x, y)), name=f"n{i}"))
    b.output(*dict.fromkeys([*tensors[2:], *sums]))
    graph = graph_of(b)
    made = plan_of(graph)
    assert not has_cycle(edges_of_groups(graph, made))
    check_plan(graph, made, run_nodes(graph, [numbers((4, 6)), numbers((4, 6), 1)]), ulps=1)
