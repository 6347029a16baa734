"""``verify``: what it accepts, what it finds, what it leaves alone; and the command."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import torchair_autofuse
from tests.host.planted import wrong_tanh
from torchair_autofuse.cli import main
from torchair_autofuse.host import kernels
from torchair_autofuse.host.kernels import HostKernel
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.trust import check, session
from torchair_autofuse.trust.inputs import randomised
from torchair_autofuse.trust.measure import class_names, compare

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

ALL = "--enable_autofuse=true;--autofuse_enable_pass=all"


def verify(model: Any, *inputs: Any, **kwargs: Any) -> Any:
    return torchair_autofuse.verify(model, *inputs, options=ALL, **kwargs)


def three(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Three fused ops with matmuls between them; the second has the tanh."""
    a = torch.relu(x * w[0] + 1) @ w
    b = torch.tanh(a * 2) + a
    return torch.exp(-(b @ w) * 0.1) + 1


def values() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(8, 16, generator=generator), torch.randn(16, 16, generator=generator)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> dict[str, Any]:
        y = self.norm(torch.relu(self.linear(x)) * more["scale"] + 1)
        self.seen.add_(y.detach().mean(0))
        return {"y": y, "rest": (torch.softmax(y * 2, -1), y.sum(-1) > 0)}


def test_a_right_model(plugin: Any) -> None:
    x, w = values()
    report = verify(three, x, w)
    assert report.ok and report.first_bad is None and report.deterministic
    assert len(report.ops) == 3 and all(op.calls == 1 and op.outputs for op in report.ops)
    (output,) = report.outputs
    assert output.name.endswith("output") and output.shape == (8, 16) and output.size == 128
    assert output.max_ulp > 0 and output.max_abs <= 2 * output.unfused.max_abs + 1e-6
    assert output.max_rel == output.fused.max_rel and output.eager.max_rel < 1e-5
    assert sum(output.fused.histogram) == sum(output.unfused.histogram) == 128
    text = str(report)
    assert "Verification: ok" in text and "3 compared, 0 wrong" in text and "the same bits" in text
    assert all(len(line) <= 140 for line in text.splitlines())
    again = json.loads(json.dumps(report.to_dict()))
    assert again["ok"] and list(again["outputs"][0]["fused"]["histogram"]) == list(class_names())
    assert len(again["tolerances"]) == 5


def test_the_one_wrong_op_is_named(plugin: Any) -> None:
    x, w = values()
    with wrong_tanh():
        report = verify(three, x, w)
    assert not report.ok
    assert [op.ok for op in report.ops] == [True, False, True], "what follows is right on the inputs it gets"
    assert "Tanh" in report.first_bad.node_types
    (output,) = report.outputs
    assert output.bad > 100 and output.first is not None and output.unfused.max_rel < 1e-5
    text = str(report)
    assert "DIFFERENT" in text and f"First bad: {report.first_bad.op_type}" in text and f"{output.bad} WRONG" in text
    assert report.to_dict()["first_bad"]["nodes"] == list(report.first_bad.nodes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(plugin: Any, dtype: torch.dtype) -> None:
    x, w = (t.to(dtype) for t in values())
    report = verify(three, x, w)
    assert report.ok, str(report)
    with wrong_tanh():
        report = verify(three, x, w)
    assert not report.ok and "Tanh" in report.first_bad.node_types


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_norms_with_gradients(plugin: Any, dtype: torch.dtype) -> None:
    """GE keeps their statistics in f32, where PyTorch on the CPU declares the halves of x."""
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU())
    batch = torch.nn.Sequential(torch.nn.BatchNorm1d(16), torch.nn.ReLU())
    x = values()[0].to(dtype)
    for model in (layer, batch, batch.eval()):
        report = verify(model.to(dtype), x, backward=True)
        assert report.ok and len(report.graphs) == 2 and not report.failure, str(report)
        assert {o.dtype for o in report.outputs} == {str(dtype).removeprefix("torch.")}
    assert verify(layer, x, backward=True).ops


def test_complex_values(plugin: Any) -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(torch.stack([torch.tanh(x * 2), torch.exp(-x * x)], -1))

    x = values()[0]
    report = verify(turned, x)
    assert report.ok and report.outputs[0].dtype == "complex64" and report.outputs[0].spared == 0, str(report)
    with wrong_tanh():
        report = verify(turned, x)
    assert not report.ok and report.outputs[0].bad > 100, "which no rounding excuses"


