"""Runs a function through TorchAir fused and unfused, and compares the two, eager and an f64 evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.values import ulps
from torchair_autofuse.report import FusionReport

Tensors = Sequence[torch.Tensor]
ELEMENTWISE = "--enable_autofuse=true"
ALL = "--enable_autofuse=true;--autofuse_enable_pass=all"
F32_LIMIT = 1e-5  # of the largest value, as docs/numerics.md


@dataclass(frozen=True)
class Runs:
    """Outputs for each tuple of inputs; ``reports`` of the fused compiles."""

    fused: list[list[torch.Tensor]]
    unfused: list[list[torch.Tensor]]
    eager: list[list[torch.Tensor]]
    exact: list[list[torch.Tensor]]
    reports: list[FusionReport]


def run(
    plugin: Any,
    function: Callable[..., Any],
    *inputs: Tensors,
    dynamic: bool | None = False,
    flags: str = ALL,
) -> Runs:
    """Compiles ``function`` twice, once with fusion on, and calls it with each of ``inputs``."""
    plugin.clear_reports()
    plugin.enable(flags)
    fused = _outputs(function, inputs, dynamic)
    reports = plugin.reports()
    plugin.disable()
    unfused = _outputs(function, inputs, dynamic)
    eager = [_list(function(*i)) for i in inputs]
    exact = [_list(function(*(t.double() if t.is_floating_point() else t for t in i))) for i in inputs]
    return Runs(fused, unfused, eager, exact, reports)


def _outputs(function: Any, inputs: Sequence[Tensors], dynamic: bool | None) -> list[list[torch.Tensor]]:
    import torchair

    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)
    return [_list(compiled(*i)) for i in inputs]


def _list(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(runs: Runs, *, eager: bool = True) -> None:
    """The numeric contract. ``eager``: TorchAir's lowering means what eager does."""
    for at, (fused, unfused, plain, exact) in enumerate(zip(runs.fused, runs.unfused, runs.eager, runs.exact)):
        assert len(fused) == len(unfused) == len(plain)
        for i, (f, u, p, e) in enumerate(zip(fused, unfused, plain, exact)):
            what = f"inputs {at}, output {i}, {f.dtype} {list(f.shape)}"
            assert (f.dtype, f.shape) == (u.dtype, u.shape) == (p.dtype, p.shape), what
            if not f.dtype.is_floating_point:
                assert torch.equal(f, u), what
                if eager:
                    assert torch.equal(f, p), what
                continue
            _same_specials(f, u, what)
            if f.dtype is torch.float32:
                _close(f, u, F32_LIMIT, f"{what}, fused and unfused")
                if eager:
                    _close(f, p, F32_LIMIT, f"{what}, fused and eager")
            elif f.numel() and eager:
                fine = torch.isfinite(e) & torch.isfinite(f) & torch.isfinite(u)
                worst = [float(torch.where(fine, ulps([side], [e])[0], 0.0).max()) for side in (f, u)]
                assert worst[0] <= worst[1] + 1, f"{what}: units in the last place, fused and unfused: {worst}"


def _same_specials(a: torch.Tensor, b: torch.Tensor, what: str) -> None:
    assert torch.equal(a.isnan(), b.isnan()), f"{what}: NaN"
    assert torch.equal(a.isposinf(), b.isposinf()) and torch.equal(a.isneginf(), b.isneginf()), f"{what}: infinities"


def _close(a: torch.Tensor, b: torch.Tensor, limit: float, what: str) -> None:
    fine = torch.isfinite(a) & torch.isfinite(b)
    if fine.any():
        largest = float(b[fine].abs().max()) or 1.0
        difference = float((a[fine].double() - b[fine].double()).abs().max()) / largest
        assert difference <= limit, f"{what}: {difference:.2e} of the largest value {largest:.3g}"
