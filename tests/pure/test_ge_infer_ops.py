"""One row per op form: what goes in, which shapes, dtypes and values come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from ge_build import GraphBuilder

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from torchair_autofuse.ge.graph import TensorRef
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.infer.registry import RULES
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import symbol

S, T = symbol("s"), symbol("t")
HALF = expr.floordiv(S, 2)
ROWS = expr.add(expr.floordiv(expr.add(S, -1), 2), 1)


@dataclass(frozen=True)
class D:
    """A Data input."""

    shape: tuple[Any, ...]
    dtype: DType = F32


@dataclass(frozen=True)
class C:
    """A Const input."""

    value: Any
    dtype: DType = I64


@dataclass(frozen=True)
class Case:
    """``out``: (dtype, shape) per output; None is unknown. ``value``: of output 0."""

    type: str
    inputs: tuple[D | C | None, ...]
    out: tuple[tuple[DType | None, tuple[Any, ...] | None], ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    value: tuple[Any, ...] | None = None
    names: tuple[str, ...] = ()


def one(
    op_type: str, inputs: tuple[D | C | None, ...], result: DType | None, shape: Any, value: Any = None, /, **attrs: Any
) -> Case:
    return Case(op_type, inputs, ((result, shape),), attrs, value)


X = D((2, 3, 4))
NCHW = D((2, 6, 9, 8))
CONV = dict(strides=[1, 1, 2, 2], pads=[1, 1, 0, 1], dilations=[1, 1, 1, 1], groups=1, data_format="NCHW")

CASES = [
    # elementwise and broadcast
    one("Relu", (D((S, 3), BF16),), BF16, (S, 3)),
    one("Add", (D((S, 1, 4)), D((3, 1))), F32, (S, 3, 4)),
    one("Add", (C([3, 4]), C(2)), I64, (2,), (5, 6)),
    one("Add", (C(2**31 - 1, I32), C(1, I32)), I32, (), None),  # wraps: not a size
    one("Sub", (C(7), C(9)), I64, (), (-2,)),
    one("Mul", (C(0.1, F32), C(0.1, F32)), F32, (), (0.010000000707805157,)),
    one("Mul", (D((4,), F16), C(2.0, F32)), F32, (4,)),
    one("Mul", (C(3, I32), C(5)), I64, (), (15,)),
    one("Sub", (D((4,), F16), D((4,), F32)), None, (4,)),
    one("Sub", (C(3, I32), C(5)), None, (), (-2,)),
    one("FloorDiv", (C(-7), C(2)), I64, (), (-4,)),
    one("Div", (C(-7), C(2)), I64, (), None),  # rounding of a negative quotient is open
    one("Div", (C(-8), C(2)), I64, (), (-4,)),
    one("Div", (C(7), C(2)), I64, (), (3,)),
    one("FloorDiv", (C(7), C(0)), I64, (), None),
    one("FloorMod", (C(-7), C(4)), I64, (), (1,)),
    one("Mod", (C(7), C(4)), I64, (), (3,)),
    one("Mod", (C(-7), C(4)), I64, (), None),
    one("RealDiv", (C(1.0, F32), C(3.0, F32)), F32, (), (0.3333333432674408,)),
    one("RealDiv", (C(8), C(2)), None, (), (4,)),
    one("Maximum", (C(3), C(5)), I64, (), (5,)),
    one("Minimum", (C(float("nan"), F32), C(5.0, F32)), F32, (), None),
    one("Pow", (C(3), C(2)), I64, (), (9,)),
    one("Neg", (C([1, -2]),), I64, (2,), (-1, 2)),
    one("Abs", (C(-1.5, F32),), F32, (), (1.5,)),
    one("Greater", (D((4, 1), BF16), D((5,), BF16)), BOOL, (4, 5)),
    one("LogicalAnd", (C(True, BOOL), C(False, BOOL)), BOOL, (), (False,)),
    one("LogicalNot", (C(True, BOOL),), BOOL, (), (False,)),
    one("IsInf", (X,), BOOL, (2, 3, 4)),
    one("SelectV2", (D((3, 1), BOOL), D((1, 4)), C(0.0, F32)), F32, (3, 4)),
    one("MaskedFill", (D((2, 3), F16), D((3,), BOOL), C(0.0, F32)), F16, (2, 3)),
    one("ClipByValueV2", (D((4,), F16), C(0.0, F16), C(1.0, F16)), F16, (4,)),
    one("PRelu", (NCHW, D((6,))), F32, (2, 6, 9, 8)),
    one("Sxpy", (C(1.0, F32), X), F32, (2, 3, 4)),
    one("GeluGrad", (X, X, X), F32, (2, 3, 4)),
    Case("PReluGrad", (NCHW, NCHW, D((6,))), ((F32, (2, 6, 9, 8)), (F32, (6,)))),
    # casts
    one("Cast", (D((S,)),), F16, (S,), dst_type=1),
    one("Cast", (C(2.7, F32),), I32, (), (2,), dst_type=3),
    one("Cast", (C(-2.7, F32),), I64, (), (-2,), dst_type=9),
    one("Cast", (C(1.0009765625, F32),), BF16, (), (1.0,), dst_type=27),
    one("Cast", (C(300),), I8, (), None, dst_type=2),
    one("Cast", (C([0, 2]),), BOOL, (2,), (False, True), dst_type=12),
    one("Cast", (C(True, BOOL),), F32, (), (1.0,), dst_type=0),
    one("Cast", (C(float("inf"), F32),), I64, (), None, dst_type=9),
    one("Cast", (X,), None, (2, 3, 4), dst_type=9999),
    # reductions
    one("ReduceSum", (D((2, S, 4)), C([1])), F32, (2, 4)),
    one("ReduceSum", (D((2, S, 4)), C([-1, 0])), F32, (1, S, 1), keep_dims=True),
    one("ReduceSum", (C([[1, 2], [3, 4]]), C([0])), I64, (2,), (4, 6)),
    one("ReduceProd", (C([2, 3, 4]), C([0])), I64, (1,), (24,), keep_dims=True),
    one("ReduceMax", (C([2, 9, 4]), C(0)), I64, (), (9,)),
    one("ReduceMean", (X, C([], I64)), F32, (2, 3, 4), noop_with_empty_axes=True),
    one("ReduceMean", (X, C([], I64)), F32, (), noop_with_empty_axes=False),
    one("ReduceMean", (X, C([], I64)), F32, None),
    one("ReduceAny", (D((2, 3), BOOL), C([1])), BOOL, (2,)),
    one("ReduceMeanWithCast", (D((2, 3), F16), C([1])), F32, (2,), dtype=0),
    one("LpNormV2", (X,), F32, (), axes=[], keepdim=False),
    one("ReduceStdWithMean", (X, X), F32, (2, 3, 1), dim=[-1], keepdim=True),
    Case("ArgMaxWithValue", (D((2, 5), F16),), ((I32, (2,)), (F16, (2,))), dict(dimension=1, keep_dims=False)),
    one("ArgMaxV2", (D((2, 5)), C(-1)), I32, (2,), dtype=3),
    one("ArgMaxV2", (D((2, 5)), C(0)), I64, (5,)),
    Case("TopKV2", (D((2, 5), F16), C(3, I32)), ((F16, (2, 3)), (I32, (2, 3))), dict(dim=-1)),
    Case("Sort", (D((2, 5)),), ((F32, (2, 5)), (I64, (2, 5))), dict(y2_dtype=9)),
    # losses
    one("MseLoss", (X, X), F32, (), reduction="mean"),
    one("MseLoss", (X, X), F32, (2, 3, 4), reduction="none"),
    Case("NLLLoss", (D((6, 9)), D((6,), I64), D((9,))), ((F32, (6,)), (F32, ())), dict(reduction="none")),
    Case("DynamicQuant", (D((2, 7), F16),), ((I8, (2, 7)), (F32, (2,)))),
    # norms
    Case("LayerNormV4", (D((2, S, 8), F16), C([8]), D((8,)), D((8,))), ((F16, (2, S, 8)), *[(F32, (2, S, 1))] * 2)),
    Case("LayerNormV4", (D((2, 3, 4)), C([3, 4])), ((F32, (2, 3, 4)), *[(F32, (2, 1, 1))] * 2)),
    Case("LayerNormGradV3", (X, X, X, X, D((4,))), ((F32, (2, 3, 4)), (F32, (4,)), (F32, (4,)))),
    Case("LayerNormGradV3", (*[D((2, 4), F16)] * 4, D((4,), F16)), ((F16, (2, 4)), (None, (4,)), (None, (4,)))),
    Case("GroupNorm", (NCHW, D((6,)), D((6,))), ((F32, (2, 6, 9, 8)), *[(F32, (2, 3))] * 2), dict(num_groups=3)),
    Case("RmsNorm", (D((2, 5, 8), BF16), D((8,), BF16)), ((BF16, (2, 5, 8)), (F32, (2, 5, 1)))),
    Case("AddRmsNorm", (X, X, D((4,))), ((F32, (2, 3, 4)), (F32, (2, 3, 1)), (F32, (2, 3, 4)))),
    one("SoftmaxV2", (D((2, 3), F16),), F32, (2, 3), axes=[-1], half_to_float=True),
    one("BNInfer", (NCHW, *[D((6,))] * 4), F32, (2, 6, 9, 8), epsilon=1e-5),
    Case("BNTrainingUpdateGrad", (NCHW, NCHW, D((6,)), D((6,))), ((F32, (6,)), (F32, (6,)))),
    Case("BatchNormV3", (D((2, 6, 4), F16), *[D((6,))] * 4), ((F16, (2, 6, 4)), *[(F32, (6,))] * 4)),
    # views
    one("Reshape", (D((2, S, 4)), C([0, -1])), F32, (2, expr.mul(4, S))),
    one("Reshape", (D((S, 6)), C([-1, 3])), F32, (expr.mul(2, S), 3)),
    one("Reshape", (X, C([-1, 5])), F32, None),
    one("Reshape", (D((S, 0, 4)), C([0, 4, 2])), F32, (0, 4, 2)),
    one("Reshape", (D((2, 0, 4)), C([0, 0, 8])), F32, (2, 0, 8)),
    one("Reshape", (X, C([12])), F32, None, axis=1, num_axes=2),
    one("Reshape", (X, C([-1, -1])), F32, None),
    one("Reshape", (C([1, 2, 3, 4]), C([2, 2])), I64, (2, 2), (1, 2, 3, 4)),
    one("Squeeze", (D((1, 3, 1)),), F32, (3,), axis=[]),
    one("Squeeze", (D((1, 3, 1)),), F32, (1, 3), axis=[-1]),
    one("Squeeze", (D((1, S)),), F32, None, axis=[]),
    one("Squeeze", (D((1, 3)),), F32, None, axis=[1]),
    one("Unsqueeze", (D((3, 4)),), F32, (1, 3, 4, 1), axes=[0, -1]),
    one("ExpandDims", (D((3, 4)), C(1)), F32, (3, 1, 4)),
    one("FlattenV2", (D((2, S, 4)),), F32, (2, expr.mul(4, S)), axis=1, end_axis=-1),
    one("Flatten", (X,), F32, (2, 12), axis=1),
    one("Bitcast", (D((4,), I32),), F32, (4,), type=F32),
    one("Bitcast", (D((4,), I32),), F16, None, type=F16),
    # moves
    one("BroadcastTo", (D((3, 1)), C([2, -1, 4])), F32, (2, 3, 4)),
    one("BroadcastTo", (C(7), C([2])), I64, (2,), (7, 7)),
    one("BroadcastTo", (D((3,)), C([4])), F32, None),
    one("Expand", (D((3, 1)), C([2, 3, 4])), F32, (2, 3, 4)),
    one("Tile", (D((S, 3)), C([2, 1, 2])), F32, (2, S, 6)),
    one("Tile", (C([1, 2]), C([2])), I64, (4,), (1, 2, 1, 2)),
    one("Transpose", (D((2, S, 4)), C([2, 0, 1])), F32, (4, 2, S)),
    one("Transpose", (X, C([0, 0, 1])), F32, None),
    one("ConcatV2", (D((2, S)), D((2, 3)), C(-1)), F32, (2, expr.add(S, 3))),
    one("ConcatV2", (D((S, 3)), D((2, 3)), C(1)), F32, (2, 6)),
    one("ConcatV2", (C([1]), C([2, 3]), C(0)), I64, (3,), (1, 2, 3)),
    one("ConcatV2", (D((2,)), D((2,), F16), C(0)), None, (4,)),
    one("ConcatD", (D((2, 3)), D((2, 3))), F32, (4, 3), concat_dim=0),
    one("Pack", (C(1), C(2)), I64, (2,), (1, 2), axis=0),
    one("Pack", (X, X), F32, (2, 3, 4, 2), axis=-1),
    Case("SplitV", (D((2, S)), C([3, -1]), C(1, I32)), ((F32, (2, 3)), (F32, (2, expr.add(S, -3))))),
    Case("Split", (C(0, I32), D((6, 2))), ((F32, (3, 2)), (F32, (3, 2)))),
    Case("Unpack", (D((2, S)),), ((F32, (S,)), (F32, (S,))), dict(axis=0, num=2)),
    one("StridedSliceV2", (D((S, 8)), C([2]), C([2**31 - 1]), C([1]), C([3])), F32, (S, 2)),
    one("StridedSliceV2", (D((6, 8)), C([1, -3]), C([100, -1])), F32, (5, 2)),
    one("StridedSliceV2", (C([5, 6, 7]), C([-2]), C([3]), C([0]), C([1])), I64, (2,), (6, 7)),
    one("StridedSliceV2", (D((S,)), C([0]), C([2**31 - 1]), C([0]), C([2])), F32, (expr.floordiv(expr.add(S, 1), 2),)),
    one("StridedSliceV2", (D((6,)), C([0]), C([6]), C([0]), C([-1])), F32, None),
    one("StridedSliceV2", (D((6,)), C([0]), C([6])), F32, None, shrink_axis_mask=1),
    one("StridedSliceV2", (D((6,)), C([2]), C([4])), F32, (4,), begin_mask=1),
    one("Slice", (D((6, S)), C([1, 2]), C([3, -1])), F32, (3, expr.add(S, -2))),
    one("PadV3", (D((2, S)), C([0, 0, 1, 2])), F32, (2, expr.add(S, 3)), mode="constant"),
    one("PadV3", (D((2, 5)), C([0, 1, 0, 2])), F32, (2, 8), paddings_contiguous=False),
    # shapes and generators
    one("Shape", (D((2, S)),), I64, (2,), (2, S), dtype=9),
    one("Shape", (D((2, 3)),), I32, (2,), (2, 3)),
    one("Size", (D((2, S)),), I32, (), (expr.mul(2, S),)),
    one("Rank", (D((2, S)),), I32, (), (2,)),
    one("Fill", (C([2, 2]), C(1.5, F16)), F16, (2, 2), (1.5,) * 4),
    one("Fill", (C([200]), C(0)), I64, (200,)),
    one("ZerosLike", (D((2,), BOOL),), BOOL, (2,), (False, False)),
    one("Range", (C(0), C(7), C(2)), I64, (4,), (0, 2, 4, 6)),
    one("Range", (C(5), C(0), C(-2)), I64, (3,), (5, 3, 1)),
    one("Range", (C(3), C(3), C(1)), I64, (0,), ()),
    one("Range", (C(0, I32), C(7), C(1, I32)), F32, (7,)),
    one("Range", (C(0.0, F32), C(1.0, F32), C(0.3, F32)), F32, (4,)),
    one("LinSpace", (C(0.0, F32), C(1.0, F32), C(5)), F32, (5,)),
    one("LinSpace", (C(0), C(1), C(5)), None, (5,)),
    one("Empty", (C([2, 3]),), F16, (2, 3), dtype=1),
    one("OneHot", (D((4,), I64), C(10, I32), C(1.0, F32), C(0.0, F32)), F32, (4, 10), axis=-1),
    # index
    one("GatherV2", (D((9, 8)), D((2, S), I64), C(0)), F32, (2, S, 8)),
    one("GatherV2", (D((2, 9, 8)), C(3), C(1)), F32, (2, 8)),
    one("Gather", (C([5, 6, 7]), C(1)), I64, (), (6,)),
    one("Gather", (C([5, 6, 7]), C([2, 0])), I64, (2,), (7, 5)),
    one("Gather", (C([5, 6, 7]), C(3)), I64, (), None),
    one("GatherV2", (C([5, 6, 7]), C(-1), C(0)), I64, (), (7,), negative_index_support=True),
    one("GatherElements", (D((9, 8)), D((2, 8), I64)), F32, (2, 8), dim=0),
    one("GatherNd", (D((9, 8, 7)), D((3, 2), I64)), F32, (3, 7)),
    one("IndexByTensor", (D((9, 8, 7)), D((3, 1), I64), D((4,), I64)), F32, (3, 4, 7), indices_mask=[1, 1, 0]),
    one("IndexByTensor", (D((9, 8, 7)), D((3,), I64), D((3,), I64)), F32, (3, 8), indices_mask=[1, 0, 1]),
    one("IndexByTensor", (D((9, 8, 7)), D((3,), I64)), F32, (9, 3, 7), indices_mask=[0, 1]),
    one("IndexByTensor", (D((9,)), D((9,), BOOL)), F32, None, indices_mask=[1]),
    one("ScatterElements", (D((4, 5), F16), D((4, 1), I64), D((4, 1), F16)), F16, (4, 5), axis=1),
    one("EmbeddingDenseGrad", (D((2, 5, 8)), D((2, 5), I64)), F32, (100, 8), num_weights=100),
    one("RepeatInterleave", (D((2, 3)), C([4])), F32, (2, 12), axis=1),
    one("MaskedSelect", (X, D((2, 3, 4), BOOL)), F32, None),
    one("Where", (X,), I64, None),
    # cube, pooling, resizing
    one("MatMulV2", (D((S, 8), F16), D((8, 4), F16), None, None), F16, (S, 4)),
    one("MatMulV2", (D((8, 5)), D((4, 8)), D((4,)), None), F32, (5, 4), transpose_x1=True, transpose_x2=True),
    one("MatMulV2", (D((5, 8), I8), D((8, 4), I8)), I32, (5, 4)),
    one("BatchMatMul", (D((2, 1, 5, 8)), D((3, 4, 8))), F32, (2, 3, 5, 4), adj_x2=True),
    Case("Conv2D", (NCHW, D((5, 6, 3, 3)), None), ((F32, (2, 5, 5, 4)),), CONV),
    Case("Conv2D", (D((2, 6, S, 8)), D((5, 6, 3, 3)), None), ((F32, (2, 5, ROWS, 4)),), CONV),
    one(
        "Conv2DTranspose", (C([0, 0, 0, 0]), D((2, 6, 5, 4)), D((6, 3, 4, 4))), F32, (2, 3, 10, 8),
        strides=[1, 1, 2, 2], pads=[1, 1, 1, 1], dilations=[1, 1, 1, 1], data_format="NCHW",
        output_padding=[0, 0, 0, 0],
    ),
    one("Conv2DBackpropInput", (C([2, 6, 9, 8]), D((5, 6, 3, 3)), D((2, 5, 5, 4))), F32, (2, 6, 9, 8)),
    one("Conv2DBackpropFilter", (NCHW, C([5, 6, 3, 3]), D((2, 5, 5, 4))), F32, (5, 6, 3, 3)),
    Case(
        "MaxPoolWithArgmaxV1", (NCHW,), ((F32, (2, 6, 5, 4)), (I32, (2, 6, 5, 4))),
        dict(ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], pads=[1, 1, 1, 1]),
    ),
    one("AvgPoolV2", (NCHW,), F32, (2, 6, 4, 4), ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], pads=[0, 0, 0, 0]),
    one("AvgPoolV2", (NCHW,), F32, (2, 6, 1, 1), ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], global_pooling=True),
    one("AdaptiveAvgPool2d", (NCHW,), F32, (2, 6, 3, 3), output_size=[3, 3]),
    one("ResizeNearestNeighborV2", (NCHW, C([18, 16], I32)), F32, (2, 6, 18, 16)),
    one("SwiGlu", (D((2, S), BF16),), BF16, (2, HALF), dim=-1),
    Case("GeGluV2", (D((2, 8)),), ((F32, (2, 4)), (F32, (2, 4)))),
    one("Quantize", (D((4,)), D((1,)), None), I8, (4,), dtype="torch.qint8"),
    one("Dequantize", (D((4,), U8), D((1,)), D((1,))), F32, (4,)),
    one("StatelessDropOutGenMask", (C([4]), C(0.5, F32), C(1, I32), C(1, I32)), U8, None),
    one("Tan", (D((2,), F64),), F64, (2,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.type}-{CASES.index(c)}")
def test_op(case: Case) -> None:
    b = GraphBuilder()
    given: dict[int, tuple[Any, ...]] = {}
    inputs = []
    for item in case.inputs:
        if isinstance(item, D):
            given[len(given)] = item.shape
            inputs.append(b.data([d if isinstance(d, int) else -1 for d in item.shape], item.dtype))
        else:
            inputs.append("" if item is None else b.const(item.value, item.dtype))
    b.op(case.type, *inputs, outputs=len(case.out), name="op", **case.attrs)
    b.output(*(f"op:{i}" for i in range(len(case.out))))
    graph = infer(b.read(), given)
    found = [graph.info(TensorRef("op", i)) for i in range(len(case.out))]
    assert [(i.dtype, i.shape) for i in found] == list(case.out), graph.notes
    assert found[0].value == case.value


def test_every_registered_op_has_one_spec_per_output() -> None:
    for kind, rule in RULES.items():
        if isinstance(rule.shapes, tuple) and isinstance(rule.dtypes, tuple):
            assert len(rule.shapes) == len(rule.dtypes), kind
