"""Reductions: values, order of summation, index forms, and the 2-D pattern forms with their temporary buffers."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import numpy as np
import pytest
from twin_support import NP, OpCase, case_kernel, launch, same, sample, widen

V = "PipeBarrier<PIPE_V>();"


def tree(x: np.ndarray) -> np.ndarray:
    """Sum over the last axis as a binary tree of neighbours, rounding in the type of x."""
    while x.shape[-1] > 1:
        x = (widen(x[..., 0::2]) + widen(x[..., 1::2])).astype(x.dtype)
    return x[..., 0]


def pad_to(x, n):
    return np.concatenate([x, np.zeros(n - x.size, x.dtype)])


def level2_sum(a, b):  # 2201: repeats one after the other
    parts = tree(pad_to(a[:300], 320).reshape(-1, 64))
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    return np.array([total])


def fold(x):
    """Binary folding over axis 0."""
    x = x.copy()
    n = x.shape[0]
    k = 1 << (n.bit_length() - 1)
    while n > 1:
        k = k // 2 if k == n else k
        x[: n - k] = x[: n - k] + x[k:n]
        n = k
    return x[0]


def with_index(values, index):
    return np.stack([values, index.astype(np.uint32).view(np.float32)], -1).reshape(-1)


R = "Duplicate(c, 0.0f, 64); PipeBarrier<PIPE_V>();"
SHAPE = "const uint32_t shape[2] = {{{}, {}}};"
CASES = [
    OpCase("WholeReduceSum", "f32", "f32", "WholeReduceSum(c, a, 64, 8, 1, 1, 8);", lambda a, b: tree(a[:512].reshape(8, 64)), out_count="8"),
    OpCase("WholeReduceSum-mask", "f32", "f32", "WholeReduceSum(c, a, 20, 4, 1, 1, 16);",
           lambda a, b: tree(np.pad(a[:512].reshape(4, 128)[:, :20], ((0, 0), (0, 44)))), out_count="4"),
    OpCase("WholeReduceSum-f16", "f16", "f16", "WholeReduceSum(c, a, 128, 4, 1, 1, 8);", lambda a, b: tree(a[:512].reshape(4, 128)), out_count="4"),
    OpCase("WholeReduceMax", "f32", "f32", "WholeReduceMax(c, a, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);",
           lambda a, b: a[:256].reshape(4, 64).max(-1), out_count="4"),
    OpCase("WholeReduceMin-index", "f32", "f32", "WholeReduceMin(c, a, 64, 4, 1, 1, 8);",
           lambda a, b: with_index(a[:256].reshape(4, 64).min(-1), a[:256].reshape(4, 64).argmin(-1)), out_count="8"),
    OpCase("BlockReduceSum", "f32", "f32", "BlockReduceSum(c, a, 4, 64, 1, 1, 8);", lambda a, b: tree(a[:256].reshape(32, 8)), out_count="32"),
    OpCase("BlockReduceMax-f16", "f16", "f16", "BlockReduceMax(c, a, 2, 128, 1, 1, 8);", lambda a, b: a[:256].reshape(16, 16).max(-1), out_count="16"),
    OpCase("BlockReduceMin-NaN", "f32", "f32", "BlockReduceMin(c, a, 2, 64, 1, 1, 8);", lambda a, b: a[:128].reshape(16, 8).min(-1), data="special", out_count="16"),
    OpCase("BlockReduceSum-counter", "f32", "f32",
           "SetMaskCount(); BlockReduceSum(c, a, 1, 200, 1, 1, 8); SetMaskNorm(); ResetMask();",
           lambda a, b: tree(a[:200].reshape(25, 8)), out_count="25"),
    OpCase("PairReduceSum", "f32", "f32", "PairReduceSum(c, a, 2, 64, 1, 1, 8);", lambda a, b: tree(a[:128].reshape(64, 2)), out_count="64"),
    OpCase("RepeatReduceSum", "f32", "f32", "RepeatReduceSum(c, a, 3, 64, 1, 1, 1, 8);", lambda a, b: tree(a[:192].reshape(3, 64)), out_count="3"),
    OpCase("ReduceSum-level2", "f32", "f32", "ReduceSum(c, a, t.ReinterpretCast<float>(), 300);", level2_sum, out_count="1"),
    OpCase("ReduceMax-index", "f32", "f32", "ReduceMax(c, a, t.ReinterpretCast<float>(), 300, true);",
           lambda a, b: with_index(a[:300].max(keepdims=True), a[:300].argmax(keepdims=True)), out_count="2"),
    OpCase("ReduceMin-f16", "f16", "f16", "ReduceMin(c, a, t.ReinterpretCast<half>(), 500);", lambda a, b: a[:500].min(keepdims=True), out_count="1"),
    OpCase("ReduceSum-AR", "f32", "f32", SHAPE.format(5, 100) + "ReduceSum<float, Pattern::Reduce::AR>(c, a, t, shape, true);",
           lambda a, b: fold(a[:520].reshape(5, 104)[:, :100].T), out_count="5"),
    OpCase("ReduceSum-RA-reuse", "f32", "f32", SHAPE.format(7, 40) + "ReduceSum<float, Pattern::Reduce::RA, true>(c, a, t, shape, true);",
           lambda a, b: fold(a[:280].reshape(7, 40)), out_count="40"),
    OpCase("ReduceMax-AR", "f16", "f16", SHAPE.format(6, 33) + "ReduceMax<half, Pattern::Reduce::AR>(c, a, t, shape, true);",
           lambda a, b: a[: 6 * 48].reshape(6, 48)[:, :33].max(-1), out_count="6"),
    OpCase("ReduceMin-RA", "f32", "f32", SHAPE.format(6, 33) + "ReduceMin<float, Pattern::Reduce::RA>(c, a, t, shape, true);",
           lambda a, b: a[: 6 * 40].reshape(6, 40)[:, :33].min(0), out_count="33"),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_reduce(index):
    case = CASES[index]
    a = sample(case.data, case.ins, 1024, 3)
    out = np.zeros(1024, NP[case.out])
    launch(case_kernel(CASES), "cases", [a, a], [out], n=1024, key=index + 1)
    want = case.reference(a, a)
    same(out[: want.size], want)


def test_ties_take_the_lowest_index():
    a = np.zeros(1024, np.float32)
    a[[70, 90, 200]] = 3
    out = np.zeros(2, np.float32)
    index = next(i for i, c in enumerate(CASES) if c.name == "ReduceMax-index")
    launch(case_kernel(CASES), "cases", [a, a], [out], n=1024, key=index + 1)
    assert out[0] == 3 and out[1:].view(np.uint32)[0] == 70
