"""One compiled graph for every batch size: a gated MLP whose batch dimension is symbolic.

python -m torchair_autofuse run samples/dynamic_batch.py
"""

import torchair_autofuse  # noqa: F401  first: without CANN a bare "import torch" fails
import torch
import torchair
from torch import nn
from torch.nn import functional


class GatedMlp(nn.Module):
    """SwiGLU on [batch, width], with an input scale per sample."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width)

    def forward(self, x, scale):
        return x + self.down(functional.silu(self.gate(x)) * self.up(x)) * scale.unsqueeze(-1)


torch.manual_seed(0)
backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
model = GatedMlp(width=128, hidden=344).eval()
compiled = torch.compile(model, backend=backend, dynamic=True)

for batch in (4, 7, 33, 200):
    x, scale = torch.randn(batch, 128), torch.rand(batch)
    with torch.no_grad():
        expected, got = model(x, scale), compiled(x, scale)
    error = (got - expected).abs().max().item() / expected.abs().max().item()
    print(f"batch {batch}: largest difference from eager {error:.2e} of the largest value")
    assert error < 1e-5
