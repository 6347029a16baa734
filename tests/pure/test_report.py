"""The fusion report: its text holds everything, its dict form reads back."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchair_autofuse.messages import CODES, Reason
from torchair_autofuse.report import FusedOp, FusionReport, Refusal, Why
from torchair_autofuse.report.text import WIDTH, human_bytes, human_us

NORM = FusedOp(
    op_type="AutofuseReduceK0123456789ab",
    nodes=("ReduceMean_3", "Sub_4", "model/ln/out"),
    node_types=("ReduceMean", "Sub", "Mul"),
    template="row resident",
    ub_bytes=98304,
    gm_bytes=3 * 2**20,
    gm_bytes_floor=2 * 2**20,
    predicted_us=12.34,
    inputs=("f32[s0,64]", "f32[64]"),
    outputs=("f32[s0,64]",),
)
BARE = FusedOp("AutofuseMapKabcdefabcdef", ("Exp_9",), ("Exp",), "pointwise", 512)
REPORT = FusionReport(
    graph_name="graph_1",
    kernels_before=120,
    kernels_after=30,
    gm_bytes_before=12 * 2**20,
    gm_bytes_after=4 * 2**20,
    gm_bytes_floor=3 * 2**20,
    predicted_us_before=1812.3,
    predicted_us_after=301.0,
    fused=(NORM, BARE),
    refused=(
        Refusal("Add_1", "Mul_2", "AF216", "the merge saves 0.2 us, the threshold is 1 us"),
        Refusal("Bessel_7", "", "AF201", "Bessel has no lowering rule"),
        Refusal("Cumsum_8", "[bold]Sort_9[/bold]", "AF201", "Cumsum has no lowering rule :smile:"),
    ),
    seconds={"read": 0.1, "plan": 1.25},
    soc="Ascend910B1",
    warnings=(Reason("AF101", "AUTOFUSE_FLAGS: unknown key '--qqq' is ignored"),),
)


def flat(text: str) -> str:
    """Text without its layout: wrapped lines joined."""
    return " ".join(text.split())


def test_text() -> None:
    text = str(REPORT)
    lines = text.splitlines()
    assert lines[:4] == [
        "Fusion of graph_1 on Ascend910B1: kernels 120 -> 30 (-75.0%), "
        "GM bytes 12.00 MiB -> 4.00 MiB (-66.7%), floor 3.00 MiB",
        "Time 1.81 ms -> 301.0 us (-83.4%), predicted, not measured",
        "",
        "Fused: 2 ops (times are predicted, not measured)",
    ]
    row = next(line for line in lines if line.startswith(NORM.op_type))
    for part in ("row resident", "96.00 KiB", "3.00 MiB", "2.00 MiB", "12.3 us", "ReduceMean_3, Sub_4"):
        assert part in row
    assert "model/ln/out (Mul)" in flat(text) and "Sub_4 (Sub)" not in text  # a type only where the name hides it
    assert "f32[s0,64], f32[64] -> f32[s0,64]" in flat(text)
    assert "unknown" in next(line for line in lines if line.startswith(BARE.op_type))
    title = "Not fused: 3 refusals (each code has a page in docs/codes/)"
    assert lines[lines.index(title) :] == [
        title,
        "  AF201 op type not fusible: 2",
        "    Bessel_7: Bessel has no lowering rule",
        "    Cumsum_8 with [bold]Sort_9[/bold]: Cumsum has no lowering rule :smile:",
        "  AF216 no profit: 1",
        "    Add_1 with Mul_2: the merge saves 0.2 us, the threshold is 1 us",
        "",
        "Warnings: 1",
        "  AF101: AUTOFUSE_FLAGS: unknown key '--qqq' is ignored",
        "",
        "Seconds: read 0.100, plan 1.250; together 1.350",
    ]


def test_text_is_plain_and_narrow_whatever_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(REPORT)
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "40"), ("TERM", "xterm-256color"), ("TTY_COMPATIBLE", "1")):
        monkeypatch.setitem(os.environ, name, value)
    assert str(REPORT) == text
    assert text.isascii() and "\x1b" not in text
    assert all(len(line) <= WIDTH and line == line.rstrip() for line in text.splitlines())


def test_unknown_sizes_and_rollback() -> None:
    report = FusionReport("g", 5, 5, rolled_back=Reason("AF301", "ValueError in plan: boom"))
    assert str(report).splitlines() == [
        "Fusion of g: kernels 5 -> 5 (+0.0%), GM bytes unknown -> unknown, floor unknown",
        "Rolled back, the graph runs as it was: AF301: ValueError in plan: boom",
    ]
    assert "kernels 0 -> 0, GM" in str(FusionReport("g", 0, 0))
    assert "Time unknown -> 3.0 us, predicted" in str(FusionReport("g", 1, 1, predicted_us_after=3.0))


def test_a_plan_that_does_not_run_says_so() -> None:
    assert "Planned only: the graph runs as it was" in str(replace(REPORT, run_unfused=True))
    assert "Planned only" not in str(REPORT)


def test_templates_of_several_keys_stand_below_each_other() -> None:
    op = replace(NORM, template="row_resident, row_split, row_streaming")
    lines = str(replace(REPORT, fused=(op,))).splitlines()
    (start,) = (i for i, line in enumerate(lines) if "row_resident" in line)
    assert "row_split" in lines[start + 1] and "row_streaming" in lines[start + 2]
    assert "ReduceMean_3, Sub_4" in lines[start]


def test_every_refusal_is_in_the_text() -> None:
    refused = tuple(
        Refusal(f"Add_{i}", f"Mul_{i}" if i % 2 else "", code, f"reason number {i}.")
        for i, code in enumerate(sorted(CODES) * 20)
    )
    text = flat(str(FusionReport("g", 900, 900, refused=refused)))
    for r in refused:
        assert (f"{r.node} with {r.other}: {r.reason}" if r.other else f"{r.node}: {r.reason}") in text
    for code, title in CODES.items():
        assert f"{code} {title}: 20" in text


def test_long_names_are_whole() -> None:
    name = "a" * 300
    report = FusionReport("g", 2, 1, fused=(FusedOp("T", (name,), ("Add",), "pointwise", 1),))
    assert "".join(str(report).split()).count("a" * 300) == 1


@pytest.mark.parametrize("count, text", [
    (None, "unknown"), (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB"), (5 * 2**30, "5.00 GiB"),
    (3 * 2**50, "3072.00 TiB"),
])  # fmt: skip
def test_bytes_for_people(count: int | None, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize("us, text", [(None, "unknown"), (0.04, "0.0 us"), (999.9, "999.9 us"), (1500.0, "1.50 ms")])
def test_times_for_people(us: float | None, text: str) -> None:
    assert human_us(us) == text


def test_dict_form() -> None:
    data = json.loads(json.dumps(REPORT.to_dict(), allow_nan=False))
    assert data["kernels_after"] == 30 and data["fused"][0]["nodes"] == ["ReduceMean_3", "Sub_4", "model/ln/out"]
    assert data["refused"][1] == {
        "node": "Bessel_7", "other": "", "code": "AF201", "reason": "Bessel has no lowering rule",
    }  # fmt: skip
    back = FusionReport.from_dict(data)
    assert back == REPORT and str(back) == str(REPORT) and hash(back) == hash(REPORT)
    assert pickle.loads(pickle.dumps(REPORT)) == REPORT


def test_a_report_of_version_1_is_read() -> None:
    """It has none of the fields by which a fused op is traced."""
    data = {**REPORT.to_dict(), "version": 1}
    for op in data["fused"]:
        for name in ("kernels_alone", "gm_bytes_alone", "pipes_us", "limit", "why"):
            del op[name]
    back = FusionReport.from_dict(json.loads(json.dumps(data)))
    assert back.fused[0].nodes == NORM.nodes and back.fused[0].why == () and back.to_dict()["version"] == 2
    assert "Why they exist" not in str(back)


def test_why_an_op_exists() -> None:
    why = (Why("edge", "greedy planner: 2 tensors of 96 bytes"), Why("beside", "2 kernels: 9000 ns, 4000 ns"))
    pipes = {"launch": 3.0, "MTE2": 9.5, "vector": 1.0, "MTE3": 2.0}
    norm = replace(
        NORM, kernels_alone=3, gm_bytes_alone=5 * 2**20, predicted_us_alone=30.0, pipes_us=pipes, limit="MTE2", why=why
    )
    report = replace(REPORT, fused=(norm, BARE))
    assert FusionReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    lines = str(report).splitlines()
    row = next(line for line in lines if line.startswith(NORM.op_type))
    assert "5.00 MiB ->" in row and "30.0 us ->" in row
    at = lines.index("Why they exist:")
    assert lines[at + 1 : at + 5] == [
        f"  {NORM.op_type} of ReduceMean_3, ...: 3 kernels -> 1, limit MTE2 (9.5 us of 12.3 us)",
        "    along data edges: greedy planner: 2 tensors of 96 bytes",
        "    small kernels side by side: 2 kernels: 9000 ns, 4000 ns",
        f"  {BARE.op_type} of Exp_9",
    ]
    with pytest.raises(ValueError, match="unknown rule of a fused op 'luck': expected one of edge"):
        Why("luck", "")


def test_numbers_of_other_libraries_become_plain() -> None:
    report = FusionReport(
        "g", np.int64(3), 1, np.int64(8), predicted_us_before=np.float32(2.5), seconds={"a": np.float64(1)}
    )
    assert json.dumps(report.to_dict()) and type(report.kernels_before) is int
    assert FusionReport("g", 1, 1, predicted_us_before=float("inf")).predicted_us_before is None


@pytest.mark.parametrize("change, said", [
    ({"version": 3}, "version is 3"),
    ({"fused": None}, "fusion report"),
    ({"colour": 1}, "colour"),
    ({"refused": [{"node": "a"}]}, "other"),
    ({"warnings": [{"code": "AF999", "text": ""}]}, "AF999"),
    ({"kernels_before": "many"}, "kernels_before: expected a number, got 'many'"),
    ({"gm_bytes_before": "s0"}, "gm_bytes_before: expected a number or None"),
    ({"fused": [{**FusedOp("T", ("a",), ("b",), "t", 1).__dict__, "node_types": []}]}, "one node type per node"),
])  # fmt: skip
def test_bad_dicts_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FusionReport.from_dict({**REPORT.to_dict(), **change})


def test_missing_field_is_named() -> None:
    data = REPORT.to_dict()
    del data["refused"]
    with pytest.raises(ValueError, match="'refused' is missing"):
        FusionReport.from_dict(data)


def test_bad_records_are_named() -> None:
    with pytest.raises(ValueError, match="Refusal of Add_1: unknown message code 'AF999'"):
        Refusal("Add_1", "", "AF999", "x")
    with pytest.raises(ValueError, match="nodes: expected a tuple of str"):
        FusedOp("T", "Add_1", ("Add",), "t", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fused: expected a tuple of FusedOp"):
        FusionReport("g", 1, 1, fused=(1,))  # type: ignore[arg-type]


_words = st.text(max_size=12)
_sizes = st.none() | st.integers(0, 2**60)
_times = st.none() | st.floats(0, 1e9)
_ops = st.lists(st.tuples(_words, _words), max_size=4).flatmap(
    lambda pairs: st.builds(
        FusedOp, _words, st.just(tuple(a for a, _ in pairs)), st.just(tuple(b for _, b in pairs)), _words,
        st.integers(0, 2**20), _sizes, _sizes, _times, st.tuples(_words), st.just(()),
    )
)  # fmt: skip
_codes = st.sampled_from(sorted(CODES))
_reports = st.builds(
    FusionReport, _words, st.integers(0, 99), st.integers(0, 99), _sizes, _sizes, _sizes, _times, _times,
    st.lists(_ops, max_size=3).map(tuple), st.lists(st.builds(Refusal, _words, _words, _codes, _words)).map(tuple),
    st.dictionaries(_words, st.floats(0, 1e6)), _words, st.none() | st.builds(Reason, _codes, _words),
    st.lists(st.builds(Reason, _codes, _words), max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=30, deadline=None, derandomize=True)
@given(_reports)
def test_any_report_prints_and_reads_back(report: FusionReport) -> None:
    assert str(report)
    assert FusionReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report
