"""The process of one probe: a wrong assumption may hang it, crash it or lose its device, and nothing else.

``python -m torchair_autofuse.probe.worker JOB EVENTS``: reads a pickled :class:`Job`, appends events to EVENTS as lines
of JSON, so that what was reached is known whatever happens next. Both files are of the process that starts it.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchair_autofuse.probe import frame
from torchair_autofuse.probe.check import differences
from torchair_autofuse.probe.device import Device, DeviceError, DeviceSpec, Source, Unavailable
from torchair_autofuse.probe.record import Case, Finding, Measure, nothing

Tell = Callable[..., None]
_FEW = 3  # launches of a case on the twin


@dataclass(frozen=True)
class Job:
    """``kind``: "describe", "kernel", "timing" or "check"; ``check``: what gives the findings, with its arguments."""

    kind: str
    device: DeviceSpec | None = None
    cases: tuple[Case, ...] = ()
    all_cores: bool = False
    measures: tuple[Measure, ...] = ()
    check: Callable[..., list[Finding]] | None = None
    arguments: tuple[Any, ...] = ()


def main(job_file: str, events_file: str) -> int:
    """Runs the job; always 0, unless the process does not get here."""
    job: Job = pickle.loads(Path(job_file).read_bytes())
    with open(events_file, "a", encoding="utf-8") as events:

        def tell(event: str, **more: Any) -> None:
            events.write(json.dumps({"event": event, **more}) + "\n")
            events.flush()
            os.fsync(events.fileno())

        try:
            _JOBS[job.kind](job, tell)
        except Unavailable as error:
            tell("unavailable", text=str(error))
        except DeviceError as error:
            tell("error", text=str(error))
        except Exception as error:
            tell("error", text=f"{type(error).__name__}: {error}")
        tell("done")
    return 0


def _opened(job: Job) -> Device:
    assert job.device is not None
    return job.device.open()


def _describe(job: Job, tell: Tell) -> None:
    from torchair_autofuse.probe.acl import Acl
    from torchair_autofuse.probe.npu import cann_of

    assert job.device is not None
    acl = Acl(cann_of(job.device.home).home)
    count = acl.device_count()
    if count == 0:
        raise Unavailable("the runtime sees no NPU")
    tell("device", count=count, soc=acl.open(job.device.index))


def _kernel(job: Job, tell: Tell) -> None:
    device = _opened(job)
    source = Source(frame.source_of(job.cases, all_cores=job.all_cores), frame.ENTRY, job.all_cores)
    for k, case in enumerate(job.cases):
        tell("start", name=case.name)
        launches = case.launches if device.npu else min(case.launches, _FEW)
        for launch in range(1, launches + 1):  # noqa: B007  the last one is told
            ran = device.run(
                source, [case.x, case.y], case.out, workspace=case.workspace, block_dim=case.blocks,
                tiling=frame.tiling(k, case.n, case.m),
            )  # fmt: skip
            found = differences(case, ran.out)
            if found.bad:
                break
        tell("case", name=case.name, launches=launch, **asdict(found))


def _timing(job: Job, tell: Tell) -> None:
    device = _opened(job)
    for measure in job.measures:
        tell("start", name=measure.name)
        x, out = np.ones(measure.x_elements, np.float32), np.zeros(measure.out_elements, np.float32)
        text = frame.source([measure.body], all_cores=measure.all_cores)
        source = Source(text, frame.ENTRY, measure.all_cores)
        seconds, blocks = [], []
        for p in measure.points:
            blocks.append(p.blocks or device.chip.vector_cores)
            ran = device.run(
                source,
                [x, nothing()],
                out,
                workspace=0,
                block_dim=blocks[-1],
                tiling=frame.tiling(0, p.n, p.m),
                count=p.count,
            )
            seconds.append(ran.seconds)
        tell("numbers", name=measure.name, rows=measure.numbers(tuple(seconds), tuple(blocks), device.chip))


def _check(job: Job, tell: Tell) -> None:
    assert job.check is not None
    for finding in job.check(*job.arguments):
        tell("finding", **asdict(finding))


_JOBS: dict[str, Callable[[Job, Tell], None]] = {
    "describe": _describe, "kernel": _kernel, "timing": _timing, "check": _check,
}  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
