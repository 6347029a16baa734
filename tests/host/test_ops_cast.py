"""Cast between all pairs of types, its rounding and its behaviour out of range."""

from __future__ import annotations

import pytest
import torch
from opcall import CAST_C, F64, INF, NAN, Tensor, run


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    y = run("Cast", x, dst_type=CAST_C[dtype])
    assert y.dtype == dtype and y.shape == x.shape
    return y


@pytest.mark.parametrize("source", CAST_C, ids=str)
@pytest.mark.parametrize("target", CAST_C, ids=str)
def test_cast_of_small_numbers(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor([0, 1, 2, 100]).to(source)
    want = x.to(F64)
    want = (want != 0).to(F64) if target == torch.bool else want
    assert torch.equal(cast(x, target).to(F64), want)
    assert cast(x[:0], target).shape == (0,)


BIG = [NAN, INF, -INF, 2.9, -2.9, 3e9, -3e9, 1e30, 300.0, -300.0]
I32, I64 = torch.iinfo(torch.int32), torch.iinfo(torch.int64)


@pytest.mark.parametrize("source", [torch.float32, F64])
@pytest.mark.parametrize(
    ("target", "want"),
    [
        (torch.int32, [0, I32.max, I32.min, 2, -2, I32.max, I32.min, I32.max, 300, -300]),
        (torch.int64, [0, I64.max, I64.min, 2, -2, 3 * 10**9, -3 * 10**9, I64.max, 300, -300]),
        (torch.int16, [0, 32767, -32768, 2, -2, 32767, -32768, 32767, 300, -300]),
        (torch.int8, [0, -1, 0, 2, -2, -1, 0, -1, 44, -44]),
        (torch.uint8, [0, 255, 0, 2, 254, 255, 0, 255, 44, 212]),
        (torch.uint16, [0, 65535, 0, 2, 65534, 65535, 0, 65535, 300, 65236]),
        (torch.uint32, [0, 2**32 - 1, 0, 2, 0, 3 * 10**9, 0, 2**32 - 1, 300, 0]),
        (torch.uint64, [0, 2**64 - 1, 0, 2, 0, 3 * 10**9, 0, 2**64 - 1, 300, 0]),
        (torch.bool, [True] * 10),
    ],
    ids=str,
)
def test_cast_of_big_floats(source: torch.dtype, target: torch.dtype, want: list[int]) -> None:
    assert cast(torch.tensor(BIG, dtype=source), target).tolist() == want


def test_cast_edges() -> None:
    assert cast(torch.tensor([2.0**63, -(2.0**63), 2.0**62]), torch.int64).tolist() == [I64.max, I64.min, 2**62]
    assert cast(torch.tensor([2.0**63, 2.0**64], dtype=F64), torch.uint64).tolist() == [2**63, 2**64 - 1]
    assert cast(torch.tensor([65504.0, INF], dtype=torch.float16), torch.int32).tolist() == [65504, I32.max]
    assert cast(torch.tensor([300, -1, 2**31]), torch.int8).tolist() == [44, -1, 0]
    assert cast(torch.tensor([1 + 2**-11, 1 + 3 * 2**-11]), torch.float16).tolist() == [1, 1 + 2**-9]  # ties to even
    assert cast(torch.tensor([1 + 2**-8, 1 + 3 * 2**-8]), torch.bfloat16).tolist() == [1, 1 + 2**-6]
    assert cast(torch.tensor([70000.0, -70000.0]), torch.float16).tolist() == [INF, -INF]
    assert cast(torch.tensor([0.0, -0.0, 1e-40, NAN]), torch.bool).tolist() == [False, False, True, True]
    assert cast(torch.tensor([6e-8], dtype=torch.float16), torch.bool).tolist() == [True]
    with pytest.raises(ValueError, match="dtype 13 of GE's C enum has no counterpart on the host"):
        run("Cast", torch.ones(1), dst_type=13)
    with pytest.raises(ValueError, match="required attribute dst_type is missing"):
        run("Cast", torch.ones(1))
    assert run("Cast", torch.ones(1), dst_type=16).dtype == torch.complex64
    with pytest.raises(ValueError, match="a cast from complex64 to f32 is not modelled"):
        run("Cast", torch.ones(1, dtype=torch.complex64), dst_type=0)
