"""The registry of inference rules: per GE op type the shapes, dtypes and small values of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
import sympy

from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.graph import Node, TensorInfo
from torchair_autofuse.ge.infer.bounds import at_least
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr

Shape = tuple[Expr, ...]
ObjectArray = np.ndarray[Any, np.dtype[np.object_]]

MAX_VALUE = 64
"""Largest number of elements of a tensor whose value is tracked."""


class Unknown(Exception):
    """Raised by a rule for what cannot be known; the text says why and becomes a note of the node."""


class Facts:
    """Equalities of sizes that hold in every run in which the graph is valid, learned while inferring.

    ``minimum``: lower bound of symbols by name, 0 where it says nothing.
    """

    def __init__(self, minimum: Mapping[str, int] | int = 0) -> None:
        self._minimum = minimum
        self._known: dict[sympy.Expr, Expr] = {}

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, a: Expr, b: Expr) -> Expr:
        """Notes that a and b are equal; returns the simpler one, which stands for both from now on."""
        simple, other = sorted((a, b), key=lambda e: (0 if isinstance(e, int) else 1 + e.count_ops(), str(e)))
        if not isinstance(other, int):
            self._known[other] = simple
        return simple

    def apply(self, size: Any) -> Any:
        """``size`` with what is known replaced; anything but a symbolic expression is returned as it is."""
        if not self._known or not isinstance(size, sympy.Expr):
            return size
        return expr.simplify(size.xreplace(self._known))

    def above_one(self, size: Expr) -> bool:
        """True only if ``size`` is known to be at least 2."""
        return at_least(size, 2, self._least)

    def _least(self, name: str) -> int:
        return self._minimum if isinstance(self._minimum, int) else self._minimum.get(name, 0)


@dataclass(frozen=True)
class Call:
    """A node and what is known of its inputs (None: absent optional input). Accessors raise Unknown."""

    node: Node
    inputs: tuple[TensorInfo | None, ...]
    facts: Facts = field(default_factory=lambda: Facts())

    @property
    def n_outputs(self) -> int:
        return len(self.node.output_names)

    def has(self, i: int) -> bool:
        return i < len(self.inputs) and self.inputs[i] is not None

    def position(self, name: str) -> int | None:
        """Position of the input whose descriptor is called ``name``, if it is present."""
        for i, n in enumerate(self.node.input_names):
            if n == name and self.inputs[i] is not None:
                return i
        return None

    def info(self, i: int) -> TensorInfo:
        found = self.inputs[i] if -len(self.inputs) <= i < len(self.inputs) else None
        if found is None:
            raise Unknown(f"input {i} is absent")
        return found

    def shape(self, i: int = 0) -> Shape:
        shape = self.info(i).shape
        if shape is None:
            raise Unknown(f"shape of input {i} is unknown")
        return shape

    def rank(self, i: int = 0) -> int:
        return len(self.shape(i))

    def dtype(self, i: int = 0) -> DType:
        dtype = self.info(i).dtype
        if dtype is None:
            raise Unknown(f"dtype of input {i} is unknown")
        return dtype

    def array(self, i: int = 0) -> ObjectArray:
        """The known elements of input ``i`` as an object array of its shape."""
        info = self.info(i)
        if info.value is None or info.shape is None:
            raise Unknown(f"value of input {i} is unknown")
        return to_array(info.value, info.shape)

    def exprs(self, i: int) -> tuple[Expr, ...]:
        """The known elements of integer input ``i``, flat."""
        info = self.info(i)
        if info.value is None:
            raise Unknown(f"value of input {i} is unknown")
        if info.dtype is not None and not info.dtype.is_int:
            raise Unknown(f"input {i} is not an integer tensor")
        return info.value

    def ints(self, i: int) -> tuple[int, ...]:
        """The elements of integer input ``i``, all of them plain integers."""
        values = self.exprs(i)
        if not all(isinstance(v, int) for v in values):
            raise Unknown(f"value of input {i} is symbolic")
        return values

    def int_scalar(self, i: int) -> int:
        values = self.ints(i)
        if len(values) != 1:
            raise Unknown(f"input {i} has {len(values)} elements where one is expected")
        return values[0]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attrs.get(name, default)

    def int_list(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """A list attribute; a scalar one counts as a list of one."""
        found = self.attr(name, default)
        if found is None:
            raise Unknown(f"attribute {name} is missing")
        return [int(v) for v in found] if isinstance(found, (list, tuple)) else [int(found)]

    def ge_dtype(self, name: str, default: DType | None) -> DType:
        """A dtype attribute that holds GE's C number (or a DType already)."""
        found = self.attr(name)
        if found is None:
            result = default
        elif isinstance(found, DType):
            result = found
        else:
            result = dtypes.from_ge_c(int(found))
        if result is None:
            raise Unknown(f"attribute {name}={found!r} names no known dtype")
        return result


def to_array(value: Sequence[Any], shape: Shape) -> ObjectArray:
    """Flat elements as an object array of a known integer shape."""
    flat: ObjectArray = np.empty(len(value), dtype=object)
    for k, v in enumerate(value):
        flat[k] = v
    return flat.reshape(shape)


def to_value(array: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(array, dtype=object).reshape(-1).tolist())


ShapeSpec = Union[int, Shape, Callable[[Call], "Shape | None"]]
"""Shape of one output: that of an input, a constant, or a function."""
DTypeSpec = Union[int, DType, Callable[[Call], "DType | None"]]
"""Dtype of one output: that of an input, a fixed one, or a function."""
ValueRule = Callable[[Call, DType], ObjectArray]
"""The elements of output 0, given the dtype inferred for it."""


@dataclass(frozen=True)
class InferRule:
    """``shapes``/``dtypes``: one spec per output, or one function that returns a list for all outputs."""

    shapes: tuple[ShapeSpec, ...] | Callable[[Call], Sequence[Shape | None]]
    dtypes: tuple[DTypeSpec, ...] | Callable[[Call], Sequence[DType | None]]
    value: ValueRule | None = None


RULES: dict[str, InferRule] = {}


def rule(
    types: str,
    shapes: ShapeSpec | Sequence[ShapeSpec],
    dtype: DTypeSpec | Sequence[DTypeSpec] = 0,
    value: ValueRule | None = None,
) -> None:
    """Registers one rule for the space-separated ``types``.

    A list of specs has one per output; a single one stands for an op with one output (a tuple is a constant shape).
    Raises ValueError if a type has a rule already.
    """
    shape_specs = tuple(shapes) if isinstance(shapes, list) else (shapes,)
    dtype_specs: Any = tuple(dtype) if isinstance(dtype, list) else (dtype,) * len(shape_specs)
    _register(types, InferRule(shape_specs, dtype_specs, value))


def rule_of_all_outputs(types: str, shapes: Callable[[Call], Sequence[Shape | None]], dtype: int = 0) -> None:
    """Registers ops with a dynamic number of outputs: one function gives all shapes, input ``dtype`` every dtype."""
    _register(types, InferRule(shapes, lambda call: [call.dtype(dtype)] * call.n_outputs))


def _register(types: str, made: InferRule) -> None:
    for t in types.split():
        if t in RULES:
            raise ValueError(f"two inference rules for {t}")
        RULES[t] = made


def eval_dtype(spec: DTypeSpec, call: Call) -> DType | None:
    if isinstance(spec, DType):
        return spec
    return call.dtype(spec) if isinstance(spec, int) else spec(call)


def eval_shape(spec: ShapeSpec, call: Call) -> Shape | None:
    if isinstance(spec, tuple):
        return spec
    return call.shape(spec) if isinstance(spec, int) else spec(call)
