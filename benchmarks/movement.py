"""Data movement on the twin: kernels, GM bytes against the floor, copies and their size, error against f64."""

from __future__ import annotations

from typing import Any

from benchmarks import inductor
from benchmarks.host_runs import Failure, HostRun, run_or_failure
from benchmarks.movement_models import MODELS
from benchmarks.section import Section, Settings, percent
from benchmarks.values import relative

_COLUMNS = ("case", "kernels", "GPU", "on twin", "cores", "GM bytes", "floor", "of floor %", "copies",
            "mean copy bytes", "mean block bytes", "vector", "UB peak", "fused : f64", "unfused : f64")  # fmt: skip


def run(settings: Settings) -> list[Section]:
    """One row per case and dtype; counts are of one launch of every kernel, over all cores."""
    wanted = [model for model in MODELS if settings.wants(model.name)]
    found = [run_or_failure(model, dtype, timed=False) for model in wanted for dtype in model.dtypes]
    notes = [
        "GPU: Inductor's kernels; on twin: generated kernels; copies and what follows are of these",
        "GM bytes: as the twin measured of generated kernels, counted of others; floor: inputs and outputs of the "
        "whole graph once",
        "copies: DMA instructions; block: a contiguous piece of one. Errors are the largest, relative to the largest "
        "value",
    ]
    gpu = inductor.rows_by_label("gpu", settings, "movement_models", notes) if found else {}
    rows = []
    for item in found:
        if isinstance(item, Failure):
            notes.append(f"{item.label}: {item.text}")
        elif item.report.rolled_back is not None:
            notes.append(f"{item.label}: {item.report.rolled_back}")
        else:
            rows.append(_row(item, gpu.get(item.label, {})))
    return [Section("Data movement", _COLUMNS, tuple(rows), tuple(notes))]


def _row(found: HostRun, gpu: dict[str, Any]) -> tuple[Any, ...]:
    r = found.report
    launched = [(op, found.profiles[op.op_type]) for op in r.fused if op.op_type in found.profiles]
    profiles = [profile for _, profile in launched]
    measured = sum(p.gm_bytes for p in profiles)
    counted = sum(op.gm_bytes or 0 for op, _ in launched)
    moved = None if r.gm_bytes_after is None else r.gm_bytes_after - counted + measured
    floor = sum(t.numel() * t.itemsize for t in (*found.model.make(found.dtype), *found.fused))
    copies, blocks = sum(p.dma_in + p.dma_out for p in profiles), sum(p.dma_blocks for p in profiles)
    cores, peak = (max((getattr(p, k) for p in profiles), default=None) for k in ("block_dim", "ub_peak_bytes"))
    means = (round(measured / n) if n else None for n in (copies, blocks))
    errors = (relative(side, found.exact, found.exact) for side in (found.fused, found.unfused))
    return (
        found.label, r.kernels_after, gpu.get("kernels"), len(profiles), cores, moved, floor, percent(moved, floor),
        copies, *means, sum(p.vector_instructions for p in profiles), peak, *errors,
    )  # fmt: skip
