"""The hook in the real TorchAir: when it acts, what it leaves alone, what it puts back."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from torchair_autofuse.ge.reader import parse
from torchair_autofuse.host import kernels
from torchair_autofuse.messages import AutofuseWarning

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

ON = "--enable_autofuse=true"
UNFUSED = ["Mul", "Cast", "Add", "Relu"]  # of model(): the Cast is one of a constant


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y + 1)


def ones() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(32.0).reshape(4, 8) - 16, torch.ones(8) * 0.5


def compiled(function: Any = model, *, dynamic: bool | None = False, **config: Any) -> Any:
    import torchair

    made = torchair.CompilerConfig()
    for name, value in config.items():
        setattr(made, name, value)
    return torch.compile(function, backend=torchair.get_npu_backend(compiler_config=made), dynamic=dynamic)


def check(function: Any = model, inputs: Any = None, **kwargs: Any) -> None:
    """Compiles, runs and compares with eager."""
    inputs = ones() if inputs is None else inputs
    want = function(*(i.clone() for i in inputs))
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(function, **kwargs)(*inputs), want)


def types(graph: Any) -> list[str]:
    return [op.type for op in graph.op if op.type not in ("Data", "NetOutput", "Const")]


def codes(found: list[warnings.WarningMessage]) -> list[str]:
    return re.findall(r"AF\d\d\d(?=:)", "\n".join(str(w.message) for w in found))


# ---- when it acts -------------------------------------------------------------------------------------------------


def test_off_nothing_happens(plugin: Any, graphs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(cache))
    with warnings.catch_warnings():
        warnings.simplefilter("error", AutofuseWarning)
        check()
    assert types(graphs[0]) == UNFUSED
    assert plugin.reports() == [] and not cache.exists()


@pytest.mark.parametrize("flags, code", [("--enable_autofuse=yes", "AF103"), ("--enable_autofus=true", "AF101")])
def test_a_misspelt_switch_is_not_silent(
    plugin: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch, flags: str, code: str
) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", flags)
    with pytest.warns(AutofuseWarning, match=code) as found:
        check()
    assert types(graphs[0]) == UNFUSED and plugin.reports() == []
    (warning,) = [w for w in found if issubclass(w.category, AutofuseWarning)]
    assert warning.filename == __file__, "the user's line"


def test_on_one_report_and_one_custom_node(plugin: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", ON)
    check()
    (report,) = plugin.reports()
    assert (report.kernels_before, report.kernels_after) == (3, 1) and report.rolled_back is None
    (op_type,) = types(graphs[0])
    assert [f.op_type for f in report.fused] == [op_type]
    assert kernels.profiles()[op_type] is not None
    plugin.clear_reports()
    assert plugin.reports() == []


def test_the_custom_node(plugin: Any, graphs: list[Any]) -> None:
    plugin.enable(ON)
    check(dynamic=True, inputs=(torch.randn(5, 8), torch.randn(8)))
    (node,) = [op for op in graphs[0].op if op.type.startswith("Autofuse")]
    (report,) = plugin.reports()
    (desc,) = node.output_desc
    assert desc.dtype == 1 and list(desc.shape.dim) == [-1, -1]
    assert desc.layout == "ND" and all(d.layout == "ND" for d in node.input_desc)
    assert list(desc.attr["origin_shape"].list.i) == [-1, -1] and desc.attr["origin_shape_initialized"].b
    assert desc.attr["_fx_tensor_name"].s.decode().endswith(".OUTPUT.0")  # for messages that name the model's line
    assert node.attr["_autofuse_nodes"].s.decode().split() == list(report.fused[0].nodes)
    rule = json.loads(node.attr["_inference_rule"].s)
    assert rule["dtype"] == [0] and rule["shape"]["outputs"] == [rule["shape"]["inputs"][0]]
    names = node.attr["_input_name_key"].list.s
    assert [n.decode() for n in names] == [d.name for d in node.input_desc]


def test_the_call_wins_over_the_environment(plugin: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.enable(ON)
    check()
    plugin.disable()
    monkeypatch.setenv("AUTOFUSE_FLAGS", ON)
    check()
    plugin.reset()
    check()
    monkeypatch.delenv("AUTOFUSE_FLAGS")  # read afresh at each compile
    check()
    fused = [any(t.startswith("Autofuse") for t in types(g)) for g in graphs]
    assert fused == [True, False, True, False] and len(plugin.reports()) == 2


def test_one_variable_turns_all_off(plugin: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GF_AUTOFUSION_DISABLE", "1")
    monkeypatch.setenv("AUTOFUSE_FLAGS", ON)
    check()
    plugin.enable(ON)
    check()
    assert plugin.reports() == [] and all(types(g) == UNFUSED for g in graphs)


def test_enable_is_the_switch(plugin: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plugin.enable("--autofuse_enable_pass=reduce", precision="strict", max_fusions=3)
    options = plugin.active_options()
    assert options.enabled and options.passes == {"reduce"} and options.precision == "strict"
    assert options.max_fusions == 3
    with pytest.raises(ValueError, match=r"precision: expected 'fp32' or 'strict'"):
        plugin.enable(precision="fp16")
    with pytest.warns(AutofuseWarning, match="AF101.*enable_autofuse"):
        plugin.enable("--enable_autofus=true")


@pytest.mark.parametrize("name, value", [("GF_AUTOFUSION_DEBUG", "1"), ("TORCHAIR_AUTOFUSE_ROUTE", "off")])
def test_planned_only(
    plugin: Any, graphs: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", ON)
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    check()
    (report,) = plugin.reports()
    assert len(report.fused) == 1 and report.kernels_after == 1
    assert types(graphs[0]) == UNFUSED and not (tmp_path / "cache").exists()


# ---- failures -----------------------------------------------------------------------------------------------------


def _break(plugin: Any, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a stage fail; "normalize" and "listener" do when the graph has been swapped already."""
    import torchair._ge_concrete_graph.fx2ge_converter as converter

    from torchair_autofuse import generated, pipeline
    from torchair_autofuse.plugin import context as plugin_context

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise KeyError("planted")

    if where == "fuse":
        monkeypatch.setattr(pipeline, "fuse", fail)
    elif where == "generate":
        monkeypatch.setattr(generated, "generate", fail)
    elif where == "build":
        monkeypatch.setattr(kernels, "build_many", fail)
        kernels.clear()
    elif where == "context":
        monkeypatch.setattr(plugin_context, "fusion_context", fail)
    elif where == "listener":
        plugin.on_fused(fail)
    else:
        original = converter._normalize_ge_graph

        def normalize(graph: Any) -> None:
            original(graph)
            if any(op.type.startswith("Autofuse") for op in graph.op):
                fail()

        monkeypatch.setattr(converter, "_normalize_ge_graph", normalize)


