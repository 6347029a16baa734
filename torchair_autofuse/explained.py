"""What the HTML report shows beside the report: both graphs, and of every fused op its source, IR, UB and work.

``remember`` is called for every graph that is fused and costs next to nothing: it keeps the graphs without their large
constants. All texts and numbers are made when a page is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, op_class, tensor_bytes
from torchair_autofuse.ge.graph import AttrValue, Graph, Node, TensorRef
from torchair_autofuse.generated import GeneratedOp, kernel_hints
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Cast, Kernel, Pointwise, Reduce, arguments
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.schedule_text import schedule_text
from torchair_autofuse.plan.cost import load_rate, store_rate
from torchair_autofuse.report import FusedOp, FusionReport
from torchair_autofuse.soc.chip import Chip
from torchair_autofuse.ub_picture import ub_parts

_SMALL = 16  # elements of a constant that are kept
_MUCH = 1 << 40  # bytes: a load that no limit for small ones holds for
_LONG = 240  # characters of an attribute that are shown
_KINDS = {"Data": "data", "RefData": "data", "NetOutput": "output"}


@dataclass(frozen=True, eq=False)
class Explained:
    """Keeps what :meth:`page` needs. ``original``: as read; ``simplified``: what was planned on; ``after``: that
    without what the ``generated`` ops make superfluous. ``definitions`` run in parallel with ``generated``."""

    original: Graph
    simplified: frozenset[str]
    after: Graph
    generated: tuple[GeneratedOp, ...]
    definitions: tuple[Any, ...]
    hints: Mapping[str, int]
    target: Chip

    def page(self, report: FusionReport) -> dict[str, Any]:
        """The part of the page's data that a report alone does not have, as plain dicts, lists, strings and numbers."""
        return {
            "chip": _chip_facts(self.target),
            "before": self._before(),
            "after": self._after() if self.generated else None,
            "ops": [self._op(i, op) for i, op in enumerate(report.fused)],
            "sources": self._sources(),
        }

    def _sources(self) -> dict[str, dict[str, str]]:
        """Texts by op type."""
        found: dict[str, dict[str, str]] = {}
        for made, op in zip(self.generated, self.definitions):
            if made.op_type not in found:
                schedule = schedule_text(Definition.of(op, self.target.soc))
                ir = to_text(made.lowered.kernel)
                found[made.op_type] = {"kernel": made.text.kernel_cpp, "ir": ir, "schedule": schedule}
        return found

    def _before(self) -> list[dict[str, Any]]:
        clusters: dict[str, list[int]] = {}
        for i, made in enumerate(self.generated):
            for node in made.lowered.nodes:
                clusters.setdefault(node.name, []).append(i)
        place = {n.name: i for i, n in enumerate(self.original.nodes)}
        left = {n.name for n in self.after.nodes}
        found = []
        for node in self.original.nodes:
            made_of = clusters.get(node.name, [])
            edges = [_edge(place, ref) for ref in node.inputs]
            record = self._node(self.original, node, edges, [place[c] for c in node.controls if c in place])
            if made_of:
                record["c"] = made_of
            elif node.name not in self.simplified:
                record["s"] = "gone"
            elif node.name not in left:
                record["s"] = "inlined"
            found.append(record)
        return found

    def _after(self) -> list[dict[str, Any]]:
        """The rewritten graph in topological order; a fused op has its index as ``op``."""
        inside = {n.name: i for i, made in enumerate(self.generated) for n in made.lowered.nodes}
        stored = {ref: (i, k) for i, made in enumerate(self.generated) for k, ref in enumerate(made.lowered.outputs)}
        kept = [n for n in self.after.nodes if n.name not in inside]
        keys: dict[object, int] = {n.name: i for i, n in enumerate(kept)} | {
            i: len(kept) + i for i in range(len(self.generated))
        }

        def source(ref: TensorRef | None) -> list[int] | None:
            if ref is None:
                return None
            owner, index = stored.get(ref, (ref.node, ref.index))
            return [keys[owner], index] if owner in keys else None

        records = []
        for node in kept:
            controls = [keys[o] for o in dict.fromkeys(inside.get(c, c) for c in node.controls) if o in keys]
            records.append(self._node(self.after, node, [source(r) for r in node.inputs], controls))
        for i, made in enumerate(self.generated):
            lowered = made.lowered
            outputs = [_tensor_text(self.after, ref) for ref in lowered.outputs]
            edges = [source(r) for r in lowered.inputs]
            records.append({"n": f"{made.op_type}_{i}", "t": made.op_type, "k": "kernel", "i": edges, "o": outputs,
                            "c": [i], "op": i})  # fmt: skip
        return _topological(records)

    def _node(
        self, graph: Graph, node: Node, edges: Sequence[list[int] | None], controls: Sequence[int]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"n": node.name, "t": node.type, "k": _kind(graph, node), "i": list(edges)}
        found["o"] = [_tensor_text(graph, ref) for ref in node.outputs]
        attrs = {name: _attr_text(value) for name, value in node.attrs.items()}
        if attrs:
            found["a"] = attrs
        if controls:
            found["w"] = list(controls)
        if node.origin:
            found["g"] = node.origin
        return found

    def _op(self, index: int, op: FusedOp) -> dict[str, Any]:
        made = self.generated[index]
        sizes = kernel_hints(made.lowered, self.after, self.hints)
        tiling = made.schedule.tiling(sizes, self.target.vector_cores, self.target.ub_bytes)
        parts = [{"name": p.name, "buffers": [asdict(b) for b in p.buffers]} for p in ub_parts(made.schedule, tiling)]
        written = [tensor_bytes(ref, self.after, self.hints) for ref in made.lowered.outputs]
        known = op.gm_bytes is not None and all(w is not None for w in written)
        stored = sum(w for w in written if w is not None)
        return {
            "ub_parts": parts,
            "cores": tiling["block_dim"],
            "read_bytes": op.gm_bytes - stored if known and op.gm_bytes is not None else None,
            "written_bytes": stored if known else None,
            "vector_elements": vector_elements(made.lowered.kernel, sizes) if known else None,
            "sizes": {name: int(value) for name, value in sizes.items()},
        }


