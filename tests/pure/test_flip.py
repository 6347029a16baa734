"""Flips of values that the same op computes: what leads to them is computed backwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ge_build import GraphBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_build import check_plan, graph_of, numbers, priced, run_nodes

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.opdef.build import GeneratedOp

Make = Callable[[GraphBuilder, str], list[str]]


def flip(b: GraphBuilder, x: str, *over: int) -> str:
    return b.op("ReverseV2", x, b.const(list(over)))


def total(b: GraphBuilder, x: str) -> str:
    return b.op("ReduceSum", x, b.const([1]), keep_dims=True)


def checked(graph: Graph) -> int:
    """Kernels of the plan; its values are compared on the way."""
    made, maker = priced(graph)
    assert all(isinstance(maker.make(g), GeneratedOp) for g in made.groups)
    shapes = [tuple(graph.info(n.outputs[0]).shape or ()) for n in graph.inputs_of_type("Data")]
    check_plan(graph, made, run_nodes(graph, [numbers(s, i) for i, s in enumerate(shapes)]), ulps=4)
    inside = {n.name for g in made.groups for n in g.nodes}
    kinds = ("Data", "Const", "NetOutput", "Reshape")
    return len(made.groups) + sum(n.name not in inside and n.type not in kinds for n in graph.nodes)


CASES: dict[str, tuple[int, Make]] = {
    "columns": (1, lambda b, y: [b.op("Exp", flip(b, y, 1))]),
    "rows": (1, lambda b, y: [b.op("Exp", flip(b, y, 0))]),
    "both": (1, lambda b, y: [b.op("Exp", flip(b, y, 0, 1))]),
    "twice": (1, lambda b, y: [flip(b, b.op("Exp", flip(b, y, 1)), 1)]),
    "one after the other": (1, lambda b, y: [flip(b, b.op("Exp", flip(b, y, 1)), 0)]),
    "beside an input": (1, lambda b, y: [b.op("Mul", flip(b, y, 1), b.data((64, 72)))]),
    "beside a row": (1, lambda b, y: [b.op("Add", flip(b, y, 1), b.data((72,)))]),
    "turned": (1, lambda b, y: [b.op("Exp", b.op("Transpose", flip(b, y, 0), b.const([1, 0])))]),
    "summed": (1, lambda b, y: [b.op("Exp", total(b, flip(b, y, 0)))]),
    "stored as well": (2, lambda b, y: [b.op("Exp", flip(b, y, 1)), y]),
    "beside itself": (2, lambda b, y: [b.op("Add", flip(b, y, 1), y)]),
    "put together with itself": (2, lambda b, y: [b.op("ConcatV2", flip(b, y, 1), y, b.const(1), N=2)]),
}
"""Kernels of what is made of y, and of what makes y."""


@pytest.mark.parametrize("name", CASES)
def test_flips(name: str) -> None:
    kernels, make = CASES[name]
    b = GraphBuilder()
    b.output(*make(b, b.op("Mul", b.op("Abs", b.data((64, 72))), b.data((72,)))))
    assert checked(graph_of(b)) == kernels


def test_a_symbolic_size() -> None:
    b = GraphBuilder()
    b.output(b.op("Exp", flip(b, b.op("Abs", b.data((-1, 72))), 0)))
    graph = graph_of(b, d0=("s0", 72))
    made, maker = priced(graph)
    assert [len(g.nodes) for g in made.groups] == [3] and isinstance(maker.make(made.groups[0]), GeneratedOp)
    for rows in (1, 5, 33):
        check_plan(graph, made, run_nodes(graph, [numbers((rows, 72))], {"s0": rows}), ulps=1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_programs(data: st.DataObject) -> None:
    """Flips between elementwise ops, slices, concats, turns, reshapes and reductions: values stay."""
    b = GraphBuilder()
    shape = data.draw(st.sampled_from([(6, 8), (12, 12), (4, 24)]))
    pool = [(b.data(shape), shape) for _ in range(2)]
    for _ in range(data.draw(st.integers(3, 9))):
        x, (rows, cols) = data.draw(st.sampled_from(pool))
        kind = data.draw(st.sampled_from(["flip", "flip", "flip", "Neg", "Add", "half", "cat", "turn", "sum", "view"]))
        if kind == "flip":
            over = data.draw(st.sampled_from([(0,), (1,), (0, 1)]))
            pool.append((flip(b, x, *over), (rows, cols)))
        elif kind == "half" and cols % 2 == 0:
            w, k = cols // 2, data.draw(st.integers(0, 1))
            window = (b.const([0, k * w]), b.const([rows, (k + 1) * w]), b.const([1, 1]))
            pool.append((b.op("StridedSlice", x, *window), (rows, w)))
        elif kind == "turn":
            pool.append((b.op("Transpose", x, b.const([1, 0])), (cols, rows)))
        elif kind == "view" and rows % 2 == 0:
            pool.append((b.op("Reshape", x, b.const([rows // 2, cols * 2])), (rows // 2, cols * 2)))
        elif kind == "sum":
            pool.append((b.op("Sub", x, b.op("ReduceMax", x, b.const([1]), keep_dims=True)), (rows, cols)))
        elif kind in ("Add", "cat"):
            alike = [t for t, s in pool if s == (rows, cols)]
            y = data.draw(st.sampled_from(alike))
            wide = b.op("ConcatV2", x, y, b.const(1), N=2) if kind == "cat" else b.op("Add", x, y)
            pool.append((wide, (rows, 2 * cols if kind == "cat" else cols)))
        else:
            pool.append((b.op("Neg", x), (rows, cols)))
    ends = data.draw(st.lists(st.sampled_from(pool[2:]), min_size=1, max_size=3, unique=True))
    unread = [t for t, _ in pool[2:] if not any(t in (*op.input,) for op in b.model.graph[0].op)]
    b.output(*dict.fromkeys([*unread, *(t for t, _ in ends)]))
    checked(graph_of(b))
