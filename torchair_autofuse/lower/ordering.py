"""The order in which the nodes of a cluster are added to its domain."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence

from torchair_autofuse.ge.graph import Graph, Node, TensorRef


def connected_order(graph: Graph, nodes: Sequence[Node], inside: Collection[str] = ()) -> list[Node]:
    """``nodes`` so that each is a neighbour of one before it or of a node named in ``inside``, as far as there is one;
    else it shares an input with one of those, of most dims, or is the first that is left.

    A domain learns a node's axes from its neighbours, so this is the order to add nodes in. Tensors of more dims lead
    first: two readers of one scalar have no axes in common until what joins them otherwise is there.
    """
    waiting = {n.name: n for n in nodes}
    order: list[Node] = []
    frontier: list[tuple[int, int, str]] = []
    pushed = 0
    readers: dict[TensorRef, list[int]] = {}
    for i, node in enumerate(nodes):
        for ref in node.inputs:
            if ref is not None:
                readers.setdefault(ref, []).append(i)
    siblings = [(0, i, n.name) for i, n in enumerate(nodes)]  # a heap, as the frontier is

    def push(name: str, ref: TensorRef) -> None:
        nonlocal pushed
        heapq.heappush(frontier, (-_rank(graph, ref), pushed, name))
        pushed += 1

    def share(ref: TensorRef) -> None:
        """What reads ``ref`` too is a sibling of one that is placed."""
        rank = _rank(graph, ref)
        for i in readers.pop(ref, ()) if rank else ():
            if nodes[i].name in waiting:
                heapq.heappush(siblings, (-rank, i, nodes[i].name))

    if inside:
        for node in nodes:
            for name, ref in _neighbours(graph, node):
                if name in inside:
                    push(node.name, ref)
        for ref in tuple(readers):
            if _reads_inside(graph, ref, inside):
                share(ref)
    while waiting:
        name = heapq.heappop(frontier if frontier else siblings)[2]
        if name in waiting:
            node = waiting.pop(name)
            order.append(node)
            for other, ref in _neighbours(graph, node):
                if other in waiting:
                    push(other, ref)
            for read in node.inputs:
                if read is not None:
                    share(read)
    return order


def _reads_inside(graph: Graph, ref: TensorRef, inside: Collection[str]) -> bool:
    """Whether one of the nodes named reads the tensor; looks at these or at all readers, whichever are fewer."""
    readers = graph.consumers[ref]
    if len(readers) <= len(inside):
        return any(c.name in inside for c, _ in readers)
    return any(ref in graph.by_name[name].inputs for name in inside)


def _rank(graph: Graph, ref: TensorRef) -> int:
    """Dims that are not known to be 1."""
    shape = graph.info(ref).shape
    return sum(d != 1 for d in shape) if shape is not None else 0


def _neighbours(graph: Graph, node: Node) -> Iterator[tuple[str, TensorRef]]:
    """Producers and consumers of a node, each with the tensor between the two."""
    for ref in node.inputs:
        if ref is not None:
            yield ref.node, ref
    for ref in node.outputs:
        for consumer, _ in graph.consumers.get(ref, ()):
            yield consumer.name, ref
