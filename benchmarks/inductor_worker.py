"""Asks TorchInductor for the kernels and bytes of models; prints a JSON list. Run by benchmarks.inductor.

Arguments: the backend ("cpu", "gpu"), the module of this folder that has the MODELS, parts of names.

On the CPU backend ``generated_kernel_count`` counts every vector and tail variant, so kernel calls left in the wrapper
are counted instead. Bytes are ``GraphLowering.count_bytes``: each buffer once per kernel.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._inductor.graph import GraphLowering

from benchmarks.models import Model
from benchmarks.section import Settings

_CALL = re.compile(r"^\s+(?:\w+\.run\(|(?:kernels\.)?cpp_fused\w*\()", re.M)
_REPEATS = 50


class Spy:
    """What every GraphLowering since the last reset generated."""

    def __init__(self) -> None:
        self.bytes = 0
        self.code: list[str] = []

    def __call__(self, graph: GraphLowering, code: Any) -> None:
        self.bytes += int(graph.count_bytes()[0])
        self.code.append(str(getattr(code, "value", code)))

    def row(self, label: str, seconds: float | None = None) -> dict[str, Any]:
        calls = sum(len(_CALL.findall(code)) for code in self.code)
        return {"label": label, "kernels": calls, "bytes": self.bytes, "seconds": seconds, "error": ""}


def cases(models: str, settings: Settings) -> Iterator[tuple[str, Model, Any]]:
    """(label, model, dtype) of the static runs that are wanted; labels are those of host_runs."""
    for model in importlib.import_module(f"benchmarks.{models}").MODELS:
        if settings.wants(model.name):
            for dtype in model.dtypes:
                yield f"{model.name} {str(dtype).removeprefix('torch.')}", model, dtype


def failed(label: str, error: Exception) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return {"label": label, "kernels": None, "bytes": None, "seconds": None, "error": text}


def on_cpu(models: str, settings: Settings) -> list[dict[str, Any]]:
    """Compiles and runs with the C++ backend."""
    return [_on_cpu(*c) for c in cases(models, settings)]


def _on_cpu(label: str, model: Model, dtype: Any) -> dict[str, Any]:
    spy, original = Spy(), GraphLowering.codegen

    def codegen(self: GraphLowering) -> Any:
        made = original(self)
        spy(self, made[0])
        return made

    torch._dynamo.reset()
    inputs = model.make(dtype)
    try:
        with torch.no_grad(), mock.patch.object(GraphLowering, "codegen", codegen):
            compiled = torch.compile(model.function, fullgraph=True, dynamic=False)
            compiled(*inputs)
            least = float("inf")
            for _ in range(_REPEATS):
                start = time.perf_counter()
                compiled(*inputs)
                least = min(least, time.perf_counter() - start)
    except Exception as error:  # one model must not hide the others
        return failed(label, error)
    return spy.row(label, least)


def main(arguments: list[str]) -> int:
    backend, models, *parts = arguments
    settings = Settings(tuple(parts))
    if backend == "gpu":
        from benchmarks.inductor_gpu import on_gpu

        rows = on_gpu(models, settings)
    else:
        rows = on_cpu(models, settings)
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
