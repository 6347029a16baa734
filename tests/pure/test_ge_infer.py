"""Inference on the captured graphs and its general rules: symbols, facts, unknowns, notes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from ge_build import GraphBuilder, captured, captured_symbols
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import graphs
from torchair_autofuse.dtypes import BOOL, F32, I32, I64
from torchair_autofuse.ge.graph import Graph, TensorInfo, TensorRef
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.infer.bounds import nonnegative, positive
from torchair_autofuse.ge.infer.move import sliced
from torchair_autofuse.ge.infer.shapes import window
from torchair_autofuse.ge.reader import parse, read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import symbol

NAMES = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int64": "i64", "int32": "i32",
    "int8": "i8", "uint8": "u8", "bool": "bool",
}  # fmt: skip
S, T = symbol("s"), symbol("t")


def _recorded_dtype_differs(graph: Graph, ref: TensorRef) -> bool:
    """Where the recording took the dtypes of torch and GE has its own: a Range of mixed dtypes and the statistics of
    LayerNormV4 are f32."""
    node = graph.by_name[ref.node]
    if node.type == "Range":
        return len({graph.info(r).dtype for r in node.inputs if r is not None}) > 1
    return node.type == "LayerNormV4" and ref.index > 0


def test_captured_graphs_agree_with_what_ran(capsys: pytest.CaptureFixture[str]) -> None:
    live, unknown, wrong = 0, 0, []
    for name in graphs.names():
        graph, sizes = captured(name)
        for key, (shape, dtype) in graphs.shapes()[name].items():
            node, _, index = key.rpartition(":")
            ref = TensorRef(node, int(index))
            info = graph.info(ref)
            if not graphs.manifests()[name]["fallback_ops"]:
                live += 1
                unknown += info.shape is None or info.dtype is None
            if info.shape is not None and [expr.evaluate(d, dict(sizes)) for d in info.shape] != shape:
                wrong.append((name, key, info.shape, shape))
            known = info.dtype is None or info.dtype.name == NAMES[dtype] or _recorded_dtype_differs(graph, ref)
            if not known and graph.by_name[node].type != "AtenFallback":
                wrong.append((name, key, info.dtype, dtype))
    with capsys.disabled():
        print(f"\ninference: {unknown} of {live} live tensors unknown ({100 * unknown / live:.2f} %)")
    assert wrong == []
    assert live > 17000
    assert unknown <= 0.02 * live


def test_notes_say_why_something_is_unknown() -> None:
    for name in graphs.names():
        graph, _ = captured(name)
        for node in graph.nodes:
            infos = [graph.info(ref) for ref in node.outputs]
            assert any(i.shape is None or i.dtype is None for i in infos) == (node.name in graph.notes), (name, node)


def test_static_graphs_have_no_symbols() -> None:
    for name in graphs.names("static"):
        graph, _ = captured(name)
        for info in graph.tensors.values():
            assert info.shape is None or all(type(d) is int for d in info.shape)


def test_a_graph_of_three_thousand_nodes() -> None:
    b = GraphBuilder()
    x = b.data((-1, -1, 64))
    half, zero, one = b.const([-1, 32]), b.const(0), b.const(1)
    dims = [b.op("Gather", b.op("Shape", x, dtype=9), i) for i in (zero, one)]
    for _ in range(330):
        shape = b.op("Pack", b.op("Mul", *dims), b.const(64), axis=0)
        flat = b.op("Reshape", b.op("Mul", x, b.const(1.0, F32)), shape)
        y = b.op("Gelu", b.op("Add", flat, flat))
        x = b.op("Reshape", y, b.op("Pack", *dims, b.const(64), axis=0))
    b.output(b.op("Reshape", x, half))
    graph = b.read()
    assert len(graph.nodes) > 3000
    found = infer(graph)
    d0, d1 = symbol("d0_0"), symbol("d0_1")
    assert found.info(found.outputs[0]) == TensorInfo(F32, (expr.mul(2, d0, d1), 32))


# -- inputs -----------------------------------------------------------------------------------------------------------
def test_data_dims() -> None:
    b = GraphBuilder()
    b.data((-1, 8))
    b.data((-2,))
    b.data((), I64, host=True)
    b.data((), I64)
    b.output(*(f"arg{i}:0" for i in range(4)))
    graph = b.read()
    refs = [TensorRef(f"arg{i}", 0) for i in range(4)]
    fresh = infer(graph)
    assert fresh.info(refs[0]) == TensorInfo(F32, (symbol("d0_0"), 8))
    assert fresh.info(refs[1]) == TensorInfo(F32, None)
    assert fresh.info(refs[2]) == TensorInfo(I64, (), (symbol("v2"),))
    assert fresh.info(refs[3]) == TensorInfo(I64, ())
    named = infer(graph, {0: (S, 8), 1: (S, T)}, {2: T, 3: 5})
    assert named.info(refs[0]).shape == (S, 8)
    assert named.info(refs[1]).shape == (S, T)
    assert [named.info(r).value for r in refs[2:]] == [(T,), (5,)]


@pytest.mark.parametrize(
    ("dims", "words"),
    [((S,), ("'arg0'", "rank 2", "1 dims")), ((S, 9), ("'arg0'", "dim 1 is 8", "9 was given"))],
)
def test_given_dims_must_fit_the_descriptor(dims: tuple[object, ...], words: tuple[str, ...]) -> None:
    b = GraphBuilder()
    b.output(b.data((-1, 8)))
    with pytest.raises(ValueError) as error:
        infer(b.read(), {0: dims})  # type: ignore[dict-item]
    for word in words:
        assert word in str(error.value)


# -- unknowns ---------------------------------------------------------------------------------------------------------
def test_unknown_ops_and_failing_rules_leave_the_rest_alone() -> None:
    b = GraphBuilder()
    x = b.data((2, 3))
    strange = b.op("NoSuchOp", x, name="strange")
    after = b.op("Add", strange, x, name="after")
    broken = b.op("Transpose", x, b.const([0, 7]), name="broken")
    fine = b.op("Relu", x, name="fine")
    b.output(after, broken, fine)
    graph = infer(b.read())
    assert graph.info(TensorRef("strange", 0)) == TensorInfo()
    assert graph.info(TensorRef("after", 0)) == TensorInfo()
    assert graph.info(TensorRef("broken", 0)) == TensorInfo(F32, None)
    assert graph.info(TensorRef("fine", 0)) == TensorInfo(F32, (2, 3))
    assert "no inference rule" in graph.notes["strange"]
    assert "axis 7 is out of range" in graph.notes["broken"]
    assert "fine" not in graph.notes


@pytest.mark.parametrize(
    ("left", "right", "minimum", "expected"),
    [
        ((S, 4), (S, 4), 0, (S, 4)),
        ((S, 4), (1, 4), 0, (S, 4)),
        ((S, 4), (4,), 0, (S, 4)),
        ((S,), (7,), 0, (7,)),  # s is 7 or 1
        ((S,), (T,), 0, None),  # one of them could be 1
        ((S,), (T,), 2, (S,)),  # both above one: equal in every valid run
        ((S,), (expr.mul(2, T),), 2, (S,)),
    ],
)
def test_broadcast_of_symbols(left: tuple, right: tuple, minimum: int, expected: tuple | None) -> None:  # type: ignore[type-arg]
    b = GraphBuilder()
    x, y = (b.data([d if isinstance(d, int) else -1 for d in dims]) for dims in (left, right))
    b.output(b.op("Add", x, y, name="sum"))
    graph = infer(b.read(), {0: left, 1: right}, minimum=minimum)
    assert graph.info(TensorRef("sum", 0)).shape == expected


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_first_rows_beside_all(count: int) -> None:
    """Of a symbolic number s: Min(1, s) rows broadcast, and Min(2, s) rows do too or are all there are."""
    b = GraphBuilder()
    x = b.data((-1, 8))
    rows = b.op("StridedSliceV2", x, b.const([0]), b.const([count]), b.const([0]), b.const([1]), name="rows")
    b.output(b.op("Mul", rows, x, name="product"))
    graph = infer(b.read(), {0: (S, 8)}, minimum=2)
    assert graph.info(TensorRef("product", 0)).shape == (S, 8)
    first = graph.info(TensorRef("rows", 0)).shape
    assert first is not None and expr.equal(first[0], S) == (count > 1)
    assert ("rows" in simplify(graph).by_name) == (count == 1)


def test_an_equality_learned_late_holds_for_what_came_before() -> None:
    """A table of 64 rows cut to the sequence length and added to the sequence: the length is at most 64."""
    b = GraphBuilder()
    x, table = b.data((-1, 8)), b.data((64, 8))
    length = b.op("Gather", b.op("Shape", x, dtype=9), b.const(0))
    end = b.op("Pack", length, axis=0)
    rows = b.op("StridedSliceV2", table, b.const([0]), end, b.const([0]), b.const([1]), name="rows")
    doubled = b.op("ConcatV2", rows, rows, b.const(0), name="doubled", N=2)
    b.output(b.op("Add", x, rows, name="sum"), doubled)
    alone = infer(b.read(), {0: (S, 8)})
    assert alone.info(TensorRef("sum", 0)).shape == (S, 8)
    assert alone.info(TensorRef("rows", 0)).shape == (S, 8)
    assert alone.info(TensorRef("doubled", 0)).shape == (expr.mul(2, S), 8)


def test_a_size_in_a_float_steers_a_range_but_is_no_constant() -> None:
    b = GraphBuilder()
    x = b.data((-1,))
    size = b.op("Cast", b.op("Gather", b.op("Shape", x, dtype=9), b.const(0)), name="float", dst_type=0)
    b.output(b.op("Range", b.const(0.0, F32), size, b.const(2.0, F32), name="range"))
    graph = infer(b.read(), {0: (S,)})
    assert graph.info(TensorRef("range", 0)) == TensorInfo(F32, (expr.floordiv(expr.add(S, 1), 2),))
    assert graph.info(TensorRef("float", 0)) == TensorInfo(F32, ())


def test_intermediate_descriptors_are_not_read() -> None:
    raw = graphs.model_def("rope__dynamic__g0")
    dims, _ = captured_symbols("rope__dynamic__g0")
    message = parse(raw)
    for op in message.graph[0].op:
        if op.type not in ("Data", "Const"):
            for desc in [*op.input_desc, *op.output_desc]:
                desc.dtype = 11
                desc.shape.dim[:] = [999]
                desc.attr["_meta"].s = b"nonsense"
    assert dict(infer(read(message), dims).tensors) == dict(infer(read(raw), dims).tensors)


# -- arithmetic on sizes ----------------------------------------------------------------------------------------------
@settings(max_examples=30, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3), st.integers(0, 9))
def test_slices_are_python_slices(begin: int, end: int, stride: int, size: int) -> None:
    expected = len(range(size)[begin:end:stride])
    assert sliced(size, begin, end, stride) == expected
    symbolic = sliced(S, begin, end, stride)
    assert expr.evaluate(symbolic, {"s": size}) == expected


def test_tidy_drops_min_and_max_that_do_nothing() -> None:
    whole = expr.add(S, sliced(S, 0, 1))  # s elements behind one of them, as in a difference with a prepended value
    assert sliced(whole, 1, expr.add(S, 1)) == S
    kept = sliced(S, 0, 1)
    assert expr.tidy(kept) == kept and expr.evaluate(kept, {"s": 0}) == 0


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (expr.floordiv(S, 2), (True, False)),
        (expr.add(S, expr.mul(-1, expr.floordiv(S, 2))), (True, False)),
        (expr.add(expr.mul(S, T), 1), (True, True)),
        (expr.add(S, -1), (False, False)),
        (0, (True, False)),
        (-3, (False, False)),
    ],
)
def test_signs(size: object, expected: tuple[bool, bool]) -> None:
    assert (nonnegative(size), positive(size)) == expected  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.integers(1, 2), st.booleans())
def test_window_is_that_of_torch(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool) -> None:
    if size + 2 * pad < dilation * (kernel - 1) + 1 or 2 * pad > kernel:
        return
    expected = F.max_pool1d(torch.zeros(1, 1, size), kernel, stride, pad, dilation, ceil).shape[-1]
    assert window(size, kernel, stride, 2 * pad, dilation, ceil) == expected
    if not ceil:
        assert expr.evaluate(window(S, kernel, stride, 2 * pad, dilation), {"s": size}) == expected


def test_comparisons_of_sizes_are_decided_only_where_they_must_be() -> None:
    b = GraphBuilder()
    x = b.data((-1, -1))
    shape = b.op("Shape", x, dtype=3)
    d0, d1 = (b.op("Gather", shape, b.const(i)) for i in (0, 1))
    more = b.op("Add", d0, b.const(1, I32))
    cases = {
        "above": b.op("Greater", more, d0, name="above"),
        "same": b.op("Equal", d0, d0, name="same"),
        "differ": b.op("NotEqual", more, d0, name="differ"),
        "open": b.op("Greater", d0, d1, name="open"),
        "zero": b.op("GreaterEqual", d0, b.const(0, I32), name="zero"),
    }
    picked = b.op("SelectV2", cases["above"], d0, d1, name="picked")
    b.output(*cases.values(), picked)
    graph = infer(b.read(), {0: (S, T)})
    values = {k: graph.info(TensorRef(k, 0)).value for k in cases}
    assert values == {"above": (True,), "same": (True,), "differ": (True,), "open": None, "zero": (True,)}
    assert all(graph.info(TensorRef(k, 0)).dtype == BOOL for k in cases)
    assert graph.info(TensorRef("picked", 0)).value == (S,)
