"""Gives every symbol of a kernel a source among the dims of its inputs, and canonical names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sympy

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Iota, Kernel, Load, Nest, Store, Strides, Symbol
from torchair_autofuse.messages import Reason


def bind_symbols(kernel: Kernel) -> Kernel | Reason:
    """The kernel with ``symbols`` filled in and renamed s0, s1, ... in order of appearance.

    A symbol is read from an input dim that is the symbol, or an integer multiple of it. A dim that is another
    expression (``s0*s1`` after a reshape) becomes one symbol of its own where everything can be written in it.
    Refuses with AF217 when a symbol has no source.
    """
    free = _free(kernel)
    if not free:
        return kernel
    sources: dict[str, Symbol] = {}
    for divisor_one in (True, False):
        for p in kernel.inputs:
            for k, dim in enumerate(p.dims):
                found = _multiple_of_symbol(dim)
                if found is not None and (found[1] == 1) == divisor_one:
                    sources.setdefault(found[0], Symbol(found[0], p.name, k, found[1]))
    missing = free - set(sources)
    if missing:
        swaps: list[tuple[sympy.Expr, sympy.Symbol]] = []
        # Shorter dims first: a dim that is a product of others is written in them, so that the relation is not lost.
        for dim, param, k in sorted(_dims_with(kernel, missing), key=lambda found: (len(str(found[0])), str(found[0]))):
            rest = expr.simplify(dim.subs(swaps))
            if expr.free_symbols(rest) & missing:
                name = f"n{len(swaps)}"
                swaps.append((rest, expr.symbol(name)))
                sources[name] = Symbol(name, param, k)
        kernel = _map(kernel, lambda e: e if isinstance(e, int) else expr.simplify(e.subs(swaps)))
        missing = _free(kernel) - set(sources)
        if missing:
            return Reason("AF217", f"no input has a dim that gives {', '.join(sorted(missing))}")
    return _rename(kernel, sources)


def _dims_with(kernel: Kernel, symbols: set[str]) -> Iterator[tuple[sympy.Expr, str, int]]:
    """(dim, param, position) of every input dim with one of ``symbols`` in it."""
    for p in kernel.inputs:
        for k, dim in enumerate(p.dims):
            if expr.free_symbols(dim) & symbols:
                yield sympy.sympify(dim), p.name, k


def _multiple_of_symbol(dim: Expr) -> tuple[str, int] | None:
    if isinstance(dim, int):
        return None
    coefficient, rest = dim.as_coeff_Mul()
    if isinstance(rest, sympy.Symbol) and coefficient.is_Integer and coefficient > 0:
        return rest.name, int(coefficient)
    return None


def _rename(kernel: Kernel, sources: dict[str, Symbol]) -> Kernel:
    order: dict[str, str] = {}
    for e in _expressions(kernel):
        for name in sorted(expr.free_symbols(e)):
            order.setdefault(name, f"s{len(order)}")
    swap = {expr.symbol(old): expr.symbol(new) for old, new in order.items()}
    kernel = _map(kernel, lambda e: e if isinstance(e, int) else expr.simplify(e.xreplace(swap)))
    symbols = tuple(replace(sources[old], name=new) for old, new in order.items())
    return replace(kernel, symbols=symbols)


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    for p in kernel.params:
        yield from p.dims
    for nest in kernel.nests:
        yield from (a.size for a in nest.axes)
        for node in (*nest.values, *nest.stores):
            if isinstance(node, (Load, Store, Iota)):
                yield from (s for _, s in node.strides)
                yield node.offset


def _free(kernel: Kernel) -> set[str]:
    return {name for e in _expressions(kernel) for name in expr.free_symbols(e)}


def _map(kernel: Kernel, f: Callable[[Expr], Expr]) -> Kernel:
    def strides(s: Strides) -> Strides:
        return tuple((axis, f(e)) for axis, e in s)

    def nest(n: Nest) -> Nest:
        return replace(
            n,
            axes=tuple(replace(a, size=f(a.size)) for a in n.axes),
            values=tuple(
                replace(v, strides=strides(v.strides), offset=f(v.offset)) if isinstance(v, (Load, Iota)) else v
                for v in n.values
            ),
            stores=tuple(replace(s, strides=strides(s.strides), offset=f(s.offset)) for s in n.stores),
        )

    params = tuple(replace(p, dims=tuple(f(d) for d in p.dims)) for p in kernel.params)
    return replace(kernel, params=params, nests=tuple(nest(n) for n in kernel.nests))
