"""The language of patterns, parsed. It borrows Python's syntax for expressions, and Python's own parser reads it.

What each form stands for is told by ``command.page``, the text of docs/patterns.md.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from torchair_autofuse.ge.catalogue import CLASS_OF
from torchair_autofuse.options.grammar import suggestion
from torchair_autofuse.plan.patterns.form import Either, Form, Literal, Named, Number, Op, Tensor, root_types

_BINARY = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "RealDiv", ast.Pow: "Pow",
    ast.BitAnd: "LogicalAnd", ast.BitOr: "LogicalOr",
}  # fmt: skip
_COMPARE = {
    ast.Lt: "Less", ast.LtE: "LessEqual", ast.Gt: "Greater", ast.GtE: "GreaterEqual", ast.Eq: "Equal",
    ast.NotEq: "NotEqual",
}  # fmt: skip
_NUMBERS = {"sqrt": math.sqrt, "log": math.log, "exp": math.exp}
_BUILT_IN = ("maybe", "num", "vector", "single", *_NUMBERS)
_KINDS = ("vector", "single")


class PatternError(ValueError):
    """A pattern is not written as it should be; the text says what was expected. The library adds file and pattern."""


@dataclass(frozen=True)
class Definition:
    """A named form with parameters."""

    parameters: tuple[str, ...]
    body: str


def parse_head(text: str) -> tuple[str, tuple[str, ...]]:
    """``silu(x)`` -> its name and parameters. Raises PatternError."""
    tree = _python(text, "eval").body
    ok = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords
    if not ok or not all(isinstance(a, ast.Name) for a in tree.args):
        raise PatternError(f"{text!r}: expected name(parameter, ...)")
    if not tree.func.id.islower() or tree.func.id in _BUILT_IN:
        raise PatternError(f"{text!r}: the name of a definition is in lower case and none of {', '.join(_BUILT_IN)}")
    return tree.func.id, tuple(a.id for a in tree.args)


def parse_graph(text: str, definitions: Mapping[str, Definition]) -> Form:
    """The form of a pattern's ``graph``. Raises PatternError."""
    form = _Parser(definitions).lines(text, {}, "", ())
    if not root_types(form):
        raise PatternError("the value of the graph is no op")
    return form


def _python(text: str, mode: str) -> Any:
    try:
        return ast.parse(text.strip(), mode=mode)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise PatternError(f"line {error.lineno}: {error.msg}: {line!r}") from None


