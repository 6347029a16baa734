"""Reductions on the twin: kernels, GM bytes against the floor, vector work per element, cores, error against f64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.host_runs import Failure, HostRun, run_or_failure
from benchmarks.models import F16, F32, Model, layer_norm, wide
from benchmarks.section import Section, Settings, percent
from benchmarks.values import relative

_COLUMNS = ("case", "kernels", "on twin", "cores", "GM bytes", "floor", "of floor %", "passes %", "vector",
            "elements per input", "elements per vector", "UB peak", "fused : f64", "unfused : f64")  # fmt: skip


def rms_norm_residual(x: Tensor, y: Tensor, gamma: Tensor) -> Tensor:
    h = wide(x + y)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * gamma


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, -1)  # by itself it stays GE's own kernel


def row_norm(x: Tensor) -> Tensor:
    return torch.sqrt((x * x).sum(-1))


def whole_norm(x: Tensor) -> Tensor:
    return torch.sqrt((x * x).sum())


def three(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.sum(), (x * x).sum(), torch.max(x)


def rows_and_columns(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.abs()  # a lone sum stays GE's own kernel
    return y.sum(-1), y.sum(0)


BOTH = (F32, F16)
# sizes are part of a case: the number of rows that host_runs passes is not used
CASES: tuple[Model, ...] = (
    Model("layer norm 512x768", layer_norm, lambda d, r: (*(d(512, 768) for _ in "xy"), d(768), d(768)), BOTH),
    Model("rms norm + residual 512x768", rms_norm_residual, lambda d, r: (d(512, 768), d(512, 768), d(768)), BOTH),
    Model("softmax 512x4096", softmax, lambda d, r: (d(512, 4096),), BOTH),
    Model("softmax 64x131072", softmax, lambda d, r: (d(64, 131072),)),
    Model("L2 norm per row 512x4096", row_norm, lambda d, r: (d(512, 4096),)),
    Model("L2 norm of all 1024x1024", whole_norm, lambda d, r: (d(1024, 1024),)),
    Model("sum, squares, max 1024x1024", three, lambda d, r: (d(1024, 1024),)),
    Model("row and column sums 1024x1024", rows_and_columns, lambda d, r: (d(1024, 1024),)),
)


def run(settings: Settings) -> list[Section]:
    """One row per case and dtype; counts are of one launch of every kernel, over all cores."""
    rows: list[tuple[Any, ...]] = []
    failures: list[str] = []
    for found in _runs(settings):
        if isinstance(found, Failure):
            failures.append(f"{found.label}: {found.text}")
        elif found.report.rolled_back is not None:
            failures.append(f"{found.label}: {found.report.rolled_back}")
        else:
            rows.append(_row(found))
    notes = (
        "on twin: generated kernels; the columns after it are of these. floor: inputs and outputs of all kernels once",
        "GM bytes: on the twin, where every core counts what it reads of a vector such as gamma; passes: as the report "
        "counts them, every pass over a tensor once",
        "vector: instructions; elements per input: lanes they work on per element of the first input",
        "errors are the largest, relative to the largest value",
        *failures,
    )
    return [Section("Reductions", _COLUMNS, tuple(rows), notes)]


def _runs(settings: Settings) -> Iterator[HostRun | Failure]:
    for model in CASES:
        if settings.wants(model.name):
            for dtype in model.dtypes:
                yield run_or_failure(model, dtype, timed=False)


def _row(found: HostRun) -> tuple[Any, ...]:
    r = found.report
    profiles = [found.profiles[op.op_type] for op in r.fused if op.op_type in found.profiles]
    elements = found.model.make(found.dtype)[0].numel()
    moved, vector = sum(p.gm_bytes for p in profiles), sum(p.vector_instructions for p in profiles)
    lanes = sum(p.vector_elements for p in profiles)
    cores, peak = (max((getattr(p, k) for p in profiles), default=None) for k in ("block_dim", "ub_peak_bytes"))
    errors = (relative(side, found.exact, found.exact) for side in (found.fused, found.unfused))
    floor = r.gm_bytes_floor
    return (
        found.label, r.kernels_after, len(profiles), cores, moved, floor, percent(moved, floor),
        percent(r.gm_bytes_after, floor), vector, round(lanes / elements, 2),
        round(lanes / vector) if vector else None, peak, *errors,
    )  # fmt: skip
