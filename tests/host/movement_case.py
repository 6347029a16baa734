"""A small torch function with the shapes of its inputs, and random values for them.

In shapes B and S stand for batch and sequence: fixed in a static run, symbolic in a dynamic one. Called on f64 inputs a
function is its own reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

F32, F16, BF16, I64, I32, BOOL = (
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool,
)  # fmt: skip
FLOATS = (F32, F16, BF16)
Tensor = torch.Tensor
Function = Callable[..., Any]
Shape = tuple[Any, ...]
WIDTHS = (1, 15, 16, 17, 31, 32, 33)
"""Around a block of 32 bytes, for elements of 1, 2 and 4 bytes."""


@dataclass(frozen=True)
class Case:
    """``fixed``: dtypes of single inputs, by position, where they are not the run's. ``widths``: is run with all sizes
    symbolic too, not just B and S.
    """

    name: str
    function: Function
    shapes: tuple[Shape, ...]
    dtypes: tuple[torch.dtype, ...] = (F32,)
    dynamic: bool = True
    fixed: tuple[tuple[int, torch.dtype], ...] = ()
    widths: bool = False

    def inputs(self, dtype: torch.dtype, batch: int, seq: int, widths: bool = False) -> tuple[Tensor, ...]:
        """Arguments for these sizes; floats are standard normal, integers from -9 to 9.

        ``widths``: all sizes may become symbolic.
        """
        types = dict(self.fixed)
        made = []
        for i, shape in enumerate(self.shapes):
            sizes = [{"B": batch, "S": seq}.get(n, n) for n in shape]
            made.append(values(sizes, types.get(i, dtype), seed=i))
            known = tuple(at for at, n in enumerate(shape) if n not in ("B", "S"))
            if known and not widths:
                torch._dynamo.mark_static(made[-1], known)
        return tuple(made)


def values(sizes: list[int], dtype: torch.dtype, seed: int) -> Tensor:
    """Random values, the same in every process."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is BOOL:
        return torch.rand(sizes, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(-9, 10, sizes, generator=generator).to(dtype)
    return torch.randn(sizes, generator=generator).to(dtype)
