"""Reads the text form of a kernel (docs/loop-ir.md). It checks the form only; loop.verify checks the meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import sympy

from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import (
    Axis,
    Cast,
    Const,
    Index,
    Iota,
    Kernel,
    Load,
    Nest,
    Param,
    Pointwise,
    Reduce,
    Store,
    Strides,
    Symbol,
    Value,
)

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_KINDS = {"in": "input", "out": "output"}


class ParseError(ValueError):
    """Text that is not a kernel; ``line`` and ``column`` count from 1."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(f"line {line}, column {column}: {problem}")
        self.line, self.column, self.problem = line, column, problem


def parse(text: str) -> Kernel:
    """The kernel that :func:`loop.printer.to_text` printed, origins included. Raises ParseError."""
    return _Parser(text).kernel()


class _Parser:
    """A cursor over the text. Newlines end statements; in the header they are blanks. ``#`` starts a comment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.axes: dict[str, int] = {}  # of the nest being read -> position

    # -- the grammar ------------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        self.blank(lines=True)
        self.word("kernel")
        name = self.name("a kernel name")
        params = self.sequence("(", ")", self.param, lines=True)
        symbols = []
        if self.peek("where"):
            self.word("where")
            symbols.append(self.symbol())
            while self.take(","):
                self.blank(lines=True)
                symbols.append(self.symbol())
        nests = []
        while not self.at_end():
            nests.append(self.nest())
        return Kernel(name, tuple(params), tuple(symbols), tuple(nests))

    def param(self) -> Param:
        kind = self.name('"in" or "out"')
        if kind not in _KINDS:
            raise self.error(f'expected "in" or "out", found {kind!r}', back=len(kind))
        name = self.name("a parameter name")
        self.need(":")
        dtype = self.dtype()
        dims = self.sequence("[", "]", self.size)
        space = self.name("a memory space") if self.take("@") else "gm"
        return Param(name, dtype, tuple(dims), _KINDS[kind], space)

    def symbol(self) -> Symbol:
        name = self.name("a symbol name")
        self.need("=")
        param = self.name("a parameter name")
        self.need(".")
        dim = self.integer()
        return Symbol(name, param, dim, self.integer() if self.take("/") else 1)

    def nest(self) -> Nest:
        self.word("nest")
        name = self.name("a nest name")
        axes = self.sequence("[", "]", self.axis)
        self.axes = {a.name: i for i, a in enumerate(axes)}
        self.end_of_line()
        values: list[Value] = []
        stores: list[Store] = []
        while not self.at_end() and not self.statement_is("nest"):
            if self.statement_is("store"):
                stores.append(self.store())
            elif stores:
                raise self.error("a value after a store: stores come last in a nest")
            else:
                values.append(self.value())
        return Nest(name, tuple(axes), tuple(values), tuple(stores))

    def axis(self) -> Axis:
        name = self.name("an axis name")
        self.need(":")
        return Axis(name, self.size())

    def store(self) -> Store:
        self.word("store")
        param, strides, offset = self.element()
        self.need("=")
        value = self.name("a value name")
        return Store(param, strides, offset, value, origin=self.end_of_line())

    def value(self) -> Value:
        names = self.commas(lambda: self.name("a value name"))
        self.need(":")
        types = self.commas(self.dtype)
        self.need("=")
        self.blank()
        start = self.at
        form = self.name("an operation")
        if form == "reduce":
            combiner = self.name("a combiner")
            args = self.sequence("(", ")", lambda: self.name("a value name"))
            self.word("over")
            axes = self.sequence("(", ")", lambda: self.name("an axis name"))
            origin = self.end_of_line()
            return Reduce(tuple(names), combiner, tuple(args), tuple(axes), tuple(types), origin=origin)
        if len(names) != 1 or len(types) != 1:
            raise self.error("only a reduce defines several values", back=self.at - start)
        name, dtype = names[0], types[0]
        if form == "load":
            param, strides, offset = self.element(self.looked_up())
            pitches = {a: s for a, s in strides if a not in self.axes}
            strides = tuple((a, s) for a, s in strides if a in self.axes)
            indices: list[Index] = []
            if pitches:
                self.word("where")
                indices = self.commas(lambda: self.index(pitches))
            return Load(name, param, strides, offset, dtype, tuple(indices), origin=self.end_of_line())
        if form == "const":
            value = self.constant(dtype)
            return Const(name, value, dtype, origin=self.end_of_line())
        if form == "iota":
            self.blank()
            strides, offset = self.affine(self.until("#\n"))
            return Iota(name, strides, offset, dtype, origin=self.end_of_line())
        if form == "cast":
            self.need("(")
            arg = self.name("a value name")
            self.need(",")
            mode = self.name("a rounding mode")
            self.need(")")
            return Cast(name, arg, dtype, mode, origin=self.end_of_line())
        args = self.sequence("(", ")", lambda: self.name("a value name"))
        return Pointwise(name, form, tuple(args), dtype, origin=self.end_of_line())

    # -- pieces -----------------------------------------------------------------------------------------------------

    def looked_up(self) -> list[str]:
        """Names of the values that the rest of the line gives the range of."""
        rest = self.text[self.at :].split("\n")[0].split("#")[0]
        return re.findall(r"<=[ \t]*([A-Za-z_][A-Za-z_0-9]*)[ \t]*<", rest)

    def index(self, pitches: dict[str, Expr]) -> Index:
        """The range of a value that rows are looked up by; ``pitches``: of all of them."""
        low = self.expression(self.until("<\n"))
        self.need("<=")
        name = self.name("a value name")
        self.need("<")
        size = self.expression(self.until(",#\n"))
        if low != 0 and not expr.equal(low, expr.mul(-1, size)):
            raise self.error(f"the range of {name} starts at {expr.to_str(low)}: expected 0 or -{expr.to_str(size)}")
        if name not in pitches:
            raise self.error(f"{name} is not in the index")
        return Index(name, pitches[name], size, low != 0)

    def element(self, values: Sequence[str] = ()) -> tuple[str, Strides, Expr]:
        param = self.name("a parameter name")
        self.need("[")
        strides, offset = self.affine(self.until("]\n"), values)
        self.need("]")
        return param, strides, offset

    def affine(self, text: str, values: Sequence[str] = ()) -> tuple[Strides, Expr]:
        """(strides in axis order, then of ``values``; offset) of an index expression just read."""
        e = self.expression(text)
        strides = []
        order = {**self.axes, **{v: len(self.axes) + k for k, v in enumerate(values)}}
        if not isinstance(e, int):
            for axis in sorted(expr.free_symbols(e) & set(order), key=order.__getitem__):
                s = expr.symbol(axis)
                stride = expr.simplify(e.coeff(s, 1)) if not isinstance(e, int) else 0
                e = expr.simplify(sympy.sympify(e) - sympy.sympify(stride) * s)
                if axis in expr.free_symbols(e) | expr.free_symbols(stride):
                    raise self.error(f"not affine in axis {axis}: {text.strip()}", back=len(text))
                strides.append((axis, stride))
            if any(expr.free_symbols(stride) & set(order) for _, stride in strides):
                raise self.error(f"not affine in the axes: {text.strip()}", back=len(text))
        return tuple(strides), e

    def size(self) -> Expr:
        self.blank()
        return self.expression(self.until(",]\n"))

    def expression(self, text: str) -> Expr:
        try:
            return expr.parse(text.strip())
        except ValueError as error:
            raise self.error(str(error), back=len(text)) from error

    def constant(self, dtype: DType) -> float | int | bool:
        self.blank()
        text = re.compile(r"[^\s#]*").match(self.text, self.at)
        found = text.group() if text else ""
        try:
            if dtype.kind == "bool":
                value: float | int | bool = {"true": True, "false": False}[found]
            else:
                value = float(found) if dtype.is_float else int(found)
        except (ValueError, KeyError):
            raise self.error(f"expected a constant of type {dtype}, found {found!r}") from None
        self.at += len(found)
        return value

    def dtype(self) -> DType:
        name = self.name("a type")
        try:
            return dtypes.by_name(name)
        except KeyError:
            raise self.error(f"unknown type {name!r}", back=len(name)) from None

    def integer(self) -> int:
        self.blank()
        found = re.compile(r"[0-9]+").match(self.text, self.at)
        if not found:
            raise self.error("expected an integer")
        self.at = found.end()
        return int(found.group())

    # -- the cursor -------------------------------------------------------------------------------------------------

    def error(self, problem: str, back: int = 0) -> ParseError:
        at = self.at - back
        line = self.text.count("\n", 0, at) + 1
        return ParseError(line, at - (self.text.rfind("\n", 0, at) + 1) + 1, problem)

    def blank(self, lines: bool = False) -> None:
        pattern = r"(?:[ \t\r\n]|#[^\n]*)*" if lines else r"[ \t\r]*"
        found = re.compile(pattern).match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def at_end(self) -> bool:
        self.blank(lines=True)
        return self.at >= len(self.text)

    def found(self) -> str:
        rest = self.text[self.at : self.at + 20].split("\n")[0]
        return repr(rest) if rest else "the end of the line"

    def peek(self, token: str) -> bool:
        self.blank()
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> bool:
        taken = self.peek(token)
        self.at += len(token) if taken else 0
        return taken

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.error(f"expected {token!r}, found {self.found()}")

    def name(self, what: str) -> str:
        self.blank()
        found = _NAME.match(self.text, self.at)
        if not found:
            raise self.error(f"expected {what}, found {self.found()}")
        self.at = found.end()
        return found.group()

    def word(self, word: str) -> None:
        start = self.at
        if self.name(f'"{word}"') != word:
            self.at = start
            self.blank()
            raise self.error(f'expected "{word}", found {self.found()}')

    def statement_is(self, word: str) -> bool:
        """Whether the statement here starts with the keyword ``word`` (rather than defining a value of that name)."""
        self.blank(lines=True)
        return re.compile(word + r"[ \t]+[A-Za-z_]").match(self.text, self.at) is not None

    def until(self, stops: str) -> str:
        """The text up to the first of ``stops`` that is outside parentheses (or the end)."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == "\n" or (c in stops and depth == 0):
                break
            depth += (c == "(") - (c == ")")
            self.at += 1
        return self.text[start : self.at]

    def commas(self, item: Callable[[], T]) -> list[T]:
        items = [item()]
        while self.take(","):
            items.append(item())
        return items

    def sequence(self, opening: str, closing: str, item: Callable[[], T], lines: bool = False) -> list[T]:
        self.need(opening)
        self.blank(lines=lines)
        items: list[T] = []
        if self.take(closing):
            return items
        while True:
            items.append(item())
            self.blank(lines=lines)
            if self.take(closing):
                return items
            if not self.take(","):
                raise self.error(f"expected ',' or {closing!r}, found {self.found()}")
            self.blank(lines=lines)

    def end_of_line(self) -> tuple[str, ...]:
        """Ends a statement; the names in a trailing ``# from A, B`` comment."""
        self.blank()
        if self.at < len(self.text) and self.text[self.at] not in "#\n":
            raise self.error(f"expected the end of the line, found {self.found()}")
        comment = self.until("\n")
        found = re.fullmatch(r"#\s*from\s+(.*)", comment.strip())
        return self.origins(found.group(1)) if found else ()

    def origins(self, text: str) -> tuple[str, ...]:
        names = re.findall(r'"(?:[^"\\]|\\.)*"|[^\s,"]+', text)
        try:
            return tuple(json.loads(n) if n.startswith('"') else n for n in names)
        except ValueError:
            raise self.error(f"bad quoted name in {text!r}", back=len(text)) from None
