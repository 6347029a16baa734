"""Functions of concat, split, slice and transpose with the work around them, of fixed sizes; only torch is imported."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.block_models import rotated
from benchmarks.models import F16, F32, Draw, Inputs, Model

Turn = Callable[[Tensor, Tensor, Tensor], Tensor]
BATCH, HEADS, SEQUENCE, DEPTH = 2, 12, 256, 64


def joined(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.cat([torch.relu(a), b * 2 + 1, torch.sigmoid(c)], 1)


def joined_then(a: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(torch.cat([torch.relu(a), b * 2], 1)) + 1


def by_chunk(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def halves_apart(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * sin


def both(turn: Turn) -> Callable[..., tuple[Tensor, Tensor]]:
    """Queries and keys in one graph."""

    def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return turn(q, cos, sin), turn(k, cos, sin)

    return run


def split_and_turned(qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    b, s, width = qkv.shape
    q, k, v = (t.view(b, s, HEADS, -1).transpose(1, 2) for t in qkv.split(width // 3, -1))
    return rotated(q, cos, sin), rotated(k, cos, sin), v.contiguous()


def swiglu_of_chunk(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return functional.silu(gate) * up


def padded(x: Tensor) -> Tensor:
    return functional.pad(torch.relu(x) * 2, (1, 3, 2, 0))


def stacked(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return torch.stack([x * 2, torch.relu(y), x + z], -2)


def flipped(x: Tensor) -> Tensor:
    return torch.flip(x * 2, [-1]) + 1


def flipped_rows(x: Tensor) -> Tensor:
    return torch.flip(x * 2, [0]) + 1


def heads(x: Tensor, bias: Tensor) -> Tensor:
    b, s, _ = x.shape
    return ((x + bias).view(b, s, HEADS, DEPTH).transpose(1, 2) * 0.125).contiguous()


def transposed(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x * 2).transpose(1, 2).contiguous() + y


def differences(x: Tensor) -> Tensor:
    return (x[:, 1:] - x[:, :-1]).abs()


def _full(d: Draw, _: int) -> tuple[Tensor, ...]:
    return *(d(BATCH, HEADS, SEQUENCE, DEPTH) for _ in "qk"), d(SEQUENCE, DEPTH), d(SEQUENCE, DEPTH)


def _half(d: Draw, _: int) -> tuple[Tensor, ...]:
    return *(d(BATCH, HEADS, SEQUENCE, DEPTH) for _ in "qk"), *(d(SEQUENCE, DEPTH // 2) for _ in "cs")


def _fixed(*shapes: tuple[int, ...]) -> Inputs:
    return lambda d, rows: tuple(d(*shape) for shape in shapes)


_WIDTH = HEADS * DEPTH
BOTH = (F32, F16)
# kernels: what Inductor needs on a GPU, or fewer
MODELS: tuple[Model, ...] = (
    Model("cat of three", joined, _fixed((512, 256), (512, 256), (512, 512)), BOTH),
    Model("cat of odd widths", joined, _fixed((512, 255), (512, 33), (512, 401)), BOTH),
    Model("tanh(cat)+1", joined_then, _fixed((512, 256), (512, 512)), BOTH),
    Model("rope by slices", both(rotated), _full, BOTH),
    Model("rope by chunk", both(by_chunk), _full, BOTH),
    Model("rope, halves apart", both(halves_apart), _half, BOTH),
    Model("rope, interleaved", both(interleaved), _full, BOTH),
    Model("split qkv + rope", split_and_turned, _fixed((BATCH, SEQUENCE, 3 * _WIDTH), *((SEQUENCE, DEPTH),) * 2), BOTH),
    Model("swiglu of chunk", swiglu_of_chunk, _fixed((512, 1376)), BOTH),
    Model("pad", padded, _fixed((512, 700)), BOTH),
    Model("stack", stacked, _fixed(*((512, 256),) * 3), BOTH),
    Model("flip", flipped, _fixed((512, 700)), BOTH),
    Model("flip rows", flipped_rows, _fixed((512, 700)), BOTH),
    Model("heads [0,2,1,3]", heads, _fixed((BATCH, SEQUENCE, _WIDTH), (_WIDTH,)), BOTH),
    Model("transpose [0,2,1]", transposed, _fixed((4, 200, 300), (4, 300, 200)), BOTH),
    Model("differences", differences, _fixed((512, 700)), BOTH),
)
