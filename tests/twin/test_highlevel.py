"""High-level functions against numpy in double precision, in both float types, with and without a temporary buffer."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import math

import numpy as np
import pytest
from twin_support import CPP, NP, OpCase, case_kernel, launch, same, sample

erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)
sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
gelu = lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))  # noqa: E731

# name, function, data, has a form with a temporary buffer
UNARY = [
    ("Tanh", np.tanh, "normal", True), ("Sigmoid", sigmoid, "normal", True), ("Erf", erf, "normal", True),
    ("Erfc", erfc, "normal", True), ("Log2", np.log2, "positive", True), ("Sin", np.sin, "normal", True),
    ("Cos", np.cos, "normal", True), ("Tan", np.tan, "unit", True), ("Asin", np.arcsin, "unit", True),
    ("Acos", np.arccos, "unit", True), ("Atan", np.arctan, "normal", True), ("Sinh", np.sinh, "normal", True),
    ("Cosh", np.cosh, "normal", True), ("Asinh", np.arcsinh, "normal", True), ("Acosh", np.arccosh, "above1", True),
    ("Atanh", np.arctanh, "unit", True), ("Trunc", np.trunc, "wide", True), ("Floor", np.floor, "wide", True),
    ("Ceil", np.ceil, "wide", True), ("Round", np.rint, "ties", True), ("Frac", lambda x: x - np.trunc(x), "normal", True),
    ("Sign", np.sign, "normal", True), ("Gelu", gelu, "normal", True), ("Silu", lambda x: x * sigmoid(x), "normal", False),
    ("Log", np.log, "positive", False), ("Log10", np.log10, "positive", False),
]  # fmt: skip


def build_cases():
    cases = []
    for name, f, data, tmp in UNARY:
        for i, t in enumerate(("f32", "f16")):
            form = f"{name}(c, a, t, n);" if tmp and i == 0 else f"{name}(c, a, n);"
            cases.append(OpCase(f"{name}-{t}", t, t, form, lambda a, b, f=f: f(a), 1e-6 if t == "f32" else 1e-3, data))
    for t in ("f32", "f16"):
        cpp, tol = CPP[t], 1e-6 if t == "f32" else 1e-3
        cases += [
            OpCase(f"Power-{t}", t, t, "Power(c, a, b, t, n);", np.power, tol, "positive"),
            OpCase(f"Power-scalar-{t}", t, t, f"Power(c, a, static_cast<{cpp}>(3), t, n);", lambda a, b: a**3, tol),
            OpCase(f"Power-base-{t}", t, t, f"Power(c, static_cast<{cpp}>(2), a, n);", lambda a, b: 2**a, tol),
            OpCase(
                f"Swish-{t}", t, t, f"Swish(c, a, n, static_cast<{cpp}>(1.5));", lambda a, b: a * sigmoid(1.5 * a), tol
            ),
            OpCase(
                f"ClampMax-{t}",
                t,
                t,
                f"ClampMax(c, a, t, static_cast<{cpp}>(0.5), n);",
                lambda a, b: np.minimum(a, 0.5),
            ),
            OpCase(
                f"ClampMin-{t}", t, t, f"ClampMin(c, a, static_cast<{cpp}>(0.5), n);", lambda a, b: np.maximum(a, 0.5)
            ),
            OpCase(f"Fmod-{t}", t, t, "Fmod(c, a, b, t, n);", np.fmod, tol),
            OpCase(f"Exp-{t}", t, t, f"Exp<{cpp}, 10>(c, a, t, n);", lambda a, b: np.exp(a), tol),
        ]
    cases += [
        OpCase("Power-i32", "i32", "i32", "Power(c, a, 3, t, n);", lambda a, b: a**3, data="small"),
        OpCase("Xor-i16", "i16", "i16", "Xor(c, a, b, t, n);", np.bitwise_xor),
        OpCase("Broadcast-columns", "f32", "f32", "const uint32_t d[2] = {8, 24}, s[2] = {8, 1}; Broadcast<float, 2, 1>(c, a, d, s, t);",
               lambda a, b: np.repeat(a[:8], 24), out_count="192"),
        OpCase("Broadcast-rows", "f16", "f16", "const uint32_t d[2] = {5, 32}, s[2] = {1, 32}; Broadcast<half, 2, 0>(c, a, d, s);",
               lambda a, b: np.tile(a[:32], 5), out_count="160"),
    ]  # fmt: skip
    return cases


CASES = build_cases()


@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_highlevel(index):
    case = CASES[index]
    n = 300
    a, b = sample(case.data, case.ins, n, 1), sample(case.data, case.ins, n, 2)
    out = np.zeros(n, NP[case.out])
    launch(case_kernel(CASES), "cases", [a, b], [out], n=n, key=index + 1)
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in (a, b)]
    with np.errstate(all="ignore"):
        want = np.asarray(case.reference(*wide)).astype(NP[case.out])
    same(out[: want.size], want, case.tolerance)


def test_rint_exists_on_3510_only():
    case = OpCase("Rint", "f32", "f32", "Rint(c, a, n);", None)
    a, out = sample("ties", "f32", 100, 1), np.zeros(100, np.float32)
    launch(case_kernel([case]), "cases", [a, a], [out], arch=3510, n=100)
    same(out, np.rint(a))
