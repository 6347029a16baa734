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


FIXED = """
kernel fixed(in x: f16[s0, {w}], in w: f32[{w}], out y0: f16[s0, {w}], out y1: bool[s0, {w}]) where s0 = x.0
nest n0 [a0: s0, a1: {w}]
  v0: f16 = load x[{w}*a0 + a1]
  v1: f32 = cast(v0, rint)
  v2: f32 = load w[a1]
  v3: f32 = mul(v1, v2)
  v4: f16 = cast(v3, rint)
  v5: bool = lt(v3, v1)
  store y0[{w}*a0 + a1] = v4
  store y1[{w}*a0 + a1] = v5
"""


@pytest.mark.parametrize("width", [3, 24, 96])
def test_widths_known_at_compile_time(width):
    """The rows of a core are then a multiple of what fills whole blocks."""
    check(FIXED.format(w=width), [{"s0": n} for n in (1, 217, 1000, 4001)])


OTHER_OPS = """
kernel layouts_other(in xf: f32[s0, s1], in xr: f32[s1], in xc: f32[s0, 1], in xo: f32[1], in bf: bool[s0, s1],
  in br: bool[s1], in bc: bool[s0, 1], out y0: f32[s0, s1], out y1: bool[s0, s1], out y2: bool[s0, 1],
  out y3: bool[s1], out y4: bool[1], out y5: f32[s0, 1], out y6: f32[s0, s1]) where s0 = xf.0, s1 = xf.1
nest n0 [a0: s0, a1: s1]
  f: f32 = load xf[s1*a0 + a1]
  r: f32 = load xr[a1]
  c: f32 = load xc[a0]
  o: f32 = load xo[0]
  p: bool = load bf[s1*a0 + a1]
  q: bool = load br[a1]
  u: bool = load bc[a0]
  k: f32 = const 0.5
  t: bool = const true
  v0: bool = lt(r, c)
  v1: bool = ge(f, o)
  v2: bool = ne(c, o)
  v3: bool = le(k, r)
  v4: bool = gt(o, k)
  v5: bool = and(v0, q)
  v6: bool = or(v5, u)
  v7: bool = ne(v6, v1)
  v8: bool = select(u, p, q)
  v9: bool = eq(v8, v7)
  v10: f32 = select(q, c, f)
  v11: f32 = select(v0, k, r)
  v12: f32 = select(v9, v10, k)
  v13: f32 = select(v4, o, v11)
  v14: f32 = add(v12, v13)
  v15: f32 = abs(r)
  v16: f32 = exp(k)
  v17: f32 = add(v15, v16)
  v18: f32 = pow(v17, c)
  v19: f32 = fmod(f, v17)
  v20: f32 = add(v14, v19)
  v21: bool = and(v2, t)
  v22: bool = not(q)
  v23: f32 = select(v21, c, o)
  v24: bool = or(v3, v22)
  store y0[s1*a0 + a1] = v20
  store y1[s1*a0 + a1] = v9
  store y2[a0] = v21
  store y3[a1] = v24
  store y4[0] = v4
  store y5[a0] = v23
  store y6[s1*a0 + a1] = v18
"""


@pytest.mark.parametrize("soc", SOCS)
def test_layouts_of_other_ops(soc):
    check(OTHER_OPS, [{"s0": r, "s1": w} for r, w in SHAPES[::3]], soc)


COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_compares(dtype):
    """Every comparison of two values, with a constant on either side, and of values repeated along an axis."""
    lines, stores = [], []
    for k, op in enumerate(COMPARES):
        for j, args in enumerate(("x, y", "k, x", "x, k", "y, x")):
            lines.append(f"  b{k}{j}: bool = {op}({args})")
        lines += [
            f"  c{k}: bool = ne(b{k}0, b{k}1)",
            f"  d{k}: bool = and(b{k}2, b{k}3)",
            f"  e{k}: bool = or(c{k}, d{k})",
        ]
        stores.append(f"  store y{k}[s1*a0 + a1] = e{k}")
        stores.append(f"  store z{k}[s1*a0 + a1] = b{k}1")
    outs = ", ".join(f"out {n}{k}: bool[s0, s1]" for k in range(6) for n in "yz")
    head = f"kernel compares_{dtype}(in i0: {dtype}[s0, s1], in i1: {dtype}[s1], {outs}) where s0 = i0.0, s1 = i0.1"
    three = 3.0 if dtype == "f32" else 3
    loads = f"  x: {dtype} = load i0[s1*a0 + a1]\n  y: {dtype} = load i1[a1]\n  k: {dtype} = const {three}"
    body = "\n".join([head, "nest n0 [a0: s0, a1: s1]", loads, *lines, *stores, ""])
    sizes = {"s0": 20, "s1": 33}
    values = np.arange(-330, 330).reshape(20, 33) % 7
    kind = np.float32 if dtype == "f32" else np.int32
    runner(body).check(sizes, {"i0": values.astype(kind), "i1": values[3].astype(kind)})
    check(body, [sizes], special=True)


