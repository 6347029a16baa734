"""Small kernels side by side: which are joined, that they compute the same, and what keeps others apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from ge_build import GraphBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_build import (
    ALL,
    barrier,
    check_values,
    edges_of_groups,
    fused,
    graph_of,
    has_cycle,
    numbers,
    plan_of,
    priced,
    run_nodes,
)

from benchmarks.captured import case
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import OpMaker
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan import memory
from torchair_autofuse.plan.alias import Writes
from torchair_autofuse.plan.contraction import of_groups
from torchair_autofuse.plan.group import Group
from torchair_autofuse.plan.memory import FLOOR, SHARE, Memory, peak_bytes
from torchair_autofuse.plan.plan import Plan


def names_of(made: Plan) -> list[set[str]]:
    return [{n.name for n in g.nodes} for g in made.groups]


def chains(*shapes: Sequence[int], length: int = 2) -> GraphBuilder:
    """A chain of ``length`` ops on an input of each shape, none of which depends on another."""
    b = GraphBuilder()
    ends = []
    for k, shape in enumerate(shapes):
        x = b.data(shape)
        for i in range(length):
            x = b.op(("Neg", "Abs", "Exp")[(k + i) % 3], x, name=f"c{k}_{i}")
        ends.append(x)
    b.output(*ends)
    return b


def check(graph: Graph, made: Plan, maker: OpMaker, inputs: Sequence[np.ndarray]) -> None:
    """Every group computes what its nodes do, and the plan closes no cycle."""
    values = run_nodes(graph, inputs)
    for group in made.groups:
        op = maker.make(group)
        assert not isinstance(op, Reason), op
        check_values(graph, op.lowered, values)
    assert not has_cycle(edges_of_groups(graph, made))


def test_unlike_chains_become_one_op() -> None:
    shapes = [(8, 16), (100,), (3, 5, 7)]
    b = chains(*shapes)
    graph = graph_of(b)
    made, maker = priced(graph)
    assert len(made.groups) == 1 and len(made.groups[0].parts) == 3
    check(graph, made, maker, [numbers(s, k) for k, s in enumerate(shapes)])
    result = fused(b)
    assert (result.report.kernels_before, result.report.kernels_after) == (6, 1)
    (op,) = result.report.fused
    assert op.template == "sequence" and set(op.nodes) == {f"c{k}_{i}" for k in range(3) for i in range(2)}
    assert op.predicted_us is not None and op.predicted_us < (op.predicted_us_alone or 0)


def test_single_kernels_are_joined_too() -> None:
    shapes = [(8, 16), (100,)]
    graph = graph_of(chains(*shapes, length=1))
    made, maker = priced(graph)
    assert names_of(made) == [{"c0_0", "c1_0"}]
    check(graph, made, maker, [numbers(s, k) for k, s in enumerate(shapes)])


def test_a_shared_input_is_one_param() -> None:
    b = GraphBuilder()
    x, v = b.data((4, 128)), b.data((128,))
    b.output(b.op("Add", x, v), b.op("Exp", v))
    graph = graph_of(b)
    made, maker = priced(graph)
    (group,) = made.groups
    op = maker.make(group)
    assert not isinstance(op, Reason) and len(op.lowered.inputs) == 2 and len(op.lowered.outputs) == 2
    check(graph, made, maker, [numbers((4, 128)), numbers((128,), 1)])


def test_what_depends_on_each_other_stays_apart() -> None:
    b = GraphBuilder()
    x = b.data((64,))
    first = b.op("Neg", b.op("Abs", x))
    middle = barrier(b, first)
    b.output(b.op("Exp", b.op("Neg", middle)), first)
    made, _ = priced(graph_of(b))
    assert len(made.groups) == 2 and not any(g.parts for g in made.groups)


def test_large_kernels_stay_apart() -> None:
    made, _ = priced(graph_of(chains((4096, 1024), (1 << 21,))))
    assert len(made.groups) == 2


def test_scopes_and_the_size_limit_keep_ops_apart() -> None:
    graph = graph_of(chains((64,), (8, 16)))
    assert len(priced(graph, ALL.replace(max_fusion_size=3))[0].groups) == 2
    b = chains((64,), (8, 16))
    for op in b.graph.op:
        if op.name.startswith("c1"):
            op.attr["_user_stream_label"].s = b"other"
    assert len(priced(graph_of(b))[0].groups) == 2


def test_far_ops_stay_apart() -> None:
    b = GraphBuilder()
    x, y = b.data((64,)), b.data((8, 16))
    b.op("Neg", b.op("Abs", x, name="near"))
    ends = [b.op("Neg", b.op("Abs", x))]
    z = b.data((16, 16))
    for _ in range(40):
        z = barrier(b, z)
    ends.append(b.op("Exp", b.op("Abs", y)))
    b.output(*ends, z)
    assert not any(g.parts for g in priced(graph_of(b))[0].groups)


@pytest.mark.parametrize(("size", "apart"), [(FLOOR // 4 + 1024, True), (FLOOR // 4, False)])
def test_live_memory_may_grow_by_little(size: int, apart: bool) -> None:
    """The second chain's result would be there before the large tensors in between have come and gone."""
    b = GraphBuilder()
    small, other = b.data((64,)), b.data((size,))
    ends = [barrier(b, b.op("Neg", b.op("Abs", small)))]
    ends.append(barrier(b, barrier(b, b.data((2 * size,)))))
    ends.append(b.op("Cumsum", b.op("Neg", b.op("Abs", other)), ends[1]))
    b.output(ends[0], ends[2])
    graph = graph_of(b)
    made, _ = priced(graph)
    refused = [r for r in made.refusals if r.code == "AF224"]
    assert bool(refused) == apart == (len(made.groups) == 2)
    if refused:
        assert "predicted" in refused[0].reason and "bytes instead of" in refused[0].reason


