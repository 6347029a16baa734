"""The reader: order, optional inputs, control edges, attributes, labels, and errors that name the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ge_build import GraphBuilder

from benchmarks import graphs
from torchair_autofuse import dtypes
from torchair_autofuse.ge.graph import TensorRef, constant
from torchair_autofuse.ge.reader import DATA_DTYPE, DATA_HOST, DATA_SHAPE, read


def test_topological_order_is_stable_by_position() -> None:
    b = GraphBuilder()
    late = b.op("Relu", "arg0:0", name="late")
    b.output(late)
    b.op("Neg", "arg0:0", name="a")
    b.op("Abs", "arg0:0", name="b")
    b.data((2,))
    assert [n.name for n in b.read().nodes] == ["arg0", "late", "NetOutput", "a", "b"]


def test_control_edges_order_nodes_and_are_kept_apart_from_data() -> None:
    b = GraphBuilder()
    x = b.data((2,))
    y = b.op("Relu", "second:-1", x, name="first")
    b.op("Neg", x, name="second")
    b.output(y, "second:-1")
    graph = b.read()
    assert [n.name for n in graph.nodes] == ["arg0", "second", "first", "NetOutput"]
    assert graph.by_name["first"].controls == ("second",)
    assert graph.by_name["first"].inputs == (TensorRef("arg0", 0),)
    assert graph.outputs == (TensorRef("first", 0),)
    assert graph.controlled == {"first", "second", "NetOutput"}


def test_absent_optional_input_is_none_and_keeps_its_name() -> None:
    b = GraphBuilder()
    x = b.data((2, 2))
    b.output(b.op("MatMulV2", x, x, "", "", names=("x1", "x2", "bias", "offset_w"), name="mm"))
    node = b.read().by_name["mm"]
    assert node.inputs == (TensorRef("arg0", 0), TensorRef("arg0", 0), None, None)
    assert node.input_names == ("x1", "x2", "bias", "offset_w")
    assert node.input("x2") == TensorRef("arg0", 0)
    assert node.input("bias") is None


def test_attributes_are_python_values() -> None:
    b = GraphBuilder()
    x = b.data((2,), dtypes.BF16, host=True)
    given = {"s": "ü", "i": -3, "f": 0.5, "b": True, "dt": dtypes.BF16, "li": [1, 2], "ls": ["a"], "lb": [True, False]}
    b.op("Cast", x, name="c", empty=[], dst_type=27, _readable_value="drop me", **given)
    node = b.read().by_name["c"]
    assert {k: node.attrs[k] for k in given} == given
    assert type(node.attrs["dst_type"]) is int and node.attrs["dst_type"] == 27
    assert node.attrs["empty"] == [] and "_readable_value" not in node.attrs
    data = b.read().by_name["arg0"]
    assert (data.attrs[DATA_DTYPE], data.attrs[DATA_SHAPE], data.attrs[DATA_HOST]) == (dtypes.BF16, (2,), True)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_constants_of_every_dtype(dtype: dtypes.DType) -> None:
    b = GraphBuilder()
    value = np.asarray([[0, 1, 1], [1, 0, 1]], dtype=dtype.numpy)
    b.output(b.const(value, dtype), b.const(value[:0], dtype), b.const(value[0, 1], dtype))
    found = [constant(n) for n in b.read().inputs_of_type("Const")]
    for array, expected in zip(found, (value, value[:0], value[0, 1])):
        assert array is not None and array.dtype == dtype.numpy and array.shape == expected.shape
        assert array.tobytes() == expected.tobytes()


def test_scope_labels_and_origin() -> None:
    b = GraphBuilder()
    b.op("Relu", b.data((2,)), name="r", _user_stream_label="s1", _op_exec_never_timeout=True, _inference_rule="{}")
    b.graph.op[-1].output_desc[0].attr["_fx_tensor_name"].s = b"relu-aten.relu.default.OUTPUT.0"
    node = b.read().by_name["r"]
    assert node.scope == (("_op_exec_never_timeout", "True"), ("_user_stream_label", "s1"))
    assert node.origin == "relu-aten.relu.default"


def _duplicate(b: GraphBuilder) -> None:
    b.op("Relu", b.data((2,)), name="twice")
    b.op("Neg", "arg0:0", name="twice")


def _missing(b: GraphBuilder) -> None:
    b.op("Relu", "nobody:0", name="reader")


def _missing_control(b: GraphBuilder) -> None:
    b.op("Relu", b.data((2,)), "nobody:-1", name="reader")


def _no_such_output(b: GraphBuilder) -> None:
    b.data((2,))
    b.op("Relu", "arg0:3", name="reader")


def _cycle(b: GraphBuilder) -> None:
    b.op("Relu", "two:0", name="one")
    b.op("Neg", "one:0", name="two")


def _malformed(b: GraphBuilder) -> None:
    b.data((2,))
    b.op("Relu", "arg0", name="reader")


def _descriptors(b: GraphBuilder) -> None:
    b.op("Relu", b.data((2,)), name="reader")
    b.graph.op[-1].input_desc.add()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (_duplicate, ("'twice'", "Relu", "Neg")),
        (_missing, ("'reader'", "'nobody'")),
        (_missing_control, ("'reader'", "control edge", "'nobody'")),
        (_no_such_output, ("'reader'", "arg0:3", "1 outputs")),
        (_cycle, ("cycle", "one", "two")),
        (_malformed, ("'reader'", "'arg0'", "<node>:<output index>")),
        (_descriptors, ("'reader'", "1 data inputs", "2 input descriptors")),
    ],
)
def test_errors_name_the_node(build: Any, words: tuple[str, ...]) -> None:
    b = GraphBuilder()
    build(b)
    with pytest.raises(ValueError) as error:
        b.read()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(("data", "word"), [(b"\xff\xff\xff", "not a serialized"), (b"", "exactly one graph")])
def test_bytes_that_are_no_model(data: bytes, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read(data)


def test_captured_graphs_are_read_whole() -> None:
    for name in graphs.names():
        manifest = graphs.manifests()[name]
        graph = read(graphs.model_def(name))
        assert len(graph.nodes) == manifest["n_ops"]
        assert len(graph.outputs) == len(manifest["output_dtypes"])
        seen: set[str] = set()
        for node in graph.nodes:
            assert {r.node for r in node.inputs if r is not None} | set(node.controls) <= seen
            seen.add(node.name)
