"""The writer: what a rewritten ModelDef holds, what stays as it was, and what is refused; the inference rule."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import floor
from typing import Any

import pytest
from ge_build import GraphBuilder, captured

from benchmarks import graphs
from torchair_autofuse.dtypes import BF16, F32, I64
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.infer.shapes import minimum
from torchair_autofuse.ge.inference_rule import inference_rule
from torchair_autofuse.ge.reader import parse, read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.ge.writer import FusedNode, write, write_bytes
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import symbol

S, T = symbol("s77"), symbol("d0_1")


def _example() -> tuple[Any, Graph, FusedNode]:
    """out = exp(x * y), kept = relu(x * y); the Mul and the Exp become one node."""
    b = GraphBuilder()
    x, y = b.data((-1, 4)), b.data((4,))
    product = b.op("Mul", x, y, name="mul")
    b.op("Identity", x, name="dead")
    spare = b.op("Relu", product, name="relu")
    b.output(b.op("Exp", product, name="exp"), spare)
    for op in b.graph.op:
        op.attr["_input_name_key"].list.s[:] = [d.name.encode() for d in op.input_desc]
    graph = infer(b.read(), {0: (S, 4)})
    fused = FusedNode(
        op_type="AutofusePointwiseK0123456789ab",
        name="fused",
        inputs=(TensorRef("arg0", 0), TensorRef("arg1", 0)),
        outputs=(TensorRef("exp", 0), TensorRef("mul", 0)),
        output_dtypes=(F32, BF16),
        output_shapes=((S, 4), (S, 4)),
        removed=frozenset(("mul", "exp")),
        input_param_names=("a", "b"),
        output_param_names=("c", "d"),
        attrs={"_inference_rule": "{}", "workspace": 7, "scale": 0.5, "flags": [1, 2]},
        scope=(("_user_stream_label", "s1"), ("_op_exec_never_timeout", "True")),
    )
    return b.model, graph, fused


def test_a_cluster_becomes_one_node() -> None:
    model, graph, fused = _example()
    before = model.SerializeToString(deterministic=True)
    written = write(model, simplify(graph), [fused])
    assert model.SerializeToString(deterministic=True) == before, "the argument is not changed"
    ops = {op.name: op for op in written.graph[0].op}
    assert list(ops) == ["arg0", "arg1", "relu", "fused", "NetOutput"]
    op = ops["fused"]
    assert (op.type, list(op.input)) == ("AutofusePointwiseK0123456789ab", ["arg0:0", "arg1:0"])
    assert [(d.name, d.dtype, list(d.shape.dim), d.layout) for d in op.input_desc] == [
        ("a", 1, [-1, 4], "ND"),
        ("b", 1, [4], "ND"),
    ]
    assert [(d.name, d.dtype, list(d.shape.dim), d.layout) for d in op.output_desc] == [
        ("c", 1, [-1, 4], "ND"),
        ("d", 27, [-1, 4], "ND"),
    ]
    attr = op.output_desc[1].attr
    assert list(attr["origin_shape"].list.i) == [-1, 4] and attr["origin_shape_initialized"].b
    assert (attr["origin_format"].s, attr["origin_data_type"].s) == (b"ND", b"DT_BF16")
    assert (attr["format_for_int"].i, attr["origin_format_for_int"].i) == (2, 2)
    assert list(ops["relu"].input) == ["fused:1"]
    assert list(ops["NetOutput"].input) == ["fused:0", "relu:0"]
    node = read(written).by_name["fused"]
    assert dict(node.attrs) | fused.attrs == dict(node.attrs)
    assert node.scope == (("_op_exec_never_timeout", "True"), ("_user_stream_label", "s1"))
    assert list(op.attr["_input_name_key"].list.s) == [b"a", b"b"]
    assert list(op.attr["_output_name_value"].list.i) == [0, 1]
    assert list(op.attr["_ir_outputs_key"].list.s) == [b"c", b"d"]


def test_what_is_not_rewritten_is_copied() -> None:
    model, graph, fused = _example()
    # fields of a newer GE: they must survive
    newer = bytes([0xF8, 0x7F, 0x01])  # field 2047, varint 1
    message = parse(model.SerializeToString())
    message.graph[0].op[0].MergeFromString(newer)
    message.graph[0].MergeFromString(newer)
    message.graph[0].attr["_output_dtypes"].list.i[:] = [0, 0]
    written = write(message, simplify(graph), [fused])
    assert written.graph[0].attr == message.graph[0].attr
    assert newer in written.graph[0].op[0].SerializeToString()
    assert newer in written.graph[0].SerializeToString()
    kept = {op.name: op for op in message.graph[0].op}
    for op in written.graph[0].op:
        if op.name in ("arg0", "arg1"):
            assert op == kept[op.name]
        elif op.name in kept:
            assert op.attr == kept[op.name].attr and list(op.input_desc) == list(kept[op.name].input_desc)


def test_fused_nodes_may_feed_each_other() -> None:
    model, graph, fused = _example()
    second = FusedNode(
        op_type="AutofusePointwiseK1",
        name="second",
        inputs=(TensorRef("mul", 0),),
        outputs=(TensorRef("relu", 0),),
        output_dtypes=(F32,),
        output_shapes=((S, 4),),
        removed=frozenset(("relu",)),
        input_param_names=("a",),
        output_param_names=("b",),
    )
    for order in ([fused, second], [second, fused]):
        found = read(write(model, simplify(graph), order))
        assert found.by_name["second"].inputs == (TensorRef("fused", 1),)
        assert found.outputs == (TensorRef("fused", 0), TensorRef("second", 0))


def test_control_edges_move_to_the_fused_node() -> None:
    b = GraphBuilder()
    x = b.data((4,))
    b.op("PrintV2", x, name="before")
    y = b.op("Exp", b.op("Neg", x, "before:-1", name="neg"), name="exp")
    b.op("PrintV2", x, "neg:-1", name="after")
    b.output(y, "after:-1", "neg:-1", "exp:-1")
    fused = FusedNode(
        "T", "fused", (TensorRef("arg0", 0),), (TensorRef("exp", 0),), (F32,), ((4,),),
        frozenset(("neg", "exp")), ("a",), ("b",),
    )  # fmt: skip
    found = read(write(b.model, infer(b.read()), [fused]))
    assert found.by_name["fused"].controls == ("before",)
    assert found.by_name["after"].controls == ("fused",)
    assert found.by_name["NetOutput"].controls == ("after", "fused")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(name="relu"), ("'relu'", "in use")),
        (dict(name="a:b"), ("contains ':'",)),
        (dict(removed=frozenset(("mul", "exp", "nobody"))), ("'nobody'", "not in the graph")),
        (dict(removed=frozenset(("mul", "exp", "arg0"))), ("Data 'arg0'",)),
        (dict(removed=frozenset()), ("removes no node",)),
        (dict(inputs=(TensorRef("mul", 0), TensorRef("arg1", 0))), ("mul:0", "it removes")),
        (dict(outputs=(TensorRef("exp", 0), TensorRef("relu", 0))), ("relu:0", "not produced")),
        (
            dict(
                outputs=(TensorRef("exp", 0),),
                output_dtypes=(F32,),
                output_shapes=((S, 4),),
                output_param_names=("c",),
            ),
            ("mul:0", "read by 'relu'"),
        ),
        (dict(output_dtypes=(F32,)), ("differ in number",)),
        (dict(input_param_names=("a",)), ("2 inputs but 1 input names",)),
        (dict(inputs=(TensorRef("arg0", 0), TensorRef("relu", 0))), ("cycle", "fused", "relu")),
    ],
)
def test_inconsistent_replacements_are_refused(change: dict[str, Any], words: tuple[str, ...]) -> None:
    model, graph, fused = _example()
    with pytest.raises(ValueError) as error:
        write(model, simplify(graph), [replace(fused, **change)])
    for word in words:
        assert word in str(error.value)


def test_overlapping_replacements_and_lost_inputs_are_refused() -> None:
    model, graph, fused = _example()
    with pytest.raises(ValueError, match="two fused nodes"):
        write(model, graph, [fused, replace(fused, name="again")])
    with pytest.raises(ValueError, match="inputs and outputs must stay"):
        write(model, replace(graph, nodes=tuple(n for n in graph.nodes if n.name not in ("arg1", "mul"))))


def test_nothing_to_do_gives_the_same_bytes() -> None:
    for name in graphs.names("static")[:6]:
        raw = graphs.model_def(name)
        assert write_bytes(raw, read(raw)) is raw


@pytest.mark.parametrize("name", graphs.names())
def test_simplified_captured_graphs_are_written_and_read_back(name: str) -> None:
    raw = graphs.model_def(name)
    graph, _ = captured(name)
    clean = simplify(graph)
    first = write_bytes(raw, clean)
    assert first == write_bytes(raw, simplify(graph))
    back = read(first)
    assert [(n.name, n.type, n.inputs, n.controls) for n in back.nodes] == [
        (n.name, n.type, n.inputs, n.controls) for n in clean.nodes
    ]
    assert back.outputs == clean.outputs
    old, new = parse(raw).graph[0], parse(first).graph[0]
    assert new.attr == old.attr
    assert [op for op in new.op if op.type == "Data"] == [op for op in old.op if op.type == "Data"]
    ends = [next(op for op in g.op if op.type == "NetOutput") for g in (old, new)]
    assert len(ends[0].input) == len(ends[1].input) and list(ends[0].input_desc) == list(ends[1].input_desc)


# -- inference rules --------------------------------------------------------------------------------------------------
def _evaluate(rule: str, shapes: list[tuple[int, ...]]) -> list[list[int]]:
    """What GE computes from a rule, for actual input shapes."""
    parsed = json.loads(rule)["shape"]
    sizes: dict[str, int] = {}
    for dims, shape in zip(parsed["inputs"], shapes):
        for text, size in zip(dims or (), shape):
            if text.startswith("s"):
                assert text not in sizes, "one symbol per dim"
                sizes[text] = size
            else:
                assert int(text) == size
    words = {"Floor": floor, "Div": lambda a, b: a / b, "Mod": lambda a, b: a % b, "Pow": lambda a, b: a**b}
    return [[int(eval(e, {"__builtins__": {}}, {**sizes, **words})) for e in dims] for dims in parsed["outputs"]]


RULE_CASES: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
    ([(S, 4), (4,)], [(S, 4)]),
    ([(4,), (S, T)], [(T, S), (expr.mul(S, T),)]),
    ([(expr.mul(4, S),), (T,)], [(S, T)]),
    ([(S,), (S, T)], [(expr.add(S, T, -1), expr.mul(2, S))]),
    ([(S, T)], [(expr.floordiv(S, 2), expr.mod(T, 8), expr.floordiv(expr.add(S, 3), 4))]),
    ([(S,)], [(expr.mul(S, S), expr.add(expr.mul(3, S), 5), 7)]),
    ([(expr.add(S, T), 3), (S,), (T,)], [(S, T)]),
]


@pytest.mark.parametrize("case", range(len(RULE_CASES)))
def test_rules_give_the_shapes(case: int) -> None:
    inputs, outputs = RULE_CASES[case]
    rule = inference_rule(inputs, outputs, [F32] * len(outputs))
    rng = random.Random(case)
    for _ in range(20):
        sizes = {S.name: rng.randint(1, 40), T.name: rng.randint(1, 40)}
        shapes = [tuple(expr.evaluate(d, sizes) for d in dims) for dims in inputs]
        assert _evaluate(rule, shapes) == [[expr.evaluate(d, sizes) for d in dims] for dims in outputs]


def test_a_rule_lists_only_the_inputs_it_needs() -> None:
    rule = json.loads(inference_rule([(4,), (S, 4), None, (S, 8)], [(S, 4)], [BF16, I64]))
    assert rule == {"shape": {"inputs": [None, ["s0", "4"], None, None], "outputs": [["s0", "4"]]}, "dtype": [27, 9]}
    assert json.loads(inference_rule([(4,)], [(4,)], [F32]))["shape"] == {"inputs": [None], "outputs": [["4"]]}


def test_rules_that_cannot_be_written_say_so() -> None:
    with pytest.raises(ValueError, match="d0_1"):
        inference_rule([(S,)], [(S, T)], [F32])
    with pytest.raises(ValueError, match="Min"):
        inference_rule([(S,)], [(minimum(S, 64),)], [F32])
