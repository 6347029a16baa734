"""Fused ops from groups of nodes: lowered, scheduled, printed."""

from __future__ import annotations

from collections.abc import Mapping

from torchair_autofuse.codegen.kernel import KernelText, generate, node_line
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.build import build
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.lower.ordering import connected_order
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.build import GeneratedOp
from torchair_autofuse.options import Options
from torchair_autofuse.plan.recompute import Group
from torchair_autofuse.schedule.choose import schedule
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import Chip

__all__ = ["GeneratedOp", "OpMaker", "kernel_hints", "lower_group"]


class OpMaker:
    """Makes fused ops of groups. What depends on the op type alone is made once for all groups of that type."""

    def __init__(self, graph: Graph, target: Chip, options: Options) -> None:
        self.graph, self.target, self.options = graph, target, options
        self._lowered: dict[tuple[Group, frozenset[str]], Lowered | Reason] = {}
        self._schedules: dict[str, tuple[Lowered, Schedule | Reason]] = {}
        self._texts: dict[str, KernelText] = {}

    def refuses(self, group: Group) -> Reason | None:
        """Why there is no fused op of the group, or None if there is."""
        lowered = self._lower(group)
        if isinstance(lowered, Reason):
            return lowered
        scheduled = self._schedule(lowered)
        return scheduled if isinstance(scheduled, Reason) else None

    def make(self, group: Group, elsewhere: frozenset[str] = frozenset()) -> GeneratedOp | Reason:
        """The fused op of a group, or why there is none. ``elsewhere``: nodes of other fused ops (lower.outputs)."""
        lowered = self._lower(group, elsewhere)
        if isinstance(lowered, Reason):
            return lowered
        first = lowered.op_type not in self._texts
        scheduled = self._schedule(lowered, own=first)
        if isinstance(scheduled, Reason):
            return scheduled
        if first:
            lines = [node_line(n.type, n.name) for n in lowered.nodes]
            self._texts[lowered.op_type] = generate(scheduled, lowered.op_type, lines)
        return GeneratedOp(lowered, scheduled, self._texts[lowered.op_type])

    def _lower(self, group: Group, elsewhere: frozenset[str] = frozenset()) -> Lowered | Reason:
        key = (group, elsewhere)
        if key not in self._lowered:
            self._lowered[key] = lower_group(self.graph, group, self.options, elsewhere)
        return self._lowered[key]

    def _schedule(self, lowered: Lowered, own: bool = False) -> Schedule | Reason:
        """The schedule of a kernel or of an equal one; ``own``: that of this one, which names its own nodes."""
        known = self._schedules.get(lowered.op_type)
        if known is None or (own and known[0] is not lowered):
            known = lowered, schedule(lowered.kernel, self.target)
            self._schedules[lowered.op_type] = known
        return known[1]


def lower_group(
    graph: Graph, group: Group, options: Options, elsewhere: frozenset[str] = frozenset()
) -> Lowered | Reason:
    """The loop-level kernel of a group, or why there is none; verified where ``options.strict``."""
    domain = Domain(graph)
    for node in connected_order(graph, group.nodes):
        reason = domain.try_add(node)
        if reason is not None:
            return reason
    strict = options.precision == "strict"
    lowered = build(graph, domain, strict=strict, copies=group.copies, elsewhere=elsewhere, unstored=group.unstored)
    if options.strict and isinstance(lowered, Lowered):
        verify(lowered.kernel)
    return lowered


def kernel_hints(made: GeneratedOp, graph: Graph, hints: Mapping[str, int]) -> dict[str, int]:
    """Example values of the kernel's own symbols; 64 where the graph's symbols have no hint."""
    values: dict[str, int] = {}
    for s in made.lowered.kernel.symbols:
        index = next(i for i, p in enumerate(made.lowered.kernel.inputs) if p.name == s.param)
        shape = graph.info(made.lowered.inputs[index]).shape
        assert shape is not None
        dim = shape[s.dim]
        known = {n: hints.get(n, 64) for n in expr.free_symbols(dim)}
        values[s.name] = expr.evaluate(dim, known) // s.divisor
    return values
