"""Kernels and GM bytes of the static captured graphs before and after fusion, the upper bound, and what is lost."""

from __future__ import annotations

from collections import Counter

from benchmarks import graphs
from benchmarks.bound import live_nodes, upper_bound
from benchmarks.captured import Case, case
from benchmarks.losses import Loss, losses
from benchmarks.section import Section, Settings, percent, total
from torchair_autofuse.ge.catalogue import kernels
from torchair_autofuse.messages import CODES

COLUMNS = ("graph", "before", "after", "bound", "bound, simplified", "saved %", "of the bound %", "GM MB before", "GM MB after",
           "GM MB floor", "plan+codegen s")  # fmt: skip
_EXAMPLES = 12


def run(settings: Settings) -> list[Section]:
    """One row per graph and a total; then the merges the bound makes and the plan does not, by refusal code."""
    cases = [case(name) for name in graphs.names("static") if settings.wants(name)]
    rows = [_row(c) for c in cases]
    lost = {c.name: losses(c.simplified, upper_bound(c.simplified), c.result.report) for c in cases}
    return [_kernels(rows), _by_code(lost), _by_types(lost)]


def _row(c: Case) -> tuple[object, ...]:
    report = c.result.report
    bound = upper_bound(c.original).kernels
    simplified = upper_bound(c.simplified).kernels
    dead = sum(n.name not in live_nodes(c.original) for n in kernels(c.original))
    before = report.kernels_before - dead
    return (
        short_name(c.name), before, report.kernels_after, bound, simplified,
        percent(before - report.kernels_after, before),
        percent(before - report.kernels_after, before - simplified),
        _mb(report.gm_bytes_before), _mb(report.gm_bytes_after), _mb(report.gm_bytes_floor),
        round(sum(report.seconds.values()), 3),
    )  # fmt: skip


def short_name(name: str) -> str:
    """ "bert__static__g0" -> "bert"; the second graph of a model keeps its number."""
    model, _, index = name.split("__")
    return model if index == "g0" else f"{model} {index}"


def _mb(count: int | None) -> float | None:
    return None if count is None else round(count / 1e6, 3)


def _kernels(rows: list[tuple[object, ...]]) -> Section:
    sums = [total([row[i] for row in rows if None not in row[7:10] or i < 7 or i > 9]) for i in range(1, len(COLUMNS))]
    before, after, _, simplified = sums[:4]
    if rows:
        sums[4], sums[5] = percent(before - after, before), percent(before - after, before - simplified)
        rows = [*rows, ("total", *sums)]
    notes = (
        "before: live kernels of the graph as captured; bound: elementwise, broadcast and generator ops contracted along "
        "data edges across views, acyclic, no other limit; simplified: the same after clean-up (x * 1, repeated ops).",
        "GM MB: 10^6 bytes read and written; the total is over the graphs where all of it is known.",
    )
    return Section("Captured static graphs", COLUMNS, tuple(rows), notes)


def _by_code(lost: dict[str, list[Loss]]) -> Section:
    counts = Counter(loss.code for found in lost.values() for loss in found)
    graph_counts = Counter(code for found in lost.values() for code in {loss.code for loss in found})
    example = {
        loss.code: f"{name.split('__')[0]}: {loss.reason}" for name, found in reversed(lost.items()) for loss in found
    }
    rows = [
        (code, CODES.get(code, "the report does not say"), count, graph_counts[code], example[code])
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows.append(("total", "", sum(counts.values()), len(lost), ""))
    return Section(
        "Where the rest is lost: merges of the bound that are not made",
        ("code", "meaning", "merges", "graphs", "for example"),
        tuple(rows),
    )


def _by_types(lost: dict[str, list[Loss]]) -> Section:
    counts = Counter((loss.code, loss.producer_type, loss.consumer_type) for found in lost.values() for loss in found)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_EXAMPLES]
    return Section(
        f"The {len(most)} most frequent of them",
        ("code", "producer", "consumer", "merges"),
        tuple((*key, n) for key, n in most),
    )
