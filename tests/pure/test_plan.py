"""The greedy planner: what becomes one fused op, what is refused and why, limits, splitting, determinism."""

from __future__ import annotations

import pytest
from ge_build import GraphBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_build import (
    ALL,
    BARRIER,
    barrier,
    check_plan,
    codes,
    edges_of_groups,
    graph_of,
    groups,
    has_cycle,
    node_costs,
    numbers,
    plan_of,
    run_nodes,
)

from torchair_autofuse.dtypes import F16, F32, F64, I64
from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import lower_group
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.group import Group
from torchair_autofuse.plan.legality import Context, pass_of
from torchair_autofuse.plan.pieces import components, pieces, trim
from torchair_autofuse.plan.plan import plan


def chain(n: int, *, shape: tuple[int, ...] = (8,), control: bool = False) -> Graph:
    b = GraphBuilder()
    x = b.data(shape)
    for i in range(n):
        x = b.op(("Exp", "Sin")[i % 2], x, *([f"n{i - 1}:-1"] if control and i == 1 else []), name=f"n{i}")
    b.output(x)
    return graph_of(b)


# ---- what fuses ----------------------------------------------------------------------------------------------------


def test_a_chain_is_one_group() -> None:
    made = plan_of(chain(5))
    assert groups(made) == [["n0", "n1", "n2", "n3", "n4"]] and made.refusals == ()


def test_views_at_the_rim_stay_outside() -> None:
    b = GraphBuilder()
    v = b.op("Reshape", b.data([8]), b.const([2, 4]), name="before")
    y = b.op("Sin", b.op("Exp", v, name="n0"), name="n1")
    m = b.op("Cos", b.op("Reshape", y, b.const([4, 2]), name="middle"), name="n2")
    b.output(b.op("Reshape", m, b.const([8]), name="after"))
    assert groups(plan_of(graph_of(b))) == [["n0", "n1", "middle", "n2"]]


def test_a_copy_at_the_rim_is_a_kernel_and_fuses() -> None:
    b = GraphBuilder()
    b.output(b.op("TensorMove", b.op("Exp", b.data([8]), name="n0"), name="copy"))
    assert groups(plan_of(graph_of(b))) == [["n0", "copy"]]


def test_a_broadcast_is_never_written() -> None:
    b = GraphBuilder()
    wide = b.op("BroadcastTo", b.op("Exp", b.data([1, 8]), name="n0"), b.const([4, 8]), name="wide")
    b.output(b.op("Add", wide, b.data([4, 8]), name="n1"))
    graph = graph_of(b)
    made = plan_of(graph)
    assert groups(made) == [["n0", "wide", "n1"]]
    check_plan(graph, made, run_nodes(graph, [numbers((1, 8)), numbers((4, 8), 1)]))


def test_one_kernel_is_not_worth_it() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([8]), name="n0")
    b.output(b.op("Reshape", x, b.const([2, 4])), barrier(b, x))
    made = plan_of(graph_of(b))
    assert groups(made) == []
    (refusal,) = [r for r in made.refusals if r.node == "n0"]
    assert refusal.code == "AF216" and BARRIER in refusal.reason


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_af206_cycle() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([8]), name="n0")
    b.output(b.op("Add", x, barrier(b, x), name="n1"))
    made = plan_of(graph_of(b))
    assert ("n0", "n1", "AF206") in codes(made) and groups(made) == []


def test_af207_scope() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([8]), name="n0", _user_stream_label="a")
    b.output(b.op("Sin", x, name="n1", _user_stream_label="b"))
    graph = graph_of(b)
    assert graph.by_name["n0"].scope != graph.by_name["n1"].scope
    assert ("n0", "n1", "AF207") in codes(plan_of(graph))


def test_af208_control_edge() -> None:
    made = plan_of(chain(4, control=True))
    assert {(n, c) for n, _, c in codes(made)} >= {("n0", "AF208"), ("n1", "AF208")}
    assert groups(made) == [["n2", "n3"]]


def test_af210_incompatible_domains() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([8]), name="n0")
    b.output(b.op("Add", x, b.data([3, 8]), name="a"), b.op("Add", x, b.data([5, 8]), name="b"))
    made = plan_of(graph_of(b))
    assert groups(made) == [["n0", "a"]]
    assert ("n0", "b", "AF210") in codes(made)


