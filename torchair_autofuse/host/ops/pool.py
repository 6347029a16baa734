"""Pooling, resizing and grid sampling. NHWC inputs are handled by moving the channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import torch
import torch.nn.functional as F

from torchair_autofuse.host.ops.numerics import (
    channels_back,
    channels_first,
    channels_last,
    dtype_attr,
    wide,
)
from torchair_autofuse.host.ops.registry import OpCall, op


def _spatial(call: OpCall, name: str, n: int, last: bool, default: Sequence[int] | None = None) -> list[int]:
    """The ``n`` spatial values of an attribute of n, n + 2 (data_format order) or 1 values."""
    values = [int(v) for v in call.attr(name, default)]
    if len(values) == n + 2:
        return values[1:-1] if last else values[2:]
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise ValueError(f"{call.type} {call.name}: {name} {values} needs {n} or {n + 2} values")
    return values


def _frame(
    call: OpCall, size: Sequence[int], ksize: Sequence[int], strides: Sequence[int], mode: str
) -> list[tuple[int, int]]:
    """Padding (before, after) per spatial dim by mode VALID, SAME or CALCULATED (attribute ``pads``)."""
    if mode == "VALID":
        return [(0, 0)] * len(size)
    if mode == "SAME":
        need = [max((ceil(n / s) - 1) * s + k - n, 0) for n, k, s in zip(size, ksize, strides)]
        return [(t // 2, t - t // 2) for t in need]
    if mode != "CALCULATED":
        raise ValueError(f"{call.type} {call.name}: unknown padding mode {mode!r}")
    pads = [int(p) for p in call.attr("pads", [0] * (2 * len(size)))]
    return [(pads[2 * d], pads[2 * d + 1]) for d in range(len(size))]


def _extent(n: int, k: int, s: int, frame: tuple[int, int], dilation: int, ceil_mode: bool) -> tuple[int, int]:
    """(windows, positions they reach) along a dim; a last window that would start in the padding is dropped."""
    room = n + sum(frame) - dilation * (k - 1) - 1
    count = (-(-room // s) if ceil_mode else room // s) + 1
    if ceil_mode and (count - 1) * s >= n + frame[0]:
        count -= 1
    return count, (count - 1) * s + dilation * (k - 1) + 1


def _windows(
    x: torch.Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    frame: Sequence[tuple[int, int]],
    fill: float,
    dilation: Sequence[int],
    ceil_mode: bool,
) -> torch.Tensor:
    """All windows of a padded x (N, C, spatial): (N, C, windows per dim ..., elements of a window)."""
    n = len(ksize)
    extents = [_extent(x.shape[2 + d], ksize[d], strides[d], frame[d], dilation[d], ceil_mode) for d in range(n)]
    for d in range(n):
        low, reach = frame[d][0], extents[d][1]
        high = reach - low - x.shape[2 + d]
        pads = [0, 0] * (n - 1 - d) + [low, max(high, 0)]
        x = F.pad(x, pads, value=fill).narrow(2 + d, 0, reach)
    for d in range(n):
        x = x.unfold(2 + d, dilation[d] * (ksize[d] - 1) + 1, strides[d])
    for d in range(n):
        x = x[(slice(None),) * (2 + n + d) + (slice(None, None, dilation[d]),)]
    return x.reshape([*x.shape[: 2 + n], -1])


def _max_pool(
    call: OpCall,
    ksize: Sequence[int],
    strides: Sequence[int],
    frame: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    last: bool,
) -> list[torch.Tensor]:
    """(window maximum, its flat position in the unpadded plane)."""
    x = channels_first(call.tensor("x"), last)
    lowest = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
    ceil_mode = bool(call.attr("ceil_mode", False))
    size = list(x.shape[2:])
    plane = torch.arange(x[0, 0].numel() if x.numel() else 0, dtype=torch.float64).reshape(1, 1, *size)
    rows = _windows(x, ksize, strides, frame, 0.0, dilation, ceil_mode)
    places = _windows(plane, ksize, strides, frame, -1.0, dilation, ceil_mode)
    # padded places are taken out by position: a window of the lowest value must not point into the padding
    rank = torch.where(places < 0, torch.full_like(rows, lowest), rows)
    real = (places >= 0).expand_as(rows)
    found = rank.argmax(-1, keepdim=True)
    first = real.to(torch.int8).argmax(-1, keepdim=True)
    found = torch.where(real.gather(-1, found), found, first)
    y = rows.gather(-1, found).squeeze(-1)
    where = places.expand_as(rows).gather(-1, found).squeeze(-1).long()
    return [channels_back(y, last), channels_back(where, last)]


@op("MaxPool", "MaxPoolV3")
def max_pool(call: OpCall) -> torch.Tensor:
    """Window maximum; the padding mode is ``padding`` of MaxPool and ``padding_mode`` of V3."""
    first = call.type == "MaxPool"
    last = channels_last(call, "NHWC" if first else "NCHW")
    size = channels_first(call.tensor("x"), last).shape[2:]
    whole = bool(call.attr("global_pooling", False))
    ksize = list(size) if whole else _spatial(call, "ksize", 2, last)
    strides = [1, 1] if whole else _spatial(call, "strides", 2, last)
    mode = str(call.attr("padding") if first else call.attr("padding_mode", "CALCULATED"))
    frame = _frame(call, size, ksize, strides, "VALID" if whole else mode)
    return _max_pool(call, ksize, strides, frame, [1, 1], last)[0]


@op("MaxPoolWithArgmaxV1")
def max_pool_with_argmax(call: OpCall) -> list[torch.Tensor]:
    """(window maximum, argmax); H and W are at positions 1 and 2 of every attribute, whatever the layout.

    The device's encoding of argmax is not known: here it is the flat position in the plane.
    """
    last = channels_last(call)
    values = {k: [int(v) for v in call.attr(k, [1] * 4)][1:3] for k in ("ksize", "strides", "pads", "dilation")}
    frame = [(p, p) for p in values["pads"]]
    y, where = _max_pool(call, values["ksize"], values["strides"], frame, values["dilation"], last)
    return [y, where.to(dtype_attr(call, "dtype", torch.int32))]


@op("MaxPoolWithArgmaxV3", "MaxPool3DWithArgmaxV2")
def max_pool_with_indices(call: OpCall) -> list[torch.Tensor]:
    """(window maximum, flat position in the plane or volume), one attribute value per spatial dim."""
    n, last = (3, channels_last(call, "NCDHW")) if "3D" in call.type else (2, channels_last(call))
    ksize, strides = (_spatial(call, k, n, last) for k in ("ksize", "strides"))
    frame = [(p, p) for p in _spatial(call, "pads", n, last)]
    y, where = _max_pool(call, ksize, strides, frame, _spatial(call, "dilation", n, last, [1] * n), last)
    return [y, where.to(dtype_attr(call, "dtype", torch.int32))]


@op("MaxPoolGradWithArgmaxV1", "MaxPoolGradWithArgmaxV3")
def max_pool_grad(call: OpCall) -> torch.Tensor:
    """x, grad, argmax -> the gradient added at the argmax positions of the plane, in f32."""
    last = channels_last(call)
    x, grad, where = (channels_first(call.tensor(k), last) for k in ("x", "grad", "argmax"))
    y = torch.zeros(x.shape, dtype=wide(grad).dtype).flatten(2)
    y = y.scatter_add(2, where.long().flatten(2), wide(grad).flatten(2)).reshape(x.shape)
    return channels_back(y.to(x.dtype), last)


def _average(call: OpCall, shape: Sequence[int], last: bool) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """(ksize, strides, frame) of an average pool over channels-first planes of ``shape``."""
    size = list(shape[2:])
    if call.attr("global_pooling", False):
        return size, [1, 1], [(0, 0), (0, 0)]
    ksize, strides = _spatial(call, "ksize", 2, last), _spatial(call, "strides", 2, last)
    mode = str(call.attr("padding") if call.type == "AvgPool" else call.attr("padding_mode", "CALCULATED"))
    return ksize, strides, _frame(call, size, ksize, strides, mode)


def _divisor(
    call: OpCall, shape: Sequence[int], ksize: Sequence[int], strides: Sequence[int], frame: list[tuple[int, int]]
) -> torch.Tensor:
    """What each window sum is divided by: the override, or the window's elements without or with padding."""
    override = int(call.attr("divisor_override", 0))
    ones = torch.ones(1, 1, *shape[2:])
    ceil_mode = bool(call.attr("ceil_mode", False))
    if not call.attr("exclusive", True):  # the padding counts, but not what ceil_mode adds beyond it
        ones = F.pad(ones, [v for pair in reversed(frame) for v in pair], value=1.0)
        counts = [_extent(n, k, s, f, 1, ceil_mode)[0] for n, k, s, f in zip(shape[2:], ksize, strides, frame)]
        per_dim = [
            torch.tensor([min(i * s + k, m) - i * s for i in range(c)], dtype=torch.float32)
            for c, s, k, m in zip(counts, strides, ksize, ones.shape[2:])
        ]
        found = per_dim[0][:, None] * per_dim[1][None, :]
    else:
        found = _windows(ones, ksize, strides, frame, 0.0, [1, 1], ceil_mode).sum(-1)[0, 0]
    return torch.full_like(found, float(override)) if override else found


