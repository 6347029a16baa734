"""Reductions on the twin: every template against the interpreter in f64, sizes around every tail, special values.

Kernels have symbolic sizes wherever that lets one kernel serve many of them. Errors are printed (pytest -s).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_runner import runner, scheduled
from reduction_kernels import reduction_kernels

from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.messages import Reason

WIDTHS = (1, 2, 4, 7, 8, 9, 17, 31, 33, 64, 65, 255, 1023, 4096)
ROWS = (1, 2, 47, 48, 49)
KEPT = ("sum", "max", "min", "mean", "m2", "top", "sumexp")  # of a nest that reduces, one value per kept index
FULL = ("softmax", "normed")
FLOATS = ("f32", "f16", "bf16")
NP = {"f32": np.float32, "f16": np.float16}

_REDUCTIONS = {
    "sum": "sum: f32 = reduce sum(x)",
    "max": "max: f32 = reduce max(x)",
    "min": "min: f32 = reduce min(x)",
    "mean": "mean, m2: f32, f32 = reduce welford(x)",
    "top": "top, sumexp: f32, f32 = reduce maxsumexp(x)",
}


def text(dims, over, outs, dtype="f32", kept_dtype="f32"):
    """A kernel over ``dims`` (numbers or symbols) that reduces the axes ``over`` and stores ``outs``."""
    rank = len(dims)
    kept = [d for d in range(rank) if d not in over]

    def index(axes):
        strides = {d: [str(dims[e]) for e in axes if e > d] for d in axes}
        return " + ".join("*".join([*strides[d], f"a{d}"]) for d in axes) or "0"

    def shape(axes):
        return f"[{', '.join(str(dims[d]) for d in axes) or 1}]"

    def load(to, param, axes):
        if dtype == "f32":
            return [f"{to}: f32 = load {param}[{index(axes)}]"]
        return [f"{to}_: {dtype} = load {param}[{index(axes)}]", f"{to}: f32 = cast({to}_, rint)"]

    everything = list(range(rank))
    body, params, stores = load("x", "in0", everything), [f"in in0: {dtype}{shape(everything)}"], []
    needed = {{"m2": "mean", "sumexp": "top", "softmax": "top", "normed": "mean"}.get(o, o) for o in outs}
    axes = ", ".join(f"a{d}" for d in over)
    body += [f"{line} over ({axes})" for name, line in _REDUCTIONS.items() if name in needed]
    for i, out in enumerate(outs):
        full = out in FULL
        to, where = (dtype, everything) if full else (kept_dtype, kept)
        if out == "softmax":
            body += ["d: f32 = sub(x, top)", "e: f32 = exp(d)", "softmax: f32 = div(e, sumexp)"]
        elif out == "normed":
            body += ["c: f32 = sub(x, mean)", "q: f32 = sqrt(m2)", "one: f32 = const 1.0", "p: f32 = add(q, one)"]
            body += ["normed: f32 = div(c, p)"]
        value = out
        if to != "f32":
            body, value = [*body, f"w{i}: {to} = cast({out}, rint)"], f"w{i}"
        params.append(f"out y{i}: {to}{shape(where)}")
        stores.append(f"store y{i}[{index(where)}] = {value}")
    symbols = {d: i for i, d in reversed(list(enumerate(dims))) if isinstance(d, str)}
    where = ", ".join(f"{s} = in0.{i}" for s, i in symbols.items())
    names = ", ".join(f"a{i}: {d}" for i, d in enumerate(dims))
    lines = "\n  ".join([*body, *stores])
    return f"kernel reduction({', '.join(params)}){' where ' + where if where else ''}\nnest n0 [{names}]\n  {lines}\n"


def torch_own(x, axes, outs):
    """What torch computes in f32."""
    t = torch.from_numpy(np.ascontiguousarray(x.astype(np.float32)))
    dim, count = tuple(axes), int(np.prod([x.shape[a] for a in axes]))
    found = {"sum": t.sum(dim), "max": t.amax(dim), "min": t.amin(dim), "mean": t.mean(dim), "top": t.amax(dim)}
    found["m2"] = t.var(dim, correction=0) * count
    top = t.amax(dim, keepdim=True)
    found["sumexp"] = (t - top).exp().sum(dim)
    found["softmax"] = (t - top).exp() / (t - top).exp().sum(dim, keepdim=True)
    variance, mean = torch.var_mean(t, dim, correction=0, keepdim=True)
    found["normed"] = (t - mean) / ((variance * count).sqrt() + 1)
    return [found[o].numpy() for o in outs]


def worst(got, exact):
    """The largest error in units of the largest magnitude."""
    scale = float(np.abs(exact).max()) or 1.0
    return float(np.abs(got.astype(np.float64) - exact).max()) / scale


def numbers(shape, dtype="f32", seed=0, offset=0.0, spread=1.0):
    values = (np.random.default_rng(seed).standard_normal(shape) * spread + offset).astype(np.float32)
    if dtype == "bf16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(NP[dtype])


def measure(kernel, x, over, outs, label, sizes, soc="Ascend910B1"):
    """Runs a kernel on x; every f32 result is within 1e-6 of f64 or twice torch's own error, halves within one unit."""
    built = runner(kernel, soc)
    got, _ = built.launch({"in0": x}, sizes)
    exact = interpret(built.kernel, {"in0": x}, float64=True)
    own = torch_own(x, over, outs)
    for i, out in enumerate(outs):
        found, want = got[f"y{i}"], exact[f"y{i}"].astype(np.float64)
        error, theirs = worst(found, want), worst(own[i].reshape(want.shape), want)
        unit = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[str(found.dtype)]
        print(f"{label:28} {out:8} error {error:.1e} torch {theirs:.1e}")
        assert error <= max(1e-6, 2 * theirs) + unit, (label, x.shape, out, error, theirs)
    return built


