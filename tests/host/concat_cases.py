"""Concat and stack, with what models have around them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from movement_case import BF16, BOOL, F16, F32, FLOATS, I32, I64, WIDTHS, Case, Function, Shape, Tensor


def joined(dim: int) -> Function:
    """Three pointwise results side by side."""

    def run(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.cat([torch.relu(a), b * 2 + 1, torch.sigmoid(c)], dim)

    return run


def joined_then(dim: int) -> Function:
    def run(a: Tensor, b: Tensor) -> Tensor:
        return torch.tanh(torch.cat([torch.relu(a), b * 2], dim)) + 1

    return run


def many(dim: int) -> Function:
    """Any number of parts, each with a step of its own."""

    def run(*parts: Tensor) -> Tensor:
        return torch.cat([p * (0.5 + i) for i, p in enumerate(parts)], dim)

    return run


def part_twice(a: Tensor, b: Tensor) -> Any:
    twice = a * 2
    return torch.cat([twice, b, twice], -1), twice


def self_joined(a: Tensor) -> Tensor:
    return torch.cat([a, a], -1) + torch.cat([a, -a], -1)


def out_and_used(a: Tensor, b: Tensor) -> Any:
    joined = torch.cat([a + 1, b * 2], -1)
    return joined, torch.tanh(joined) + 1


def nested(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.cat([torch.cat([a * 2, b], -1), torch.relu(c)], -1)


def nested_across(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.cat([torch.cat([a * 2, b], -1), torch.relu(c)], 0) + 1


def reduced_along(a: Tensor, b: Tensor) -> Any:
    joined = torch.cat([a * 2, torch.relu(b)], -1)
    return joined.sum(-1)


def reduced_across(a: Tensor, b: Tensor) -> Any:
    return torch.cat([a * 2, torch.relu(b)], -1).sum(0)


def softmax_of(a: Tensor, b: Tensor) -> Tensor:
    return torch.softmax(torch.cat([a * 0.5, b], -1), -1)


def norm_of(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return F.layer_norm(torch.cat([a, b * 2], -1), (weight.shape[0],), weight)


def of_reductions(x: Tensor) -> Tensor:
    return torch.cat([x.mean(1, keepdim=True), torch.max(x, 1, keepdim=True).values], 1)


def class_token(token: Tensor, x: Tensor, position: Tensor) -> Tensor:
    return torch.cat([token.expand(x.shape[0], -1, -1), x], 1) * position


def shifted(x: Tensor) -> Tensor:
    return torch.cat([x[:, 1:], x[:, :1]], 1) * 2 - x


def with_zeros(x: Tensor) -> Tensor:
    return torch.relu(torch.cat([x, torch.zeros_like(x), torch.ones_like(x[..., :3])], -1) + 0.25)


def with_empty(x: Tensor, none: Tensor) -> Tensor:
    return torch.cat([x * 2, none, x + 1], -1)


def promoted(a: Tensor, half: Tensor, number: Tensor) -> Any:
    return torch.cat([a * 2, half, number], -1), torch.cat([half, number * 2], -1)


def promoted_flags(number: Tensor, flag: Tensor) -> Any:
    return torch.cat([number + 1, flag, ~flag], -1), torch.cat([flag, number > 0], 0)


def cache_append(cache: Tensor, x: Tensor, scale: Tensor) -> Any:
    keys = torch.cat([cache, x * scale], 2)
    return keys, keys.transpose(2, 3) * 2


def dense_block(x: Tensor) -> Tensor:
    for i in range(3):
        x = torch.cat([x, torch.relu(x[..., :8] * (i + 1))], -1)
    return x


def stacked(dim: int) -> Function:
    def run(a: Tensor, b: Tensor) -> Tensor:
        return torch.stack([a * 2, torch.relu(b), a + b], dim)

    return run


_ROWS: Shape = ("B", "S", 24)
_WIDE: Shape = ("B", "S", 40)
CONCAT: tuple[Case, ...] = (
    Case("inner", joined(-1), (_ROWS, _WIDE, ("B", "S", 17)), FLOATS, widths=True),
    Case("outer", joined(0), (_ROWS, _ROWS, (2, "S", 24)), (F32, F16)),
    Case("middle", joined(1), (_ROWS, _ROWS, ("B", 3, 24)), (F32, F16), widths=True),
    Case("then pointwise", joined_then(-1), (_ROWS, _WIDE), FLOATS, widths=True),
    Case("then pointwise, outer", joined_then(0), (_ROWS, _ROWS)),
    *(Case(f"{n} parts", many(-1), tuple(("B", "S", w) for w in ((*WIDTHS, 8))[:n])) for n in range(2, 9)),
    Case("8 parts, middle", many(1), tuple(("B", w, 9) for w in (*WIDTHS, 8)), widths=True),
    Case("a part twice", part_twice, (_ROWS, _WIDE), (F32, F16)),
    Case("with itself", self_joined, (("B", "S", 17),)),
    Case("output and used", out_and_used, (_ROWS, ("B", "S", 31)), FLOATS, widths=True),
    Case("nested", nested, (_ROWS, ("B", "S", 17), _WIDE), (F32, F16)),
    Case("nested across", nested_across, (_ROWS, _WIDE, (2, "S", 64))),
    Case("reduced along", reduced_along, (_ROWS, ("B", "S", 33)), (F32, F16)),
    Case("reduced across", reduced_across, (_ROWS, ("B", "S", 33))),
    Case("softmax", softmax_of, (_ROWS, ("B", "S", 33)), (F32, F16), widths=True),
    Case("layer norm", norm_of, (_ROWS, ("B", "S", 33), (57,)), (F32, BF16)),
    Case("of reductions", of_reductions, (("B", 8, "S", 9),), (F32, F16)),
    Case("class token", class_token, ((1, 1, 24), ("B", 16, 24), (1, 17, 24)), (F32, F16)),
    Case("shifted", shifted, (("B", 20, 24),), (F32, F16)),
    Case("with constants", with_zeros, (("B", "S", 17),), (F32, F16)),
    Case("with an empty part", with_empty, (("B", "S", 17), ("B", "S", 0))),
    Case("promotion", promoted, (_ROWS, ("B", "S", 17), ("B", "S", 9)), (F32, BF16), fixed=((1, F16), (2, I32))),
    Case("flags", promoted_flags, (("B", "S", 17),) * 2, (I32, I64), fixed=((1, BOOL),)),
    Case("cache", cache_append, (("B", 2, "S", 16), ("B", 2, 1, 16), (16,)), (F32, F16)),
    Case("dense block", dense_block, (("B", "S", 16),), (F32, F16)),
    *(Case(f"stack {d}", stacked(d), (("B", "S", 17),) * 2, (F32, F16), widths=d == -1) for d in (0, 1, 2, -1)),
)
