"""How graphs with symbolic sizes fare beside the same models with static ones."""

from __future__ import annotations

from benchmarks import graphs
from benchmarks.bound import live_nodes
from benchmarks.captured import Case, case
from benchmarks.captured_kernels import short_name
from benchmarks.section import Section, Settings, percent, total
from torchair_autofuse.ge.catalogue import kernels

COLUMNS = ("model", "static before", "static after", "dynamic before", "dynamic after", "static saved %", "dynamic saved %",
           "dynamic plan s")  # fmt: skip


def run(settings: Settings) -> list[Section]:
    """One row per model that was captured in both modes, and a total."""
    rows: list[tuple[object, ...]] = []
    for name in graphs.names("dynamic"):
        static = name.replace("__dynamic__", "__static__")
        if settings.wants(name) and static in graphs.manifests():
            rows.append(_row(case(static), case(name)))
    sums = [total([row[i] for row in rows]) for i in (1, 2, 3, 4, 7)]
    if rows:
        saved = percent(sums[0] - sums[1], sums[0]), percent(sums[2] - sums[3], sums[2])
        rows.append(("total", *sums[:4], *saved, sums[4]))
    notes = ("TorchAir builds other graphs for symbolic sizes (sizes computed on the host, more reshapes): the counts before differ.",)  # fmt: skip
    return [Section("Captured graphs with symbolic sizes", COLUMNS, tuple(rows), notes)]


def _row(static: Case, dynamic: Case) -> tuple[object, ...]:
    before = [_before(c) for c in (static, dynamic)]
    after = [c.result.report.kernels_after for c in (static, dynamic)]
    saved = [percent(b - a, b) for b, a in zip(before, after)]
    seconds = round(sum(dynamic.result.report.seconds.values()), 3)
    return short_name(static.name), before[0], after[0], before[1], after[1], *saved, seconds


def _before(c: Case) -> int:
    live = live_nodes(c.original)
    return sum(n.name in live for n in kernels(c.original))
