"""The hook in the real TorchAir: when it acts, what it leaves alone, what it puts back."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled import ON, UNFUSED, check, codes, concrete_graphs, model, ones, types

from torchair_autofuse.host import kernels
from torchair_autofuse.messages import AutofuseWarning

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")


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
    assert warning.filename == check.__code__.co_filename, "the user's line"


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
    hook = concrete_graphs(seen, monkeypatch)
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