@dataclass
class _Parser:
    definitions: Mapping[str, Definition]
    fresh: Any = field(default_factory=count)

    def lines(self, text: str, given: Mapping[str, Form], prefix: str, inside: tuple[str, ...]) -> Form:
        """The value of the last line; ``inside``: the definitions being expanded."""
        body = _python(text, "exec").body
        if not body:
            raise PatternError("no line in it")
        known = dict(given)
        value: Form | None = None
        for i, line in enumerate(body):
            last = i == len(body) - 1
            if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
                name = line.targets[0].id
                if name in known or name == "_":
                    raise PatternError(f"line {line.lineno}: {name} has a meaning already")
                value = self.form(line.value, known, prefix, inside)
                known[name] = Named(prefix + name, value)
            elif isinstance(line, ast.Expr) and last:
                value = self.form(line.value, known, prefix, inside)
            else:
                expected = "an expression" if last else "name = expression"
                raise PatternError(f"line {line.lineno}: {ast.unparse(line)!r}: expected {expected}")
        assert value is not None
        return value

    def form(self, tree: ast.expr, known: Mapping[str, Form], prefix: str, inside: tuple[str, ...]) -> Form:
        number = _number(tree)
        if number is not None:
            return Number(number, number)
        if isinstance(tree, ast.Name):
            if tree.id in known:
                return known[tree.id]
            if tree.id == "num":
                return Number(-math.inf, math.inf)
            return Either((Tensor(""), Number(-math.inf, math.inf))) if tree.id == "_" else Tensor(prefix + tree.id)

        def inner(part: ast.expr) -> Form:
            return self.form(part, known, prefix, inside)

        if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.Or):
            return Either(tuple(inner(part) for part in tree.values))
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
            return Op(_BINARY[type(tree.op)], (inner(tree.left), inner(tree.right)))
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARE:
            return Op(_COMPARE[type(tree.ops[0])], (inner(tree.left), inner(tree.comparators[0])))
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.Invert)):
            return Op("Neg" if isinstance(tree.op, ast.USub) else "LogicalNot", (inner(tree.operand),))
        if isinstance(tree, ast.Subscript):
            index = _literal(tree.slice)
            op = inner(tree.value)
            if not isinstance(op, Op) or not isinstance(index, int):
                raise PatternError(f"{ast.unparse(tree)!r}: expected an op and the number of an output")
            return replace(op, output=index)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            return self._call(tree, tree.func.id, known, prefix, inside)
        raise PatternError(f"{ast.unparse(tree)!r} is not of the language of patterns")

    def _call(self, tree: ast.Call, name: str, known: Mapping[str, Form], prefix: str, inside: tuple[str, ...]) -> Form:
        said = ast.unparse(tree)
        if name == "num":
            bounds = [_number(arg) for arg in tree.args]
            if len(bounds) != 2 or bounds[0] is None or bounds[1] is None or bounds[0] > bounds[1]:
                raise PatternError(f"{said!r}: expected num(low, high)")
            return Number(bounds[0], bounds[1])
        if name in _KINDS:
            if len(tree.args) != 1 or not isinstance(tree.args[0], ast.Name):
                raise PatternError(f"{said!r}: expected {name}(name)")
            return Tensor(prefix + tree.args[0].id, name)
        rest = bool(tree.args) and isinstance(tree.args[0], ast.Constant) and tree.args[0].value is ...
        args = [self.form(arg, known, prefix, inside) for arg in tree.args[rest:]]
        if name == "maybe":
            if len(args) != 1 or not isinstance(args[0], Op) or not args[0].args:
                raise PatternError(f"{said!r}: expected maybe(op)")
            return Either((args[0], args[0].args[0]))
        if name in self.definitions:
            return self._expand(name, args, said, inside)
        if name not in CLASS_OF:
            what = "op type" if name[:1].isupper() else "definition"
            hint = suggestion(name, [*_BUILT_IN, *self.definitions]) or suggestion(name, CLASS_OF)
            raise PatternError(f"{said!r}: unknown {what} {name}{hint}")
        needs: list[tuple[str, Literal]] = []
        for keyword in tree.keywords:
            value = _literal(keyword.value)
            if keyword.arg is None or value is None:
                raise PatternError(f"{said!r}: {keyword.arg}: expected a number, a string or a list of integers")
            needs.append((keyword.arg, value))
        return Op(name, tuple(args), tuple(needs), rest)

    def _expand(self, name: str, args: Sequence[Form], said: str, inside: tuple[str, ...]) -> Form:
        definition = self.definitions[name]
        if name in inside:
            raise PatternError(f"{said!r}: {name} is defined by itself")
        if len(args) != len(definition.parameters):
            raise PatternError(f"{said!r}: {name} takes {len(definition.parameters)} arguments, not {len(args)}")
        place = f"{name}#{next(self.fresh)}."
        given = {
            parameter: Named(place + parameter, arg) if isinstance(arg, (Op, Either)) and not _is_any(arg) else arg
            for parameter, arg in zip(definition.parameters, args)
        }
        return self.lines(definition.body, given, place, (*inside, name))


def _is_any(form: Form) -> bool:
    return isinstance(form, Either) and isinstance(form.options[-1], Number)


def _number(tree: ast.expr) -> float | None:
    """The value of an expression of numbers alone, else None."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)) and not isinstance(tree.value, bool):
        return float(tree.value)
    if isinstance(tree, ast.Name) and tree.id == "inf":
        return math.inf
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        value = _number(tree.operand)
        return None if value is None else -value
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in _NUMBERS:
        values = [_number(arg) for arg in tree.args]
        return None if len(values) != 1 or values[0] is None else _NUMBERS[tree.func.id](values[0])
    if isinstance(tree, ast.BinOp):
        left, right = _number(tree.left), _number(tree.right)
        if left is not None and right is not None:
            if isinstance(tree.op, ast.Div) and right:
                return left / right
            if isinstance(tree.op, ast.Mult):
                return left * right
    return None


def _literal(tree: ast.expr) -> Literal | None:
    try:
        value = ast.literal_eval(tree)
    except ValueError:
        return None
    if isinstance(value, list) and all(isinstance(v, int) for v in value):
        return tuple(value)
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
