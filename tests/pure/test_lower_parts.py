"""Several ops that move data in one kernel: reductions over parts, attention's splits and rotations, gates, norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ge_build import GraphBuilder
from move_build import cat, outputs, padded, reshaped, sliced, split, transfers, turned, unbound, whole, worked
from plan_build import Array, check_plan, check_values, fused, graph_of, groups, lower, numbers, plan_of, run_nodes

from torchair_autofuse.dtypes import BF16, F16, F32, DType
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.loop.ir import Reduce
from torchair_autofuse.messages import Reason

RTOL = {"f32": 2e-6, "f16": 1e-3, "bf16": 8e-3}


def made_of(make: Callable[[GraphBuilder], Sequence[str]], **shapes: Sequence[int | str]) -> Graph:
    b = GraphBuilder()
    b.output(*make(b))
    return graph_of(b, **shapes)


def reduced(b: GraphBuilder, kind: str, x: str, at: Sequence[int], name: str, keep: bool = False) -> str:
    return b.op(kind, x, b.const(list(at)), name=name, keep_dims=keep)


# ---- reductions over parts -----------------------------------------------------------------------------------------
def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


REDUCTIONS: list[tuple[str, Callable[[GraphBuilder, str], str], Callable[[Array], Array]]] = [
    ("sum", lambda b, x: reduced(b, "ReduceSum", x, [1], "red"), lambda x: x.sum(1)),
    ("sum of rows", lambda b, x: reduced(b, "ReduceSum", x, [0], "red"), lambda x: x.sum(0)),
    ("sum of all", lambda b, x: reduced(b, "ReduceSum", x, [0, 1], "red"), lambda x: x.sum()),
    ("mean", lambda b, x: reduced(b, "ReduceMean", x, [1], "red"), lambda x: x.mean(1)),
    ("max", lambda b, x: reduced(b, "ReduceMax", x, [1], "red", True), lambda x: x.max(1, keepdims=True)),
    ("min", lambda b, x: reduced(b, "ReduceMin", x, [1], "red"), lambda x: x.min(1)),
    ("prod", lambda b, x: reduced(b, "ReduceProd", x, [1], "red"), lambda x: x.prod(1)),
    ("softmax", lambda b, x: b.op("SoftmaxV2", x, name="red", axes=[-1]), _softmax),
    (
        "log softmax",
        lambda b, x: b.op("LogSoftmaxV2", x, name="red", axes=[-1]),
        lambda x: np.log(_softmax(x)),
    ),
    (
        "layer norm",
        lambda b, x: b.op("LayerNormV4", x, b.const([12]), outputs=3, name="red", epsilon=1e-5),
        _layer_norm,
    ),
]
PARTS: dict[str, Callable[[GraphBuilder, DType], str]] = {
    "concat": lambda b, t: cat(b, [b.op("Neg", b.data((5, 4), t), name="n"), b.data((5, 4), t), b.data((5, 4), t)], 1),
    "two": lambda b, t: cat(b, [b.data((5, 6), t), b.op("Neg", b.data((5, 6), t), name="n")], 1),
    "split": lambda b, t: b.op("Neg", b.data((5, 12), t), name="n"),
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize(("name", "make", "exact"), REDUCTIONS, ids=[r[0] for r in REDUCTIONS])
def test_reductions_over_parts(
    name: str, make: Callable[[GraphBuilder, str], str], exact: Callable[[Array], Array], dtype: DType, parts: str
) -> None:
    """Reduced part by part and merged; a split beside the reduction cuts the axis as a concat does."""
    b = GraphBuilder()
    x = PARTS[parts](b, dtype)
    red = make(b, x)
    products = [b.op("Mul", *split(b, x, [6, 6], 1), name="mul")] if parts == "split" else []
    b.output(red, *products)
    graph = graph_of(b)
    shapes = [graph.info(n.outputs[0]).shape or () for n in graph.inputs_of_type("Data")]
    arrays = [numbers([int(d) for d in s], i, dtype.numpy) for i, s in enumerate(shapes)]
    made = whole(graph)
    pieces = {"concat": 3, "two": 2, "split": 2}[parts]
    reductions = [v for n in made.kernel.nests for v in n.values if isinstance(v, Reduce)]
    assert len(made.kernel.nests) == 1 and len(reductions) == pieces
    wide = [a.astype(np.float64) for a in arrays]
    signs = {"concat": (-1, 1, 1), "two": (1, -1), "split": (-1,)}[parts]
    expected = exact(np.concatenate([s * a for s, a in zip(signs, wide)], 1))
    got = outputs(made, graph, arrays)["red:0"].astype(np.float64)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(got, expected, rtol=RTOL[str(dtype)], atol=RTOL[str(dtype)] * scale)


def test_moments_of_parts_do_not_cancel() -> None:
    """Variance of values far from zero whose parts have different means."""

    def make(b: GraphBuilder) -> list[str]:
        c = cat(b, [b.data((2, 64)), b.data((2, 64))], 1)
        return [b.op("LayerNormV4", c, b.const([128]), outputs=3, name="red", epsilon=1e-5)]

    graph = made_of(make)
    arrays = [numbers((2, 64)) + np.float32(1000), numbers((2, 64), 1) + np.float32(1010)]
    expected = _layer_norm(np.concatenate([a.astype(np.float64) for a in arrays], 1))
    np.testing.assert_allclose(outputs(whole(graph), graph, arrays)["red:0"], expected, atol=1e-4)


def test_softmax_of_parts_that_overflow_apart() -> None:
    graph = made_of(lambda b: [b.op("SoftmaxV2", cat(b, [b.data((1, 2)), b.data((1, 2))], 1), name="red", axes=[-1])])
    arrays = [np.array([[1e4, 9999]], np.float32), np.array([[-1e4, -np.inf]], np.float32)]
    got = outputs(whole(graph), graph, arrays)["red:0"]
    np.testing.assert_allclose(got, _softmax(np.array([[1e4, 9999, -1e4, -np.inf]])), rtol=1e-6)


def test_what_a_reduction_makes_is_split() -> None:
    """x - sum(x) in two unequal parts of the rows: the sums of each part are in its nest."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.op("Neg", b.data((5, 8)), name="n")
        y = b.op("Sub", x, reduced(b, "ReduceSum", x, [1], "sum", True), name="sub")
        return [b.op("Exp", p, name=f"e{i}") for i, p in enumerate(split(b, y, [2, 3], 0))]

    graph = made_of(make)
    made = whole(graph)
    assert transfers(made) == [
        ["a0:2 a2:8", "in0[8*a0 + a2]", "out0[8*a0 + a2]"],
        ["a1:3 a2:8", "in0[8*a1 + a2 + 16]", "out1[8*a1 + a2]"],
    ]
    check_values(graph, made, run_nodes(graph, [numbers((5, 8))]), ulps=1)


