"""Arithmetic on symbolic shapes that several families of inference rules share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy

from torchair_autofuse.ge.infer.bounds import nonnegative
from torchair_autofuse.ge.infer.registry import MAX_VALUE, Call, Facts, Shape, Unknown
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr


def subtract(a: Expr, b: Expr) -> Expr:
    return expr.add(a, expr.mul(-1, b))


def minimum(a: Expr, b: Expr) -> Expr:
    return _extreme(a, b, sympy.Min, first_wins=nonnegative(subtract(b, a)), second_wins=nonnegative(subtract(a, b)))


def maximum(a: Expr, b: Expr) -> Expr:
    return _extreme(a, b, sympy.Max, first_wins=nonnegative(subtract(a, b)), second_wins=nonnegative(subtract(b, a)))


def _extreme(a: Expr, b: Expr, function: Any, *, first_wins: bool, second_wins: bool) -> Expr:
    if first_wins:
        return a
    return b if second_wins else expr.simplify(function(a, b))


def _clamp(part: Expr, whole: Expr) -> int:
    """The integer c >= 1 of a part that is Min(whole, c), else 0."""
    if not isinstance(part, sympy.Min) or len(part.args) != 2 or whole not in part.args:
        return 0
    (other,) = (x for x in part.args if x != whole)
    return int(other) if other.is_Integer and other >= 1 else 0


def axis(value: int, rank: int) -> int:
    """``value`` as a position in 0..rank-1; raises Unknown when it is out of range."""
    found = value + rank if value < 0 else value
    if not 0 <= found < max(rank, 1):  # a 0-d tensor accepts axis 0 and -1
        raise Unknown(f"axis {value} is out of range for rank {rank}")
    return found


def axes(values: Iterable[int], rank: int) -> list[int]:
    return [axis(v, rank) for v in values]


def broadcast(*shapes: Shape, facts: Facts | None = None) -> Shape:
    """The numpy broadcast of shapes. Raises Unknown where two dims are neither known equal nor known one.

    A symbolic dim against an integer n != 1 gives n: the symbol is n or 1, or the graph is not valid. Two dims above
    one, and s against Min(c, s) with c >= 2, are equal for the same reason; ``facts`` learns that. Min(1, s) is 1, or
    0 as s is: it gives s.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Expr] = []
    for k in range(rank):
        dim: Expr = 1
        for s in shapes:
            if len(s) >= rank - k:
                dim = _broadcast_dim(dim, s[k - rank + len(s)], facts)
        result.append(dim)
    return tuple(result)


def _broadcast_dim(a: Expr, b: Expr, facts: Facts | None) -> Expr:
    if isinstance(a, int) and isinstance(b, int):
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        raise Unknown(f"dims {a} and {b} do not broadcast")
    if isinstance(a, int):
        return b if a == 1 else a
    if isinstance(b, int):
        return a if b == 1 else b
    if expr.equal(a, b):
        return a
    clamp = _clamp(a, b) or _clamp(b, a)
    if clamp == 1:
        return b if _clamp(a, b) else a
    if facts is not None and (clamp or (facts.above_one(a) and facts.above_one(b))):
        return facts.learn(a, b)
    raise Unknown(f"dims {a} and {b} are not known to be equal or one")


def broadcast_inputs(*positions: int) -> Callable[[Call], Shape]:
    """Shape function: the broadcast of these inputs; of all present inputs if none is named."""

    def shape(call: Call) -> Shape:
        wanted = positions or tuple(i for i in range(len(call.inputs)) if call.has(i))
        return broadcast(*(call.shape(i) for i in wanted), facts=call.facts)

    return shape


def reduced(shape: Shape, over: Iterable[int], keep: bool) -> Shape:
    """``shape`` without the dims ``over``, or with ones in their place."""
    gone = set(axes(over, len(shape))) if shape else set()
    return tuple(1 if i in gone else d for i, d in enumerate(shape) if keep or i not in gone)


def reshape(old: Shape, target: Sequence[Expr]) -> Shape:
    """GE's Reshape: 0 copies the dim of the input at that position, one -1 takes the rest."""
    dims: list[Expr] = []
    rest: int | None = None
    for k, d in enumerate(target):
        if isinstance(d, int) and d == -1:
            if rest is not None:
                raise Unknown("two dims of the target shape are -1")
            rest = k
            dims.append(1)
        elif isinstance(d, int) and d == 0:
            # beyond the input's rank it is a dim of size zero
            dims.append(old[k] if k < len(old) else 0)
        else:
            dims.append(d)
    if rest is not None:
        total, known = expr.product(old), expr.product(dims)
        if known == 0:
            raise Unknown("a dim of -1 beside a dim of 0")
        dims[rest] = _exact(total, known)
    if expr.product(old) == 0 and expr.product(dims) != 0:  # of an empty input: the zeros are sizes
        return tuple(target)
    return tuple(dims)


def _exact(total: Expr, known: Expr) -> Expr:
    if isinstance(total, int) and isinstance(known, int) and total % known:
        raise Unknown(f"{total} elements do not divide into {known}")
    return expr.floordiv(total, known)


def concat_dim(dims: Sequence[Expr]) -> Expr:
    return expr.add(*dims)


def window(size: Expr, kernel: Expr, stride: int, pad: int, dilation: int = 1, ceil: bool = False) -> Expr:
    """Number of positions of a window over ``size`` elements with ``pad`` in total (both sides).

    With ``ceil`` a last window that starts inside the input or the left padding counts (torch's rule); integers only.
    """
    span = expr.add(size, pad, expr.mul(-dilation, expr.add(kernel, -1)), -1)
    if not ceil:
        return expr.add(expr.floordiv(span, stride), 1)
    if not isinstance(span, int) or not isinstance(size, int):
        raise Unknown("ceil_mode with a symbolic size")
    count = -(-span // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pad // 2 else count


def plain(shape: Shape) -> tuple[int, ...]:
    """A shape without symbols and small enough to hold values."""
    if not all(isinstance(d, int) for d in shape) or math.prod(shape) > MAX_VALUE:
        raise Unknown("value is not tracked for this shape")
    return shape
