"""Writing the innermost axis out computes the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import assert_same, kernels, random_inputs

from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Kernel, Reduce
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.printer import nest_to_text
from torchair_autofuse.loop.rewrite import drop_dead_values
from torchair_autofuse.loop.unroll import unroll_innermost
from torchair_autofuse.loop.verify import verify

ORDERED = frozenset({"sum", "prod", "welford", "maxsumexp"})
"""Combiners whose result depends on the order in which floats are combined."""


def unrolled(kernel: Kernel) -> Kernel:
    """Every nest without its last axis, where that has a known size."""
    made = []
    for nest in kernel.nests:
        known = nest.axes and isinstance(nest.axes[-1].size, int) and nest.axes[-1].size > 1
        made.append((unroll_innermost(drop_dead_values(nest)) if known else None) or nest)
    return replace(kernel, nests=tuple(made))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(kernels(), st.integers(0, 99))
def test_same_values(kernel, seed):
    changed = unrolled(kernel)
    verify(changed)
    inputs = random_inputs(kernel, seed)
    reduces = {v.combiner for n in kernel.nests for v in n.values if isinstance(v, Reduce)}
    if not reduces & ORDERED:
        assert_same(interpret(kernel, inputs), interpret(changed, inputs))


HEAD = "kernel k(in x: f32[s0, 4], in b: bool[4], in i: i64[4], in t: f32[9, s0], out y: f32[s0, 4], out z: f32[s0]) "
CASES = {
    "loads, constants, stores": (
        "where s0 = x.0\nnest n0 [a0: s0, a1: 3]\n  v: f32 = load x[4*a0 + a1 + 1]\n  c: f32 = const 2.0\n"
        "  w: f32 = mul(v, c)\n  store y[4*a0 + a1] = w\n  store z[a0] = c\n",
        "nest n0 [a0: s0]\n"
        "  v_0: f32 = load x[4*a0 + 1]\n  v_1: f32 = load x[4*a0 + 2]\n  v_2: f32 = load x[4*a0 + 3]\n"
        "  c: f32 = const 2.0\n  w_0: f32 = mul(v_0, c)\n  w_1: f32 = mul(v_1, c)\n  w_2: f32 = mul(v_2, c)\n"
        "  store y[4*a0] = w_0\n  store y[4*a0 + 1] = w_1\n  store y[4*a0 + 2] = w_2\n  store z[a0] = c",
    ),
    "a reduction in pairs": (
        "where s0 = x.0\nnest n0 [a0: s0, a1: 3]\n  v: f32 = load x[4*a0 + a1]\n  m: f32 = reduce max(v) over (a1)\n"
        "  store z[a0] = m\n",
        "nest n0 [a0: s0]\n  v_0: f32 = load x[4*a0]\n  v_1: f32 = load x[4*a0 + 1]\n  v_2: f32 = load x[4*a0 + 2]\n"
        "  m_v_0: f32 = max(v_0, v_1)\n  m: f32 = max(m_v_0, v_2)\n  store z[a0] = m",
    ),
    "a reduction over both axes": (
        "where s0 = x.0\nnest n0 [a0: s0, a1: 2]\n  v: f32 = load x[4*a0 + a1]\n"
        "  m: f32 = reduce sum(v) over (a0, a1)\n  store z[0] = m\n",
        "nest n0 [a0: s0]\n  v_0: f32 = load x[4*a0]\n  v_1: f32 = load x[4*a0 + 1]\n"
        "  m_0: f32 = reduce sum(v_0) over (a0)\n  m_1: f32 = reduce sum(v_1) over (a0)\n  m: f32 = add(m_0, m_1)\n"
        "  store z[0] = m",
    ),
    "indices and iotas": (
        "where s0 = x.0\nnest n0 [a0: s0, a1: 2]\n  i: i64 = load i[a1]\n"
        "  v: f32 = load t[s0*i + a0] where 0 <= i < 9\n"
        "  k: i32 = iota 5*a1 + a0\n  f: f32 = cast(k, rint)\n  w: f32 = add(v, f)\n  store y[4*a0 + a1] = w\n",
        "nest n0 [a0: s0]\n  i_0: i64 = load i[0]\n  i_1: i64 = load i[1]\n"
        "  v_0: f32 = load t[s0*i_0 + a0] where 0 <= i_0 < 9\n  v_1: f32 = load t[s0*i_1 + a0] where 0 <= i_1 < 9\n"
        "  k_0: i32 = iota a0\n  k_1: i32 = iota a0 + 5\n  f_0: f32 = cast(k_0, rint)\n  f_1: f32 = cast(k_1, rint)\n"
        "  w_0: f32 = add(v_0, f_0)\n  w_1: f32 = add(v_1, f_1)\n  store y[4*a0] = w_0\n  store y[4*a0 + 1] = w_1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_gives(case):
    before, after = CASES[case]
    (nest,) = parse(HEAD + before).nests
    made = unroll_innermost(nest)
    assert made is not None and nest_to_text(made) == after


def test_argmax_stays():
    text = "where s0 = x.0\nnest n0 [a0: s0, a1: 3]\n  v: f32 = load x[4*a0 + a1]\n"
    text += "  m, k: f32, i32 = reduce argmax(v) over (a1)\n  store z[a0] = m\n"
    assert unroll_innermost(parse(HEAD + text).nests[0]) is None
