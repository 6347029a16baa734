"""The interpreter against direct numpy formulas, and its handling of inputs."""

import math

import ml_dtypes
import numpy as np
import pytest

from torchair_autofuse import dtypes
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.interpret_ops import erf
from torchair_autofuse.loop.ops import COMBINERS, POINTWISE
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.verify import verify

NAN, INF = math.nan, math.inf
F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16


def run(text, *inputs, **options):
    kernel = parse(text)
    verify(kernel)
    return interpret(kernel, inputs, **options)


def apply(op, dtype, *args, float64=False):
    """``op`` of loop.ops on 1-d arrays of ``dtype`` (select: the first is bool)."""
    kinds = ["bool" if op == "select" and i == 0 else dtype for i in range(len(args))]
    result = "bool" if POINTWISE[op].result == "bool" else dtype
    n = len(args[0])
    params = "".join(f"in x{i}: {k}[{n}], " for i, k in enumerate(kinds))
    loads = "".join(f"  v{i}: {k} = load x{i}[a]\n" for i, k in enumerate(kinds))
    names = ", ".join(f"v{i}" for i in range(len(args)))
    text = f"kernel k({params}out y: {result}[{n}])\nnest n [a: {n}]\n{loads}"
    text += f"  r: {result} = {op}({names})\n  store y[a] = r\n"
    arrays = [np.array(a, dtypes.by_name(k).numpy) for a, k in zip(args, kinds)]
    return run(text, *arrays, float64=float64)["y"]


X = [0.0, -0.0, 0.5, -1.5, 2.5, 7.25, -3.75, 1e-30, 88.0, -104.0, INF, -INF, NAN]
Y = [1.0, 0.0, -0.0, 2.0, -2.5, 3.0, 1.25, 1e30, INF, NAN, INF, 1.0, 0.0]
UNARY = {
    "neg": lambda x: -x, "abs": abs,
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "tanh": math.tanh, "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "erf": math.erf, "sin": math.sin, "cos": math.cos,
    "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh,
    "asinh": math.asinh, "acosh": math.acosh, "atanh": math.atanh, "rint": lambda x: float(round(x)),
    "floor": lambda x: float(math.floor(x)), "ceil": lambda x: float(math.ceil(x)),
    "trunc": lambda x: float(math.trunc(x)),
}  # fmt: skip
SPECIAL = {  # where Python raises instead of following IEEE
    ("exp", INF): INF, ("exp", 88.0): math.exp(88.0), ("log", 0.0): -INF, ("rsqrt", 0.0): INF, ("reciprocal", 0.0): INF,
    ("rsqrt", INF): 0.0, ("cosh", -104.0): INF, ("sinh", -104.0): -INF,
}  # fmt: skip


@pytest.mark.parametrize("op", list(UNARY))
def test_unary_f32(op):
    with np.errstate(all="ignore"):
        found = apply(op, "f32", X)
        for x, y in zip(X, found):
            x = float(F32(x))
            if op == "reciprocal" and x == 0:
                want = math.copysign(INF, x)
            elif (op, x) in SPECIAL and not (op == "rsqrt" and math.copysign(1, x) < 0):
                want = SPECIAL[op, x]
            elif op == "rsqrt" and x == 0:
                want = -INF
            elif op in ("rint", "floor", "ceil", "trunc") and not math.isfinite(x):
                want = x
            else:
                try:
                    want = float(UNARY[op](x))
                except ValueError:
                    want = NAN
            np.testing.assert_array_equal(F32(want), y, err_msg=f"{op}({x})")


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "fmod": np.fmod,
    "max": lambda a, b: a + b if a != a or b != b else max(a, b),
    "min": lambda a, b: a + b if a != a or b != b else min(a, b),
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "pow": lambda a, b: F32(np.power(np.float64(a), np.float64(b))),
}  # fmt: skip


@pytest.mark.parametrize("op", list(BINARY))
def test_binary_f32(op):
    a, b = (np.array(v, F32).reshape(-1) for v in np.meshgrid(X, Y))
    with np.errstate(all="ignore"):
        want = [BINARY[op](x, y) for x, y in zip(a, b)]
    found = apply(op, "f32", a, b)
    assert found.dtype == (np.bool_ if POINTWISE[op].result == "bool" else F32)
    np.testing.assert_array_equal(found, np.array(want, found.dtype))


def wrap(value, bits, signed):
    value %= 1 << bits
    return value - (1 << bits) if signed and value >= 1 << (bits - 1) else value


