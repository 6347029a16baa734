"""Cutting clusters: reshapes at the rim go, data movement that spoils a cluster is left out of it, what does not fit
becomes smaller pieces. Every piece stays convex."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torchair_autofuse.ge.catalogue import is_kernel
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.outputs import is_free_view, view_source
from torchair_autofuse.messages import Reason

NodesFit = Callable[[Sequence[Node]], "Reason | None"]
Cut = tuple[Node, "Node | None", Reason]
"""Two nodes that were cut apart, or one that was left out (None), and why."""

_TOO_LARGE = ("AF212", "AF213")  # more than fits at once: no single access is to blame


def pieces(
    graph: Graph, nodes: Sequence[Node], fits: NodesFit, links: frozenset[TensorRef] = frozenset()
) -> tuple[list[list[Node]], list[Cut]]:
    """The cluster as one piece, or without data movement at its rim where that saves more kernels than the largest
    prefixes (topological order) that fit, or as these.

    Only pieces that save a kernel are returned. No piece leads to an earlier one, and a path from one out of the
    cluster and back into another does not exist, since the cluster is convex: so the pieces close no cycle. ``links``:
    tensors from outside whose readers belong together.
    """
    made: list[list[Node]] = []
    cuts: list[Cut] = []
    waiting = separated(graph, [sorted(nodes, key=lambda n: graph.position[n.name])], links)
    while waiting:
        part = waiting.pop(0)
        if not worthwhile(graph, part):
            continue
        reason = fits(part)
        if reason is None:
            made.append(part)
            continue
        size = max(_largest_prefix(graph, part, fits, links), 1)
        halves = separated(graph, (part[:size], part[size:]), links)
        spoilers = [] if reason.code in _TOO_LARGE else _spoilers(graph, part, fits, links)
        ends = edges_between((part[:size], part[size:]))
        cut: list[Cut] = [(*pair, reason) for pair in ends] or [(part[0], None, reason)]
        if not spoilers:
            cuts += cut
            waiting += halves
            continue
        rest = _without(graph, part, spoilers, links)
        smaller = [pieces(graph, half, fits, links) for half in halves]
        found = [piece for of, _ in smaller for piece in of]
        if _saved(graph, rest) > _saved(graph, found):
            made += rest
            cuts += [(node, None, reason) for node in spoilers]
        else:
            made += found
            cuts += [*cut, *(c for _, of in smaller for c in of)]
    return made, cuts


def separated(
    graph: Graph, sets: Sequence[Sequence[Node]], links: frozenset[TensorRef] = frozenset()
) -> list[list[Node]]:
    """The connected parts of each set of nodes, without reshapes at the rim."""
    return [part for nodes in sets for part in components(graph, trim(graph, nodes), links)]


def results_outside(graph: Graph, nodes: Sequence[Node]) -> list[TensorRef]:
    """What the nodes make that others read."""
    inside = {n.name for n in nodes}
    made = (ref for n in nodes for ref in n.outputs)
    return [ref for ref in made if any(c.name not in inside for c, _ in graph.consumers.get(ref, ()))]


def edges_between(parts: Sequence[Sequence[Node]]) -> list[tuple[Node, Node]]:
    """The data edges from one part to another; the first nodes of the first two where there is none."""
    part_of = {n.name: i for i, part in enumerate(parts) for n in part}
    nodes = {n.name: n for part in parts for n in part}
    found = {
        (ref.node, n.name): (nodes[ref.node], n)
        for n in nodes.values()
        for ref in n.inputs
        if ref is not None and part_of.get(ref.node, part_of[n.name]) != part_of[n.name]
    }
    firsts = [part[0] for part in parts if part]
    return list(found.values()) or ([(firsts[0], firsts[1])] if len(firsts) > 1 else [])


def _spoilers(graph: Graph, nodes: Sequence[Node], fits: NodesFit, links: frozenset[TensorRef]) -> list[Node]:
    """Data movement at the rim without which the rest fits, as little as that takes; [] if the rest does not fit.

    At the rim: the node reads nothing of the cluster, or nothing of the cluster reads it. So the rest is convex.
    """

    def all_fit(without: Sequence[Node]) -> bool:
        return all(fits(part) is None for part in _without(graph, nodes, without, links))

    names = {n.name for n in nodes}
    found = [n for n in nodes if RULES[n.type].movement is not None and _is_end(graph, n, names)]
    if not found or not all_fit(found):
        return []
    for node in tuple(found):
        fewer = [n for n in found if n is not node]
        if fewer and all_fit(fewer):
            found = fewer
    return found


def _is_end(graph: Graph, node: Node, names: set[str]) -> bool:
    if not any(ref is not None and ref.node in names for ref in node.inputs):
        return True
    return not any(c.name in names for ref in node.outputs for c, _ in graph.consumers.get(ref, ()))


def _without(
    graph: Graph, nodes: Sequence[Node], dropped: Sequence[Node], links: frozenset[TensorRef]
) -> list[list[Node]]:
    """The parts of a cluster without some of its nodes that save a kernel."""
    gone = {n.name for n in dropped}
    rest = [n for n in nodes if n.name not in gone]
    return [part for part in separated(graph, [rest], links) if worthwhile(graph, part)]


def _saved(graph: Graph, parts: Sequence[Sequence[Node]]) -> int:
    """Kernels that pieces save."""
    return sum(sum(is_kernel(n, graph) for n in part) - 1 for part in parts)


def _largest_prefix(graph: Graph, nodes: Sequence[Node], fits: NodesFit, links: frozenset[TensorRef]) -> int:
    """Length of a proper prefix all of whose connected parts fit; 0 if not even the first node does."""
    low, high = 0, len(nodes)
    while high - low > 1:
        middle = (low + high) // 2
        parts = separated(graph, [nodes[:middle]], links)
        if any(worthwhile(graph, part) and fits(part) is not None for part in parts):
            high = middle
        else:
            low = middle
    return low


def components(graph: Graph, nodes: Sequence[Node], links: frozenset[TensorRef] = frozenset()) -> list[list[Node]]:
    """Connected parts (along data edges, and of readers of one of ``links``) in order of their first node."""
    names = {n.name: n for n in nodes}
    part_of: dict[str, int] = {}
    parts: list[list[Node]] = []
    linked: dict[TensorRef, list[str]] = {}
    for node in nodes:
        for ref in links.intersection(node.inputs):
            linked.setdefault(ref, []).append(node.name)
    for node in nodes:
        if node.name in part_of:
            continue
        stack = [node.name]
        part_of[node.name] = len(parts)
        while stack:
            here = names[stack.pop()]
            readers = [name for ref in links.intersection(here.inputs) for name in linked.pop(ref, ())]
            for other in (*_neighbours(graph, here), *readers):
                if other in names and other not in part_of:
                    part_of[other] = len(parts)
                    stack.append(other)
        parts.append([])
    for node in nodes:
        parts[part_of[node.name]].append(node)
    return parts


def _neighbours(graph: Graph, node: Node) -> Iterator[str]:
    for ref in node.inputs:
        if ref is not None:
            yield ref.node
    yield from (c.name for ref in node.outputs for c, _ in graph.consumers.get(ref, ()))


def trim(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The nodes without reshapes at the rim: a view whose source, or all of whose readers, are outside is free."""
    kept = {n.name: n for n in nodes}
    waiting = [n for n in nodes if is_free_view(graph, n)]
    while waiting:
        node = waiting.pop()
        if node.name not in kept or not is_free_view(graph, node) or not _at_rim(graph, node, kept):
            continue
        del kept[node.name]
        waiting += [kept[name] for name in _neighbours(graph, node) if name in kept]
    return [n for n in nodes if n.name in kept]


def _at_rim(graph: Graph, node: Node, kept: dict[str, Node]) -> bool:
    if view_source(node).node not in kept:
        return True
    return all(c.name not in kept for ref in node.outputs for c, _ in graph.consumers.get(ref, ()))


def worthwhile(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether fusing saves a kernel: at least two of the nodes launch one."""
    return sum(is_kernel(n, graph) for n in nodes) >= 2
