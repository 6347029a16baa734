"""Prints kernels that stream over what they reduce: per block of kept work, passes over tiles and what follows each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchair_autofuse.codegen import split
from torchair_autofuse.codegen.control import TILE_ARGS, TILE_CALL, outer_indices
from torchair_autofuse.codegen.names import Names
from torchair_autofuse.codegen.queues import Queues
from torchair_autofuse.codegen.vector import counts, instructions
from torchair_autofuse.schedule.program import Instr, Segment
from torchair_autofuse.schedule.schedule import Schedule


@dataclass(frozen=True)
class PassFunction:
    """A member function: its name, parameters and body, and how it is called."""

    name: str
    args: str
    call: str
    body: Sequence[str]


def pass_functions(
    schedule: Schedule, names: Names, queues: Queues, slots: Callable[[Sequence[Instr]], list[str]]
) -> list[PassFunction]:
    """The functions of every segment. ``slots`` declares the LocalTensors of the TBufs that instructions touch."""
    found: list[PassFunction] = []
    for k, segment in enumerate(schedule.program.segments):
        loads, stores = queues.groups("in", k), queues.groups("out", k)
        calls = instructions(names, segment.instrs, barrier_first=True)
        body = [*counts(names, calls), *queues.take(loads, "DeQue"), *queues.take(stores, "AllocTensor")]
        body += [*slots(segment.instrs), *calls, *queues.enqueue(stores), *queues.free(loads)]
        if segment.loop:
            number = segment.name.removeprefix("pass")
            if loads:
                found.append(
                    PassFunction(f"CopyIn{number}", TILE_ARGS, TILE_CALL, [*queues.indices(k), *queues.copy_in(loads)])
                )
            args, call = "uint32_t rows, uint32_t cols, uint32_t pitch, int64_t tile", "rows, cols, pitch, tile"
            found.append(PassFunction(f"Compute{number}", args, call, body))
            if stores:
                found.append(PassFunction(f"CopyOut{number}", TILE_ARGS, TILE_CALL, queues.copy_out(stores)))
        elif segment.instrs or segment.loads:
            body = [*_scope([*queues.indices(k), *queues.copy_in(loads)]), *body, *_scope(queues.copy_out(stores))]
            name = segment.name.capitalize()
            found.append(PassFunction(name, f"{TILE_ARGS}, int64_t tile", f"{TILE_CALL}, tile", body))
    return found


def _scope(lines: Sequence[str]) -> list[str]:
    """The lines in a block of their own: tensors keep their names on the way through a queue."""
    return ["{", *(f"    {line}" for line in lines), "}"] if lines else []


def process(schedule: Schedule, names: Names, functions: Sequence[PassFunction]) -> list[str]:
    """Body of Process: the blocks of this core, each with all its passes."""
    by_rows = split.by_rows(schedule)
    if schedule.shared:
        calls = {f.name: f"{f.name}({f.call});" for f in functions}
        size = names.size(schedule.rows.size) if by_rows and schedule.rows is not None else 1
        outer = _set_outer(schedule, names, f"unit / {size}" if by_rows else "unit")
        return split.process(schedule, names, calls, ["{", *outer, "}"] if outer else [])
    block = _block(schedule, names, functions, by_rows)
    head = [
        "const int64_t unitBegin = GetBlockIdx() / t_.col_cores * t_.core_units;",
        "const int64_t unitEnd = Lesser(unitBegin + t_.core_units, t_.total_units);",
    ]
    if by_rows:
        assert schedule.rows is not None
        size = names.size(schedule.rows.size)
        return [
            *head,
            "for (int64_t unit = unitBegin; unit < unitEnd;) {",
            f"    const int64_t r = unit % {size};",
            f"    const int64_t rows = Lesser(t_.tile_rows, Lesser({size} - r, unitEnd - unit));",
            *_set_outer(schedule, names, f"unit / {size}"),
            *(f"    {line}" for line in block),
            "    unit += rows;",
            "}",
        ]
    return [
        *head,
        "const int64_t colBegin = GetBlockIdx() % t_.col_cores * t_.core_cols;",
        "const int64_t colEnd = Lesser(colBegin + t_.core_cols, t_.total_cols);",
        "for (int64_t unit = unitBegin; unit < unitEnd; ++unit) {",
        *_set_outer(schedule, names, "unit"),
        "    for (int64_t col = colBegin; col < colEnd; col += t_.tile_cols) {",
        "        const uint32_t cols = Lesser(t_.tile_cols, colEnd - col);",
        f"        const uint32_t pitch = RoundUp(cols, {schedule.align});",
        *(f"        {line}" for line in block),
        "    }",
        "}",
    ]


def _set_outer(schedule: Schedule, names: Names, flat: str) -> list[str]:
    """The indices of the kept axes around the tile, from their flat index."""
    kept = [(i, a) for i, a in enumerate(schedule.outer) if a.name not in schedule.streamed]
    if not kept:
        return []
    return [f"    {line}" for line in (f"int64_t outer = {flat};", *outer_indices(names, kept))]


def _block(schedule: Schedule, names: Names, functions: Sequence[PassFunction], by_rows: bool) -> list[str]:
    """All segments of one block. What is outside the loops sees the kept part of a tile."""
    calls = {f.name: f"{f.name}({f.call});" for f in functions}
    once = ["const int64_t col = 0;", "const uint32_t cols = 1;", f"const uint32_t pitch = {schedule.align};"]
    if not by_rows:
        once = ["const int64_t r = 0;", "const int64_t rows = 1;"]
    lines = ["int64_t tile = 0;"]
    for segment in schedule.program.segments:
        if segment.loop:
            lines += ["tile = 0;", *_loop(schedule, names, segment, calls, by_rows)]
        elif segment.name.capitalize() in calls:
            call = calls[segment.name.capitalize()]
            lines += ["{", *(f"    {x}" for x in once), f"    {call}", "}"]
    return lines


def _loop(schedule: Schedule, names: Names, segment: Segment, calls: dict[str, str], by_rows: bool) -> list[str]:
    number = segment.name.removeprefix("pass")
    body = [calls[f"{f}{number}"] for f in ("CopyIn", "Compute", "CopyOut") if f"{f}{number}" in calls]
    if by_rows:
        lines = [
            "for (int64_t col = 0; col < t_.total_cols; col += t_.tile_cols) {",
            "    const uint32_t cols = Lesser(t_.tile_cols, t_.total_cols - col);",
            f"    const uint32_t pitch = RoundUp(cols, {schedule.align});",
        ]
    else:
        lines = [
            "for (int64_t r = 0; r < t_.total_rows; r += t_.tile_rows) {",
            "    const int64_t rows = Lesser(t_.tile_rows, t_.total_rows - r);",
        ]
    lines += [*(f"    {x}" for x in body), "    ++tile;", "}"]
    for i, axis in reversed(list(enumerate(schedule.outer))):
        if axis.name in schedule.streamed:
            head = f"for (o{i}_ = 0; o{i}_ < {names.size(axis.size)}; ++o{i}_) {{"
            lines = [head, *(f"    {x}" for x in lines), "}"]
    return lines
