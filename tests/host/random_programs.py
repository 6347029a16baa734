"""Small random torch programs of elementwise ops, broadcasts, views, reductions and moves, as hypothesis strategies.

A program is a list of steps; each makes a value of earlier ones, so that any subset of steps is a program again and
failures shrink. Steps are smooth (no op jumps between neighbouring inputs) and keep values small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

CI = settings(
    max_examples=6,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),  # each example compiles; the plugin is put back by run() itself
)
"""A few examples, the same in every run."""

UNARY: dict[str, Callable[[Any], Any]] = {
    "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "abs": torch.abs, "neg": torch.neg,
    "half": lambda x: x * 0.5, "plus": lambda x: x + 1, "bell": lambda x: torch.exp(-x * x),
    "root": lambda x: torch.sqrt(x * x + 0.25), "kink": lambda x: torch.where(x > 0, x, x * 0.25),
    "clamp": lambda x: torch.clamp(x, -0.75, 1.5),
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add, "sub": torch.sub, "mean": lambda x, y: (x + y) * 0.5, "mul": lambda x, y: x * torch.tanh(y),
    "max": torch.maximum, "min": torch.minimum, "div": lambda x, y: x / (1 + y * y),
}  # fmt: skip
VIEWS: dict[str, Callable[[Any], Any]] = {
    "flatten": lambda x: x.reshape(-1), "last to front": lambda x: x.unsqueeze(0), "column": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.squeeze(), "merge": lambda x: x.flatten(0, 1) if x.dim() > 1 else x,
    "transpose": lambda x: x.transpose(-1, -2).contiguous() if x.dim() > 1 else x,
}  # fmt: skip
REDUCE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(-1) * 0.125 if x.dim() else x,
    "mean": lambda x: x.mean(-1, keepdim=True) if x.dim() else x,
    "rows": lambda x: x.mean(0, keepdim=True) if x.dim() else x,
    "softmax": lambda x: torch.softmax(x, -1) if x.dim() else x,
    "norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]) if x.dim() else x,
    "centre": lambda x: x - x.mean(-1, keepdim=True) if x.dim() else x,
}  # fmt: skip
LIMIT = 5000  # elements of a value


def _cat(dim: int) -> Callable[[Any, Any], Any]:
    """x beside y where the other dims agree, else beside itself."""

    def run(x: Any, y: Any) -> Any:
        at = dim % x.dim()
        fits = y.dim() == x.dim() and all(i == at or x.shape[i] == y.shape[i] for i in range(x.dim()))
        return torch.cat([x, y if fits else x * 0.5, -x], at)

    return run


def _turned(x: Any, y: Any) -> Any:
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat([-b, a], -1) + x


def _gated(x: Any, y: Any) -> Any:
    a, b = x.split([x.shape[-1] // 2, x.shape[-1] - x.shape[-1] // 2], -1)
    return torch.cat([torch.tanh(b), a, b * 0.5], -1)


MOVE: dict[str, Callable[[Any, Any], Any]] = {
    "beside": _cat(-1), "below": _cat(0), "turned": _turned, "gated": _gated,
    "tail": lambda x, y: x[..., 1:] + x[..., :-1], "even": lambda x, y: x[..., ::2], "third": lambda x, y: x[..., 1::3],
    "shift": lambda x, y: torch.cat([x[..., 2:], x[..., :2]], -1), "row": lambda x, y: x[:1] * x,
    "flip": lambda x, y: torch.flip(x, [-1]), "flip rows": lambda x, y: torch.flip(x, [0]),
    "pad": lambda x, y: torch.nn.functional.pad(x, (1, 2), value=0.5),
    "interleave": lambda x, y: torch.stack([x, x * 0.5], -1).flatten(-2),
    "stack": lambda x, y: torch.stack([x, -x], 0), "swap": lambda x, y: x.transpose(0, -1).contiguous(),
    "front": lambda x, y: x.permute(*range(1, x.dim()), 0) * 2,
}  # fmt: skip
"""Of values with three elements or more along the last dim, at most four dims and a third of LIMIT elements."""


@dataclass(frozen=True)
class Program:
    """``shapes``: of the inputs; ``steps``: (family, name, first operand, second), operands counted from the last."""

    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[str, str, int, int], ...]
    outputs: int  # so many of the last values are returned
    dtype: torch.dtype = torch.float32

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values = list(inputs)
        for family, name, first, second in self.steps:
            x, y = values[-1 - first % len(values)], values[-1 - second % len(values)]
            if family == "binary":
                if _broadcast(x.shape, y.shape):
                    values.append(BINARY[name](x, y))
            elif family == "move":
                if x.dim() and x.shape[-1] > 2 and x.dim() < 5 and x.numel() <= LIMIT // 3:
                    values.append(MOVE[name](x, y))
            else:
                values.append({"unary": UNARY, "view": VIEWS, "reduce": REDUCE}[family][name](x))
        made = values[len(inputs) :][-self.outputs :]
        return [v + 0 for v in made] or [inputs[0] + 0]  # an output is never an input or a view of one

    def inputs(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(len(self.steps))
        return [torch.randn(s, generator=generator).to(self.dtype) for s in self.shapes]


def _broadcast(a: Any, b: Any) -> bool:
    pairs = zip(reversed(a), reversed(b))
    if not all(x == y or x == 1 or y == 1 for x, y in pairs):  # Dynamo's "1 in" takes no symbol for 1
        return False
    size = 1
    for n in torch.broadcast_shapes(a, b):
        size *= n
    return size <= LIMIT


@st.composite
def programs(draw: st.DrawFn, families: tuple[str, ...], dtypes: tuple[torch.dtype, ...]) -> Program:
    """Programs of the given families of steps."""
    n = draw(st.sampled_from((1, 3, 8, 17, 33)))
    m = draw(st.sampled_from((1, 2, 5)))
    shapes = ((m, n), (n,), (m, 1), (2, m, n))
    chosen = draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=3))
    names = {"unary": sorted(UNARY), "binary": sorted(BINARY), "view": sorted(VIEWS), "reduce": sorted(REDUCE)}
    names["move"] = sorted(MOVE)
    weighted = [f for f in families for _ in range(3 if f in ("unary", "binary", "move") else 1)]
    steps = []
    for family in draw(st.lists(st.sampled_from(weighted), min_size=2, max_size=14)):
        name = draw(st.sampled_from(names[family]))
        steps.append((family, name, draw(st.integers(0, 3)), draw(st.integers(0, 5))))
    return Program(tuple(chosen), tuple(steps), draw(st.integers(1, 3)), draw(st.sampled_from(dtypes)))
