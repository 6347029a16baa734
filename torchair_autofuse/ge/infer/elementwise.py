"""Inference rules of element-by-element ops: unary, broadcasting, comparison, activation gradients, quantisation."""

from __future__ import annotations

from torchair_autofuse.dtypes import BOOL, F16, F32, F64, I8, I32, U8, DType
from torchair_autofuse.ge.infer import values as v
from torchair_autofuse.ge.infer.registry import Call, ObjectArray, Unknown, rule, to_array
from torchair_autofuse.ge.infer.shapes import broadcast_inputs

_ALL = broadcast_inputs()


def common_dtype(call: Call) -> DType:
    """The dtype that all tensor operands share: TorchAir promotes with explicit Casts."""
    found = {call.dtype(i) for i in range(len(call.inputs)) if call.has(i)}
    if len(found) != 1:
        raise Unknown(f"operands of different dtypes: {', '.join(sorted(d.name for d in found))}")
    return found.pop()


def promoted_dtype(call: Call) -> DType:
    """For ops whose output type is the promotion of their input types (Mul, Pow, Sxpy)."""
    found = call.dtype(0)
    for i in range(1, len(call.inputs)):
        if call.has(i):
            found = _promote(found, call.dtype(i))
    return found


def _promote(a: DType, b: DType) -> DType:
    if a == b:
        return a
    if a.is_float and b.is_float:
        return F64 if F64 in (a, b) else F32
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.kind == b.kind == "int":
        return a if a.itemsize > b.itemsize else b
    raise Unknown(f"operands of different dtypes: {a}, {b}")


def _real_quotient_dtype(call: Call) -> DType:
    """Of integers the op's documentation and its use for sizes disagree: unknown."""
    dtype = common_dtype(call)
    if dtype.is_int:
        raise Unknown("true division of integers")
    return F32 if dtype == BOOL else dtype


def _identity_value(call: Call, dtype: DType) -> ObjectArray:
    return call.array(0)


def _logical(call: Call, dtype: DType) -> ObjectArray:
    conjunction = call.node.type == "LogicalAnd"
    return v.elementwise(lambda a, b, _: (a and b) if conjunction else (a or b))(call, dtype)


def _logical_not(call: Call, dtype: DType) -> ObjectArray:
    array = call.array(0)
    return to_array([not e for e in array.reshape(-1)], array.shape)


# one tensor in, the same shape and dtype out
rule(
    "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Erfc Erfinv Exp Expm1 Floor Inv Invert Log Log1p LogSigmoid "
    "Reciprocal Rint Round Rsqrt Sign Sin Sinh Sqrt Square Tan Tanh Trunc Sigmoid "
    "Relu Relu6 LeakyRelu Elu Celu CeluV2 Selu Gelu GeluV2 FastGelu FastGeluV2 Swish Mish HardSwish HardSigmoid "
    "HardShrink SoftShrink Softplus SoftplusV2 Softsign Threshold ThresholdV2 NanToNum Adds Muls Power Pows Fills "
    "Tril Triu DropOutDoMask DropOutDoMaskV3 StopGradient ReverseV2 Roll Cumsum Cumprod CumsumD "
    "FakeQuantWithMinMaxVars",
    0,
)
rule("Neg", 0, 0, v.elementwise(v.NEG))
rule("Abs", 0, 0, v.elementwise(v.ABS))
rule("TensorMove", 0, 0, _identity_value)
rule("IsInf IsNan IsFinite", 0, BOOL)
rule("LogicalNot", 0, BOOL, _logical_not)
rule("Cast", 0, lambda call: call.ge_dtype("dst_type", None), v.cast_value)