def remember(
    original: Graph,
    simplified: Graph,
    after: Graph,
    generated: Sequence[GeneratedOp],
    definitions: Sequence[Any],
    hints: Mapping[str, int],
    target: Chip,
) -> Explained:
    """What a page on this graph needs, see :class:`Explained`."""
    names = frozenset(n.name for n in simplified.nodes)
    return Explained(
        _slim(original), names, _slim(after), tuple(generated), tuple(definitions), dict(hints), target
    )  # fmt: skip


def vector_elements(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Elements that the operations of a kernel work on, each operation of the loop IR counted once per element.

    What the vector unit does for one is one or more instructions; ``sizes`` binds the kernel's symbols.
    """
    total = 0
    for nest in kernel.nests:
        extent = {a.name: expr.evaluate(a.size, sizes) for a in nest.axes}
        for v in nest.values:
            if isinstance(v, (Pointwise, Cast, Reduce)):
                axes = {a for arg in arguments(v) for a in nest.domains[arg]}
                total += math.prod(extent[a] for a in axes)
    return total


def _chip_facts(target: Chip) -> dict[str, Any]:
    """Rates of all cores together by the cost table that predictions use: bytes and 32-bit elements per microsecond."""
    cores = target.vector_cores * target.clock_mhz
    return {
        "soc": target.soc,
        "cores": target.vector_cores,
        "ub_limit": target.ub_plan_bytes,
        "read_rate": cores * load_rate(target, target.vector_cores, _MUCH),
        "write_rate": cores * store_rate(target, target.vector_cores),
        "vector_rate": cores / target.cost.vector.simple[0],
    }


def _slim(graph: Graph) -> Graph:
    """The graph without large constants, which only their text stands for."""

    def light(node: Node) -> Node:
        if not any(isinstance(v, np.ndarray) and v.size > _SMALL for v in node.attrs.values()):
            return node
        attrs = {
            k: _attr_text(v) if isinstance(v, np.ndarray) and v.size > _SMALL else v for k, v in node.attrs.items()
        }
        return replace(node, attrs=MappingProxyType(attrs))

    return replace(graph, nodes=tuple(light(n) for n in graph.nodes))


def _edge(place: Mapping[str, int], ref: TensorRef | None) -> list[int] | None:
    return None if ref is None or ref.node not in place else [place[ref.node], ref.index]


def _kind(graph: Graph, node: Node) -> str:
    """ "data", "output", "const", "kernel", "host" (constants and sizes), or "view": no device work either."""
    if node.type in _KINDS:
        return _KINDS[node.type]
    if op_class(node.type) == "graph":
        return "const"
    if is_kernel(node, graph):
        return "kernel"
    return "host" if node.name in host_nodes(graph) else "view"


def _tensor_text(graph: Graph, ref: TensorRef) -> str:
    info = graph.info(ref)
    shape = "?" if info.shape is None else ",".join(expr.to_str(d) for d in info.shape)
    return f"{info.dtype if info.dtype is not None else '?'}[{shape}]"


def _attr_text(value: AttrValue) -> str:
    if isinstance(value, np.ndarray):
        shape = f"{value.dtype}[{','.join(map(str, value.shape))}]"
        text = f"{shape} {value.tolist()}" if value.size <= _SMALL else shape
    elif isinstance(value, DType):
        text = value.name
    elif isinstance(value, (list, tuple)):
        text = f"[{', '.join(_attr_text(v) for v in value[: _LONG // 2])}]"
    else:
        text = str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def _topological(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with producers first, else in the order given; their indices are renumbered."""
    before: list[set[int]] = [{e[0] for e in r["i"] if e is not None} | set(r.get("w", ())) for r in records]
    after: list[list[int]] = [[] for _ in records]
    for i, earlier in enumerate(before):
        for j in sorted(earlier):
            after[j].append(i)
    missing = [len(b) for b in before]
    order: list[int] = []
    stack = [i for i in reversed(range(len(records))) if not missing[i]]
    while stack:
        i = stack.pop()
        order.append(i)
        for j in reversed(after[i]):
            missing[j] -= 1
            if not missing[j]:
                stack.append(j)
    place = {old: new for new, old in enumerate(order)}
    found = []
    for i in order:
        record = dict(records[i])
        record["i"] = [None if e is None else [place[e[0]], e[1]] for e in record["i"]]
        if "w" in record:
            record["w"] = [place[j] for j in record["w"]]
        found.append(record)
    return found
