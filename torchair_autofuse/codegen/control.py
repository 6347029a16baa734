"""Prints the control flow of a kernel: a core's share of the work, panels, and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchair_autofuse.codegen.names import Names
from torchair_autofuse.loop.ir import Axis
from torchair_autofuse.schedule.schedule import Schedule


@dataclass(frozen=True)
class Function:
    """A member function. ``prefix``: of the tiling values that it reads, after that of its class."""

    name: str
    args: str
    body: Sequence[str]
    comment: str = ""
    prefix: str = ""


TILE_ARGS = "int64_t r, int64_t col, uint32_t rows, uint32_t cols, uint32_t pitch"
TILE_CALL = "r, col, rows, cols, pitch"
FLAT_ARGS = "int64_t col, uint32_t cols"
_CALLS = {"CopyIn": TILE_CALL, "Compute": "rows, cols, pitch", "CopyOut": TILE_CALL}
_FLAT_CALLS = {"CopyIn": "col, cols", "Compute": "cols", "CopyOut": "col, cols"}


def process(schedule: Schedule, names: Names, tile: Sequence[str], *, panel: bool, free: bool) -> list[str]:
    """Body of Process. ``tile``: the functions called per tile; ``panel``, ``free``: LoadPanel and FreePanel exist."""
    if schedule.inside:
        return _kept(schedule, names, [f"{f}({_CALLS[f]});" for f in tile], panel=panel, free=free)
    if schedule.rows is None:
        return _flat(schedule, [f"{f}({_FLAT_CALLS[f]});" for f in tile], panel=panel, free=free)
    return _rows(schedule, names, [f"{f}({_CALLS[f]});" for f in tile], panel=panel, free=free)


def _share(schedule: Schedule, names: tuple[str, str], core: str, size: str, total: str) -> list[str]:
    """Where the share of a core begins and ends; the first one is shorter where there is a ``phase``."""
    begin, end = names
    if "phase" not in schedule.fields:
        return [
            f"const int64_t {begin} = {core} * t_.{size};",
            f"const int64_t {end} = Lesser({begin} + t_.{size}, t_.{total});",
        ]
    return [
        f"const int64_t {begin} = {core} > 0 ? {core} * t_.{size} - t_.phase : 0;",
        f"const int64_t {end} = Lesser(({core} + 1) * t_.{size} - t_.phase, t_.{total});",
    ]


def _flat(schedule: Schedule, tile: Sequence[str], *, panel: bool, free: bool) -> list[str]:
    lines = _share(schedule, ("begin", "end"), "GetBlockIdx()", "core_cols", "total")
    if panel:
        lines += ["if (begin >= end) {", "    return;", "}", "LoadPanel();"]
    if tile:
        lines += [
            "for (int64_t col = begin; col < end; col += t_.tile_cols) {",
            "    const uint32_t cols = Lesser(t_.tile_cols, end - col);",
            *(f"    {line}" for line in tile),
            "}",
        ]
    return [*lines, "FreePanel();"] if free else lines


def _rows(schedule: Schedule, names: Names, tile: Sequence[str], *, panel: bool, free: bool) -> list[str]:
    assert schedule.rows is not None
    body = [
        *(["LoadPanel(r, col, cols, pitch);"] if panel else []),
        "for (int64_t rows = 0; r < panelEnd; r += rows) {",
        "    rows = Lesser(t_.tile_rows, panelEnd - r);",
        *(f"    {line}" for line in tile),
        "}",
        *(["FreePanel();"] if free else []),
    ]
    if schedule.outer:
        size = names.size(schedule.rows.size)
        inner = [
            "for (int64_t row = rowBegin; row < rowEnd;) {  // a panel: rows that share the outer indices",
            f"    int64_t r = row % {size};",
            f"    const int64_t panelEnd = Lesser({size}, r + rowEnd - row);",
            f"    SetOuter(row / {size});",
            "    row += panelEnd - r;",
            *(f"    {line}" for line in body),
            "}",
        ]
    else:
        inner = ["int64_t r = rowBegin;", "const int64_t panelEnd = rowEnd;", *body]
    columns = [
        "for (int64_t col = colBegin; col < colEnd; col += t_.tile_cols) {",
        "    const uint32_t cols = Lesser(t_.tile_cols, colEnd - col);",
        f"    const uint32_t pitch = RoundUp(cols, {schedule.align});",
        *(f"    {line}" for line in inner),
        "}",
    ]
    if "span" in schedule.fields:
        return _span(columns)
    return [
        *_share(schedule, ("rowBegin", "rowEnd"), "GetBlockIdx() / t_.col_cores", "core_rows", "total_rows"),
        "const int64_t colBegin = GetBlockIdx() % t_.col_cores * t_.core_cols;",
        "const int64_t colEnd = Lesser(colBegin + t_.core_cols, t_.total_cols);",
        "if (rowBegin >= rowEnd) {",
        "    return;",
        "}",
        *columns,
    ]


def _kept(schedule: Schedule, names: Names, tile: Sequence[str], *, panel: bool, free: bool) -> list[str]:
    """A core's tiles of rows, each with all, or a run, of the indices inside it."""
    around = len(schedule.outer) - len(schedule.inside)
    return [
        "const int64_t begin = GetBlockIdx() * t_.core_units;",
        "const int64_t end = Lesser(begin + t_.core_units, t_.total_units);",
        "if (begin >= end) {",
        "    return;",
        "}",
        "for (int64_t col = 0; col < t_.total_cols; col += t_.tile_cols) {",
        "    const uint32_t cols = Lesser(t_.tile_cols, t_.total_cols - col);",
        f"    const uint32_t pitch = RoundUp(cols, {schedule.align});",
        "    for (int64_t unit = begin; unit < end;) {  // a tile of rows",
        "        const int64_t block = unit / t_.inside;",
        "        int64_t index = unit % t_.inside;",
        "        const int64_t stop = Lesser(t_.inside, index + end - unit);",
        "        unit += stop - index;",
        "        const int64_t r = block % t_.row_tiles * t_.tile_rows;",
        "        const uint32_t rows = Lesser(t_.tile_rows, t_.total_rows - r);",
        *(["        SetOuter(block / t_.row_tiles);"] if around else []),
        *(["        LoadPanel(r, col, rows, cols, pitch);"] if panel else []),
        "        for (; index < stop; ++index) {",
        "            SetInside(index);",
        *(f"            {line}" for line in tile),
        "        }",
        *(["        FreePanel();"] if free else []),
        "    }",
        "}",
    ]