def test_rounding_excuses_a_complex_number_only_as_a_whole() -> None:
    exact = torch.tensor([1 + 1j, 2 - 2j, 3 + 0j, 1j, 5, 6], dtype=torch.complex128)
    unfused = exact.to(torch.complex64)
    fused = unfused + torch.tensor([0.1, 0.1j, 0.1 + 0.1j, 0, 0, 0], dtype=torch.complex64)
    spread = torch.zeros(6, 2, dtype=torch.float64)
    spread[:3, 0], spread[2, 1] = 0.1, 0.1
    found = compare("y", fused, unfused, exact, spread=lambda: spread)
    assert (found.bad, found.spared, found.size) == (1, 2, 6)
    assert found.first is not None and found.first.index == (1,) and "j" in found.first.fused
    assert found.between.max_abs == pytest.approx(0.1, rel=1e-6)


def test_an_op_that_reads_a_size_which_only_the_simplified_graph_computes(plugin: Any) -> None:
    """Two equal Packs, of which the first feeds nothing in the graph as it was and both in the simplified one."""

    def flat(x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(x, -1, 1).flatten(0, 1).flatten(0, -1)
        return y * torch.tanh(y) + 1

    report = verify(flat, values()[0], dynamic=True)
    assert report.ok and [op.calls for op in report.ops] == [1] and report.graphs[0].notes == (), str(report)


def test_trees_buffers_and_backward_change_nothing(plugin: Any) -> None:
    model = Block()
    x, _ = values()
    scale = torch.linspace(0.5, 2, 16, requires_grad=True)
    for p in model.parameters():
        p.grad = torch.full_like(p, 7.0)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    grads = [p.grad for p in model.parameters()]
    state = torch.random.get_rng_state()
    given = x.clone(), scale.detach().clone()
    report = verify(model, x, {"scale": scale}, shapes=[[(5, 16), (16,)]], random=1, backward=True)
    assert report.ok, str(report)
    assert torch.equal(x, given[0]) and torch.equal(scale.detach(), given[1]) and scale.grad is None
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is g and bool((g == 7).all()) for p, g in zip(model.parameters(), grads))
    assert torch.equal(torch.random.get_rng_state(), state)
    names = " ".join(o.name for o in report.outputs)
    for part in ("output['y']", "output['rest'][0]", "output['rest'][1]", "seen"):
        assert part in names, names
    assert len(report.graphs) == 4, "two shapes, each forward and backward"
    assert sum(g.calls for g in report.graphs) == 6


def test_a_function_that_takes_gradients_itself(plugin: Any) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.requires_grad_()
        loss = (torch.tanh(x @ w) * 2).square().mean()
        (grad,) = torch.autograd.grad(loss, x)
        return loss.detach(), grad * 0.5

    report = verify(step, *values())
    assert report.ok and report.ops, str(report)
    with wrong_tanh():
        assert not verify(step, *values()).ok


def test_what_is_only_rounding_is_accepted_and_counted(plugin: Any) -> None:
    """The sign of a sum that cancels: the fused order of additions need not be the unfused one's."""
    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    x = x - x.mean(-1, keepdim=True)

    def sign(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.5).sum(-1) > 0

    report = verify(sign, x)
    assert report.ok and report.outputs[0].between.max_abs == 1 and report.outputs[0].spared > 0, str(report)
    assert "by rounding" in str(report)


