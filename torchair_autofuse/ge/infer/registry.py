"""The registry of inference rules: per GE op type the shapes, dtypes and small values of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.graph import Node, TensorInfo
from torchair_autofuse.loop.expr import Expr

Shape = tuple[Expr, ...]
ObjectArray = np.ndarray[Any, np.dtype[np.object_]]

MAX_VALUE = 64
"""Largest number of elements of a tensor whose value is tracked."""


class Unknown(Exception):
    """Raised by a rule for what cannot be known; the text says why and becomes a note of the node."""


@dataclass(frozen=True)
class Call:
    """A node and what is known of its inputs (None: absent optional input). Accessors raise Unknown."""

    node: Node
    inputs: tuple[TensorInfo | None, ...]

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
        if info.dtype is None or not info.dtype.is_int:
            raise Unknown(f"input {i} is not an integer tensor")
        return info.value

    def ints(self, i: int) -> tuple[int, ...]:
        """The elements of integer input ``i``, all of them plain integers."""
        values = self.exprs(i)
        if not all(isinstance(v, int) for v in values):
            raise Unknown(f"value of input {i} is symbolic")
        return values  # type: ignore[return-value]

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
    return flat.reshape(shape)  # type: ignore[arg-type]


def to_value(array: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(array, dtype=object).reshape(-1).tolist())


ShapeSpec = Union[int, Shape, Callable[[Call], "Shape | None"]]
"""Shape of one output: that of an input, a constant, or a function."""
DTypeSpec = Union[int, DType, Callable[[Call], "DType | None"]]
"""Dtype of one output: that of an input, a fixed one, or a function."""
ValueRule = Callable[[Call, DType], "ObjectArray | None"]
"""The elements of output 0, given the dtype inferred for it."""


@dataclass(frozen=True)
class InferRule:
    """``shapes``/``dtypes``: one spec per output, or one function that returns a list for all outputs."""

    shapes: Sequence[ShapeSpec] | Callable[[Call], Sequence[Shape | None]]
    dtypes: Sequence[DTypeSpec] | Callable[[Call], Sequence[DType | None]]
    value: ValueRule | None = None


RULES: dict[str, InferRule] = {}


def rule(
    types: str,
    shapes: ShapeSpec | list[ShapeSpec] | Callable[[Call], list[Shape]],
    dtype: DTypeSpec | list[DTypeSpec] = 0,
    value: ValueRule | None = None,
    *,
    every_output: bool = False,
) -> None:
    """Registers one rule for the space-separated ``types``.

    A single spec stands for an op with one output. With ``every_output`` the shape function returns a list with the
    shapes of all outputs and the one dtype spec holds for each of them. Raises ValueError if a type has a rule already.
    """
    made: InferRule
    if every_output:
        made = InferRule(shapes, _repeat(dtype), value)  # type: ignore[arg-type]
    else:
        shape_specs = shapes if isinstance(shapes, list) else [shapes]
        dtype_specs = dtype if isinstance(dtype, list) else [dtype] * len(shape_specs)
        made = InferRule(tuple(shape_specs), tuple(dtype_specs), value)  # type: ignore[arg-type]
    for t in types.split():
        if t in RULES:
            raise ValueError(f"two inference rules for {t}")
        RULES[t] = made


def _repeat(spec: Any) -> Callable[[Call], Sequence[DType | None]]:
    return lambda call: [eval_dtype(spec, call)] * call.n_outputs


def eval_dtype(spec: DTypeSpec, call: Call) -> DType | None:
    if isinstance(spec, DType):
        return spec
    return call.dtype(spec) if isinstance(spec, int) else spec(call)


def eval_shape(spec: ShapeSpec, call: Call) -> Shape | None:
    if isinstance(spec, tuple):
        return spec
    return call.shape(spec) if isinstance(spec, int) else spec(call)
