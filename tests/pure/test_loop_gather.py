"""Rows looked up by values (Load.indices): text, rules, meaning, rewrites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Index
from torchair_autofuse.loop.parser import ParseError, parse
from torchair_autofuse.loop.printer import nest_to_text, to_text
from torchair_autofuse.loop.rewrite import canonical
from torchair_autofuse.loop.verify import VerifyError, verify
from torchair_autofuse.lower.symbols import bind_symbols
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.inputs import random_inputs

TEXT = """\
kernel k(
  in x: f32[s0, 4, s1],
  in p: i64[s2],
  in q: i32[],
  out y: f32[s2, s1]
) where s0 = x.0, s1 = x.2, s2 = p.0
nest n0 [a0: s2, a1: s1]
  i: i64 = load p[a0]
  j: i32 = load q[0]
  v: f32 = load x[4*s1*i + s1*j + a1] where -s0 <= i < s0, 0 <= j < 4  # from GatherV2_1
  store y[s1*a0 + a1] = v
"""


def test_text():
    kernel = parse(TEXT)
    verify(kernel)
    assert to_text(kernel) == TEXT and parse(to_text(kernel)) == kernel
    load = kernel.nests[0].values[2]
    s0, s1 = expr.symbol("s0"), expr.symbol("s1")
    assert load.indices == (Index("i", expr.mul(4, s1), s0, True), Index("j", s1, 4))
    assert load.strides == (("a1", 1),) and load.origin == ("GatherV2_1",)
    assert kernel.nests[0].domains["v"] == ("a0", "a1")
    assert kernel.nests[0].users["i"] == (load,)


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("-s0 <= i", "-2 <= i", "the range of i starts at -2: expected 0 or -s0"),
        ("where -s0 <= i < s0, 0 <= j < 4", "", "not a size"),
        ("0 <= j < 4", "0 <= k < 4", "k is not in the index"),
        ("4*s1*i + s1*j", "4*s1*i*i + s1*j", "not affine"),
        ("4*s1*i + s1*j", "4*i*a1 + s1*j", "not affine"),
        ("-s0 <= i < s0, ", "-s0 <= i, ", "not affine|expected"),
    ],
)
def test_text_errors(old, new, problem):
    assert old in TEXT
    with pytest.raises((ParseError, VerifyError), match=problem if new else "symbol i of"):
        verify(parse(TEXT.replace(old, new, 1)))


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("i < s0", "i < s0 + 1", "the range of i starts|may be past the end"),
        ("0 <= j < 4", "0 <= j < 5", "may be past the end"),
        ("+ a1] where", "+ a1 + 1] where", "may be past the end"),
        ("in p: i64", "in p: f32", "loads f32 from p as i64"),
        ("  j: i32 = load q[0]\n", "", "argument j is not defined"),
    ],
)
def test_rules(old, new, problem):
    assert old in TEXT
    with pytest.raises((ParseError, VerifyError), match=problem):
        verify(parse(TEXT.replace(old, new, 1)))


def test_names():
    kernel = parse(TEXT)
    p, q, load = kernel.nests[0].values
    twice = replace(load, indices=(load.indices[0], replace(load.indices[0], size=4)))
    named = replace(load, indices=(replace(load.indices[0], value="a1"),))
    for values, problem in (
        ((p, q, twice), "index i is given twice"),
        ((replace(p, name="a1"), named), "index a1 has the name of a symbol or an axis"),
    ):
        with pytest.raises(VerifyError, match=problem):
            verify(replace(kernel, nests=(replace(kernel.nests[0], values=values),)))


def test_float_index():
    text = TEXT.replace("i64", "f32")
    with pytest.raises(VerifyError, match="index i is f32: expected an integer type"):
        verify(parse(text))


def test_meaning():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 4, 3)).astype(np.float32)
    p, q = np.array([0, 4, -1, -5, 2, 2]), np.array(3, np.int32)
    got = interpret(parse(TEXT), [x, p, q])["y"]
    np.testing.assert_array_equal(got, x[p, 3])


@pytest.mark.parametrize("p, q", [([5], 0), ([-6], 0), ([0], -1), ([0], 4)])
def test_outside(p, q):
    with pytest.raises(ValueError, match=r"kernel k, nest n0: index [ij] of v is not in (-5\.\.4|0\.\.3)"):
        interpret(parse(TEXT), [np.zeros((5, 4, 3), np.float32), np.array(p), np.array(q, np.int32)])


def test_axes_merge_where_the_index_allows():
    text = """\
kernel k(in t: f32[9, 6], in p: i64[4, 5], out y: f32[4, 5, 6])
nest n [a: 4, b: 5, c: 2, d: 3]
  i: i64 = load p[5*a + b]
  v: f32 = load t[6*i + 3*c + d] where 0 <= i < 9
  store y[30*a + 6*b + 3*c + d] = v
"""
    assert nest_to_text(canonical(parse(text)).nests[0]) == (
        "nest n [a0: 20, a1: 6]\n  i: i64 = load p[a0]\n  v: f32 = load t[6*i + a1] where 0 <= i < 9\n"
        "  store y[6*a0 + a1] = v"
    )


def test_symbols_are_renamed_in_pitch_and_size():
    kernel = parse(TEXT)
    bound = bind_symbols(kernel)
    assert not isinstance(bound, Reason)
    verify(bound)
    rows = expr.symbol(next(s.name for s in bound.symbols if (s.param, s.dim) == ("x", 0)))
    assert bound.nests[0].values[2].indices[0].size == rows


def test_random_inputs_are_rows():
    kernel = parse(TEXT)
    for seed in range(5):
        made = random_inputs(kernel, {"x": (3, 4, 2), "p": (50,), "q": ()}, seed)
        assert -3 <= made["p"].min() < 0 <= made["p"].max() < 3 and 0 <= made["q"] < 4
        interpret(kernel, made)
