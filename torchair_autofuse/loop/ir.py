"""The loop-level IR (docs/loop-ir.md): a kernel is a list of loop nests of SSA values over named axes.

All records are frozen and hashable. The IR says *what* is computed; tiles, buffers, splits and barriers are in the
Schedule. Every value is defined over a set of axes, its domain; broadcasting is the union of domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Union

from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop.expr import Expr

Strides = tuple[tuple[str, Expr], ...]
"""(axis name, stride in elements) pairs, outermost axis first, zero strides left out."""


@dataclass(frozen=True)
class Symbol:
    """A symbolic size and its source: dim ``dim`` of input parameter ``param``, floor-divided by ``divisor``."""

    name: str
    param: str
    dim: int
    divisor: int = 1


@dataclass(frozen=True)
class Axis:
    """A loop dimension; ``size`` >= 0."""

    name: str
    size: Expr


@dataclass(frozen=True)
class Param:
    """A dense row-major tensor in memory. ``kind``: "input" or "output"; ``space``: "gm" ("tile" is reserved)."""

    name: str
    dtype: DType
    dims: tuple[Expr, ...]
    kind: str
    space: str = "gm"


@dataclass(frozen=True)
class Index:
    """A row that is looked up: ``pitch * value`` more in a flat index, with 0 <= value < size of an integer SSA value.

    ``wraps``: -size <= value < 0 is a row too, counted from the end. Any other value is an error.
    """

    value: str
    pitch: Expr
    size: Expr
    wraps: bool = False


@dataclass(frozen=True)
class Load:
    """``param[offset + sum(stride * axis) + sum(pitch * value)]``: flattened index in elements.

    ``indices`` are the (pitch, value) of a gather; the rest is affine.
    """

    name: str
    param: str
    strides: Strides
    offset: Expr
    dtype: DType
    indices: tuple[Index, ...] = ()
    origin: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, eq=False)
class Const:
    """A scalar; ``value`` is a float, int or bool of ``dtype`` (for floats already rounded to it).

    Two are equal when they print alike: NaN equals NaN, and 0.0 differs from -0.0.
    """

    name: str
    value: float | int | bool
    dtype: DType
    origin: tuple[str, ...] = field(default=(), compare=False)

    def _key(self) -> tuple[str, str, DType]:
        return self.name, repr(self.value), self.dtype

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Const) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True)
class Iota:
    """The affine integer ``offset + sum(stride * axis)``."""

    name: str
    strides: Strides
    offset: Expr
    dtype: DType
    origin: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Pointwise:
    """``op`` of loop.ops applied to values element by element; domain = union of the arguments' domains."""

    name: str
    op: str
    args: tuple[str, ...]
    dtype: DType
    origin: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Cast:
    """Conversion to ``dtype``. ``mode``: "rint" (nearest even), "trunc", "floor", "ceil", "round" (half away)."""

    name: str
    arg: str
    dtype: DType
    mode: str = "rint"
    origin: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Reduce:
    """``combiner`` of loop.ops over ``axes``; defines one value per component of the combiner, ``names`` in order."""

    names: tuple[str, ...]
    combiner: str
    args: tuple[str, ...]
    axes: tuple[str, ...]
    dtypes: tuple[DType, ...]
    origin: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Store:
    """``param[offset + sum(stride * axis)] = value`` for every point of the store's axes.

    Its axes are those with a stride. They contain the value's domain (but for axes of size 1); a value that is defined
    over fewer, such as the constant of a padding, is broadcast over the others.
    """

    param: str
    strides: Strides
    offset: Expr
    value: str
    origin: tuple[str, ...] = field(default=(), compare=False)


Value = Union[Load, Const, Iota, Pointwise, Cast, Reduce]


def defined_names(value: Value) -> tuple[str, ...]:
    """Names of the SSA values that a node defines (several for a Reduce)."""
    return value.names if isinstance(value, Reduce) else (value.name,)


def arguments(value: Value) -> tuple[str, ...]:
    """Names of the SSA values that a node reads."""
    if isinstance(value, (Pointwise, Reduce)):
        return value.args
    if isinstance(value, Load):
        return tuple(i.value for i in value.indices)
    return (value.arg,) if isinstance(value, Cast) else ()


@dataclass(frozen=True)
class Nest:
    """One loop nest: axes outermost first, values in definition order, stores in order."""

    name: str
    axes: tuple[Axis, ...]
    values: tuple[Value, ...]
    stores: tuple[Store, ...]

    @cached_property
    def axis(self) -> Mapping[str, Axis]:
        return MappingProxyType({a.name: a for a in self.axes})

    @cached_property
    def defs(self) -> Mapping[str, Value]:
        """SSA name -> the node that defines it."""
        return MappingProxyType({n: v for v in self.values for n in defined_names(v)})

    @cached_property
    def dtypes(self) -> Mapping[str, DType]:
        """SSA name -> dtype."""
        found: dict[str, DType] = {}
        for v in self.values:
            found.update(zip(v.names, v.dtypes) if isinstance(v, Reduce) else [(v.name, v.dtype)])
        return MappingProxyType(found)

    @cached_property
    def domains(self) -> Mapping[str, tuple[str, ...]]:
        """SSA name -> names of the axes it is defined over, in nest order."""
        order = {a.name: i for i, a in enumerate(self.axes)}
        found: dict[str, tuple[str, ...]] = {}
        for v in self.values:
            axes = {a for arg in arguments(v) for a in found[arg]}
            if isinstance(v, (Load, Iota)):
                axes |= {a for a, _ in v.strides}
            if isinstance(v, Reduce):
                axes -= set(v.axes)
            domain = tuple(sorted(axes, key=order.__getitem__))
            found.update((n, domain) for n in defined_names(v))
        return MappingProxyType(found)

    @cached_property
    def users(self) -> Mapping[str, tuple[Value | Store, ...]]:
        """SSA name -> the nodes and stores that read it, in order."""
        found: dict[str, list[Value | Store]] = {n: [] for v in self.values for n in defined_names(v)}
        for v in self.values:
            for arg in dict.fromkeys(arguments(v)):
                found[arg].append(v)
        for s in self.stores:
            found[s.value].append(s)
        return MappingProxyType({n: tuple(u) for n, u in found.items()})


@dataclass(frozen=True)
class Kernel:
    """What one fused op computes. ``params``: inputs first, then outputs, in argument order."""

    name: str
    params: tuple[Param, ...]
    symbols: tuple[Symbol, ...]
    nests: tuple[Nest, ...]

    @cached_property
    def param(self) -> Mapping[str, Param]:
        return MappingProxyType({p.name: p for p in self.params})

    @property
    def inputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind == "input")

    @property
    def outputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind == "output")
