"""Rows of the normalisations and their gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.host.op_rows import Row, gradients, i32, i64, pos, r, row

INF = float("inf")


def _native_layer_norm(
    x: torch.Tensor, n: int, g: torch.Tensor | None, b: torch.Tensor | None, eps: float
) -> list[torch.Tensor]:
    return list(torch.native_layer_norm(x, list(x.shape[x.dim() - n :]), g, b, eps))


def _layer_norm_gradients(dy: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor) -> list[torch.Tensor]:
    def norm(x: torch.Tensor, g: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, gamma.shape, g, b, 1e-5)

    return gradients(norm, [x, gamma, torch.zeros_like(gamma)], dy)


def _layer_norms() -> list[Row]:
    x, dy, gamma = r(2, 3, 8), r(2, 3, 8), pos(8)
    _, mean, rstd = torch.native_layer_norm(x, [8], gamma, None, 1e-5)
    x2, dy2, gamma2 = r(4, 3, 8), r(4, 3, 8), pos(3, 8)
    _, mean2, rstd2 = torch.native_layer_norm(x2, [3, 8], gamma2, None, 1e-5)
    variance = x2.var((1, 2), correction=0, keepdim=True) + 1e-5
    add = {"x1": r(3, 8), "x2": r(3, 8), "gamma": pos(8), "beta": r(8)}
    return [
        row(
            "LayerNormV4",
            lambda x, n, g, b: _native_layer_norm(x, 1, g, b, 1e-5),
            {"x": r(2, 3, 16), "normalized_shape": i64(16), "gamma": pos(16), "beta": r(16)},
            {"epsilon": 1e-5},
            half=True,
            wide=(1, 2),
        ),
        row(
            "LayerNormV4",
            lambda x, n, g, b: _native_layer_norm(x, 2, g, b, 1e-3),
            {"x": r(2, 3, 4), "normalized_shape": i32(3, 4), "gamma": pos(3, 4), "beta": r(3, 4)},
            {"epsilon": 1e-3},
        ),
        row(
            "LayerNormV4",
            lambda x, n: _native_layer_norm(x, 1, None, None, 1e-5),
            {"x": r(4, 1), "normalized_shape": i64(1)},
            {"epsilon": 1e-5},
        ),
        row(
            "LayerNormV4",
            lambda x, n, g, b: _native_layer_norm(x, 1, g, b, 1e-5),  # affine parameters of another dtype
            {"x": r(2, 16), "normalized_shape": i64(16), "gamma": pos(16), "beta": r(16)},
            half=True,
            keep=("gamma", "beta"),
            wide=(1, 2),
        ),
        row(
            "LayerNorm",
            lambda x, g, b: [
                F.layer_norm(x, (8,), g, b, 1e-7),
                x.mean(-1, True),
                x.var(-1, correction=0, keepdim=True),
            ],
            {"x": r(2, 3, 8), "gamma": pos(8), "beta": r(8)},
            {"begin_norm_axis": 2, "begin_params_axis": -1},
            half=True,
        ),
        row(
            "LayerNormV3",
            lambda x, g, b: _native_layer_norm(x, 2, g, b, 1e-5),
            {"x": r(2, 3, 8), "gamma": pos(3, 8), "beta": r(3, 8)},
            {"begin_norm_axis": 1, "begin_params_axis": 1},
            half=True,
        ),
        row(
            "AddLayerNorm",
            lambda a, b, g, e: [*_native_layer_norm(a + b, 1, g, e, 1e-5), a + b],
            add,
            half=True,
            wide=(1, 2),
        ),
        row(
            "AddLayerNorm",
            lambda a, b, g, e, c: [*_native_layer_norm(a + b + c, 1, g, e, 1e-5), a + b + c],
            {**add, "bias": r(8)},
        ),
        row(
            "DeepNorm",
            lambda x, gx, b, g: [(q := _native_layer_norm(0.5 * x + gx, 1, g, b, 1e-6))[1], q[2], q[0]],
            {"x": r(3, 8), "gx": r(3, 8), "beta": r(8), "gamma": pos(8)},
            {"alpha": 0.5},
            half=True,
            wide=(0, 1),
        ),
        row(
            "RmsNorm",
            lambda x, g: [F.rms_norm(x, (8,), g, 1e-6), (x.pow(2).mean(-1, True) + 1e-6).rsqrt()],
            {"x": r(2, 3, 8), "gamma": pos(8)},
            half=True,
            wide=(1,),
        ),
        row(
            "RmsNorm",
            lambda x, g: [F.rms_norm(x, (3, 8), g, 1e-3), None],
            {"x": r(2, 3, 8), "gamma": pos(3, 8)},
            {"epsilon": 1e-3},
        ),
        row(
            "GemmaRmsNorm",
            lambda x, g: [F.rms_norm(x, (8,), 1 + g, 1e-6), (x.pow(2).mean(-1, True) + 1e-6).rsqrt()],
            {"x": r(3, 8), "gamma": r(8)},
            half=True,
            wide=(1,),
        ),
        row(
            "AddRmsNorm",
            lambda a, b, g: [F.rms_norm(a + b, (8,), g, 1e-6), ((a + b).pow(2).mean(-1, True) + 1e-6).rsqrt(), a + b],
            {"x1": r(3, 8), "x2": r(3, 8), "gamma": pos(8)},
            half=True,
            wide=(1,),
        ),
        row(
            "AddRmsNormCast",
            lambda a, b, g: [
                (y := F.rms_norm(a + b, (8,), g, 1e-6)).half().float(),
                y.half(),
                (a.pow(2).mean(-1, True) + 1e-6).rsqrt(),
                a.half(),
            ],
            {"x1": r(3, 8).half(), "x2": torch.zeros(3, 8).half(), "gamma": pos(8).half()},
            tolerance=1e-3,
        ),
        row(
            "LayerNormGradV3",
            lambda dy, x, s, m, g: _layer_norm_gradients(dy, x, g),
            {"dy": dy, "x": x, "rstd": rstd, "mean": mean, "gamma": gamma},
            tolerance=1e-5,
        ),
        row(
            "LayerNormGradV3",
            lambda dy, x, s, m, g: _layer_norm_gradients(dy, x, g),
            {"dy": dy2, "x": x2, "rstd": rstd2, "mean": mean2, "gamma": gamma2},
            tolerance=1e-5,
        ),
        row(
            "LayerNormGradV3",
            lambda dy, x, s, m, g: torch.ops.aten.native_layer_norm_backward(dy, x, [8], m, s, g, g, [True] * 3),
            {"dy": dy, "x": x, "rstd": rstd, "mean": mean, "gamma": gamma},
            half=True,
            keep=("rstd", "mean"),
            tolerance=1e-5,
        ),
        row(
            "LayerNormGrad",
            lambda dy, x, v, m, g: _layer_norm_gradients(dy, x, g),
            {"dy": dy2, "x": x2, "variance": variance, "mean": mean2, "gamma": gamma2},
            tolerance=1e-5,
        ),
        row(
            "LayerNormXBackpropV3",
            lambda dy, x, s, m, g: [_layer_norm_gradients(dy, x, g)[0], (x - m) * s],
            {"dy": dy, "x": x, "rstd": rstd, "mean": mean, "gamma": gamma},
            tolerance=1e-5,
        ),
        row(
            "LayerNormBetaGammaBackpropV2",
            lambda dy, h: [torch.einsum("abc,abc->c", dy, h), torch.einsum("abc->c", dy)],
            {"dy": r(2, 3, 8), "res_for_gamma": r(2, 3, 8)},
            {"shape_gamma": [8]},
            tolerance=1e-5,
        ),
        row(
            "RmsNormGrad",
            lambda dy, x, s, g: gradients(lambda x, g: F.rms_norm(x, (8,), g, 1e-6), [x, g], dy),
            {"dy": dy, "x": x, "rstd": (x.pow(2).mean(-1, True) + 1e-6).rsqrt(), "gamma": gamma},
            tolerance=1e-5,
        ),
    ]


def _group_stats(x: torch.Tensor, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    flat = x.reshape(x.shape[0], groups, -1)
    return flat.mean(-1), flat.var(-1, correction=0)


def _channel_norms() -> list[Row]:
    group = {"x": r(2, 6, 3, 5), "gamma": pos(6), "beta": r(6)}
    nchw = {"num_groups": 3, "eps": 1e-4, "input_layout_info": [0, 1, 2], "data_format": "NHWC"}
    norm = lambda x, g, b, e: F.group_norm(x, 3, g, b, e)  # noqa: E731
    rstd = lambda x, e: (_group_stats(x, 3)[1] + e).rsqrt()  # noqa: E731
    bn = {"scale": pos(4), "offset": r(4), "mean": r(4), "variance": pos(4)}
    x, dy, w, b = r(3, 4, 2, 5), r(3, 4, 2, 5), pos(4), r(4)
    m, v = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    train = lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)  # noqa: E731
    dx, dw, db = gradients(train, [x, w, b], dy)
    gm, gv = _group_stats(group["x"], 3)
    dyg = r(2, 6, 3, 5)
    return [
        row("GroupNorm", lambda x, g, b: [norm(x, g, b, 1e-4), *_group_stats(x, 3)], group, nchw, half=True),
        row(
            "GroupNorm",
            lambda x, g, b: [
                norm(x.movedim(-1, 1), g, b, 1e-4).movedim(1, -1).contiguous(),
                *_group_stats(x.movedim(-1, 1), 3),
            ],
            {**group, "x": r(2, 3, 5, 6)},
            {"num_groups": 3, "data_format": "NHWC"},
        ),
        row(
            "GroupNormV2",
            lambda x, g, b: [norm(x, g, b, 1e-5), _group_stats(x, 3)[0], rstd(x, 1e-5)],
            group,
            {"num_groups": 3, "data_format": "NCHW"},
            half=True,
        ),
        row(
            "GroupNormSilu",
            lambda x, g, b: [F.silu(norm(x, g, b, 1e-5)), _group_stats(x, 3)[0], rstd(x, 1e-5)],
            group,
            {"num_groups": 3, "eps": 1e-5},
        ),
        row(
            "GroupNormSilu",
            lambda x: [norm(x, None, None, 1e-4), None, None],
            {"x": r(2, 6, 4)},
            {"num_groups": 3, "activate_silu": False},
        ),
        row(
            "GroupNormSwish",
            lambda x, g, b: [
                (y := norm(x, g, b, 1e-5)) * torch.sigmoid(2 * y),
                _group_stats(x, 3)[0],
                rstd(x, 1e-5),
            ],
            group,
            {"num_groups": 3, "swish_scale": 2.0},
            half=True,
        ),
        row(
            "InstanceNorm",
            lambda x, g, b: [
                F.instance_norm(x, weight=g, bias=b, eps=1e-6),
                x.mean((2, 3), True),
                x.var((2, 3), correction=0, keepdim=True),
            ],
            group,
            {"data_format": "NCHW"},
            half=True,
        ),
        row(
            "BNInfer",
            lambda x, s, o, m, v: F.batch_norm(x, m, v, s, o, False, 0.0, 1e-5),
            {"x": r(3, 4, 2, 5), **bn},
            {"epsilon": 1e-5},
        ),
        row(
            "BNInfer",
            lambda x, s, o, m, v: F.batch_norm(x, m, v, s, o, False, 0.0, 1e-3),
            {"x": r(3, 4), **bn},
            {"epsilon": 1e-3},
            half=True,
            keep=("scale", "offset", "mean", "variance"),
        ),
        row(
            "BNTrainingReduce",
            lambda x: [x.sum((0, 2, 3)), (x * x).sum((0, 2, 3))],
            {"x": x},
            {"data_format": "NCHW"},
            tolerance=1e-5,
        ),
        row(
            "BNTrainingUpdate",
            lambda x, s, q, w, b, rm, rv: [train(x, w, b), rm * 0.75 + m * 0.25, rv * 0.75 + v * 0.25, m, v],
            {
                "x": x,
                "sum": x.sum((0, 2, 3)),
                "square_sum": (x * x).sum((0, 2, 3)),
                "scale": w,
                "offset": b,
                "mean": r(4),
                "variance": pos(4),
            },
            {"factor": 0.25, "epsilon": 1e-5},
            tolerance=1e-5,
        ),
        row(
            "BatchNormV3",
            lambda x, w, b, rm, rv: [
                F.batch_norm(x, (nm := rm.clone()), (nv := rv.clone()), w, b, True, 0.2, 1e-5),
                nm,
                nv,
                m,
                (v + 1e-5).rsqrt(),
            ],
            {"x": x, "weight": w, "bias": b, "running_mean": r(4), "running_var": pos(4)},
            {"momentum": 0.2},
            tolerance=1e-5,
        ),
        row(
            "BatchNormV3",
            lambda x, w, b, rm, rv: [F.batch_norm(x, rm, rv, w, b, False), rm, rv, rm, (rv + 1e-5).rsqrt()],
            {"x": x, "weight": w, "bias": b, "running_mean": r(4), "running_var": pos(4)},
            {"is_training": False},
            half=True,
            keep=("running_mean", "running_var"),
            wide=(1, 2, 3, 4),
        ),
        row(
            "BatchNormGradV3",
            lambda *_: [dx, dw, db],
            {
                "dy": dy,
                "x": x,
                "weight": w,
                "running_mean": r(4),
                "running_var": pos(4),
                "save_mean": m,
                "save_rstd": (v + 1e-5).rsqrt(),
            },
            tolerance=1e-5,
        ),
        row(
            "BatchNormGradV3",
            lambda dy, x, w, rm, rv, *_: gradients(lambda x, w, b: F.batch_norm(x, rm, rv, w, b, False), [x, w, b], dy),
            {
                "dy": dy,
                "x": x,
                "weight": w,
                "running_mean": r(4),
                "running_var": pos(4),
                "save_mean": m,
                "save_rstd": v,
            },
            {"is_training": False},
            tolerance=1e-5,
        ),
        row(
            "BNTrainingUpdateGrad",
            lambda *_: [dw, db],
            {"grads": dy, "x": x, "batch_mean": m, "batch_variance": v},
            {"epsilon": 1e-5},
            tolerance=1e-5,
        ),
        row(
            "BN3DTrainingUpdateGrad",
            lambda *_: [dw, db],
            {"grads": dy[..., None], "x": x[..., None], "batch_mean": m, "batch_variance": v},
            {"epsilon": 1e-5},
            tolerance=1e-5,
        ),
        row(
            "BNTrainingReduceGrad",
            lambda *_: dx,
            {
                "grads": dy,
                "x": x,
                "diff_scale": dw,
                "diff_offset": db,
                "scale": w,
                "batch_mean": m,
                "batch_variance": v,
            },
            {"epsilon": 1e-5},
            tolerance=1e-5,
        ),
        row(
            "BNInferGrad",
            lambda g, s, v: gradients(lambda x: F.batch_norm(x, torch.zeros(4), v, s, None, False, 0.0, 1e-4), [g], g)[
                0
            ],
            {"grads": dy, "scale": w, "batch_variance": pos(4)},
        ),
        row(
            "GroupNormGrad",
            lambda dy, m, s, x, g: gradients(lambda x, g, b: norm(x, g, b, 1e-5), [x, g, torch.zeros(6)], dy),
            {"dy": dyg, "mean": gm, "rstd": (gv + 1e-5).rsqrt(), "x": group["x"], "gamma": group["gamma"]},
            {"num_groups": 3},
            tolerance=1e-5,
        ),
    ]


ROWS = [*_layer_norms(), *_channel_norms()]
