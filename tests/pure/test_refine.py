"""Fused ops that are predicted slower than their parts are split; what is fused otherwise stays whole."""

from __future__ import annotations

from collections.abc import Sequence

from ge_build import GraphBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_build import check_plan, edges_of_groups, graph_of, has_cycle, node_costs, numbers, priced, run_nodes

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import OpMaker
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.build import GeneratedOp
from torchair_autofuse.plan.group import Costs, Group, Predicted
from torchair_autofuse.plan.plan import Plan
from torchair_autofuse.plan.refine import MOST_WORK, NEST, Refiner


def names(made: Plan) -> list[list[str]]:
    return [[n.name for n in g.nodes] for g in made.groups]


def turned(shape: Sequence[int]) -> Graph:
    """A chain over a tensor and its last two dims turned in the end."""
    b = GraphBuilder()
    x = b.data(shape)
    for i in range(3):
        x = b.op("Exp", x, name=f"e{i}")
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    b.output(b.op("Transpose", x, b.const(order), name="turn"))
    return graph_of(b)


def grouped_norm(rows: int, cols: int) -> Graph:
    """Means that few rows have, stored beside what is made of all elements: each core must own 32 bytes of them."""
    b = GraphBuilder()
    x = b.data((rows, cols))
    y = b.op("Exp", x, name="e")
    mean = b.op("ReduceMean", y, b.const([1]), keep_dims=True, name="mean")
    b.output(b.op("Sub", y, mean, name="sub"), mean)
    return graph_of(b)


def total(graph: Graph, made: Plan, maker: OpMaker) -> int:
    costs = node_costs(graph).nodes
    inside = {n.name for g in made.groups for n in g.nodes}
    found = costs.total_ns(n for n in graph.nodes if n.name not in inside)
    times = [maker.predict(g, {}) for g in made.groups]
    assert found is not None
    return found + sum(t.ns or 0 for t in times)  # type: ignore[union-attr]


def test_few_results_that_keep_most_cores_idle_are_made_apart() -> None:
    graph = grouped_norm(16, 8192)
    made, maker = priced(graph)
    whole = maker.predict(Group(tuple(n for n in graph.nodes if n.name in ("e", "mean", "sub"))), {})
    assert whole.ns > total(graph, made, maker)  # type: ignore[union-attr, operator]
    (reason,) = {r.reason for r in made.refusals if r.code == "AF216"}
    assert f"one op would take {whole.ns} ns" in reason and "its 3 parts take" in reason  # type: ignore[union-attr]
    check_plan(graph, made, run_nodes(graph, [numbers((16, 8192))]), ulps=8)


def test_with_rows_enough_for_all_cores_it_stays_whole() -> None:
    made, _ = priced(grouped_norm(2048, 512))
    assert names(made) == [["e", "mean", "sub"]]


def test_a_turn_that_costs_little_stays_with_the_chain() -> None:
    made, _ = priced(turned((64, 64, 64)))
    assert names(made) == [["e0", "e1", "e2", "turn"]]


def test_equal_ops_are_split_alike() -> None:
    b = GraphBuilder()
    ends = []
    for i in range(3):
        y = b.op("Exp", b.data((16, 8192)), name=f"e{i}")
        mean = b.op("ReduceMean", y, b.const([1]), keep_dims=True, name=f"mean{i}")
        ends += [b.op("Sub", y, mean, name=f"sub{i}"), mean]
    b.output(*ends)
    made, _ = priced(graph_of(b))
    found = [r.reason for r in made.refusals if r.code == "AF216" and "its 3 parts" in r.reason]
    assert len(found) >= 3 and len(set(found)) == 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_split_plans_compute_the_same(data: st.DataObject) -> None:
    """Slices, turns and maxima with few rows and odd widths: what is split is split without a cycle, values stay."""
    rows, cols = data.draw(st.sampled_from([(2, 6), (16, 640), (24, 7), (4, 4096)]))
    b = GraphBuilder()
    made = [b.data((rows, cols))]
    ends = []
    for _ in range(data.draw(st.integers(3, 9))):
        x = data.draw(st.sampled_from(made))
        kind = data.draw(st.sampled_from(["Neg", "Mul", "half", "turn", "norm"]))
        if kind == "half":
            w = cols // 2
            parts = [b.op("StridedSlice", x, b.const([0, k * w]), b.const([rows, (k + 1) * w]), b.const([1, 1]))
                     for k in range(2)]  # fmt: skip
            ends.append(b.op("ConcatV2", b.op("Neg", parts[1]), parts[0], b.const(1), N=2))
        elif kind == "turn":
            ends.append(b.op("Transpose", x, b.const([1, 0])))
        elif kind == "norm":
            most = b.op("ReduceMax", x, b.const([1]), keep_dims=True)
            ends.append(most)
            made.append(b.op("Sub", x, most))
        else:
            made.append(b.op(kind, x, *([data.draw(st.sampled_from(made))] if kind == "Mul" else [])))
    b.output(*made[1:], *ends)
    graph = graph_of(b)
    planned, maker = priced(graph)
    assert not has_cycle(edges_of_groups(graph, planned))
    assert all(isinstance(maker.make(g), GeneratedOp) for g in planned.groups)
    check_plan(graph, planned, run_nodes(graph, [numbers((rows, cols))]))

    check_plan(graph, planned, run_nodes(graph, [numbers((rows, cols))]), ulps=8)


def test_an_op_of_many_loop_nests_is_cut_at_few_nodes() -> None:
    """Halves that change places again and again: each doubles the loop nests, and what one schedule takes."""
    b = GraphBuilder()
    x = b.data((7, 33))
    for _ in range(4):
        ends = (((0, 0), (7, 16)), ((0, 16), (7, 33)))
        halves = [b.op("StridedSlice", x, b.const(lo), b.const(hi), b.const([1, 1])) for lo, hi in ends]
        x = b.op("Tanh", b.op("ConcatV2", b.op("Neg", halves[1]), halves[0], b.const(1), N=2))
    b.output(x)
    graph = graph_of(b)
    whole = Group(tuple(n for n in graph.nodes if n.type in ("StridedSlice", "Tanh", "ConcatV2", "Neg")))
    maker = priced(graph)[1]
    asked: list[Group] = []

    def predict(group: Group) -> Predicted | Reason:
        asked.append(group)
        return maker.predict(group, {})

    refiner = Refiner(graph, Costs(node_costs(graph).nodes, predict))
    made = maker.predict(whole, {})
    assert isinstance(made, Predicted) and made.nests >= 16
    nodes_cut = MOST_WORK // (len(whole.nodes) + NEST * (made.nests - 1))
    assert nodes_cut < len(whole.nodes) // 2
    refiner.split(whole)
    large = [g for g in asked if len(g.nodes) > len(whole.nodes) // 2]
    assert len(large) <= 1 + 4 * nodes_cut