# broadcasting
rule("Add AddV2", _ALL, common_dtype, v.elementwise(v.ADD))
rule("Sub", _ALL, common_dtype, v.elementwise(v.SUB))
rule("Mul", _ALL, promoted_dtype, v.elementwise(v.MUL))
rule("Div TruncateDiv DivNoNan", _ALL, common_dtype, v.elementwise(v.DIV))
rule("RealDiv", _ALL, _real_quotient_dtype, v.elementwise(v.REALDIV))
rule("FloorDiv", _ALL, common_dtype, v.elementwise(v.FLOORDIV))
rule("FloorMod", _ALL, common_dtype, v.elementwise(v.FLOORMOD))
rule("Mod TruncateMod", _ALL, common_dtype, v.elementwise(v.MOD))
rule("Maximum", _ALL, common_dtype, v.elementwise(v.MAXIMUM))
rule("Minimum", _ALL, common_dtype, v.elementwise(v.MINIMUM))
rule("Pow", _ALL, promoted_dtype, v.elementwise(v.POW))
rule(
    "Atan2 MulNoNan SquaredDifference Xdivy Xlogy BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift "
    "FusedMulAdd Axpy BiasAdd",
    _ALL,
    common_dtype,
)
rule("Greater", _ALL, BOOL, v.elementwise(v.GREATER))
rule("GreaterEqual", _ALL, BOOL, v.elementwise(v.GREATER_EQUAL))
rule("Less", _ALL, BOOL, v.elementwise(v.LESS))
rule("LessEqual", _ALL, BOOL, v.elementwise(v.LESS_EQUAL))
rule("Equal", _ALL, BOOL, v.elementwise(v.EQUAL))
rule("NotEqual", _ALL, BOOL, v.elementwise(v.NOT_EQUAL))
rule("LogicalAnd LogicalOr", _ALL, BOOL, _logical)

# the first operand decides the dtype; the others are scalars or masks that may differ
rule("Addcdiv Addcmul Lerp ClipByValue ClipByValueV2", _ALL, 0)
rule("Sxpy", broadcast_inputs(0, 1), promoted_dtype)
rule("AxpyV2", broadcast_inputs(0, 1), 0)
rule("MaskedFill", broadcast_inputs(0, 1), 0)
rule("SelectV2", _ALL, 1, v.select_value)
rule("Select", 1, 1)
rule("PRelu", 0)

# gradients of activations: (dy, x, ...) or (y, dy), all of one shape
rule(
    "AcosGrad AsinGrad EluGrad EluGradV2 FastGeluGrad GeluGrad GeluGradV2 HardShrinkGrad HardSigmoidGrad "
    "HardSwishGrad HardtanhGrad MishGrad ReciprocalGrad Relu6Grad ReluGrad ReluGradV2 RsqrtGrad SeluGrad SigmoidGrad "
    "SiluGrad SoftShrinkGrad SoftplusGrad SoftplusV2Grad SqrtGrad SwishGrad TanhGrad ThresholdGradV2D InvGrad "
    "LeakyReluGrad LogSigmoidGrad",
    broadcast_inputs(0, 1),
    0,
)
rule("PReluGrad", [0, 2], [0, 0])

# rotary embeddings
rule("RotaryMul RotaryPositionEmbedding InterleaveRope", 0)
rule("ApplyRotaryPosEmb", [0, 1], [0, 1])
# the first input is x in one, dy in the other: the same shape
rule("RotaryMulGrad RotaryPositionEmbeddingGrad", [0, 1, 2], [0, 1, 2])

# quantisation
_QUANTIZE = {"torch.qint8": I8, "torch.quint8": U8, "torch.qint32": I32}
rule("AscendQuant", 0, lambda call: call.ge_dtype("dst_type", I8))
rule("AscendQuantV2", 0, lambda call: call.ge_dtype("dst_type", I8))
rule("AscendRequant", 0, I8)
rule("AscendAntiQuantV2", 0, lambda call: call.ge_dtype("dst_type", F16))
rule("Dequantize", 0, F32)
rule("Quantize", 0, lambda call: _QUANTIZE.get(str(call.attr("dtype", ""))))
