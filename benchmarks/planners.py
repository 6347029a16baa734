"""The planners side by side: kernels, bytes and predicted time of every captured graph and of the benchmark models; how
far both are from the best plan of small graphs cut out of them; and how planning grows with the nodes."""

from __future__ import annotations

import time

from benchmarks import graphs
from benchmarks.captured import ALL_PASSES, case, context
from benchmarks.captured_kernels import short_name
from benchmarks.section import Section, Settings, Unavailable, total
from benchmarks.side_by_side import Small, met, section, small_graphs
from benchmarks.synthetic import captured_blocks, transformer
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.plan.plan import PLANNERS
from torchair_autofuse.report import FusionReport

NODES = (1000, 3000, 10000)
SECONDS = 10.0
GROWTH = 1.5
"""Seconds of planning the largest graph, and how much more a node of it may take than one of the smallest."""
_NAMES = tuple(PLANNERS)


def run(settings: Settings) -> list[Section]:
    """All graphs by planner; the benchmark models; the small graphs against the best plan; seconds of large graphs."""
    names = [n for n in graphs.names() if settings.wants(n)]
    small = [s for n in names for s in _cut_out(n)]
    models, more = _models(settings)
    title = "Planners against the best plan of small graphs"
    sections = [_by_planner(names), *models, section(title, [*small, *more])]
    return sections if settings.only_graphs else [*sections, _growth()]


def _cut_out(name: str) -> list[Small]:
    found = case(name)
    return small_graphs(_label(name), found.simplified, found.context.hints)


def _label(name: str) -> str:
    return short_name(name) + ("" if "__static__" in name else " dynamic")


def _models(settings: Settings) -> tuple[list[Section], list[Small]]:
    """The benchmark models, and what is cut out of the larger ones; a table that says why where there are none."""
    try:
        from benchmarks import planned_models

        return planned_models.sections(settings)
    except (ImportError, Unavailable) as reason:
        return [Section("Planners on the benchmark models", ("model",), (), (f"not measured: {reason}",))], []


def reports(name: str) -> dict[str, FusionReport]:
    """The report of a captured graph by planner."""
    model, given = graphs.model_def(name), context(name)
    return {p: fuse(model, given, ALL_PASSES.replace(planner=p, strict=False)).report for p in _NAMES}


def _by_planner(names: list[str]) -> Section:
    rows: list[tuple[object, ...]] = []
    for name in names:
        made = reports(name)
        values = [v for r in made.values() for v in (r.kernels_after, _mb(r.gm_bytes_after), r.predicted_us_after)]
        before = next(iter(made.values()))
        rows.append((_label(name), before.kernels_before, before.predicted_us_before, *values))
    rows.append(("total", *(total([row[i] for row in rows]) for i in range(1, 3 + 3 * len(_NAMES)))))
    columns = ("graph", "kernels", "us", *(f"{p} {what}" for p in _NAMES for what in ("kernels", "MB", "us")))
    return Section("Planners on captured graphs", columns, tuple(rows), ("us: predicted, not measured",))


def _mb(count: int | None) -> float | None:
    return None if count is None else count / 1e6


def _growth() -> Section:
    """Processor seconds of planning alone: a machine that does other things at the same time counts for nothing."""
    fuse(transformer(1), FusionContext(), ALL_PASSES)  # imports, op tables and templates are loaded once per process
    rows = [(p, *planning(n, p)) for p in _NAMES for n in NODES]
    notes = []
    for p in _NAMES:
        mine = [row for row in rows if row[0] == p]
        ratio, last = mine[-1][-1] / mine[0][-1], mine[-1][3]
        notes.append(f"{p}: {last:.1f} s for {mine[-1][1]} nodes (target < {SECONDS:.0f} s: {met(last < SECONDS)}); "
                     f"per node {ratio:.2f} of the smallest (target <= {GROWTH}: {met(ratio <= GROWTH)})")  # fmt: skip
    columns = ("planner", "nodes", "kernels after", "seconds", "ms per node")
    return Section("Planning of large graphs made of captured ones", columns, tuple(rows), tuple(notes))


def planning(nodes: int, planner: str) -> tuple[int, int, float, float]:
    """(nodes, kernels after, processor seconds of planning, ms per node) of a graph made of captured ones."""
    model = captured_blocks(nodes)
    count = len(model.graph[0].op)
    clock, start = time.perf_counter, time.process_time()
    whole = clock()
    report = fuse(model, FusionContext(), ALL_PASSES.replace(planner=planner, strict=False)).report
    busy = (time.process_time() - start) / (clock() - whole)  # of the wall time that the stages are taken in
    seconds = report.seconds["plan"] * min(busy, 1.0)
    return count, report.kernels_after, seconds, 1000 * seconds / count
