"""The measures of benchmarks/ on small graphs, and what they must find on the captured ones.

``pytest tests/pure/test_bench.py --update-golden`` writes golden/graph_kernels.json anew, for a better plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from ge_build import GraphBuilder
from traces import untraceable

from benchmarks import (
    MEASURES,
    block_models,
    blocks,
    determinism,
    graphs,
    inductor,
    movement,
    movement_models,
    seconds,
    small_cases,
    twin_profile,
    values,
)
from benchmarks.bound import upper_bound
from benchmarks.captured import ALL_PASSES, case
from benchmarks.host_runs import Failure, HostRun
from benchmarks.losses import NO_PROFIT, UNEXPLAINED, losses
from benchmarks.models import MODELS, Model
from benchmarks.section import Section, Settings, Unavailable, cell_text
from benchmarks.synthetic import BATCH, ROWS, WIDTH, transformer
from benchmarks.values import relative, ulps
from torchair_autofuse import bench
from torchair_autofuse.dtypes import F16, F32, I64
from torchair_autofuse.ge.catalogue import kernels
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.messages import Reason
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.report import FusedOp, FusionReport, Refusal
from torchair_autofuse.twin.launcher import ArgProfile, TwinProfile

GOLDEN = Path(__file__).parent / "golden" / "graph_kernels.json"
Build = Callable[[GraphBuilder, str], "list[str]"]


def _chain(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("Relu", b.op("Exp", b.op("Abs", x)))]


def _across_views(b: GraphBuilder, x: str) -> list[str]:
    flat = b.op("Unsqueeze", b.op("Reshape", b.op("Abs", x), b.const([32])), axes=[0])
    return [b.op("Relu", flat)]


def _casts_and_generators(b: GraphBuilder, x: str) -> list[str]:
    half = b.op("Cast", x, dst_type=F16.ge_c)
    wide = b.op("Cast", b.op("ZerosLike", half), dst_type=F32.ge_c)
    spread = b.op("BroadcastTo", b.op("Greater", wide, x), b.const([2, 4, 8]))
    return [b.op("SelectV2", spread, x, wide)]


def _no_op_cast(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("Abs", b.op("Cast", x, dst_type=F32.ge_c))]


def _around_a_product(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("Abs", x)
    product = b.op("MatMul", y, b.data((8, 8)), names=("x1", "x2"), transpose_x1=False, transpose_x2=False)
    return [b.op("Add", y, product)]


def _around_a_product_after_a_step(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("Abs", x)
    product = b.op("MatMul", y, b.data((8, 8)), names=("x1", "x2"), transpose_x1=False, transpose_x2=False)
    return [b.op("Add", b.op("Exp", y), product)]


def _diamond(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("Abs", x)
    return [b.op("Add", b.op("Exp", y), b.op("Relu", y))]


def _two_outputs(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("Abs", x)
    return [y, b.op("Exp", y)]


def _siblings(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("Abs", x), b.op("Exp", x)]


def _reduction(b: GraphBuilder, x: str) -> list[str]:
    total = b.op("ReduceSum", b.op("Abs", x), b.const([1]), names=("x", "axes"), keep_dims=True)
    return [b.op("Sub", x, total)]


def _dead(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("Abs", x)
    b.op("Exp", y)
    return [y]


def _folded(b: GraphBuilder, x: str) -> list[str]:
    return [b.op("Add", x, b.op("Exp", b.const(2.0, F32)))]


def _in_place(b: GraphBuilder, x: str) -> list[str]:
    y = b.op("Abs", x)
    return [b.op("AssignAdd", x, b.op("Exp", y))]


# what is built, live kernels before, at the bound
BOUNDS: list[tuple[Build, int, int]] = [
    (_chain, 3, 1),
    (_across_views, 2, 1),
    (_casts_and_generators, 6, 1),
    (_no_op_cast, 1, 1),
    (_around_a_product, 3, 3),
    (_around_a_product_after_a_step, 4, 3),
    (_diamond, 4, 1),
    (_two_outputs, 2, 1),
    (_siblings, 2, 2),
    (_reduction, 3, 3),
    (_dead, 1, 1),
    (_folded, 1, 1),
    (_in_place, 3, 2),
]


def _graph(build: Build) -> Graph:
    b = GraphBuilder()
    b.output(*build(b, b.data((4, 8))))
    return infer(b.read())


@pytest.mark.parametrize(("build", "before", "after"), BOUNDS, ids=[row[0].__name__ for row in BOUNDS])
def test_upper_bound(build: Build, before: int, after: int) -> None:
    graph = _graph(build)
    found = upper_bound(graph)
    inside = {name for group in found.groups for name in group}
    merged = len(inside) - len(found.groups)
    assert found.kernels == after
    assert found.kernels + merged == before
    assert all(a in inside and b in inside for a, b, _ in found.edges)
    assert set().union(*(views for _, _, views in found.edges), ()) <= {n.name for n in graph.nodes}


@pytest.mark.parametrize(("scope", "kernels_left"), [("pointwise", 4), ("reduce", 2), ("all", 1)])
def test_upper_bound_of_each_scope(scope: str, kernels_left: int) -> None:
    def build(b: GraphBuilder, x: str) -> list[str]:
        total = b.op("ReduceSum", b.op("Abs", x), b.const([1]), names=("x", "axes"), keep_dims=True)
        return [b.op("Transpose", b.op("Sub", x, total), b.const([1, 0]), names=("x", "perm"))]

    assert upper_bound(_graph(build), scope).kernels == kernels_left


def test_views_on_an_edge_are_named() -> None:
    (edge,) = upper_bound(_graph(_across_views)).edges
    assert [name.split("_")[0] for name in edge[2]] == ["Unsqueeze", "Reshape"]


def test_a_refused_merge_is_named_once_with_its_code() -> None:
    b = GraphBuilder()
    x, y = b.data((4, 8), I64), b.data((4, 8), I64)
    total = b.op("Mul", b.op("Mul", x, y), y)  # no vector instruction multiplies int64
    b.output(b.op("Abs", b.op("Cast", total, dst_type=F32.ge_c)))
    result = fuse(b.model, FusionContext(), ALL_PASSES)
    graph = infer(b.read())
    found = losses(graph, upper_bound(graph), result.report)
    assert [(loss.producer_type, loss.consumer_type) for loss in found] == [("Mul", "Mul"), ("Mul", "Cast")]
    assert {loss.code for loss in found} == {"AF202"}
    assert upper_bound(graph).kernels == 1
    assert result.report.kernels_after == 3


# -- captured graphs --------------------------------------------------------------------------------------------------
def _golden() -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(GOLDEN.read_text())
    return found


def test_golden_names(update_golden: bool) -> None:
    if update_golden:
        reports = {name: case(name).result.report for name in graphs.names()}
        rows = (f'  "{name}": [{r.kernels_before}, {r.kernels_after}]' for name, r in reports.items())
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    assert sorted(_golden()) == graphs.names()


@pytest.mark.parametrize("name", graphs.names())
def test_captured_graph(name: str) -> None:
    """Every group builds and verifies (``ALL_PASSES`` is strict); the kernels before and after are those on record."""
    found = case(name)
    report = found.result.report
    assert [report.kernels_before, report.kernels_after] == _golden()[name], "a better plan? see --update-golden above"
    assert report.kernels_after <= report.kernels_before
    fused = [node for op in report.fused for node in op.nodes]
    assert len(set(fused)) == len(fused), "a node in two fused ops"
    rewritten = read(found.result.model_def)
    types = [op.op_type for op in report.fused]
    assert sorted(n.type for n in rewritten.nodes if n.type.startswith("Autofuse")) == sorted(types)
    assert not set(fused) & {n.name for n in rewritten.nodes}
    assert untraceable(report) == [], "decisions without a rule and a number"


@pytest.mark.parametrize("name", graphs.names())
def test_what_is_lost_is_explained(name: str) -> None:
    found = case(name)
    bound = upper_bound(found.simplified)
    lost = losses(found.simplified, bound, found.result.report)
    assert found.result.report.kernels_after - bound.kernels <= len(lost)
    slower = [loss for loss in lost if loss.code == NO_PROFIT and loss.reason.startswith("one op would take")]
    assert not [loss for loss in lost if loss.code in (UNEXPLAINED, NO_PROFIT) and loss not in slower]


def test_static_graphs_without_gaps_reach_the_bound_nearly() -> None:
    names = graphs.names("static", gaps=False)
    after, bound = (
        sum(case(n).result.report.kernels_after for n in names),
        sum(upper_bound(case(n).simplified).kernels for n in names),
    )
    assert after <= 1.01 * bound


def test_hash_seed_changes_nothing() -> None:
    names = ["gemma2__static__g0", "sgd_clip__static__g0", "llama_bf16__dynamic__g0"]
    first, second = (determinism.digests(names, seed) for seed in determinism.SEEDS)
    assert first == second
    assert all(count > 1 for count, _ in first.values())


# -- the small models and their errors --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "group", [MODELS, block_models.MODELS, movement_models.MODELS], ids=["small", "blocks", "moves"]
)
def test_models_are_the_same_every_time_and_their_own_reference(group: tuple[Model, ...]) -> None:
    for model in group:
        for dtype in model.dtypes:
            first, second = model.make(dtype), model.make(dtype)
            assert all(torch.equal(a, b) for a, b in zip(first, second)), model.name
            exact = model.function(*(t.double() if t.is_floating_point() else t for t in first))
            got = model.function(*first)
            pairs = zip(got, exact) if isinstance(got, tuple) else [(got, exact)]
            for a, e in pairs:
                assert a.shape == e.shape
                assert e.dtype in (torch.float64, torch.bool)
                assert torch.allclose(a.double(), e.double(), rtol=0.05, atol=0.05), model.name


def test_errors_in_units_of_the_last_place() -> None:
    exact = torch.tensor([1.0, 1.5, 2.0, -4.0, 0.0], dtype=torch.float64)
    step = torch.tensor([1.0, 1.0, 2.0, 4.0, 2.0**-14], dtype=torch.float64) * 2.0**-10
    got = (exact + step).half()
    (found,) = ulps([got], [exact])
    assert found.tolist() == [1, 1, 1, 1, 1]
    assert relative([got], [exact], [exact]) == 2.0**-8 / 4


def _fused_run(dtype: torch.dtype, error: float) -> HostRun:
    """A run of one fused op whose output is off by ``error`` of the exact 1."""
    exact = [torch.ones(4, dtype=torch.float64)]
    off = [torch.full((4,), 1 + error).to(dtype)]
    right = [torch.ones(4, dtype=dtype)]
    op = FusedOp("AutofusePointwiseK0123456789ab", ("Mul", "Add"), ("Mul", "Add"), "pointwise", 4096, 32, 32, 1.0)
    report = FusionReport("g", 2, 1, 64, 32, 32, fused=(op,), refused=(Refusal("Abs", "", "AF216", "alone"),))
    args = (ArgProfile("in", 16, 32, 0, 0), ArgProfile("out", 16, 0, 16, 0))
    profile = TwinProfile(1, 0, 4, 2, 1, 64, 4, 32, 16, 2, 1, 4096, 3, 3, 0, 3, 6, args)
    return HostRun(MODELS[0], dtype, False, off, right, right, exact, report, {op.op_type: profile}, 2.0, 1.0, 0.5)


@pytest.mark.parametrize(
    ("dtype", "error", "table", "good"),
    [
        (torch.float32, 2.0**-20, 0, True),
        (torch.float32, 2.0**-10, 0, False),
        (torch.float16, 2.0**-10, 1, True),
        (torch.float16, 2.0**-9, 1, False),
        (torch.bfloat16, 2.0**-7, 1, True),
    ],
)
def test_value_rows(dtype: torch.dtype, error: float, table: int, good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _fused_run(dtype, error)
    bad = replace(found, report=replace(found.report, rolled_back=Reason("AF301", "broken")))
    monkeypatch.setattr(values, "runs", lambda settings: [found, bad, Failure("swiglu float32", "no luck")])
    sections = values.run(Settings())
    (row,) = sections[table].to_dict()["rows"]
    assert row["ok"] is good
    assert row["fused : f64"] == pytest.approx(error, rel=1e-3)
    assert row["unfused : f64"] == 0
    assert "broken" in sections[0].notes[1] and "no luck" in sections[0].notes[2]


def test_rows_of_the_host_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [_fused_run(torch.float32, 0.0), Failure("swiglu float32", "no luck")]
    for module in (small_cases, twin_profile, seconds, inductor):
        monkeypatch.setattr(module, "runs", lambda settings: items)

    def measured(backend: str, settings: Settings, models: str = "models") -> list[dict[str, object]]:
        if backend == "gpu":
            raise Unavailable("no schedule")
        return [{"label": "chain 3 float32", "kernels": 1, "bytes": 48, "seconds": 0.25, "error": ""}]

    monkeypatch.setattr(inductor, "measure", measured)
    good, failed = small_cases.run(Settings())[0].to_dict()["rows"]
    assert (good["before"], good["after"], good["ok"], good["note"]) == (2, 1, True, "AF216")
    assert (failed["model"], failed["ok"], failed["note"]) == ("swiglu float32", False, "no luck")
    (kernel,) = twin_profile.run(Settings())[0].to_dict()["rows"]
    assert (kernel["GM bytes"], kernel["floor"], kernel["of floor %"], kernel["UB peak"]) == (48, 32, 150, 4096)
    (timed,) = seconds.run(Settings())[0].to_dict()["rows"]
    assert [timed[c] for c in ("fused ms", "Inductor CPU ms", "fused : eager")] == [2000, 250, 4]
    table = inductor.run(Settings())[0]
    first, second = table.to_dict()["rows"]
    assert (first["ours"], first["GPU"], first["CPU"], first["CPU bytes"]) == (1, None, 1, 48)
    assert second["ours"] is None
    assert "gpu: no schedule" in table.notes


def test_rows_of_blocks_and_movement(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _fused_run(torch.float32, 0.0)
    found = replace(found, matmuls=1, report=replace(found.report, kernels_before=12, kernels_after=10))

    def once(model: Model, dtype: torch.dtype, *, dynamic: bool = False, timed: bool = True) -> HostRun | Failure:
        made = replace(found, model=model, dtype=dtype, dynamic=dynamic)
        return Failure(made.label, "no luck") if dtype == torch.float16 else made

    def measured(backend: str, settings: Settings, models: str = "models") -> list[dict[str, object]]:
        names = {"block_models": "GPT-2 block", "movement_models": "cat of three"}
        return [{"label": f"{names[models]} float32", "kernels": 9, "bytes": 48, "seconds": None, "error": ""}]

    monkeypatch.setattr(inductor, "measure", measured)
    for module in (blocks, movement):
        monkeypatch.setattr(module, "run_or_failure", once)
    static, failed, dynamic = blocks.run(Settings(("GPT-2",)))[0].to_dict()["rows"]
    assert [static[c] for c in ("matmuls", "before", "after", "target", "ok", "GPU")] == [1, 11, 9, 9, True, 9]
    assert (failed["ok"], failed["note"]) == (False, "no luck")
    assert (dynamic["block"], dynamic["after"], dynamic["GPU"]) == ("GPT-2 block float32 dynamic", 9, None)

    table = movement.run(Settings(("three",)))[0]
    (row,) = table.to_dict()["rows"]
    floor = 4 * (512 * 1024 + 4)  # what goes in, and what the made-up run gave
    assert (row["GM bytes"], row["floor"]) == (48, floor)  # 32 counted and none beside them, 48 measured
    assert [row[c] for c in ("copies", "mean copy bytes", "mean block bytes", "GPU")] == [3, 16, 8, 9]
    assert "cat of three float16: no luck" in table.notes


# -- the synthetic graph and the command ------------------------------------------------------------------------------
def test_synthetic_blocks() -> None:
    graph = infer(read(transformer(2)))
    assert not graph.notes
    assert graph.info(graph.outputs[0]).shape == (BATCH, ROWS, WIDTH)
    assert len(kernels(graph)) == 2 * len(kernels(infer(read(transformer(1)))))
    result = fuse(transformer(2), FusionContext(), ALL_PASSES)
    types = [op.op_type for op in result.report.fused]
    assert len(types) == 2 * len(fuse(transformer(1), FusionContext(), ALL_PASSES).report.fused)
    assert len(set(types)) > len(set(types[: len(types) // 2])), "both blocks have the same kernels"


def test_no_blocks_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        transformer(0)


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    assert bench.main(["--only", "graphs", "--graph", "rope__static", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    table, lost, *_ = json.loads(out.read_text())["graphs"]["sections"]
    before, after = _golden()["rope__static__g0"]
    assert [(row["graph"], row["before"], row["after"]) for row in table["rows"][:1]] == [("rope", before, after)]
    assert lost["rows"][-1]["code"] == "total"
    assert "Captured static graphs" in text and "AF210" in text


@pytest.mark.parametrize(
    ("failure", "code", "said"), [("Unavailable", 0, "not measured: no such chip"), ("KeyError", 1, "failed:")]
)
def test_a_measure_that_cannot_run_leaves_the_others(
    failure: str, code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import growth, section

    def fail(settings: section.Settings) -> list[Section]:
        raise section.Unavailable("no such chip") if failure == "Unavailable" else KeyError("x")

    monkeypatch.setattr(growth, "run", fail)
    assert bench.main(["--only", "growth", "graphs", "--graph", "rope__static"]) == code
    text = capsys.readouterr().out
    assert said in text and "Captured static graphs" in text


def test_bad_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--only", "nothing"]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in MEASURES)


def test_outside_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    assert bench.main([]) == 2
    assert "run from a checkout" in capsys.readouterr().err


def test_section() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        Section("t", ("a", "b"), ((1,),))
    cells = [cell_text(value) for value in (None, True, False, 12345, 0.123456, "x")]
    assert cells == ["-", "yes", "NO", "12,345", "0.1235", "x"]
    assert Section("t", ("a", "b"), ((1, None),)).to_dict()["rows"] == [{"a": 1, "b": None}]
