"""A chain of small vector ops with broadcasts: what an activation with scale, bias and mask looks like.

    python -m torchair_autofuse run samples/pointwise_chain.py

or, in a script of yours: import torchair_autofuse first and set AUTOFUSE_FLAGS="--enable_autofuse=true".
"""

import torchair_autofuse  # noqa: F401  first: without CANN a bare "import torch" fails
import torch
import torchair


def activation(x, scale, bias, keep):
    y = torch.relu(x * scale + bias) * torch.sigmoid(x)
    return torch.where(keep, y, -0.5 * y)


torch.manual_seed(0)
backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
compiled = torch.compile(activation, backend=backend, dynamic=False)

for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 2e-3)):
    x = torch.randn(64, 1000, dtype=dtype)
    scale, bias = torch.randn(1000, dtype=dtype), torch.randn(1000, dtype=dtype)
    keep = torch.rand(64, 1) < 0.7
    expected = activation(x, scale, bias, keep)
    got = compiled(x, scale, bias, keep)
    error = (got - expected).abs().max().item() / expected.abs().max().item()
    print(f"{dtype}: largest difference from eager {error:.2e} of the largest value")
    assert error < tolerance