def truncdiv(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": max, "min": min,
    "floordiv": lambda a, b: a // b if b else 0, "truncdiv": lambda a, b: truncdiv(a, b) if b else 0,
    "floormod": lambda a, b: a % b if b else 0, "bitand": lambda a, b: a & b, "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "neg": lambda a: -a, "abs": abs, "bitnot": lambda a: ~a,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32", "i64", "u32"])
@pytest.mark.parametrize("op", list(INTEGER))
def test_integers(op, dtype):
    info = np.iinfo(dtypes.by_name(dtype).numpy)
    signed = info.min < 0
    values = [info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max] + ([-1, -2, -3, -7] if signed else [])
    pairs = [(a,) for a in values] if POINTWISE[op].arity == 1 else [(a, b) for a in values for b in values]
    found = apply(op, dtype, *map(list, zip(*pairs)))
    assert found.tolist() == [wrap(INTEGER[op](*p), info.bits, signed) for p in pairs]


def test_bool_ops_and_select():
    a, b = [False, False, True, True], [False, True, False, True]
    assert apply("and", "bool", a, b).tolist() == [False, False, False, True]
    assert apply("or", "bool", a, b).tolist() == [False, True, True, True]
    assert apply("not", "bool", a).tolist() == [True, True, False, False]
    assert apply("eq", "bool", a, b).tolist() == [True, False, False, True]
    assert apply("ne", "bool", a, b).tolist() == [False, True, True, False]
    for name in ("f32", "f16", "bf16", "i64", "bool"):
        found = apply("select", name, a, [1] * 4, [0] * 4)
        assert found.dtype == dtypes.by_name(name).numpy and found.astype(int).tolist() == [0, 0, 1, 1]


def test_every_op_and_combiner_has_a_test_here():
    assert set(UNARY) | set(BINARY) | set(INTEGER) | {"and", "or", "not", "select"} == set(POINTWISE)
    assert set(REDUCED) == set(COMBINERS)


def test_erf_is_accurate():
    x = np.linspace(-6.5, 6.5, 2001)
    want = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), want, rtol=4e-15, atol=0)
    assert np.isnan(erf(np.array([NAN])))[0] and math.copysign(1, erf(np.array([-0.0]))[0]) == -1


def cast(source, target, values, mode="rint", float64=False):
    n = len(values)
    text = (
        f"kernel k(in x: {source}[{n}], out y: {target}[{n}])\nnest n [a: {n}]\n  v: {source} = load x[a]\n"
        f"  r: {target} = cast(v, {mode})\n  store y[a] = r\n"
    )
    return run(text, np.array(values, dtypes.by_name(source).numpy), float64=float64)["y"]


@pytest.mark.parametrize(
    "mode, want",
    [
        ("rint", [0, 2, 2, -2, -2, 3]), ("trunc", [0, 1, 2, -1, -2, 2]), ("floor", [0, 1, 2, -2, -3, 2]),
        ("ceil", [1, 2, 3, -1, -2, 3]), ("round", [1, 2, 3, -2, -3, 3]),
    ],
)  # fmt: skip
def test_cast_float_to_int_modes(mode, want):
    assert cast("f32", "i32", [0.5, 1.5, 2.5, -1.5, -2.5, 2.75], mode).tolist() == want


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_cast_float_to_int_saturates(dtype):
    info = np.iinfo(dtypes.by_name(dtype).numpy)
    found = cast("f32", dtype, [INF, -INF, NAN, 1e30, -1e30, 3.0], "trunc")
    assert found.tolist() == [info.max, info.min, 0, info.max, info.min, 3]


def test_other_casts():
    assert cast("f32", "bool", [0.0, -0.0, 0.1, NAN, -1.0]).tolist() == [False, False, True, True, True]
    assert cast("i32", "i8", [300, -129, 127]).tolist() == [44, 127, 127]
    assert cast("i64", "bool", [0, 256, -1]).tolist() == [False, True, True]
    assert cast("bool", "f16", [True, False]).tolist() == [1.0, 0.0]
    assert cast("bool", "bf16", [True, False]).tolist() == [1.0, 0.0]
    assert cast("i32", "f32", [16777217, -5]).tolist() == [16777216.0, -5.0]
    assert cast("f32", "f16", [2049.0, 2051.0, 65520.0, 65519.0]).tolist() == [2048.0, 2052.0, INF, 65504.0]
    assert cast("f32", "bf16", [257.0, 259.0]).tolist() == [256.0, 260.0]
    assert cast("f16", "bf16", [257.0]).dtype == BF16


def test_float64_does_not_round():
    assert cast("f32", "f16", [2049.0, 1e30], float64=True).tolist() == [2049.0, float(F32(1e30))]
    third = apply("div", "f32", [1.0], [3.0], float64=True)
    assert third.dtype == np.float64 and third[0] == 1 / 3
    assert apply("div", "f32", [1.0], [3.0])[0] == F32(1) / F32(3)


