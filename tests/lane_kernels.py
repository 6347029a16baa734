"""Kernels with strides along their inner axis, as text of the loop IR: de-interleaving, interleaving, reversing."""

from __future__ import annotations

from collections.abc import Sequence


def pick(width: int, members: Sequence[int], dtype: str) -> str:
    """Flat: y{m}[i] = x[width * i + m]; the last lane ends with the last member."""
    short = width - max(members) - 1
    outputs = ", ".join(f"out y{m}: {dtype}[s0]" for m in members)
    size = f"{width}*s0 - {short}" if short else f"{width}*s0"
    lines = [f"  v{m}: {dtype} = load x[{width}*a0 + {m}]" for m in members]
    lines += [f"  store y{m}[a0] = v{m}" for m in members]
    head = f"kernel pick_{dtype}_{width}(in x: {dtype}[{size}], in n: f32[s0], {outputs}) where s0 = n.0"
    return "\n".join([head, "nest n0 [a0: s0]", *lines]) + "\n"


def pick_rows(width: int, members: Sequence[int], dtype: str, rows: int) -> str:
    """Rows with a bias along each axis: y{m}[r, i] = x[r, width * i + m] + b[r] + c[width * i + m], as f32."""
    outputs = ", ".join(f"out y{m}: f32[{rows}, s0]" for m in members)
    cast = "" if dtype == "f32" else "cast"
    lines = [f"  r0: f32 = load b[{width + 1}*a0 + 1]"]
    for m in members:
        lines += [
            f"  x{m}: {dtype} = load x[{width}*s0*a0 + {width}*a1 + {m}]",
            f"  c{m}: {dtype} = load c[{width}*a1 + {m}]",
            *([f"  fx{m}: f32 = cast(x{m}, rint)", f"  fc{m}: f32 = cast(c{m}, rint)"] if cast else []),
            f"  s{m}: f32 = add({'f' if cast else ''}x{m}, r0)",
            f"  y{m}: f32 = add(s{m}, {'f' if cast else ''}c{m})",
        ]
    lines += [f"  store y{m}[s0*a0 + a1] = y{m}" for m in members]
    head = (
        f"kernel rows_{dtype}_{width}(in x: {dtype}[{rows}, s0, {width}], in b: f32[{rows}, {width + 1}], "
        f"in c: {dtype}[s0, {width}], {outputs}) where s0 = c.0"
    )
    return "\n".join([head, f"nest n0 [a0: {rows}, a1: s0]", *lines]) + "\n"


def stack(width: int, dtype: str, rows: int | None = None) -> str:
    """y[.., i, m] = x{m}[.., i] + b[row]; without ``rows`` flat and without b. Types but f32 and i32 only move."""
    outer = "" if rows is None else f"{rows}, "
    index = "a0" if rows is None else "s0*a0 + a1"
    target = f"{width}*a0" if rows is None else f"{width}*s0*a0 + {width}*a1"
    added = rows is not None and dtype in ("f32", "i32")
    inputs = ", ".join(f"in x{m}: {dtype}[{outer}s0]" for m in range(width))
    lines = [f"  r0: {dtype} = load b[a0]"] if added else []
    for m in range(width):
        lines.append(f"  x{m}: {dtype} = load x{m}[{index}]")
        lines += [f"  y{m}: {dtype} = add(x{m}, r0)"] if added else []
    lines += [f"  store y[{target} + {m}] = {'y' if added else 'x'}{m}" for m in range(width)]
    bias = f", in b: {dtype}[{rows}]" if added else ""
    where = f"x0.{0 if rows is None else 1}"
    head = f"kernel stack_{dtype}_{width}({inputs}{bias}, out y: {dtype}[{outer}s0, {width}]) where s0 = {where}"
    axes = "a0: s0" if rows is None else f"a0: {rows}, a1: s0"
    return "\n".join([head, f"nest n0 [{axes}]", *lines]) + "\n"


def reverse(width: int, members: Sequence[int], dtype: str) -> str:
    """y{m}[i] = x[width * (s0 - 1 - i) + m]: a flip of the first axis of x[s0, width]."""
    outputs = ", ".join(f"out y{m}: {dtype}[s0]" for m in members)
    lines = [f"  v{m}: {dtype} = load x[-{width}*a0 + {width}*s0 - {width - m}]" for m in members]
    lines += [f"  store y{m}[a0] = v{m}" for m in members]
    head = f"kernel back_{dtype}_{width}(in x: {dtype}[s0, {width}], {outputs}) where s0 = x.0"
    return "\n".join([head, "nest n0 [a0: s0]", *lines]) + "\n"