def test_sums_as_a_part() -> None:
    """cat(sum(x), y) of one column each."""

    def make(b: GraphBuilder) -> list[str]:
        total = reduced(b, "ReduceSum", b.data((3, 8)), [1], "sum", True)
        return [b.op("Neg", cat(b, [total, b.data((3, 1))], 1), name="n")]

    graph = made_of(make)
    made = whole(graph)
    assert transfers(made) == [["a0:3 a1:8", "in0[8*a0 + a1]", "out0[2*a0]"], ["a0:3", "in1[a0]", "out0[2*a0 + 1]"]]
    check_values(graph, made, run_nodes(graph, [numbers((3, 8)), numbers((3, 1), 1)]))


# ---- what models do ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("packed", ["columns", "heads"])
def test_query_key_value(packed: str) -> None:
    """(B, S, 3*H*D) with a bias, split, each as (B, H, S, D); or as (B, S, H, 3*D), split in every head."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.op("Add", b.data((2, 5, 24)), b.data((24,)), name="bias")
        if packed == "columns":
            parts = [reshaped(b, p, (2, 5, 2, 4)) for p in split(b, x, [8, 8, 8], 2)]
        else:
            parts = split(b, reshaped(b, x, (2, 5, 2, 12)), [4, 4, 4], 3)
        return [b.op("Muls", turned(b, p, (0, 2, 1, 3)), name=f"m{i}", value=2.0) for i, p in enumerate(parts)]

    graph = made_of(make)
    made = whole(graph)
    (nest,) = transfers(made)
    step, head = (8, 4) if packed == "columns" else (4, 12)
    assert nest[0] == "a0:2 a1:5 a2:2 a3:4"
    for i in range(3):
        shift = f" + {step * i}" if i else ""
        assert nest[1 + 2 * i : 3 + 2 * i] == [
            f"in0[120*a0 + 24*a1 + {head}*a2 + a3{shift}]",
            f"in1[{head}*a2 + a3{shift}]",
        ]
        assert nest[7 + i] == f"out{i}[40*a0 + 4*a1 + 20*a2 + a3]"
    check_values(graph, made, run_nodes(graph, [numbers((2, 5, 24)), numbers((24,), 1)]))


def _rope_halves(b: GraphBuilder, x: str, cos: str, sin: str, dtype: DType) -> str:
    low, high = sliced(b, x, 3, 0, 4), sliced(b, x, 3, 4, 8)
    turned_half = cat(b, [b.op("Neg", high), low], 3)
    return b.op("Add", b.op("Mul", x, cos), b.op("Mul", turned_half, sin), name="y")


def _rope_pairs(b: GraphBuilder, x: str, cos: str, sin: str, dtype: DType) -> str:
    even, odd = sliced(b, x, 3, 0, 8, 2), sliced(b, x, 3, 1, 8, 2)
    c, s = sliced(b, cos, 1, 0, 8, 2), sliced(b, sin, 1, 0, 8, 2)
    first = b.op("Sub", b.op("Mul", even, c), b.op("Mul", odd, s))
    second = b.op("Add", b.op("Mul", odd, c), b.op("Mul", even, s))
    return reshaped(b, b.op("Pack", first, second, axis=-1, N=2), (2, 3, 4, 8), name="y")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("rope", [_rope_halves, _rope_pairs])
def test_rotation(rope: Callable[..., str], dtype: DType, inside: bool) -> None:
    """One loop over half of each row, both halves (or the pair) in it; x may be made in the kernel."""
    b = GraphBuilder()
    x, cos, sin = b.data((2, 3, 4, 8), dtype), b.data((4, 8), dtype), b.data((4, 8), dtype)
    source = b.op("Neg", x, name="n") if inside else x
    b.output(rope(b, source, cos, sin, dtype))
    graph = graph_of(b)
    made = whole(graph)
    (nest,) = transfers(made)
    assert nest[0] == "a0:2 a1:3 a2:4 a3:4"
    reads = [line for line in nest if line.startswith("in0")]
    if rope is _rope_halves:
        assert reads == ["in0[96*a0 + 32*a1 + 8*a2 + a3]", "in0[96*a0 + 32*a1 + 8*a2 + a3 + 4]"]
    else:
        assert reads == ["in0[96*a0 + 32*a1 + 8*a2 + 2*a3]", "in0[96*a0 + 32*a1 + 8*a2 + 2*a3 + 1]"]
    arrays = [numbers(s, i, dtype.numpy) for i, s in enumerate([(2, 3, 4, 8), (4, 8), (4, 8)])]
    check_values(graph, made, run_nodes(graph, arrays), ulps=0 if dtype == F32 else 2)


@pytest.mark.parametrize("rows", [3, "s0"])
def test_gate(rows: int | str) -> None:
    """silu(a) * b of the halves of x + bias."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.op("Add", b.data((3 if rows == 3 else -1, 16)), b.data((16,)), name="bias")
        gate, up = split(b, x, [8, 8], 1)
        return [b.op("Mul", b.op("Swish", gate, scale=1.0), up, name="y")]

    graph = made_of(make, d0=(rows, 16))
    made = whole(graph)
    assert transfers(made) == [
        [f"a0:{rows} a1:8", "in0[16*a0 + a1]", "in1[a1]", "in0[16*a0 + a1 + 8]", "in1[a1 + 8]", "out0[8*a0 + a1]"]
    ]
    check_values(graph, made, run_nodes(graph, [numbers((3, 16)), numbers((16,), 1)], {"s0": 3}))


