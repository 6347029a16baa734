"""What a pattern's graph is made of: frozen records that the parser makes and the matcher walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

Literal = Union[int, float, str, tuple[int, ...]]


@dataclass(frozen=True)
class Tensor:
    """Any tensor but one number (known, or 0-d); every use of a name is the same tensor.

    ``kind``: "" for any, "vector" for one of rank 1, "single" for one of a single element, 0-d too; views are looked
    through. ``name`` "" is never bound.
    """

    name: str
    kind: str = ""


@dataclass(frozen=True)
class Number:
    """A tensor whose elements are all one known number from ``low`` to ``high``, up to the rounding of its dtype."""

    low: float
    high: float


@dataclass(frozen=True)
class Op:
    """One output of a GE node of type ``type``.

    ``args`` stand for its leading operands; with ``rest`` they are some of its operands, in order. ``needs``: (name,
    value) of attributes or steering inputs. ``output``: which output, None for any.
    """

    type: str
    args: tuple[Form, ...]
    needs: tuple[tuple[str, Literal], ...] = ()
    rest: bool = False
    output: int | None = None


@dataclass(frozen=True)
class Either:
    """The first of ``options`` that fits."""

    options: tuple[Form, ...]


@dataclass(frozen=True)
class Named:
    """A value that is used by its name: every use is the same tensor."""

    name: str
    of: Form


Form = Union[Tensor, Number, Op, Either, Named]

COMMUTATIVE = frozenset(
    (
        *("Add", "Mul", "Maximum", "Minimum", "Equal", "NotEqual"),
        *("LogicalAnd", "LogicalOr", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    )
)
"""Ops whose two operands are matched in either order."""


def root_types(form: Form) -> frozenset[str]:
    """Op types that the node giving the value of ``form`` may have."""
    if isinstance(form, Op):
        return frozenset([form.type])
    if isinstance(form, Either):
        return frozenset().union(*(root_types(option) for option in form.options))
    return root_types(form.of) if isinstance(form, Named) else frozenset()


def needed_types(form: Form) -> frozenset[str]:
    """Op types without which ``form`` cannot match."""
    if isinstance(form, Op):
        return frozenset([form.type]).union(*(needed_types(arg) for arg in form.args))
    if isinstance(form, Either):
        first, *others = (needed_types(option) for option in form.options)
        return first.intersection(*others)
    return needed_types(form.of) if isinstance(form, Named) else frozenset()