def reverse_rows(dtype: str, rows: int) -> str:
    """y[r, i] = x[r, s0 - 1 - i], and z[r, i] = y[r, i] + x[r, i] for f32: a flip of the inner axis."""
    lines = [f"  v: {dtype} = load x[s0*a0 - a1 + s0 - 1]"]
    more = ""
    if dtype == "f32":
        more = f", out z: f32[{rows}, s0]"
        lines += ["  w: f32 = load x[s0*a0 + a1]", "  t: f32 = add(v, w)"]
    lines += ["  store y[s0*a0 + a1] = v"] + (["  store z[s0*a0 + a1] = t"] if more else [])
    head = f"kernel flip_{dtype}(in x: {dtype}[{rows}, s0], out y: {dtype}[{rows}, s0]{more}) where s0 = x.1"
    return "\n".join([head, f"nest n0 [a0: {rows}, a1: s0]", *lines]) + "\n"


def reverse_outer(dtype: str, width: int, rows: int) -> str:
    """y[r, i] = x[rows - 1 - r, i, 0], z[r, i] = x[rows - 1 - r, s0 - 1 - i, width - 1], with a bias of columns."""
    row = f"-{width}*s0*a0 + {width}*s0*{rows - 1}"
    load = [
        f"  v: {dtype} = load x[{row} + {width}*a1]",
        f"  w: {dtype} = load x[{row} - {width}*a1 + {width}*s0 - 1]",
    ]
    half = dtype != "f32"
    lines = [
        *load,
        "  b: f32 = load b[a1]",
        *(["  fv: f32 = cast(v, rint)", "  fw: f32 = cast(w, rint)"] if half else []),
        f"  y: f32 = add({'f' * half}v, b)",
        f"  z: f32 = add({'f' * half}w, b)",
        "  store y[s0*a0 + a1] = y",
        "  store z[s0*a0 + a1] = z",
    ]
    head = (
        f"kernel outer_{dtype}(in x: {dtype}[{rows}, s0, {width}], in b: f32[s0], out y: f32[{rows}, s0], "
        f"out z: f32[{rows}, s0]) where s0 = x.1"
    )
    return "\n".join([head, f"nest n0 [a0: {rows}, a1: s0]", *lines]) + "\n"


ROPE = """
kernel rope(in x: f16[s0, 4, 64], in cos: f16[s0, 32], in sin: f16[s0, 32], out y: f16[s0, 4, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 4, a2: 32]
  a: f16 = load x[256*a0 + 64*a1 + 2*a2]
  b: f16 = load x[256*a0 + 64*a1 + 2*a2 + 1]
  c: f16 = load cos[32*a0 + a2]
  d: f16 = load sin[32*a0 + a2]
  fa: f32 = cast(a, rint)
  fb: f32 = cast(b, rint)
  fc: f32 = cast(c, rint)
  fd: f32 = cast(d, rint)
  ac: f32 = mul(fa, fc)
  bd: f32 = mul(fb, fd)
  bc: f32 = mul(fb, fc)
  ad: f32 = mul(fa, fd)
  even: f32 = sub(ac, bd)
  odd: f32 = add(bc, ad)
  re: f16 = cast(even, rint)
  im: f16 = cast(odd, rint)
  store y[256*a0 + 64*a1 + 2*a2] = re
  store y[256*a0 + 64*a1 + 2*a2 + 1] = im
"""

NORM = """
kernel norm(in x: f32[s0, s1, 2], out y: f32[s0, s1], out z: f32[s0, s1, 2]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  a: f32 = load x[2*s1*a0 + 2*a1]
  b: f32 = load x[2*s1*a0 + 2*a1 + 1]
  m, e: f32, f32 = reduce maxsumexp(a) over (a1)
  d: f32 = sub(b, m)
  q: f32 = div(d, e)
  store y[s1*a0 + a1] = q
  store z[2*s1*a0 + 2*a1] = d
  store z[2*s1*a0 + 2*a1 + 1] = q
"""

COLUMNS = """
kernel columns(in x: f32[s0, s1, 3], out y: f32[s1, 2]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  a: f32 = load x[3*s1*a0 + 3*a1]
  b: f32 = load x[3*s1*a0 + 3*a1 + 2]
  s: f32 = reduce sum(a) over (a0)
  m: f32 = reduce max(b) over (a0)
  store y[2*a1] = s
  store y[2*a1 + 1] = m
"""

STATISTICS = """
kernel statistics(in x: f32[s0, s1], out y: f32[s0, 2]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  a: f32 = load x[s1*a0 + a1]
  s: f32 = reduce sum(a) over (a1)
  m: f32 = reduce max(a) over (a1)
  store y[2*a0] = s
  store y[2*a0 + 1] = m
"""
