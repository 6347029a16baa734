"""Small models of elementwise, broadcast and row work, with inputs: what the host and Inductor are measured on.

Only torch is imported. A model computes in the dtype of its inputs; called on f64 inputs it is its own reference.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ROWS, WIDTH = 96, 200
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
HALVES = (F32, F16, BF16)
Inputs = Callable[["Draw", int], "tuple[Tensor, ...]"]


class Draw:
    """Random inputs of one dtype, the same in every process."""

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self._generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        self._dtype = dtype

    def __call__(self, *shape: int) -> Tensor:
        """Standard normal."""
        return torch.randn(shape, generator=self._generator).to(self._dtype)

    def positive(self, *shape: int) -> Tensor:
        """Between 0.1 and 1.1."""
        return (torch.rand(shape, generator=self._generator) + 0.1).to(self._dtype)

    def boolean(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self._generator) > 0.3


@dataclass(frozen=True)
class Model:
    """``inputs(draw, rows)``: arguments with ``rows`` rows. ``kernels``: how many are expected after fusion."""

    name: str
    function: Callable[..., Any]
    inputs: Inputs
    dtypes: tuple[torch.dtype, ...] = (F32,)
    dynamic: bool = False  # measured with symbolic sizes too
    kernels: int = 1

    def make(self, dtype: torch.dtype, rows: int = ROWS) -> tuple[Tensor, ...]:
        """The arguments, floats in ``dtype``."""
        return self.inputs(Draw(self.name, dtype), rows)


def wide(x: Tensor) -> Tensor:
    """f32, or f64 where the model is its own reference."""
    return x if x.dtype == torch.float64 else x.float()


def chain(steps: int) -> Callable[[Tensor, Tensor], Tensor]:
    """``steps`` elementwise ops in a row that stay bounded."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        for i in range(steps):
            x = (x * 0.75, x + y, x.abs(), x - 0.5, torch.relu(x))[i % 5]
        return x

    return run


def affine_relu(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.relu(x * a + b)


def bias_gelu_residual(x: Tensor, b: Tensor, y: Tensor) -> Tensor:
    return functional.gelu(x + b, approximate="tanh") + y


def broadcasts(x: Tensor, row: Tensor, column: Tensor, middle: Tensor) -> Tensor:
    return (x * row + column) * middle - x


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return functional.silu(gate) * up


def layer_scale(x: Tensor, branch: Tensor, gamma: Tensor) -> Tensor:
    return x + gamma * functional.gelu(branch, approximate="tanh")


def masked(x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask & (x > y), x * 2, y - x)


def masked_scores(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores * 0.125).masked_fill(~mask, -1e4)


def casts(x: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    return (wide(x) * scale + 1).to(x.dtype) * y


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 0.001 * (m / 0.271) / (torch.sqrt(v / 0.0297) + 1e-8), m, v


def rope(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, b * cos + a * sin


def focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    right = p * target + (1 - p) * (1 - target)
    return -(0.25 * target + 0.75 * (1 - target)) * (1 - right) * (1 - right) * torch.log(right + 1e-6)


def hard_swish(x: Tensor, y: Tensor) -> Tensor:
    return x * torch.clamp(x + 3, 0, 6) / 6 + y


def views(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh((x * 2).reshape(-1, 8, WIDTH // 8) + y).flatten(1) - 1


def compared(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    near = (x - y).abs() < 0.5
    return near, torch.maximum(x, y) * near


def layer_norm(x: Tensor, y: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return functional.layer_norm(x + y, (x.shape[-1],), gamma, beta)


def rms_norm(x: Tensor, gamma: Tensor) -> Tensor:
    h = wide(x)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * gamma


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores * 0.125 + mask, dim=-1)


def row_norm(x: Tensor) -> Tensor:
    return x / (x * x).sum(-1, keepdim=True).sqrt().clamp_min(1e-12)


MODELS: tuple[Model, ...] = (
    *(Model(f"chain {n}", chain(n), lambda d, r: (d(r, WIDTH), d(r, WIDTH)), dynamic=n == 10) for n in (3, 10, 100)),
    Model("relu(x*a+b)", affine_relu, lambda d, r: (d(r, WIDTH), d(WIDTH), d(r, 1)), HALVES, dynamic=True),
    Model("gelu(x+b)+y", bias_gelu_residual, lambda d, r: (d(r, WIDTH), d(WIDTH), d(r, WIDTH)), HALVES, dynamic=True),
    Model("broadcasts", broadcasts, lambda d, r: (d(4, r, 77), d(77), d(4, r, 1), d(4, 1, 77)), HALVES, dynamic=True),
    Model("swiglu", swiglu, lambda d, r: (d(2, r, 176), d(2, r, 176)), HALVES, dynamic=True),
    Model("layer scale", layer_scale, lambda d, r: (d(r, WIDTH), d(r, WIDTH), d(WIDTH)), (F32, BF16)),
    Model("where, compare", masked, lambda d, r: (d(r, 77), d(r, 77), d.boolean(r, 77)), (F32, F16)),
    Model("masked scores", masked_scores, lambda d, r: (d(2, 4, r, r), d.boolean(r, r))),
    Model("casts", casts, lambda d, r: (d(r, WIDTH), wide(d(WIDTH)), d(r, WIDTH)), (F16, BF16)),
    Model("adam step", adam, lambda d, r: (d(r, WIDTH), d(r, WIDTH), d(r, WIDTH), d.positive(r, WIDTH))),
    Model("rope", rope, lambda d, r: (d(2, 4, r, 32), d(2, 4, r, 32), d(r, 32), d(r, 32)), HALVES, dynamic=True),
    Model("focal loss", focal_loss, lambda d, r: (d(r, 20), d.positive(r, 20).round())),
    Model("hard swish", hard_swish, lambda d, r: (d(r, WIDTH), d(r, WIDTH)), HALVES),
    Model("views", views, lambda d, r: (d(r, WIDTH), d(8, WIDTH // 8))),
    Model("compare", compared, lambda d, r: (d(r, 65), d(r, 65))),
    Model("layer norm", layer_norm, lambda d, r: (d(r, WIDTH), d(r, WIDTH), d(WIDTH), d(WIDTH)), HALVES, dynamic=True),
    Model("rms norm", rms_norm, lambda d, r: (d(r, WIDTH), d(WIDTH)), HALVES, dynamic=True),
    Model("softmax", masked_softmax, lambda d, r: (d(4, r, 77), d(r, 77)), HALVES, dynamic=True),
    Model("row norm", row_norm, lambda d, r: (d(r, 1000),), (F32, F16)),
)


def by_name(name: str) -> Model:
    """The model called ``name``. Raises KeyError."""
    return {m.name: m for m in MODELS}[name]
