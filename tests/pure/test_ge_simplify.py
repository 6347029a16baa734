"""What the clean-up removes, what it must keep, and which nodes count as kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ge_build import GraphBuilder, captured

from benchmarks import graphs
from torchair_autofuse.dtypes import BF16, F16, F32, I32
from torchair_autofuse.ge import catalogue
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.loop.expr import symbol


def _clean(build: Callable[[GraphBuilder, str], str], ref_inputs: tuple[int, ...] = ()) -> Graph:
    """``build`` gets a builder and an input (2, 3) f32 and returns a tensor that a Relu before the output reads."""
    b = GraphBuilder()
    x = b.data((2, 3))
    b.output(b.op("Relu", build(b, x), name="reader"))
    return simplify(infer(b.read()), ref_inputs)


def _split(b: GraphBuilder, x: str, axis: int, *sizes: int) -> list[str]:
    first = b.op("SplitV", x, b.const(sizes), b.const(axis, I32), outputs=len(sizes))
    return [f"{first.split(':')[0]}:{k}" for k in range(len(sizes))]


def _turned(b: GraphBuilder, x: str) -> str:
    return b.op("Transpose", x, b.const([1, 0]))


GONE: dict[str, Callable[[GraphBuilder, str], str]] = {
    "identity": lambda b, x: b.op("Identity", x),
    "cast to the same dtype": lambda b, x: b.op("Cast", x, dst_type=0),
    "times one": lambda b, x: b.op("Mul", x, b.const(1.0, F32)),
    "one times": lambda b, x: b.op("Mul", b.const([[1.0]], F32), x),
    "scaled by one": lambda b, x: b.op("Muls", x, value=1.0),
    "over one": lambda b, x: b.op("RealDiv", x, b.const(1.0, F32)),
    "reshape to the same shape": lambda b, x: b.op("Reshape", x, b.const([-1, 3])),
    "broadcast to the same shape": lambda b, x: b.op("BroadcastTo", x, b.const([2, -1])),
    "identity permutation": lambda b, x: b.op("Transpose", x, b.const([0, 1])),
    "whole slice": lambda b, x: b.op("StridedSliceV2", x, b.const([0]), b.const([9]), b.const([0]), b.const([1])),
    "a transposition taken back": lambda b, x: _turned(b, _turned(b, x)),
    "a transposition taken back, through a copy": lambda b, x: _turned(b, b.op("Identity", _turned(b, x))),
    "four transpositions": lambda b, x: _turned(b, _turned(b, _turned(b, _turned(b, x)))),
    "concat of one part": lambda b, x: b.op("ConcatV2", x, b.const(0, I32)),
    "concat with empty parts": lambda b, x: b.op("ConcatV2", b.const(np.zeros((2, 0)), F32), x, b.const(1, I32)),
    "concat of what was split": lambda b, x: b.op("ConcatV2", *_split(b, x, -1, 1, 2), b.const(1, I32)),
    "a chain of them": lambda b, x: b.op("Cast", b.op("Mul", b.op("Identity", x), b.const(1.0, F32)), dst_type=0),
}
STAYS: dict[str, Callable[[GraphBuilder, str], str]] = {
    "plus zero turns -0 into 0": lambda b, x: b.op("Add", x, b.const(0.0, F32)),
    "minus zero": lambda b, x: b.op("Sub", x, b.const(0.0, F32)),
    "times minus one": lambda b, x: b.op("Mul", x, b.const(-1.0, F32)),
    "one that broadcasts": lambda b, x: b.op("Mul", x, b.const([[[1.0]]], F32)),
    "one of another dtype": lambda b, x: b.op("Mul", b.op("Cast", x, dst_type=1), b.const(1.0, F32)),
    "one over": lambda b, x: b.op("RealDiv", b.const(1.0, F32), x),
    "narrowing cast": lambda b, x: b.op("Cast", x, dst_type=1),
    "reshape": lambda b, x: b.op("Reshape", x, b.const([3, 2])),
    "floor division by one": lambda b, x: b.op("FloorDiv", x, b.const(1.0, F32)),
    "three transpositions": lambda b, x: _turned(b, _turned(b, _turned(b, x))),
    "concat of the same part twice": lambda b, x: b.op("ConcatV2", x, x, b.const(0, I32)),
    "concat of what was split, in another order": lambda b, x: b.op(
        "ConcatV2", *_split(b, x, 1, 1, 2)[::-1], b.const(1, I32)
    ),
    "concat of what was split, along another axis": lambda b, x: b.op(
        "ConcatV2", *_split(b, x, 0, 1, 1), b.const(1, I32)
    ),
    "concat of a part of what was split": lambda b, x: b.op("ConcatV2", *_split(b, x, 1, 1, 1, 1)[:2], b.const(1, I32)),
    "maximum with itself": lambda b, x: b.op("Maximum", x, x),
}


@pytest.mark.parametrize("name", GONE)
def test_ops_that_change_nothing_go(name: str) -> None:
    graph = _clean(GONE[name])
    assert [n.name for n in graph.nodes] == ["arg0", "reader", "NetOutput"]
    assert graph.by_name["reader"].inputs == (TensorRef("arg0", 0),)


@pytest.mark.parametrize("name", STAYS)
def test_ops_that_change_something_stay(name: str) -> None:
    graph = _clean(STAYS[name])
    assert graph.by_name["reader"].inputs != (TensorRef("arg0", 0),)


def test_explicit_round_trip_through_a_narrow_type_stays() -> None:
    graph = _clean(lambda b, x: b.op("Cast", b.op("Cast", x, dst_type=1), dst_type=0))
    assert [n.type for n in graph.nodes] == ["Data", "Cast", "Cast", "Relu", "NetOutput"]


def test_unknown_shapes_are_left_alone() -> None:
    b = GraphBuilder()
    strange = b.op("NoSuchOp", b.data((2,)))
    b.output(b.op("Relu", b.op("Reshape", strange, b.const([2]), name="view")))
    assert "view" in simplify(infer(b.read())).by_name


def test_symbolic_shapes_are_compared() -> None:
    b = GraphBuilder()
    x = b.data((-1, 4))
    rows = b.op("Gather", b.op("Shape", x, dtype=9), b.const(0))
    same = b.op("Reshape", x, b.op("Pack", rows, b.const(4), axis=0), name="same")
    b.output(b.op("Relu", same, name="reader"))
    graph = simplify(infer(b.read(), {0: (symbol("s"), 4)}))
    assert [n.name for n in graph.nodes] == ["arg0", "reader", "NetOutput"]


def test_equal_constants_are_shared_bit_for_bit() -> None:
    b = GraphBuilder()
    x = b.data((2,))
    zero, minus, again, other = (b.const(v, d) for v, d in ((0.0, F32), (-0.0, F32), (0.0, F32), (0, I32)))
    b.output(*(b.op("Add", x, c, name=f"add{i}") for i, c in enumerate((zero, minus, again))), b.op("Neg", other))
    graph = simplify(infer(b.read()))
    constants = [graph.by_name[f"add{i}"].inputs[1] for i in range(3)]
    assert constants[0] == constants[2] != constants[1]
    assert len(list(graph.inputs_of_type("Const"))) == 3


def test_repeated_views_are_shared_and_arithmetic_is_not() -> None:
    b = GraphBuilder()
    x = b.data((2, 3))
    views = [b.op("Reshape", x, b.const([3, 2])) for _ in range(2)]
    turned = [b.op("Transpose", v, b.const([1, 0])) for v in views]
    sums = [b.op("Exp", t) for t in turned]
    b.output(*(b.op("Relu", s) for s in sums))
    types = [n.type for n in simplify(infer(b.read())).nodes]
    assert [types.count(t) for t in ("Const", "Reshape", "Transpose", "Exp")] == [2, 1, 1, 2]


def test_dead_nodes_go_and_inputs_stay() -> None:
    b = GraphBuilder()
    x, unused = b.data((2,)), b.data((3,))
    b.op("Exp", b.op("Neg", x), name="dead")
    b.op("PrintV2", x, name="printed")
    b.output(b.op("Relu", x), "kept:-1")
    b.op("Abs", unused, name="kept")
    graph = simplify(infer(b.read()))
    assert {n.name for n in graph.nodes} == {"arg0", "arg1", "printed", "kept", "NetOutput", graph.outputs[0].node}
    assert all(ref.node in graph.by_name for ref in graph.tensors)


def test_nodes_with_control_edges_stay() -> None:
    b = GraphBuilder()
    x = b.data((2,))
    feeds = b.op("Identity", x, name="feeds")
    has = b.op("Identity", x, "feeds:-1", name="has")
    b.output(b.op("Add", feeds, has))
    names = {n.name for n in simplify(infer(b.read())).nodes}
    assert {"feeds", "has"} <= names


def test_outputs_keep_memory_of_their_own() -> None:
    b = GraphBuilder()
    x = b.data((2,))
    y = b.op("Exp", x, name="exp")
    outputs = {
        "of_data": b.op("Identity", x, name="of_data"),
        "of_const": b.op("Identity", b.const([1.0, 2.0], F32), name="of_const"),
        "first": b.op("Identity", y, name="first"),
        "second": b.op("Identity", y, name="second"),
    }
    b.output(*outputs.values())
    graph = simplify(infer(b.read()))
    assert graph.outputs == tuple(TensorRef(n, 0) for n in ("of_data", "of_const", "exp", "second"))
    assert len(set(graph.outputs)) == 4
    assert graph.by_name["NetOutput"].inputs == graph.outputs


def test_a_copy_of_memory_that_is_written_stays() -> None:
    b = GraphBuilder()
    x, index, new = b.data((4,)), b.data((1,), I32), b.data((1,))
    copy = b.op("Identity", b.op("Reshape", x, b.const([2, 2])), name="copy")
    written = b.op("ScatterUpdate", x, index, new, name="write")
    b.output(b.op("Relu", copy), written)
    assert "copy" in simplify(infer(b.read())).by_name
    assert str(_clean(GONE["identity"]).by_name["reader"].inputs[0]) == "arg0:0"
    assert _clean(GONE["identity"], ref_inputs=(0,)).by_name["reader"].inputs[0] != TensorRef("arg0", 0)


def test_a_second_run_changes_nothing() -> None:
    for name in graphs.names(gaps=False):
        graph, _ = captured(name)
        once = simplify(graph)
        twice = simplify(once)
        assert [(n.name, n.inputs) for n in twice.nodes] == [(n.name, n.inputs) for n in once.nodes]
        assert len(once.nodes) <= len(graph.nodes)
        assert len(once.outputs) == len(graph.outputs)
        assert {n.name for n in once.inputs_of_type("Data")} == {n.name for n in graph.inputs_of_type("Data")}
        for old, new in zip(graph.outputs, once.outputs):
            assert graph.info(old).shape == once.info(new).shape
            assert graph.info(old).dtype == once.info(new).dtype


# -- kernels and bytes ------------------------------------------------------------------------------------------------
def test_what_counts_as_a_kernel() -> None:
    b = GraphBuilder()
    x, weight, size = b.data((-1, 4), F16), b.data((8, 4), F16), b.data((), name="unused")
    rows = b.op("Gather", b.op("Shape", x, dtype=9), b.const(0))
    doubled = b.op("Mul", rows, b.const(2), name="host arithmetic")
    flat = b.op("Reshape", x, b.op("Pack", doubled, b.const(-1), axis=0), name="view")
    table = b.op("Exp", b.op("Fill", b.const([4]), b.const(1.0, F32)), name="constant")
    filled = b.op("Fill", b.op("Pack", rows, b.const(4), axis=0), b.const(1.0, F16), name="filled")
    turned = b.op("Transpose", weight, b.const([1, 0]), name="weight transpose")
    activation = b.op("Transpose", b.op("Relu", x, name="relu"), b.const([1, 0]), name="activation transpose")
    product = b.op("MatMulV2", b.op("Cast", x, name="no-op cast", dst_type=1), turned, "", "", name="matmul")
    b.output(flat, table, filled, product, activation, size)
    graph = infer(b.read(), {0: (symbol("s"), 4)})
    assert {n.name for n in catalogue.kernels(graph)} == {"filled", "relu", "activation transpose", "matmul"}


def test_a_weight_transpose_that_feeds_more_than_matmuls_is_a_kernel() -> None:
    b = GraphBuilder()
    weight, x = b.data((8, 4)), b.data((2, 4))
    turned = b.op("Transpose", weight, b.const([1, 0]), name="turned")
    b.output(b.op("MatMulV2", x, turned, "", ""), b.op("Relu", turned))
    assert catalogue.is_kernel(infer(b.read()).by_name["turned"], infer(b.read()))


def test_bytes_of_global_memory() -> None:
    b = GraphBuilder()
    x, y = b.data((-1, 4), BF16), b.data((4,), BF16)
    b.op("Add", x, y, name="add")
    b.op("Mul", x, x, name="square")
    b.op("ReduceSum", x, b.const([0]), names=("x", "axes"), name="sum")
    b.op("Gather", b.data((100, 4)), b.data((3,), I32), name="gather")
    b.op("Reshape", x, b.const([-1]), name="view")
    b.op("NoSuchOp", x, name="strange")
    b.output(*(f"{n}:0" for n in ("add", "square", "sum", "gather", "view", "strange")))
    graph = infer(b.read(), {0: (symbol("s"), 4)})
    found = {n.name: catalogue.gm_bytes(n, graph, {"s": 10}) for n in graph.nodes}
    names = ("add", "square", "sum", "gather", "view", "strange", "arg0")
    assert [found[n] for n in names] == [80 + 80 + 8, 80 + 80, 80 + 8, 48 + 48 + 12, 0, None, 0]
    assert catalogue.gm_bytes(graph.by_name["add"], graph, {}) is None


def test_kernel_counts_of_captured_graphs() -> None:
    """Plain numbers, so that a change of the counting rule shows."""
    expected = {"rope__static__g0": 19, "llama__static__g0": 114, "bert__dynamic__g0": 81, "adamw_step__static__g0": 57}
    counts = {}
    for name in expected:
        graph, _ = captured(name)
        counts[name] = len(catalogue.kernels(simplify(graph)))
    assert counts == expected


def test_every_class_is_disjoint() -> None:
    assert sum(len(types.split()) for types in catalogue._CLASSES.values()) == len(catalogue.CLASS_OF)
    assert catalogue.op_class("Relu") == "elementwise" and catalogue.op_class("FlashAttentionScore") == "other"
    assert not catalogue.is_pure("Assign") and not catalogue.is_pure("FlashAttentionScore")
    assert not catalogue.is_pure("StatelessBernoulli") and catalogue.is_pure("SoftmaxV2")
