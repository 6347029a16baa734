"""Kernels that vanish because their readers compute them again: cheap values with few readers.

``--recomputation_threshold`` (CANN): a value with more readers than the threshold is stored. A value that is read by
one fused op or more, and by nothing else, can be computed inside each; its ancestors are ancestors of the readers
already, so this closes no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop.ir import Pointwise
from torchair_autofuse.lower.outputs import is_free_view
from torchair_autofuse.lower.registry import RULES
from torchair_autofuse.lower.uniform import GENERATORS, uniform_value
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
    """Nodes (topological order) that become one fused op; ``copies`` of them are computed here for it alone."""

    nodes: tuple[Node, ...]
    copies: frozenset[str] = frozenset()


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
) -> tuple[list[Group], list[tuple[Node, Reason]]]:
    """``groups`` with the nodes of ``alone`` (fusible, in no group) copied into them where that saves a kernel.

    Also returns the AF220 refusals: values that only the threshold keeps from being recomputed.
    """
    made = list(groups)
    refused: list[tuple[Node, Reason]] = []
    owner = {n.name: i for i, g in enumerate(made) for n in g.nodes}
    for node in alone:
        ref = node.outputs[0]
        if len(node.outputs) != 1 or not is_kernel(node, graph) or uniform_value(graph, ref) is not None:
            continue
        use = _use(graph, node, owner)
        if use is None or any(made[i].nodes[0].scope != node.scope for i in use.groups) or not _cheap(graph, node):
            continue
        if len(use.readers) > options.recomputation_threshold and node.type not in GENERATORS:
            limit = options.recomputation_threshold
            text = f"{node.name} has {len(use.readers)} readers, --recomputation_threshold is {limit}"
            refused.append((node, Reason("AF220", text)))
            continue
        grown = {i: _with(graph, made[i], use.copies) for i in use.groups}
        limit_size = options.max_fusion_size
        if limit_size is not None and any(len(g.nodes) > limit_size for g in grown.values()):
            continue
        if all(fits(g) is None for g in grown.values()):
            for i, group in grown.items():
                made[i] = group
    return made, refused


def _use(graph: Graph, node: Node, owner: Mapping[str, int]) -> _Use | None:
    """How fused ops use the node's result, or None if anything else reads it too."""
    copies: list[Node] = [node]
    readers: dict[str, None] = {}
    groups: set[int] = set()
    seen: set[str] = set()
    stack: list[TensorRef] = list(node.outputs)
    while stack:
        for consumer, _ in graph.consumers.get(stack.pop(), ()):
            if consumer.name in seen:
                continue
            seen.add(consumer.name)
            inside = consumer.name in owner
            if inside:
                groups.add(owner[consumer.name])
            if is_free_view(graph, consumer):
                copies += [] if inside else [consumer]
                stack.extend(consumer.outputs)
            elif inside:
                readers[consumer.name] = None
            else:
                return None
    return _Use(tuple(copies), tuple(readers), tuple(sorted(groups))) if readers else None


def _with(graph: Graph, group: Group, copies: Sequence[Node]) -> Group:
    """The group with those of ``copies`` that lead to one of its nodes."""
    names = {n.name for n in group.nodes}
    wanted: dict[str, Node] = {}
    for node in sorted(copies, key=lambda n: -graph.position[n.name]):
        readers = {c.name for ref in node.outputs for c, _ in graph.consumers.get(ref, ())}
        if readers & (names | set(wanted)):
            wanted[node.name] = node
    nodes = sorted((*group.nodes, *wanted.values()), key=lambda n: graph.position[n.name])
    return Group(tuple(nodes), group.copies | frozenset(wanted))


def _cheap(graph: Graph, node: Node) -> bool:
    if RULES[node.type].kind == "view":
        return True
    values, _ = emit_alone(graph, node)
    return not any(isinstance(v, Pointwise) and v.op in HEAVY for v in values)
