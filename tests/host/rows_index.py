"""Rows of the indexing and sorting ops."""

from __future__ import annotations

import numpy as np
import torch

from tests.host.op_rows import Row, i32, i64, ints, r, row, s64

NAN = float("nan")


def _gathers() -> list[Row]:
    x = r(4, 5, 6)
    i, j = i64(0, -1, 2), i64(1, 1, -5)
    near = {"negative_index_support": True}
    batch_x, batch_i = r(3, 4, 2), ints(0, 4, 3, 5)
    np_take = lambda x, i, axis: torch.from_numpy(np.take(x.numpy(), i.numpy(), axis))  # noqa: E731
    return [
        row("Gather", lambda x, i: np_take(x, i, 0), {"x": x, "indices": ints(0, 4, 2, 3)}),
        row("Gather", lambda x, i: torch.tensor(7), {"x": i64(5, 7), "indices": s64(1)}),
        row("Gather", lambda x, i: x[i], {"x": r(4, 3), "indices": i32(3, 0)}, half=True),
        row(
            "Gather",
            lambda x, i: torch.stack([x[b, i[b]] for b in range(3)]),
            {"x": batch_x, "indices": batch_i},
            {"batch_dims": 1},
        ),
        row("GatherV2", lambda x, i, a: np_take(x, i, 1), {"x": x, "indices": ints(0, 5, 2, 3), "axis": i64(1)}),
        row("GatherV2", lambda x, i, a: np_take(x, i, 2), {"x": x, "indices": i32(5, 0), "axis": s64(-1)}),
        row("GatherV2", lambda x, i, a: x[:, -1], {"x": x, "indices": s64(-1), "axis": i64(1)}, near, half=True),
        row("GatherV2", lambda x, i, a: torch.zeros(4, 0, 6), {"x": x, "indices": i64(), "axis": i64(1)}),
        row(
            "GatherV2",
            lambda x, i, a: torch.stack([x[b][:, i[b]] for b in range(3)]),
            {"x": r(3, 2, 4), "indices": batch_i, "axis": i64(2)},
            {"batch_dims": 1},
        ),
        row(
            "GatherElements",
            lambda x, i: torch.from_numpy(np.take_along_axis(x.numpy(), i.numpy(), 1)),
            {"x": x, "index": ints(0, 5, 4, 2, 6)},
            {"dim": 1},
        ),
        row(
            "GatherElements",
            lambda x, i: x.gather(-1, i.long()),
            {"x": r(3, 4), "index": ints(0, 4, 3, 2, dtype=torch.int32)},
            {"dim": -1},
            half=True,
        ),
        row(
            "GatherNd", lambda x, i: torch.stack([x[0, 1], x[3, 4]]), {"x": x, "indices": i64(0, 1, 3, 4).reshape(2, 2)}
        ),
        row("GatherNd", lambda x, i: x[3, 1, 2], {"x": x, "indices": i64(-1, 1, 2)}, near),
        row("GatherNd", lambda x, i: torch.stack([x, x]), {"x": r(3), "indices": torch.zeros(2, 0, dtype=torch.int64)}),
        row(
            "IndexByTensor",
            lambda x, i, j: torch.from_numpy(x.numpy()[i.numpy(), :, j.numpy()].copy()),
            {"x": x, "indices0": i, "indices1": j},
            {"indices_mask": [1, 0, 1]},
        ),
        row(
            "IndexByTensor",
            lambda x, i, j: torch.from_numpy(x.numpy()[:, i.numpy(), j.numpy()].copy()),
            {"x": x, "indices0": i, "indices1": j},
            {"indices_mask": [0, 1, 1]},
        ),
        row(
            "IndexByTensor",
            lambda x, i, j: torch.from_numpy(x.numpy()[i.numpy(), j.numpy()].copy()),
            {"x": x, "indices0": i[:, None], "indices1": j[None, :]},
            {"indices_mask": [1, 1]},
        ),
        row("IndexByTensor", lambda x, i: x[i], {"x": r(4, 3), "indices0": i}, {"indices_mask": [1]}, half=True),
        row(
            "Index",
            lambda x, s, t, i: x[:, i],
            {"x": x, "indexed_sizes": i64(0, 1), "indexed_strides": i64(1), "indices0": i},
        ),
        row(
            "AsStrided",
            lambda x, *_: x.reshape(-1).as_strided((2, 3), (7, 2), 3),
            {"x": r(4, 5), "size": i64(2, 3), "stride": i64(7, 2), "storage_offset": i64(3)},
            half=True,
        ),
        row(
            "AsStrided",
            lambda x, *_: x.contiguous().as_strided((3, 3), (1, 1), 0),
            {"x": r(4, 5).t(), "size": i64(3, 3), "stride": i64(1, 1), "storage_offset": s64(0)},
        ),
        row(
            "AsStrided",
            lambda x, *_: x.expand(3),
            {"x": r(), "size": i64(3), "stride": i64(0), "storage_offset": s64(0)},
        ),
        row("MaskedSelect", lambda x, m: torch.from_numpy(x.numpy()[m.numpy()]), {"x": r(3, 4), "mask": r(3, 4) > 0}),
        row("NonZero", lambda x: torch.from_numpy(np.argwhere(x.numpy())), {"x": ints(0, 2, 3, 4)}),
        row(
            "NonZero",
            lambda x: torch.from_numpy(np.argwhere(x.numpy()).T.astype(np.int32)),
            {"x": ints(0, 2, 3, 4)},
            {"transpose": True, "dtype": 3},
        ),
        row("Where", lambda x: torch.from_numpy(np.argwhere(x.numpy())), {"x": r(3, 4) > 0}),
        row(
            "RepeatInterleave",
            lambda x, n: torch.from_numpy(np.repeat(x.numpy(), n.numpy(), 1)),
            {"x": r(2, 3), "repeats": i64(2, 0, 1)},
            {"axis": 1},
        ),
        row(
            "RepeatInterleave",
            lambda x, n: torch.from_numpy(np.repeat(x.numpy(), 2)),
            {"x": r(2, 3), "repeats": i64(2)},
        ),
        row(
            "SearchSorted",
            lambda s, v: torch.from_numpy(np.searchsorted(s.numpy(), v.numpy())),
            {"sorted_sequence": i64(1, 3, 3, 5), "values": i64(3, 0, 9)},
        ),
        row(
            "SearchSorted",
            lambda s, v: torch.from_numpy(np.searchsorted(s.numpy(), v.numpy(), "right").astype(np.int32)),
            {"sorted_sequence": i64(1, 3, 3, 5), "values": i64(3, 0, 9)},
            {"right": True, "dtype": 3},
        ),
        row("Bucketize", lambda x: i32(0, 2, 3), {"x": torch.tensor([0.5, 2.0, 9.0])}, {"boundaries": [1.0, 2.0, 3.0]}),
        row(
            "Bucketize",
            lambda x: i64(0, 1, 3),
            {"x": torch.tensor([0.5, 2.0, 9.0])},
            {"boundaries": [1.0, 2.0, 3.0], "right": False, "dtype": 9},
        ),
    ]


