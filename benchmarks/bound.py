"""The upper bound on vertical fusion: which kernels could be one if only data flow mattered.

Greedy contraction of the ops of some classes along data edges, views being transparent, each merge kept only if the
contracted graph stays acyclic. Neither iteration domains nor UB nor dtypes count, so a planner of this kind of fusion
can hardly do better; the least count of several orders of the edges is taken. Siblings are not merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchair_autofuse.ge.catalogue import RANDOM, has_side_effect, host_nodes, is_kernel, is_view, op_class
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.ge.simplify import live

SCOPES: dict[str, tuple[str, ...]] = {
    "pointwise": ("elementwise", "broadcast", "generator"),
    "reduce": ("elementwise", "broadcast", "generator", "reduce", "norm", "loss"),
    "all": ("elementwise", "broadcast", "generator", "reduce", "norm", "loss", "move"),
}
"""Op classes that a bound merges: casts, comparisons, fills, BroadcastTo in "pointwise", transposes only in "all"."""
_ALSO = ("BroadcastTo", "BroadcastToD", "Expand", "ExpandD")
# Of these classes by their use, but they move data or have a state of their own.
_NOT = ("ApplyRotaryPosEmb", "InterleaveRope", "RotaryMul", "RotaryMulGrad", "RotaryPositionEmbedding",
        "RotaryPositionEmbeddingGrad", "DropOutDoMask", "DropOutDoMaskV3")  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """``groups``: node names of each contracted set of two or more; ``edges``: (producer, consumer, views crossed)
    inside them; ``kernels``: kernels left in the graph."""

    kernels: int
    groups: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[str, str, tuple[str, ...]], ...]


def may_fuse(node: Node, graph: Graph, scope: str = "pointwise") -> bool:
    """Whether the bound of this scope (a key of SCOPES) merges the node at all."""
    if not is_kernel(node, graph) or node.name in graph.controlled:
        return False
    if has_side_effect(node.type) or node.type in RANDOM or node.type in _NOT:
        return False
    return op_class(node.type) in SCOPES[scope] or node.type in _ALSO


def upper_bound(graph: Graph, scope: str = "pointwise") -> Bound:
    """The bound for ``graph`` (inferred tensors expected). Only nodes that some output needs count."""
    alive = live(graph.nodes)
    work = [n for n in graph.nodes if n.name in alive and not _is_free(n, graph)]
    number = {n.name: i for i, n in enumerate(work)}
    sources = {n.name: list(_real_sources(n, graph, number)) for n in work}
    fusible = {n.name for n in work if may_fuse(n, graph, scope)}
    edges = [
        (producer, node.name, views)
        for node in work
        if node.name in fusible
        for producer, views in sources[node.name]
        if producer in fusible
    ]
    below = [
        sorted({number[p] for p, _ in sources[n.name]} | {number[c] for c in n.controls if c in number}) for n in work
    ]
    best: list[int] | None = None
    for order in (edges, edges[::-1], sorted(edges, key=lambda e: number[e[1]] - number[e[0]])):
        owner = _contract([(number[a], number[b]) for a, b, _ in order], below)
        if best is None or len(set(owner)) < len(set(best)):
            best = owner
    assert best is not None
    assert _acyclic(best, below), "the contracted graph has a cycle"
    members: dict[int, list[str]] = {}
    for node in work:
        members.setdefault(best[number[node.name]], []).append(node.name)
    counted = sum(any(is_kernel(graph.by_name[m], graph) for m in group) for group in members.values())
    inside = tuple(e for e in edges if best[number[e[0]]] == best[number[e[1]]])
    return Bound(counted, tuple(tuple(g) for g in members.values() if len(g) > 1), inside)


def _is_free(node: Node, graph: Graph) -> bool:
    return is_view(node, graph) or node.name in host_nodes(graph) or node.type in ("Data", "RefData")


def _real_sources(node: Node, graph: Graph, number: dict[str, int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The nodes that do work and feed ``node``, each with the views between the two."""
    for ref in node.inputs:
        views: list[str] = []
        while ref is not None and ref.node not in number:
            via = graph.by_name[ref.node]
            if not is_view(via, graph) or not via.inputs:
                ref = None
                break
            views.append(via.name)
            ref = via.inputs[min(ref.index, len(via.inputs) - 1)] if via.type == "IdentityN" else via.inputs[0]
        if isinstance(ref, TensorRef):
            yield ref.node, tuple(views)


def _contract(edges: Sequence[tuple[int, int]], below: Sequence[Sequence[int]]) -> list[int]:
    """Owner of each node after merging along ``edges`` in this order, again and again until nothing changes.

    ``below[i]`` are the nodes that node ``i`` reads. A merge of two groups is refused when a path from one to the other
    leads through a third.
    """
    count = len(below)
    owner = list(range(count))
    members = [[i] for i in range(count)]
    pending = list(edges)
    while True:
        again = []
        for a, b in pending:
            first, second = owner[a], owner[b]
            if first == second:
                continue
            if _path_through_another(first, second, owner, members, below):
                again.append((a, b))
                continue
            for i in members[second]:
                owner[i] = first
            members[first] += members[second]
        if len(again) == len(pending):
            return owner
        pending = again


def _path_through_another(
    source: int, target: int, owner: Sequence[int], members: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
) -> bool:
    """Whether group ``target`` depends on group ``source`` by way of some other group.

    The other direction cannot occur: an edge leads from ``source`` to ``target`` and the groups so far are acyclic.
    """
    start = {owner[j] for i in members[target] for j in below[i]} - {source, target}
    stack, seen = list(start), set(start)
    while stack:
        group = stack.pop()
        for i in members[group]:
            for j in below[i]:
                reached = owner[j]
                if reached == source:
                    return True
                if reached not in seen:
                    seen.add(reached)
                    stack.append(reached)
    return False


def _acyclic(owner: Sequence[int], below: Sequence[Sequence[int]]) -> bool:
    """Kahn's check on the contracted graph."""
    needs: dict[int, set[int]] = {group: set() for group in owner}
    for i, sources in enumerate(below):
        needs[owner[i]] |= {owner[j] for j in sources} - {owner[i]}
    waiting = {group: len(sources) for group, sources in needs.items()}
    readers: dict[int, list[int]] = {group: [] for group in needs}
    for group, read in needs.items():
        for source in read:
            readers[source].append(group)
    ready = [group for group, left in waiting.items() if left == 0]
    done = 0
    while ready:
        done += 1
        for reader in readers[ready.pop()]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return done == len(needs)
