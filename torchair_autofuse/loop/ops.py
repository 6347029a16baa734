"""The closed tables of pointwise ops and reduction combiners of the loop IR.

A lowering composes GE ops from these; the interpreter gives each its meaning on arrays, codegen its Ascend C
instructions. Arithmetic is defined on f32 (IEEE single, round to nearest even) and on integers (two's complement wrap).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PointwiseOp:
    """``kinds``: dtype kinds the arguments may have ("float" means f32 only). ``result``: "same" or "bool"."""

    name: str
    arity: int
    kinds: tuple[str, ...]
    result: str = "same"
    exact: bool = False  # the result is one of the arguments or its negation or magnitude: no rounding is added
    commutative: bool = False


_F = ("float",)
_FI = ("float", "int", "uint")
_ANY = ("float", "int", "uint", "bool")

POINTWISE: dict[str, PointwiseOp] = {
    op.name: op
    for op in (
        # arithmetic
        PointwiseOp("add", 2, _FI, commutative=True),
        PointwiseOp("sub", 2, _FI),
        PointwiseOp("mul", 2, _FI, commutative=True),
        PointwiseOp("div", 2, _F),  # IEEE quotient
        PointwiseOp("fmod", 2, _F),  # sign of the dividend
        PointwiseOp("floordiv", 2, ("int", "uint")),  # quotient rounded toward minus infinity
        PointwiseOp("truncdiv", 2, ("int", "uint")),
        PointwiseOp("floormod", 2, ("int", "uint")),  # sign of the divisor
        PointwiseOp("pow", 2, _F),
        PointwiseOp("max", 2, _FI, exact=True, commutative=True),  # NaN if either is NaN
        PointwiseOp("min", 2, _FI, exact=True, commutative=True),
        PointwiseOp("neg", 1, _FI, exact=True),
        PointwiseOp("abs", 1, _FI, exact=True),
        # rounding to integral values
        PointwiseOp("floor", 1, _F, exact=True),
        PointwiseOp("ceil", 1, _F, exact=True),
        PointwiseOp("rint", 1, _F, exact=True),  # half to even
        PointwiseOp("trunc", 1, _F, exact=True),
        # transcendental
        PointwiseOp("exp", 1, _F),
        PointwiseOp("log", 1, _F),
        PointwiseOp("sqrt", 1, _F),
        PointwiseOp("rsqrt", 1, _F),  # 1 / sqrt(x)
        PointwiseOp("reciprocal", 1, _F),  # 1 / x
        PointwiseOp("tanh", 1, _F),
        PointwiseOp("sigmoid", 1, _F),
        PointwiseOp("erf", 1, _F),
        PointwiseOp("sin", 1, _F),
        PointwiseOp("cos", 1, _F),
        PointwiseOp("tan", 1, _F),
        PointwiseOp("asin", 1, _F),
        PointwiseOp("acos", 1, _F),
        PointwiseOp("atan", 1, _F),
        PointwiseOp("sinh", 1, _F),
        PointwiseOp("cosh", 1, _F),
        PointwiseOp("asinh", 1, _F),
        PointwiseOp("acosh", 1, _F),
        PointwiseOp("atanh", 1, _F),
        # comparison (false when an operand is NaN, except ne)
        PointwiseOp("lt", 2, _FI, "bool"),
        PointwiseOp("le", 2, _FI, "bool"),
        PointwiseOp("gt", 2, _FI, "bool"),
        PointwiseOp("ge", 2, _FI, "bool"),
        PointwiseOp("eq", 2, _ANY, "bool", commutative=True),
        PointwiseOp("ne", 2, _ANY, "bool", commutative=True),
        # logical
        PointwiseOp("and", 2, ("bool",), "bool", commutative=True),
        PointwiseOp("or", 2, ("bool",), "bool", commutative=True),
        PointwiseOp("not", 1, ("bool",), "bool"),
        # bitwise
        PointwiseOp("bitand", 2, ("int", "uint"), commutative=True),
        PointwiseOp("bitor", 2, ("int", "uint"), commutative=True),
        PointwiseOp("bitxor", 2, ("int", "uint"), commutative=True),
        PointwiseOp("bitnot", 1, ("int", "uint")),
        # choice: select(condition: bool, a, b); a and b have the dtype of the result
        PointwiseOp("select", 3, _ANY, exact=True),
    )
}


@dataclass(frozen=True)
class Combiner:
    """A reduction: ``arity`` argument values, ``results`` component values. ``kinds`` of the arguments as above.

    ``merge``: the pointwise op that makes the result of a set of the results of two parts of it, "" where none does.
    """

    name: str
    arity: int
    results: int
    kinds: tuple[str, ...]
    merge: str = ""


COMBINERS: dict[str, Combiner] = {
    c.name: c
    for c in (
        Combiner("sum", 1, 1, _FI, "add"),
        Combiner("prod", 1, 1, _FI, "mul"),
        Combiner("max", 1, 1, _FI, "max"),
        Combiner("min", 1, 1, _FI, "min"),
        Combiner("any", 1, 1, ("bool",), "or"),
        Combiner("all", 1, 1, ("bool",), "and"),
        Combiner("argmax", 1, 2, _FI),  # (value, index of its first occurrence as i32)
        Combiner("welford", 1, 2, _F),  # (mean, sum of squared deviations)
        Combiner("maxsumexp", 1, 2, _F),  # (maximum m, sum of exp(x - m))
    )
}
