"""Memory rules of the loop IR: indices inside their parameter, stores that never write one element twice.

Everything is proved over symbolic sizes by loop.bounds; an access whose own axes may be empty is checked as if they
were not (an empty loop touches nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import floordiv, mod

import sympy

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.bounds import less_equal, nonnegative
from torchair_autofuse.loop.expr import Expr, add, mul, quotient
from torchair_autofuse.loop.ir import Kernel, Load, Nest, Param, Store
from torchair_autofuse.loop.printer import index_to_text

Facts = tuple[Expr, ...]


@dataclass(frozen=True)
class Box:
    """The flat indices ``offset + sum(stride * i)`` with ``0 <= i < size`` for each (stride, size) of ``steps``."""

    offset: Expr
    steps: tuple[tuple[Expr, Expr], ...]


def kernel_facts(kernel: Kernel) -> Facts:
    """What is >= 0 in every call: the dims of all parameters."""
    return tuple(dict.fromkeys(d for p in kernel.params for d in p.dims if not isinstance(d, int)))


def box_of(nest: Nest, access: Load | Store) -> Box:
    steps = [(stride, nest.axis[a].size) for a, stride in access.strides]
    if isinstance(access, Load):  # whatever is looked up: all rows
        steps += [(i.pitch, i.size) for i in access.indices]
    return Box(access.offset, tuple(steps))


def _facts(box: Box, facts: Facts) -> Facts:
    """Facts for an access that runs at all: none of its axes is empty."""
    return (*facts, *(add(size, -1) for _, size in box.steps))


def _range(box: Box, facts: Facts) -> tuple[Expr, Expr] | None:
    """(least, greatest) index, or None where the sign of a stride is not known."""
    low = high = box.offset
    for stride, size in box.steps:
        reach = mul(stride, add(size, -1))
        if nonnegative(stride, facts):
            high = add(high, reach)
        elif nonnegative(mul(-1, stride), facts):
            low = add(low, reach)
        else:
            return None
    return low, high


def check_bounds(param: Param, nest: Nest, access: Load | Store, facts: Facts) -> str | None:
    """Why an index may be outside ``param``, or None if it is proved to be inside."""
    box = box_of(nest, access)
    facts = _facts(box, facts)
    looked_up = access.indices if isinstance(access, Load) else ()
    index = f"{param.name}[{index_to_text(access.strides, access.offset, looked_up)}]"
    found = _range(box, facts)
    if found is None:
        return f"the sign of a stride of {index} is not known"
    low, high = found
    numel = expr.product(param.dims)
    if not nonnegative(low, facts):
        return f"{index} may be below 0: its least index is {expr.to_str(low)}"
    if not less_equal(high, add(numel, -1), facts):
        return (
            f"{index} may be past the end: its greatest index is {expr.to_str(high)}, "
            f"{param.name} has {expr.to_str(numel)} elements"
        )
    return None


def check_injective(nest: Nest, store: Store, facts: Facts) -> str | None:
    """Why two points of one store may write the same element, or None.

    Sorted by size, each stride must pass all that the smaller ones reach together.
    """
    box = box_of(nest, store)
    facts = _facts(box, facts)
    steps = [(s if nonnegative(s, facts) else mul(-1, s), size) for s, size in box.steps if size != 1]
    reach: Expr = 0
    for stride, size in sorted(steps, key=lambda step: expr.sample(step[0])):
        if not less_equal(add(reach, 1), stride, facts):
            index = f"{store.param}[{index_to_text(store.strides, store.offset)}]"
            return f"{index} may write an element twice: stride {expr.to_str(stride)} is not proved to pass {reach}"
        reach = add(reach, mul(stride, add(size, -1)))
    return None


def check_disjoint(param: Param, a: tuple[Nest, Store], b: tuple[Nest, Store], facts: Facts) -> str | None:
    """Why two stores may write the same element of ``param``, or None if they are proved not to."""
    first, second = box_of(*a), box_of(*b)
    facts = _facts(second, _facts(first, facts))
    pitches = _pitches(param, (first, second), facts)
    if _disjoint(first, second, pitches, facts):
        return None
    # rows may start anywhere: as seen from the one that starts first, neither has to reach over their end
    for low, high in ((first, second), (second, first)):
        between = add(high.offset, mul(-1, low.offset))
        if nonnegative(between, facts):
            if _disjoint(replace(low, offset=0), replace(high, offset=between), pitches, facts):
                return None
            break
    texts = [f"nest {n.name} {param.name}[{index_to_text(s.strides, s.offset)}]" for n, s in (a, b)]
    return f"not proved disjoint from an earlier store: {texts[0]} and {texts[1]}"


def side_by_side(param: Param, stores: Sequence[tuple[Nest, Store]], facts: Facts) -> bool:
    """Whether all stores are proved disjoint at once: sorted, their flat ranges or their columns of rows do not meet.

    Takes as many proofs as there are stores, where pairs take its square. What is proved of neighbours holds for all,
    also where some are empty, because starts are proved to be in order too, from ``facts`` alone.
    """
    boxes = [box_of(*s) for s in stores]
    for pitch in (None, *_pitches(param, boxes[:1], _facts(boxes[0], facts))):
        ranges = []
        for box in boxes:
            own = _facts(box, facts)
            parts = (box, box) if pitch is None else _rows(box, pitch, own)
            found = parts and _range(parts[1], own)
            if not found:
                break
            ranges.append(found)
        else:
            ranges.sort(key=lambda r: (expr.sample(r[0]), expr.sample(r[1])))
            if all(
                less_equal(add(high, 1), after, facts) and less_equal(low, after, facts)
                for (low, high), (after, _) in pairwise(ranges)
            ):
                return True
    return False


def _pitches(param: Param, boxes: Sequence[Box], facts: Facts) -> tuple[Expr, ...]:
    """Lengths of rows that the indices of ``boxes`` may be seen in, the longest first."""
    pitches: dict[Expr, None] = {}
    pitch: Expr = 1
    for dim in reversed(param.dims):
        pitches[pitch] = None
        pitch = mul(pitch, dim)
    for box in boxes:
        pitches.update((stride, None) for stride, _ in box.steps)
    wide = sorted((p for p in pitches if p != 1), key=lambda p: (-expr.sample(p), str(p)))
    return tuple(p for p in wide if nonnegative(add(p, -1), facts))


def _disjoint(a: Box, b: Box, pitches: Sequence[Expr], facts: Facts) -> bool:
    """Whether the flat ranges do not meet, or, seen as rows of ``pitch`` elements, the rows or the columns do not."""
    range_a, range_b = _range(a, facts), _range(b, facts)
    if range_a is None or range_b is None:
        return False
    (low_a, high_a), (low_b, high_b) = range_a, range_b
    if less_equal(add(high_a, 1), low_b, facts) or less_equal(add(high_b, 1), low_a, facts):
        return True
    for i, pitch in enumerate(pitches):
        parts_a, parts_b = _rows(a, pitch, facts), _rows(b, pitch, facts)
        if parts_a is None or parts_b is None:
            continue
        (rows_a, columns_a), (rows_b, columns_b) = parts_a, parts_b
        rest = pitches[i + 1 :]
        if _disjoint(columns_a, columns_b, rest, facts):
            return True
        above = [q for q in (quotient(p, pitch) for p in pitches[:i]) if q is not None and q != 1]
        if _disjoint(rows_a, rows_b, above, facts):
            return True
    return False


def _rows(box: Box, pitch: Expr, facts: Facts) -> tuple[Box, Box] | None:
    """``box`` as (rows, columns): index = pitch*row + column, 0 <= column < pitch; None where that is not proved."""
    rows: list[tuple[Expr, Expr]] = []
    columns: list[tuple[Expr, Expr]] = []
    for stride, size in box.steps:
        q = quotient(stride, pitch)
        if q is None:
            columns.append((stride, size))
        else:
            rows.append((q, size))
    for row, column in _divisions(box.offset, pitch):
        inner = Box(column, tuple(columns))
        found = _range(inner, facts)
        if found and nonnegative(found[0], facts) and less_equal(add(found[1], 1), pitch, facts):
            return Box(row, tuple(rows)), inner
    return None


def _divisions(offset: Expr, pitch: Expr) -> list[tuple[Expr, Expr]]:
    """Guesses of (row, column) with offset = pitch*row + column; the caller proves one to be in range."""
    if isinstance(offset, int) and isinstance(pitch, int):
        return [divmod(offset, pitch)]
    guesses: list[tuple[Expr, Expr]] = [(0, offset)]
    if isinstance(offset, int):
        return guesses
    if isinstance(pitch, int):
        terms = [(c, m) for m, c in offset.as_coefficients_dict().items()]
        row, column = (expr.simplify(sum(f(c, pitch) * m for c, m in terms)) for f in (floordiv, mod))
        return [*guesses, (row, column)]
    try:
        generators = [expr.symbol(g) for g in sorted(expr.free_symbols(offset) | expr.free_symbols(pitch))]
        quotients, remainder = sympy.reduced(offset, [sympy.sympify(pitch)], *generators)
        row, column = expr.simplify(quotients[0]), expr.simplify(remainder)
    except (sympy.PolynomialError, TypeError):
        return guesses
    whole = [c for e in (row, column) if not isinstance(e, int) for c in e.as_coefficients_dict().values()]
    if all(c.is_Integer for c in whole):
        # polynomial division may overshoot by one row: s1 = 1*(s1 + s2) - s2
        guesses += [(row, column), (add(row, -1), add(column, pitch))]
    return guesses
