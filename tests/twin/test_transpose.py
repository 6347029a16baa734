"""Tensors whose axes have different orders, on the twin against the interpreter: loops reordered, tiles transposed."""

from __future__ import annotations

import pytest
from kernel_runner import check, runner, scheduled
from permuted_kernels import permuted_kernel, place

from torchair_autofuse.messages import Reason

SOCS = ("Ascend910B1", "Ascend950PR_9599")
EDGES = (1, 7, 8, 16, 17, 31, 33, 64, 100, 1000)
TYPES = ("f16", "f32", "bf16", "i32")


def permutation_text(perm, dtype="f16", sizes=None):
    """``y = x.permute(perm)``; sizes s0, s1, ... of x unless given."""
    names = [f"a{i}" for i in range(len(perm))]
    sizes = dict(zip(names, sizes or [f"s{i}" for i in range(len(perm))]))
    dims, index = place(names, sizes)
    out_dims, out_index = place([names[i] for i in perm], sizes)
    where = ", ".join(f"{s} = x.{i}" for i, s in enumerate(sizes.values()) if isinstance(s, str))
    head = f"kernel permutation(in x: {dtype}{dims}, out y: {dtype}{out_dims})" + (f" where {where}" if where else "")
    axes = ", ".join(f"{names[i]}: {sizes[names[i]]}" for i in perm)
    return f"{head}\nnest n0 [{axes}]\n  v0: {dtype} = load x[{index}]\n  store y[{out_index}] = v0\n"


def sizes_of(*shapes):
    return [{f"s{i}": n for i, n in enumerate(shape)} for shape in shapes]


@pytest.mark.parametrize("dtype", TYPES)
def test_matrices(dtype):
    check(
        permutation_text((1, 0), dtype), sizes_of(*((a, b) for a in EDGES for b in EDGES), (0, 5), (5, 0), (3, 70000))
    )


def test_matrices_on_the_other_chip():
    check(permutation_text((1, 0), "bf16"), sizes_of(*((a, b) for a in EDGES[::2] for b in EDGES[1::2])), SOCS[1])


@pytest.mark.parametrize("dtype", ["bool", "u8", "i8"])
def test_matrices_of_bytes(dtype):
    check(permutation_text((1, 0), dtype), sizes_of(*((a, b) for a in EDGES[1::2] for b in EDGES[::2])))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("perm", [(0, 2, 1), (0, 2, 3, 1), (0, 3, 1, 2), (2, 1, 0), (0, 3, 2, 1), (3, 0, 2, 1)])
def test_the_contiguous_axis_moves(perm, dtype):
    text = permutation_text(perm, dtype)
    assert runner(text).schedule.template == "transpose"
    shapes = [(2, 7, 3, 33), (3, 17, 2, 8), (1, 31, 5, 64), (60, 3, 2, 5), (2, 100, 3, 16), (5, 1, 9, 1), (2, 0, 3, 4)]
    check(text, sizes_of(*(shape[: len(perm)] for shape in shapes), (2, 64, 5, 100)[: len(perm)]))


