"""Both planners and the exact one: what they agree on, and how far both are from the best."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ge_build import GraphBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_build import (
    ALL,
    barrier,
    check_plan,
    edges_of_groups,
    graph_of,
    groups,
    has_cycle,
    numbers,
    plan_of,
    run_nodes,
)

from benchmarks import planners
from benchmarks.captured import ALL_PASSES, case
from benchmarks.exact import LIMIT, best_ns, windows
from benchmarks.planners import measure, small_graphs
from benchmarks.synthetic import captured_blocks
from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.generated import OpMaker
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Costs
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import PLANNERS, candidates
from torchair_autofuse.soc.chip import Chip, chip

NAMES = tuple(PLANNERS)


def target() -> Chip:
    found = chip()
    assert isinstance(found, Chip)
    return found


def costs_of(graph: Graph) -> tuple[Costs, OpMaker]:
    maker = OpMaker(graph, target(), ALL)
    return Costs(NodeCosts(graph, {}, target()), lambda group: maker.predict(group, {})), maker


def test_names_are_those_of_the_options() -> None:
    for name in NAMES:
        assert Options(planner=name).planner == name
    with pytest.raises(ValueError, match="'greedy' or 'partition'"):
        Options(planner="exact")


@pytest.mark.parametrize("planner", NAMES)
def test_a_chain_is_one_op(planner: str) -> None:
    b = GraphBuilder()
    x = b.data((64, 64))
    for i in range(6):
        x = b.op(("Neg", "Abs", "Exp")[i % 3], x, name=f"n{i}")
    b.output(x)
    assert groups(plan_of(graph_of(b), planner=planner)) == [[f"n{i}" for i in range(6)]]


def test_the_queue_merges_what_others_read_too() -> None:
    b = GraphBuilder()
    wide = b.op("Neg", b.data((1 << 20, 2)), name="wide")
    mid = b.op("Add", wide, b.op("Exp", b.data((1 << 20, 1)), name="thin"), name="mid")
    b.output(barrier(b, wide), mid)
    assert groups(plan_of(graph_of(b), planner="partition")) == [["wide", "thin", "mid"]]


def test_refusals_of_the_queue_are_those_of_the_rules() -> None:
    b = GraphBuilder()
    x = b.data((64,))
    a = b.op("Neg", x, name="a")
    b.output(b.op("Add", a, barrier(b, a), name="b"))
    for planner in NAMES:
        found = {(r.node, r.other, r.code) for r in plan_of(graph_of(b), planner=planner).refusals}
        assert ("a", "b", "AF206") in found


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_graphs_by_the_queue(data: st.DataObject) -> None:
    b = GraphBuilder()
    shape = (4, 6)
    pool = [b.data(shape), b.data(shape)]
    for _ in range(data.draw(st.integers(3, 12))):
        kind = data.draw(st.sampled_from(["Neg", "Abs", "Add", "Mul", "barrier", "sum"]))
        x = data.draw(st.sampled_from(pool))
        if kind == "barrier":
            pool.append(barrier(b, x))
        elif kind == "sum":
            total = b.op("ReduceSum", x, b.const([1]), keep_dims=True)
            pool.append(b.op("Add", x, total))
        else:
            pool.append(b.op(kind, x, *([data.draw(st.sampled_from(pool))] if kind in ("Add", "Mul") else [])))
    b.output(*pool[2:])
    graph = graph_of(b)
    made = plan_of(graph, planner="partition")
    check_plan(graph, made, run_nodes(graph, [numbers(shape), numbers(shape, 1)]))
    assert not has_cycle(edges_of_groups(graph, made))


def test_equal_plans_in_every_process() -> None:
    script = (
        "from benchmarks import graphs; from benchmarks.captured import ALL_PASSES, context; "
        "from torchair_autofuse.pipeline import fuse; n = 'topk_gate__static__g0'\n"
        f"for p in {NAMES}:\n"
        "    r = fuse(graphs.model_def(n), context(n), ALL_PASSES.replace(planner=p)).report\n"
        "    print([(f.op_type, f.nodes, f.predicted_us) for f in r.fused], r.refused)"
    )
    path = os.pathsep.join(sys.path)
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1 and "".join(texts)


# ---- the exact planner ----------------------------------------------------------------------------------------------


def test_the_best_plan_of_a_chain_is_one_kernel() -> None:
    b = GraphBuilder()
    x = b.data((64, 64))
    for i in range(5):
        x = b.op("Neg" if i % 2 else "Exp", x)
    b.output(x)
    graph = graph_of(b)
    costs, _ = costs_of(graph)
    assert costs.predict is not None
    names = candidates(graph, Context(), ALL)
    best = best_ns(graph, names, costs.nodes, costs.predict)
    assert best is not None and sorted(best) == [1, 2, 3, 4, 5]
    assert best[1] == best[5] == measure("chain", graph, {}).planned["greedy"][1]  # type: ignore[union-attr]
    assert best[1] < (costs.nodes.total_ns(n for n in graph.nodes if is_kernel(n, graph)) or 0)


def test_the_best_plan_keeps_the_rules() -> None:
    """With a barrier in between two kernels are the least that is possible, the barrier not counted."""
    b = GraphBuilder()
    x = b.data((64, 64))
    b.output(b.op("Exp", b.op("Neg", barrier(b, b.op("Exp", b.op("Neg", x))))))
    graph = graph_of(b)
    costs, _ = costs_of(graph)
    assert costs.predict is not None
    best = best_ns(graph, candidates(graph, Context(), ALL), costs.nodes, costs.predict)
    assert best is not None and min(best) == 3 and best[5] == best[3]


def test_too_many_kernels_for_the_exact_planner() -> None:
    b = GraphBuilder()
    x = b.data((4,))
    for _ in range(LIMIT + 1):
        x = b.op("Neg", x)
    b.output(x)
    graph = graph_of(b)
    costs, _ = costs_of(graph)
    assert costs.predict is not None
    with pytest.raises(ValueError, match=f"takes at most {LIMIT}"):
        best_ns(graph, [], costs.nodes, costs.predict)
    cut = windows(graph, 5, candidates(graph, Context(), ALL))
    assert [sum(is_kernel(n, g) for n in g.nodes) for g in cut] == [5, 5, 5]


@pytest.mark.parametrize("name", ["bert__static__g0", "topk_gate__static__g0"])
def test_planners_are_near_the_best(name: str) -> None:
    found = small_graphs(case(name), 2)
    assert found
    for planner in NAMES:
        ours = sum(w.planned[planner][1] for w in found)
        assert ours <= planners.NEAR * sum(w.limit(w.planned[planner][0]) for w in found)


def test_rows_of_the_measure() -> None:
    table, best = planners.run(planners.Settings(("alibi_attn__static",)))
    first, last = table.to_dict()["rows"]
    assert first["greedy kernels"] == first["partition kernels"] == last["greedy kernels"] < first["kernels"]
    (row,) = best.to_dict()["rows"]
    assert row["greedy"] >= 0.99 and row["greedy : of all"] >= row["greedy"]
    assert any("greedy" in note and "met" in note for note in best.notes)


# ---- large graphs ---------------------------------------------------------------------------------------------------


def test_captured_blocks() -> None:
    model = captured_blocks(700)
    graph = infer(read(model))
    assert len(graph.nodes) >= 700 and len(graph.by_name) == len(graph.nodes)
    indices = [n.attrs["index"] for n in graph.inputs_of_type("Data")]
    assert sorted(indices) == list(range(len(indices)))  # type: ignore[type-var]
    alone = fuse(captured_blocks(1), FusionContext(), ALL_PASSES.replace(strict=False)).report
    assert alone.kernels_after < alone.kernels_before
