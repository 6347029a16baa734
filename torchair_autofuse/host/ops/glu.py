"""Gated units: the last step halves a dim. Computed in f32 and rounded once."""

from __future__ import annotations

import math

import torch

from torchair_autofuse.host.ops.numerics import axis_of, f32
from torchair_autofuse.host.ops.registry import OpCall, op


def _halves(call: OpCall, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """(first half, second half, dim) along the attribute ``dim``. Raises ValueError when the dim is odd."""
    dim = axis_of(call, int(call.attr("dim", -1)), x.dim())
    if not x.dim() or x.shape[dim] % 2:
        raise ValueError(f"{call.type} {call.name}: dim {dim} of shape {list(x.shape)} cannot be halved")
    a, b = f32(x).chunk(2, dim) if x.shape[dim] else (f32(x), f32(x))
    return a, b, dim


@op("GLU")
def glu(call: OpCall) -> torch.Tensor:
    """x = [a, b] -> a * sigmoid(b)."""
    x = call.tensor("x")
    a, b, _ = _halves(call, x)
    return (a * b.sigmoid()).to(x.dtype)


@op("GLUGrad")
def glu_grad(call: OpCall) -> torch.Tensor:
    """y_grad, x = [a, b] -> [y_grad * s, y_grad * a * s * (1 - s)], s = sigmoid(b)."""
    x, grad = call.tensor("x"), f32(call.tensor("y_grad"))
    a, b, dim = _halves(call, x)
    s = b.sigmoid()
    return torch.cat([grad * s, grad * a * s * (1.0 - s)], dim).to(x.dtype)


@op("SwiGlu")
def swiglu(call: OpCall) -> torch.Tensor:
    """x = [a, b] -> a * sigmoid(a) * b: the first half is activated."""
    x = call.tensor("x")
    a, b, _ = _halves(call, x)
    return (a * a.sigmoid() * b).to(x.dtype)


@op("SwiGluGrad")
def swiglu_grad(call: OpCall) -> torch.Tensor:
    """y_grad, x = [a, b] -> [y_grad * b * s * (1 + a * (1 - s)), y_grad * a * s], s = sigmoid(a)."""
    x, grad = call.tensor("x"), f32(call.tensor("y_grad"))
    a, b, dim = _halves(call, x)
    s = a.sigmoid()
    return torch.cat([grad * b * s * (1.0 + a * (1.0 - s)), grad * a * s], dim).to(x.dtype)


@op("GeGluV2")
def geglu(call: OpCall) -> list[torch.Tensor]:
    """x = [a, b] -> (a * G(b), G(b)); ``activate_left`` swaps the halves.

    G is the tanh form of gelu unless ``approximate`` is 0.
    """
    x = call.tensor("x")
    a, b, _ = _halves(call, x)
    value, gate = (b, a) if call.attr("activate_left", False) else (a, b)
    if int(call.attr("approximate", 1)):
        g = 0.5 * gate * (1.0 + (math.sqrt(2.0 / math.pi) * (gate + 0.044715 * gate.pow(3))).tanh())
    else:
        g = 0.5 * gate * (1.0 + (gate / math.sqrt(2.0)).erf())
    return [(value * g).to(x.dtype), g.to(x.dtype)]
