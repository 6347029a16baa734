"""Matrix products and convolutions. f16 and bf16 are multiplied and summed in f32 and rounded once, bias included."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from torchair_autofuse.host.ops.numerics import wide
from torchair_autofuse.host.ops.registry import OpCall, op

_SMALL = (torch.int8, torch.uint8)


def _operand(t: torch.Tensor, transposed: bool) -> torch.Tensor:
    t = t.int() if t.dtype in _SMALL else wide(t)
    return t.transpose(-1, -2) if transposed else t


@op("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matmul(call: OpCall) -> torch.Tensor:
    """x1 @ x2 (+ bias) over the last two dims, batch dims broadcast; int8 gives i32.

    The transposing attributes are transpose_x1/x2 of MatMul and adj_x1/x2 of BatchMatMul. Raises ValueError for
    offset_w or a nonzero offset_x (asymmetric int8).
    """
    x1, x2, bias = call.tensor("x1"), call.tensor("x2"), call.optional("bias")
    if call.optional("offset_w") is not None or call.attr("offset_x", 0):
        raise ValueError(f"{call.type} {call.name}: offset_w and offset_x are not modelled on the host")
    kind = "adj" if call.type.startswith("Batch") else "transpose"
    a, b = (_operand(t, bool(call.attr(f"{kind}_{n}", False))) for n, t in (("x1", x1), ("x2", x2)))
    y = torch.matmul(a, b)
    y = y if bias is None else y + wide(bias).to(y.dtype)
    return y if x1.dtype in _SMALL else y.to(x1.dtype)


class _Window:
    """Geometry of a convolution in n spatial dims, from attributes in data_format order."""

    def __init__(self, call: OpCall, n: int) -> None:
        layout = str(call.attr("data_format", "NDHWC" if n == 3 else "NHWC"))
        if layout not in ("NCHW", "NCDHW"):
            raise ValueError(f"{call.type} {call.name}: data_format {layout} is not modelled on the host, use NCHW")
        self.call, self.n = call, n
        self.strides = self._spatial("strides", None)
        self.dilations = self._spatial("dilations", [1] * (n + 2))
        self.pads = [int(p) for p in call.attr("pads")]
        if len(self.pads) != 2 * n:
            raise ValueError(f"{call.type} {call.name}: pads {self.pads} need {2 * n} values")
        self.groups = int(call.attr("groups", 1))

    def _spatial(self, name: str, default: list[int] | None) -> list[int]:
        values = [int(v) for v in self.call.attr(name, default)]
        if len(values) != self.n + 2:
            raise ValueError(f"{self.call.type} {self.call.name}: {name} {values} needs {self.n + 2} values")
        return values[2:]

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        """x with the zero frame of ``pads`` (before and after per spatial dim, first dim first)."""
        pairs = [self.pads[2 * d : 2 * d + 2] for d in range(self.n)]
        return F.pad(x, [v for pair in reversed(pairs) for v in pair])

    def inner(self, x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
        """Undoes ``padded``: the part of x that holds a tensor of shape ``size``."""
        for d in range(self.n):
            x = x.narrow(2 + d, self.pads[2 * d], size[2 + d])
        return x.contiguous()


def _gradients(w: _Window, grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, of_x: bool) -> torch.Tensor:
    """The gradient of a convolution without padding to its input or its weight."""
    found = torch.ops.aten.convolution_backward(
        wide(grad),
        x,
        weight,
        None,
        w.strides,
        [0] * w.n,
        w.dilations,
        False,
        [0] * w.n,
        w.groups,
        [of_x, not of_x, False],
    )
    result: torch.Tensor = found[0] if of_x else found[1]
    return result


@op("Conv2D", "Conv3D")
def conv(call: OpCall) -> torch.Tensor:
    """x, filter, bias? -> cross correlation with zero padding; bias per output channel. int8 gives i32."""
    x, weight, bias = call.tensor("x"), call.tensor("filter"), call.optional("bias")
    if call.optional("offset_w") is not None or call.attr("offset_x", 0):
        raise ValueError(f"{call.type} {call.name}: offset_w and offset_x are not modelled on the host")
    w = _Window(call, 3 if call.type == "Conv3D" else 2)
    small = x.dtype in _SMALL
    a, b = (t.double() if small else wide(t) for t in (x, weight))  # int8 products sum exactly in f64
    function = F.conv3d if w.n == 3 else F.conv2d
    added = None if bias is None else wide(bias).to(a.dtype)
    y = function(w.padded(a), b, added, stride=w.strides, dilation=w.dilations, groups=w.groups)
    return y.to(torch.int32 if small else x.dtype)


@op("Conv2DBackpropInput", "Conv3DBackpropInput")
def conv_backprop_input(call: OpCall) -> torch.Tensor:
    """input_size, filter, out_backprop -> the gradient to the input, of shape input_size."""
    return _to_input(call, call.tensor("out_backprop"))


@op("Conv2DTranspose", "Conv3DTranspose")
def conv_transpose(call: OpCall) -> torch.Tensor:
    """input_size (the shape of y), x, filter, bias? -> the adjoint of a convolution with that filter."""
    y = _to_input(call, call.tensor("x"), round_result=False)
    bias = call.optional("bias")
    if bias is not None:
        y = y + wide(bias).to(y.dtype).reshape([1, -1] + [1] * (y.dim() - 2))
    return y.to(call.tensor("x").dtype)


def _to_input(call: OpCall, grad: torch.Tensor, *, round_result: bool = True) -> torch.Tensor:
    size, weight = call.ints("input_size"), wide(call.tensor("filter"))
    w = _Window(call, 3 if call.type.startswith("Conv3D") else 2)
    framed = [*size[:2], *(n + w.pads[2 * d] + w.pads[2 * d + 1] for d, n in enumerate(size[2:]))]
    y = w.inner(_gradients(w, grad, torch.zeros(framed, dtype=weight.dtype), weight, True), size)
    return y.to(grad.dtype) if round_result else y


@op("Conv2DBackpropFilter", "Conv3DBackpropFilter")
def conv_backprop_filter(call: OpCall) -> torch.Tensor:
    """x, filter_size, out_backprop -> the gradient to the weight, of shape filter_size."""
    x, size = wide(call.tensor("x")), call.ints("filter_size")
    w = _Window(call, 3 if call.type.startswith("Conv3D") else 2)
    weight = torch.zeros(size, dtype=x.dtype)
    return _gradients(w, call.tensor("out_backprop"), w.padded(x), weight, False).to(call.tensor("x").dtype)
