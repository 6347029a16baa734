"""Inputs of a model under test: copies that it may write into, random ones like the given, and its own state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree

Args = tuple[Any, ...]


def copied(args: Args, make: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Args:
    """The arguments with every tensor in them replaced by a copy, or by ``make(tensor)``.

    Leaves that require grad still do, and a tensor that occurs twice stays one.
    """
    made: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in made:
            fresh = value.detach().clone() if make is None else make(value)
            made[id(value)] = fresh.requires_grad_(value.requires_grad)
        return made[id(value)]

    return tuple(_pytree.tree_map(copy, tuple(args)))


def tensors(value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a tree of tuples, lists, dicts and the like, each with where it is, such as ``[0]['logits']``."""
    leaves, _ = _pytree.tree_flatten_with_path(value)
    return [(_pytree.keystr(path), leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]


def randomised(args: Args, seed: int, shapes: Sequence[Sequence[int]] | None = None) -> Args:
    """Arguments like the given with random values, in the given ``shapes`` if any, one per tensor in order.

    Floats are normal with the example's mean and spread; integers uniform over the example's range; bools even. Raises
    ValueError when the number of shapes is not that of the tensors, or one is no shape.
    """
    found = list({id(t): t for _, t in tensors(args)}.values())
    if shapes is not None and len(shapes) != len(found):
        raise ValueError(f"shapes: {len(found)} tensors are among the inputs, {len(shapes)} shapes given for them")
    for shape in shapes or ():
        sizes = shape if isinstance(shape, Sequence) else (None,)
        if not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise ValueError(f"shapes: expected a shape such as (2, 3) for each tensor, got {shape!r}")
    wanted = {id(t): tuple(s) for t, s in zip(found, shapes or [t.shape for t in found])}
    generator = torch.Generator().manual_seed(seed)
    return copied(args, lambda t: _random_like(t.detach().cpu(), wanted[id(t)], generator).to(t.device))


def _random_like(example: torch.Tensor, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if example.is_complex():
        return torch.view_as_complex(_random_like(torch.view_as_real(example), (*shape, 2), generator))
    if example.dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if example.is_floating_point():
        finite = example.double()[torch.isfinite(example)]
        mean = float(finite.mean()) if finite.numel() else 0.0
        spread = float(finite.std()) if finite.numel() > 1 else 1.0
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * spread + mean
        return values.to(example.dtype)
    low, high = (int(example.min()), int(example.max())) if example.numel() else (0, 0)
    top = torch.iinfo(torch.int64).max  # randint leaves out its upper end, which can be no more than this
    values = torch.randint(min(low, top - 1), min(high + 1, top), shape, generator=generator)
    return values.to(example.dtype)


@contextmanager
def kept(model: Any) -> Iterator[None]:
    """Puts back, at the end, what the model holds: parameters, buffers, gradients, and the random number generator.

    Of a module all of its own; of a function the modules and tensors that it closes over, is bound to, or names.
    """
    state = _state(model)
    values = [(t, t.detach().clone(), t.grad, None if t.grad is None else t.grad.detach().clone()) for t in state]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value, grad, grad_value in values:
                    for changed, before in ((tensor, value), (grad, grad_value)):
                        if changed is not None and before is not None and not torch.equal(changed.detach(), before):
                            changed.detach().copy_(before)
                    tensor.grad = grad


def clear_gradients(model: Any) -> None:
    """Forgets the gradients of what the model holds; ``kept`` puts them back."""
    for tensor in _state(model):
        tensor.grad = None


def named_state(model: Any) -> list[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a module by name; nothing for a function."""
    if not isinstance(model, torch.nn.Module):
        return []
    return [*model.named_parameters(), *model.named_buffers()]


def _state(model: Any) -> list[torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    for owner in (model, *_reached(model)):
        if isinstance(owner, torch.nn.Module):
            found.update((id(t), t) for t in (*owner.parameters(), *owner.buffers()))
        elif isinstance(owner, torch.Tensor) and owner.is_leaf:
            found[id(owner)] = owner
    return list(found.values())


def _reached(function: Any) -> list[Any]:
    """What a function closes over, is bound to, or names in its module."""
    owner = getattr(function, "__self__", None)
    try:
        names = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):  # no Python function
        return [owner]
    return [owner, *names.nonlocals.values(), *names.globals.values()]
