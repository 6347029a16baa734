"""Small rewrites of nests that keep what a kernel computes: dead values, axes of size 1, adjacent axes made one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import (
    Axis,
    Cast,
    Iota,
    Kernel,
    Load,
    Nest,
    Pointwise,
    Reduce,
    Store,
    Strides,
    Value,
    arguments,
    defined_names,
)

# Combiners whose reduction over one element is that element.
_TRANSPARENT = frozenset({"sum", "prod", "max", "min", "any", "all"})


def canonical(kernel: Kernel) -> Kernel:
    """Every nest without dead values and unit axes, its axes merged as far as they go and named a0, a1, ..."""
    nests = (merge_axes(drop_unit_axes(drop_dead_values(n))) for n in kernel.nests)
    return replace(kernel, nests=tuple(nests))


def drop_dead_values(nest: Nest) -> Nest:
    """The nest without values that reach no store. A Reduce stays whole when one of its components is used."""
    live = {s.value for s in nest.stores}
    kept: list[Value] = []
    for v in reversed(nest.values):
        if live & set(defined_names(v)):
            kept.append(v)
            live.update(arguments(v))
    return nest if len(kept) == len(nest.values) else replace(nest, values=tuple(reversed(kept)))


def rename_values(value: Value, names: Mapping[str, str]) -> Value:
    """The node reading ``names[x]`` where it read ``x``."""
    if isinstance(value, (Pointwise, Reduce)):
        return replace(value, args=tuple(names.get(a, a) for a in value.args))
    if isinstance(value, Load):
        return replace(value, indices=tuple(replace(i, value=names.get(i.value, i.value)) for i in value.indices))
    return replace(value, arg=names.get(value.arg, value.arg)) if isinstance(value, Cast) else value


def drop_unit_axes(nest: Nest) -> Nest:
    """The nest without axes of size known to be 1.

    A reduction over nothing else becomes its argument where that is the same (sum, prod, max, min, any, all); for the
    combiners with several components (argmax, welford, maxsumexp) the outermost of its axes is kept.
    """
    unit = {a.name for a in nest.axes if a.size == 1}
    for v in nest.values:
        if isinstance(v, Reduce) and v.combiner not in _TRANSPARENT and set(v.axes) <= unit:
            unit.discard(next(a.name for a in nest.axes if a.name in v.axes))
    if not unit:
        return nest
    alias: dict[str, str] = {}
    values: list[Value] = []
    for v in nest.values:
        v = rename_values(v, alias)
        if isinstance(v, Reduce):
            axes = tuple(a for a in v.axes if a not in unit)
            if not axes:
                alias[v.names[0]] = v.args[0]
                continue
            v = replace(v, axes=axes)
        values.append(v)
    dropped = replace(
        nest,
        axes=tuple(a for a in nest.axes if a.name not in unit),
        values=tuple(values),
        stores=tuple(replace(s, value=alias.get(s.value, s.value)) for s in nest.stores),
    )
    return map_strides(dropped, lambda strides: tuple((a, e) for a, e in strides if a not in unit))


def merge_axes(nest: Nest) -> Nest:
    """Adjacent axes (a, b) made one of size ``size[a]*size[b]``, as often as possible; axes are renamed a0, a1, ...

    They merge when every Load, Store and Iota moves as one along both (``stride[a] == stride[b]*size[b]``, an absent
    stride being 0) and every Reduce reduces both or neither. Every domain then holds both or neither of them, so
    values keep their meaning with the pair replaced by the new axis.
    """
    i = 0
    while i + 1 < len(nest.axes):
        if _mergeable(nest, nest.axes[i], nest.axes[i + 1]):
            nest = _merge(nest, nest.axes[i], nest.axes[i + 1])
            i = max(i - 1, 0)
        else:
            i += 1
    return name_axes(nest)


def _mergeable(nest: Nest, a: Axis, b: Axis) -> bool:
    for node in (*nest.values, *nest.stores):
        if isinstance(node, Reduce) and (a.name in node.axes) != (b.name in node.axes):
            return False
        if isinstance(node, (Load, Store, Iota)):
            outer, inner = dict(node.strides).get(a.name), dict(node.strides).get(b.name)
            if (outer is None) != (inner is None):
                return False
            if outer is not None and inner is not None and not expr.equal(outer, expr.mul(inner, b.size)):
                return False
    return True


def _merge(nest: Nest, a: Axis, b: Axis) -> Nest:
    """``b`` grows to cover both."""
    i = nest.axes.index(a)
    merged = Axis(b.name, expr.mul(a.size, b.size))
    values = tuple(
        replace(v, axes=tuple(n for n in v.axes if n != a.name)) if isinstance(v, Reduce) else v for v in nest.values
    )
    nest = replace(nest, axes=(*nest.axes[:i], merged, *nest.axes[i + 2 :]), values=values)
    return map_strides(nest, lambda strides: tuple((n, e) for n, e in strides if n != a.name))


def name_axes(nest: Nest) -> Nest:
    """The nest with its axes called a0, a1, ... outermost first (a0_ where a symbol has that name)."""
    symbols = {name for e in _expressions(nest) for name in expr.free_symbols(e)}
    names: dict[str, str] = {}
    for i, a in enumerate(nest.axes):
        name = f"a{i}"
        while name in symbols:
            name += "_"
        names[a.name] = name
    if all(old == new for old, new in names.items()):
        return nest
    values = tuple(
        replace(v, axes=tuple(names[a] for a in v.axes)) if isinstance(v, Reduce) else v for v in nest.values
    )
    axes = tuple(replace(a, name=names[a.name]) for a in nest.axes)
    renamed = replace(nest, axes=axes, values=values)
    return map_strides(renamed, lambda strides: tuple((names[a], e) for a, e in strides))


def map_strides(nest: Nest, change: Callable[[Strides], Strides]) -> Nest:
    """The nest with the strides of every Load, Iota and Store replaced."""
    return replace(
        nest,
        values=tuple(replace(v, strides=change(v.strides)) if isinstance(v, (Load, Iota)) else v for v in nest.values),
        stores=tuple(replace(s, strides=change(s.strides)) for s in nest.stores),
    )


def _expressions(nest: Nest) -> list[Expr]:
    found = [a.size for a in nest.axes]
    for node in (*nest.values, *nest.stores):
        if isinstance(node, (Load, Store, Iota)):
            found += [node.offset, *(e for _, e in node.strides)]
        if isinstance(node, Load):
            found += [e for i in node.indices for e in (i.pitch, i.size)]
    return found