# ---- outer axes -----------------------------------------------------------------------------------------------------

OUTER = """
kernel outer(in x: f32[s0, s1, s2], in m: f32[s0, 1, s2], in c: f32[s0, s1, 1], in w: f16[1, s1, s2],
  in o: f32[s0, 1, 1], in q: f32[s2], out y0: f32[s0, s1, s2], out y1: f32[s0, 1, s2], out y2: f32[s0, s1, 1],
  out y3: f16[1, s1, s2], out y4: f32[s0, 1, 1]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s1, a2: s2]
  v0: f32 = load x[s1*s2*a0 + s2*a1 + a2]
  v1: f32 = load m[s2*a0 + a2]
  v2: f32 = load c[s1*a0 + a1]
  v3: f16 = load w[s2*a1 + a2]
  v4: f32 = load o[a0]
  v5: f32 = load q[a2]
  v6: f32 = cast(v3, rint)
  v7: f32 = mul(v0, v1)
  v8: f32 = sub(v2, v7)
  v9: f32 = add(v8, v6)
  v10: f32 = mul(v9, v4)
  v11: f32 = max(v10, v5)
  v12: f32 = add(v1, v5)
  v13: f32 = mul(v12, v4)
  v14: f32 = sub(v2, v4)
  v15: f32 = exp(v6)
  v16: f16 = cast(v15, rint)
  v17: f32 = neg(v4)
  store y0[s1*s2*a0 + s2*a1 + a2] = v11
  store y1[s2*a0 + a2] = v13
  store y2[s1*a0 + a1] = v14
  store y3[s2*a1 + a2] = v16
  store y4[a0] = v17
"""

# two outer axes; outputs that lack one of them
OUTER4 = """
kernel outer4(in x: f16[s0, 3, s1, s2], in a: f16[s0, 1, s1, 1], in b: f32[1, 3, 1, s2], in c: i32[3, s1, s2],
  in d: i32[s0, 1, s1, s2], out y0: f16[s0, 3, s1, s2], out y1: f32[s0, 3, s1, s2], out y2: i32[3, s1, s2],
  out y3: f16[s0, 1, s1, 1], out y4: f32[3, 1, s2], out y5: i32[s0, 1, s1, s2]) where s0 = x.0, s1 = x.2, s2 = x.3
nest n0 [a0: s0, a1: 3, a2: s1, a3: s2]
  v0: f16 = load x[3*s1*s2*a0 + s1*s2*a1 + s2*a2 + a3]
  v1: f16 = load a[s1*a0 + a2]
  v2: f32 = load b[s2*a1 + a3]
  v3: i32 = load c[s1*s2*a1 + s2*a2 + a3]
  v4: f32 = cast(v0, rint)
  v5: f32 = cast(v1, rint)
  v6: f32 = cast(v3, rint)
  v7: f32 = mul(v4, v5)
  v8: f32 = add(v7, v2)
  v9: f16 = cast(v8, rint)
  v10: f32 = add(v8, v6)
  v11: i32 = neg(v3)
  v12: f32 = abs(v5)
  v13: f16 = cast(v12, rint)
  v14: f32 = exp(v2)
  v15: i32 = load d[s1*s2*a0 + s2*a2 + a3]
  v16: i32 = neg(v15)
  store y0[3*s1*s2*a0 + s1*s2*a1 + s2*a2 + a3] = v9
  store y1[3*s1*s2*a0 + s1*s2*a1 + s2*a2 + a3] = v10
  store y2[s1*s2*a1 + s2*a2 + a3] = v11
  store y3[s1*a0 + a2] = v13
  store y4[s2*a1 + a3] = v14
  store y5[s1*s2*a0 + s2*a2 + a3] = v16
"""
OUTER_SHAPES = [
    (1, 1, 1), (2, 3, 5), (5, 7, 8), (3, 50, 33), (60, 2, 17), (7, 5, 64), (1, 1000, 3), (100, 1, 9), (13, 9, 255),
    (0, 3, 5), (3, 0, 5), (3, 5, 0), (4, 3, 9000), (49, 48, 47),
]  # fmt: skip


