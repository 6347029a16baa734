"""Prints what picks elements out of lanes or puts them side by side, and the tables of offsets for it."""

from __future__ import annotations

from torchair_autofuse.codegen.names import CAPACITY, COUNT, Names
from torchair_autofuse.schedule.program import Instr, Layout, Table


def call(names: Names, instr: Instr) -> str:
    """An instruction on lanes without its semicolon."""
    if instr.form == "transpose":
        return _transpose(names, instr)
    bufs = names.schedule.program.bufs
    dst, count = bufs[instr.dst], COUNT[bufs[instr.dst].layout]
    tensors = ", ".join(names.tensor(b) for b in (instr.dst, *instr.srcs))
    if instr.table is None:
        return f"PickLanes({tensors}, {instr.scalars[0]}, {count} * {bufs[instr.srcs[0]].width})"
    table = f"table{names.schedule.plan.tables.index(instr.table)}_"
    width = instr.table.width
    if instr.form == "interleave":
        target, work, *sources = (names.tensor(b) for b in (instr.dst, instr.work, *instr.srcs))
        more = f"{CAPACITY[dst.layout]}, {count}, {', '.join(sources)}"
        return f"Interleave<{width}, {instr.table.entries}>({target}, {work}, {table}, {more})"
    if instr.table.back:
        tile = dst.layout == Layout.FULL and names.schedule.rows is not None
        rows, pitch = ("rows", "pitch") if tile else ("1", names.pitch(dst))
        return f"GatherBack<{width}>({tensors}, {table}, {instr.scalars[0]}, {rows}, {pitch})"
    return f"GatherLanes<{width}>({tensors}, {table}, {instr.scalars[0]}, {count})"


def _transpose(names: Names, instr: Instr) -> str:
    assert instr.table is not None
    width, table = instr.table.width, f"table{names.schedule.plan.tables.index(instr.table)}_"
    dst, src = (names.tensor(b, instr.view) for b in (instr.dst, *instr.srcs))
    if instr.table.layout is None:
        return f"LanesToRows<{width}>({dst}, {src}, {table}, rows, pitch)"
    work = names.tensor(instr.work, instr.view)
    more = f"{work}, {table}, {CAPACITY[instr.table.layout]}, pitch"
    return f"RowsToLanes<{width}, {instr.table.entries}>({dst}, {src}, {more})"


def members(tables: tuple[Table, ...]) -> list[str]:
    """Declarations of the tables, by number."""
    return [
        line
        for i in range(len(tables))
        for line in (f"TBuf<TPosition::VECCALC> table{i}Buf_;", f"LocalTensor<uint32_t> table{i}_;")
    ]


def init(tables: tuple[Table, ...]) -> list[str]:
    """Statements that make the tables."""
    lines = []
    for i, table in enumerate(tables):
        lines += [
            f"pipe_->InitBuffer(table{i}Buf_, {table.bytes});",
            f"table{i}_ = table{i}Buf_.Get<uint32_t>();",
        ]
        if table.layout is None:
            step = table.width * table.element
            first, step = ((table.entries - 1) * step, -step) if table.back else (0, step)
            lines.append(f"MakeOffsets(table{i}_, {first}, {step}, {table.entries});")
        else:
            pitch = f"{CAPACITY[table.layout]} * {table.element}"
            lines.append(f"MakeInterleaving<{table.width}, {table.entries}>(table{i}_, {pitch}, {table.element});")
    return lines
