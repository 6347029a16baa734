"""Runs probes, each in a process of its own with a time limit, and makes results of what it told."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.messages import Reason
from torchair_autofuse.probe import record
from torchair_autofuse.probe.device import DeviceSpec
from torchair_autofuse.probe.record import Graph, Host, NoProbe, Probe, Result, Timing
from torchair_autofuse.probe.worker import Job
from torchair_autofuse.soc.chip import Chip, chip

Event = Mapping[str, Any]
_FIRST = 24  # differing elements kept per probe


@dataclass(frozen=True)
class Told:
    """What a worker said. ``end``: how it ended unless it was done: "no answer within 60 s" or "signal 11"."""

    events: tuple[Event, ...]
    end: str = ""

    def of(self, kind: str) -> list[Event]:
        return [e for e in self.events if e["event"] == kind]


@dataclass(frozen=True)
class Setting:
    """Where probes run: the device (None: there is none), CANN where it is installed, the limit of a probe."""

    device: DeviceSpec | None
    cann: Cann | None
    seconds: float
    why: str = ""  # why there is no device

    @property
    def chip(self) -> Chip | Reason:
        return chip(self.device.soc) if self.device is not None else Reason("AF306", "no device")


def ask(job: Job, seconds: float) -> Told:
    """Runs a job in a process of its own, which is ended with all it started after ``seconds``."""
    with tempfile.TemporaryDirectory(prefix="afprobe-") as folder:
        job_file, events_file = Path(folder) / "job", Path(folder) / "events"
        job_file.write_bytes(pickle.dumps(job))
        events_file.touch()
        command = [sys.executable, "-m", "torchair_autofuse.probe.worker", str(job_file), str(events_file)]
        with (
            open(Path(folder) / "errors", "w+", encoding="utf-8", errors="replace") as errors,
            subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True) as worker,
        ):
            try:
                status = worker.wait(seconds)
                end = "" if status == 0 else f"signal {-status}" if status < 0 else f"exit status {status}"
            except subprocess.TimeoutExpired:
                end = f"no answer within {seconds:g} s"
            finally:
                _end(worker)
            errors.seek(0)
            said = [line.strip() for line in errors.read().splitlines() if line.strip()]
        lines = events_file.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}")]
    if not end and not any(e["event"] == "done" for e in events):
        end = "it ended early"
    if end and said and "no answer" not in end:
        end += f" ({said[-1][:200]})"
    return Told(tuple(events), end)


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the group of a worker, compilers included."""
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def find_npu(cann: Cann, seconds: float) -> DeviceSpec | str:
    """The first NPU of this machine, or why there is none that can be used."""
    spec = DeviceSpec("npu", home=str(cann.home))
    told = ask(Job("describe", spec), seconds)
    found = told.of("device")
    if found and not told.end:
        return replace(spec, soc=str(found[0]["soc"]))
    problems = [*told.of("unavailable"), *told.of("error")]
    return str(problems[0]["text"]) if problems else f"asking for the device: {told.end}"


def run(probe: Probe, setting: Setting) -> Result:
    """The result of one probe."""
    start = time.monotonic()
    made = _run(probe, setting)
    return replace(made, seconds=round(time.monotonic() - start, 2))


def _run(probe: Probe, setting: Setting) -> Result:
    how = probe.how
    if isinstance(how, NoProbe):
        return _not_run(probe, how.why)
    if isinstance(how, Host):
        if setting.cann is None:
            return _not_run(probe, "needs CANN")
        soc = setting.device.soc if setting.device is not None and setting.device.kind == "npu" else ""
        if how.npu and not soc:
            return _not_run(probe, "needs an NPU")
        with tempfile.TemporaryDirectory(prefix="afprobe-") as folder:
            job = Job("check", check=how.check, arguments=(setting.cann, soc, Path(folder)))
            return _findings(probe, ask(job, setting.seconds))
    if setting.device is None:
        return _not_run(probe, setting.why)
    if isinstance(how, (Timing, Graph)) and setting.device.kind != "npu":
        return _not_run(probe, "needs an NPU")
    target = setting.chip
    if isinstance(target, Reason):
        return _not_run(probe, str(target))
    if target.npu_arch not in probe.archs:
        return _not_run(probe, f"for architecture {', '.join(map(str, probe.archs))} only")
    if isinstance(how, Graph):
        return _findings(probe, ask(Job("check", check=how.check, arguments=("npu",)), setting.seconds))
    if isinstance(how, Timing):
        return _numbers(probe, ask(Job("timing", setting.device, measures=how.measures), setting.seconds))
    job = Job("kernel", setting.device, how.cases(target), how.all_cores)
    return _cases(probe, len(job.cases), ask(job, setting.seconds))


def _not_run(probe: Probe, why: str) -> Result:
    return Result(probe.id, record.NOT_RUN, (why,))


def _stopped(told: Told) -> tuple[str, str] | None:
    """State and note when a worker did not get through."""
    started = told.of("start")
    where = f" in {started[-1]['name']!r}" if started else ""
    if told.end:
        return record.FAILED, f"{told.end}{where}; the process was ended"
    if told.of("error"):
        return record.FAILED, f"{told.of('error')[0]['text']}{where}"
    if told.of("unavailable"):
        return record.NOT_RUN, str(told.of("unavailable")[0]["text"])
    return None


def _cases(probe: Probe, count: int, told: Told) -> Result:
    notes, first, bad = [], [], 0
    for e in told.of("case"):
        if e["bad"]:
            bad += 1
            notes.append(f"{e['name']}: {e['bad']} of {e['size']} elements differ (launch {e['launches']})")
            first += e["first"]
    numbers = tuple(
        (f"{e['name']}: largest error", float(e["ulps"]), None, "ulp") for e in told.of("case") if e["ulps"] is not None
    )
    stop = _stopped(told)
    if stop is not None:
        state = record.DIFFERS if bad else stop[0]
        return Result(probe.id, state, (*notes, stop[1]), numbers, tuple(first[:_FIRST]))
    summary = f"{count - bad} of {count} cases hold"
    return Result(probe.id, record.DIFFERS if bad else record.HOLDS, (summary, *notes), numbers, tuple(first[:_FIRST]))


def _numbers(probe: Probe, told: Told) -> Result:
    rows = tuple((str(n), float(v), float(t), str(u)) for e in told.of("numbers") for n, v, t, u in e["rows"])
    stop = _stopped(told)
    if stop is not None:
        return Result(probe.id, stop[0], (stop[1],), rows)
    return Result(probe.id, record.MEASURED, (), rows)


def _findings(probe: Probe, told: Told) -> Result:
    found = told.of("finding")
    notes = tuple(f"{f['name']}: {f['text']}" for f in found)
    stop = _stopped(told)
    if stop is not None:
        return Result(probe.id, stop[0], (*notes, stop[1]))
    states = {f["ok"] for f in found}
    if False in states:
        return Result(probe.id, record.DIFFERS, notes)
    return Result(probe.id, record.HOLDS if True in states else record.NOT_RUN, notes)
