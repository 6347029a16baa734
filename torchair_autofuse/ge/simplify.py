"""Clean-up of a GE graph before fusion: dead nodes, equal constants, repeated views, and ops that change nothing.

Every rewrite is exact to the bit for every input, NaN and signed zero included: ``x * 1`` and ``x / 1`` go, ``x + 0``
stays (it turns -0 into +0). A node that has or feeds a control edge stays. Which stream or scope a removed node was
labelled with does not matter, since it did no work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from torchair_autofuse.ge.catalogue import IN_PLACE, has_side_effect, is_noop_cast, is_pure, op_class
from torchair_autofuse.ge.graph import Graph, Node, TensorRef, constant
from torchair_autofuse.loop import expr

_SOURCES = frozenset(("Data", "RefData", "Const", "Constant", "ConstPlaceHolder", "Variable"))
# Repeated ones are merged; arithmetic is not, lest a value gain consumers that the user's graph did not give it.
_MERGED_CLASSES = frozenset(("view", "shape"))
_MERGED_TYPES = frozenset(("Const", "Constant", "Pack", "Transpose", "TransposeD", "Gather"))


def simplify(graph: Graph, ref_inputs: Collection[int] = ()) -> Graph:
    """``graph`` without what does no work; order, names, outputs and inferred tensors of what remains are kept.

    Expects inferred ``tensors``: what is unknown is left alone. Data nodes always stay. A graph output never becomes
    a Data, a constant, or a tensor that is an output already: TorchAir gives each output memory of its own. A copy
    (Identity, ...) of memory that something writes into stays; ``ref_inputs`` are the indices of the Data that graph
    outputs are written into.
    """
    written = _written(graph, frozenset(ref_inputs))
    alias: dict[TensorRef, TensorRef] = {}
    first: dict[Hashable, Node] = {}
    taken: set[TensorRef] = set()
    wanted = set(graph.outputs)
    kept: list[Node] = []
    for original in graph.nodes:
        node = _redirect(original, alias)
        target = None if node.name in graph.controlled else _same_as(node, graph, first)
        target = None if target is None else tuple(alias.get(ref, ref) for ref in target)
        if target is not None and _may_replace(node, target, graph, wanted, taken, written):
            alias.update(zip(node.outputs, target))
            taken.update(t for t, o in zip(target, node.outputs) if o in wanted)
            continue
        kept.append(node)
        taken.update(o for o in node.outputs if o in wanted)
    outputs = tuple(alias.get(ref, ref) for ref in graph.outputs)
    alive = live(kept)
    nodes = tuple(n for n in kept if n.name in alive)
    tensors = {ref: info for ref, info in graph.tensors.items() if ref.node in alive}
    notes = {name: text for name, text in graph.notes.items() if name in alive}
    return replace(
        graph, nodes=nodes, outputs=outputs, tensors=MappingProxyType(tensors), notes=MappingProxyType(notes)
    )


def _redirect(node: Node, alias: dict[TensorRef, TensorRef]) -> Node:
    inputs = tuple(None if ref is None else alias.get(ref, ref) for ref in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def _may_replace(
    node: Node,
    target: tuple[TensorRef, ...],
    graph: Graph,
    wanted: set[TensorRef],
    taken: set[TensorRef],
    written: frozenset[TensorRef],
) -> bool:
    if any(_memory(ref, graph) in written for ref in target):
        return False
    for output, ref in zip(node.outputs, target):
        if output in wanted and (ref in taken or ref in wanted or graph.by_name[ref.node].type in _SOURCES):
            return False
    return True


def _memory(ref: TensorRef, graph: Graph) -> TensorRef:
    """The tensor whose memory ``ref`` may share: followed upward through views."""
    node = graph.by_name[ref.node]
    while op_class(node.type) == "view" or is_noop_cast(node, graph):
        source = node.inputs[min(ref.index, len(node.inputs) - 1)] if node.inputs else None
        if source is None:
            break
        ref, node = source, graph.by_name[source.node]
    return ref


def _written(graph: Graph, ref_inputs: frozenset[int]) -> frozenset[TensorRef]:
    """Tensors whose memory an in-place op, or the write-back of a graph output, changes."""
    found: set[TensorRef] = set()
    for node in graph.nodes:
        if node.type in IN_PLACE:
            found.update(_memory(ref, graph) for ref in node.inputs if ref is not None)
        elif node.type == "RefData" or (node.type == "Data" and node.attrs.get("index") in ref_inputs):
            found.add(TensorRef(node.name, 0))
    return frozenset(found)


def _same_as(node: Node, graph: Graph, first: dict[Hashable, Node]) -> tuple[TensorRef, ...] | None:
    """Tensors that equal the node's outputs bit for bit, or None."""
    rule = _RULES.get(node.type)
    found = rule(node, graph) if rule is not None else None
    if found is not None:
        return (found,)
    if node.type not in _MERGED_TYPES and op_class(node.type) not in _MERGED_CLASSES:
        return None
    key = _key(node)
    if key is None:
        return None
    twin = first.setdefault(key, node)
    return twin.outputs if twin is not node else None


