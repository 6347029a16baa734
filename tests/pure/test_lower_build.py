"""From a cluster to a kernel: the rounding rules, outputs, inputs, views that stay, uniform values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ge_build import GraphBuilder
from plan_build import check_plan, check_values, graph_of, groups, kernel_of, lower, numbers, plan_of, run_nodes

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I32, DType
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Cast, Const, Load
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.group import Group


def casts(lowered: Lowered) -> list[str]:
    """``from>to`` of every conversion in the kernel, in order."""
    nest = lowered.kernel.nests[0]
    return [f"{nest.dtypes[v.arg]}>{v.dtype}" for v in nest.values if isinstance(v, Cast)]


def chain(dtype: DType, *kinds: str, shape: tuple[int, ...] = (4, 8)) -> Graph:
    b = GraphBuilder()
    x = b.data(shape, dtype)
    for i, kind in enumerate(kinds):
        x = b.op(kind, x, name=f"n{i}")
    b.output(x)
    return graph_of(b)


# ---- rounding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_a_chain_is_raised_once_and_rounded_once(dtype: DType) -> None:
    graph = chain(dtype, "Exp", "Sin", "Tanh")
    assert casts(kernel_of(graph, "n0", "n1", "n2")) == [f"{dtype}>f32", f"f32>{dtype}"]


def test_strict_rounds_after_every_op() -> None:
    graph = chain(F16, "Exp", "Sin", "Tanh")
    made = kernel_of(graph, "n0", "n1", "n2", precision="strict")
    assert casts(made) == ["f16>f32", "f32>f16", "f16>f32", "f32>f16", "f16>f32", "f32>f16"]
    check_values(graph, made, run_nodes(graph, [numbers((4, 8), dtype=np.float16)]))


def test_f32_has_no_casts() -> None:
    assert casts(kernel_of(chain(F32, "Exp", "Sin"), "n0", "n1")) == []


def test_a_stored_value_is_rounded_before_its_other_readers() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8], F16), name="y")
    b.output(y, b.op("Sin", y, name="z"))
    graph = graph_of(b)
    made = kernel_of(graph, "y", "z")
    assert casts(made) == ["f16>f32", "f32>f16", "f16>f32", "f32>f16"]
    check_values(graph, made, run_nodes(graph, [numbers((8,), dtype=np.float16)]))


@pytest.mark.parametrize("through_view", [False, True])
@pytest.mark.parametrize("taken", [["y", "a", "b", "c"], ["y", "a"], ["y", "b", "c"]])
def test_several_readers_see_the_rounded_value_wherever_they_are(through_view: bool, taken: list[str]) -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([2, 4], F16), name="y")
    v = b.op("Reshape", y, b.const([8]), name="v") if through_view else y
    a, c = b.op("Sin", y, name="a"), b.op("Cos", v, name="b")
    b.output(b.op("Tanh", a, name="d"), b.op("Tanh", c, name="c"))
    graph = graph_of(b)
    names = [*taken, "v"] if through_view and "b" in taken else taken
    made = kernel_of(graph, *names)
    rounded = casts(made)
    assert rounded[:3] == ["f16>f32", "f32>f16", "f16>f32"]
    values = run_nodes(graph, [numbers((2, 4), dtype=np.float16)])
    check_values(graph, made, values, ulps=1)


def test_the_same_reader_twice_counts_twice() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8], F16), name="y")
    b.output(b.op("Mul", y, y, name="z"))
    made = kernel_of(graph_of(b), "y", "z")
    assert casts(made) == ["f16>f32", "f32>f16", "f16>f32", "f32>f16"]


def test_a_predicate_sees_the_rounded_value() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8], F16), name="y")
    b.output(b.op("Greater", y, b.data([8], F16), name="p"))
    graph = graph_of(b)
    made = kernel_of(graph, "y", "p")
    assert casts(made) == ["f16>f32", "f32>f16", "f16>f32", "f16>f32"]
    check_values(graph, made, run_nodes(graph, [numbers((8,), 0, np.float16), numbers((8,), 1, np.float16)]))


def test_an_explicit_narrowing_cast_rounds() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8]), name="y")
    h = b.op("Cast", y, name="h", dst_type=F16.ge_c)
    w = b.op("Cast", h, name="w", dst_type=F32.ge_c)
    b.output(b.op("Sin", w, name="z"))
    graph = graph_of(b)
    made = kernel_of(graph, "y", "h", "w", "z")
    assert casts(made) == ["f32>f16", "f16>f32"]
    check_values(graph, made, run_nodes(graph, [numbers((8,))]))


def test_a_stored_narrowing_cast_is_narrowed_once() -> None:
    b = GraphBuilder()
    b.output(b.op("Cast", b.op("Exp", b.data([8]), name="y"), name="h", dst_type=BF16.ge_c))
    assert casts(kernel_of(graph_of(b), "y", "h")) == ["f32>bf16"]


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda b, x: b.op("Relu", x, name="r"), 2),
        (lambda b, x: b.op("Maximum", x, b.const(0.5, F16), name="r"), 2),
        (lambda b, x: b.op("Maximum", x, b.const(0.1, F16), name="r"), 2),  # 0.1 as f16 holds it
        (lambda b, x: b.op("Neg", x, name="r"), 2),
        (lambda b, x: b.op("Muls", x, name="r", value=0.1), 3),  # a product is not exact: rounded for its two readers
    ],
)
def test_exact_ops_need_no_rounding_in_between(make, count: int) -> None:  # type: ignore[no-untyped-def]
    b = GraphBuilder()
    r = make(b, b.data([8], F16))
    b.output(b.op("Sin", r, name="s"), b.op("Cos", r, name="c"))
    graph = graph_of(b)
    made = kernel_of(graph, "r", "s", "c")
    before_sin = casts(made)[: -2 if count == 2 else None]
    assert before_sin == ["f16>f32"] if count == 2 else before_sin[:3] == ["f16>f32", "f32>f16", "f16>f32"]
    check_values(graph, made, run_nodes(graph, [numbers((8,), dtype=np.float16)]))


@pytest.mark.parametrize(("dtype", "unit"), [(np.float16, 2.0**-10), (ml_dtypes.bfloat16, 2.0**-7)])
def test_where_a_graph_is_cut_does_not_show(dtype: type, unit: float) -> None:
    """Every value here has two readers, so it is rounded whether it stays inside or not: the bits are the same."""
    b = GraphBuilder()
    x = b.data([4, 8], F16 if dtype is np.float16 else BF16)
    for i in range(6):
        left, right = b.op("Sin", x, name=f"s{i}"), b.op("Relu", x, name=f"r{i}")
        x = b.op("Add", left, b.op("Maximum", left, right, name=f"m{i}"), name=f"a{i}")
    y = b.op("Tanh", x, name="y")
    b.output(y, b.op("Exp", y, name="z"), x)
    graph = graph_of(b)
    values = run_nodes(graph, [numbers((4, 8), dtype=dtype)])
    seen = set()
    for size in (None, 24, 9, 5, 3, 2):
        made = plan_of(graph, max_fusion_size=size)
        seen.add(len(made.groups))
        check_plan(graph, made, values)
    assert len(seen) > 3, "the graph was not cut differently"


@pytest.mark.parametrize("precision", ["fp32", "strict"])
def test_cuts_of_an_f16_chain(precision: str) -> None:
    """A value with one reader is rounded only where it is stored: cuts show, unless precision is strict."""
    graph = chain(F16, *["Sin", "Cos"] * 4)
    values = run_nodes(graph, [numbers((4, 8), dtype=np.float16)])
    for size in (None, 5, 3, 2):
        made = plan_of(graph, max_fusion_size=size, precision=precision)
        check_plan(graph, made, values, ulps=0 if precision == "strict" else 4, precision=precision)


# ---- outputs and inputs --------------------------------------------------------------------------------------------


def test_outputs_are_what_others_read() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8]), name="y")
    z = b.op("Sin", y, name="z")
    w = b.op("Cos", z, name="w")
    b.output(w, y)
    made = kernel_of(graph_of(b), "y", "z", "w")
    assert [str(r) for r in made.outputs] == ["y:0", "w:0"]


def test_a_cluster_that_nobody_reads_is_refused() -> None:
    b = GraphBuilder()
    x = b.data([8])
    b.op("Sin", b.op("Exp", x, name="y"), name="z")
    b.output(b.op("Relu", x, name="other"))
    made = lower(graph_of(b), "y", "z")
    assert isinstance(made, Reason) and made.code == "AF216"


def test_a_value_and_its_view_are_stored_once() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8]), name="y")
    v = b.op("Reshape", y, b.const([2, 4]), name="v")
    b.output(y, v, b.op("Sin", v, name="z"))
    graph = graph_of(b)
    made = kernel_of(graph, "y", "v", "z")
    assert [str(r) for r in made.outputs] == ["y:0", "z:0"]
    assert [n.name for n in made.nodes] == ["y", "z"]  # v stays in the graph, reading y
    check_values(graph, made, run_nodes(graph, [numbers((8,))]))


def test_of_a_value_that_only_its_view_shows_the_view_is_stored() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data([8]), name="y")
    v = b.op("Reshape", y, b.const([2, 4]), name="v")
    b.output(v, b.op("Sin", v, name="z"))
    made = kernel_of(graph_of(b), "y", "v", "z")
    assert [str(r) for r in made.outputs] == ["v:0", "z:0"]
    assert [n.name for n in made.nodes] == ["y", "v", "z"]


def test_a_view_of_an_outer_tensor_stays_in_the_graph() -> None:
    b = GraphBuilder()
    v = b.op("Reshape", b.data([8]), b.const([2, 4]), name="v")
    b.output(v, b.op("Cos", b.op("Sin", v, name="y"), name="z"))
    graph = graph_of(b)
    made = kernel_of(graph, "v", "y", "z")
    assert [str(r) for r in made.inputs] == ["arg0:0"] and [str(r) for r in made.outputs] == ["z:0"]
    assert [n.name for n in made.nodes] == ["y", "z"]
    check_values(graph, made, run_nodes(graph, [numbers((8,))]))


def test_inputs_are_named_in_order_of_use_and_dead_ones_are_dropped() -> None:
    """OnesLike needs only the shape of x."""
    b = GraphBuilder()
    x, y = b.data([8]), b.data([8])
    one = b.op("OnesLike", x, name="one")
    b.output(b.op("Exp", b.op("Add", one, y, name="add"), name="e"))
    graph = graph_of(b)
    made = kernel_of(graph, "one", "add", "e")
    assert [str(r) for r in made.inputs] == ["arg1:0"]
    assert [p.name for p in made.kernel.params] == ["in0", "out0"]
    assert [v.name for v in made.kernel.nests[0].values] == [f"v{i}" for i in range(len(made.kernel.nests[0].values))]
    check_values(graph, made, run_nodes(graph, [numbers((8,)), numbers((8,), 1)]))


def test_an_unread_input_stays_where_a_symbol_needs_it() -> None:
    b = GraphBuilder()
    one = b.op("OnesLike", b.data([-1]), name="one")
    b.output(b.op("Add", one, b.data([]), name="add"))
    graph = graph_of(b, d0=("s7",), d1=())
    made = kernel_of(graph, "one", "add")
    loaded = [v.param for v in made.kernel.nests[0].values if isinstance(v, Load)]
    assert [str(r) for r in made.inputs] == ["arg1:0", "arg0:0"] and loaded == ["in0"]
    assert [(s.name, s.param, s.dim) for s in made.kernel.symbols] == [("s0", "in1", 0)]
    results = interpret(made.kernel, [np.float32(2.5), np.zeros(5, np.float32)])
    assert results["out0"].tolist() == [3.5] * 5


def test_a_shape_that_no_operand_has_comes_from_a_graph_input() -> None:
    b = GraphBuilder()
    x = b.data([-1, 4])
    flat = b.data([-1, 4])
    y = b.op("Exp", flat, name="y")
    z = b.op("Reshape", y, b.const([-1, 2, 4]), name="v")
    b.output(b.op("Sin", z, name="z"), x)
    graph = graph_of(b, d0=("s0", 4), d1=("2*s0*s1", 4))
    made = lower(graph, "y", "v", "z")
    assert isinstance(made, Lowered), made
    values = run_nodes(graph, [numbers((3, 4)), numbers((12, 4), 1)], {"s0": 3, "s1": 2})
    check_values(graph, made, values)


# ---- uniform values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda b, x: b.op("ZerosLike", x), 0.0),
        (lambda b, x: b.op("OnesLike", x), 1.0),
        (lambda b, x: b.op("Fills", x, value=0.1), 0.1),
        (lambda b, x: b.op("Fill", b.const([4]), b.const(2.5, F32)), 2.5),
        (lambda b, x: b.op("BroadcastTo", b.op("Fill", b.const([1]), b.const(3.0, F32)), b.const([4])), 3.0),
        (lambda b, x: b.const([7.0, 7.0, 7.0, 7.0], F32), 7.0),
        (lambda b, x: b.const(-0.0, F32), -0.0),
    ],
)
def test_uniform_operands_are_constants(make, value: float) -> None:  # type: ignore[no-untyped-def]
    b = GraphBuilder()
    x = b.data([4])
    u = make(b, x)
    b.output(b.op("Exp", b.op("Mul", x, u, name="m"), name="e"), u)
    graph = graph_of(b)
    made = kernel_of(graph, "m", "e")
    assert [str(r) for r in made.inputs] == ["arg0:0"]
    (const,) = [v for v in made.kernel.nests[0].values if isinstance(v, Const)]
    assert repr(const.value) == repr(float(np.float32(value)))


def test_uniform_behind_more_views_than_python_can_nest() -> None:
    b = GraphBuilder()
    x, u = b.data([2, 3]), b.op("Fill", b.const([2, 3]), b.const(2.5, F32))
    for i in range(1500):
        u = b.op("Reshape", u, b.const([3, 2] if i % 2 == 0 else [2, 3]))
    b.output(b.op("Mul", x, u, name="m"))
    graph = graph_of(b)
    assert uniform_value(graph, graph.by_name["m"].inputs[1]) == 2.5  # type: ignore[arg-type]
    assert [str(r) for r in kernel_of(graph, "m").inputs] == ["arg0:0"]


def test_a_constant_that_varies_is_loaded() -> None:
    b = GraphBuilder()
    b.output(b.op("Exp", b.op("Mul", b.data([2]), b.const([0.0, -0.0], F32), name="m"), name="e"))
    assert len(kernel_of(graph_of(b), "m", "e").inputs) == 2


def test_a_half_constant_has_the_value_its_type_holds() -> None:
    b = GraphBuilder()
    x = b.data([4], F16)
    b.output(b.op("Mul", b.op("Exp", x, name="e"), b.op("Fills", x, value=0.1), name="m"))
    graph = graph_of(b)
    made = kernel_of(graph, "e", "m")
    (const,) = [v for v in made.kernel.nests[0].values if isinstance(v, Const)]
    assert const.value == float(np.float16(0.1)) and const.dtype == F32


def test_a_stored_constant_fills_its_tensor() -> None:
    b = GraphBuilder()
    x = b.data([2, 4], I32)
    b.output(b.op("ZerosLike", x, name="zero"), b.op("Add", x, b.op("OnesLike", x, name="one"), name="add"))
    graph = graph_of(b)
    made = kernel_of(graph, "zero", "one", "add")
    check_values(graph, made, run_nodes(graph, [np.arange(8, dtype=np.int32).reshape(2, 4)]))


def test_bools_and_integers_are_exact() -> None:
    b = GraphBuilder()
    x, y = b.data([16], I32), b.data([16], I32)
    p = b.op("Less", x, y, name="p")
    q = b.op("LogicalNot", p, name="q")
    b.output(
        b.op("Select", q, b.op("Add", x, y, name="s"), x, name="z"), b.op("LogicalAnd", p, b.data([16], BOOL), name="w")
    )
    graph = graph_of(b)
    rng = np.random.default_rng(0)
    big = rng.integers(-(2**31), 2**31 - 1, 16).astype(np.int32)
    values = run_nodes(graph, [big, big[::-1].copy(), rng.random(16) < 0.5])
    made = kernel_of(graph, "p", "q", "s", "z", "w")
    check_values(graph, made, values)


@pytest.mark.parametrize("constant", [False, True])
def test_a_reduction_over_repeats_is_refused(constant: bool) -> None:
    """Summing 100 copies of a value: the value has no axis to loop over."""
    b = GraphBuilder()
    x = b.data([64, 100] if constant else [64, 1])
    wide = b.op("OnesLike", x, name="wide") if constant else b.op("BroadcastTo", x, b.const([64, 100]), name="wide")
    total = b.op("ReduceSum", wide, b.const([1]), name="sum", keep_dims=True)
    b.output(b.op("Sigmoid", total, name="e"))
    graph = graph_of(b)
    made = lower(graph, "wide", "sum", "e")
    assert isinstance(made, Reason) and made.code == "AF210" and "sum" in made.text
    parts = plan_of(graph)
    assert all("wide" not in g for g in groups(parts))
    if not constant:
        check_plan(graph, parts, run_nodes(graph, [numbers((64, 1))]), ulps=4)


def test_copies_are_computed_but_not_replaced() -> None:
    b = GraphBuilder()
    y = b.op("Neg", b.data([8]), name="y")
    b.output(b.op("Exp", y, name="a"), b.op("Sin", y, name="c"))
    graph = graph_of(b)
    from plan_build import ALL

    from torchair_autofuse.generated import lower_group

    nodes = (graph.by_name["y"], graph.by_name["a"])
    made = lower_group(graph, Group(nodes, frozenset(["y"])), ALL)
    assert isinstance(made, Lowered)
    assert [str(r) for r in made.outputs] == ["a:0"] and [n.name for n in made.nodes] == ["a"]
    check_values(graph, made, run_nodes(graph, [numbers((8,))]))
