"""The registry of GE op semantics that the host executor runs. No code is shared with the loop IR or the twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class OpCall:
    """One execution of a GE node: its data inputs (None for an absent optional one) and its attributes.

    ``attrs`` holds Python values (str, int, float, bool, lists; a tensor attr is a torch tensor).
    """

    type: str
    name: str
    inputs: Sequence[torch.Tensor | None]
    input_names: Sequence[str]
    attrs: Mapping[str, Any]
    n_outputs: int

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default of the op's IR where the node leaves it out."""
        return self.attrs.get(name, default)

    def tensor(self, key: int | str) -> torch.Tensor:
        """A required input by position or descriptor name. Raises ValueError naming it when absent."""
        found = self.optional(key)
        if found is None:
            raise ValueError(f"{self.type} {self.name}: required input {key!r} is absent")
        return found

    def optional(self, key: int | str) -> torch.Tensor | None:
        """An input by position or descriptor name, or None."""
        if isinstance(key, int):
            return self.inputs[key] if key < len(self.inputs) else None
        return next((t for n, t in zip(self.input_names, self.inputs) if n == key), None)

    def ints(self, key: int | str) -> list[int]:
        """A small integer input as a flat list of Python ints."""
        return [int(v) for v in self.tensor(key).reshape(-1).tolist()]


OpFunction = Callable[[OpCall], "torch.Tensor | Sequence[torch.Tensor]"]

OPS: dict[str, OpFunction] = {}


def op(*types: str) -> Callable[[OpFunction], OpFunction]:
    """Registers a function as the meaning of one or more GE op types. Raises ValueError if one is taken."""

    def register(function: OpFunction) -> OpFunction:
        for t in types:
            if t in OPS:
                raise ValueError(f"GE op {t} registered twice")
            OPS[t] = function
        return function

    return register