def test_peak_of_live_bytes() -> None:
    b = GraphBuilder()
    x = b.data((256,))
    a = barrier(b, x)  # 1024 bytes, read by two
    c = barrier(b, a)
    d = b.op("Add", a, c)
    b.output(d)
    graph = graph_of(b)
    blocks = of_groups(graph, [], Writes())
    assert peak_bytes(graph, blocks, {}) == 3 * 1024
    assert Memory(graph, blocks, {}).peak == 3 * 1024 and SHARE == 10


def test_the_fuel_counts_joined_ops() -> None:
    graph = graph_of(chains((64,), (8, 16), (1 << 22,), (1 << 22,)))
    whole, _ = priced(graph)
    assert len(whole.groups) >= 2
    for fuel in range(len(whole.groups) + 1):
        made, _ = priced(graph, ALL.replace(max_fusions=fuel))
        assert names_of(made) == names_of(whole)[:fuel]


def test_without_costs_nothing_is_joined() -> None:
    graph = graph_of(chains((64,), (8, 16)))
    assert len(plan_of(graph).groups) == 2


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_graphs(data: st.DataObject) -> None:
    """Small ops on tensors of several shapes, some depending on each other: values stay, no cycle closes."""
    b = GraphBuilder()
    shapes = [(8, 16), (5,), (3, 4, 2), (1,)]
    pools = {s: [b.data(s)] for s in shapes}
    for _ in range(data.draw(st.integers(4, 14))):
        shape = data.draw(st.sampled_from(shapes))
        pool = pools[shape]
        kind = data.draw(st.sampled_from(["Neg", "Abs", "Add", "Mul", "Maximum", "barrier", "sum"]))
        x = data.draw(st.sampled_from(pool))
        if kind == "barrier":
            pool.append(barrier(b, x))
        elif kind == "sum":
            pools[1,].append(b.op("ReduceSum", b.op("Reshape", x, b.const([1, -1])), b.const([1]), keep_dims=False))
        elif kind in ("Neg", "Abs"):
            pool.append(b.op(kind, x))
        else:
            pool.append(b.op(kind, x, data.draw(st.sampled_from(pool))))
    b.output(*(t for pool in pools.values() for t in pool[1:]))
    graph = graph_of(b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "FLOOR", data.draw(st.sampled_from([0, FLOOR])))
        made, maker = priced(graph)
    check(graph, made, maker, [numbers(s, k) for k, s in enumerate(shapes)])


@pytest.mark.parametrize("name", ["t5__static__g0", "train_bert__static__g1", "mixtral__static__g0"])
def test_captured_graphs_keep_their_peak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the share alone: these are small."""
    monkeypatch.setattr(memory, "FLOOR", 0)
    c = case.__wrapped__(name)  # not the plan that other tests share
    graph = c.simplified
    before = peak_bytes(graph, of_groups(graph, [], Writes()), c.context.hints)
    groups = [Group(m.lowered.nodes) for m in c.result.generated]
    after = peak_bytes(graph, of_groups(graph, groups, Writes()), c.context.hints)
    assert after <= before * (100 + SHARE) // 100
