"""Lowering rules of reductions on arrays, against the documented formulas in double precision, and their index maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from rule_harness import FLOATS, INF, INTS, NAN, assert_consistent, ints, refusal, run_reduce, view

from torchair_autofuse.ge.catalogue import op_class
from torchair_autofuse.loop.expr import symbol
from torchair_autofuse.lower import RULES

Rows = Callable[[torch.Tensor], torch.Tensor]
S, T = symbol("s0"), symbol("s1")
RTOL = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
ALL_AXES = ([-1], [0], [1], [0, 1], [1, 2], [-3, -1], [0, 1, 2], [])


def over(x: torch.Tensor, axes: Sequence[int], keep: bool, rows: Rows) -> torch.Tensor:
    """``rows``, which reduces the last dim, over some dims; over none it gets single elements."""
    dims = sorted({a % x.dim() for a in axes}) if x.dim() else []
    kept = [d for d in range(x.dim()) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    result = rows(x.permute(kept + dims).reshape([x.shape[d] for d in kept] + [count]))
    return result.reshape([1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims])


def tensor(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed)).to(dtype)


def agree(actual: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype, *, rtol: float = 0, atol: float = 0) -> None:
    """``actual`` is ``exact`` rounded to ``dtype``, within an ulp or so."""
    assert actual.dtype == dtype
    expected = exact.to(dtype)
    torch.testing.assert_close(actual, expected, rtol=rtol or RTOL[dtype], atol=atol, equal_nan=True)


def reduced(kind: str, x: torch.Tensor, axes: Sequence[int], attrs: dict[str, Any]) -> torch.Tensor:
    """The op with its axes where it has them: an input, or an attribute."""
    attr = {"SquareSumV1": "axis", "LpNormV2": "axes"}.get(kind, "axes" if kind.endswith("D") else "")
    if attr:
        op = view(kind, [x], {attr: list(axes), **attrs}, outputs="inferred")
        return run_reduce(op, [x])[0]
    position = torch.tensor(axes, dtype=torch.int64)
    op = view(kind, [x, position], {"noop_with_empty_axes": True, **attrs}, constants=(1,), outputs="inferred")
    return run_reduce(op, [x, position])[0]


FORMULAS: dict[str, Rows] = {
    "ReduceSum": lambda t: t.sum(-1),
    "ReduceMean": lambda t: t.sum(-1) / t.shape[-1],
    "ReduceMax": lambda t: t.amax(-1),
    "ReduceMin": lambda t: t.amin(-1),
    "ReduceProd": lambda t: t.prod(-1),
    "EuclideanNorm": lambda t: t.square().sum(-1).sqrt(),
    "ReduceLogSum": lambda t: t.sum(-1).log(),
    "ReduceLogSumExp": lambda t: t.exp().sum(-1).log(),
}
D_FORMS = ("ReduceSumD", "ReduceMeanD", "ReduceMaxD", "ReduceMinD", "ReduceProdD")
FORMULAS.update({kind: FORMULAS[kind[:-1]] for kind in D_FORMS})
FORMULAS["SquareSumV1"] = lambda t: t.square().sum(-1)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 5), (1, 4, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("kind", FORMULAS)
def test_reductions(kind: str, shape: tuple[int, ...], keep: bool) -> None:
    x = tensor(shape)
    for axes in ALL_AXES:
        if not axes and (kind in D_FORMS or kind == "SquareSumV1"):
            continue
        agree(
            reduced(kind, x, axes, {"keep_dims": keep}),
            over(x.double(), axes, keep, FORMULAS[kind]),
            torch.float32,
            atol=1e-6,
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", FORMULAS)
def test_half_types_accumulate_in_f32(kind: str, dtype: torch.dtype) -> None:
    x = tensor((4, 700), dtype).abs() if kind != "ReduceProd" else tensor((4, 20), dtype)
    agree(reduced(kind, x, [1], {}), over(x.double(), [1], False, FORMULAS[kind]), dtype)


@pytest.mark.parametrize("kind", FORMULAS)
def test_not_finite(kind: str) -> None:
    row = tensor((6,))
    bad = [[NAN], [INF], [-INF], [INF, -INF], [NAN, INF], [0.0], [-0.0]]
    x = torch.stack([torch.cat([torch.tensor(b), row[len(b) :]]) for b in bad])
    agree(reduced(kind, x, [-1], {}), over(x.double(), [-1], False, FORMULAS[kind]), torch.float32, atol=1e-6)


IDENTITIES = {
    "ReduceSum": 0.0, "ReduceMean": NAN, "ReduceMax": -INF, "ReduceMin": INF, "ReduceProd": 1.0, "EuclideanNorm": 0.0,
    "ReduceLogSum": -INF, "ReduceLogSumExp": -INF, "ReduceSumD": 0.0, "ReduceProdD": 1.0, "SquareSumV1": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("kind", IDENTITIES)
def test_nothing_to_reduce(kind: str) -> None:
    y = reduced(kind, torch.zeros(3, 0, 2), [1], {"keep_dims": True})
    torch.testing.assert_close(y, torch.full((3, 1, 2), IDENTITIES[kind]), equal_nan=True)
    assert reduced(kind, torch.zeros(0, 4), [1], {}).shape == (0,)


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"])
def test_integers_wrap_in_their_type(kind: str, dtype: torch.dtype) -> None:
    x = ints(dtype, 1)[:400].reshape(8, 50)
    rows: dict[str, Rows] = {
        "ReduceSum": lambda t: t.sum(-1, dtype=dtype),
        "ReduceProd": lambda t: t.prod(-1, dtype=dtype),
        "ReduceMax": lambda t: t.amax(-1),
        "ReduceMin": lambda t: t.amin(-1),
    }
    for axes in ([0], [1], [0, 1]):
        assert torch.equal(reduced(kind, x, axes, {}), over(x, axes, False, rows[kind]))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", ["ReduceAny", "ReduceAll"])
def test_truth(kind: str, keep: bool) -> None:
    x = torch.rand(5, 2, 3, generator=torch.Generator().manual_seed(3)) < (0.3 if kind == "ReduceAny" else 0.8)
    rows: Rows = (lambda t: t.any(-1)) if kind == "ReduceAny" else (lambda t: t.all(-1))
    for axes in ALL_AXES:
        assert torch.equal(reduced(kind, x, axes, {"keep_dims": keep}), over(x, axes, keep, rows))
    assert torch.equal(reduced(kind, x[:, :0], [1], {}), torch.full((5, 3), kind == "ReduceAll"))


def test_empty_axes() -> None:
    x = tensor((3, 4))
    assert torch.equal(reduced("ReduceSum", x, [], {"noop_with_empty_axes": True}), x)
    agree(reduced("ReduceSum", x, [], {"noop_with_empty_axes": False}), x.double().sum(), torch.float32)
    agree(reduced("ReduceMeanD", x, [], {}), x.double().mean(), torch.float32)
    agree(reduced("SquareSumV1", x, [], {}), x.double().square().sum(), torch.float32)
    reason = refusal(view("ReduceSum", [x, torch.zeros(0)], constants=(1,), outputs=[(x.dtype, (3, 4))]))
    assert reason is not None and reason.code == "AF218" and "noop_with_empty_axes is not given" in reason.text


def test_scalars() -> None:
    x = torch.tensor(-3.0)
    assert reduced("ReduceSum", x, [0], {"keep_dims": True}).item() == -3
    assert reduced("ReduceMean", x, [-1], {}).item() == -3
    assert reduced("LpNormV2", x, [], {"epsilon": 0.0}).item() == 3
    (y,) = run_reduce(view("L2Loss", [tensor((3, 4))], outputs="inferred"), [tensor((3, 4))])
    agree(y, tensor((3, 4)).double().square().sum() / 2, torch.float32)


@pytest.mark.parametrize("out", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mean_with_cast(dtype: torch.dtype, out: torch.dtype) -> None:
    x, axes = tensor((4, 300), dtype), torch.tensor([1])
    number = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 27}[out]
    op = view("ReduceMeanWithCast", [x, axes], {"dtype": number}, constants=(1,), outputs="inferred")
    agree(run_reduce(op, [x, axes])[0], x.to(out).double().mean(1), out, atol=1e-9)


# ---- norms and deviations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, 2.5, 2147483647.0, -2147483648.0, INF])
def test_p_norm(p: float, dtype: torch.dtype) -> None:
    x = tensor((4, 3, 5), dtype)
    x[0, 0, 0], x[1, 1, 1], x[2, 2, 2] = 0.0, NAN, -INF
    order = math.copysign(INF, p) if abs(p) > 1e9 else p
    for axes in ([-1], [0, 2], []):
        for keep in (False, True):
            y = reduced("LpNormV2", x, axes, {"p": p, "keepdim": keep, "epsilon": 0.0})
            exact = torch.linalg.vector_norm(x.double(), order, axes or None, keep)
            agree(y, exact, dtype, rtol=max(RTOL[dtype], 4e-6))


def test_p_norm_is_clamped() -> None:
    x = torch.tensor([[0.0, 0.0], [1e-3, 0.0], [3.0, 4.0], [NAN, 0.0]])
    y = reduced("LpNormV2", x, [1], {"epsilon": 0.5})
    torch.testing.assert_close(y, torch.tensor([0.5, 0.5, 5.0, NAN]), equal_nan=True)
    assert reduced("LpNormV2", torch.zeros(2, 0), [1], {"p": INF, "epsilon": 0.0}).tolist() == [0.0, 0.0]


def test_p_norm_counts_rounded_values() -> None:
    assert RULES["LpNormV2"].predicate  # what rounds to zero is no nonzero element


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("attrs", [{}, {"correction": 0}, {"unbiased": False}, {"correction": 5}, {"correction": 9}])
def test_standard_deviation(attrs: dict[str, Any], dtype: torch.dtype) -> None:
    x = tensor((3, 5, 4), dtype)
    for axes, keep in (([1], False), ([-2], True), ([0, 2], False), ([], True)):
        dims = axes or [0, 1, 2]
        centre = x.double().mean(dims, keepdim=True)
        full = centre.expand(x.shape).to(dtype).contiguous()
        given = {"dim": axes, "keepdim": keep, **attrs}

        def variance(t: torch.Tensor, m: torch.Tensor, dims: list[int] = dims, keep: bool = keep) -> torch.Tensor:
            count = math.prod(x.shape[d] for d in dims)
            free = max(0, count - (attrs.get("correction", 1) if attrs.get("unbiased", True) else 0))
            return (t - m).square().sum(dims, keepdim=keep) / free

        for kind in ("ReduceStdWithMean", "ReduceStdV2Update"):
            op = view(kind, [x, full], given, outputs=[(dtype, tuple(over(x, dims, keep, lambda t: t[..., 0]).shape))])
            exact = variance(x.double(), full.double())
            agree(run_reduce(op, [x, full])[0], exact.sqrt() if kind == "ReduceStdWithMean" else exact, dtype)
        if "unbiased" in attrs:
            continue
        for kind in ("ReduceVar", "ReduceStdV2"):
            first, second = run_reduce(view(kind, [x], given, outputs="inferred"), [x])
            exact = variance(x.double(), centre)
            agree(first, exact.sqrt() if kind == "ReduceStdV2" else exact, dtype)
            agree(second, x.double().mean(dims, keepdim=keep), dtype, atol=1e-7)


def test_variance_of_a_large_mean() -> None:
    x = 1e4 + 0.05 * tensor((4, 512))
    y, _ = run_reduce(view("ReduceVar", [x], {"dim": [1]}, outputs="inferred"), [x])
    agree(y, x.double().var(1), torch.float32, rtol=1e-3)


def test_sums_per_channel() -> None:
    for shape in ((2, 3), (2, 3, 4), (4, 3, 2, 5), (1, 1, 2, 2)):
        x = tensor(shape, torch.float16)
        total, squares = run_reduce(view("BNTrainingReduce", [x], outputs="inferred"), [x])
        rest = [0, *range(2, len(shape))]
        agree(total, x.double().sum(rest), torch.float32)
        agree(squares, x.double().square().sum(rest), torch.float32)


# ---- position of an extreme ----------------------------------------------------------------------------------------


def ties(dtype: torch.dtype) -> torch.Tensor:
    """Every extreme occurs more than once in each row."""
    return torch.randint(0, 4, (6, 7, 5), generator=torch.Generator().manual_seed(9)).to(dtype)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "kind, dtype",
    [(k, d) for k in ("ArgMaxWithValue", "ArgMinWithValue") for d in FLOATS] + [("ArgMaxWithValue", torch.int32)],
)
def test_arg_with_value(kind: str, dtype: torch.dtype, keep: bool) -> None:
    x = ties(dtype)
    for dim in (0, 1, -1):
        op = view(kind, [x], {"dimension": dim, "keep_dims": keep}, outputs="inferred")
        index, value = run_reduce(op, [x])
        best = x.amax(dim, keep) if "Max" in kind else x.amin(dim, keep)
        assert index.dtype == torch.int32 and torch.equal(value, best)
        hit = x == (best if keep else best.unsqueeze(dim))
        assert torch.equal(index.long(), hit.int().argmax(dim, keep))


@pytest.mark.parametrize("number, out", [(9, torch.int64), (3, torch.int32)])
@pytest.mark.parametrize("kind", ["ArgMaxV2", "ArgMin"])
def test_arg(kind: str, number: int, out: torch.dtype) -> None:
    x = torch.cat([ties(torch.float32), torch.tensor([NAN, 5, INF, -INF, NAN] * 7).reshape(1, 7, 5)])
    for dim in (0, -1, 1):
        d = torch.tensor(dim)
        op = view(kind, [x, d], {"dtype": number}, constants=(1,), outputs="inferred")
        (index,) = run_reduce(op, [x, d])
        signed = x if kind == "ArgMaxV2" else -x
        rank = torch.where(x.isnan(), 1e6, signed.clamp(-1e5, 1e5))  # NaN counts as the extreme
        hit = rank == rank.amax(dim, keepdim=True)
        assert index.dtype == out and torch.equal(index.long(), hit.int().argmax(dim))


# ---- index maps ----------------------------------------------------------------------------------------------------


def symbolic(kind: str, shapes: Sequence[tuple[Any, ...]], attrs: dict[str, Any], axes: Sequence[int] | None) -> Any:
    inputs: list[torch.Tensor | None] = [torch.zeros(1)] * len(shapes)
    dims = list(shapes)
    if axes is not None:
        inputs.append(torch.tensor(axes))
        dims.append((len(axes),))
    return view(
        kind, inputs, attrs, shapes=dims, constants=() if axes is None else (len(dims) - 1,), outputs="inferred"
    )


@pytest.mark.parametrize(
    "kind, shapes, attrs, axes, dims, over_, output",
    [
        ("ReduceSum", [(S, 1, T, 4)], {}, [2], (S, T, 4), (1,), ((0,), (), (2,))),
        ("ReduceMax", [(S, 1, T, 4)], {"keep_dims": True}, [-1, 0], (S, T, 4), (0, 2), ((), (), (1,), ())),
        ("ReduceMean", [(S, T)], {}, [0, 1], (S, T), (0, 1), ()),
        ("SoftmaxV2", [(2, S * T, 8)], {"axes": [1]}, None, (2, S * T, 8), (1,), ((0,), (1,), (2,))),
        ("SoftmaxGrad", [(S, 1, 8), (S, 1, 8)], {}, None, (S, 8), (1,), ((0,), (), (1,))),
        ("RmsNorm", [(S, T, 64), (64,)], {}, None, (S, T, 64), (2,), ((0,), (1,), (2,))),
        ("GroupNorm", [(S, 8, T), (8,), (8,)], {"num_groups": 2, "data_format": "NCHW"}, None, (S, 2, 4, T), (2, 3),
         ((0,), (1, 2), (3,))),
        ("MseLoss", [(S, T), (S, T)], {}, None, (S, T), (0, 1), ()),
        ("MseLossGrad", [(S, T), (S, T), ()], {}, None, (S, T), (0, 1), ((0,), (1,))),
        ("BNInfer", [(S, 3, T), (3,), (3,), (3,), (3,)], {"epsilon": 1e-5}, None, (S, 3, T), (), ((0,), (1,), (2,))),
    ],
)  # fmt: skip
def test_symbolic_index_maps(
    kind: str,
    shapes: list[tuple[Any, ...]],
    attrs: dict[str, Any],
    axes: list[int] | None,
    dims: tuple[Any, ...],
    over_: tuple[int, ...],
    output: tuple[Any, ...],
) -> None:
    op, rule = symbolic(kind, shapes, attrs, axes), RULES[kind]
    reason = rule.check(op)
    assert reason is None, str(reason)
    assert rule.index is not None
    spec = rule.index(op)
    assert_consistent(op, spec)
    assert (spec.dims, spec.reduced, spec.outputs[0]) == (dims, over_, output)


def test_rules_of_reductions_are_complete() -> None:
    mine = {kind for kind, rule in RULES.items() if rule.kind == "reduce"}
    assert len(mine) > 50
    for kind in mine:
        rule = RULES[kind]
        assert rule.index is not None and rule.emit is not None and not rule.view and rule.data_inputs
        assert op_class(kind) in ("reduce", "norm", "loss", "index"), kind
    assert not any(rule.index for kind, rule in RULES.items() if kind not in mine)
