"""Each element-wise instruction against numpy, in its own element type; one kernel per chip holds all cases."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from twin_support import NP, OpCase, case_kernel, launch, same, sample, widen

BF16 = ml_dtypes.bfloat16


def in_type(f, dtype):
    """Computes in float32 for 16-bit floats and rounds to the type; wraps for integers."""

    def run(a, b):
        with np.errstate(all="ignore"):
            return np.asarray(f(widen(a), widen(b))).astype(NP[dtype])

    return run


def _binary(name, f, types, data="normal", tolerance=0.0):
    return [OpCase(f"{name}-{t}", t, t, f"{name}(c, a, b, n);", in_type(f, t), tolerance, data) for t in types]


def _unary(name, f, types, data="normal", tolerance=0.0):
    return [OpCase(f"{name}-{t}", t, t, f"{name}(c, a, n);", in_type(f, t), tolerance, data) for t in types]


FLOAT, ARITH = ("f32", "f16"), ("f32", "f16", "i16", "i32")
ULP = 3e-7  # the last bit of a transcendental function is the host library's
HALF_ULP = 1e-3


def tol(t):
    return ULP if t == "f32" else HALF_ULP


def _scalar(name, value, f, types):
    cpp = {"f32": "float", "f16": "half", "i16": "int16_t", "i32": "int32_t", "u16": "uint16_t", "u32": "uint32_t"}
    return [
        OpCase(f"{name}-{t}", t, t, f"{name}(c, a, static_cast<{cpp[t]}>({value}), n);", in_type(f, t)) for t in types
    ]


def _mul(a, b):
    return (a.astype(np.int64) * b).astype(a.dtype) if a.dtype.kind == "i" else a * b


CASES = [
    *_binary("Add", np.add, ARITH), *_binary("Sub", np.subtract, ARITH), *_binary("Mul", _mul, ARITH),
    *_binary("Div", np.divide, FLOAT), *_binary("Max", np.maximum, ARITH), *_binary("Min", np.minimum, ARITH),
    *_binary("Max", np.maximum, FLOAT, "special"), *_binary("Add", np.add, FLOAT, "special"),
    *_binary("Add", np.add, ("f16",), "wide"), *_binary("Mul", np.multiply, ("f16",), "wide"),
    *_binary("And", np.bitwise_and, ("i16", "u16")), *_binary("Or", np.bitwise_or, ("i16", "u16")),
    *[c for t in FLOAT for c in _unary("Exp", np.exp, (t,), tolerance=tol(t))],
    *[c for t in FLOAT for c in _unary("Ln", np.log, (t,), "positive", tol(t))],
    *_unary("Sqrt", np.sqrt, FLOAT, "positive"), *_unary("Abs", np.abs, FLOAT, "special"),
    *_unary("Rsqrt", lambda a, b: 1 / np.sqrt(a), ("f32",), "positive", 3e-4),
    *_unary("Reciprocal", lambda a, b: 1 / a, ("f32",), "positive", 3e-4),
    *_unary("Relu", lambda a, b: np.where(np.isnan(a), a, np.maximum(a, 0)), FLOAT, "special"),
    *_unary("Relu", lambda a, b: np.maximum(a, 0), ("i32",)), *_unary("Not", lambda a, b: ~a, ("i16", "u16")),
    *_scalar("Adds", 3, lambda a, b: a + a.dtype.type(3), ARITH), *_scalar("Muls", -2, lambda a, b: _mul(a, a.dtype.type(-2)), ARITH),
    *_scalar("Maxs", 1, lambda a, b: np.maximum(a, 1), ARITH), *_scalar("Mins", 1, lambda a, b: np.minimum(a, 1), ARITH),
    *_scalar("LeakyRelu", 0.25, lambda a, b: np.where(a >= 0, a, a * np.float32(0.25)), FLOAT),
    *_scalar("ShiftRight", 3, lambda a, b: a >> 3, ("i16", "u16", "i32", "u32")),
    *_scalar("ShiftLeft", 2, lambda a, b: a << 2, ("u16", "u32")),
    OpCase("Unary-alias", "f32", "f32", "Adds(c, a, 1.0f, n); PipeBarrier<PIPE_V>(); Mul(c, c, c, n);",
           lambda a, b: (a + np.float32(1)) ** 2),
    OpCase("MulAddDst-f32", "f32", "f32", "Duplicate(c, 1.0f, n); PipeBarrier<PIPE_V>(); MulAddDst(c, a, b, n);",
           lambda a, b: a * b + np.float32(1)),
    OpCase("MulAddDst-f16-f32", "f16", "f32", "Duplicate(c, 1.0f, n); PipeBarrier<PIPE_V>(); MulAddDst(c, a, b, n);",
           lambda a, b: widen(a) * widen(b) + np.float32(1)),
    OpCase("Axpy-f32", "f32", "f32", "Duplicate(c, 1.0f, n); PipeBarrier<PIPE_V>(); Axpy(c, a, 2.5f, n);",
           lambda a, b: a * np.float32(2.5) + np.float32(1)),
    OpCase("Axpy-f16-f32", "f16", "f32",
           "Duplicate(c, 1.0f, n); PipeBarrier<PIPE_V>(); Axpy(c, a, static_cast<half>(0.5), n);",
           lambda a, b: widen(a) * np.float32(0.5) + np.float32(1)),
    OpCase("FusedMulAdd-f16", "f16", "f16",
           "Duplicate(c, static_cast<half>(3), n); PipeBarrier<PIPE_V>(); FusedMulAdd(c, a, b, n);",
           lambda a, b: (widen(a) * 3 + widen(b)).astype(np.float16)),
    OpCase("Duplicate-bf16", "f32", "bf16", "Duplicate(c, static_cast<bfloat16_t>(1.5f), n);",
           lambda a, b: np.full(a.shape, 1.5, BF16)),
    OpCase("CreateVecIndex-i32", "f32", "i32", "CreateVecIndex(c, 5, n);", lambda a, b: 5 + np.arange(a.size, dtype=np.int32)),
    OpCase("CreateVecIndex-f16", "f32", "f16", "CreateVecIndex(c, static_cast<half>(2), n);",
           lambda a, b: (2 + np.arange(a.size)).astype(np.float16)),
]  # fmt: skip

CASES_3510 = [
    *_binary("Add", np.add, ("bf16", "u16", "i64", "u8")), *_binary("Mul", np.multiply, ("bf16",)),
    *_binary("Div", lambda a, b: np.where(b == 0, 0, np.trunc(a / np.where(b == 0, 1, b))), ("i32",), "small"),
    *_unary("Abs", np.abs, ("i32", "i64"), "small"), *_unary("Neg", np.negative, ("i32", "f32", "f16")),
    *_binary("And", np.bitwise_and, ("i32", "u8", "i64")), *_unary("Reciprocal", lambda a, b: 1 / a, ("f32",), "positive"),
]  # fmt: skip

CASES_2002 = [*_binary("Add", np.add, FLOAT)]


def run_case(cases, index, arch, n=333):
    case = cases[index]
    a, b = sample(case.data, case.ins, n, 1), sample(case.data, case.ins, n, 2)
    out = np.zeros(n, NP[case.out])
    launch(case_kernel(cases), "cases", [a, b], [out], arch=arch, n=n, key=index + 1)
    same(out, case.reference(a, b), case.tolerance)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_2201(index):
    run_case(CASES, index, 2201)


@pytest.mark.parametrize("index", range(len(CASES_3510)), ids=[c.name for c in CASES_3510])
def test_3510(index):
    run_case(CASES_3510, index, 3510)


def test_half_arithmetic_rounds_every_instruction():
    case = OpCase("chain", "f16", "f16", "Add(c, a, b, n); PipeBarrier<PIPE_V>(); Sub(c, c, a, n);", None)
    a, b = np.full(40, 2048, np.float16), np.full(40, 1, np.float16)
    out = np.zeros(40, np.float16)
    launch(case_kernel([case]), "cases", [a, b], [out], n=40)
    assert (out == 0).all()  # 2048 + 1 rounds back to 2048 in half


@pytest.mark.parametrize("n", [1, 7, 8, 16, 63, 64, 65, 1000])
def test_tails(n):
    index = next(i for i, c in enumerate(CASES) if c.name == "Mul-f16")
    run_case(CASES, index, 2201, n)
