"""Rows of the embedding ops."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.host.op_rows import Row, i64, ints, r, row

NAN = float("nan")


def _embeddings() -> list[Row]:
    w, flat, bags = r(6, 4), ints(0, 6, 9), i64(0, 3, 3, 7)
    grad, where = r(2, 5, 4), ints(0, 6, 2, 5)
    rows = []
    for mode in ("sum", "mean", "max"):
        f = lambda w, i, o, m=mode: [F.embedding_bag(i, w, o, mode=m), None, None, None]  # noqa: E731
        rows.append(row("EmbeddingBag", f, {"weight": w, "indices": flat, "offsets": bags}, {"mode": mode}, half=True))
    dense = lambda g, i, p, s: torch.ops.aten.embedding_dense_backward(g, i.long(), 6, p, s)  # noqa: E731
    return [
        *rows,
        row(
            "EmbeddingBag",
            lambda w, i: [F.embedding_bag(i, w, mode="mean"), None, i64(5, 5), None],
            {"weight": w, "indices": where},
        ),
        row(
            "EmbeddingBag",
            lambda w, i, o, s: [F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s), None, None, None],
            {"weight": w, "indices": flat, "offsets": bags, "per_sample_weights": r(9)},
            {"mode": "sum"},
        ),
        row(
            "EmbeddingBag",
            lambda w, i, o: [
                F.embedding_bag(i, w, o, mode="mean", include_last_offset=True, padding_idx=2),
                i64(0, 0, 0, 1, 1),
                None,
                None,
            ],
            {"weight": w, "indices": i64(2, 1, 0, 2, 5), "offsets": i64(0, 3, 5)},
            {"mode": "mean", "include_last_offset": True, "padding_idx": 2},
        ),
        row(
            "EmbeddingBag",
            lambda w, i, o: [
                torch.tensor([[3.0, 2.0], [0.0, 0.0]]),
                i64(0, 0),
                i64(2, 0),
                torch.stack([i64(1, 0), i64(-1, -1)]),
            ],
            {"weight": torch.tensor([[1.0, 2.0], [3.0, 1.0]]), "indices": i64(0, 1), "offsets": i64(0, 2)},
            {"mode": "max"},
        ),
        row(
            "EmbeddingDenseGrad",
            lambda g, i: dense(g, i, -1, False),
            {"grad": grad, "indices": where},
            {"num_weights": 6, "padding_idx": -1},
            half=True,
        ),
        row(
            "EmbeddingDenseGrad",
            lambda g, i: dense(g, i, 3, True),
            {"grad": grad, "indices": where.int()},
            {"num_weights": 6, "padding_idx": 3, "scale_grad_by_freq": True},
        ),
        row(
            "EmbeddingDenseGrad",
            lambda g, i: torch.zeros(6, 4),
            {"grad": r(0, 4), "indices": i64()},
            {"num_weights": 6},
        ),
    ]


ROWS = _embeddings()
