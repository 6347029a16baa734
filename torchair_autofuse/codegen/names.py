"""C++ names in a generated kernel: places in UB, element counts, tiling fields, GM offsets."""

from __future__ import annotations

from dataclasses import dataclass

from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.schedule.program import Buf, Instr, Layout, Lookup, Transfer
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.sizes import size_text

COUNT = {
    Layout.FULL: "fullCount", Layout.ROW: "rowCount", Layout.COL: "colCount", Layout.ONE: "kLanes",
    Layout.TURNED: "turnedCount",
}  # fmt: skip
CAPACITY = {
    Layout.FULL: "t_.cap_full", Layout.ROW: "t_.cap_row", Layout.COL: "t_.cap_col", Layout.ONE: "kLanes",
    Layout.COLB: "t_.cap_colb * 32", Layout.ONEB: "256", Layout.TURNED: "t_.cap_full",
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """Names for one schedule."""

    schedule: Schedule

    def param(self, buf: int) -> str:
        """The kernel argument that a queue buffer belongs to; loads of one argument get a letter each."""
        s = self.schedule
        kind = s.program.bufs[buf].kind
        transfers = [x for x in (*s.program.loads, *s.program.stores) if s.program.bufs[x.buf].kind == kind]
        mine = next(x for x in transfers if x.buf == buf)
        same = list(dict.fromkeys((x.strides, x.offset, x.lookups) for x in transfers if x.param == mine.param))
        if len(same) == 1:
            return mine.param
        index = same.index((mine.strides, mine.offset, mine.lookups))
        return f"{mine.param}{chr(ord('a') + index)}" if len(same) <= 26 else f"{mine.param}_{index}"

    def queue_tensor(self, buf: int) -> str:
        """The LocalTensor of a queue buffer; a member where it stays for the tiles after its segment."""
        name = self.param(buf)
        return f"{name}_" if self.stays(buf) else name

    def stays(self, buf: int) -> bool:
        """Whether the segment that fills a buffer keeps it for those after it."""
        return self.schedule.program.segments[self.schedule.program.bufs[buf].segment].keeps

    def place(self, buf: int) -> str:
        """The LocalTensor that holds a buffer, before any change of type."""
        plan = self.schedule.plan
        slot = plan.slots[plan.place[buf]]
        if slot.queue >= 0:
            return self.queue_tensor(slot.queue)
        return f"t{slot.id}"

    def place_type(self, buf: int) -> str:
        """Element type the LocalTensor of a buffer's place is declared with."""
        plan = self.schedule.plan
        slot = plan.slots[plan.place[buf]]
        if slot.queue >= 0:
            return self.schedule.program.bufs[slot.queue].cpp
        users = [b for b in self.schedule.program.bufs if plan.place[b.id] == slot.id]
        return gm_type(users[0].cpp)

    def tensor(self, buf: int, view: str = "") -> str:
        """An expression for the buffer with its own element type, or ``view``."""
        wanted = view or gm_type(self.schedule.program.bufs[buf].cpp)
        name = self.place(buf)
        return name if self.place_type(buf) == wanted else f"{name}.ReinterpretCast<{wanted}>()"

    def size(self, e: Expr) -> str:
        """A size, stride or offset of the nest: a number, or the tiling field that holds it."""
        return size_text(self.schedule.nest, e)

    def offset(self, transfer: Transfer) -> str:
        """GM offset in elements of the current tile, from outer indices o0.., ``r`` (row in its panel) and ``col``."""
        s = self.schedule
        index = {a.name: f"o{i}_" for i, a in enumerate(s.outer)}
        if s.rows is not None:
            index[s.rows.name] = "r"
        if s.cols is not None:
            index[s.cols.name] = "col"
        terms = [] if transfer.offset == 0 else [self.size(transfer.offset)]
        for axis, stride in transfer.strides:
            name = index[axis]
            terms.append(name if stride == 1 else f"{name} * {self.size(stride)}")
        if s.program.by_row(transfer) and s.rows is not None and s.rows.name in dict(transfer.strides):
            terms.append(f"row * {self.row_stride(transfer)}")
        return " + ".join([*terms, *(self._looked_up(x) for x in transfer.lookups)]) or "0"

    def _looked_up(self, lookup: Lookup) -> str:
        """Where a looked-up row starts: of ``row`` in the tile, or of all rows."""
        buf = self.schedule.program.bufs[lookup.buf]
        at, i = self.place(buf.id), "row" if buf.layout == Layout.COL else "0"
        value = f"RowOf({at}, {i}, {self.size(lookup.size)})" if lookup.wraps else f"RowOf({at}, {i})"
        return value if lookup.pitch == 1 else f"{value} * {self.size(lookup.pitch)}"

    def row_stride(self, transfer: Transfer) -> str:
        """Distance in elements between the rows of a FULL transfer in GM, the columns of a TURNED one."""
        turned = self.schedule.program.bufs[transfer.buf].layout == Layout.TURNED
        axis = self.schedule.cols if turned else self.schedule.rows
        assert axis is not None
        return self.size(dict(transfer.strides).get(axis.name, 0))

    @property
    def turned_pitch(self) -> str:
        """Elements from column to column of a TURNED buffer."""
        return f"RoundUp(rows, {self.schedule.align})"

    def count(self, buf: Buf, instr: Instr) -> str:
        """Element count of a count-form instruction, in the type it works on."""
        base = COUNT[buf.layout] if buf.width == 1 else f"{COUNT[buf.layout]} * {buf.width}"
        if instr.view != "uint16_t":
            return base
        if buf.cpp == "bits":
            return f"{base} / 16"
        return f"{base} * 2" if buf.itemsize == 4 else base

    def pitch(self, buf: Buf) -> str:
        """Lanes of a buffer that is one row; those that run backwards end with the last of them."""
        if buf.layout == Layout.COL or self.schedule.rows is None:
            return f"RoundUp({'rows' if buf.layout == Layout.COL else 'cols'}, kLanes)"
        return "pitch"


def gm_type(cpp: str) -> str:
    return "uint8_t" if cpp == "bits" else cpp


def camel(entry: str) -> str:
    """``autofuse_pointwise_k1a2b`` -> ``AutofusePointwiseK1a2b`` (class names; the op type is built with the hash)."""
    return "".join(part[:1].upper() + part[1:] for part in entry.split("_"))
