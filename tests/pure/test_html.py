"""The HTML report: one file that is safe to open, and whose data is what the graph and the report say."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import REPORT

from benchmarks import captured
from torchair_autofuse.explained import vector_elements
from torchair_autofuse.ge.simplify import live
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.messages import CODES, Reason
from torchair_autofuse.report import FusedOp, FusionReport, Refusal
from torchair_autofuse.report.html import embed, render

NAMES = ("gpt2__static__g0", "llama__dynamic__g0", "adamw_step__static__g0", "dcn_v2__dynamic__g0")
HOSTILE = "</script><script>alert(1)</script><!--<b>&amp;\u2028{{ x }}"


class Page(HTMLParser):
    """Collects tags, attributes and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[str] = []
        self.title = ""
        self._inside: list[str] = []
        self.feed(text)
        self.close()
        assert self._inside == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "input"):
            self._inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self._inside[-1:] == ["title"]:
            self.title += data

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> captured.Case:
    return captured.case(request.param)


def report_of(name: str) -> FusionReport:
    return captured.case(name).result.report


# ---- the file -----------------------------------------------------------------------------------------------------


def test_nothing_is_fetched() -> None:
    text = render([report_of(NAMES[0])])
    page = Page(text)
    assert text.startswith("<!doctype html>") and page.tags["script"] == 2
    assert not page.tags.keys() & {"link", "img", "iframe", "object", "embed", "base", "audio", "video", "source"}
    assert not page.values("src") and all(href.startswith("#") for href in page.values("href"))
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'" in page.values("content")
    code = page.scripts[1] + text.split("<style>")[1].split("</style>")[0]
    for word in ("fetch(", "XMLHttpRequest", "import(", "@import", "url(", "innerHTML", "eval(", "document.write"):
        assert word not in code, word
    assert code.replace("http://www.w3.org/2000/svg", "").count("http") == 0


def test_structure_that_readers_and_keyboards_need() -> None:
    page = Page(render([REPORT]))
    assert page.values("lang") == ["en"] and "width=device-width, initial-scale=1" in page.values("content")
    ids = page.values("id")
    assert len(ids) == len(set(ids)) and {"query", "graph", "matches", "ops", "refusals"} <= set(ids)
    assert [v for t, n, v in page.attributes if t == "label" and n == "for"] == ["query"]
    assert [v for _, n, v in page.attributes if n == "aria-live"] == ["polite"]
    for label in page.values("aria-labelledby"):  # headings that the script makes
        assert f'id: "{label}"' in page.scripts[1]
    for name in {n for n in ids if f'getElementById("{n}")' in page.scripts[1] or f'fill("{n}"' in page.scripts[1]}:
        assert name in ids
    assert page.tags["noscript"] == page.tags["main"] == page.tags["h1"] == 1
    assert page.title == "Fusion of graph_1"


def test_no_name_becomes_markup() -> None:
    op = FusedOp("T", (HOSTILE,), (HOSTILE,), HOSTILE, 1, inputs=(HOSTILE,))
    refused = (Refusal(HOSTILE, HOSTILE, "AF201", HOSTILE),)
    report = FusionReport(HOSTILE, 2, 1, fused=(op,), refused=refused, warnings=(Reason("AF101", HOSTILE),))
    text = render([report])
    page = Page(text)
    assert page.tags["script"] == 2 and page.tags["b"] == 0 and "\u2028" not in page.scripts[0]
    assert page.title == f"Fusion of {HOSTILE}"
    assert page.data["graphs"][0]["refused"][0]["node"] == HOSTILE
    assert json.loads(embed({"a": HOSTILE})) == {"a": HOSTILE} and not set("<>&") & set(embed({"a": HOSTILE}))


def test_written_and_the_same_every_time(tmp_path: Path) -> None:
    report = report_of(NAMES[0])
    path = tmp_path / "page.html"
    report.to_html(path)
    assert path.read_text(encoding="utf-8") == render([report])
    report.to_html(str(path))
    with pytest.raises(OSError, match="none"):
        report.to_html(tmp_path / "none" / "page.html")


def test_several_reports_and_none() -> None:
    reports = [report_of(n) for n in NAMES[:2]]
    page = Page(render(reports))
    assert [g["graph_name"] for g in page.data["graphs"]] == [r.graph_name for r in reports]
    empty = Page(render([]))
    assert empty.data["graphs"] == [] and empty.title == "Fusion report"


def test_codes_have_their_titles() -> None:
    report = replace(REPORT, rolled_back=Reason("AF301", "boom"))
    shown = Page(render([report])).data["codes"]
    assert shown == {code: CODES[code] for code in ("AF101", "AF201", "AF216", "AF301")}


# ---- its data -----------------------------------------------------------------------------------------------------


def pictures(case: captured.Case) -> Any:
    return Page(render([case.result.report])).data["graphs"][0]["pictures"]


