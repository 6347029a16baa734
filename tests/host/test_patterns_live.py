"""Named patterns on live TorchAir: reports name them, the environment switches them off, captured graphs are true.

All examples are captured in tests/pure/golden/pattern_graphs.json.gz, which ``--update-golden`` writes anew; what is
asserted of every one of them is in tests/pure/test_pattern_library.py.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from typing import Any

import pytest
import torch
from fused_runs import ALL
from pattern_graphs import Captured, captured, save
from pattern_snippets import function_of, inputs_of

from torchair_autofuse.plan.patterns import Pattern, patterns

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

LIVE = ("swiglu", "residual-rms-norm", "softmax-with-scale-and-mask", "rope", "adamw", "group-norm-silu", "huber")


class _Seen(Exception):
    """The graph has been handed over; nothing needs to run."""


def _model_def(pattern: Pattern, monkeypatch: pytest.MonkeyPatch) -> bytes:
    from torchair_autofuse.host.native import TorchNpuGraphBase

    found: list[bytes] = []

    def load(self: Any, model_def: bytes, *args: Any) -> None:
        found.append(bytes(model_def))
        raise _Seen

    with monkeypatch.context() as patch:
        patch.setattr(TorchNpuGraphBase, "load", load)
        with pytest.raises(_Seen):
            _compile(pattern)
    assert len(found) == 1, pattern.name
    return found[0]


def _compile(pattern: Pattern, dynamic: bool = False) -> Any:
    import torchair

    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(function_of(pattern), backend=backend, dynamic=dynamic, fullgraph=True)
    return compiled(*inputs_of(pattern).values())


def test_captured_graphs_are_what_torchair_makes(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, update_golden: bool
) -> None:
    """Of a few; the others were captured in the same way."""
    if update_golden:
        save({n: Captured(p.example, p.inputs, _model_def(p, monkeypatch)) for n, p in patterns().items()})
        captured.cache_clear()
    for name in LIVE:
        made = Captured("", "", _model_def(patterns()[name], monkeypatch)).graph()
        assert Counter(n.type for n in made.nodes) == Counter(n.type for n in captured()[name].graph().nodes), name


@pytest.mark.parametrize("name", LIVE)
def test_report_names_the_pattern(plugin: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GF_AUTOFUSION_DEBUG", "1")
    plugin.enable(ALL)
    _compile(patterns()[name])
    (report,) = plugin.reports()
    assert [op.patterns for op in report.fused] == [(name,)]
    assert name in str(report)


def test_names_in_the_environment_switch_off(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GF_AUTOFUSION_DEBUG", "1")
    monkeypatch.setenv("GF_AUTOFUSION_DISABLE", "swiglu,rope")
    plugin.enable(ALL)
    for name in ("swiglu", "rope"):
        plugin.clear_reports()
        _compile(patterns()[name])
        (report,) = plugin.reports()
        assert report.fused == ()
        assert {(r.code, r.reason.endswith(f"switched off: {name}")) for r in report.refused} == {("AF214", True)}


def test_symbolic_sizes_and_numbers(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a dynamic graph a number of the script is a 0-d input."""
    monkeypatch.setenv("GF_AUTOFUSION_DEBUG", "1")
    plugin.enable(ALL)
    _compile(patterns()["residual-rms-norm"], dynamic=True)
    (report,) = plugin.reports()
    assert [op.patterns for op in report.fused] == [("residual-rms-norm",)]
