"""Inference rules of reductions, searches and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchair_autofuse.dtypes import BOOL, F32, I8, I32, I64, DType
from torchair_autofuse.ge.infer.registry import Call, ObjectArray, Shape, Unknown, rule, to_array
from torchair_autofuse.ge.infer.shapes import axes, axis, broadcast, maximum, minimum, reduced
from torchair_autofuse.loop import expr


def _reduce(call: Call) -> Shape:
    """Axes are input 1; an empty list reduces nothing unless noop_with_empty_axes is given as false."""
    shape = call.shape(0)
    over = list(call.ints(1))
    if not over:
        if "noop_with_empty_axes" not in call.node.attrs:
            raise Unknown("empty axes: whether they reduce everything depends on the chip")
        over = [] if call.attr("noop_with_empty_axes") else list(range(len(shape)))
    return reduced(shape, over, bool(call.attr("keep_dims", False)))


def _reduce_attr(name: str, keep: str) -> Callable[[Call], Shape]:
    """Axes are a list attribute; empty means all."""

    def shape(call: Call) -> Shape:
        x = call.shape(0)
        return reduced(x, call.int_list(name, []) or range(len(x)), bool(call.attr(keep, False)))

    return shape


def _reduce_value(call: Call, dtype: DType) -> ObjectArray:
    """Sum, product, maximum and minimum of a few integers: sizes computed from other sizes."""
    if not dtype.is_int:
        raise Unknown("only integers are reduced symbolically")
    array = call.array(0)
    over = tuple(axes(call.ints(1), array.ndim))
    if array.size == 0 or not over:
        raise Unknown("nothing to reduce")
    count = math.prod(array.shape[a] for a in over)
    rows = np.moveaxis(array, over, range(len(over))).reshape(count, -1).tolist()
    combine = _COMBINE[call.node.type]
    out = rows[0]
    for row in rows[1:]:
        out = [combine(a, b) for a, b in zip(out, row)]
    return to_array(out, _reduce(call))


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "ReduceSum": expr.add,
    "ReduceProd": expr.mul,
    "ReduceMax": maximum,
    "ReduceMin": minimum,
}


rule("ReduceSum ReduceProd ReduceMax ReduceMin", _reduce, 0, _reduce_value)
rule("ReduceMean EuclideanNorm ReduceLogSum ReduceLogSumExp", _reduce, 0)
rule("ReduceAll ReduceAny", _reduce, BOOL)
rule("ReduceMeanWithCast", _reduce, lambda call: call.ge_dtype("dtype", None))
for _type, _axes, _keep in (
    ("ReduceSumD ReduceMeanD ReduceMaxD ReduceMinD ReduceProdD", "axes", "keep_dims"),
    ("LpNormV2", "axes", "keepdim"),
    ("ReduceStdWithMean", "dim", "keepdim"),
    ("SquareSumV1", "axis", "keep_dims"),
):
    rule(_type, _reduce_attr(_axes, _keep), 0)
_STD = _reduce_attr("dim", "keepdim")
rule("ReduceStdV2 ReduceVar", [_STD, _STD], [0, 0])
rule("L2Loss", (), 0)


def _arg_with_value(call: Call) -> Shape:
    x = call.shape(0)
    dims = call.int_list("dimension")
    return reduced(x, dims, bool(call.attr("keep_dims", False)))


def _arg(call: Call) -> Shape:
    return reduced(call.shape(0), [call.int_scalar(1)], keep=False)


rule("ArgMaxWithValue ArgMinWithValue", [_arg_with_value, _arg_with_value], [I32, 0])
rule("ArgMaxV2 ArgMin", _arg, lambda call: call.ge_dtype("dtype", I64))
rule("ArgMaxD", lambda call: reduced(call.shape(0), call.int_list("dimension"), keep=False), I32)


def _topk(call: Call) -> Shape:
    x = call.shape(0)
    dim = axis(int(call.attr("dim", -1)), len(x))
    k = call.exprs(1)
    if len(k) != 1:
        raise Unknown("k is not a single number")
    return (*x[:dim], k[0], *x[dim + 1 :]) if x else ()


rule("TopKV2 TopK", [_topk, _topk], [0, lambda call: call.ge_dtype("indices_dtype", I32)])
rule("Sort", [0, 0], [0, lambda call: call.ge_dtype("y2_dtype", I32)])


# losses: reduction none keeps the shape
def _loss(call: Call) -> Shape:
    if str(call.attr("reduction", "mean")) != "none":
        return ()
    return broadcast(call.shape(0), call.shape(1))


def _nll(call: Call) -> Shape:
    return () if str(call.attr("reduction", "mean")) != "none" else call.shape(1)


rule(
    "MseLoss BinaryCrossEntropy SmoothL1LossV2 LpLoss KLDiv KLDivV2 SoftMarginLoss SigmoidCrossEntropyWithLogitsV2",
    _loss,
    0,
)
rule("NLLLoss", [_nll, ()], [0, 0])
rule("SmoothL1Loss SigmoidCrossEntropyWithLogits", 0)
rule(
    "NLLLossGrad MseLossGrad BinaryCrossEntropyGrad SmoothL1LossGrad SmoothL1LossGradV2 "
    "SigmoidCrossEntropyWithLogitsGrad",
    0,
)
rule("L1LossGrad", 1, 1)


def _cross_entropy(call: Call) -> Shape:
    return call.shape(0)[:-1]


rule("SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits", [_cross_entropy, 0], [0, 0])


def _row_scale(call: Call) -> Shape:
    return call.shape(0)[:-1]


def _quant_dtype(call: Call) -> DType:
    return call.ge_dtype("dst_type", I8)


rule("DynamicQuant", [0, _row_scale], [_quant_dtype, F32])
rule("DynamicQuantV2", [0, _row_scale, _row_scale], [_quant_dtype, F32, F32])
