"""Kernels as loop-level text that tests make definitions of: small, and different in kind."""

ROWS = """\
kernel k(in x: f32[s0, 64], in h: f16[64], in c: f32[], out y: f16[s0, 64], out m: bool[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f32 = load x[64*a0 + a1]  # from Mul_1
  v1: f16 = load h[a1]  # from Cast
  v2: f32 = cast(v1, rint)  # from Cast
  v3: f32 = mul(v0, v2)  # from Mul_1
  v4: f32 = load c[0]  # from Less
  v5: bool = lt(v3, v4)  # from Less
  v6: f16 = cast(v3, rint)  # from Cast_2
  store y[64*a0 + a1] = v6
  store m[64*a0 + a1] = v5
"""
GAIN = """\
kernel k(in x: f32[s0, 64], in h: f32[64], out y: f32[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f32 = load x[64*a0 + a1]  # from Mul_1
  v1: f32 = load h[a1]  # from Mul_1
  v2: f32 = mul(v0, v1)  # from Mul_1
  store y[64*a0 + a1] = v2  # from Mul_1
"""
FLAT = """\
kernel k(in x: bf16[1000], out y: f32[1000])
nest n0 [a0: 1000]
  v0: bf16 = load x[a0]  # from Cast
  v1: f32 = cast(v0, rint)  # from Cast
  v2: f32 = const 1.5  # from Add
  v3: f32 = add(v1, v2)  # from Add
  store y[a0] = v3
"""
PANELS = """\
kernel k(in x: f32[s0, s1, s2], in g: f32[s1, 1], out y: f32[s0, s1, s2]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s1, a2: s2]
  v0: f32 = load x[s1*s2*a0 + s2*a1 + a2]  # from Mul
  v1: f32 = load g[a1]  # from Mul
  v2: f32 = mul(v0, v1)  # from Mul
  store y[s1*s2*a0 + s2*a1 + a2] = v2
"""
SOFTMAX = """\
kernel k(in x: f32[s0, s1], out y: f32[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f32 = load x[s1*a0 + a1]  # from Softmax
  v1: f32 = reduce max(v0) over (a1)  # from Softmax
  v2: f32 = sub(v0, v1)  # from Softmax
  v3: f32 = exp(v2)  # from Softmax
  v4: f32 = reduce sum(v3) over (a1)  # from Softmax
  v5: f32 = div(v3, v4)  # from Softmax
  store y[s1*a0 + a1] = v5
"""
CONCAT = """\
kernel k(in x: f32[s0, 8], in z: f32[s0, s1], out y: f32[s0, s1 + 8]) where s0 = x.0, s1 = z.1
nest n0 [a0: s0, a1: 8]
  v0: f32 = load x[8*a0 + a1]  # from Concat
  store y[(s1 + 8)*a0 + a1] = v0
nest n1 [a0: s0, a1: s1]
  v0: f32 = load z[s1*a0 + a1]  # from Concat
  store y[(s1 + 8)*a0 + a1 + 8] = v0
"""
EVERY_OTHER = """\
kernel k(in x: f32[s0], out y: f32[floor(s0/2 - 1/2) + 1]) where s0 = x.0
nest n0 [a0: floor(s0/2 - 1/2) + 1]
  v0: f32 = load x[2*a0]  # from StridedSlice
  v1: f32 = neg(v0)  # from Neg
  store y[a0] = v1
"""
_AXES = range(7)
_INDEX = " + ".join("*".join([*(f"s{j}" for j in range(i + 1, 7)), f"a{i}"]) for i in _AXES)
SEVEN = f"""\
kernel k(in x: f32[{", ".join(f"s{i}" for i in _AXES)}], out y: f32[{", ".join(f"s{i}" for i in _AXES)}]) \
where {", ".join(f"s{i} = x.{i}" for i in _AXES)}
nest n0 [{", ".join(f"a{i}: s{i}" for i in _AXES)}]
  v0: f32 = load x[{_INDEX}]  # from Exp
  v1: f32 = exp(v0)  # from Exp
  store y[{_INDEX}] = v1
"""
KERNELS = {
    "rows": ROWS, "flat": FLAT, "panels": PANELS, "softmax": SOFTMAX, "concat": CONCAT, "every_other": EVERY_OTHER,
    "seven": SEVEN,
}  # fmt: skip
