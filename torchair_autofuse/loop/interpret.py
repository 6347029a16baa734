"""Evaluates a kernel on whole numpy arrays: the reference that generated kernels are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret_ops import cast, numpy_dtype, pointwise
from torchair_autofuse.loop.interpret_reduce import reduce
from torchair_autofuse.loop.ir import (
    Cast,
    Const,
    Iota,
    Kernel,
    Load,
    Nest,
    Param,
    Pointwise,
    Reduce,
    Store,
    Value,
    defined_names,
)

Array = npt.NDArray[Any]


def interpret(
    kernel: Kernel, inputs: Mapping[str, Array] | Sequence[Array], *, float64: bool = False
) -> dict[str, Array]:
    """Output name -> array, of a kernel that passes loop.verify.

    ``inputs``: arrays by parameter name, or in parameter order; shapes bind the symbols, dtypes are those of the
    parameters (bf16 is ml_dtypes.bfloat16). ``float64=True`` does all float arithmetic in float64 and rounds nowhere:
    float inputs may then be float64 too, and float outputs are. Output elements that no nest stores are 0.
    Raises ValueError for an input that is missing or has the wrong shape or dtype, or an index out of range.
    """
    arrays = _by_name(kernel, inputs)
    for p in kernel.inputs:
        _check_dtype(kernel, p, arrays[p.name], float64)
    symbols = bind(kernel, {name: a.shape for name, a in arrays.items()})
    flat = {p.name: _flat(arrays[p.name], p, float64) for p in kernel.inputs}
    shapes = {p.name: tuple(expr.evaluate(d, symbols) for d in p.dims) for p in kernel.outputs}
    for p in kernel.outputs:
        if min(shapes[p.name], default=0) < 0:
            raise ValueError(f"kernel {kernel.name}: output {p.name} would have shape {shapes[p.name]}")
        flat[p.name] = np.zeros(int(np.prod(shapes[p.name], dtype=np.int64)), numpy_dtype(p.dtype, float64))
    with np.errstate(all="ignore"):
        for nest in kernel.nests:
            _Run(kernel, nest, symbols, flat, float64).run()
    return {name: flat[name].reshape(shape) for name, shape in shapes.items()}


def bind(kernel: Kernel, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Symbol name -> value for inputs of these shapes. Raises ValueError naming an input whose shape does not fit."""
    for p in kernel.inputs:
        if p.name not in shapes:
            raise ValueError(f"kernel {kernel.name}: no input {p.name}")
        if len(shapes[p.name]) != len(p.dims):
            raise ValueError(
                f"kernel {kernel.name}: input {p.name} has shape {tuple(shapes[p.name])}, expected {len(p.dims)} dims"
            )
    values = {s.name: int(shapes[s.param][s.dim]) // s.divisor for s in kernel.symbols}
    for p in kernel.inputs:
        for i, dim in enumerate(p.dims):
            expected, found = expr.evaluate(dim, values), shapes[p.name][i]
            if found != expected:
                bound = ", ".join(f"{s} = {values[s]}" for s in sorted(expr.free_symbols(dim)))
                text = f"{expr.to_str(dim)} = {expected} ({bound})" if bound else str(expected)
                raise ValueError(f"kernel {kernel.name}: dim {i} of input {p.name} is {found}, expected {text}")
    return values


def _by_name(kernel: Kernel, inputs: Mapping[str, Array] | Sequence[Array]) -> dict[str, Array]:
    names = [p.name for p in kernel.inputs]
    if isinstance(inputs, Mapping):
        unknown = sorted(set(inputs) - set(names))
        missing = [n for n in names if n not in inputs]
        if unknown or missing:
            what = f"no input {missing[0]}" if missing else f"{unknown[0]} is not an input"
            raise ValueError(f"kernel {kernel.name}: {what}; its inputs are {', '.join(names) or 'none'}")
        return {n: np.asarray(inputs[n]) for n in names}
    if len(inputs) != len(names):
        raise ValueError(f"kernel {kernel.name}: {len(inputs)} inputs given, expected {len(names)}: {', '.join(names)}")
    return {n: np.asarray(a) for n, a in zip(names, inputs)}


def _check_dtype(kernel: Kernel, p: Param, a: Array, float64: bool) -> None:
    allowed = {p.dtype.numpy, numpy_dtype(p.dtype, float64)}
    if a.dtype not in allowed:
        raise ValueError(f"kernel {kernel.name}: input {p.name} is {a.dtype}, expected {p.dtype.numpy}")


def _flat(a: Array, p: Param, float64: bool) -> Array:
    return np.ascontiguousarray(a).reshape(-1).astype(numpy_dtype(p.dtype, float64), copy=False)


class _Run:
    """One nest. A value is an array with a dim per axis of the nest, of size 1 where it does not vary."""

    def __init__(
        self, kernel: Kernel, nest: Nest, symbols: dict[str, int], flat: dict[str, Array], float64: bool
    ) -> None:
        self.kernel, self.nest, self.symbols, self.flat, self.float64 = kernel, nest, symbols, flat, float64
        self.sizes = {a.name: expr.evaluate(a.size, symbols) for a in nest.axes}
        self.position = {a.name: i for i, a in enumerate(nest.axes)}
        self.env: dict[str, Array] = {}

    def run(self) -> None:
        for name, size in self.sizes.items():
            if size < 0:
                raise ValueError(f"{self._where()}: axis {name} has size {size}")
        for v in self.nest.values:
            self.env.update(zip(defined_names(v), self._value(v)))
        for s in self.nest.stores:
            view = self._view(s)
            if view.size:
                view[...] = np.broadcast_to(self.env[s.value], view.shape)

    def _where(self) -> str:
        return f"kernel {self.kernel.name}, nest {self.nest.name}"

    def _value(self, v: Value) -> tuple[Array, ...]:
        if isinstance(v, Load):
            return (self._gather(v) if v.indices else self._view(v),)
        if isinstance(v, Const):
            return (np.full((1,) * len(self.sizes), v.value, numpy_dtype(v.dtype, self.float64)),)
        if isinstance(v, Iota):
            return (self._iota(v),)
        if isinstance(v, Pointwise):
            return (pointwise(v.op, [self.env[a] for a in v.args]),)
        if isinstance(v, Cast):
            return (cast(self.env[v.arg], self.nest.dtypes[v.arg], v.dtype, v.mode, self.float64),)
        assert isinstance(v, Reduce)
        return reduce(v.combiner, self.env[v.args[0]], tuple(self.position[a] for a in v.axes))

    def _layout(self, node: Load | Store | Iota) -> tuple[int, dict[int, int], tuple[int, ...]]:
        """(offset, axis position -> stride, shape) of an affine index."""
        strides = {self.position[a]: expr.evaluate(s, self.symbols) for a, s in node.strides}
        shape = tuple(n if i in strides else 1 for i, n in enumerate(self.sizes.values()))
        return expr.evaluate(node.offset, self.symbols), strides, shape

    def _view(self, node: Load | Store) -> Array:
        """The elements that a Load or Store touches, as a view of the flat array of its parameter."""
        flat = self.flat[node.param]
        offset, strides, shape = self._layout(node)
        if 0 in shape:
            return np.empty(shape, flat.dtype)
        reach = [s * (shape[i] - 1) for i, s in strides.items()]
        low, high = offset + sum(min(r, 0) for r in reach), offset + sum(max(r, 0) for r in reach)
        if low < 0 or high >= flat.size:
            what = "load" if isinstance(node, Load) else "store"
            raise ValueError(
                f"{self._where()}: {what} {node.param} reaches indices {low} to {high}, it has {flat.size} elements"
            )
        steps = tuple(strides.get(i, 0) * flat.itemsize for i in range(len(shape)))
        return as_strided(flat[offset:], shape, steps, writeable=isinstance(node, Store))

    def _gather(self, v: Load) -> Array:
        """The elements of a Load with indices; ValueError for one that is outside its range."""
        flat = self.flat[v.param]
        at: Array = self._affine(v)
        for i in v.indices:
            size, rows = expr.evaluate(i.size, self.symbols), self.env[i.value].astype(np.int64)
            low = -size if i.wraps else 0
            if rows.size and not low <= rows.min() <= rows.max() < size:
                raise ValueError(f"{self._where()}: index {i.value} of {v.name} is not in {low}..{size - 1}")
            at = at + np.where(rows < 0, rows + size, rows) * expr.evaluate(i.pitch, self.symbols)
        return flat[at]

    def _iota(self, v: Iota) -> Array:
        return self._affine(v).astype(v.dtype.numpy)

    def _affine(self, v: Iota | Load) -> Array:
        """The affine index itself, as i64."""
        offset, strides, shape = self._layout(v)
        total = np.full((1,) * len(shape), offset, np.int64)
        for i, stride in strides.items():
            line = np.arange(shape[i], dtype=np.int64) * stride
            total = total + line.reshape([shape[i] if k == i else 1 for k in range(len(shape))])
        return total