@pytest.mark.parametrize("dtype", [*TYPES, "i64", "bool"])
@pytest.mark.parametrize("perm", [(1, 0, 2), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_the_contiguous_axis_stays(perm, dtype):
    text = permutation_text(perm, dtype)
    assert runner(text).schedule.template == "pointwise"
    shapes = [(2, 7, 3, 33), (3, 17, 5, 8), (1, 31, 5, 64), (60, 3, 2, 5), (2, 100, 3, 16), (5, 1, 9, 1), (2, 0, 3, 4)]
    check(text, sizes_of(*(shape[: len(perm)] for shape in shapes)))


def test_sizes_known_at_compile_time():
    for perm, sizes in (
        ((0, 2, 1), (5, 48, 80)),
        ((0, 2, 1), (49, 17, 3)),
        ((1, 0), (1000, 1000)),
        ((2, 1, 0), (3, 5, 7)),
    ):
        check(permutation_text(perm, "f32", sizes), [{}])


@pytest.mark.parametrize("dtype", [*TYPES, "bool", "u8"])
@pytest.mark.parametrize("width", [2, 3, 5, 7])
@pytest.mark.parametrize("perm", [(0, 2, 1), (1, 0)])
def test_channels(perm, width, dtype):
    """Lines that are too short for copies: they are moved as runs of lanes, from the last axis and back to it."""
    for last in (True, False):
        sizes = [f"s{i}" for i in range(len(perm) - 2)]
        sizes += ["s9", width] if last else [width, "s9"]
        text = permutation_text(perm, dtype, sizes)
        made = runner(text)
        small = [i for i in made.schedule.program.instrs if i.form == "transpose"]
        assert len(small) == 1 and small[0].table is not None
        outer = [{"s0": n} for n in (1, 2, 9)] if len(perm) == 3 else [{}]
        check(text, [{**o, "s9": n} for o in outer for n in (1, 7, 16, 100, 513, 5000)])


def test_channels_in_and_out():
    """Images with channels last and first; a slice of four channels; both orders stored; a bias per channel."""
    text = """
kernel images(in x: f16[s0, s1, 4], in y: f16[s0, 3, s1], in b: f32[3], out z: f16[s0, 3, s1], out w: f16[s0, s1, 3],
  out m: bool[s0, s1, 3]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1, a2: 3]
  v0: f16 = load x[4*s1*a0 + 4*a1 + a2 + 1]
  v1: f16 = load y[3*s1*a0 + s1*a2 + a1]
  v2: f32 = load b[a2]
  v3: f32 = cast(v0, rint)
  v4: f32 = cast(v1, rint)
  v5: f32 = mul(v3, v2)
  v6: f32 = add(v5, v4)
  v7: f16 = cast(v6, rint)
  v8: bool = gt(v6, v2)
  store z[3*s1*a0 + s1*a2 + a1] = v7
  store w[3*s1*a0 + 3*a1 + a2] = v7
  store m[3*s1*a0 + 3*a1 + a2] = v8
"""
    check(text, sizes_of((1, 1), (2, 7), (3, 64), (8, 1000), (1, 50176), (70, 3), (0, 4), (4, 0)))
    check(text, sizes_of((3, 70), (2, 513)), SOCS[1])
    profile = runner(text).check({"s0": 8, "s1": 4096})
    assert profile.dma_in <= 8 * 3 * 48 and profile.dma_out <= 8 * 3 * 48, "no copy per line"


# ---- attention ------------------------------------------------------------------------------------------------------


def heads_text(heads, width, *, turned):
    """One projection split in query, key and value with a bias, stored as [batch, heads, sequence, width].

    ``turned``: the key as [batch, heads, width, sequence].
    """
    inner = heads * width
    outs = dict.fromkeys("qkv", f"[s0, {heads}, s1, {width}]")
    at = dict.fromkeys("qkv", f"{inner}*s1*a0 + {width}*s1*a2 + {width}*a1 + a3")
    if turned:
        outs["k"], at["k"] = f"[s0, {heads}, {width}, s1]", f"{inner}*s1*a0 + {width}*s1*a2 + s1*a3 + a1"
    params = ", ".join(f"out {n}: f16{dims}" for n, dims in outs.items())
    lines, stores = [], []
    for i, n in enumerate("qkv"):
        lines += [
            f"  x{n}: f16 = load x[{3 * inner}*s1*a0 + {3 * inner}*a1 + {width}*a2 + a3 + {i * inner}]",
            f"  b{n}: f32 = load b[{width}*a2 + a3 + {i * inner}]",
            f"  f{n}: f32 = cast(x{n}, rint)",
            f"  s{n}: f32 = add(f{n}, b{n})",
            f"  o{n}: f16 = cast(s{n}, rint)",
        ]
        stores.append(f"  store {n}[{at[n]}] = o{n}")
    head = f"kernel heads(in x: f16[s0, s1, {3 * inner}], in b: f32[{3 * inner}], {params}) where s0 = x.0, s1 = x.1"
    return "\n".join([head, f"nest n0 [a0: s0, a1: s1, a2: {heads}, a3: {width}]", *lines, *stores, ""])


@pytest.mark.parametrize("turned", [False, True], ids=["plain", "key transposed"])
@pytest.mark.parametrize(("heads", "width"), [(12, 64), (3, 17), (4, 8)])
def test_query_key_value(heads, width, turned):
    text = heads_text(heads, width, turned=turned)
    assert runner(text).schedule.template == ("transpose" if turned else "pointwise")
    check(text, sizes_of((1, 1), (2, 7), (3, 16), (2, 100), (1, 257), (0, 3), (30, 5)))


def test_copies_are_few():
    """One copy per tensor and tile, tiles of some ten thousand elements."""
    profile = runner(permutation_text((0, 2, 1), "f16")).check({"s0": 2, "s1": 512, "s2": 512})
    assert profile.dma_in == profile.dma_out <= 48
    profile = runner(heads_text(12, 64, turned=False)).check({"s0": 2, "s1": 256})
    assert profile.dma_in <= 9 * 48 and profile.dma_out <= 6 * 48, (
        "three biases, and two tiles of three slices, per core"
    )


# ---- arithmetic around it -------------------------------------------------------------------------------------------

FUSED = """
kernel fused(in x: {t}[s0, s1, s2], in m: bool[s0, s2, s1], in r: f32[s2], in c: {t}[s1], in p: f32[s0, 1, s2],
  in o: f32[1], in u: i32[s1, s2], out y: {t}[s0, s2, s1], out z: f32[s0, s1, s2], out w: bool[s0, s2, s1],
  out e: i32[s2, s0, s1], out g: f32[s1]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s2, a2: s1]
  v0: {t} = load x[s1*s2*a0 + s2*a2 + a1]
{cast}  v2: bool = load m[s1*s2*a0 + s1*a1 + a2]
  v3: f32 = load r[a1]
  v4: {t} = load c[a2]
{cast4}  v6: f32 = load p[s2*a0 + a1]
  v7: f32 = load o[0]
  v8: i32 = load u[s2*a2 + a1]
  k: f32 = const 0.5
  w0: f32 = mul(v1, v3)
  w1: f32 = add(w0, v5)
  w2: f32 = sub(w1, v6)
  w3: f32 = mul(w2, v7)
  w4: f32 = select(v2, w3, k)
  w5: bool = gt(w4, v5)
  w6: f32 = cast(v8, rint)
  w7: f32 = add(w6, w4)
  w8: f32 = abs(v5)
{out}  store y[s1*s2*a0 + s1*a1 + a2] = q
  store z[s1*s2*a0 + s2*a2 + a1] = w7
  store w[s1*s2*a0 + s1*a1 + a2] = w5
  store e[s0*s1*a1 + s1*a0 + a2] = v8
  store g[a2] = w8
"""


def fused_text(dtype):
    def cast(name, source, target):
        return f"  {name}: f32 = cast({source}, rint)\n" if dtype != "f32" else ""

    text = FUSED.format(
        t=dtype, cast=cast("v1", "v0", dtype), cast4=cast("v5", "v4", dtype),
        out=f"  q: {dtype} = cast(w4, rint)\n" if dtype != "f32" else "",
    )  # fmt: skip
    if dtype == "f32":
        text = text.replace("= q\n", "= w4\n").replace("v1,", "v0,").replace("v5", "v4")
    return text


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_fused(dtype):
    shapes = [
        (1, 1, 1),
        (2, 7, 9),
        (3, 16, 33),
        (2, 100, 17),
        (1, 300, 200),
        (50, 3, 5),
        (2, 8, 1),
        (3, 0, 4),
        (0, 2, 2),
    ]
    check(fused_text(dtype), sizes_of(*shapes))


def test_fused_on_the_other_chip():
    check(fused_text("bf16"), sizes_of((2, 7, 9), (2, 100, 17)), SOCS[1])


def test_special_values():
    for seed in range(3):
        runner(fused_text("f32")).check({"s0": 2, "s1": 33, "s2": 40}, seed=seed, special=True)


def test_many_values_make_small_tiles():
    """Twenty tensors alive at once: tiles shrink, and still fit."""
    loads = "\n".join(f"  v{i}: f32 = load x{i}[s0*a1 + a0]" for i in range(10))
    more = "\n".join(f"  w{i}: f32 = load z{i}[s1*a0 + a1]" for i in range(10))
    sums = "\n".join(
        f"  p{i}: f32 = exp(v{i})\n  q{i}: f32 = mul(p{i}, w{i})\n  t{i}: f32 = add({f't{i - 1}' if i else 'v9'}, q{i})"
        for i in range(10)
    )
    params = ", ".join([*(f"in x{i}: f32[s1, s0]" for i in range(10)), *(f"in z{i}: f32[s0, s1]" for i in range(10))])
    text = f"kernel many({params}, out y: f32[s0, s1]) where s0 = x0.1, s1 = x0.0\nnest n0 [a0: s0, a1: s1]\n"
    text += f"{loads}\n{more}\n{sums}\n  store y[s1*a0 + a1] = t9\n"
    check(text, sizes_of((3, 5), (100, 130), (33, 700)), f32_rtol=1e-4)


# ---- reductions -----------------------------------------------------------------------------------------------------

SOFTMAX = """
kernel softmax(in x: f16[s0, s1, s2, s3], out y: f16[s0, s2, s1, s3]) where s0 = x.0, s1 = x.1, s2 = x.2, s3 = x.3
nest n0 [a0: s0, a1: s1, a2: s2, a3: s3]
  v: f16 = load x[s1*s2*s3*a0 + s2*s3*a1 + s3*a2 + a3]
  v0: f32 = cast(v, rint)
  m, s: f32, f32 = reduce maxsumexp(v0) over (a3)
  v1: f32 = sub(v0, m)
  v2: f32 = exp(v1)
  v3: f32 = div(v2, s)
  v4: f16 = cast(v3, rint)
  store y[s1*s2*s3*a0 + s1*s3*a2 + s3*a1 + a3] = v4
"""

COLUMNS = """
kernel columns(in x: f32[s0, s1, s2], out y: f32[s0, s2]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s2, a2: s1]
  v0: f32 = load x[s1*s2*a0 + s2*a2 + a1]
  s: f32 = reduce sum(v0) over (a2)
  store y[s2*a0 + a1] = s
"""


def test_a_softmax_stored_in_another_order():
    check(SOFTMAX, sizes_of((2, 3, 5, 1), (1, 12, 7, 17), (3, 2, 8, 64), (2, 3, 2, 20000), (50, 1, 3, 8), (2, 3, 0, 5)))


def test_a_reduced_axis_that_is_not_contiguous():
    check(COLUMNS, sizes_of((1, 1, 1), (2, 7, 9), (3, 300, 33), (1, 5000, 64), (50, 3, 1000), (2, 0, 3)))


# ---- random kernels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_permutations(first):
    for seed in range(first, first + 10):
        text, sizes = permuted_kernel(seed)
        if isinstance(scheduled(text), Reason):
            continue  # three tensors contiguous along three axes; tests/pure/test_order.py looks at these
        for i, size in enumerate(sizes):
            runner(text).check(size, seed=i)


# ---- several nests --------------------------------------------------------------------------------------------------

JOINED = """
kernel joined(in a: {t}[s0, s1, 24], in b: {t}[s0, s2, 24],
  out y: {t}[s0, 24, s1 + s2]) where s0 = a.0, s1 = a.1, s2 = b.1
nest n0 [a0: s0, a1: s1, a2: 24]
  v: {t} = load a[24*s1*a0 + 24*a1 + a2]
  store y[24*(s1 + s2)*a0 + (s1 + s2)*a2 + a1] = v
nest n1 [a0: s0, a1: s2, a2: 24]
  v: {t} = load b[24*s2*a0 + 24*a1 + a2]
  store y[24*(s1 + s2)*a0 + (s1 + s2)*a2 + a1 + s1] = v
"""


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_transposed_parts_of_one_output(dtype):
    """A cache of transposed keys and the keys to add to it."""
    text = JOINED.format(t=dtype)
    assert [p.template for p in runner(text).schedule.parts] == ["transpose", "transpose"]
    check(text, sizes_of((1, 1, 1), (2, 7, 9), (3, 100, 1), (5, 256, 16), (40, 33, 2)))


def test_heads_of_two_tensors():
    """Two tensors of [batch, sequence, heads, width] as heads of one output."""
    parts = "".join(
        f"nest n{i} [a0: s0, a1: s1, a2: 3, a3: 16]\n  v: f16 = load {x}[48*s1*a0 + 48*a1 + 16*a2 + a3]\n"
        f"  store y[96*s1*a0 + 16*s1*a2 + 16*a1 + a3 + {48 * i}*s1] = v\n"
        for i, x in enumerate("ab")
    )
    head = "kernel two(in a: f16[s0, s1, 3, 16], in b: f16[s0, s1, 3, 16], out y: f16[s0, 6, s1, 16])"
    check(f"{head} where s0 = a.0, s1 = a.1\n{parts}", sizes_of((1, 1), (2, 7), (3, 100), (40, 3)))


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_read_backwards_are_transposed(dtype):
    text = f"""
kernel mirrored(in x: {dtype}[s0, s1], out y: {dtype}[s1, s0]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: {dtype} = load x[s1*a0 - a1 + s1 + -1]
  store y[s0*a1 + a0] = v0
"""
    check(text, sizes_of(*((a, b) for a in EDGES[::2] for b in EDGES[1::2])))
