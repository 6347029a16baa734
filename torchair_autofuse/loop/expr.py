"""Symbolic sizes. A plain integer stays a plain ``int``; sympy is used only for what is symbolic, and cached."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Union

import sympy

Expr = Union[int, sympy.Expr]
"""A size: an int, or a sympy expression over symbols made by :func:`symbol` with + - * // and Mod, Min, Max."""


@cache
def symbol(name: str) -> sympy.Symbol:
    """The non-negative integer symbol called ``name`` (one object per name)."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def simplify(e: Any) -> Expr:
    """``e`` in canonical form: expanded, and an int where it is a constant. Raises TypeError for a non-integer."""
    if isinstance(e, bool):
        raise TypeError(f"not a size: {e!r}")
    if isinstance(e, int):
        return e
    return _simplify(sympy.sympify(e))


@lru_cache(maxsize=65536)
def _simplify(e: sympy.Expr) -> Expr:
    e = sympy.expand(e)
    if e.is_Integer:
        return int(e)
    if e.is_number:
        raise TypeError(f"not an integer size: {e}")
    return e


def add(*es: Expr) -> Expr:
    total = sum(e for e in es if isinstance(e, int))
    rest = [e for e in es if not isinstance(e, int)]
    return total if not rest else _simplify(sympy.Add(total, *rest))


def mul(*es: Expr) -> Expr:
    total = 1
    rest = []
    for e in es:
        if isinstance(e, int):
            total *= e
        else:
            rest.append(e)
    return total if not rest or total == 0 else _simplify(sympy.Mul(total, *rest))


def product(es: Iterable[Expr]) -> Expr:
    return mul(*es)


def floordiv(a: Expr, b: Expr) -> Expr:
    """floor(a / b), b > 0. Exact quotients are recognised."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    q = quotient(a, b)
    return q if q is not None else _simplify(sympy.floor(sympy.sympify(a) / b))


def mod(a: Expr, b: Expr) -> Expr:
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return simplify(sympy.Mod(a, b))


def ceildiv(a: Expr, b: Expr) -> Expr:
    """ceil(a / b), b > 0."""
    return floordiv(add(a, b, -1), b)


@lru_cache(maxsize=65536)
def quotient(a: Expr, b: Expr) -> Expr | None:
    """a / b when it is known to be an integer polynomial, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 and a % b == 0 else None
    if b == 1:
        return a
    if b == 0 or a == 0:
        return None
    q = sympy.cancel(sympy.sympify(a) / sympy.sympify(b))
    numer, denom = sympy.fraction(q)
    if denom != 1:
        return None
    if any(not c.is_Integer for c in sympy.expand(numer).as_coefficients_dict().values()):
        return None
    return _simplify(q)


def equal(a: Expr, b: Expr) -> bool:
    """True only if the two are known to be equal for every value of the symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or _is_zero(simplify(sympy.sympify(a) - b))


@lru_cache(maxsize=65536)
def _is_zero(e: Expr) -> bool:
    if isinstance(e, int) or not e.has(sympy.Min, sympy.Max):
        return e == 0
    return sympy.expand(e.replace(lambda x: isinstance(x, (sympy.Min, sympy.Max)), _excess)) == 0 or tidy(e) == 0


def _excess(e: sympy.Expr) -> sympy.Expr:
    """A Min or Max of two as one of them and a Min(0, d) with one of the two signs of d, so that equal ones cancel:
    Max(a, b) = a + b - Min(a, b), and Min(a, b) = a + Min(0, b - a) = b + Min(0, a - b)."""
    if len(e.args) != 2:
        return e
    a, b = e.args
    first, apart = min(((a, sympy.expand(b - a)), (b, sympy.expand(a - b))), key=lambda x: sympy.default_sort_key(x[1]))
    least = first + sympy.Min(0, apart)
    return least if isinstance(e, sympy.Min) else a + b - least


@lru_cache(maxsize=65536)
def tidy(e: Expr) -> Expr:
    """``e`` without its Min and Max where a case split over small values of one symbol shows that they are not needed.

    For a symbol s and the largest constant n in e: if e with s >= n simplifies to a form free of Min and Max that is
    also right for s = 0 .. n-1, it is right for all s.
    """
    if isinstance(e, int) or not e.has(sympy.Min, sympy.Max):
        return e
    bound = max((abs(int(c)) for c in e.atoms(sympy.Integer)), default=1)
    if bound > _CASES:
        return e
    for s in sorted(e.free_symbols, key=str):
        plain = sympy.expand(e.subs(s, s + bound).doit()).subs(s, s - bound)
        plain = sympy.expand(plain)
        if not plain.has(sympy.Min, sympy.Max) and all(
            sympy.expand(plain.subs(s, k) - e.subs(s, k)) == 0 for k in range(bound)
        ):
            return simplify(plain)
    return e


_CASES = 16  # largest constant for which cases are split


def free_symbols(e: Expr) -> frozenset[str]:
    return frozenset() if isinstance(e, int) else frozenset(s.name for s in e.free_symbols)


def evaluate(e: Expr, values: Mapping[str, int]) -> int:
    """The value of ``e`` with every symbol bound.

    Raises KeyError naming a symbol that is not, ValueError where the value is not an integer.
    """
    if isinstance(e, int):
        return e
    value = _value(e, values)
    if value != int(value):
        raise ValueError(f"{e} is not an integer for {dict(values)}")
    return int(value)


