"""Padding: constant, edge, reflect, symmetric and circular, and the adjoint of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchair_autofuse.host.ops.numerics import wide
from torchair_autofuse.host.ops.registry import OpCall, op

Pairs = Sequence[tuple[int, int]]


def _pairs(call: OpCall, flat: Sequence[int], rank: int) -> Pairs:
    """(before, after) per dim from a flat list. Raises ValueError when there is not one pair per dim."""
    if len(flat) != 2 * rank:
        raise ValueError(f"{call.type} {call.name}: {len(flat)} paddings for rank {rank}, expected {2 * rank}")
    if call.attr("paddings_contiguous", True):
        return [(flat[2 * d], flat[2 * d + 1]) for d in range(rank)]
    return [(flat[d], flat[rank + d]) for d in range(rank)]


def _constant(x: torch.Tensor, pairs: Pairs, value: torch.Tensor | None) -> torch.Tensor:
    """x in a tensor of ``value`` (0 when absent); a negative padding crops."""
    for d, (before, after) in enumerate(pairs):
        low, high = max(-before, 0), max(-after, 0)
        x = x.narrow(d, low, max(x.shape[d] - low - high, 0))
    shape = [n + max(b, 0) + max(a, 0) for n, (b, a) in zip(x.shape, pairs)]
    fill = 0 if value is None else value.reshape(()).to(x.dtype)
    y = torch.zeros(shape, dtype=x.dtype) + fill if x.dtype != torch.bool else torch.zeros(shape).bool() | bool(fill)
    y[tuple(slice(max(b, 0), max(b, 0) + n) for n, (b, _) in zip(x.shape, pairs))] = x
    return y


def _sources(call: OpCall, n: int, before: int, after: int, mode: str) -> torch.Tensor:
    """For each position of a padded dim of size ``n`` the position it is copied from."""
    found = []
    for p in range(-before, n + after):
        if mode == "edge":
            found.append(min(max(p, 0), n - 1))
        elif mode == "circular":
            found.append(p % n)
        elif mode == "reflect":
            p = p % (2 * (n - 1)) if n > 1 else 0
            found.append(min(p, 2 * (n - 1) - p))
        elif mode == "symmetric":
            p = p % (2 * n)
            found.append(min(p, 2 * n - 1 - p))
        else:
            raise ValueError(f"{call.type} {call.name}: unknown mode {mode!r}")
    return torch.tensor(found, dtype=torch.int64)


def _padded(call: OpCall, pairs: Pairs, mode: str) -> torch.Tensor:
    y = call.tensor("x")
    for d, (before, after) in enumerate(pairs):
        if before or after:
            y = y.index_select(d, _sources(call, y.shape[d], before, after, mode))
    return y.contiguous()


@op("PadV3")
def pad_v3(call: OpCall) -> torch.Tensor:
    """x, paddings, constant_values? by the attribute ``mode``."""
    x, mode = call.tensor("x"), str(call.attr("mode", "constant"))
    pairs = _pairs(call, call.ints("paddings"), x.dim())
    return _constant(x, pairs, call.optional("constant_values")) if mode == "constant" else _padded(call, pairs, mode)


@op("Pad", "PadV2")
def pad(call: OpCall) -> torch.Tensor:
    """x, paddings (rank, 2), in V2 constant_values: x in a frame of it, or of 0."""
    x = call.tensor("x")
    value = call.tensor("constant_values") if call.type == "PadV2" else None
    return _constant(x, _pairs(call, call.ints("paddings"), x.dim()), value)


@op("PadD")
def pad_d(call: OpCall) -> torch.Tensor:
    """Pad with the attribute ``paddings``, a list of pairs."""
    x = call.tensor("x")
    return _constant(x, _pairs(call, [int(v) for pair in call.attr("paddings") for v in pair], x.dim()), None)


@op("MirrorPad")
def mirror_pad(call: OpCall) -> torch.Tensor:
    """x, paddings (rank, 2): mode REFLECT leaves the border out, SYMMETRIC repeats it."""
    x = call.tensor("x")
    return _padded(call, _pairs(call, call.ints("paddings"), x.dim()), str(call.attr("mode")).lower())


@op("PadV3Grad")
def pad_v3_grad(call: OpCall) -> torch.Tensor:
    """The adjoint of PadV3: the gradients of padded positions are added to their source."""
    grad, mode = call.tensor("x"), str(call.attr("mode", "reflect"))
    y = wide(grad)
    for d, (before, after) in enumerate(_pairs(call, call.ints("paddings"), grad.dim())):
        if before or after:
            n = y.shape[d] - before - after
            shape = [*y.shape[:d], n, *y.shape[d + 1 :]]
            y = torch.zeros(shape, dtype=y.dtype).index_add(d, _sources(call, n, before, after, mode), y)
    return y.to(grad.dtype)
