"""Ops that make tensors from sizes and scalars."""

from __future__ import annotations

import math

import pytest
import torch
from opcall import CAST_C, F64, FLOATS, INF, INTS, NAN, run, wide


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_fills(dtype: torch.dtype) -> None:
    value = torch.tensor([1]).to(dtype)
    for y in (
        run("Fill", torch.tensor([2, 3], dtype=torch.int32), value),
        run("FillD", value, dims=[2, 3]),
        run("Fills", torch.zeros(2, 3).to(dtype), value=1.0),
        run("OnesLike", torch.full((2, 3), 0.0).to(dtype)),
        1 - wide(run("ZerosLike", torch.ones(2, 3).to(dtype))).to(torch.int64),
    ):
        assert y.shape == (2, 3) and y.is_contiguous() and bool((wide(y) == 1).all())
        assert y.dtype in (dtype, torch.int64)
    assert run("ZerosLike", torch.tensor([NAN]).to(dtype)).dtype == dtype
    assert wide(run("ZerosLike", torch.tensor([NAN]).to(dtype))).tolist() == [0]
    assert run("Fill", torch.tensor([], dtype=torch.int64), value.reshape(())).shape == ()
    assert run("Fill", torch.tensor([0, 2]), value).shape == (0, 2)
    empty = run("Empty", torch.tensor([2, 2]), dtype=CAST_C[dtype])
    assert empty.dtype == dtype and not wide(empty).any()


def test_bad_sizes() -> None:
    with pytest.raises(ValueError, match=r"dims must not be negative: \[-1\]"):
        run("Fill", torch.tensor([-1]), torch.tensor(1.0))
    with pytest.raises(ValueError, match="num must not be negative: -1"):
        run("LinSpace", torch.tensor(0.0), torch.tensor(1.0), torch.tensor(-1))
    with pytest.raises(ValueError, match="delta must not be zero"):
        run("Range", torch.tensor(0), torch.tensor(1), torch.tensor(0))
    with pytest.raises(ValueError, match=r"must be finite"):
        run("Range", torch.tensor(0.0), torch.tensor(INF), torch.tensor(1.0))


@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 5, 1), (5, 0, -2), (1, 1, 1), (3, 0, 1), (0, 7, 3), (-4, 5, 4)]
)
def test_range_of_integers(start: int, limit: int, delta: int) -> None:
    want = list(range(start, limit, delta))
    for dtype in (torch.int32, torch.int64):
        y = run("Range", *(torch.tensor(v, dtype=dtype) for v in (start, limit, delta)))
        assert y.dtype == dtype and y.tolist() == want
    # TorchAir's arange: i32 start and step, i64 limit; mixed dtypes give f32
    y = run(
        "Range",
        torch.tensor(start, dtype=torch.int32),
        torch.tensor([limit]),
        torch.tensor(delta, dtype=torch.int32),
    )
    assert y.dtype == torch.float32 and y.tolist() == want


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0.0, 1.0, 0.25), (0.0, 1.1, 0.25), (2.0, -1.0, -0.5), (1.0, 0.0, 1.0)]
)
def test_range_of_floats(dtype: torch.dtype, start: float, limit: float, delta: float) -> None:
    y = run("Range", *(torch.tensor(v, dtype=dtype) for v in (start, limit, delta)))
    count = max(0, math.ceil((limit - start) / delta))
    assert y.dtype == dtype and y.tolist() == [start + k * delta for k in range(count)]


def test_closed_range() -> None:
    ints = [torch.tensor(v) for v in (0, 6, 3)]
    assert run("Range", *ints, is_closed=True).tolist() == [0, 3, 6]
    assert run("Range", torch.tensor(0), torch.tensor(5), torch.tensor(3), is_closed=True).tolist() == [0, 3]
    floats = [torch.tensor(v) for v in (0.0, 1.0, 0.5)]
    assert run("Range", *floats, is_closed=True).tolist() == [0, 0.5, 1]


def test_linspace() -> None:
    y = run("LinSpace", torch.tensor(-1.0), torch.tensor(2.0), torch.tensor(7, dtype=torch.int32))
    torch.testing.assert_close(y, torch.linspace(-1, 2, 7))
    assert run("LinSpace", torch.tensor(3.0, dtype=F64), torch.tensor(4.0, dtype=F64), torch.tensor(1)).tolist() == [3]
    ints = run("LinSpace", torch.tensor(0), torch.tensor(1), torch.tensor(5))
    assert ints.dtype == torch.float32 and ints.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert run("LinSpace", torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0)).shape == (0,)


def test_eye() -> None:
    assert run("Eye", num_rows=2).tolist() == [[1, 0], [0, 1]]
    y = run("Eye", num_rows=2, num_columns=3, batch_shape=[4], dtype=3)
    assert y.dtype == torch.int32 and torch.equal(y, torch.eye(2, 3, dtype=torch.int32).expand(4, 2, 3))


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
def test_one_hot(axis: int) -> None:
    x = torch.tensor([[0, 2], [1, 7]], dtype=torch.int32)  # 7: no class, all off
    on, off = torch.tensor([5.0]), torch.tensor(1.0)
    want = 1 + 4 * (x.unsqueeze(-1) == torch.arange(3)).float()
    want = want if axis in (-1, 2) else want.movedim(-1, axis)
    assert torch.equal(run("OneHot", x, torch.tensor(3), on, off, axis=axis), want)
    assert torch.equal(run("OneHotD", x, on, off, depth=3, axis=axis), want)
    with pytest.raises(ValueError, match=r"axis must be in \[-1, 2\], not 3"):
        run("OneHot", x, torch.tensor(3), on, off, axis=3)
