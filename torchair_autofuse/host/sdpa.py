"""Scaled dot product attention as plain tensor ops, put into a captured graph in place of the fused call.

On a CPU, PyTorch's dispatcher turns the call into a CPU kernel that has no place in a GE graph. The rewrite is done on the
graph that Dynamo captured, before autograd sees it: forward and backward are then made of ops TorchAir converts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.nn.functional import scaled_dot_product_attention

_SDPA_TARGETS = (
    scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)


def decompose(gm: torch.fx.GraphModule) -> None:
    """Replaces every attention call of ``gm`` and of the graphs inside it, in place."""
    for graph_module in _graph_modules(gm):
        nodes = [n for n in graph_module.graph.nodes if n.op == "call_function" and n.target in _SDPA_TARGETS]
        for node in nodes:
            node.target = attention_heads_inside if _heads_inside(node.meta.get("example_value")) else attention
        if nodes:
            graph_module.recompile()


def _graph_modules(gm: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    return (m for m in gm.modules() if isinstance(m, torch.fx.GraphModule))


def _heads_inside(example: object) -> bool:
    """Whether Dynamo saw a result [batch, heads, length, width] that lies in memory as [batch, length, heads, width].

    The CPU kernel gives that layout, and models rely on it: ``view`` after ``transpose(1, 2)`` is legal only then.
    """
    if not isinstance(example, torch.Tensor) or example.dim() != 4:
        return False
    return not example.is_contiguous() and example.transpose(1, 2).is_contiguous()


def attention_heads_inside(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """``attention`` of 4-d tensors, with the result in memory as [batch, length, heads, width]."""
    result = attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return result.transpose(1, 2).contiguous().transpose(1, 2)


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

    query [..., L, E], key [..., S, E], value [..., S, Ev] of one float dtype; result [..., L, Ev] of that dtype. Half types are
    computed in f32 and rounded once. A bool mask keeps where True; a row with no key left gives zeros. The causal mask
    is the lower triangle from the top left. ``scale`` defaults to 1/sqrt(E). With ``enable_gqa`` each key and value head
    serves the same number of neighbouring query heads. Raises ValueError when both a mask and is_causal are given.
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
        return torch.matmul(weights, v).to(dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """softmax over the last dim, zeros in a row that is masked out entirely."""
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    else:
        scores = scores + mask.to(scores.dtype)
    nothing_left = (scores == -math.inf).all(dim=-1, keepdim=True)
    return torch.softmax(scores, dim=-1).masked_fill(nothing_left, 0.0)


def _repeat_heads(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """[..., H, S, E] -> [..., heads, S, E], each head ``heads // H`` times in a row."""
    own, length, width = tensor.shape[-3:]
    times = heads // own
    if times == 1:
        return tensor
    grown = tensor.unsqueeze(-3).expand(*tensor.shape[:-2], times, length, width)
    return grown.reshape(*tensor.shape[:-3], own * times, length, width)
