"""Split, slice, flip and pad; transposes, views and expand; with what models have around them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from movement_case import F16, F32, FLOATS, I32, I64, Case, Function, Tensor

# ---- split and slice ----------------------------------------------------------------------------------------------


def gated(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def three_ways(x: Tensor) -> Any:
    a, b, c = x.split([5, 16, 12], -1)
    return a * 2, torch.relu(b), c + 1


def reordered(x: Tensor) -> Tensor:
    a, b, c = (x * 2).split([5, 16, 12], -1)
    return torch.cat([c, torch.tanh(a), b], -1)


def one_of_three(x: Tensor) -> Tensor:
    return torch.relu((x + 1).chunk(3, -1)[1])


def along(dim: int) -> Function:
    def run(x: Tensor) -> Tensor:
        a, b = (x * 2).chunk(2, dim)
        return torch.tanh(a) - b

    return run


def unbound(x: Tensor) -> Tensor:
    a, b, c = x.unbind(1)
    return a * b + torch.relu(c)


def split_norm(x: Tensor, weight: Tensor) -> Any:
    a, b = x.chunk(2, -1)
    return F.layer_norm(a, (weight.shape[0],), weight), torch.softmax(b * 0.5, -1)


def differences(x: Tensor) -> Tensor:
    return x[..., 1:] - x[..., :-1]


def bounds(x: Tensor) -> Any:
    """Negative and open bounds, bounds beyond the end."""
    return x[..., -3:] * 2, x[..., :-5] + 1, x[:, 1:-1] * 3, x[..., 2:1000] - 1, x[..., -1000:4] * 0.5


def steps(x: Tensor) -> Any:
    return x[..., ::2] + x[..., 1::2], x[..., 1:29:3] * 2, x[::2] + 1, x[:, ::4] * 3


def selects(x: Tensor) -> Any:
    return x[:, 0] * 2, x[:, -1] + x[:, 1], x[..., 5] - 1, x[0] * x[..., -1:][0], x[:, 2, 3:9] * 2


def stencil(x: Tensor) -> Tensor:
    inner = x[:, 1:-1, 1:-1]
    return x[:, :-2, 1:-1] + x[:, 2:, 1:-1] + x[:, 1:-1, :-2] + x[:, 1:-1, 2:] - 4 * inner


def slice_of_slice(x: Tensor) -> Tensor:
    return (x[..., 3:][..., ::2] * 2)[..., 1:4] + 1


def assigned(x: Tensor, y: Tensor) -> Any:
    y = y.clone()
    y[:, 1:4] = x[:, 1:4] * 2
    y[..., 0] = x[..., 3]
    return y + 1


def flips(x: Tensor) -> Any:
    return torch.flip(x * 2, [-1]), torch.flip(x, [0]) + 1, torch.flip(x, [1, 2]) * 3


def rolled(x: Tensor) -> Any:
    return torch.cat([x[..., -3:], x[..., :-3]], -1) * 2, torch.cat([x[:, 2:], x[:, :2]], 1) + 1


def padded(x: Tensor) -> Any:
    return F.pad(x * 2, (1, 2)), F.pad(x, (3, 0, 0, 2), value=-1.5) + 1, F.pad(x, (-1, 1, 2, -1)) * 2


def padded_by_edges(x: Tensor) -> Tensor:
    """The first value twice in front, the last three times behind."""
    b, n = x.shape[:2]
    return torch.cat([x[..., :1].expand(b, n, 2), x * 2, x[..., -1:].expand(b, n, 3)], -1) + 1


SPLIT: tuple[Case, ...] = (
    Case("swiglu", gated, (("B", "S", 66),), FLOATS, widths=True),
    Case("uneven", three_ways, (("B", "S", 33),), (F32, F16)),
    Case("reordered", reordered, (("B", "S", 33),), (F32, F16)),
    Case("one part used", one_of_three, (("B", "S", 51),)),
    Case("outer", along(0), ((4, "S", 17),), (F32, F16), widths=True),
    Case("middle", along(1), (("B", 6, 17),), (F32, F16)),
    Case("unbind", unbound, (("B", 3, "S", 17),), (F32, F16)),
    Case("norms of parts", split_norm, (("B", "S", 66), (33,)), (F32, F16)),
    Case("differences", differences, (("B", "S", 33),), FLOATS, widths=True),
    Case("bounds", bounds, (("B", 7, 20),), (F32, F16, I32), widths=True),
    Case("steps", steps, ((4, 8, 32),), (F32, F16, I32)),
    Case("selects", selects, (("B", 7, 24),), (F32, F16, I64)),
    Case("stencil", stencil, (("B", 12, 19),), (F32, F16)),
    Case("slice of slice", slice_of_slice, (("B", "S", 33),)),
    Case("assignment", assigned, (("B", 7, 20),) * 2, (F32, F16)),
    Case("flip", flips, (("B", "S", 17),), FLOATS, widths=True),
    Case("roll", rolled, (("B", 9, 17),), (F32, F16)),
    Case("pad", padded, (("B", 7, 20),), FLOATS, widths=True),
    Case("pad by edges", padded_by_edges, (("B", 7, 20),), (F32, F16)),
)

# ---- transpose, views, expand -------------------------------------------------------------------------------------


def permuted(*order: int) -> Function:
    """A step before, one after, and a result that keeps the old order."""

    def run(x: Tensor) -> Any:
        y = x * 2
        return torch.relu(y.permute(order).contiguous()) + 1, y - 1

    return run


def permuted_plus(*order: int) -> Function:
    def run(x: Tensor, bias: Tensor) -> Tensor:
        return torch.tanh(x.permute(order) + bias)

    return run


def as_output(x: Tensor) -> Any:
    return x.transpose(-1, -2), (x * 2).transpose(0, 1), torch.relu(x).mT.contiguous()


def both_ways(x: Tensor) -> Tensor:
    return (x.transpose(1, 2).contiguous() * 2).transpose(1, 2) + x


def heads(x: Tensor) -> Tensor:
    return torch.relu(x.view(x.shape[0], x.shape[1], 4, -1).transpose(1, 2)) * 0.125


def merged_heads(x: Tensor) -> Tensor:
    return (x * 2).transpose(1, 2).reshape(x.shape[0], x.shape[2], -1) + 1


def norm_of_transposed(x: Tensor, weight: Tensor) -> Tensor:
    return F.layer_norm(x.transpose(1, 2) * 2, (weight.shape[0],), weight).transpose(1, 2)


def channel_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm over channels of an image, as in ConvNeXt."""
    return F.layer_norm(x.permute(0, 2, 3, 1), (weight.shape[0],), weight, bias).permute(0, 3, 1, 2)


