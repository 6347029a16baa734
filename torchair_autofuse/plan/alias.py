"""Memory that an op overwrites while others read it: which orders must hold, and which index maps agree.

A graph output may be written into the memory of a Data (``ref_outputs``), and an in-place op writes into its operand.
GE orders ops by their data and control edges only. So:

1. An op that reads memory which another op overwrites, and that does not depend on the result, runs before the writer.
   Each such pair (reader, writer) counts as an edge when merges are checked for cycles: a merge that would make the
   reader come after the writer is refused (AF209). A reader that depends on the result in the graph as it is, or on
   another writer that depends on it, is GE's concern with or without fusion and gets no edge.
2. Inside one fused op, memory is read and written tile by tile. An op that reads the overwritten tensor may be in one
   cluster with its writer only where both move over that memory in the same way: equal row-major sequences of axes.
   Then every element is read by the core, and in the tile, that writes it, before it is written. And what is read must
   not go into a reduction, nor be repeated along an axis that the result does not have, nor meet other elements in a
   slice or concat: another core, a second pass or the tile beside may need elements that are overwritten by then.

Readers are followed through reshapes, which share their source's memory; copies (Identity, TensorMove) do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchair_autofuse.ge.catalogue import IN_PLACE, op_class
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.registry import RULES, Join, Margin, Rows, Windows, data_positions
from torchair_autofuse.messages import Reason

SOURCES = frozenset(("Data", "RefData", "Const", "Constant", "ConstPlaceHolder"))
"""Types of nodes that nothing reaches and that write nothing."""
_COPIES = frozenset(("Identity", "IdentityN", "TensorMove"))
_ELSEWHERE = (Windows, Join, Margin, Rows)  # movements to other elements
_FIRST_ONLY = ("Assign", "Scatter", "IndexPut", "InplaceIndexAdd", "ViewCopy")  # ops that write into input 0 alone


@dataclass(frozen=True)
class Writes:
    """``waits``: (reader, writer) names, in graph order. ``results``: pairs of a tensor and the memory it goes to."""

    waits: tuple[tuple[str, str], ...] = ()
    results: tuple[tuple[TensorRef, TensorRef], ...] = ()

    def conflict(self, graph: Graph, domain: Domain) -> Reason | None:
        """Rule 2 for the nodes in ``domain``: an AF209 that names reader and tensor, or None."""
        for result, memory in self.results:
            if result.node not in domain.nodes:
                continue
            for reader, i in _readers(graph, memory):
                if reader.name not in domain.nodes or i not in data_positions(reader, RULES[reader.type]):
                    continue
                if not (apart := isinstance(domain.movement(reader), _ELSEWHERE)):
                    read = domain.operand_map(reader, i)
                    if isinstance(read, Reason):
                        return read
                    apart = domain.flat(read) != domain.flat(domain.map_of(result))  # resolved anew: axes may be split
                if apart:
                    text = f"{result} is written into {memory}, which {reader.name} reads through another index map"
                    return Reason("AF209", text)
                again = _needed_again(graph, domain, reader, result)
                if again is not None:
                    text = f"{result} is written into {memory}, which {again} in the same op ({reader.name} reads it)"
                    return Reason("AF209", text)
        return None


def writes(graph: Graph, ref_outputs: Iterable[tuple[int, int]]) -> Writes:
    """What is overwritten in ``graph``; ``ref_outputs``: (graph output index, index of the Data it is written into)."""
    data = {n.attrs.get("index"): TensorRef(n.name, 0) for n in graph.nodes if n.type in ("Data", "RefData")}
    found: list[tuple[str, TensorRef]] = []  # (writer, memory)
    results: list[tuple[TensorRef, TensorRef]] = []
    for output, index in ref_outputs:
        if output < len(graph.outputs) and index in data:
            result = _memory(graph, graph.outputs[output])
            if result != data[index]:
                results.append((result, data[index]))
                found.append((result.node, data[index]))
    for node in graph.nodes:
        if node.type in IN_PLACE:
            found += [(node.name, _memory(graph, ref)) for ref in _overwritten(node)]
    waits: dict[tuple[str, str], None] = {}
    for writer, memory in found:
        if graph.by_name[writer].type in SOURCES:
            continue
        for reader, _ in _readers(graph, memory):
            if reader.name != writer and reader.type != "NetOutput":
                waits[reader.name, writer] = None
    return Writes(tuple(waits), tuple(results))


def _needed_again(graph: Graph, domain: Domain, node: Node, result: TensorRef) -> str | None:
    """What happens to the node, or to a value that follows from it inside the cluster, beyond the tile that writes."""
    axes = domain.atoms.leaves(domain.flat(domain.map_of(result)))
    seen = {node.name}
    stack = [node]
    while stack:
        here = stack.pop()
        if RULES[here.type].kind == "reduce":
            return "is reduced"
        if isinstance(domain.movement(here), _ELSEWHERE):
            return f"{here.name} moves"
        if not all(domain.atoms.leaves(domain.flat(domain.map_of(ref))) <= axes for ref in here.outputs):
            return "is repeated along other axes"
        for consumer in (c for ref in here.outputs for c, _ in graph.consumers.get(ref, ())):
            if consumer.name in domain.nodes and consumer.name not in seen:
                seen.add(consumer.name)
                stack.append(consumer)
    return None


def _overwritten(node: Node) -> list[TensorRef]:
    refs = node.inputs[:1] if node.type.startswith(_FIRST_ONLY) else node.inputs
    return [ref for ref in refs if ref is not None]


def _memory(graph: Graph, ref: TensorRef) -> TensorRef:
    """The tensor whose memory ``ref`` is: its source as long as it is a reshape."""
    node = graph.by_name[ref.node]
    while _shares(node) and node.inputs and node.inputs[0] is not None:
        ref = node.inputs[0]
        node = graph.by_name[ref.node]
    return ref


def _readers(graph: Graph, memory: TensorRef) -> Iterator[tuple[Node, int]]:
    """Who reads the memory, itself or through reshapes; the reshapes are among them."""
    for consumer, i in graph.consumers.get(memory, ()):
        yield consumer, i
        if _shares(consumer) and i == 0:
            yield from _readers(graph, consumer.outputs[0])


def _shares(node: Node) -> bool:
    return op_class(node.type) == "view" and node.type not in _COPIES
