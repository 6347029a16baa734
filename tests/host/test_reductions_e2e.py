"""Reductions from torch.compile to kernels on the twin: norms, softmax, losses, sums; values and kernel counts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fused_runs import check, run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
Tensor = torch.Tensor


def up(x: Tensor) -> Tensor:
    """f32, or f64 where the model is its own reference."""
    return x if x.dtype == torch.float64 else x.float()


def layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Any:
    h = x + y
    return F.layer_norm(h, (h.shape[-1],), w, b), h


def rms_norm(x: Tensor, y: Tensor, w: Tensor) -> Any:
    h = up(x + y)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def softmax(x: Tensor, mask: Tensor) -> Any:
    return torch.softmax(x * 0.125 + mask, -1)


def log_softmax(x: Tensor) -> Any:
    return F.log_softmax(x, -1)


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return F.silu(F.group_norm(x, 4, w, b))


def batch_norm(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor) -> Any:
    return torch.relu(F.batch_norm(x, mean, var, w, b, False))


def leading(x: Tensor) -> Any:
    return x.mean(0), x.sum(0)


def middle(x: Tensor) -> Any:
    return (x * 2).sum(1)


def last(x: Tensor) -> Any:
    return x.exp().sum(-1)


def everything(x: Tensor) -> Any:
    return (x * x).sum()


def extremes(x: Tensor) -> Any:
    return torch.max(x * 3)


def truth(x: Tensor) -> Any:
    return torch.where((x > 1).any(-1, keepdim=True), x * 2, x), torch.all(x > -9)


def log_sum_exp(x: Tensor) -> Any:
    return torch.logsumexp(x * 2, -1)


def outer_and_inner(x: Tensor) -> Any:
    return x.abs().mean((0, 2))


def variance(x: Tensor) -> Any:
    mean = x.mean(-1, keepdim=True)
    d = x - mean
    return (d * d).mean(-1)


def softmax_leading(x: Tensor) -> Any:
    return torch.softmax(x, 0)


def cross_entropy_parts(x: Tensor, one_hot: Tensor) -> Any:
    return -(F.log_softmax(x, -1) * one_hot).sum(-1)


def mse(x: Tensor, y: Tensor) -> Any:
    return F.mse_loss(x, y)


def norm(x: Tensor) -> Any:
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def three(x: Tensor) -> Any:
    return x.sum(-1), (x * x).sum(-1), x.abs().sum(-1)


def bias_step(g: Tensor, z: Tensor, b: Tensor) -> Any:
    """The gradient of a bias under relu, and an SGD step."""
    return b - 0.1 * (g * (z > 0)).sum(0)


@dataclass(frozen=True)
class Case:
    """``shapes`` of the inputs, B and S stand for batch and sequence; ``kernels`` after fusion."""

    function: Callable[..., Any]
    shapes: tuple[tuple[Any, ...], ...]
    kernels: int = 1
    dtypes: tuple[torch.dtype, ...] = (F32,)
    dynamic: bool = False

    def inputs(self, dtype: torch.dtype, batch: int, seq: int) -> tuple[Tensor, ...]:
        made = []
        for i, shape in enumerate(self.shapes):
            sizes = [{"B": batch, "S": seq}.get(n, n) for n in shape]
            values = torch.randn(sizes, generator=torch.Generator().manual_seed(i))
            made.append((values.abs() + 0.5 if self.function is batch_norm and i == 2 else values).to(dtype))
        return tuple(made)


ALL = (F32, F16, BF16)
CASES = (
    Case(layer_norm, (("B", "S", 96),) * 2 + ((96,),) * 2, 1, ALL, True),
    Case(rms_norm, (("B", "S", 96),) * 2 + ((96,),), 1, ALL, True),
    Case(softmax, (("B", 4, "S", "S"), ("S", "S")), 1, (F32, F16), True),
    Case(log_softmax, (("B", "S", 150),), 1, (F32, BF16)),
    Case(group_norm, ((2, 8, 10, 10), (8,), (8,))),
    Case(batch_norm, (("B", 8, 7, 9), (8,), (8,), (8,), (8,))),
    Case(leading, (("B", "S", 40),), 1, (F32, F16), True),
    Case(middle, (("B", "S", 40),), 1, (F32,), True),
    Case(last, (("B", "S", 40),), 1, (F32, BF16), True),
    Case(everything, (("B", "S", 40),), 1, (F32,), True),
    Case(extremes, (("B", "S", 40),)),
    Case(truth, (("S", 40),), 2, (F32,), True),
    Case(log_sum_exp, (("S", 40),), 1, (F32,), True),
    Case(outer_and_inner, (("B", "S", 40),)),
    Case(variance, (("B", "S", 40),), 1, (F32,), True),
    Case(softmax_leading, ((50, "S", 3),)),
    Case(cross_entropy_parts, (("S", 200),) * 2),
    Case(mse, (("B", "S", 33),) * 2, 1, (F32,), True),
    Case(norm, (("S", 300),), 1, (F32, F16)),
    Case(three, (("S", 300),), 1, (F32,), True),
    Case(bias_step, (("S", 72), ("S", 72), (72,)), 1, (F32,), True),
)
STATIC = [(c, d) for c in CASES for d in c.dtypes]


def label(case: Case, dtype: torch.dtype) -> str:
    return f"{case.function.__name__}-{str(dtype).removeprefix('torch.')}"


@pytest.mark.parametrize("case,dtype", STATIC, ids=[label(*x) for x in STATIC])
def test_static(plugin: Any, case: Case, dtype: torch.dtype) -> None:
    runs = run(plugin, case.function, case.inputs(dtype, 3, 21))
    (report,) = runs.reports
    # of static sizes some that are small run side by side
    assert report.rolled_back is None and 1 <= report.kernels_after <= case.kernels, report
    check(runs)


DYNAMIC = [c for c in CASES if c.dynamic]


@pytest.mark.parametrize("case", DYNAMIC, ids=[c.function.__name__ for c in DYNAMIC])
def test_dynamic(plugin: Any, case: Case) -> None:
    """One compile, several batches and sequences, one of them long enough to stream or to be shared by cores."""
    sizes = ((3, 21), (2, 64), (5, 9))
    runs = run(plugin, case.function, *(case.inputs(F32, *s) for s in sizes), dynamic=True)
    (report,) = runs.reports
    assert report.rolled_back is None and report.kernels_after == case.kernels, report
    check(runs)
