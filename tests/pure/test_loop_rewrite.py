"""Rewrites of nests keep every bit of the result; the interpreter checks both sides."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import assert_same, kernels, random_inputs

from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.printer import nest_to_text
from torchair_autofuse.loop.rewrite import canonical, drop_dead_values, drop_unit_axes, merge_axes
from torchair_autofuse.loop.verify import verify

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(kernels(), st.integers(0, 99))
def test_canonical_form_computes_the_same(kernel, seed):
    verify(kernel)
    changed = canonical(kernel)
    verify(changed)
    assert canonical(changed) == changed
    inputs = random_inputs(kernel, seed)
    assert_same(interpret(kernel, inputs), interpret(changed, inputs))
    assert_same(interpret(kernel, inputs, float64=True), interpret(changed, inputs, float64=True))


HEADER = "kernel k(in x: f32[s0, 4, 6], in w: f32[6], in o: f32[1], out y: f32[s0, 4, 6]) where s0 = x.0\n"


def nest(text):
    return parse(HEADER + text).nests[0]


CASES = {
    "all axes of a flat copy": (
        merge_axes,
        "nest n [a: s0, b: 4, c: 6]\n  v: f32 = load x[24*a + 6*b + c]\n  store y[24*a + 6*b + c] = v",
        "nest n [a0: 24*s0]\n  v: f32 = load x[a0]\n  store y[a0] = v",
    ),
    "a broadcast keeps its axis": (
        merge_axes,
        "nest n [a: s0, b: 4, c: 6]\n  u: f32 = load w[c]\n  v: f32 = load x[24*a + 6*b + c]\n  r: f32 = add(u, v)\n"
        "  store y[24*a + 6*b + c] = r",
        "nest n [a0: 4*s0, a1: 6]\n  u: f32 = load w[a1]\n  v: f32 = load x[6*a0 + a1]\n  r: f32 = add(u, v)\n"
        "  store y[6*a0 + a1] = r",
    ),
    "reduced axes merge with each other only": (
        merge_axes,
        "nest n [a: s0, b: 4, c: 6]\n  v: f32 = load x[24*a + 6*b + c]\n  r: f32 = reduce sum(v) over (b, c)\n"
        "  d: f32 = sub(v, r)\n  store y[24*a + 6*b + c] = d",
        "nest n [a0: s0, a1: 24]\n  v: f32 = load x[24*a0 + a1]\n  r: f32 = reduce sum(v) over (a1)\n"
        "  d: f32 = sub(v, r)\n  store y[24*a0 + a1] = d",
    ),
    "a transpose stays": (
        merge_axes,
        "nest n [a0: s0, a1: 4, a2: 6]\n  v: f32 = load x[24*a0 + 6*a1 + a2]\n  store y[24*a0 + a1 + 4*a2] = v",
        "nest n [a0: s0, a1: 4, a2: 6]\n  v: f32 = load x[24*a0 + 6*a1 + a2]\n  store y[24*a0 + a1 + 4*a2] = v",
    ),
    "an iota counts": (
        merge_axes,
        "nest n [a: s0, b: 24]\n  i: i32 = iota b\n  v: f32 = cast(i, rint)\n  store y[24*a + b] = v",
        "nest n [a0: s0, a1: 24]\n  i: i32 = iota a1\n  v: f32 = cast(i, rint)\n  store y[24*a0 + a1] = v",
    ),
    "unit axes": (
        drop_unit_axes,
        "nest n [a: 1, b: 24, c: 1]\n  v: f32 = load x[24*a + b + 7*c]\n  store y[b + c] = v",
        "nest n [b: 24]\n  v: f32 = load x[b]\n  store y[b] = v",
    ),
    "a sum of one element": (
        drop_unit_axes,
        "nest n [a: 1, b: 24]\n  v: f32 = load x[24*a + b]\n  r: f32 = reduce sum(v) over (a)\n  d: f32 = sub(v, r)\n"
        "  store y[b] = r",
        "nest n [b: 24]\n  v: f32 = load x[b]\n  d: f32 = sub(v, v)\n  store y[b] = v",
    ),
    "a mean of one element keeps its axis": (
        drop_unit_axes,
        "nest n [a: 1, b: 24, c: 1]\n  v: f32 = load x[24*a + b + c]\n"
        "  m, q: f32, f32 = reduce welford(v) over (a, c)\n"
        "  store y[b] = m",
        "nest n [a: 1, b: 24]\n  v: f32 = load x[24*a + b]\n  m, q: f32, f32 = reduce welford(v) over (a)\n"
        "  store y[b] = m",
    ),
    "dead values": (
        drop_dead_values,
        "nest n [a: 6]\n  u: f32 = load w[a]\n  v: f32 = load x[a]\n  r: f32 = exp(u)\n  t: f32 = neg(v)\n"
        "  m, q: f32, f32 = reduce welford(v) over (a)\n  z: f32 = mul(q, t)\n  store y[a] = z",
        "nest n [a: 6]\n  v: f32 = load x[a]\n  t: f32 = neg(v)\n  m, q: f32, f32 = reduce welford(v) over (a)\n"
        "  z: f32 = mul(q, t)\n  store y[a] = z",
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_rewrite_gives(case):
    rewrite, before, after = CASES[case]
    assert nest_to_text(rewrite(nest(before))) == after


def test_axis_names_avoid_symbols():
    text = "kernel k(in x: f32[a0, 4], out y: f32[a0, 4]) where a0 = x.0\nnest n [i: a0, j: 4]\n"
    kernel = parse(text + "  v: f32 = load x[4*i + j]\n  store y[4*i + j] = v\n")
    changed = canonical(kernel)
    verify(changed)
    assert [(a.name, str(a.size)) for a in changed.nests[0].axes] == [("a0_", "4*a0")]
