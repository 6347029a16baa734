"""What ``verify`` found: ``str(report)`` for people, ``to_dict`` for tools."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchair_autofuse.messages import counted
from torchair_autofuse.report import FusedOp
from torchair_autofuse.trust.check import OpCheck
from torchair_autofuse.trust.measure import TOLERANCES, Errors, OutputCheck, class_names

VERSION = 1  # of the dict form


@dataclass(frozen=True)
class GraphSummary:
    """One GE graph: ``fused`` ops in it, ``calls`` that were checked, ``failure`` of its run, "" if it ran;
    ``deterministic``: the same inputs gave the same bits in every run, None where it was run once; ``notes``: what
    could not be done, and why."""

    name: str
    fused: int
    calls: int
    ok: bool
    failure: str = ""
    deterministic: bool | None = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyReport:
    """Fused against unfused against f64.

    ``outputs``: of all graphs, and of inputs that they write into; ``ops``: every fused op by itself, in the order in
    which they run; ``where``: what ran the fused graphs; ``failure``: why the model did not run with fusion, "" if it
    did; ``notes``: what could not be done, and why.
    """

    outputs: tuple[OutputCheck, ...]
    ops: tuple[OpCheck, ...]
    graphs: tuple[GraphSummary, ...]
    where: str
    failure: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything that was compared is right, and at least one graph was."""
        return bool(self.graphs) and not self.failure and all(g.ok for g in self.graphs)

    @property
    def first_bad(self) -> FusedOp | None:
        """The first fused op that fails or differs from its own nodes on the inputs it gets; None if none does."""
        return next((check.op for check in self.ops if not check.ok), None)

    @property
    def deterministic(self) -> bool | None:
        """Whether repeated runs gave the same bits; None where none was made, as on a device."""
        known = [g.deterministic for g in self.graphs if g.deterministic is not None]
        return all(known) if known or not self.graphs else None

    def difference(self) -> str:
        """What is wrong, in one line; "" if nothing is."""
        if self.ok:
            return ""
        wrong = [o for o in self.outputs if not o.ok]
        ops = [c for c in self.ops if not c.ok]
        if self.failure:
            return self.failure
        if ops and ops[0].failure:
            return f"{ops[0].op.op_type} fails: {ops[0].failure.splitlines()[0]}"
        if wrong:
            return f"{wrong[0].name}: {wrong[0].bad} of {wrong[0].size} values differ, {wrong[0].first}"
        if ops:
            bad = next(o for o in ops[0].outputs if not o.ok)
            return f"{ops[0].op.op_type} differs from its nodes: {bad.bad} of {bad.size} values, {bad.first}"
        if not self.graphs:
            return "no GE graph was compiled"
        failed = next((f"{g.name} does not run: {g.failure}" for g in self.graphs if g.failure), "")
        return failed or "repeated runs give other bits"

    def to_dict(self) -> dict[str, Any]:
        """Dicts, lists, strings and numbers only: ready for ``json.dumps``."""
        bad = self.first_bad
        return {
            "version": VERSION,
            "ok": self.ok,
            "where": self.where,
            "failure": self.failure,
            "deterministic": self.deterministic,
            "tolerances": list(TOLERANCES),
            "first_bad": None if bad is None else {"op_type": bad.op_type, "nodes": list(bad.nodes)},
            "graphs": [vars(g) | {"notes": list(g.notes)} for g in self.graphs],
            "outputs": [o.to_dict() for o in self.outputs],
            "ops": [o.to_dict() for o in self.ops],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join(_render(self))


_WIDTH = 120
_ROWS = 24  # outputs that are printed; wrong ones always are


def _render(report: VerifyReport) -> list[str]:
    graphs, calls = len(report.graphs), sum(g.calls for g in report.graphs)
    counts = f"{counted(graphs, 'graph')}, {counted(calls, 'call')}, {counted(len(report.outputs), 'output')}"
    state = "ok" if report.ok else "DIFFERENT" if graphs and not _failures(report) else "FAILED"
    lines = [f"Verification: {state} ({counts}, {counted(len(report.ops), 'fused op')}; {report.where})"]
    if not graphs:
        lines.append("No GE graph was compiled and run with fusion on: nothing was compared.")
    lines += _failures(report)
    if report.outputs:
        lines += ["", *_table(report.outputs)]
    lines += ["", *_ops(report.ops)] if report.ops else []
    if graphs:
        lines += ["", _repeats(report)]
        lines += ["", "An element is right if one of these holds:", *_wrapped(TOLERANCES)]
    notes = [*report.notes, *(f"{g.name}: {n}" for g in report.graphs for n in g.notes)]
    lines += ["", "Notes:", *_wrapped(notes)] if notes else []
    return lines


def _repeats(report: VerifyReport) -> str:
    if report.deterministic is None:
        return "No graph was run again on the same inputs: whether it gives the same bits is not known."
    unsteady = ", ".join(g.name for g in report.graphs if g.deterministic is False)
    bits = f"OTHER BITS ({unsteady})" if unsteady else "the same bits"
    return f"Repeated runs on the same inputs gave {bits}."


def _failures(report: VerifyReport) -> list[str]:
    found = [f"It did not run with fusion on: {report.failure}"] if report.failure else []
    return found + [f"{g.name} did not run: {g.failure}" for g in report.graphs if g.failure]


def _table(outputs: Sequence[OutputCheck]) -> list[str]:
    outputs, left = _shown(outputs)
    head = ("output", "", "fused : unfused", "", "", "fused : f64", "", "unfused : f64", "", "")
    second = ("", "", "max abs", "max rel", "ulp", "max abs", "ulp", "max abs", "ulp", "")
    rows = [head, second]
    for o in outputs:
        size = ",".join(map(str, o.shape))
        between = (_number(o.between.max_abs), _number(o.between.max_rel), _number(o.between.max_ulp))
        state = f"{o.bad} WRONG" if not o.ok else f"ok, {o.spared} by rounding" if o.spared else "ok"
        rows.append((o.name, f"{o.dtype}[{size}]", *between, *_pair(o.fused), *_pair(o.unfused), state))
    lines = _aligned(rows)
    lines.insert(2, "-" * min(_WIDTH, max(map(len, lines))))
    lines += [f"and {left} more, all ok"] if left else []
    for o in outputs:
        if o.first is not None:
            lines.append(f"{o.name}: first wrong element {o.first}")
    return [*lines, "", *_histograms(outputs), *_eager(outputs)]


def _shown(outputs: Sequence[OutputCheck]) -> tuple[list[OutputCheck], int]:
    """Those to print, and how many others there are: the wrong ones and those that differ most."""
    if len(outputs) <= _ROWS:
        return list(outputs), 0
    ranked = sorted(range(len(outputs)), key=lambda i: (outputs[i].ok, -outputs[i].between.max_rel, i))
    wrong = sum(not o.ok for o in outputs)
    chosen = sorted(ranked[: max(_ROWS, wrong)])
    return [outputs[i] for i in chosen], len(outputs) - len(chosen)


def _histograms(outputs: Sequence[OutputCheck]) -> list[str]:
    """Elements by the error of the fused and of the unfused graph."""
    rows: list[tuple[str, ...]] = [("elements by ulp", "against", *class_names(), "NaN, inf")]
    for o in outputs:
        sides = [("f64, fused", o.fused), ("f64, unfused", o.unfused)]
        for text, side in sides if o.fused is not None else [("unfused", o.between)]:
            if side is not None:
                rows.append((o.name, text, *(str(c) if c else "." for c in side.histogram), str(side.special or ".")))
    return _aligned(rows)


def _eager(outputs: Sequence[OutputCheck]) -> list[str]:
    known = [(o.name, o.eager) for o in outputs if o.eager is not None]
    if not known:
        return []
    text = ", ".join(f"{name} {_number(e.max_abs)} ({_number(e.max_rel)})" for name, e in known)
    said = f"Fused against eager, which may mean something else and does not count; max abs (max rel): {text}"
    return ["", *textwrap.wrap(said, _WIDTH)]


def _ops(checks: Sequence[OpCheck]) -> list[str]:
    """The fused ops that are wrong, one by one, and how many are right."""
    bad = [c for c in checks if not c.ok]
    compared = sum(1 for c in checks if c.calls and not c.missing)
    lines = [f"Fused ops on the inputs they get, against their own nodes: {compared} compared, {len(bad)} wrong."]
    for i, check in enumerate(bad):
        first = "First bad" if not i else "Also bad"
        lines.append(f"{first}: {check.op.op_type} ({check.graph}, {check.op.template})")
        lines.append(f"  nodes: {', '.join(check.op.nodes)}")
        if check.failure:
            lines.append(f"  fails: {check.failure}")
        for o in check.outputs:
            if not o.ok:
                lines.append(f"  {o.name}: {o.bad} of {o.size} wrong, max abs {_number(o.between.max_abs)}; {o.first}")
    return lines


def _pair(errors: Errors | None) -> tuple[str, str]:
    return ("?", "?") if errors is None else (_number(errors.max_abs), _number(errors.max_ulp))


def _wrapped(texts: Sequence[str]) -> list[str]:
    return [line for t in texts for line in textwrap.wrap(t, _WIDTH, initial_indent="  ", subsequent_indent="    ")]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns, the first two to the left and the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]
