"""The ``_inference_rule`` attribute: how GE infers the output shapes and dtypes of a node it has no function for.

JSON: ``{"shape": {"inputs": [[dim, ...] | null, ...], "outputs": [[expression, ...], ...]}, "dtype": [C enum, ...]}``.
Only the inputs that are needed to know every symbol are listed; each symbolic dim of those is a symbol ``s<N>`` of its
own. Expressions use + - * and Div, Floor, Mod, Pow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import sympy

from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr

Dims = Sequence[Expr]


def inference_rule(inputs: Sequence[Dims | None], outputs: Sequence[Dims], dtypes: Sequence[DType]) -> str:
    """The rule for a node whose parameters have these dims; None is an absent optional input.

    Raises ValueError when a symbol of an output is not a dim of an input (or a whole multiple of one), or when an
    expression uses what GE's rules have no word for (Min, Max).
    """
    wanted = {s for dims in outputs for d in dims for s in expr.free_symbols(d)}
    listed, sources = _sources(inputs, wanted)
    missing = sorted(wanted - set(sources))
    if missing:
        raise ValueError(f"no input dim gives the size {', '.join(missing)}; add an input that has it as a dim")
    rule = {
        "shape": {"inputs": listed, "outputs": [[_expression(d, sources) for d in dims] for dims in outputs]},
        "dtype": [d.ge_c for d in dtypes],
    }
    return json.dumps(rule)


def _sources(inputs: Sequence[Dims | None], wanted: set[str]) -> tuple[list[list[str] | None], dict[str, str]]:
    """What to list per input, and per symbol the text that computes it."""
    listed: list[list[str] | None] = [None] * len(inputs)
    sources: dict[str, str] = {}
    count = 0
    for i, dims in enumerate(inputs):
        gives = {} if dims is None else {k: _multiple(d) for k, d in enumerate(dims)}
        new = {k: m for k, m in gives.items() if m is not None and m[0] in wanted and m[0] not in sources}
        if dims is None or not new:
            continue
        names: list[str] = []
        for k, d in enumerate(dims):
            if isinstance(d, int):
                names.append(str(d))
                continue
            names.append(f"s{count}")
            count += 1
            if k in new:
                name, factor = new[k]
                sources.setdefault(name, names[k] if factor == 1 else f"Floor(Div({names[k]}, {factor}))")
        listed[i] = names
    return listed, sources


def _multiple(dim: Expr) -> tuple[str, int] | None:
    """(symbol, factor) when ``dim`` is factor * symbol with a positive integer factor."""
    if isinstance(dim, int):
        return None
    factor, rest = dim.as_coeff_Mul()
    if rest.is_Symbol and factor.is_Integer and factor > 0:
        return rest.name, int(factor)
    return None


def _expression(e: Expr, sources: dict[str, str]) -> str:
    if isinstance(e, int):
        return str(e)
    numerator, denominator = sympy.fraction(sympy.together(e))
    if denominator != 1:  # an integer all the same: the quotient is exact
        return f"Floor(Div({_term(numerator, sources)}, {_term(denominator, sources)}))"
    return _term(e, sources)


def _term(e: sympy.Expr, sources: dict[str, str]) -> str:
    if e.is_Integer:
        return str(int(e))
    if e.is_Symbol:
        return sources[e.name]
    if e.is_Add:
        terms = sorted(e.args, key=sympy.default_sort_key)
        return f"({' + '.join(_term(t, sources) for t in terms)})"
    if e.is_Mul:
        return f"({' * '.join(_term(t, sources) for t in e.args)})"
    if e.is_Pow and e.exp.is_Integer and e.exp > 0:
        return f"Pow({_term(e.base, sources)}, {int(e.exp)})"
    if isinstance(e, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(e.args[0]))
        return f"Floor(Div({_term(numerator, sources)}, {_term(denominator, sources)}))"
    if isinstance(e, sympy.Mod):
        return f"Mod({_term(e.args[0], sources)}, {_term(e.args[1], sources)})"
    raise ValueError(f"GE's inference rules cannot express {e} (only + - * // and Mod)")