def template(built, sizes):
    """The template that these sizes run."""
    s = built.schedule
    if not s.variants:
        return s.template
    key = built.schedule.tiling(dict(sizes), built.chip.vector_cores, built.chip.ub_bytes)[s.tiling_key]
    return next(v.template for v in s.variants if v.tiling_key == key)


# ---- rows -----------------------------------------------------------------------------------------------------------

OUTS = {"kept": KEPT, "full": FULL, "both": ("sum", "m2", *FULL)}


@pytest.mark.parametrize("outs", OUTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows(dtype, outs):
    kernel = text(["s0", "s1"], [1], OUTS[outs], dtype)
    some = [(r, w) for i, w in enumerate(WIDTHS) for r in ((ROWS[i % 5],) if dtype != "f32" else ROWS)]
    some += [(50000, 3), (1, 16384), (3, 16384), (1, 131072), (2, 131072)]
    for seed, (rows, width) in enumerate(some):
        x = numbers((rows, width), dtype, seed)
        measure(kernel, x, [1], OUTS[outs], f"rows {dtype} {rows} x {width}", {"s0": rows, "s1": width})


@pytest.mark.parametrize("width", (1, 7, 33, 1024, 20000))
def test_rows_of_static_width(width):
    outs = ("max", "mean", *FULL)
    built = runner(text(["s0", width], [1], outs, "f16"))
    for rows in (1, 48, 49) if width < 20000 else (1, 9):
        measure(text(["s0", width], [1], outs, "f16"), numbers((rows, width), "f16"), [1], outs, "static", {"s0": rows})
    expected = "pointwise" if width == 7 else "row_resident" if width < 20000 else "row_split"
    assert template(built, {"s0": 9}) == expected or width == 1  # short rows are written out


def test_other_chip():
    outs = ("sum", "softmax")
    for rows, width in ((5, 9), (3, 1000), (2, 70000)):
        x, sizes = numbers((rows, width)), {"s0": rows, "s1": width}
        measure(text(["s0", "s1"], [1], outs), x, [1], outs, "950", sizes, "Ascend950PR_9599")


def test_templates():
    """The sizes above reach the templates they are meant for."""
    rows = runner(text(["s0", "s1"], [1], OUTS["both"]))
    assert template(rows, {"s0": 48, "s1": 4096}) == "row_resident"
    assert template(rows, {"s0": 4096, "s1": 131072}) == "row_streaming"
    assert template(rows, {"s0": 1, "s1": 131072}) == "row_split"
    columns = runner(text(["s0", "s1"], [0], OUTS["both"]))
    assert template(columns, {"s0": 65, "s1": 768}) == "column_resident"
    assert template(columns, {"s0": 4000, "s1": 98304}) == "column_streaming"
    assert template(columns, {"s0": 4097, "s1": 100}) == "column_split"


# ---- columns, several axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outs", OUTS)
@pytest.mark.parametrize("dtype", ("f32", "f16"))
def test_leading_axis(dtype, outs):
    kernel = text(["s0", "s1"], [0], OUTS[outs], dtype)
    lengths, widths = (1, 2, 7, 65, 1023, 4097), (1, 7, 64, 100, 768)
    for length in lengths:
        for width in widths if dtype == "f32" else (7, 768):
            x = numbers((length, width), dtype, length)
            measure(kernel, x, [0], OUTS[outs], f"columns {dtype} {length} x {width}", {"s0": length, "s1": width})


SHAPES = {
    "middle": (["s0", "s1", "s2"], [1], ((3, 5, 7), (2, 33, 64), (1, 700, 100), (5, 1, 9), (48, 9, 1))),
    "middle-static": ([3, 300, 100], [1], ((3, 300, 100),)),
    "outer-and-inner": (["s0", "s1", "s2"], [0, 2], ((3, 5, 7), (2, 9, 33), (7, 1, 1000), (40, 3, 100))),
    "around": ([4, "s1", 33, 8], [0, 2], ((4, 5, 33, 8), (4, 1, 33, 8))),
    "between": (["s0", 5, "s2", 3], [1, 3], ((7, 5, 9, 3), (1, 5, 40, 3))),
    "all": (["s0", "s1", "s2"], [0, 1, 2], ((1, 1, 1), (3, 5, 7), (17, 65, 129))),
    "all-static": ([1024, 300], [0, 1], ((1024, 300),)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_axes(name):
    dims, over, shapes = SHAPES[name]
    outs = OUTS["both"] if name != "between" else ("sum", "max", "m2")
    kernel = text(dims, over, outs)
    for shape in shapes:
        sizes = {d: n for d, n in zip(dims, shape) if isinstance(d, str)}
        measure(kernel, numbers(shape, seed=len(shape)), over, outs, f"{name} {shape}", sizes)


# ---- nothing to reduce ----------------------------------------------------------------------------------------------

IDENTITIES = dict(zip(KEPT, (0, -np.inf, np.inf, 0, 0, -np.inf, 0)))


@pytest.mark.parametrize("dims,over", ((["s0", "s1"], [1]), (["s0", "s1"], [0]), (["s0", "s1", "s2"], [0, 2])))
def test_empty(dims, over):
    """An empty reduction gives the identity; nothing is stored where nothing is kept."""
    outs = (*KEPT, "softmax")
    built = runner(text(dims, over, outs))
    for shape in ((0, 5, 3), (5, 0, 3), (0, 0, 0), (1, 0, 1), (100, 0, 9), (0, 100, 4)):
        shape = shape[: len(dims)]
        got, _ = built.launch({"in0": numbers(shape)}, dict(zip(dims, shape)))
        for i, out in enumerate(KEPT):
            assert (got[f"y{i}"] == IDENTITIES[out]).all(), (shape, out, got[f"y{i}"])


def test_static_empty():
    built = runner(text(["s0", 0], [1], KEPT))
    got, _ = built.launch({"in0": np.zeros((9, 0), np.float32)}, {"s0": 9})
    assert [set(got[f"y{i}"].tolist()) for i in range(7)] == [{v} for v in IDENTITIES.values()]


# ---- special values -------------------------------------------------------------------------------------------------

TEMPLATES = {  # dims, reduced axes, sizes: one that has rows or columns in UB, one that streams, one that splits
    "row_resident": (["s0", "s1"], [1], {"s0": 9, "s1": 700}),
    "row_streaming": (["s0", "s1"], [1], {"s0": 384, "s1": 30000}),
    "row_split": (["s0", "s1"], [1], {"s0": 9, "s1": 70000}),
    "column_resident": (["s0", "s1"], [0], {"s0": 100, "s1": 72}),
    "column_streaming": (["s0", "s1"], [0], {"s0": 400, "s1": 12288}),
    "column_split": (["s0", "s1"], [0], {"s0": 70000, "s1": 40}),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_special_values(name):
    dims, over, sizes = TEMPLATES[name]
    built = runner(text(dims, over, OUTS["both"]))
    both = runner(text(dims, over, KEPT))
    assert template(built, sizes) == template(both, sizes) == name
    x = numbers(tuple(sizes.values()))
    length = x.shape[over[0]]
    line = [np.moveaxis(x, over[0], -1)[i] for i in range(8)]  # views
    line[0][length // 2] = np.nan
    line[1][length - 1] = np.inf
    line[2][0] = -np.inf
    line[3][:] = -np.inf
    line[4][0], line[4][length - 1] = np.inf, -np.inf
    line[5][:] = -0.0
    line[6][:] = np.inf
    line[7][: length // 2] = -np.inf
    with np.errstate(all="ignore"):
        got, _ = built.launch({"in0": x}, sizes)
        kept, _ = both.launch({"in0": x}, sizes)
        want = interpret(built.kernel, {"in0": x}, float64=True)
        wanted = interpret(both.kernel, {"in0": x}, float64=True)
    for found, exact, names in ((got, want, OUTS["both"]), (kept, wanted, KEPT)):
        for i, out in enumerate(names):
            a, b = found[f"y{i}"].astype(np.float64), exact[f"y{i}"].astype(np.float64)
            if out == "sumexp":  # of nothing but -inf it is 0 or NaN, and what follows from it is NaN
                a, b = np.nan_to_num(a, nan=0), np.nan_to_num(b, nan=0)
            finite = np.isfinite(b)
            assert (np.isnan(a) == np.isnan(b)).all() and (a[np.isinf(b)] == b[np.isinf(b)]).all(), (name, out)
            assert worst(a[finite], b[finite]) < 1e-5, (name, out)
    softmax = np.moveaxis(got["y2"], over[0], -1)
    assert np.isnan(softmax[[0, 1, 3, 4, 6]]).all() and not np.isnan(softmax[[2, 5, 7]]).any()
    assert np.signbit(kept["y1"][5]) and np.signbit(kept["y2"][5])  # the extremes of -0.0


@pytest.mark.parametrize("dtype,value", (("f16", 0.0999755859375), ("f16", 1000.0), ("bf16", 0.10009765625)))
@pytest.mark.parametrize("dims,over", (([5, 65536], [1]), ([65536, 24], [0]), ([65536], [0]), ([16, 4096], [0, 1])))
def test_equal_halves(dtype, value, dims, over):
    """Sums of 65536 equal values, in a type that holds neither the sum nor its parts."""
    x = np.full(tuple(dims), value, numbers((1,), dtype).dtype)
    built = runner(text(dims, over, ("sum", "mean"), dtype))
    got, _ = built.launch({"in0": x}, {})
    assert (got["y0"] == np.float32(65536 * float(x.flat[0]))).all() and (got["y1"] == np.float32(x.flat[0])).all()


@pytest.mark.parametrize("name", TEMPLATES)
def test_variance_far_from_zero(name):
    """Mean 1e4, spread 0.05: a difference of squares would have no digit left."""
    dims, over, sizes = TEMPLATES[name]
    kernel = text(dims, over, ("mean", "m2"))
    assert template(runner(kernel), sizes) == name
    x = numbers(tuple(sizes.values()), offset=1e4, spread=0.05)
    measure(kernel, x, over, ("mean", "m2"), f"variance {name}", sizes)


# ---- order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_same_bits(name):
    """The order in which blocks run does not enter; a row's result does not depend on its neighbours."""
    dims, over, sizes = TEMPLATES[name]
    built = runner(text(dims, over, OUTS["both"]))
    x = numbers(tuple(sizes.values()))
    turned = np.ascontiguousarray(np.roll(x, 1, axis=1 - over[0]))
    first, _ = built.launch({"in0": x}, sizes, seed=1)
    again, _ = built.launch({"in0": x}, sizes, seed=2)
    moved, _ = built.launch({"in0": turned}, sizes, seed=3)
    for key, value in first.items():
        assert value.tobytes() == again[key].tobytes()
        back = np.roll(moved[key], -1, axis=(1 - over[0]) if value.ndim == 2 else 0)
        assert value.tobytes() == np.ascontiguousarray(back).tobytes(), (name, key)


# ---- other types ----------------------------------------------------------------------------------------------------

OTHER = """
kernel others(in x: f32[{0}, {1}], in i: i32[{0}, {1}], in b: bool[{0}, {1}], out y0: f32[{2}], out y1: i32[{2}],
  out y2: i32[{2}], out y3: bool[{2}], out y4: bool[{2}], out y5: i32[{2}], out y6: f32[{0}, {1}]){3}
nest n0 [a0: {0}, a1: {1}]
  v0: f32 = load x[{1}*a0 + a1]
  v1: i32 = load i[{1}*a0 + a1]
  v2: bool = load b[{1}*a0 + a1]
  z: f32 = const 1.0
  v3: bool = gt(v0, z)
  v4: bool = or(v2, v3)
  r0: f32 = reduce prod(v0) over ({4})
  r1: i32 = reduce sum(v1) over ({4})
  r2: i32 = reduce max(v1) over ({4})
  r3: bool = reduce any(v3) over ({4})
  r4: bool = reduce all(v4) over ({4})
  r5: i32 = reduce prod(v1) over ({4})
  n: bool = not(r4)
  v5: f32 = select(n, v0, r0)
  store y0[{5}] = r0
  store y1[{5}] = r1
  store y2[{5}] = r2
  store y3[{5}] = r3
  store y4[{5}] = r4
  store y5[{5}] = r5
  store y6[{1}*a0 + a1] = v5
"""
WHERE = " where s0 = x.0, s1 = x.1"


@pytest.mark.parametrize("over", (1, 0))
def test_products_integers_truth(over):
    """prod, any, all and int32: integers wrap, an any or all may decide what is stored over the full domain."""
    built = runner(OTHER.format("s0", "s1", f"s{1 - over}", WHERE, f"a{over}", f"a{1 - over}"))
    for seed, length in enumerate((0, 1, 2, 3, 5, 7, 8, 9, 16, 31, 33, 64, 65, 100, 257, 1000, 5000, 60000)):
        for kept in (1, 2, 49) if length < 5000 else (2,):
            shape = (kept, length) if over else (length, kept)
            rng = np.random.default_rng(seed)
            x = (1 + (rng.random(shape) - 0.5) / (length + 1)).astype(np.float32)
            i = rng.integers(-(2**31), 2**31, shape, np.int32) | 1
            b = rng.random(shape) > 0.5 / (length + 1)
            sizes = {"s0": shape[0], "s1": shape[1]}
            built.check(sizes, {"x": x, "i": i, "b": b}, f32_rtol=1e-2)  # the interpreter multiplies in a row
            exact = np.multiply.reduce(x.astype(np.float64), over)
            got, _ = built.launch({"x": x, "i": i, "b": b}, sizes)
            assert worst(got["y0"], exact) <= 6e-8 * max(length, 8), shape  # every product rounds


def test_static_products():
    built = runner(OTHER.format("33", "5", "33", "", "a1", "a0"))
    built.check({}, special=True)


def test_refused():
    """No instruction gives the index of an extreme."""
    found = scheduled("""
kernel k(in x: f32[8, 9], out y: i32[8])
nest n0 [a0: 8, a1: 9]
  v0: f32 = load x[9*a0 + a1]
  m, i: f32, i32 = reduce argmax(v0) over (a1)
  store y[a0] = i
""")
    assert isinstance(found, Reason) and found.code == "AF202" and "argmax" in found.text


# ---- random kernels -------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(reduction_kernels(), st.booleans())
def test_random(kernel, special):
    made, sizes = kernel
    found = scheduled(made)
    if isinstance(found, Reason):
        assert found.code == "AF210", found
        return
    for seed, size in enumerate(sizes):
        runner(made).check(size, seed=seed, special=special, f32_rtol=1e-4)  # the interpreter multiplies in a row
