"""Tiny models through TorchAir (H15, H25, H26, H29, H47, ...): on an NPU they decide, on the host they are checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from torchair_autofuse.probe.record import Finding

_FLAGS = "--enable_autofuse=true;--autofuse_enable_pass=all"
_REPEATS = 50


def addresses(device: str) -> list[Finding]:
    """Whether tensors start on a 32-byte block."""
    torch = _torch(device)
    held = [torch.zeros(n, dtype=d, device=device) for n in range(1, 40, 2) for d in (torch.int8, torch.float16)]
    odd = sorted({int(t.data_ptr()) % 32 for t in held} - {0})
    text = f"{len(held)} tensors of odd sizes: addresses modulo 32 are {odd or 'all 0'}"
    return [
        Finding("tensors of torch", not odd, text),
        Finding("tensors between ops", None, "GE places them; their addresses are not visible from here"),
    ]


def unregistered_op(device: str) -> list[Finding]:
    """Whether a node of a fused op is accepted and gives the right values, static shapes."""
    torch = _torch(device)
    inputs = [(torch.linspace(-3, 3, 1000), torch.linspace(1, 2, 1000))]
    return _fused("static shapes", device, lambda x, y: torch.sigmoid(x * 2 + y) - x, inputs, dynamic=False)


def symbolic_shapes(device: str) -> list[Finding]:
    """Whether output shapes of a fused op are inferred for sizes that are known at run time only."""
    torch = _torch(device)
    inputs = [(torch.linspace(-1, 1, n * 48).reshape(n, 48), torch.linspace(0, 1, 48)) for n in (4, 7, 33)]
    return _fused("symbolic sizes", device, lambda x, y: (torch.tanh(x + y) * y).reshape(-1, 24), inputs, dynamic=True)


def written_in_place(device: str) -> list[Finding]:
    """Whether an update in place waits for the fused ops that read the old value."""
    torch = _torch(device)

    def step(state: Any, x: Any) -> Any:
        seen = torch.exp(-state) * x
        state.add_(torch.sigmoid(x) * 0.1 + seen * 0.01)
        return seen

    x = torch.linspace(0, 1, 4096)
    made = _compiled(torch, step, dynamic=False)
    expected, state = torch.zeros(4096), torch.zeros(4096).to(device)
    _clear()
    worst = 0.0
    on_device = x.to(device)
    for _ in range(_REPEATS):
        want = step(expected, x)
        got = made(state, on_device)
        worst = max(worst, _error(got.cpu(), want), _error(state.cpu(), expected))
    return _judged("in-place update", worst, 1e-4, f"{_REPEATS} steps")


def late_ops(device: str) -> list[Finding]:
    """Whether an op that is made after a graph has run is found."""
    torch = _torch(device)
    x, y = torch.linspace(-2, 2, 600), torch.linspace(0.5, 1, 600)
    first = _fused("first graph", device, lambda x, y: torch.exp(x) * y - x, [(x, y)], dynamic=False)
    return [*first, *_fused("second graph", device, lambda x, y: torch.tanh(x - y) * y, [(x, y)], dynamic=False)]


def many_arguments(device: str) -> list[Finding]:
    """Whether two outputs and the tiling numbers of several loops reach the kernel."""
    torch = _torch(device)

    def both(x: Any, y: Any) -> Any:
        z = torch.cat((x * 2, y), -1)
        return torch.softmax(z, -1), z.sum(-1) * 1.5

    sizes = (3, 40)
    inputs = [
        (torch.linspace(-1, 1, n * 33).reshape(n, 33), torch.linspace(0, 1, n * 17).reshape(n, 17)) for n in sizes
    ]
    return _fused("two outputs", device, both, inputs, dynamic=True)


def meeting_blocks(device: str) -> list[Finding]:
    """Whether a reduction whose cores meet and share workspace gives the right value every time."""
    torch = _torch(device)
    inputs = [(torch.linspace(-1, 1, 1 << 20) * (k + 1),) for k in range(20)]
    return _fused("split reduction", device, lambda x: torch.sqrt((x * x).sum()), inputs, dynamic=False)


def run_again(device: str) -> list[Finding]:
    """Whether a static graph takes the inputs of each run."""
    torch = _torch(device)
    inputs = [(torch.full((777,), 0.1 * k), torch.linspace(0, k + 1, 777)) for k in range(8)]
    return _fused("static graph, other inputs", device, lambda x, y: torch.sigmoid(x) * y + x, inputs, dynamic=False)


def formats(device: str) -> list[Finding]:
    """Whether a fused op sees dense tensors behind an op that GE likes to keep in a format of its own."""
    torch = _torch(device)
    x, w = torch.linspace(-1, 1, 2 * 3 * 20 * 20).reshape(2, 3, 20, 20), torch.linspace(-0.3, 0.3, 16 * 27)
    weight = w.reshape(16, 3, 3, 3)

    def behind(x: Any, w: Any) -> Any:
        return torch.sigmoid(torch.nn.functional.conv2d(x, w) * 2) + 0.5

    found = _fused("behind a Conv2D", device, behind, [(x, weight)], dynamic=False, limit=5e-3)
    empty = [(torch.zeros(n, 16), torch.ones(16)) for n in (5, 0)]
    return [*found, *_fused("an empty output", device, lambda x, y: torch.exp(x) + y, empty, dynamic=True)]


def _torch(device: str) -> Any:
    import torchair_autofuse

    del torchair_autofuse  # it goes ahead of torch
    import torch

    if device == "npu":
        import torch_npu

        del torch_npu
    os.environ.setdefault("AUTOFUSE_FLAGS", _FLAGS)
    return torch


def _compiled(torch: Any, function: Callable[..., Any], *, dynamic: bool) -> Any:
    import torchair

    torch._dynamo.reset()
    return torch.compile(
        function, backend=torchair.get_npu_backend(compiler_config=torchair.CompilerConfig()), dynamic=dynamic
    )


def _fused(
    name: str, device: str, function: Callable[..., Any], inputs: Sequence[tuple[Any, ...]], *, dynamic: bool,
    limit: float = 1e-5,
) -> list[Finding]:  # fmt: skip
    compiled = _compiled(_torch(device), function, dynamic=dynamic)
    _clear()
    worst = 0.0
    for given in inputs:
        wanted, made = function(*given), compiled(*(a.to(device) for a in given))
        pairs = zip(wanted, made) if isinstance(wanted, tuple) else [(wanted, made)]
        for want, got in ((w, g.cpu()) for w, g in pairs):
            if got.shape != want.shape:
                return [Finding(name, False, f"the shape is {list(got.shape)}, expected {list(want.shape)}")]
            worst = max(worst, _error(got, want))
    return _judged(name, worst, limit, f"{len(inputs)} runs")


def _clear() -> None:
    import torchair_autofuse

    torchair_autofuse.clear_reports()


def _judged(name: str, worst: float, limit: float, what: str) -> list[Finding]:
    """Values count only when a fused op gave them."""
    import torchair_autofuse

    reports = torchair_autofuse.reports()
    fused = [f.op_type for r in reports for f in r.fused]
    if not fused:
        refused = sorted({f"{x.code} {x.reason}" for r in reports for x in r.refused})
        return [Finding(name, None, f"no fused op came out: {'; '.join(refused[:3]) or 'fusion did not run'}")]
    return [Finding(name, worst <= limit, f"{what}, {len(fused)} fused ops, largest error {worst:.2e}")]


def _error(got: Any, want: Any) -> float:
    """The largest difference, relative to the largest value; NaN counts as infinite, nothing as no error."""
    if want.numel() == 0:
        return 0.0
    scale = max(float(want.abs().max()), 1e-30)
    error = float((got - want).abs().max()) / scale
    return error if error == error else float("inf")
