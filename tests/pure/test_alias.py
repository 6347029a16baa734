"""Outputs written into inputs, in-place ops: who must run first, and what may share a fused op."""

from __future__ import annotations

from ge_build import GraphBuilder
from plan_build import ALL, barrier, codes, graph_of, groups, node_costs, plan_of
from traces import refusal_says_why

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.plan.alias import writes
from torchair_autofuse.plan.group import Costs, Group, Predicted
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import plan

INTO_0 = Context(ref_outputs=((0, 0),))


def update(b: GraphBuilder, d: str) -> str:
    """y = exp(d) * 2, written back into d."""
    return b.op("Muls", b.op("Exp", d, name="e"), name="y", value=2.0)


def test_an_update_in_place_fuses() -> None:
    b = GraphBuilder()
    b.output(update(b, b.data([4, 8])))
    assert groups(plan_of(graph_of(b), INTO_0)) == [["e", "y"]]


def test_through_reshapes_the_map_is_the_same() -> None:
    b = GraphBuilder()
    d = b.data([32])
    v = b.op("Reshape", d, b.const([4, 8]), name="v")
    y = b.op("Muls", b.op("Exp", v, name="e"), name="y", value=2.0)
    b.output(b.op("Reshape", y, b.const([32]), name="w"))
    assert groups(plan_of(graph_of(b), INTO_0)) == [["e", "y"]]


def test_another_map_of_the_overwritten_tensor_is_refused() -> None:
    """y[i, j] = exp(d[i, j]) + d[0, j] would read a row that another core may have overwritten."""
    b = GraphBuilder()
    d = b.data([1, 8])
    e = b.op("Exp", b.op("Reshape", d, b.const([8]), name="v"), name="e")
    column = b.op("Reshape", d, b.const([8, 1]), name="c")
    s = b.op("Add", column, e, name="s")  # [8, 8], reads d along both axes
    b.output(b.op("Muls", e, name="y", value=2.0), s)
    graph = graph_of(b)
    free = plan_of(graph)
    assert groups(free) == [["e", "y", "s"]] or groups(free) == [["e", "s", "y"]]
    made = plan_of(graph, Context(ref_outputs=((0, 0),)))
    assert all(not {"y", "s"} <= set(g) for g in groups(made))
    assert any(code == "AF209" for _, _, code in codes(made))


def reader_after(b: GraphBuilder) -> Graph:
    """r reads the old d; with z, which follows from y, it would run after y has been written."""
    d = b.data([8])
    y = update(b, d)
    r = b.op("Sin", d, name="r")
    b.output(y, b.op("Add", r, barrier(b, y), name="z"))
    return graph_of(b)


def test_a_reader_is_not_pulled_behind_the_writer() -> None:
    graph = reader_after(GraphBuilder())
    assert ["r", "z"] in groups(plan_of(graph))
    made = plan_of(graph, INTO_0)
    assert ["r", "z"] not in groups(made)
    assert ("r", "z", "AF209") in codes(made)


def test_a_reader_that_follows_from_the_result_anyway_changes_nothing() -> None:
    b = GraphBuilder()
    d = b.data([8])
    y = update(b, d)
    b.output(y, b.op("Add", d, b.op("Exp", barrier(b, y), name="x"), name="z"))
    graph = graph_of(b)
    assert groups(plan_of(graph, INTO_0)) == groups(plan_of(graph)) == [["e", "y"], ["x", "z"]]


def test_a_reader_that_comes_before_anyway_may_fuse() -> None:
    b = GraphBuilder()
    d = b.data([8])
    y = update(b, d)
    b.output(b.op("Add", y, b.op("Sin", d, name="r"), name="z"))
    assert [sorted(g) for g in groups(plan_of(graph_of(b), INTO_0))] == [["e", "r", "y", "z"]]


def test_swapped_buffers_are_left_to_ge() -> None:
    """Each result goes to the other's memory: no order is right, and none is demanded."""
    b = GraphBuilder()
    p, q = b.data([8]), b.data([8])
    b.output(
        b.op("Muls", b.op("Exp", q, name="a"), name="a2", value=2.0),
        b.op("Muls", b.op("Sin", p, name="c"), name="c2", value=2.0),
    )
    graph = graph_of(b)
    found = writes(graph, ((0, 0), (1, 1)))
    assert {(r, w) for r, w in found.waits} == {("c", "a2"), ("a", "c2")}
    assert groups(plan_of(graph, Context(ref_outputs=((0, 0), (1, 1)))))