def test_af211_two_index_maps() -> None:
    b = GraphBuilder()
    v = b.op("Exp", b.data([6]), name="v")
    column, row = b.op("Reshape", v, b.const([6, 1]), name="c"), b.op("Reshape", v, b.const([1, 6]), name="r")
    b.output(b.op("Sin", b.op("Add", column, row, name="sum"), name="n1"))
    graph = graph_of(b)
    made = plan_of(graph)
    assert any(code == "AF211" for _, _, code in codes(made))
    check_plan(graph, made, run_nodes(graph, [numbers((6,))]))


@pytest.mark.parametrize(
    ("context", "options"),
    [
        (Context(keep=frozenset(["n1"])), {}),
        (Context(), {"skip_nodes": frozenset(["n1"])}),
        (Context(), {"skip_types": frozenset(["Sin"])}),
    ],
)
def test_af214_kept(context: Context, options: dict[str, frozenset[str]]) -> None:
    made = plan_of(chain(3), context, **options)
    assert ("n1", "", "AF214") in codes(made)
    assert all("n1" not in g for g in groups(made))


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        *[("ReduceSum", "reduce"), ("SoftmaxV2", "reduce"), ("LayerNormV4", "reduce"), ("MseLoss", "reduce")],
        *[("ConcatV2", "concat"), ("Pack", "concat"), ("SplitD", "split"), ("StridedSliceV2", "slice")],
        *[("Transpose", "transpose"), ("GatherV2", "gather"), ("Add", ""), ("BroadcastTo", ""), ("Reshape", "")],
    ],
)
def test_pass_of(kind: str, needed: str) -> None:
    assert pass_of(kind) == needed


def test_af215_pass_not_enabled() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([4, 8]), name="n0")
    b.output(b.op("ReduceSum", x, b.const([1]), name="sum", keep_dims=True))
    graph = graph_of(b)
    made = plan_of(graph, passes=frozenset())
    (refusal,) = [r for r in made.refusals if r.node == "sum"]
    assert refusal.code == "AF215" and "--autofuse_enable_pass=reduce" in refusal.reason
    assert not any(r.code == "AF215" for r in plan_of(graph).refusals)


def test_af201_af202_af203_and_empty() -> None:
    b = GraphBuilder()
    b.output(
        barrier(b, b.data([8])),
        b.op("Exp", b.data([8], F64), name="double"),
        b.op("Mod", b.data([8], I64), b.data([8], I64), name="wide"),
        b.op("Exp", b.op("NoSuchOp", b.data([8])), name="unknown"),
        b.op("Exp", b.data([0, 4]), name="empty"),
    )
    found = {(r.node.split("_")[0], r.code): r.reason for r in plan_of(graph_of(b)).refusals}
    assert (BARRIER, "AF201") in found
    assert "f64" in found["double", "AF202"]
    assert ("wide", "AF202") in found
    assert "shape" in found["unknown", "AF203"] or "dtype" in found["unknown", "AF203"]
    assert "empty" in found["empty", "AF216"]


def test_host_arithmetic_is_left_alone() -> None:
    b = GraphBuilder()
    n = b.op("Mul", b.op("Size", b.data([-1])), b.const(2, I64), name="n")
    b.output(b.op("Cast", n, name="c", dst_type=F32.ge_c))
    made = plan_of(graph_of(b, d0=("s0",)))
    assert groups(made) == [] and made.refusals == ()


def _unfused_kernels(graph: Graph, made_groups: list[list[str]]) -> set[str]:
    inside = {n for g in made_groups for n in g}
    return {n.name for n in graph.nodes if is_kernel(n, graph) and n.name not in inside}


# ---- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "expected"), [(None, 1), (8, 1), (4, 2), (3, 2), (2, 4), (1, 0), (0, 0)])
def test_max_fusion_size(size: int | None, expected: int) -> None:
    graph = chain(8)
    made = plan_of(graph, max_fusion_size=size)
    assert all(len(g) <= (size if size is not None else 8) for g in groups(made))
    assert len(groups(made)) >= expected and bool(groups(made)) == bool(expected)
    assert any(c == "AF213" for _, _, c in codes(made)) == (size is not None and size < 8)
    check_plan(graph, made, run_nodes(graph, [numbers((8,))]))


