"""Predicted time of kernels from the chip's public cost tables: for people and planners, never a measurement.

Times are whole nanoseconds, so that scores compare exactly. The time of a fused kernel comes from its schedule
(plan.predict); here is the coarser one of a kernel that is known only by what it moves and computes: a GE op that
stays, or a cluster that has no schedule yet. Source of all numbers: soc/chips.toml.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from torchair_autofuse.ge.catalogue import gm_bytes, host_nodes, is_kernel, op_class, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Cast, Pointwise, Reduce
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.uniform import op_view, uniform_value
from torchair_autofuse.plan.legality import emit_alone
from torchair_autofuse.soc.chip import Chip

PROFIT_NS = 200
"""Predicted nanoseconds that a merge must save where nothing else decides."""
TILE = 8192
"""Elements that a vector instruction works on at once where no schedule says it."""
_KINDS = {
    "div": ("divide",), "reciprocal": ("divide",), "rsqrt": ("transcendental", "divide"), "fmod": ("divide", "cast"),
    **dict.fromkeys(("exp", "log", "sqrt"), ("transcendental",)),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), ("compare",)),
    **dict.fromkeys(("erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "pow"), ("api",)),
    **dict.fromkeys(("asinh", "acosh", "atanh"), ("api",)),
    "tanh": ("tanh",), "sigmoid": ("sigmoid",), "select": ("select",),
}  # fmt: skip
SHARE = 4096
"""Bytes below which a core is not started for more work (guides for 2201)."""
_SHARED = 8  # results of a reduction that fewer cores than these would have to share
_SHORT, _BLOCK = 512, 32  # bytes of blocks that cost more than their bytes, or much more
_LOOKUPS = ("Gather", "IndexByTensor", "Embedding")
_SLICES = ("StridedSlice", "Slice", "Split", "Unpack")
_UNKNOWN = {"move": ("fill",), "index": ("gather",), "norm": ("simple",) * 6, "loss": ("simple",) * 4}
_OPTIMIZER = ("simple",) * 10


@dataclass(frozen=True)
class Work:
    """What a kernel does: bytes read and written in GM, and cycles of vector work on one core.

    ``cycles`` grow with the elements, ``heads`` (cycles) are paid per tile of :data:`TILE`; ``elements`` in all.
    ``copies``: cycles of loads that every core spends on many short blocks. ``units``: into how many parts the work
    can be divided, 0 where that is no limit.
    """

    read: int
    written: int
    cycles: float = 0.0
    heads: float = 0.0
    elements: int = 0
    copies: float = 0.0
    units: int = 0


def predicted_ns(chip: Chip, work: Work) -> int:
    """Nanoseconds of a kernel with as many cores as suit it: launch, heads, then the slowest of load, vector and store.

    Never less for more of any of them.
    """
    return _predicted(chip, work)


@lru_cache(maxsize=65536)
def _predicted(chip: Chip, work: Work) -> int:
    least = math.inf
    for n in _core_counts(chip):
        if least < math.inf and 0 < work.units < n:
            break
        load = work.read / n / load_rate(chip, n, work.read) + work.copies
        vector = work.cycles / n + work.heads * max(1.0, work.elements / n / TILE)
        busy = max(load, vector, work.written / n / store_rate(chip, n))
        least = min(least, head_cycles(chip, n, work.read, work.written) + busy)
    return to_ns(chip, least)


@lru_cache(maxsize=16)
def _core_counts(chip: Chip) -> tuple[int, ...]:
    return tuple(sorted({*(n for n in (1, 2, 4, 8, 12, 16, 24, 32, 40) if n < chip.vector_cores), chip.vector_cores}))


def to_ns(chip: Chip, cycles: float) -> int:
    """Nanoseconds of a launch and ``cycles`` of a vector core."""
    return round(1000 * (chip.cost.launch_us + cycles / chip.clock_mhz))


def head_cycles(chip: Chip, cores: int, read: int, written: int) -> float:
    """Cycles before and after the work of a kernel that loads and stores so many bytes: its pipes, and a copy each."""
    c = chip.cost
    found = c.kernel_head
    if read:
        base, per_core = c.small_load_head if read < c.small_load_bytes else c.load_head
        found += base + per_core * cores + c.load_copy
    return found + (c.store_head + c.store_copy if written else 0.0)


def load_rate(chip: Chip, cores: int, read: int) -> float:
    """Bytes per cycle that each of ``cores`` loads, in a kernel that loads ``read`` bytes."""
    base, shared = chip.cost.small_load_rate if read < chip.cost.small_load_bytes else chip.cost.load_rate
    return base + shared / cores


def store_rate(chip: Chip, cores: int) -> float:
    """Bytes per cycle that each of ``cores`` stores."""
    base, shared = chip.cost.store_rate
    return base + shared / cores


class NodeCosts:
    """Work and predicted time of the GE nodes of one graph, each found once.

    ``hints``: example sizes of the symbols; what depends on a symbol without one has no predicted time. ``launch_ns``:
    what a kernel that does next to nothing takes.
    """

    def __init__(self, graph: Graph, hints: Mapping[str, int], chip: Chip) -> None:
        self.graph, self.hints, self.chip = graph, hints, chip
        self.launch_ns = predicted_ns(chip, Work(1, 1))
        self._on_host = host_nodes(graph)
        self._work: dict[str, Work | None] = {}
        self._sizes: dict[TensorRef, int | None] = {}
        self._loads: dict[TensorRef, int | None] = {}

    def size(self, ref: TensorRef) -> int | None:
        """Bytes of a tensor; None if unknown."""
        if ref not in self._sizes:
            self._sizes[ref] = tensor_bytes(ref, self.graph, self.hints)
        return self._sizes[ref]

    def loaded(self, ref: TensorRef) -> int | None:
        """Bytes that a kernel loads of a tensor from outside: none of a number, nor of what the host knows."""
        if ref not in self._loads:
            known = ref.node in self._on_host or uniform_value(self.graph, ref) is not None
            self._loads[ref] = 0 if known else self.size(ref)
        return self._loads[ref]

    def work(self, node: Node) -> Work | None:
        """What the kernel of a node does; nothing for what is no kernel, None for unknown sizes."""
        if node.name not in self._work:
            self._work[node.name] = self._find(node)
        return self._work[node.name]

    def ns(self, node: Node) -> int | None:
        """Predicted time of the node as a kernel of its own; 0 if it is none."""
        if not is_kernel(node, self.graph):
            return 0
        work = self.work(node)
        return None if work is None else predicted_ns(self.chip, work)

    def total_ns(self, nodes: Iterable[Node]) -> int | None:
        """Of all nodes, each a kernel of its own; None if one is unknown."""
        found = [self.ns(n) for n in nodes]
        return None if any(t is None for t in found) else sum(t or 0 for t in found)

    def _find(self, node: Node) -> Work | None:
        moved = gm_bytes(node, self.graph, self.hints)
        written = [tensor_bytes(r, self.graph, self.hints) for r in node.outputs]
        if moved is None or any(b is None for b in written):
            return None
        stored = sum(b or 0 for b in written)
        elements = self._elements(node)
        cycles, heads = self._vector(node)
        read, units = moved - stored, self._units(node)
        if units and op_class(node.type) == "norm" and 4 * elements // units > self.chip.ub_bytes // 3:
            read *= 2  # a row that does not fit in UB is read once more to be normalised
        return Work(read, stored, cycles * elements, heads, elements, self._copies(node), units)

    def _units(self, node: Node) -> int:
        """What an op reduces to is made whole by one core, unless it is so little that cores have to share it."""
        if op_class(node.type) not in ("reduce", "norm", "loss"):
            return 0
        sizes = [tensor_bytes(r, self.graph, self.hints) or 0 for r in node.outputs]
        dtypes = [self.graph.info(r).dtype for r in node.outputs]
        least = min((size // d.itemsize for size, d in zip(sizes, dtypes) if d is not None and size), default=0)
        return least if least >= _SHARED else 0

    def _copies(self, node: Node) -> float:
        """Cycles of a core that loads :data:`SHARE` bytes in blocks as long as the rows that are picked."""
        block, blocks = self._picked(node)
        if not block:
            return 0.0
        cost = self.chip.cost
        size = max(block, cost.short_load_bytes) if block < _BLOCK else block
        each = size / load_rate(self.chip, self.chip.vector_cores, 0)
        each += cost.load_copy if node.type.startswith(_LOOKUPS) else 0.0
        return min(blocks, max(SHARE / block, 1.0)) * each

    def _picked(self, node: Node) -> tuple[int, int]:
        """(bytes of a block, blocks) that a lookup or slice loads where these are short; (0, 0) for other ops."""
        lookup = node.type.startswith(_LOOKUPS)
        if not (lookup or node.type.startswith(_SLICES)) or node.inputs[0] is None:
            return 0, 0
        source, result = self.graph.info(node.inputs[0]), self.graph.info(node.outputs[0])
        if source.shape is None or result.shape is None or result.dtype is None:
            return 0, 0
        run = result.dtype.itemsize
        for ours, theirs in zip(reversed(result.shape), reversed(source.shape)):
            if ours == theirs or not lookup:
                run *= self._dim(ours)
            if ours != theirs:
                break
        size = tensor_bytes(node.outputs[0], self.graph, self.hints) or 0
        return (run, size // run) if 0 < run <= _SHORT else (0, 0)

    def _dim(self, dim: expr.Expr) -> int:
        return dim if isinstance(dim, int) else expr.evaluate(dim, dict(self.hints))

    def _elements(self, node: Node) -> int:
        """Elements of the largest tensor of the node."""
        found = [0]
        for ref in (*node.inputs, *node.outputs):
            size = tensor_bytes(ref, self.graph, self.hints) if ref is not None else None
            dtype = self.graph.info(ref).dtype if ref is not None else None
            if size is not None and dtype is not None:
                found.append(size // dtype.itemsize)
        return max(found)

    def _vector(self, node: Node) -> tuple[float, float]:
        """Cycles per element, and per tile, of the vector instructions of a node, as f32 work."""
        table = self.chip.cost.vector
        found = [getattr(table, kind) for kind in _kinds(self.graph, node)]
        return sum(k for k, _, _ in found), sum(b for _, _, b in found)


def _kinds(graph: Graph, node: Node) -> list[str]:
    """Kinds of the instructions (soc.chip.Vector) that a node takes: those of its lowering, else by its class."""
    rule = RULES.get(node.type)
    kind = op_class(node.type)
    if rule is None or rule.kind == "view" or rule.movement is not None or rule.check(op_view(graph, node)) is not None:
        if kind in ("elementwise", "broadcast", "reduce"):
            return ["simple"]
        return list(_OPTIMIZER if kind == "optimizer" else _UNKNOWN.get(kind, ()))
    found: list[str] = []
    for value in emit_alone(graph, node)[0]:
        if isinstance(value, Pointwise):
            found += _KINDS.get(value.op, ("simple",))
        elif isinstance(value, Cast):
            found.append("cast")
        elif isinstance(value, Reduce):
            found += ["reduce"] * (2 if value.combiner in ("welford", "maxsumexp") else 1)
    return found
