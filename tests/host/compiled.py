"""A small model for tests of the plugin: compiled with TorchAir's backend, compared with eager."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch

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


def concrete_graphs(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The GeGraph objects of what is compiled from here on."""
    import torchair._ge_concrete_graph.fx2ge_converter as converter

    original = converter.GeConcreteGraph.optimize_graph_without_runtime

    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(self.graph)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(converter.GeConcreteGraph, "optimize_graph_without_runtime", hook)
    return seen
