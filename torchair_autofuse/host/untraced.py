"""What Dynamo must not look into.

A backward is compiled when it first runs. Inside a compiled function, as with ``torch.autograd.grad``, Dynamo's hook is
on by then; it would compile TorchAir, this package and the ops of the host's interpreter frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """``function``, which Dynamo leaves alone with all that it calls; loads torch."""
    import torch

    return cast(F, torch.compiler.disable(function))
