"""Planning of ops that move data: passes, siblings, slices copied into their readers, memory that is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from ge_build import GraphBuilder
from move_build import cat, padded, sliced, split, turned, unbound
from plan_build import (
    ALL,
    barrier,
    check_plan,
    codes,
    edges_of_groups,
    fused,
    graph_of,
    groups,
    has_cycle,
    numbers,
    plan_of,
    run_nodes,
)

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import lower_group
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.pipeline import FusionContext
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import Plan

INTO_0 = Context(ref_outputs=((0, 0),))
PASSES = ("concat", "split", "slice", "transpose", "gather", "reduce")
Make = Callable[[GraphBuilder], Sequence[str]]


def built(make: Make) -> Graph:
    b = GraphBuilder()
    b.output(*make(b))
    return graph_of(b)


def checked(graph: Graph, made: Plan) -> None:
    """Every group computes what its nodes do, and no two wait for each other."""
    shapes = [[int(d) for d in graph.info(n.outputs[0]).shape or ()] for n in graph.inputs_of_type("Data")]
    check_plan(graph, made, run_nodes(graph, [numbers(s, i) for i, s in enumerate(shapes)]), ulps=1)
    assert not has_cycle(edges_of_groups(graph, made))


def kernels(make: Make, ref_outputs: dict[int, int] | None = None) -> tuple[int, int]:
    """Kernels of the graph before and after."""
    b = GraphBuilder()
    b.output(*make(b))
    report = fused(b, FusionContext(ref_outputs=ref_outputs or {})).report
    return report.kernels_before, report.kernels_after


# ---- passes --------------------------------------------------------------------------------------------------------
def _exp(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("Exp", x, name="exp")]


GATED: list[tuple[str, str, Make]] = [
    ("Transpose", "transpose", lambda b: _exp(b, turned(b, b.data((4, 6)), (1, 0), name="op"))),
    ("TransposeD", "transpose", lambda b: _exp(b, b.op("TransposeD", b.data((4, 6)), name="op", perm=[1, 0]))),
    ("StridedSliceV2", "slice", lambda b: _exp(b, sliced(b, b.data((4, 6)), 1, 1, 4, name="op"))),
    ("Slice", "slice", lambda b: _exp(b, b.op("Slice", b.data((4,)), b.const([1]), b.const([2]), name="op"))),
    ("SliceD", "slice", lambda b: _exp(b, b.op("SliceD", b.data((4,)), name="op", offsets=[1], size=[2]))),
    ("ReverseV2", "slice", lambda b: _exp(b, b.op("ReverseV2", b.data((4,)), b.const([0]), name="op"))),
    ("SplitV", "split", lambda b: _exp(b, split(b, b.data((4, 6)), [2, 4], 1, name="op")[1])),
    ("SplitD", "split", lambda b: _exp(b, b.op("SplitD", b.data((4,)), outputs=2, name="op", split_dim=0))),
    ("Unpack", "split", lambda b: _exp(b, unbound(b, b.data((4, 6)), 6, 1, name="op")[2])),
    ("ConcatV2", "concat", lambda b: _exp(b, cat(b, [b.data((4,)), b.data((3,))], 0, name="op"))),
    ("ConcatD", "concat", lambda b: _exp(b, b.op("ConcatD", b.data((4,)), b.data((3,)), name="op", concat_dim=0))),
    ("Pack", "concat", lambda b: _exp(b, b.op("Pack", b.data((4,)), b.data((4,)), name="op", axis=0, N=2))),
    ("PadV3", "concat", lambda b: _exp(b, padded(b, b.data((4,)), [(1, 1)], name="op"))),
    ("GatherV2", "gather", lambda b: _exp(b, b.op("GatherV2", b.data((4, 6)), b.const(1), b.const(1), name="op"))),
]


@pytest.mark.parametrize(("kind", "name", "make"), GATED, ids=[g[0] for g in GATED])
def test_each_op_needs_its_pass(kind: str, name: str, make: Make) -> None:
    graph = built(make)
    assert groups(plan_of(graph, passes=frozenset([name]))) == [["op", "exp"]]
    made = plan_of(graph, passes=frozenset(PASSES) - {name})
    assert groups(made) == []
    (refusal,) = [r for r in made.refusals if r.node == "op"]
    assert (refusal.code, refusal.reason) == ("AF215", f"{kind} needs --autofuse_enable_pass={name}")


# ---- movement that no template serves --------------------------------------------------------------------------------
@pytest.mark.parametrize("columns", [1, 2])
def test_a_column_of_a_wide_tensor_stays_out_and_the_rest_fuses(columns: int) -> None:
    """x * 2 - x[:, :1]: the column is a step of 96 along the inner axis."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.data((64, 96))
        y = b.op("Exp", x, name="e")
        for i in range(columns):
            y = b.op("Sub", y, sliced(b, x, 1, i, i + 1, name=f"c{i}"), name=f"s{i}")
        return [y]

    b = GraphBuilder()
    b.output(*make(b))
    report = fused(b).report
    assert (report.kernels_before, report.kernels_after) == (1 + 2 * columns, 1 + columns)
    assert [sorted(op.nodes) for op in report.fused] == [["e", *(f"s{i}" for i in range(columns))]]
    assert {(r.node, r.other, r.code) for r in report.refused} == {(f"c{i}", "", "AF210") for i in range(columns)}


