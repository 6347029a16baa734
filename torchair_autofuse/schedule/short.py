"""Short innermost axes: written out, where rows of a tile would be shorter than a 32-byte block."""

from __future__ import annotations

from collections.abc import Iterator

from torchair_autofuse.loop.ir import Load, Nest
from torchair_autofuse.loop.rewrite import drop_dead_values, merge_axes
from torchair_autofuse.loop.unroll import unroll_innermost
from torchair_autofuse.schedule.access import BLOCK
from torchair_autofuse.schedule.order import orders

MAX_COPIES = 8
"""Indices of all axes that are written out together: every instruction is there as often."""

MAX_VALUES = 256
"""Values of a nest after that."""

_FEW = 64
"""Elements of the other axes, below which rows are few enough to pad."""


def written_out(nest: Nest) -> Nest | None:
    """``nest`` (canonical) without its short innermost axes, merged again; None where there are none, or few rows.

    A copy of a tile with rows shorter than a block moves each of them by itself, and pads it in UB to a multiple of its
    size. Without the axis there are lanes of its elements, in rows of the axis outside of it.
    """
    found, copies = None, 1
    while len(nest.axes) > 1:
        size, others = nest.axes[-1].size, nest.axes[:-1]
        if not isinstance(size, int) or not 1 < size * copies <= MAX_COPIES or not _padded(nest, size):
            break
        rows = 1
        for a in others:
            rows *= a.size if isinstance(a.size, int) else _FEW
        unrolled = unroll_innermost(nest) if rows >= _FEW and orders(nest) == (nest,) else None
        if unrolled is None or len(unrolled.values) > MAX_VALUES:
            break
        nest = found = merge_axes(drop_dead_values(unrolled))
        copies *= size
    return found


def _padded(nest: Nest, size: int) -> bool:
    """Whether rows of so many elements are no whole blocks in some tensor that varies over all of a tile."""
    inner = nest.axes[-1].name
    return any(size * bytes_ % BLOCK for bytes_ in _tiled(nest, inner))


def _tiled(nest: Nest, inner: str) -> Iterator[int]:
    """Bytes per element of what is copied in rows along the ``inner`` axis."""
    for node in nest.values:
        if isinstance(node, Load) and inner in dict(node.strides) and len(nest.domains[node.name]) > 1:
            yield node.dtype.itemsize
    for store in nest.stores:
        if inner in dict(store.strides) and len(store.strides) > 1:
            yield nest.dtypes[store.value].itemsize
