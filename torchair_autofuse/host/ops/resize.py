"""Nearest and bilinear resizing, and sampling at a grid."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torchair_autofuse.host.ops.numerics import channels_back, channels_first, channels_last, dtype_attr, f32, wide
from torchair_autofuse.host.ops.registry import OpCall, op


def _nearest(call: OpCall, n: int, out: int) -> torch.Tensor:
    """The source position of each of ``out`` positions, the scale being rounded to f32 as devices do."""
    position = torch.arange(out, dtype=torch.float32)
    if call.attr("align_corners", False) and out > 1:
        found = (position * torch.tensor((n - 1) / (out - 1), dtype=torch.float32)).round()
    else:
        half = 0.5 if call.attr("half_pixel_centers", False) else 0.0
        found = ((position + half) * torch.tensor(n / out, dtype=torch.float32)).floor()
    return found.long().clamp(0, n - 1)


@op("ResizeNearestNeighborV2")
def resize_nearest(call: OpCall) -> torch.Tensor:
    """x, size [H, W] -> y[i] = x[floor(i * in / out)] per dim."""
    last = channels_last(call)
    x = channels_first(call.tensor("x"), last)
    for d, out in zip((2, 3), call.ints("size")):
        x = x.index_select(d, _nearest(call, x.shape[d], out))
    return channels_back(x, last)


@op("ResizeNearestNeighborV2Grad")
def resize_nearest_grad(call: OpCall) -> torch.Tensor:
    """grads, size (of the input) -> every gradient added at its source, in f32."""
    last = channels_last(call)
    grads = call.tensor("grads")
    y = wide(channels_first(grads, last))
    for d, n in zip((2, 3), call.ints("size")):
        shape = [*y.shape[:d], n, *y.shape[d + 1 :]]
        y = torch.zeros(shape, dtype=y.dtype).index_add(d, _nearest(call, n, y.shape[d]), y)
    return channels_back(y, last).to(grads.dtype)


def _linear(call: OpCall, n: int, out: int) -> torch.Tensor:
    """(out, n) interpolation weights of one dim."""
    position = torch.arange(out, dtype=torch.float32)
    if call.attr("align_corners", False):
        source = position * ((n - 1) / (out - 1) if out > 1 else 0.0)
    elif call.attr("half_pixel_centers", False):
        source = ((position + 0.5) * (n / out) - 0.5).clamp(min=0.0)
    else:
        source = position * (n / out)
    low = source.floor().clamp(0, n - 1)
    part = source - low
    weights = torch.zeros(out, n)
    weights[torch.arange(out), low.long()] += 1.0 - part
    weights[torch.arange(out), (low.long() + 1).clamp(max=n - 1)] += part
    return weights


@op("ResizeBilinearV2")
def resize_bilinear(call: OpCall) -> torch.Tensor:
    """x, size [H, W] -> bilinear resize; the result is of the attribute ``dtype`` (f32 by default)."""
    last = channels_last(call)
    x = f32(channels_first(call.tensor("x"), last))
    height, width = (_linear(call, n, o).to(x.dtype) for n, o in zip(x.shape[2:], call.ints("size")))
    y = height @ x @ width.t()
    return channels_back(y, last).to(dtype_attr(call, "dtype", torch.float32))


@op("GridSampler2D", "GridSampler3D")
def grid_sample(call: OpCall) -> torch.Tensor:
    """x, grid (coordinates in [-1, 1]) -> x sampled there, by ``interpolation_mode`` and ``padding_mode``."""
    x, grid = call.tensor("x"), call.tensor("grid")
    y = F.grid_sample(
        wide(x), wide(grid),
        mode=str(call.attr("interpolation_mode", "bilinear")), padding_mode=str(call.attr("padding_mode", "zeros")),
        align_corners=bool(call.attr("align_corners", False)),
    )  # fmt: skip
    return y.to(x.dtype)


@op("GridSampler2DGrad")
def grid_sample_grad(call: OpCall) -> list[torch.Tensor]:
    """grad, x, grid -> (dx, dgrid)."""
    grad, x, grid = call.tensor("grad"), call.tensor("x"), call.tensor("grid")
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}, {"zeros": 0, "border": 1, "reflection": 2}
    dx, dgrid = torch.ops.aten.grid_sampler_2d_backward(
        wide(grad), wide(x), wide(grid), modes[0][str(call.attr("interpolation_mode", "bilinear"))],
        modes[1][str(call.attr("padding_mode", "zeros"))], bool(call.attr("align_corners", False)), [True, True],
    )  # fmt: skip
    return [dx.to(x.dtype), dgrid.to(grid.dtype)]