def test_movement_that_is_not_to_blame_stays_in() -> None:
    b = GraphBuilder()
    x, y = b.data((64, 96)), b.data((64, 100))
    e = b.op("Exp", sliced(b, y, 1, 4, name="good"), name="e")
    b.output(b.op("Sub", e, sliced(b, x, 1, 0, 1, name="bad"), name="s"))
    (op,) = fused(b).report.fused
    assert sorted(op.nodes) == ["e", "good", "s"]


# ---- siblings ------------------------------------------------------------------------------------------------------
def _rotated(b: GraphBuilder, x: str, cos: str, sin: str, name: str) -> str:
    low, high = sliced(b, x, 2, 0, 4, name=f"{name}l"), sliced(b, x, 2, 4, 8, name=f"{name}h")
    half = cat(b, [b.op("Neg", high, name=f"{name}n"), low], 2, name=f"{name}t")
    return b.op("Add", b.op("Mul", x, cos, name=f"{name}c"), b.op("Mul", half, sin, name=f"{name}s"), name=f"{name}y")


def _rotations(b: GraphBuilder, heads: tuple[int, int] = (2, 2), far: int = 0) -> list[str]:
    q, k = (b.data((h, 4, 8)) for h in heads)
    cos, sin = b.data((4, 8)), b.data((4, 8))
    first = _rotated(b, q, cos, sin, "q")
    for _ in range(far):
        k = barrier(b, k)
    return [first, _rotated(b, k, cos, sin, "k")]


def test_query_and_key_share_their_cosines() -> None:
    graph = built(_rotations)
    made = plan_of(graph)
    assert [sorted(g) for g in groups(made)] == [sorted(x + n for x in "qk" for n in "lhntcsy")]
    assert kernels(_rotations) == (14, 1)
    checked(graph, made)


def test_rotations_of_other_sizes_stay_apart() -> None:
    graph = built(lambda b: _rotations(b, (4, 2)))
    made = plan_of(graph)
    assert [len(g) for g in groups(made)] == [7, 7] and kernels(lambda b: _rotations(b, (4, 2))) == (14, 1)
    checked(graph, made)


def test_parts_of_a_split_that_go_different_ways_are_one_kernel() -> None:
    """The split has no output of its own to store."""

    def make(b: GraphBuilder) -> list[str]:
        q, k = split(b, b.data((4, 16)), [8, 8], 1, name="split")
        return [b.op("Exp", q, name="e"), b.op("Sin", k, name="s")]

    graph = built(make)
    made = plan_of(graph)
    assert groups(made) == [["split", "e", "s"]] and kernels(make) == (3, 1)
    checked(graph, made)


# ---- copies --------------------------------------------------------------------------------------------------------
MOVES: dict[str, Callable[[GraphBuilder, str], list[str]]] = {
    "slice": lambda b, x: [sliced(b, x, 1, 0, 8, name="op")],
    "step": lambda b, x: [sliced(b, x, 1, 0, 16, 2, name="op")],
    "split": lambda b, x: split(b, x, [8, 8], 1, name="op"),
    "turn": lambda b, x: [turned(b, x, (1, 0), name="op")],
}


