"""Bit operations on integers. The shift amounts are to be in [0, bits); RightShift is arithmetic for signed types."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair_autofuse.host.ops.pointwise import INT, pointwise
from torchair_autofuse.host.ops.registry import OpCall


@pointwise("BitwiseAnd", arity=2, kinds=INT)
def _and(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a & b


@pointwise("BitwiseOr", arity=2, kinds=INT)
def _or(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a | b


@pointwise("BitwiseXor", arity=2, kinds=INT)
def _xor(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a ^ b


@pointwise("Invert", arity=1, kinds=INT)
def _invert(call: OpCall, x: Tensor) -> Tensor:
    return ~x


@pointwise("LeftShift", arity=2, kinds=INT)
def _left_shift(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.bitwise_left_shift(a, b)


@pointwise("RightShift", arity=2, kinds=INT - {torch.uint64})
def _right_shift(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.bitwise_right_shift(a, b)
