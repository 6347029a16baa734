"""TorchInductor's kernels and bytes for the small models, beside ours.

The CPU backend runs for real. The GPU backend is asked for its schedule only, with a made-up A100: nothing is executed
and no GPU is needed. Each runs in a process of its own (benchmarks.inductor_worker).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.host_runs import Failure, runs
from benchmarks.section import Section, Settings, Unavailable

_COLUMNS = ("model", "ours", "GPU", "CPU", "GM bytes ours", "GPU bytes", "CPU bytes", "ours : GPU", "note")
_ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT = 1800  # seconds for all models of one backend


def run(settings: Settings) -> list[Section]:
    """One row per static run: kernels and bytes of ours, of the GPU backend and of the CPU backend."""
    notes: list[str] = ["kernels: launches without matmuls; bytes: what each side counts of global memory, per kernel"]
    backends: dict[str, dict[str, Any]] = {}
    for backend in ("gpu", "cpu"):
        backends[backend] = rows_by_label(backend, settings, "models", notes)
    rows = []
    for label, ours in _ours(settings, notes).items():
        gpu, cpu = (backends[b].get(label, {}) for b in ("gpu", "cpu"))
        problems = [f"{b}: {row['error']}" for b, row in (("gpu", gpu), ("cpu", cpu)) if row.get("error")]
        kernels, moved = ours
        gpu_bytes = gpu.get("bytes")
        ratio = moved / gpu_bytes if moved and gpu_bytes else None
        counts = kernels, gpu.get("kernels"), cpu.get("kernels")
        rows.append((label, *counts, moved, gpu_bytes, cpu.get("bytes"), ratio, "; ".join(problems)))
    return [Section("Small models: kernels beside TorchInductor", _COLUMNS, tuple(rows), tuple(notes))]


def _ours(settings: Settings, notes: list[str]) -> dict[str, tuple[int | None, int | None]]:
    found: dict[str, tuple[int | None, int | None]] = {}
    try:
        for item in runs(settings):
            if isinstance(item, Failure):
                found[item.label] = None, None
                notes.append(f"{item.label}: {item.text}")
            elif not item.dynamic:
                found[item.label] = item.report.kernels_after, item.report.gm_bytes_after
    except Unavailable as reason:
        notes.append(f"ours: {reason}")
    return found


def rows_by_label(backend: str, settings: Settings, models: str, notes: list[str]) -> dict[str, dict[str, Any]]:
    """``measure`` as a table by label; where Inductor cannot run, none, and a note that says why."""
    try:
        return {row["label"]: row for row in measure(backend, settings, models)}
    except Unavailable as reason:
        notes.append(f"{backend}: {reason}")
        return {}


def measure(backend: str, settings: Settings, models: str = "models") -> list[dict[str, Any]]:
    """Rows of the worker for "cpu" or "gpu": label, kernels, bytes, seconds (cpu), error. Raises Unavailable.

    ``models``: the module of this folder whose MODELS are meant.
    """
    return _measure(backend, settings, models)


@cache
def _measure(backend: str, settings: Settings, models: str) -> list[dict[str, Any]]:
    environment = {
        **os.environ,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "OMP_NUM_THREADS": "1",  # as the calls it is compared with
        "PYTHONPATH": str(_ROOT),
    }
    command = [sys.executable, "-m", "benchmarks.inductor_worker", backend, models, *settings.only_graphs]
    try:
        done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"Inductor ({backend}) took more than {_TIMEOUT} s") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"Inductor ({backend}) cannot run here: {last[0][:200]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return rows