def _key(node: Node) -> Hashable | None:
    """What two nodes must agree in to compute the same; None for a node that is not merged."""
    if not is_pure(node.type) and constant(node) is None:
        return None
    if node.type in ("Const", "Constant"):
        value = constant(node)
        return None if value is None else ("Const", value.dtype.name, value.shape, value.tobytes())
    attrs = tuple((k, _frozen(v)) for k, v in sorted(node.attrs.items()) if not k.startswith("_"))
    return (node.type, node.inputs, node.input_names, attrs, len(node.output_names), node.scope)


def _frozen(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v) for v in value)
    return (type(value).__name__, value)


# -- ops that return one of their inputs ------------------------------------------------------------------------------
def _same_tensor(node: Node, graph: Graph, position: int = 0) -> TensorRef | None:
    """Input ``position`` if its dtype and shape are known to be those of the output."""
    ref = node.inputs[position] if position < len(node.inputs) else None
    if ref is None:
        return None
    source, result = graph.info(ref), graph.info(TensorRef(node.name, 0))
    if source.dtype is None or source.dtype != result.dtype or source.shape is None or result.shape is None:
        return None
    same = len(source.shape) == len(result.shape) and all(expr.equal(a, b) for a, b in zip(source.shape, result.shape))
    return ref if same else None


def _identity(node: Node, graph: Graph) -> TensorRef | None:
    return node.inputs[0] if node.inputs else None


def _cast(node: Node, graph: Graph) -> TensorRef | None:
    return node.inputs[0] if is_noop_cast(node, graph) else None


def _is_one(ref: TensorRef | None, graph: Graph) -> bool:
    """A known value, all of whose elements are one."""
    value = None if ref is None else graph.info(ref).value
    return bool(value) and all(isinstance(v, (int, float)) and v == 1 for v in value)  # type: ignore[union-attr]


def _times_one(node: Node, graph: Graph) -> TensorRef | None:
    if len(node.inputs) != 2:
        return None
    if _is_one(node.inputs[1], graph):
        return _same_tensor(node, graph, 0)
    return _same_tensor(node, graph, 1) if _is_one(node.inputs[0], graph) else None


def _over_one(node: Node, graph: Graph) -> TensorRef | None:
    return _same_tensor(node, graph) if len(node.inputs) == 2 and _is_one(node.inputs[1], graph) else None


def _scaled_by_one(node: Node, graph: Graph) -> TensorRef | None:
    return _same_tensor(node, graph) if node.attrs.get("value") == 1.0 else None


def _transpose(node: Node, graph: Graph) -> TensorRef | None:
    """Of a permutation that changes nothing, or takes back the one before it."""
    perm = _permutation(node, graph)
    if perm is None:
        return None
    if perm == sorted(perm):
        return node.inputs[0]
    source = None if node.inputs[0] is None else graph.by_name[node.inputs[0].node]
    before = None if source is None else _permutation(source, graph)
    if source is None or before is None or source.name in graph.controlled:
        return None
    return source.inputs[0] if [before[p] for p in perm] == list(range(len(perm))) else None