@pytest.mark.parametrize("text", [OUTER, OUTER4], ids=["three axes", "four axes"])
def test_outer_axes(text):
    check(text, [dict(zip(("s0", "s1", "s2"), shape)) for shape in OUTER_SHAPES])


def test_outer_axes_on_the_other_chip():
    check(OUTER4, [dict(zip(("s0", "s1", "s2"), shape)) for shape in OUTER_SHAPES[1:4]], SOCS[1])


# ---- stores ---------------------------------------------------------------------------------------------------------

STORES = """
kernel stores(in x: f32[s0, s1], in w: f16[s1], in c: f32[s0, 1], in o: f32[1], in h: f16[s0, s1], in i: i64[s0, s1],
  in b: bool[s0, s1], out y0: f32[s0, s1], out y1: f32[s0, s1], out y2: f16[s0, s1], out y3: f32[s0, s1],
  out y4: f32[s0, 1], out y5: f16[s0, s1], out y6: i64[s0, s1], out y7: bool[s0, s1], out y8: f16[s1],
  out y9: f32[s0, s1], out y10: f32[1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  vx: f32 = load x[s1*a0 + a1]
  vr: f16 = load w[a1]
  vc: f32 = load c[a0]
  vo: f32 = load o[0]
  vh: f16 = load h[s1*a0 + a1]
  vi: i64 = load i[s1*a0 + a1]
  vb: bool = load b[s1*a0 + a1]
  w: f32 = mul(vx, vc)
  n: f32 = neg(vc)
  store y0[s1*a0 + a1] = w
  store y1[s1*a0 + a1] = w
  store y2[s1*a0 + a1] = vr
  store y3[s1*a0 + a1] = n
  store y4[a0] = n
  store y5[s1*a0 + a1] = vh
  store y6[s1*a0 + a1] = vi
  store y7[s1*a0 + a1] = vb
  store y8[a1] = vr
  store y9[s1*a0 + a1] = vo
  store y10[0] = vo
"""

FILLS = """
kernel fills(in x: f32[s0, s1], in k: f32[s0, 1], out y0: f32[s0, s1], out y1: f16[s0, s1], out y2: bf16[s0, s1],
  out y3: i64[s0, s1], out y4: i32[s0], out y5: i16[s1], out y6: u8[s0, s1], out y7: i8[s0, s1], out y8: bool[s0, s1],
  out y9: f32[1], out y10: f32[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  c0: f32 = const 0.10000000149011612
  c1: f16 = const -1.5
  c2: bf16 = const 3.0
  c3: i64 = const -7
  c4: i32 = const -2147483648
  c5: i16 = const -32768
  c6: u8 = const 255
  c7: i8 = const -128
  c8: bool = const true
  c9: f32 = const -inf
  c10: f32 = const nan
  store y0[s1*a0 + a1] = c0
  store y1[s1*a0 + a1] = c1
  store y2[s1*a0 + a1] = c2
  store y3[s1*a0 + a1] = c3
  store y4[a0] = c4
  store y5[a1] = c5
  store y6[s1*a0 + a1] = c6
  store y7[s1*a0 + a1] = c7
  store y8[s1*a0 + a1] = c8
  store y9[0] = c9
  store y10[s1*a0 + a1] = c10
"""

SCALARS = """
kernel scalars(in a: f32[], in b: f16[1, 1], in c: i64[], out y0: f32[], out y1: f16[1], out y2: bool[], out y3: f32[],
  out y4: i32[])
nest n0 []
  v0: f32 = load a[0]
  v1: f16 = load b[0]
  v2: i64 = load c[0]
  v3: f32 = cast(v1, rint)
  v4: f32 = mul(v0, v3)
  v5: f16 = cast(v4, rint)
  v6: f32 = cast(v2, rint)
  v7: bool = lt(v4, v6)
  v8: i32 = cast(v6, trunc)
  store y0[0] = v4
  store y1[0] = v5
  store y2[0] = v7
  store y3[0] = v0
  store y4[0] = v8
"""


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("text", [STORES, FILLS], ids=["values", "constants"])
def test_stores(text, soc):
    check(text, [{"s0": r, "s1": w} for r, w in (*SHAPES[::6], (0, 3), (3, 0))], soc)


