"""Data movement in the lowering: every op type with neighbours, loads and stores, symbolic dims, rounding, refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ge_build import GraphBuilder
from move_build import (
    END,
    cat,
    outputs,
    padded,
    sliced,
    split,
    transfers,
    turned,
    unbound,
    whole,
    worked,
)
from plan_build import Array, check_values, graph_of, kernel_of, numbers, run_nodes

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I32, DType
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Cast


@dataclass(frozen=True)
class Case:
    """``shapes`` of the graph inputs; ``make``: the results of one op on tensors of these; ``expected``: by numpy."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    make: Callable[..., list[str]]
    expected: Callable[..., list[Array]]
    nests: int = 1


def _one(kind: str, **attrs: Any) -> Callable[..., list[str]]:
    """An op with constants after its operand; ``consts`` and ``before`` it."""
    consts, before = attrs.pop("consts", ()), attrs.pop("before", ())
    outputs = attrs.get("num_split", attrs.get("num", 1))

    def make(b: GraphBuilder, *xs: str) -> list[str]:
        first = b.op(kind, *map(b.const, before), *xs, *map(b.const, consts), name="op", outputs=outputs, **attrs)
        return [f"{first[:-2]}:{i}" for i in range(outputs)]

    return make


X = ((4, 6),)
CUBE = ((2, 3, 4),)
CASES = [
    Case("Transpose", CUBE, _one("Transpose", consts=[[2, 0, 1]]), lambda x: [x.transpose(2, 0, 1)]),
    Case("Transpose-negative", CUBE, _one("Transpose", consts=[[0, -1, 1]]), lambda x: [x.transpose(0, 2, 1)]),
    Case("TransposeD", X, _one("TransposeD", perm=[1, 0]), lambda x: [x.T]),
    Case("StridedSliceV2", X, _one("StridedSliceV2", consts=[[1], [4], [1], [1]]), lambda x: [x[:, 1:4]]),
    Case("StridedSliceV2-end", X, _one("StridedSliceV2", consts=[[-3], [END], [1], [1]]), lambda x: [x[:, -3:]]),
    Case("StridedSliceV2-step", X, _one("StridedSliceV2", consts=[[1], [6], [1], [2]]), lambda x: [x[:, 1::2]]),
    Case("StridedSliceV2-third", X, _one("StridedSliceV2", consts=[[0], [6], [1], [3]]), lambda x: [x[:, ::3]]),
    Case("StridedSliceV2-both", X, _one("StridedSliceV2", consts=[[1, 2], [3, 5]]), lambda x: [x[1:3, 2:5]]),
    Case("StridedSliceV3", X, _one("StridedSliceV3", consts=[[2], [4], [0], [1]]), lambda x: [x[2:4]]),
    Case(
        "StridedSlice",
        X,
        _one("StridedSlice", consts=[[1, 1], [3, 5], [1, 1]], begin_mask=1, end_mask=2),
        lambda x: [x[:3, 1:]],
    ),
    Case("Slice", X, _one("Slice", consts=[[1, 2], [3, -1]]), lambda x: [x[1:4, 2:]]),
    Case("SliceD", X, _one("SliceD", offsets=[0, 4], size=[4, 2]), lambda x: [x[:, 4:]]),
    Case("GatherV2", X, _one("GatherV2", consts=[2, 1]), lambda x: [x[:, 2]]),
    Case("GatherV2-row", X, _one("GatherV2", consts=[[3], 0]), lambda x: [x[3:4]]),
    Case("SplitV", X, _one("SplitV", consts=[[1, 2, -1], 1], num_split=3), lambda x: np.split(x, [1, 3], 1), 3),
    Case("SplitV-equal", X, _one("SplitV", consts=[[3, 3], 1], num_split=2), lambda x: [x[:, :3], x[:, 3:]]),
    Case("SplitVD", X, _one("SplitVD", size_splits=[1, 3], split_dim=0, num_split=2), lambda x: [x[:1], x[1:]], 2),
    Case("SplitD", X, _one("SplitD", split_dim=-1, num_split=3), lambda x: np.split(x, 3, 1)),
    Case("Split", X, _one("Split", before=[0], num_split=2), lambda x: [x[:2], x[2:]]),
    Case("Unpack", CUBE, _one("Unpack", axis=1, num=3), lambda x: [x[:, 0], x[:, 1], x[:, 2]]),
    Case("ConcatV2", (*X, (4, 2)), _one("ConcatV2", consts=[1]), lambda x, y: [np.concatenate([x, y], 1)], 2),
    Case("ConcatV2-equal", (*X, *X), _one("ConcatV2", consts=[-1]), lambda x, y: [np.concatenate([x, y], 1)]),
    Case("Concat", (*X, (1, 6)), _one("Concat", before=[0]), lambda x, y: [np.concatenate([x, y])], 2),
    Case("ConcatD", (*X, *X), _one("ConcatD", concat_dim=0), lambda x, y: [np.concatenate([x, y])]),
    Case("ConcatV2D", (*X, *X), _one("ConcatV2D", concat_dim=1), lambda x, y: [np.concatenate([x, y], 1)]),
    Case("Pack", (*X, *X), _one("Pack", axis=1, N=2), lambda x, y: [np.stack([x, y], 1)]),
    Case("Pack-last", (*X, *X, *X), _one("Pack", axis=-1, N=3), lambda *x: [np.stack(x, -1)]),
    Case("PadV3", X, _one("PadV3", consts=[[0, 1, 2, 0]], mode="constant"), lambda x: [np.pad(x, ((0, 1), (2, 0)))], 4),
    Case("Pad", X, _one("Pad", consts=[[[0, 0], [1, 1]]]), lambda x: [np.pad(x, ((0, 0), (1, 1)))], 2),
]


