"""Tiling steps that templates share: symbolic sizes, so that a kernel computes no shapes, and sizes of buffers."""

from __future__ import annotations

from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Iota, Load, Nest, Store
from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.program import LANES
from torchair_autofuse.schedule.tiling import Let, Tree, Var

BYTES_PER_CORE = 4096
"""A core is not started for less traffic than this (guides for 2201)."""


def symbolic_sizes(nest: Nest) -> dict[Expr, str]:
    """The symbolic axis sizes, strides, offsets and counts of the nest -> names of the tiling fields that hold them."""
    found = dict.fromkeys([*(a.size for a in nest.axes), *_indexing(nest)])
    symbolic = (e for e in found if not isinstance(e, int))
    return {e: f"size{i}" for i, e in enumerate(symbolic)}


def _indexing(nest: Nest) -> list[Expr]:
    """Strides, offsets, pitches and counts of the nest."""
    found: list[Expr] = []
    for node in (*nest.values, *nest.stores):
        if isinstance(node, (Iota, Load, Store)):
            found += [*(s for _, s in node.strides), node.offset]
        if isinstance(node, Load):
            found += [e for i in node.indices for e in ((i.pitch, i.size) if i.wraps else (i.pitch,))]
    return found


def size_text(nest: Nest, e: Expr) -> str:
    """C++ text of a size in the kernel: a number, or the tiling field that holds it."""
    return str(e) if isinstance(e, int) else f"t_.{symbolic_sizes(nest)[e]}"


def size_steps(nest: Nest, *, flat: bool = False) -> list[Let]:
    """The tiling steps of :func:`symbolic_sizes`; a ``flat`` tile has no use for the size of an axis as such."""
    used = set(_indexing(nest)) if flat else symbolic_sizes(nest).keys()
    return [Let(name, t.from_expr(e), field=True) for e, name in symbolic_sizes(nest).items() if e in used]


def extent_steps(rows: Expr, cols: Expr) -> list[Let]:
    """Rows and columns of all tiles together; those of work are 1 at least, to be shared out and divided by."""
    return [
        Let("total_rows", t.from_expr(rows), field=True),
        Let("total_cols", t.from_expr(cols), field=True),
        Let("rows_work", t.maximum(Var("total_rows"), 1)),
        Let("cols_work", t.maximum(Var("total_cols"), 1)),
    ]


def capacity_steps(pitch: Tree) -> list[Let]:
    """Elements that a buffer of each layout holds; ``pitch``: of a row of the tile."""
    return [
        Let("cap_row", t.roundup(Var("tile_cols"), LANES), field=True),
        Let("cap_full", t.roundup(t.mul(Var("tile_rows"), pitch), LANES), field=True),
        Let("cap_col", t.roundup(Var("tile_rows"), LANES), field=True),
        Let("cap_colb", t.roundup(Var("tile_rows"), 8), field=True),
    ]


def used_step(full: Tree, row: Tree, col: Tree, colb: Tree, fixed: Tree) -> Let:
    """Bytes of UB in use: those per element of each layout, and those that do not depend on the tile."""
    return Let(
        "ub_used",
        t.add(
            t.mul(Var("cap_full"), full),
            t.mul(Var("cap_row"), row),
            t.mul(Var("cap_col"), col),
            t.mul(Var("cap_colb"), colb),
            fixed,
        ),
    )
