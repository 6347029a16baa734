"""Prints the vector program: one Ascend C call per instruction, a barrier where one depends on another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchair_autofuse.codegen import lanes, split
from torchair_autofuse.codegen.names import COUNT, Names
from torchair_autofuse.schedule.program import Buf, Instr, Layout

_BARRIER = "PipeBarrier<PIPE_V>();"


def instructions(names: Names, instrs: Iterable[Instr], *, barrier_first: bool) -> list[str]:
    """The calls in order. ``barrier_first``: earlier instructions may still be at work on the same places."""
    plan = names.schedule.plan
    lines = [_BARRIER] if barrier_first else []
    written: set[int] = set()
    read: set[int] = set()
    scratch = -1  # the temporary buffer counts as a place of its own
    for instr in instrs:
        sources = {plan.place[s] for s in instr.srcs}
        targets = {plan.place[b] for b in (instr.dst, instr.work, *instr.updates) if b >= 0}
        targets |= {scratch} if instr.scratch else set()
        if sources & written or targets & (written | read):
            lines.append(_BARRIER)
            written, read = set(), set()
        lines.append(f"{call(names, instr)};" + (f"  // {instr.comment}" if instr.comment else ""))
        written |= targets
        read |= sources
    return lines


def counts(names: Names, calls: Sequence[str]) -> list[str]:
    """Declarations of the element counts that the calls take."""
    align = names.schedule.align
    turned = f"RoundUp(cols, {align}) * {names.turned_pitch}"
    sizes = {"fullCount": "rows * pitch", "rowCount": "pitch", "colCount": "rows", "turnedCount": turned}
    return [
        f"const uint32_t {name} = RoundUp({size}, kLanes);"
        for name, size in sizes.items()
        if any(f" {name}" in line for line in calls)
    ]


def call(names: Names, instr: Instr) -> str:
    """One instruction without its semicolon."""
    if instr.form in ("send", "receive"):
        return split.call(names, instr)
    if instr.form == "place":
        return _place(names, instr)
    bufs = names.schedule.program.bufs
    dst = bufs[instr.dst]
    if instr.form == "brcb":
        count = "1" if dst.layout == Layout.ONEB else "rows"
        return f"Spread({names.tensor(instr.dst)}, {names.tensor(instr.srcs[0])}, {count})"
    if instr.form in ("pick", "interleave") or instr.table is not None:
        return lanes.call(names, instr)
    if instr.form == "transpose":
        source = bufs[instr.srcs[0]]
        tensors = f"{names.tensor(dst.id, instr.view)}, {names.tensor(source.id, instr.view)}"
        pitches = "pitch", names.turned_pitch
        lines = ("rows, cols", *pitches) if source.layout == Layout.FULL else ("cols, rows", *reversed(pitches))
        return f"TransposeTile({tensors}, {', '.join(lines)})"
    if instr.form in ("tile", "expand"):
        rows, pitch = (
            ("rows", "pitch") if dst.layout == Layout.FULL and names.schedule.rows else ("1", COUNT[dst.layout])
        )
        kinds = ", ".join(f"Vary::{_vary(bufs[s], dst)}" for s in instr.srcs)
        tensors = ", ".join(names.tensor(b) for b in (instr.dst, *instr.srcs))
        if instr.form == "expand":
            return f"TileExpand<{kinds}>({tensors}, {rows}, {pitch})"
        return f"TileBinary<{instr.api}Tile, {kinds}>({tensors}, {rows}, {pitch})"
    if instr.form in ("reduce", "reduce_compact", "reduce_down"):
        return _reduce(names, instr)
    if instr.form in ("carry", "levels"):
        function = "CarrySum" if instr.form == "carry" else "AddLevels"
        operands = [names.tensor(b) for b in (instr.srcs if instr.form == "carry" else (instr.dst, *instr.srcs))]
        return f"{function}({', '.join([*operands, 'tile', COUNT[dst.layout]])})"
    operands = [names.tensor(instr.dst, "" if dst.cpp == "bits" and instr.view != "uint16_t" else instr.view)]
    for s in instr.srcs:
        is_mask = instr.api == "Select" and bufs[s].cpp == "bits"
        operands.append(names.tensor(s, "" if is_mask else instr.view))
    count = names.count(dst, instr)
    if instr.scratch:
        return f"{instr.api}({', '.join([*operands, *instr.scalars, 'scratch', count])})"
    return f"{instr.api}({', '.join([*operands, *instr.scalars, count])})"


def _place(names: Names, instr: Instr) -> str:
    output, at = instr.scalars
    source = names.schedule.program.bufs[instr.srcs[0]]
    cols, pitch = ("1", str(32 // source.element)) if source.layout == Layout.COLB else ("cols", "pitch")
    return f"PlaceRows({output}Tile_[t_.{at}], {names.tensor(source.id)}, rows, {cols}, {pitch}, {output}Pitch_)"


def _reduce(names: Names, instr: Instr) -> str:
    plan = names.schedule.plan
    source = names.schedule.program.bufs[instr.srcs[0]]
    in_place = "true" if plan.place[instr.work] == plan.place[source.id] else "false"
    rows = "rows" if source.layout == Layout.FULL else "1"
    tensors = ", ".join(names.tensor(b) for b in (instr.dst, source.id, instr.work))
    if instr.form == "reduce_down":
        return f"ReduceDown<{instr.api}Fold, {in_place}>({tensors}, rows, pitch)"
    if instr.form == "reduce_compact":
        more = f"{names.tensor(instr.updates[0])}, {instr.scalars[0]}"
        return f"CompactRows<{instr.api}Fold, {in_place}>({tensors}, {more}, {rows}, cols, pitch)"
    return f"ReduceRows<{instr.api}Fold, {in_place}>({tensors}, {rows}, cols, pitch)"


def _vary(source: Buf, dst: Buf) -> str:
    if source.layout == dst.layout:
        return "kFull"
    return {Layout.ROW: "kRow", Layout.COLB: "kCol", Layout.ONEB: "kOne"}[source.layout]
