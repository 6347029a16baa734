"""Values that fused ops compute again instead of reading them: cheap ones with few readers.

``--recomputation_threshold`` (CANN): a value with more readers than the threshold is stored. A value that fused ops
alone read can be computed inside each of them: its ancestors are ancestors of the readers already, so this closes no
cycle. It pays for a value that is a kernel of its own, which vanishes, and for one that a fused op would have to store
for others, as long as computing it again reads no more than the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop.ir import Pointwise, Reduce
from torchair_autofuse.lower.outputs import is_free_view
from torchair_autofuse.lower.registry import RULES, Permute, Windows
from torchair_autofuse.lower.uniform import GENERATORS, op_view, uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plan.legality import emit_alone

HEAVY = frozenset(
    [
        *("exp", "log", "sqrt", "rsqrt", "reciprocal", "pow", "fmod", "tanh", "sigmoid", "erf", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    ]
)
"""Ops that are not computed twice."""


@dataclass(frozen=True)
class Group:
    """Nodes (topological order) that become one fused op.

    ``copies`` of them are computed here for it alone. ``unstored``: results that all outside readers compute again.
    ``parts``: groups that do not depend on each other and run side by side in the op; their nodes are all it has.
    """

    nodes: tuple[Node, ...]
    copies: frozenset[str] = frozenset()
    unstored: frozenset[TensorRef] = frozenset()
    parts: tuple[Group, ...] = ()

    @property
    def all_copies(self) -> frozenset[str]:
        """Names of what it, or a part of it, computes for itself alone."""
        return self.copies.union(*(p.all_copies for p in self.parts))

    def storing(self, gone: Container[str]) -> Group:
        """The group as it is when nothing computes the results of the nodes ``gone`` again."""
        unstored = frozenset(ref for ref in self.unstored if ref.node not in gone)
        return replace(self, unstored=unstored, parts=tuple(p.storing(gone) for p in self.parts))


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
    fits: Callable[[Group], Reason | None],
    pinned: Container[str] = (),
) -> tuple[list[Group], list[tuple[Node, Reason]]]:
    """``groups`` with cheap values copied into their readers: nodes of ``alone`` (fusible, in no group) and of groups.

    ``pinned``: nodes that read memory which another op overwrites; it is not read later. Also returns the AF220
    refusals: values that only the threshold keeps from being computed again.
    """
    made = list(groups)
    refused: list[tuple[Node, Reason]] = []
    owner = {n.name: i for i, g in enumerate(made) for n in g.nodes}
    nodes = sorted((*alone, *(n for g in groups for n in g.nodes)), key=lambda n: graph.position[n.name])
    for node in nodes:
        if not is_kernel(node, graph) or uniform_value(graph, node.outputs[0]) is not None:
            continue
        if len(node.outputs) != 1 and not _reads_memory(graph, node, owner):
            continue
        home = owner.get(node.name)
        use = _use(graph, node, owner)
        if use is None or set(use.groups) <= {home} or not _cheap(graph, node):
            continue
        if any(n.name in pinned for n in use.copies):
            continue
        if any(made[i].nodes[0].scope != node.scope for i in use.groups):
            continue
        if home is not None and not _reads_no_more(graph, node, made[home]):
            continue
        limit = options.recomputation_threshold
        free = node.type in GENERATORS or _reads_memory(graph, node, owner)
        if len(use.readers) > limit and not free:
            text = f"{node.name} has {len(use.readers)} readers, --recomputation_threshold is {limit}"
            refused.append((node, Reason("AF220", text)))
            continue
        grown = {}
        for i in use.groups:
            own = frozenset(ref for n in use.copies if owner.get(n.name) == i for ref in n.outputs)
            group = made[i] if i == home else _with(graph, made[i], use.copies)
            grown[i] = replace(group, unstored=group.unstored | own)
        most = options.max_fusion_size
        if most is not None and any(len(g.nodes) > most for g in grown.values()):
            continue
        if all(fits(g) is None for g in grown.values()):
            for i, group in grown.items():
                made[i] = group
    return made, refused


def _reads_memory(graph: Graph, node: Node, owner: Mapping[str, int]) -> bool:
    """Whether the node is a slice, split or transpose of a tensor that no fused op makes: another way to index it."""
    rule = RULES[node.type]
    if rule.movement is None or not isinstance(rule.movement(op_view(graph, node)), (Permute, Windows)):
        return False
    return all(r is None or r.node not in owner for r in node.inputs)


def _reads_no_more(graph: Graph, node: Node, home: Group) -> bool:
    """Whether the operands are in memory anyway, and at most one of them is as large as the result."""
    inside = {n.name for n in home.nodes}
    operands = [ref for ref in dict.fromkeys(node.inputs) if ref is not None and uniform_value(graph, ref) is None]
    shape = graph.info(node.outputs[0]).shape
    return not any(r.node in inside for r in operands) and sum(graph.info(r).shape == shape for r in operands) <= 1


def _use(graph: Graph, node: Node, owner: Mapping[str, int]) -> _Use | None:
    """How fused ops use the node's result, or None if anything else reads it too."""
    copies: dict[str, Node] = {node.name: node}
    readers: dict[str, None] = {}
    groups: set[int] = set()
    stack: list[TensorRef] = list(node.outputs)
    while stack:
        for consumer, _ in graph.consumers.get(stack.pop(), ()):
            inside = consumer.name in owner
            if inside:
                groups.add(owner[consumer.name])
            if is_free_view(graph, consumer):
                if consumer.name not in copies:
                    copies[consumer.name] = consumer
                    stack.extend(consumer.outputs)
            elif inside:
                readers[consumer.name] = None
            else:
                return None
    return _Use(tuple(copies.values()), tuple(readers), tuple(sorted(groups))) if readers else None


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


def _cheap(graph: Graph, node: Node) -> bool:
    if RULES[node.type].kind == "view":
        return True
    values, _ = emit_alone(graph, node)
    return not any(isinstance(v, Reduce) or (isinstance(v, Pointwise) and v.op in HEAVY) for v in values)
