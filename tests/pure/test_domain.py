"""Iteration domains: index maps through broadcasts and reshapes, conflicts refused, undo."""

from __future__ import annotations

import numpy as np
import pytest
from ge_build import GraphBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_build import check_values, graph_of, kernel_of, lower, numbers, run_nodes

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.messages import Reason


def _binary(left: tuple[int, ...], right: tuple[int, ...]) -> Graph:
    b = GraphBuilder()
    x, y = b.data(left), b.data(right)
    b.output(b.op("Exp", b.op("Add", x, y, name="add"), name="exp"))
    return graph_of(b)


@pytest.mark.parametrize(
    ("left", "right", "loads"),
    [
        ((4, 8), (4, 8), {"in0": "8*a0 + a1", "in1": "8*a0 + a1"}),
        ((4, 8), (8,), {"in0": "8*a0 + a1", "in1": "a1"}),
        ((4, 8), (1, 8), {"in0": "8*a0 + a1", "in1": "a1"}),
        ((4, 8), (4, 1), {"in0": "8*a0 + a1", "in1": "a0"}),
        ((4, 8), (), {"in0": "8*a0 + a1", "in1": "0"}),
        ((4, 8), (1, 1), {"in0": "8*a0 + a1", "in1": "0"}),
        ((2, 3, 5), (2, 1, 5), {"in0": "15*a0 + 5*a1 + a2", "in1": "5*a0 + a2"}),
        ((2, 1, 5), (3, 1), {"in0": "5*a0 + a2", "in1": "a1"}),
        ((4, 1), (1, 8), {"in0": "a0", "in1": "a1"}),
        ((), (), {"in0": "0", "in1": "0"}),
        ((1, 1), (1,), {"in0": "0", "in1": "0"}),
    ],
)
def test_broadcast(left: tuple[int, ...], right: tuple[int, ...], loads: dict[str, str]) -> None:
    graph = _binary(left, right)
    made = kernel_of(graph, "add", "exp")
    nest = made.kernel.nests[0]
    found = {}
    for v in nest.values:
        if hasattr(v, "param"):
            found[v.param] = " + ".join(a if s == 1 else f"{s}*{a}" for a, s in v.strides) or "0"
    assert found == loads
    check_values(graph, made, run_nodes(graph, [numbers(left), numbers(right, 1)]))


def _through_reshapes(shapes: list[tuple[int, ...]]) -> Graph:
    """A chain of Relu with a reshape to each of the shapes between."""
    b = GraphBuilder()
    x = b.op("Exp", b.data(shapes[0]), name="n0")
    for i, shape in enumerate(shapes[1:], 1):
        x = b.op("Reshape", x, b.const(shape), name=f"view{i}")
        x = b.op("Relu", x, name=f"n{i}")
    b.output(x)
    return graph_of(b)


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        ([(12,), (3, 4)], [3, 4]),
        ([(3, 4), (12,)], [3, 4]),
        ([(24,), (4, 6), (2, 2, 6)], [2, 2, 6]),  # an axis split twice
        ([(24,), (4, 6), (2, 12)], [2, 2, 6]),
        ([(2, 12), (24,), (2, 3, 4)], [2, 3, 4]),
        ([(4, 6), (2, 2, 6), (4, 2, 3)], [2, 2, 2, 3]),
        ([(3, 4), (1, 3, 1, 4, 1)], [3, 4]),
        ([(1, 1), (1,), ()], []),
    ],
)
def test_reshapes_refine_the_axes(shapes: list[tuple[int, ...]], axes: list[int]) -> None:
    graph = _through_reshapes(shapes)
    names = [n.name for n in graph.nodes if n.name[0] == "n" or n.type == "Reshape"]
    made = kernel_of(graph, *names)
    assert [a.size for a in made.kernel.nests[0].axes] == axes
    check_values(graph, made, run_nodes(graph, [numbers(shapes[0])]))


def test_reshape_without_common_axes_is_refused_with_both_shapes() -> None:
    graph = _through_reshapes([(4, 6), (3, 8)])
    made = lower(graph, "n0", "view1", "n1")
    assert isinstance(made, Reason)
    assert made.code == "AF205"
    assert "[4, 6]" in made.text and "[3, 8]" in made.text


