"""From a generated op to its definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from torchair_autofuse.codegen.assembled import Assembled
from torchair_autofuse.codegen.kernel import KernelText
from torchair_autofuse.codegen.names import Names
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Kernel
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.lower.finish import Lowered, content_digest
from torchair_autofuse.opdef.files import sha256, texts
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.provenance import fill
from torchair_autofuse.opdef.schema import SCHEMA_VERSION, message_class
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.tiling import to_cpp
from torchair_autofuse.soc.chip import Chip

ACCUMULATE, ROUNDING = "f32", "rint"
"""The only ways in which generated kernels sum and round."""
F32_RTOL = 1e-5
"""f32 outputs of a kernel differ from the interpreter's by at most this times the largest finite magnitude."""
HALF_ULPS = 1
"""f16 and bf16 outputs differ by at most so many units in the last place (or by the f32 limit, if that is more)."""


@dataclass(frozen=True)
class GeneratedOp:
    """One fused op, from its GE nodes to its kernel text."""

    lowered: Lowered
    schedule: Schedule
    text: KernelText

    @property
    def op_type(self) -> str:
        return self.lowered.op_type


def build(
    generated: GeneratedOp, chip: Chip, hints: Mapping[str, int] | None = None, nodes: Mapping[str, Any] | None = None
) -> Any:
    """The FusedOpDef of a generated op, complete: everything else is made from it (opdef.regenerate).

    ``chip``: the one it was scheduled for. ``hints``: example sizes of the kernel's symbols, ``nodes``: the OpDef
    messages of its GE nodes by name; neither is part of the hash. Raises ValueError when the chip's architecture is
    not the schedule's.
    """
    schedule = generated.schedule
    if schedule.npu_arch != chip.npu_arch:
        raise ValueError(f"{generated.op_type} is scheduled for {schedule.npu_arch}, {chip.soc} is {chip.npu_arch}")
    kernel = generated.lowered.kernel
    op = message_class()(schema_version=SCHEMA_VERSION, op_type=generated.op_type, content_hash=content_digest(kernel))
    _params(op, kernel)
    op.body.extend(to_text(kernel, origin=False).splitlines())
    op.numeric.accumulate, op.numeric.rounding = ACCUMULATE, ROUNDING
    op.numeric.f32_rtol, op.numeric.half_ulps = F32_RTOL, HALF_ULPS
    op.schedule.add().CopyFrom(describe_schedule(schedule, chip))
    for symbol in kernel.symbols:
        if hints and symbol.name in hints:
            op.provenance.hint.add(symbol=symbol.name, value=hints[symbol.name])
    fill(op, kernel, generated.lowered.nodes, nodes or {})
    return complete(op, generated.text)


def complete(op: Any, text: KernelText) -> Any:
    """``op`` with the digests of all that this release generates for its first schedule. ``text``: its kernel."""
    op.generator_digest = generator_digest()
    op.provenance.generator = f"torchair_autofuse {version()}"
    del op.artefact[:]
    for name, content in texts(op, text).items():
        op.artefact.add(name=name, sha256=sha256(content))
    return op


def version() -> str:
    """The installed package's version."""
    try:
        return metadata.version("torchair_autofuse")
    except metadata.PackageNotFoundError:
        return "unknown"


def _params(op: Any, kernel: Kernel) -> None:
    for params, target in ((kernel.inputs, op.input), (kernel.outputs, op.output)):
        for p in params:
            target.add(name=p.name, dtype=p.dtype.name, dim=[expr.to_str(d) for d in p.dims])
    position = {p.name: i for i, p in enumerate(kernel.inputs)}
    for s in kernel.symbols:
        op.symbol.add(name=s.name, input=position[s.param], dim=s.dim, divisor=s.divisor)


def describe_schedule(schedule: Schedule, chip: Chip) -> Any:
    """The Schedule message of a schedule for ``chip``."""
    target = message_class("Schedule")()
    target.soc, target.npu_arch, target.template = chip.soc, chip.npu_arch, schedule.template
    target.vector_cores, target.ub_bytes, target.ub_limit_bytes = chip.vector_cores, chip.ub_bytes, chip.ub_plan_bytes
    for step in schedule.steps:
        target.step.add(name=step.name, value=to_cpp(step.value))
    target.field.extend(schedule.fields)
    target.block_dim, target.ub_used = "block_dim", "ub_used"
    target.tiling_key, target.workspace_bytes = str(schedule.tiling_key), schedule.workspace_bytes
    for piece in schedule.parts or (schedule,):
        for nest in piece.nests:
            _buffers(target, nest)
        for y in Assembled(piece).outputs:
            name = f"{piece.prefix}{y.name}Tile"
            target.buffer.add(name=name, layout="full", itemsize=y.dtype.itemsize, copies=1, value=[y.name])
    return target


def _buffers(target: Any, schedule: Schedule) -> None:
    names, places = Names(schedule), schedule.plan.place
    copies = {b: group.num for group in schedule.plan.queues for b in group.bufs}
    transfers = (*schedule.program.loads, *schedule.program.stores)
    for slot in schedule.plan.slots:
        name = names.place(places.index(slot.id)).rstrip("_")
        values = [t.param for t in transfers if t.buf == slot.queue]
        num = copies.get(slot.queue, 1)
        name = f"{schedule.prefix}{name}"
        target.buffer.add(name=name, layout=slot.layout.value, itemsize=slot.itemsize, copies=num, value=values)
    if schedule.program.scratch:
        target.buffer.add(name=f"{schedule.prefix}scratch", layout="full", itemsize=schedule.program.scratch, copies=1)
    for i, table in enumerate(schedule.plan.tables):
        name = f"{schedule.prefix}table{i}"
        target.buffer.add(name=name, layout="once", itemsize=table.bytes, copies=1, value=["offsets for Gather"])
