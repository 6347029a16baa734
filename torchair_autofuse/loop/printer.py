"""Kernels as text (the grammar is in docs/loop-ir.md); loop.parser reads it back to an equal kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import (
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

_WIDTH = 110
_COMMENT_COLUMN = 40


def to_text(kernel: Kernel, origin: bool = True) -> str:
    """The kernel as text, ending in a newline. ``origin=False`` leaves out the names of the GE nodes."""
    return "\n".join([_header(kernel), *(nest_to_text(n, origin) for n in kernel.nests)]) + "\n"


def nest_to_text(nest: Nest, origin: bool = True) -> str:
    """One nest of :func:`to_text`, without a final newline."""
    axes = ", ".join(f"{a.name}: {expr.to_str(a.size)}" for a in nest.axes)
    lines = [f"nest {nest.name} [{axes}]"]
    for node in (*nest.values, *nest.stores):
        text = "  " + (_store(node) if isinstance(node, Store) else _value(node))
        if origin and node.origin:
            text = f"{text:<{_COMMENT_COLUMN}}  # from {', '.join(_origin(o) for o in node.origin)}"
        lines.append(text)
    return "\n".join(lines)


def index_to_text(strides: Strides, offset: Expr, indices: Sequence[Index] = ()) -> str:
    """A flat index, e.g. ``64*a0 + a1 + 3``, ``(s0 + s1)*a0``, ``-a0 + 9``; looked up rows come first."""
    terms = [_term(name, stride) for name, stride in (*((i.value, i.pitch) for i in indices), *strides)]
    if not (isinstance(offset, int) and offset == 0) or not terms:
        terms.append(expr.to_str(offset))
    text = terms[0]
    for t in terms[1:]:
        text += f" - {t[1:]}" if t.startswith("-") else f" + {t}"
    return text


def _term(axis: str, stride: Expr) -> str:
    if isinstance(stride, int):
        return axis if stride == 1 else f"-{axis}" if stride == -1 else f"{stride}*{axis}"
    text = expr.to_str(stride)
    return f"({text})*{axis}" if stride.is_Add else f"{text}*{axis}"


def _header(kernel: Kernel) -> str:
    params = [_param(p) for p in kernel.params]
    where = ", ".join(_symbol(s) for s in kernel.symbols)
    tail = f" where {where}" if where else ""
    line = f"kernel {kernel.name}({', '.join(params)}){tail}"
    if len(line) <= _WIDTH:
        return line
    return f"kernel {kernel.name}(\n  " + ",\n  ".join(params) + f"\n){tail}"


def _param(p: Param) -> str:
    kind = {"input": "in", "output": "out"}.get(p.kind, p.kind)
    space = "" if p.space == "gm" else f"@{p.space}"
    return f"{kind} {p.name}: {p.dtype.name}[{', '.join(expr.to_str(d) for d in p.dims)}]{space}"


def _symbol(s: Symbol) -> str:
    return f"{s.name} = {s.param}.{s.dim}" + (f" / {s.divisor}" if s.divisor != 1 else "")


def _store(s: Store) -> str:
    return f"store {s.param}[{index_to_text(s.strides, s.offset)}] = {s.value}"


def _value(v: Value) -> str:
    if isinstance(v, Load):
        where = ", ".join(_range(i) for i in v.indices)
        index = index_to_text(v.strides, v.offset, v.indices)
        return _define([v.name], [v.dtype], f"load {v.param}[{index}]" + (f" where {where}" if where else ""))
    if isinstance(v, Const):
        return _define([v.name], [v.dtype], f"const {_constant(v.value)}")
    if isinstance(v, Iota):
        return _define([v.name], [v.dtype], f"iota {index_to_text(v.strides, v.offset)}")
    if isinstance(v, Pointwise):
        return _define([v.name], [v.dtype], f"{v.op}({', '.join(v.args)})")
    if isinstance(v, Cast):
        return _define([v.name], [v.dtype], f"cast({v.arg}, {v.mode})")
    assert isinstance(v, Reduce)
    return _define(v.names, v.dtypes, f"reduce {v.combiner}({', '.join(v.args)}) over ({', '.join(v.axes)})")


def _range(i: Index) -> str:
    size = expr.to_str(i.size)
    return f"{expr.to_str(expr.mul(-1, i.size)) if i.wraps else 0} <= {i.value} < {size}"


def _define(names: Iterable[str], dtypes: Iterable[DType], text: str) -> str:
    return f"{', '.join(names)}: {', '.join(d.name for d in dtypes)} = {text}"


def _constant(value: float | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _origin(name: str) -> str:
    """The name as it is where that is unambiguous, else as a JSON string."""
    return name if re.fullmatch(r"[^\s,\"]+", name) else json.dumps(name)
