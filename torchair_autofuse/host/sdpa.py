"""Scaled dot product attention as plain tensor ops, while a graph is traced for TorchAir.

On a CPU, PyTorch's dispatcher turns the call into a CPU kernel that has no place in a GE graph. It is exchanged while
autograd traces the graph that Dynamo captured: forward and backward are then made of ops that TorchAir converts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

_FUSED = (
    scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)


class PlainAttention(TorchFunctionMode):  # type: ignore[misc]
    """Inside this context, and in this thread only, scaled_dot_product_attention is made of plain ops."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _plain(func)(*args, **(kwargs or {}))


def _plain(func: Callable[..., Any]) -> Callable[..., Any]:
    if func in _FUSED:
        return attention
    if func is multi_head_attention_forward:
        # What it calls is out of the mode's sight: a copy of it with the plain attention among its globals.
        names = {**func.__globals__, "scaled_dot_product_attention": attention}
        copy = FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
        copy.__kwdefaults__ = func.__kwdefaults__
        return copy
    return func


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """softmax(query @ key^T * scale + mask) @ value, with the arguments of torch.nn.functional's function.

    query [..., L, E], key [..., S, E], value [..., S, Ev] of one float dtype; result [..., L, Ev] of that dtype. Half
    types are computed in f32 and rounded once. A bool mask keeps where True; a row with no key left gives zeros. The
    causal mask is the lower triangle from the top left. ``scale`` defaults to 1/sqrt(E). With ``enable_gqa`` each key
    and value head serves the same number of neighbouring query heads. The result lies in memory as the CPU kernel would
    leave it. Raises ValueError when both a mask and is_causal are given.
    """
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    device = query.device.type
    dtype = query.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        # Under autocast inputs are rounded to its dtype first; the arithmetic itself is not narrowed.
        q, k, v = (_wide(t.to(dtype)) for t in (query, key, value))
        if enable_gqa:
            k, v = (_repeat_heads(t, q.size(-3)) for t in (k, v))
        factor = 1.0 / math.sqrt(int(q.size(-1))) if scale is None else scale
        scores = torch.matmul(q * factor, k.transpose(-2, -1))
        if is_causal:
            attn_mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
        if attn_mask is None:
            weights = torch.softmax(scores, dim=-1)
        elif is_causal:  # every row keeps its first key
            weights = torch.softmax(scores.masked_fill(attn_mask.logical_not(), -math.inf), dim=-1)
        else:
            weights = _masked_softmax(scores, attn_mask)
        if dropout_p > 0.0:
            weights = torch.dropout(weights, dropout_p, train=True)
        result = torch.matmul(weights, v).to(dtype)
    if _heads_inside(query) and dropout_p == 0.0:
        result = result.transpose(1, 2).contiguous().transpose(1, 2)
    return result


def _heads_inside(query: torch.Tensor) -> bool:
    """Whether a query [batch, heads, length, width] lies in memory as [batch, length, heads, width].

    The CPU kernel gives its result the layout of the query, and models rely on it: a ``view`` after ``transpose(1, 2)``
    is legal only in this one.
    """
    return query.dim() == 4 and bool(query.stride(1) < query.stride(2))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """softmax over the last dim, zeros in a row that is masked out entirely.

    Such a row is not masked at all before the softmax and cleared after it: no NaN reaches the backward pass.
    """
    kept = mask if mask.dtype == torch.bool else mask != -math.inf
    empty = kept.to(scores.dtype).sum(dim=-1, keepdim=True) == 0
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(torch.logical_and(mask.logical_not(), empty.logical_not()), -math.inf)
    else:
        scores = scores + mask.to(scores.dtype).masked_fill(empty, 0.0)
    return torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)


def _repeat_heads(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """[..., H, S, E] -> [..., heads, S, E], each head ``heads // H`` times in a row."""
    own, length, width = tensor.shape[-3:]
    times = heads // own
    if times == 1:
        return tensor
    grown = tensor.unsqueeze(-3).expand(*tensor.shape[:-2], times, length, width)
    return grown.reshape(*tensor.shape[:-3], own * times, length, width)