def test_a_kernel_that_breaks_a_rule(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = HostKernel.run

    def run(self: HostKernel, inputs: Any) -> Any:
        if "tanh" in to_text(self.definition.kernel):
            raise RuntimeError("rule broken on purpose")
        return original(self, inputs)

    monkeypatch.setattr(HostKernel, "run", run)
    report = verify(three, *values())
    assert not report.ok and "Tanh" in report.first_bad.node_types
    assert "rule broken on purpose" in report.failure and "FAILED" in str(report)
    assert [bool(op.failure) for op in report.ops] == [False, True, False]


def test_runs_that_differ(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original, count = HostKernel.run, [0.0]

    def run(self: HostKernel, inputs: Any) -> Any:
        count[0] += 1e-7
        return [t + count[0] if t.is_floating_point() else t for t in original(self, inputs)]

    monkeypatch.setattr(HostKernel, "run", run)
    report = verify(three, *values())
    assert not report.deterministic and not report.ok and "OTHER BITS" in str(report)


def test_an_error_of_the_model_is_raised(plugin: Any) -> None:
    with pytest.raises(ValueError, match="of the model"):
        verify(lambda x: _fail(x), values()[0])


@torch.compiler.disable
def _fail(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("an error of the model")


def test_random_integers_like_the_largest() -> None:
    example = torch.tensor([2**63 - 1, -(2**63)])
    (made,) = randomised((example,), 0)
    assert made.dtype == example.dtype and made.shape == example.shape and not made.equal(example)
    assert randomised((example[:1],), 0)[0].item() == 2**63 - 2  # nearest to it that torch.randint gives


def test_bad_arguments(plugin: Any) -> None:
    x, w = values()
    with pytest.raises(ValueError, match="2 tensors are among the inputs, 1 shapes given"):
        verify(three, x, w, shapes=[[(3, 16)]])
    with pytest.raises(ValueError, match="repeats"):
        verify(three, x, w, repeats=0)
    with pytest.raises(ValueError, match="expected a shape such as"):
        verify(three, x, w, shapes=[(3, 16)])
    with pytest.raises(ValueError, match="examples: expected tuples"):
        verify(three, x, w, examples=[x])
    with pytest.raises(TypeError, match="expected a module or function, got 3"):
        verify(3, x)
    with pytest.raises(ValueError, match="no output requires grad"):
        verify(three, x, w, backward=True)


def test_where_values_inside_a_graph_cannot_be_read(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device: the unfused graph is compiled and run too, and ops are not compared one by one."""
    monkeypatch.setattr(session, "reads_inside", lambda: False)
    report = verify(three, *values())
    assert report.ok and len(report.outputs) == 1 and report.ops == ()
    assert "bisect finds one that is wrong" in str(report)
    assert report.deterministic is None and "whether it gives the same bits is not known" in str(report)
    kernels.clear()
    with wrong_tanh():
        report = verify(three, *values())
    assert not report.ok and report.first_bad is None and report.outputs[0].bad > 100


@pytest.mark.parametrize("known", [True, False])
def test_on_a_device(plugin: Any, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """``known``: whether the host executor knows the ops of the graphs, and can give f64 values."""
    monkeypatch.setattr(session, "reads_inside", lambda: False)
    if not known:

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("AF401: op types not known to the host executor")

        monkeypatch.setattr(check, "GraphExecutor", refuse)
    x, w = values()
    report = verify(three, x, w)
    assert report.ok and (report.outputs[0].max_ulp is not None) == known
    assert known or "AF401" in str(report)
    kernels.clear()
    with wrong_tanh():
        assert not verify(three, x, w).ok
    kernels.clear()

    def fail(self: HostKernel, inputs: Any) -> Any:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(HostKernel, "run", fail)
    report = verify(three, x, w)
    assert not report.ok and "broken on purpose" in report.failure and "FAILED" in str(report)


def test_the_command(plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torchair, sys\n"
        "f = lambda x: torch.tanh(x * 2 + 1)\n"
        "backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())\n"
        "c = torch.compile(f, backend=backend)\n"
        "for n in (4, 9, 17): c(torch.ones(n, 8))\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    out = tmp_path / "report.json"
    assert main(["verify", "--calls", "1", "--json", str(out), str(script), "0"]) == 0
    printed = capsys.readouterr().out
    assert "Verification: ok (2 graphs, 2 calls" in printed
    assert json.loads(out.read_text())["ok"] is True
    torch._dynamo.reset()
    assert main(["verify", str(script), "3"]) == 3
    torch._dynamo.reset()
    with wrong_tanh():
        assert main(["verify", str(script), "0"]) == 1
    assert "DIFFERENT" in capsys.readouterr().out
    script.write_text("print('nothing is compiled')\n")
    assert main(["verify", str(script)]) == 1
    assert "No GE graph was compiled" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "none.py")]) == 2
    assert main(["verify", "--json", str(tmp_path / "no" / "f.json"), str(script)]) == 2
    with pytest.raises(SystemExit):
        main(["verify", "--calls", "0", str(script)])


def test_importing_the_package_loads_no_torch() -> None:
    code = "import torchair_autofuse, sys; torchair_autofuse.options(max_fusions=1); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
