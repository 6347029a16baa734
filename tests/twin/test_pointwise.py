"""Pointwise kernels on the twin against the interpreter: layouts, sizes, types, outer axes, queues, edges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_runner import check, runner

SOCS = ("Ascend910B1", "Ascend950PR_9599")
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 1000)
ROWS = (1, 2, 47, 48, 49, 1000)

# ---- flat -----------------------------------------------------------------------------------------------------------

FLAT_FLOAT = """
kernel flat_float(in a: f32[s0], in b: f16[s0], in c: bf16[s0], in d: f32[1], in e: bool[s0], out y0: f32[s0],
  out y1: f16[s0], out y2: bf16[s0], out y3: bool[s0], out y4: f32[1], out y5: f32[s0]) where s0 = a.0
nest n0 [a0: s0]
  v0: f32 = load a[a0]
  v1: f16 = load b[a0]
  v2: f32 = cast(v1, rint)
  v3: bf16 = load c[a0]
  v4: f32 = cast(v3, rint)
  v5: f32 = load d[0]
  v6: bool = load e[a0]
  half: f32 = const 0.5
  two: f32 = const 2.0
  three: f32 = const 3.0
  v7: f32 = mul(v0, half)
  v8: f32 = add(v7, v2)
  v9: f32 = max(v8, v4)
  v10: f32 = sub(v9, v5)
  v11: f32 = sub(two, v10)
  v12: f32 = div(v11, three)
  v13: bool = lt(v12, v2)
  v14: bool = or(v13, v6)
  v15: f32 = select(v14, v12, v0)
  v16: f16 = cast(v15, rint)
  v17: bf16 = cast(v12, rint)
  v18: f32 = exp(v5)
  v19: f32 = add(v15, v18)
  v20: f32 = cast(v16, rint)
  v21: f32 = div(v20, two)
  store y0[a0] = v19
  store y1[a0] = v16
  store y2[a0] = v17
  store y3[a0] = v14
  store y4[0] = v18
  store y5[a0] = v21
"""

FLAT_INT = """
kernel flat_int(in a: i32[s0], in b: i16[s0], in c: i64[s0], in d: u8[s0], in e: i8[s0], out y0: i32[s0],
  out y1: i16[s0], out y2: f32[s0], out y3: i64[s0], out y4: bool[s0], out y5: u8[s0]) where s0 = a.0
nest n0 [a0: s0]
  v0: i32 = load a[a0]
  v1: i16 = load b[a0]
  v2: i64 = load c[a0]
  v3: u8 = load d[a0]
  v4: i8 = load e[a0]
  seven: i32 = const 7
  least: i32 = const -2147483648
  v5: i32 = cast(v1, rint)
  v6: i32 = cast(v3, rint)
  v7: i32 = cast(v4, rint)
  v8: i32 = mul(v0, v5)
  v9: i32 = sub(v8, v6)
  v10: i32 = max(v9, v7)
  v11: i32 = sub(v10, seven)
  v12: i32 = sub(v11, least)
  v13: bool = le(v12, v0)
  v14: i32 = select(v13, v12, v5)
  v15: i32 = bitxor(v14, v0)
  v16: i16 = abs(v1)
  v17: i16 = bitor(v16, v1)
  v18: f32 = cast(v2, rint)
  v19: f32 = cast(v3, rint)
  v20: f32 = cast(v4, rint)
  v21: f32 = add(v18, v19)
  v22: f32 = mul(v21, v20)
  v23: i64 = cast(v15, rint)
  v24: bool = cast(v2, rint)
  v25: bool = ne(v24, v13)
  v26: u8 = cast(v25, rint)
  store y0[a0] = v15
  store y1[a0] = v17
  store y2[a0] = v22
  store y3[a0] = v23
  store y4[a0] = v25
  store y5[a0] = v26
"""


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("text", [FLAT_FLOAT, FLAT_INT], ids=["float", "int"])
def test_flat(text, soc):
    check(text, [{"s0": n} for n in (0, *WIDTHS, 1023, 1024, 1025, 4097, 50000, 200001)], soc)


# ---- layouts --------------------------------------------------------------------------------------------------------

LOADS = {"f": "64*a0 + a1", "r": "a1", "c": "a0", "o": "0"}


def layout_text(op, params="f32"):
    """``op`` of every ordered pair of layouts; float results of one layout are folded into one output, bools each."""
    dims = {"f": "[s0, s1]", "r": "[s1]", "c": "[s0, 1]", "o": "[1]"}
    index = {"f": "s1*a0 + a1", "r": "a1", "c": "a0", "o": "0"}
    lines = [f"  {k}: {params} = load x{k}[{index[k]}]" for k in dims]
    by_layout = {}
    for i, (a, b) in enumerate(itertools.product("frco", repeat=2)):
        lines.append(f"  v{i}: {params} = {op}({a}, {b})")
        out = "o" if a == b == "o" else "r" if {a, b} <= set("ro") else "c" if {a, b} <= set("co") else "f"
        by_layout.setdefault(out, []).append(f"v{i}")
    lines.append(f"  k: {params} = const {'0.75' if params == 'f32' else '3'}")
    stores = []
    for out, names in by_layout.items():
        total = names[0]
        for j, name in enumerate(names[1:]):
            lines += [f"  {out}s{j}: {params} = mul({total}, k)", f"  {out}t{j}: {params} = add({out}s{j}, {name})"]
            total = f"{out}t{j}"
        stores.append(f"  store y{out}[{index[out]}] = {total}")
    ins = ", ".join(f"in x{k}: {params}{d}" for k, d in dims.items())
    outs = ", ".join(f"out y{k}: {params}{dims[k]}" for k in by_layout)
    body = "\n".join([*lines, *stores])
    return f"kernel layouts_{op}_{params}({ins}, {outs}) where s0 = xf.0, s1 = xf.1\nnest n0 [a0: s0, a1: s1]\n{body}\n"


SHAPES = [
    *((2, w) for w in WIDTHS), *((r, 17) for r in ROWS), (50, 64), (49, 2040), (300, 8), (9, 2041), (5, 4096),
    (300, 256), (0, 5), (5, 0), (1, 60000), (3, 20001), (5000, 7),
]  # fmt: skip


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "min"])
def test_layouts_of_binary_ops(op):
    shapes = SHAPES if op in ("sub", "div") else SHAPES[::4]
    check(layout_text(op), [{"s0": r, "s1": w} for r, w in shapes])


@pytest.mark.parametrize("op", ["sub", "bitxor"])
def test_layouts_of_integer_ops(op):
    check(layout_text(op, "i32"), [{"s0": r, "s1": w} for r, w in SHAPES[::4]])
