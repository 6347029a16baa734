"""Tensors as pieces: one per combination of the parts of the atoms that their dims were cut into (lower.atoms)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Strides
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.index_maps import DimMap
from torchair_autofuse.lower.strand import Strand

Key = frozenset[tuple[int, int]]
"""Which part of each cut atom: (atom, number of the part)."""


POINT = Strand()
"""The one index of a dim of size one."""


@dataclass(frozen=True)
class Piece:
    """A box of a tensor's elements: one strand per dim."""

    key: Key
    dims: tuple[Strand, ...]

    @property
    def offsets(self) -> tuple[Expr, ...]:
        """Index of the first element."""
        return tuple(d.offset for d in self.dims)


def pieces(domain: Domain, dims: DimMap) -> list[Piece]:
    """The pieces of a tensor with an index map, in row-major order of their first elements."""
    found = [Piece(frozenset(), ())]
    for digits in dims:
        strands = domain.atoms.expand(digits)
        found = [Piece(p.key | s.key, (*p.dims, s)) for p in found for s in strands]
    return found


def restrict(domain: Domain, key: Key, dims: DimMap) -> Key:
    """What of a key concerns a tensor with this index map."""
    if not key:
        return key
    mine = domain.atoms.closure(domain.flat(dims))
    return frozenset(p for p in key if p[0] in mine)


def strides(
    piece: Piece,
    shape: Sequence[Expr],
    axis_of: Mapping[int, Axis],
    starts: Sequence[Expr] | None = None,
    steps: Sequence[int] | None = None,
) -> tuple[Strides, Expr]:
    """Flat element strides and offset of a piece of a dense tensor of ``shape``.

    ``starts``, ``steps``: the piece is one of a window that begins there and takes every so many-th element.
    """
    found: dict[str, Expr] = {}
    offset: Expr = 0
    pitch: Expr = 1
    for k in reversed(range(len(shape))):
        strand = piece.dims[k]
        place = pitch if steps is None else expr.mul(pitch, steps[k])
        for atom, step in reversed(strand.steps):
            name = axis_of[atom].name
            found[name] = expr.add(found.get(name, 0), expr.mul(place, step))
        offset = expr.add(offset, expr.mul(place, strand.offset))
        if starts is not None:
            offset = expr.add(offset, expr.mul(pitch, starts[k]))
        pitch = expr.mul(pitch, shape[k])
    return tuple((name, found[name]) for name in in_loop_order(found, axis_of)), offset


def in_loop_order(names: Container[str], axis_of: Mapping[int, Axis]) -> list[str]:
    """Those of the axes that ``names`` has, outermost first; ``axis_of`` is in that order."""
    return [a.name for a in axis_of.values() if a.name in names]
