"""A GPT-2-like and a LLaMA-like block with attention written out, weights among the inputs; only torch is imported.

Widths are those of a laptop: 2 sequences of ``rows`` tokens, 256 wide, heads of 64.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.models import F16, F32, Draw, Model, rms_norm

BATCH, WIDTH, HEADS, DEPTH = 2, 256, 4, 64
GROUPED_HEADS = 2
GATED = 688  # 8/3 of the width, rounded up to whole blocks of 16


def gpt2(x: Tensor, mask: Tensor, norms: Tensor, qkv: Tensor, qkv_bias: Tensor, out: Tensor, out_bias: Tensor,
         up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:  # fmt: skip
    """x[b,s,256], an additive mask[s,s]; norms[4,256]: weight and bias of both layer norms."""
    weight1, bias1, weight2, bias2 = norms.unbind(0)
    b, s, width = x.shape
    y = functional.layer_norm(x, (width,), weight1, bias1)
    parts = functional.linear(y, qkv, qkv_bias).split(width, -1)
    q, k, v = (t.view(b, s, HEADS, DEPTH).transpose(1, 2) for t in parts)
    x = x + functional.linear(_attention(q, k, v, mask), out, out_bias)
    y = functional.linear(functional.layer_norm(x, (width,), weight2, bias2), up, up_bias)
    return x + functional.linear(functional.gelu(y, approximate="tanh"), down, down_bias)


def llama(x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor, norm1: Tensor, norm2: Tensor, q: Tensor, k: Tensor,
          v: Tensor, out: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:  # fmt: skip
    """x[b,s,256], an additive mask[s,s], cos and sin[s,64]; k and v of fewer heads are repeated for the queries."""
    b, s, _ = x.shape
    y = rms_norm(x, norm1)
    heads = [functional.linear(y, w).view(b, s, -1, DEPTH).transpose(1, 2) for w in (q, k, v)]
    queries, keys, values = rotated(heads[0], cos, sin), rotated(heads[1], cos, sin), heads[2]
    if keys.shape[1] != HEADS:
        keys, values = repeated(keys), repeated(values)
    x = x + functional.linear(_attention(queries, keys, values, mask), out)
    y = rms_norm(x, norm2)
    return x + functional.linear(functional.silu(functional.linear(y, gate)) * functional.linear(y, up), down)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x[..., d] by halves, as Hugging Face spells it."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def repeated(x: Tensor) -> Tensor:
    """x[b,heads,s,d] with every head as often as there are queries for it."""
    b, heads, s, d = x.shape
    return x[:, :, None].expand(b, heads, HEADS // heads, s, d).reshape(b, HEADS, s, d)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    b, _, s, _ = q.shape
    scores = q @ k.transpose(-1, -2) / 8.0 + mask
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, s, WIDTH)


def _fixed(x: Tensor, *dims: int) -> Tensor:
    """``x``; in a run with symbolic sizes these dims (all, where none is given) are known, as those of a module are."""
    torch._dynamo.mark_static(x, dims or tuple(range(x.dim())))
    return x


def _weight(d: Draw, out: int, into: int) -> Tensor:
    return _fixed(d(out, into) * into**-0.5)


def _tokens(d: Draw, s: int) -> tuple[Tensor, Tensor]:
    """x and the causal mask."""
    x = d(BATCH, s, WIDTH)
    return _fixed(x, 2), torch.full((s, s), -1e4).triu(1).to(x.dtype)


def _gpt2_inputs(d: Draw, s: int) -> tuple[Tensor, ...]:
    sizes = ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH))
    linear = (t for out, into in sizes for t in (_weight(d, out, into), _fixed(d(out))))
    return (*_tokens(d, s), _fixed(d(4, WIDTH)), *linear)


def _llama_inputs(d: Draw, s: int, heads: int) -> tuple[Tensor, ...]:
    sizes = (WIDTH, heads * DEPTH, heads * DEPTH, WIDTH, GATED, GATED)
    linear = (_weight(d, out, WIDTH) for out in sizes)
    angles = (_fixed(d(s, DEPTH), 1) for _ in "cs")
    norms = (_fixed(d(WIDTH)) for _ in "12")
    return (*_tokens(d, s), *angles, *norms, *linear, _weight(d, WIDTH, GATED))


BOTH = (F32, F16)
# kernels: what is to be reached beside the matmuls: what Inductor needs on a GPU
MODELS: tuple[Model, ...] = (
    Model("GPT-2 block", gpt2, _gpt2_inputs, BOTH, True, 9),
    Model("LLaMA block", llama, lambda d, s: _llama_inputs(d, s, HEADS), BOTH, True, 8),
    Model("LLaMA block, grouped heads", llama, lambda d, s: _llama_inputs(d, s, GROUPED_HEADS), BOTH, True, 9),
)
