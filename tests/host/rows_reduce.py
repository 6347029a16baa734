"""Rows of the reductions, softmax and gated units."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.host.op_rows import Row, gradients, i32, i64, ints, pos, r, row

INF = float("inf")


def _reductions() -> list[Row]:
    table = {
        "ReduceSum": lambda x, d, k: torch.sum(x, d, keepdim=k),
        "ReduceMean": lambda x, d, k: torch.mean(x, d, keepdim=k),
        "ReduceMax": lambda x, d, k: torch.amax(x, d, keepdim=k),
        "ReduceMin": lambda x, d, k: torch.amin(x, d, keepdim=k),
        "ReduceLogSumExp": lambda x, d, k: torch.logsumexp(x, d, keepdim=k),
        "EuclideanNorm": lambda x, d, k: torch.linalg.vector_norm(x, dim=d, keepdim=k),
    }
    rows = []
    for op, f in table.items():
        for axes, keep in ((i64(-1), False), (i32(0, 2), True), (i64(1), True), (i64(0, -1, 1), False)):
            attrs, dims = {"keep_dims": keep}, tuple(axes.tolist())
            x = {"x": r(3, 4, 5), "axes": axes}
            rows.append(row(op, lambda x, a, f=f, d=dims, k=keep: f(x, d, k), x, attrs, half=True))
        rows.append(row(op, lambda x, a, f=f: f(x, (0,), False), {"x": r(1), "axes": i64(0)}))
        rows.append(row(op, lambda x, a, f=f: f(x, (), False), {"x": r(), "axes": i64(-1)}))
    every = {
        "ReduceSum": torch.sum,
        "ReduceMean": torch.mean,
        "ReduceMax": torch.max,
        "ReduceMin": torch.min,
        "ReduceProd": torch.prod,
    }
    for op in every:
        rows.append(row(op, lambda x, a: x, {"x": r(3, 4), "axes": i64()}, half=True))  # no axes: nothing
        rows.append(
            row(
                op,
                lambda x, a, f=every[op]: f(x),
                {"x": r(3, 4), "axes": i64()},
                {"noop_with_empty_axes": False},
            )
        )
    rows += [
        row("ReduceProd", lambda x, a: x.prod(1), {"x": r(3, 4, 5), "axes": i64(1)}, half=True),
        row(
            "ReduceProd",
            lambda x, a: x.prod(2, keepdim=True).prod(0, keepdim=True),
            {"x": r(3, 2, 5), "axes": i64(2, 0)},
            {"keep_dims": True},
        ),
        row(
            "ReduceProd",
            lambda x, a: x.prod(0, dtype=torch.int32),
            {"x": ints(-9, 9, 20, dtype=torch.int32), "axes": i64(0)},
        ),
        row("ReduceSum", lambda x, a: x.sum(1), {"x": ints(-9, 9, 3, 4), "axes": i64(1)}),
        row(
            "ReduceSum",
            lambda x, a: x.sum(0, dtype=torch.int8),
            {"x": ints(0, 127, 9, dtype=torch.int8), "axes": i64(0)},
        ),
        row("ReduceMax", lambda x, a: x.amax(0), {"x": ints(-9, 9, 3, 4, dtype=torch.int32), "axes": i64(0)}),
        row("ReduceMean", lambda x, a: x.double().mean(0).trunc().long(), {"x": ints(-90, 90, 3, 4), "axes": i64(0)}),
        row("ReduceAny", lambda x, a: x.any(1), {"x": r(3, 4) > 1, "axes": i64(1)}),
        row("ReduceAny", lambda x, a: x.any(), {"x": torch.zeros(3, 4, dtype=torch.bool), "axes": i64(0, 1)}),
        row("ReduceAll", lambda x, a: x.all(1, keepdim=True), {"x": r(3, 2) > 0, "axes": i32(-1)}, {"keep_dims": True}),
        row("ReduceAll", lambda x, a: torch.tensor(True), {"x": torch.zeros(0, dtype=torch.bool), "axes": i64(0)}),
        row("ReduceLogSum", lambda x, a: x.sum(1).log(), {"x": pos(3, 4), "axes": i64(1)}, half=True),
        # an empty set gives the identity
        row("ReduceSum", lambda x, a: torch.zeros(3), {"x": r(3, 0), "axes": i64(1)}, half=True),
        row("ReduceProd", lambda x, a: torch.ones(3), {"x": r(3, 0), "axes": i64(1)}),
        row("ReduceMax", lambda x, a: torch.full((3,), -INF), {"x": r(3, 0), "axes": i64(1)}),
        row("ReduceMin", lambda x, a: torch.full((3,), INF), {"x": r(3, 0), "axes": i64(1)}),
        row("ReduceMax", lambda x, a: i32(-(2**31)), {"x": torch.zeros(1, 0, dtype=torch.int32), "axes": i64(1)}),
        row("ReduceMean", lambda x, a: torch.full((3,), math.nan), {"x": r(3, 0), "axes": i64(1)}),
        row("ReduceSum", lambda x, a: torch.zeros(0), {"x": r(0, 4), "axes": i64(1)}),
        row("ReduceMax", lambda x, a: torch.tensor(math.nan), {"x": torch.tensor([1.0, math.nan]), "axes": i64(0)}),
        row("ReduceSumD", lambda x: x.sum((0, 2)), {"x": r(3, 4, 5)}, {"axes": [0, -1]}, half=True),
        row("ReduceMeanD", lambda x: x.mean(), {"x": r(3, 4)}, {"axes": []}, half=True),
        row("ReduceMaxD", lambda x: x.amax(1, True), {"x": r(3, 4)}, {"axes": [1], "keep_dims": True}, half=True),
        row("ReduceMinD", lambda x: x.amin(0), {"x": r(3, 4)}, {"axes": [0]}, half=True),
        row("ReduceProdD", lambda x: x.prod(0).int(), {"x": i32(2, 3, 4)}, {"axes": [0]}),
        row("ReduceMeanWithCast", lambda x, a: x.mean(1), {"x": r(3, 4).half(), "axes": i64(1)}, {"dtype": 0}),
        row("ReduceMeanWithCast", lambda x, a: x.mean(1), {"x": r(3, 4), "axes": i64(1)}, {"dtype": 28}, half=True),
        row("L2Loss", lambda x: (x * x).sum() / 2, {"x": r(3, 4)}, half=True),
        row("SquareSumV1", lambda x: (x * x).sum(1), {"x": r(3, 4)}, {"axis": [1]}, half=True),
    ]
    for p in (1.0, 2.0, 3.0, 0.0, 2147483647.0, -2147483647.0):
        eager = INF if p > 1e9 else -INF if p < -1e9 else p
        rows.append(
            row(
                "LpNormV2",
                lambda x, p=eager: torch.linalg.vector_norm(x, p, dim=(0, 2), keepdim=True),
                {"x": r(3, 4, 5)},
                {"p": p, "axes": [0, 2], "keepdim": True, "epsilon": 0.0},
                half=True,
            )
        )
    return [
        *rows,
        row("LpNormV2", lambda x: torch.tensor(0.5), {"x": torch.zeros(4)}, {"epsilon": 0.5}),
        row(
            "ReduceVar",
            lambda x: list(torch.var_mean(x, 1, correction=2)),
            {"x": r(3, 8)},
            {"dim": [1], "correction": 2},
            half=True,
        ),
        row("ReduceStdV2", lambda x: list(torch.std_mean(x)), {"x": r(3, 8)}, {}, half=True),
        row(
            "ReduceStdV2",
            lambda x: list(torch.std_mean(x, -1, keepdim=True)),
            {"x": r(3, 8)},
            {"dim": [-1], "keepdim": True},
        ),
        row(
            "ReduceStdWithMean",
            lambda x, m: x.std(1),
            {"x": (x := r(3, 8)), "mean": x.mean(1, True).expand(3, 8)},
            {"dim": [1]},
        ),
        row(
            "ReduceStdWithMean",
            lambda x, m: (x.var(correction=0) + 0.25).rsqrt(),
            {"x": (x := r(3, 8)), "mean": x.mean().expand(3, 8)},
            {"unbiased": False, "invert": True, "epsilon": 0.25},
        ),
        row(
            "ReduceStdV2Update",
            lambda x, m: x.var(1),
            {"x": (x := r(3, 8)), "mean": x.mean(1, True).expand(3, 8)},
            {"dim": [1]},
        ),
        row(
            "ReduceStdV2Update",
            lambda x, m: x.std(1),
            {"x": (x := r(3, 8)), "mean": x.mean(1, True).expand(3, 8)},
            {"dim": [1], "if_std": True},
        ),
        row(
            "DynamicQuant",
            lambda x: [torch.tensor([[127, -64, 0]], dtype=torch.int8), torch.tensor([2.0 / 127])],
            {"x": torch.tensor([[2.0, -1.0, 0.0]]).half()},
        ),
        row(
            "DynamicQuant",
            lambda x, s: [torch.zeros(2, 3, dtype=torch.int8), torch.zeros(2)],
            {"x": torch.zeros(2, 3).half(), "smooth_scales": torch.ones(3).half()},
        ),
        row(
            "DynamicQuantV2",
            lambda x: [
                torch.tensor([[127, -128, -26]], dtype=torch.int8),
                torch.tensor([1.0 / 51]),
                torch.tensor([-26.0]),
            ],
            {"x": torch.tensor([[3.0, -2.0, 0.0]]).half()},
            tolerance=1e-4,
        ),
    ]


def _softmax() -> list[Row]:
    masked = r(2, 4)
    masked[0] = -INF
    y, dy = torch.softmax(r(3, 5), -1), r(3, 5)
    return [
        row("SoftmaxV2", lambda x: x.softmax(-1), {"x": r(3, 4, 5) * 8}, half=True),
        row("SoftmaxV2", lambda x: x.softmax(1), {"x": r(3, 4, 5)}, {"axes": [1]}, half=True),
        row("SoftmaxV2", lambda x: x.flatten(1).softmax(1).reshape(3, 4, 5), {"x": r(3, 4, 5)}, {"axes": [1, -1]}),
        row("SoftmaxV2", lambda x: x.float().softmax(-1), {"x": r(3, 4).half()}, {"half_to_float": True}),
        row("SoftmaxV2", lambda x: x.softmax(-1), {"x": masked}),  # a row of -inf gives NaN
        row("SoftmaxV2", lambda x: torch.ones(()), {"x": r()}),
        row("SoftmaxV2", lambda x: x, {"x": r(3, 0)}),
        row("SoftmaxV2", lambda x: x.softmax(-1), {"x": r(3, 4).double()}),
        row("LogSoftmaxV2", lambda x: x.log_softmax(-1), {"logits": r(3, 4) * 8}, half=True),
        row("LogSoftmaxV2", lambda x: x.log_softmax(0), {"logits": r(3, 4)}, {"axes": [0]}, half=True),
        row(
            "SoftmaxGrad",
            lambda y, g: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32),
            {"softmax": y, "grad_softmax": dy},
            half=True,
        ),
        row(
            "SoftmaxGrad",
            lambda y, g: gradients(lambda x: x.softmax(1), [y.log()], g)[0],
            {"softmax": r(2, 3, 4).softmax(1), "grad_softmax": r(2, 3, 4)},
            {"axes": [1]},
        ),
        row(
            "LogSoftmaxGrad",
            lambda g, y: gradients(lambda x: x.log_softmax(1), [y], g)[0],
            {"grad": r(3, 5), "x": r(3, 5).log_softmax(1)},
            {"axis": [1]},
        ),
        row(
            "ConfusionSoftmaxGrad",
            lambda g, x: g - torch.einsum("ij,ij->i", g, x)[:, None],
            {"grad": r(3, 5), "x": r(3, 5)},
            half=True,
        ),
        row(
            "MaskedSoftmaxWithRelPosBias",
            lambda x, m, b: (x * 0.5 + m + b).softmax(-1),
            {"x": r(2, 3, 4, 4), "atten_mask": r(3, 4, 4), "relative_pos_bias": r(4, 4)},
            {"scale_value": 0.5},
            half=True,
        ),
    ]


def _gated() -> list[Row]:
    x, g = r(3, 8), r(3, 4)
    swiglu = lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]  # noqa: E731
    return [
        row("GLU", lambda x: F.glu(x, -1), {"x": x}, half=True),
        row("GLU", lambda x: F.glu(x, 0), {"x": r(4, 3)}, {"dim": 0}),
        row("GLUGrad", lambda g, x: gradients(lambda x: F.glu(x, -1), [x], g)[0], {"y_grad": g, "x": x}, half=True),
        row("SwiGlu", swiglu, {"x": x}, half=True),
        row("SwiGluGrad", lambda g, x: gradients(swiglu, [x], g)[0], {"y_grad": g, "x": x}, half=True),
        row("GeGluV2", lambda x: [x[:, :4] * (q := F.gelu(x[:, 4:], approximate="tanh")), q], {"x": x}, half=True),
        row(
            "GeGluV2",
            lambda x: [x[:, 4:] * (q := F.gelu(x[:, :4])), q],
            {"x": x},
            {"approximate": 0, "activate_left": True},
            half=True,
        ),
    ]


ROWS = [*_reductions(), *_softmax(), *_gated()]
