"""Gives every symbol of a kernel a source among the dims of its inputs, and canonical names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import sympy

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Iota, Kernel, Load, Nest, Store, Strides, Symbol, Value
from torchair_autofuse.messages import Reason


def bind_symbols(kernel: Kernel) -> Kernel | Reason:
    """The kernel with ``symbols`` filled in and renamed s0, s1, ... in order of their sources.

    A symbol is read from an input dim that is the symbol, or an integer multiple of it. A dim that is another
    expression (``s0*s1``, ``s0//2 + 1``) becomes one symbol of its own where everything can be written in it. The
    result does not depend on what the symbols are called. Refuses with AF217 when a symbol has no source.
    """
    bound = _bind(kernel)
    if isinstance(bound, Kernel):
        return bound
    again = _bind(_opaque(kernel))
    return again if isinstance(again, Kernel) else bound


def _bind(kernel: Kernel) -> Kernel | Reason:
    free = _free(kernel)
    if not free:
        return kernel
    sources: dict[str, Symbol] = {}
    for whole in (True, False):
        for dim, param, k in _input_dims(kernel):
            rest, divisor = _split_factor(dim)
            if rest.is_Symbol and (divisor == 1) == whole:
                sources.setdefault(rest.name, Symbol(rest.name, param, k, divisor))
    missing = free - set(sources)
    if missing:
        swaps: list[tuple[sympy.Expr, sympy.Expr]] = []
        # Shorter dims first: a dim that is a product of others is written in them, so that the relation is not lost.
        for dim, param, k in sorted(_input_dims(kernel), key=lambda found: _length(found[0])):
            left = expr.simplify(dim.subs(swaps))
            if expr.free_symbols(left) & missing:
                rest, divisor = _split_factor(sympy.sympify(left))
                name = _fresh(free | set(sources), len(swaps))
                swaps.append(_solved(rest, expr.symbol(name)))
                sources[name] = Symbol(name, param, k, divisor)
        kernel = _map(kernel, lambda e: e if isinstance(e, int) else expr.simplify(e.subs(swaps)))
        # sympy replaces s**2 by n in s itself too, where it becomes sqrt(n)
        powers = (p for e in _expressions(kernel) if not isinstance(e, int) for p in e.atoms(sympy.Pow))
        roots = any(not p.exp.is_Integer for p in powers)
        lost = missing if roots else _free(kernel) & missing
        if lost:
            return Reason("AF217", f"no input has a dim that gives {', '.join(sorted(lost))}")
    return _rename(kernel, sources)


def _opaque(kernel: Kernel) -> Kernel:
    """The kernel with each factor of a size that is no symbol, such as ``s0//2 + 1``, as a symbol of its own.

    Products of such dims have been multiplied out, so that one is not found in the other otherwise.
    """
    known: dict[sympy.Expr, sympy.Symbol] = {}
    used = _free(kernel)

    def change(e: Expr) -> Expr:
        if isinstance(e, int):
            return e
        product: sympy.Expr = sympy.Integer(1)
        for base, power in _factors(e):
            if not base.is_Integer and not base.is_Symbol:
                base = known.setdefault(base, expr.symbol(_fresh(used, len(known), "q")))
            product *= base**power
        return expr.simplify(product)

    return _map(kernel, change)


@lru_cache(maxsize=65536)
def _factors(e: sympy.Expr) -> tuple[tuple[sympy.Expr, sympy.Expr], ...]:
    return tuple(factor.as_base_exp() for factor in sympy.Mul.make_args(sympy.factor(e)))


def _input_dims(kernel: Kernel) -> list[tuple[sympy.Expr, str, int]]:
    """(dim, param, position) of every symbolic input dim, in order."""
    return [(d, p.name, k) for p in kernel.inputs for k, d in enumerate(p.dims) if not isinstance(d, int)]


def _split_factor(dim: sympy.Expr) -> tuple[sympy.Expr, int]:
    """(rest, c) with dim = c * rest for an integer c > 0."""
    factor, rest = dim.as_coeff_Mul()
    return (rest, int(factor)) if factor.is_Integer and factor > 0 else (dim, 1)


def _solved(dim: sympy.Expr, symbol: sympy.Symbol) -> tuple[sympy.Expr, sympy.Expr]:
    """(what to replace, by what) so that ``dim`` becomes ``symbol``; for ``g + 1`` that is g by ``symbol - 1``, since
    products of such dims have been multiplied out."""
    constant, body = dim.as_coeff_Add()
    return (body, symbol - constant) if body.as_coeff_Mul()[0] == 1 and not body.is_Add else (dim, symbol)


def _length(e: sympy.Expr) -> int:
    return sum(1 for _ in sympy.preorder_traversal(e))


def _fresh(used: set[str], number: int, prefix: str = "n") -> str:
    name = f"{prefix}{number}"
    while name in used:
        name += "_"
    return name


def _rename(kernel: Kernel, sources: dict[str, Symbol]) -> Kernel:
    """Numbered by where they come from: the names they had must leave no trace in the op's hash."""
    place = {p.name: i for i, p in enumerate(kernel.inputs)}
    used = _free(kernel)
    kept = sorted((s for s in sources.values() if s.name in used), key=lambda s: (place[s.param], s.dim))
    swap = {expr.symbol(s.name): expr.symbol(f"s{i}") for i, s in enumerate(kept)}
    kernel = _map(kernel, lambda e: e if isinstance(e, int) else expr.simplify(e.xreplace(swap)))
    return replace(kernel, symbols=tuple(replace(s, name=f"s{i}") for i, s in enumerate(kept)))


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    for p in kernel.params:
        yield from p.dims
    for nest in kernel.nests:
        yield from (a.size for a in nest.axes)
        for node in (*nest.values, *nest.stores):
            if isinstance(node, (Load, Store, Iota)):
                yield from (s for _, s in node.strides)
                yield node.offset
            if isinstance(node, Load):
                yield from (e for i in node.indices for e in (i.pitch, i.size))


def _free(kernel: Kernel) -> set[str]:
    return {name for e in _expressions(kernel) for name in expr.free_symbols(e)}


def _map(kernel: Kernel, f: Callable[[Expr], Expr]) -> Kernel:
    def strides(s: Strides) -> Strides:
        return tuple((axis, f(e)) for axis, e in s)

    def value(v: Value) -> Value:
        if isinstance(v, Load):
            v = replace(v, indices=tuple(replace(i, pitch=f(i.pitch), size=f(i.size)) for i in v.indices))
        return replace(v, strides=strides(v.strides), offset=f(v.offset)) if isinstance(v, (Load, Iota)) else v

    def nest(n: Nest) -> Nest:
        return replace(
            n,
            axes=tuple(replace(a, size=f(a.size)) for a in n.axes),
            values=tuple(value(v) for v in n.values),
            stores=tuple(replace(s, strides=strides(s.strides), offset=f(s.offset)) for s in n.stores),
        )

    params = tuple(replace(p, dims=tuple(f(d) for d in p.dims)) for p in kernel.params)
    return replace(kernel, params=params, nests=tuple(nest(n) for n in kernel.nests))
