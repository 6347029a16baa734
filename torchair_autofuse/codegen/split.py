"""Prints the control flow of kernels whose cores share blocks of kept work and exchange results through workspace."""

from __future__ import annotations

from collections.abc import Sequence

from torchair_autofuse.codegen.control import outer_indices
from torchair_autofuse.codegen.names import CAPACITY, Names
from torchair_autofuse.schedule.program import Instr, Layout, Segment
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.split import PART_LANES, results
from torchair_autofuse.schedule.stream_select import LOWEST

MEMBERS = (
    "GlobalTensor<float> workspaceGm_;",
    "TQue<TPosition::VECIN, 1> workspaceInQueue_;",
    "TQue<TPosition::VECOUT, 1> workspaceOutQueue_;",
    "int64_t part_ = 0;   // this core's place among those of its block",
    "int64_t turn_ = 0;   // of two areas of workspace: one is filled while the other may still be read",
    "int64_t slots_ = 0;  // where the parts of the block start",
)
_ONE_BLOCK = ["const int64_t col = 0;", "const uint32_t cols = 1;"]


def context(schedules: Sequence[Schedule]) -> dict[str, object]:
    """What the templates need of the exchange, for all variants of a kernel."""
    shared = [s for s in schedules if s.shared]
    return {
        "kernel_type": "MIX_AIV_1_0" if shared else "AIV_ONLY",  # what SyncAll asks for
        "part_lanes": PART_LANES,
        "lowest": LOWEST,
        "receives_exp": any(i.form == "receive" and i.srcs for s in shared for i in s.program.instrs),
    }


def by_rows(schedule: Schedule) -> bool:
    """Whether rows are kept, and columns streamed."""
    return schedule.cols is not None and schedule.cols.name in schedule.streamed


def init(schedule: Schedule) -> list[str]:
    """The exchange's part of Init."""
    capacity = CAPACITY[Layout.COL if by_rows(schedule) else Layout.ROW]
    return [
        "workspaceGm_.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));",
        "pipe_->InitBuffer(workspaceInQueue_, 2, kPartLanes * 4);",
        f"pipe_->InitBuffer(workspaceOutQueue_, 1, {capacity} * 4);",
    ]


def call(names: Names, instr: Instr) -> str:
    """A "send" or "receive" instruction without its semicolon."""
    count = "rows" if by_rows(names.schedule) else "cols"
    if instr.form == "send":
        slot = f"workspaceGm_[slots_ + ({instr.scalars[0]} * t_.parts + part_) * t_.slot]"
        source = names.tensor(instr.srcs[0], "float")
        return f"SendPart({slot}, {source}, workspaceOutQueue_, {count})"
    slots = [f"workspaceGm_[slots_ + {n} * t_.parts * t_.slot]" for n in instr.scalars]
    tensors = [names.tensor(b) for b in (instr.dst, *instr.srcs)]
    function = "ReceiveExpParts" if instr.srcs else f"ReceiveParts<{instr.api}Fold>"
    return f"{function}({', '.join([*tensors, *slots])}, workspaceInQueue_, t_.parts, {count}, t_.slot)"