@op("AvgPool", "AvgPoolV2")
def avg_pool(call: OpCall) -> torch.Tensor:
    """Window sum over the divisor (``divisor_override``, ``exclusive``)."""
    last = channels_last(call, "NHWC" if call.type == "AvgPool" else "NCHW")
    x = channels_first(call.tensor("x"), last)
    ksize, strides, frame = _average(call, x.shape, last)
    rows = _windows(wide(x), ksize, strides, frame, 0.0, [1, 1], bool(call.attr("ceil_mode", False)))
    y = rows.sum(-1) / _divisor(call, x.shape, ksize, strides, frame)
    return channels_back(y.to(x.dtype), last)


def _adjoint(linear: torch.Tensor, source: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient of ``linear`` (computed from ``source``) for the output gradient ``grad``."""
    (found,) = torch.autograd.grad(linear, source, grad)
    return found


@op("AvgPoolV2Grad")
def avg_pool_grad(call: OpCall) -> torch.Tensor:
    """orig_input_shape, input_grad -> the adjoint of AvgPoolV2."""
    last = channels_last(call)
    grad = channels_first(call.tensor("input_grad"), last)
    shape = call.ints("orig_input_shape")
    shape = [shape[0], shape[-1], *shape[1:-1]] if last else shape
    ksize, strides, frame = _average(call, shape, last)
    with torch.enable_grad():
        x = torch.zeros(shape, dtype=wide(grad).dtype, requires_grad=True)
        rows = _windows(x, ksize, strides, frame, 0.0, [1, 1], bool(call.attr("ceil_mode", False)))
        y = rows.sum(-1) / _divisor(call, shape, ksize, strides, frame)
        found = _adjoint(y, x, wide(grad))
    return channels_back(found.to(grad.dtype), last)


def _bins(n: int, out: int) -> torch.Tensor:
    """(out, n) weights: the mean over floor(i * n / out) .. ceil((i + 1) * n / out)."""
    found = torch.zeros(out, n)
    for i in range(out):
        low, high = i * n // out, -(-(i + 1) * n // out)
        found[i, low:high] = 1.0 / (high - low)
    return found


@op("AdaptiveAvgPool2d")
def adaptive_avg_pool(call: OpCall) -> torch.Tensor:
    """Mean over as many windows per dim as the attribute ``output_size`` says."""
    x = call.tensor("x")
    height, width = (_bins(n, int(o)).to(wide(x).dtype) for n, o in zip(x.shape[-2:], call.attr("output_size")))
    return (height @ wide(x) @ width.t()).to(x.dtype)


@op("AdaptiveAvgPool2dGrad")
def adaptive_avg_pool_grad(call: OpCall) -> torch.Tensor:
    """The adjoint of AdaptiveAvgPool2d, of shape ``orig_input_shape``."""
    grad = call.tensor("input_grad")
    sizes = [int(n) for n in call.attr("orig_input_shape")][-2:]
    height, width = (_bins(n, o).to(wide(grad).dtype) for n, o in zip(sizes, grad.shape[-2:]))
    return (height.t() @ wide(grad) @ width).to(grad.dtype)
