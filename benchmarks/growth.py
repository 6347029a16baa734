"""How the seconds of planning and code generation grow with the number of nodes, on synthetic transformer blocks.

The block of samples/transformer_block.py is planned through TorchAir as well, where that is installed.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import time
from pathlib import Path

from benchmarks.captured import ALL_PASSES
from benchmarks.section import Section, Settings
from benchmarks.synthetic import transformer
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, fuse

SMALL, LARGE = 4, 32
RATIO_TARGET = 1.5
BLOCK_TARGET_S = 2.0
_REPEATS = 3
_SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "transformer_block.py"


def run(settings: Settings) -> list[Section]:
    """Seconds per node of 1, 4 and 32 blocks (the least of three runs), and how the last two compare."""
    options = ALL_PASSES.replace(strict=False)  # as a user runs it: verification is for tests
    fuse(transformer(1), FusionContext(), options)  # imports, op tables and templates are loaded once per process
    rows = [_row(blocks, options) for blocks in (1, SMALL, LARGE)]
    per_node = {row[0]: row[4] for row in rows}
    ratio = float(per_node[LARGE]) / float(per_node[SMALL])  # type: ignore[arg-type]
    first = float(rows[0][3])  # type: ignore[arg-type]
    notes = (
        f"per node, {LARGE} / {SMALL} blocks: {ratio:.2f} (target <= {RATIO_TARGET}: {_met(ratio <= RATIO_TARGET)})",
        f"one block: {first:.3f} s (target < {BLOCK_TARGET_S} s: {_met(first < BLOCK_TARGET_S)})",
    )
    columns = ("blocks", "nodes", "kernels", "seconds", "ms per node", "kernels after", "by stage")
    title = "Planning and code generation of a graph of transformer blocks"
    return [Section(title, columns, tuple(rows), notes), _sample()]


def _sample() -> Section:
    """The GE graphs of the sample, planned but run unfused: no kernel is built."""
    import torchair_autofuse
    from torchair_autofuse.options import Options

    columns = ("graph", "kernels", "kernels after", "seconds")
    torchair_autofuse.clear_reports()
    torchair_autofuse.enable(Options(enabled=True, passes=frozenset(["all"]), run_unfused=True))
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(_SAMPLE), run_name="__main__")
        reports = torchair_autofuse.reports()
    except Exception as error:  # torch is missing, or the sample found wrong values: said in the table
        return Section(f"{_SAMPLE.name} through TorchAir", columns, (), (f"{type(error).__name__}: {error}",))
    finally:
        torchair_autofuse.disable()
    rows = [(r.graph_name, r.kernels_before, r.kernels_after, round(sum(r.seconds.values()), 3)) for r in reports]
    worst = max((row[3] for row in rows), default=None)
    note = "no graph was compiled" if worst is None else f"target < {BLOCK_TARGET_S} s: {_met(worst < BLOCK_TARGET_S)}"
    return Section(f"{_SAMPLE.name} through TorchAir", columns, tuple(rows), (note,))


def seconds(blocks: int, options: Options) -> tuple[float, object]:
    """The least wall time of three runs of ``fuse``, and the last result."""
    model = transformer(blocks)
    least = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        result = fuse(model, FusionContext(), options)
        least = min(least, time.perf_counter() - start)
    return least, result


def _row(blocks: int, options: Options) -> tuple[object, ...]:
    nodes = len(transformer(blocks).graph[0].op)
    least, result = seconds(blocks, options)
    report = result.report  # type: ignore[attr-defined]
    stages = ", ".join(f"{stage} {s:.2f}" for stage, s in report.seconds.items())
    return blocks, nodes, report.kernels_before, round(least, 3), 1e3 * least / nodes, report.kernels_after, stages


def _met(ok: bool) -> str:
    return "met" if ok else "MISSED"
