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

from benchmarks import host_runs, inductor, models, planned_models, planners
from benchmarks.captured import ALL_PASSES, case
from benchmarks.exact import LIMIT, Planned, alone, best_plans, windows
from benchmarks.section import Settings, Unavailable
from benchmarks.side_by_side import NEAR, WINDOWS, measure, small_graphs
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
    best, costs = best_of(graph)
    assert sorted(best) == [1, 2, 3, 4, 5]
    (kernel,) = best[1].kernels
    assert kernel.nodes == tuple(n.name for n in graph.nodes if is_kernel(n, graph))
    assert kernel.gm_bytes == 2 * 64 * 64 * 4, "the input and the output once each"
    found = measure("chain", graph, {})
    assert found is not None and found.exact == best[1] == best[5] == found.planned["greedy"]
    assert found.cells() == [1, 32.768, best[1].ns / 1000] * 3
    assert best[1].ns < (costs.nodes.total_ns(graph.nodes) or 0)


def best_of(graph: Graph) -> tuple[dict[int, Planned], Costs]:
    costs, _ = costs_of(graph)
    best = best_plans(graph, candidates(graph, Context(), ALL), costs)
    assert best is not None
    return best, costs


def test_the_best_plan_keeps_the_rules() -> None:
    """With a barrier in between two kernels are the least that is possible, the barrier not counted."""
    b = GraphBuilder()
    x = b.data((64, 64))
    b.output(b.op("Exp", b.op("Neg", barrier(b, b.op("Exp", b.op("Neg", x))))))
    graph = graph_of(b)
    best, costs = best_of(graph)
    assert min(best) == 3 and best[5] == best[3]
    names = [n.name for n in graph.nodes if is_kernel(n, graph)]
    assert [k.nodes for k in best[3].kernels] == [(*names[:2],), (names[2],), (*names[3:],)]
    assert best[3].kernels[1] == alone(graph.by_name[names[2]], costs.nodes)
    assert best[3].ns == sum(k.ns for k in best[3].kernels)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_best_plan_has_every_kernel_once_and_in_order(data: st.DataObject) -> None:
    b = GraphBuilder()
    pool = [b.data((64, 300)), b.data((64, 300))]
    for _ in range(data.draw(st.integers(2, 6))):
        kind = data.draw(st.sampled_from(["Neg", "Exp", "Add", "barrier"]))
        x = data.draw(st.sampled_from(pool))
        pool.append(
            barrier(b, x) if kind == "barrier"
            else b.op(kind, x, *([data.draw(st.sampled_from(pool))] if kind == "Add" else []))
        )  # fmt: skip
    b.output(*pool[2:])
    graph = graph_of(b)
    best, costs = best_of(graph)
    names = [n.name for n in graph.nodes if is_kernel(n, graph)]
    times = [best[k].ns for k in sorted(best)]
    assert times == sorted(times, reverse=True)
    for most, made in best.items():
        assert made.count <= most
        assert sorted(n for k in made.kernels for n in k.nodes) == sorted(names)
        done: set[str] = set()
        for kernel in made.kernels:
            done |= set(kernel.nodes)
            read = {r.node for n in kernel.nodes for r in graph.by_name[n].inputs if r is not None}
            assert read & set(names) <= done
    assert best[len(names)].ns <= sum(costs.nodes.ns(n) or 0 for n in graph.nodes)


def test_too_many_kernels_for_the_exact_planner() -> None:
    b = GraphBuilder()
    x = b.data((4,))
    for _ in range(LIMIT + 1):
        x = b.op("Neg", x)
    b.output(x)
    graph = graph_of(b)
    with pytest.raises(ValueError, match=f"takes at most {LIMIT}"):
        best_of(graph)
    found = measure("long", graph, {})
    assert found is not None and not found.best and found.exact is None and found.cells()[-3:] == [None] * 3
    assert [(s.name, s.kernels) for s in small_graphs("long", graph, {})] == [("long 0", 8), ("long 1", 7)]
    cut = windows(graph, 5, candidates(graph, Context(), ALL))
    assert [sum(is_kernel(n, g) for n in g.nodes) for g in cut] == [5, 5, 5]