REDUCED = {
    "sum": ("f32", lambda r: [np.sum(r)]), "prod": ("f32", lambda r: [np.prod(r)]),
    "max": ("f32", lambda r: [np.max(r, initial=-INF)]), "min": ("f32", lambda r: [np.min(r, initial=INF)]),
    "any": ("bool", lambda r: [np.any(r)]), "all": ("bool", lambda r: [np.all(r)]),
    "argmax": ("f32", lambda r: [np.max(r), np.flatnonzero(r == np.max(r))[0]] if len(r) else [-INF, 0]),
    "welford": ("f32", lambda r: [np.mean(r), np.sum((r - np.mean(r)) ** 2)] if len(r) else [0, 0]),
    "maxsumexp": ("f32", lambda r: [np.max(r), np.sum(np.exp(r - np.max(r)))] if len(r) else [-INF, 0]),
}  # fmt: skip


@pytest.mark.parametrize("axes", ["b", "a, c", "a, b, c", "c"])
@pytest.mark.parametrize("combiner", list(REDUCED))
def test_reduce(combiner, axes):
    dtype, formula = REDUCED[combiner]
    n = COMBINERS[combiner].results
    results = ([dtype, "i32"] if combiner == "argmax" else [dtype] * n)[:n]
    names = [f"r{i}" for i in range(n)]
    kept = [a for a in "abc" if a not in axes]
    place = {("a", "b"): "s1*a + b", ("a", "c"): "3*a + c", ("b", "c"): "3*b + c"}
    index = place.get(tuple(kept), kept[0] if kept else "0")
    sizes = {"a": "s0", "b": "s1", "c": "3"}
    outs = "".join(f", out y{i}: {t}[{', '.join(sizes[k] for k in kept)}]" for i, t in enumerate(results))
    text = (
        f"kernel k(in x: {dtype}[s0, s1, 3]{outs}) where s0 = x.0, s1 = x.1\nnest n [a: s0, b: s1, c: 3]\n"
        f"  v: {dtype} = load x[3*s1*a + 3*b + c]\n"
        f"  {', '.join(names)}: {', '.join(results)} = reduce {combiner}(v) over ({axes})\n"
        + "".join(f"  store y{i}[{index}] = {r}\n" for i, r in enumerate(names))
    )
    rng = np.random.default_rng(1)
    for shape in ((2, 4, 3), (1, 1, 3), (0, 2, 3), (2, 0, 3)):
        x = rng.integers(0, 5, shape).astype(F32) / 2 if dtype == "f32" else rng.random(shape) < 0.7
        found = run(text, x)
        order = [*("abc".index(k) for k in kept), *(i for i, k in enumerate("abc") if k not in kept)]
        out_shape = [shape["abc".index(k)] for k in kept]
        length = math.prod(shape[i] for i in order[len(kept) :])
        rows = x.transpose(order).reshape(math.prod(out_shape), length)
        for i in range(n):
            want = [formula(r.astype(np.float64) if dtype == "f32" else r)[i] for r in rows]
            np.testing.assert_allclose(found[f"y{i}"], np.array(want).reshape(out_shape), rtol=1e-6)


def test_reduce_nan_and_argmax_of_many():
    text = """\
kernel k(in x: f32[4], out m: f32[], out i: i32[], out s: f32[])
nest n [a: 4]
  v: f32 = load x[a]
  m, i: f32, i32 = reduce argmax(v) over (a)
  s: f32 = reduce min(v) over (a)
  store m[0] = m
  store i[0] = i
  store s[0] = s
"""
    found = run(text, np.array([1, NAN, 3, NAN], F32))
    assert np.isnan(found["m"]) and found["i"] == 1 and np.isnan(found["s"])
    assert run(text, np.array([1, 3, 3, 0], F32))["i"] == 1


def test_sums_are_pairwise_whatever_the_axis():
    x = np.full((3 << 18, 2), 0.1, F32)
    text = """\
kernel k(in x: f32[s0, 2], out y: f32[2]) where s0 = x.0
nest n [a: s0, b: 2]
  v: f32 = load x[2*a + b]
  r: f32 = reduce sum(v) over (a)
  store y[b] = r
"""
    exact = float(F32(0.1)) * (3 << 18)
    np.testing.assert_allclose(run(text, x)["y"], [exact, exact], rtol=1e-6)


