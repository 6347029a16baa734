"""Lookups in the lowering: GatherV2, Gather and IndexByTensor as loads with indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ge_build import GraphBuilder
from plan_build import graph_of, groups, kernel_of, lower, numbers, plan_of

from torchair_autofuse.dtypes import F16, F32, I8, I32, I64, DType
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Load
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.messages import Reason

S = {"d1": ("s0", "s1")}


def lookups(lowered: Lowered) -> list[Load]:
    return [v for n in lowered.kernel.nests for v in n.values if isinstance(v, Load) and v.indices]


def run(lowered: Lowered, **arrays: Any) -> list[np.ndarray[Any, Any]]:
    verify(lowered.kernel)
    found = interpret(lowered.kernel, [arrays[r.node] for r in lowered.inputs])
    return [found[p.name] for p in lowered.kernel.outputs]


def embedding(
    shape: tuple[int, ...] = (30, 8), ids: tuple[int, ...] = (3, 5), dtype: DType = I64, at: int = 0, **attrs: Any
) -> Graph:
    """exp(table taken at ids along ``at``) + bias of the rows."""
    b = GraphBuilder()
    table, index = b.data(shape, F32, name="table"), b.data(ids, dtype, name="ids")
    rows = b.op("GatherV2", table, index, b.const(at), name="rows", **attrs)
    b.output(b.op("Add", b.op("Exp", rows, name="exp"), b.data(shape[-1:], F32, name="bias"), name="add"))
    return graph_of(b)


@pytest.mark.parametrize("ids", [(), (1,), (3, 5)])
@pytest.mark.parametrize("dtype", [I32, I64])
def test_embedding(ids: tuple[int, ...], dtype: DType) -> None:
    made = kernel_of(embedding(ids=ids, dtype=dtype), "rows", "exp", "add")
    (load,) = lookups(made)
    assert (load.indices[0].pitch, load.indices[0].size, load.indices[0].wraps) == (8, 30, False)
    table, index = numbers((30, 8)), np.random.default_rng(1).integers(0, 30, ids).astype(dtype.numpy)
    (got,) = run(made, table=table, ids=index, bias=numbers((8,), 2))
    np.testing.assert_allclose(got, np.exp(table[index]) + numbers((8,), 2), rtol=1e-5)


def test_negative_values_count_from_the_end_where_the_op_says_so() -> None:
    table, index = numbers((30, 8)), np.array([[-1, -30, 3]])
    made = kernel_of(embedding(ids=(1, 3), negative_index_support=True), "rows", "exp", "add")
    (got,) = run(made, table=table, ids=index, bias=numbers((8,), 2))
    np.testing.assert_allclose(got, np.exp(table[index]) + numbers((8,), 2), rtol=1e-5)
    with pytest.raises(ValueError, match=r"is not in 0\.\.29"):
        run(kernel_of(embedding(ids=(1, 3)), "rows", "exp", "add"), table=table, ids=index, bias=numbers((8,), 2))


def test_inner_dim() -> None:
    made = kernel_of(embedding((4, 9, 8), (2, 3), at=1), "rows", "exp", "add")
    table, index = numbers((4, 9, 8)), np.array([[0, 8, 3], [3, 3, 1]])
    (got,) = run(made, table=table, ids=index, bias=numbers((8,), 2))
    np.testing.assert_allclose(got, np.exp(table[:, index]) + numbers((8,), 2), rtol=1e-5)


def test_symbolic() -> None:
    b = GraphBuilder()
    table, ids, at = b.data((30, 8), F16, name="table"), b.data((-1, -1), I64, name="ids"), b.const(0)
    rows = b.op("GatherV2", table, ids, at, name="rows")
    b.output(b.op("Exp", rows, name="exp"))
    made = kernel_of(graph_of(b, **S), "rows", "exp")
    assert {(s.param, s.dim) for s in made.kernel.symbols} == {("in0", 0), ("in0", 1)}
    index = np.array([[1, 2, 29]])
    (got,) = run(made, table=numbers((30, 8), dtype=np.float16), ids=index)
    np.testing.assert_array_equal(got, np.exp(numbers((30, 8), dtype=np.float16)[index].astype("f4")).astype("f2"))


def test_two_tables_share_the_axes_of_their_indices() -> None:
    b = GraphBuilder()
    word, kind = b.data((30, 8), name="word"), b.data((2, 8), name="kind")
    ids, kinds = b.data((-1, -1), I64, name="ids"), b.data((-1, -1), I32, name="kinds")
    w = b.op("GatherV2", word, ids, b.const(0), name="w")
    k = b.op("GatherV2", kind, kinds, b.const(0), name="k")
    scale = b.op("Cast", kinds, name="scale", dst_type=0)
    x = b.op("Add", w, k, name="x")
    b.output(b.op("ReduceSum", x, b.const([2]), name="sum"), b.op("Muls", scale, name="y", value=2.0))
    graph = graph_of(b, d2=("s0", "s1"), d3=("s0", "s1"))
    made = kernel_of(graph, "w", "k", "x", "sum")
    assert [len(n.axes) for n in made.kernel.nests] == [3]
    index, kinds_of = np.array([[1, 29], [0, 7]]), np.array([[0, 1], [1, 1]], np.int32)
    words, table = numbers((30, 8)), numbers((2, 8), 1)
    (got,) = run(made, word=words, kind=table, ids=index, kinds=kinds_of)
    np.testing.assert_allclose(got, (words[index] + table[kinds_of]).sum(-1), rtol=1e-5)


def test_index_by_tensor() -> None:
    """Two dims between others, by tensors that broadcast; values count from the end."""
    b = GraphBuilder()
    x, i, j = b.data((2, 5, 4, 3), name="x"), b.data((3, 1), I64, name="i"), b.data((2,), I32, name="j")
    y = b.op("IndexByTensor", x, i, j, name="y", indices_mask=[0, 1, 1])
    b.output(b.op("Exp", y, name="z"))
    made = kernel_of(graph_of(b), "y", "z")
    rows, columns = np.array([[0], [-5], [4]]), np.array([-1, 2], np.int32)
    (got,) = run(made, x=numbers((2, 5, 4, 3)), i=rows, j=columns)
    np.testing.assert_allclose(got, np.exp(numbers((2, 5, 4, 3))[:, rows, columns]), rtol=1e-5)


def test_constant_indices() -> None:
    """One is a slice; several are read from the constant."""
    b = GraphBuilder()
    x = b.data((5, 4, 8), name="x")
    one = b.op("GatherV2", x, b.const(-2), b.const(1), name="one")
    some = b.op("Gather", x, b.const([4, 0, 2]), name="some")
    b.output(b.op("Exp", one, name="exp"), b.op("Exp", some, name="exps"))
    graph = graph_of(b)
    assert not lookups(kernel_of(graph, "one", "exp"))
    (got,) = run(kernel_of(graph, "one", "exp"), x=numbers((5, 4, 8)))
    np.testing.assert_allclose(got, np.exp(numbers((5, 4, 8))[:, 2]), rtol=1e-5)
    made = kernel_of(graph, "some", "exps")
    assert len(lookups(made)) == 1
    values = {made.inputs[0].node: np.array([4, 0, 2]), made.inputs[1].node: numbers((5, 4, 8))}
    (got,) = run(made, **values)
    np.testing.assert_allclose(got, np.exp(numbers((5, 4, 8))[[4, 0, 2]]), rtol=1e-5)


def test_what_the_cluster_makes_is_not_looked_up() -> None:
    b = GraphBuilder()
    table, ids = b.data((30, 8), name="table"), b.data((3, 5), I32, name="ids")
    exp, neg = b.op("Exp", table, name="exp"), b.op("Neg", ids, name="neg")
    b.output(b.op("Sin", b.op("GatherV2", exp, neg, b.const(0), name="rows"), name="sin"))
    graph = graph_of(b)
    for other in ("exp", "neg"):
        reason = lower(graph, other, "rows", "sin")
        assert isinstance(reason, Reason) and reason.code == "AF210" and f"{other}:0 is made" in reason.text
    assert groups(plan_of(graph)) == [["rows", "sin"]]


def refused(shape: tuple[int, ...], kind: str = "GatherV2", indices: int = 1, **more: Any) -> str:
    """Code and text of the refusal of one lookup."""
    b = GraphBuilder()
    x = b.data(shape, more.pop("x", F32))
    ids = [b.data((2,), more.get("dtype", I64)) for _ in range(indices)]
    more.pop("dtype", None)
    at = [b.const(more.pop("at", 0))] if kind == "GatherV2" else []
    index = [more.pop("constant")(b)] if "constant" in more else ids
    b.output(b.op("Exp", b.op(kind, x, *index, *at, name="rows", **more), name="exp"))
    (found,) = [r for r in plan_of(graph_of(b)).refusals if r.node == "rows"]
    return f"{found.code} {found.reason}"


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"shape": (5, 4), "at": 1}, "AF218 GatherV2 rows: single elements are looked up"),
        ({"shape": (5, 4), "dtype": I8}, "AF202 GatherV2 rows: indices of i8"),
        ({"shape": (2, 4), "kind": "Gather", "batch_dims": 1}, "batch_dims is not 0"),
        ({"shape": (5, 4), "constant": lambda b: b.const(7)}, "index 7 may be out of range for a dim of 5"),
        (
            {"shape": (5, 4, 3, 2), "kind": "IndexByTensor", "indices": 2, "indices_mask": [1, 0, 1]},
            "dims that are not adjacent",
        ),
    ],
)  # fmt: skip
def test_refusals(arguments: dict[str, Any], text: str) -> None:
    assert text in refused(**arguments)


def test_one_constant_in_many() -> None:
    b = GraphBuilder()
    rows = b.op("GatherV2", b.data((5, 4)), b.const([3, 3]), b.const(0), name="rows")
    b.output(b.op("Exp", rows, name="exp"))
    reason = lower(graph_of(b), "rows", "exp")
    assert isinstance(reason, Reason) and reason.code == "AF218" and "a tensor of one constant" in reason.text


def test_pass() -> None:
    for kind, attrs in (("GatherV2", {}), ("IndexByTensor", {"indices_mask": [1]})):
        b = GraphBuilder()
        extra = [b.const(0)] if kind == "GatherV2" else []
        rows = b.op(kind, b.data((5, 8)), b.data((3,), I64), *extra, name="rows", **attrs)
        b.output(b.op("Exp", rows, name="exp"))
        found = plan_of(graph_of(b), passes=frozenset())
        assert [(r.code, r.node) for r in found.refusals if r.code == "AF215"] == [("AF215", "rows")]
        assert groups(plan_of(graph_of(b), passes=frozenset(["gather"]))) == [["rows", "exp"]]