def sum_of_transposed(x: Tensor) -> Any:
    y = (x * 2).transpose(1, 2)
    return y.sum(-1), y.sum(1)


def pixel_shuffle(x: Tensor) -> Any:
    """Channels become squares of 2x2 pixels, and back."""
    b, c, h, w = x.shape
    up = (x * 2).view(b, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // 4, h * 2, w * 2)
    down = torch.relu(x).view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, c * 4, h // 2, w // 2)
    return up, down


def channel_shuffle(x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    return torch.relu(x).view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w) * 2


def windows(x: Tensor) -> Tensor:
    b, h, w, c = x.shape
    return (x + 1).view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c) * 2


def view_chain(x: Tensor, y: Tensor) -> Tensor:
    return (torch.relu(x.view(x.shape[0], -1, 4, 6)) + y.view(4, 6)).flatten(2).unsqueeze(1).squeeze(1) * 2


def expand_chain(x: Tensor, y: Tensor) -> Any:
    wide = (x * 2)[:, None].expand(-1, 3, -1, -1)
    return wide.reshape(-1, x.shape[1], x.shape[2]) + y, wide * 0.5


def repeated_heads(x: Tensor) -> Tensor:
    """Grouped queries: each head of keys three times."""
    b, h, s, d = x.shape
    return torch.relu(x)[:, :, None].expand(b, h, 3, s, d).reshape(b, h * 3, s, d) * 2


def repeats(x: Tensor) -> Any:
    return (x * 2).repeat(2, 1, 3), torch.tile(x, (2, 1)) + 1, x.repeat_interleave(3, 1) * 2


TRANSPOSE: tuple[Case, ...] = (
    *(
        Case(f"permute {list(order)}", permuted(*order), (shape,), FLOATS)
        for order, shape in (
            ((0, 2, 1, 3), ("B", "S", 4, 24)),
            ((0, 2, 1), ("B", "S", 17)),
            ((0, 2, 3, 1), ("B", 5, "S", 9)),
            ((0, 3, 1, 2), ("B", "S", 9, 5)),
            ((1, 0), ("S", 33)),
        )
    ),
    Case("permute of 5 dims", permuted(0, 3, 1, 4, 2), (("B", 3, 4, "S", 5),), (F32, F16), widths=True),
    Case("permute reversed", permuted(2, 1, 0), (("B", "S", 17),), (F32, I32)),
    Case("plus a row", permuted_plus(0, 2, 1, 3), (("B", "S", 4, 16), (16,)), (F32, F16)),
    Case("plus another tensor", permuted_plus(0, 2, 1), (("B", "S", 24), ("B", 24, "S")), (F32, F16)),
    Case("outputs", as_output, (("B", "S", 17),), (F32, F16, I64)),
    Case("both ways", both_ways, (("B", "S", 17),), (F32, F16)),
    Case("heads", heads, (("B", "S", 64),), FLOATS, widths=True),
    Case("merged heads", merged_heads, (("B", 4, "S", 16),), FLOATS, widths=True),
    Case("layer norm", norm_of_transposed, (("B", 24, "S"), (24,)), (F32, F16), widths=True),
    Case("norm of channels", channel_norm, (("B", 24, "S", 5), (24,), (24,)), (F32, F16)),
    Case("sums", sum_of_transposed, (("B", "S", 24),), (F32, F16)),
    Case("pixel shuffle", pixel_shuffle, (("B", 8, 4, 6),), (F32, F16)),
    Case("channel shuffle", channel_shuffle, (("B", 6, 5, 7),), (F32, F16)),
    Case("windows", windows, (("B", 8, 12, 10),), (F32, F16)),
    Case("views", view_chain, (("B", "S", 24), (24,)), (F32, F16)),
    Case("expand", expand_chain, (("B", "S", 17), (17,)), (F32, F16)),
    Case("repeated heads", repeated_heads, (("B", 2, "S", 16),), FLOATS, widths=True),
    Case("repeat", repeats, (("B", "S", 17),), (F32, F16, I32)),
)
