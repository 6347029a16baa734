"""The order in which the nodes of a cluster are added to its domain."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping, Sequence

from torchair_autofuse.ge.graph import Graph, Node, TensorRef


def connected_order(graph: Graph, nodes: Sequence[Node], inside: Container[str] = ()) -> list[Node]:
    """``nodes`` so that each is a neighbour of one before it or of a node named in ``inside``, as far as there is one.

    A domain learns a node's axes from its neighbours, so this is the order to add nodes in. Tensors of more dims lead
    first: two readers of one scalar have no axes in common until what joins them otherwise is there.
    """
    waiting = {n.name: n for n in nodes}
    order: list[Node] = []
    frontier: list[tuple[int, int, str]] = []
    pushed = 0

    def push(name: str, ref: TensorRef) -> None:
        nonlocal pushed
        shape = graph.info(ref).shape
        rank = sum(d != 1 for d in shape) if shape is not None else 0
        heapq.heappush(frontier, (-rank, pushed, name))
        pushed += 1

    for node in nodes:
        for name, ref in _neighbours(graph, node):
            if name in inside:
                push(node.name, ref)
    names = frozenset(waiting)
    while waiting:
        name = heapq.heappop(frontier)[2] if frontier else _sibling(graph, waiting, names, inside)
        if name in waiting:
            node = waiting.pop(name)
            order.append(node)
            for other, ref in _neighbours(graph, node):
                if other in waiting:
                    push(other, ref)
    return order


def _sibling(graph: Graph, waiting: Mapping[str, Node], names: Container[str], inside: Container[str]) -> str:
    """The node that shares an input, of most dims, with one placed already or one of ``inside``; or the first."""

    def rank(node: Node) -> int:
        best = 0
        for ref in node.inputs:
            shape = graph.info(ref).shape if ref is not None else None
            if ref is None or shape is None:
                continue
            readers = (c.name for c, _ in graph.consumers.get(ref, ()))
            if any(n in inside or (n in names and n not in waiting) for n in readers):
                best = max(best, sum(d != 1 for d in shape))
        return best

    return max(waiting, key=lambda name: rank(waiting[name]))


def _neighbours(graph: Graph, node: Node) -> Iterator[tuple[str, TensorRef]]:
    """Producers and consumers of a node, each with the tensor between the two."""
    for ref in node.inputs:
        if ref is not None:
            yield ref.node, ref
    for ref in node.outputs:
        for consumer, _ in graph.consumers.get(ref, ()):
            yield consumer.name, ref