def _span(columns: Sequence[str]) -> list[str]:
    """A core's run of the outputs: what is left of a row, whole rows, and the beginning of a row."""
    return [
        "const int64_t begin = GetBlockIdx() * t_.run;",
        "const int64_t end = Lesser(begin + t_.run, t_.total_rows * t_.span);",
        "for (int64_t at = begin; at < end;) {",
        "    const int64_t rowBegin = at / t_.span;",
        "    const bool whole = at % t_.span == 0 && end - at >= t_.span;",
        "    const int64_t rowEnd = whole ? end / t_.span : rowBegin + 1;",
        "    const int64_t first = at - rowBegin * t_.span - t_.at;",
        "    const int64_t colBegin = first > 0 ? first : 0;",
        "    const int64_t colEnd = Lesser(end - (rowEnd - 1) * t_.span - t_.at, t_.total_cols);",
        *(f"    {line}" for line in columns),
        "    at = rowEnd * t_.span;",
        "}",
    ]


def outer_indices(names: Names, axes: Sequence[tuple[int, Axis]]) -> list[str]:
    """The index of every outer axis, given with its number, from the flat index ``outer``, which is used up."""
    lines = []
    for i, axis in reversed(axes[1:]):
        size = names.size(axis.size)
        lines += [f"o{i}_ = outer % {size};", f"outer /= {size};"]
    return [*lines, f"o{axes[0][0]}_ = outer;"]
