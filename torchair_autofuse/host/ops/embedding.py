"""Embedding bags and the gradient of an embedding table. Sums are taken in f32 and rounded once."""

from __future__ import annotations

import torch

from torchair_autofuse.host.ops.index import positions
from torchair_autofuse.host.ops.numerics import f32
from torchair_autofuse.host.ops.registry import OpCall, op


@op("EmbeddingDenseGrad")
def embedding_dense_grad(call: OpCall) -> torch.Tensor:
    """grad (..., D), indices (...) -> (num_weights, D), rows of grad added at their index in f32.

    Rows of ``padding_idx`` are left out; ``scale_grad_by_freq`` divides by how often the index occurs.
    """
    grad, count = call.tensor("grad"), int(call.attr("num_weights"))
    found = positions(call, call.tensor("indices").reshape(-1), count, negative=False)
    rows = f32(grad).reshape(found.numel(), grad.shape[-1])
    if call.attr("scale_grad_by_freq", False):
        rows = rows / found.bincount(minlength=count)[found].unsqueeze(-1)
    keep = found != int(call.attr("padding_idx", -1))
    y = torch.zeros(count, grad.shape[-1], dtype=rows.dtype)
    return y.index_add(0, found[keep], rows[keep]).to(grad.dtype)


@op("EmbeddingBag")
def embedding_bag(call: OpCall) -> list[torch.Tensor]:
    """weight (V, D), indices, offsets?, per_sample_weights? -> (y (B, D), offset2bag, bag_size, max_indices).

    2-d indices are bags of equal size, 1-d ones need offsets. ``mode`` is sum, mean or max; an empty bag gives 0, and
    rows of ``padding_idx`` do not count. max_indices holds the winning row per bag and column, -1 for none.
    """
    weight, indices, offsets = call.tensor("weight"), call.tensor("indices"), call.optional("offsets")
    flat = positions(call, indices.reshape(-1), weight.shape[0], negative=False)
    if indices.dim() == 2:
        starts = torch.arange(indices.shape[0]) * indices.shape[1]
    elif offsets is None:
        raise ValueError(f"EmbeddingBag {call.name}: 1-d indices need offsets")
    else:
        starts = offsets.long()
        starts = starts[:-1] if call.attr("include_last_offset", False) else starts
    bags = torch.searchsorted(starts, torch.arange(flat.numel()), right=True) - 1
    count, mode = starts.numel(), str(call.attr("mode", "mean"))
    keep = flat != int(call.attr("padding_idx", -1))
    ids, owner, rows = flat[keep], bags[keep], f32(weight)[flat[keep]]
    samples = call.optional("per_sample_weights")
    rows = rows if samples is None else rows * f32(samples).reshape(-1)[keep].unsqueeze(-1)
    sizes = owner.bincount(minlength=count)
    best = torch.full((count, weight.shape[1]), -1)
    y = torch.zeros(count, weight.shape[1], dtype=rows.dtype)
    if mode == "max":
        for bag in range(count):
            mine = (owner == bag).nonzero().reshape(-1)
            if mine.numel():
                y[bag], place = rows[mine].max(0)
                best[bag] = ids[mine][place]
    elif mode in ("sum", "mean"):
        y = y.index_add(0, owner, rows)
        y = y / sizes.clamp(min=1).unsqueeze(-1) if mode == "mean" else y
    else:
        raise ValueError(f"EmbeddingBag {call.name}: unknown mode {mode!r}")
    return [y.to(weight.dtype), *(t.to(indices.dtype) for t in (bags, sizes, best))]