def _readers(kind: str, inside: bool = False, more: bool = False) -> Make:
    """Three pairs of ops over different axes read what ``op`` gives; ``inside``: of a tensor that a group makes."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.data((4, 16))
        if inside:
            x = b.op("Exp", b.op("Sin", x, name="sin"), name="x")
        parts = MOVES[kind](b, x)
        shape = (16, 4) if kind == "turn" else (4, 8)
        ends = [
            b.op("Exp", b.op("Add", parts[i % len(parts)], b.data((i + 2, *shape)), name=f"a{i}"), name=f"e{i}")
            for i in range(3)
        ]
        return [*ends, *([barrier(b, parts[0])] if more else []), *([x] if inside else [])]

    return make


@pytest.mark.parametrize("kind", MOVES)
def test_another_way_to_index_memory_is_copied_into_every_reader(kind: str) -> None:
    """Whatever --recomputation_threshold: each reader loads from the tensor itself, and nothing is stored between."""
    make = _readers(kind)
    graph = built(make)
    made = plan_of(graph, recomputation_threshold=1)
    assert groups(made) == [["op", f"a{i}", f"e{i}"] for i in range(3)]
    assert sum("op" in g.copies for g in made.groups) == 2 and "AF220" not in {c for _, _, c in codes(made)}
    assert kernels(make) == (7, 1)  # the readers run side by side
    for group in made.groups:
        lowered = lower_group(graph, group, ALL)
        assert isinstance(lowered, Lowered) and "op" not in {r.node for r in (*lowered.inputs, *lowered.outputs)}
    checked(graph, made)


@pytest.mark.parametrize("kind", ["slice", "split", "turn"])
def test_what_others_read_too_is_made_once(kind: str) -> None:
    graph = built(_readers(kind, more=True))
    made = plan_of(graph)
    assert sum("op" in g for g in groups(made)) == 1 and all(not g.copies for g in made.groups)
    checked(graph, made)


def test_a_slice_of_what_a_group_makes_counts_as_a_value() -> None:
    graph = built(_readers("slice", inside=True))
    made = plan_of(graph)
    assert sum("op" in g for g in groups(made)) == 1
    checked(graph, made)


def test_the_report_counts_without_a_split_that_every_group_copies() -> None:
    """The split leaves the graph, while a transpose of one part of it is a node of a fused op."""

    def make(b: GraphBuilder) -> list[str]:
        x = b.data((3, 1, 3))
        zero = b.op("Sub", x, x, name="sub")
        low, high = split(b, x, [2, 1], 2, name="split")
        s = sliced(b, b.op("Add", zero, zero, name="add"), 2, 1, 2, name="s")
        joined = turned(b, cat(b, [s, high, s], 1, name="c"), (0, 2, 1), name="u")
        t = turned(b, low, (1, 0, 2), name="t")
        return [s, sliced(b, s, 0, 0, 1, name="v"), joined, padded(b, t, [(1, 0), (1, 1), (0, 0)], name="p")]

    before, after = kernels(make)
    assert before == 9 and after < before
    graph = built(make)
    checked(graph, plan_of(graph))


# ---- memory that is overwritten ------------------------------------------------------------------------------------
def _update_and_readers(b: GraphBuilder) -> list[str]:
    d = b.data((4, 8))
    s = sliced(b, d, 1, 0, 4, name="s")
    y = b.op("Muls", b.op("Exp", d, name="e"), name="y", value=2.0)
    ends = [b.op("Exp", b.op("Add", s, b.data((i + 2, 4, 4)), name=f"a{i}"), name=f"e{i}") for i in range(2)]
    return [y, *ends]


def test_a_slice_of_overwritten_memory_is_not_copied_behind_the_writer() -> None:
    graph = built(_update_and_readers)
    free, made = plan_of(graph), plan_of(graph, INTO_0)
    assert sorted(groups(free)) == [["e", "y"], ["s", "a0", "e0"], ["s", "a1", "e1"]]
    assert sorted(groups(made)) == [["a1", "e1"], ["e", "y"], ["s", "a0", "e0"]]
    assert not any(g.copies for g in made.groups)
    checked(graph, made)


@pytest.mark.parametrize("kind", ["slice", "split", "concat", "pad", "reverse"])
def test_a_window_of_an_overwritten_tensor_is_not_read_where_it_is_written(kind: str) -> None:
    """The op's result goes into d, of which it reads other elements than it writes."""

    def make(b: GraphBuilder) -> list[str]:
        d = b.data((4, 8))
        if kind == "reverse":
            return [b.op("Exp", b.op("ReverseV2", d, b.const([1]), name="r"), name="y")]
        if kind == "pad":
            part = sliced(b, d, 1, 0, 7, name="r")
            return [b.op("Exp", padded(b, part, [(0, 0), (1, 0)], name="p"), name="y")]
        if kind == "concat":
            other = b.data((4, 4))
            return [b.op("Add", d, cat(b, [other, sliced(b, d, 1, 0, 4, name="r")], 1, name="c"), name="y")]
        pair = [sliced(b, d, 1, 0, 4, name="r"), sliced(b, d, 1, 4, 8)] if kind == "slice" else []
        low, high = pair or split(b, d, [4, 4], 1, name="r")
        return [cat(b, [b.op("Exp", high, name="n"), low], 1, name="y")]

    graph = built(make)
    assert any({"r", "y"} <= set(g) for g in groups(plan_of(graph)))
    made = plan_of(graph, INTO_0)
    assert all(not {"r", "y"} <= set(g) for g in groups(made))
    assert "AF209" in {code for _, _, code in codes(made)}
    checked(graph, made)