def sample(e: Expr, *, alike: bool = False) -> int:
    """The value at some large sizes, to guess which of two is greater; a guess is then to be proved.

    ``alike``: all sizes are the same, for choices that no result depends on: most sizes are large.
    """
    return evaluate(e, {s: 1009 + (0 if alike else 2 * i) for i, s in enumerate(sorted(free_symbols(e)))})


def _value(e: Any, values: Mapping[str, int]) -> Any:
    """An int or Fraction; a walk over the tree is much faster than sympy's subs."""
    if e.is_Symbol:
        if e.name not in values:
            raise KeyError(f"no value for symbol {e.name}")
        return values[e.name]
    if e.is_Integer:
        return int(e)
    if e.is_Rational:
        return Fraction(int(e.p), int(e.q))
    args = [_value(a, values) for a in e.args]
    if e.is_Add:
        return sum(args)
    if e.is_Mul:
        return math.prod(args)
    if e.is_Pow:
        return args[0] ** args[1]
    function = _PYTHON.get(type(e))
    if function is None:
        raise ValueError(f"not a size expression: {e}")
    return function(*args)


_PYTHON: dict[Any, Any] = {
    sympy.floor: math.floor,
    sympy.ceiling: math.ceil,
    sympy.Mod: lambda a, b: a % b,
    sympy.Min: min,
    sympy.Max: max,
}


def to_str(e: Expr) -> str:
    """Text that :func:`parse` reads back, e.g. ``64*s0 + 3``, ``floor(s0/2)``, ``Mod(s0, 8)``."""
    return str(e) if isinstance(e, int) else _text(e)


@lru_cache(maxsize=65536)
def _text(e: sympy.Expr) -> str:
    return str(e)


RESERVED: frozenset[str] = frozenset({"floor", "Mod", "Min", "Max"})
"""Function names of the text form, which no symbol or axis may have."""

_FUNCTIONS: dict[str, Any] = {"floor": sympy.floor, "Mod": sympy.Mod, "Min": sympy.Min, "Max": sympy.Max}


@lru_cache(maxsize=65536)
def parse(text: str) -> Expr:
    """The expression that :func:`to_str` printed. Raises ValueError for anything else (nothing is executed)."""
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    try:
        if len(text) > 4096:
            raise ValueError("longer than 4096 characters")
        if re.search(r"\b[0-9]+[^\W0-9]", text):  # ast would take "1if x" for "1 if x", with a warning
            raise ValueError("a number runs into a name")
        tree = ast.parse(text.strip(), mode="eval").body
        _extent(tree)
        return simplify(_build(tree))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise ValueError(f"not a size expression: {text[:80]!r} ({error})") from error


# Bounds of what is read, so that short text cannot make sympy work for long; those of real sizes are far below.
_MAX_INT, _MAX_TERMS, _MAX_DEGREE, _MAX_CALLS = (1 << 63) - 1, 256, 32, 24


def _extent(node: ast.AST) -> tuple[int, int, int]:
    """At most how many terms an expression has when expanded, their degree, and its function calls.

    Raises ValueError above the bounds. The names of functions count as symbols, which does no harm.
    """
    terms, degree, calls = 1, 0, 0
    inner = [_extent(child) for child in ast.iter_child_nodes(node)]
    if isinstance(node, ast.Name):
        degree = 1
    elif isinstance(node, ast.Call):
        degree, calls = max(i[1] for i in inner), 1
    elif isinstance(node, ast.BinOp):
        left, _, right = inner
        if isinstance(node.op, ast.Mult):
            terms, degree = left[0] * right[0], left[1] + right[1]
        elif isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
            degree = left[1] * node.right.value if isinstance(node.right.value, int) else 0
        else:
            terms, degree = left[0] + right[0], max(left[1], right[1])
    elif inner:
        terms, degree = inner[-1][0], inner[-1][1]
    calls += sum(i[2] for i in inner)
    if terms > _MAX_TERMS or degree > _MAX_DEGREE or calls > _MAX_CALLS:
        raise ValueError(f"more than {_MAX_TERMS} terms, degree {_MAX_DEGREE} or {_MAX_CALLS} calls")
    return terms, degree, calls


def _build(node: ast.expr) -> Any:
    """A sympy expression from the syntax tree of its text, which :func:`_extent` has found small enough."""
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value <= _MAX_INT:
        return sympy.Integer(node.value)
    if isinstance(node, ast.Name) and node.id not in RESERVED:
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_build(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _build(node.left), _build(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div) and right.is_Integer and right > 0:
            return left / right
        if (
            isinstance(node.op, ast.Pow)
            and right.is_Integer
            and 0 < right <= 16
            and (left.is_Symbol or left.is_Function)
        ):
            return left**right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        arity = {"floor": (1, 1), "Mod": (2, 2)}.get(node.func.id, (1, 16))
        if function is not None and arity[0] <= len(node.args) <= arity[1]:
            return function(*[_build(a) for a in node.args])
    raise ValueError(f"cannot read {ast.unparse(node)[:40]!r}")
