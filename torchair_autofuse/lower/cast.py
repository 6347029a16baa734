"""Cast: conversions that every chip does alike. Those that depend on the chip out of range are refused (AF202)."""

from __future__ import annotations

from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import BOOL, F32, HALF_FLOATS, I16, I32, I64, DType
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import ALL, refuse
from torchair_autofuse.lower.registry import Emitter, OpView, Rule, Val, compute_dtype, register
from torchair_autofuse.messages import Reason

_WIDE = (I32, I64)


def target(op: OpView) -> DType | None:
    """The type that attribute dst_type names (GE's C enum), or None."""
    value = op.attr("dst_type")
    if isinstance(value, DType):
        return value
    return dtypes.from_ge_c(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _holds(narrow: DType, wide: DType) -> bool:
    """Whether every value of integer type ``narrow`` is one of ``wide``."""
    if narrow.kind == "uint":
        return wide.itemsize > narrow.itemsize or wide == narrow
    return wide.kind == "int" and wide.itemsize >= narrow.itemsize


def _check(op: OpView) -> Reason | None:
    if not op.inputs or op.inputs[0] is None:
        return refuse(op, "required input x is absent")
    source, dest = op.dtype(0), target(op)
    if dest is None:
        return refuse(op, f"attribute dst_type = {op.attr('dst_type')!r} names no type that can be fused", "AF202")
    for dtype in (source, dest):
        if dtype not in ALL:
            return refuse(op, f"{dtype} is not supported in a fused op", "AF202")
    if op.out_dtype() != dest:
        return refuse(op, f"result is {op.out_dtype()}, but dst_type says {dest}", "AF202")
    if dest.is_float or BOOL in (source, dest) or source == dest:
        return None
    if source.is_float:
        if dest in _WIDE:
            return None
    elif _holds(source, dest) or dest in _WIDE:
        return None
    return refuse(op, f"{source} to {dest} out of range depends on the chip", "AF202")


def _emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
    x = get(args, 0)
    source, dest = op.dtype(0), op.out_dtype()
    if source == dest:
        return [x]
    if dest == BOOL or (source.is_float and not dest.is_float):
        if source in HALF_FLOATS:  # a jump in the result: the operand is rounded first, as for a predicate
            x = e.cast(e.cast(x, source), F32)
        return [e.op("ne", x, e.const(0, x.dtype)) if dest == BOOL else e.cast(x, dest, "trunc")]
    if not source.is_float and dest in HALF_FLOATS and source not in (I16, *_WIDE):
        return [e.cast(x, F32)]  # 8 bits and bool fit both half types
    if dest in HALF_FLOATS:
        return [e.cast(e.cast(e.cast(x, F32), dest), F32)]
    return [e.cast(x, compute_dtype(dest))]


register(Rule("Cast", "pointwise", _check, _emit, rounds=True))