VIEWS = """\
kernel k(in x: f32[s0, 6], in w: bf16[6], out t: f32[6, s0], out f: f32[s0, 6], out c: f32[s0, 7], out p: f32[s0, 2], \
out i: i32[s0, 6]) where s0 = x.0
nest n0 [a: s0, b: 6]
  v: f32 = load x[6*a + b]
  h: bf16 = load w[b]
  w: f32 = cast(h, rint)
  r: f32 = mul(v, w)
  r2: f32 = load x[6*a - b + 5]
  i: i32 = iota 10*a - b + 1
  store t[a + s0*b] = r
  store f[6*a + b] = r2
  store c[7*a + b] = w
  store i[6*a + b] = i
nest n1 [a: s0]
  c: f32 = const -1.5
  d: f32 = load x[6*a + 3]
  store c[7*a + 6] = c
  store p[2*a + 1] = d
"""


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_views_several_nests_and_uncovered_elements(rows):
    x = np.arange(rows * 6, dtype=F32).reshape(rows, 6)
    w = np.arange(6).astype(BF16)
    found = run(VIEWS, x, w)
    np.testing.assert_array_equal(found["t"], (x * w.astype(F32)).T)
    np.testing.assert_array_equal(found["f"], x[:, ::-1])
    want = np.concatenate([np.broadcast_to(w.astype(F32), (rows, 6)), np.full((rows, 1), -1.5, F32)], axis=1)
    np.testing.assert_array_equal(found["c"], want)
    np.testing.assert_array_equal(found["p"], np.stack([np.zeros(rows, F32), x[:, 3]], axis=1))
    np.testing.assert_array_equal(found["i"], 10 * np.arange(rows)[:, None] - np.arange(6) + 1)


def test_layer_norm_against_formula():
    text = """\
kernel ln(in x: f16[s0, 64*s1], in g: f16[64*s1], out y: f16[s0, 64*s1]) where s0 = x.0, s1 = g.0 / 64
nest n [a: s0, b: 64*s1]
  h: f16 = load x[64*s1*a + b]
  v: f32 = cast(h, rint)
  m, q: f32, f32 = reduce welford(v) over (b)
  n: f32 = const 0.0078125
  var: f32 = mul(q, n)
  r: f32 = rsqrt(var)
  d: f32 = sub(v, m)
  e: f32 = mul(d, r)
  gh: f16 = load g[b]
  gf: f32 = cast(gh, rint)
  o: f32 = mul(e, gf)
  out: f16 = cast(o, rint)
  store y[64*s1*a + b] = out
"""
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((3, 128)).astype(F16), rng.standard_normal(128).astype(F16)
    want = (x - x.mean(1, keepdims=True, dtype=np.float64)) / x.std(1, keepdims=True, dtype=np.float64) * g
    np.testing.assert_allclose(run(text, x, g)["y"], want.astype(F16), rtol=2e-3)
    np.testing.assert_allclose(run(text, x, g, float64=True)["y"], want, rtol=1e-12)


@pytest.mark.parametrize(
    "inputs, problem",
    [
        ([np.zeros((2, 6), F32)], "1 inputs given, expected 2: x, w"),
        ({"x": np.zeros((2, 6), F32)}, "no input w"),
        ({"x": 0, "w": 0, "q": 0}, "q is not an input"),
        ([np.zeros((2, 6), F16), np.zeros(6, BF16)], "input x is float16, expected float32"),
        ([np.zeros((2, 5), F32), np.zeros(6, BF16)], "dim 1 of input x is 5, expected 6"),
        ([np.zeros(12, F32), np.zeros(6, BF16)], "expected 2 dims"),
    ],
)
def test_bad_inputs(inputs, problem):
    with pytest.raises(ValueError, match=problem):
        interpret(parse(VIEWS), inputs)


def test_symbol_mismatch_and_out_of_range():
    text = "kernel k(in x: f32[2*s0], in z: f32[s0], out y: f32[s0]) where s0 = x.0 / 2\nnest n [a: s0]\n"
    text += "  v: f32 = load z[a + 1]\n  store y[a] = v\n"
    kernel = parse(text)
    with pytest.raises(ValueError, match=r"dim 0 of input z is 3, expected s0 = 2 \(s0 = 2\)"):
        interpret(kernel, [np.zeros(4, F32), np.zeros(3, F32)])
    with pytest.raises(ValueError, match=r"dim 0 of input x is 5, expected 2\*s0 = 4"):
        interpret(kernel, [np.zeros(5, F32), np.zeros(2, F32)])
    with pytest.raises(ValueError, match="load z reaches indices 1 to 2, it has 2 elements"):
        interpret(kernel, [np.zeros(4, F32), np.zeros(2, F32)])
