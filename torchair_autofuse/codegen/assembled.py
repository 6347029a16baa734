"""Prints the class of an assembled schedule: the rows of several parts put together in UB before they are stored."""

from __future__ import annotations

from torchair_autofuse.codegen.control import TILE_ARGS, Function
from torchair_autofuse.codegen.names import CAPACITY, Names
from torchair_autofuse.codegen.queues import Queues
from torchair_autofuse.codegen.vector import counts, instructions
from torchair_autofuse.loop.ir import Param
from torchair_autofuse.schedule.assembled import in_buffers, work_slots
from torchair_autofuse.schedule.program import Layout
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.ub import QueueGroup

_BITS = {2: "uint16_t", 4: "uint32_t"}  # what GatherMask takes its pattern as, by bytes of an element


class _SharedQueue(Queues):
    """All parts load through one queue."""

    def queue(self, group: QueueGroup) -> str:
        return "inQueue_"


HELPERS = ("round", "place_rows", "drop_pads", "pack_rows")
"""Helper templates that every such class calls."""


class Assembled:
    """The class of one assembled schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.s = schedule
        self._names = [Names(m) for m in schedule.members]
        places = {i.scalars[0] for m in schedule.members for i in m.program.instrs if i.form == "place"}
        self.outputs = [p for p in schedule.kernel.outputs if p.name in places]
        self._loads = any(in_buffers(m) for m in schedule.members)
        self._works = any(work_slots(m) or m.program.scratch for m in schedule.members)

    def used(self) -> list[Param]:
        """Arguments that it touches."""
        loaded = {x.param for m in self.s.members for x in m.program.loads}
        return [p for p in self.s.kernel.params if p.name in loaded or p in self.outputs]

    def tile_text(self) -> str:
        assert self.s.rows is not None
        return f"{self.s.rows.size} rows of {len(self.s.members)} parts put together, t_.tile_rows at a time"

    def ub_text(self) -> str:
        return "t_.in_bytes and t_.out_bytes twice, t_.work_bytes, and a tile of all parts per output"

    # ---- members --------------------------------------------------------------------------------------------------

    def members(self) -> list[str]:
        lines = [f"GlobalTensor<{p.dtype.cpp}> {p.name}Gm_;" for p in self.used()]
        lines += ["TQue<TPosition::VECIN, 1> inQueue_;"] if self._loads else []
        lines += ["TQue<TPosition::VECOUT, 1> outQueue_;"]
        lines += ["TBuf<TPosition::VECCALC> workBuf_;"] if self._works else []
        for y in self.outputs:
            lines += [
                f"TBuf<TPosition::VECCALC> {y.name}TileBuf_;",
                f"TBuf<TPosition::VECCALC> {y.name}KeepBuf_;",
                f"LocalTensor<{y.dtype.cpp}> {y.name}Tile_;  // rows of all parts, each from a 32-byte block on",
                f"LocalTensor<uint8_t> {y.name}Keep_;  // a bit per element of such a row: not a pad",
                f"uint32_t {y.name}Pitch_ = 0;",
            ]
        return lines

    def init(self) -> list[str]:
        lines = [f"{p.name}Gm_.SetGlobalBuffer((__gm__ {p.dtype.cpp}*){p.name});" for p in self.used()]
        lines += ["pipe_->InitBuffer(inQueue_, 2, t_.in_bytes);"] if self._loads else []
        lines += ["pipe_->InitBuffer(outQueue_, 2, t_.out_bytes);"]
        lines += ["pipe_->InitBuffer(workBuf_, t_.work_bytes);"] if self._works else []
        for y in self.outputs:
            lines += [
                f"pipe_->InitBuffer({y.name}TileBuf_, t_.{y.name}_tile);",
                f"pipe_->InitBuffer({y.name}KeepBuf_, t_.{y.name}_keep);",
                f"{y.name}Tile_ = {y.name}TileBuf_.Get<{y.dtype.cpp}>();",
                f"{y.name}Keep_ = {y.name}KeepBuf_.Get<uint8_t>();",
                f"{y.name}Pitch_ = t_.{y.name}_pitch;",
            ]
            keep = f"{y.name}Keep_.ReinterpretCast<uint16_t>()"
            lines.append(f"Duplicate({keep}, static_cast<uint16_t>(0xffff), t_.{y.name}_keep / 2);")
        lines += _ordered("V_S", "filled")
        for m in self.s.members:
            for output, at in (i.scalars for i in m.program.instrs if i.form == "place"):
                lanes = 32 // next(y.dtype.itemsize for y in self.outputs if y.name == output)
                lines.append(f"DropPads({output}Keep_, t_.{m.prefix}{at}, t_.{m.prefix}total_cols, {lanes});")
        return [*lines, *_ordered("S_V", "dropped")]

    # ---- functions ------------------------------------------------------------------------------------------------

    def process(self) -> list[str]:
        tile = []
        for k, m in enumerate(self.s.members):
            size = f"t_.{m.prefix}total_cols, t_.{m.prefix}pitch"
            calls = [f"CopyIn{k}(r, 0, rows, {size});"] if in_buffers(m) else []
            calls.append(f"Compute{k}(rows, {size});")
            empty = m.cols is not None and not isinstance(m.cols.size, int)
            tile += [f"if (t_.{m.prefix}total_cols > 0) {{", *(f"    {c}" for c in calls), "}"] if empty else calls
        return [
            "const int64_t rowBegin = GetBlockIdx() * t_.core_rows;",
            "const int64_t rowEnd = Lesser(rowBegin + t_.core_rows, t_.total_rows);",
            "for (int64_t r = rowBegin; r < rowEnd; r += t_.tile_rows) {",
            "    const uint32_t rows = Lesser(t_.tile_rows, rowEnd - r);",
            *(f"    {line}" for line in tile),
            *(f"    {line}" for line in self._stores()),
            "}",
        ]

    def _stores(self) -> list[str]:
        """Calls that store the tiles of all outputs; an output may have no columns where all its parts are symbolic."""
        lines = []
        for j, y in enumerate(self.outputs):
            calls = [f"Pack{j}(rows);", f"CopyOut{j}(r, rows);"]
            of = [
                m
                for m in self.s.members
                if any(i.scalars[:1] == (y.name,) for i in m.program.instrs if i.form == "place")
            ]
            filled = any(m.cols is None or isinstance(m.cols.size, int) for m in of)
            lines += calls if filled else [f"if (t_.{y.name}_cols > 0) {{", *(f"    {c}" for c in calls), "}"]
        return lines

    def functions(self) -> list[Function]:
        found = [f for k in range(len(self.s.members)) for f in self._member(k)]
        for j, y in enumerate(self.outputs):
            found.append(Function(f"Pack{j}", "uint32_t rows", self._pack(y)))
            found.append(Function(f"CopyOut{j}", "int64_t r, uint32_t rows", self._copy_out(y)))
        return found

    def _member(self, k: int) -> list[Function]:
        m, names = self.s.members[k], self._names[k]
        q = _SharedQueue(m, names)
        loads = q.groups("in", 1)
        calls = instructions(names, m.program.instrs, barrier_first=True)
        body = [*counts(names, calls), *q.take(loads, "DeQue"), *_working(m, names), *calls, *q.free(loads)]
        copy = [Function(f"CopyIn{k}", TILE_ARGS, q.copy_in(loads), prefix=m.prefix)] if loads else []
        return [*copy, Function(f"Compute{k}", "uint32_t rows, uint32_t cols, uint32_t pitch", body, prefix=m.prefix)]

    def _pack(self, y: Param) -> list[str]:
        return [
            "PipeBarrier<PIPE_V>();",
            f"LocalTensor<{y.dtype.cpp}> {y.name} = outQueue_.AllocTensor<{y.dtype.cpp}>();",
            f"PackRows<{_BITS[y.dtype.itemsize]}>({y.name}, {y.name}Tile_, {y.name}Keep_, rows, {y.name}Pitch_);",
            f"outQueue_.EnQue({y.name});",
        ]

    def _copy_out(self, y: Param) -> list[str]:
        size = f"static_cast<uint32_t>(rows * t_.{y.name}_cols * sizeof({y.dtype.cpp}))"
        return [
            f"LocalTensor<{y.dtype.cpp}> {y.name} = outQueue_.DeQue<{y.dtype.cpp}>();",
            f"DataCopyPad({y.name}Gm_[r * t_.{y.name}_cols], {y.name}, DataCopyExtParams(1, {size}, 0, 0, 0));",
            f"outQueue_.FreeTensor({y.name});",
        ]


def _ordered(event: str, name: str) -> list[str]:
    """The second pipe of an event waits for what the first one has been given so far."""
    return [
        f"const TEventID {name} = pipe_->FetchEventID(HardEvent::{event});",
        f"SetFlag<HardEvent::{event}>({name});",
        f"WaitFlag<HardEvent::{event}>({name});",
    ]


def _working(member: Schedule, names: Names) -> list[str]:
    """The places of working values, one after the other in the memory that all parts use for theirs."""
    lines, offset = [], ""
    for slot in work_slots(member):
        buf = member.plan.place.index(slot.id)
        cpp = names.place_type(buf)
        lines.append(f"LocalTensor<{cpp}> t{slot.id} = work{f'[{offset}]' if offset else ''}.ReinterpretCast<{cpp}>();")
        size = CAPACITY[slot.layout] + ("" if slot.layout in (Layout.COLB, Layout.ONEB) else f" * {slot.itemsize}")
        offset = f"{offset} + {size}" if offset else size
    if member.program.scratch:
        lines.append(f"LocalTensor<uint8_t> scratch = work{f'[{offset}]' if offset else ''};")
    return ["LocalTensor<uint8_t> work = workBuf_.Get<uint8_t>();", *lines] if lines else []
