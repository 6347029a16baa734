"""Instructions that move lanes (Brcb, Copy, Gather, GatherMask, transpositions) and mask/repeat forms."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import numpy as np
import pytest
from twin_support import NP, OpCase, case_kernel, launch, same, sample

V = "PipeBarrier<PIPE_V>();"


def rows(x, pitch=64):
    return x.reshape(-1, pitch)


def _zero_then(f, count):
    """c is 1 where the instruction under test leaves it alone."""

    def run(a, b):
        c = np.ones(count, a.dtype)
        f(c, a, b)
        return c

    return run


def masked(c, a, b):
    for r in range(3):
        c[r * 64 : r * 64 + 50] = a[r * 64 : r * 64 + 50] + b[:50]


def odd_lanes(c, a, b):
    c[1:192:2] = np.abs(a[1:192:2])


def strided(c, a, b):  # every second block of a, into every block of c
    for r in range(2):
        for k in range(8):
            c[r * 64 + k * 8 : r * 64 + k * 8 + 8] = a[r * 128 + k * 16 : r * 128 + k * 16 + 8] * 2


def tile_sum(c, a, b):
    c[:64] = 1
    for r in range(5):
        c[:64] = a[r * 64 : r * 64 + 64] + c[:64]


def column(a, b):  # rows of 64 minus one value per row
    return (rows(a)[:8] - b[:8, None]).reshape(-1)


def brcb16(a, b):
    return np.repeat(a[:16], 16)


def transpose(a, b):
    return a[:256].reshape(16, 16).T.reshape(-1)


def gather_ref(a, b):
    return a[(np.arange(a.size) * 7) % a.size]


ONES = f"Duplicate(c, static_cast<{{}}>(1), 1024); {V} "
CASES = [
    OpCase("Add-rows-mask", "f32", "f32",
           ONES.format("float") + "BinaryRepeatParams r(1, 1, 1, 8, 8, 0); Add(c, a, b, 50, 3, r);", _zero_then(masked, 512), out_count="512"),
    OpCase("Abs-bit-mask", "f32", "f32",
           ONES.format("float") + "uint64_t m[2] = {0xaaaaaaaaaaaaaaaaull, 0}; UnaryRepeatParams r(1, 1, 8, 8); Abs(c, a, m, 3, r);",
           _zero_then(odd_lanes, 512), out_count="512"),
    OpCase("Muls-block-stride", "f32", "f32",
           ONES.format("float") + "UnaryRepeatParams r(1, 2, 8, 16); Muls(c, a, 2.0f, 64, 2, r);", _zero_then(strided, 512), out_count="512"),
    OpCase("Add-accumulates", "f32", "f32",
           ONES.format("float") + "BinaryRepeatParams r(1, 1, 1, 0, 8, 0); Add(c, a, c, 64, 5, r);", _zero_then(tile_sum, 64), out_count="64"),
    OpCase("counter-mode", "f32", "f32",
           "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(300); BinaryRepeatParams r(1, 1, 1, 8, 8, 8);"
           "Add<float, false>(c, a, b, MASK_PLACEHOLDER, 1, r); SetMaskNorm(); ResetMask();", lambda a, b: (a + b)[:300], out_count="300"),
    OpCase("mask-register", "f32", "f32",
           ONES.format("float") + "SetVectorMask<float>(0, 0xffull); BinaryRepeatParams r(1, 1, 1, 8, 8, 8);"
           "Sub<float, false>(c, a, b, MASK_PLACEHOLDER, 1, r); ResetMask();",
           lambda a, b: np.concatenate([(a - b)[:8], np.ones(8, np.float32)]), out_count="16"),
    OpCase("Brcb-column", "f32", "f32",
           f"LocalTensor<float> q = t.ReinterpretCast<float>(); BrcbRepeatParams w(1, 8); Brcb(q, b, 1, w); {V}"
           "BinaryRepeatParams r(1, 1, 0, 8, 8, 1); Sub(c, a, q, 64, 8, r);", column, out_count="512"),
    OpCase("Brcb-f16", "f16", "f16", "BrcbRepeatParams w(1, 8); Brcb(c, a, 2, w);", brcb16, out_count="256"),
    OpCase("Copy", "f16", "f16", "CopyRepeatParams r(1, 1, 8, 0); Copy(c, a, 128, 3, r);", lambda a, b: np.tile(a[:128], 3), out_count="384"),
    OpCase("DataCopy-UB", "f32", "f32", "DataCopyParams p2(4, 2, 1, 0); DataCopy(c, a, p2);",
           lambda a, b: a[: 4 * 24].reshape(4, 24)[:, :16].reshape(-1), out_count="64"),
    OpCase("Gather", "f32", "f32",
           "LocalTensor<int32_t> o = t.ReinterpretCast<int32_t>(); LocalTensor<float> f = t[8192].ReinterpretCast<float>();"
           "int32_t size = static_cast<int32_t>(n); for (int32_t i = 0; i < size; ++i) { o.SetValue(i, i * 7 % size * 4); }"
           "TEventID e = pipe.FetchEventID<HardEvent::S_V>(); SetFlag<HardEvent::S_V>(e); WaitFlag<HardEvent::S_V>(e);"
           "Gather(c, a, o.ReinterpretCast<uint32_t>(), 0, n);", gather_ref),
    OpCase("GatherMask-even", "f32", "f32", "uint64_t k = 0; GatherMaskParams g(1, 4, 8, 0); GatherMask(c, a, 1, false, 0, g, k);",
           lambda a, b: a[:256:2], out_count="128"),
    OpCase("GatherMask-fourth", "f16", "f16", "uint64_t k = 0; GatherMaskParams g(1, 2, 8, 0); GatherMask(c, a, 5, false, 0, g, k);",
           lambda a, b: a[2:256:4], out_count="64"),
    OpCase("GatherMask-rows", "f32", "f32", "uint64_t k = 0; GatherMaskParams g(1, 4, 9, 0); GatherMask(c, a, 7, true, 70, g, k);",
           lambda a, b: a[:288].reshape(4, 72)[:, :70].reshape(-1), out_count="280"),
    OpCase("GatherMask-tensor", "f32", "f32",
           f"CompareScalar(t, a, 0.0f, CMPMODE::GT, 512); {V} uint64_t k = 0; GatherMaskParams g(1, 1, 8, 0);"
           f"Duplicate(c, 0.0f, 512); {V} GatherMask(c, a, t.ReinterpretCast<uint32_t>(), true, 512, g, k);",
           lambda a, b: np.concatenate([a[:512][a[:512] > 0], np.zeros(int((a[:512] <= 0).sum()), np.float32)]), out_count="512"),
    OpCase("Transpose", "f16", "f16", "Transpose(c, a);", transpose, out_count="256"),
    OpCase("5HD-f16", "f16", "f16",
           "uint64_t d[16], s[16]; for (int i = 0; i < 16; ++i) { s[i] = (uint64_t)a[i * 32].GetPhyAddr(); d[i] = (uint64_t)c[i * 16].GetPhyAddr(); }"
           "TransDataTo5HDParams q5(false, false, 2, 16, 1); TransDataTo5HD<half>(d, s, q5);",
           lambda a, b: a[:512].reshape(16, 32).T.reshape(-1), out_count="512"),
    OpCase("5HD-f32", "f32", "f32",
           "uint64_t d[16], s[16]; for (int i = 0; i < 16; ++i) { s[i] = (uint64_t)a[i * 16].GetPhyAddr(); d[i] = (uint64_t)c[i * 8].GetPhyAddr(); }"
           "TransDataTo5HDParams q5(false, false, 2, 16, 1); TransDataTo5HD<float>(d, s, q5);",
           lambda a, b: a[:256].reshape(16, 16).T.reshape(-1), out_count="256"),
]  # fmt: skip
assert all(c.reference for c in CASES)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_move(index):
    case = CASES[index]
    a, b = sample("normal", case.ins, 1024, 1), sample("normal", case.ins, 1024, 2)
    if case.name == "GatherMask-tensor":
        a[512:] = 1
    out = np.zeros(1024, NP[case.out])
    launch(case_kernel(CASES), "cases", [a, b], [out], n=1024, key=index + 1)
    want = case.reference(a, b)
    same(out[: want.size], want)
