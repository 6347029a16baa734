"""Values that fused ops compute again instead of reading them, where that is predicted to be faster.

A value that fused ops alone read can be computed inside each of them: its ancestors are ancestors of the readers
already, so this closes no cycle. It saves a kernel for a value that is one of its own, and for one that a fused op
would store for others the trip through memory; it costs the reads of its operands and the work, once per op. The
predicted times of all ops concerned decide, after a first look at bytes. Where sizes are unknown, cheap values are
computed again that do not read more than themselves and have one reader.

``--recomputation_threshold`` (CANN), where given: a value with more readers is stored whatever that costs.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop.ir import Pointwise, Reduce
from torchair_autofuse.lower.outputs import is_free_view
from torchair_autofuse.lower.registry import RULES, Permute, Windows
from torchair_autofuse.lower.uniform import GENERATORS, op_view, uniform_value
from torchair_autofuse.messages import Reason, counted
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cost import PROFIT_NS
from torchair_autofuse.plan.group import Costs, Fits, Group
from torchair_autofuse.plan.legality import emit_alone

HEAVY = frozenset(
    [
        *("exp", "log", "sqrt", "rsqrt", "reciprocal", "pow", "fmod", "tanh", "sigmoid", "erf", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    ]
)
"""Ops that are not computed twice where nothing predicts what that costs."""


@dataclass(frozen=True)
class _Use:
    """A value that fused ops read: the nodes to copy (itself and views), its readers, and the groups they are in."""

    copies: tuple[Node, ...]
    readers: tuple[str, ...]
    groups: tuple[int, ...]


def recompute(
    graph: Graph,
    groups: Sequence[Group],
    alone: Sequence[Node],
    options: Options,
    fits: Fits,
    costs: Costs,
    pinned: Container[str] = (),
) -> tuple[list[Group], list[tuple[Node, Reason]]]:
    """``groups`` with values copied into their readers: nodes of ``alone`` (fusible, in no group) and of groups.

    ``pinned``: nodes that read memory which another op overwrites; it is not read later. Also returns the AF220
    refusals: values that are stored because of the threshold, or because computing them again is predicted slower.
    """
    again = _Recomputation(graph, groups, options, fits, costs)
    refused: list[tuple[Node, Reason]] = []
    nodes = sorted((*alone, *(n for g in groups for n in g.nodes)), key=lambda n: graph.position[n.name])
    for node in nodes:
        use = again.use(node)
        if use is not None and not any(n.name in pinned for n in use.copies):
            reason = again.copy(node, use)
            if reason is not None:
                refused.append((node, reason))
    return again.made, refused


class _Recomputation:
    def __init__(
        self,
        graph: Graph,
        groups: Sequence[Group],
        options: Options,
        fits: Fits,
        costs: Costs,
    ) -> None:
        self._graph, self._options, self._fits, self._costs = graph, options, fits, costs
        self.made = list(groups)
        self._owner = {n.name: i for i, g in enumerate(self.made) for n in g.nodes}

    def use(self, node: Node) -> _Use | None:
        """How fused ops use the node's result; None where it may not be copied, as where anything else reads it."""
        if not is_kernel(node, self._graph) or uniform_value(self._graph, node.outputs[0]) is not None:
            return None
        if len(node.outputs) != 1 and not self._reads_memory(node):
            return None
        home = self._owner.get(node.name)
        use = self._readers(node)
        if use is None or (home is not None and (home not in use.groups or len(use.groups) == 1)):
            return None  # the op that makes it reads it too: else nothing would be left of it there
        if any(self.made[i].nodes[0].scope != node.scope for i in use.groups):
            return None
        if home is not None and any(r.node in self._names(home) for r in self._operands(node)):
            return None  # they would have to be stored in turn
        return use

    def copy(self, node: Node, use: _Use) -> Reason | None:
        """Copies the node into its readers if that pays, fits and the user allows it; or says why it is stored."""
        text = f"{node.name} has {counted(len(use.readers), 'reader')}"
        free = node.type in GENERATORS or self._reads_memory(node)
        limit = self._options.recomputation_threshold
        if not self._may_pay(node, use):
            return None
        if limit is not None and len(use.readers) > limit and not free:
            return Reason("AF220", f"{text}, --recomputation_threshold is {limit}")
        home = self._owner.get(node.name)
        grown = {}
        for i in use.groups:
            own = frozenset(ref for n in use.copies if self._owner.get(n.name) == i for ref in n.outputs)
            group = self.made[i] if i == home else _with(self._graph, self.made[i], use.copies)
            grown[i] = replace(group, unstored=group.unstored | own)
        most = self._options.max_fusion_size
        if most is not None and any(len(g.nodes) > most for g in grown.values()):
            return None
        if any(self._fits(g) is not None for g in grown.values()):
            return None
        before = self._costs.total_ns(self.made[i] for i in use.groups)
        after = self._costs.total_ns(grown.values())
        one = self._costs.nodes.ns(node) if home is None else 0
        if before is not None and after is not None and one is not None:
            # ops that only index memory no longer depend on each other: a launch less, if they run side by side
            least = -self._costs.nodes.launch_ns if free and home is not None else PROFIT_NS
            if after + least > before + one:
                count = len(grown) - (home in grown)
                where = f"{count} fused ops" if count > 1 else "another fused op"
                return Reason(
                    "AF220",
                    f"{node.name} is stored: with it computed again in {where} they would take {after} ns "
                    f"instead of {before + one} (predicted)",
                )
        elif limit is None and len(use.readers) > 1 and not free:
            return Reason("AF220", f"{text}, and its size is unknown")
        for i, group in grown.items():
            self.made[i] = group
        return None

    def _may_pay(self, node: Node, use: _Use) -> bool:
        """Whether copies save a kernel, or more bytes than they read; without sizes: cheap and no more to read."""
        home = self._owner.get(node.name)
        sizes = {r: self._costs.nodes.size(r) for r in (*self._operands(node), *node.outputs)}
        if self._costs.predict is None or any(s is None for s in sizes.values()):
            return self._cheap(node) and (home is None or self._reads_no_more(node))
        if home is None or self._reads_memory(node):
            return True
        others = [i for i in use.groups if i != home]
        saved = (len(others) + 1) * sum(sizes[r] or 0 for r in node.outputs)
        for i in others:
            read = {r for n in self.made[i].nodes for r in n.inputs}
            saved -= sum(sizes[r] or 0 for r in self._operands(node) if r not in read)
        return saved > 0

    def _names(self, group: int) -> set[str]:
        return {n.name for n in self.made[group].nodes}

    def _operands(self, node: Node) -> list[TensorRef]:
        """What a kernel loads for the node."""
        refs = (ref for ref in dict.fromkeys(node.inputs) if ref is not None)
        return [ref for ref in refs if uniform_value(self._graph, ref) is None]

    def _reads_memory(self, node: Node) -> bool:
        """Whether the node is a slice, split or transpose of a tensor that no fused op makes: a way to index it."""
        rule = RULES[node.type]
        if rule.movement is None or not isinstance(rule.movement(op_view(self._graph, node)), (Permute, Windows)):
            return False
        return all(r is None or r.node not in self._owner for r in node.inputs)

    def _reads_no_more(self, node: Node) -> bool:
        """Whether at most one operand is as large as the result."""
        shape = self._graph.info(node.outputs[0]).shape
        return sum(self._graph.info(r).shape == shape for r in self._operands(node)) <= 1

    def _readers(self, node: Node) -> _Use | None:
        """How fused ops use the node's result, or None if anything else reads it too."""
        copies: dict[str, Node] = {node.name: node}
        readers: dict[str, None] = {}
        groups: set[int] = set()
        stack: list[TensorRef] = list(node.outputs)
        while stack:
            for consumer, _ in self._graph.consumers.get(stack.pop(), ()):
                inside = consumer.name in self._owner
                if inside:
                    groups.add(self._owner[consumer.name])
                if is_free_view(self._graph, consumer):
                    if consumer.name not in copies:
                        copies[consumer.name] = consumer
                        stack.extend(consumer.outputs)
                elif inside:
                    readers[consumer.name] = None
                else:
                    return None
        return _Use(tuple(copies.values()), tuple(readers), tuple(sorted(groups))) if readers else None

    def _cheap(self, node: Node) -> bool:
        if RULES[node.type].kind == "view":
            return True
        values, _ = emit_alone(self._graph, node)
        return not any(isinstance(v, Reduce) or (isinstance(v, Pointwise) and v.op in HEAVY) for v in values)


def _with(graph: Graph, group: Group, copies: Sequence[Node]) -> Group:
    """The group with those of ``copies`` that lead to one of its nodes."""
    names = {n.name for n in group.nodes}
    wanted: dict[str, Node] = {}
    for node in sorted((n for n in copies if n.name not in names), key=lambda n: -graph.position[n.name]):
        readers = {c.name for ref in node.outputs for c, _ in graph.consumers.get(ref, ())}
        if readers & (names | set(wanted)):
            wanted[node.name] = node
    nodes = sorted((*group.nodes, *wanted.values()), key=lambda n: graph.position[n.name])
    return replace(group, nodes=tuple(nodes), copies=group.copies | frozenset(wanted))
