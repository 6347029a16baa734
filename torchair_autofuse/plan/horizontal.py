"""Horizontal fusion of small kernels: ops that do not depend on each other run side by side in one.

Where launch and pipe heads are most of a kernel's time, several small ones (of an optimizer step, of the parts of a
loss) become the loop nests of one fused op, which run on different cores. A merge is kept when the predicted time falls
by more than a threshold, neither op has to run before the other, both are near each other in the graph, and the peak
of live bytes does not grow beyond a share (plan.memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.alias import Writes
from torchair_autofuse.plan.contraction import Block, of_groups
from torchair_autofuse.plan.cost import PROFIT_NS, NodeCosts
from torchair_autofuse.plan.group import Costs, Group, Predict, Predicted
from torchair_autofuse.plan.memory import Memory, peak_text

NEAR = 64
"""Nodes between two kernels beyond which they stay apart."""
SMALL = 4
"""Launches that a kernel to be joined takes at most; in a longer one a launch is no great share."""
MOST_PARTS = 16
"""Parts of one op."""
MOST_PARAMS = 48
"""Inputs and outputs of one op."""
_OPEN = 4  # ops that a kernel is tried with, the nearest first


@dataclass(frozen=True)
class Joined:
    """``groups`` after joining. ``refused``: AF224, pairs that only live memory keeps apart. ``apart``: by its name
    why a kernel that was alone has no op beside it, with the numbers."""

    groups: list[Group]
    refused: list[tuple[Node, Node, Reason]]
    apart: dict[str, str]


@dataclass
class _Op:
    """A kernel that may be joined with others: ``groups`` of nodes, one alone to begin with."""

    groups: list[Group]
    block: Block
    made: Predicted
    ns: int
    last: int  # graph position of its last node


def join_small(
    graph: Graph,
    groups: Sequence[Group],
    alone: Sequence[Node],
    writes: Writes,
    options: Options,
    costs: Costs,
) -> Joined:
    """``groups`` with small ones, and small ones of the fusible kernels ``alone``, joined side by side; where nothing
    predicts, as they are.
    """
    if costs.predict is None:
        return Joined(list(groups), [], {})
    return _Joining(graph, groups, writes, options, costs.nodes, costs.predict).run(alone)


class _Joining:
    def __init__(
        self,
        graph: Graph,
        groups: Sequence[Group],
        writes: Writes,
        options: Options,
        costs: NodeCosts,
        predict: Predict,
    ) -> None:
        self._graph, self._groups, self._options, self._costs = graph, groups, options, costs
        self._predict = predict
        self._blocks = of_groups(graph, groups, writes)
        self._memory: Memory | None = None
        self._small = SMALL * costs.launch_ns
        # what waits for others, or others for it, because of memory that is written keeps its place
        self._fixed = {name for pair in writes.waits for name in pair}
        self._fixed |= {ref.node for pair in writes.results for ref in pair}
        self._refused: list[tuple[Node, Node, Reason]] = []
        # pairs of op types, their times and what they share, that did not pay: why
        self._hopeless: dict[object, str] = {}
        self._apart: dict[str, str] = {}

    def run(self, alone: Sequence[Node]) -> Joined:
        place = self._graph.position
        singles = [Group((n,)) for n in alone if is_kernel(n, self._graph)]
        ops: list[_Op] = []
        left: list[Group] = []
        near: list[_Op] = []
        for group in sorted((*self._groups, *singles), key=lambda g: place[g.nodes[0].name]):
            op = self._op(group)
            if op is None:
                left += [group] if len(group.nodes) > 1 else []
                continue
            near = [o for o in near if place[group.nodes[0].name] - o.last <= NEAR]
            self._note(op, f"not side by side with others: no small kernel within {NEAR} nodes")
            if not any(self._join(other, op) for other in near[: -_OPEN - 1 : -1]):
                ops.append(op)
                near.append(op)
        found = [
            *left,
            *(_joined(self._graph, op.groups) for op in ops if len(op.groups) > 1 or op.groups[0].nodes[1:]),
        ]
        return Joined(sorted(found, key=lambda g: place[g.nodes[0].name]), self._refused, self._apart)

    def _op(self, group: Group) -> _Op | None:
        """The group as a kernel that may be joined, or None."""
        names = [n.name for n in group.nodes]
        if self._fixed.intersection(names):
            self._apart[names[0]] = "not side by side with others: memory is written that it or another op reads"
            return None
        own = next((n for n in group.nodes if n.name not in group.copies), None)
        if own is None or own.name not in self._blocks.of:
            return None
        if len(names) == 1 and (self._costs.ns(own) or self._small + 1) > self._small:
            self._apart[names[0]] = self._long(self._costs.ns(own), "by itself")
            return None  # known without making it
        made = self._predict(group)
        if isinstance(made, Reason):
            self._apart[names[0]] = f"not side by side with others: {made}"
            return None
        if made.ns is None or made.ns > self._small:
            self._apart[names[0]] = self._long(made.ns, "as a fused op")
            return None
        # a GE op that is replaced counts with its own time
        ns = made.ns if len(names) > 1 else self._costs.ns(own)
        last = max(self._graph.position[name] for name in names)
        return None if ns is None else _Op([group], self._blocks.of[own.name], made, ns, last)

    def _long(self, ns: int | None, form: str) -> str:
        if ns is None:
            return "not side by side with others: its size is unknown"
        return f"not side by side with others: {ns} ns {form}, {self._small} ns at most are small (predicted)"

    def _note(self, op: _Op, text: str) -> None:
        """Why an op that is one kernel is not beside another one, as far as is known."""
        if len(op.groups) == 1:
            self._apart[op.groups[0].nodes[0].name] = text

    def _join(self, other: _Op, op: _Op) -> bool:
        """Joins ``op`` to ``other`` where that is allowed and pays."""
        why_not = self._try(other, op)
        for one, beside in ((other, op), (op, other)):
            if why_not:
                self._note(one, f"not side by side with {beside.groups[0].nodes[0].name}: {why_not}")
        return not why_not

    def _try(self, other: _Op, op: _Op) -> str:
        """Joins them; or says why not."""
        why_not = self._barrier(other, op)
        if why_not:
            return why_not
        key = (other.made.op_type, op.made.op_type, other.ns, op.ns, _shared(other.made, op.made))
        if key in self._hopeless:
            return self._hopeless[key]
        groups = [*other.groups, *op.groups]
        found = self._predict(_joined(self._graph, groups))
        if isinstance(found, Reason) and len(groups) == 2:  # what cannot be two loop nests may be one
            groups = [_united(self._graph, groups)]
            found = self._predict(groups[0])
        if isinstance(found, Reason):
            self._hopeless[key] = f"there is no op: {found}"
            return self._hopeless[key]
        times = f"one op would take {found.ns} ns instead of {other.ns + op.ns} (predicted)"
        if found.ns is None or found.ns + PROFIT_NS >= other.ns + op.ns:
            self._hopeless[key] = f"{times}, {PROFIT_NS} ns less is asked for"
            return self._hopeless[key]
        memory = self._memory = self._memory or Memory(self._graph, self._blocks, self._costs.hints)
        if not memory.allows(other.block, op.block):
            peak = memory.added_peak(other.block, op.block)
            text = f"{times}, but {peak_text(peak, memory.peak)}"
            self._refused.append((other.groups[0].nodes[0], op.groups[0].nodes[0], Reason("AF224", text)))
            return text
        memory.merge(other.block, op.block)
        reason = self._blocks.unite(other.block, op.block)
        assert reason is None, "blocks that do not depend on each other can be united"
        other.groups, other.made, other.ns = groups, found, found.ns
        other.last = max(other.last, op.last)
        return ""

    def _barrier(self, a: _Op, b: _Op) -> str:
        """Why the two may not be one op whatever it costs, or ""."""
        counts = [
            ("parts", len(a.groups) + len(b.groups), MOST_PARTS),
            ("inputs and outputs", len({*a.made.params, *b.made.params}), MOST_PARAMS),
        ]
        limit = self._options.max_fusion_size
        if limit is not None:
            counts.append(("nodes", sum(len(g.nodes) for g in (*a.groups, *b.groups)), limit))
        for what, count, most in counts:
            if count > most:
                return f"it would have {count} {what}, {most} at most"
        if a.groups[0].nodes[0].scope != b.groups[0].nodes[0].scope:
            return "it has another scope label"
        return "" if self._blocks.apart(a.block, b.block) else "one has to run before the other"


def _shared(a: Predicted, b: Predicted) -> tuple[tuple[int, int], ...]:
    """Which params the two have in common, by their numbers."""
    place = {ref: i for i, ref in enumerate(a.params)}
    return tuple((place[ref], j) for j, ref in enumerate(b.params) if ref in place)


def _joined(graph: Graph, groups: Sequence[Group]) -> Group:
    """Groups side by side; one stays as it is."""
    if len(groups) == 1:
        return groups[0]
    return replace(_united(graph, groups), parts=tuple(groups))


def _united(graph: Graph, groups: Sequence[Group]) -> Group:
    """The nodes of all groups as one group."""
    nodes = {n.name: n for g in groups for n in g.nodes}
    own = {n.name for g in groups for n in g.nodes if n.name not in g.copies}
    return Group(
        tuple(sorted(nodes.values(), key=lambda n: graph.position[n.name])),
        frozenset(nodes) - own,
        frozenset(ref for g in groups for ref in g.unstored),
    )
