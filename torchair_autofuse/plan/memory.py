"""Live bytes of a plan: what intermediate results occupy at each step when the blocks of a graph run in order.

Inputs, constants and weights occupy memory all the time and do not count. A result lives from the block that makes it
to the last one that reads it, through reshapes, which share its memory. What stays inside one block is never in memory,
nor is what all its readers compute again: what they read for that lives until then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from torchair_autofuse.ge.catalogue import host_nodes, is_view, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.plan.contraction import Block, Contraction

SHARE = 10
"""Percent by which a plan, or merging side by side, may raise the peak of live bytes."""
FLOOR = 2 << 20
"""Bytes by which it may in any case: what PyTorch's caching allocators take for small tensors at a time
(``kSmallBuffer``)."""

Change = list[tuple[int, int, int]]
"""(first step, last step, bytes) that are live besides what was."""


class Memory:
    """The live bytes of a contracted graph over time, and what merging two blocks would add to them."""

    def __init__(self, graph: Graph, blocks: Contraction[Block], hints: Mapping[str, int]) -> None:
        self._graph, self._blocks, self._hints = graph, blocks, hints
        self._live, self._time = _profile(graph, blocks, hints)
        self.peak = max(self._live, default=0)
        self._limit = allowed(self.peak)

    def added_peak(self, a: Block, b: Block) -> int:
        """The peak if the two ran as one."""
        return max([self.peak, *(max(self._live[i : j + 1]) + size for i, j, size in self._change(a, b)[0])])

    def allows(self, a: Block, b: Block) -> bool:
        """Whether the peak stays within the limit."""
        return self.added_peak(a, b) <= self._limit

    def merge(self, kept: Block, gone: Block) -> None:
        """Notes that two blocks run as one from now on; to be called before they are united."""
        change, time = self._change(kept, gone)
        for first, last, size in change:
            for i in range(first, last + 1):
                self._live[i] += size
        self._time[kept.id] = time

    def _change(self, a: Block, b: Block) -> tuple[Change, int]:
        """What is live besides, and when the two run: at the earlier one's time where all is there that the later one
        reads, which makes its results earlier; else at the later one's, and what the earlier one reads waits."""
        first, last = (a, b) if self._time[a.id] <= self._time[b.id] else (b, a)
        start, end = self._time[first.id], self._time[last.id]
        if start == end:
            return [], start
        results = sum(size for _, size, _ in _results(self._graph, self._blocks, last, self._hints))
        if all(self._time[i] < start for i in last.before):
            return [(start, end - 1, results)], start
        waits = [(start + 1, end, sum(self._read_last(first, start)))]
        if all(self._time[i] > end for i in first.after):
            return waits, end
        return [*waits, (start, end - 1, results)], end

    def _read_last(self, block: Block, time: int) -> Iterator[int]:
        """Bytes of each tensor that nothing reads after the block does."""
        for ref in dict.fromkeys(r for n in block.nodes for r in n.inputs if r is not None):
            readers = _reading(self._graph, self._blocks, ref) if ref.node in self._blocks.of else set()
            if block in readers and all(self._time[b.id] <= time for b in readers):
                yield tensor_bytes(ref, self._graph, self._hints) or 0


def allowed(peak: int) -> int:
    """Bytes up to which the peak may rise."""
    return peak + max(peak * SHARE // 100, FLOOR)


def peak_text(peak: int, before: int) -> str:
    """What is wrong with a peak above what is allowed."""
    return (
        f"live memory would peak at {peak} bytes instead of {before}, more than {SHARE} % and {FLOOR >> 20} MiB above"
    )


def at_peaks(graph: Graph, blocks: Contraction[Block], hints: Mapping[str, int], limit: int) -> list[dict[str, int]]:
    """What lives at each peak above ``limit`` bytes, the highest peak (of equal ones the first) first.

    By the name of its node, the bytes of each result. A peak: the (first) step with most bytes of a row of steps that
    are all above.
    """
    live, step = _profile(graph, blocks, hints)
    tops: list[int] = []
    for i, size in enumerate(live):
        if size > limit:
            if i and tops and live[i - 1] > limit:
                tops[-1] = max(tops[-1], i, key=live.__getitem__)
            else:
                tops.append(i)
    found: dict[int, dict[str, int]] = {top: {} for top in tops}
    for block in blocks:
        for ref, size, readers in _results(graph, blocks, block, hints):
            last = max(step[b.id] for b in readers)
            for top in tops[bisect_left(tops, step[block.id]) : bisect_right(tops, last)]:
                found[top][ref.node] = found[top].get(ref.node, 0) + size
    return [found[top] for top in sorted(tops, key=lambda i: (-live[i], i))]


def above(graph: Graph, blocks: Contraction[Block], hints: Mapping[str, int], limit: int) -> tuple[int, int]:
    """The peak, and how far all steps together are above ``limit`` bytes."""
    live = _profile(graph, blocks, hints)[0]
    return max(live, default=0), sum(max(size - limit, 0) for size in live)


def peak_bytes(graph: Graph, blocks: Contraction[Block], hints: Mapping[str, int]) -> int:
    """Most bytes of results that live at once when the blocks run by rank; sizes that are unknown count as 0."""
    return max(_profile(graph, blocks, hints)[0], default=0)


def _profile(graph: Graph, blocks: Contraction[Block], hints: Mapping[str, int]) -> tuple[list[int], dict[int, int]]:
    """Live bytes at each step, and the step of each block (its id)."""
    order = sorted(blocks, key=lambda b: b.rank)
    step = {b.id: i for i, b in enumerate(order)}
    change = [0] * (len(order) + 1)
    for block in order:
        for _, size, readers in _results(graph, blocks, block, hints):
            change[step[block.id]] += size
            change[max(step[b.id] for b in readers) + 1] -= size
    live, total = [], 0
    for delta in change[:-1]:
        total += delta
        live.append(total)
    return live, step


def _results(
    graph: Graph, blocks: Contraction[Block], block: Block, hints: Mapping[str, int]
) -> Iterator[tuple[TensorRef, int, set[Block]]]:
    """(tensor, bytes, who reads it) of everything that a block leaves in memory."""
    on_host = host_nodes(graph)
    for node in block.nodes:
        if node.name in on_host or is_view(node, graph) or blocks.of[node.name] is not block:
            continue
        for ref in node.outputs:
            readers = _reading(graph, blocks, ref)
            if readers:
                yield ref, tensor_bytes(ref, graph, hints) or 0, readers


def _reading(graph: Graph, blocks: Contraction[Block], ref: TensorRef) -> set[Block]:
    """The blocks that read the tensor from memory, itself or through reshapes."""
    found: set[Block] = set()
    stack: list[Node] = [c for c, _ in graph.consumers.get(ref, ())]
    while stack:
        node = stack.pop()
        found.update(blocks.running(node.name))
        if is_view(node, graph):
            stack += [c for r in node.outputs for c, _ in graph.consumers.get(r, ())]
    return found.difference(blocks.running(ref.node))
