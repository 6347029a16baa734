"""Tries of a script, each in a process of its own with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from torchair_autofuse.trust.attempt import Plan
from torchair_autofuse.trust.search import Attempt, MadeOp

LEAST_SECONDS = 60.0
PATIENCE = 10
"""Where no time limit is given, a try may take so many times what the try without fused ops took, and at least
``LEAST_SECONDS``. That one has no limit."""


class Tries:
    """Makes tries of a script, numbered; logs go to ``folder``. ``limit``: seconds of one, None: see ``PATIENCE``."""

    def __init__(self, plan: Plan, folder: Path, limit: float | None = None) -> None:
        self._plan, self._folder, self._limit = plan, folder, limit
        self._count = 0
        self._measured: float | None = None  # seconds of the try without fused ops, which search makes first

    def __call__(self, fuel: int | None, **changes: object) -> Attempt:
        """One try. ``changes``: fields of the plan that differ."""
        self._count += 1
        stem = f"{self._count:02d}_{'all' if fuel is None else fuel}"
        log, text = self._folder / f"{stem}.jsonl", self._folder / f"{stem}.txt"
        plan = replace(self._plan, fuel=fuel, log=str(log), **changes)  # type: ignore[arg-type]
        path = self._folder / f"{stem}.json"
        path.write_text(plan.to_json() + "\n", encoding="utf-8")
        log.write_text("", encoding="utf-8")
        start = time.monotonic()
        with text.open("wb") as printed:
            ended = _run([sys.executable, "-m", "torchair_autofuse.trust.attempt", str(path)], printed, self._seconds())
        seconds = time.monotonic() - start
        entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines(True) if line[-1] == "\n"]
        ops = tuple(MadeOp(e["op"]["graph"], e["op"]["op_type"], tuple(e["op"]["nodes"])) for e in entries if "op" in e)
        verdict = next((e for e in entries if "good" in e), None)
        if ended is None:
            why = f"it hangs: no end after {seconds:.0f} s"
        elif verdict is not None:
            why = str(verdict["why"])
        elif ended < 0:
            name = next((s.name for s in signal.Signals if s == -ended), str(-ended))  # most realtime ones have none
            why = f"the process was ended by signal {name}"
        elif ended == self._plan.status and self._plan.by == "exit":
            why = ""  # os._exit in the script
        else:
            why = f"the process ended before the script did, exit status {ended}"
        if fuel == 0 and self._measured is None:
            self._measured = seconds
        return Attempt(fuel, not why, why, ops, seconds, str(text))

    def _seconds(self) -> float | None:
        if self._limit is not None:
            return self._limit
        return None if self._measured is None else max(LEAST_SECONDS, PATIENCE * self._measured)


def _run(command: list[str], printed: object, seconds: float | None) -> int | None:
    """The exit status of a process, None when it had to be ended: it, and what it started."""
    environ = dict(os.environ)
    root = str(Path(__file__).parents[2])  # this package, wherever the child would find another
    environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,  # type: ignore[call-overload]
        env=environ, start_new_session=True,
    )  # fmt: skip
    try:
        return int(process.wait(seconds))
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # a session of its own: nobody else is in the group
            process.wait()