def test_a_reader_is_not_pulled_behind_an_op_in_place() -> None:
    b = GraphBuilder()
    d = b.data([8])
    w = b.op("Assign", d, b.op("Exp", b.data([8]), name="value"), name="w")
    b.output(b.op("Add", b.op("Sin", d, name="r"), b.op("Cos", w, name="x"), name="z"))
    graph = graph_of(b)
    made = plan_of(graph)
    assert all(not {"r", "z"} <= set(g) for g in groups(made))
    assert any(node == "r" and code == "AF209" for node, _, code in codes(made))


def test_a_copy_shields_later_readers() -> None:
    b = GraphBuilder()
    d = b.data([8])
    old = b.op("TensorMove", d, name="old")
    b.output(update(b, d), b.op("Sin", old, name="r"))
    assert ("old", "y") in writes(graph_of(b), ((0, 0),)).waits
    assert not any(reader == "r" for reader, _ in writes(graph_of(b), ((0, 0),)).waits)


def test_an_output_that_is_reduced_elsewhere_in_the_op_is_refused() -> None:
    """y = exp(d) * 2 goes into d, while sum(exp(d)) may still be under way on another core."""
    b = GraphBuilder()
    d = b.data([64, 64])
    e = b.op("Exp", d, name="e")
    total = b.op("ReduceSum", e, b.const([0, 1]), name="sum", keep_dims=True)
    b.output(b.op("Mul", e, total, name="y"))
    graph = graph_of(b)
    assert any(set(g) >= {"e", "sum", "y"} for g in groups(plan_of(graph)))
    made = plan_of(graph, INTO_0)
    assert all(not set(g) >= {"e", "sum", "y"} for g in groups(made))
    assert any(code == "AF209" for _, _, code in codes(made))


def test_what_is_repeated_beside_the_output_is_refused() -> None:
    """y = exp(d) * 2 goes into d, while another tile, or the next part, still reads d for exp(d) + x."""
    b = GraphBuilder()
    d = b.data([4, 1])
    e = b.op("Exp", d, name="e")
    y = b.op("Muls", e, name="y", value=2.0)
    wide = [b.op("Add", e, b.data([4, n]), name=f"s{n}") for n in (3, 5)]
    joined = b.op("ConcatV2", *wide, b.const(1), name="c")
    b.output(y, b.op("Neg", joined, name="n"))
    graph = graph_of(b)
    assert groups(plan_of(graph)) == [["e", "y", "s3", "s5", "c", "n"]]
    made = plan_of(graph, INTO_0)
    assert groups(made) == [["e", "y"], ["s3", "s5", "c", "n"]]
    assert {("e", "s3", "AF209"), ("e", "s5", "AF209")} <= codes(made)
    assert any("is repeated along other axes" in r.reason for r in made.refusals)


def test_what_meets_other_elements_on_its_way_is_refused() -> None:
    """exp(d) with its halves exchanged is added to it and goes into d."""
    b = GraphBuilder()
    d = b.data([4, 8])
    e = b.op("Exp", d, name="e")
    low = b.op("StridedSliceV2", e, b.const([0]), b.const([4]), b.const([1]), b.const([1]), name="low")
    high = b.op("StridedSliceV2", e, b.const([4]), b.const([8]), b.const([1]), b.const([1]), name="high")
    b.output(b.op("Add", e, b.op("ConcatV2", high, low, b.const(1), name="c"), name="y"))
    graph = graph_of(b)
    assert [len(g) for g in groups(plan_of(graph))] == [5]
    made = plan_of(graph, INTO_0)
    assert all(not {"e", "y"} <= set(g) for g in groups(made))
    assert any(r.code == "AF209" and "moves in the same op" in r.reason for r in made.refusals)


def test_a_cut_does_not_put_a_reader_behind_the_writer() -> None:
    """The four are one op, tile by tile. Cut after w, the rest would read d after w, which it follows, has written."""
    b = GraphBuilder()
    d = b.data([64, 64])
    w = b.op("Exp", d, name="w")
    u, r = b.op("Abs", w, name="u"), b.op("Neg", d, name="r")
    b.output(w, b.op("Add", r, u, name="c"))
    graph = graph_of(b)
    nodes = node_costs(graph).nodes

    def predict(group: Group) -> Predicted:
        names = {n.name for n in group.nodes}
        return Predicted("T" + "".join(sorted(names)), (), 10**6 if {"w", "r"} <= names else 3000)

    free = plan(graph, Context(), ALL, lambda _: None, Costs(nodes, predict))
    assert groups(free) == [["u", "r", "c"]]
    made = plan(graph, INTO_0, ALL, lambda _: None, Costs(nodes, predict))
    assert groups(made) == []
    (refusal,) = [r for r in made.refusals if r.code == "AF209"]
    assert refusal.node == "u" and refusal_says_why(refusal)
    assert groups(plan_of(graph, INTO_0)) == [["w", "u", "r", "c"]]
