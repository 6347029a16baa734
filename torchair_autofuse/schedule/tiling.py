"""Host tiling: an ordered list of ``let`` steps over int64, evaluated in Python and printed as C++ from the same tree.

No floating point; every operand is a non-negative int64, divisors are positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Union

import sympy

from torchair_autofuse.loop.expr import Expr

Tree = Union[int, "Var", "Op"]


@dataclass(frozen=True)
class Var:
    """A symbol, a platform value (``core_num``, ``ub_bytes``) or an earlier step."""

    name: str


@dataclass(frozen=True)
class Op:
    """``kind``: add sub mul floordiv ceildiv mod min max roundup rounddown; or select(a, b, c) = a > 0 ? b : c."""

    kind: str
    args: tuple[Tree, ...]


@dataclass(frozen=True)
class Let:
    """``name = value``. ``field``: whether the kernel reads it from its tiling data."""

    name: str
    value: Tree
    field: bool = False


def _op(kind: str, *args: Tree) -> Tree:
    if all(isinstance(a, int) for a in args):
        return _apply(kind, [a for a in args if isinstance(a, int)])
    return Op(kind, args)


def add(*args: Tree) -> Tree:
    total: Tree = 0
    for a in args:
        total = a if total == 0 else (total if a == 0 else _op("add", total, a))
    return total


def sub(a: Tree, b: Tree) -> Tree:
    return a if b == 0 else _op("sub", a, b)


def mul(*args: Tree) -> Tree:
    total: Tree = 1
    for a in args:
        total = a if total == 1 else (total if a == 1 else _op("mul", total, a))
    return total


def floordiv(a: Tree, b: Tree) -> Tree:
    return a if b == 1 else _op("floordiv", a, b)


def ceildiv(a: Tree, b: Tree) -> Tree:
    return a if b == 1 else _op("ceildiv", a, b)


def mod(a: Tree, b: Tree) -> Tree:
    return _op("mod", a, b)


def minimum(a: Tree, b: Tree) -> Tree:
    return _op("min", a, b)


def maximum(a: Tree, b: Tree) -> Tree:
    return _op("max", a, b)


def roundup(a: Tree, b: Tree) -> Tree:
    """``a`` rounded up to a multiple of ``b``."""
    return a if b == 1 else _op("roundup", a, b)


def rounddown(a: Tree, b: Tree) -> Tree:
    return a if b == 1 else _op("rounddown", a, b)


def select(condition: Tree, a: Tree, b: Tree) -> Tree:
    """``a`` where ``condition`` > 0, else ``b``."""
    return _op("select", condition, a, b)


def from_expr(e: Expr) -> Tree:
    """The tree of a symbolic size. Raises TypeError for a form that sizes never take."""
    if isinstance(e, int):
        return e
    if isinstance(e, sympy.Symbol):
        return Var(e.name)
    if isinstance(e, sympy.Integer):
        return int(e)
    if isinstance(e, (sympy.Add, sympy.Mul)):
        join = add if isinstance(e, sympy.Add) else mul
        return join(*(from_expr(a) for a in sorted(e.args, key=str)))
    if isinstance(e, sympy.Pow) and e.exp.is_Integer and int(e.exp) > 0:
        return mul(*[from_expr(e.base)] * int(e.exp))
    if isinstance(e, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(e.args[0]))
        return floordiv(from_expr(numerator), from_expr(denominator))
    if isinstance(e, sympy.Mod):
        return mod(from_expr(e.args[0]), from_expr(e.args[1]))
    raise TypeError(f"not a size expression: {e}")


def _apply(kind: str, a: list[int]) -> int:
    if kind == "select":
        return a[1] if a[0] > 0 else a[2]
    x, y = a
    match kind:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "floordiv":
            return x // y
        case "ceildiv":
            return -(-x // y)
        case "mod":
            return x % y
        case "min":
            return min(x, y)
        case "max":
            return max(x, y)
        case "roundup":
            return -(-x // y) * y
        case "rounddown":
            return x // y * y
    raise ValueError(kind)


def evaluate(steps: Iterable[Let], values: Mapping[str, int]) -> dict[str, int]:
    """All values after running the steps; ``values`` binds symbols and platform values."""
    env = dict(values)

    def run(tree: Tree) -> int:
        if isinstance(tree, int):
            return tree
        if isinstance(tree, Var):
            return env[tree.name]
        return _apply(tree.kind, [run(a) for a in tree.args])

    for step in steps:
        env[step.name] = run(step.value)
    return env


_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "mod": "%"}
_CALL = {"ceildiv": "CeilDiv", "min": "Min", "max": "Max", "roundup": "RoundUp", "rounddown": "RoundDown"}


def to_cpp(tree: Tree) -> str:
    """C++ over int64_t, using the helpers of op_templates/tiling_math.h.j2."""
    if isinstance(tree, int):
        return f"{tree}L" if abs(tree) >= 2**31 else str(tree)
    if isinstance(tree, Var):
        return tree.name
    args = [to_cpp(a) for a in tree.args]
    if tree.kind == "select":
        return f"({args[0]} > 0 ? {args[1]} : {args[2]})"
    if tree.kind in _INFIX:
        return f"({args[0]} {_INFIX[tree.kind]} {args[1]})"
    return f"{_CALL[tree.kind]}({args[0]}, {args[1]})"


def to_text(tree: Tree) -> str:
    """The same, for people (schedule.txt)."""
    text = to_cpp(tree)
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text
