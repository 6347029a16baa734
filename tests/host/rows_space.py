"""Rows of the matrix products, convolutions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tests.host.op_rows import Row, gradients, i32, i64, ints, r, row


def _matmuls() -> list[Row]:
    a, b, bias = r(3, 4), r(4, 5), r(5)
    dot = lambda a, b: torch.einsum("...ij,...jk->...ik", a, b)  # noqa: E731
    rows = []
    for op in ("MatMul", "MatMulV2", "MatMulV3"):
        names = {"bias": None} if op == "MatMul" else {"bias": None, "offset_w": None}
        rows += [
            row(op, lambda a, b, *_: dot(a, b), {"x1": a, "x2": b, **names}, half=True),
            row(op, lambda a, b, c, *_: dot(a, b) + c, {"x1": a, "x2": b, **names, "bias": bias}, half=True),
            row(
                op,
                lambda a, b: dot(a.t(), b.t()),
                {"x1": r(4, 3), "x2": r(5, 4)},
                {"transpose_x1": True, "transpose_x2": True},
            ),
            row(op, lambda a, b: torch.zeros(3, 5), {"x1": r(3, 0), "x2": r(0, 5)}),
        ]
    for op in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        rows += [
            row(op, dot, {"x1": r(2, 3, 4), "x2": r(2, 4, 5)}, {"adj_x1": False, "adj_x2": False}, half=True),
            row(
                op, lambda a, b: dot(a, b.mT), {"x1": r(2, 1, 3, 4), "x2": r(6, 5, 4)}, {"adj_x2": True}, tolerance=5e-6
            ),
            row(op, lambda a, b: dot(a.mT, b), {"x1": r(2, 4, 3), "x2": r(4, 5)}, {"adj_x1": True}),
        ]
    small = {"x1": ints(-128, 128, 3, 300, dtype=torch.int8), "x2": ints(-128, 128, 300, 5, dtype=torch.int8)}
    return [
        *rows,
        row(
            "BatchMatMulV2",
            lambda a, b, c: dot(a, b) + c,
            {"x1": r(2, 3, 4), "x2": r(2, 4, 5), "bias": bias},
            half=True,
        ),
        row("MatMulV2", lambda a, b, c: (a.double() @ b.double()).int() + c, {**small, "bias": i32(1, 2, 3, 4, 5)}),
        row(
            "MatMul",
            lambda a, b: (a.double() @ b.double()).int(),
            {"x1": ints(-9, 9, 3, 4).int(), "x2": ints(-9, 9, 4, 5).int()},
        ),
    ]


def _conv(x: torch.Tensor, w: torch.Tensor, a: dict[str, Any], bias: torch.Tensor | None = None) -> torch.Tensor:
    """An eager convolution from GE attributes."""
    n = x.dim() - 2
    pads = [p for d in reversed(range(n)) for p in a["pads"][2 * d : 2 * d + 2]]
    f = F.conv2d if n == 2 else F.conv3d
    return f(F.pad(x, pads), w, bias, a["strides"][2:], 0, a.get("dilations", [1] * (n + 2))[2:], a.get("groups", 1))


def _convs() -> list[Row]:
    rows = []
    plain = {
        "strides": [1, 1, 1, 1],
        "pads": [1, 1, 1, 1],
        "dilations": [1, 1, 1, 1],
        "groups": 1,
        "data_format": "NCHW",
    }
    cases: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((2, 4, 6, 5), (6, 4, 3, 3), plain),
        ((2, 4, 7, 6), (6, 2, 3, 2), {**plain, "strides": [1, 1, 2, 3], "groups": 2, "pads": [1, 0, 2, 1]}),
        ((1, 3, 9, 8), (3, 1, 3, 3), {**plain, "dilations": [1, 1, 2, 1], "groups": 3, "pads": [0, 0, 0, 0]}),
        (
            (1, 2, 4, 5, 3),
            (3, 2, 2, 2, 2),
            {"strides": [1, 1, 2, 1, 1], "pads": [1, 0, 0, 1, 0, 0], "data_format": "NCDHW"},
        ),
    ]
    for xs, ws, a in cases:
        kind = "Conv3D" if len(xs) == 5 else "Conv2D"
        x, w = r(*xs), r(*ws)
        y = _conv(x, w, a)
        dy, bias = r(*y.shape), r(ws[0])
        back_bias = r(xs[1])
        empty = {"bias": None, "offset_w": None}
        rows += [
            row(kind, lambda x, w, *_, a=a: _conv(x, w, a), {"x": x, "filter": w, **empty}, a, tolerance=1e-5),
            row(
                kind,
                lambda x, w, b, *_, a=a: _conv(x, w, a, b),
                {"x": x, "filter": w, **empty, "bias": bias},
                a,
                half=True,
                tolerance=1e-5,
            ),
            row(
                kind + "BackpropInput",
                lambda s, w, g, a=a, x=x: gradients(lambda x: _conv(x, w, a), [x], g)[0],
                {"input_size": i32(*xs), "filter": w, "out_backprop": dy},
                a,
                tolerance=1e-5,
            ),
            row(
                kind + "BackpropFilter",
                lambda x, s, g, a=a, w=w: gradients(lambda w: _conv(x, w, a), [w], g)[0],
                {"x": x, "filter_size": i32(*ws), "out_backprop": dy},
                a,
                tolerance=1e-4,
            ),
            row(
                kind + "Transpose",
                lambda s, g, w, b, *_, a=a, x=x: (
                    gradients(lambda x: _conv(x, w, a), [x], g)[0] + b.reshape(1, -1, *[1] * (x.dim() - 2))
                ),
                {"input_size": i64(*xs), "x": dy, "filter": w, "bias": back_bias, "offset_w": None},
                a,
                half=True,
                tolerance=1e-5,
            ),
        ]
    two = {**plain, "strides": [1, 1, 2, 2], "output_padding": [0, 0, 1, 1]}
    return [
        *rows,
        row(
            "Conv2DTranspose",
            lambda s, x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
            {"input_size": i32(2, 3, 8, 10), "x": r(2, 4, 4, 5), "filter": r(4, 3, 3, 3)},
            two,
            tolerance=1e-5,
        ),
        row(
            "Conv2D",
            lambda x, w: F.conv2d(x.double(), w.double(), padding=1).int(),
            {"x": ints(-128, 128, 1, 9, 5, 5).to(torch.int8), "filter": ints(-128, 128, 2, 9, 3, 3).to(torch.int8)},
            plain,
        ),
    ]


def _v1(k: Sequence[int], s: Sequence[int], p: Sequence[int], **more: Any) -> dict[str, Any]:
    return {"ksize": [1, *k, 1], "strides": [1, *s, 1], "pads": [1, *p, 1], "input_layout_info": [0], **more}


def _max_pools() -> list[Row]:
    x = r(2, 3, 9, 8)
    pair = lambda **o: lambda x: [(t := F.max_pool2d(x, return_indices=True, **o))[0], t[1].int()]  # noqa: E731
    low = torch.full((1, 1, 3, 3), float("-inf"))
    same = lambda x: F.max_pool2d(F.pad(x, (0, 1, 1, 1), value=float("-inf")), 3, 2)  # noqa: E731
    value, place = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    grad = r(*value.shape)
    back = lambda x, g, _: gradients(lambda x: F.max_pool2d(x, 3, 2, 1), [x], g)[0]  # noqa: E731
    return [
        row(
            "MaxPoolWithArgmaxV1",
            pair(kernel_size=3, stride=2, padding=1),
            {"x": x},
            _v1([3, 3], [2, 2], [1, 1], dtype=3),
            half=True,
        ),
        row(
            "MaxPoolWithArgmaxV1",
            pair(kernel_size=(2, 3), stride=(2, 3), ceil_mode=True),
            {"x": x},
            _v1([2, 3], [2, 3], [0, 0], ceil_mode=True),
        ),
        row(
            "MaxPoolWithArgmaxV1",
            pair(kernel_size=2, stride=1, dilation=2),
            {"x": x},
            _v1([2, 2], [1, 1], [0, 0], dilation=[1, 2, 2, 1]),
        ),
        row("MaxPoolWithArgmaxV1", lambda x: [F.max_pool2d(x, 3, 2, 1), None], {"x": low}, _v1([3, 3], [2, 2], [1, 1])),
        row(
            "MaxPoolWithArgmaxV3",
            lambda x: list(F.max_pool2d(x, 3, 2, 1, return_indices=True)),
            {"x": x},
            {"ksize": [3, 3], "strides": [2, 2], "pads": [1, 1], "dtype": 9},
        ),
        row(
            "MaxPoolWithArgmaxV3",
            lambda x: [F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1).contiguous(), None],
            {"x": r(2, 9, 8, 3)},
            {"ksize": [3, 3], "strides": [2, 2], "pads": [1, 1], "data_format": "NHWC"},
            half=True,
        ),
        row(
            "MaxPool3DWithArgmaxV2",
            lambda x: [(t := F.max_pool3d(x, 2, 2, 1, return_indices=True))[0], t[1].int()],
            {"x": r(1, 2, 4, 5, 6)},
            {"ksize": [2, 2, 2], "strides": [2, 2, 2], "pads": [1, 1, 1]},
        ),
        row(
            "MaxPoolGradWithArgmaxV1", back, {"x": x, "grad": grad, "argmax": place.int()}, _v1([3, 3], [2, 2], [1, 1])
        ),
        row(
            "MaxPoolGradWithArgmaxV3",
            back,
            {"x": x, "grad": grad, "argmax": place},
            {"ksize": [3, 3], "strides": [2, 2], "pads": [1, 1]},
        ),
        row(
            "MaxPool",
            lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1).contiguous(),
            {"x": r(2, 4, 6, 3)},
            {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
            half=True,
        ),
        row(
            "MaxPool",
            same,
            {"x": x},
            {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW"},
        ),
        row(
            "MaxPoolV3",
            lambda x: F.max_pool2d(F.pad(x, (2, 0, 0, 1), value=float("-inf")), 3, 2),
            {"x": x},
            {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [0, 1, 2, 0]},
        ),
        row("MaxPoolV3", lambda x: x.amax((2, 3), True), {"x": x}, {"global_pooling": True}, half=True),
        row(
            "MaxPoolV3",
            lambda x: F.max_pool2d(x.double(), 2).int(),
            {"x": ints(-9, 9, 1, 2, 4, 4).int()},
            {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2]},
        ),
    ]


def _avg_pools() -> list[Row]:
    x = r(2, 3, 9, 8)
    rows = []
    for k, s, p, more, eager in (
        ([3, 2], [2, 2], [1, 1], {}, {}),
        (
            [3, 3],
            [2, 3],
            [1, 1],
            {"ceil_mode": True, "exclusive": False},
            {"ceil_mode": True, "count_include_pad": True},
        ),
        ([3, 3], [2, 3], [1, 0], {"ceil_mode": True}, {"ceil_mode": True}),
        ([2, 2], [2, 2], [0, 0], {"divisor_override": 3}, {"divisor_override": 3}),
    ):
        a = {
            "ksize": [1, 1, *k],
            "strides": [1, 1, *s],
            "pads": [p[0], p[0], p[1], p[1]],
            "padding_mode": "CALCULATED",
            **more,
        }
        o = {"count_include_pad": False, **eager}
        f = lambda x, k=k, s=s, p=p, o=o: F.avg_pool2d(x, k, s, p, **o)  # noqa: E731
        rows.append(row("AvgPoolV2", f, {"x": x}, a, half=True))
        rows.append(
            row(
                "AvgPoolV2Grad",
                lambda s, g, f=f: gradients(f, [x], g)[0],
                {"orig_input_shape": i32(2, 3, 9, 8), "input_grad": r(*f(x).shape)},
                a,
            )
        )
    return [
        *rows,
        row("AvgPoolV2", lambda x: x.mean((2, 3), True), {"x": x}, {"global_pooling": True}),
        row(
            "AvgPoolV2",
            lambda x: F.avg_pool2d(F.pad(x, (2, 0, 0, 1)), 3, 2),
            {"x": x},
            {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [0, 1, 2, 0], "exclusive": False},
        ),
        row(
            "AvgPool",
            lambda x: F.avg_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1).contiguous(),
            {"x": r(2, 4, 6, 3)},
            {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
            half=True,
        ),
        row(
            "AvgPool",
            lambda x: (
                F.avg_pool2d(F.pad(x, (0, 1, 1, 1)), 3, 2)
                * 9
                / F.avg_pool2d(F.pad(torch.ones(1, 1, 9, 8), (0, 1, 1, 1)), 3, 2, divisor_override=1)
            ),
            {"x": x},
            {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW"},
        ),
        row(
            "AdaptiveAvgPool2d",
            lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
            {"x": x},
            {"output_size": [4, 3]},
            half=True,
        ),
        row(
            "AdaptiveAvgPool2d",
            lambda x: F.adaptive_avg_pool2d(x, (1, 10)),
            {"x": r(3, 5, 4)},
            {"output_size": [1, 10]},
        ),
        row(
            "AdaptiveAvgPool2dGrad",
            lambda g: gradients(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), [x], g)[0],
            {"input_grad": r(2, 3, 4, 3)},
            {"orig_input_shape": [2, 3, 9, 8]},
            half=True,
        ),
    ]


def _resizes() -> list[Row]:
    x = r(2, 3, 5, 4)
    rows = []
    for size in ((10, 8), (3, 7), (1, 1), (5, 4)):
        near = lambda x, _=None, s=size: F.interpolate(x, s, mode="nearest")  # noqa: E731
        half = {"half_pixel_centers": True}
        rows += [
            row("ResizeNearestNeighborV2", near, {"x": x, "size": i32(*size)}, {"input_layout_info": [0]}, half=True),
            row(
                "ResizeNearestNeighborV2",
                lambda x, _, s=size: F.interpolate(x, s, mode="nearest-exact"),
                {"x": x, "size": i32(*size)},
                half,
            ),
            row(
                "ResizeNearestNeighborV2Grad",
                lambda g, _, f=near: gradients(f, [x], g)[0],
                {"grads": r(2, 3, *size), "size": i32(5, 4)},
                half=True,
            ),
            row(
                "ResizeBilinearV2",
                lambda x, _, s=size: F.interpolate(x, s, mode="bilinear"),
                {"x": x, "size": i32(*size)},
                half,
            ),
            row(
                "ResizeBilinearV2",
                lambda x, _, s=size: F.interpolate(x, s, mode="bilinear", align_corners=True),
                {"x": x, "size": i32(*size)},
                {"align_corners": True},
            ),
        ]
    grid2, grid3 = r(2, 6, 7, 2) * 0.8, r(1, 2, 3, 4, 3) * 0.8
    for mode, pad, corners in (
        ("bilinear", "zeros", False),
        ("nearest", "border", True),
        ("bicubic", "reflection", False),
    ):
        a = {"interpolation_mode": mode, "padding_mode": pad, "align_corners": corners}
        sample = lambda x, g, m=mode, p=pad, c=corners: F.grid_sample(x, g, m, p, c)  # noqa: E731
        rows.append(row("GridSampler2D", sample, {"x": x, "grid": grid2}, a))
        rows.append(
            row(
                "GridSampler2DGrad",
                lambda d, x, g, f=sample: gradients(f, [x, g], d),
                {"grad": r(2, 3, 6, 7), "x": x, "grid": grid2},
                a,
                tolerance=1e-5,
            )
        )
    return [
        *rows,
        row(
            "GridSampler3D",
            lambda x, g: F.grid_sample(x, g, align_corners=False),
            {"x": r(1, 2, 3, 4, 5), "grid": grid3},
            half=True,
        ),
        row(
            "ResizeNearestNeighborV2",
            lambda x, _: torch.tensor([0, 2, 4, 6]).reshape(1, 1, 1, 4),
            {"x": torch.arange(7).reshape(1, 1, 1, 7), "size": i32(1, 4)},
            {"align_corners": True},
        ),
        row(
            "ResizeBilinearV2",
            lambda x, _: torch.tensor([0.0, 0.5, 1.0, 1.0]).reshape(1, 1, 1, 4),
            {"x": torch.tensor([0.0, 1.0]).reshape(1, 1, 1, 2), "size": i32(1, 4)},
        ),
    ]


ROWS = [*_matmuls(), *_convs(), *_max_pools(), *_avg_pools(), *_resizes()]
