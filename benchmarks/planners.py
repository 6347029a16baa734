"""The planners side by side: kernels, bytes and predicted time of every captured graph; how far both are from the best
plan of small graphs cut out of them; and how planning grows with the nodes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks import graphs
from benchmarks.captured import ALL_PASSES, Case, case, context
from benchmarks.captured_kernels import short_name
from benchmarks.exact import best_ns, windows
from benchmarks.section import Section, Settings, total
from benchmarks.synthetic import captured_blocks, transformer
from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import OpMaker
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Costs
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import PLANNERS, candidates, plan
from torchair_autofuse.report import FusionReport
from torchair_autofuse.soc.chip import Chip, chip

SIZE = 8
"""Kernels of the graphs that are cut out."""
WINDOWS = 3
"""Of them per captured graph."""
NEAR = 1.05
"""Greedy is to be within this factor of the best predicted time."""
NODES = (1000, 3000, 10000)
SECONDS = 10.0
GROWTH = 1.5
"""Seconds of planning the largest graph, and how much more a node of it may take than one of the smallest."""
_NAMES = tuple(PLANNERS)


@dataclass(frozen=True)
class Window:
    """A small graph: (kernels, predicted nanoseconds) by planner, ``best`` by the most kernels it may have."""

    name: str
    kernels: int
    planned: dict[str, tuple[int, int]]
    best: dict[int, int]

    def ratio(self, planner: str, *, few: bool) -> float:
        """The planner's time as a multiple of the best; ``few``: of the best with no more kernels than it has."""
        count, ns = self.planned[planner]
        return ns / self.limit(count if few else self.kernels)

    def limit(self, count: int) -> int:
        """The best time with so many kernels; one that computes values again may have fewer than any without."""
        return self.best[max(count, min(self.best))]


def run(settings: Settings) -> list[Section]:
    """All graphs by planner; the small graphs against the exact planner; seconds of large graphs."""
    names = [n for n in graphs.names() if settings.wants(n)]
    found = [w for n in names for w in small_graphs(case(n))]
    sections = [_by_planner(names), _against_best(found)]
    return sections if settings.only_graphs else [*sections, _growth()]


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
        mode = "" if "__static__" in name else " dynamic"
        rows.append((short_name(name) + mode, before.kernels_before, before.predicted_us_before, *values))
    rows.append(("total", *(total([row[i] for row in rows]) for i in range(1, 3 + 3 * len(_NAMES)))))
    columns = ("graph", "kernels", "us", *(f"{p} {what}" for p in _NAMES for what in ("kernels", "MB", "us")))
    return Section("Planners on captured graphs", columns, tuple(rows), ("us: predicted, not measured",))


def _mb(count: int | None) -> float | None:
    return None if count is None else count / 1e6


def small_graphs(c: Case, limit: int = WINDOWS) -> list[Window]:
    """Up to ``limit`` windows of SIZE kernels of a captured graph, spread over it, planned by all."""
    graph = c.simplified
    hints = c.context.hints
    cut = windows(graph, SIZE, candidates(graph, Context(), ALL_PASSES))
    step = max(len(cut) // limit, 1)
    found = []
    for k, part in enumerate(cut[::step][:limit]):
        made = measure(f"{short_name(c.name)} {k}", part, hints)
        found += [made] if made is not None else []
    return found


def measure(name: str, graph: Graph, hints: dict[str, int]) -> Window | None:
    """A small graph by every planner and at best; None where sizes are unknown or the search is too long."""
    target = chip()
    assert isinstance(target, Chip)
    options = ALL_PASSES.replace(strict=False)
    maker = OpMaker(graph, target, options)
    costs = Costs(NodeCosts(graph, hints, target), lambda group: maker.predict(group, hints))
    best = best_ns(graph, candidates(graph, Context(), options), costs.nodes, costs.predict)
    if best is None:
        return None
    planned = {p: plan_ns(graph, p, maker, costs) for p in _NAMES}
    return Window(name, sum(is_kernel(n, graph) for n in graph.nodes), planned, best)


def plan_ns(graph: Graph, planner: str, maker: OpMaker, costs: Costs) -> tuple[int, int]:
    """Kernels, and their predicted nanoseconds, of a graph whose sizes are known, as planned."""
    made = plan(graph, Context(), ALL_PASSES.replace(planner=planner), maker.refuses, costs)
    inside = {n.name for g in made.groups for n in g.nodes}
    left = [n for n in graph.nodes if n.name not in inside and is_kernel(n, graph)]
    ns = costs.nodes.total_ns(left)
    assert ns is not None and costs.predict is not None
    times = [costs.predict(g) for g in made.groups]
    return len(left) + len(times), ns + sum(t.ns for t in times)  # type: ignore[union-attr, misc]


def _against_best(found: list[Window]) -> Section:
    rows = []
    for w in found:
        cells = [round(w.ratio(p, few=few), 3) for p in _NAMES for few in (True, False)]
        rows.append((w.name, w.kernels, w.planned["greedy"][0], w.best[w.kernels] / 1000, *cells))
    notes = [
        "best: the exact planner, predicted us. Planners as multiples of it: of the best plan with no more kernels "
        "than theirs (which structure decides, hardly ever what is predicted), and of the best of all."
    ]
    for p in _NAMES:
        for few, text in ((True, "the best with as few kernels"), (False, "the best of all")):
            ours = sum(w.planned[p][1] for w in found)
            whole = ours / max(sum(w.limit(w.planned[p][0] if few else w.kernels) for w in found), 1)
            within = sum(w.ratio(p, few=few) <= NEAR for w in found)
            target = f" (target <= {NEAR}: {_met(whole <= NEAR)})"
            notes.append(f"{p}: {whole:.3f} of {text} over all{target}; {within} of {len(found)} within it")
    columns = ("graph", "kernels", "planned", "best us", *(f"{p}{t}" for p in _NAMES for t in ("", " : of all")))
    return Section("Planners against the best plan of small graphs", columns, tuple(rows), tuple(notes))


def _growth() -> Section:
    """Processor seconds of planning alone: a machine that does other things at the same time counts for nothing."""
    fuse(transformer(1), FusionContext(), ALL_PASSES)  # imports, op tables and templates are loaded once per process
    rows = [(p, *planning(n, p)) for p in _NAMES for n in NODES]
    notes = []
    for p in _NAMES:
        mine = [row for row in rows if row[0] == p]
        ratio, last = mine[-1][-1] / mine[0][-1], mine[-1][3]
        notes.append(f"{p}: {last:.1f} s for {mine[-1][1]} nodes (target < {SECONDS:.0f} s: {_met(last < SECONDS)}); "
                     f"per node {ratio:.2f} of the smallest (target <= {GROWTH}: {_met(ratio <= GROWTH)})")  # fmt: skip
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


def _met(ok: bool) -> str:
    return "met" if ok else "MISSED"
