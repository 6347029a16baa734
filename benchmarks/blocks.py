"""Transformer blocks through TorchAir on the host: kernels beside the matmuls, GM bytes, error against f64.

Beside them TorchInductor's kernels for the same function on a GPU, as benchmarks.inductor counts them.
"""

from __future__ import annotations

from typing import Any

from benchmarks import inductor
from benchmarks.block_models import MODELS
from benchmarks.host_runs import Failure, HostRun, run_or_failure
from benchmarks.section import Section, Settings
from benchmarks.values import relative

_COLUMNS = ("block", "matmuls", "before", "after", "target", "ok", "GPU", "GM bytes before", "after ", "floor",
            "GPU bytes", "plan+codegen s", "fused : f64", "unfused : f64", "note")  # fmt: skip


def run(settings: Settings) -> list[Section]:
    """One row per block and dtype, then those with symbolic sizes in f32."""
    wanted = [model for model in MODELS if settings.wants(model.name)]
    found = [
        run_or_failure(model, dtype, dynamic=dynamic, timed=False)
        for model in wanted
        for dtype, dynamic in (*((d, False) for d in model.dtypes), (model.dtypes[0], True))
    ]
    notes = ["kernels are counted without matmuls; errors are the largest, relative to the largest value"]
    gpu = inductor.rows_by_label("gpu", settings, "block_models", notes) if found else {}
    rows = [_failed(f) if isinstance(f, Failure) else _row(f, gpu.get(f.label, {})) for f in found]
    return [Section("Transformer blocks", _COLUMNS, tuple(rows), tuple(notes))]


def _failed(found: Failure) -> tuple[Any, ...]:
    return (found.label, *[None] * 4, False, *[None] * 8, found.text)


def _row(found: HostRun, gpu: dict[str, Any]) -> tuple[Any, ...]:
    r, target = found.report, found.model.kernels
    before, after = r.kernels_before - found.matmuls, r.kernels_after - found.matmuls
    note = ", ".join(sorted({x.code for x in r.refused})) if r.rolled_back is None else str(r.rolled_back)
    errors = (relative(side, found.exact, found.exact) for side in (found.fused, found.unfused))
    return (
        found.label, found.matmuls, before, after, target, after <= target and r.rolled_back is None,
        gpu.get("kernels"), r.gm_bytes_before, r.gm_bytes_after, r.gm_bytes_floor, gpu.get("bytes"),
        round(sum(r.seconds.values()), 3), *errors, gpu.get("error") or note,
    )  # fmt: skip
