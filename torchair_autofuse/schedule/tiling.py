"""Host tiling: an ordered list of ``let`` steps over int64, evaluated in Python and printed as C++ from the same tree.

No floating point; every operand is an int64, divisors are positive, and so are dividends but for CeilDiv and FloorDiv.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Union

import sympy

from torchair_autofuse.loop.expr import Expr

Tree = Union[int, "Var", "Op"]

CPP_KEYWORDS = frozenset(
    [
        "alignas", "alignof", "and", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
        "class", "compl", "const", "constexpr", "continue", "decltype", "default", "delete", "do", "double", "else",
        "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
        "long", "mutable", "namespace", "new", "noexcept", "not", "nullptr", "operator", "or", "private", "protected",
        "public", "register", "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this",
        "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
        "volatile", "while", "xor",
    ]
)  # fmt: skip
"""Names that no step, symbol or param can have, as it becomes a variable in C++."""


@dataclass(frozen=True)
class Var:
    """A symbol, a platform value (``core_num``, ``ub_bytes``) or an earlier step."""

    name: str


@dataclass(frozen=True)
class Op:
    """``kind``: add sub mul floordiv ceildiv mod min max roundup rounddown; or select(a, b, c) = a > 0 ? b : c.

    ``flooring`` is floordiv of what may be negative, which takes more in C++.
    """

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
        if not all(a.as_coeff_Mul()[0].is_Integer for a in sympy.Add.make_args(e)):
            numerator, denominator = sympy.fraction(sympy.together(e))  # a size, so the quotient is exact
            return floordiv(from_expr(numerator), from_expr(denominator))
        join = add if isinstance(e, sympy.Add) else mul
        return join(*(from_expr(a) for a in sorted(e.args, key=str)))
    if isinstance(e, sympy.Pow) and e.exp.is_Integer and int(e.exp) > 0:
        return mul(*[from_expr(e.base)] * int(e.exp))
    if isinstance(e, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(e.args[0]))
        divide = _flooring if _may_be_negative(numerator) else floordiv
        return divide(from_expr(numerator), from_expr(denominator))
    if isinstance(e, (sympy.Min, sympy.Max)):
        least = minimum if isinstance(e, sympy.Min) else maximum
        args = [from_expr(a) for a in sorted(e.args, key=str)]
        return reduce(least, args)
    if isinstance(e, sympy.Mod):
        dividend, divisor = from_expr(e.args[0]), from_expr(e.args[1])
        if not _may_be_negative(e.args[0]):
            return mod(dividend, divisor)
        return sub(dividend, mul(_flooring(dividend, divisor), divisor))
    raise TypeError(f"not a size expression: {e}")


def _flooring(a: Tree, b: Tree) -> Tree:
    return a if b == 1 else _op("flooring", a, b)


def _may_be_negative(e: sympy.Expr) -> bool:
    return any(c.is_negative for c in e.as_coefficients_dict().values())


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
        case "floordiv" | "flooring":
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


class TilingError(ArithmeticError):
    """A step that int64 arithmetic in C++ and Python's would not agree on: its name ``step``, and ``problem``."""

    def __init__(self, step: str, problem: str = "") -> None:
        super().__init__(f"{step}: {problem}" if problem else step)
        self.step, self.problem = step, problem


_DIVIDES = frozenset(("floordiv", "flooring", "ceildiv", "mod", "roundup", "rounddown"))
_TRUNCATES = frozenset(("floordiv", "mod", "rounddown"))
_INT64 = range(-(1 << 63), 1 << 63)


def evaluate(steps: Iterable[Let], values: Mapping[str, int], *, checked: bool = False) -> dict[str, int]:
    """All values after running the steps; ``values`` binds symbols and platform values.

    ``checked``: raises TilingError where a value leaves int64, a divisor is not positive, or a quotient of a negative
    dividend is not exact: there the C++ form gives something else.
    """
    env = dict(values)

    def run(tree: Tree) -> int:
        if isinstance(tree, int):
            return tree
        if isinstance(tree, Var):
            return env[tree.name]
        args = [run(a) for a in tree.args]
        if not checked:
            return _apply(tree.kind, args)
        if tree.kind in _DIVIDES and (args[1] <= 0 or (args[0] < 0 and tree.kind in _TRUNCATES and args[0] % args[1])):
            raise TilingError(step.name, f"{tree.kind} of {args[0]} and {args[1]}")
        value = _apply(tree.kind, args)
        if value not in _INT64:
            raise TilingError(step.name, f"{tree.kind} of {' and '.join(map(str, args))} is no int64")
        return value

    for step in steps:
        env[step.name] = run(step.value)
    return env


