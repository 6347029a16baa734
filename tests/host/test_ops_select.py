"""Selections, masks, channel weights and complex numbers of the host ops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from opcall import FLOATS, INF, INTS, NAN, run, wide


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool])
def test_select(dtype: torch.dtype) -> None:
    condition = torch.tensor([[True], [False]])
    a, b = torch.tensor([1, 0, 1]).to(dtype), torch.tensor(0).to(dtype)
    got = run("SelectV2", condition, a, b)
    assert got.dtype == dtype and wide(got).tolist() == [wide(a).tolist(), [0, 0, 0]]
    filled = run("MaskedFill", a, condition, b)
    assert filled.dtype == dtype and wide(filled).tolist() == [[0, 0, 0], wide(a).tolist()]
    rows = run("Select", torch.tensor([True, False]), torch.ones(2, 2).to(dtype), torch.zeros(2, 2).to(dtype))
    assert rows.dtype == dtype and wide(rows).tolist() == [[1, 1], [0, 0]]


def test_select_does_not_leak() -> None:
    got = run("SelectV2", torch.tensor([True, False]), torch.tensor([1.0, NAN]), torch.tensor([INF, 2.0]))
    assert got.tolist() == [1, 2]
    x = torch.tensor([NAN, 1.0])
    assert run("MaskedFill", x, torch.tensor([True, False]), torch.tensor([-INF])).tolist() == [-INF, 1]
    with pytest.raises(ValueError, match="SelectV2 does not take u8; it takes bool"):
        run("SelectV2", torch.tensor([1], dtype=torch.uint8), x, x)
    half = run("MaskedFill", x.half(), torch.tensor([True, False]), torch.tensor(0.1))  # as TorchAir writes it
    assert half.dtype == torch.float16 and half[0] == torch.tensor(0.1).half()


def test_dropout_masks() -> None:
    x, keep = torch.arange(1.0, 11.0), torch.tensor(0.5)
    bits = torch.tensor([0b00000101, 0b00000010] + [0] * 14, dtype=torch.uint8)
    want = [2, 0, 6, 0, 0, 0, 0, 0, 0, 20]
    assert run("DropOutDoMask", x, bits, keep).tolist() == want
    mask = torch.tensor([1, 0, 1, 0, 0, 0, 0, 0, 0, 1], dtype=torch.uint8)
    assert run("DropOutDoMaskV3", x, mask, keep).tolist() == want
    assert run("DropOutDoMaskV3", x.half(), mask.bool(), keep.half()).dtype == torch.float16
    with pytest.raises(ValueError, match="mask holds 8 bits for 10 elements"):
        run("DropOutDoMask", x, bits[:1], keep)
    with pytest.raises(ValueError, match="mask has 2 elements for 10"):
        run("DropOutDoMaskV3", x, mask[:2], keep)


def test_complex() -> None:
    re, im = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    z = run("Complex", re, im)
    assert z.tolist() == [1 + 3j, 2 + 4j]
    assert torch.equal(run("Real", z), re) and torch.equal(run("Imag", z), im)


def test_bias_add() -> None:
    x, bias = torch.zeros(2, 3, 4), torch.tensor([1.0, 2.0, 3.0])
    assert run("BiasAdd", x, bias, data_format="NCHW")[0, :, 0].tolist() == [1, 2, 3]
    assert run("BiasAdd", x.transpose(1, 2), bias)[0, 0].tolist() == [1, 2, 3]


def test_threshold_v2() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    assert run("ThresholdV2", x, torch.tensor(2.0), torch.tensor([9.0])).tolist() == [9, 9, 3]
    assert run("ThresholdV2", x, torch.tensor(2.0)).tolist() == [0, 0, 3]


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3)])
@pytest.mark.parametrize("form", ["vector", "full", "one"])
def test_prelu(shape: tuple[int, ...], form: str) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    weight = torch.tensor([0.1, -0.2, 0.3]) if form != "one" else torch.tensor([0.25])
    given = weight.reshape([1, 3] + [1] * (len(shape) - 2)) if form == "full" else weight
    torch.testing.assert_close(run("PRelu", x, given), F.prelu(x, weight))
    dy = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    x0, w0 = x.clone().requires_grad_(), weight.clone().requires_grad_()
    want = torch.autograd.grad(F.prelu(x0, w0), (x0, w0), dy)
    dx, da = run("PReluGrad", dy, x, given)
    torch.testing.assert_close(dx, want[0])
    assert da.shape == given.shape
    torch.testing.assert_close(da.reshape(-1), want[1])


def test_prelu_of_wrong_size() -> None:
    with pytest.raises(ValueError, match=r"weight \[4\] does not fit the channels \(dim 1\) of \[2, 3\]"):
        run("PRelu", torch.ones(2, 3), torch.ones(4))