def _permutation(node: Node, graph: Graph) -> list[int] | None:
    """The dims, counted from the front, that a transpose takes in order; None where they are not known."""
    if node.type == "TransposeD":
        perm = node.attrs.get("perm")
    elif node.type == "Transpose" and len(node.inputs) > 1 and node.inputs[1] is not None:
        perm = graph.info(node.inputs[1]).value
    else:
        return None
    if not perm or not all(isinstance(p, int) for p in perm):
        return None
    return [p % len(perm) for p in perm]


def _concat(node: Node, graph: Graph) -> TensorRef | None:
    """Of one part and empty ones, or of all parts of a split in their order: the part, or what was split."""
    parts = [ref for ref in node.inputs[:-1] if ref is not None and not _is_empty(ref, graph)]
    out = graph.info(TensorRef(node.name, 0))
    if not parts or out.shape is None or any(d == 0 for d in out.shape):
        return None
    source = graph.by_name[parts[0].node]
    if len(parts) == 1:
        found: TensorRef | None = parts[0]
    elif source.type == "SplitV" and parts == list(source.outputs) and _same_axis(node, source, graph):
        found = source.inputs[0]
    else:
        return None
    info = graph.info(found) if found is not None else None
    same = info is not None and info.shape is not None and len(info.shape) == len(out.shape)
    return found if same and info is not None and info.dtype == out.dtype else None


def _is_empty(ref: TensorRef, graph: Graph) -> bool:
    shape = graph.info(ref).shape
    return shape is not None and any(d == 0 for d in shape)


def _same_axis(concat: Node, split: Node, graph: Graph) -> bool:
    """Whether a ConcatV2 and a SplitV go along one known axis."""
    shape = graph.info(TensorRef(concat.name, 0)).shape
    axes = [graph.info(n.inputs[-1]).value if n.inputs and n.inputs[-1] is not None else None for n in (concat, split)]
    known = [a[0] for a in axes if a and isinstance(a[0], int)]
    return shape is not None and len(known) == 2 and known[0] % len(shape) == known[1] % len(shape)


_SHAPE_ONLY = (
    *("Reshape", "FlattenV2", "Flatten", "Squeeze", "SqueezeV2", "SqueezeV3", "Unsqueeze", "UnsqueezeV2"),
    *("UnsqueezeV3", "ExpandDims", "BroadcastTo", "Expand", "Tile", "StridedSliceV2", "StridedSliceV3", "Slice"),
)  # with an output of the input's shape they return the input

_RULES: dict[str, Callable[[Node, Graph], TensorRef | None]] = {
    "Identity": _identity,
    "Cast": _cast,
    "Mul": _times_one,
    "RealDiv": _over_one,
    "Div": _over_one,
    "Muls": _scaled_by_one,
    "Transpose": _transpose,
    "TransposeD": _transpose,
    "ConcatV2": _concat,
    **dict.fromkeys(_SHAPE_ONLY, _same_tensor),
}


# -- liveness ---------------------------------------------------------------------------------------------------------
def live(nodes: Iterable[Node]) -> set[str]:
    """Names of the nodes that reach NetOutput or a side effect over data or control edges, and of all Data.

    GE drops the others.
    """
    by_name = {n.name: n for n in nodes}
    has_output = any(n.type == "NetOutput" for n in by_name.values())
    stack = [n.name for n in by_name.values() if not has_output or n.type == "NetOutput" or has_side_effect(n.type)]
    found = {n.name for n in by_name.values() if n.type in ("Data", "RefData")}
    while stack:
        name = stack.pop()
        if name in found or name not in by_name:  # what only a fused op's nodes read may have been left out
            continue
        found.add(name)
        node = by_name[name]
        stack.extend(ref.node for ref in node.inputs if ref is not None)
        stack.extend(node.controls)
    return found
