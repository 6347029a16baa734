"""Seconds of one warm call of the small models: fused and unfused on the host, eager, and Inductor's CPU kernels."""

from __future__ import annotations

from benchmarks import inductor
from benchmarks.host_runs import Failure, runs
from benchmarks.section import Section, Settings, Unavailable

_COLUMNS = ("model", "fused ms", "unfused ms", "eager ms", "Inductor CPU ms", "fused : eager")


def run(settings: Settings) -> list[Section]:
    """One row per model, dtype and mode. The fused run emulates every instruction: it shows values, not speed."""
    names = [found.label for found in runs(settings) if not isinstance(found, Failure)]
    notes = [
        "the fused run emulates a vector core instruction by instruction; the least of a few calls, one torch thread"
    ]
    try:
        compiled = {row["label"]: row["seconds"] for row in inductor.measure("cpu", settings)} if names else {}
    except Unavailable as reason:
        compiled = {}
        notes.append(f"Inductor: {reason}")
    rows = []
    for found in runs(settings):
        if not isinstance(found, Failure):
            other = compiled.get(found.label)
            milliseconds = [1e3 * s for s in (found.seconds, found.unfused_seconds, found.eager_seconds)]
            ratio = found.seconds / found.eager_seconds
            rows.append((found.label, *milliseconds, None if other is None else 1e3 * other, ratio))
    return [Section("Small models: seconds on the host", _COLUMNS, tuple(rows), tuple(notes))]
