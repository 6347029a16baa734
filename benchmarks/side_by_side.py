"""Small graphs by every planner and at best, side by side: kernels, bytes and predicted time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.captured import ALL_PASSES
from benchmarks.exact import LIMIT, Kernel, Planned, alone, best_plans, fused, windows
from benchmarks.section import Section
from torchair_autofuse.ge.catalogue import kernels
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.generated import OpMaker
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Costs
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import PLANNERS, candidates, plan
from torchair_autofuse.soc.chip import Chip, chip

SIZE = 8
"""Kernels of the graphs that are cut out."""
WINDOWS = 3
"""Of them per graph."""
NEAR = 1.05
"""Greedy is to be within this factor of the best predicted time."""
PLANS = (*PLANNERS, "exact")


@dataclass(frozen=True)
class Small:
    """A graph and its plans by planner; ``best`` by the most kernels it may have, empty where it was not searched for.

    ``kernels``: of the graph as it is.
    """

    name: str
    kernels: int
    planned: dict[str, Planned]
    best: dict[int, Planned]

    @property
    def exact(self) -> Planned | None:
        """The best of all."""
        return self.best[self.kernels] if self.best else None

    def ratio(self, planner: str, *, few: bool = False) -> float:
        """The planner's time as a multiple of the best; ``few``: of the best with no more kernels than it has."""
        return self.planned[planner].ns / self.limit(planner, few=few)

    def limit(self, planner: str, *, few: bool) -> int:
        """The best time; one that computes values again may have fewer kernels than any plan without."""
        count = self.planned[planner].count if few else self.kernels
        return self.best[max(count, min(self.best))].ns

    def cells(self) -> list[Any]:
        """Kernels, KB and us of every plan, in the order of PLANS."""
        return [value for p in (*self.planned.values(), self.exact) for value in _cells(p)]


def small_graphs(name: str, graph: Graph, hints: Mapping[str, int], limit: int = WINDOWS) -> list[Small]:
    """By all planners and at best: the graph where that can be found, else up to ``limit`` windows of SIZE kernels of
    it, spread over it."""
    if len(kernels(graph)) <= LIMIT:
        whole = measure(name, graph, hints)
        if whole is not None and whole.best:
            return [whole]
    return cut_out(name, graph, hints, limit)


def cut_out(name: str, graph: Graph, hints: Mapping[str, int], limit: int = WINDOWS) -> list[Small]:
    """The windows of ``small_graphs``."""
    cut = windows(graph, SIZE, candidates(graph, Context(), ALL_PASSES))
    step = max(len(cut) // limit, 1)
    found = (measure(f"{name} {k}", part, hints) for k, part in enumerate(cut[::step][:limit]))
    return [s for s in found if s is not None and s.best]


def measure(name: str, graph: Graph, hints: Mapping[str, int]) -> Small | None:
    """A graph by every planner, and at best unless it has too many kernels or sets; None where sizes are unknown."""
    target = chip()
    assert isinstance(target, Chip)
    options = ALL_PASSES.replace(strict=False)
    maker = OpMaker(graph, target, options)
    costs = Costs(NodeCosts(graph, hints, target), lambda group: maker.predict(group, hints))
    count = len(kernels(graph))
    if costs.nodes.total_ns(graph.nodes) is None:
        return None
    found = best_plans(graph, candidates(graph, Context(), options), costs) if count <= LIMIT else None
    return Small(name, count, {p: planned(graph, p, maker, costs) for p in PLANNERS}, found or {})


def planned(graph: Graph, planner: str, maker: OpMaker, costs: Costs) -> Planned:
    """A graph whose sizes are known as a planner of the options plans it."""
    made = plan(graph, Context(), ALL_PASSES.replace(planner=planner, strict=False), maker.refuses, costs)
    inside = {n.name for g in made.groups for n in g.nodes}
    left = [n for n in kernels(graph) if n.name not in inside]
    found = [*(alone(n, costs.nodes) for n in left), *(fused(g, costs) for g in made.groups)]
    return Planned(tuple(_known(k) for k in found))


def section(title: str, found: Sequence[Small]) -> Section:
    """One row per graph; what is within reach of the best is in the notes."""
    rows = [(s.name, s.kernels, *s.cells(), *(round(s.ratio(p), 3) for p in PLANNERS)) for s in found]
    notes = [
        "exact: the plan of least predicted time that computes nothing twice; a planner may be below it. "
        "KB: 10^3 bytes; us: predicted, not measured; ratios are of us"
    ]
    notes += [note(found, p, few=few) for p in PLANNERS for few in (False, True)] if found else []
    columns = ("graph", "kernels", *headings(), *(f"{p} : exact" for p in PLANNERS))
    return Section(title, columns, tuple(rows), tuple(notes))


def note(found: Sequence[Small], planner: str, *, few: bool) -> str:
    """The planner against the best over all graphs, of which there is at least one."""
    whole = sum(s.planned[planner].ns for s in found) / max(sum(s.limit(planner, few=few) for s in found), 1)
    within = sum(s.ratio(planner, few=few) <= NEAR for s in found)
    best = "the best with no more kernels" if few else "the best of all"
    target = f"target <= {NEAR}: {met(whole <= NEAR)}"
    return f"{planner}: {whole:.3f} of {best} over all ({target}); {within} of {len(found)} within it"


def headings() -> list[str]:
    """Columns of ``Small.cells``."""
    return [f"{p} {what}" for p in PLANS for what in ("kernels", "KB", "us")]


def met(ok: bool) -> str:
    """Whether a target is met, as the notes say it."""
    return "met" if ok else "MISSED"


def _cells(made: Planned | None) -> tuple[Any, ...]:
    if made is None:
        return None, None, None
    size = made.gm_bytes / 1000
    return made.count, size if size < 1000 else round(size), made.ns / 1000


def _known(kernel: Kernel | None) -> Kernel:
    assert kernel is not None, "a plan has kernels alone, and their sizes are known"
    return kernel
