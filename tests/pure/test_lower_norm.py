"""Lowering rules of softmax, normalisations, losses and their gradients on arrays, against double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rule_harness import FLOATS, INF, NAN, run, run_reduce, view

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import symbol

RTOL = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
AXES = ([-1], [0], [1], [0, 2], [-1, -2], [0, 1, 2])


def tensor(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed)).to(dtype)


def agree(
    actual: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype, *, rtol: float = 0, atol: float = 2e-6
) -> None:
    """``actual`` is ``exact`` rounded to ``dtype``, within an ulp or so; ``atol`` where the formula cancels."""
    assert actual.dtype == dtype
    torch.testing.assert_close(actual, exact.to(dtype), rtol=rtol or RTOL[dtype], atol=atol, equal_nan=True)


def results(
    kind: str, inputs: Sequence[torch.Tensor | None], attrs: dict[str, Any] | None = None, **options: Any
) -> list[torch.Tensor]:
    options.setdefault("outputs", "inferred")
    return run_reduce(view(kind, inputs, attrs, **options), inputs)


# ---- softmax -------------------------------------------------------------------------------------------------------


def softmax(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    e = (x - x.amax(list(axes), keepdim=True)).exp()
    return e / e.sum(list(axes), keepdim=True)


def log_softmax(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    z = x - x.amax(list(axes), keepdim=True)
    return z - z.exp().sum(list(axes), keepdim=True).log()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 5), (1, 4, 1), (2, 0, 3)], ids=str)
def test_softmax(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = 5 * tensor(shape, dtype)
    for axes in AXES:
        if x.numel():
            wide = x.double()
            agree(results("SoftmaxV2", [x], {"axes": axes})[0], softmax(wide, axes), dtype)
            agree(results("LogSoftmaxV2", [x], {"axes": axes})[0], log_softmax(wide, axes), dtype)
        else:
            assert results("SoftmaxV2", [x], {"axes": axes})[0].shape == shape


@pytest.mark.parametrize("kind, function", [("SoftmaxV2", F.softmax), ("LogSoftmaxV2", F.log_softmax)])
def test_softmax_of_rows_that_are_not_finite(kind: str, function: Callable[..., torch.Tensor]) -> None:
    x = torch.tensor([[-INF] * 4, [INF, 1, 2, 3], [NAN, 1, 2, 3], [-INF, 1, 2, -INF], [3e38, -3e38, 0, 3e38], [88] * 4])
    agree(results(kind, [x], {"axes": [-1]})[0], function(x.double(), -1), torch.float32)
    agree(results(kind, [x])[0], function(x.double(), -1), torch.float32)
    column = x[:, :1].contiguous()  # a reduced dim of size one: 1, or NaN
    agree(results(kind, [column])[0], function(column.double(), -1), torch.float32)


def test_softmax_of_half_gives_float() -> None:
    x = tensor((3, 9), torch.float16)
    agree(results("SoftmaxV2", [x], {"axes": [-1], "half_to_float": True})[0], softmax(x.double(), [1]), torch.float32)
    assert results("SoftmaxV2", [x.float()], {"axes": [-1], "half_to_float": True})[0].dtype == torch.float32


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 5), (1, 4, 1)], ids=str)
def test_softmax_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    g = tensor(shape, dtype, 1)
    for axes in AXES:
        y = softmax(tensor(shape).double(), axes).to(dtype)
        a, b = y.double(), g.double()
        exact = a * (b - (a * b).sum(axes, keepdim=True))
        agree(results("SoftmaxGrad", [y, g], {"axes": axes})[0], exact, dtype)
        z = log_softmax(tensor(shape).double(), axes).to(dtype)
        exact = b - z.double().exp() * b.sum(axes, keepdim=True)
        agree(results("LogSoftmaxGrad", [g, z], {"axis": axes})[0], exact, dtype)
    exact = g.double() - (g.double() * y.double()).sum(-1, keepdim=True)
    agree(results("ConfusionSoftmaxGrad", [g, y])[0], exact, dtype)


# ---- layer norm ----------------------------------------------------------------------------------------------------


def layer_norm(
    x: torch.Tensor, n: int, eps: float, gamma: torch.Tensor | None = None, beta: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """(y, mean, variance, rstd), in double precision."""
    x, dims = x.double(), list(range(x.dim() - n, x.dim()))
    m, v = x.mean(dims, keepdim=True), x.var(dims, correction=0, keepdim=True)
    y = (x - m) / (v + eps).sqrt()
    y = y if gamma is None else y * gamma.double()
    return y if beta is None else y + beta.double(), m, v, 1 / (v + eps).sqrt()


@pytest.mark.parametrize("gamma, beta", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("affine", [torch.float32, None])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm_v4(dtype: torch.dtype, affine: torch.dtype | None, gamma: bool, beta: bool) -> None:
    for shape, n in (((3, 4, 5), 1), ((3, 4, 5), 2), ((3, 4, 5), 3), ((2, 1, 7), 2), ((3, 1), 1)):
        x, tail = tensor(shape, dtype), shape[len(shape) - n :]
        g = tensor(tail, affine or dtype, 1) if gamma else None
        b = tensor(tail, affine or dtype, 2) if beta else None
        inputs = [x, torch.tensor(tail), g, b]
        y, m, r = results("LayerNormV4", inputs, {"epsilon": 1e-5}, constants=(1,))
        exact = layer_norm(x, n, 1e-5, g, b)
        agree(y, exact[0], dtype)
        agree(m, exact[1], torch.float32)
        agree(r, exact[3], torch.float32)


@pytest.mark.parametrize("level", [1e4, -3e5, 1e7])
def test_norms_of_a_large_mean(level: float) -> None:
    """x itself is coarse here: the sizes are multiples of its ulp, and the mean is off by half of one."""
    ulp = torch.finfo(torch.float32).eps * 2.0 ** torch.tensor(abs(level)).log2().floor()
    x = level + ulp * torch.round(20 * tensor((4, 8, 64)))
    size = torch.tensor((64,))
    y, m, r = results("LayerNormV4", [x, size, None, None], {"epsilon": 0.0}, constants=(1,))
    exact = layer_norm(x, 1, 0.0)
    agree(m, exact[1], torch.float32)
    agree(r, exact[3], torch.float32, rtol=2e-3)
    agree(y, exact[0], torch.float32, rtol=1e-3, atol=0.05)
    ones = torch.ones(8)
    y, _, v = results("GroupNorm", [x, ones, ones * 0], group_attrs(4, 0.0))
    grouped = x.double().reshape(4, 4, -1)
    agree(v, grouped.var(-1, correction=0), torch.float32, rtol=2e-3)


def test_old_layer_norms() -> None:
    x = tensor((3, 4, 5))
    for kind, third in (("LayerNorm", 2), ("LayerNormV3", 3)):
        for begin, first in ((1, 2), (-1, -1), (0, 0), (2, 1)):
            g, b = tensor(x.shape[first:], seed=1), tensor(x.shape[first:], seed=2)
            n = 3 - begin % 3
            kept = (*x.shape[: 3 - n], *(1,) * n)
            outputs = [(torch.float32, s) for s in (x.shape, kept, kept)]
            attrs = {"begin_norm_axis": begin, "begin_params_axis": first, "epsilon": 1e-3}
            found = results(kind, [x, g, b], attrs, outputs=[(d, tuple(s)) for d, s in outputs])
            exact = layer_norm(x, n, 1e-3, g, b)
            for a, e in zip(found, (exact[0], exact[1], exact[third])):
                agree(a, e, torch.float32)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2])
def test_norms_of_a_sum(n: int, dtype: torch.dtype) -> None:
    shape = (3, 4, 6)
    a, b, g, beta, bias = (tensor(s, dtype, k) for k, s in enumerate([shape, shape, *[shape[3 - n :]] * 3]))
    x = a.float() + b.float()
    wide = (x + bias.float()).double()
    exact = layer_norm(wide, n, 1e-5, g, beta)
    for extra, values in ((bias, exact), (None, layer_norm(x, n, 1e-5, g, beta))):
        y, m, r, total = results("AddLayerNorm", [a, b, g, beta, extra])
        agree(y, values[0], dtype)
        agree(m, values[1], torch.float32)
        agree(r, values[3], torch.float32)
        agree(total, wide if extra is not None else x.double(), dtype)
    dims = list(range(3 - n, 3))
    r = 1 / (x.double().square().mean(dims, keepdim=True) + 1e-6).sqrt()
    exact_y = x.double() * r * g.double()
    found = results("AddRmsNorm", [a, b, g])
    for actual, value, t in zip(found, (exact_y, r, x.double()), (dtype, torch.float32, dtype)):
        agree(actual, value, t)
    if dtype != torch.float32:
        as_f32, y, r32, total = results("AddRmsNormCast", [a, b, g])
        assert as_f32.dtype == torch.float32 and torch.equal(as_f32, y.float())
        assert all(torch.equal(p, q) for p, q in zip((y, r32, total), found))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ["RmsNorm", "GemmaRmsNorm"])
def test_rms_norm(kind: str, dtype: torch.dtype) -> None:
    for shape, n in (((3, 4, 5), 1), ((3, 4, 5), 2), ((5, 1), 1), ((2, 3), 2)):
        x, g = 30 * tensor(shape, dtype), tensor(shape[len(shape) - n :], dtype, 1)
        y, r = results(kind, [x, g], {"epsilon": 1e-3})
        dims = list(range(len(shape) - n, len(shape)))
        exact = 1 / (x.double().square().mean(dims, keepdim=True) + 1e-3).sqrt()
        agree(r, exact, torch.float32)
        agree(y, x.double() * exact * (g.double() + (kind == "GemmaRmsNorm")), dtype)


# ---- group and batch norm ------------------------------------------------------------------------------------------


def group_attrs(groups: int, eps: float) -> dict[str, Any]:
    return {"num_groups": groups, "eps": eps, "data_format": "NHWC", "input_layout_info": [0, 1, 2]}


@pytest.mark.parametrize("kind", ["GroupNorm", "GroupNormV2", "GroupNormSilu", "GroupNormSwish"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(2, 6, 3, 5), (2, 6), (1, 6, 4), (3, 6, 1, 1), (2, 6, 2, 1, 3)], ids=str)
def test_group_norm(shape: tuple[int, ...], groups: int, kind: str) -> None:
    for dtype in (torch.float32, torch.float16):
        x, g, b = tensor(shape, dtype), tensor((6,), dtype, 1), tensor((6,), dtype, 2)
        outputs = [(dtype, s) for s in (shape, (shape[0], groups), (shape[0], groups))]
        attrs = {**group_attrs(groups, 1e-3), "swish_scale": 1.5}
        y, m, third = results(kind, [x, g, b], attrs, outputs=outputs)
        grouped = x.double().reshape(shape[0], groups, -1)
        exact = F.group_norm(x.double(), groups, g.double(), b.double(), 1e-3)
        if kind in ("GroupNormSilu", "GroupNormSwish"):
            exact = exact * (exact * (1.5 if kind == "GroupNormSwish" else 1)).sigmoid()
        agree(y, exact, dtype, atol=3e-6)
        agree(m, grouped.mean(-1), dtype)
        v = grouped.var(-1, correction=0)
        agree(third, v if kind == "GroupNorm" else 1 / (v + 1e-3).sqrt(), dtype)


def test_group_norm_options() -> None:
    x = tensor((2, 4, 3))
    y, m, v = results("GroupNorm", [x, torch.ones(4), torch.zeros(4)], group_attrs(2, 1e-5))
    agree(y, F.group_norm(x.double(), 2), torch.float32)
    assert m.shape == v.shape == (2, 2)
    plain, _, _ = results("GroupNormSilu", [x, None, None], {"num_groups": 2, "activate_silu": False, "eps": 1e-5})
    agree(plain, F.group_norm(x.double(), 2), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (4, 3, 2, 5), (1, 1, 3, 3)], ids=str)
def test_batch_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    c = shape[1]
    x, g = tensor(shape, dtype), tensor(shape, dtype, 1)
    scale, offset, m = (tensor((c,), seed=k) for k in (2, 3, 4))
    v = tensor((c,), seed=5).abs() + 0.1
    (y,) = results("BNInfer", [x, scale, offset, m, v], {"epsilon": 1e-3, "input_layout_info": [0, 1, 2, 3, 4]})
    wide = [t.double() for t in (m, v, scale, offset)]
    agree(y, F.batch_norm(x.double(), *wide, eps=1e-3), dtype)

    def per_channel(t: torch.Tensor) -> torch.Tensor:
        return t.double().reshape(1, -1, *[1] * (len(shape) - 2))

    r, rest = 1 / (per_channel(v) + 1e-4).sqrt(), [0, *range(2, len(shape))]
    (dx,) = results("BNInferGrad", [g, scale, v])
    agree(dx, g.double() * per_channel(scale) * r, dtype)
    xh, n = (x.double() - per_channel(m)) * r, x.numel() // c
    d_scale, d_offset = results("BNTrainingUpdateGrad", [g, x, m, v])
    exact = (g.double() * xh).sum(rest), g.double().sum(rest)
    agree(d_scale, exact[0], torch.float32, atol=1e-5)
    agree(d_offset, exact[1], torch.float32)
    (dx,) = results("BNTrainingReduceGrad", [g, x, d_scale, d_offset, scale, m, v])
    inner = g.double() - per_channel(d_offset) / n - xh * per_channel(d_scale) / n
    agree(dx, per_channel(scale) * r * inner, dtype)


def test_statistics_of_the_rank_of_x() -> None:
    x, full = tensor((2, 3, 4)), [tensor((3,), seed=k).abs() + 0.1 for k in range(4)]
    (flat,) = results("BNInfer", [x, *full], {"epsilon": 1e-3})
    (same,) = results("BNInfer", [x, *(t.reshape(1, 3, 1) for t in full)], {"epsilon": 1e-3})
    assert torch.equal(flat, same)


def test_statistics_of_one_element() -> None:
    x = torch.tensor([[3.0], [INF], [NAN]])
    y, m, r = results("LayerNormV4", [x, torch.tensor([1]), None, None], {"epsilon": 0.25}, constants=(1,))
    for actual, expected in ((y, [0.0, NAN, NAN]), (m, [3.0, INF, NAN]), (r, [2.0, NAN, NAN])):
        torch.testing.assert_close(actual.flatten(), torch.tensor(expected), equal_nan=True)


# ---- sizes known only when the op runs -----------------------------------------------------------------------------

S, T = symbol("s0"), symbol("s1")
DYNAMIC: list[tuple[str, list[tuple[Any, ...]], dict[str, Any], Callable[..., Any]]] = [
    ("ReduceMeanD", [(S, 4, T)], {"axes": [0, 2]}, lambda x: x.mean((0, 2))),
    ("ReduceVar", [(S, T)], {"dim": [1]}, lambda x: (x.var(1), x.mean(1))),
    ("ReduceVar", [(S, T)], {"dim": [1], "correction": 9}, lambda x: (x.var(1) * INF, x.mean(1))),
    ("SoftmaxV2", [(S, T)], {"axes": [0]}, lambda x: x.softmax(0)),
    ("GroupNormSilu", [(S, 4, T), (4,), (4,)], {"num_groups": 2, "eps": 1e-5, "activate_silu": False},
     lambda x, g, b: (F.group_norm(x, 2, g, b), x.reshape(3, 2, -1).mean(-1),
                      (x.reshape(3, 2, -1).var(-1, correction=0) + 1e-5).rsqrt())),
    ("MseLoss", [(S, T), (S, T)], {}, F.mse_loss),
    ("MseLossGrad", [(S, T), (S, T), ()], {}, lambda a, b, g: 2 * (a - b) * g / a.numel()),
    ("BNTrainingReduceGrad", [(S, 4, T), (S, 4, T), *[(4,)] * 5], {"epsilon": 0.5},
     lambda g, x, p, q, s, m, v: (s / (v + 0.5).sqrt()).view(-1, 1) * (
         g - (q / 15).view(-1, 1) - (x - m.view(-1, 1)) * (p / 15 / (v + 0.5).sqrt()).view(-1, 1))),
]  # fmt: skip


@pytest.mark.parametrize("kind, shapes, attrs, formula", DYNAMIC, ids=[f"{d[0]}{d[2]}" for d in DYNAMIC])
def test_symbolic_sizes(
    kind: str, shapes: list[tuple[Any, ...]], attrs: dict[str, Any], formula: Callable[..., Any]
) -> None:
    values = {"s0": 3, "s1": 5}
    inputs = [tensor([expr.evaluate(d, values) for d in s], seed=k).abs() for k, s in enumerate(shapes)]
    op = view(kind, inputs, attrs, shapes=shapes, outputs="inferred")
    expected = formula(*(t.double() for t in inputs))
    found = run_reduce(op, inputs, values)
    for actual, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        agree(actual, exact, torch.float32)


# ---- losses --------------------------------------------------------------------------------------------------------


def bce(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(x, y, w, reduction="none")


def with_logits(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(x, y, w, pos_weight=q, reduction="none")


LOSSES: dict[str, tuple[Callable[..., torch.Tensor], list[Any], dict[str, Any]]] = {
    "MseLoss": (lambda a, b: (a - b) ** 2, [], {}),
    "LpLoss": (lambda a, b: (a - b).abs(), [], {"p": 1}),
    "SmoothL1LossV2": (lambda a, b: F.smooth_l1_loss(a, b, beta=0.7, reduction="none"), [], {"sigma": 0.7}),
    "SoftMarginLoss": (lambda a, b: F.soft_margin_loss(a, b, reduction="none"), [], {}),
    "BinaryCrossEntropy": (bce, [(4, 1)], {}),
    "SigmoidCrossEntropyWithLogitsV2": (with_logits, [(4, 5), (5,)], {}),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", None])
@pytest.mark.parametrize("kind", LOSSES)
def test_losses(kind: str, reduction: str | None, dtype: torch.dtype) -> None:
    formula, extra, attrs = LOSSES[kind]
    a, b = 3 * tensor((4, 5), dtype), tensor((4, 5), dtype, 1)
    if kind in ("BinaryCrossEntropy", "SigmoidCrossEntropyWithLogitsV2"):
        b = b.sigmoid()
        a = a.sigmoid().clamp(0.01, 0.99) if kind == "BinaryCrossEntropy" else a
    inputs = [a, b, *(tensor(s, dtype, 2).abs() for s in extra)]
    if reduction is not None:
        attrs = {**attrs, "reduction": reduction}
    (y,) = results(kind, inputs, attrs)
    exact = formula(*(t.double() for t in inputs))
    exact = {"none": exact, "sum": exact.sum()}.get(reduction or "mean", exact.mean())
    agree(y, exact, dtype)


def test_losses_at_the_ends() -> None:
    x, y = torch.tensor([0.0, 1.0, 0.0, 1.0, NAN]), torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5])
    (found,) = results("BinaryCrossEntropy", [x, y], {"reduction": "none"})
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 100.0, 100.0, NAN]), equal_nan=True)
    p, t = torch.tensor([-200.0, 200.0, 200.0, INF]), torch.tensor([1.0, 1.0, 0.0, 0.0])
    (found,) = results("SigmoidCrossEntropyWithLogitsV2", [p, t], {"reduction": "none"})
    assert found.tolist() == [200.0, 0.0, 200.0, INF]
    (found,) = results("MseLoss", [torch.zeros(0, 3), torch.zeros(0, 3)])
    assert found.isnan()
    assert results("MseLoss", [torch.zeros(0), torch.zeros(0)], {"reduction": "sum"})[0].item() == 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_gradients_of_losses(reduction: str, dtype: torch.dtype) -> None:
    a, b, g = (tensor((3, 7), dtype, k) for k in range(3))
    d, attrs = (a.double() - b.double()), {"reduction": reduction}
    share = 21 if reduction == "mean" else 1
    scalar = g[0, 0].clone()
    for dout in (g, scalar):
        (y,) = results("MseLossGrad", [a, b, dout], attrs)
        agree(y, 2 * d * dout.double() / share, dtype)
    (y,) = results("SmoothL1LossGradV2", [a, b, scalar], {**attrs, "sigma": 0.5})
    agree(y, (d / 0.5).clamp(-1, 1) * scalar.double() / share, dtype)
    (y,) = results("L1LossGrad", [g, a, b], attrs)
    agree(y, d.sign() * g.double() / share, dtype)
    p, t = a.sigmoid(), b.sigmoid()
    (y,) = results("BinaryCrossEntropyGrad", [p, t, scalar, g.abs()], attrs)
    wide = p.double()
    exact = g.double().abs() * scalar.double() * (wide - t.double()) / (wide * (1 - wide)).clamp(min=1e-12)
    agree(y, exact / share, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_losses_without_reduction(dtype: torch.dtype) -> None:
    a, b, g = (3 * tensor((3, 7), dtype, k) for k in range(3))
    d = a.double() - b.double()
    y = run(view("SmoothL1Loss", [a, b], {"sigma": 2.0}), [a, b])
    agree(y, F.smooth_l1_loss(a.double(), b.double(), beta=2.0, reduction="none"), dtype)
    y = run(view("SmoothL1LossGrad", [a, b, g], {"sigma": 2.0}), [a, b, g])
    agree(y, (d / 2).clamp(-1, 1) * g.double(), dtype)
    y = run(view("SigmoidCrossEntropyWithLogits", [a, b]), [a, b])
    agree(y, F.binary_cross_entropy_with_logits(a.double(), b.double(), reduction="none"), dtype)
    y = run(view("SigmoidCrossEntropyWithLogitsGrad", [a, b, g]), [a, b, g])
    agree(y, (a.double().sigmoid() - b.double()) * g.double(), dtype)