def test_symbolic_reshape() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([-1]), name="n0")
    d = b.data([-1, 64])
    y = b.op("Reshape", x, b.const([-1, 64]), name="view")
    b.output(b.op("Add", y, d, name="n1"))
    graph = graph_of(b, d0=("64*s0",), d1=("s0", 64))
    made = kernel_of(graph, "n0", "view", "n1")
    assert [str(a.size) for a in made.kernel.nests[0].axes] == ["s0", "64"]
    check_values(graph, made, run_nodes(graph, [numbers((128,)), numbers((2, 64), 1)], {"s0": 2}))


def test_unknown_equality_of_dims_is_refused() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([-1, -1]), name="n0")
    y = b.op("Reshape", x, b.const([-1]), name="v0")
    z = b.op("Reshape", y, b.op("Shape", b.data([-1, -1])), name="v1")
    b.output(b.op("Relu", z, name="n1"))
    graph = graph_of(b, d0=("s0", "s1"), d1=("s1", "s0"))
    made = lower(graph, "n0", "v0", "v1", "n1")
    assert isinstance(made, Reason) and made.code == "AF205"
    assert "[s0*s1]" in made.text and "[s1, s0]" in made.text


def _outer_sum(n: int, op: str = "Exp") -> Graph:
    b = GraphBuilder()
    v = b.op(op, b.data([n]), name="v")
    column = b.op("Reshape", v, b.const([n, 1]), name="column")
    row = b.op("Reshape", v, b.const([1, n]), name="row")
    b.output(b.op("Add", column, row, name="sum"))
    return graph_of(b)


@pytest.mark.parametrize(
    "order", [["v", "column", "row", "sum"], ["sum", "row", "column", "v"], ["v", "sum", "row", "column"]]
)
def test_a_value_read_along_two_axes_is_never_given_one_map(order: list[str]) -> None:
    graph = _outer_sum(5)
    domain = Domain(graph)
    reasons = [domain.try_add(graph.by_name[name]) for name in order]
    refused = [r for r in reasons if r is not None]
    assert refused and all(r.code in ("AF211", "AF210") for r in refused)
    assert any(r.code == "AF211" for r in refused)


def test_without_its_producer_the_outer_sum_loads_twice() -> None:
    graph = _outer_sum(5)
    made = kernel_of(graph, "column", "row", "sum")
    assert [str(r) for r in made.inputs] == ["v:0"]
    loads = [v.strides for v in made.kernel.nests[0].values if hasattr(v, "param")]
    assert sorted(loads) == [(("a0", 1),), (("a1", 1),)]
    check_values(graph, made, run_nodes(graph, [numbers((5,))]))


def test_siblings_over_different_axes_are_refused() -> None:
    b = GraphBuilder()
    v = b.op("Exp", b.data([4]), name="v")
    b.output(b.op("Add", v, b.data([3, 4]), name="a"), b.op("Mul", v, b.data([5, 4]), name="b"))
    graph = graph_of(b)
    made = lower(graph, "v", "a", "b")
    assert isinstance(made, Reason) and made.code == "AF210"


def test_siblings_over_equally_many_elements_share_a_loop() -> None:
    b = GraphBuilder()
    v = b.op("Exp", b.data([4]), name="v")
    b.output(b.op("Add", v, b.data([3, 4]), name="a"), b.op("Mul", v, b.data([3, 4]), name="b"), v)
    graph = graph_of(b)
    made = kernel_of(graph, "v", "a", "b")
    assert [str(r) for r in made.outputs] == ["v:0", "a:0", "b:0"]
    assert [a.size for a in made.kernel.nests[0].axes] == [3, 4]
    check_values(graph, made, run_nodes(graph, [numbers((4,)), numbers((3, 4), 1), numbers((3, 4), 2)]))


def test_axes_that_meet_in_a_tensor_are_never_shared() -> None:
    """Two axes of 4: one tensor varies over both, so a third of shape [4] may be given one of them, not both."""
    b = GraphBuilder()
    x = b.op("Exp", b.data([4, 4]), name="x")
    y = b.op("Add", x, b.data([4, 1]), name="y")
    b.output(b.op("Sub", y, b.op("Reshape", y, b.const([4, 4]), name="same"), name="z"))
    graph = graph_of(b)
    made = kernel_of(graph, "x", "y", "same", "z")
    assert [a.size for a in made.kernel.nests[0].axes] == [4, 4]
    check_values(graph, made, run_nodes(graph, [numbers((4, 4)), numbers((4, 1), 1)]))