def test_norms_of_packed_heads() -> None:
    """q, k, v of one tensor (B, S, 3, D), each normalised: one loop, every row read once."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.op("Add", b.data((2, 5, 3, 8)), b.data((8,)), name="bias")
        return [
            b.op("RmsNorm", u, b.data((8,)), outputs=2, epsilon=1e-6, name=f"n{i}")
            for i, u in enumerate(unbound(b, x, 3, 2))
        ]

    graph = made_of(make)
    made = whole(graph)
    (nest,) = transfers(made)
    assert nest[0] == "a0:2 a1:5 a2:8" and sum(line.startswith("in0") for line in nest) == 3
    arrays = [numbers(s, i) for i, s in enumerate([(2, 5, 3, 8), *[(8,)] * 4])]
    check_values(graph, made, run_nodes(graph, arrays), ulps=1)


# ---- one over another ----------------------------------------------------------------------------------------------
CHAINS: list[tuple[str, Callable[[GraphBuilder, str], str], int]] = [
    ("slice of slice", lambda b, x: sliced(b, sliced(b, x, 1, 1), 1, 1, 3), 1),
    ("slice of concat", lambda b, x: sliced(b, cat(b, [x, b.op("Neg", x)], 1), 1, 3, 9), 1),
    ("concat of slices", lambda b, x: cat(b, [sliced(b, x, 1, 3), sliced(b, x, 1, 0, 3)], 1), 1),
    ("roll", lambda b, x: cat(b, [sliced(b, x, 1, 4), sliced(b, x, 1, 0, 4)], 1), 2),
    ("concat of turned", lambda b, x: cat(b, [turned(b, x, (1, 0)), b.data((2, 4))], 0), 2),
    ("rows of concat", lambda b, x: reshaped(b, cat(b, [x, x], 0), (2, 4, 6)), 1),
    ("pad of pad", lambda b, x: padded(b, padded(b, x, [(1, 0), (0, 0)]), [(0, 0), (0, 1)]), 4),
    ("slice of pad", lambda b, x: sliced(b, padded(b, x, [(0, 0), (1, 1)]), 1, 1, 7), 1),
    ("pack of unpacked", lambda b, x: b.op("Pack", *unbound(b, x, 4, 0)[::-1], axis=0, N=4), 1),
    ("shift", lambda b, x: b.op("Sub", sliced(b, x, 1, 2), sliced(b, x, 1, 0, 4)), 1),
    ("both ways", lambda b, x: b.op("Add", sliced(b, x, 1, 0, 5), sliced(b, x, 1, 0, 1)), 1),
]


@pytest.mark.parametrize(("name", "make", "nests"), CHAINS, ids=[c[0] for c in CHAINS])
def test_movement_of_movement(name: str, make: Callable[[GraphBuilder, str], str], nests: int) -> None:
    b = GraphBuilder()
    x = b.op("Abs", b.data((4, 6)), name="abs")
    b.output(b.op("Exp", make(b, x), name="exp"))
    graph = graph_of(b)
    made = whole(graph)
    assert len(made.kernel.nests) == nests, transfers(made)
    check_values(graph, made, run_nodes(graph, [numbers((4, 6)), numbers((2, 4), 1)]))


def _column_of(b: GraphBuilder) -> list[str]:
    """A row's axis of 2 beside a dim of 6 that a concat cuts into parts, the first of which is that axis."""
    v, w = b.data((2,)), b.data((4, 2, 6))
    s = sliced(b, v, 0, 1, name="s")
    triple = cat(b, [s, s, s], 0)
    joined = cat(b, [v, triple, s], 0)
    return [b.op("Maximum", w, s, name="max"), b.op("Neg", triple, name="t"), b.op("Sub", joined, joined, name="sub")]