def _graph(case: Case, dtype: DType = F32) -> Graph:
    """2 * op(-x)."""
    b = GraphBuilder()
    inputs = [b.data(s, dtype) for s in case.shapes]
    made = case.make(b, *(b.op("Neg", x, name=f"before{i}") for i, x in enumerate(inputs)))
    b.output(*(b.op("Muls", y, name=f"after{i}", value=2.0) for i, y in enumerate(made)))
    return graph_of(b)


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_between_elementwise_ops(case: Case, dtype: DType) -> None:
    graph = _graph(case, dtype)
    arrays = [numbers(s, i, dtype.numpy) for i, s in enumerate(case.shapes)]
    values = run_nodes(graph, arrays)
    before = [n for n in worked(graph) if n.startswith("before")]
    for without in ((), before):
        made = whole(graph, *without)
        check_values(graph, made, values)
    expected = case.expected(*(-a for a in arrays))
    made = whole(graph)
    got = outputs(made, graph, arrays)
    assert len(got) == len(expected) and len(made.kernel.nests) == case.nests, transfers(made)
    for i, array in enumerate(expected):
        np.testing.assert_array_equal(got[f"after{i}:0"], array + array)


def _text(make: Callable[[GraphBuilder], Sequence[str]], *without: str, **shapes: Sequence[int | str]) -> Any:
    """The transfers of the kernel of a graph."""
    b = GraphBuilder()
    b.output(*make(b))
    return transfers(whole(graph_of(b, **shapes), *without))


def _neg(b: GraphBuilder, x: str, name: str = "neg") -> str:
    return b.op("Neg", x, name=name)


# ---- where loads and stores are ------------------------------------------------------------------------------------
def test_the_loads_and_stores_of_a_slice() -> None:
    def make(b: GraphBuilder) -> list[str]:
        return [_neg(b, sliced(b, b.op("Abs", b.data((4, 6)), name="abs"), 1, 1, 4))]

    assert _text(make) == [["a0:4 a1:3", "in0[6*a0 + a1 + 1]", "out0[3*a0 + a1]"]]
    assert _text(make, "abs") == _text(make)


def test_a_step_that_does_not_divide_the_dim_is_read_from_memory() -> None:
    def make(b: GraphBuilder) -> list[str]:
        return [_neg(b, sliced(b, b.data((7,)), 0, 1, step=3))]

    assert _text(make) == [["a0:2", "in0[3*a0 + 1]", "out0[a0]"]]


def test_the_loads_and_stores_of_a_transpose() -> None:
    def make(b: GraphBuilder) -> list[str]:
        return [_neg(b, turned(b, b.data((2, 3, 4)), (2, 0, 1)))]

    assert _text(make) == [["a0:4 a1:2 a2:3", "in0[a0 + 12*a1 + 4*a2]", "out0[6*a0 + 3*a1 + a2]"]]


