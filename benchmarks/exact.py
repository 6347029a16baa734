"""The best plan of a small graph by dynamic programming: how far the planners are from it; and what a plan costs.

A plan is a sequence of kernels, each a set of nodes, such that what a set reads is made by itself or by sets before it.
So every prefix is an ideal (a set closed under "depends on"), and the least time of an ideal is that of a smaller one
plus that of the set between the two. All sets between two ideals are convex; one costs the least of its predicted time
as one fused op and of its connected parts side by side, and nothing can be fused that the rules do not allow. Values
are not computed again in several ops; where the planners do that, they may be below what is called best here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.ge.catalogue import gm_bytes, is_kernel, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.outputs import is_free_view
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Costs, Group, Predicted
from torchair_autofuse.plan.pieces import components

LIMIT = 14
"""Most kernels of a graph that the search takes."""
_MOST_SETS = 3000
"""Most sets that are made into kernels."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a plan: the names of its nodes, bytes of the tensors that it reads and writes, each once, and
    predicted nanoseconds."""

    nodes: tuple[str, ...]
    gm_bytes: int
    ns: int


@dataclass(frozen=True)
class Planned:
    """A plan as its kernels, in no order that counts."""

    kernels: tuple[Kernel, ...]

    @property
    def count(self) -> int:
        return len(self.kernels)

    @property
    def gm_bytes(self) -> int:
        """Bytes of all kernels."""
        return sum(k.gm_bytes for k in self.kernels)

    @property
    def ns(self) -> int:
        """Predicted nanoseconds of all kernels, one after the other."""
        return sum(k.ns for k in self.kernels)


def alone(node: Node, costs: NodeCosts) -> Kernel | None:
    """A node that is a kernel of its own; None where a size is unknown."""
    moved, ns = gm_bytes(node, costs.graph, costs.hints), costs.ns(node)
    return None if moved is None or ns is None else Kernel((node.name,), moved, ns)


def fused(group: Group, costs: Costs) -> Kernel | None:
    """A group as one kernel; None where it cannot be one or a size is unknown."""
    made = None if costs.predict is None else costs.predict(group)
    if not isinstance(made, Predicted) or made.ns is None:
        return None
    params = dict.fromkeys(ref for ref in made.params if isinstance(ref, TensorRef))
    moved = sum(tensor_bytes(ref, costs.nodes.graph, costs.nodes.hints) or 0 for ref in params)
    return Kernel(tuple(n.name for n in group.nodes), moved, made.ns)


def best_plans(graph: Graph, fusible: Sequence[str], costs: Costs) -> dict[int, Planned] | None:
    """Number of kernels -> the plan of least predicted time with so many or fewer; of equal ones that with the fewest.

    ``fusible``: names of the nodes that may be fused. None where a size is unknown, or the graph has too many sets.
    Raises ValueError for more than LIMIT kernels.
    """
    kernels = [n for n in graph.nodes if is_kernel(n, graph)]
    if len(kernels) > LIMIT:
        raise ValueError(f"{len(kernels)} kernels; the exact planner takes at most {LIMIT}")
    if any(alone(n, costs.nodes) is None for n in kernels):
        return None
    return _Search(graph, kernels, frozenset(fusible), costs).run()


class _Search:
    def __init__(self, graph: Graph, kernels: Sequence[Node], fusible: frozenset[str], costs: Costs) -> None:
        self._graph, self._kernels, self._fusible, self._costs = graph, kernels, fusible, costs
        self._bit = {n.name: 1 << i for i, n in enumerate(kernels)}
        self._needs = [self._below(n) for n in kernels]
        self._sets: dict[int, Kernel | None] = {}

    def run(self) -> dict[int, Planned] | None:
        count = len(self._kernels)
        # by ideal and number of kernels: the least time, and the last kernel's set in a plan that takes it
        least: dict[int, list[tuple[float, int]]] = {i: [(math.inf, 0)] * (count + 1) for i in self._ideals()}
        least[0][0] = 0.0, 0
        for ideal in sorted(least, key=lambda s: (s.bit_count(), s)):
            for step in self._steps(ideal):
                time, into = self._time(step), least[ideal | step]
                for k in range(count):
                    into[k + 1] = min(into[k + 1], (least[ideal][k][0] + time, step))
            if len(self._sets) > _MOST_SETS:
                return None
        whole = (1 << count) - 1
        found: dict[int, Planned] = {}
        for k in range(1, count + 1):
            ns, best = min((least[whole][i][0], i) for i in range(k + 1))
            if ns < math.inf:
                found[k] = self._planned(least, whole, best)
        return found

    def _planned(self, least: dict[int, list[tuple[float, int]]], ideal: int, count: int) -> Planned:
        """The plan of an ideal with so many kernels, from its last kernel to its first."""
        made: list[Kernel] = []
        for k in range(count, 0, -1):
            step = least[ideal][k][1]
            kernel = self._kernel(step)
            assert kernel is not None
            made.append(kernel)
            ideal &= ~step
        return Planned(tuple(reversed(made)))

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
        while stack and len(self._sets) <= _MOST_SETS:
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
        made = self._kernel(members)
        return math.inf if made is None else float(made.ns)

    def _kernel(self, members: int) -> Kernel | None:
        if members not in self._sets:
            self._sets[members] = self._find(members)
        return self._sets[members]

    def _find(self, members: int) -> Kernel | None:
        kernels = self._of(members)
        if len(kernels) == 1:
            return alone(kernels[0], self._costs.nodes)
        if any(n.name not in self._fusible for n in kernels):
            return None
        nodes = self._with_views(kernels)
        groups = [Group(tuple(nodes))]
        parts = components(self._graph, nodes)
        if len(parts) > 1:
            groups.append(Group(tuple(nodes), parts=tuple(Group(tuple(p)) for p in parts)))
        made = [kernel for kernel in (fused(g, self._costs) for g in groups) if kernel is not None]
        return min(made, key=lambda kernel: kernel.ns, default=None)

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
