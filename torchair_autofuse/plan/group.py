"""Groups of nodes that become one fused op, and what is predicted of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.ge.graph import Node, TensorRef
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.cost import NodeCosts


@dataclass(frozen=True)
class Group:
    """Nodes (topological order) that become one fused op.

    ``copies`` of them are computed here for it alone. ``unstored``: results that all outside readers compute again.
    ``parts``: groups that do not depend on each other and run side by side in the op; their nodes are all it has.
    """

    nodes: tuple[Node, ...]
    copies: frozenset[str] = frozenset()
    unstored: frozenset[TensorRef] = frozenset()
    parts: tuple[Group, ...] = ()

    @property
    def all_copies(self) -> frozenset[str]:
        """Names of what it, or a part of it, computes for itself alone."""
        return self.copies.union(*(p.all_copies for p in self.parts))

    def storing(self, gone: Container[str]) -> Group:
        """The group as it is when nothing computes the results of the nodes ``gone`` again."""
        unstored = frozenset(ref for ref in self.unstored if ref.node not in gone)
        return replace(self, unstored=unstored, parts=tuple(p.storing(gone) for p in self.parts))


Fits = Callable[[Group], "Reason | None"]
"""Why there is no fused op of a group, or None."""


def without(kept: Sequence[Group], left: Iterable[Group], fits: Fits) -> list[Group]:
    """``kept`` as they are when ``left`` are not made: they store what those would have computed again.

    Those that no longer fit then are not made either.
    """
    made, gone = list(kept), list(left)
    while gone:
        again = {name for g in gone for name in g.all_copies}
        storing = [g.storing(again) for g in made]
        gone = [g for g in storing if fits(g) is not None]
        made = [g for g in storing if g not in gone]
    return made


@dataclass(frozen=True)
class Predicted:
    """A group as one kernel: its op type, tensors that it reads and writes, its time (None: sizes are unknown), and
    how many loop nests it has."""

    op_type: str
    params: tuple[object, ...]
    ns: int | None
    nests: int = 1


Predict = Callable[[Group], "Predicted | Reason"]
"""The group as one kernel, or why it cannot be one."""


@dataclass(frozen=True)
class Costs:
    """Predicted times: of the GE nodes, and of a group as one kernel (or why it cannot be one).

    Without ``predict`` structure alone decides what schedules would, and nothing is joined side by side.
    """

    nodes: NodeCosts
    predict: Predict | None = None

    def predicted(self, group: Group) -> Predicted | None:
        """The group as one kernel; None where it cannot be one or nothing predicts."""
        made = None if self.predict is None else self.predict(group)
        return made if isinstance(made, Predicted) else None

    def ns(self, group: Group) -> int | None:
        """Predicted time of a group as one kernel; None where it cannot be one or nothing can be predicted."""
        made = self.predicted(group)
        return None if made is None else made.ns

    def total_ns(self, groups: Iterable[Group]) -> int | None:
        """Of all groups; None if one is unknown."""
        found = [self.ns(g) for g in groups]
        return None if any(t is None for t in found) else sum(t or 0 for t in found)