def test_scalars():
    check(SCALARS, [{}] * 3)


# ---- queues ---------------------------------------------------------------------------------------------------------


def crowded_text(inputs, rows, columns, outputs):
    """More inputs and outputs than a queue position has buffers: full ones, and some per column and per row."""
    lines, params = [], []
    total = None
    kinds = (
        [("f", "[s0, s1]", "s1*a0 + a1")] * inputs + [("r", "[s1]", "a1")] * rows + [("c", "[s0, 1]", "a0")] * columns
    )
    for i, (kind, dims, index) in enumerate(kinds):
        dtype = ("f16", "f32", "bf16")[i % 3]
        params.append(f"in {kind}{i}: {dtype}{dims}")
        lines += [f"  l{i}: {dtype} = load {kind}{i}[{index}]", f"  v{i}: f32 = cast(l{i}, rint)"]
        if dtype == "f32":
            lines[-1] = f"  v{i}: f32 = neg(l{i})"
        if total is not None:
            lines.append(f"  t{i}: f32 = {'add' if i % 2 else 'sub'}({total}, v{i})")
        total = f"t{i}" if total else f"v{i}"
    for i in range(outputs):
        params.append(f"out y{i}: {('f16', 'f32')[i % 2]}[s0, s1]")
        lines += [f"  k{i}: f32 = const {i}.5", f"  m{i}: f32 = mul({total}, k{i})"]
        if i % 2 == 0:
            lines.append(f"  o{i}: f16 = cast(m{i}, rint)")
        lines.append(f"  store y{i}[s1*a0 + a1] = {'om'[i % 2]}{i}")
    params += [f"out z{i}: f32[s1]" for i in range(rows)]
    lines += [f"  store z{i}[a1] = v{inputs + i}" for i in range(rows)]
    body = "\n".join([line for line in lines if "store" not in line] + [line for line in lines if "store" in line])
    return f"kernel crowded({', '.join(params)}) where s0 = f0.0, s1 = f0.1\nnest n0 [a0: s0, a1: s1]\n{body}\n"


@pytest.mark.parametrize(("inputs", "rows", "columns", "outputs"), [(14, 0, 0, 12), (9, 4, 3, 2), (2, 10, 1, 1)])
def test_more_tensors_than_queue_buffers(inputs, rows, columns, outputs):
    text = crowded_text(inputs, rows, columns, outputs)
    check(text, [{"s0": r, "s1": w} for r, w in ((1, 1), (3, 5), (700, 33), (40, 256), (3, 9000))])


def test_many_slices_of_one_input():
    dims = ", ".join(f"a{i}: {n}" for i, n in enumerate((3, 40)))
    loads = "\n".join(f"  v{i}: f32 = load x[1200*a0 + a1 + {40 * i}]" for i in range(30))
    adds = "\n".join(f"  t{i}: f32 = add({'v0' if i == 1 else f't{i - 1}'}, v{i})" for i in range(1, 30))
    text = f"kernel slices(in x: f32[3, 1200], out y: f32[3, 40])\nnest n0 [{dims}]\n{loads}\n{adds}\n"
    check(text + "  store y[40*a0 + a1] = t29\n", [{}])


# ---- special values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [FLAT_FLOAT, layout_text("div"), layout_text("max"), OTHER_OPS], ids=["flat", "div", "max", "other"]
)
def test_special_values(text):
    sizes = {"s0": 40, "s1": 33}
    tiny = np.float32(1e-40)
    for seed in range(3):
        runner(text).check(sizes, seed=seed, special=True)
    first = runner(text).kernel.inputs[0].name
    runner(text).check(sizes, {first: np.full(runner(text).shape(first, sizes), tiny)})


def test_scratch_of_many_tiles():
    """Tiles of one core use the same temporary buffer, in a kernel without other places."""
    text = (
        "kernel scratch(in x: f32[s0], out y: f32[s0]) where s0 = x.0\nnest n0 [a0: s0]\n  v: f32 = load x[a0]\n"
        "  w: f32 = tanh(v)\n  store y[a0] = w\n"
    )
    check(text, [{"s0": 1500000}])