def test_parts_of_one_size_share_a_loop_and_others_get_one_each() -> None:
    def make(b: GraphBuilder) -> list[str]:
        x, y, z = b.data((3, 4)), b.data((3, 2)), b.data((3, 4))
        return [_neg(b, cat(b, [cat(b, [x, y], 1), z], 1))]

    assert _text(make) == [
        ["a0:3 a1:4", "in0[4*a0 + a1]", "in1[4*a0 + a1]", "out0[10*a0 + a1]", "out0[10*a0 + a1 + 6]"],
        ["a0:3 a2:2", "in2[2*a0 + a2]", "out0[10*a0 + a2 + 4]"],
    ]


def test_the_same_part_twice_is_read_once() -> None:
    def make(b: GraphBuilder) -> list[str]:
        x = b.op("Abs", b.data((3, 4)), name="abs")
        return [_neg(b, cat(b, [x, x], 1))]

    assert _text(make) == [["a0:3 a1:4", "in0[4*a0 + a1]", "out0[8*a0 + a1]", "out0[8*a0 + a1 + 4]"]]


def test_empty_parts_are_not_read() -> None:
    def make(b: GraphBuilder) -> list[str]:
        x, none, legacy = b.data((3, 4)), b.data((3, 0)), b.data((0,))
        return [_neg(b, cat(b, [none, x, none, x], 1)), _neg(b, cat(b, [x, legacy], 1), "other")]

    (nest,) = _text(make)
    assert nest == ["a0:3 a1:4", "in0[4*a0 + a1]", "out0[8*a0 + a1]", "out0[8*a0 + a1 + 4]", "out1[4*a0 + a1]"]


def test_a_whole_and_a_part_of_it_are_both_results() -> None:
    def make(b: GraphBuilder) -> list[str]:
        x = b.op("Abs", b.data((3, 8)), name="abs")
        return [_neg(b, x), b.op("Exp", sliced(b, x, 1, 2, 6), name="exp")]

    assert _text(make) == [
        ["a0:3 a1:2", "in0[8*a0 + a1]", "in0[8*a0 + a1 + 6]", "out0[8*a0 + a1]", "out0[8*a0 + a1 + 6]"],
        ["a0:3 a2:4", "in0[8*a0 + a2 + 2]", "out0[8*a0 + a2 + 2]", "out1[4*a0 + a2]"],
    ]


def test_margins_hold_a_constant_that_neighbours_see() -> None:
    b = GraphBuilder()
    y = padded(b, _neg(b, b.data((3, 4))), [(1, 0), (0, 2)], b.const(-1.5, F32))
    b.output(b.op("Abs", y, name="abs"))
    graph = graph_of(b)
    made, x = whole(graph), numbers((3, 4))
    assert sum(len(lines) for lines in transfers(made)) == 4 + 4 + 1  # axes, stores, and one load
    (got,) = outputs(made, graph, [x]).values()
    np.testing.assert_array_equal(got, np.abs(np.pad(-x, ((1, 0), (0, 2)), constant_values=-1.5)))


@pytest.mark.parametrize(("dtype", "value"), [(BOOL, True), (I32, -7), (BF16, 0.1), (F16, np.inf)])
def test_margins_of_other_types(dtype: DType, value: Any) -> None:
    b = GraphBuilder()
    y = padded(b, b.data((4,), dtype), [(1, 2)], b.const(value, dtype), name="pad")
    b.output(b.op("LogicalNot" if dtype == BOOL else "Abs", y, name="z"))
    graph = graph_of(b)
    x = (numbers((4,)) * 3).astype(dtype.numpy)
    (got,) = outputs(whole(graph), graph, [x]).values()
    wide = np.concatenate([np.full(1, value), x.astype(object), np.full(2, value)]).astype(dtype.numpy)
    np.testing.assert_array_equal(got, ~wide if dtype == BOOL else np.abs(wide))


