"""The stand-ins for TorchAir's native modules: the contract of TorchNpuGraphBase, alone and inside TorchAir."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from torchair_autofuse.host import executor, loader, native

loader.install()
wheel = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

F32, I64 = 0, 9


class Recorder:
    """Stands in for the executor: returns what ``answer`` makes of the inputs."""

    answer: Callable[[list[torch.Tensor]], Any] = staticmethod(lambda inputs: list(inputs))

    def __init__(self, model_def: bytes, *, output_dtypes: list[int], input_placements: list[int]) -> None:
        assert type(model_def) is bytes and type(output_dtypes) is list and type(input_placements) is list
        self.calls: list[tuple[list[torch.Tensor], list[torch.Tensor | None]]] = []

    def run(self, inputs: list[torch.Tensor], assigned: list[torch.Tensor | None]) -> list[torch.Tensor]:
        self.calls.append((inputs, assigned))
        return Recorder.answer(inputs)


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> native.TorchNpuGraphBase:
    """A loaded graph f32[-1, 3] -> f32[-1, 3]."""
    monkeypatch.setattr(executor, "GraphExecutor", Recorder)
    monkeypatch.setattr(Recorder, "answer", lambda inputs: [inputs[0] + 1])
    graph = native.TorchNpuGraphBase("g")
    graph.load(bytearray(b"model"), {"ge.x": "1"}, (1,), (F32,), 0)  # type: ignore[arg-type]
    graph.set_hint_shape([[-1, 3]], [[-1, 3]])
    graph.compile()
    assert graph.summary() == ""
    return graph


def test_run(graph: native.TorchNpuGraphBase) -> None:
    x = torch.zeros(2, 3)
    assert torch.equal(graph.run(([x], [], None))[0], torch.ones(2, 3))
    graph.run(([x], [x], None))
    graph.run(([torch.nn.Parameter(x)], [None], None))
    assert [len(inputs) for inputs, _ in graph._executor.calls] == [1, 1, 1]
    assert graph._executor.calls[0][1] == [None]
    assert graph._executor.calls[1][1][0] is x


class Sub(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("pack", "message"),
    [
        (([torch.zeros(2, 3)], []), "one tuple"),
        (([], [], None), "takes 1 inputs, 0 given"),
        (([None], [], None), "input 0 of graph g is a NoneType"),
        (([torch.zeros(2, 3).as_subclass(Sub)], [], None), "input 0 of graph g is a Sub"),
        (([torch.zeros(2, 3, device="meta")], [], None), "input 0 of graph g is on meta"),
        (([torch.zeros(3, 2).t()], [], None), r"not contiguous, strides \(1, 2\) for shape \[2, 3\]"),
        (([torch.zeros(2, 4)], [], None), r"shape \[2, 4\], but the graph was compiled for \[-1, 3\]"),
        (([torch.zeros(3)], [], None), r"shape \[3\], but"),
        (([torch.zeros(2, 3)], [None, None], None), "1 outputs, but 2 are assigned"),
    ],
)
def test_bad_calls(graph: native.TorchNpuGraphBase, pack: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        graph.run(pack)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda inputs: [], "gave 0 outputs, but 1 are declared"),
        (lambda inputs: [inputs[0].half()], "output 0 of graph g is torch.float16, but torch.float32 is declared"),
        (lambda inputs: [inputs[0].t() + 1], r"shape \[3, 2\], but \[-1, 3\] is declared"),
        (lambda inputs: {}["no such op"], "run of graph g: KeyError: 'no such op'"),
        (lambda inputs: torch.zeros(2).to("nowhere"), "run of graph g|nowhere"),
    ],
)
def test_bad_results(
    graph: native.TorchNpuGraphBase, monkeypatch: pytest.MonkeyPatch, answer: Any, message: str
) -> None:
    monkeypatch.setattr(Recorder, "answer", answer)
    with pytest.raises(RuntimeError, match=message) as caught:
        graph.run(([torch.zeros(2, 3)], [], None))
    assert caught.type is RuntimeError


def test_unknown_rank_and_use_before_load() -> None:
    assert native._fits((4, 5), [-2]) and native._fits((), []) and not native._fits((1,), [])
    graph = native.TorchNpuGraphBase("scratch")
    for call in (graph.compile, lambda: graph.run(([], [], None))):
        with pytest.raises(RuntimeError, match="graph scratch is used before it was loaded"):
            call()
    with pytest.raises(RuntimeError, match="not a serialized ModelDef"):
        graph.load(b"\xff", {}, [], [], 0)


@pytest.mark.parametrize("name", native._MODELLED)
def test_what_is_not_modelled_is_named(name: str) -> None:
    module = ModuleType(f"torchair.core.{name}")
    native.populate(module)
    with pytest.raises(AttributeError, match=f"AF402: .*{name}.export needs CANN"):
        _ = module.export
    assert not hasattr(module, "__path__")
    with pytest.raises(AttributeError, match=r"AF402: .*TorchNpuGraphBase\.feed"):
        _ = native.TorchNpuGraphBase("g").feed


@wheel
def test_module_calls() -> None:
    from torchair.core import _npu_graph_executor, _torchair
    from torchair.llm_datadist._tensor_utils import _TORCH_DTYPE_TO_GE_TYPE

    assert _torchair.TorchNpuGraphBase is native.TorchNpuGraphBase
    assert _torchair.check_cann_compat("Add", (), ()) == ""
    assert _torchair.get_registered_ir_def("MyOp") == ("ERROR", [], [], [])
    assert _torchair.InitializeGraphEngine({}) is None and _torchair.FinalizeGraphEngine() is None
    assert _torchair.StupidRepeat("ab", 2) == "abab"
    assert _npu_graph_executor.GetNpuStorageSizes(torch.zeros(2, 3)) == [2, 3]
    assert len(set(_TORCH_DTYPE_TO_GE_TYPE.values())) == len(set(_TORCH_DTYPE_TO_GE_TYPE))


def _npu(function: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    import torchair

    torch._dynamo.reset()
    return torch.compile(
        function, backend=torchair.get_npu_backend(compiler_config=torchair.CompilerConfig()), **kwargs
    )


@wheel
@pytest.mark.parametrize("dynamic", [False, True])
def test_through_torchair(dynamic: bool) -> None:
    def inplace(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(y)
        return x * 2, torch.full((2,), 3.0)

    compiled = _npu(inplace, dynamic=dynamic)
    shapes = [(4, 3), (5, 3)] if dynamic else [(4, 3)]
    for shape in shapes:
        x, y = torch.arange(float(shape[0] * 3)).reshape(shape), torch.ones(shape)
        expected = x + y
        first = compiled(x, y)
        assert torch.equal(x, expected)
        assert torch.equal(first[0], expected * 2) and torch.equal(first[1], torch.full((2,), 3.0))
        first[1].zero_()  # a constant that is an output is given out as a copy
        assert torch.equal(compiled(x, y)[1], torch.full((2,), 3.0))


@wheel
def test_strided_input_is_read_and_written_in_place() -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1.0)

    x = torch.arange(6.0).reshape(2, 3).t()
    expected = x + 1
    y = _npu(add, dynamic=False)(x)
    assert torch.equal(x, expected) and torch.equal(y, expected) and x.stride() == (1, 3)
