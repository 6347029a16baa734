"""Inference rules of shape queries and generators."""

from __future__ import annotations

import math
from typing import Any

from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import F32, F64, I32, U8, DType
from torchair_autofuse.ge.infer.bounds import nonnegative
from torchair_autofuse.ge.infer.registry import Call, ObjectArray, Shape, Unknown, ValueRule, rule, to_array
from torchair_autofuse.ge.infer.shapes import axis, maximum, plain, subtract
from torchair_autofuse.loop import expr


def _number_dtype(name: str, default: DType | None) -> Any:
    return lambda call: call.ge_dtype(name, default)


rule(
    "Shape",
    lambda call: (call.rank(0),),
    _number_dtype("dtype", I32),
    lambda call, dtype: to_array(call.shape(0), (call.rank(0),)),
)
rule("Size", (), _number_dtype("dtype", I32), lambda call, dtype: to_array([expr.product(call.shape(0))], ()))
rule("Rank", (), I32, lambda call, dtype: to_array([call.rank(0)], ()))


def _fill_value(call: Call, dtype: DType) -> ObjectArray:
    shape = plain(call.exprs(0))
    (element,) = call.array(1).reshape(-1)
    return to_array([element] * math.prod(shape), shape)


rule("Fill", lambda call: call.exprs(0), 1, _fill_value)
rule("FillD", lambda call: tuple(call.int_list("dims")), 0)
rule("Empty", lambda call: call.exprs(0), _number_dtype("dtype", I32))


def _constant_like(element: int) -> ValueRule:
    def value(call: Call, dtype: DType) -> ObjectArray:
        shape = plain(call.shape(0))
        one: Any = bool(element) if dtype.kind == "bool" else float(element) if dtype.is_float else element
        return to_array([one] * math.prod(shape), shape)

    return value


rule("ZerosLike", 0, 0, _constant_like(0))
rule("OnesLike", 0, 0, _constant_like(1))


def _range_scalars(call: Call) -> list[Any]:
    found = [call.array(i).reshape(-1).tolist() for i in range(3)]
    if any(len(f) != 1 for f in found) or call.attr("is_closed", False):
        raise Unknown("range limits are not three scalars")
    return [f[0] for f in found]


def _whole(e: Any) -> Any:
    """A float without fraction as an integer, so that it mixes with a symbolic size."""
    return int(e) if isinstance(e, float) and e.is_integer() else e


def _range(call: Call) -> Shape:
    start, limit, delta = _range_scalars(call)
    if any(isinstance(e, bool) for e in (start, limit, delta)) or delta == 0:
        raise Unknown("range step is zero or a bool")
    start, limit, delta = (_whole(e) for e in (start, limit, delta))
    if any(isinstance(e, float) for e in (start, limit, delta)):
        if not all(isinstance(e, (int, float)) and math.isfinite(e) for e in (start, limit, delta)):
            raise Unknown("float range with symbolic or infinite limits")
        return (max(0, math.ceil((limit - start) / delta)),)
    if isinstance(delta, int) and delta > 0:
        length = expr.ceildiv(subtract(limit, start), delta)
    elif isinstance(delta, int):
        length = expr.ceildiv(subtract(start, limit), -delta)
    else:
        raise Unknown("symbolic range step")
    return (length if nonnegative(length) else maximum(length, 0),)


def _range_dtype(call: Call) -> DType:
    found = {call.dtype(i) for i in range(3)}
    return found.pop() if len(found) == 1 else F32


def _range_value(call: Call, dtype: DType) -> ObjectArray:
    start, _, delta = _range_scalars(call)
    if not dtype.is_int:
        raise Unknown("float range")
    (count,) = plain(_range(call))
    return to_array([expr.add(start, expr.mul(k, delta)) for k in range(count)], (count,))


rule("Range", _range, _range_dtype, _range_value)
# integer bounds: the op's own dtype inference is at odds with its kernel, so the dtype stays unknown
rule("LinSpace", lambda call: (call.exprs(2)[0],), lambda call: call.dtype(0) if call.dtype(0) in (F32, F64) else None)


def _one_hot(call: Call) -> Shape:
    x = call.shape(0)
    at = axis(int(call.attr("axis", -1)), len(x) + 1)
    return (*x[:at], call.exprs(1)[0], *x[at:])


rule("OneHot", _one_hot, 2)


def _eye(call: Call) -> Shape:
    rows, columns = int(call.attr("num_rows")), int(call.attr("num_columns", 0))
    return (*call.int_list("batch_shape", []), rows, columns or rows)


rule("Eye", _eye, _number_dtype("dtype", dtypes.F32))
rule("StatelessBernoulli", lambda call: call.exprs(0), _number_dtype("dtype", None))
rule("StatelessRandomNormalV2 StatelessRandomUniformV2", lambda call: call.exprs(0), _number_dtype("dtype", F32))
rule("StatelessDropOutGenMask", lambda call: None, U8)
rule("StatelessRandperm", lambda call: (call.exprs(0)[0],), _number_dtype("dtype", dtypes.I64))
rule("MultinomialWithReplacement", lambda call: (*call.shape(0)[:-1], int(call.attr("numsamples"))), dtypes.I64)
