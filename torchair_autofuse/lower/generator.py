"""Constants in the shape of the result. Only the shape of a *Like operand matters: its NaN do not spread."""

from __future__ import annotations

from torchair_autofuse.dtypes import BOOL, DType
from torchair_autofuse.lower.arithmetic import Args, get
from torchair_autofuse.lower.checks import ALL, all_of, dims, input_name, operands, present, refuse, scalar_attr_fits
from torchair_autofuse.lower.registry import Check, Emit, Emitter, OpView, Rule, Val, compute_dtype, register
from torchair_autofuse.messages import Reason


def constant(e: Emitter, value: float | int | bool, dtype: DType) -> Val:
    """``value`` as ``dtype`` would hold it, in the type it is computed in."""
    if dtype.is_float:
        value = float(dtype.numpy.type(value))
    else:
        value = bool(value) if dtype == BOOL else int(value)
    return e.const(value, compute_dtype(dtype))


def _known(value: int) -> Emit:
    return lambda e, op, args: [constant(e, value, op.out_dtype())]


def _fills(e: Emitter, op: OpView, args: Args) -> list[Val]:
    return [constant(e, op.attr("value"), op.out_dtype())]


def _fill(position: int) -> Emit:
    def emit(e: Emitter, op: OpView, args: Args) -> list[Val]:
        known = op.scalar(position)
        return [get(args, position) if known is None else constant(e, known, op.out_dtype())]

    return emit


def _fill_value(position: int) -> Check:
    def check(op: OpView) -> Reason | None:
        info = present(op, position)
        if info is None:
            return refuse(op, f"required {input_name(op, position)} is absent")
        if any(d != 1 for d in dims(info)) or len(dims(info)) > len(dims(op.outputs[0])):
            return refuse(op, f"{input_name(op, position)} must have one element")
        return None

    return all_of(check, operands(ALL, required=0, data=(position,)))


register(Rule("Fill", "pointwise", _fill_value(1), _fill(1), data_inputs=(1,)))
register(Rule("FillD", "pointwise", _fill_value(0), _fill(0), data_inputs=(0,)))
register(Rule("ZerosLike", "pointwise", operands(ALL), _known(0), data_inputs=()))
register(Rule("OnesLike", "pointwise", operands(ALL), _known(1), data_inputs=()))
register(Rule("Fills", "pointwise", all_of(operands(ALL), scalar_attr_fits("value")), _fills, data_inputs=()))
