"""Arithmetic: one-operand functions, binary operations, multiply-adds and selections."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchair_autofuse.host.ops.pointwise import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    ORDERED,
    common_dtype,
    down,
    one_element,
    pointwise,
    promoted,
    required_attr,
    up,
)
from torchair_autofuse.host.ops.registry import OpCall, op

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Erfc": torch.erfc,
    "Erfinv": torch.erfinv,
    "Expm1": torch.expm1,
    "Floor": torch.floor,
    "Inv": torch.reciprocal,
    "Log1p": torch.log1p,
    "Reciprocal": torch.reciprocal,
    "Rint": torch.round,  # ties to even
    "Rsqrt": torch.rsqrt,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}


def _register_unary(kind: str, function: Callable[[Tensor], Tensor]) -> None:
    pointwise(kind, arity=1)(lambda call, x: function(x))


for _kind, _function in _UNARY.items():
    _register_unary(_kind, _function)


@pointwise("Abs", arity=1, kinds=NUMBER)
def _abs(call: OpCall, x: Tensor) -> Tensor:
    return x.abs()


@pointwise("Neg", arity=1, kinds=NUMBER)
def _neg(call: OpCall, x: Tensor) -> Tensor:
    return -x


@pointwise("Sign", arity=1, kinds=ORDERED)
def _sign(call: OpCall, x: Tensor) -> Tensor:
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)  # 0 for NaN


@pointwise("Square", arity=1, kinds=NUMBER)
def _square(call: OpCall, x: Tensor) -> Tensor:
    return x * x


@pointwise("Trunc", arity=1, kinds=NUMBER)
def _trunc(call: OpCall, x: Tensor) -> Tensor:
    return x.trunc() if x.is_floating_point() else x


@pointwise("Round", arity=1, kinds=NUMBER)
def _round(call: OpCall, x: Tensor) -> Tensor:
    decimals = call.attr("decimals", 0)
    if not x.is_floating_point():
        if decimals < 0:
            raise ValueError("negative decimals of an integer tensor are not modelled")
        return x
    return torch.round(x, decimals=decimals)


def _affine(call: OpCall, x: Tensor) -> Tensor:
    scale, shift = call.attr("scale", 1.0), call.attr("shift", 0.0)
    if (scale, shift) == (1.0, 0.0) or x.dtype == torch.float64:  # the attrs count for f32, f16 and bf16 alone
        return x
    return x * scale + shift


def _log_of_base(call: OpCall, x: Tensor) -> float:
    """ln(base), 1 for the base -1 that stands for e. Raises ValueError for another base that is not positive."""
    base = call.attr("base", -1.0)
    if base == -1.0 or x.dtype == torch.float64:
        return 1.0
    if base <= 0:
        raise ValueError(f"base must be positive, or -1 for e, not {base}")
    return math.log(base)


@pointwise("Exp", arity=1)
def _exp(call: OpCall, x: Tensor) -> Tensor:
    log_base = _log_of_base(call, x)
    z = _affine(call, x)
    return torch.exp(z if log_base == 1.0 else z * log_base)


@op("Log")
def _log(call: OpCall) -> Tensor:
    x = call.tensor(0)
    dtype = x.dtype if x.dtype in FLOAT else torch.float32  # integers and bool give f32
    x = up(x) if x.dtype in FLOAT else x.float()
    log_base = _log_of_base(call, x)
    y = torch.log(_affine(call, x))
    return down(y if log_base == 1.0 else y / log_base, dtype)


@pointwise("NanToNum", arity=1)
def _nan_to_num(call: OpCall, x: Tensor) -> Tensor:
    return torch.nan_to_num(x, *(required_attr(call, name) for name in ("nan", "posinf", "neginf")))


# Attribute operands are f32 numbers; the result has the dtype of x.
def _by_attr(call: OpCall, x: Tensor, combine: Callable[[Tensor, float], Tensor]) -> Tensor:
    value = float(required_attr(call, "value"))
    if x.is_floating_point():
        return combine(x, value)
    if value.is_integer():
        return combine(x, int(value))
    return combine(x.to(torch.float32), value).to(x.dtype)


@pointwise("Adds", arity=1, kinds=NUMBER)
def _adds(call: OpCall, x: Tensor) -> Tensor:
    return _by_attr(call, x, lambda t, v: t + v)


@pointwise("Muls", arity=1, kinds=NUMBER)
def _muls(call: OpCall, x: Tensor) -> Tensor:
    return _by_attr(call, x, lambda t, v: t * v)


@pointwise("Power", arity=1)
def _power(call: OpCall, x: Tensor) -> Tensor:
    z = x * call.attr("scale", 1.0) + call.attr("shift", 0.0)
    return torch.pow(z, call.attr("power", 1.0))


# ---------------------------------------------------------------- two operands


# TorchAir's shape arithmetic adds the i32 of a Shape to an i64 constant.
@pointwise("Add", "AddV2", arity=2, kinds=NUMBER, promotes=INT)
def _add(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a + b


@pointwise("Sub", arity=2, kinds=NUMBER, promotes=INT)
def _sub(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a - b


@pointwise("Mul", arity=2, kinds=NUMBER | BOOL, promotes=NUMBER | BOOL)
def _mul(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a * b  # bool: and


@pointwise("MulNoNan", arity=2, kinds=NUMBER)
def _mul_no_nan(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == 0, torch.zeros_like(a), a * b)


@pointwise("SquaredDifference", arity=2, kinds=NUMBER)
def _squared_difference(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return (a - b) * (a - b)


def int_divide(a: Tensor, b: Tensor, rounding: str) -> Tensor:
    """Integer quotient, "trunc" or "floor". A zero divisor gives all ones (chips differ); min / -1 wraps."""
    safe = torch.where((b == 0) | (b == -1), torch.ones_like(b), b)
    quotient = torch.where(b == -1, -a, torch.div(a, safe, rounding_mode=rounding))
    return torch.where(b == 0, torch.full_like(quotient, -1), quotient)


def int_remainder(a: Tensor, b: Tensor, rounding: str) -> Tensor:
    """a minus quotient times b; all ones for a zero divisor, as in the public test references."""
    return torch.where(b == 0, torch.full_like(a, -1), a - int_divide(a, b, rounding) * b)


def _signed(a: Tensor) -> Tensor:
    return a.to(torch.int16) if a.dtype == torch.uint8 else a


def _int_quotient(a: Tensor, b: Tensor, rounding: str) -> Tensor:
    return int_divide(_signed(a), _signed(b), rounding)


def _int_rest(a: Tensor, b: Tensor, rounding: str) -> Tensor:
    return int_remainder(_signed(a), _signed(b), rounding)


@pointwise("Div", arity=2, kinds=ORDERED)
def _div(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else _int_quotient(a, b, "trunc")


@op("RealDiv")
def _real_div(call: OpCall) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    dtype = common_dtype(call, (a, b), ORDERED | BOOL)
    if dtype == torch.bool:
        return a.float() / b.float()
    return down(_div(call, up(a), up(b)), dtype)  # integers keep their dtype


@pointwise("DivNoNan", arity=2, kinds=ORDERED)
def _div_no_nan(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == 0, torch.zeros_like(a), _div(call, a, b))


@pointwise("FloorDiv", arity=2, kinds=ORDERED)
def _floor_div(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.floor(a / b) if a.is_floating_point() else _int_quotient(a, b, "floor")


@pointwise("TruncateDiv", arity=2, kinds=ORDERED)
def _truncate_div(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.trunc(a / b) if a.is_floating_point() else _int_quotient(a, b, "trunc")


@pointwise("FloorMod", arity=2, kinds=ORDERED)
def _floor_mod(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.remainder(a, b) if a.is_floating_point() else _int_rest(a, b, "floor")  # sign of b


@pointwise("Mod", "TruncateMod", arity=2, kinds=ORDERED)
def _mod(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.fmod(a, b) if a.is_floating_point() else _int_rest(a, b, "trunc")  # sign of a


@pointwise("Pow", arity=2, kinds=ORDERED, promotes=ORDERED)
def _pow(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a, b)


@pointwise("Pows", arity=2, scalars=1)
def _pows(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a, b)


@pointwise("Atan2", arity=2)
def _atan2(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.atan2(a, b)


@pointwise("Xdivy", arity=2)
def _xdivy(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a == 0, torch.zeros_like(a), a / b)


@pointwise("Xlogy", arity=2)
def _xlogy(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.where((a == 0) & ~b.isnan(), torch.zeros_like(a), a * torch.log(b))


@pointwise("Maximum", arity=2, kinds=ORDERED)
def _maximum(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b)  # NaN if either is


@pointwise("Minimum", arity=2, kinds=ORDERED)
def _minimum(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.minimum(a, b)


@op("AddN")
def _add_n(call: OpCall) -> Tensor:
    tensors = [call.tensor(i) for i in range(len(call.inputs))]
    dtype = common_dtype(call, tensors, NUMBER)
    total = up(tensors[0])
    for t in tensors[1:]:
        total = total + up(t)
    return down(total, dtype)


@op("BiasAdd")
def _bias_add(call: OpCall) -> Tensor:
    x, bias = call.tensor(0), call.tensor(1)
    dtype = common_dtype(call, (x, bias), NUMBER)
    last = call.attr("data_format", "NHWC") in ("NHWC", "NDHWC", "ND") or x.dim() <= 1
    shape = list(bias.shape) if last else [bias.numel()] + [1] * (x.dim() - 2)
    return down(up(x) + up(bias).reshape(shape), dtype)


# ---------------------------------------------------------------- three and more operands


@pointwise("ClipByValue", "ClipByValueV2", arity=3, kinds=ORDERED)
def _clip(call: OpCall, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, low), high)  # high where low > high; NaN propagates


@pointwise("Axpy", arity=2, kinds=NUMBER)
def _axpy(call: OpCall, a: Tensor, b: Tensor) -> Tensor:
    alpha = float(required_attr(call, "alpha"))
    if a.is_floating_point():
        return a + b * alpha
    return a + (b * int(alpha) if alpha.is_integer() else (b.to(torch.float32) * alpha).to(b.dtype))


@pointwise("AxpyV2", arity=3, kinds=NUMBER, scalars=1)
def _axpy_v2(call: OpCall, a: Tensor, b: Tensor, alpha: Tensor) -> Tensor:
    return a + alpha * b


@op("Sxpy")
def _sxpy(call: OpCall) -> Tensor:
    alpha = call.optional(2)
    a, b = promoted((call.tensor(0), call.tensor(1)))
    dtype = common_dtype(call, (a, b), NUMBER)
    scaled = up(b) if alpha is None else up(one_element(alpha, "alpha").to(dtype)) * up(b)
    return down(up(a) - scaled, dtype)


@pointwise("FusedMulAdd", arity=3, kinds=NUMBER)
def _fused_mul_add(call: OpCall, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


@pointwise("Addcmul", arity=4, kinds=NUMBER, scalars=1)
def _addcmul(call: OpCall, x: Tensor, a: Tensor, b: Tensor, value: Tensor) -> Tensor:
    return x + value * a * b


@pointwise("Addcdiv", arity=4, scalars=1)
def _addcdiv(call: OpCall, x: Tensor, a: Tensor, b: Tensor, value: Tensor) -> Tensor:
    return x + value * (a / b)


@pointwise("Lerp", arity=3)
def _lerp(call: OpCall, start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return start + weight * (end - start)