def _outer_of_joined(b: GraphBuilder) -> list[str]:
    """x and y as rows of one tensor and as the two dims of another."""
    x, y = b.op("Neg", b.data((3,)), name="x"), b.op("Neg", b.data((3,)), name="y")
    outer = b.op("Add", reshaped(b, x, (3, 1)), y, name="outer")
    return [outer, b.op("Abs", reshaped(b, cat(b, [x, y], 0), (2, 3)), name="rows")]


@pytest.mark.parametrize("make", [_column_of, _outer_of_joined])
def test_axes_that_one_tensor_has_both_of_stay_two(make: Callable[[GraphBuilder], list[str]]) -> None:
    graph = made_of(make)
    shapes = [tuple(int(d) for d in graph.info(n.outputs[0]).shape or ()) for n in graph.inputs_of_type("Data")]
    values = run_nodes(graph, [numbers(s, i) for i, s in enumerate(shapes)])
    made: Any = lower(graph, *worked(graph))
    if isinstance(made, Reason):
        assert made.code in ("AF205", "AF210", "AF211")
    else:
        check_values(graph, made, values)
    planned = plan_of(graph)
    assert groups(planned)
    check_plan(graph, planned, values)


def test_an_axis_of_very_many_elements_apart() -> None:
    """More than a tensor may have parts: refused, however deep the cuts would nest."""
    b = GraphBuilder()
    y = b.op("Neg", b.data((3, 600)))
    elements = unbound(b, y, 600, 1)
    b.output(y, *elements, b.op("Maximum", elements[0], elements[300], name="last"))
    made = fused(b)
    assert made.report.rolled_back is None and "last" not in {n for f in made.report.fused for n in f.nodes}
