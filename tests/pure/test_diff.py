"""diff: what differs between two sets of reports, and how the command says so."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_report import BARE, NORM, REPORT

from torchair_autofuse.cli import main
from torchair_autofuse.messages import Reason
from torchair_autofuse.report import FusedOp, FusionReport, Refusal
from torchair_autofuse.report.compare import Change, compare
from torchair_autofuse.report.files import load, save


def op(nodes: str, name: str = "T", template: str = "pointwise") -> FusedOp:
    return FusedOp(name, tuple(nodes), tuple(nodes), template, 64)


def report(*ops: FusedOp, refused: tuple[Refusal, ...] = (), name: str = "g") -> FusionReport:
    return FusionReport(name, 9, 9 - len(ops), fused=ops, refused=refused)


# ---- what differs -------------------------------------------------------------------------------------------------


def test_equal_reports() -> None:
    found = compare([REPORT], [replace(REPORT, seconds={"read": 9.0})])
    assert found.equal and found.graphs[0].equal, "how long it took is no difference"
    assert compare([], []).equal


def test_totals_and_state() -> None:
    after = replace(
        REPORT, kernels_after=40, predicted_us_after=None, soc="Ascend910B4", rolled_back=Reason("AF301", "x")
    )
    (graph,) = compare([REPORT], [after]).graphs
    assert graph.totals == (Change("kernels_after", 30, 40), Change("predicted_us_after", 301.0, None))
    assert [c.name for c in graph.state] == ["soc", "rolled_back"]


def test_ops_are_paired_by_nodes() -> None:
    """Equal nodes first, then the largest share; an op that shares no node with any appeared or vanished."""
    before = report(op("ab"), op("cdef"), op("g"), op("xy"))
    after = report(op("xyz"), op("ab"), op("cd"), op("efh"), op("q"))
    (graph,) = compare([before], [after]).graphs
    assert [(c.before.nodes, c.after.nodes, c.gained, c.lost) for c in graph.changed] == [
        (tuple("cdef"), tuple("cd"), (), ("e", "f")),
        (tuple("xy"), tuple("xyz"), ("z",), ()),
    ]
    assert [o.nodes for o in graph.appeared] == [tuple("efh"), ("q",)]
    assert [o.nodes for o in graph.vanished] == [("g",)]


def test_an_op_of_the_same_nodes_that_changed() -> None:
    (graph,) = compare([report(op("ab"))], [report(op("ab", "U", "transpose"))]).graphs
    (changed,) = graph.changed
    assert changed.changes == (Change("op_type", "T", "U"), Change("template", "pointwise", "transpose"))
    assert not (changed.gained or changed.lost or graph.appeared or graph.vanished)
    (graph,) = compare([report(op("ab"))], [report(replace(op("ab"), patterns=("rope",)))]).graphs
    assert graph.changed[0].changes == (Change("patterns", (), ("rope",)),)


def test_refusals() -> None:
    a, b, c = (
        Refusal("a", "b", "AF206", "path"),
        Refusal("a", "", "AF216", "saves 0.2 us"),
        Refusal("c", "", "AF201", "no"),
    )
    (graph,) = compare([report(refused=(a, b))], [report(refused=(replace(b, reason="saves 0.3 us"), c))]).graphs
    assert graph.refused == (c,) and graph.no_longer_refused == (a,)
    assert [(x.reason, y.reason) for x, y in graph.reworded] == [("saves 0.2 us", "saves 0.3 us")]


def test_graphs_are_paired_by_name_and_order() -> None:
    before = [report(name="x"), report(op("ab"), name="x"), report(name="y")]
    after = [report(name="x"), report(name="x"), report(name="z")]
    found = compare(before, after)
    assert [(g.name, g.equal) for g in found.graphs] == [("x", True), ("x (2)", False)]
    assert found.added == ("z",) and found.removed == ("y",) and not found.equal


_ops = st.lists(
    st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=4).map(lambda s: op("".join(sorted(s)))), max_size=4
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(_ops, _ops)
def test_every_op_is_told_once_and_both_ways_agree(a: list[FusedOp], b: list[FusedOp]) -> None:
    (there,) = compare([report(*a)], [report(*b)]).graphs
    assert len(there.vanished) + len(there.changed) <= len(a) and len(there.appeared) + len(there.changed) <= len(b)
    assert len(a) - len(there.vanished) == len(b) - len(there.appeared), "the others are pairs"
    (back,) = compare([report(*b)], [report(*a)]).graphs
    assert there.equal == back.equal
    (same,) = compare([report(*a)], [report(*a)]).graphs
    assert same.equal
    json.dumps(compare([report(*a)], [report(*b)]).to_dict())


def test_thousands_of_ops_are_paired_at_once() -> None:
    """About linear in the number of ops: 4,000 took 2 s when each pair was looked for among all found before."""
    names = [(f"a{i}", f"b{i}", f"c{i}") for i in range(8000)]
    old = [FusedOp("T", n, n, "pointwise", 64) for n in names]
    new = [replace(o, nodes=o.nodes[: 3 - i % 2], node_types=o.nodes[: 3 - i % 2]) for i, o in enumerate(old)]
    start = time.process_time()
    (graph,) = compare([report(*old)], [report(*reversed(new))]).graphs
    assert time.process_time() - start < 2
    assert len(graph.changed) == 4000 and all(c.lost == c.before.nodes[2:] for c in graph.changed)
    assert not graph.appeared and not graph.vanished


# ---- the command --------------------------------------------------------------------------------------------------


def files(folder: Path, before: list[FusionReport], after: list[FusionReport]) -> list[str]:
    save(before, folder / "a.json")
    save(after, folder / "b.json")
    return [str(folder / "a.json"), str(folder / "b.json")]


def test_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files(tmp_path, [REPORT], [REPORT])]) == 0
    assert capsys.readouterr().out == "No difference in 1 graph.\n"


def test_what_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grown = replace(NORM, nodes=(*NORM.nodes, "[b]Abs_5[/b]"), node_types=(*NORM.node_types, "Abs"), gm_bytes=2 * 2**20)
    after = replace(
        REPORT, kernels_after=24, gm_bytes_after=2 * 2**20, predicted_us_after=250.0, fused=(grown, op("z")),
        refused=(*REPORT.refused[1:], Refusal("New_1", "", "AF202", "f64")), soc="Ascend910B4",
    )  # fmt: skip
    paths = files(tmp_path, [REPORT, replace(REPORT, graph_name="same")], [after, replace(REPORT, graph_name="same")])
    assert main(["diff", *paths]) == 1
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:3] == [
        "graph kernels GM bytes time",
        "graph_1 30 -> 24 (-20.0%) 4.00 MiB -> 2.00 MiB (-50.0%) 301.0 us -> 250.0 us (-16.9%)",
        "same 30 4.00 MiB 301.0 us",
    ]
    assert lines[3:] == [
        "Times are predicted, not measured.",
        "",
        "graph_1",
        "soc: Ascend910B1 -> Ascend910B4",
        "+ fused op T (pointwise): z",
        f"- fused op {BARE.op_type} (pointwise): Exp_9",
        f"~ fused op {NORM.op_type} (row resident): ReduceMean_3, Sub_4, model/ln/out, [b]Abs_5[/b]",
        "+ [b]Abs_5[/b]",
        "GM: 3.00 MiB -> 2.00 MiB (-33.3%)",
        "+ refusal AF202 dtype not supported by the op or the chip: New_1: f64",
        "- refusal AF216 no profit: Add_1 with Mul_2: the merge saves 0.2 us, the threshold is 1 us",
    ]
    assert "\x1b" not in out
    assert main(["diff", "--json", *paths]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["equal"] is False and data["graphs"][0]["changed"][0]["gained"] == ["[b]Abs_5[/b]"]
    assert data["graphs"][1] == {**compare([REPORT], [REPORT]).to_dict()["graphs"][0], "name": "same"}


def test_what_is_no_number_has_no_percentage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files(tmp_path, [replace(REPORT, run_unfused=True)], [REPORT])]) == 1
    assert "  run unfused: True -> False\n" in capsys.readouterr().out


def test_graphs_of_one_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files(tmp_path, [report(name="old")], [report(name="new"), report(name="new")])]) == 1
    out = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert out[1:4] == ["new only in B", "new (2) only in B", "old only in A"]


def test_one_report_alone_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fusion.json").write_text(json.dumps(REPORT.to_dict()))
    save([REPORT], tmp_path / "list.json")
    assert load(tmp_path / "fusion.json") == load(tmp_path / "list.json") == [REPORT]
    assert main(["diff", str(tmp_path / "fusion.json"), str(tmp_path / "list.json")]) == 0


def changed(**fields: Any) -> str:
    return json.dumps({"version": 1, "reports": [{**REPORT.to_dict(), **fields}]})


BAD = {
    "name": changed(graph_name=["g"]),
    "no stages": changed(seconds="none"),
    "infinite count": changed(kernels_after=float("inf")),
    "huge count": changed(gm_bytes_after=10**400),
    "huge time": changed(seconds={"plan": 10**400}),
    "node": changed(refused=[{"node": {}, "other": "", "code": "AF101", "reason": ""}]),
    "text": "no json",
    "list": "[1, 2]",
    "number": "3",
    "version": json.dumps({"version": 99, "reports": []}),
    "reports": json.dumps({"version": 1, "reports": 3}),
    "field": json.dumps({"version": 1, "reports": [{**REPORT.to_dict(), "fused": 3}]}),
    "deep": "[" * 100000,
    "binary": "\udcff",
}


def test_a_pipe_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    save([REPORT], tmp_path / "good.json")
    for path in (tmp_path / "pipe", tmp_path):
        assert main(["diff", str(tmp_path / "good.json"), str(path)]) == 2
        assert capsys.readouterr().err == f"torchair_autofuse: {path}: is no regular file\n"


@pytest.mark.parametrize("name", [*BAD, "missing"])
def test_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    save([REPORT], good)
    if name != "missing":
        bad.write_bytes(BAD[name].encode("utf-8", "surrogateescape"))
    for pair in ([good, bad], [bad, good]):
        assert main(["diff", *map(str, pair)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and len(err.splitlines()) == 1 and err.startswith(f"torchair_autofuse: {bad}: ")
