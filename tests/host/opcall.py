"""What the tests of host ops share: one call of an op, dtype groups, exact comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torchair_autofuse.host.ops import OPS, OpCall

Tensor = torch.Tensor
F64 = torch.float64
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32)
NUMBERS = FLOATS + INTS
BOOL = (torch.bool,)
NAN, INF = float("nan"), float("inf")
CAST_C = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6,
    torch.uint16: 7, torch.uint32: 8, torch.int64: 9, torch.uint64: 10, F64: 11, torch.bool: 12, torch.bfloat16: 27,
}  # fmt: skip
"""torch dtype -> GE's C enum."""


def run(kind: str, *inputs: Tensor | None, names: Sequence[str] = (), **attrs: Any) -> Any:
    """Executes one op; results are as the op gives them."""
    names = names or [f"x{i}" for i in range(len(inputs))]
    return OPS[kind](OpCall(kind, "node", inputs, names, attrs, 1))


def wide(t: Tensor) -> Tensor:
    """Floats in f64, integers in i64, bool as it is: types in which torch can compare everything."""
    return t if t.dtype == torch.bool else t.to(F64) if t.is_floating_point() else t.to(torch.int64)


def gradient(forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """(grad, x) -> the derivative of ``forward`` at x times grad, by autograd."""

    def reference(dy: Tensor, x: Tensor) -> Tensor:
        dy, x = torch.broadcast_tensors(dy, x)
        x = x.clone().requires_grad_()
        return torch.autograd.grad(forward(x), x, dy)[0]

    return reference


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")