_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "mod": "%"}
_CALL = {"ceildiv": "CeilDiv", "min": "Min", "max": "Max", "roundup": "RoundUp", "rounddown": "RoundDown",
         "flooring": "FloorDiv"}  # fmt: skip


def to_cpp(tree: Tree) -> str:
    """C++ over int64_t, using the helpers of op_templates/tiling_math.h.j2; :func:`parse` reads it back."""
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


_KIND_OF_CALL = {call: kind for kind, call in _CALL.items()}
_KIND_OF_INFIX = {sign: kind for kind, sign in _INFIX.items()}
_TOKEN = re.compile(r"\s*(?:([0-9]{1,19})L?(?![A-Za-z0-9_])|([A-Za-z_][A-Za-z0-9_]*)|([-+*/%(),?:>]))")
_MAX_TEXT, _MAX_DEPTH = 16384, 200


def parse(text: str) -> Tree:
    """The tree that :func:`to_cpp` (or :func:`to_text`) printed. Raises ValueError for any other text; runs nothing."""
    return _Parser(text).tree()


class _Parser:
    """Every operation is in parentheses but for the outermost, so that there is no precedence."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > _MAX_TEXT:
            raise self.error(f"longer than {_MAX_TEXT} characters")
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.error(f"cannot read {text[at : at + 20].strip()!r}")
            self.tokens.append(next(g for g in found.groups() if g is not None))
            at = found.end()
        self.at = 0

    def error(self, problem: str) -> ValueError:
        return ValueError(f"not a tiling expression: {self.text[:80]!r} ({problem})")

    def tree(self) -> Tree:
        found = self.operation(0)
        if self.at < len(self.tokens):
            raise self.error(f"{self.tokens[self.at]!r} after the end")
        return found

    def take(self, token: str) -> bool:
        taken = self.at < len(self.tokens) and self.tokens[self.at] == token
        self.at += taken
        return taken

    def need(self, token: str) -> None:
        if not self.take(token):
            found = repr(self.tokens[self.at]) if self.at < len(self.tokens) else "the end"
            raise self.error(f"expected {token!r}, found {found}")

    def operation(self, depth: int) -> Tree:
        """What may stand between parentheses: one operation, or a single operand."""
        if depth > _MAX_DEPTH:
            raise self.error("nested too deeply")
        left = self.operand(depth)
        if self.take(">"):
            self.need("0")
            self.need("?")
            yes = self.operand(depth)
            self.need(":")
            return Op("select", (left, yes, self.operand(depth)))
        for sign, kind in _KIND_OF_INFIX.items():
            if self.take(sign):
                return Op(kind, (left, self.operand(depth)))
        return left

    def operand(self, depth: int) -> Tree:
        if self.take("("):
            inner = self.operation(depth + 1)
            self.need(")")
            return inner
        negative = self.take("-")
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        self.at += 1
        if token[:1].isdigit():
            if int(token) not in _INT64:
                raise self.error(f"{token} is no int64")
            return -int(token) if negative else int(token)
        if negative or not (token[:1].isalpha() or token[:1] == "_"):
            raise self.error(f"expected a number or a name, found {token!r}" if token else "it ends too early")
        if not self.take("("):
            return Var(token)
        if token not in _KIND_OF_CALL:
            raise self.error(f"unknown function {token}; known: {', '.join(_KIND_OF_CALL)}")
        first = self.argument(depth)
        self.need(",")
        second = self.argument(depth)
        self.need(")")
        return Op(_KIND_OF_CALL[token], (first, second))

    def argument(self, depth: int) -> Tree:
        if depth >= _MAX_DEPTH:
            raise self.error("nested too deeply")
        return self.operand(depth + 1)
