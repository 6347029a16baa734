"""The text form: what is printed parses back to an equal kernel; errors name line and column."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from kernels import kernels

from torchair_autofuse.dtypes import F32
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Const
from torchair_autofuse.loop.parser import ParseError, parse
from torchair_autofuse.loop.printer import index_to_text, to_text
from torchair_autofuse.loop.verify import verify

TEXT = """\
kernel scale(in x: f32[s0, 64], in w: f16[64], out y: f16[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f32 = load x[64*a0 + a1]
  v1: f32 = const -0.5
  v2: f32 = mul(v0, v1)                   # from Mul_1, "a, b"
  m, s: f32, f32 = reduce welford(v2) over (a1)
  v3: i32 = iota -4*a0 + (s0 + 1)*a1 - 3
  v4: bool = const true
  v5: f16 = cast(v2, rint)                # from Cast
  store y[64*a0 + a1] = v5                # from Cast
"""


def origins(kernel):
    return [n.origin for nest in kernel.nests for n in (*nest.values, *nest.stores)]


def test_golden_text_is_read_and_printed():
    kernel = parse(TEXT)
    assert to_text(kernel) == TEXT
    assert origins(kernel)[2] == ("Mul_1", "a, b")
    assert kernel.nests[0].values[2].args == ("v0", "v1")
    assert kernel.nests[0].stores[0].strides == (("a0", 64), ("a1", 1))
    assert "# from" not in to_text(kernel, origin=False)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_round_trip(kernel):
    verify(kernel)
    again = parse(to_text(kernel))
    assert again == kernel and hash(again) == hash(kernel)
    assert origins(again) == origins(kernel)
    assert to_text(again) == to_text(kernel)
    assert parse(to_text(kernel, origin=False)) == kernel


def test_long_header_and_comments():
    inputs = ", ".join(f"in a_long_parameter_name_{i}: f32[s0, {i}]" for i in range(8))
    kernel = parse(f"# about\nkernel k({inputs}) where s0 = a_long_parameter_name_0.0  # end\n\n# no nest\n")
    text = to_text(kernel)
    assert max(map(len, text.splitlines())) < 110 and parse(text) == kernel


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, 0.1, 3.4028234663852886e38])
def test_float_constants(value):
    kernel = parse(TEXT.replace("-0.5", repr(value)))
    found = kernel.nests[0].values[1].value
    assert repr(found) == repr(value)
    assert parse(to_text(kernel)) == kernel


def test_constants_differ_by_sign_of_zero():
    assert Const("v", 0.0, F32) != Const("v", -0.0, F32)
    assert Const("v", math.nan, F32) == Const("v", float("nan"), F32)


@pytest.mark.parametrize(
    "strides, offset, text",
    [
        ((), 0, "0"),
        ((), expr.symbol("s0"), "s0"),
        ((("a", 1), ("b", -1)), 0, "a - b"),
        ((("a", -2),), -3, "-2*a - 3"),
        (
            (("a", expr.parse("s0 + s1")), ("b", expr.parse("-s0"))),
            expr.parse("2*s0 - 1"),
            "(s0 + s1)*a - s0*b + 2*s0 - 1",
        ),
    ],
)
def test_index_text(strides, offset, text):
    assert index_to_text(strides, offset) == text


@pytest.mark.parametrize(
    "old, new, line, column, problem",
    [
        ("kernel scale", "kern scale", 1, 1, '"kernel"'),
        ("in x: f32", "in x: f33", 1, 20, "unknown type"),
        ("in w:", "inn w:", 1, 33, '"in" or "out"'),
        ("s0 = x.0", "s0 = x", 1, 80, "expected '.'"),
        ("a1: 64]", "a1: 64", 2, 24, "']'"),
        ("load x[64*a0 + a1]", "load x[64*a0*a1]", 3, 20, "not affine"),
        ("load x[64*a0 + a1]", "load x[a0*a0]", 3, 20, "not affine"),
        ("load x[64*a0 + a1]", "load x[64*a0 + ]", 3, 20, "not a size expression"),
        ("const -0.5", "const half", 4, 19, "constant of type f32"),
        ("mul(v0, v1)", "mul(v0 v1)", 5, 20, "expected ','"),
        ("mul(v0, v1)", "mul(v0, v1) v2", 5, 25, "end of the line"),
        ("over (a1)", "for (a1)", 6, 39, '"over"'),
        ("v5: f16 = cast(v2, rint)", "v5: f16 = cast(v2)", 9, 20, "expected ','"),
        ("v5: f16 = cast(v2, rint)", "v5, v6: f16, f16 = cast(v2, rint)", 9, 22, "only a reduce"),
        ("nest n0", "nset n0", 2, 1, '"nest"'),
        ("const true", "const True", 8, 20, "constant of type bool"),
    ],
)  # fmt: skip
def test_errors_name_line_and_column(old, new, line, column, problem):
    assert old in TEXT
    with pytest.raises(ParseError) as e:
        parse(TEXT.replace(old, new, 1))
    assert (e.value.line, e.value.column) == (line, column), str(e.value)
    assert problem in str(e.value)


def test_value_after_store():
    with pytest.raises(ParseError, match="line 11, column 3: a value after a store"):
        parse(TEXT + "  v9: i32 = const 1\n")


BAD = ["9**9**9", "(s0 + s1)**9", "f(s0)", "s0.x", "1.5", "s0/s1", "", "(" * 500, "'a'", "s0 if s1 else 2"]
GOOD = ["64*s0 + 3", "floor(s0/2)", "Mod(s0, 8)", "s0**2*s1 - 4", "Min(5, s0)", "s1*floor(s0/2 + 1/2)", "-s0", "17"]


@pytest.mark.parametrize("text", BAD)
def test_expression_parser_refuses(text):
    with pytest.raises(ValueError, match="not a size expression"):
        expr.parse(text)


@pytest.mark.parametrize("text", GOOD)
def test_expression_round_trip(text):
    e = expr.parse(text)
    assert expr.to_str(e) == text and expr.parse(expr.to_str(e)) == e


def test_quotient_of_floors():
    a, b = expr.parse("4*s1*floor(s0/2)"), expr.parse("2*s1")
    assert expr.equal(expr.quotient(a, b), expr.parse("2*floor(s0/2)"))
    assert expr.quotient(expr.symbol("s0"), 2) is None


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("Max(0, s0 - 2) + Min(2, s0)", "s0", True), ("Max(0, s0 - 40) + Min(40, s0)", "s0", True),
        ("Max(0, s0 - s1) + Min(s0, s1)", "s0", True), ("Max(0, s0*s1 - 3) + Min(3, s0*s1)", "s0*s1", True),
        ("Min(1, s0)", "s0", False), ("Min(1, s0)", "1", False), ("Max(0, 2*s0 - s1) + Min(2*s0, s1)", "s0", False),
        ("Max(0, s0 - 1)", "s0 - 1", False),
    ],
)  # fmt: skip
def test_equal_sizes_of_slices(left: str, right: str, same: bool) -> None:
    a, b = expr.parse(left), expr.parse(right)
    assert expr.equal(a, b) == expr.equal(b, a) == same
    grid = [{"s0": m, "s1": n} for m in (0, 1, 2, 3, 50) for n in (0, 1, 4, 60)]
    assert all(expr.evaluate(a, v) == expr.evaluate(b, v) for v in grid) == same
