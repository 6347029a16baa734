"""The planners on the benchmark models as TorchAir builds them, beside TorchInductor's kernels on a GPU."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks import inductor
from benchmarks.host_runs import Failure, captured, label
from benchmarks.section import Section, Settings
from benchmarks.side_by_side import Small, cut_out, headings, measure, met, note
from torchair_autofuse.ge.catalogue import MATMUL
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.plan.plan import PLANNERS

MODULES = ("models", "block_models", "movement_models")
"""Of this folder, each with MODELS."""
_COLUMNS = ("model", "kernels", *headings(), "greedy : exact", "GPU", "ok")


def sections(settings: Settings) -> tuple[list[Section], list[Small]]:
    """One row per model and dtype of fixed sizes; and what is cut out of those too large for the exact planner.

    Raises Unavailable where TorchAir cannot be imported.
    """
    rows: list[tuple[Any, ...]] = []
    found: list[Small] = []
    cut: list[Small] = []
    notes = [
        "kernels of all but matmuls, as GPU (Inductor's) are; KB and us with them. Exact: of graphs of few kernels; "
        "windows of the others are among the small graphs below"
    ]
    for module in MODULES:
        models = [m for m in importlib.import_module(f"benchmarks.{module}").MODELS if settings.wants(m.name)]
        gpu = inductor.rows_by_label("gpu", settings, module, notes) if models else {}
        for model, dtype in ((m, d) for m in models for d in m.dtypes):
            name = label(model, dtype)
            made = captured(model, dtype)
            if isinstance(made, Failure):
                rows.append((name, *[None] * (len(_COLUMNS) - 2), False))
                notes.append(f"{name}: {made.text}")
                continue
            assert made.graph is not None
            small = measure(name, made.graph, {})
            assert small is not None, "sizes are fixed"
            theirs = gpu.get(name, {})
            rows.append(_row(small, _matmuls(made.graph), theirs.get("kernels")))
            notes += [f"{name}: Inductor: {theirs['error']}"] if theirs.get("error") else []
            found += [small] if small.best else []
            cut += [] if small.best else cut_out(name, made.graph, {})
    if not rows:
        return [], []
    notes += [note(found, p, few=False) for p in PLANNERS] if found else []
    notes.append(_beside_inductor(rows))
    return [Section("Planners on the benchmark models", _COLUMNS, tuple(rows), tuple(notes))], cut


def _row(small: Small, matmuls: int, gpu: int | None) -> tuple[Any, ...]:
    cells = small.cells()
    for i in range(0, len(cells), 3):
        cells[i] = None if cells[i] is None else cells[i] - matmuls
    ratio = round(small.ratio("greedy"), 3) if small.best else None
    ok = None if gpu is None else cells[0] <= gpu
    return (small.name, small.kernels - matmuls, *cells, ratio, gpu, ok)


def _beside_inductor(rows: list[tuple[Any, ...]]) -> str:
    known = [row for row in rows if row[-1] is not None]
    more = [row[0] for row in known if not row[-1]]
    text = f"greedy has no more kernels than Inductor on a GPU: {len(known) - len(more)} of {len(known)}"
    return f"{text} (target all: {met(not more)})" + (f"; more: {', '.join(more)}" if more else "")


def _matmuls(graph: Graph) -> int:
    return sum(node.type in MATMUL for node in graph.nodes)
