"""Splitting fused ops that are predicted slower than their parts.

Merging looks at structure: one kernel instead of two saves a launch and a trip through memory. Where the one kernel
has to move everything in short blocks because one of its nodes does, or runs on few cores because one result is tiny,
its parts may be faster. An op whose predicted time is more than a launch above what its bytes and its vector work take
at best is cut at the node where that saves most, or into all its nodes where no single cut pays; so are the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.lower import RULES
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.cost import PROFIT_NS, Work, predicted_ns
from torchair_autofuse.plan.group import Costs, Group, Predicted
from torchair_autofuse.plan.pieces import Cut, edges_between, results_outside, separated, worthwhile

PROFIT_SHARE = 20
"""A split saves at least this part (1/20) of the time, and PROFIT_NS."""
MOST_WORK = 1024
"""Nodes of an op, and NEST for each further loop nest, times the nodes where it is cut; in a large op these are nodes
that move data or reduce, evenly spread."""
NEST = 8
"""Nodes that take about as long to schedule as one loop nest."""

_Parts = tuple[tuple[Node, ...], ...]


class Refiner:
    """Splits of the groups of one graph; ops of one type at the same sizes are split alike, which is found once."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self._graph, self._costs = graph, costs
        self._known: dict[object, tuple[tuple[int, ...], ...] | None] = {}

    def split(self, group: Group) -> tuple[list[Group], list[Cut]]:
        """The group, or the groups that are left of it (nodes in none of them stay as they are), and why."""
        made = self._costs.predicted(group)
        if made is None or made.ns is None or not self._suspect(group, made.ns):
            return [group], []
        parts = self._best(group, made)
        ns = None if parts is None else self._ns(parts, made.ns)
        if parts is None or ns is None:
            return [group], []
        text = f"one op would take {made.ns} ns, its {len(parts)} parts take {ns} ns (predicted)"
        cuts: list[Cut] = [(*ends, Reason("AF216", text)) for ends in edges_between(self._all(group, parts))]
        found: list[Group] = []
        for part in parts:
            if worthwhile(self._graph, part):
                groups, more = self.split(Group(part))
                found += groups
                cuts += more
        return found, cuts

    def _all(self, group: Group, parts: _Parts) -> _Parts:
        """The parts, and each reshape that is in none of them by itself."""
        inside = {n.name for part in parts for n in part}
        return (*parts, *((n,) for n in group.nodes if n.name not in inside))

    def _suspect(self, group: Group, ns: int) -> bool:
        """Whether the time is so far above the least that a split, a launch more, could pay."""
        return ns > self._least(group.nodes) + self._costs.nodes.launch_ns + PROFIT_NS

    def _least(self, nodes: Sequence[Node]) -> int:
        """Predicted time of the nodes as one kernel that moves its bytes in long blocks and uses all cores."""
        costs = self._costs.nodes
        works = [w for w in map(costs.work, nodes) if w is not None]
        inside = {n.name for n in nodes}
        read = {r for n in nodes for r in n.inputs if r is not None and r.node not in inside}
        least = Work(
            sum(costs.loaded(r) or 0 for r in read),
            sum(costs.size(r) or 0 for r in results_outside(self._graph, nodes)),
            sum(w.cycles for w in works),
            sum(w.heads for w in works),
            max((w.elements for w in works), default=0),
        )
        return predicted_ns(costs.chip, least)

    def _best(self, group: Group, made: Predicted) -> _Parts | None:
        place = {n.name: i for i, n in enumerate(group.nodes)}
        sources = (tuple(None if r is None else (place.get(r.node), r.index) for r in n.inputs) for n in group.nodes)
        key = made.op_type, made.ns, tuple((n.type, refs) for n, refs in zip(group.nodes, sources))
        if key not in self._known:
            found = self._find(group, made)
            self._known[key] = None if found is None else tuple(tuple(place[n.name] for n in p) for p in found)
        known = self._known[key]
        return None if known is None else tuple(tuple(group.nodes[i] for i in part) for part in known)

    def _find(self, group: Group, made: Predicted) -> _Parts | None:
        assert made.ns is not None
        limit = made.ns - max(PROFIT_NS, made.ns // PROFIT_SHARE)
        for ways in (self._cuts(group, made.nests), iter([self._parts(*([n] for n in group.nodes))])):
            best, least_ns = None, limit + 1
            for parts in dict.fromkeys(ways):
                ns = self._ns(parts, least_ns)
                if ns is not None:
                    best, least_ns = parts, ns
            if best is not None:
                return best
        return None

    def _cuts(self, group: Group, nests: int) -> Iterator[_Parts]:
        """Each node with all it depends on and the rest, each with all that depends on it and the rest.

        All parts are convex, and the data edges between them close no cycle.
        """
        nodes = group.nodes
        inside = {n.name: n for n in nodes}
        above: dict[str, set[str]] = {}
        for n in nodes:
            sources = [r.node for r in n.inputs if r is not None and r.node in inside]
            above[n.name] = {n.name}.union(*(above[s] for s in sources))
        at = [n for n in nodes if is_kernel(n, self._graph)]
        most = max(MOST_WORK // (len(nodes) + NEST * (nests - 1)), 1)
        if len(at) > most:
            at = [n for n in at if RULES[n.type].movement is not None or RULES[n.type].kind == "reduce"]
            at = [at[i * len(at) // most] for i in range(most)] if len(at) > most else at
        for node in at:
            below = {n.name for n in nodes if node.name in above[n.name]}
            for taken in (above[node.name], below):
                yield self._parts([n for n in nodes if n.name in taken], [n for n in nodes if n.name not in taken])

    def _parts(self, *sets: Sequence[Node]) -> _Parts:
        """The connected parts of each set that hold a kernel, without reshapes at the rim."""
        found = [p for p in separated(self._graph, sets) if any(is_kernel(n, self._graph) for n in p)]
        return tuple(tuple(p) for p in sorted(found, key=lambda p: self._graph.position[p[0].name]))

    def _ns(self, parts: _Parts, limit: int) -> int | None:
        """Predicted time of all parts if below the limit; None also where one cannot be an op or has unknown sizes."""
        if len(parts) < 2:
            return None
        least = [self._least(part) for part in parts]
        total = sum(least)
        for part, bound in zip(parts, least):
            if total >= limit:
                return None  # without a schedule for the other parts
            fused = worthwhile(self._graph, part)
            ns = self._costs.ns(Group(part)) if fused else self._costs.nodes.total_ns(part)
            if ns is None:
                return None
            total += ns - bound
        return total if total < limit else None
