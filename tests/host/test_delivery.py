"""The plugin where CANN is present: routes, ops that are not to be had, saved graphs. Graphs still run on the host."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchair_autofuse.deliver import jit
from torchair_autofuse.deliver.package import activate
from torchair_autofuse.deliver.package.activate import ActivePackage
from torchair_autofuse.host import loader
from torchair_autofuse.messages import AutofuseWarning, Reason
from torchair_autofuse.opdef.errors import ArtefactError

ON = "--enable_autofuse=true"


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(torch.cumsum(torch.relu(x * 2 + 1), 0) * 3)


def run(dynamic: bool = False) -> None:
    """Compiles, runs and compares with eager: two fused ops, Cumsum between them."""
    import torchair

    torch._dynamo.reset()
    x = torch.linspace(-3, 3, 32).reshape(4, 8)
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    torch.testing.assert_close(torch.compile(model, backend=backend, dynamic=dynamic)(x), model(x))


@pytest.fixture
def device(plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Makes CANN of a version look present; returns the plugin's module for devices."""
    home = tmp_path / "cann"
    (home / "compiler").mkdir(parents=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    monkeypatch.setattr(loader, "cann_present", lambda: True)
    monkeypatch.setattr(plugin.device, "_packages", [])
    monkeypatch.setattr(plugin.device, "_available", set())
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH", raising=False)

    def of(version: str) -> Any:
        (home / "compiler" / "version.info").write_text(f"Version={version}\n")
        return plugin.device

    return of


asked_dynamic: list[bool] = []


def use_jit(monkeypatch: pytest.MonkeyPatch, refuse: Sequence[str] = ()) -> list[list[str]]:
    """Every op can be built but those of these kinds of node; returns what was asked for."""
    asked: list[list[str]] = []
    asked_dynamic.clear()

    def unavailable(ops: Sequence[Any], options: Any, cann: Any, *, dynamic: bool) -> Mapping[str, Reason]:
        asked.append([op.op_type for op in ops])
        asked_dynamic.append(dynamic)
        bad = [op for op in ops if any(n.type in refuse for n in op.provenance.node)]
        return {op.op_type: Reason("AF503", f"{op.op_type}: error: no such intrinsic") for op in bad}

    monkeypatch.setattr(jit, "unavailable", unavailable)
    return asked


class Package(ActivePackage):
    """Holds every op but those with a node of type ``without``."""

    without = ""

    def unavailable(self, ops: Any) -> dict[str, Reason]:
        bad = [op for op in ops if any(n.type == self.without for n in op.provenance.node)]
        return {op.op_type: Reason("AF501", f"{op.op_type} is not in the package") for op in bad}


def use_package(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    monkeypatch.setattr(activate, "activate", lambda environ, options: found)


def package(without: str = "", digest: str = "d1") -> Any:
    made = Package(None, None, "", digest)  # type: ignore[arg-type]
    object.__setattr__(made, "without", without)
    return made


def caught(call: Callable[[], None] = run) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in found if issubclass(w.category, AutofuseWarning)]


def fused_nodes(graphs: list[Any]) -> list[str]:
    return [op.type for op in graphs[-1].op if op.type.startswith("Autofuse")]


def test_a_first_run_records(
    plugin: Any, device: Any, graphs: list[Any], kernel_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device("8.5.0")
    plugin.enable(ON)
    (told,) = caught()
    assert told.startswith("AF501: 2 fused ops are recorded and not used yet")
    assert re.search(r"'python -m torchair_autofuse build --soc ascend910b .*--out \S+' and start anew", told)
    assert fused_nodes(graphs) == []
    (report,) = plugin.reports()
    assert (report.route, report.fused, report.kernels_after) == ("package", (), report.kernels_before)
    withheld = [r for r in report.refused if r.code == "AF501"]
    assert len(withheld) == 2
    recorded = [p for p in (kernel_cache / "ops").iterdir() if (p / "op.afop.pb").is_file()]
    assert len(recorded) >= 2


def test_a_package_that_holds_all_ops(
    plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    device("8.5.0")
    use_package(monkeypatch, package())
    plugin.enable(ON)
    assert caught() == []
    assert len(fused_nodes(graphs)) == 2
    (report,) = plugin.reports()
    assert report.route == "package" and "the installed op package" in str(report)


def test_a_package_that_lacks_an_op(
    plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    device("9.2.0")
    use_package(monkeypatch, package(without="Sin"))
    plugin.enable(ON)
    (told,) = caught()
    assert told.startswith("AF501: ") and "is not in the package" in told
    (kept,) = fused_nodes(graphs)
    (report,) = plugin.reports()
    assert [f.op_type for f in report.fused] == [kept] and "Sin" in {op.type for op in graphs[-1].op}


def test_a_package_of_no_use(plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device("8.5.0")
    use_package(monkeypatch, Reason("AF502", "/opt/fused: its folder was renamed"))
    plugin.enable(ON)
    (told,) = caught()
    assert told == "AF502: /opt/fused: its folder was renamed (and 1 more, see the report)"
    assert fused_nodes(graphs) == []


def test_jit(plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device("9.1.0")
    asked = use_jit(monkeypatch)
    plugin.enable(ON)
    assert caught() == []
    assert [len(a) for a in asked] == [2] and sorted(fused_nodes(graphs)) == sorted(asked[0])
    assert plugin.reports()[0].route == "jit" and asked_dynamic == [False]
    run(dynamic=True)
    assert asked_dynamic == [False, True]


def test_jit_of_an_op_that_does_not_build(
    plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    device("9.1.0")
    asked = use_jit(monkeypatch, refuse=["Relu"])
    plugin.enable(ON)
    (told,) = caught()
    assert re.fullmatch(r"AF503: Autofuse\w+: error: no such intrinsic", told)
    assert [len(a) for a in asked] == [2, 1] and fused_nodes(graphs) == asked[1]


@pytest.mark.parametrize(
    ("version", "route", "problem"),
    [("8.2.0", "auto", "fused ops need CANN 8.5 or later"), ("9.0.0", "jit", "route 'jit' needs CANN 9.1 or later")],
)
def test_without_a_route(
    plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch, version: str, route: str, problem: str
) -> None:
    device(version)
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_ROUTE", route)
    plugin.enable(ON)
    (told,) = caught()
    assert told.startswith(f"AF505: {problem}")
    (report,) = plugin.reports()
    assert report.rolled_back is not None and report.rolled_back.code == "AF505"
    assert fused_nodes(graphs) == [] and report.kernels_after == report.kernels_before > 0


def test_planning_alone_needs_no_route(plugin: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device("8.2.0")
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_ROUTE", "off")
    plugin.enable(ON)
    assert caught() == []
    (report,) = plugin.reports()
    assert report.run_unfused and len(report.fused) == 2 and report.route == ""


def test_the_chip_is_the_device(plugin: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchair.core as core

    device("9.1.0")
    use_jit(monkeypatch)
    monkeypatch.setattr(core._torchair, "GetSocName", lambda: "Ascend910B3")
    plugin.enable(ON)
    assert caught() == []
    assert plugin.reports()[0].soc == "Ascend910B3"
    plugin.enable(ON, soc="Ascend910_9391")
    (told,) = caught()
    assert (
        told == "AF106: SoC Ascend910_9391 has no effect where graphs are compiled for a device: it is an Ascend910B3"
    )
    assert plugin.reports()[1].soc == "Ascend910B3"


def test_the_note_on_ges_own_autofuse(plugin: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device("9.1.0")
    use_jit(monkeypatch)
    plugin.enable(ON)
    run()
    plugin.reset()
    monkeypatch.setenv("AUTOFUSE_FLAGS", ON)
    assert caught() == [], "a note in the report, not a warning"
    assert [[w.code for w in r.warnings] for r in plugin.reports()] == [[], ["AF305"]]


def test_the_package_is_shown_before_ge_starts(plugin: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchair.core._backend as backend

    module = device("8.5.0")
    order: list[str] = []
    use_package(monkeypatch, None)
    monkeypatch.setattr(activate, "activate", lambda environ, options: order.append("activate"))
    monkeypatch.setattr(backend._torchair, "InitializeGraphEngine", lambda options: order.append("start"))
    monkeypatch.setattr(backend, "_GLOBAL_COMPILE_OPTION", None)
    backend.initialize_graph_engine({})
    assert order == ["activate", "start"] and module._packages == [None]
    module.start()
    assert order == ["activate", "start"], "once per process"


def test_a_failure_to_look_for_a_package(plugin: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(environ: Any, options: Any) -> None:
        raise KeyError("planted")

    module = device("8.5.0")
    monkeypatch.setattr(activate, "activate", fail)
    with pytest.raises(KeyError, match="planted"):
        module.start()
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_STRICT", "0")
    module.start()
    assert module._packages == [Reason("AF502", "the op package could not be looked for: KeyError: 'planted'")]


def saved(*op_types: str, dims: Sequence[int] = (4, 8)) -> Any:
    desc = SimpleNamespace(shape=SimpleNamespace(dim=dims))
    return SimpleNamespace(
        _proto=SimpleNamespace(op=[SimpleNamespace(type=t, output_desc=[desc]) for t in ("Data", *op_types)])
    )


def test_saved_graphs_get_their_ops_first(
    plugin: Any, device: Any, graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = device("9.1.0")
    asked = use_jit(monkeypatch)
    plugin.enable(ON)
    run()
    ops = sorted(fused_nodes(graphs))
    module.before_load(saved(*ops))
    assert len(asked) == 1, "this process has them"
    module._available.clear()  # as in another process
    module.before_load(saved(*ops, dims=(-1, 8)))
    module.before_load(saved(*ops))
    assert asked_dynamic == [False, True]
    assert [sorted(a) for a in asked] == [ops, ops]
    module._available.clear()
    use_jit(monkeypatch, refuse=["Relu"])
    with pytest.raises(ArtefactError, match=r"AF503: .*no such intrinsic.* Delete TorchAir's cache folder"):
        module.before_load(saved(*ops))
    with pytest.raises(ArtefactError, match="there is no folder"):
        module.before_load(saved("AutofusePointwiseK000000000000"))
    module.before_load(saved())


def test_the_key_of_a_saved_graph_names_what_delivers_its_ops(
    plugin: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = device("9.2.0")
    plugin.enable(ON)
    keys = [module.saved_key(plugin.active_options())]
    device("9.1.0")
    keys.append(module.saved_key(plugin.active_options()))
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_ROUTE", "package")
    plugin.enable(ON)
    for digest in ("d1", "d2"):
        module._packages[:] = [package(digest=digest)]
        keys.append(module.saved_key(plugin.active_options()))
    assert len(set(keys)) == 4
