"""Why a fused op exists: which rules of planning put its nodes together, each with the numbers that count for it.

All is read off what planning made: the group, its parts, its copies. The rules are those of messages.RULES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torchair_autofuse.ge.catalogue import is_kernel, is_view, tensor_bytes
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.generated import GeneratedOp
from torchair_autofuse.messages import counted
from torchair_autofuse.plan.group import Costs, Group
from torchair_autofuse.plan.pieces import components
from torchair_autofuse.report import Why

_SHOWN = 4  # tensors that a text names


def causes(group: Group, made: GeneratedOp, costs: Costs, planner: str) -> tuple[Why, ...]:
    """Why ``group`` is the op ``made``; ``planner``: what merged along data edges."""
    return tuple(_Causes(group, made, costs).found(planner))


class _Causes:
    def __init__(self, group: Group, made: GeneratedOp, costs: Costs) -> None:
        self._group, self._made, self._costs = group, made, costs
        self._graph: Graph = costs.nodes.graph

    def found(self, planner: str) -> Iterator[Why]:
        parts = self._group.parts or (self._group,)
        inside = [ref for part in parts for ref in self._inside(part)]
        if inside:
            outputs = {self._source(ref) for ref in self._made.lowered.outputs}
            stored = [ref for ref in inside if ref in outputs]
            others = f"; of these {self._tensors(stored)} stored for others" if stored else ""
            yield Why("edge", f"{planner} planner: {self._tensors(inside)} not read back from memory{others}")
        for part in parts:
            yield from self._shared(part)
        if self._group.parts:
            yield Why("beside", self._beside(self._group.parts, self._group))
        copies = [n for n in self._group.nodes if n.name in self._group.all_copies and is_kernel(n, self._graph)]
        if copies:
            refs = [ref for n in copies for ref in n.outputs]
            yield Why("again", f"{self._names(refs)}, {self._tensors(refs)}, computed here instead of read")
        unstored = sorted(self._group.unstored, key=lambda r: (self._graph.position[r.node], r.index))
        own = [ref for ref in unstored if is_kernel(self._graph.by_name[ref.node], self._graph)]
        own = [ref for ref in own if ref.node not in self._group.all_copies]
        if own:
            yield Why("again", f"{self._names(own)}, {self._tensors(own)}, not stored: its readers compute it again")

    def _inside(self, part: Group) -> list[TensorRef]:
        """Tensors that the part makes and reads."""
        names = {n.name for n in part.nodes}
        read = (self._source(r) for n in part.nodes if not is_view(n, self._graph) for r in n.inputs if r is not None)
        return list(dict.fromkeys(r for r in read if r.node in names))

    def _source(self, ref: TensorRef) -> TensorRef:
        """The tensor that ``ref`` is a reshape of."""
        node = self._graph.by_name[ref.node]
        while is_view(node, self._graph) and node.inputs and node.inputs[0] is not None:
            ref = node.inputs[0]
            node = self._graph.by_name[ref.node]
        return ref

    def _shared(self, part: Group) -> Iterator[Why]:
        """What holds parts together that no data edge does: tensors from outside that several read, or the launch."""
        separate = components(self._graph, part.nodes)
        if len(separate) < 2:
            return
        names = {n.name for n in part.nodes}
        readers: dict[TensorRef, set[int]] = {}
        for i, nodes in enumerate(separate):
            for ref in (r for n in nodes for r in n.inputs if r is not None and r.node not in names):
                readers.setdefault(self._source(ref), set()).add(i)
        loaded = {self._source(ref) for ref in self._made.lowered.inputs}  # others are known, such as bounds of a slice
        refs = [ref for ref, of in readers.items() if len(of) > 1 and ref in loaded]
        if not refs:
            yield Why("beside", self._beside([replace(part, nodes=tuple(nodes)) for nodes in separate], part))
            return
        text = f"{len(separate)} parts without a data edge between them read {self._names(refs)} once"
        yield Why("shared", f"{text}: {self._tensors(refs)}")

    def _beside(self, parts: Sequence[Group], whole: Group) -> str:
        """The parts by themselves and together."""
        times = [self._ns(part) for part in parts]
        together = self._ns(whole)
        text = f"{len(times)} kernels that do not depend on each other"
        if together is None or any(t is None for t in times):
            return f"{text}, of unknown time"
        return f"{text}: {sum(t or 0 for t in times)} ns one by one, {together} ns as one (predicted)"

    def _ns(self, group: Group) -> int | None:
        if len(group.nodes) == 1:
            return self._costs.nodes.ns(group.nodes[0])
        return self._costs.ns(group)

    def _tensors(self, refs: Iterable[TensorRef]) -> str:
        """How many, and their bytes."""
        sizes = [tensor_bytes(ref, self._graph, self._costs.nodes.hints) for ref in refs]
        known = all(size is not None for size in sizes)
        return f"{counted(len(sizes), 'tensor')} of {sum(size or 0 for size in sizes) if known else 'unknown'} bytes"

    def _names(self, refs: list[TensorRef]) -> str:
        more = f" and {len(refs) - _SHOWN} more" if len(refs) > _SHOWN else ""
        return ", ".join(str(ref) for ref in refs[:_SHOWN]) + more
