"""The contracted graph during planning: blocks of nodes, the edges between them in topological order, and joining.

Every join keeps the contracted graph free of cycles. Instead of all-pairs reachability it holds a topological rank per
block and looks only at blocks ranked between the two (D. J. Pearce, P. H. J. Kelly, "A dynamic topological sort
algorithm for directed acyclic graphs", 2006); for neighbours in a chain that is next to nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torchair_autofuse.ge.graph import Graph, Node
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.alias import SOURCES, Writes
from torchair_autofuse.plan.group import Group


@dataclass(eq=False)
class Block:
    """One set of nodes that run together.

    ``rank``: place in a topological order of the blocks. ``after``, ``before``: ids of the blocks that must run
    later and earlier; those in ``data_after`` by data or control edges, the others because they write what this one
    reads. ``version``: how often something was joined to it.
    """

    id: int
    nodes: list[Node]
    rank: int
    after: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)
    data_after: set[int] = field(default_factory=set)
    version: int = 0


AnyBlock = TypeVar("AnyBlock", bound=Block)


class Contraction(Generic[AnyBlock]):
    """Blocks of a graph. ``of``: the block of each node that is no source (Data, Const). ``late``: (reader, writer) of
    the waits that do not hold, since the reader comes after the writer by the edges. ``copied``: by the name of a node,
    one that belongs to each block which computes that node again."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.of: dict[str, AnyBlock] = {}
        self.late: set[tuple[str, str]] = set()
        self.copied: dict[str, list[str]] = {}
        self._by_id: dict[int, AnyBlock] = {}

    def __iter__(self) -> Iterator[AnyBlock]:
        """Each block once, by id."""
        return iter(self._by_id[i] for i in sorted(self._by_id))

    def running(self, name: str) -> list[AnyBlock]:
        """The blocks that run the node: its home, and those that compute it again; none runs a source."""
        names = (name, *self.copied.get(name, ()))
        return [self.of[n] for n in names if n in self.of]

    def between(self, a: AnyBlock, b: AnyBlock) -> Reason | None:
        """Why something has to run between the two, or None if nothing has to."""
        found = self._reach(*((a, b) if a.rank < b.rank else (b, a)))
        return found if isinstance(found, Reason) else None

    def apart(self, a: AnyBlock, b: AnyBlock) -> bool:
        """Whether neither has to run before the other."""
        return b.id not in a.after and a.id not in b.after and self.between(a, b) is None

    def unite(self, a: AnyBlock, b: AnyBlock) -> Reason | None:
        """Makes one block of two, which is ``a`` then; or says why that would close a cycle."""
        first, last = (a, b) if a.rank < b.rank else (b, a)
        between = self._reach(first, last)
        if isinstance(between, Reason):
            return between
        self._reorder(first, last, a, between)
        self._join(a, b)
        return None

    def _connect(self, waits: Iterable[tuple[str, str]]) -> None:
        """Adds all edges of the graph between the blocks, which are in a topological order of it, then the waits."""
        for block in tuple(self._by_id.values()):
            own = {n.name for n in block.nodes}
            for node in block.nodes:
                for name in (*(r.node for r in node.inputs if r is not None), *node.controls):
                    if name in self.of and name not in own:
                        self._link(self.of[name], block)
                        self.of[name].data_after.add(block.id)
        self._add_waits(waits)

    # ---- edges --------------------------------------------------------------------------------------------------

    def _link(self, earlier: AnyBlock, later: AnyBlock) -> None:
        earlier.after.add(later.id)
        later.before.add(earlier.id)

    def _add_waits(self, waits: Iterable[tuple[str, str]]) -> None:
        for pair in waits:
            if not self._wait(*(self.of[name] for name in pair)):
                self.late.add(pair)

    def _wait(self, reader: AnyBlock, writer: AnyBlock) -> bool:
        """Adds the edge reader -> writer unless it closes a cycle: in a graph as it is that is GE's concern."""
        if reader is writer or writer.id in reader.after:
            return True
        if reader.rank > writer.rank:
            found = self._walk(writer.after, reader)
            if reader.id in found:
                return False
            behind = self._back(reader, writer)
            places = sorted(self._by_id[i].rank for i in found | behind | {reader.id, writer.id})
            order = [*self._ranked(behind), reader, writer, *self._ranked(found)]
            for cluster, rank in zip(order, places):
                cluster.rank = rank
        self._link(reader, writer)
        return True

    def _rank(self) -> None:
        """Ranks from scratch: a topological order, by id where edges leave a choice."""
        waiting = {b.id: len(b.before) for b in self}
        ready = [i for i, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        rank = 0
        while ready:
            block = self._by_id[heapq.heappop(ready)]
            block.rank = rank
            rank += 1
            for i in block.after:
                waiting[i] -= 1
                if waiting[i] == 0:
                    heapq.heappush(ready, i)
        assert rank == len(self._by_id), "the groups of a plan close a cycle"

    # ---- reachability -------------------------------------------------------------------------------------------

    def _reach(self, first: AnyBlock, last: AnyBlock) -> set[int] | Reason:
        """Ids reached from ``first`` that are ranked before ``last``, or why the two cannot be one: a path between."""
        found = self._walk(first.after - {last.id}, last)
        if last.id not in found:
            return found
        starts = self._ranked(i for i in first.after & found if i != last.id)
        node = next(c for c in starts if c.id == last.id or last.id in self._walk({c.id}, last)).nodes[0]
        names = " and ".join(_block_text(block) for block in (first, last))
        if last.id not in self._walk(first.data_after - {last.id}, last, data_only=True):
            text = f"{names}: {node.name} ({node.type}) has to read or write in between, as one overwrites its memory"
            return Reason("AF209", text)
        return Reason("AF206", f"{node.name} ({node.type}) lies on a path between {names}")

    def _walk(self, start: Iterable[int], last: AnyBlock, *, data_only: bool = False) -> set[int]:
        """Ids reached from ``start``, itself included, without passing a rank beyond that of ``last``."""
        found = {i for i in start if self._by_id[i].rank <= last.rank}
        stack = list(found)
        while stack:
            here = self._by_id[stack.pop()]
            if here is last:
                continue
            for i in here.data_after if data_only else here.after:
                if i not in found and self._by_id[i].rank <= last.rank:
                    found.add(i)
                    stack.append(i)
        return found

    def _back(self, last: AnyBlock, first: AnyBlock) -> set[int]:
        """Ids that reach ``last`` and are ranked after ``first``."""
        found = {i for i in last.before if self._by_id[i].rank > first.rank}
        stack = list(found)
        while stack:
            for i in self._by_id[stack.pop()].before:
                if i not in found and self._by_id[i].rank > first.rank:
                    found.add(i)
                    stack.append(i)
        return found

    def _ranked(self, ids: Iterable[int]) -> list[AnyBlock]:
        return sorted((self._by_id[i] for i in ids), key=lambda c: c.rank)

    # ---- joining ------------------------------------------------------------------------------------------------

    def _reorder(self, first: AnyBlock, last: AnyBlock, kept: AnyBlock, forward: set[int]) -> None:
        """Ranks for the two as one: what leads to ``last`` goes before it, what follows ``first`` after it."""
        behind = self._back(last, first)
        places = sorted([first.rank, *(self._by_id[i].rank for i in forward | behind)])
        order = [*self._ranked(behind), kept, *self._ranked(forward)]
        for cluster, rank in zip(order, places):
            cluster.rank = rank

    def _join(self, big: AnyBlock, small: AnyBlock) -> None:
        big.nodes.extend(small.nodes)
        big.version += 1
        for node in small.nodes:
            self.of[node.name] = big
        for i in small.after:
            self._swap(self._by_id[i].before, small.id, big.id, i)
        for i in small.before:
            earlier = self._by_id[i]
            self._swap(earlier.after, small.id, big.id, i)
            self._swap(earlier.data_after, small.id, big.id, i)
        big.after = (big.after | small.after) - {big.id, small.id}
        big.before = (big.before | small.before) - {big.id, small.id}
        big.data_after = (big.data_after | small.data_after) - {big.id, small.id}
        del self._by_id[small.id]

    @staticmethod
    def _swap(ids: set[int], gone: int, kept: int, owner: int) -> None:
        if gone in ids:
            ids.discard(gone)
            if owner != kept:
                ids.add(kept)


def _block_text(block: Block) -> str:
    count = len(block.nodes)
    return f"{block.nodes[0].name} with {count - 1} more" if count > 1 else block.nodes[0].name


def of_groups(graph: Graph, groups: Sequence[Group], writes: Writes) -> Contraction[Block]:
    """Each of ``groups`` a block, every other node one of its own.

    The home of what a group computes again for itself alone (its copies) is another group, a block of its own, or
    nothing where nobody else reads it. The groups must be convex together; blocks are ranked by the graph positions of
    their nodes as far as edges allow.
    """
    made: Contraction[Block] = Contraction(graph)
    alone = unfused(graph, groups)
    members = [*groups, *(Group((n,)) for n in graph.nodes if n.name in alone and n.type not in SOURCES)]
    members.sort(key=lambda g: min(graph.position[n.name] for n in g.nodes))
    for i, group in enumerate(members):
        block = made._by_id[i] = Block(i, list(group.nodes), i)
        own = [n.name for n in group.nodes if n.name not in group.copies]
        made.of.update((name, block) for name in own)
        for name in group.copies:
            made.copied.setdefault(name, []).append(own[0])
    for block in made:
        for node in block.nodes:
            made.of.setdefault(node.name, block)
    made._connect(())
    made._rank()
    made._add_waits(writes.waits)
    return made


def unfused(graph: Graph, groups: Sequence[Group]) -> set[str]:
    """Names of the nodes that run by themselves, among them copies that are read where they are not computed again."""
    holders: dict[str, set[int]] = {}
    for i, group in enumerate(groups):
        for node in group.nodes:
            holders.setdefault(node.name, set()).add(i)
    found = {n.name for n in graph.nodes if n.name not in holders}
    own = {n.name for g in groups for n in g.nodes if n.name not in g.copies}
    for name in sorted(holders.keys() - own, key=lambda name: -graph.position[name]):
        readers = {c.name for ref in graph.by_name[name].outputs for c, _ in graph.consumers.get(ref, ())}
        if readers & found or any(holders[r] - holders[name] for r in readers):
            found.add(name)
    return found
