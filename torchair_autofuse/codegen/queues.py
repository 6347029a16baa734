"""Prints what moves through the queues: allocation, GM copies, EnQue and DeQue, and the names of tensors in a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchair_autofuse.codegen.names import CAPACITY, Names
from torchair_autofuse.schedule.program import Buf, Layout, Transfer
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.ub import QueueGroup

_RUN = {Layout.FULL: "cols", Layout.ROW: "cols", Layout.COL: "rows", Layout.ONE: "1", Layout.TURNED: "rows"}


class Queues:
    """The queue groups of a schedule. Tensors of segments that run once are members, those of loops are local."""

    def __init__(self, schedule: Schedule, names: Names) -> None:
        self._s, self._names = schedule, names
        self._bufs = schedule.program.bufs
        self._load_of = {x.buf: x for x in schedule.program.loads}
        self._store_of = {x.buf: x for x in schedule.program.stores}

    def groups(self, kind: str, segment: int) -> list[QueueGroup]:
        """The groups that a segment fills ("in": loads, "out": stores)."""
        return [g for g in self._s.plan.queues if g.kind == kind and g.segment == segment]

    def _stays(self, group: QueueGroup) -> bool:
        return self._names.stays(group.bufs[0])

    # ---- names --------------------------------------------------------------------------------------------------

    def queue(self, group: QueueGroup) -> str:
        """Member name of the TQue of a group."""
        if group.shares >= 0:
            return self.queue(self._s.plan.queues[group.shares])
        if len(group.bufs) == 1:
            name = self._names.param(group.bufs[0])
            alike = (g for g in self._s.plan.queues if len(g.bufs) == 1 and g.shares < 0)
            first = next(g for g in alike if self._names.param(g.bufs[0]) == name)
            segment = "" if first == group else self._s.program.segments[group.segment].name.capitalize()
            return f"{name}{segment}Queue_"  # a part of a tensor that several segments load: a queue for each
        index = self.groups(group.kind, group.segment).index(group)
        return f"{group.kind}{self._s.program.segments[group.segment].name.capitalize()}Queue{index}_"

    def token(self, group: QueueGroup) -> str:
        """Name of the LocalTensor that is allocated: the buffer itself, or the bytes that a group shares."""
        if len(group.bufs) == 1:
            return self._names.queue_tensor(group.bufs[0])
        name = self.queue(group).replace("Queue", "Group").rstrip("_")
        return f"{name}_" if self._stays(group) else name

    def element(self, group: QueueGroup) -> str:
        """Element type that a group is allocated in."""
        return self._bufs[group.bufs[0]].cpp if len(group.bufs) == 1 else "uint8_t"

    def size(self, group: QueueGroup, until: int | None = None) -> str:
        """Bytes of a group, or of its first ``until`` buffers."""
        total: dict[str, int] = {}
        for b in group.bufs[:until]:
            capacity = CAPACITY[self._bufs[b].layout]
            total[capacity] = total.get(capacity, 0) + self._bufs[b].itemsize
        return " + ".join(f"{capacity} * {n}" for capacity, n in total.items()) or "0"

    def members(self) -> list[str]:
        """Declarations: every queue, and the tensors that stay for a whole panel."""
        lines = []
        for group in (g for g in self._s.plan.queues if g.shares < 0):
            position = "TPosition::VECIN" if group.kind == "in" else "TPosition::VECOUT"
            lines.append(f"TQue<{position}, 1> {self.queue(group)};")
        for group in filter(self._stays, self._s.plan.queues):
            lines += [f"LocalTensor<{self._bufs[b].cpp}> {self._names.queue_tensor(b)};" for b in group.bufs]
            if len(group.bufs) > 1:
                lines.append(f"LocalTensor<uint8_t> {self.token(group)};")
        return lines

    def init(self) -> list[str]:
        num = "t_.buffers" if "buffers" in self._s.fields else "2"
        return [
            f"pipe_->InitBuffer({self.queue(g)}, {num if g.num == 2 else 1}, {self.size(g)});"
            for g in self._s.plan.queues
            if g.shares < 0
        ]

    # ---- queue operations ---------------------------------------------------------------------------------------

    def take(self, groups: Iterable[QueueGroup], call: str) -> list[str]:
        """AllocTensor or DeQue of each group, and names for the buffers of shared ones."""
        lines = []
        for group in groups:
            token, element = self.token(group), self.element(group)
            left = token if self._stays(group) else f"LocalTensor<{element}> {token}"
            lines.append(f"{left} = {self.queue(group)}.{call}<{element}>();")
            if len(group.bufs) > 1:
                lines += self._split(group, token)
        return lines

    def _split(self, group: QueueGroup, tensor: str) -> list[str]:
        lines = []
        for k, b in enumerate(group.bufs):
            cpp, name = self._bufs[b].cpp, self._names.queue_tensor(b)
            part = f"{tensor}[{self.size(group, k)}].ReinterpretCast<{cpp}>()"
            lines.append(f"{name} = {part};" if self._stays(group) else f"LocalTensor<{cpp}> {name} = {part};")
        return lines

    def enqueue(self, groups: Iterable[QueueGroup]) -> list[str]:
        return [f"{self.queue(g)}.EnQue({self.token(g)});" for g in groups]

    def free(self, groups: Iterable[QueueGroup]) -> list[str]:
        return [f"{self.queue(g)}.FreeTensor({self.token(g)});" for g in groups]

    # ---- lookups ------------------------------------------------------------------------------------------------

    def indices(self, segment: int) -> list[str]:
        """The index buffers that the loads of a segment look up rows by; those that it fills are copied first."""
        loads = self._s.program.segments[segment].loads
        filled = [x for x in loads if self._bufs[x.buf].kind == "index"]
        used = dict.fromkeys([*(x.buf for x in filled), *(y.buf for x in loads for y in x.lookups)])
        lines = []
        for b in used:
            cpp, name = self._bufs[b].cpp, self._names.place(b)
            lines.append(f"const LocalTensor<{cpp}> {name} = {name}Buf_.Get<{cpp}>();")
        if not filled:
            return lines
        copies = [line for x in filled for line in self._load(x.buf)]
        return [*lines, "Follow<HardEvent::S_MTE2>(pipe_);", *copies, "Follow<HardEvent::MTE2_S>(pipe_);"]

    # ---- copies -------------------------------------------------------------------------------------------------

    def copy_in(self, groups: Iterable[QueueGroup]) -> list[str]:
        """Alloc, copy from GM, EnQue, one group after the other."""
        lines = []
        for group in groups:
            lines += self.take([group], "AllocTensor")
            for b in group.bufs:
                lines += self._load(b)
            lines += self.enqueue([group])
        return lines

    def copy_out(self, groups: Iterable[QueueGroup]) -> list[str]:
        """DeQue, copy to GM, free, one group after the other."""
        lines = []
        for group in groups:
            lines += self.take([group], "DeQue")
            for b in group.bufs:
                lines += self._store(b)
            lines += self.free([group])
        return lines

    def _load(self, b: int) -> list[str]:
        transfer, buf = self._load_of[b], self._bufs[b]
        name = self._names.place(b) if buf.kind == "index" else self._names.queue_tensor(b)
        run, tile = self._run(transfer), self._tile(buf)
        source = f"{transfer.param}Gm_[{self._names.offset(transfer)}]"
        by_row = self._s.program.by_row(transfer)
        if by_row:
            name, tile = f"{name}[row * {_times('pitch', buf.width)}]", False
        if transfer.back:
            lanes = _RUN[buf.layout]
            rows = "rows" if tile else "1"
            pitch = "pitch" if tile or by_row else self._names.pitch(buf)
            stride = self._names.row_stride(transfer) if tile else "0"
            source = f"{source[:-1]} - {_times(f'({lanes} - 1)', transfer.lanes)}]"
            start = _times(f"({pitch} - {lanes})", buf.width) if buf.width > 1 else f"{pitch} - {lanes}"
            copy = f"LoadBack({name}, {source}, {rows}, {run}, {_times(pitch, buf.width)}, {start}, {stride});"
        elif tile:
            copy = f"LoadRows({name}, {source}, {self._shape(transfer)}, {self._names.row_stride(transfer)});"
        else:
            params = f"DataCopyExtParams(1, {_factor(run)} * sizeof({buf.cpp}), 0, 0, 0)"
            copy = f"DataCopyPad({name}, {source}, {params}, DataCopyPadExtParams<{buf.cpp}>{{}});"
        lines = ["for (int64_t row = 0; row < rows; ++row) {", f"    {copy}", "}"] if by_row else [copy]
        return _when(self._filled(transfer), *lines)

    def _store(self, b: int) -> list[str]:
        """Copies one output buffer to GM; what several tiles or cores compute is stored once."""
        transfer, buf, tensor = self._store_of[b], self._bufs[b], self._names.queue_tensor(b)
        target, run = f"{transfer.param}Gm_[{self._names.offset(transfer)}]", self._run(transfer)
        conditions = self._filled(transfer) + self._owner(transfer, buf.layout)
        if self._tile(buf):
            copy = f"StoreRows({target}, {tensor}, {self._shape(transfer)}, {self._names.row_stride(transfer)});"
        else:
            params = f"DataCopyExtParams(1, {_factor(run)} * sizeof({buf.cpp}), 0, 0, 0)"
            copy = f"DataCopyPad({target}, {tensor}, {params});"
        return _when(conditions, copy)

    def _tile(self, buf: Buf) -> bool:
        """Whether a buffer holds rows of the tile, or columns."""
        return buf.layout in (Layout.FULL, Layout.TURNED) and self._s.rows is not None

    def _shape(self, transfer: Transfer) -> str:
        """Rows of a tile in UB, elements of one in GM, its pitch in UB; columns where the tile lies along the rows."""
        buf, run = self._bufs[transfer.buf], self._run(transfer)
        if buf.layout == Layout.TURNED:
            return f"cols, {run}, {self._names.turned_pitch}"
        return f"rows, {run}, {_times('pitch', buf.width)}"

    def _run(self, transfer: Transfer) -> str:
        """Elements of one run in GM: all lanes, the last one up to its last member."""
        layout = self._bufs[transfer.buf].layout
        if layout == Layout.ROW and self._s.rows is not None and self._s.rows.name in dict(transfer.strides):
            return f"(cols - 1) * {transfer.lanes} + rows"  # a lane per column, of which the tile has some rows
        short = transfer.lanes - transfer.span
        return _times(_RUN[layout], transfer.lanes) + (f" - {short}" if short else "")

    def _filled(self, transfer: Transfer) -> list[str]:
        """Conditions under which there is something to copy."""
        varies = {a for x in (transfer, *(self._load_of[x.buf] for x in transfer.lookups)) for a, _ in x.strides}
        return [f"t_.len_{a.name} > 0" for a in self._s.empty if a.name in varies]

    def _owner(self, transfer: Transfer, layout: Layout) -> list[str]:
        """Conditions under which this core and tile store, where others compute the same."""
        if self._s.rows is None:
            return ["GetBlockIdx() == 0"] if layout == Layout.ONE else []
        terms = ["col == 0"] if layout in (Layout.COL, Layout.ONE) else []
        terms += ["r == 0"] if layout in (Layout.ROW, Layout.ONE) else []
        after = self._s.program.segments[self._bufs[transfer.buf].segment + 1 :]
        if self._s.shared and layout != Layout.FULL and any(segment.loop for segment in after):
            terms.append("part_ == 0")  # later passes need the results on every core
        varies = dict(transfer.strides)
        return terms + [
            f"o{i}_ == 0"
            for i, a in enumerate(self._s.outer)
            if a.name not in self._s.streamed and a.name not in varies
        ]


def _times(count: str, factor: int) -> str:
    return count if factor == 1 else f"{count} * {factor}"


def _factor(text: str) -> str:
    """A count as a factor of a product."""
    return f"({text})" if " - " in text or " + " in text else text


def _when(conditions: Sequence[str], *copy: str) -> list[str]:
    lines = list(copy)
    return [f"if ({' && '.join(conditions)}) {{", *(f"    {x}" for x in lines), "}"] if conditions else lines
