"""The best plan of a small graph by dynamic programming: how far the planners are from it.

A plan is a sequence of kernels, each a set of nodes, such that what a set reads is made by itself or by sets before it.
So every prefix is an ideal (a set closed under "depends on"), and the least time of an ideal is that of a smaller one
plus that of the set between the two. All sets between two ideals are convex; one costs the least of its predicted time
as one fused op and of its connected parts side by side, and nothing can be fused that the rules do not allow. Values
are not computed again in several ops; where the planners do that, they may be below what is called best here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.lower.outputs import is_free_view
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Group, Predict
from torchair_autofuse.plan.pieces import components

LIMIT = 14
"""Most kernels of a graph that the search takes."""
_MOST_SETS = 3000
"""Most sets that are made into kernels."""


def best_ns(graph: Graph, fusible: Sequence[str], costs: NodeCosts, predict: Predict) -> dict[int, int] | None:
    """Number of kernels -> least predicted nanoseconds of ``graph`` over every plan with so many or fewer.

    ``fusible``: names of the nodes that may be fused. None where a size is unknown, or the graph has too many sets.
    Raises ValueError for more than LIMIT kernels.
    """
    kernels = [n for n in graph.nodes if is_kernel(n, graph)]
    if len(kernels) > LIMIT:
        raise ValueError(f"{len(kernels)} kernels; the exact planner takes at most {LIMIT}")
    if any(costs.ns(n) is None for n in kernels):
        return None
    return _Search(graph, kernels, frozenset(fusible), costs, predict).run()


class _Search:
    def __init__(
        self, graph: Graph, kernels: Sequence[Node], fusible: frozenset[str], costs: NodeCosts, predict: Predict
    ) -> None:
        self._graph, self._kernels, self._fusible, self._costs = graph, kernels, fusible, costs
        self._predict = predict
        self._bit = {n.name: 1 << i for i, n in enumerate(kernels)}
        self._needs = [self._below(n) for n in kernels]
        self._sets: dict[int, float] = {}

    def run(self) -> dict[int, int] | None:
        count = len(self._kernels)
        whole = (1 << count) - 1
        least: dict[int, list[float]] = {i: [math.inf] * (count + 1) for i in self._ideals()}
        least[0][0] = 0.0
        for ideal in sorted(least, key=lambda s: (s.bit_count(), s)):
            for step in self._steps(ideal):
                time, into = self._time(step), least[ideal | step]
                for k in range(count):
                    into[k + 1] = min(into[k + 1], least[ideal][k] + time)
            if len(self._sets) > _MOST_SETS:
                return None
        found = {k: min(least[whole][: k + 1]) for k in range(1, count + 1)}
        return {k: round(ns) for k, ns in found.items() if ns < math.inf}

    def _below(self, node: Node) -> int:
        """The kernels that a kernel reads, through what is none."""
        found, seen = 0, set()
        stack = [r.node for r in node.inputs if r is not None] + list(node.controls)
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._bit:
                found |= self._bit[name]
            else:
                stack += [r.node for r in self._graph.by_name[name].inputs if r is not None]
        return found

    def _ideals(self) -> set[int]:
        found, stack = {0}, [0]
        while stack:
            ideal = stack.pop()
            for i, needs in enumerate(self._needs):
                grown = ideal | 1 << i
                if needs & ~ideal == 0 and grown not in found:
                    found.add(grown)
                    stack.append(grown)
        return found

    def _steps(self, ideal: int) -> list[int]:
        """What may run as one kernel after the ideal: sets that need nothing but it and themselves."""
        found: set[int] = set()
        stack = [0]
        while stack:
            taken = stack.pop()
            for i, needs in enumerate(self._needs):
                grown = taken | 1 << i
                if grown == taken or ideal >> i & 1 or needs & ~(ideal | taken) or grown in found:
                    continue
                if taken and self._time(grown) == math.inf and not self._may_grow(grown):
                    continue
                found.add(grown)
                stack.append(grown)
        return sorted(s for s in found if self._time(s) < math.inf)

    def _may_grow(self, members: int) -> bool:
        return all(n.name in self._fusible for n in self._of(members))

    def _of(self, members: int) -> list[Node]:
        return [n for i, n in enumerate(self._kernels) if members >> i & 1]

    def _time(self, members: int) -> float:
        if members not in self._sets:
            self._sets[members] = self._find(members)
        return self._sets[members]

    def _find(self, members: int) -> float:
        kernels = self._of(members)
        if len(kernels) == 1:
            return float(self._costs.ns(kernels[0]) or 0)
        if any(n.name not in self._fusible for n in kernels):
            return math.inf
        nodes = self._with_views(kernels)
        found = [self._one(Group(tuple(nodes)))]
        parts = components(self._graph, nodes)
        if len(parts) > 1:
            groups = tuple(Group(tuple(p)) for p in parts)
            found.append(self._one(Group(tuple(nodes), parts=groups)))
        return min(found)

    def _one(self, group: Group) -> float:
        made = self._predict(group)
        return math.inf if isinstance(made, Reason) or made.ns is None else float(made.ns)

    def _with_views(self, kernels: Sequence[Node]) -> list[Node]:
        """The kernels and the reshapes between them, in order."""
        names = {n.name for n in kernels}
        found = {n.name: n for n in kernels}
        for kernel in kernels:
            for ref in kernel.inputs:
                path: list[Node] = []
                while (
                    ref is not None
                    and ref.node not in names
                    and is_free_view(self._graph, self._graph.by_name[ref.node])
                ):
                    path.append(self._graph.by_name[ref.node])
                    ref = path[-1].inputs[0]
                if ref is not None and ref.node in names:
                    found.update((n.name, n) for n in path)
        return sorted(found.values(), key=lambda n: self._graph.position[n.name])


def windows(graph: Graph, size: int, fusible: Sequence[str], least: int = 3) -> list[Graph]:
    """Graphs of ``size`` kernels each that follow each other in ``graph``, cut apart; those with too few of ``fusible``
    are left out. What a window reads from before it are its inputs, what is read after it its outputs."""
    kernels = [n for n in graph.nodes if is_kernel(n, graph)]
    wanted = set(fusible)
    found = []
    for start in range(0, len(kernels), size):
        part = kernels[start : start + size]
        if sum(n.name in wanted for n in part) >= least:
            found.append(_cut_out(graph, part))
    return found


def _cut_out(graph: Graph, kernels: Sequence[Node]) -> Graph:
    inside = {n.name: n for n in kernels}
    stack = [r for n in kernels for r in n.inputs if r is not None]
    sources: dict[str, Node] = {}
    while stack:  # what is no kernel comes along; what a kernel before the window makes is an input
        ref = stack.pop()
        node = graph.by_name[ref.node]
        if node.name in inside or node.name in sources:
            continue
        if is_kernel(node, graph) or node.type in ("Data", "RefData"):
            sources[node.name] = replace(node, type="Data", inputs=(), controls=(), attrs={"index": len(sources)})
        else:
            inside[node.name] = node
            stack += [r for r in node.inputs if r is not None]
    results = [
        ref
        for n in inside.values()
        if n.name in {k.name for k in kernels}
        for ref in n.outputs
        if any(c.name not in inside for c, _ in graph.consumers.get(ref, ()))
    ]
    nodes = sorted((*sources.values(), *inside.values()), key=lambda n: graph.position[n.name])
    end = next(n for n in graph.nodes if n.type == "NetOutput")
    outputs = tuple(results)
    return replace(graph, nodes=(*nodes, replace(end, inputs=outputs, controls=())), outputs=outputs)