@pytest.mark.parametrize("where", ["context", "fuse", "generate", "build", "normalize", "listener"])
def test_a_failure_is_rolled_back(plugin: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    _break(plugin, where, monkeypatch)
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_STRICT", "0")
    seen: list[Any] = []
    hook = _concrete_graphs(seen, monkeypatch)
    plugin.enable(ON)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check()
    assert codes(found) == ["AF301"] and "planted" in str([str(w.message) for w in found])
    assert types(graphs[0]) == UNFUSED
    (report,) = plugin.reports()
    assert report.rolled_back is not None and report.rolled_back.code == "AF301" and not report.fused
    assert (report.kernels_before, report.kernels_after) == (3, 3)
    assert "AF301" in str(report)
    # TorchAir goes on with both names of the graph; they must be one message
    (graph,) = hook
    graph._proto.name = "renamed"
    assert graph._model.graph[0].name == "renamed"


def _concrete_graphs(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The GeGraph objects of what is compiled from here on."""
    import torchair._ge_concrete_graph.fx2ge_converter as converter

    original = converter.GeConcreteGraph.optimize_graph_without_runtime

    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(self.graph)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(converter.GeConcreteGraph, "optimize_graph_without_runtime", hook)
    return seen


@pytest.mark.parametrize("where", ["fuse", "normalize"])
def test_strict_raises(plugin: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    _break(plugin, where, monkeypatch)
    plugin.enable(ON)
    with pytest.raises(Exception, match="planted"):
        check()
    assert plugin.reports() == []


def test_an_unsupported_chip_runs_unfused(plugin: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_STRICT", "0")
    plugin.enable(ON, soc="Ascend310P3")
    with pytest.warns(AutofuseWarning, match="AF306"):
        check()
    assert not any(t.startswith("Autofuse") for t in types(graphs[0]))


# ---- other TorchAirs and modes ------------------------------------------------------------------------------------


DRIFT = [
    ("converter.GeConcreteGraph", "optimize_graph_without_runtime"),
    ("converter.GeConcreteGraph", "__call__"),
    ("converter", "_normalize_ge_graph"),
    ("converter", "GeConcreteGraph"),
    ("converter", "initialize_graph_engine"),
    ("converter.GeGraph", "load"),
    ("compiler._NpuFxCompiler", "_gen_compiled_gm"),
    ("compiler", "_NpuFxCompiler"),
    ("cache", "_get_str_options"),
]


def _internals() -> dict[str, Any]:
    import torchair._ge_concrete_graph.fx2ge_converter as converter
    import torchair.npu_fx_compiler as compiler
    from torchair.inference import _cache_compiler

    return {
        "converter": converter, "converter.GeConcreteGraph": converter.GeConcreteGraph, "compiler": compiler,
        "converter.GeGraph": converter.GeGraph,
        "compiler._NpuFxCompiler": compiler._NpuFxCompiler, "cache": _cache_compiler,
    }  # fmt: skip


WRAPPED = [
    ("converter.GeConcreteGraph", "optimize_graph_without_runtime"),
    ("converter.GeConcreteGraph", "__call__"),
    ("compiler._NpuFxCompiler", "_gen_compiled_gm"),
    ("cache", "_get_str_options"),
    ("converter.GeGraph", "load"),
    ("converter", "initialize_graph_engine"),
]


def _methods() -> list[Any]:
    found = _internals()
    return [getattr(found[owner], name) for owner, name in WRAPPED]


@pytest.mark.parametrize("owner, name", DRIFT)
def test_a_torchair_that_differs_is_left_alone(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, owner: str, name: str
) -> None:
    target = _internals()[owner]
    found = _internals()
    for (holder, wrapped), method in zip(WRAPPED, _methods()):
        monkeypatch.setattr(found[holder], wrapped, getattr(method, "__wrapped__", method))  # as before the plugin came
    monkeypatch.delattr(target, name)
    with pytest.warns(AutofuseWarning, match=f"AF302: .*{name}.* is gone"):
        plugin.hooks._patch()
    monkeypatch.undo()
    for method in _methods():  # the real ones are still wrapped
        assert method._autofuse


def test_a_hook_with_other_parameters_is_left_alone(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    converter = _internals()["converter"]
    monkeypatch.setattr(converter.GeConcreteGraph, "optimize_graph_without_runtime", lambda self, inputs: None)
    with pytest.warns(AutofuseWarning, match="AF302: .*other parameters"):
        plugin.hooks._patch()


def test_installed_twice_is_wrapped_once(plugin: Any) -> None:
    before = _methods()
    plugin.install()
    plugin.hooks._patch()
    assert all(a is b for a, b in zip(before, _methods()))
    assert not any(hasattr(m.__wrapped__, "_autofuse") for m in before)


@pytest.mark.parametrize("mode", ["reduce-overhead", "npugraph_ex"])
def test_a_mode_without_a_graph(plugin: Any, mode: str) -> None:
    def run() -> None:
        torch._dynamo.reset()
        import torchair

        config = torchair.CompilerConfig()
        config.mode = mode
        with pytest.raises(Exception):  # noqa: B017  on the host this mode cannot run, whatever TorchAir says of it
            torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))(*ones())

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
        assert codes(found) == []
        plugin.enable(ON)
        run()
        run()
    assert codes(found) == ["AF303"] and mode in str([str(w.message) for w in found])
    assert plugin.reports() == []


@pytest.mark.parametrize("method, code", [("_gen_compiled_gm", "AF303"), ("renamed", "AF302")])
def test_the_backend_without_a_graph(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, code: str
) -> None:
    """A package of its own in torch_npu, which only an NPU can import: a stand-in with its names."""
    package = tmp_path / "npugraph_ex"
    package.mkdir()
    (package / "__init__.py").write_text("from npugraph_ex.npu_fx_compiler import _NpuFxCompiler\n")
    (package / "npu_fx_compiler.py").write_text(
        f"class _NpuFxCompiler:\n    def {method}(self, gm, inputs):\n        return gm, inputs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugin.install()
    plugin.enable(ON)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        import npugraph_ex

        compiler = npugraph_ex._NpuFxCompiler()
        assert getattr(compiler, method)(1, 2) == getattr(compiler, method)(1, 2) == (1, 2)
    for name in [n for n in sys.modules if n.partition(".")[0] == "npugraph_ex"]:
        del sys.modules[name]
    assert codes(found) == [code] and "npugraph_ex" in str(found[-1].message)


# ---- cache_compile ------------------------------------------------------------------------------------------------


def test_the_key_of_a_saved_model(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchair

    from torchair_autofuse import opdef

    key = _internals()["cache"]._get_str_options
    config = torchair.CompilerConfig()
    plain = key.__wrapped__(config)
    assert key(config) == plain
    keys = {plain}
    for flags in (ON, f"{ON};--autofuse_enable_pass=all", f"{ON};--max_fusion_size=3"):
        plugin.enable(flags)
        assert key(config) == key(config)
        keys.add(key(config))
    plugin.enable(ON, precision="strict")
    keys.add(key(config))
    monkeypatch.setattr(opdef, "generator_digest", lambda: "another")
    keys.add(key(config))
    assert len(keys) == 6
    plugin.disable()
    assert key(config) == plain


class Saved(torch.nn.Module):
    def __init__(self, folder: str) -> None:
        super().__init__()
        import torchair

        self.cached = torchair.inference.cache_compile(
            self.body, config=torchair.CompilerConfig(), dynamic=False, cache_dir=folder
        )

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.cached(x, y)

    def body(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * y + 1)


def test_a_saved_model_is_the_fused_one(plugin: Any, graphs: list[Any], tmp_path: Path) -> None:
    x, y = ones()
    folder = str(tmp_path / "saved")
    plugin.enable(ON)
    for expected_reports in (1, 1):  # the second is a hit: nothing is compiled
        torch.testing.assert_close(Saved(folder)(x, y), model(x, y))
        assert len(plugin.reports()) == expected_reports
        torch._dynamo.reset()
    plugin.disable()
    torch.testing.assert_close(Saved(folder)(x, y), model(x, y))
    assert [len(types(g)) for g in graphs] == [1, 1, len(UNFUSED)]


# ---- what users do ------------------------------------------------------------------------------------------------


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
    seen = _concrete_graphs([], monkeypatch)
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
