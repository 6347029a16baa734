"""One try of a script, in a process of its own: ``python -m torchair_autofuse.trust.attempt PLAN.json``.

What it finds goes to the plan's ``log``, one JSON object per line as soon as it is known: a script that hangs or takes
the process down leaves what was known by then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchair_autofuse.script import execute
from torchair_autofuse.trust.fuel import Fuel
from torchair_autofuse.trust.search import MadeOp

if TYPE_CHECKING:
    from torchair_autofuse.trust.session import Session


@dataclass(frozen=True)
class Plan:
    """``fuel``: fused ops allowed, None: all. ``by``: "verify", "exit" or "check"; ``check``: an expression over the
    script's names, true when all is right; ``status``: the exit status that is right. ``calls``: of each graph
    that are compared. ``log``: the file to write. ``repro``: the folder to make for ``nodes`` of ``graph``, "" for
    none.
    """

    script: str
    args: tuple[str, ...]
    log: str
    fuel: int | None = None
    by: str = "verify"
    check: str = ""
    status: int = 0
    calls: int = 3
    repro: str = ""
    graph: str = ""
    nodes: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the plan; returns the script's exit status."""
    (path,) = sys.argv[1:] if argv is None else argv
    given: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    given.update((k, tuple(v)) for k, v in given.items() if isinstance(v, list))
    plan = Plan(**given)
    with open(plan.log, "a", encoding="utf-8") as log:
        return _run(plan, lambda **entry: print(json.dumps(entry), file=log, flush=True))


def _run(plan: Plan, tell: Any) -> int:
    wanted = (plan.graph, plan.nodes)

    def made(op: MadeOp, result: Any, index: int) -> None:
        tell(op=asdict(op))
        if plan.repro and (op.graph, op.nodes) == wanted:
            from torchair_autofuse.trust.repro import write_static

            write_static(Path(plan.repro), result, index)

    session = _session(plan)
    why = ""

    def judge(names: Mapping[str, Any]) -> None:
        nonlocal why
        try:
            good = bool(eval(plan.check, dict(names)))
        except Exception as error:
            why = f"the check fails: {type(error).__name__}: {error}"
        else:
            why = "" if good else "the check is not true"

    with ExitStack() as stack:
        stack.enter_context(Fuel(plan.fuel, made))
        if session is not None:
            stack.enter_context(session)
        status = execute(plan.script, plan.args, judge if plan.by == "check" else None)
    if session is not None:
        report = session.report()
        if plan.by == "verify" and report.graphs and not report.ok:
            print(report)
            why = report.difference()
        if plan.repro:
            found = session.inputs_of(*wanted)
            if found is not None:
                from torchair_autofuse.trust.repro import write_inputs

                write_inputs(Path(plan.repro), found)
    if status != plan.status:
        why = f"exit status {status}"
    tell(good=not why, why=why)
    return status


def _session(plan: Plan) -> Session | None:
    """What compares graphs and sees inputs, None where neither is wanted: a script need not use torch then."""
    if plan.by != "verify" and not plan.repro:
        return None
    from torchair_autofuse.trust.session import Session

    return Session(limit=plan.calls)


if __name__ == "__main__":
    import torchair_autofuse  # noqa: F401  (before the script imports torch)

    raise SystemExit(main())
