"""Fused ops from groups of nodes: lowered, scheduled, printed."""

from __future__ import annotations

from collections.abc import Mapping

from torchair_autofuse.codegen.kernel import KernelText, generate, node_line
from torchair_autofuse.ge.catalogue import tensor_bytes
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.build import nested
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.finish import Lowered, Nested, finish, side_by_side, with_tensors
from torchair_autofuse.lower.ordering import connected_order
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.build import GeneratedOp
from torchair_autofuse.options import Options
from torchair_autofuse.plan.group import Group, Predicted
from torchair_autofuse.plan.predict import schedule_ns
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
        self._times: dict[object, int] = {}

    def refuses(self, group: Group) -> Reason | None:
        """Why there is no fused op of the group, or None if there is."""
        lowered = self._lower(group)
        if isinstance(lowered, Reason):
            return lowered
        scheduled = self._schedule(lowered)
        if isinstance(scheduled, Schedule):
            return None
        return with_tensors(scheduled, self.graph, lowered.kernel, (*lowered.inputs, *lowered.outputs))

    def predict(self, group: Group, hints: Mapping[str, int]) -> Predicted | Reason:
        """The group as one kernel with its predicted time at the sizes ``hints``, or why there is none."""
        lowered = self._lower(group)
        if isinstance(lowered, Reason):
            return lowered
        scheduled = self._schedule(lowered)
        if isinstance(scheduled, Reason):
            return scheduled
        params = (*lowered.inputs, *lowered.outputs)
        known = all(tensor_bytes(ref, self.graph, hints) is not None for ref in params)
        ns = None
        if known:
            sizes = kernel_hints(lowered, self.graph, hints)
            key = (lowered.op_type, tuple(sizes.items()))
            if key not in self._times:
                self._times[key] = schedule_ns(scheduled, sizes, self.target)
            ns = self._times[key]
        return Predicted(lowered.op_type, params, ns, len(lowered.kernel.nests))

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
    made = nests_of_group(graph, group, options, elsewhere)
    lowered = made if isinstance(made, Reason) else finish(graph, made)
    if options.strict and isinstance(lowered, Lowered):
        verify(lowered.kernel)
    return lowered


def nests_of_group(
    graph: Graph, group: Group, options: Options, elsewhere: frozenset[str] = frozenset()
) -> Nested | Reason:
    """The loop nests of a group; those of its parts one after the other."""
    if group.parts:
        found: list[Nested] = []
        for part in group.parts:
            own = {n.name for n in part.nodes}
            others = elsewhere | {n.name for n in group.nodes if n.name not in own} if elsewhere else elsewhere
            made = nests_of_group(graph, part, options, others)
            if isinstance(made, Reason):
                return made
            found.append(made)
        return side_by_side(graph, found)
    domain = Domain(graph)
    for node in connected_order(graph, group.nodes):
        reason = domain.try_add(node)
        if reason is not None:
            return reason
    strict = options.precision == "strict"
    return nested(graph, domain, strict=strict, copies=group.copies, elsewhere=elsewhere, unstored=group.unstored)


def kernel_hints(lowered: Lowered, graph: Graph, hints: Mapping[str, int]) -> dict[str, int]:
    """Example values of the kernel's own symbols; 64 where the graph's symbols have no hint."""
    values: dict[str, int] = {}
    for s in lowered.kernel.symbols:
        index = next(i for i, p in enumerate(lowered.kernel.inputs) if p.name == s.param)
        shape = graph.info(lowered.inputs[index]).shape
        assert shape is not None
        dim = shape[s.dim]
        known = {n: hints.get(n, 64) for n in expr.free_symbols(dim)}
        values[s.name] = expr.evaluate(dim, known) // s.divisor
    return values
