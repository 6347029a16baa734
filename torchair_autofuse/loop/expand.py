"""Combiners with several components written out as plain reductions, for rows that are in UB as a whole.

A value that the expansion and the rest of the nest both need (x - max, exp(x - max), x - mean) is computed once.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import replace

import sympy

from torchair_autofuse.dtypes import F32, I32
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Cast, Const, Iota, Nest, Pointwise, Reduce, Value, defined_names
from torchair_autofuse.loop.rewrite import drop_dead_values, rename_values

EXPANDED = ("welford", "maxsumexp")
"""Combiners with several components that plain reductions make too."""


def expand_combiners(nest: Nest, combiners: Container[str] = EXPANDED) -> Nest:
    """The nest with every welford as mean, then squared deviations, and every maxsumexp as max, then sum of exp.

    welford(x): mean = sum(x) / n, d = x - mean, m2 = sum(d^2) - sum(d)^2 / n: two passes over the data. The second sum
    takes out what the rounding of the mean adds, which is most of m2 where the spread is small (Chan, Golub, LeVeque:
    Algorithms for computing the sample variance, 1983, eq. 1.7).
    maxsumexp(x): m = max(x), s = sum(exp(x - m)). Other combiners stay.
    """
    values: list[Value] = []
    used = {n for v in nest.values for n in defined_names(v)}

    def fresh(stem: str) -> str:
        name, k = stem, 0
        while name in used:
            k += 1
            name = f"{stem}_{k}"
        used.add(name)
        return name

    for v in nest.values:
        if isinstance(v, Reduce) and v.combiner == "welford" and v.combiner in combiners:
            values += _welford(nest, v, fresh(f"{v.names[0]}_sum"), fresh(f"{v.names[0]}_dev"), fresh)
        elif isinstance(v, Reduce) and v.combiner == "maxsumexp" and v.combiner in combiners:
            m, s = v.names
            shifted, e = fresh(f"{m}_shift"), fresh(f"{m}_exp")
            x = v.args[0]
            values += [
                Reduce((m,), "max", (x,), v.axes, (F32,), v.origin),
                Pointwise(shifted, "sub", (x, m), F32, v.origin),
                Pointwise(e, "exp", (shifted,), F32, v.origin),
                Reduce((s,), "sum", (e,), v.axes, (F32,), v.origin),
            ]
        else:
            values.append(v)
    return drop_dead_values(share_values(replace(nest, values=tuple(values))))


def _welford(nest: Nest, v: Reduce, total: str, dev: str, fresh: object) -> list[Value]:
    assert callable(fresh)
    mean, m2 = v.names
    x = v.args[0]
    size = expr.product(nest.axis[a].size for a in v.axes)
    count = fresh(f"{mean}_n")
    values: list[Value] = []
    if isinstance(size, int):
        values.append(Const(count, float(F32.numpy.type(max(size, 1))), F32, v.origin))
    else:
        whole = fresh(f"{mean}_size")
        size = expr.simplify(sympy.Max(size, 1))  # the mean of nothing is 0
        values += [Iota(whole, (), size, I32, v.origin), Cast(count, whole, F32, "rint", v.origin)]
    square, rest, off, extra, raw, above, zero = (
        fresh(f"{mean}_{stem}") for stem in ("sq", "rest", "off", "extra", "raw", "above", "zero")
    )
    return [
        *values,
        Reduce((total,), "sum", (x,), v.axes, (F32,), v.origin),
        Pointwise(mean, "div", (total, count), F32, v.origin),
        Pointwise(dev, "sub", (x, mean), F32, v.origin),
        # the rounded mean is off by rest / n, which adds rest^2 / n to the squares
        Reduce((rest,), "sum", (dev,), v.axes, (F32,), v.origin),
        Pointwise(square, "mul", (dev, dev), F32, v.origin),
        Reduce((raw,), "sum", (square,), v.axes, (F32,), v.origin),
        Pointwise(off, "div", (rest, count), F32, v.origin),
        Pointwise(extra, "mul", (rest, off), F32, v.origin),
        Pointwise(above, "sub", (raw, extra), F32, v.origin),
        Const(zero, 0.0, F32, v.origin),
        Pointwise(m2, "max", (above, zero), F32, v.origin),
    ]


def share_values(nest: Nest) -> Nest:
    """The nest with equal values computed once (the first one stays)."""
    names: dict[str, str] = {}
    first: dict[Hashable, Value] = {}
    kept: list[Value] = []
    for value in nest.values:
        v = rename_values(value, names)
        blank = replace(v, names=()) if isinstance(v, Reduce) else replace(v, name="")
        known = first.get(blank)
        if known is None:
            first[blank] = v
            kept.append(v)
        else:
            names.update(zip(defined_names(v), defined_names(known)))
    stores = tuple(replace(s, value=names.get(s.value, s.value)) for s in nest.stores)
    return replace(nest, values=tuple(kept), stores=stores)