def process(schedule: Schedule, names: Names, calls: dict[str, str], set_outer: Sequence[str]) -> list[str]:
    """Body of Process. ``calls``: function name -> call; ``set_outer``: kept outer indices from ``unit``.

    All cores go through the same number of rounds and wait for each other in all of them.
    """
    group = ["const int64_t group = GetBlockIdx() / t_.parts;", "part_ = GetBlockIdx() % t_.parts;"]
    idle = ["SyncAll();"] * sum(s.name.startswith("send") for s in schedule.program.segments)
    if by_rows(schedule):
        assert schedule.rows is not None
        size = names.size(schedule.rows.size)
        head = [
            "int64_t unit = group * t_.core_units;",
            "const int64_t unitEnd = Lesser(unit + t_.core_units, t_.total_units);",
        ]
        busy = "unit < unitEnd"
        block = [
            f"const int64_t r = unit % {size};",
            f"const int64_t rows = Lesser(t_.tile_rows, Lesser({size} - r, unitEnd - unit));",
        ]
        step = ["unit += rows;"]
    else:
        head = [
            "const int64_t unitBegin = group / t_.col_cores * t_.core_units;",
            "const int64_t unitEnd = Lesser(unitBegin + t_.core_units, t_.total_units);",
            "const int64_t colBegin = group % t_.col_cores * t_.core_cols;",
            "const int64_t colEnd = Lesser(colBegin + t_.core_cols, t_.total_cols);",
        ]
        busy = "unit < unitEnd && col < colEnd"
        block = [
            "const uint32_t cols = Lesser(t_.tile_cols, colEnd - col);",
            f"const uint32_t pitch = RoundUp(cols, {schedule.align});",
        ]
        step = []
    at = [] if by_rows(schedule) else [
        "const int64_t unit = unitBegin + round / t_.col_tiles;",
        "const int64_t col = colBegin + round % t_.col_tiles * t_.tile_cols;",
    ]  # fmt: skip
    block += [*set_outer, "int64_t tile = 0;"]
    segments = schedule.program.segments
    for k, segment in enumerate(segments):
        block += _segment(schedule, names, segment, calls, last=not any(s.loop for s in segments[k:]))
    return [
        *group,
        "const int64_t begin = part_ * t_.core_stream;",
        "const int64_t end = Lesser(begin + t_.core_stream, t_.total_stream);",
        *head,
        "for (int64_t round = 0; round < t_.rounds; ++round) {",
        *_indent(at),
        f"    if (!({busy})) {{  // other blocks have more rounds",
        *_indent(_indent([*idle, "continue;"])),
        "    }",
        *_indent([*block, *step]),
        "}",
    ]


def _segment(schedule: Schedule, names: Names, segment: Segment, calls: dict[str, str], *, last: bool) -> list[str]:
    """``last``: only what one core of the block stores is left."""
    if segment.loop:
        return ["tile = 0;", *_pass(schedule, names, segment, calls)]
    name = segment.name.capitalize()
    if name not in calls:
        return []
    once = [*_ONE_BLOCK, f"const uint32_t pitch = {schedule.align};"]
    if not by_rows(schedule):
        once = ["const int64_t r = 0;", "const int64_t rows = 1;"]
    lines = [*once, calls[name]]
    if segment.name.startswith("send"):
        count = results(schedule.program)
        area = f"slots_ = (turn_ * t_.groups + group) * {count} * t_.parts * t_.slot;"
        return [area, "turn_ = 1 - turn_;", "{", *_indent(lines), "}", "SyncAll();"]
    return ["if (part_ == 0) {" if last else "{", *_indent(lines), "}"]


def _pass(schedule: Schedule, names: Names, segment: Segment, calls: dict[str, str]) -> list[str]:
    """The tiles of this core's range of the stream."""
    number = segment.name.removeprefix("pass")
    body = [calls[f"{f}{number}"] for f in ("CopyIn", "Compute", "CopyOut") if f"{f}{number}" in calls]
    assert schedule.rows is not None and schedule.cols is not None
    at, count, kind, axis = ("col", "cols", "uint32_t", schedule.cols)
    if not by_rows(schedule):
        at, count, kind, axis = ("r", "rows", "int64_t", schedule.rows)
    pitch = [f"const uint32_t pitch = RoundUp(cols, {schedule.align});"] if by_rows(schedule) else []
    around = [(i, a) for i, a in enumerate(schedule.outer) if a.name in schedule.streamed]
    if not around:
        return [
            f"for (int64_t {at} = begin; {at} < end; {at} += t_.tile_{count}) {{",
            *_indent([f"const {kind} {count} = Lesser(t_.tile_{count}, end - {at});", *pitch, *body, "++tile;"]),
            "}",
        ]
    size = names.size(axis.size)
    indices = [f"int64_t outer = position / {size};", *outer_indices(names, around)]
    lines = [
        f"const int64_t {at} = position % {size};",
        f"const {kind} {count} = Lesser(t_.tile_{count}, Lesser({size} - {at}, end - position));",
        *pitch,
        "{",
        *_indent(indices),
        "}",
        *body,
        "++tile;",
        f"position += {count};",
    ]
    return ["for (int64_t position = begin; position < end;) {", *_indent(lines), "}"]


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
