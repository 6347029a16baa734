"""Views, what the lowering rules refuse and why, and that no op of the converter table or the graphs is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rule_harness import refusal, view, words

from torchair_autofuse.loop.expr import symbol
from torchair_autofuse.lower import RULES

S, T = symbol("s0"), symbol("s1")
X = torch.zeros(1)

VIEWS: list[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("Reshape", "reshape", (S, 4, 6), (S * 24,)),
    ("Reshape", "reshape", (2, 3), (3, 2)),
    ("Squeeze", "reshape", (S, 1, 6), (S, 6)),
    ("Unsqueeze", "reshape", (S, 6), (S, 1, 6)),
    ("ExpandDims", "reshape", (S, 6), (1, S, 6)),
    ("Flatten", "reshape", (2, S, 3), (2, S * 3)),
    ("FlattenV2", "reshape", (2, S, T), (2, S * T)),
    ("Identity", "reshape", (S, T), (S, T)),
    ("TensorMove", "reshape", (S, T), (S, T)),
    ("BroadcastTo", "broadcast", (1, S), (4, T, S)),
    ("Expand", "broadcast", (S, 1), (S, 8)),
    ("Tile", "broadcast", (S, 1), (2, S, 8)),
]


@pytest.mark.parametrize("kind, form, before, after", VIEWS, ids=[v[0] for v in VIEWS])
def test_views(kind: str, form: str, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    rule = RULES[kind]
    assert (rule.kind, rule.view, rule.data_inputs, rule.emit) == ("view", form, (0,), None)
    assert refusal(view(kind, [X], shapes=[before], shape=after)) is None


# ---- refusals ------------------------------------------------------------------------------------------------------


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


F64_, I32_, BOOL_ = (dict(dtype=d) for d in (torch.float64, torch.int32, torch.bool))

REFUSALS: list[tuple[str, list[torch.Tensor | None], dict[str, Any], str, str]] = [
    ("Add", [t(2, **F64_), t(2, **F64_)], {}, "AF202", "Add node: input x0 is f64, a fused op takes f32, f16"),
    ("Add", [t(2), t(2, **I32_)], {}, "AF202", "inputs of different dtypes, f32 and i32"),
    ("Add", [t(2), None], {}, "AF218", "required input x1 is absent"),
    ("Add", [t(2, **BOOL_), t(2, **BOOL_)], {}, "AF202", "input x0 is bool"),
    ("RealDiv", [t(2, **I32_), t(2, **I32_)], {}, "AF202", "input x0 is i32"),
    ("Exp", [t(2, **I32_)], {}, "AF202", "input x0 is i32"),
    ("Exp", [t(2)], {"base": -2.0}, "AF218", "attribute base = -2.0"),
    ("Log", [t(2)], {"base": 1.0}, "AF218", "attribute base = 1.0"),
    ("Pow", [t(2, **I32_), t(2, **I32_)], {}, "AF218", "needs a constant exponent"),
    ("Less", [t(2, **BOOL_), t(2, **BOOL_)], {}, "AF202", "input x0 is bool"),
    ("LogicalNot", [t(2)], {}, "AF202", "input x0 is f32"),
    ("Muls", [t(2, **I32_)], {"value": 0.5}, "AF218", "attribute value = 0.5 is not a value of i32"),
    ("Muls", [t(2)], {}, "AF218", "required attribute value is absent"),
    ("Adds", [t(2, dtype=torch.int8)], {"value": 300.0}, "AF218", "is not a value of i8"),
    ("Axpy", [t(2, **I32_), t(2, **I32_)], {"alpha": 0.5}, "AF218", "alpha = 0.5 is not a value of i32"),
    ("AxpyV2", [t(2), t(2), t(2)], {}, "AF218", "input x2 has shape [2], expected one element"),
    ("Addcmul", [t(2), t(2), t(2), t(1, 1)], {}, "AF218", "input x3 has shape [1, 1], expected one element"),
    ("AddN", [t(2, 3), t(3)], {}, "AF218", "does not broadcast"),
    ("SigmoidGrad", [t(2, 3), t(1, 3)], {}, "AF218", "does not broadcast"),
    ("GeluGrad", [t(2, 3), t(3), t(2, 3)], {}, "AF218", "does not broadcast"),
    (
        "PRelu",
        [t(2, 3, 3), t(3)],
        {},
        "AF218",
        "weight [3] of x [2, 3, 3]; expected one element, or the channels in dim 1",
    ),
    ("PRelu", [t(2, 3), t(2, 1)], {}, "AF218", "weight [2, 1] of x [2, 3]"),
    ("BiasAdd", [t(2, 3, 3), t(3)], {"data_format": "NCHW"}, "AF218", "bias [3] along the channels"),
    ("BiasAdd", [t(2, 3), t(3)], {"data_format": "NC1HWC0"}, "AF218", "data_format 'NC1HWC0'"),
    ("Celu", [t(2)], {"alpha3": 2.0}, "AF218", "alpha1..3"),
    ("CeluV2", [t(2)], {"alpha": 0.0}, "AF218", "attribute alpha = 0.0"),
    ("SoftShrink", [t(2)], {"lambd": -1.0}, "AF218", "attribute lambd = -1.0"),
    ("GeluV2", [t(2)], {"approximate": "quick"}, "AF218", "approximate = 'quick'"),
    ("Round", [t(2)], {"decimals": 2}, "AF218", "attribute decimals = 2"),
    ("ThresholdGradV2D", [t(2), t(2)], {}, "AF218", "required attribute threshold is absent"),
    ("SelectV2", [t(2), t(2), t(2)], {}, "AF202", "input x0 is f32, expected bool"),
    ("Select", [t(2, **BOOL_), t(2, 2), t(2, 2)], {}, "AF218", "only equal shapes"),
    ("MaskedFill", [t(2), t(2), t(1)], {}, "AF202", "input x1 is f32, expected bool"),
    ("MaskedFill", [t(2), t(2, **BOOL_), t(2)], {}, "AF218", "expected one element"),
    ("Cast", [t(2)], {}, "AF202", "dst_type = None"),
    ("Cast", [t(2)], {"dst_type": 11}, "AF202", "f64 is not supported"),
    ("Cast", [t(2)], {"dst_type": 16}, "AF202", "dst_type = 16 names no type"),
    ("Cast", [t(2)], {"dst_type": 1}, "AF202", "result is f32, but dst_type says f16"),
    ("ZerosLike", [t(2, **F64_)], {}, "AF202", "input x0 is f64"),
    ("Fills", [t(2, **I32_)], {"value": 0.5}, "AF218", "is not a value of i32"),
    ("Reshape", [t(2, **F64_)], {}, "AF202", "input x0 is f64"),
]


@pytest.mark.parametrize(
    "kind, inputs, attrs, code, text", REFUSALS, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSALS)]
)
def test_refusals(kind: str, inputs: list[torch.Tensor | None], attrs: dict[str, Any], code: str, text: str) -> None:
    out = inputs[1].dtype if kind in ("SelectV2", "Select") and inputs[1] is not None else None
    out = torch.bool if kind == "Less" else out
    reason = refusal(view(kind, inputs, attrs, out=out))
    assert reason is not None
    assert reason.code == code and text in reason.text and reason.text.startswith(f"{kind} node: "), str(reason)


@pytest.mark.parametrize(
    "kind, before, after, code",
    [
        ("Tile", (S, 2), (S, 4), "AF218"), ("Tile", (S,), (T,), "AF218"), ("BroadcastTo", (S, 4), (T, 4), "AF204"),
        ("BroadcastTo", (2, 4), (4,), "AF204"), ("Reshape", (S, 4), (T, 4), "AF205"), ("Identity", (S,), (T,), "AF204"),
    ],
)  # fmt: skip
def test_refused_views(kind: str, before: tuple[Any, ...], after: tuple[Any, ...], code: str) -> None:
    reason = refusal(view(kind, [X], shapes=[before], shape=after))
    assert reason is not None and reason.code == code, str(reason)


# ---- the table is complete -----------------------------------------------------------------------------------------

# elementwise, broadcast, view, generator and reducing ops of the converter table and of the captured graphs
TABLE = words("""
Abs Acos Acosh Add AddN AddV2 Addcdiv Addcmul Adds Asin Asinh Atan Atanh Axpy AxpyV2 BiasAdd BitwiseAnd BitwiseOr
BitwiseXor BroadcastTo Cast Ceil ClipByValueV2 Cos Cosh Div DivNoNan Elu Equal Erf Erfc Exp Expand ExpandDims Expm1
Fill Flatten FlattenV2 Floor FloorDiv FloorMod Gelu GeluGrad GeluV2 Greater GreaterEqual HardSigmoid HardSwish
Identity Inv Invert IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Lerp Less LessEqual Log Log1p LogSigmoid LogicalAnd
LogicalNot LogicalOr MaskedFill Maximum Minimum Mish Mod Mul Muls Neg NotEqual OnesLike PRelu Pow RealDiv Reciprocal
Relu ReluGrad Reshape Rint Round Rsqrt Select SelectV2 Sigmoid SigmoidGrad Sign Sin Sinh SoftplusV2 Sqrt Square
SquaredDifference Squeeze Sub Swish Sxpy Tan Tanh TanhGrad TensorMove ThresholdGradV2D ThresholdV2 Tile Trunc
Unsqueeze ZerosLike
ArgMaxV2 ArgMaxWithValue ArgMin ArgMinWithValue BNInfer BNInferGrad BNTrainingReduceGrad BNTrainingUpdateGrad GroupNorm
GroupNormV2 LayerNormV4 LogSoftmaxGrad LogSoftmaxV2 LpNormV2 MseLoss MseLossGrad ReduceAll ReduceAny ReduceLogSumExp
ReduceMax ReduceMean ReduceMeanWithCast ReduceStdV2 ReduceStdWithMean ReduceSum SoftmaxGrad SoftmaxV2
""")

REFUSED = {
    "Range": "an index turned into a value; small ones are computed on the host",
    "LinSpace": "as Range",
    "Tril": "decides by the position of the element",
    "Triu": "decides by the position of the element",
    "Eye": "decides by the position of the element",
    "OneHot": "compares with the position of the element",
    "Empty": "its contents are undefined",
    "Atan2": "no such instruction, and no form with the accuracy of the op",
    "Erfinv": "no such instruction",
    "LeftShift": "runs on the host processor of the device",
    "RightShift": "runs on the host processor of the device",
    "PReluGrad": "one of its results is a sum over most dims",
    "Bitcast": "re-reads bits, may change the shape",
    "DropOutDoMask": "the mask is packed in bits",
    "GLU": "halves a dim: lowered as slices",
    "AtenFallback": "stands for an op that has no converter",
    "LayerNormGradV3": "its results are sums over two different sets of dims",
    "RmsNormGrad": "as LayerNormGradV3",
    "NLLLoss": "picks an element by a class number",
    "NLLLossGrad": "as NLLLoss",
    "BatchNormV3": "overwrites the running statistics",
    "KLDiv": "its value where the target is not positive is open",
}

# families with their own lowering, and what launches no vector work
OTHER = words("""
AsStrided BatchMatMul Const Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv2DTranspose Cumsum Data
EmbeddingDenseGrad GatherElements MatMul MatMulV2 MaxPoolWithArgmaxV1 NetOutput RefData ResizeNearestNeighborV2
ScatterElements Shape Sort TopKV2
""")


def test_every_op_of_the_converter_table_has_a_rule() -> None:
    assert sorted(TABLE - set(RULES)) == []
    assert sorted(set(REFUSED) & set(RULES)) == [] and all(REFUSED.values())


def test_no_op_is_listed_twice() -> None:
    assert sorted(OTHER & (set(RULES) | set(REFUSED))) == []


def test_every_op_of_the_captured_graphs_is_accounted_for() -> None:
    from benchmarks import graphs

    types = {kind for manifest in graphs.manifests().values() for kind in manifest["op_types"]}
    assert len(types) > 50
    assert sorted(types - set(RULES) - set(REFUSED) - OTHER) == []


def test_rules_are_consistent() -> None:
    for kind, rule in RULES.items():
        assert rule.type == kind
        assert rule.kind in ("pointwise", "view", "reduce")
        is_view = rule.kind == "view"
        assert (rule.emit is None) == is_view == (rule.view in ("reshape", "broadcast", "move")) == bool(rule.view)
        assert (rule.movement is not None) == (rule.view == "move")
