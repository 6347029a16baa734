"""How graphs with symbolic sizes fare beside the same models with static ones, and what is lost."""

from __future__ import annotations

from benchmarks import graphs
from benchmarks.captured import Case, case
from benchmarks.captured_kernels import Row, measure
from benchmarks.lost_table import lost_sections
from benchmarks.section import Section, Settings, percent

_COLUMNS = ("model", "static before", "after", "bound", "of it %", "dynamic before", "after ", "bound ", "of it % ",
            "plan+codegen s")  # fmt: skip
_NOTES = (
    "TorchAir builds other graphs for symbolic sizes (sizes computed on the host, more reshapes, other gap ops): the "
    "counts before differ. The bound is that with reductions.",
)


def run(settings: Settings) -> list[Section]:
    """One row per model that was captured in both modes, a total, and the losses of the dynamic graphs."""
    pairs: list[tuple[Case, Case]] = []
    for name in graphs.names("dynamic"):
        static = name.replace("__dynamic__", "__static__")
        if settings.wants(name) and static in graphs.manifests():
            pairs.append((case(static), case(name)))
    rows = [(measure(static), measure(dynamic)) for static, dynamic in pairs]
    table = [_cells(static.name, [static], [dynamic]) for static, dynamic in rows]
    clean = [pair for pair in rows if not pair[0].gaps and not pair[1].gaps]
    for title, chosen in (("total", rows), ("without gap ops", clean)):
        if chosen:
            table.append(_cells(title, [s for s, _ in chosen], [d for _, d in chosen]))
    lost = lost_sections([dynamic for _, dynamic in pairs], "dynamic", "reduce")
    return [Section("Captured graphs with symbolic sizes", _COLUMNS, tuple(table), _NOTES), *lost]


def _cells(name: str, static: list[Row], dynamic: list[Row]) -> tuple[object, ...]:
    seconds = round(sum(row.seconds for row in dynamic), 3)
    return (name, *_counts(static), *_counts(dynamic), seconds)


def _counts(rows: list[Row]) -> tuple[object, ...]:
    """Kernels before, after, at the bound with reductions, and the percentage of its savings."""
    before, after, bound = (sum(values) for values in zip(*((r.before, r.after, r.with_reduce) for r in rows)))
    return before, after, bound, percent(before - after, before - bound)
