"""Index maps of one op: that of an operand given that of the result, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.atoms import Atoms, Digits
from torchair_autofuse.lower.checks import shape_text
from torchair_autofuse.lower.registry import Join, Margin, Permute, Rows
from torchair_autofuse.messages import Reason

T = TypeVar("T")
Shape = tuple[Expr, ...]
DimMap = tuple[Digits, ...]
"""One tuple of atom ids per dim; a dim of size one, or one the value does not vary over, has none."""


# ---- operands -------------------------------------------------------------------------------------------------------
def broadcast_operand(shape: Shape, out_shape: Shape, out_map: DimMap) -> DimMap | Reason:
    """Of an operand of ``shape`` that is broadcast to the result."""
    offset = len(out_shape) - len(shape)
    if offset < 0:
        return Reason("AF204", f"operand of rank {len(shape)} broadcast to rank {len(out_shape)}")
    found: list[Digits] = []
    for k, dim in enumerate(shape):
        if dim == 1:
            found.append(())
        elif expr.equal(dim, out_shape[k + offset]):
            found.append(out_map[k + offset])
        else:
            return Reason(
                "AF204", f"dims {shape_text(shape)} and {shape_text(out_shape)} are not known to be equal or one"
            )
    return tuple(found)


def regrouped(atoms: Atoms, known: DimMap, shape: Shape, target: Shape) -> DimMap | Reason:
    """The digits of a tensor of ``shape`` dealt out to the dims of ``target`` (same elements, row-major)."""
    groups = atoms.regroup([a for d in known for a in d], target)
    if groups is None:
        return Reason(
            "AF205", f"reshape of {shape_text(shape)} to {shape_text(target)} has no common refinement of axes"
        )
    return groups


def permuted_operand(moved: Permute, out_map: DimMap) -> DimMap:
    return tuple(out_map[moved.perm.index(k)] for k in range(len(out_map)))


def looked_up_operand(
    moved: Rows, index: int, shape: Shape, table_rank: int, out_shape: Shape, out_map: DimMap
) -> DimMap | Reason:
    """Of the table (``index`` 0), or of the indices, of a lookup."""
    begin, count = moved.axes[0], len(moved.axes)
    end = len(out_map) - table_rank + begin + count
    if index > 0:
        return broadcast_operand(shape, out_shape[begin:end], out_map[begin:end])
    return (*out_map[:begin], *[()] * count, *out_map[end:])  # whichever row it is


def framed_operand(atoms: Atoms, moved: Margin, shape: Shape, out_map: DimMap) -> DimMap | None:
    """Of what has margins; None where the result's axes do not give them."""
    inner = [atoms.cut(d, b, n) for d, b, n in zip(out_map, moved.before, shape)]
    found = tuple(d for d in inner if d is not None)
    return found if len(found) == len(inner) else None


def joined_operand(atoms: Atoms, moved: Join, number: int, shape: Shape, out_map: DimMap) -> DimMap | None:
    """Of the ``number``-th part of a concat; None where the result's axes do not give it."""
    size = 1 if moved.added else shape[moved.axis]
    part = atoms.cut(out_map[moved.axis], moved.starts[number], size)
    if part is None:
        return None
    dims = [*out_map[: moved.axis], part, *out_map[moved.axis + 1 :]]
    return without_dim(dims, moved.axis if moved.added else None)


# ---- results --------------------------------------------------------------------------------------------------------
def window(atoms: Atoms, digits: Digits, total: Expr, start: Expr, step: int, size: Expr) -> Digits | None:
    """The digits of every ``step``-th of the indices from ``start`` on, of a dim of ``total`` elements with ``digits``.

    None where they are not known to be whole parts of its axes.
    """
    if step == 1 or size == 1:
        return atoms.cut(digits, start, size) if total != 1 else ()
    if step == -1 and expr.equal(size, total) and expr.equal(expr.add(start, 1), total):
        return atoms.flip(digits)
    if step < 0 or expr.quotient(total, step) is None or not isinstance(start, int):
        return None
    pair = atoms.tail(digits, step)
    if pair is None or atoms.cut(pair[1], start % step, 1) is None:
        return None
    return atoms.cut(pair[0], start // step, size)


def framed(atoms: Atoms, moved: Margin, shape: Shape, known: DimMap) -> DimMap:
    """Of a result with margins around an operand of ``shape``."""
    found = []
    for digits, before, size, after in zip(known, moved.before, shape, moved.after):
        sizes = ((before, None), (size, digits), (after, None))
        found.append(atoms.joined([d if d is not None else atoms.axis(s) for s, d in sizes if s != 0]))
    return tuple(found)


def joined(
    atoms: Atoms, moved: Join, parts: Sequence[tuple[Shape, DimMap | None]], out_shape: Shape
) -> tuple[Digits | None, ...]:
    """Of a concat: the axis made of its parts', other dims as known parts have them, else None.

    ``parts``: shape and, where it is known, map of every part that is not empty.
    """
    digits: list[Digits | None] = [() if d == 1 else None for d in out_shape]
    along: list[Digits] = []
    added = moved.axis if moved.added else None
    for shape, known in parts:
        sizes = with_dim(shape, added, 1)
        dims = None if known is None else with_dim(known, added, ())
        along.append(atoms.axis(sizes[moved.axis]) if dims is None else dims[moved.axis])
        for k, d in enumerate(dims or ()):
            if k != moved.axis and digits[k] is None and sizes[k] != 1:
                digits[k] = d
    digits[moved.axis] = atoms.joined(along)
    return tuple(digits)


# ---- shapes ---------------------------------------------------------------------------------------------------------
def part_of(frame: DimMap, parts: tuple[tuple[int, ...], ...]) -> DimMap:
    """The map of a tensor whose dims are row-major products of dims of a frame."""
    return tuple(tuple(a for p in positions for a in frame[p]) for positions in parts)


def with_dim(dims: Sequence[T], at: int | None, one: T) -> tuple[T, ...]:
    """``dims`` with a dim of size one, for which ``one`` stands, at ``at``."""
    return tuple(dims) if at is None else (*dims[:at], one, *dims[at:])


def without_dim(dims: Sequence[T], at: int | None) -> tuple[T, ...]:
    return tuple(d for k, d in enumerate(dims) if k != at)
