"""What the vector unit can do for each op of the loop IR: the table behind legality and instruction selection.

Types are the compute types of values in UB. Both chips are served by the instructions common to 2201 and 3510
(reference: Ascend C API lists); what only one of them has is not used yet.
"""

from __future__ import annotations

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8, DType
from torchair_autofuse.messages import Reason

# two-source instruction with the meaning of the op
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min"}
# tensor with scalar
BINARY_SCALAR = {"add": "Adds", "mul": "Muls", "max": "Maxs", "min": "Mins"}
# one-source instruction
UNARY = {"exp": "Exp", "log": "Ln", "sqrt": "Sqrt", "abs": "Abs"}
# rounding of f32 to integral values is a Cast from float to float
ROUNDING = {"floor": "CAST_FLOOR", "ceil": "CAST_CEIL", "rint": "CAST_RINT", "trunc": "CAST_TRUNC"}
# high-level call -> factor of the temporary buffer that gives it full speed (in units of the source's bytes)
HIGH_LEVEL = {
    "tanh": ("Tanh", 1), "erf": ("Erf", 3), "sin": ("Sin", 3), "cos": ("Cos", 3), "atan": ("Atan", 5),
    "sinh": ("Sinh", 1), "cosh": ("Cosh", 2),
}  # fmt: skip
# the calls for these are documented for a part of the op's domain only
NARROW_DOMAIN = frozenset({"tan", "asin", "acos", "asinh", "acosh", "atanh"})
# combiner -> (two-source instruction that folds, instruction that reduces the lanes of a repeat, "" if there is none)
REDUCE = {
    "sum": ("Add", "WholeReduceSum"), "max": ("Max", "WholeReduceMax"), "min": ("Min", "WholeReduceMin"),
    "prod": ("Mul", ""), "any": ("Max", "WholeReduceMax"), "all": ("Min", "WholeReduceMin"),
}  # fmt: skip
# (combiner, type that is folded) -> identity
IDENTITY = {
    ("sum", "float"): "0.0f", ("prod", "float"): "1.0f",
    ("max", "float"): "-__builtin_inff()", ("min", "float"): "__builtin_inff()",
    ("sum", "int32_t"): "0", ("prod", "int32_t"): "1",
    ("max", "int32_t"): "(-2147483647 - 1)", ("min", "int32_t"): "2147483647",
    ("any", "half"): "(half)0", ("all", "half"): "(half)1",
}  # fmt: skip
_REDUCED = {F32: ("sum", "max", "min", "prod", "welford", "maxsumexp"), I32: ("sum", "max", "min", "prod"),
            BOOL: ("any", "all")}  # fmt: skip
COMPARE = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE"}
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}

_F32_OPS = frozenset(
    {
        *BINARY,
        *UNARY,
        *ROUNDING,
        *HIGH_LEVEL,
        *COMPARE,
        "neg",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "pow",
        "fmod",
        "select",
    }
)
_I32_OPS = frozenset(
    {"add", "sub", "mul", "max", "min", "neg", "abs", *COMPARE, "select"} | {"bitand", "bitor", "bitxor", "bitnot"}
)
_I16_OPS = frozenset({"add", "sub", "mul", "max", "min", "neg", "abs", "bitand", "bitor", "bitxor", "bitnot"})
_BOOL_OPS = frozenset({"and", "or", "not", "eq", "ne", "select"})

OPS: dict[DType, frozenset[str]] = {F32: _F32_OPS, I32: _I32_OPS, I16: _I16_OPS, BOOL: _BOOL_OPS}

# (source, destination) -> chain of (destination type, round mode) Cast instructions; "" = the mode of the IR Cast
_CASTS: dict[tuple[DType, DType], tuple[tuple[str, str], ...]] = {
    (F16, F32): (("float", "NONE"),),
    (BF16, F32): (("float", "NONE"),),
    (F32, F16): (("half", ""),),
    (F32, BF16): (("bfloat16_t", ""),),
    (F32, I32): (("int32_t", ""),),
    (F32, I64): (("int64_t", ""),),
    (I32, F32): (("float", "RINT"),),
    (I32, I64): (("int64_t", "NONE"),),
    (I64, F32): (("float", "RINT"),),
    (I16, F32): (("float", "NONE"),),
    (I16, I32): (("float", "NONE"), ("int32_t", "TRUNC")),
    (I8, F32): (("half", "NONE"), ("float", "NONE")),
    (U8, F32): (("half", "NONE"), ("float", "NONE")),
    (I8, I32): (("half", "NONE"), ("int32_t", "TRUNC")),
    (U8, I32): (("half", "NONE"), ("int32_t", "TRUNC")),
}
# types that Brcb and Copy can repeat along an axis
REPEATABLE = frozenset({"float", "half", "bfloat16_t", "int32_t", "uint32_t", "int16_t", "uint16_t"})
# type of a constant -> type that is filled in UB, and the Cast mode to its own ("" where they are the same)
FILLS = {F32: (F32, ""), F16: (F16, ""), BF16: (F32, "RINT"), I32: (I32, ""), I16: (I16, ""), I64: (I32, "NONE"),
         U8: (F16, "NONE"), I8: (F16, "NONE")}  # fmt: skip
_FROM_BOOL = frozenset({F32, I32, I64, U8})
_TO_BOOL = frozenset({F32, I32, I64, U8, I8, I16})


def cast_chain(source: DType, target: DType) -> tuple[tuple[str, str], ...] | None:
    """The Cast instructions between two numeric types, or None if the chip has no exact way."""
    return _CASTS.get((source, target))


def reduces_lanes(combiner: str, cpp: str) -> bool:
    """Whether an instruction reduces the lanes of a repeat."""
    return bool(REDUCE[combiner][1]) and cpp in ("float", "half")


def supports_op(op: str, dtype: DType) -> Reason | None:
    """Why a pointwise op on operands of ``dtype`` has no instructions, or None if it has."""
    if op in OPS.get(dtype, frozenset()):
        return None
    if op in NARROW_DOMAIN and dtype == F32:
        return Reason("AF202", f"the Ascend C call for {op} covers only a part of the op's domain")
    return Reason("AF202", f"no vector instructions for {op} on {dtype}")


def supports_reduce(combiner: str, dtype: DType) -> Reason | None:
    """Why a reduction of values of ``dtype`` has no instructions, or None if it has."""
    if combiner in _REDUCED.get(dtype, ()):
        return None
    return Reason("AF202", f"no vector instructions for a {combiner} reduction of {dtype}")


def supports_const(value: float | int | bool, dtype: DType) -> Reason | None:
    """Why a constant cannot be written to UB, or None if it can."""
    if dtype == BOOL or (dtype in FILLS and (dtype != I64 or -(2**31) <= value < 2**31)):
        return None
    return Reason("AF202", f"no instruction fills UB with the {dtype} constant {value}")


def supports_cast(source: DType, target: DType) -> Reason | None:
    """Why a conversion has no exact instructions, or None if it has."""
    if source == BOOL:
        known = target in _FROM_BOOL
    elif target == BOOL:
        known = source in _TO_BOOL
    else:
        known = (source, target) in _CASTS
    return None if known else Reason("AF202", f"no exact conversion from {source} to {target} on this chip")
