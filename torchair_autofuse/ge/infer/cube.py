"""Inference rules of matrix products, convolutions, pooling, resizing and gated units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchair_autofuse.dtypes import I8, I32, U8, DType
from torchair_autofuse.ge.infer.registry import Call, DTypeSpec, Shape, Unknown, rule
from torchair_autofuse.ge.infer.shapes import axis, broadcast, window
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr


def _accumulated(call: Call) -> DType:
    dtype = call.dtype(0)
    if dtype in (I8, U8):
        return I32
    if len(call.inputs) > 1 and call.dtype(1) != dtype:
        raise Unknown("operands of different dtypes")
    return dtype


def _matmul(flag1: str, flag2: str) -> Callable[[Call], Shape]:
    def shape(call: Call) -> Shape:
        a, b = call.shape(0), call.shape(1)
        if len(a) < 2 or len(b) < 2:
            raise Unknown("operand of rank below 2")
        rows = a[-1] if call.attr(flag1, False) else a[-2]
        columns = b[-2] if call.attr(flag2, False) else b[-1]
        return (*broadcast(a[:-2], b[:-2]), rows, columns)

    return shape


rule("MatMul MatMulV2 MatMulV3", _matmul("transpose_x1", "transpose_x2"), _accumulated)
rule("BatchMatMul BatchMatMulV2 BatchMatMulV3", _matmul("adj_x1", "adj_x2"), _accumulated)
rule("QuantBatchMatmulV3", _matmul("transpose_x1", "transpose_x2"), lambda call: call.ge_dtype("dtype", None))
rule("WeightQuantBatchMatmulV2", _matmul("transpose_x", "transpose_weight"), lambda call: None)


# -- convolution: strides, dilations in the order of data_format; pads before and after per spatial dim ---------------
def _layout(call: Call, default: str) -> tuple[int, list[int]]:
    """Positions of the channel and the spatial dims of x."""
    name = str(call.attr("data_format", default))
    if "C" not in name or "N" not in name:
        raise Unknown(f"data_format {name!r}")
    return name.index("C"), [k for k, c in enumerate(name) if c not in "NC"]


def _spatial(values: Sequence[int], at: Sequence[int], rank: int) -> list[int]:
    """A per-dim attribute at the spatial positions; a short one holds the spatial values only."""
    if len(values) == rank:
        return [values[k] for k in at]
    if len(values) == len(at):
        return list(values)
    raise Unknown(f"{len(values)} values for rank {rank}")


def _conv(default: str) -> Callable[[Call], Shape]:
    def shape(call: Call) -> Shape:
        x, weight = call.shape(0), call.shape(1)
        channel, at = _layout(call, default)
        if len(x) != len(at) + 2 or channel != 1:
            raise Unknown("a layout other than NCHW")
        rank = len(x)
        strides = _spatial(call.int_list("strides"), at, rank)
        dilations = _spatial(call.int_list("dilations", [1] * rank), at, rank)
        pads = call.int_list("pads")
        dims: list[Expr] = [x[0], weight[0]]
        for k, d in enumerate(at):
            pad = pads[2 * k] + pads[2 * k + 1]
            dims.append(window(x[d], weight[d], strides[k], pad, dilations[k]))
        return tuple(dims)

    return shape


def _by_size_input(call: Call) -> Shape:
    """The first (or named) input is the shape of the result."""
    size = call.exprs(0)
    if any(isinstance(d, int) and d <= 0 for d in size):
        raise Unknown("input_size is left to the op")
    return size


def _conv_transpose(default: str) -> Callable[[Call], Shape]:
    def shape(call: Call) -> Shape:
        size = call.info(0).value
        if size is not None and not any(isinstance(d, int) and d <= 0 for d in size):
            return tuple(size)
        x, weight = call.shape(1), call.shape(2)
        channel, at = _layout(call, default)
        if len(x) != len(at) + 2 or channel != 1:
            raise Unknown("a layout other than NCHW")
        rank = len(x)
        strides = _spatial(call.int_list("strides"), at, rank)
        dilations = _spatial(call.int_list("dilations", [1] * rank), at, rank)
        extra = _spatial(call.int_list("output_padding", [0] * rank), at, rank)
        pads = call.int_list("pads")
        dims: list[Expr] = [x[0], expr.mul(weight[1], int(call.attr("groups", 1)))]
        for k, d in enumerate(at):
            reach = expr.add(expr.mul(dilations[k], expr.add(weight[d], -1)), 1)
            grown = expr.mul(strides[k], expr.add(x[d], -1))
            dims.append(expr.add(grown, reach, extra[k] - pads[2 * k] - pads[2 * k + 1]))
        return tuple(dims)

    return shape


rule("Conv2D DepthwiseConv2D", _conv("NHWC"), _accumulated)
rule("Conv3D", _conv("NDHWC"), _accumulated)
rule("Conv2DTranspose", _conv_transpose("NHWC"), 1)
rule("Conv3DTranspose", _conv_transpose("NDHWC"), 1)
rule("Conv2DBackpropInput Conv3DBackpropInput", _by_size_input, 1)
rule("Conv2DBackpropFilter Conv3DBackpropFilter", lambda call: call.exprs(1), 0)


# -- pooling over an NCHW tensor ---------------------------------------------------------------------------------------
def _pool_argmax(first: int) -> Callable[[Call], Shape]:
    """Window attributes hold H and W at positions ``first`` and ``first + 1``; pads are the same on both sides."""

    def shape(call: Call) -> Shape:
        x = call.shape(0)
        if len(x) != 4:
            raise Unknown("pooling of a tensor that is not 4-d")
        k, s, p = (call.int_list(n)[first : first + 2] for n in ("ksize", "strides", "pads"))
        d = call.int_list("dilation", [1, 1, 1, 1])[first : first + 2]
        ceil = bool(call.attr("ceil_mode", False))
        return (*x[:2], *(window(x[2 + i], k[i], s[i], 2 * p[i], d[i], ceil) for i in range(2)))

    return shape


def _pool(call: Call) -> Shape:
    """AvgPoolV2 and MaxPoolV3 with explicit pads [top, bottom, left, right]."""
    x = call.shape(0)
    if len(x) != 4 or str(call.attr("data_format", "NCHW")) != "NCHW":
        raise Unknown("a layout other than NCHW")
    if call.attr("global_pooling", False):
        return (*x[:2], 1, 1)
    if str(call.attr("padding_mode", "CALCULATED")) != "CALCULATED":
        raise Unknown("padding_mode other than CALCULATED")
    k, s = call.int_list("ksize")[2:], call.int_list("strides")[2:]
    p = call.int_list("pads", [0, 0, 0, 0])
    if p[0] != p[1] or p[2] != p[3]:
        raise Unknown("asymmetric pads")
    ceil = bool(call.attr("ceil_mode", False))
    return (*x[:2], *(window(x[2 + i], k[i], s[i], 2 * p[2 * i], 1, ceil) for i in range(2)))


_MASK: list[DTypeSpec] = [0, lambda call: call.ge_dtype("dtype", I32)]
rule("MaxPoolWithArgmaxV1", [_pool_argmax(1), _pool_argmax(1)], _MASK)
rule("MaxPoolWithArgmaxV3", [_pool_argmax(0), _pool_argmax(0)], _MASK)
rule("MaxPool3DWithArgmaxV2", [lambda call: None] * 2, _MASK)
rule("MaxPoolGradWithArgmaxV1 MaxPoolGradWithArgmaxV3", 0)
rule("MaxPoolV3 AvgPoolV2", _pool, 0)
rule("AvgPoolV2Grad", _by_size_input, 1)
rule("AdaptiveAvgPool2d", lambda call: (*call.shape(0)[:-2], *_pair(call.int_list("output_size"))), 0)
rule("AdaptiveAvgPool2dGrad", lambda call: tuple(call.int_list("orig_input_shape")), 0)


def _pair(values: list[int]) -> list[int]:
    return values * 2 if len(values) == 1 else values


def _resized(call: Call) -> Shape:
    x = call.shape(0)
    if len(x) != 4 or len(call.exprs(1)) != 2:
        raise Unknown("resize of a tensor that is not 4-d")
    return (*x[:2], *call.exprs(1))


rule("ResizeNearestNeighborV2 ResizeNearestNeighborV2Grad ResizeBilinearV2", _resized, 0)
rule("GridSampler2D", lambda call: (*call.shape(0)[:2], *call.shape(1)[1:3]), 0)
rule("GridSampler3D", lambda call: (*call.shape(0)[:2], *call.shape(1)[1:4]), 0)
rule("GridSampler2DGrad", [1, 2], [1, 2])


# -- gated units: half of one dim -----------------------------------------------------------------------------------
def _half(call: Call) -> Shape:
    x = call.shape(0)
    at = axis(int(call.attr("dim", -1)), len(x))
    return (*x[:at], expr.floordiv(x[at], 2), *x[at + 1 :])


rule("GLU SwiGlu", _half, 0)
rule("GeGluV2", [_half, _half], [0, 0])
rule("GLUGrad SwiGluGrad", 1, 1)
