"""Data movement that is not fused: the code and the text of every refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from ge_build import GraphBuilder
from move_build import cat, padded, sliced, split, turned, worked
from plan_build import graph_of, lower, plan_of

from torchair_autofuse.dtypes import F32, F64, I32, I64
from torchair_autofuse.lower.atoms import MAX_PARTS
from torchair_autofuse.messages import Reason

Make = Callable[[GraphBuilder], str]
Dims = Sequence[Sequence[int | str]]


def _abs(b: GraphBuilder, shape: Sequence[int]) -> str:
    return b.op("Abs", b.data(shape), name="abs")


def _sum(b: GraphBuilder, x: str, at: int = 1, keep: bool = True) -> str:
    return b.op("ReduceSum", x, b.const([at]), keep_dims=keep, name="sum")


def _shared(b: GraphBuilder) -> str:
    x = _abs(b, (4, 4))
    return b.op("Add", x, turned(b, x, (1, 0), name="turn"), name="add")


def _diagonal(b: GraphBuilder) -> str:
    """One value in two parts of a concat, once turned."""
    x = _abs(b, (4, 4))
    return cat(b, [x, turned(b, x, (1, 0), name="turn")], 1, name="cat")


def _shifted(b: GraphBuilder) -> str:
    x = _abs(b, (100,))
    return b.op("Sub", sliced(b, x, 0, 1, name="late"), sliced(b, x, 0, 0, 99, name="early"), name="sub")


def _many(b: GraphBuilder) -> str:
    parts = [_abs(b, (2,)), *(b.data((2,)) for _ in range(MAX_PARTS))]
    return cat(b, parts, 0, name="cat")


def _pieces(b: GraphBuilder) -> str:
    """Few parts in each of two dims, but many together."""
    rows = cat(b, [_abs(b, (2, 12)), *(b.data((2, 12)) for _ in range(11))], 0, name="rows")
    return cat(b, [rows, *(b.data((24, 12)) for _ in range(11))], 1, name="columns")


# name, graph, dims of the inputs, code, parts of the text; all nodes are one cluster
CLUSTERS: list[tuple[str, Make, Dims, str, tuple[str, ...]]] = [
    (
        "split at a bound that a symbolic dim may not have",
        lambda b: split(b, _abs(b, (-1, 8)), [3, -1], 0, name="s")[1],
        [("s0", 8)],
        "AF205",
        ("s: 3 of s0 elements from 0 on are not known to be whole parts of the axes of abs:0",),
    ),
    (
        "step that does not divide the dim",
        lambda b: sliced(b, _abs(b, (7,)), 0, 0, 7, 2, name="s"),
        [],
        "AF205",
        ("s: 4 of 7 elements from 0 on with step 2",),
    ),
    ("slice of rows that were joined otherwise", _many, [], "AF205", ("cat: the axes of its result", "that abs:0 is")),
    ("x + x.T", _shared, [], "AF211", ("two different index maps",)),
    ("cat of x and x.T", _diagonal, [], "AF211", ()),
    ("difference of neighbours", _shifted, [], "AF211", ("two different index maps",)),
    ("parts of parts", _pieces, [], "AF213", ("is made of 144 parts, more than 128",)),
    (
        "sum over parts of different sizes",
        lambda b: _sum(b, cat(b, [_abs(b, (3, 4)), b.data((3, 2))], 1)),
        [],
        "AF210",
        ("sum reduces over an axis that has parts of different sizes",),
    ),
    (
        "sums beside more columns",
        lambda b: cat(b, [_sum(b, b.data((4, 8))), b.data((4, 3))], 1, name="cat"),
        [],
        "AF210",
        ("cat:0 iterates over axes [4, 4], the rest of the cluster over others: [4, 8]",),
    ),
    (
        "four rows of as many as there are",
        lambda b: b.op("Neg", b.op("Slice", b.data((-1, 8)), b.const([0, 0]), b.const([4, 8]), name="s"), name="n"),
        [("s0", 8)],
        "AF223",
        ("may be past the end: its greatest index is 31, in0 has 8*s0 elements",),
    ),
    (
        "from a row on that there may not be",
        lambda b: b.op("Neg", b.op("Slice", b.data((-1, 8)), b.const([3, 0]), b.const([2, 8]), name="s"), name="n"),
        [("s0", 8)],
        "AF223",
        ("in0 has 8*s0 elements",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "dims", "code", "texts"), CLUSTERS, ids=[c[0] for c in CLUSTERS])
def test_clusters(name: str, make: Make, dims: Dims, code: str, texts: tuple[str, ...]) -> None:
    b = GraphBuilder()
    b.output(make(b))
    graph = graph_of(b, **{f"d{i}": d for i, d in enumerate(dims)})
    reason = lower(graph, *worked(graph))
    assert isinstance(reason, Reason) and reason.code == code
    assert all(t in reason.text for t in texts), reason.text
    plan_of(graph)  # the planner looks for smaller clusters and does not raise


def test_a_tensor_of_clamped_size_that_is_not_proved_to_be_stored_once() -> None:
    """Nothing but a transpose in the cluster, of a tensor whose size is one or none."""
    b = GraphBuilder()
    x = turned(b, sliced(b, b.data((-1, 2, -1)), 0, 4, 5, name="s"), (1, 0, 2), name="t")
    b.output(b.op("Neg", x, name="neg"))
    reason = lower(graph_of(b, d0=("s0", 2, "s0")), "t", "neg")
    assert isinstance(reason, Reason) and reason.code == "AF223" and "may write an element twice" in reason.text


NODES: list[tuple[str, Make, Dims, str]] = [
    (
        "concat",
        lambda b: cat(b, [b.data((-1, 3)), b.data((-1, 3))], 1, name="op"),
        [("s0", 3), ("s1", 3)],
        "AF218 ConcatV2 op: dims of input 1 [s1, 3] are not known to be those of the result [s0, 6]",
    ),
    (
        "split",
        lambda b: split(b, b.data((-1, 3)), [2, 2], 0, name="op")[0],
        [("s0", 3)],
        "AF218 SplitV op: the parts are not known to add up to the whole",
    ),
    (
        "halves",
        lambda b: b.op("Split", b.const(0, I32), b.data((-1, 3)), outputs=2, name="op", num_split=2),
        [("s0", 3)],
        "AF218 Split op: the parts are not known to add up to the whole",
    ),
    ("mode", lambda b: b.op("PadV3", b.data((4,)), b.const([1, 1]), name="op", mode="reflect"), [], "AF218"),
    (
        "negative padding",
        lambda b: padded(b, b.data((4,)), [(-1, 1)], name="op"),
        [],
        "AF218 PadV3 op: a padding that may be negative",
    ),
    (
        "unknown padding value",
        lambda b: padded(b, b.data((4,)), [(1, 1)], b.data(()), name="op"),
        [],
        "AF218 PadV3 op: the value to pad with is not a known number of the tensor's dtype",
    ),
    (
        "padding of integers with a fraction",
        lambda b: padded(b, b.data((4,), I32), [(1, 1)], b.const(1.5, F32), name="op"),
        [],
        "AF218 PadV3 op: the value to pad with",
    ),
    (
        "negative offset",
        lambda b: b.op("Slice", b.data((4,)), b.const([-1]), b.const([1]), name="op"),
        [],
        "AF218 Slice op: an offset that may be negative",
    ),
    (
        "row that may not be there",
        lambda b: b.op("GatherV2", b.data((-1, 3)), b.const(1), b.const(0), name="op"),
        [("s0", 3)],
        "AF218 GatherV2 op: index 1 may be out of range for a dim of s0",
    ),
    ("f64", lambda b: turned(b, b.data((4, 3), F64), (1, 0), name="op"), [], "AF202 Transpose op: a tensor of f64"),
    ("mixed", lambda b: cat(b, [b.data((4,), I32), b.data((4,), I64)], 0, name="op"), [], "AF203 dtype of op:0"),
    ("empty", lambda b: sliced(b, b.data((4, 0)), 0, 1, 3, name="op"), [], "AF216 arg0:0 is empty"),
    ("nothing left", lambda b: sliced(b, b.data((4, 2)), 0, 2, 2, name="op"), [], "AF216 op:0 is empty"),
    (
        "backwards",
        lambda b: sliced(b, b.data((4, 2)), 0, 3, 0, -1, name="op"),
        [],
        "AF203 shape of op:0 is unknown",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "dims", "text"), NODES, ids=[n[0] for n in NODES])
def test_nodes(name: str, make: Make, dims: Dims, text: str) -> None:
    b = GraphBuilder()
    made = make(b)
    b.output(b.op("Neg", made, name="neg"))
    graph = graph_of(b, **{f"d{i}": d for i, d in enumerate(dims)})
    (found,) = [r for r in plan_of(graph).refusals if r.node == "op" and not r.other]
    assert f"{found.code} {found.reason}".startswith(text), found