def test_the_graph_before(case: captured.Case) -> None:
    report, shown = case.result.report, pictures(case)["before"]
    assert [n["n"] for n in shown] == [n.name for n in case.original.nodes]
    inside = {node: {i for i, op in enumerate(report.fused) if node in op.nodes} for node in (n["n"] for n in shown)}
    assert {n["n"]: set(n.get("c", ())) for n in shown} == inside
    alive = live(case.original.nodes)
    assert sum(n["k"] == "kernel" and n["n"] in alive for n in shown) == report.kernels_before
    for i, (node, original) in enumerate(zip(shown, case.original.nodes)):
        assert [None if e is None else f"{shown[e[0]]['n']}:{e[1]}" for e in node["i"]] == [
            None if r is None else str(r) for r in original.inputs
        ]
        assert all(e is None or e[0] < i for e in node["i"]), "producers first, as the layout needs it"
    left = {n.name for n in case.simplified.nodes}
    assert all((n.get("s") == "gone") == (n["n"] not in left) for n in shown if "c" not in n)


def test_the_graph_after(case: captured.Case) -> None:
    report, shown = case.result.report, pictures(case)["after"]
    assert sum(n["k"] == "kernel" for n in shown) == report.kernels_after
    assert sorted(n["op"] for n in shown if "op" in n) == list(range(len(report.fused)))
    written = {op.name: op for op in case.result.model_def.graph[0].op}
    assert {n["n"] for n in shown} == set(written)
    for i, node in enumerate(shown):
        assert all(e is None or (e[0] < i and e[1] < len(shown[e[0]]["o"])) for e in node["i"])
        given = [x for x in written[node["n"]].input if not x.endswith(":-1") and x]
        assert [f"{shown[e[0]]['n']}:{e[1]}" for e in node["i"] if e is not None] == given


def test_ops(case: captured.Case) -> None:
    """The largest part of the UB picture is the report's UB use; sources are those of the generated ops."""
    report, shown = case.result.report, pictures(case)
    for op, picture in zip(report.fused, shown["ops"]):
        used = [sum(b["size"] * b["copies"] for b in part["buffers"]) for part in picture["ub_parts"]]
        assert max(used) == op.ub_bytes <= shown["chip"]["ub_limit"]
        assert picture["read_bytes"] + picture["written_bytes"] == op.gm_bytes
        assert picture["vector_elements"] >= 0 and 1 <= picture["cores"] <= shown["chip"]["cores"]
    for made in case.result.generated:
        source = shown["sources"][made.op_type]
        assert source["kernel"] == made.text.kernel_cpp and parse(source["ir"]) == made.lowered.kernel
        assert source["schedule"].startswith(made.op_type)


def test_several_templates_in_ub() -> None:
    """A sequence draws a part for each of its nests, an assembled schedule its queues and tiles."""
    from torchair_autofuse.soc.chip import chip
    from torchair_autofuse.ub_picture import ub_parts

    target = chip()
    assert not isinstance(target, Reason)
    templates, several = set(), 0
    for name in ("rope__dynamic__g0", "dcn_v2__dynamic__g0", "yolo_head__static__g0"):
        for made in captured.case(name).result.generated:
            for size in (3, 24, 4097):
                tiling = made.schedule.at(target, size)
                parts = ub_parts(made.schedule, tiling)
                assert max(p.size for p in parts) == tiling["ub_used"], (made.schedule.template, size)
                templates |= {p.name.split()[0] for p in parts}
                several += len(parts) > 1
    assert several and {"assembled", "pointwise", "column_resident"} <= templates


KERNEL = """
kernel scale(in x: f16[s0, 64], in w: f32[64], out y: f16[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f16 = load x[64*a0 + a1]
  v1: f32 = cast(v0, rint)
  v2: f32 = load w[a1]
  v3: f32 = exp(v2)
  v4: f32 = mul(v1, v3)
  v5: f32 = reduce sum(v4) over (a1)
  v6: f32 = sub(v4, v5)
  v7: f16 = cast(v6, rint)
  store y[64*a0 + a1] = v7
"""


def test_vector_elements_are_counted_per_operation() -> None:
    """Five operations on all of s0 x 64, the exponential on 64; loads, stores and broadcasts are none."""
    assert vector_elements(parse(KERNEL), {"s0": 10}) == 5 * 640 + 64
    assert vector_elements(parse(KERNEL), {"s0": 0}) == 64


def test_constants_are_not_kept() -> None:
    """What a report holds on to is the graph without its large constants, whose texts remain."""
    case = captured.case("adamw_step__static__g0")
    details = case.result.report.details
    for graph in (details.original, details.after):  # type: ignore[union-attr]
        values = [v for n in graph.nodes for v in n.attrs.values() if isinstance(v, np.ndarray)]
        assert all(v.size <= 16 for v in values)


def test_details_stay_in_the_process(tmp_path: Path) -> None:
    report = report_of(NAMES[0])
    assert report.details is not None and "details" not in report.to_dict()
    for back in (FusionReport.from_dict(report.to_dict()), pickle.loads(pickle.dumps(report))):
        assert back == report and back.details is None and hash(back) == hash(report)
        page = Page(render([back]))
        assert page.data["graphs"][0]["pictures"] is None and page.data["graphs"][0]["fused"]
    assert replace(report, warnings=()).details is report.details
    with pytest.raises(ValueError, match="'details' is unknown"):
        FusionReport.from_dict({**report.to_dict(), "details": None})
