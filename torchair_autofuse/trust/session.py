"""Checks the graphs of whatever runs inside it: a model that ``verify`` calls, or a whole script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from torchair_autofuse.host import loader
from torchair_autofuse.trust.check import GraphCheck
from torchair_autofuse.trust.measure import OutputCheck
from torchair_autofuse.trust.record import Call, Recorder
from torchair_autofuse.trust.report import GraphSummary, VerifyReport

DEVICE_NOTE = (
    "graphs were compiled for a device, where the values inside them cannot be read: fused ops were not compared one "
    "by one, and bisect finds one that is wrong"
)

UnfusedOutputs = Callable[[Call], "Sequence[torch.Tensor] | None"]


class Session:
    """A context manager that compares the first ``limit`` calls of every graph that is compiled in it (None: all).

    ``repeats``: runs of a fused graph on the same inputs. ``unfused``: gives what the unfused graph left for a call,
    outputs and then inputs, or None where the host executor is to run it.
    """

    def __init__(self, limit: int | None = None, repeats: int = 2, unfused: UnfusedOutputs | None = None) -> None:
        self.recorder = Recorder(self._on_call, limit)
        self.inside = reads_inside()
        self._repeats, self._unfused = repeats, unfused
        self._checks: dict[int, GraphCheck] = {}

    def __enter__(self) -> Session:
        self.recorder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.recorder.__exit__(*error)

    @property
    def checks(self) -> list[GraphCheck]:
        """Of the graphs that were run, in the order in which they first were."""
        return list(self._checks.values())

    def inputs_of(self, graph: str, nodes: Sequence[str]) -> tuple[torch.Tensor, ...] | None:
        """Inputs of the fused op that replaces ``nodes`` in ``graph``, None where it was not run or cannot be seen."""
        for check in self.checks:
            for op in check.ops:
                if (op.graph, op.op.nodes) == (graph, tuple(nodes)):
                    return check.parts_of(op.node)[1] or None
        return None

    def _on_call(self, call: Call) -> None:
        check = self._checks.get(id(call.graph))
        if check is None:
            check = self._checks[id(call.graph)] = GraphCheck(call.graph, self._repeats, self.inside)
        check.add(call, None if self._unfused is None else self._unfused(call))

    def report(
        self,
        names: dict[str, str] | None = None,
        failure: str = "",
        notes: Sequence[str] = (),
        outputs: Callable[[OutputCheck], OutputCheck] | None = None,
    ) -> VerifyReport:
        """The report so far. ``names``: other names of outputs; ``outputs``: what else is to be known of one."""
        checks = self.checks
        found = [o if outputs is None else outputs(o) for check in checks for o in check.outputs.values()]
        renamed = tuple(replace(o, name=(names or {}).get(o.name, o.name)) for o in found)
        graphs = tuple(
            GraphSummary(c.record.name, _fused(c), c.calls, c.ok, c.failure, self._steady(c), tuple(c.notes))
            for c in checks
        )
        return VerifyReport(
            renamed,
            tuple(op for check in checks for op in check.ops),
            graphs,
            self._where(),
            failure,
            (*notes, *self._notes()),
        )

    def _steady(self, check: GraphCheck) -> bool | None:
        return check.deterministic if self.inside else None

    def _where(self) -> str:
        socs = dict.fromkeys(c.record.report.soc for c in self.checks if c.record.report is not None)
        place = "on the CPU twin of" if self.inside else "on a device,"
        return f"{place} {', '.join(socs) or 'no chip'}"

    def _notes(self) -> list[str]:
        found = [] if self.inside or not self.checks else [DEVICE_NOTE]
        for check in self.checks:
            report = check.record.report
            if report is None:
                found.append(f"{check.record.name} was compiled with fusion off")
            elif report.rolled_back is not None:
                found.append(f"{check.record.name} runs unfused: {report.rolled_back}")
        if self.checks and not any(_fused(c) for c in self.checks):
            found.append("there is no fused op in any graph: fused and unfused are the same")
        return found


def reads_inside() -> bool:
    """Whether the values inside the graphs that run here can be read: on the host, not on a device."""
    return not loader.cann_present()


def _fused(check: GraphCheck) -> int:
    result = check.record.result
    return 0 if result is None else len(result.generated)
