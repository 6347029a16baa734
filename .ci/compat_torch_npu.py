"""How far the host loader gets with the TorchAir of another torch_npu, unpacked in the folder given, step by step."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any


def main(folder: str) -> int:
    import torchair_autofuse as autofuse

    warnings.simplefilter("error", autofuse.AutofuseWarning)
    import torch
    import torch.fx.experimental.symbolic_shapes as shapes

    if not hasattr(shapes, "hint_int"):  # torch_npu 2.9.1 asks for the name that torch 2.13 no longer has
        shapes.hint_int = shapes.guarding_hint_or_throw  # type: ignore[attr-defined]

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.layer_norm(torch.relu(x * w + 1), (x.shape[-1],))
        return torch.softmax(torch.cat([y, x], -1), -1)

    def import_torchair() -> str:
        import torchair

        assert str(torchair.__file__).startswith(folder), torchair.__file__
        return "its own files"

    def compile_model(fused: bool, dynamic: bool) -> Callable[[], str]:
        def step() -> str:
            import torchair

            torch._dynamo.reset()
            autofuse.clear_reports()
            if fused:
                autofuse.enable("--enable_autofuse=true;--autofuse_enable_pass=all")
            else:
                autofuse.disable()
            backend: Any = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
            compiled = torch.compile(model, backend=backend, dynamic=dynamic)
            for rows in (5, 9) if dynamic else (5,):
                x, w = torch.randn(rows, 64), torch.randn(64)
                torch.testing.assert_close(compiled(x, w), model(x, w))
            counts = [f"{r.kernels_before} -> {r.kernels_after} kernels" for r in autofuse.reports()]
            assert bool(counts) == fused and all(r.fused for r in autofuse.reports())
            return ", ".join([*counts, "values agree with eager"])

        return step

    steps = {
        "import torchair": import_torchair,
        "compile, unfused": compile_model(fused=False, dynamic=False),
        "compile, fused": compile_model(fused=True, dynamic=False),
        "compile, fused, symbolic sizes": compile_model(fused=True, dynamic=True),
    }
    for name, step in steps.items():
        try:
            print(f"{name}: {step()}", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"{name}: NOT REACHED")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
