"""What users do with fusion on: in-place writes, graph breaks, symbolic sizes, training, gradients, debug folders."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled import ON, UNFUSED, check, compiled, concrete_graphs, model, ones, types

from torchair_autofuse.ge.reader import parse
from torchair_autofuse.host import kernels
from torchair_autofuse.messages import AutofuseWarning

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    z = x * y
    x.add_(1)
    return z


def test_an_input_written_in_place(plugin: Any) -> None:
    plugin.enable(ON)
    for function in (written, lambda x, y: y.copy_(x[0] * 2 - y)):
        (x, y), (ex, ey) = ones(), ones()
        want = function(ex, ey)
        torch._dynamo.reset()
        torch.testing.assert_close(compiled(function)(x, y), want)
        torch.testing.assert_close((x, y), (ex, ey))


def test_a_graph_break_gives_two_reports(plugin: Any) -> None:
    def broken(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x * y + 1)
        torch._dynamo.graph_break()
        return torch.relu(x * y + 1)

    plugin.enable(ON)
    check(broken)
    assert [r.kernels_after for r in plugin.reports()] == [1, 1]
    assert len({r.graph_name for r in plugin.reports()}) == 2
    assert len({f.op_type for r in plugin.reports() for f in r.fused}) == 1


def test_dynamic_shapes_compile_once(plugin: Any) -> None:
    plugin.enable(ON)
    run = compiled(dynamic=None)
    for rows in (4, 5, 7, 33):
        x, y = torch.randn(rows, 8), torch.randn(8)
        torch.testing.assert_close(run(x, y), model(x, y))
    assert len(plugin.reports()) == 2  # static first, then one for any number of rows


def test_two_models_with_two_caches(plugin: Any, kernel_cache: Path, tmp_path: Path) -> None:
    """A model finds its kernels where they were made, whatever cache another one uses since."""
    plugin.enable(plugin.active_options().replace(cache_dir=str(kernel_cache)))
    first = compiled()
    torch.testing.assert_close(first(*ones()), model(*ones()))
    other = tmp_path / "other"
    kernels.set_root(other)
    op_type = plugin.reports()[0].fused[0].op_type
    assert kernels.load(op_type).folder == kernel_cache / "ops" / op_type
    assert not other.exists()
    torch.testing.assert_close(first(*ones()), model(*ones()))


def test_training(plugin: Any) -> None:
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(x * w) * x).sum()

    plugin.enable(ON)
    x, w = (t.requires_grad_() for t in (torch.randn(4, 8), torch.randn(8)))
    want = torch.autograd.grad(loss(x, w), (x, w))
    value = compiled(loss)(x, w)
    got = torch.autograd.grad(value, (x, w))
    torch.testing.assert_close((value, *got), (loss(x, w), *want))
    forward, backward = plugin.reports()
    assert forward.fused and backward.fused


def gradient(x: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.autograd.grad((x * w).sigmoid().sum(), (x,))


def gradient_strided(x: torch.Tensor, w: torch.Tensor) -> Any:
    """What goes into the backward and into what follows it is not contiguous: TorchAir copies it when run."""
    (g,) = torch.autograd.grad((x * w).sigmoid().t(), (x,), grad_outputs=x.detach().t())
    return g * 2 + 1


def backward(x: torch.Tensor, w: torch.Tensor) -> Any:
    x.grad = None
    (x * w).sigmoid().sum().backward()
    return x.grad


GRADIENTS = [  # (function, dynamic, kernels (before, after) of each graph: forward, backward, what follows)
    (gradient, False, [(3, 1), (3, 1)]),
    (gradient, True, [(3, 1), (3, 1)]),
    (gradient_strided, False, [(3, 1), (3, 1), (2, 1)]),
    (backward, False, [(3, 1), (3, 1)]),
]


@pytest.mark.parametrize("function, dynamic, kernels_of", GRADIENTS)
def test_a_gradient_inside_the_function(plugin: Any, function: Any, dynamic: bool, kernels_of: Any) -> None:
    """Its backward is compiled and run while Dynamo watches: it must see neither TorchAir nor this package."""
    plugin.enable("--enable_autofuse=true;--autofuse_enable_pass=all")
    w = torch.linspace(-1, 1, 7)
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(1)).requires_grad_()
    want = function(x, w)
    run = compiled(function, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AutofuseWarning)
        for _ in range(3):
            torch.testing.assert_close(run(x, w), want)
    assert [(r.kernels_before, r.kernels_after) for r in plugin.reports()] == kernels_of
    assert [r.rolled_back for r in plugin.reports()] == [None] * len(kernels_of)


def test_the_interpreter_is_not_traced(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fusion off TorchAir is traced as it always was; the host's ops must not become graphs all the same."""
    seen = concrete_graphs([], monkeypatch)
    check()
    traced: list[Any] = []

    def count(gm: Any, inputs: Any) -> Any:
        traced.append(gm)
        return gm.forward

    run = torch.compile(lambda *inputs: seen[0].run(list(inputs)), backend=count)
    torch.testing.assert_close(run(*ones()), [model(*ones())])
    assert traced == []


def test_only_graphs_compiled_with_fusion_are_hidden(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchair._ge_concrete_graph.fx2ge_converter as converter

    made: list[Any] = []
    original = converter.GeConcreteGraph.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(converter.GeConcreteGraph, "__init__", init)
    check()
    plugin.enable(ON)
    check()
    assert [hasattr(g, "_autofuse") for g in made] == [False, True]


def test_what_a_debug_folder_receives(plugin: Any, graphs: list[Any], tmp_path: Path) -> None:
    folder = tmp_path / "debug"
    options = plugin.active_options().replace(keep_sources=True, debug_dir=str(folder))
    for run_unfused in (False, True):
        plugin.enable(options.replace(run_unfused=run_unfused))
        check()
    for report, graph, fused in zip(plugin.reports(), graphs, (True, False)):
        kept = folder / report.graph_name
        before, after = (parse((kept / f"{stem}.pb").read_bytes()).graph[0] for stem in ("before", "after"))
        assert types(before) == UNFUSED and types(after) == types(graph) and (len(types(after)) == 1) is fused
        assert 'type: "Relu"' in (kept / "before.pbtxt").read_text()
        assert json.loads((kept / "fusion.json").read_text())["graph_name"] == report.graph_name
        assert report.graph_name in (kept / "fusion.txt").read_text()
        source = (kept / "ops" / report.fused[0].op_type / "kernel.cpp").read_text()
        assert "Relu" in source


def test_a_debug_folder_that_cannot_be_written(plugin: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = plugin.active_options().replace(keep_sources=True, debug_dir=str(tmp_path / "file"))
    plugin.enable(dataclasses.replace(options))
    with pytest.warns(AutofuseWarning, match="AF103: .*debug_dir"):
        check()
    assert plugin.reports()[0].rolled_back is None and plugin.reports()[0].kernels_after == 1
