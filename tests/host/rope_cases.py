"""Rotary embeddings as models spell them, and lookups."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from movement_case import F16, F32, FLOATS, I32, I64, Case, Function, Shape, Tensor


def half_by_chunk(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def half_by_slice(x: Tensor) -> Tensor:
    n = x.shape[-1] // 2
    return torch.cat((-x[..., n:], x[..., :n]), -1)


def pairs_by_stack(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def pairs_by_view(x: Tensor) -> Tensor:
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((-b, a), -1).reshape(x.shape)


def both(rotate: Function) -> Function:
    """Queries and keys, with ``cos`` and ``sin`` of the full width."""

    def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        return q * cos + rotate(q) * sin, k * cos + rotate(k) * sin

    return run


def halves_apart(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    """``cos`` and ``sin`` of half the width; the results are put together."""

    def turn(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    return turn(q), turn(k)


def pairs_apart(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    def turn(x: Tensor) -> Tensor:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    return turn(q), turn(k)


def in_f32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    """Raised before, rounded after."""

    def turn(x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * cos + half_by_chunk(wide) * sin).to(x.dtype)

    return turn(q), turn(k)


def partial(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    """Only the first dims are turned."""

    def turn(x: Tensor) -> Tensor:
        n = cos.shape[-1]
        head, rest = x[..., :n], x[..., n:]
        return torch.cat((head * cos + half_by_slice(head) * sin, rest), -1)

    return turn(q), turn(k)


def from_angles(q: Tensor, k: Tensor, angles: Tensor) -> Any:
    both_halves = torch.cat((angles, angles), -1)
    cos, sin = both_halves.cos().unsqueeze(0), both_halves.sin().unsqueeze(0)
    return q * cos + half_by_chunk(q) * sin, k * cos + half_by_chunk(k) * sin


def from_fused_projection(qkv: Tensor, cos: Tensor, sin: Tensor) -> Any:
    """Queries, keys and values of one tensor, heads in front, queries and keys turned."""
    b, s, width = qkv.shape
    q, k, v = (t.view(b, s, 4, -1).transpose(1, 2) for t in qkv.split(width // 3, -1))
    return (*both(half_by_chunk)(q, k, cos, sin), v.contiguous())


def grouped(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Any:
    """Keys and values of two heads repeated for eight queries."""
    q, k = both(half_by_slice)(q, k, cos, sin)
    b, h, s, d = k.shape
    repeated = [t[:, :, None].expand(b, h, 4, s, d).reshape(b, h * 4, s, d) for t in (k, v)]
    return q, *repeated


_HEADS: Shape = ("B", 4, "S", 32)
_FULL = (_HEADS, _HEADS, ("S", 32), ("S", 32))
_HALF = (_HEADS, _HEADS, ("S", 16), ("S", 16))
ROPE: tuple[Case, ...] = (
    Case("half by chunk", both(half_by_chunk), _FULL, FLOATS, widths=True),
    Case("half by slice", both(half_by_slice), _FULL, FLOATS, widths=True),
    Case("pairs by stack", both(pairs_by_stack), _FULL, FLOATS, widths=True),
    Case("pairs by view", both(pairs_by_view), _FULL, FLOATS),
    Case("halves apart", halves_apart, _HALF, FLOATS, widths=True),
    Case("pairs apart", pairs_apart, _HALF, FLOATS),
    Case("in f32", in_f32, _FULL, FLOATS, fixed=((2, F32), (3, F32))),
    Case("partial", partial, (_HEADS, _HEADS, ("S", 20), ("S", 20)), FLOATS, widths=True),
    Case("odd halves", both(half_by_slice), (("B", 2, "S", 18),) * 2 + (("S", 18),) * 2, (F32, F16)),
    Case("from angles", from_angles, (_HEADS, _HEADS, ("S", 16)), (F32, F16)),
    Case("sequence first", both(half_by_chunk), (("B", "S", 4, 32),) * 2 + (("S", 1, 32),) * 2, (F32, F16)),
    Case("fused projection", from_fused_projection, (("B", "S", 384), ("S", 32), ("S", 32)), FLOATS, widths=True),
    Case("grouped", grouped, (("B", 8, "S", 32), *(("B", 2, "S", 32),) * 2, ("S", 32), ("S", 32)), (F32, F16)),
)


# ---- lookups ------------------------------------------------------------------------------------------------------


def embedding(table: Tensor, index: Tensor, position: Tensor) -> Tensor:
    return F.embedding(index.abs(), table) * 2 + position


def rows_by_index(table: Tensor, index: Tensor) -> Any:
    """Indices count from the end where they are negative."""
    return table[index] * 2, torch.relu(table)[:, index]


def selected(table: Tensor, index: Tensor) -> Any:
    return table.index_select(0, index.abs()) + 1, torch.gather(table, 1, index.abs()[:, None]) * 2


def normed(word: Tensor, position: Tensor, index: Tensor, at: Tensor, weight: Tensor) -> Tensor:
    x = word[index] + position[at.abs()]
    return F.layer_norm(x, (24,), weight)


def inner_dims(x: Tensor, i: Tensor, j: Tensor) -> Any:
    """One dim between others, and two dims by tensors that broadcast."""
    return torch.tanh(x[:, i]), x[:, i[:, None], j] * 2


GATHER: tuple[Case, ...] = (
    Case(
        "embeddings, normed",
        normed,
        ((30, 24), (12, 24), ("B", "S"), ("S",), (24,)),
        FLOATS,
        fixed=((2, I64), (3, I32)),
        widths=True,
    ),
    Case("inner dims", inner_dims, (("B", 11, 10, 24), ("S",), (5,)), (F32, F16), fixed=((1, I64), (2, I64))),
    Case("embedding", embedding, ((30, 24), ("B", "S"), ("S", 24)), FLOATS, fixed=((1, I64),), widths=True),
    Case("embedding, i32", embedding, ((30, 24), ("B", "S"), ("S", 24)), fixed=((1, I32),)),
    Case("negative index", rows_by_index, ((30, 24), ("S",)), (F32, F16), fixed=((1, I64),)),
    Case("selected", selected, ((30, 24), (30,)), (F32, F16), fixed=((1, I64),)),
)
