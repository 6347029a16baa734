"""scaled_dot_product_attention on the host: the function itself, and through TorchAir's graphs."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from torchair_autofuse.host import loader, sdpa

loader.install()
wheel = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

# name -> query shape, key and value shape, dtype, arguments
B, H, L, S, E = 2, 4, 5, 7, 8
Q, KV = (B, H, L, E), (B, H, S, E)
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], torch.dtype, dict[str, Any]]] = {
    "plain": (Q, KV, torch.float32, {}),
    "causal": (Q, KV, torch.float32, {"is_causal": True}),
    "causal long query": (KV, Q, torch.float32, {"is_causal": True}),
    "scale": (Q, KV, torch.float32, {"scale": 0.7}),
    "bool mask": (Q, KV, torch.float32, {"attn_mask": "bool"}),
    "float mask": (Q, KV, torch.float32, {"attn_mask": "float"}),
    "key mask": (Q, KV, torch.float32, {"attn_mask": "keys"}),
    "masked row": (Q, KV, torch.float32, {"attn_mask": "row"}),
    "masked row float": (Q, KV, torch.float32, {"attn_mask": "row float"}),
    "gqa": (Q, (B, 2, S, E), torch.float32, {"enable_gqa": True}),
    "3d": (Q[1:], KV[1:], torch.float32, {"is_causal": True}),
    "3d mask": (Q[1:], KV[1:], torch.float32, {"attn_mask": "float"}),
    "f16": (Q, KV, torch.float16, {"is_causal": True}),
    "f16 mask": (Q, KV, torch.float16, {"attn_mask": "float"}),
    "bf16": (Q, KV, torch.bfloat16, {"attn_mask": "bool"}),
}


def _case(name: str) -> tuple[list[torch.Tensor], dict[str, Any]]:
    torch.manual_seed(list(CASES).index(name))
    q_shape, kv_shape, dtype, kwargs = CASES[name]
    tensors = [torch.randn(s).to(dtype) for s in (q_shape, kv_shape, kv_shape)]
    kwargs = dict(kwargs)
    kind = kwargs.get("attn_mask")
    if kind is not None:
        rows, columns = q_shape[-2], kv_shape[-2]
        kept = torch.rand(rows, columns) > 0.4
        kept[:, 0] = True
        if "row" in kind:
            kept[1] = False
        if kind == "keys":
            kept = kept[:1].expand(B, 1, 1, columns)
        if "float" in kind:
            mask = torch.randn(rows, columns).masked_fill(~kept, -torch.inf).to(dtype)
            kwargs["attn_mask"] = mask
        else:
            kwargs["attn_mask"] = kept
    return tensors, kwargs


def _tolerance(dtype: torch.dtype) -> dict[str, float]:
    """One rounding to the result's type on values of order one."""
    return {"rtol": 2 * torch.finfo(dtype).eps, "atol": max(2 * torch.finfo(dtype).eps, 1e-6)}


@pytest.mark.parametrize("name", CASES)
def test_function_agrees_with_torch(name: str) -> None:
    (q, k, v), kwargs = _case(name)
    got = sdpa.attention(q, k, v, **kwargs)
    # The f64 result of PyTorch's own function is the yardstick.
    mask = kwargs.get("attn_mask")
    wide = dict(kwargs, attn_mask=mask.double() if mask is not None and mask.dtype != torch.bool else mask)
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **wide).to(q.dtype)
    assert got.dtype == q.dtype
    torch.testing.assert_close(got, want, **_tolerance(q.dtype))


@pytest.mark.parametrize("kind", ["row", "row float"])
def test_gradients_with_a_masked_row_are_finite_and_right(kind: str) -> None:
    (q, k, v), kwargs = _case("masked row" if kind == "row" else "masked row float")
    grads = []
    for function in (sdpa.attention, F.scaled_dot_product_attention):
        leaves = [t.double().requires_grad_() for t in (q, k, v)]
        mask = kwargs["attn_mask"]
        out = function(*leaves, attn_mask=mask if mask.dtype == torch.bool else mask.double())
        grads.append(torch.autograd.grad(out.square().sum(), leaves))
    for got, want in zip(*grads):
        assert got.isfinite().all()
        torch.testing.assert_close(got, want)


def test_autocast_rounds_inputs_only() -> None:
    (q, k, v), _ = _case("plain")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = sdpa.attention(q, k, v)
    want = F.scaled_dot_product_attention(*(t.bfloat16().double() for t in (q, k, v))).bfloat16()
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, want, **_tolerance(torch.bfloat16))


def test_mask_and_causal_together_are_refused() -> None:
    (q, k, v), kwargs = _case("bool mask")
    with pytest.raises(ValueError, match="attn_mask or is_causal"):
        sdpa.attention(q, k, v, is_causal=True, **kwargs)


def _npu(function: Any, dynamic: bool) -> Any:
    import torchair

    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)


@wheel
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_compiled_agrees_with_torch(name: str, dynamic: bool) -> None:
    (q, k, v), kwargs = _case(name)
    mask = kwargs.pop("attn_mask", None)

    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **kwargs) * 2

    with torch.no_grad():
        got = _npu(model, dynamic)(q, k, v, mask)
        want = model(q, k, v, mask)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, **_tolerance(q.dtype))


@wheel
def test_one_graph_for_many_shapes() -> None:
    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        grouped = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return grouped + F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], attn_mask=mask)

    compiled = _npu(model, True)
    torch.manual_seed(0)
    for i, (batch, rows, columns) in enumerate([(2, 5, 7), (3, 8, 4), (5, 11, 11)]):
        q, k, v = torch.randn(batch, 6, rows, 8), torch.randn(batch, 3, columns, 8), torch.randn(batch, 3, columns, 8)
        mask = torch.rand(batch, 1, rows, columns) > 0.5
        with torch.compiler.set_stance("fail_on_recompile" if i else "default"):
            got = compiled(q, k, v, mask)
        torch.testing.assert_close(got, model(q, k, v, mask))


@wheel
def test_layout_of_the_query_is_kept_for_views() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.view(2, 6, 4, 8).transpose(1, 2) for t in (x, x * 0.5, x + 1))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view(2, 6, 32)

    torch.manual_seed(0)
    x = torch.randn(2, 6, 32)
    torch.testing.assert_close(_npu(model, False)(x), model(x))


@wheel
def test_calls_inside_other_calls() -> None:
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=True)

    def model(x: torch.Tensor) -> torch.Tensor:
        x = x + layer(x, x, x, need_weights=False)[0]
        return checkpoint(lambda t: F.scaled_dot_product_attention(t, t, t), x, use_reentrant=False)

    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(_npu(model, False)(x), model(x))


@wheel
def test_training_step() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 4, 6, 8) for _ in range(3)]

    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    results = []
    for function in (_npu(model, False), model):
        leaves = [t.clone().requires_grad_() for t in tensors]
        function(*leaves).square().sum().backward()
        results.append([t.grad for t in leaves])
    for got, want in zip(*results):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@wheel
def test_eager_attention_is_untouched() -> None:
    import torchair  # noqa: F401

    (q, k, v), _ = _case("plain")
    names = []

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.name())
            return func(*args, **(kwargs or {}))

    with Record():
        F.scaled_dot_product_attention(q, k, v)
    assert names == ["aten::_scaled_dot_product_flash_attention_for_cpu"]
