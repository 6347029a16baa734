"""Kernels and GM bytes of the small models after fusion, through TorchAir on the host."""

from __future__ import annotations

from benchmarks.host_runs import Failure, runs
from benchmarks.section import Section, Settings, percent

_COLUMNS = ("model", "before", "after", "expected", "ok", "GM bytes before", "after ", "floor", "of floor %",
            "plan+codegen s", "note")  # fmt: skip


def run(settings: Settings) -> list[Section]:
    """One row per model, dtype and mode."""
    rows: list[tuple[object, ...]] = []
    for found in runs(settings):
        if isinstance(found, Failure):
            rows.append((found.label, *[None] * 3, False, *[None] * 5, found.text))
            continue
        r, expected = found.report, found.model.kernels
        codes = ", ".join(sorted({refusal.code for refusal in r.refused}))
        note = codes if r.rolled_back is None else str(r.rolled_back)
        counts = r.kernels_before, r.kernels_after, expected, r.kernels_after == expected and r.rolled_back is None
        moved = r.gm_bytes_before, r.gm_bytes_after, r.gm_bytes_floor, percent(r.gm_bytes_after, r.gm_bytes_floor)
        rows.append((found.label, *counts, *moved, round(sum(r.seconds.values()), 4), note))
    good = sum(bool(row[4]) for row in rows)
    return [Section("Small models: kernels", _COLUMNS, tuple(rows), (f"as expected: {good} of {len(rows)}",))]
