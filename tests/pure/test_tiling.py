"""Tiling expressions as text: what to_cpp prints, parse reads back; anything else is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchair_autofuse.loop import expr
from torchair_autofuse.schedule.tiling import Let, Op, TilingError, Var, evaluate, from_expr, parse, to_cpp, to_text

BINARY = ("add", "sub", "mul", "floordiv", "flooring", "mod", "ceildiv", "min", "max", "roundup", "rounddown")
LEAVES = st.one_of(
    st.integers(-(2**62), 2**62), st.integers(0, 9), st.sampled_from(["s0", "core_num", "ub_bytes", "_x9"]).map(Var)
)
TREES = st.recursive(
    LEAVES,
    lambda t: st.one_of(
        st.tuples(st.sampled_from(BINARY), st.tuples(t, t)).map(lambda x: Op(*x)),
        st.tuples(t, t, t).map(lambda x: Op("select", x)),
    ),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(TREES)
def test_text_reads_back(tree):
    assert parse(to_cpp(tree)) == tree
    assert parse(to_text(tree)) == tree


def test_every_operation_evaluates_as_its_text_says():
    rows = [
        ("(a + b)", 9), ("(a - b)", 5), ("(a * b)", 14), ("(a / b)", 3), ("(a % b)", 1), ("CeilDiv(a, b)", 4),
        ("FloorDiv((b - a), b)", -3),
        ("Min(a, b)", 2), ("Max(a, b)", 7), ("RoundUp(a, b)", 8), ("RoundDown(a, b)", 6), ("(a > 0 ? 5 : 6)", 5),
        ("((a - a) > 0 ? 5 : 6)", 6), ("3000000000L", 3000000000), ("a * -1", -7), (" Min( a ,b ) ", 2),
    ]  # fmt: skip
    for text, value in rows:
        assert evaluate([Let("r", parse(text))], {"a": 7, "b": 2})["r"] == value, text


def test_sizes_that_may_be_negative_are_divided_as_python_does():
    s0 = expr.symbol("s0")
    assert to_cpp(from_expr(expr.floordiv(expr.add(s0, -1), 2))) == "FloorDiv((-1 + s0), 2)"
    assert to_cpp(from_expr(expr.floordiv(expr.add(s0, 1), 2))) == "((1 + s0) / 2)"
    for size in (expr.floordiv(expr.add(s0, -3), 4), expr.mod(expr.add(s0, -3), 4)):
        for value in (0, 1, 2, 3, 4, 9):
            found = evaluate([Let("r", from_expr(size))], {"s0": value}, checked=True)["r"]
            assert found == expr.evaluate(size, {"s0": value})


@pytest.mark.parametrize(
    "text, problem",
    [
        ("(a * a)", "mul of 4294967296 and 4294967296 is no int64"),
        ("(b / (b - b))", "floordiv of 3 and 0"),
        ("((b - a) / 2)", "floordiv of -4294967293 and 2"),
        ("((b - a) % 2)", "mod of -4294967293 and 2"),
        ("CeilDiv(a, (0 - b))", "ceildiv of 4294967296 and -3"),
    ],
)
def test_what_cpp_would_compute_otherwise_is_refused(text, problem):
    steps = [Let("first", 1), Let("r", parse(text))]
    with pytest.raises(TilingError, match=problem) as caught:
        evaluate(steps, {"a": 1 << 32, "b": 3}, checked=True)
    assert caught.value.step == "r"
    assert evaluate([Let("r", parse("((b - 9) / 2)"))], {"b": 3}, checked=True)["r"] == -3  # exact


def test_sizes_survive():
    s0, s1 = expr.symbol("s0"), expr.symbol("s1")
    for size in (expr.mul(s0, s1, 3), expr.add(expr.mul(s0, s0), -4), expr.floordiv(s0, 8), expr.mod(s1, 6)):
        tree = from_expr(size)
        again = parse(to_cpp(tree))
        assert again == tree
        assert evaluate([Let("r", again)], {"s0": 19, "s1": 5})["r"] == expr.evaluate(size, {"s0": 19, "s1": 5})


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "a b", "a +", "(a", "a)", "a + b + c", "Min(a)", "Min(a, b, c)", "Pow(a, b)", "a ? b : c",
        "a > 1 ? b : c", "a > 0 ? b", "1.5", "-a", "12ab", "a = 1", "a; b", "a->b", "f()", "Min(a, b", "a == b",
        "__import__('os')", "0x10", "99999999999999999999", "(" * 500 + "a" + ")" * 500, "a" * 20000,
        "Min(" * 400 + "a" + ", a)" * 400,
    ],
)  # fmt: skip
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="not a tiling expression"):
        parse(text)


@pytest.mark.parametrize("text", ["Min(6, 2*s0)/2", "Max(0, Min(6, 2*s0) - Min(2, 2*s0))/2", "s0*(s0 + 1)/2 + 3"])
def test_sizes_with_a_fraction_are_exact_quotients(text):
    """Half of what is known to be even has no floor left; a sum of halves is one quotient, not several."""
    tree = from_expr(expr.parse(text))
    for s0 in range(8):
        value = evaluate([Let("r", tree)], {"s0": s0})["r"]
        assert value == expr.evaluate(expr.parse(text), {"s0": s0}) and isinstance(value, int)
