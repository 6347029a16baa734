"""A transformer block (layer norm, explicit attention, gelu MLP, residuals) in f32 and f16.

python -m torchair_autofuse run samples/transformer_block.py
"""

import torchair_autofuse  # noqa: F401  first: without CANN a bare "import torch" fails
import torch
import torchair
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Pre-norm block on [batch, sequence, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=-1)
        )
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


torch.manual_seed(0)
backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())

for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 4e-3)):
    block = Block(width=256, heads=4).to(dtype).eval()
    x = torch.randn(2, 64, 256, dtype=dtype)
    with torch.no_grad():
        expected = block(x)
        got = torch.compile(block, backend=backend, dynamic=False)(x)
    error = (got - expected).abs().max().item() / expected.abs().max().item()
    print(f"{dtype}: largest difference from eager {error:.2e} of the largest value")
    assert error < tolerance
