"""Options for a part of a program: ``with torchair_autofuse.options(precision="strict"): ...``.

A scope is a change of what holds around it: of an enclosing scope, else of ``enable()``, else of the environment. It is
kept in a context variable, so threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from torchair_autofuse.options.model import Options

Change = Callable[[Options], Options]

_active: ContextVar[tuple[Change, ...]] = ContextVar("torchair_autofuse_options", default=())


def within(base: Options) -> Options:
    """``base`` as the scopes that are open here change it."""
    for change in _active.get():
        base = change(base)
    return base


def scoped_soc() -> str | None:
    """The chip that the open scopes ask for, None where they ask for none."""
    soc = within(_NO_CHIP).soc if _active.get() else _NO_CHIP.soc
    return soc if soc != _NO_CHIP.soc else None


_NO_CHIP = Options(soc="not_chosen")


class Scope:
    """Options that hold inside it; a context manager, and a decorator of what is to be called inside it.

    ``change`` makes the options inside of those outside. One scope may be entered many times, also inside itself.
    """

    def __init__(self, change: Change) -> None:
        self._change = change

    def __enter__(self) -> None:
        _active.set((*_active.get(), self._change))

    def __exit__(self, *error: object) -> None:
        _active.set(_active.get()[:-1])

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, called inside the scope; what else it has (a module's attributes) is looked up on it.

        Of an async function the awaited body is inside. Raises TypeError for a generator, which runs in pieces.
        """
        if not callable(function):
            raise TypeError(f"options(...) wraps what is called, such as a compiled model, not {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"options(...) cannot wrap the generator {function!r}: wrap the model that it calls")
        return self._awaited(function) if inspect.iscoroutinefunction(function) else _Inside(self, function)

    def _awaited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return inside


class _Inside:
    """A callable whose calls are inside a scope."""

    def __init__(self, scope: Scope, function: Callable[..., Any]) -> None:
        self._autofuse_scope = scope
        self._autofuse_function = function
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._autofuse_scope:
            return self._autofuse_function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_autofuse_"):  # not set yet: while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._autofuse_function, name)

    def __repr__(self) -> str:
        return f"<{self._autofuse_function!r} with options of its own>"


def scope(flags: str | Options | None = None, **changes: Any) -> Scope:
    """Options for what is compiled in a ``with`` block, or in the calls of a function or model that the result wraps.

    ``flags``: a flag string in the grammar of AUTOFUSE_FLAGS or Options, in place of what holds outside; None: that.
    ``changes``: fields of ``Options``, ``max_fusions=3``, ``skip_nodes={"Add_12"}``, ``skip_types={"SoftmaxV2"}``, ...
    Fusion is on inside, whatever holds outside, unless ``enabled=False`` is among them; GF_AUTOFUSION_DISABLE=1 in the
    environment keeps it off. Raises ValueError that names a field that is unknown or has a bad value.
    """
    if isinstance(flags, str):
        flags = Options.from_flags(flags)
    elif flags is not None and not isinstance(flags, Options):
        raise TypeError(f"options: flags: expected a flag string, Options or None, got {flags!r}")
    Options().replace(**changes)  # a mistake is told here, not when something is compiled

    def change(outside: Options) -> Options:
        base = outside if flags is None else flags
        return base.switched_on().replace(**changes)

    return Scope(change)
