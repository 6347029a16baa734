"""Kernels that look up rows by loaded indices, as text of the loop IR."""

from __future__ import annotations


def embedding(dtype: str, index: str, rows: str, wraps: bool = False) -> str:
    """y[r, i] = table[ids[r], i] + b[i] for s1 rows in the table, as f32; ``rows``: how many r there are."""
    cast = dtype != "f32"
    low = "-s1" if wraps else "0"
    lines = [
        f"  i: {index} = load ids[a0]",
        f"  t: {dtype} = load table[s0*i + a1] where {low} <= i < s1",
        *(["  f: f32 = cast(t, rint)"] if cast else []),
        "  b: f32 = load b[a1]",
        f"  y: f32 = add({'f' if cast else 't'}, b)",
        "  store y[s0*a0 + a1] = y",
    ]
    symbols = "s0 = table.1, s1 = table.0" + (", s2 = ids.0" if rows == "s2" else "")
    head = (
        f"kernel embedding_{dtype}_{index}(in table: {dtype}[s1, s0], in ids: {index}[{rows}], in b: f32[s0], "
        f"out y: f32[{rows}, s0]) where {symbols}"
    )
    return "\n".join([head, f"nest n0 [a0: {rows}, a1: s0]", *lines]) + "\n"


BERT = """
kernel bert(in word: f16[1000, 96], in position: f16[64, 96], in kind: f16[2, 96], in ids: i64[s0, s1],
  in kinds: i64[s0, s1], in places: i64[s0], out y: f16[s0, s1, 96], out n: i64[s0, s1]) where s0 = ids.0, s1 = ids.1
nest n0 [a0: s0, a1: s1, a2: 96]
  i: i64 = load ids[s1*a0 + a1]
  k: i64 = load kinds[s1*a0 + a1]
  p: i64 = load places[a0]
  a: f16 = load word[96*i + a2] where -1000 <= i < 1000
  b: f16 = load position[96*p + a2] where 0 <= p < 64
  c: f16 = load kind[96*k + a2] where 0 <= k < 2
  fa: f32 = cast(a, rint)
  fb: f32 = cast(b, rint)
  fc: f32 = cast(c, rint)
  ab: f32 = add(fa, fb)
  abc: f32 = add(ab, fc)
  q: f32 = reduce sum(abc) over (a2)
  r: f32 = sub(abc, q)
  y: f16 = cast(r, rint)
  store y[96*s1*a0 + 96*a1 + a2] = y
  store n[s1*a0 + a1] = i
"""
"""Three tables (one index for all rows of a panel), a reduction behind them, an index that is stored too."""

ONE = """
kernel one(in x: f32[s0, s1], in at: i32[1], out y: f32[s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s1]
  i: i32 = load at[0]
  v: f32 = load x[s1*i + a0] where -s0 <= i < s0
  w: f32 = add(v, v)
  store y[a0] = w
"""
"""One row, looked up by a scalar: a flat tile."""

OUTER = """
kernel outer(in x: f32[s0, s1, s2], in at: i64[s3], in g: f32[s2], out y: f32[s3, s1, s2]) where s0 = x.0, s1 = x.1,
  s2 = x.2, s3 = at.0
nest n0 [a0: s3, a1: s1, a2: s2]
  i: i64 = load at[a0]
  v: f32 = load x[s1*s2*i + s2*a1 + a2] where 0 <= i < s0
  g: f32 = load g[a2]
  w: f32 = mul(v, g)
  store y[s1*s2*a0 + s2*a1 + a2] = w
"""
"""Panels looked up as a whole."""

ROPE = """
kernel rope(in x: f16[s0, 4, 64], in cos: f16[512, 64], in at: i64[s0], out y: f16[s0, 4, 64]) where s0 = at.0
nest n0 [a0: s0, a1: 4, a2: 32]
  i: i64 = load at[a0]
  a: f16 = load x[256*a0 + 64*a1 + 2*a2]
  b: f16 = load x[256*a0 + 64*a1 + 2*a2 + 1]
  c: f16 = load cos[64*i + 2*a2] where 0 <= i < 512
  d: f16 = load cos[64*i + 2*a2 + 1] where 0 <= i < 512
  fa: f32 = cast(a, rint)
  fb: f32 = cast(b, rint)
  fc: f32 = cast(c, rint)
  fd: f32 = cast(d, rint)
  ac: f32 = mul(fa, fc)
  bd: f32 = mul(fb, fd)
  even: f32 = sub(ac, bd)
  odd: f32 = add(ac, bd)
  re: f16 = cast(even, rint)
  im: f16 = cast(odd, rint)
  store y[256*a0 + 64*a1 + 2*a2] = re
  store y[256*a0 + 64*a1 + 2*a2 + 1] = im
"""
"""Interleaved tables by position: rows looked up in lanes."""

LANES = """
kernel lanes(in table: f16[s1, s2, 3], in ids: i32[s0], out y: f32[s0, s2]) where s0 = ids.0, s1 = table.0,
  s2 = table.1
nest n0 [a0: s0, a1: s2]
  i: i32 = load ids[a0]
  a: f16 = load table[3*s2*i + 3*a1] where 0 <= i < s1
  b: f16 = load table[3*s2*i + 3*a1 + 2] where 0 <= i < s1
  fa: f32 = cast(a, rint)
  fb: f32 = cast(b, rint)
  y: f32 = sub(fa, fb)
  store y[s2*a0 + a1] = y
"""

TWO = """
kernel two(in x: f32[s0, 8, s1], in i: i32[s2], in j: i64[s2], out y: f32[s2, s1]) where s0 = x.0, s1 = x.2, s2 = i.0
nest n0 [a0: s2, a1: s1]
  p: i32 = load i[a0]
  q: i64 = load j[a0]
  v: f32 = load x[8*s1*p + s1*q + a1] where -s0 <= p < s0, 0 <= q < 8
  w: f32 = abs(v)
  store y[s1*a0 + a1] = w
"""
"""Rows looked up by two indices."""

BAG = """
kernel bag(in table: f32[s1, s2], in ids: i64[s0, s3], out y: f32[s0, s2]) where s0 = ids.0, s1 = table.0,
  s2 = table.1, s3 = ids.1
nest n0 [a0: s0, a1: s3, a2: s2]
  i: i64 = load ids[s3*a0 + a1]
  v: f32 = load table[s2*i + a2] where 0 <= i < s1
  t: f32 = reduce sum(v) over (a1)
  store y[s2*a0 + a2] = t
"""
"""Looked-up rows summed."""

NORM = """
kernel norm(in table: f32[s1, s2], in ids: i64[s0], out y: f32[s0, s2]) where s0 = ids.0, s1 = table.0, s2 = table.1
nest n0 [a0: s0, a1: s2]
  i: i64 = load ids[a0]
  v: f32 = load table[s2*i + a1] where 0 <= i < s1
  m, e: f32, f32 = reduce maxsumexp(v) over (a1)
  d: f32 = sub(v, m)
  x: f32 = exp(d)
  y: f32 = div(x, e)
  store y[s2*a0 + a1] = y
"""