@pytest.mark.parametrize("fuel", [None, 0, 1, 2, 3])
def test_max_fusions(fuel: int | None) -> None:
    b = GraphBuilder()
    x = b.data([8])
    for i in range(3):
        x = barrier(b, b.op("Sin", b.op("Exp", x, name=f"a{i}"), name=f"b{i}"))
    b.output(x)
    made = plan_of(graph_of(b), max_fusions=fuel)
    count = 3 if fuel is None else fuel
    assert groups(made) == [[f"a{i}", f"b{i}"] for i in range(count)]
    assert {(n, c) for n, _, c in codes(made) if c == "AF221"} == {
        (f"{k}{i}", "AF221") for k in "ab" for i in range(count, 3)
    }


# ---- cutting -------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_becomes_prefixes() -> None:
    graph = chain(10)
    nodes = [n for n in graph.nodes if n.name[0] == "n"]

    def fits(part: object) -> Reason | None:
        return Reason("AF212", "too big") if len(part) > 3 else None  # type: ignore[arg-type]

    made, cuts = pieces(graph, nodes, fits)
    assert [[n.name for n in p] for p in made] == [["n0", "n1", "n2"], ["n3", "n4", "n5"], ["n6", "n7", "n8"]]
    assert [(a.name, None if c is None else c.name) for a, c, _ in cuts] == [("n2", "n3"), ("n5", "n6"), ("n8", "n9")]


def test_two_chains_that_meet_are_cut_side_by_side() -> None:
    """In graph order the two alternate: a prefix is never connected, yet each of its parts is a piece."""
    b = GraphBuilder()
    x, y = b.data([8]), b.data([8])
    for i in range(4):
        x, y = b.op("Exp", x, name=f"x{i}"), b.op("Sin", y, name=f"y{i}")
    b.output(b.op("Add", x, y, name="z"))
    graph = graph_of(b)
    nodes = [n for n in graph.nodes if n.name[0] in "xyz"]
    made, _ = pieces(graph, nodes, lambda p: Reason("AF212", "too big") if len(p) > 4 else None)
    assert [[n.name for n in p] for p in made] == [[f"x{i}" for i in range(4)], [f"y{i}" for i in range(4)]]


def test_nothing_fits() -> None:
    graph = chain(5)
    nodes = [n for n in graph.nodes if n.name[0] == "n"]
    made, cuts = pieces(graph, nodes, lambda p: Reason("AF217", "no"))
    assert made == [] and len(cuts) >= 1


def test_kernels_that_were_cut_off_say_why() -> None:
    graph = chain(6)

    def fits(group: Group) -> Reason | None:
        return Reason("AF212", "too big") if len(group.nodes) > 4 else None

    made = plan(graph, Context(), ALL, fits, node_costs(graph))
    assert groups(made) == [["n0", "n1", "n2", "n3"], ["n4", "n5"]]
    assert ("n3", "n4", "AF212") in codes(made)
    made = plan(graph, Context(), ALL, lambda g: Reason("AF212", "never"), node_costs(graph))
    named = {name for r in made.refusals for name in (r.node, r.other)}
    assert groups(made) == [] and named >= {f"n{i}" for i in range(6)}


def test_trim_and_components() -> None:
    b = GraphBuilder()
    v = b.op("Reshape", b.data([8]), b.const([2, 4]), name="v")
    w = b.op("Reshape", v, b.const([4, 2]), name="w")
    b.output(b.op("Exp", w, name="a"), b.op("Sin", w, name="b"))
    graph = graph_of(b)
    nodes = [n for n in graph.nodes if n.name in "vwab"]
    assert [n.name for n in trim(graph, nodes)] == ["a", "b"]
    assert [[n.name for n in p] for p in components(graph, nodes)] == [["v", "w", "a", "b"]]
    assert [[n.name for n in p] for p in components(graph, trim(graph, nodes))] == [["a"], ["b"]]