def _scattered(data: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, dim: int, how: str) -> torch.Tensor:
    """A scatter written as a loop over the positions of ``index``."""
    y = data.clone()
    for place in np.ndindex(*index.shape):
        at = list(place)
        at[dim] = int(index[place])
        where = tuple(at)
        y[where] = {"none": updates[place], "add": y[where] + updates[place], "mul": y[where] * updates[place]}[how]
    return y


def _scatters() -> list[Row]:
    x = r(4, 5)
    apart = torch.stack([torch.arange(5).roll(k)[:3] for k in range(4)])
    again = ints(0, 4, 2, 5)
    rows = []
    for how in ("none", "add", "mul"):
        f = lambda d, i, u, h=how: _scattered(d, i, u, 1, h)  # noqa: E731
        rows.append(
            row("ScatterElements", f, {"data": x, "indices": apart, "updates": r(4, 5)}, {"axis": -1, "reduction": how})
        )
        rows.append(
            row(
                "ScatterElementsV2",
                f,
                {"data": x, "indices": apart.int(), "updates": r(4, 3)},
                {"axis": 1, "reduction": how},
                half=True,
            )
        )
    return [
        *rows,
        row(
            "ScatterElements",
            lambda d, i, u: _scattered(d, i, u, 0, "add"),
            {"data": x, "indices": again, "updates": r(2, 5)},
            {"reduction": "add"},
            half=True,
        ),
        row(
            "ScatterElements",
            lambda d, i, u: _scattered(d, i, u, 0, "add"),
            {"data": ints(0, 9, 4, 5), "indices": again, "updates": ints(0, 9, 2, 5)},
            {"reduction": "add"},
        ),
        row(
            "ScatterElementsV2",
            lambda d, i, u: torch.tensor([2.0, 5.0]),
            {"data": torch.tensor([1.0, 5.0]), "indices": i64(0, 0), "updates": torch.tensor([2.0, 3.0])},
            {"reduction": "mean"},
        ),
        row(
            "ScatterNdUpdate",
            lambda v, i, u: torch.stack([u[1], v[1], u[0], v[3]]),
            {"var": x, "indices": i64(2, 0)[:, None], "updates": r(2, 5)},
            half=True,
        ),
        row(
            "ScatterNdUpdate",
            lambda v, i, u: v.index_put((i[:, 0], i[:, 1]), u),
            {"var": x, "indices": i64(0, 1, 3, 2).reshape(2, 2), "updates": r(2)},
        ),
        row(
            "ScatterUpdate",
            lambda v, i, u: torch.stack([u[1], v[1], u[0], v[3]]),
            {"var": x, "indices": i32(2, 0), "updates": r(2, 5)},
            half=True,
        ),
        row(
            "Scatter",
            lambda v, i, u: torch.stack([torch.cat([v[0, :1], u[0], v[0, 3:]]), torch.cat([u[1], v[1, 2:]])]),
            {"var": r(2, 4, 3), "indices": i64(1, 0), "updates": r(2, 2, 3)},
            {"axis": -2, "reduce": "update"},
            half=True,
        ),
        row(
            "InplaceIndexAdd",
            lambda v, i, u: torch.stack([v[0] + u[0] + u[2], v[1], v[2] + u[1], v[3]]),
            {"var": x, "indices": i32(0, 2, 0), "updates": r(3, 5)},
            {"axis": 0},
            half=True,
        ),
        row(
            "InplaceIndexAdd",
            lambda v, i, u, a: v.index_add(1, i, u, alpha=3),
            {"var": ints(0, 9, 2, 4), "indices": i64(1, 1), "updates": ints(0, 9, 2, 2), "alpha": s64(3)},
            {"axis": -1},
        ),
        row("Assign", lambda a, b: b, {"ref": r(3), "value": r(3)}, half=True),
        row(
            "IndexFill",
            lambda x, i, v: torch.stack([x[0], torch.full((5,), 2.5), x[2], x[3]]),
            {"x": x, "indices": i64(1), "val": torch.tensor(2.5)},
            {"dim": 0},
            half=True,
        ),
        row(
            "MaskedScatter",
            lambda x, m, u: torch.tensor([9.0, 1.0, 8.0]),
            {
                "x": torch.tensor([0.0, 1.0, 2.0]),
                "mask": torch.tensor([True, False, True]),
                "updates": torch.tensor([9.0, 8.0, 7.0]),
            },
            half=True,
        ),
        row(
            "ViewCopy",
            lambda d, ds, dt, do, s, *_: torch.as_strided_scatter(d, s, (2, 3), (5, 1), 1),
            {
                "dst": r(3, 5),
                "dst_size": i64(2, 3),
                "dst_stride": i64(5, 1),
                "dst_storage_offset": s64(1),
                "src": r(2, 3),
                "src_size": i64(2, 3),
                "src_stride": i64(3, 1),
                "src_storage_offset": s64(0),
            },
            half=True,
        ),
    ]


