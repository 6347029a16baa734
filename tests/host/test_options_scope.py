"""``torchair_autofuse.options``: options for a part of a program."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torchair_autofuse
from torchair_autofuse.host import loader
from torchair_autofuse.options import Options

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

ON = "--enable_autofuse=true"
options: Any = torchair_autofuse.options


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2 + 1)


def chain(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x * 2 + 1), torch.tanh(y + 3).exp()


def compiled(function: Any = model) -> Any:
    import torchair

    return torch.compile(
        function, backend=torchair.get_npu_backend(compiler_config=torchair.CompilerConfig()), dynamic=False
    )


def test_in_a_scope_fusion_is_on_and_after_it_off(plugin: Any) -> None:
    with options(passes={"reduce"}, precision="strict"):
        inside = plugin.active_options()
        compiled()(torch.ones(4, 8))
    assert inside.enabled and inside.passes == {"reduce"} and inside.precision == "strict"
    assert len(plugin.reports()) == 1
    assert not plugin.active_options().enabled
    torch._dynamo.reset()
    compiled()(torch.ones(4, 8))
    assert len(plugin.reports()) == 1


def test_a_scope_changes_what_holds_around_it(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", f"{ON};--autofuse_enable_pass=concat")
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_MAX_FUSIONS", "7")
    with options(precision="strict"):
        assert plugin.active_options().passes == {"concat"} and plugin.active_options().max_fusions == 7
        with options(max_fusions=2):
            assert (plugin.active_options().precision, plugin.active_options().max_fusions) == ("strict", 2)
            with options(f"{ON};--autofuse_enable_pass=reduce"):  # flags take the place of all but the environment
                inner = plugin.active_options()
                assert (inner.passes, inner.precision, inner.max_fusions) == ({"reduce"}, "fp32", 7)
        assert plugin.active_options().max_fusions == 7
        plugin.enable(ON, max_fusions=5)  # holds around the scope, which goes on changing it
        assert (plugin.active_options().precision, plugin.active_options().max_fusions) == ("strict", 5)
    assert plugin.active_options().precision == "fp32"


def test_one_variable_wins_over_a_scope(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GF_AUTOFUSION_DISABLE", "1")
    with options(ON):
        assert not plugin.active_options().enabled


def test_a_scope_can_turn_fusion_off(plugin: Any) -> None:
    plugin.enable(ON)
    with options(enabled=False):
        compiled()(torch.ones(4, 8))
    assert plugin.reports() == [] and plugin.active_options().enabled


def test_an_exception_ends_a_scope(plugin: Any) -> None:
    with pytest.raises(KeyError), options(ON):
        raise KeyError
    assert not plugin.active_options().enabled


def test_one_scope_may_be_entered_inside_itself(plugin: Any) -> None:
    scope = options(ON)
    with scope, scope:
        assert plugin.active_options().enabled
    assert not plugin.active_options().enabled
    with scope:
        assert plugin.active_options().enabled


def test_threads_and_tasks_do_not_see_each_others(plugin: Any) -> None:
    seen: dict[str, bool] = {}
    entered, checked = threading.Event(), threading.Event()

    def other() -> None:
        entered.wait(10)
        seen["thread"] = plugin.active_options().enabled
        checked.set()

    thread = threading.Thread(target=other)
    thread.start()
    with options(ON):
        entered.set()
        assert checked.wait(10)
    thread.join()

    async def inside() -> None:
        with options(ON):
            await asyncio.sleep(0)
            seen["inside"] = plugin.active_options().enabled

    async def outside() -> None:
        await asyncio.sleep(0)
        seen["outside"] = plugin.active_options().enabled

    async def both() -> None:
        await asyncio.gather(inside(), outside())

    asyncio.run(both())
    assert seen == {"thread": False, "inside": True, "outside": False}


def test_the_body_of_an_async_function_is_inside(plugin: Any) -> None:
    @options(max_fusions=3)
    async def work(name: str) -> tuple[str, int | None]:
        await asyncio.sleep(0)
        return name, plugin.active_options().max_fusions

    class Owner:
        @options(max_fusions=4)
        async def work(self) -> int | None:
            return plugin.active_options().max_fusions  # type: ignore[no-any-return]

    assert work.__name__ == "work" and asyncio.iscoroutinefunction(work)
    assert asyncio.run(work("a")) == ("a", 3) and asyncio.run(Owner().work()) == 4
    assert plugin.active_options().max_fusions is None


def test_wrapped_models_each_have_their_own(plugin: Any) -> None:
    strict = options(precision="strict")(compiled())
    plain = options(ON, max_fusions=0)(compiled())
    x = torch.arange(8.0).half().reshape(2, 4)
    assert torch.equal(strict(x), model(x)) and torch.equal(plain(x), model(x))
    assert [len(r.fused) for r in plugin.reports()] == [1, 0]
    assert not plugin.active_options().enabled


def test_a_wrapped_module_keeps_its_attributes(plugin: Any) -> None:
    class Owner:
        factor = 3

        @options(ON)
        def method(self, x: int) -> tuple[int, bool]:
            "What it does."
            return x * self.factor, plugin.active_options().enabled

    assert Owner().method(2) == (6, True)
    assert Owner.method.__doc__ == "What it does."
    wrapped = options(ON)(torch.nn.Linear(3, 4))
    assert wrapped.weight.shape == (4, 3) and len(list(wrapped.parameters())) == 2
    assert wrapped(torch.zeros(2, 3)).shape == (2, 4)


def test_a_backward_in_the_scope_is_fused_too(plugin: Any) -> None:
    x = torch.linspace(-1, 1, 8, requires_grad=True)
    with options(ON):
        torch.tanh(compiled()(x) * 2).sum().backward()
    assert len(plugin.reports()) == 2
    assert x.grad is not None and x.grad.shape == (8,)


def test_node_and_type_skip_lists(plugin: Any) -> None:
    x, y = torch.ones(4, 8), torch.ones(4, 8)
    with options(ON):
        compiled(chain)(x, y)
    nodes = [op.nodes for op in plugin.reports()[0].fused]
    assert len(nodes) >= 1
    name = next(n for group in nodes for n in group if n.startswith("Relu"))
    for skipped in ({"skip_nodes": {name}}, {"skip_types": {"Relu"}}):
        torch._dynamo.reset()
        plugin.clear_reports()
        with options(ON, **skipped):
            compiled(chain)(x, y)
        (report,) = plugin.reports()
        assert not any(name in op.nodes for op in report.fused)
        assert [r.code for r in report.refused if r.node == name] == ["AF214"]


def test_the_chip_of_a_scope_is_the_host_s(plugin: Any) -> None:
    with options(soc="Ascend950PR_9599"):
        assert loader.soc_name() == "Ascend950PR_9599"
        with options(precision="strict"):
            assert loader.soc_name() == "Ascend950PR_9599"
    assert loader.soc_name() == loader.DEFAULT_SOC
    with options(soc="Ascend950PR_9599"):
        compiled()(torch.ones(4, 8))
    assert plugin.reports()[0].soc == "Ascend950PR_9599"


def test_mistakes_are_told_at_once(plugin: Any) -> None:
    with pytest.raises(ValueError, match="precision: expected 'fp32' or 'strict'"):
        options(precision="fp16")
    with pytest.raises(ValueError, match=r"no field .max_fusion.*max_fusions"):
        options(max_fusion=3)
    with pytest.raises(ValueError, match="skip_nodes: expected a set of names"):
        options(skip_nodes="Add_1")
    with pytest.raises(TypeError, match="expected a flag string, Options or None"):
        options(3)
    with pytest.raises(TypeError, match="wraps what is called"):
        options(ON)(3)

    def pieces() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (pieces, later):
        with pytest.raises(TypeError, match="cannot wrap the generator"):
            options(ON)(function)


def test_it_is_still_the_module_of_options(tmp_path: Path) -> None:
    assert torchair_autofuse.options.Options is Options
    import torchair_autofuse.options.keys as keys

    assert torchair_autofuse.options.keys is keys
