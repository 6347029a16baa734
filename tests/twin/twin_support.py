"""Helpers of the twin's tests: numpy arrays in, numpy arrays out, and a frame for one-op kernels."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from torchair_autofuse.twin.build import build
from torchair_autofuse.twin.launcher import TwinProfile, load

CPP = {
    "f32": "float", "f16": "half", "bf16": "bfloat16_t", "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t",
    "u16": "uint16_t", "i32": "int32_t", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t",
}  # fmt: skip
NP: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "u8": np.uint8, "i16": np.int16,
    "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip

TILING_H = "#pragma once\n#include <cstdint>\nstruct TestTiling { int64_t n; int64_t m; };\n"
HEAD = '#include "kernel_operator.h"\n#include "tiling.h"\nusing namespace AscendC;\n'


@dataclass(frozen=True)
class OpCase:
    """One instruction under test: ``code`` sees a, b (inputs), c (output), t (u8 temporary), n (elements)."""

    name: str
    ins: str  # type of a and b
    out: str
    code: str
    reference: Any  # f(a, b) -> array, in numpy
    tolerance: float = 0.0  # relative
    data: str = "normal"
    out_count: str = "n"  # elements stored, in C++


def case_kernel(cases: Sequence[OpCase]) -> str:
    """A kernel with one function per case, selected by tiling key (index + 1)."""
    text = [HEAD]
    for i, case in enumerate(cases):
        ti, to = CPP[case.ins], CPP[case.out]
        text.append(f"""
__aicore__ inline void case_{i}(GM_ADDR x, GM_ADDR y, GM_ADDR z, int64_t size) {{
    uint32_t n = static_cast<uint32_t>(size);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa, qb; TQue<TPosition::VECOUT, 1> qc; TBuf<TPosition::VECCALC> bt;
    pipe.InitBuffer(qa, 1, 8192); pipe.InitBuffer(qb, 1, 8192); pipe.InitBuffer(qc, 1, 16384); pipe.InitBuffer(bt, 65536);
    GlobalTensor<{ti}> gx, gy; GlobalTensor<{to}> gz;
    gx.SetGlobalBuffer((__gm__ {ti}*)x); gy.SetGlobalBuffer((__gm__ {ti}*)y); gz.SetGlobalBuffer((__gm__ {to}*)z);
    LocalTensor<{ti}> a = qa.AllocTensor<{ti}>(), b = qb.AllocTensor<{ti}>();
    DataCopyExtParams p{{1, static_cast<uint32_t>(n * sizeof({ti})), 0, 0, 0}};
    DataCopyPadExtParams<{ti}> pad{{false, 0, 0, static_cast<{ti}>(0)}};
    DataCopyPad(a, gx, p, pad); DataCopyPad(b, gy, p, pad);
    qa.EnQue(a); qb.EnQue(b); a = qa.DeQue<{ti}>(); b = qb.DeQue<{ti}>();
    LocalTensor<{to}> c = qc.AllocTensor<{to}>(); LocalTensor<uint8_t> t = bt.Get<uint8_t>();
    {{ {case.code} }}
    qa.FreeTensor(a); qb.FreeTensor(b); qc.EnQue(c); c = qc.DeQue<{to}>();
    DataCopyExtParams q{{1, static_cast<uint32_t>(({case.out_count}) * sizeof({to})), 0, 0, 0}};
    DataCopyPad(gz, c, q);
    qc.FreeTensor(c);
}}""")
    text.append("""
extern "C" __global__ __aicore__ void cases(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(TestTiling);
    GET_TILING_DATA(t, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);""")
    text.append(
        "    "
        + " else ".join(f"if (TILING_KEY_IS({i + 1})) {{ case_{i}(x, y, z, t.n); }}" for i in range(len(cases)))
        + "\n}\n"
    )
    return "\n".join(text)


def tiling(n: int = 0, m: int = 0) -> bytes:
    """The bytes of ``TestTiling``."""
    return struct.pack("qq", n, m)


def launch(
    source: str,
    entry: str,
    ins: Sequence[np.ndarray],
    outs: Sequence[np.ndarray],
    *,
    arch: int = 2201,
    n: int = 0,
    m: int = 0,
    key: int = 1,
    workspace: int = 0,
    block_dim: int = 1,
    seed: int = 0,
    tiling_bytes: bytes | None = None,
) -> TwinProfile:
    """Builds ``source`` (with ``tiling.h``) and runs it over numpy arrays."""
    so = build({"kernel.cpp": source, "tiling.h": TILING_H}, entry, npu_arch=arch)
    args = [(x.ctypes.data, x.nbytes, "in") for x in ins] + [(x.ctypes.data, x.nbytes, "out") for x in outs]
    scratch = np.zeros(max(1, workspace), np.uint8)
    if workspace:
        args.append((scratch.ctypes.data, workspace, "workspace"))
    return load(so).launch(args, tiling(n, m) if tiling_bytes is None else tiling_bytes, key, block_dim, seed)


def sample(kind: str, dtype: str, n: int, seed: int) -> np.ndarray:
    """Test data of a type: "normal", "positive", "unit" (-1..1), "above1", "bool" or "special" (with inf and NaN)."""
    rng = np.random.default_rng(seed)
    np_type = NP[dtype]
    if dtype[0] in "iu":
        info = np.iinfo(np_type)
        if kind == "bool":
            return rng.integers(0, 2, n).astype(np_type)
        if kind == "small":
            return rng.integers(0 if dtype[0] == "u" else -9, 10, n).astype(np_type)
        return rng.integers(info.min, info.max, n, dtype=np_type, endpoint=True)
    x = rng.standard_normal(n)
    if kind == "positive":
        x = np.abs(x) + 0.01
    elif kind == "unit":
        x = rng.uniform(-0.99, 0.99, n)
    elif kind == "above1":
        x = 1 + np.abs(x)
    elif kind == "wide":
        x = x * 10.0 ** rng.integers(-6, 7, n)
    elif kind == "ties":
        x = rng.integers(-9, 10, n) / 2
    elif kind == "special":
        x[:: max(1, n // 7)] = np.nan
        x[1 :: max(2, n // 5)] = np.inf
        x[2 :: max(3, n // 5)] = -np.inf
        x[3 :: max(4, n // 5)] = -0.0
    with np.errstate(over="ignore"):
        return x.astype(np_type)


def widen(x: np.ndarray) -> np.ndarray:
    """16-bit floats as float32, everything else as it is."""
    return x.astype(np.float32) if x.dtype in (np.float16, ml_dtypes.bfloat16) else x


def same(got: np.ndarray, want: np.ndarray, tolerance: float = 0.0) -> None:
    """Asserts equality, NaN equal to NaN, within a relative tolerance for floats."""
    g, w = widen(got).astype(np.float64), widen(np.asarray(want)).astype(np.float64)
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
        return
    if tolerance == 0.0:
        np.testing.assert_array_equal(g, w)
    else:
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * 1e-2)
