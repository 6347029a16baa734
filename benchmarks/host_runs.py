"""Runs of the small models through TorchAir on the host: fused, unfused and eager, with reports and twin profiles; and
their graphs as the plugin sees them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torchair_autofuse
from benchmarks.captured import ALL_PASSES
from benchmarks.models import MODELS, ROWS, Model
from benchmarks.section import Settings, Unavailable
from torchair_autofuse.ge.catalogue import MATMUL
from torchair_autofuse.ge.reader import read
from torchair_autofuse.ge.simplify import live
from torchair_autofuse.pipeline import FusionResult
from torchair_autofuse.report import FusionReport

FLAGS = "--enable_autofuse=true;--autofuse_enable_pass=all"
OTHER_ROWS = 37  # a second size for graphs with symbols, far from any tile
_REPEATS = 20


@dataclass(frozen=True)
class HostRun:
    """One model in one dtype, static or dynamic. Outputs are lists of tensors.

    ``exact``: the model itself on the inputs in f64; ``profiles``: op type -> TwinProfile of its last launch; seconds
    are the least of a few warm calls. ``matmuls``: kernels of the fused graph that multiply matrices.
    """

    model: Model
    dtype: Any
    dynamic: bool
    fused: list[Any]
    unfused: list[Any]
    eager: list[Any]
    exact: list[Any]
    report: FusionReport
    profiles: dict[str, Any]
    seconds: float
    unfused_seconds: float
    eager_seconds: float
    matmuls: int = 0

    @property
    def label(self) -> str:
        return label(self.model, self.dtype, self.dynamic)


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error: what was run, and the first line of the error."""

    label: str
    text: str


def label(model: Model, dtype: Any, dynamic: bool = False) -> str:
    """What a run is called in every table."""
    return f"{model.name} {str(dtype).removeprefix('torch.')}{' dynamic' if dynamic else ''}"


def runs(settings: Settings) -> Iterator[HostRun | Failure]:
    """Every model in its dtypes, then those with symbolic sizes in f32. Raises Unavailable where none can run."""
    _require()
    for model in MODELS:
        if settings.wants(model.name):
            for dtype in model.dtypes:
                yield _run_or_failure(model, dtype, False)
            if model.dynamic:
                yield _run_or_failure(model, model.dtypes[0], True)


@cache
def _run_or_failure(model: Model, dtype: Any, dynamic: bool, repeats: int = _REPEATS) -> HostRun | Failure:
    try:
        with _one_thread():
            return run(model, dtype, dynamic, repeats)
    except Exception as error:  # one model must not take the others with it
        return Failure(label(model, dtype, dynamic), f"{type(error).__name__}: {error}".splitlines()[0][:200])


def run_or_failure(model: Model, dtype: Any, *, dynamic: bool = False, timed: bool = True) -> HostRun | Failure:
    """One run of a model of another measure. Without ``timed`` the seconds are of a single call."""
    _require()
    return _run_or_failure(model, dtype, dynamic, _REPEATS if timed else 1)


def run(model: Model, dtype: Any, dynamic: bool, repeats: int = _REPEATS) -> HostRun:
    """Compiles and runs one model; a dynamic one is compiled for one number of rows and measured at another."""
    from torchair_autofuse.host import kernels

    inputs = model.make(dtype, OTHER_ROWS if dynamic else ROWS)
    warm_up = model.make(dtype, ROWS)
    torchair_autofuse.clear_reports()
    kernels.clear()
    results = _results()
    results.clear()
    torchair_autofuse.enable(FLAGS)
    try:
        fused, seconds = _compiled(model, warm_up, inputs, dynamic, repeats)
        (report,) = torchair_autofuse.reports()
        matmuls = sum(_matmuls(result) for result in results)
        profiles = dict(kernels.profiles())
        torchair_autofuse.disable()
        unfused, unfused_seconds = _compiled(model, warm_up, inputs, dynamic, repeats)
    finally:
        torchair_autofuse.disable()
    eager = _list(model.function(*inputs))
    doubles = tuple(t.double() if t.is_floating_point() else t for t in inputs)
    exact = _list(model.function(*doubles))
    eager_seconds = _least(lambda: model.function(*inputs), repeats)
    return HostRun(
        model, dtype, dynamic, fused, unfused, eager, exact, report, profiles, seconds, unfused_seconds, eager_seconds,
        matmuls,
    )  # fmt: skip


@cache
def captured(model: Model, dtype: Any) -> FusionResult | Failure:
    """What the plugin makes of the static graph that TorchAir builds of a model; no kernel is built.

    Raises Unavailable where TorchAir cannot be imported, or builds for an NPU.
    """
    _require(compiler=False)
    from torchair_autofuse import plugin

    inputs = model.make(dtype)
    results: list[FusionResult] = []
    stop = plugin.on_fused(results.append)
    torchair_autofuse.enable(ALL_PASSES.replace(run_unfused=True, strict=False))
    try:
        _compiled(model, inputs, inputs, False, 0)
        (result,) = results
    except Exception as error:  # one model must not take the others with it
        return Failure(label(model, dtype), f"{type(error).__name__}: {error}".splitlines()[0][:200])
    finally:
        torchair_autofuse.disable()
        stop()
    return result


@cache
def _results() -> list[FusionResult]:
    """The results of all graphs fused since it was last cleared; the plugin calls a listener for good."""
    from torchair_autofuse import plugin

    results: list[FusionResult] = []
    plugin.on_fused(results.append)
    return results


def _matmuls(result: FusionResult) -> int:
    graph = read(result.model_def)
    alive = live(graph.nodes)
    return sum(node.type in MATMUL for node in graph.nodes if node.name in alive)


def _compiled(
    model: Model, warm_up: Sequence[Any], inputs: Sequence[Any], dynamic: bool, repeats: int
) -> tuple[list[Any], float]:
    import torch
    import torchair

    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(model.function, backend=backend, dynamic=dynamic, fullgraph=True)
    compiled(*warm_up)
    outputs = _list(compiled(*inputs))
    return outputs, _least(lambda: compiled(*inputs), repeats)


def _least(call: Any, repeats: int) -> float:
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """More torch threads only wait on a busy machine. Held over a whole run: a change makes Dynamo compile anew."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _require(*, compiler: bool = True) -> None:
    from torchair_autofuse.host import loader

    if loader.cann_present():
        raise Unavailable("CANN is present: these measures are of the host; TORCHAIR_AUTOFUSE_HOST=1 asks for it")
    try:
        import torch  # noqa: F401
        import torchair  # noqa: F401
    except ImportError as error:
        raise Unavailable(f"TorchAir cannot be imported ({error}): pip install -e '.[host]' in a checkout") from error
    if not compiler:
        return
    from torchair_autofuse.twin.errors import NoCompiler
    from torchair_autofuse.twin.toolchain import find_compiler

    try:
        find_compiler()
    except NoCompiler as error:
        raise Unavailable(str(error)) from error