# ---- symbolic dims -------------------------------------------------------------------------------------------------
SYMBOLIC: list[tuple[str, Callable[[GraphBuilder], Sequence[str]], Sequence[Sequence[int | str]], int]] = [
    ("slice", lambda b: [_neg(b, sliced(b, b.op("Abs", b.data((-1, 8)), name="p"), 0, 1))], [("s0", 8)], 1),
    ("last", lambda b: [_neg(b, sliced(b, b.data((-1, 8)), 0, -1))], [("s0", 8)], 1),
    ("turned", lambda b: [_neg(b, turned(b, b.op("Abs", b.data((-1, 8)), name="p"), (1, 0)))], [("s0", 8)], 1),
    ("halves", lambda b: [b.op("Mul", *split(b, b.data((-1, 8)), [4, 4], 1))], [("s0", 8)], 1),
    ("rows", lambda b: [_neg(b, cat(b, [b.data((-1, 8)), b.data((-1, 8))], 0))], [("s0", 8), ("s1", 8)], 2),
    ("equal rows", lambda b: [_neg(b, cat(b, [b.data((-1, 8)), b.data((-1, 8))], 0))], [("s0", 8), ("s0", 8)], 1),
    ("inner", lambda b: [_neg(b, cat(b, [b.data((2, -1)), b.data((2, -1))], 1))], [(2, "s0"), (2, "s1")], 2),
    ("margin", lambda b: [_neg(b, padded(b, b.data((-1, 4)), [(1, 0), (0, 2)]))], [("s0", 4)], 4),
    ("even", lambda b: [_neg(b, sliced(b, b.data((-1,)), 0, 1, step=2))], [("2*s0",)], 1),
    ("unbound", lambda b: [b.op("Sub", *unbound(b, b.op("Abs", b.data((-1, 2)), name="p"), 2, 1))], [("s0", 2)], 1),
]


@pytest.mark.parametrize(("name", "make", "dims", "nests"), SYMBOLIC, ids=[s[0] for s in SYMBOLIC])
@pytest.mark.parametrize("sizes", [{"s0": 2, "s1": 3}, {"s0": 5, "s1": 2}])
def test_symbolic(
    name: str,
    make: Callable[[GraphBuilder], Sequence[str]],
    dims: Sequence[Sequence[int | str]],
    nests: int,
    sizes: dict[str, int],
) -> None:
    b = GraphBuilder()
    b.output(*make(b))
    graph = graph_of(b, **{f"d{i}": d for i, d in enumerate(dims)})
    made = whole(graph)
    assert len(made.kernel.nests) == nests
    arrays = [
        numbers([expr.evaluate(d if isinstance(d, int) else expr.parse(d), sizes) for d in shape], i)
        for i, shape in enumerate(dims)
    ]
    check_values(graph, made, run_nodes(graph, arrays, sizes))


# ---- rounding ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("view", ["slices", "split", "concat", "one slice"])
def test_a_half_that_several_read_through_views_is_rounded(view: str, dtype: DType) -> None:
    """exp(x) is read by each slice; by one slice alone it stays f32."""
    b = GraphBuilder()
    y = b.op("Exp", b.data((4, 8), dtype), name="y")
    if view == "concat":
        b.output(b.op("Muls", cat(b, [y, y], 1), name="z", value=3.0))
    elif view == "one slice":
        b.output(b.op("Muls", sliced(b, y, 1, 0, 4), name="z", value=3.0))
    else:
        pair = split(b, y, [4, 4], 1) if view == "split" else [sliced(b, y, 1, 0, 4), sliced(b, y, 1, 4, 8)]
        b.output(b.op("Mul", *pair, name="z"))
    graph = graph_of(b)
    made = whole(graph)
    x = numbers((4, 8), dtype=dtype.numpy)
    values = run_nodes(graph, [x])
    narrowed = [v.origin[0] for n in made.kernel.nests for v in n.values if isinstance(v, Cast) and v.dtype == dtype]
    if view == "one slice":
        assert set(narrowed) == {"z"}
        exact = np.exp(x[:, :4].astype(np.float32)) * np.float32(3)
        np.testing.assert_array_equal(outputs(made, graph, [x])["z:0"], exact.astype(dtype.numpy))
    else:
        assert set(narrowed) == {"y", "z"}
        check_values(graph, made, values)


def test_strict_rounds_before_a_slice_too() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.data((4, 8), F16), name="y")
    b.output(b.op("Sin", sliced(b, y, 1, 2, 5), name="z"))
    graph = graph_of(b)
    made = kernel_of(graph, *worked(graph), precision="strict")
    check_values(graph, made, run_nodes(graph, [numbers((4, 8), dtype=np.float16)]))


def test_a_stored_slice_of_a_half_is_the_bits_of_its_source() -> None:
    b = GraphBuilder()
    x = b.data((8,), BF16)
    b.output(sliced(b, x, 0, 2, 6, name="s"), b.op("Neg", x, name="n"))
    graph = graph_of(b)
    bits = np.array([0x7FC0, 0x8000, 0x7F80, 0xFF80, 0x0001, 0x3F80, 0, 1], np.uint16)
    got = outputs(whole(graph, "n"), graph, [bits.view(ml_dtypes.bfloat16)])["s:0"]
    assert got.view(np.uint16).tolist() == bits[2:6].tolist()