@pytest.mark.parametrize("name", ["bert__static__g0", "topk_gate__static__g0"])
def test_planners_are_near_the_best(name: str) -> None:
    found = small_graphs(name, case(name).simplified, {}, 2)
    assert len(found) == 2 < WINDOWS
    for planner in NAMES:
        ours = sum(w.planned[planner].ns for w in found)
        assert ours <= NEAR * sum(w.limit(planner, few=False) for w in found)


def test_rows_of_the_measure() -> None:
    table, best = planners.run(Settings(("alibi_attn__static",)))
    first, last = table.to_dict()["rows"]
    assert first["greedy kernels"] == first["partition kernels"] == last["greedy kernels"] < first["kernels"]
    (row,) = best.to_dict()["rows"]
    assert row["graph"] == first["graph"] and row["kernels"] == first["kernels"]
    for planner in NAMES:
        assert row[f"{planner} kernels"] == first[f"{planner} kernels"]
        assert row[f"{planner} KB"] == pytest.approx(1000 * first[f"{planner} MB"])
        assert row[f"{planner} us"] == pytest.approx(first[f"{planner} us"])
        assert row[f"{planner} : exact"] == pytest.approx(row[f"{planner} us"] / row["exact us"], abs=1e-3)
    assert row["exact kernels"] >= 1 and row["exact KB"] > 0
    assert any("greedy" in note and "met" in note for note in best.notes)


def test_rows_of_the_benchmark_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models are compared with the best plan as they are, larger ones by what is cut out of them."""

    def measured(backend: str, settings: Settings, models: str) -> list[dict[str, object]]:
        error = {"label": "LLaMA block float16", "kernels": None, "error": "no schedule"}
        return [{"label": "hard swish float32", "kernels": 1, "error": ""}, error]

    def captured(model: models.Model, dtype: object) -> object:
        if dtype == models.BF16:
            return host_runs.Failure("hard swish bfloat16", "no luck")
        return fuse(large if model.name == "LLaMA block" else b.model, FusionContext(), ALL_PASSES)

    large, b = captured_blocks(30), GraphBuilder()
    b.output(b.op("Exp", b.op("Neg", b.data((64, 64)))))
    monkeypatch.setattr(inductor, "measure", measured)
    monkeypatch.setattr(planned_models, "captured", captured)
    (table,), cut = planned_models.sections(Settings(("hard swish", "LLaMA block")))
    rows = {row["model"]: row for row in table.to_dict()["rows"]}
    assert len(rows) == 3 + 4
    good, failed, block = (rows[n] for n in ("hard swish float32", "hard swish bfloat16", "LLaMA block float16"))
    assert (good["kernels"], good["greedy kernels"], good["exact kernels"], good["greedy : exact"]) == (2, 1, 1, 1)
    assert (good["GPU"], good["ok"], failed["greedy kernels"], failed["ok"]) == (1, True, None, False)
    assert (block["exact us"], block["GPU"], block["ok"]) == (None, None, None) and block["greedy us"] > 0
    assert "hard swish bfloat16: no luck" in table.notes and "LLaMA block float16: Inductor: no schedule" in table.notes
    assert table.notes[-1].endswith("1 of 2 (target all: MISSED); more: hard swish bfloat16")
    assert {s.name.rsplit(" ", 1)[0] for s in cut} == {"LLaMA block float32", "LLaMA block float16"}


def test_without_torchair_the_models_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(settings: Settings) -> object:
        raise Unavailable("no TorchAir")

    monkeypatch.setattr(planned_models, "sections", unavailable)
    _, table, _ = planners.run(Settings(("alibi_attn__static",)))
    assert table.notes == ("not measured: no TorchAir",) and table.rows == ()


# ---- large graphs ---------------------------------------------------------------------------------------------------


def test_captured_blocks() -> None:
    model = captured_blocks(700)
    graph = infer(read(model))
    assert len(graph.nodes) >= 700 and len(graph.by_name) == len(graph.nodes)
    indices = [n.attrs["index"] for n in graph.inputs_of_type("Data")]
    assert sorted(indices) == list(range(len(indices)))  # type: ignore[type-var]
    alone = fuse(captured_blocks(1), FusionContext(), ALL_PASSES.replace(strict=False)).report
    assert alone.kernels_after < alone.kernels_before
