"""Why a kernel has no schedule: values without instructions."""

from __future__ import annotations

from torchair_autofuse.dtypes import I32, I64
from torchair_autofuse.loop.ir import Cast, Const, Iota, Load, Nest, Pointwise, Reduce
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import isa
from torchair_autofuse.schedule.program import Program


def values_reason(nest: Nest) -> Reason | None:
    """Why some value of the nest has no instructions."""
    for value in nest.values:
        reason = None
        if isinstance(value, Pointwise):
            reason = isa.supports_op(value.op, nest.dtypes[value.args[-1]])
        elif isinstance(value, Cast):
            reason = isa.supports_cast(nest.dtypes[value.arg], value.dtype)
        elif isinstance(value, Const):
            reason = isa.supports_const(value.value, value.dtype)
        elif isinstance(value, Reduce):
            reason = isa.supports_reduce(value.combiner, nest.dtypes[value.args[0]])
        elif isinstance(value, Load):
            reason = _lookup_reason(nest, value)
        elif isinstance(value, Iota) and value.strides:
            reason = Reason("AF202", "no instructions for an index that varies")
        if reason is not None:
            return reason
    return None


def _lookup_reason(nest: Nest, load: Load) -> Reason | None:
    """Why rows cannot be looked up by some value: the scalar unit reads loaded integers only."""
    for i in load.indices:
        source = nest.defs[i.value]
        if not isinstance(source, Load) or source.indices:
            return Reason("AF210", f"rows of {load.param} are looked up by a value that is computed in the kernel")
        if source.dtype not in (I32, I64):
            return Reason("AF202", f"rows of {load.param} are looked up by {source.dtype} values: i32 and i64 can be")
    return None


def types_reason(program: Program) -> Reason | None:
    """Why a value cannot be repeated along an axis: only 16 and 32 bit types can."""
    for instr in program.instrs:
        if instr.form in ("brcb", "expand") and program.bufs[instr.dst].cpp not in isa.REPEATABLE:
            return Reason("AF202", f"no instruction repeats {program.bufs[instr.dst].cpp} values in UB")
    return None
