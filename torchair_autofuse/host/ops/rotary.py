"""Rotary position embedding: y = x * cos + rotate(x) * sin over the last dim, in f32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torchair_autofuse.host.ops.pointwise import FLOAT, common_dtype, down, up
from torchair_autofuse.host.ops.registry import OpCall, op


def _parts(x: Tensor, count: int) -> list[Tensor]:
    if x.dim() == 0 or x.shape[-1] % count:
        raise ValueError(f"the last dim must be a multiple of {count}, the shape is {list(x.shape)}")
    return list(torch.chunk(x, count, dim=-1))


def _half(x: Tensor) -> Tensor:
    """[x1, x2] -> [-x2, x1]."""
    first, second = _parts(x, 2)
    return torch.cat((-second, first), -1)


def _interleave(x: Tensor) -> Tensor:
    """Pairs (a, b) -> (-b, a)."""
    _parts(x, 2)
    return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).reshape(x.shape)


def _quarter(x: Tensor) -> Tensor:
    """[x1, x2, x3, x4] -> [-x2, x1, -x4, x3]."""
    a, b, c, d = _parts(x, 4)
    return torch.cat((-b, a, -d, c), -1)


def _split_pairs(x: Tensor) -> Tensor:
    """Even elements, then odd elements."""
    _parts(x, 2)
    return torch.cat((x[..., 0::2], x[..., 1::2]), -1)


_MODES: dict[int, Callable[[Tensor], Tensor]] = {0: _half, 1: _interleave, 2: _quarter, 3: _half}


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, rotation: Callable[[Tensor], Tensor]) -> Tensor:
    return x * cos + rotation(x) * sin


@op("RotaryMul")
def _rotary_mul(call: OpCall) -> Tensor:
    operands = [call.tensor(i) for i in range(3)]
    dtype = common_dtype(call, operands, FLOAT)
    x, cos, sin = map(up, operands)
    return down(_rotate(x, cos, sin, _half), dtype)


@op("RotaryPositionEmbedding")
def _rotary_position_embedding(call: OpCall) -> Tensor:
    if call.optional("rotate") is not None:
        raise ValueError("the rotate input is not modelled")
    operands = [call.tensor(i) for i in range(3)]
    dtype = common_dtype(call, operands, FLOAT)
    mode = call.attr("mode", 0)
    if mode not in _MODES:
        raise ValueError(f"mode must be 0, 1, 2 or 3, not {mode}")
    x, cos, sin = map(up, operands)
    return down(_rotate(_split_pairs(x) if mode == 3 else x, cos, sin, _MODES[mode]), dtype)


@op("InterleaveRope")
def _interleave_rope(call: OpCall) -> Tensor:
    operands = [call.tensor(i) for i in range(3)]
    dtype = common_dtype(call, operands, FLOAT)
    x, cos, sin = map(up, operands)
    return down(_rotate(_split_pairs(x), cos, sin, _half), dtype)


@op("RotaryMulGrad")
def _rotary_mul_grad(call: OpCall) -> Sequence[Tensor]:
    operands = [call.tensor(i) for i in range(4)]
    dtype = common_dtype(call, operands, FLOAT)
    x, cos, sin, dy = map(up, operands)
    dx = dy * cos - _half(dy * sin)  # the rotation's transpose is its negative
    shares = (dy * x).sum_to_size(cos.shape), (dy * _half(x)).sum_to_size(sin.shape)
    return down(dx, dtype), down(shares[0], dtype), down(shares[1], dtype)
