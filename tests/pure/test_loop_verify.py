"""The verifier: every rule has a kernel that breaks it, proofs over symbolic sizes, and soundness by brute force."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchair_autofuse.dtypes import F32
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.bounds import less_equal, nonnegative
from torchair_autofuse.loop.ir import Axis, Const, Kernel, Nest, Param, Store, Symbol
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.verify import VerifyError, verify

GOOD = """\
kernel k(in x: f32[s0, 64], in h: f16[64], in i: i32[2], out y: f32[s0, 64], out z: f16[64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f32 = load x[64*a0 + a1]
  v1: f16 = load h[a1]
  v2: f32 = cast(v1, rint)
  v3: f32 = mul(v0, v2)
  v4: bool = lt(v3, v2)
  v5: f32 = select(v4, v3, v2)
  m, s: f32, f32 = reduce welford(v5) over (a1)
  v6: f32 = sub(v5, m)
  v7: i32 = iota 64*a0 + a1
  c: f32 = const 0.5
  store y[64*a0 + a1] = v6
nest n1 [a0: 64]
  v1: f16 = load h[a0]
  store z[a0] = v1
"""

BROKEN = [  # (old, new, where, problem)
    ("in h: f16", "in x: f16", "kernel k", "two parameters are called 'x'"),
    ("nest n1", "nest n0", "kernel k", "two nests are called 'n0'"),
    ("a1: 64]", "a1: 64, a0: 1]", "nest n0", "two axes are called 'a0'"),
    ("v2: f32 = cast", "v0: f32 = cast", "nest n0", "two values are called 'v0'"),
    ("where s0 = x.0", "where s0 = x.0, s0 = x.0", "kernel k", "two symbols are called 's0'"),
    ("where s0 = x.0", "where s0 = x.0, a0 = x.0", "nest n0", "has the name of a symbol"),
    ("nest n1 [a0: 64]", "nest n1 [Min: 64]", "nest n1", "'Min' is reserved"),
    ("in x: f32[s0, 64]", "in x: f32[s0, 64]@tile", "parameter x", 'only "gm"'),
    ("out z: f16[64])", "out z: f16[64], in t: f32[1])", "parameter t", "inputs come before outputs"),
    (" where s0 = x.0", "", "parameter x", "symbol s0 of s0 has no source"),
    ("s0 = x.0", "s0 = y.0", "symbol s0", "'y' is not an input"),
    ("s0 = x.0", "s0 = x.2", "symbol s0", "none is dim 2"),
    ("s0 = x.0", "s0 = x.0 / 0", "symbol s0", "expected at least 1"),
    ("s0 = x.0", "s0 = x.0 / 2", "symbol s0", "// 2 is not s0"),
    ("s0 = x.0", "s0 = x.1", "symbol s0", "is not s0"),
    ("in i: i32[2]", "in i: i32[-2]", "parameter i", "negative size"),
    ("in i: i32[2]", "in i: i32[s0/2]", "parameter i", "not an integer"),
    ("mul(v0, v2)", "mul(v0, v9)", "n0, v3", "v9 is not defined"),
    ("mul(v0, v2)", "mul(v0, v6)", "n0, v3", "v6 is defined only later"),
    ("load h[a1]", "load q[a1]", "n0, v1", "'q', which is not an input"),
    ("load h[a1]", "load z[a1]", "n0, v1", "'z', which is not an input"),
    ("store z[a0]", "store h[a0]", "store h", "'h', which is not an output"),
    ("store y[64*a0 + a1] = v6", "store y[64*a0 + a1] = v9", "store y", "v9, which is not defined"),
    ("over (a1)", "over (a7)", "n0, m, s", "unknown axis a7"),
    ("over (a1)", "over ()", "n0, m, s", "over no axis"),
    ("over (a1)", "over (a1, a1)", "n0, m, s", "an axis twice"),
    ("welford(v5) over (a1)", "welford(v2) over (a0)", "n0, m, s", "over a0, along which v2 does not vary"),
    ("mul(v0, v2)", "mol(v0, v2)", "n0, v3", "unknown op 'mol'"),
    ("mul(v0, v2)", "mul(v0)", "n0, v3", "takes 2 arguments, got 1"),
    ("mul(v0, v2)", "mul(v0, v1)", "n0, v3", "f32 and f16: expected one type"),
    ("v3: f32 = mul(v0, v2)", "v3: f16 = mul(v1, v1)", "n0, v3", "float arithmetic is f32"),
    ("v4: bool = lt(v3, v2)", "v4: bool = eq(v1, v1)", "n0, v4", "float arithmetic is f32"),
    ("v3: f32 = mul(v0, v2)", "v3: f32 = floordiv(v0, v2)", "n0, v3", "floordiv on f32: expected int or uint"),
    ("v3: f32 = mul(v0, v2)", "v3: i32 = mul(v0, v2)", "n0, v3", "gives f32, declared i32"),
    ("v4: bool = lt", "v4: f32 = lt", "n0, v4", "gives bool, declared f32"),
    ("v4: bool = lt(v3, v2)", "v4: bool = not(v3)", "n0, v4", "not on f32: expected bool"),
    ("select(v4, v3, v2)", "select(v3, v3, v2)", "n0, v5", "the condition is bool"),
    ("select(v4, v3, v2)", "select(v4, v3, v1)", "n0, v5", "expected one type"),
    ("v0: f32 = load x", "v0: f16 = load x", "n0, v0", "loads f32 from x as f16"),
    ("cast(v1, rint)", "cast(v1, up)", "n0, v2", "cast mode 'up'"),
    ("cast(v1, rint)", "cast(v1, floor)", "n0, v2", "between float types only rint"),
    ("welford(v5)", "median(v5)", "n0, m, s", "unknown combiner 'median'"),
    ("welford(v5)", "welford(v5, v5)", "n0, m, s", "takes 1 arguments, got 2"),
    ("welford(v5)", "argmax(v5)", "n0, m, s", "gives f32, i32, declared f32, f32"),
    ("welford(v5)", "sum(v5)", "n0, m, s", "defines 1 values"),
    ("welford(v5)", "welford(v1)", "n0, m, s", "float arithmetic is f32"),
    ("m, s: f32, f32 = reduce welford(v5)", "m: bool = reduce any(v5)", "n0, m", "any on f32: expected bool"),
    ("v7: i32 = iota", "v7: f32 = iota", "n0, v7", "expected an integer type"),
    ("c: f32 = const 0.5", "c: f32 = const 0.1", "n0, c", "not rounded to f32"),
    ("c: f32 = const 0.5", "c: f16 = const 1e6", "n0, c", "outside f16"),
    ("c: f32 = const 0.5", "c: u8 = const 256", "n0, c", "256 is outside u8"),
    ("c: f32 = const 0.5", "c: i8 = const -129", "n0, c", "-129 is outside i8"),
    ("store z[a0] = v1", "store y[a0] = v1", "store y", "v1 is f16, y is f32"),
    ("store y[64*a0 + a1]", "store y[a1]", "n0, store y", "varies along a0, for which the store has no stride"),
    ("load x[64*a0 + a1]", "load x[64*a0 + a1 + 1]", "n0, v0", "past the end"),
    ("load x[64*a0 + a1]", "load x[64*a0 + a1 - 1]", "n0, v0", "below 0"),
    ("load x[64*a0 + a1]", "load x[-64*a0 + a1]", "n0, v0", "below 0"),
    ("load x[64*a0 + a1]", "load x[(s0 - 2)*a0 + a1]", "n0, v0", "sign of a stride"),
    ("load h[a1]", "load i[a1]", "n0, v1", "loads i32"),
    ("load h[a1]", "load h[2*a1]", "n0, v1", "greatest index is 126, h has 64 elements"),
    ("store z[a0]", "store z[a0 + 1]", "store z", "past the end"),
    ("store y[64*a0 + a1]", "store y[63*a0 + a1]", "n0, store y", "may write an element twice"),
    ("store z[a0] = v1", "store z[a0] = v1\n  store z[63 - a0] = v1", "store z", "not proved disjoint"),
    ("  store z[a0] = v1\n", "", "parameter z", "no nest stores"),
]


def test_good_kernel():
    verify(parse(GOOD))


@pytest.mark.parametrize("old, new, where, problem", BROKEN, ids=[b[3][:40] for b in BROKEN])
def test_broken_kernel(old, new, where, problem):
    assert old in GOOD
    with pytest.raises(VerifyError) as e:
        verify(parse(GOOD.replace(old, new, 1)))
    assert where in e.value.where and problem in e.value.problem, str(e.value)


def _kernel(dims, axes, stores, symbols=()):
    dims = tuple(expr.parse(d) for d in dims)
    params = (Param("x", F32, tuple(expr.symbol(s) for s in symbols), "input"), Param("y", F32, dims, "output"))
    nests = []
    for i, (sizes, (strides, offset)) in enumerate(zip(axes, stores)):
        nest_axes = tuple(Axis(f"a{k}", expr.parse(str(n))) for k, n in enumerate(sizes))
        pairs = tuple((a.name, expr.parse(str(s)) if s != 0 else 0) for a, s in zip(nest_axes, strides))
        store = Store("y", pairs, expr.parse(str(offset)), "c")
        nests.append(Nest(f"n{i}", nest_axes, (Const("c", 0.0, F32),), (store,)))
    return Kernel("k", params, tuple(Symbol(s, "x", i) for i, s in enumerate(symbols)), tuple(nests))


def test_load_with_zero_stride_and_bad_order():
    for strides, problem in (((("a0", 64), ("a1", 0)), "zero stride"), ((("a1", 1), ("a0", 64)), "out of axis order")):
        nest = Nest("n0", (Axis("a0", 2), Axis("a1", 64)), (Const("c", 0.0, F32),), (Store("y", strides, 0, "c"),))
        with pytest.raises(VerifyError, match=problem):
            verify(Kernel("k", (Param("y", F32, (2, 64), "output"),), (), (nest,)))


ACCEPTED = {
    "concat of symbolic widths": (
        ["s0", "s1 + s2"], [["s0", "s1"], ["s0", "s2"]], [(["s1 + s2", 1], 0), (["s1 + s2", 1], "s1")]),
    "concat in the middle, one side merged": (
        ["3", "s0 + s1", "s2"], [[3, "s0*s2"], [3, "s1", "s2"]],
        [(["(s0 + s1)*s2", 1], 0), (["(s0 + s1)*s2", "s2", 1], "s0*s2")]),
    "interleaved pairs": (["s0", "8"], [["s0", 4], ["s0", 4]], [([8, 2], 0), ([8, 2], 1)]),
    "interleaved in two dims": (
        ["s0", "8", "6"], [["s0", 4, 3]] * 4, [([48, 12, 2], 0), ([48, 12, 2], 1), ([48, 12, 2], 6), ([48, 12, 2], 7)]),
    "padding": (["64*s0", "s1 + 3"], [["64*s0", "s1"], ["64*s0", 3]], [(["s1 + 3", 1], 0), (["s1 + 3", 1], "s1")]),
    "halves of a symbol": (
        ["s0"], [["floor(s0/2)"], ["s0 - floor(s0/2)"]], [([1], 0), ([1], "floor(s0/2)")]),
    "clamped slice": (["Min(s0, 5)", "s1"], [["Min(s0, 5)", "s1"]], [(["s1", 1], 0)]),
    "transposed": (["s1", "s0"], [["s0", "s1"]], [([1, "s0"], 0)]),
    "stacked": (["2", "s0", "s1"], [["s0", "s1"], ["s0*s1"]], [(["s1", 1], 0), ([1], "s0*s1")]),
}  # fmt: skip
MANY = " + ".join(f"s{i % 3}" for i in range(24))
STARTS = [" + ".join(["0", *(f"s{i % 3}" for i in range(at))]) for at in range(24)]
ACCEPTED |= {
    "columns of many parts": (
        ["s0", MANY], [["s0", f"s{i % 3}"] for i in range(24)], [([MANY, 1], at) for at in STARTS]),
    "many parts, out of order": ([MANY], [[f"s{i % 3}"] for i in range(24)][::-1], [([1], at) for at in STARTS][::-1]),
    "rows that start late": (["294"], [[3, 48], [3], [3, 6], [3, 42]],
        [([48, 1], 0), ([1], 144), ([48, 1], 147), ([48, 1], 153)]),
}  # fmt: skip
REFUSED = {
    "many parts, two of which meet": (
        ["s0", f"{MANY} + 1"], [["s0", f"s{i % 3} + {int(i == 9)}"] for i in range(24)],
        [([f"{MANY} + 1", 1], at) for at in STARTS], "disjoint"),
    "third meets the first where the second is empty": (
        ["8*s0 + 16"], [["8"], ["s0"], [8]], [([1], 0), ([8], 8), ([1], "8*s0 + 1")], "disjoint"),
    "rows that start late and meet": (["294"], [[3, 48], [3], [3, 6], [3, 43]],
        [([48, 1], 0), ([1], 144), ([48, 1], 147), ([48, 1], 152)], "disjoint"),
    "concat that overlaps": (
        ["s0", "s1 + s2 + 1"], [["s0", "s1 + 1"], ["s0", "s2"]],
        [(["s1 + s2 + 1", 1], 0), (["s1 + s2 + 1", 1], "s1")], "disjoint"),
    "same residue": (["s0", "8"], [["s0", 4], ["s0", 4]], [([8, 2], 0), ([8, 2], 0)], "disjoint"),
    "rows that meet": (["s0 + 1", "8"], [["s0 + 1", 8], [1, 1]], [([8, 1], 0), ([8, 1], 3)], "disjoint"),
    "symbols not known equal": (["s1"], [["s0"]], [([1], 0)], "past the end"),
    "one too many": (["s0"], [["s0 + 1"]], [([1], 0)], "past the end"),
    "stride too short": (["s0", "s1 + 1"], [["s0", "s1 + 1"]], [(["s1", 1], 0)], "twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(ACCEPTED))
def test_symbolic_stores_accepted(case):
    verify(_kernel(*ACCEPTED[case], symbols=("s0", "s1", "s2")))


@pytest.mark.parametrize("case", list(REFUSED))
def test_symbolic_stores_refused(case):
    *parts, problem = REFUSED[case]
    with pytest.raises(VerifyError, match=problem):
        verify(_kernel(*parts, symbols=("s0", "s1", "s2")))


def _writes(kernel, values):
    """Every flat index that the stores write, one entry per write."""
    for nest in kernel.nests:
        (store,) = nest.stores
        sizes = [range(expr.evaluate(a.size, values)) for a in nest.axes]
        strides = [expr.evaluate(dict(store.strides)[a.name], values) for a in nest.axes]
        for point in itertools.product(*sizes):
            yield expr.evaluate(store.offset, values) + sum(s * i for s, i in zip(strides, point))


PARTS = st.sampled_from([("s0", "s1"), ("1", "s0"), ("2", "3"), ("s1", "2"), ("floor(s1/2)", "s1 - floor(s1/2)")])
CHOICE = st.tuples(
    st.sampled_from(["whole", "first", "second", "second", "even", "odd"]), st.sampled_from([0] * 8 + [1, -1])
)


@settings(max_examples=30, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=2), st.data())
def test_what_is_accepted_is_right(parts, data):
    """Brute force over small sizes of the symbols: nothing accepted leaves its parameter or writes twice.

    Each dim is two parts; a store takes all of it, a part, or every other element, sometimes shifted by one.
    """
    dims = [expr.add(expr.parse(p), expr.parse(q)) for p, q in parts]
    axes, stores = [], []
    for _ in range(2):
        sizes, strides, offset, pitch = [], [], 0, 1
        for (p, q), dim in reversed(list(zip(parts, dims))):
            kind, shift = data.draw(CHOICE)
            start = {"second": expr.parse(p), "odd": 1}.get(kind, 0)
            half = expr.floordiv(expr.add(dim, int(kind == "even")), 2)
            sizes.append({"whole": dim, "first": expr.parse(p), "second": expr.parse(q)}.get(kind, half))
            strides.append(expr.mul(pitch, 2 if kind in ("even", "odd") else 1))
            offset = expr.add(offset, expr.mul(pitch, expr.add(start, shift)))
            pitch = expr.mul(pitch, dim)
        axes.append(sizes[::-1])
        stores.append((strides[::-1], offset))
    kernel = _kernel(map(str, dims), axes, stores, symbols=("s0", "s1"))
    try:
        verify(kernel)
    except VerifyError:
        return
    for s0, s1 in itertools.product(range(5), repeat=2):
        values = {"s0": s0, "s1": s1}
        written = list(_writes(kernel, values))
        numel = expr.evaluate(expr.product(kernel.outputs[0].dims), values)
        assert len(set(written)) == len(written) and all(0 <= w < numel for w in written), values


PROVED = [
    ("s0", []), ("64*s0 - 64", ["s0 - 1"]), ("s0*s1 - s0", ["4*s0*s1 - 1"]), ("s0 - 2*floor(s0/2)", []),
    ("1 - s0 + 2*floor(s0/2)", []), ("s0 - Min(5, s0)", []), ("Max(0, s0 - 5)", []),
    ("s0 - 5 - Max(0, s0 - 5)", ["s0 - 5"]),
    ("7 - Mod(s0, 8)", []), ("s0 - s1 - 1", ["s0 - s1 - 3"]), ("2*s0*s2 - 2*s1*s2", ["s0 - s1 - 3"]),
    ("s0 - floor(s0/2) - floor(s0/2 + 1/2)", []), ("9 - s0*s0", ["3 - s0"]),
    ("-1", ["s0 - 4", "3 - s0"]), ("-1", ["-2"]),
]  # fmt: skip
NOT_PROVED = [
    ("-1", []), ("s0 - 1", []), ("s0 - s1", []), ("2*floor(s0/2) - s0", []), ("Min(5, s0) - s0", []),
    ("6 - Mod(s0, 8)", []),
    ("s0 - 4", ["s0 - 3"]), ("8 - s0*s0", ["3 - s0"]), ("s0 - s1 - 4", ["s0 - s1 - 3"]), ("-1", ["s0 - 3", "3 - s0"]),
]  # fmt: skip


@pytest.mark.parametrize("e, facts, proved", [(*c, True) for c in PROVED] + [(*c, False) for c in NOT_PROVED])
def test_bounds(e, facts, proved):
    assert nonnegative(expr.parse(e), [expr.parse(f) for f in facts]) == proved


def test_less_equal():
    s = expr.symbol("s0")
    assert less_equal(expr.mul(3, s), expr.mul(4, s)) and not less_equal(expr.add(s, 1), expr.mul(2, s))
