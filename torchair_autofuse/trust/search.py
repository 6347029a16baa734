"""Finds the fused op with which a model goes wrong, by how many fused ops are allowed (fuel)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torchair_autofuse.messages import counted


@dataclass(frozen=True)
class MadeOp:
    """A fused op as it was made: the GE graph's name, the op type and the nodes it replaces."""

    graph: str
    op_type: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.op_type} ({self.graph}: {', '.join(self.nodes)})"


@dataclass(frozen=True)
class Attempt:
    """One try. ``fuel``: fused ops allowed, None: all; ``good``: whether the model was right; ``why``: what was wrong;
    ``ops``: the fused ops that were made, in order; ``seconds`` it took; ``log``: file with what it printed, if any."""

    fuel: int | None
    good: bool
    why: str = ""
    ops: tuple[MadeOp, ...] = ()
    seconds: float = 0.0
    log: str = ""


@dataclass(frozen=True)
class BisectResult:
    """``outcome``: "found"; "good": nothing is wrong; "not fusion": wrong without any fused op too; "flaky": two tries
    with the same fused ops differ. ``op``: what was found; ``why``: what is wrong with it. ``fuel``: the least number
    of fused ops that goes wrong. ``folder``: the reproduction, "" where there is none."""

    outcome: str
    attempts: tuple[Attempt, ...]
    op: MadeOp | None = None
    why: str = ""
    fuel: int | None = None
    folder: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return asdict(self)

    def __str__(self) -> str:
        tries = f"{len(self.attempts)} tries"
        if self.outcome == "good":
            return f"Nothing is wrong with all fused ops ({tries})."
        if self.outcome == "not fusion":
            return f"It is wrong without any fused op too: {self.why} ({tries}). Fusion is not the cause."
        if self.outcome == "flaky":
            return f"It is flaky: {self.why} ({tries}). What is found by bisecting would mean nothing."
        assert self.op is not None
        lines = [
            f"Found in {tries}: with {counted(self.fuel or 0, 'fused op')} it is wrong, "
            f"with {(self.fuel or 1) - 1} it is right.",
            f"op: {self.op.op_type}",
            f"graph: {self.op.graph}",
            f"nodes: {', '.join(self.op.nodes)}",
            f"what is wrong: {self.why}",
        ]
        return "\n".join([*lines, f"reproduction: {self.folder}"] if self.folder else lines)


Try = Callable[["int | None"], Attempt]


def search(attempt: Try, repeats: int = 2) -> BisectResult:
    """Tries with no fused op, with all, and then halves what lies between.

    ``repeats``: how often the tries are made that decide: those with all and, where it is wrong, with none, and at the
    end the two that differ by one op. Two of them that differ are flaky.
    """
    tried: list[Attempt] = []

    def make(fuel: int | None, times: int = 1) -> Attempt | BisectResult:
        first: Attempt | None = None
        for _ in range(times):
            made = attempt(fuel)
            before = next((a for a in tried if a.fuel == fuel), None)
            tried.append(made)
            if before is not None and before.good != made.good:
                bad = made if before.good else before
                allowed = "all fused ops" if fuel is None else counted(fuel, "fused op")
                why = f"with {allowed} it was right once and wrong once ({bad.why})"
                return BisectResult("flaky", tuple(tried), why=why)
            first = first or made
        assert first is not None
        return first

    none = make(0)
    if isinstance(none, Attempt) and not none.good and repeats > 1:
        none = make(0, repeats - 1)
    if isinstance(none, BisectResult):
        return none
    if not none.good:
        return BisectResult("not fusion", tuple(tried), why=none.why)
    full = make(None, repeats)
    if isinstance(full, BisectResult):
        return full
    if full.good:
        return BisectResult("good", tuple(tried))
    low, high = none, full
    while (count := _fuel(high)) - _fuel(low) > 1:
        middle = make((_fuel(low) + count) // 2)
        if isinstance(middle, BisectResult):
            return middle
        low, high = (middle, high) if middle.good else (low, middle)
    for end in (high, low):
        if end.fuel is not None and end.fuel > 0:
            again = make(end.fuel, repeats - 1) if repeats > 1 else end
            if isinstance(again, BisectResult):
                return again
    new = [op for op in high.ops if op not in low.ops]
    # what others compute again can change with one op less: the new one is the last
    op = new[-1] if new else high.ops[-1] if high.ops else None
    if op is None:
        return BisectResult("flaky", tuple(tried), why=f"it fails with fusion on, but no fused op is made: {high.why}")
    return BisectResult("found", tuple(tried), op, high.why, _fuel(high))


def _fuel(made: Attempt) -> int:
    return len(made.ops) if made.fuel is None else made.fuel
