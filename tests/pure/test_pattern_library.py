"""Every named pattern on its own example, as TorchAir lowers it, and the counts of all of them on captured models.

The examples' graphs are golden/pattern_graphs.json.gz (tests/host/test_patterns_live.py captures them). The counts are
golden/pattern_counts.json: graph -> pattern -> [occurrences, those that are no part of a larger one];
``--update-golden`` writes it anew.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pattern_graphs import captured
from plan_build import ALL

from benchmarks import graphs
from benchmarks.captured import context
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.plan.patterns import find, outermost, patterns
from torchair_autofuse.plan.patterns.command import page

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).parent / "golden" / "pattern_counts.json"
EVERY = tuple(patterns().values())

WHOLE = (1, 1, True)
KERNELS = {
    "cross-entropy": (2, 0, False),
    "dlrm-feature-concat": (2, 0, False),
    "dynamic-quantise": (4, 1, False),
    "global-response-norm": (2, 2, False),
    "masked-mean-pooling": (3, 2, False),
    "quantise": (2, 1, True),  # named without its last cast, which stays
    "quantised-layer-norm": (2, 1, True),
    "requantise": (2, 1, True),
    "softmax-with-sink": (2, 1, False),
    "yolo-box-decode": (2, 1, False),  # in one op, rows would be put together in parts of 8 bytes
}
"""(kernels, fused ops) that the nodes of the example's largest occurrence are in after fusion, and whether an op is
named after the pattern, where not WHOLE."""


def test_captured_examples_are_those_of_the_library() -> None:
    """Else: pytest tests/host/test_patterns_live.py --update-golden."""
    assert {n: (c.example, c.inputs) for n, c in captured().items()} == {p.name: (p.example, p.inputs) for p in EVERY}


@pytest.mark.parametrize("name", patterns())
def test_example(name: str) -> None:
    """It is found, named in the report where it lies in one op, and stays unfused when it is switched off."""
    graph = captured()[name].graph()
    largest = next(m for m in find(graph, EVERY) if m.pattern == name)
    assert name in {m.pattern for m in outermost(find(graph, EVERY))}
    report = fuse(captured()[name].model_def, FusionContext(), ALL).report
    inside = [op for op in report.fused if set(op.nodes) & set(largest.nodes)]
    alone = set(largest.nodes) - {n for op in inside for n in op.nodes}
    named = [op for op in report.fused if name in op.patterns]
    assert (len(inside) + len(alone), len(inside), bool(named)) == KERNELS.get(name, WHOLE)
    assert all(name in str(report) for _ in named)

    off = fuse(captured()[name].model_def, FusionContext(), ALL.replace(disabled_patterns={name})).report
    assert not set(largest.nodes) & {n for op in off.fused for n in op.nodes}
    said = {r.node for r in off.refused if r.code == "AF214" and r.reason.endswith(f"switched off: {name}")}
    assert set(largest.nodes) <= said
    assert all(name not in op.patterns for op in off.fused)


def test_counts_on_captured_models(update_golden: bool) -> None:
    found: dict[str, dict[str, list[int]]] = {}
    for name in graphs.names():
        given = context(name)
        graph = infer(read(graphs.model_def(name)), given.data_shapes, given.data_values, given.minimum)
        matches = find(simplify(graph, tuple(given.ref_outputs.values())), EVERY)
        every = Counter(m.pattern for m in matches)
        whole = Counter(m.pattern for m in outermost(matches))
        found[name] = {p: [every[p], whole[p]] for p in sorted(every)}
    if update_golden:
        lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(c)}" for n, c in found.items())
        COUNTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    assert found == json.loads(COUNTS.read_text(encoding="utf-8"))


def test_layers_of_a_model_are_counted() -> None:
    """Plain numbers from the models: two layers, each with two norms and a last one, query and key rotated, an MLP."""
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))["llama__static__g0"]
    assert counts["residual-rms-norm"][0] >= 4 and counts["rope"][0] == 4 and counts["swiglu"][0] == 2
    assert counts["softmax-with-scale-and-mask"][0] == 2


def test_page_is_in_step() -> None:
    """Else: python -m torchair_autofuse patterns --markdown > docs/patterns.md."""
    assert (ROOT / "docs" / "patterns.md").read_text(encoding="utf-8") == page(EVERY)


def test_library_is_consistent() -> None:
    """Names are kebab case (the parser sees to that), every family has several, no two patterns have one graph."""
    assert len(EVERY) >= 100
    assert min(Counter(p.family for p in EVERY).values()) >= 5
    assert [t for t, n in Counter((p.text, p.through) for p in EVERY).items() if n > 1] == []
    assert all(p.about[0] not in " \n" and not p.about.endswith(".") and "\n" not in p.about for p in EVERY)
