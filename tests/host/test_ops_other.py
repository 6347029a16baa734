"""Every op that is not elementwise against eager PyTorch: values, dtypes, shapes, and clear errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.host import rows_embedding, rows_index, rows_loss, rows_move, rows_norm, rows_reduce, rows_space
from tests.host.op_rows import HALVES, Inputs, Row, call_op, check, i32, i64, s64
from torchair_autofuse.host.ops import OPS

TABLES = (rows_reduce, rows_norm, rows_loss, rows_move, rows_index, rows_embedding, rows_space)
ROWS: list[Row] = [row for table in TABLES for row in table.ROWS]
FAMILIES = [
    "cube",
    "embedding",
    "glu",
    "index",
    "loss",
    "move",
    "norm",
    "pad",
    "pool",
    "reduce",
    "resize",
    "training",
    "view",
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{q}" for i, q in enumerate(ROWS)])
def test_row(row: Row) -> None:
    for dtype in (torch.float32, *(HALVES if row.half else ())):
        check(row, dtype)


def test_every_op_has_a_row() -> None:
    mine = {t for t, f in OPS.items() if f.__module__.rpartition(".")[2] in FAMILIES}
    assert len(mine) > 150
    assert sorted(mine - {q.op for q in ROWS}) == []
    assert sorted({q.op for q in ROWS} - mine) == []


FLOATS = [q for q in ROWS if q.op not in ("Bitcast", "DynamicQuant", "DynamicQuantV2")]
FIRST = {
    q.op: q for q in reversed(FLOATS) if any(t is not None and t.dtype == torch.float32 for t in q.inputs.values())
}


@pytest.mark.parametrize("op", sorted(FIRST))
def test_half_inputs_are_computed_in_f32(op: str) -> None:
    """Half inputs give the bits of the same f32 inputs, rounded at the end."""
    row = FIRST[op]
    for dtype in HALVES:
        halves = {k: t.to(dtype) if t is not None and t.dtype == torch.float32 else t for k, t in row.inputs.items()}
        floats = {k: t.float() if t is not None and t.dtype == dtype else t for k, t in halves.items()}
        found = call_op(op, {k: None if t is None else t.clone() for k, t in halves.items()}, row.attrs)
        for a, b in zip(found, call_op(op, floats, row.attrs)):
            assert a.dtype in (dtype, b.dtype)
            torch.testing.assert_close(a, b.to(a.dtype), rtol=0, atol=0, equal_nan=True)


x34 = torch.zeros(3, 4)
CONV: dict[str, Any] = {"strides": [1] * 4, "pads": [0] * 4, "data_format": "NCHW"}


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("ReduceSum", {"x": x34, "axes": i64(2)}, {}, "axis 2 is out of range for rank 2"),
        ("ReduceSum", {"x": x34}, {}, "required input 'axes' is absent"),
        ("Reshape", {"x": x34, "shape": i64(5, -1)}, {}, r"\[3, 4\] does not fit the target \[5, -1\]"),
        ("Squeeze", {"x": x34}, {"axis": [0]}, "dim 0 of shape"),
        ("Unsqueeze", {"x": x34}, {"axes": [1, 1]}, "repeat a dim"),
        ("BroadcastTo", {"x": x34, "shape": i64(4)}, {}, "fewer dims"),
        ("Bitcast", {"x": torch.zeros(3, 3, dtype=torch.int8)}, {"type": 0}, "does not hold 4 parts"),
        ("Bitcast", {"x": x34}, {"type": 13}, "is no dtype known"),
        ("Transpose", {"x": x34, "perm": i64(0, 0)}, {}, "no permutation"),
        ("Pack", {"x0": x34, "x1": torch.zeros(3)}, {}, "differ in shape"),
        ("Unpack", {"x": x34}, {"num": 4}, "num 4 is not dim 0"),
        ("SplitV", {"x": x34, "size_splits": i64(2, 3), "split_dim": s64(1)}, {}, "do not fit dim 1"),
        ("StridedSliceV2", {"x": x34, "begin": i64(0), "end": i64(1)}, {"shrink_axis_mask": 1}, "shrink_axis_mask"),
        (
            "StridedSliceV2",
            {"x": x34, "begin": i64(0), "end": i64(1), "axes": i64(0), "strides": i64(0)},
            {},
            "stride is 0",
        ),
        ("Slice", {"x": x34, "offsets": i64(0, 2), "size": i64(3, 3)}, {}, "leave dim 1"),
        ("PadV3", {"x": x34, "paddings": i64(1, 1)}, {}, "2 paddings for rank 2, expected 4"),
        ("PadV3", {"x": x34, "paddings": i64(1, 1, 0, 0)}, {"mode": "wrap"}, "unknown mode 'wrap'"),
        ("GatherV2", {"x": x34, "indices": i64(-1), "axis": i64(0)}, {}, "negative_index_support is off"),
        ("GatherV2", {"x": x34, "indices": i64(3), "axis": i64(0)}, {}, "leave a dim of size 3"),
        ("GatherElements", {"x": x34, "index": torch.full((3, 4), -1)}, {}, "leave a dim of size 3"),
        ("TopKV2", {"x": x34, "k": i32(5)}, {}, "k 5 is out of range"),
        ("ScatterElements", {"data": x34, "indices": i64(), "updates": x34}, {"reduction": "max"}, "'max'"),
        ("AsStrided", {"x": x34, "size": i64(4), "stride": i64(4), "storage_offset": i64(0)}, {}, "leave 12"),
        ("MatMulV2", {"x1": x34, "x2": x34, "bias": None, "offset_w": x34}, {}, "offset_w"),
        ("Conv2D", {"x": torch.zeros(1, 4, 4, 2), "filter": x34}, {**CONV, "data_format": "NHWC"}, "data_format NHWC"),
        ("Conv2D", {"x": torch.zeros(1, 2, 4, 4), "filter": x34}, {**CONV, "pads": [0, 0]}, "need 4 values"),
        (
            "GroupNorm",
            {"x": torch.zeros(2, 5, 3), "gamma": None, "beta": None},
            {"num_groups": 2, "data_format": "NCHW"},
            "does not divide 5",
        ),
        ("LayerNormV4", {"x": x34, "normalized_shape": i64(3)}, {}, "not the tail"),
        ("NLLLoss", {"x": x34, "target": i32(0, 1, 4)}, {}, "outside the 4 classes"),
        ("MseLoss", {"predict": x34, "label": x34}, {"reduction": "avg"}, "unknown reduction 'avg'"),
        ("AvgPoolV2", {"x": torch.zeros(1, 1, 4, 4)}, {"ksize": [2], "strides": [1, 1, 1], "pads": [0] * 4}, "strides"),
        ("GLU", {"x": torch.zeros(3)}, {}, "cannot be halved"),
        ("EmbeddingBag", {"weight": x34, "indices": i64(0, 1)}, {}, "need offsets"),
        ("DynamicQuant", {"x": x34}, {"dst_type": 3}, "only dst_type int8"),
        (
            "Scatter",
            {"var": torch.zeros(1, 4), "indices": i64(3), "updates": torch.ones(1, 2)},
            {"axis": 1},
            "leaves dim 1",
        ),
    ],
)
def test_bad_input_is_named(op: str, inputs: Inputs, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call_op(op, inputs, attrs)
    assert re.match(rf"{op} node: ", str(error.value))


def test_identity_aliases_and_tensor_move_copies() -> None:
    x = torch.zeros(3)
    assert call_op("Identity", {"x": x})[0].data_ptr() == x.data_ptr()
    assert call_op("TensorMove", {"x": x})[0].data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Assign", {"ref": torch.zeros(2), "value": torch.ones(2)}, {}),
        ("ScatterUpdate", {"var": torch.zeros(2), "indices": i64(0, 1), "updates": torch.ones(2)}, {}),
        ("ScatterNdUpdate", {"var": torch.zeros(2), "indices": i64(0, 1)[:, None], "updates": torch.ones(2)}, {}),
        ("InplaceIndexAdd", {"var": torch.zeros(2), "indices": i64(0, 1), "updates": torch.ones(2)}, {"axis": 0}),
        ("Scatter", {"var": torch.zeros(1, 2), "indices": i64(0), "updates": torch.ones(1, 2)}, {"axis": 1}),
    ],
)
def test_ref_ops_write_into_their_input(op: str, inputs: Inputs, attrs: dict[str, Any]) -> None:
    target = next(iter(inputs.values()))
    assert target is not None
    (found,) = call_op(op, inputs, attrs)
    assert found.data_ptr() == target.data_ptr()
    assert torch.equal(target, torch.ones_like(target))


def test_half_results_are_rounded_once() -> None:
    """2048 ones: a sum kept in f16 would stop growing at 2048, one kept in bf16 at 256."""
    for dtype, n in ((torch.float16, 4096), (torch.bfloat16, 1024)):
        ones = torch.ones(n, dtype=dtype)
        assert call_op("ReduceSum", {"x": ones, "axes": i64(0)})[0].item() == n
        assert call_op("MatMul", {"x1": ones[None], "x2": ones[:, None]})[0].item() == n
        assert call_op("Cumsum", {"x": ones, "axis": s64(0)})[0][-1].item() == n
