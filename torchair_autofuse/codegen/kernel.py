"""Prints a scheduled kernel as Ascend C: the kernel source and the header of its tiling data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.codegen import control, lanes, passes, split
from torchair_autofuse.codegen.assembled import HELPERS as ASSEMBLED_HELPERS
from torchair_autofuse.codegen.assembled import Assembled
from torchair_autofuse.codegen.control import Function
from torchair_autofuse.codegen.names import CAPACITY, Names, camel
from torchair_autofuse.codegen.queues import Queues
from torchair_autofuse.codegen.templates import render
from torchair_autofuse.codegen.vector import counts, instructions
from torchair_autofuse.loop.ir import Param
from torchair_autofuse.schedule.program import LANES, TABLE_LANES, Instr, Layout
from torchair_autofuse.schedule.schedule import Schedule

_FIELD = re.compile(r"\bt_\.")
_CORE = re.compile(r"\bGetBlockIdx\(\)")


@dataclass(frozen=True)
class KernelText:
    """A generated kernel: ``entry`` is its function, ``fields`` the int64 tiling values in order."""

    entry: str
    kernel_cpp: str
    tiling_h: str
    fields: tuple[str, ...]


def node_line(kind: str, name: str) -> str:
    """What the header comment says of one GE node, on one line whatever its name is."""
    return "".join(c if c.isprintable() else "?" for c in f"{kind} ({name})")


def generate(schedule: Schedule, op_type: str, node_lines: Sequence[str]) -> KernelText:
    """The kernel of ``schedule``. ``node_lines``: what the header comment says of the GE nodes, one per line."""
    entry = schedule.kernel.name
    tiling = f"{camel(entry)}Tiling"
    writers = [_Writer(nest) for p in schedule.pieces for nest in p.nests]
    classes = [Assembled(p) if p.members else _Writer(p) for p in schedule.pieces]
    gm = [p.name for p in schedule.kernel.params]
    wanted = {name for w in writers for name in w.helpers()}
    wanted |= set(ASSEMBLED_HELPERS) if any(p.members for p in schedule.pieces) else set()
    context = {
        "op_type": op_type,
        "entry": entry,
        "tiling": tiling,
        "node_count": len(node_lines),
        "node_lines": list(node_lines),
        "npu_arch": schedule.npu_arch,
        "lanes": LANES,
        "table_lanes": TABLE_LANES,
        "gm_args": ", ".join(f"GM_ADDR {n}" for n in gm),
        "gm_names": ", ".join(gm),
        "helpers": [name for name in _HELPERS if name in wanted],
        "tile_apis": sorted({api for w in writers for api in w.apis("tile")}),
        "fold_apis": sorted({api for w in writers for form in _FOLDS for api in w.apis(form)}),
        **split.context([w.s for w in writers]),
        "parts": bool(schedule.parts),
        "variants": [
            _class(c, camel(entry) + _suffix(schedule, k), part=bool(schedule.parts)) for k, c in enumerate(classes)
        ],
    }
    kernel_cpp = render("kernel.cpp.j2", k=context)
    tiling_h = render("tiling.h.j2", entry=entry, tiling=tiling, fields=schedule.fields)
    return KernelText(entry, kernel_cpp, tiling_h, schedule.fields)


_SUFFIX = {
    "row_resident": "Resident", "column_resident": "Resident", "row_streaming": "Streaming",
    "column_streaming": "Streaming", "row_split": "Split", "column_split": "Split", "pointwise": "", "kept_rows": "",
}  # fmt: skip


def _suffix(schedule: Schedule, piece: int) -> str:
    """What the class of a piece has after the name of the kernel."""
    if schedule.parts:
        return f"Part{piece}"
    return _SUFFIX[schedule.variants[piece].template] if schedule.variants else ""


# helper templates in the order of their dependences
_HELPERS = (
    "round", "load_rows", "store_rows", "transpose", "vary", "spread", "binary_op", "tile_binary", "tile_expand",
    "fold_op", "reduce_rows", "reduce_compact", "reduce_down", "carry", "parts",
    "lookup", "load_back", "pick_lanes", "make_offsets", "gather_lanes", "gather_back", "interleave",
    "lanes_to_rows", "rows_to_lanes",
    "place_rows", "drop_pads", "pack_rows",
)  # fmt: skip
_TILES = {Layout.FULL, Layout.TURNED}
_FOLDS = ("reduce", "reduce_compact", "reduce_down", "receive")  # forms that fold halves


def _class(writer: Assembled | _Writer, name: str, *, part: bool) -> dict[str, object]:
    """What the template needs of one class; its tiling values have the prefix of its schedule.

    The cores of a part are counted from the one that begins it.
    """
    core = "core_" if part else "GetBlockIdx()"

    def own(lines: Sequence[str], more: str = "") -> list[str]:
        return [_CORE.sub(core, _FIELD.sub(f"t_.{writer.s.prefix}{more}", line)) for line in lines]

    return {
        "cls": name,
        "prefix": writer.s.prefix,
        "shared": writer.s.shared,
        "tiling_key": writer.s.tiling_key,
        "tile_text": own([writer.tile_text()])[0],
        "ub_text": own([writer.ub_text()])[0],
        "init": own(writer.init()),
        "process": own(writer.process()),
        "functions": [replace(f, body=own(f.body, f.prefix)) for f in writer.functions()],
        "members": own(writer.members()),
    }


class _Writer:
    def __init__(self, schedule: Schedule) -> None:
        self.s = schedule
        self.p = schedule.program
        self.names = Names(schedule)
        self.queues = Queues(schedule, self.names)
        self.flat = schedule.rows is None
        self.slots = [slot for slot in schedule.plan.slots if slot.queue < 0 and not slot.index]
        self.index_slots = [slot for slot in schedule.plan.slots if slot.index]
        panel = self.p.segments[0]
        self.has_panel = bool(panel.instrs or panel.loads)
        self.frees_panel = bool(self.queues.groups("in", 0))

    # ---- header ---------------------------------------------------------------------------------------------

    def tile_text(self) -> str:
        if self.flat:
            size = self.s.cols.size if self.s.cols else 1
            return f"{size} elements in one run, t_.tile_cols at a time; every core has a run of t_.core_cols"
        assert self.s.rows and self.s.cols
        outer = "".join(f"{a.size} x " for a in self.s.outer)
        return f"{outer}{self.s.rows.size} rows x {self.s.cols.size} columns, t_.tile_rows x t_.tile_cols at a time"

    def ub_text(self) -> str:
        units = {
            Layout.FULL: "element",
            Layout.TURNED: "transposed element",
            Layout.ROW: "column",
            Layout.COL: "row",
            Layout.COLB: "row, spread",
        }
        parts = []
        for layout, unit in units.items():
            scratch = self.p.scratch if layout == Layout.FULL else 0
            total = self.s.plan.bytes_per_element(layout, scratch)
            if total:
                parts.append(f"{total} bytes per {unit}")
        return ", ".join(parts) or "scalars only"

    def helpers(self) -> list[str]:
        """Names of the helper templates that the variant calls."""
        forms = {i.form for i in self.p.instrs}
        lanes = any(table.layout is None and not table.back for table in self.p.tables)
        layouts = {kind: {self.p.bufs[x.buf].layout for x in side} for kind, side in
                   (("in", self.p.loads), ("out", self.p.stores))}  # fmt: skip
        wanted = {
            "round": True,
            "load_rows": self.s.shared or (not self.flat and bool(_TILES & layouts["in"])),
            "store_rows": not self.flat and bool(_TILES & layouts["out"]),
            "transpose": any(i.form == "transpose" and i.table is None for i in self.p.instrs),
            "vary": bool(forms & {"tile", "expand"}),
            "spread": "brcb" in forms,
            "binary_op": "tile" in forms,
            "tile_binary": "tile" in forms,
            "tile_expand": "expand" in forms,
            "fold_op": bool(forms & set(_FOLDS)),
            "reduce_rows": bool(forms & {"reduce", "reduce_compact"}),
            "reduce_compact": "reduce_compact" in forms,
            "reduce_down": self.s.shared or "reduce_down" in forms,
            "carry": "carry" in forms,
            "parts": self.s.shared,
            "lookup": any(x.lookups for x in self.p.loads),
            "load_back": any(x.back for x in self.p.loads),
            "pick_lanes": any(i.form == "pick" and i.table is None for i in self.p.instrs),
            "make_offsets": any(table.layout is None for table in self.p.tables),
            "gather_lanes": lanes,
            "gather_back": any(table.back for table in self.p.tables),
            "interleave": any(table.layout is not None for table in self.p.tables),
            "lanes_to_rows": lanes and "transpose" in forms,
            "rows_to_lanes": any(i.form == "transpose" and i.work >= 0 for i in self.p.instrs),
        }
        return [name for name, needed in wanted.items() if needed]

    def apis(self, form: str) -> list[str]:
        """Ascend C names that instructions of a form are parametrised with."""
        return sorted({i.api for i in self.p.instrs if i.form == form})

    # ---- members ----------------------------------------------------------------------------------------------

    def members(self) -> list[str]:
        lines = [f"GlobalTensor<{p.dtype.cpp}> {p.name}Gm_;" for p in self._used()]
        lines += self.queues.members()
        lines += split.MEMBERS if self.s.shared else []
        lines += [f"TBuf<TPosition::VECIN> {self._slot(slot.id)}Buf_;" for slot in self.index_slots]
        lines += [f"TBuf<TPosition::VECCALC> {self._slot(slot.id)}Buf_;" for slot in self.slots]
        if self.p.scratch:
            lines.append("TBuf<TPosition::VECCALC> scratchBuf_;")
        lines += lanes.members(self.p.tables)
        return lines + [f"int64_t o{i}_ = 0;" for i in range(len(self.s.outer))]

    def _used(self) -> list[Param]:
        touched = {x.param for x in (*self.p.loads, *self.p.stores)}
        return [p for p in self.s.kernel.params if p.name in touched]

    def _slot(self, slot: int) -> str:
        return f"t{slot}"

    def init(self) -> list[str]:
        lines = [f"{p.name}Gm_.SetGlobalBuffer((__gm__ {p.dtype.cpp}*){p.name});" for p in self._used()]
        lines += self.queues.init()
        lines += split.init(self.s) if self.s.shared else []
        for slot in (*self.index_slots, *self.slots):
            capacity = CAPACITY[slot.layout]
            size = capacity if slot.layout in (Layout.COLB, Layout.ONEB) else f"{capacity} * {slot.itemsize}"
            lines.append(f"pipe_->InitBuffer({self._slot(slot.id)}Buf_, {size});")
        if self.p.scratch:
            size = f"{self.p.scratch} * kLanes + 512"  # what the smallest buffers need
            lines.append(f"pipe_->InitBuffer(scratchBuf_, t_.cap_full * {self.p.scratch} + {size});")
        return lines + lanes.init(self.p.tables)

    # ---- functions --------------------------------------------------------------------------------------------

    def process(self) -> list[str]:
        if self.s.streamed:
            return passes.process(self.s, self.names, self._passes())
        tile = ["CopyIn"] if self.queues.groups("in", 1) else []
        tile += ["Compute"] if self.p.segments[1].instrs or self.queues.groups("out", 1) else []
        tile += ["CopyOut"] if self.queues.groups("out", 1) else []
        return control.process(self.s, self.names, tile, panel=self.has_panel, free=self.frees_panel)

    def _passes(self) -> list[passes.PassFunction]:
        return passes.pass_functions(self.s, self.names, self.queues, self._slot_tensors)

    def functions(self) -> list[Function]:
        if self.s.streamed:
            return [Function(f.name, f.args, f.body) for f in self._passes()]
        found = []
        axes = list(enumerate(self.s.outer))
        around = len(axes) - len(self.s.inside)
        for name, some in (("SetOuter", axes[:around]), ("SetInside", axes[around:])):
            if some:
                found.append(Function(name, "int64_t outer", control.outer_indices(self.names, some)))
        if self.has_panel:
            args = "" if self.flat else "int64_t r, int64_t col, uint32_t cols, uint32_t pitch"
            args = control.TILE_ARGS if self.s.inside else args
            found.append(Function("LoadPanel", args, self._load_panel(), "What all tiles of a panel share."))
        if self.frees_panel:
            found.append(Function("FreePanel", "", self.queues.free(self.queues.groups("in", 0))))
        args = control.FLAT_ARGS if self.flat else control.TILE_ARGS
        loads, stores = self.queues.groups("in", 1), self.queues.groups("out", 1)
        if loads:
            found.append(Function("CopyIn", args, [*self.queues.indices(1), *self.queues.copy_in(loads)]))
        if self.p.segments[1].instrs or stores:
            compute_args = "uint32_t cols" if self.flat else "uint32_t rows, uint32_t cols, uint32_t pitch"
            found.append(Function("Compute", compute_args, self._compute()))
        if stores:
            found.append(Function("CopyOut", args, self.queues.copy_out(stores)))
        return found

    def _load_panel(self) -> list[str]:
        q, instrs = self.queues, self.p.segments[0].instrs
        loads, stores = q.groups("in", 0), q.groups("out", 0)
        lines = [*q.indices(0), *q.copy_in(loads), *q.take(loads, "DeQue")]
        if not instrs:
            return lines
        calls = instructions(self.names, instrs, barrier_first=bool(self.slots or self.p.scratch))
        lines += counts(self.names, calls)
        lines += q.take(stores, "AllocTensor")
        lines += [*self._slot_tensors(instrs), *calls, "PipeBarrier<PIPE_V>();"]
        return [*lines, *q.enqueue(stores), *q.copy_out(stores)]

    def _compute(self) -> list[str]:
        q, instrs = self.queues, self.p.segments[1].instrs
        loads, stores = q.groups("in", 1), q.groups("out", 1)
        calls = instructions(self.names, instrs, barrier_first=bool(self.slots or self.p.scratch))
        lines = ["const uint32_t fullCount = RoundUp(cols, kLanes);"] if self.flat else counts(self.names, calls)
        lines += [*q.take(loads, "DeQue"), *q.take(stores, "AllocTensor")]
        lines += [*self._slot_tensors(instrs), *calls]
        return [*lines, *q.enqueue(stores), *q.free(loads)]

    def _slot_tensors(self, instrs: Sequence[Instr]) -> list[str]:
        place = self.s.plan.place
        touched = {place[b] for i in instrs for b in (i.dst, i.work, *i.srcs, *i.updates) if b >= 0}
        lines = []
        for slot in self.slots:
            if slot.id in touched:
                buf = next(b for b in self.p.bufs if place[b.id] == slot.id)
                cpp, name = self.names.place_type(buf.id), self._slot(slot.id)
                lines.append(f"LocalTensor<{cpp}> {name} = {name}Buf_.Get<{cpp}>();")
        if any(i.scratch for i in instrs):
            lines.append("LocalTensor<uint8_t> scratch = scratchBuf_.Get<uint8_t>();")
        return lines
