"""Builds the SSA values of one nest: dtype checks, sharing of equal values, and the few exact simplifications."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchair_autofuse.dtypes import BOOL, F32, I32, DType
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Cast, Const, Index, Iota, Load, Pointwise, Reduce, Strides, Value
from torchair_autofuse.loop.ops import COMBINERS, POINTWISE
from torchair_autofuse.lower.registry import Emitter, Val


class NestBuilder(Emitter):
    """Collects values in definition order; equal nodes are shared (keyed by everything but their origin)."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.origin: tuple[str, ...] = ()
        self.reduced: tuple[str, ...] = ()  # axes that the node being lowered reduces over
        self.reduced_size: Expr = 1
        self._known: dict[tuple[object, ...], Val] = {}
        self._defs: dict[str, Value] = {}
        self._reductions: dict[tuple[object, ...], tuple[Val, ...]] = {}
        self._exact: dict[str, DType] = {}  # f32 values known to be representable in a half type

    def load(self, param: str, strides: Strides, offset: Expr, dtype: DType, indices: tuple[Index, ...] = ()) -> Val:
        key = ("load", param, strides, offset, indices)
        return self._share(
            key, dtype, lambda name: Load(name, param, strides, offset, dtype, indices, origin=self.origin)
        )

    def op(self, name: str, *args: Val) -> Val:
        op = POINTWISE[name]
        if len(args) != op.arity:
            raise ValueError(f"{name} takes {op.arity} arguments, got {len(args)}")
        operands = args[1:] if name == "select" else args
        if len({a.dtype for a in operands}) != 1 or operands[0].dtype.kind not in op.kinds:
            raise ValueError(f"{name} on {', '.join(str(a.dtype) for a in args)}: expected one type of {op.kinds}")
        if operands[0].dtype.is_float and operands[0].dtype != F32:
            raise ValueError(f"{name} on {operands[0].dtype}: float arithmetic is f32")
        dtype = BOOL if op.result == "bool" else operands[0].dtype
        names = tuple(a.name for a in args)
        ordered = tuple(sorted(names)) if op.commutative else names
        made = self._share(
            ("op", name, ordered), dtype, lambda out: Pointwise(out, name, names, dtype, origin=self.origin)
        )
        if op.exact:
            exact = self._common_exact(operands)
            if exact is not None:
                self._exact.setdefault(made.name, exact)
        return made

    def _common_exact(self, operands: tuple[Val, ...]) -> DType | None:
        """The half type that holds every operand as it is; a constant fits where rounding it changes nothing."""
        defs = [self._defs[a.name] for a in operands]
        kinds = {self._exact.get(d.name) for d in defs if not isinstance(d, (Const, Reduce))}
        dtype = kinds.pop() if len(kinds) == 1 else None
        if dtype is None or any(isinstance(d, Reduce) for d in defs):
            return None
        consts = [float(d.value) for d in defs if isinstance(d, Const)]
        with np.errstate(over="ignore"):
            return dtype if all(repr(float(dtype.numpy.type(c))) == repr(c) for c in consts) else None

    def const(self, value: float | int | bool, dtype: DType = F32) -> Val:
        typed: float | int | bool
        if dtype.is_float:
            typed = float(dtype.numpy.type(value))
        else:
            typed = bool(value) if dtype == BOOL else int(value)
        return self._share(
            ("const", repr(typed), dtype), dtype, lambda name: Const(name, typed, dtype, origin=self.origin)
        )

    def cast(self, value: Val, dtype: DType, mode: str = "rint") -> Val:
        if value.dtype == dtype:
            return value
        source = self._defs[value.name]
        if (
            isinstance(source, Cast)
            and source.dtype == F32
            and self._exact.get(value.name) == dtype
            and self._dtype(source.arg) == dtype
        ):
            return Val(source.arg, dtype)  # narrowing what was just widened: the same bits
        made = self._share(
            ("cast", value.name, dtype, mode),
            dtype,
            lambda name: Cast(name, value.name, dtype, mode, origin=self.origin),
        )
        if dtype == F32 and value.dtype.is_float:
            self._exact.setdefault(made.name, value.dtype)
        return made

    def reduce(self, combiner: str, *args: Val) -> tuple[Val, ...]:
        kind = COMBINERS[combiner]
        if len(args) != kind.arity or any(a.dtype.kind not in kind.kinds for a in args):
            raise ValueError(f"{combiner} of {', '.join(str(a.dtype) for a in args)}: expected {kind.kinds}")
        x = args[0]
        if not self.reduced:  # nothing to reduce: a set of one element
            return {
                "welford": lambda: (x, self.const(0.0)),
                "maxsumexp": lambda: (x, self.const(1.0)),
                "argmax": lambda: (x, self.const(0, I32)),
            }.get(combiner, lambda: (x,))()
        key = ("reduce", combiner, tuple(a.name for a in args), self.reduced)
        if key not in self._reductions:
            dtypes = (x.dtype, I32) if combiner == "argmax" else (x.dtype,) * kind.results
            names = tuple(f"v{len(self._defs)}_{k}" for k in range(kind.results))
            value = Reduce(names, combiner, tuple(a.name for a in args), self.reduced, dtypes, origin=self.origin)
            self.values.append(value)
            self._defs.update((n, value) for n in names)
            self._reductions[key] = tuple(Val(n, d) for n, d in zip(names, dtypes))
        return self._reductions[key]

    def count(self) -> Val:
        if isinstance(self.reduced_size, int):
            return self.const(float(self.reduced_size))
        size = self.reduced_size
        whole = self._share(("count", size), I32, lambda name: Iota(name, (), size, I32, origin=self.origin))
        return self.cast(whole, F32)

    def is_exact(self, value: Val, dtype: DType) -> bool:
        """Whether an f32 value is known to be representable in ``dtype``, so that rounding to it changes nothing."""
        return self._exact.get(value.name) == dtype

    def _dtype(self, name: str) -> DType:
        value = self._defs[name]
        assert not hasattr(value, "names")
        return value.dtype

    def _share(self, key: tuple[object, ...], dtype: DType, make: Callable[[str], Value]) -> Val:
        found = self._known.get(key)
        if found is None:
            found = Val(f"v{len(self.values)}", dtype)
            value = make(found.name)
            self.values.append(value)
            self._defs[found.name] = value
            self._known[key] = found
        return found
