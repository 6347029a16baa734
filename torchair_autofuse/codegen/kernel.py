"""Prints a scheduled kernel as Ascend C: the kernel source and the header of its tiling data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchair_autofuse.codegen.names import CAPACITY, Names, camel
from torchair_autofuse.codegen.templates import render
from torchair_autofuse.codegen.vector import instructions
from torchair_autofuse.loop.ir import Param
from torchair_autofuse.schedule.pointwise import LANES, Schedule
from torchair_autofuse.schedule.program import Layout, Transfer
from torchair_autofuse.schedule.ub import QueueGroup


@dataclass(frozen=True)
class KernelText:
    """A generated kernel: ``entry`` is its function, ``fields`` the int64 tiling values in order."""

    entry: str
    kernel_cpp: str
    tiling_h: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class _Function:
    name: str
    args: str
    body: Sequence[str]
    comment: str = ""


def generate(schedule: Schedule, op_type: str, node_lines: Sequence[str]) -> KernelText:
    """The kernel of ``schedule``. ``node_lines``: what the header comment says of the GE nodes, one per line."""
    entry = schedule.kernel.name
    tiling = f"{camel(entry)}Tiling"
    writer = _Writer(schedule)
    gm = [p.name for p in schedule.kernel.params]
    context = {
        "op_type": op_type,
        "entry": entry,
        "cls": camel(entry),
        "tiling": tiling,
        "tiling_key": schedule.tiling_key,
        "node_count": len(node_lines),
        "node_lines": list(node_lines),
        "npu_arch": schedule.npu_arch,
        "lanes": LANES,
        "gm_args": ", ".join(f"GM_ADDR {n}" for n in gm),
        "gm_names": ", ".join(gm),
        "tile_text": writer.tile_text(),
        "ub_text": writer.ub_text(),
        "helpers": writer.helpers(),
        "tile_apis": writer.tile_apis(),
        "init": writer.init(),
        "process": writer.process(),
        "functions": writer.functions(),
        "members": writer.members(),
    }
    kernel_cpp = render("pointwise_kernel.cpp.j2", k=context)
    tiling_h = render("tiling.h.j2", entry=entry, tiling=tiling, fields=schedule.fields)
    return KernelText(entry, kernel_cpp, tiling_h, schedule.fields)


class _Writer:
    def __init__(self, schedule: Schedule) -> None:
        self.s = schedule
        self.p = schedule.program
        self.names = Names(schedule)
        self.flat = schedule.rows is None
        self.in_tile = [g for g in schedule.plan.queues if g.kind == "in" and not g.panel]
        self.in_panel = [g for g in schedule.plan.queues if g.kind == "in" and g.panel]
        self.out_tile = [g for g in schedule.plan.queues if g.kind == "out" and not g.panel]
        self.out_panel = [g for g in schedule.plan.queues if g.kind == "out" and g.panel]
        self.slots = [slot for slot in schedule.plan.slots if slot.queue < 0]
        self.load_of = {x.buf: x for x in self.p.loads}
        self.store_of = {x.buf: x for x in self.p.stores}

    # ---- header ---------------------------------------------------------------------------------------------

    def tile_text(self) -> str:
        if self.flat:
            size = self.s.cols.size if self.s.cols else 1
            return f"{size} elements in one run, t_.tile_cols at a time; every core has a run of t_.core_cols"
        assert self.s.rows and self.s.cols
        outer = "".join(f"{a.size} x " for a in self.s.outer)
        return f"{outer}{self.s.rows.size} rows x {self.s.cols.size} columns, t_.tile_rows x t_.tile_cols at a time"

    def ub_text(self) -> str:
        parts = []
        for layout, unit in (
            (Layout.FULL, "element"),
            (Layout.ROW, "column"),
            (Layout.COL, "row"),
            (Layout.COLB, "row, spread"),
        ):
            scratch = self.p.scratch if layout == Layout.FULL else 0
            total = self.s.plan.bytes_per_element(layout, scratch)
            if total:
                parts.append(f"{total} bytes per {unit}")
        return ", ".join(parts) or "scalars only"

    def helpers(self) -> list[str]:
        instrs = (*self.p.panel, *self.p.tile)
        forms = {i.form for i in instrs}
        found = ["round"]
        full_in = any(self._layout(x) == Layout.FULL for x in self.p.loads)
        full_out = any(self._layout(x) == Layout.FULL for x in self.p.stores)
        found += ["load_rows"] if full_in and not self.flat else []
        found += ["store_rows"] if full_out and not self.flat else []
        found += ["vary"] if forms & {"tile", "expand"} else []
        found += ["spread"] if "brcb" in forms else []
        found += ["binary_op", "tile_binary"] if "tile" in forms else []
        found += ["tile_expand"] if "expand" in forms else []
        return found

    def tile_apis(self) -> list[str]:
        return sorted({i.api for i in (*self.p.panel, *self.p.tile) if i.form == "tile"})

    def _layout(self, transfer: Transfer) -> Layout:
        return self.p.bufs[transfer.buf].layout

    # ---- members ----------------------------------------------------------------------------------------------

    def _queue(self, group: QueueGroup) -> str:
        if len(group.bufs) == 1:
            return f"{self.names.param(group.bufs[0])}Queue_"
        same = [g for g in self.s.plan.queues if g.kind == group.kind and g.panel == group.panel]
        return f"{group.kind}{'Panel' if group.panel else ''}Queue{same.index(group)}_"

    def _group_bytes(self, group: QueueGroup, until: int | None = None) -> str:
        total: dict[str, int] = {}
        for b in group.bufs[:until]:
            buf = self.p.bufs[b]
            total[CAPACITY[buf.layout]] = total.get(CAPACITY[buf.layout], 0) + buf.itemsize
        return " + ".join(f"{c} * {n}" for c, n in total.items()) or "0"

    def members(self) -> list[str]:
        lines = []
        for param in self.s.kernel.params:
            if self._used(param):
                lines.append(f"GlobalTensor<{param.dtype.cpp}> {param.name}Gm_;")
        for group in self.s.plan.queues:
            position = "TPosition::VECIN" if group.kind == "in" else "TPosition::VECOUT"
            lines.append(f"TQue<{position}, 1> {self._queue(group)};")
        for slot in self.slots:
            lines.append(f"TBuf<TPosition::VECCALC> {self._slot(slot.id)}Buf_;")
        if self.p.scratch:
            lines.append("TBuf<TPosition::VECCALC> scratchBuf_;")
        for group in (*self.in_panel, *self.out_panel):
            for b in group.bufs:
                lines.append(f"LocalTensor<{self.p.bufs[b].cpp}> {self.names.param(b)}_;")
            if len(group.bufs) > 1:
                lines.append(f"LocalTensor<uint8_t> {self._group_tensor(group)}_;")
        lines += [f"int64_t o{i}_ = 0;" for i in range(len(self.s.outer))]
        return lines

    def _group_tensor(self, group: QueueGroup) -> str:
        return self._queue(group).replace("Queue", "Group").rstrip("_")

    def _used(self, param: Param) -> bool:
        return any(x.param == param.name for x in (*self.p.loads, *self.p.stores))

    def _slot(self, slot: int) -> str:
        return f"{'p' if self.s.plan.slots[slot].panel else 't'}{slot}"

    def init(self) -> list[str]:
        lines = []
        for param in self.s.kernel.params:
            if self._used(param):
                lines.append(f"{param.name}Gm_.SetGlobalBuffer((__gm__ {param.dtype.cpp}*){param.name});")
        for group in self.s.plan.queues:
            lines.append(f"pipe_->InitBuffer({self._queue(group)}, {group.num}, {self._group_bytes(group)});")
        for slot in self.slots:
            capacity = CAPACITY[slot.layout]
            size = capacity if slot.layout in (Layout.COLB, Layout.ONEB) else f"{capacity} * {slot.itemsize}"
            lines.append(f"pipe_->InitBuffer({self._slot(slot.id)}Buf_, {size});")
        if self.p.scratch:
            lines.append(f"pipe_->InitBuffer(scratchBuf_, {self._scratch_size()});")
        return lines

    def _scratch_size(self) -> str:
        lanes = f"{self.p.scratch} * kLanes + 512"
        return f"t_.cap_full * {self.p.scratch} + {lanes}"

    # ---- control ----------------------------------------------------------------------------------------------

    def process(self) -> list[str]:
        tile = ["CopyIn({});"] if self.in_tile else []
        tile += ["Compute({});"] if self.p.tile or self.out_tile else []
        tile += ["CopyOut({});"] if self.out_tile else []
        if self.flat:
            return self._process_flat(
                [x.format("col, cols") if "In" in x or "Out" in x else x.format("cols") for x in tile]
            )
        return self._process_rows(tile)

    def _process_flat(self, tile: list[str]) -> list[str]:
        panel = bool(self.p.panel or self.in_panel)
        lines = [
            "const int64_t begin = GetBlockIdx() * t_.core_cols;",
            "const int64_t end = Lesser(begin + t_.core_cols, t_.total);",
        ]
        if panel:
            lines += ["if (begin >= end) {", "    return;", "}", "LoadPanel();"]
        if tile:
            lines += [
                "for (int64_t col = begin; col < end; col += t_.tile_cols) {",
                "    const uint32_t cols = Lesser(t_.tile_cols, end - col);",
                *(f"    {x}" for x in tile),
                "}",
            ]
        if panel and (self.in_panel or self.out_panel):
            lines.append("FreePanel();")
        return lines

    def _process_rows(self, tile: list[str]) -> list[str]:
        assert self.s.rows is not None
        align = self.s.align
        size = self.names.size(self.s.rows.size)
        panel = bool(self.p.panel or self.in_panel)
        by_panel = bool(self.s.outer)
        lines = [
            "const int64_t rowBegin = GetBlockIdx() / t_.col_cores * t_.core_rows;",
            "const int64_t rowEnd = Lesser(rowBegin + t_.core_rows, t_.total_rows);",
            "const int64_t colBegin = GetBlockIdx() % t_.col_cores * t_.core_cols;",
            "const int64_t colEnd = Lesser(colBegin + t_.core_cols, t_.total_cols);",
            "if (rowBegin >= rowEnd) {",
            "    return;",
            "}",
            "for (int64_t col = colBegin; col < colEnd; col += t_.tile_cols) {",
            "    const uint32_t cols = Lesser(t_.tile_cols, colEnd - col);",
            f"    const uint32_t pitch = RoundUp(cols, {align});",
        ]
        args = {"CopyIn": "r, col, rows, cols, pitch", "Compute": "rows, pitch", "CopyOut": "r, col, rows, cols, pitch"}
        calls = [x.format(args[x.split("(")[0]]) for x in tile]
        body = ["LoadPanel({}col, cols, pitch);".format("r, ")] if panel else []
        body += [
            "for (int64_t rows = 0; r < panelEnd; r += rows) {",
            "    rows = Lesser(t_.tile_rows, panelEnd - r);",
            *(f"    {x}" for x in calls),
            "}",
        ]
        body += ["FreePanel();"] if panel and (self.in_panel or self.out_panel) else []
        if by_panel:
            inner = [
                "for (int64_t row = rowBegin; row < rowEnd;) {  // a panel: rows that share the outer indices",
                f"    int64_t r = row % {size};",
                f"    const int64_t panelEnd = Lesser({size}, r + rowEnd - row);",
                f"    SetOuter(row / {size});",
                "    row += panelEnd - r;",
                *(f"    {x}" for x in body),
                "}",
            ]
        else:
            inner = ["int64_t r = rowBegin;", "const int64_t panelEnd = rowEnd;", *body]
        return [*lines, *(f"    {x}" for x in inner), "}"]

    # ---- functions --------------------------------------------------------------------------------------------

    def functions(self) -> list[_Function]:
        found = []
        if self.s.outer:
            found.append(_Function("SetOuter", "int64_t outer", self._set_outer()))
        if self.p.panel or self.in_panel:
            args = "" if self.flat else "int64_t r, int64_t col, uint32_t cols, uint32_t pitch"
            found.append(_Function("LoadPanel", args, self._load_panel(), "What all tiles of a panel share."))
            if self.in_panel or self.out_panel:
                found.append(_Function("FreePanel", "", self._free_panel()))
        tile_args = (
            "int64_t col, uint32_t cols"
            if self.flat
            else "int64_t r, int64_t col, uint32_t rows, uint32_t cols, uint32_t pitch"
        )
        if self.in_tile:
            found.append(_Function("CopyIn", tile_args, self._copy_in(self.in_tile)))
        if self.p.tile or self.out_tile:
            found.append(
                _Function("Compute", "uint32_t cols" if self.flat else "uint32_t rows, uint32_t pitch", self._compute())
            )
        if self.out_tile:
            found.append(_Function("CopyOut", tile_args, self._copy_out(self.out_tile)))
        return found

    def _set_outer(self) -> list[str]:
        lines = []
        for i in reversed(range(len(self.s.outer))):
            size = self.names.size(self.s.outer[i].size)
            lines.append(f"o{i}_ = outer % {size};" if i else f"o{i}_ = outer;")
            if i:
                lines.append(f"outer /= {size};")
        return lines

    def _split(self, group: QueueGroup, tensor: str, *, declare: bool) -> list[str]:
        """Names for the buffers of a group inside its one allocation."""
        lines = []
        for k, b in enumerate(group.bufs):
            cpp, name = self.p.bufs[b].cpp, self.names.param(b)
            part = f"{tensor}[{self._group_bytes(group, k)}].ReinterpretCast<{cpp}>()"
            lines.append(f"LocalTensor<{cpp}> {name} = {part};" if declare else f"{name}_ = {part};")
        return lines

    def _copy_in(self, groups: Sequence[QueueGroup]) -> list[str]:
        lines = []
        for group in groups:
            queue = self._queue(group)
            if len(group.bufs) == 1:
                b = group.bufs[0]
                cpp = self.p.bufs[b].cpp
                lines.append(f"LocalTensor<{cpp}> {self.names.param(b)} = {queue}.AllocTensor<{cpp}>();")
                token = self.names.param(b)
            else:
                token = self._group_tensor(group)
                lines.append(f"LocalTensor<uint8_t> {token} = {queue}.AllocTensor<uint8_t>();")
                lines += self._split(group, token, declare=True)
            lines += [self._load(b) for b in group.bufs]
            lines.append(f"{queue}.EnQue({token});")
        return lines

    def _load(self, b: int) -> str:
        x, buf = self.load_of[b], self.p.bufs[b]
        source = f"{x.param}Gm_[{self.names.offset(x)}]"
        name = self.names.param(b)
        if buf.layout == Layout.FULL and not self.flat:
            return f"LoadRows({name}, {source}, rows, cols, pitch, {self.names.row_stride(x)});"
        count = {Layout.FULL: "cols", Layout.ROW: "cols", Layout.COL: "rows", Layout.ONE: "1"}[buf.layout]
        params = f"DataCopyExtParams(1, {count} * sizeof({buf.cpp}), 0, 0, 0)"
        return f"DataCopyPad({name}, {source}, {params}, DataCopyPadExtParams<{buf.cpp}>{{false, 0, 0, 0}});"

    def _store(self, b: int) -> list[str]:
        x, buf = self.store_of[b], self.p.bufs[b]
        target = f"{x.param}Gm_[{self.names.offset(x)}]"
        name = self.names.param(b)
        if buf.layout == Layout.FULL and not self.flat:
            return [f"StoreRows({target}, {name}, rows, cols, pitch, {self.names.row_stride(x)});"]
        count = {Layout.FULL: "cols", Layout.ROW: "cols", Layout.COL: "rows", Layout.ONE: "1"}[buf.layout]
        copy = f"DataCopyPad({target}, {name}, DataCopyExtParams(1, {count} * sizeof({buf.cpp}), 0, 0, 0));"
        owner = self._owner(x, buf.layout)
        return [f"if ({owner}) {{", f"    {copy}", "}"] if owner else [copy]

    def _owner(self, transfer: Transfer, layout: Layout) -> str:
        """Condition under which this core and tile store a value that others compute too."""
        if self.flat:
            return "GetBlockIdx() == 0" if layout == Layout.ONE else ""
        strides = dict(transfer.strides)
        terms = []
        if layout in (Layout.COL, Layout.ONE):
            terms.append("col == 0")
        if layout in (Layout.ROW, Layout.ONE):
            terms.append("r == 0")
            terms += [f"o{i}_ == 0" for i, a in enumerate(self.s.outer) if a.name not in strides]
        elif layout == Layout.COL:
            terms += [f"o{i}_ == 0" for i, a in enumerate(self.s.outer) if a.name not in strides]
        return " && ".join(terms)

    def _load_panel(self) -> list[str]:
        lines = self._copy_in(self.in_panel)
        for group in self.in_panel:
            queue = self._queue(group)
            if len(group.bufs) == 1:
                b = group.bufs[0]
                lines.append(f"{self.names.param(b)}_ = {queue}.DeQue<{self.p.bufs[b].cpp}>();")
            else:
                token = f"{self._group_tensor(group)}_"
                lines.append(f"{token} = {queue}.DeQue<uint8_t>();")
                lines += self._split(group, token, declare=False)
        if not self.p.panel:
            return lines
        lines += self._counts(self.p.panel, tile=False)
        for group in self.out_panel:
            lines += self._alloc_out(group, member=True)
        lines += self._slot_tensors(panel=True)
        lines += instructions(self.names, self.p.panel, barrier_first=bool(self.slots))
        lines.append("PipeBarrier<PIPE_V>();")
        for group in self.out_panel:
            lines += self._store_panel(group)
        return lines

    def _store_panel(self, group: QueueGroup) -> list[str]:
        queue = self._queue(group)
        single = len(group.bufs) == 1
        token = f"{self.names.param(group.bufs[0])}_" if single else f"{self._group_tensor(group)}_"
        kind = self.p.bufs[group.bufs[0]].cpp if single else "uint8_t"
        lines = [f"{queue}.EnQue({token});", f"{token} = {queue}.DeQue<{kind}>();"]
        for b in group.bufs:
            lines += [line.replace(f" {self.names.param(b)},", f" {self.names.param(b)}_,") for line in self._store(b)]
        return lines

    def _alloc_out(self, group: QueueGroup, *, member: bool) -> list[str]:
        queue = self._queue(group)
        if len(group.bufs) == 1:
            b = group.bufs[0]
            cpp, name = self.p.bufs[b].cpp, self.names.param(b)
            left = f"{name}_" if member else f"LocalTensor<{cpp}> {name}"
            return [f"{left} = {queue}.AllocTensor<{cpp}>();"]
        token = self._group_tensor(group)
        left = f"{token}_" if member else f"LocalTensor<uint8_t> {token}"
        return [
            f"{left} = {queue}.AllocTensor<uint8_t>();",
            *self._split(group, f"{token}_" if member else token, declare=not member),
        ]

    def _free_panel(self) -> list[str]:
        lines = []
        for group in (*self.in_panel, *self.out_panel):
            token = self.names.param(group.bufs[0]) if len(group.bufs) == 1 else self._group_tensor(group)
            lines.append(f"{self._queue(group)}.FreeTensor({token}_);")
        return lines

    def _counts(self, instrs: Sequence[object], *, tile: bool) -> list[str]:
        text = " ".join(instructions(self.names, instrs, barrier_first=False))  # type: ignore[arg-type]
        lines = []
        if self.flat and tile:
            lines.append("const uint32_t full = RoundUp(cols, kLanes);")
        elif tile:
            if " full" in text:
                lines.append("const uint32_t full = RoundUp(rows * pitch, kLanes);")
            if " col)" in text or " col " in text:
                lines.append("const uint32_t col = RoundUp(rows, kLanes);")
        elif not self.flat and " row" in text:
            lines.append("const uint32_t row = RoundUp(pitch, kLanes);")
        return lines

    def _slot_tensors(self, *, panel: bool) -> list[str]:
        lines = []
        plan = self.s.plan
        instrs = self.p.panel if panel else self.p.tile
        touched = {plan.place[b] for i in instrs for b in (i.dst, *i.srcs)}
        for slot in self.slots:
            if slot.id not in touched:
                continue
            buf = next(b for b in self.p.bufs if plan.place[b.id] == slot.id)
            cpp = self.names.place_type(buf.id)
            lines.append(f"LocalTensor<{cpp}> {self._slot(slot.id)} = {self._slot(slot.id)}Buf_.Get<{cpp}>();")
        if any(i.scratch for i in instrs):
            lines.append("LocalTensor<uint8_t> scratch = scratchBuf_.Get<uint8_t>();")
        return lines

    def _compute(self) -> list[str]:
        lines = self._counts(self.p.tile, tile=True)
        for group in self.in_tile:
            queue = self._queue(group)
            if len(group.bufs) == 1:
                b = group.bufs[0]
                cpp = self.p.bufs[b].cpp
                lines.append(f"LocalTensor<{cpp}> {self.names.param(b)} = {queue}.DeQue<{cpp}>();")
            else:
                token = self._group_tensor(group)
                lines.append(f"LocalTensor<uint8_t> {token} = {queue}.DeQue<uint8_t>();")
                lines += self._split(group, token, declare=True)
        for group in self.out_tile:
            lines += self._alloc_out(group, member=False)
        lines += self._slot_tensors(panel=False)
        lines += instructions(self.names, self.p.tile, barrier_first=bool(self.slots))
        for group in self.out_tile:
            token = self.names.param(group.bufs[0]) if len(group.bufs) == 1 else self._group_tensor(group)
            lines.append(f"{self._queue(group)}.EnQue({token});")
        for group in self.in_tile:
            token = self.names.param(group.bufs[0]) if len(group.bufs) == 1 else self._group_tensor(group)
            lines.append(f"{self._queue(group)}.FreeTensor({token});")
        return lines

    def _copy_out(self, groups: Sequence[QueueGroup]) -> list[str]:
        lines = []
        for group in groups:
            queue = self._queue(group)
            if len(group.bufs) == 1:
                b = group.bufs[0]
                token, cpp = self.names.param(b), self.p.bufs[b].cpp
                lines.append(f"LocalTensor<{cpp}> {token} = {queue}.DeQue<{cpp}>();")
            else:
                token = self._group_tensor(group)
                lines.append(f"LocalTensor<uint8_t> {token} = {queue}.DeQue<uint8_t>();")
                lines += self._split(group, token, declare=True)
            for b in group.bufs:
                lines += self._store(b)
            lines.append(f"{queue}.FreeTensor({token});")
        return lines
