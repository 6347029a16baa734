"""Rows of the losses and their gradients."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.host.op_rows import Row, gradients, i32, ints, pos, r, row, s64

INF = float("inf")


def _losses() -> list[Row]:
    x, y, w = r(4, 5), r(4, 5), pos(4, 5)
    p, t = pos(4, 5) * 0.8, pos(4, 5) * 0.8
    rows = []
    for how in ("none", "mean", "sum"):
        a = {"reduction": how}
        share = 20.0 if how == "mean" else 1.0
        one = r() if how != "none" else r(4, 5)
        rows += [
            row("MseLoss", lambda x, y, h=how: F.mse_loss(x, y, reduction=h), {"predict": x, "label": y}, a, half=True),
            row(
                "MseLossGrad",
                lambda x, y, g, h=how: gradients(lambda x: F.mse_loss(x, y, reduction=h), [x], g)[0],
                {"predict": x, "label": y, "dout": one},
                a,
            ),
            row(
                "LpLoss",
                lambda x, y, h=how: F.l1_loss(x, y, reduction=h),
                {"predict": x, "label": y},
                {"p": 1, **a},
                half=True,
            ),
            row(
                "L1LossGrad",
                lambda g, x, y, h=how: gradients(lambda x: F.l1_loss(x, y, reduction=h), [x], g)[0],
                {"grads": one, "predict": x, "label": y},
                a,
            ),
            row(
                "SmoothL1LossV2",
                lambda x, y, h=how: F.smooth_l1_loss(x, y, reduction=h, beta=0.5),
                {"predict": x, "label": y},
                {"sigma": 0.5, **a},
                half=True,
            ),
            row(
                "SmoothL1LossGradV2",
                lambda x, y, g, h=how: gradients(lambda x: F.smooth_l1_loss(x, y, reduction=h, beta=0.5), [x], g)[0],
                {"predict": x, "label": y, "dout": one},
                {"sigma": 0.5, **a},
            ),
            row("KLDivV2", lambda x, t, h=how: _kl_div(x, t, h), {"x": y, "target": t}, a),
            row(
                "KLDivV2",
                lambda x, t, h=how: _kl_div(x, t.exp(), h),
                {"x": y, "target": y * 0.5},
                {"log_target": True, **a},
            ),
            row(
                "BinaryCrossEntropy", lambda x, y, h=how: F.binary_cross_entropy(x, y, reduction=h), {"x": p, "y": t}, a
            ),
            row(
                "BinaryCrossEntropy",
                lambda x, y, w, h=how: F.binary_cross_entropy(x, y, w, reduction=h),
                {"x": p, "y": t, "weight": w},
                a,
                half=True,
            ),
            row(
                "BinaryCrossEntropyGrad",
                lambda x, y, g, w, s=share: g.expand(4, 5) * w * (-y / x + (1 - y) / (1 - x)) / s,
                {"x": p, "y": t, "grad_output": one, "weight": w},
                a,
                tolerance=1e-5,
            ),
            row(
                "SigmoidCrossEntropyWithLogitsV2",
                lambda x, y, h=how: F.binary_cross_entropy_with_logits(x, y, reduction=h),
                {"predict": x, "target": t},
                a,
            ),
            row(
                "SigmoidCrossEntropyWithLogitsV2",
                lambda x, y, w, q, h=how: F.binary_cross_entropy_with_logits(x, y, w, reduction=h, pos_weight=q),
                {"predict": x, "target": t, "weight": w, "pos_weight": pos(5) * 3},
                a,
            ),
            row(
                "SoftMarginLoss",
                lambda x, y, h=how: F.soft_margin_loss(x, y, reduction=h),
                {"input_x": x, "input_y": y.sign()},
                a,
                half=True,
            ),
        ]
        for weight in (None, pos(5)):
            for shape in ((6, 5), (2, 5, 3, 2)):
                ids = ints(0, 5, *shape[:1], *shape[2:])
                ids.reshape(-1)[0] = 2
                logits = r(*shape).log_softmax(1)
                loss = F.nll_loss(logits, ids, weight, ignore_index=2, reduction=how)
                each = torch.ones(5) if weight is None else weight
                total = each[ids].masked_fill(ids == 2, 0.0).sum()
                attrs = {"ignore_index": 2, **a}
                rows += [
                    row(
                        "NLLLoss",
                        lambda x, t, w, h=how: [
                            F.nll_loss(x, t.long(), w, ignore_index=2, reduction=h),
                            total_of(t, w),
                        ],
                        {"x": logits, "target": ids.int(), "weight": weight},
                        attrs,
                    ),
                    row(
                        "NLLLossGrad",
                        lambda x, g, t, w, _, h=how: gradients(
                            lambda x: F.nll_loss(x, t.long(), w, ignore_index=2, reduction=h), [x], g
                        )[0],
                        {
                            "x": logits,
                            "y_grad": torch.randn_like(loss) if how == "none" else one,
                            "target": ids.int(),
                            "weight": each,
                            "total_weight": total,
                        },
                        attrs,
                    ),
                ]
    return [
        *rows,
        row(
            "NLLLoss",
            lambda x, t: [torch.tensor(math.nan), torch.tensor(0.0)],
            {"x": r(2, 3), "target": i32(-100, -100)},
        ),
        row("NLLLoss", lambda x, t: [-x[1], torch.tensor(1.0)], {"x": r(3), "target": s64(1)}),
        row(
            "SmoothL1Loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), {"predict": x, "label": y}, half=True
        ),
        row(
            "SmoothL1LossGrad",
            lambda x, y, g: gradients(lambda x: F.smooth_l1_loss(x, y, reduction="none"), [x], g)[0],
            {"predict": x, "label": y, "dout": r(4, 5)},
            half=True,
        ),
        row(
            "KLDiv",
            lambda x, t: F.kl_div(x, t, reduction="batchmean"),
            {"x": y, "target": F.relu(x)},
            {"reduction": "batchmean"},
        ),
        row(
            "BinaryCrossEntropy",
            lambda x, y: torch.tensor(50.0),
            {"x": torch.tensor([0.0, 1.0]), "y": torch.tensor([1.0, 1.0])},
        ),
        row(
            "SigmoidCrossEntropyWithLogits",
            lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
            {"predict": x * 40, "target": t},
            half=True,
        ),
        row(
            "SigmoidCrossEntropyWithLogitsGrad",
            lambda x, t, g: gradients(lambda x: F.binary_cross_entropy_with_logits(x, t, reduction="none"), [x], g)[0],
            {"predict": x, "target": t, "dout": r(4, 5)},
            half=True,
        ),
        row(
            "SoftmaxCrossEntropyWithLogits",
            lambda x, q: [F.cross_entropy(x, q, reduction="none"), x.softmax(-1) - q],
            {"features": x, "labels": t.softmax(-1)},
            half=True,
        ),
        row(
            "SparseSoftmaxCrossEntropyWithLogits",
            lambda x, q: [F.cross_entropy(x, q.long(), reduction="none"), x.softmax(-1) - F.one_hot(q.long(), 5)],
            {"features": x, "labels": ints(0, 5, 4, dtype=torch.int32)},
            half=True,
        ),
    ]


def _kl_div(x: torch.Tensor, target: torch.Tensor, how: str) -> torch.Tensor:
    each = F.kl_div(x, target, reduction="none")
    return each if how == "none" else each.sum() / (each.numel() if how == "mean" else 1)


def total_of(target: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """The sum of the weights of targets other than 2."""
    each = torch.ones(5) if weight is None else weight
    return sum((each[c] * (target == c).sum() for c in range(5) if c != 2), torch.tensor(0.0))


ROWS = _losses()
