"""What differs between two sets of reports: totals per graph, fused ops by their nodes, refusals."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from torchair_autofuse.report.report import FusedOp, FusionReport, Refusal, plain

TOTALS = (
    "kernels_before", "kernels_after", "gm_bytes_before", "gm_bytes_after", "gm_bytes_floor", "predicted_us_before",
    "predicted_us_after",
)  # fmt: skip
_STATE = ("soc", "options", "run_unfused", "rolled_back", "warnings")
_OP_FIELDS = (
    "op_type", "template", "ub_bytes", "gm_bytes", "gm_bytes_floor", "predicted_us", "predicted_us_alone",
    "inputs", "outputs", "patterns",
)  # fmt: skip

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Change:
    """A value that differs."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class OpChange:
    """A fused op of both that differs. ``gained``, ``lost``: nodes; ``changes``: its other fields."""

    before: FusedOp
    after: FusedOp
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class GraphDiff:
    """One graph of both. A refusal whose text alone differs is in ``reworded`` (before, after)."""

    name: str
    totals: tuple[Change, ...] = ()
    state: tuple[Change, ...] = ()
    appeared: tuple[FusedOp, ...] = ()
    vanished: tuple[FusedOp, ...] = ()
    changed: tuple[OpChange, ...] = ()
    refused: tuple[Refusal, ...] = ()
    no_longer_refused: tuple[Refusal, ...] = ()
    reworded: tuple[tuple[Refusal, Refusal], ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs; how long the stages took does not count."""
        return self == GraphDiff(self.name)


@dataclass(frozen=True)
class ReportsDiff:
    """``graphs``: those of both; ``added``, ``removed``: names of graphs that only one has."""

    graphs: tuple[GraphDiff, ...]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both have the same graphs and no graph differs."""
        return not self.added and not self.removed and all(g.equal for g in self.graphs)

    def to_dict(self) -> dict[str, Any]:
        """Dicts, lists, strings and numbers only: ready for ``json.dumps``."""
        return {"equal": self.equal, **plain(asdict(self))}


def compare(before: Sequence[FusionReport], after: Sequence[FusionReport]) -> ReportsDiff:
    """What differs. Graphs are paired by name, those of one name in their order; fused ops by their nodes."""
    old, new = _numbered((r.graph_name, r) for r in before), _numbered((r.graph_name, r) for r in after)
    return ReportsDiff(
        tuple(_graph(_name(key), old[key], new[key]) for key in old if key in new),
        tuple(_name(key) for key in new if key not in old),
        tuple(_name(key) for key in old if key not in new),
    )


def _name(key: tuple[str, int]) -> str:
    return key[0] if key[1] == 0 else f"{key[0]} ({key[1] + 1})"


def _graph(name: str, before: FusionReport, after: FusionReport) -> GraphDiff:
    pairs = _pairs(before.fused, after.fused)
    old_paired, new_paired = {i for i, _ in pairs}, {j for _, j in pairs}
    ops = (_op_change(before.fused[i], after.fused[j]) for i, j in pairs)
    old, new = (_numbered(((r.node, r.other, r.code), r) for r in x.refused) for x in (before, after))
    return GraphDiff(
        name,
        totals=_changes(before, after, TOTALS),
        state=_changes(before, after, _STATE),
        appeared=tuple(op for j, op in enumerate(after.fused) if j not in new_paired),
        vanished=tuple(op for i, op in enumerate(before.fused) if i not in old_paired),
        changed=tuple(op for op in ops if op is not None),
        refused=tuple(r for key, r in new.items() if key not in old),
        no_longer_refused=tuple(r for key, r in old.items() if key not in new),
        reworded=tuple((r, new[key]) for key, r in old.items() if key in new and new[key] != r),
    )


def _pairs(before: Sequence[FusedOp], after: Sequence[FusedOp]) -> list[tuple[int, int]]:
    """Indices of ops that are the same one: with equal nodes first, then those that share most, ties in order."""
    found = _equal(before, after)
    taken = set(found.values())
    owners: dict[str, list[int]] = {}
    for j, op in enumerate(after):
        if j not in taken:
            for node in op.nodes:
                owners.setdefault(node, []).append(j)
    shared: dict[tuple[int, int], int] = {}
    for i, op in enumerate(before):
        if i not in found:
            for j in (j for node in op.nodes for j in owners.get(node, ())):
                shared[i, j] = shared.get((i, j), 0) + 1
    for i, j in sorted(shared, key=lambda pair: (-shared[pair], pair)):
        if i not in found and j not in taken:
            found[i] = j
            taken.add(j)
    return sorted(found.items())


def _equal(before: Sequence[FusedOp], after: Sequence[FusedOp]) -> dict[int, int]:
    """The index in ``after`` of each op of ``before`` that has the same nodes there; the first with the first."""
    left: dict[frozenset[str], deque[int]] = {}
    for j, op in enumerate(after):
        if op.nodes:
            left.setdefault(frozenset(op.nodes), deque()).append(j)
    found: dict[int, int] = {}
    for i, op in enumerate(before):
        same = left.get(frozenset(op.nodes))
        if same:
            found[i] = same.popleft()
    return found


def _op_change(before: FusedOp, after: FusedOp) -> OpChange | None:
    old, new = frozenset(before.nodes), frozenset(after.nodes)
    gained = tuple(n for n in after.nodes if n not in old)
    lost = tuple(n for n in before.nodes if n not in new)
    changes = _changes(before, after, _OP_FIELDS)
    return OpChange(before, after, gained, lost, changes) if gained or lost or changes else None


def _changes(before: object, after: object, names: Iterable[str]) -> tuple[Change, ...]:
    values = ((name, getattr(before, name), getattr(after, name)) for name in names)
    return tuple(Change(name, a, b) for name, a, b in values if a != b)


V = TypeVar("V")


def _numbered(items: Iterable[tuple[K, V]]) -> Mapping[tuple[K, int], V]:
    """The items by key and place among those of that key, in their order."""
    counts: dict[K, int] = {}
    found: dict[tuple[K, int], V] = {}
    for key, value in items:
        found[key, counts.get(key, 0)] = value
        counts[key] = counts.get(key, 0) + 1
    return found
