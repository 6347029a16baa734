"""Every decision of a report can be traced: its rule, and the numbers that decided. All captured graphs: test_bench."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ge_build import GraphBuilder
from plan_build import ALL, barrier, fused, graph_of, plan_of
from test_schedule import scheduled
from traces import FACTS, missing, refusal_says_why, untraceable

from torchair_autofuse.messages import CODES, RULES
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.predict import schedule_ns, schedule_pipes
from torchair_autofuse.report import FusedOp, FusionReport, Refusal
from torchair_autofuse.soc.chip import Chip, chip

PAGES = Path(__file__).parents[2] / "docs" / "codes"
NOT_GIVEN = {"AF219", "AF222"}  # codes without a rule of the planner behind them


def target() -> Chip:
    found = chip()
    assert isinstance(found, Chip)
    return found


def only(b: GraphBuilder, **options: object) -> FusedOp:
    report = fused(b, **options).report
    assert untraceable(report) == []
    (op,) = report.fused
    return op


def texts(op: FusedOp) -> dict[str, str]:
    return {w.rule: w.text for w in op.why}


def test_every_code_of_the_planner_has_a_fact() -> None:
    assert set(FACTS) | NOT_GIVEN == {code for code in CODES if code.startswith("AF2")}


@pytest.mark.parametrize("code", sorted(FACTS))
def test_examples_of_the_pages_say_why(code: str) -> None:
    """Where a page shows a report, each line of it has the fact that decided."""
    blocks = re.findall(r"^```text\n(.*?)^```", (PAGES / f"{code}.md").read_text(), re.MULTILINE | re.DOTALL)
    shown = [b.split(f"{code} {CODES[code]}: ")[1] for b in blocks if f"{code} {CODES[code]}: " in b]
    for block in shown:
        count, *lines = re.sub(r"\n {3,}", " ", block).splitlines()  # wrapped lines stand further in
        found = [line for line in lines if line.startswith("  ") and ": " in line]
        assert found and count.isdigit()
        for line in found:
            names, reason = line.strip().split(": ", 1)
            assert refusal_says_why(Refusal(names.split(" ")[0], "", code, reason)), line


def test_a_bare_claim_does_not_say_why() -> None:
    bare = {
        "AF203": "a size is unknown", "AF212": "it is too large", "AF213": "more than 16 nodes",
        "AF216": "Abs (Abs) has no neighbour to fuse with; it reads Data", "AF224": "live memory would grow",
    }  # fmt: skip
    assert not any(refusal_says_why(Refusal("Abs", "", code, text)) for code, text in bare.items())


def test_an_op_without_its_numbers_is_found() -> None:
    op = only(_pair())
    assert missing(op) == []
    for change in ({"why": ()}, {"limit": "MTE2"}, {"gm_bytes_alone": None}, {"kernels_alone": 1}, {"pipes_us": {}}):
        assert missing(replace(op, **change)), change  # type: ignore[arg-type]


def _pair() -> GraphBuilder:
    b = GraphBuilder()
    first = b.op("Abs", b.data((64, 32)), name="first")
    b.output(b.op("Exp", first, name="second"), barrier(b, first))
    return b


@pytest.mark.parametrize("planner", ["greedy", "partition"])
def test_along_an_edge(planner: str) -> None:
    op = only(_pair(), planner=planner)
    size = 64 * 32 * 4
    assert texts(op) == {
        "edge": f"{planner} planner: 1 tensor of {size} bytes not read back from memory; "
        f"of these 1 tensor of {size} bytes stored for others"
    }
    assert (op.kernels_alone, op.gm_bytes_alone, op.gm_bytes) == (2, 4 * size, 3 * size)
    assert op.limit == "launch" and op.pipes_us["launch"] > 1


def test_a_reshape_on_the_edge_moves_no_bytes() -> None:
    b = GraphBuilder()
    first = b.op("Abs", b.data((64, 32)), name="first")
    b.output(b.op("Exp", b.op("Reshape", first, b.const([2048])), name="second"))
    assert texts(only(b)) == {"edge": "greedy planner: 1 tensor of 8192 bytes not read back from memory"}


def test_a_shared_tensor() -> None:
    b = GraphBuilder()
    x = b.data((64, 32), name="x")
    b.output(b.op("Abs", x), b.op("Exp", x))
    assert texts(only(b)) == {
        "shared": "2 parts without a data edge between them read x:0 once: 1 tensor of 8192 bytes"
    }


def test_the_bounds_of_slices_are_no_shared_tensors() -> None:
    b = GraphBuilder()
    x, steps = b.data((64, 32), name="x"), b.const([1, 1])
    halves = [b.op("StridedSlice", x, b.const([0, k]), b.const([64, k + 16]), steps) for k in (0, 16)]
    b.output(b.op("Abs", halves[0]), b.op("Exp", halves[1]))
    assert texts(only(b)).get("shared", "").endswith("read x:0 once: 1 tensor of 8192 bytes")


def test_side_by_side() -> None:
    b = GraphBuilder()
    b.output(b.op("Abs", b.data((64,)), name="Abs"), b.op("Exp", b.data((5, 7)), name="Exp"))
    op = only(b)
    costs = NodeCosts(graph_of(b), {}, target())
    alone = costs.total_ns([n for n in costs.graph.nodes if n.name in ("Abs", "Exp")])
    assert op.predicted_us is not None
    assert texts(op) == {
        "beside": f"2 kernels that do not depend on each other: {alone} ns one by one, "
        f"{round(1000 * op.predicted_us)} ns as one (predicted)"
    }


def test_computed_again() -> None:
    """c vanishes: both ops that need it make it."""
    b = GraphBuilder()
    c = b.op("Neg", b.data([512, 1024]), name="c")
    tails = [b.op("Exp", b.op("Add", c, b.data([3 + i, 512, 1024]), name=f"p{i}"), name=f"q{i}") for i in range(2)]
    b.output(*tails)
    report = fused(b, recomputation_threshold=2).report
    assert untraceable(report) == []
    again = [texts(op)["again"] for op in report.fused]
    size = 512 * 1024 * 4
    assert again == [
        f"c:0, 1 tensor of {size} bytes, not stored: its readers compute it again",
        f"c:0, 1 tensor of {size} bytes, computed here instead of read",
    ]
    assert set(RULES) >= {w.rule for op in report.fused for w in op.why}


def test_pipes_are_what_the_time_is_made_of() -> None:
    params = "in x: f32[{0}], out y: f32[{0}]"
    body = f"kernel k({params})\nnest n0 [a0: {{0}}]\n  v0: f32 = load x[a0]\n{{1}}  store y[a0] = v{{2}}\n"
    limits = {}
    for name, size, ops in (("small", 64, 1), ("copying", 1 << 24, 1), ("computing", 1 << 22, 24)):
        lines = "".join(f"  v{k + 1}: f32 = exp(v{k})\n" for k in range(ops))
        made = scheduled(body.format(size, lines, ops))
        pipes, ns = schedule_pipes(made, {}, target()), schedule_ns(made, {}, target())
        assert pipes.ns == ns
        assert max(pipes.times.values()) <= ns <= sum(pipes.times.values()) + 4  # each is rounded
        limits[name] = pipes.limit
    assert limits == {"small": "launch", "copying": "MTE3", "computing": "vector"}


def test_one_op_alone_says_what_keeps_its_neighbours_out() -> None:
    b = GraphBuilder()
    source = barrier(b, b.data((64, 32)))
    result = barrier(b, b.op("Abs", b.op("Reshape", source, b.const([2048])), name="alone"))
    b.output(result)
    before, after = source.split(":")[0], result.split(":")[0]
    report = fused(b).report
    (found,) = [r for r in report.refused if r.node == "alone"]
    costs = NodeCosts(graph_of(b), {}, target())
    ns = costs.ns(costs.graph.by_name["alone"])
    assert found.code == "AF216" and found.reason == (
        f"alone (Abs) has no neighbour to fuse with; it reads {before} (AF201); it is read by {after} (AF201); "
        f"its kernel takes {ns} ns (predicted) and moves 16384 bytes; "
        "not side by side with others: no small kernel within 64 nodes"
    )


def test_why_it_is_not_side_by_side() -> None:
    b = GraphBuilder()
    first = b.op("Abs", b.data((64,), name="x"), name="first")
    last = b.op("Exp", barrier(b, first), name="last")
    large = b.op("Neg", b.data((1 << 23,), name="y"), name="large")
    b.output(last, large)
    found = {r.node: r.reason for r in fused(b).report.refused}
    assert found["last"].endswith("not side by side with first: one has to run before the other")
    assert found["first"].endswith("not side by side with last: one has to run before the other")
    assert re.search(r"not side by side with others: \d+ ns by itself, \d+ ns at most are small", found["large"])


def test_the_first_unknown_is_named() -> None:
    b = GraphBuilder()
    lost = b.op("AtenFallback", b.data((4, 4)), name="lost")
    b.output(b.op("Exp", b.op("Abs", lost, name="near"), name="far"))
    found = {r.node: r.reason for r in plan_of(graph_of(b)).refusals if r.code == "AF203"}
    assert set(found) == {"near", "far"}
    assert all(text.endswith("is unknown: lost: no inference rule for this op type") for text in found.values())


def test_the_report_names_the_options_that_shape_plans() -> None:
    b = GraphBuilder()
    b.output(b.op("Exp", b.op("Abs", b.data((64, 32)))))
    plain = fused(b).report
    changed = {"planner": "partition", "max_fusions": 3, "skip_types": frozenset({"Tanh", "Erf"}), "strict": False}
    report = fused(b, **changed).report
    assert plain.options == "" and "Options:" not in str(plain)
    assert report.options == "planner = partition, max_fusions = 3, skip_types = Erf Tanh"
    assert f"Options: {report.options}" in str(report)
    costs = (("", "launch_us", (3.0,)),)
    assert ALL.replace(costs=costs, cost_file="/c/mine.toml").planning() == "cost_file = /c/mine.toml"
    assert ALL.replace(costs=costs).planning() == "cost_file = (numbers given)"
    assert FusionReport.from_dict(report.to_dict()) == report