def _orders() -> list[Row]:
    x, ties = r(3, 4, 5), torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    np_sort = lambda x, axis: (np.sort(x.numpy(), axis), np.argsort(x.numpy(), axis, kind="stable").astype(np.int32))  # noqa: E731
    top = lambda x, k, d, big: (lambda t: [t.values, t.indices.int()])(torch.topk(x, k, d, big))  # noqa: E731
    return [
        row("ArgMaxV2", lambda x, d: torch.from_numpy(x.numpy().argmax(1)), {"x": x, "dimension": i64(1)}),
        row("ArgMaxV2", lambda x, d: i32(1, 0), {"x": ties, "dimension": i32(-1)[0]}, {"dtype": 3}, half=True),
        row("ArgMaxV2", lambda x, d: s64(0), {"x": r(), "dimension": s64(0)}),
        row("ArgMaxV2", lambda x, d: s64(2), {"x": i64(1, 0, 7), "dimension": s64(0)}),
        row("ArgMin", lambda x, d: torch.from_numpy(x.numpy().argmin(0)), {"x": x, "dimension": s64(0)}, {"dtype": 9}),
        row("ArgMaxD", lambda x: torch.from_numpy(x.numpy().argmax(2)), {"x": x}, {"dimension": -1}),
        row(
            "ArgMaxWithValue",
            lambda x: [torch.from_numpy(x.numpy().argmax(1).astype(np.int32)), x.amax(1)],
            {"x": x},
            {"dimension": 1},
            half=True,
        ),
        row(
            "ArgMaxWithValue",
            lambda x: [i32(1, 0)[:, None], torch.tensor([[3.0], [2.0]])],
            {"x": ties},
            {"dimension": -1, "keep_dims": True},
            half=True,
        ),
        row(
            "ArgMaxWithValue",
            lambda x: [i32(1)[0], torch.tensor(NAN)],
            {"x": torch.tensor([1.0, NAN, 3.0])},
            {"dimension": 0},
        ),
        row(
            "ArgMinWithValue", lambda x: [i32(3, 0), torch.tensor([0.0, 2.0])], {"x": ties}, {"dimension": 1}, half=True
        ),
        row("Cumsum", lambda x, a: torch.from_numpy(np.cumsum(x.numpy(), 1)), {"x": x, "axis": s64(1)}),
        row(
            "Cumsum",
            lambda x, a: torch.stack([x[:k].sum(0) for k in range(3)]),
            {"x": x, "axis": i64(0)},
            {"exclusive": True},
            half=True,
        ),
        row(
            "Cumsum",
            lambda x, a: torch.stack([x[..., k:].sum(-1) for k in range(5)], -1),
            {"x": x, "axis": i32(-1)},
            {"reverse": True},
            half=True,
        ),
        row(
            "Cumsum",
            lambda x, a: i64(9, 7, 4, 0),
            {"x": i64(1, 2, 3, 4), "axis": s64(0)},
            {"reverse": True, "exclusive": True},
        ),
        row("Cumsum", lambda x, a: x, {"x": r(), "axis": s64(0)}),
        row("Cumsum", lambda x, a: x, {"x": r(3, 0), "axis": s64(1)}, {"exclusive": True}),
        row("Cumprod", lambda x, a: torch.from_numpy(np.cumprod(x.numpy(), 1)), {"x": x, "axis": s64(1)}),
        row("Cumprod", lambda x, a: i64(1, 2, 6), {"x": i64(2, 3, 4), "axis": s64(0)}, {"exclusive": True}),
        row("CumsumD", lambda x: x.cumsum(2), {"x": x}, {"axis": -1}, half=True),
        row("Sort", lambda x: [torch.from_numpy(t) for t in np_sort(x, 1)], {"x": x}, {"axis": 1}),
        row(
            "Sort",
            lambda x: [
                torch.tensor([[3.0, 3.0, 1.0, 0.0], [2.0] * 4]),
                torch.stack([i32(1, 2, 0, 3), i32(0, 1, 2, 3)]),
            ],
            {"x": ties},
            {"descending": True},
            half=True,
        ),
        row(
            "TopKV2",
            lambda x, k: top(x, 2, -1, True),
            {"x": x, "k": i32(2)[0]},
            {"dim": -1, "largest": True, "sorted": True},
        ),
        row("TopKV2", lambda x, k: top(x, 3, 1, False), {"x": x, "k": s64(3)}, {"dim": 1, "largest": False}),
        row(
            "TopKV2", lambda x, k: [x[:, 1:3], torch.stack([i32(1, 2), i32(0, 1)])], {"x": ties, "k": i32(2)}, half=True
        ),
        row(
            "TopKV2",
            lambda x, k: [torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.int64)],
            {"x": ties, "k": i32(0)},
            {"indices_dtype": 9},
        ),
        row("TopK", lambda x, k: top(x, 5, -1, True), {"x": x, "k": i32(5)}),
    ]


ROWS = [*_gathers(), *_scatters(), *_orders()]