# ---- the whole -----------------------------------------------------------------------------------------------------


@st.composite
def random_graphs(draw: st.DrawFn) -> tuple[Graph, int]:
    """Elementwise ops, broadcasts, reshapes and barriers over a few shapes; returns the number of its inputs too."""
    b = GraphBuilder()
    menu = [(4,), (2, 4), (2, 1), (8,), (3, 2, 4), ()]
    tensors = [(b.data(s), s) for s in menu]
    for i in range(draw(st.integers(4, 22))):
        x, shape = draw(st.sampled_from(tensors[-5:] if draw(st.booleans()) else tensors))
        kind = draw(st.sampled_from(["unary", "binary", "binary", "view", "barrier"]))
        if kind == "unary":
            tensors.append((b.op(draw(st.sampled_from(["Neg", "Exp", "Relu"])), x, name=f"op{i}"), shape))
        elif kind == "barrier":
            tensors.append((barrier(b, x), shape))
        elif kind == "view" and shape == (2, 4):
            tensors.append((b.op("Reshape", x, b.const([8]), name=f"op{i}"), (8,)))
        elif kind == "view" and shape == (8,):
            tensors.append((b.op("Reshape", x, b.const([2, 4]), name=f"op{i}"), (2, 4)))
        else:
            same = [t for t in tensors if t[1] in (shape, ()) or (shape == (2, 4) and t[1] in ((4,), (2, 1)))]
            tensors.append((b.op("Maximum", x, draw(st.sampled_from(same))[0], name=f"op{i}"), shape))
    b.output(*dict.fromkeys(t for t, _ in tensors[len(menu) :]))
    return graph_of(b), len(menu)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(random_graphs(), st.sampled_from([None, 2, 3, 5]), st.integers(1, 3))
def test_random_graphs(given_graph: tuple[Graph, int], size: int | None, threshold: int) -> None:
    graph, _ = given_graph
    made = plan_of(graph, max_fusion_size=size, recomputation_threshold=threshold)
    again = plan_of(graph, max_fusion_size=size, recomputation_threshold=threshold)
    assert groups(made) == groups(again) and made.refusals == again.refusals
    assert not has_cycle(edges_of_groups(graph, made))
    inputs = [
        numbers(tuple(graph.info(n.outputs[0]).shape or ()), i) for i, n in enumerate(graph.inputs_of_type("Data"))
    ]
    check_plan(graph, made, run_nodes(graph, inputs))
    named = {name for r in made.refusals for name in (r.node, r.other)}
    assert _unfused_kernels(graph, groups(made)) <= named, "a kernel stayed unfused without a word"
    assert len(set(made.refusals)) == len(made.refusals)
    place = [(graph.position[r.node], graph.position.get(r.other, -1)) for r in made.refusals]
    assert place == sorted(place)


def test_the_plan_does_not_depend_on_node_names() -> None:
    def make(names: list[str]) -> list[list[int]]:
        b = GraphBuilder()
        x = b.data([8])
        left, right = b.op("Exp", x, name=names[0]), b.op("Sin", x, name=names[1])
        b.output(
            b.op("Add", left, b.data([3, 8]), name=names[2]),
            b.op("Add", b.op("Add", left, right, name=names[3]), b.data([5, 8]), name=names[4]),
        )
        graph = graph_of(b)
        return [[graph.position[n] for n in g] for g in groups(plan_of(graph))]

    assert make(["a", "b", "c", "d", "e"]) == make(["e", "d", "c", "b", "a"]) == make(["z", "a", "q", "k", "b"])


def test_half_precision_plan_values() -> None:
    b = GraphBuilder()
    x, y = b.data([4, 8], F16), b.data([8], F16)
    e = b.op("Exp", b.op("Add", x, y, name="add"), name="e")
    b.output(b.op("Mul", e, barrier(b, e), name="m"), b.op("Relu", e, name="r"))
    graph = graph_of(b)
    values = run_nodes(graph, [numbers((4, 8), 0, "float16"), numbers((8,), 1, "float16")])
    check_plan(graph, plan_of(graph), values, ulps=1)
    assert lower_group(graph, plan_of(graph).groups[0], ALL)