def test_a_refused_node_leaves_the_domain_as_it_was() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([24]), name="n0")
    a = b.op("Relu", b.op("Reshape", x, b.const([4, 6]), name="va"), name="a")
    c = b.op("Relu", b.op("Reshape", x, b.const([3, 8]), name="vc"), name="c")
    b.output(a, c)
    graph = graph_of(b)
    domain = Domain(graph)
    for name in ("n0", "va", "a"):
        assert domain.try_add(graph.by_name[name]) is None
    before = {ref: domain.map_of(ref) for ref in domain.maps}
    mark, widest = domain.mark(), domain.resolve(domain.widest)
    reason = domain.try_add(graph.by_name["vc"])
    assert reason is not None and reason.code == "AF205"
    assert domain.mark() == mark and domain.resolve(domain.widest) == widest
    assert {ref: domain.map_of(ref) for ref in domain.maps} == before
    domain.rollback(0)
    assert not domain.nodes and not domain.maps and not domain.widest


def _factorings(draw: st.DrawFn, total: int) -> tuple[int, ...]:
    """A shape with ``total`` elements, a product of small primes."""
    dims: list[int] = []
    rest = total
    while rest > 1:
        d = draw(st.sampled_from([k for k in range(2, rest + 1) if rest % k == 0]))
        dims.append(d)
        rest //= d
        if draw(st.integers(0, 4)) == 0:
            dims.append(1)
    return tuple(dims)


@st.composite
def _reshape_chains(draw: st.DrawFn) -> list[tuple[int, ...]]:
    total = draw(st.sampled_from([6, 8, 12, 24, 36]))
    return [_factorings(draw, total) for _ in range(draw(st.integers(2, 4)))]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(_reshape_chains(), st.integers(0, 3))
def test_reshape_chains_are_right_or_refused(shapes: list[tuple[int, ...]], start: int) -> None:
    graph = _through_reshapes(shapes)
    names = [n.name for n in graph.nodes if n.name[0] == "n" or n.type == "Reshape"]
    order = names[start % len(names) :] + names[: start % len(names)]
    domain = Domain(graph)
    refused = [r for r in (domain.try_add(graph.by_name[n]) for n in order) if r is not None]
    assert all(r.code in ("AF205", "AF210", "AF211") for r in refused)
    made = lower(graph, *names)
    if isinstance(made, Lowered):
        check_values(graph, made, run_nodes(graph, [numbers(shapes[0])]))
    else:
        assert made.code == "AF205"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_random_broadcast_graphs_are_right_or_refused(data: st.DataObject) -> None:
    """Binary ops over random operands of a few shapes: whatever fuses gives the bits of the nodes run one by one."""
    menu = [(3,), (2, 3), (2, 1), (1, 3), (), (4, 2, 3), (4, 1, 3), (4, 1, 1), (3, 1), (3, 3)]
    b = GraphBuilder()
    tensors: list[tuple[str, tuple[int, ...]]] = []
    arrays = []
    for i in range(4):
        shape = data.draw(st.sampled_from(menu))
        tensors.append((b.data(shape), shape))
        arrays.append(numbers(shape, i))
    ops: list[str] = []
    for i in range(data.draw(st.integers(3, 9))):
        (x, a), (y, c) = data.draw(st.sampled_from(tensors)), data.draw(st.sampled_from(tensors))
        try:
            shape = np.broadcast_shapes(a, c)
        except ValueError:
            y, shape = x, a
        kind = data.draw(st.sampled_from(["Add", "Mul", "Maximum", "Sub"]))
        tensors.append((b.op(kind, x, y, name=f"op{i}"), shape))
        ops.append(f"op{i}")
        if len(shape) == 2 and data.draw(st.integers(0, 2)) == 0:
            flat = (shape[0] * shape[1],)
            tensors.append((b.op("Reshape", tensors[-1][0], b.const(flat), name=f"view{i}"), flat))
            ops.append(f"view{i}")
    b.output(*dict.fromkeys(t for t, _ in tensors[4:]))
    graph = graph_of(b)
    values = run_nodes(graph, arrays)
    domain = Domain(graph)
    taken = [n for n in ops if domain.try_add(graph.by_name[n]) is None]
    made = lower(graph, *taken)
    if isinstance(made, Lowered):
        check_values(graph, made, values)
    else:
        assert made.code in ("AF210", "AF211", "AF205", "AF216"), made
