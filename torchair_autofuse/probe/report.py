"""The report of a run: Markdown for people, JSON for programs. It names no user, host or path."""

from __future__ import annotations

import getpass
import importlib.metadata
import json
import math
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.probe import record
from torchair_autofuse.probe.device import DeviceSpec
from torchair_autofuse.probe.record import Probe, Result

MARKDOWN, JSON = "probe-report.md", "probe-report.json"
_DRIVER = Path("/usr/local/Ascend/driver/version.info")
_PATH = re.compile(r"(?<![\w.:/])(?:/[\w.+@~-]+)+/(?=[\w.+@~-])")


def environment(device: DeviceSpec | None, cann: Cann | None, driver: Path = _DRIVER) -> dict[str, str]:
    """What results depend on."""
    made = {"plugin": _package("torchair_autofuse"), "device": "none", "SoC": "unknown"}
    if device is not None:
        made["device"] = "NPU" if device.kind == "npu" else "CPU twin"
        made["SoC"] = device.soc
    made["CANN"] = cann.text if cann is not None else "not installed"
    made["driver"] = _driver(driver)
    made |= {name: _package(name) for name in ("torch", "torch_npu")}
    return {**made, "python": platform.python_version(), "machine": platform.machine()}


def write(folder: Path, env: dict[str, str], probes: Sequence[Probe], results: Sequence[Result]) -> tuple[Path, Path]:
    """Writes both files into ``folder``, which is made, and returns their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {MARKDOWN: markdown(env, probes, results), JSON: as_json(env, probes, results)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / MARKDOWN, folder / JSON


def as_json(env: dict[str, str], probes: Sequence[Probe], results: Sequence[Result]) -> str:
    """``{"schema": 1, "environment": {...}, "results": [...]}``; a result has what Result has, and its assumption.

    A number that could not be measured is null.
    """
    rows = [
        {
            **asdict(r),
            "notes": [clean(n) for n in r.notes],
            "numbers": [[n, v if math.isfinite(v) else None, t, u] for n, v, t, u in r.numbers],
            "title": p.title,
            "assumed": p.assumed,
        }
        for p, r in zip(probes, results)
    ]
    return json.dumps({"schema": 1, "environment": env, "results": rows}, indent=1) + "\n"


def markdown(env: dict[str, str], probes: Sequence[Probe], results: Sequence[Result]) -> str:
    """Environment, one line per probe, then what differs and what was measured."""
    lines = ["# Probes of hardware assumptions", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in env.items()]
    if env["device"] == "CPU twin":
        lines += ["", "The twin implements the assumptions: this run checks the probes, not the hardware."]
    lines += ["", counts(results), "", "| id | assumption | result | notes |", "|---|---|---|---|"]
    for p, r in zip(probes, results):
        lines.append(f"| {p.id} | {p.title} | {r.state} | {_cell('; '.join(r.notes))} |")
    for p, r in zip(probes, results):
        if r.first:
            lines += ["", f"## {p.id} {r.state}: {p.assumed}", "", "| case | index | input | expected | got |"]
            lines += ["|---|---|---|---|---|"]
            lines += [
                "| " + " | ".join(_cell(e.get(k, "")) for k in ("case", "index", "input", "expected", "got")) + " |"
                for e in r.first
            ]
    if any(r.numbers for r in results):
        lines += ["", "## Measured", "", "| id | what | measured | table | unit |", "|---|---|---|---|---|"]
        for r in results:
            for name, value, table, unit in r.numbers:
                shown = "" if table is None else f"{table:.4g}"
                lines.append(f"| {r.id} | {_cell(name)} | {value:.4g} | {shown} | {unit} |")
    return "\n".join([*lines, ""])


def counts(results: Sequence[Result]) -> str:
    """Such as "3 hold, 1 differs, 2 not run"."""
    words = {record.HOLDS: "hold", record.DIFFERS: "differ"}
    states = (record.HOLDS, record.DIFFERS, record.FAILED, record.MEASURED, record.NOT_RUN)
    numbers = {s: sum(r.state == s for r in results) for s in states}
    return ", ".join(f"{n} {words.get(s, s)}" for s, n in numbers.items() if n)


def clean(text: str) -> str:
    """The text without folders, user name and host name."""
    text = _PATH.sub("", text)
    for name in {_user(), platform.node(), platform.node().split(".")[0]} - {""}:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "...", text)
    return text


def _cell(text: str) -> str:
    return clean(text).replace("|", "\\|").replace("\n", " ")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return ""


def _package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _driver(file: Path) -> str:
    try:
        found = re.search(r"^\s*Version\s*=\s*(\S+)", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1) if found else "unknown"