def test_a_turned_tensor_goes_back_into_its_memory_only_unfused() -> None:
    def make(b: GraphBuilder) -> list[str]:
        return [b.op("Exp", turned(b, b.data((4, 4)), (1, 0), name="t"), name="y")]

    graph = built(make)
    assert groups(plan_of(graph)) == [["t", "y"]]
    made = plan_of(graph, INTO_0)
    assert groups(made) == [] and ("t", "y", "AF209") in codes(made)


def test_a_reader_of_a_slice_is_not_pulled_behind_the_writer() -> None:
    def make(b: GraphBuilder) -> list[str]:
        d = b.data((4, 8))
        z = b.op("Exp", sliced(b, d, 1, 0, 4, name="s"), name="z")
        y = b.op("Muls", d, name="y", value=2.0)
        return [y, b.op("Add", z, sliced(b, barrier(b, y), 1, 0, 4, name="v"), name="w")]

    graph = built(make)
    assert groups(plan_of(graph)) == [["s", "z", "v", "w"]]
    made = plan_of(graph, INTO_0)
    assert groups(made) == [["s", "z"], ["v", "w"]] and ("z", "w", "AF209") in codes(made)


# ---- kernels -------------------------------------------------------------------------------------------------------
def _gate(b: GraphBuilder) -> list[str]:
    gate, up = split(b, b.data((3, 16)), [8, 8], 1)
    return [b.op("Mul", b.op("Swish", gate, scale=1.0), up)]


def _heads(b: GraphBuilder) -> list[str]:
    x = b.op("Add", b.data((2, 5, 24)), b.data((24,)))
    parts = (b.op("Reshape", p, b.const([2, 5, 2, 4])) for p in split(b, x, [8, 8, 8], 2))
    return [turned(b, p, (0, 2, 1, 3)) for p in parts]


def _joined_softmax(b: GraphBuilder) -> list[str]:
    return [b.op("SoftmaxV2", cat(b, [b.op("Neg", b.data((3, 8))), b.data((3, 8))], 1), axes=[-1])]


def _shifted_mean(b: GraphBuilder) -> list[str]:
    x = padded(b, b.op("Abs", b.data((3, 8))), [(0, 0), (1, 0)])
    return [b.op("Add", sliced(b, x, 1, 0, 8), sliced(b, x, 1, 1, 9))]


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [(_gate, 3, 1), (_heads, 5, 1), (_joined_softmax, 3, 1), (_rotations, 14, 1), (_shifted_mean, 5, 1)],
)
def test_kernels(make: Make, before: int, after: int) -> None:
    assert kernels(make) == (before, after)
    graph = built(make)
    checked(graph, plan_of(graph))
