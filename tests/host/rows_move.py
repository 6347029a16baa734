"""Rows of the view, movement and padding ops; numpy is the reference where it has the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.host.op_rows import Row, i32, i64, ints, r, row, s64

BIG = 2**63 - 1


def by_numpy(function: Callable[[Any], Any]) -> Callable[..., torch.Tensor]:
    """A formula in numpy of the first input."""
    return lambda x, *_: torch.from_numpy(np.array(function(x.numpy()), order="C"))


def _views() -> list[Row]:
    x = r(2, 3, 4)
    flags = r(2, 3) > 0
    same = lambda x, *_: x  # noqa: E731
    return [
        row("Identity", same, {"x": x}, half=True),
        row("Identity", same, {"x": flags}),
        row("IdentityN", lambda a, b: [a, b], {"x0": x, "x1": i64(1, 2)}),
        row(
            "Reshape",
            lambda x, s: x.reshape(6, 4),
            {"x": x, "shape": i64(6, -1)},
            {"axis": 0, "num_axes": -1},
            half=True,
        ),
        row("Reshape", lambda x, s: x.reshape(2, 12), {"x": x, "shape": i32(0, -1)}),
        row("Reshape", lambda x, s: x.reshape(2, 12), {"x": x, "shape": i64(12)}, {"axis": 1}),
        row("Reshape", lambda x, s: x.reshape(2, 3, 2, 2), {"x": x, "shape": i64(2, 2)}, {"axis": -2, "num_axes": 1}),
        row("Reshape", lambda x, s: x.reshape(()), {"x": r(1, 1), "shape": i64()}),
        row("Reshape", lambda x, s: x.reshape(1), {"x": r(), "shape": i64(-1)}),
        row("Reshape", lambda x, s: torch.zeros(0, 4), {"x": torch.zeros(0, 2, 2), "shape": i64(0, -1)}),
        row("Reshape", lambda x, s: torch.zeros(3, 0), {"x": torch.zeros(0, 3), "shape": i64(3, 0)}),
        row("Reshape", lambda x, s: torch.stack(list(x.unbind(0))).flatten(), {"x": r(3, 4).t(), "shape": i64(12)}),
        row("Squeeze", lambda x: x[:, 0, :, 0], {"x": r(2, 1, 3, 1)}, {"axis": [1, -1]}, half=True),
        row("Squeeze", lambda x: x[:, 0, :, 0], {"x": r(2, 1, 3, 1)}),
        row("SqueezeV2", lambda x: x[0], {"x": r(1, 1)}, {"axis": [0]}),
        row("SqueezeV3", lambda x, a: x[0], {"x": r(1, 1), "axes": i64(0)}),
        row("SqueezeV3", lambda x: x[0, 0], {"x": r(1, 1)}),
        row("Unsqueeze", lambda x: x[None, :, None], {"x": r(3)}, {"axes": [0, -1]}, half=True),
        row("Unsqueeze", lambda x: x[None], {"x": r()}, {"axes": [0]}),
        row("UnsqueezeV2", lambda x: x[:, None], {"x": r(3)}, {"axis": [1]}),
        row("UnsqueezeV3", lambda x, a: x[None, None], {"x": r(3), "axes": i64(0, 1)}),
        row("ExpandDims", lambda x, a: x[:, None], {"x": r(3), "axis": i32(-1)[0]}),
        row("FlattenV2", lambda x: x.flatten(1), {"x": x}),
        row("FlattenV2", lambda x: x.flatten(0, 1), {"x": x}, {"axis": 0, "end_axis": -2}),
        row("FlattenV2", same, {"x": r(3)}),
        row("FlattenV2", lambda x: x[None], {"x": r()}),
        row("Flatten", lambda x: x.reshape(6, 4), {"x": x}, {"axis": 2}),
        row("Flatten", lambda x: x.reshape(1, 24), {"x": x}, {"axis": 0}),
        row("Shape", lambda x: i32(2, 3, 4), {"x": x}),
        row("Shape", lambda x: i64(2, 0), {"x": torch.zeros(2, 0)}, {"dtype": 9}),
        row("Shape", lambda x: i32(), {"x": r()}, {"dtype": 3}),
        row("ShapeN", lambda x, y: [i64(2, 3, 4), i64(2)], {"x0": x, "x1": i64(0, 0)}, {"dtype": 9}),
        row("Size", lambda x: i32(24)[0], {"x": x}),
        row("Rank", lambda x: i32(3)[0], {"x": x}),
        row("Bitcast", by_numpy(lambda a: a.view(np.int32)), {"x": r(2, 3)}, {"type": 3}),
        row("Bitcast", by_numpy(lambda a: a.view(np.int16).reshape(2, 3, 2)), {"x": r(2, 3)}, {"type": 6}),
        row("Bitcast", by_numpy(lambda a: a.view(np.int16)), {"x": r(2, 3)}, {"type": 6, "keep_dim": True}),
        row(
            "Bitcast",
            by_numpy(lambda a: a.view(np.float32).reshape(2)),
            {"x": ints(0, 99, 2, 4, dtype=torch.uint8)},
            {"type": 0},
        ),
        row(
            "Bitcast",
            by_numpy(lambda a: a.view(np.int64)),
            {"x": ints(0, 99, 2, 4, dtype=torch.int32)},
            {"type": 9, "keep_dim": True},
        ),
        row("BroadcastTo", by_numpy(lambda a: np.broadcast_to(a, (2, 3, 4))), {"x": r(3, 1), "shape": i64(2, 3, 4)}),
        row("BroadcastTo", by_numpy(lambda a: np.broadcast_to(a, (1, 3, 4))), {"x": r(3, 1), "shape": i32(-1, -1, 4)}),
        row("BroadcastTo", by_numpy(lambda a: np.broadcast_to(a, (2, 0))), {"x": r(), "shape": i64(2, 0)}),
        row("BroadcastTo", lambda x, s: torch.stack([x, x]), {"x": flags, "shape": i64(2, 2, 3)}),
        row("BroadcastToD", by_numpy(lambda a: np.broadcast_to(a, (2, 3))), {"x": r(3)}, {"shape": [2, 3]}),
        row("Expand", by_numpy(lambda a: np.broadcast_to(a, (2, 3, 4))), {"x": r(3, 4), "shape": i64(2, 1, 4)}),
        row("Expand", by_numpy(lambda a: np.broadcast_to(a, (3, 4))), {"x": r(3, 1), "shape": i64(4)}),
        row("ExpandD", by_numpy(lambda a: np.broadcast_to(a, (2, 3))), {"x": r(3)}, {"shape": [2, 1]}),
    ]


def _slice_rows() -> list[Row]:
    rows = []
    cases: list[tuple[list[int], list[int], list[int], list[int], Any]] = [
        ([1], [3], [0], [1], np.s_[1:3]),
        ([-2], [BIG], [1], [1], np.s_[:, -2:]),
        ([0], [2147483647], [-1], [2], np.s_[..., ::2]),
        ([0, 1], [-1, 3], [2, 0], [1, 1], np.s_[1:3, :, 0:-1]),
        ([5], [2], [0], [1], np.s_[5:2]),
        ([9], [BIG], [0], [3], np.s_[9:]),
        ([-1], [-99], [1], [-2], np.s_[:, ::-2]),
        ([-99], [99], [0], [1], np.s_[:]),
    ]
    for begin, end, axes, strides, expected in cases:
        inputs = {"x": r(4, 5, 6), "begin": i64(*begin), "end": i64(*end), "axes": i64(*axes), "strides": i64(*strides)}
        attrs = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
        rows.append(row("StridedSliceV2", by_numpy(lambda a, e=expected: a[e]), inputs, attrs))
        rows.append(row("StridedSliceV3", by_numpy(lambda a, e=expected: a[e]), inputs))
    x, b, e, s = r(4, 5), i64(1, 1), i64(3, 4), i64(1, 2)
    return [
        *rows,
        row("StridedSliceV2", by_numpy(lambda a: a[1:3, 1:4]), {"x": x, "begin": b, "end": e}),
        row(
            "StridedSliceV2",
            lambda x, *_: x[:, 1:],
            {"x": x, "begin": b, "end": e},
            {"begin_mask": 1, "end_mask": 3},
            half=True,
        ),
        row("StridedSlice", by_numpy(lambda a: a[1:3, 1:4:2]), {"x": x, "begin": b, "end": e, "strides": s}),
        row(
            "StridedSliceD",
            by_numpy(lambda a: a[1:3, 1:4:2]),
            {"x": x},
            {"begin": [1, 1], "end": [3, 4], "strides": [1, 2]},
        ),
        row("Slice", by_numpy(lambda a: a[1:3, 2:]), {"x": x, "offsets": i64(1, 2), "size": i64(2, -1)}, half=True),
        row("Slice", by_numpy(lambda a: a[:0]), {"x": x, "offsets": i64(4, 0), "size": i64(0, 5)}),
        row("SliceD", by_numpy(lambda a: a[1:3, 2:]), {"x": x}, {"offsets": [1, 2], "size": [2, 3]}),
    ]


def _moves() -> list[Row]:
    x = r(2, 3, 4)
    a, b, c = r(2, 1, 4), r(2, 3, 4), r(2, 2, 4)
    cat = lambda *t: torch.from_numpy(np.concatenate([q.numpy() for q in t if q.dim() == 3], 1))  # noqa: E731
    stack = lambda axis: lambda *t: torch.from_numpy(np.stack([q.numpy() for q in t], axis))  # noqa: E731
    cut = lambda x, *_: [torch.from_numpy(p.copy()) for p in np.split(x.numpy(), [1, 3], 1)]  # noqa: E731
    y = r(2, 6, 4)
    return [
        row("TensorMove", lambda x: x, {"x": x}, half=True),
        row("TransData", lambda x: x, {"src": x}),
        row("Transpose", by_numpy(lambda a: a.transpose(2, 0, 1)), {"x": x, "perm": i64(2, 0, 1)}),
        row("Transpose", lambda x, p: x.mT.contiguous(), {"x": x, "perm": i32(0, -1, -2)}, half=True),
        row("Transpose", lambda x, p: x, {"x": r(), "perm": i64()}),
        row("Transpose", by_numpy(lambda a: a.T), {"x": torch.zeros(0, 3), "perm": i64(1, 0)}),
        row("TransposeD", by_numpy(lambda a: a.transpose(1, 0, 2)), {"x": x}, {"perm": [1, 0, 2]}),
        row("ConcatV2", cat, {"x0": a, "x1": b, "x2": c, "concat_dim": s64(1)}, {"N": 3}),
        row("ConcatV2", cat, {"x0": a, "x1": torch.zeros(2, 0, 4), "concat_dim": i32(-2)}, {"N": 2}),
        row("ConcatV2", lambda x, d: x, {"x0": a, "concat_dim": s64(0)}, half=True),
        row("Concat", cat, {"concat_dim": s64(1), "x0": a, "x1": b}),
        row("ConcatD", cat, {"x0": a, "x1": b}, {"concat_dim": 1}),
        row("ConcatV2D", cat, {"x0": a, "x1": b}, {"concat_dim": -2}),
        row("Pack", stack(1), {"x0": x, "x1": b}, {"axis": 1, "N": 2}),
        row("Pack", stack(-1), {"x0": x, "x1": b, "x2": b}, {"axis": -1}),
        row("Pack", lambda *t: i64(3, 4, 5), {"x0": s64(3), "x1": s64(4), "x2": s64(5)}, {"axis": 0}),
        row("Pack", lambda *t: i64(3, 4), {"x0": s64(3), "x1": i64(4)}),
        row("Unpack", lambda x: [x[:, i] for i in range(3)], {"x": x}, {"axis": 1, "num": 3}, half=True),
        row("Unpack", lambda x: [torch.tensor(1), torch.tensor(2)], {"x": i64(1, 2)}, {"num": 2}),
        row("SplitV", cut, {"x": y, "size_splits": i64(1, 2, 3), "split_dim": i32(1)[0]}, {"num_split": 3}),
        row("SplitV", cut, {"x": y, "size_splits": i32(1, 2, -1), "split_dim": i32(-2)}, {"num_split": 3}),
        row("SplitV", lambda x, *_: [x[:0], x], {"x": r(3), "size_splits": i64(0, 3), "split_dim": s64(0)}, half=True),
        row("SplitVD", cut, {"x": y}, {"size_splits": [1, 2, 3], "split_dim": 1, "num_split": 3}),
        row("Split", lambda d, x: [x[:, :2], x[:, 2:4], x[:, 4:]], {"split_dim": i32(1)[0], "x": y}, {"num_split": 3}),
        row("SplitD", lambda x: [x[:, :3], x[:, 3:]], {"x": y}, {"split_dim": -2, "num_split": 2}),
        row("Tile", by_numpy(lambda a: np.tile(a, (2, 1, 3))), {"x": x, "multiples": i64(2, 1, 3)}),
        row("Tile", by_numpy(lambda a: np.tile(a, (2, 3))), {"x": r(3), "multiples": i64(2, 3)}),
        row("Tile", by_numpy(lambda a: np.tile(a, (0, 1))), {"x": r(2, 3), "multiples": i64(0, 1)}),
        row("Tile", by_numpy(lambda a: np.tile(a, 2)), {"x": r(2, 3), "multiples": i64(2)}),
        row("TileD", by_numpy(lambda a: np.tile(a, (2, 1))), {"x": r(2, 3)}, {"multiples": [2, 1]}),
        row("ReverseV2", by_numpy(lambda a: a[::-1, :, ::-1]), {"x": x, "axis": i64(0, -1)}),
        row("ReverseV2", lambda x, a: x, {"x": x, "axis": i64()}, half=True),
        row("Roll", by_numpy(lambda a: np.roll(a, (1, -2), (0, 2))), {"x": x}, {"shifts": [1, -2], "dims": [0, 2]}),
        row("Roll", by_numpy(lambda a: np.roll(a, 5)), {"x": x}, {"shifts": [5]}),
        row("Tril", by_numpy(lambda a: np.tril(a, -1)), {"x": x}, {"diagonal": -1}),
        row("Tril", by_numpy(np.tril), {"x": r(3, 3) > 0}),
        row("Triu", by_numpy(lambda a: np.triu(a, 1)), {"x": x}, {"diagonal": 1}),
        row("Triu", lambda x: x * torch.ones(3, 3).triu(), {"x": r(3, 3)}, half=True),
    ]


def _pads() -> list[Row]:
    x = r(3, 4)
    rows = []
    for mode, name in (("edge", "edge"), ("reflect", "reflect"), ("symmetric", "symmetric"), ("circular", "wrap")):
        for pads in (((1, 2), (0, 3)), ((0, 0), (2, 1))):
            pad = by_numpy(lambda a, p=pads, m=name: np.pad(a, p, mode=m))
            flat = [v for p in pads for v in p]
            rows.append(row("PadV3", pad, {"x": x, "paddings": i64(*flat)}, {"mode": mode}))
            split = [p[0] for p in pads] + [p[1] for p in pads]
            rows.append(
                row("PadV3", pad, {"x": x, "paddings": i64(*split)}, {"mode": mode, "paddings_contiguous": False})
            )
            if mode in ("reflect", "symmetric"):
                rows.append(
                    row("MirrorPad", pad, {"x": x, "paddings": i64(*flat).reshape(2, 2)}, {"mode": mode.upper()})
                )
            weight = r(*(n + p[0] + p[1] for n, p in zip((3, 4), pads)))
            rows.append(
                row(
                    "PadV3Grad",
                    lambda g, _, p=pads, m=name: _pad_adjoint(g, p, m),
                    {"x": weight, "paddings": i64(*flat)},
                    {"mode": mode},
                    half=True,
                )
            )
    zero = by_numpy(lambda a: np.pad(a, ((1, 2), (0, 3))))
    five = torch.tensor(5.0)
    return [
        *rows,
        row("PadV3", zero, {"x": x, "paddings": i64(1, 2, 0, 3)}),
        row(
            "PadV3",
            lambda x, p, v: F.pad(x, (0, 3, 1, 2), value=5.0),
            {"x": x, "paddings": i32(1, 2, 0, 3), "constant_values": five},
            half=True,
        ),
        row("PadV3", by_numpy(lambda a: a[1:, :-2]), {"x": x, "paddings": i64(-1, 0, 0, -2)}),
        row(
            "PadV3",
            lambda x, p, v: F.pad(x, (2, -1, -1, 1), value=5.0),
            {"x": x, "paddings": i64(-1, 1, 2, -1), "constant_values": five},
        ),
        row("PadV3", lambda x, p: x, {"x": r(), "paddings": i64()}),
        row("PadV3", by_numpy(lambda a: np.pad(a, ((1, 0), (0, 1)))), {"x": x > 0, "paddings": i64(1, 0, 0, 1)}),
        row("PadV3", by_numpy(lambda a: np.pad(a, (0, 2))), {"x": torch.zeros(0), "paddings": i64(0, 2)}),
        row("Pad", zero, {"x": x, "paddings": i64(1, 2, 0, 3).reshape(2, 2)}),
        row(
            "PadV2",
            by_numpy(lambda a: np.pad(a, ((1, 2), (0, 3)), constant_values=7)),
            {"x": ints(0, 9, 3, 4), "paddings": i64(1, 2, 0, 3).reshape(2, 2), "constant_values": s64(7)},
        ),
        row("PadD", zero, {"x": x}, {"paddings": [[1, 2], [0, 3]]}),
    ]


def _pad_adjoint(grad: torch.Tensor, pads: Any, mode: str) -> torch.Tensor:
    """The adjoint of a pad of a (3, 4) tensor, from the images of its twelve unit tensors."""
    cells = np.eye(12, dtype=np.float32).reshape(12, 3, 4)
    images = np.stack([np.pad(c, pads, mode=mode) for c in cells])
    return torch.einsum("cij,ij->c", torch.from_numpy(images), grad).reshape(3, 4)


ROWS = [*_views(), *_slice_rows(), *_moves(), *_pads()]
