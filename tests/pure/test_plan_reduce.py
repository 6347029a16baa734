"""Random graphs with reductions and norms between elementwise ops: every group computes what its nodes do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ge_build import GraphBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_build import ALL, barrier, edges_of_groups, graph_of, groups, has_cycle, numbers, plan_of, priced, run_nodes

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import lower_group
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.schedule import ub

Shape = tuple[int, ...]


def _reduced(shape: Shape, axes: list[int], keep: bool) -> Shape:
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)


@st.composite
def graphs_with_reductions(draw: st.DrawFn) -> Graph:
    b = GraphBuilder()
    menu: list[Shape] = [(4, 6), (6,), (4, 1), (3, 4, 6), (24,), (4, 4)]
    tensors = [(b.data(s), s) for s in menu]
    for i in range(draw(st.integers(4, 16))):
        x, shape = draw(st.sampled_from(tensors[-5:] if draw(st.booleans()) else tensors))
        kind = draw(
            st.sampled_from(["unary", "binary", "binary", "reduce", "softmax", "view", "barrier", "repeat", "ones"])
        )
        if kind == "reduce" and shape:
            axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
            keep = draw(st.booleans())
            op = draw(st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMean"]))
            made = b.op(op, x, b.const(sorted(axes)), name=f"op{i}", keep_dims=keep)
            tensors.append((made, _reduced(shape, axes, keep)))
        elif kind == "softmax" and len(shape) >= 2:
            axis = draw(st.sampled_from([-1, len(shape) - 2]))
            tensors.append((b.op("SoftmaxV2", x, name=f"op{i}", axes=[axis], half_to_float=False), shape))
        elif kind == "repeat" and shape in ((4, 1), (6,), (1, 6)):
            tensors.append((b.op("BroadcastTo", x, b.const([4, 6]), name=f"op{i}"), (4, 6)))
        elif kind == "ones":
            tensors.append((b.op("OnesLike", x, name=f"op{i}"), shape))
        elif kind == "barrier" and shape:
            tensors.append((barrier(b, x), shape))
        elif kind == "view" and shape == (4, 6):
            tensors.append((b.op("Reshape", x, b.const([24]), name=f"op{i}"), (24,)))
        elif kind == "view" and shape == (24,):
            tensors.append((b.op("Reshape", x, b.const([4, 6]), name=f"op{i}"), (4, 6)))
        elif kind == "unary":
            tensors.append((b.op(draw(st.sampled_from(["Neg", "Sigmoid", "Relu"])), x, name=f"op{i}"), shape))
        else:
            fitting = [t for t in tensors if _broadcasts(t[1], shape)]
            y, other = draw(st.sampled_from(fitting))
            tensors.append((b.op("Sub", x, y, name=f"op{i}"), np.broadcast_shapes(shape, other)))
    b.output(*dict.fromkeys(t for t, _ in tensors[len(menu) :]))
    return graph_of(b)


def _broadcasts(a: Shape, b: Shape) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 3
    except ValueError:
        return False


@settings(max_examples=30, deadline=None, derandomize=True)
@given(graphs_with_reductions(), st.sampled_from([None, 3, 5]), st.integers(1, 3))
def test_random_graphs_with_reductions(graph: Graph, size: int | None, threshold: int) -> None:
    made = plan_of(graph, max_fusion_size=size, recomputation_threshold=threshold)
    assert groups(made) == groups(plan_of(graph, max_fusion_size=size, recomputation_threshold=threshold))
    assert not has_cycle(edges_of_groups(graph, made))
    shapes = [tuple(graph.info(n.outputs[0]).shape or ()) for n in graph.inputs_of_type("Data")]
    values = run_nodes(graph, [numbers(s, i) for i, s in enumerate(shapes)])
    for group in made.groups:
        lowered = lower_group(graph, group, ALL)
        assert isinstance(lowered, Lowered), lowered
        results = interpret(lowered.kernel, [values[str(r)] for r in lowered.inputs])
        for p, ref in zip(lowered.kernel.outputs, lowered.outputs):
            expected = values[str(ref)]
            assert results[p.name].shape == expected.shape
            # sums over merged axes may be taken in another order
            scale = np.abs(expected).max(initial=1.0)
            np.testing.assert_allclose(results[p.name], expected, rtol=1e-5, atol=1e-5 * scale, err_msg=str(ref))


def test_a_long_chain_of_reductions_is_cut_without_placing_what_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """In passes over tiles each reduction computes all before it again: thousands of buffers for 56 places."""
    b = GraphBuilder()
    x = b.data((16, 8192))
    means = []
    for _ in range(60):
        means.append(b.op("ReduceMean", x, b.const([1]), keep_dims=True))
        x = b.op("Exp", b.op("Sub", x, means[-1]))
    b.output(x, *means)
    looks = 0
    apart = ub._apart

    def counted(*args: Any) -> bool:
        nonlocal looks
        looks += 1
        return apart(*args)

    monkeypatch.setattr(ub, "_apart", counted)
    made, _ = priced(graph_of(b))
    assert sum(len(g.nodes) for g in made.groups) > 100 and looks < 1_000_000
