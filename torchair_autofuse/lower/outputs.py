"""Which tensors of a cluster a fused op stores, and which of its views stay in the graph all the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torchair_autofuse.ge.catalogue import is_view
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.registry import RULES, data_positions
from torchair_autofuse.lower.uniform import uniform_value


def is_free_view(graph: Graph, node: Node) -> bool:
    """Whether the node is a reshape that launches nothing: it costs no more in the graph than inside a fused op."""
    rule = RULES.get(node.type)
    return rule is not None and rule.kind == "view" and rule.view == "reshape" and is_view(node, graph)


def view_source(node: Node) -> TensorRef:
    """The tensor that a view re-indexes."""
    ref = node.inputs[data_positions(node, RULES[node.type])[0]]
    assert ref is not None
    return ref


def real_consumers(graph: Graph, ref: TensorRef) -> list[tuple[Node, int]]:
    """Who reads the tensor's value, looking through views; NetOutput counts."""
    found: list[tuple[Node, int]] = []
    for consumer, i in graph.consumers.get(ref, ()):
        rule = RULES.get(consumer.type)
        if rule is not None and rule.kind == "view" and i in data_positions(consumer, rule):
            found.extend(reader for made in consumer.outputs for reader in real_consumers(graph, made))
        else:
            found.append((consumer, i))
    return found


def cluster_outputs(
    graph: Graph,
    nodes: Sequence[Node],
    copies: Collection[str] = (),
    elsewhere: Collection[str] = (),
    unstored: Collection[TensorRef] = (),
) -> tuple[tuple[TensorRef, ...], frozenset[str]]:
    """(tensors that something outside the cluster reads, names of views of the cluster that stay), in node order.

    ``copies``: nodes computed here again for this cluster alone; they are not stored. ``elsewhere``: nodes of other
    fused ops, which make a uniform tensor themselves rather than read it. ``unstored``: results that every outside
    reader computes again. Where a tensor and views of it are read
    outside, the tensor is stored once and the views stay in the graph, reading it; a view of an outer tensor stays too.
    """
    names = {n.name for n in nodes}
    by_root: dict[TensorRef, list[TensorRef]] = {}
    for node in nodes:
        if node.name in copies:
            continue
        for ref in node.outputs:
            if ref not in unstored and _read_outside(graph, ref, names, elsewhere):
                by_root.setdefault(_root(graph, ref, names), []).append(ref)
    stored: list[TensorRef] = []
    kept: set[str] = set()
    for root, refs in by_root.items():
        if root.node in names and root.node not in copies:
            if len(refs) == 1:
                stored.append(refs[0])
                continue
            stored.append(root)
        for ref in refs:
            while ref != root:
                kept.add(ref.node)
                ref = view_source(graph.by_name[ref.node])
    return tuple(stored), frozenset(kept)


def _root(graph: Graph, ref: TensorRef, names: Collection[str]) -> TensorRef:
    """The tensor that ``ref`` is a reshape of, followed upward as long as the reshapes are of the cluster."""
    while ref.node in names and is_free_view(graph, graph.by_name[ref.node]):
        ref = view_source(graph.by_name[ref.node])
    return ref


def _read_outside(graph: Graph, ref: TensorRef, names: Collection[str], elsewhere: Collection[str]) -> bool:
    readers = [c for c, _ in graph.consumers.get(ref, ()) if c.name not in names]
    if not readers or not elsewhere or uniform_value(graph, ref) is None:
        return bool(readers)
    return any(
        _read_outside(graph, c.outputs[0], names, elsewhere) if is_free_view(graph, c) else c.name not in elsewhere
        for c in readers
    )
