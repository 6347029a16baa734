"""Values computed again instead of stored: generators always, cheap ones within the threshold."""

from __future__ import annotations

import pytest
from ge_build import GraphBuilder
from plan_build import (
    ALL,
    barrier,
    check_plan,
    codes,
    fused,
    graph_of,
    groups,
    node_costs,
    numbers,
    plan_of,
    priced,
    run_nodes,
)

from torchair_autofuse.dtypes import F32
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import lower_group
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.build import GeneratedOp
from torchair_autofuse.options import Options
from torchair_autofuse.plan.group import Group, without
from torchair_autofuse.plan.recompute import recompute


def shared(kind: str = "Neg", readers: int = 2, *, outside: bool = False, view: bool = False, inputs: int = 1) -> Graph:
    """c is read by pairs of ops over different axes, so that it can be in the nest of one pair only."""
    b = GraphBuilder()
    c = b.op(kind, *(b.data([2, 4]) for _ in range(inputs)), name="c")
    tail = []
    for i in range(readers):
        source = b.op("Reshape", c, b.const([8]), name=f"v{i}") if view else c
        p = b.op("Add", source, b.data([3 + i, 8] if view else [3 + i, 2, 4]), name=f"p{i}")
        tail.append(b.op("Exp", p, name=f"q{i}"))
    b.output(*tail, *([barrier(b, c)] if outside else []))
    return graph_of(b)


def stored(graph: Graph, **options: object) -> tuple[int, list[str]]:
    """(how many groups hold c, the tensors of c or views of it that are stored); values are checked on the way."""
    made = plan_of(graph, **options)
    shapes = [tuple(graph.info(n.outputs[0]).shape or ()) for n in graph.inputs_of_type("Data")]
    check_plan(graph, made, run_nodes(graph, [numbers(s, i) for i, s in enumerate(shapes)]), **options)
    results: list[str] = []
    for group in made.groups:
        lowered = lower_group(graph, group, ALL.replace(**options))
        assert isinstance(lowered, Lowered)
        results += [str(r) for r in lowered.outputs]
    names = [g for g in groups(made) if "c" in g]
    return len(names), [r for r in results if r[0] in "cv"]


def test_without_predicted_times_nothing_with_several_readers_is_computed_again() -> None:
    assert Options().recomputation_threshold is None
    for options in ({}, {"recomputation_threshold": 1}):
        assert stored(shared(), **options) == (1, ["c:0"])
        assert ("c", "", "AF220") in codes(plan_of(shared(), **options))


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize(("readers", "threshold", "again"), [(2, 1, False), (2, 2, True), (3, 2, False), (3, 3, True)])
def test_up_to_the_threshold_a_cheap_value_is_computed_in_each_reader(
    view: bool, readers: int, threshold: int, again: bool
) -> None:
    holders, results = stored(shared(readers=readers, view=view), recomputation_threshold=threshold)
    assert holders == (readers if again else 1)
    assert (results == []) == again


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (shared("Exp"), "not cheap"),
        (shared(outside=True), "read outside of fused ops"),
        (shared("Add", inputs=2), "reads twice of what it writes"),
    ],
    ids=["heavy", "outside", "two inputs"],
)
def test_what_is_stored_all_the_same(graph: Graph, why: str) -> None:
    holders, results = stored(graph, recomputation_threshold=255)
    assert (holders, results) == (1, ["c:0"]), why


def test_recomputation_keeps_to_the_fusion_size() -> None:
    holders, _ = stored(shared(readers=3), recomputation_threshold=255, max_fusion_size=3)
    assert holders == 3
    holders, results = stored(shared(readers=3), recomputation_threshold=255, max_fusion_size=2)
    assert holders == 0 and results == []


def test_a_value_of_its_own_vanishes_into_its_readers() -> None:
    """Each pair fills the size limit without c, which leaves no node alone when the limit allows one more."""
    graph = shared(readers=2)
    rest = {n.name for n in graph.nodes if n.name[0] in "pq"}
    pairs = [Group(tuple(n for n in graph.nodes if n.name in rest and n.name.endswith(str(i)))) for i in range(2)]
    options = ALL.replace(recomputation_threshold=2)

    def fits(group: Group) -> Reason | None:
        made = lower_group(graph, group, options)
        return made if isinstance(made, Reason) else None

    made, refused = recompute(graph, pairs, [graph.by_name["c"]], options, fits, node_costs(graph))
    assert [[n.name for n in g.nodes] for g in made] == [["c", "p0", "q0"], ["c", "p1", "q1"]]
    assert all(g.copies == {"c"} for g in made) and not refused
    made, refused = recompute(graph, pairs, [graph.by_name["c"]], ALL, fits, node_costs(graph))
    assert made == pairs and [r.code for _, r in refused] == ["AF220"]


