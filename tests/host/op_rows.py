"""One row per op call: inputs, attributes and an independent formula, checked in f32 and in the half types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchair_autofuse.host.ops import OPS, OpCall

HALVES = (torch.float16, torch.bfloat16)
Inputs = dict[str, "torch.Tensor | None"]
Formula = Callable[..., Any]
_GENERATOR = torch.Generator().manual_seed(20)


def r(*shape: int) -> torch.Tensor:
    """Normal numbers of a fixed seed."""
    return torch.randn(shape, generator=_GENERATOR)


def pos(*shape: int) -> torch.Tensor:
    """Numbers in [0.1, 1.1)."""
    return torch.rand(shape, generator=_GENERATOR) + 0.1


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Integers in [low, high)."""
    return torch.randint(low, high, shape, generator=_GENERATOR).to(dtype)


def i64(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def i32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def s64(value: int) -> torch.Tensor:
    """A 0-d i64."""
    return torch.tensor(value, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Row:
    """``formula`` gets the inputs in order and gives what the op gives; None stands for an output that is not checked.

    ``half``: also run with every f32 input (except ``keep``) in f16 and in bf16: the formula then sees those inputs in
    f32, and its results are rounded to the half type, but for the outputs ``wide``, which stay f32.
    """

    op: str
    inputs: Inputs
    formula: Formula
    attrs: Mapping[str, Any] = field(default_factory=dict)
    half: bool = False
    keep: Sequence[str] = ()
    wide: Sequence[int] = ()
    tolerance: float = 2e-6

    def __str__(self) -> str:
        shapes = ",".join("-" if t is None else "x".join(map(str, t.shape)) or "0d" for t in self.inputs.values())
        return f"{self.op}-{shapes}"


def row(op: str, formula: Formula, inputs: Inputs, attrs: Mapping[str, Any] | None = None, **options: Any) -> Row:
    return Row(op, inputs, formula, attrs or {}, **options)


def call_op(op: str, inputs: Inputs, attrs: Mapping[str, Any] | None = None, n_outputs: int = 1) -> list[torch.Tensor]:
    """The op's outputs."""
    given = list(inputs.values())
    result = OPS[op](OpCall(op, "node", given, list(inputs), dict(attrs or {}), n_outputs))
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _copies(inputs: Inputs) -> Inputs:
    return {k: None if t is None else t.clone() for k, t in inputs.items()}


def _same(found: torch.Tensor, expected: torch.Tensor, tolerance: float, where: str) -> None:
    assert found.dtype == expected.dtype, f"{where}: {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{where}: {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if not found.is_floating_point():
        assert torch.equal(found, expected), f"{where}: {found} != {expected}"
        return
    step = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}.get(found.dtype, tolerance)  # half types: one last place
    torch.testing.assert_close(
        found, expected, rtol=step, atol=max(step * 0.05, tolerance), equal_nan=True, msg=lambda m: f"{where}: {m}"
    )


def check(row: Row, dtype: torch.dtype) -> None:
    """Runs a row with its floating inputs in ``dtype`` (f32: as given) and compares every output."""
    narrow = dtype in HALVES
    inputs = {
        k: t.to(dtype) if narrow and t is not None and t.dtype == torch.float32 and k not in row.keep else t
        for k, t in row.inputs.items()
    }
    seen = {k: t.float() if t is not None and t.dtype in HALVES else t for k, t in inputs.items()}
    expected = row.formula(*_copies(seen).values())
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    found = call_op(row.op, _copies(inputs), row.attrs, len(expected))
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected)):
        if b is None:
            continue
        b = b.to(dtype) if narrow and b.dtype == torch.float32 and i not in row.wide else b
        _same(a, b, row.tolerance, f"{row} output {i}")


def gradients(function: Formula, inputs: Sequence[torch.Tensor], grad: torch.Tensor) -> list[torch.Tensor]:
    """What autograd gives for ``function(*inputs)`` and the output gradient ``grad``."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    with torch.enable_grad():
        return list(torch.autograd.grad(function(*leaves), leaves, grad))
