"""Kernels and GM bytes of the static captured graphs before and after fusion, the upper bound, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import graphs
from benchmarks.bound import upper_bound
from benchmarks.captured import Case, case
from benchmarks.lost_table import lost_sections
from benchmarks.section import Section, Settings, percent

_COLUMNS = ("graph", "before", "after", "bound", "cleaned", "+reduce", "+move", "saved %", "of +reduce %",
            "GM MB before", "GM MB after", "GM MB floor", "plan+codegen s")  # fmt: skip
_NOTES = (
    "before: live kernels of the graph as captured; bound: elementwise, broadcast and generator ops contracted along "
    "data edges across views, acyclic, no other limit; cleaned: the same after clean-up (x * 1, repeated views); "
    "+reduce: reductions, norms and losses too; +move: concat, slice, pad and transpose as well.",
    "gap ops: ops that TorchAir has no converter for; nothing is known of their results.",
    "GM MB: 10^6 bytes read and written; totals are over the graphs where all of it is known.",
)


@dataclass(frozen=True)
class Row:
    """One graph; ``gaps``: it has ops that TorchAir could not convert."""

    name: str
    gaps: bool
    before: int
    after: int
    bound: int
    cleaned: int
    with_reduce: int
    with_all: int
    gm: tuple[int, int, int] | None  # bytes before, after, floor
    seconds: float


_COUNTS = ("before", "after", "bound", "cleaned", "with_reduce", "with_all")


def run(settings: Settings) -> list[Section]:
    """One row per graph and totals; then the merges the bound makes and the plan does not, by refusal code."""
    cases = [case(name) for name in graphs.names("static") if settings.wants(name)]
    rows = [measure(c) for c in cases]
    table = [_cells(row) for row in rows]
    if rows:
        table.append(_cells(_sum("total", rows)))
        table.append(_cells(_sum("without gap ops", [row for row in rows if not row.gaps])))
    return [
        Section("Captured static graphs", _COLUMNS, tuple(table), _NOTES),
        *lost_sections(cases, "static", "reduce"),
        *lost_sections(cases, "static", "all"),
    ]


def measure(c: Case) -> Row:
    """The counts of one captured graph."""
    report = c.result.report
    gm = report.gm_bytes_before, report.gm_bytes_after, report.gm_bytes_floor
    return Row(
        name=short_name(c.name),
        gaps=bool(graphs.manifests()[c.name]["fallback_ops"]),
        before=report.kernels_before,
        after=report.kernels_after,
        bound=upper_bound(c.original).kernels,
        cleaned=upper_bound(c.simplified).kernels,
        with_reduce=upper_bound(c.simplified, "reduce").kernels,
        with_all=upper_bound(c.simplified, "all").kernels,
        gm=None if None in gm else gm,  # type: ignore[arg-type]
        seconds=sum(report.seconds.values()),
    )


def short_name(name: str) -> str:
    """ "bert__static__g0" -> "bert"; the second graph of a model keeps its number."""
    model, _, index = name.split("__")
    return model if index == "g0" else f"{model} {index}"


def _sum(name: str, rows: Sequence[Row]) -> Row:
    counts = {field: sum(getattr(r, field) for r in rows) for field in _COUNTS}
    known = [r.gm for r in rows if r.gm is not None]
    gm = (sum(g[0] for g in known), sum(g[1] for g in known), sum(g[2] for g in known)) if known else None
    return Row(name=name, gaps=False, gm=gm, seconds=sum(r.seconds for r in rows), **counts)


def _cells(row: Row) -> tuple[object, ...]:
    saved = row.before - row.after
    gm = (None, None, None) if row.gm is None else tuple(round(b / 1e6, 3) for b in row.gm)
    return (
        row.name, *(getattr(row, field) for field in _COUNTS), percent(saved, row.before),
        percent(saved, row.before - row.with_reduce), *gm, round(row.seconds, 3),
    )  # fmt: skip
