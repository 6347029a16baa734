"""Rotary embedding and quantisation of the host ops, against formulas in f64."""

from __future__ import annotations

import pytest
import torch
from opcall import CAST_C, F64, NAN, run

KINDS = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-6, torch.float16: 2**-9, torch.bfloat16: 2**-6}


def rotation(mode: int, n: int) -> torch.Tensor:
    """rotate(x) as a matrix: rotated = matrix @ x."""
    m = torch.zeros(n, n, dtype=F64)
    half, quarter = n // 2, n // 4
    for i in range(n):
        if mode == 1:
            m[i, i ^ 1] = -1 if i % 2 == 0 else 1
        elif mode == 2:
            part, at = divmod(i, quarter)
            m[i, (part ^ 1) * quarter + at] = -1 if part % 2 == 0 else 1
        else:
            m[i, (i + half) % n] = -1 if i < half else 1
    return m


def pairs_apart(n: int) -> torch.Tensor:
    order = [*range(0, n, 2), *range(1, n, 2)]
    return torch.eye(n, dtype=F64)[order]


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(
    ("kind", "attrs", "mode"),
    [
        ("RotaryMul", {}, 0),
        ("InterleaveRope", {}, 3),
        ("RotaryPositionEmbedding", {}, 0),
        *(("RotaryPositionEmbedding", {"mode": m}, m) for m in range(4)),
    ],
)
def test_rotary(kind: str, attrs: dict[str, int], mode: int, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(2, 3, 4, 8, generator=g).to(dtype)
    cos, sin = (torch.randn(1, 3, 1, 8, generator=g).to(dtype) for _ in range(2))
    y = run(kind, x, cos, sin, **attrs)
    z = x.to(F64) @ (pairs_apart(8).T if mode == 3 else torch.eye(8, dtype=F64))
    want = z * cos.to(F64) + (z @ rotation(mode, 8).T) * sin.to(F64)
    assert y.dtype == dtype
    torch.testing.assert_close(y.to(F64), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_rotary_grad() -> None:
    g = torch.Generator().manual_seed(4)
    x, dy = (torch.randn(2, 3, 8, generator=g, dtype=F64) for _ in range(2))
    cos, sin = (torch.randn(3, 1, generator=g, dtype=F64).expand(3, 8).clone() for _ in range(2))
    leaves = [t.clone().requires_grad_() for t in (x, cos, sin)]
    y = leaves[0] * leaves[1] + (leaves[0] @ rotation(0, 8).T) * leaves[2]
    for got, want in zip(run("RotaryMulGrad", x, cos, sin, dy), torch.autograd.grad(y, leaves, dy)):
        torch.testing.assert_close(got, want)


def test_rotary_errors() -> None:
    x = torch.ones(2, 6)
    with pytest.raises(ValueError, match=r"the last dim must be a multiple of 4, the shape is \[2, 6\]"):
        run("RotaryPositionEmbedding", x, x, x, mode=2)
    with pytest.raises(ValueError, match="mode must be 0, 1, 2 or 3, not 7"):
        run("RotaryPositionEmbedding", x, x, x, mode=7)
    with pytest.raises(ValueError, match="the rotate input is not modelled"):
        run("RotaryPositionEmbedding", x, x, x, x, names=["x", "cos", "sin", "rotate"])


X = [-200.0, -2.5, -1.5, 0.5, 1.5, 2.6, 200.0, NAN]


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("round", [-128, -2, -2, 0, 2, 3, 127, 0]),
        ("Floor", [-128, -3, -2, 0, 1, 2, 127, 0]),
        ("Ceil", [-128, -2, -1, 1, 2, 3, 127, 0]),
        ("Trunc", [-128, -2, -1, 0, 1, 2, 127, 0]),
    ],
)
def test_rounding_and_clipping(mode: str, want: list[int]) -> None:
    y = run("AscendQuant", torch.tensor(X), scale=1.0, offset=0.0, round_mode=mode)
    assert y.dtype == torch.int8 and y.tolist() == want
    assert run("AscendQuantV2", torch.tensor(X), torch.ones(1), round_mode=mode.lower()).tolist() == want


def test_scales_and_offsets() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    scale, offset = torch.tensor([2.0, 10.0]), torch.tensor([1.0, -1.0])
    assert run("AscendQuant", x, scale=2.0, offset=1.0, sqrt_mode=True).tolist() == [[5, 9], [13, 17]]
    assert run("AscendQuantV2", x, scale, offset).tolist() == [[3, 19], [7, 39]]
    assert run("AscendQuantV2", x, scale, offset, axis=-2).tolist() == [[3, 5], [29, 39]]
    assert run("AscendQuantV2", x, scale, sqrt_mode=True).tolist() == [[4, 127], [12, 127]]
    kw = {"dtype": "torch.quint8"}
    y = run("Quantize", x * 100, scale, torch.tensor([1, -1], dtype=torch.int32), axis=1, **kw)
    assert y.dtype == torch.uint8 and y.tolist() == [[51, 19], [151, 39]]
    assert run("Quantize", x * 100, scale, axis=0, **kw).tolist() == [[50, 100], [30, 40]]
    assert run("Quantize", x * -100, torch.ones(1), dtype="torch.qint32").tolist() == [[-100, -200], [-300, -400]]
    q = torch.tensor([[1, 2], [3, 4]], dtype=torch.int8)
    y = run("AscendAntiQuantV2", q, scale, offset)
    assert y.dtype == torch.float16 and y.tolist() == [[4, 10], [8, 30]]
    y = run("AscendAntiQuantV2", q, scale, sqrt_mode=True, dst_type=CAST_C[torch.bfloat16])
    assert y.dtype == torch.bfloat16 and y.tolist() == [[4, 200], [12, 400]]
    y = run("AscendAntiQuant", q, scale=0.5, offset=1.0)
    assert y.dtype == torch.float32 and y.tolist() == [[1, 1.5], [2, 2.5]]


def test_quant_errors() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"2 scales do not fit dim 1 of \[2, 3\]"):
        run("AscendQuantV2", x, torch.ones(2))
    with pytest.raises(ValueError, match=r"dst_type must be 2 \(int8\), not 29"):
        run("AscendQuantV2", x, torch.ones(1), dst_type=29)
    with pytest.raises(ValueError, match="round_mode must be one of round, rint, floor, ceil, trunc, not up"):
        run("AscendQuantV2", x, torch.ones(1), round_mode="up")
    with pytest.raises(ValueError, match=r"dtype must be one of torch.qint8, .*, not torch.int8"):
        run("Quantize", x, torch.ones(1), dtype="torch.int8")
    with pytest.raises(ValueError, match="dst_type must be f16 or bf16, not f32"):
        run("AscendAntiQuantV2", x.to(torch.int8), torch.ones(1), dst_type=0)