def test_a_generator_vanishes_into_its_readers() -> None:
    b = GraphBuilder()
    x, y = b.data([8]), b.data([3, 8])
    zero = b.op("OnesLike", x, name="one")
    b.output(
        b.op("Exp", b.op("Add", x, zero, name="p"), name="q"), b.op("Sin", b.op("Mul", y, zero, name="r"), name="s")
    )
    result = fused(b)
    assert result.report.kernels_before == 5 and result.report.kernels_after == 1  # the readers run side by side
    types = [op.type for op in result.model_def.graph[0].op]
    assert "OnesLike" not in types
    for made in result.generated:
        assert not any(str(r).startswith("one") for r in (*made.lowered.inputs, *made.lowered.outputs))


def test_a_generator_that_others_read_is_made_once() -> None:
    b = GraphBuilder()
    x = b.data([8])
    one = b.op("OnesLike", x, name="one")
    b.output(b.op("Exp", b.op("Add", x, one, name="p"), name="q"), one)
    result = fused(b)
    assert result.report.kernels_after == 1
    (made,) = result.generated
    assert [str(r) for r in made.lowered.outputs] == ["one:0", "q:0"]


def test_a_dynamic_fill_vanishes_too() -> None:
    b = GraphBuilder()
    x = b.data([-1])
    fill = b.op("Fill", b.op("Shape", x), b.const(2.0, F32), name="fill")
    b.output(b.op("Exp", b.op("Mul", x, fill, name="p"), name="q"))
    graph = graph_of(b, d0=("s0",))
    made = plan_of(graph)
    assert len(made.groups) == 1
    check_plan(graph, made, run_nodes(graph, [numbers((6,))], {"s0": 6}))


def _readers(value: str) -> Graph:
    """c of x is read by two pairs of ops over different axes; one pair is with c already."""
    b = GraphBuilder()
    shape = (64, 1024)
    x = b.data(shape)
    c = b.op(value, x, *([b.data(shape)] if value == "Mul" else []), name="c")
    b.output(*(b.op("Neg", b.op("Add", c, b.data((n, *shape)), name=f"p{n}"), name=f"q{n}") for n in (3, 4)))
    return graph_of(b)


@pytest.mark.parametrize(
    ("value", "again"), [("Neg", True), ("Exp", True), ("Mul", False)], ids=["cheap", "heavy", "two operands"]
)
def test_predicted_times_decide(value: str, again: bool) -> None:
    """One operand: the copy reads x instead of c, which is not stored. Two: it reads as much as storing moves."""
    graph = _readers(value)
    made, maker = priced(graph)
    holders = [p for g in made.groups for p in g.parts or (g,) if any(n.name == "c" for n in p.nodes)]
    assert len(holders) == (2 if again else 1)
    results = [
        str(r) for g in made.groups if isinstance(low := maker.make(g), GeneratedOp) for r in low.lowered.outputs
    ]
    assert ("c:0" in results) == (not again)
    shapes = [tuple(graph.info(n.outputs[0]).shape or ()) for n in graph.inputs_of_type("Data")]
    check_plan(graph, made, run_nodes(graph, [numbers(s, i) for i, s in enumerate(shapes)]), ulps=2)


def test_a_threshold_that_is_given_holds() -> None:
    graph = _readers("Neg")
    made, _ = priced(graph, ALL.replace(recomputation_threshold=1))
    assert sum(any(n.name == "c" for n in g.nodes) for g in made.groups) == 1
    assert [r.node for r in made.refusals if r.code == "AF220"] == ["c"]


def test_what_is_stored_because_of_its_time_says_so() -> None:
    made, _ = priced(_readers("Sigmoid"))
    (reason,) = [r.reason for r in made.refusals if r.code == "AF220"]
    assert "c is stored" in reason and "in another fused op" in reason and "(predicted)" in reason


def test_an_op_does_not_store_for_nobody() -> None:
    """q is beside p in one op for what both read; its reader is in another. A copy there would leave q:0 unread."""
    b = GraphBuilder()
    x = b.data((8, 8))
    p, q = b.op("Exp", x, name="p"), b.op("Neg", x, name="q")
    b.output(p, b.op("Abs", b.op("Add", q, b.data((3, 8, 8)), name="r"), name="s"))
    graph = graph_of(b)
    pairs = [Group(tuple(n for n in graph.nodes if n.name in names)) for names in ("pq", "rs")]
    assert recompute(graph, pairs, [], ALL, lambda _: None, node_costs(graph)) == (pairs, [])


def test_ops_without_another_one_store_for_it() -> None:
    """Without the last one the middle one has to store k, for which it is too large, so that the home stores n."""
    b = GraphBuilder()
    n = b.op("Neg", b.data((8,)), name="n")
    k = b.op("Abs", n, name="k")
    b.output(k, b.op("Exp", n, name="e"), b.op("Sin", k, name="f"))
    nodes = graph_of(b).by_name
    home = Group((nodes["n"],), unstored=frozenset(nodes["n"].outputs))
    middle = Group((nodes["n"], nodes["k"]), frozenset("n"), frozenset(nodes["k"].outputs))
    last = Group((nodes["k"], nodes["f"]), frozenset("k"))

    def fits(group: Group) -> Reason | None:
        return Reason("AF212", "too large") if "k" in {n.name for n in group.nodes} and not group.unstored else None

    assert without([home, middle], [], fits) == [home, middle]
    assert without([home, middle], [last], fits) == [home.storing({"n"})]
