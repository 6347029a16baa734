"""Which template a kernel gets, and where sizes decide: several, by tiling key."""

from __future__ import annotations

from dataclasses import replace

from torchair_autofuse.loop.ir import Kernel, Nest, Reduce
from torchair_autofuse.loop.rewrite import canonical
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule.columns import column_schedule
from torchair_autofuse.schedule.kept import kept_schedule
from torchair_autofuse.schedule.order import conflict, orders
from torchair_autofuse.schedule.pointwise import tiles_schedule
from torchair_autofuse.schedule.reasons import values_reason
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.sequence import sequence_schedule
from torchair_autofuse.schedule.short import written_out
from torchair_autofuse.schedule.stream import stream_schedule
from torchair_autofuse.schedule.variants import combine
from torchair_autofuse.soc.chip import Chip


def schedule(kernel: Kernel, chip: Chip) -> Schedule | Reason:
    """The schedule of a kernel, or why there is none. Several nests become parts that run one after the other.

    Short innermost axes are written out where that helps; the others are put in the order that serves the copies best.
    Without reductions: tiles of any part of the elements, transposed in UB where tensors are contiguous along different
    axes; rows that several outer indices need stay in UB for these. With: whole rows (or columns, where
    an axis further out is reduced) in UB as far as they fit, else passes over tiles, shared by several cores where
    that pays. What sizes decide is decided by the tiling key. Refuses with AF202 for values without instructions, AF210
    for what no template covers, AF212 when even the smallest tile does not fit in UB, and AF213 for too many nests.
    """
    nests = canonical(kernel).nests
    if len(nests) == 1:
        made = _nest(kernel, nests[0], chip)
        if isinstance(made, Schedule) and made.template == "pointwise":
            return kept_schedule(kernel, made.nest, chip) or made
        stored = [s.param for s in nests[0].stores]
        if not isinstance(made, Reason) or len(stored) == len(set(stored)):
            return made
    return sequence_schedule(kernel, nests, chip, _nest)


def _nest(kernel: Kernel, plain: Nest, chip: Chip, seams: frozenset[str] = frozenset()) -> Schedule | Reason:
    """The schedule of one canonical nest of ``kernel``. ``seams``: see access.copies_reason."""
    reason = values_reason(plain)
    if reason is not None:
        return reason
    short = None if seams else written_out(plain)
    if short is not None and values_reason(short) is None:
        made = _ordered(kernel, short, chip, seams)
        if isinstance(made, Schedule):
            return made
    return _ordered(kernel, plain, chip, seams)


def _ordered(kernel: Kernel, plain: Nest, chip: Chip, seams: frozenset[str]) -> Schedule | Reason:
    """The schedule of a nest with its axes in the best order that has one."""
    reasons = []
    for nest in orders(plain, _reduced(plain), seams):
        reduced = _reduced(nest)
        if reduced:
            made = _reduction(kernel, nest, reduced, chip, seams)
        else:
            made = tiles_schedule(kernel, nest, chip, resident=False, seams=seams)
        if isinstance(made, Schedule):
            return made
        reasons.append(made)
    unlike = conflict(plain) if reasons[0].code == "AF210" else ""
    return replace(reasons[0], text=f"{reasons[0].text}: {unlike}") if unlike else reasons[0]


def _reduced(nest: Nest) -> frozenset[str]:
    return frozenset(a for v in nest.values if isinstance(v, Reduce) for a in v.axes)


def _reduction(
    kernel: Kernel, nest: Nest, reduced: frozenset[str], chip: Chip, seams: frozenset[str]
) -> Schedule | Reason:
    """Rows or columns in UB as a whole where they are known to fit, else passes over tiles."""
    uneven = next((v for v in nest.values if isinstance(v, Reduce) and set(v.axes) != reduced), None)
    if uneven is not None:
        texts = [
            ", ".join(f"{a.name}: {a.size}" for a in nest.axes if a.name in over) for over in (reduced, uneven.axes)
        ]
        return Reason("AF210", f"reductions over [{texts[0]}], one over [{texts[1]}] alone: no schedule for both")
    cols = nest.axes[-1]
    if reduced != {cols.name}:
        streaming = stream_schedule(kernel, nest, reduced, chip)
        if len(reduced) > 1 or isinstance(streaming, Reason):
            return streaming
        return _resident_or(column_schedule(kernel, nest, reduced, chip), streaming, chip)
    resident = tiles_schedule(kernel, nest, chip, resident=True, seams=seams)
    if isinstance(resident, Reason):
        return stream_schedule(kernel, nest, reduced, chip) if resident.code == "AF212" else resident
    if isinstance(cols.size, int):
        return resident
    streaming = stream_schedule(kernel, nest, reduced, chip)
    return streaming if isinstance(streaming, Reason) else combine(resident, "fit", streaming)


def _resident_or(resident: Schedule | Reason, streaming: Schedule, chip: Chip) -> Schedule:
    """The resident schedule where it is known to fit, both by ``fit`` where sizes decide, else the streaming one."""
    if isinstance(resident, Reason):
        return streaming
    if resident.kernel.symbols:
        return combine(resident, "fit", streaming)
    fits = resident.at(chip)["fit"] > 0
    return resident if fits else streaming
