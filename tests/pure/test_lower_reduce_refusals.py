"""What the lowering rules of reductions, norms and losses refuse, and why."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rule_harness import NAN, refusal, view

from torchair_autofuse.loop.expr import symbol

S = symbol("s0")
F32 = torch.float32
X, HALF, DOUBLE, INT = (
    torch.zeros(2, 3),
    *(torch.zeros(2, 3).to(d) for d in (torch.float16, torch.float64, torch.int32)),
)
C, AX = torch.zeros(3), torch.tensor([1])
ROW, SAME = [(F32, (2,))], [(F32, (2, 3))]

REFUSALS: list[tuple[str, list[torch.Tensor | None], dict[str, Any], list[Any], str, str]] = [
    ("ReduceSum", [DOUBLE, AX], {}, [(torch.float64, (2,))], "AF202", "input x0 is f64, a fused op takes f32"),
    ("ReduceMean", [INT, AX], {}, [(torch.int32, (2,))], "AF202", "input x0 is i32, a fused op takes f32, f16, bf16"),
    ("ReduceAny", [X, AX], {}, [(torch.bool, (2,))], "AF202", "input x0 is f32, a fused op takes bool"),
    ("ReduceSum", [X, torch.tensor([2])], {}, ROW, "AF218", "input x1 holds 2, which is no dim of a tensor of rank 2"),
    ("ReduceSum", [X, AX], {}, [(torch.float16, (2,))], "AF202", "result 0 is f16, expected f32"),
    ("ReduceSum", [X, AX], {"keep_dims": True}, ROW, "AF204", "result 0 has shape [2], expected [2, 1]"),
    ("ReduceSum", [None, AX], {}, ROW, "AF218", "required input x0 is absent"),
    ("ReduceSumD", [X], {}, ROW, "AF218", "required attribute axes is absent"),
    ("ReduceMaxD", [X], {"axes": []}, [(F32, ())], "AF218", "attribute axes is empty"),
    ("ReduceStdWithMean", [X, X], {"dim": [1], "invert": True}, ROW, "AF218", "attribute invert = True"),
    ("ReduceStdWithMean", [X, torch.zeros(2, 1)], {"dim": [1]}, ROW, "AF204",
     "input x1 has shape [2, 1], expected [2, 3]"),
    ("LpNormV2", [HALF], {"axes": [1]}, [(torch.float16, (2,))], "AF218", "attribute epsilon = 1e-12 on f16"),
    ("LpNormV2", [X], {"axes": [1], "p": NAN}, ROW, "AF218", "attribute p = nan"),
    ("ArgMaxWithValue", [X], {"dimension": [0, 1]}, [(torch.int32, ()), (F32, ())], "AF218",
     "over 2 dims, expected one"),
    ("ArgMin", [INT, AX], {}, [(torch.int64, (2,))], "AF202", "input x0 is i32"),
    ("SoftmaxV2", [HALF], {"half_to_float": True}, [(torch.float16, (2, 3))], "AF202", "is f16, expected f32"),
    ("SoftmaxV2", [X.bfloat16()], {"half_to_float": True}, SAME, "AF202", "result 0 is f32, expected bf16"),
    ("SoftmaxV2", [X], {"axes": []}, SAME, "AF218", "attribute axes is empty"),
    ("SoftmaxGrad", [X, C], {}, SAME, "AF204", "input x1 has shape [3], expected [2, 3]"),
    ("LayerNormV4", [X, AX, C, C], {}, [*SAME, *[(F32, (2, 1))] * 2], "AF204", "normalised shape [1] is not known"),
    ("LayerNormV4", [X, torch.tensor([3]), torch.zeros(1), C], {}, [*SAME, *[(F32, (2, 1))] * 2], "AF204",
     "input x2 has shape [1], expected [3]"),
    ("LayerNormV4", [X, torch.tensor([3])], {}, SAME, "AF218", "1 results, expected 3"),
    ("RmsNorm", [C, X], {}, [(F32, (3,)), (F32, (1,))], "AF218", "input x1 has rank 2, input 0 rank 1"),
    ("GroupNorm", [X, C, C], {"num_groups": 2}, [*SAME, *[(F32, (2, 2))] * 2], "AF218", "num_groups 2 is not known to"),
    ("GroupNorm", [X, C, C], {"num_groups": 0}, [*SAME, *[(F32, (2, 2))] * 2], "AF218", "attribute num_groups = 0"),
    ("BNInfer", [C, C, C, C, C], {}, [(F32, (3,))], "AF218", "input 0 has rank 1"),
    ("BNInfer", [X, C, C, C, torch.zeros(2)], {}, SAME, "AF204", "input x4 has shape [2], expected [3]"),
    ("MseLoss", [X, C], {}, [(F32, ())], "AF204", "input x1 has shape [3], expected [2, 3]"),
    ("MseLoss", [X, X], {"reduction": "batchmean"}, [(F32, ())], "AF218", "attribute reduction = 'batchmean'"),
    ("LpLoss", [X, X], {"p": 2}, [(F32, ())], "AF218", "attribute p = 2 is not supported, only 1"),
    ("MseLossGrad", [X, X, torch.zeros(2)], {}, SAME, "AF204", "input x2 has shape [2], expected [3]"),
    ("SmoothL1LossGradV2", [X, X, X], {"sigma": 0.0}, SAME, "AF218", "attribute sigma = 0.0"),
]  # fmt: skip


@pytest.mark.parametrize("kind, inputs, attrs, outputs, code, text", REFUSALS, ids=[r[0] + r[5][:20] for r in REFUSALS])
def test_refusals(
    kind: str, inputs: list[torch.Tensor | None], attrs: dict[str, Any], outputs: list[Any], code: str, text: str
) -> None:
    reason = refusal(view(kind, inputs, attrs, constants=(1,), outputs=outputs))
    assert reason is not None
    assert reason.code == code and text in reason.text and reason.text.startswith(f"{kind} node: "), str(reason)


def test_axes_that_are_not_constant() -> None:
    reason = refusal(view("ReduceSum", [X, AX], outputs=ROW))
    assert reason is not None and reason.code == "AF218" and "input x1 (the axes) is not a constant" in reason.text
    reason = refusal(view("LayerNormV4", [X, AX], outputs=[*SAME, *[(F32, (2, 1))] * 2]))
    assert reason is not None and "input x1 (the normalised shape) is not a constant" in reason.text
    reason = refusal(view("ArgMaxV2", [X, AX], outputs=[(torch.int64, (2,))]))
    assert reason is not None and "input dimension is not a constant" in reason.text


@pytest.mark.parametrize(
    "attrs, refused",
    [
        ({}, True), ({"data_format": "NHWC"}, True), ({"data_format": "NCHW"}, False),
        ({"data_format": "NHWC", "input_layout_info": [0, 1, 2]}, False),
        ({"data_format": "NHWC", "input_layout_info": ["NCHW", "ND", "ND"]}, False),
        ({"data_format": "NCHW", "input_layout_info": [b"ND", b"NHWC"]}, True),
    ],
)  # fmt: skip
def test_layout(attrs: dict[str, Any], refused: bool) -> None:
    x, c = torch.zeros(2, 4, 4, 4), torch.zeros(4)
    reason = refusal(view("GroupNorm", [x, c, c], {"num_groups": 2, **attrs}, outputs="inferred"))
    assert (reason is not None) == refused
    assert reason is None or "layout NHWC is not supported" in reason.text


def test_optional_inputs_without_a_gap() -> None:
    x, c = torch.zeros(2, 4), torch.zeros(4)
    op = view("GroupNormSilu", [x, c], {"num_groups": 2}, names=["x", "beta"], outputs="inferred")
    reason = refusal(op)
    assert reason is not None and "input beta stands at position 1, expected 2" in reason.text


@pytest.mark.parametrize("tail, fits", [((S,), False), ((64,), True)])
def test_symbolic_normalised_shape(tail: tuple[Any, ...], fits: bool) -> None:
    """A dim that may be another size than the one the op was built for is refused."""
    inputs = [X, torch.tensor([64]), X, X]
    op = view("LayerNormV4", inputs, constants=(1,), shapes=[(4, *tail), (1,), tail, tail], outputs="inferred")
    reason = refusal(op)
    assert (reason is None) == fits
    assert reason is None or reason.code == "AF204"
