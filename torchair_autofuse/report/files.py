"""Reports in a JSON file, as ``run --json`` and ``explain --json`` write it and ``diff`` reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from torchair_autofuse.report.report import READABLE, VERSION, FusionReport


def save(reports: Sequence[FusionReport], path: str | Path) -> None:
    """Writes ``{"version": ..., "reports": [...]}``. Raises OSError when the file cannot be written."""
    data = {"version": VERSION, "reports": [r.to_dict() for r in reports]}
    Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def load(path: str | Path) -> list[FusionReport]:
    """The reports of a file that ``save`` wrote, or the one report whose ``to_dict`` it holds (as fusion.json does).

    Raises OSError for a file that cannot be read and ValueError for one that holds something else.
    """
    file = Path(path)
    if file.exists() and not file.is_file():  # a pipe that nobody writes to would be waited for without end
        raise ValueError("is no regular file")
    data = json.loads(file.read_text(encoding="utf-8"))  # its errors are ValueErrors
    if not isinstance(data, dict) or "reports" not in data:
        return [FusionReport.from_dict(data)]
    if data.get("version") not in READABLE or not isinstance(data["reports"], list):
        version = data.get("version")
        raise ValueError(f"not a list of fusion reports of version {VERSION} or before: version is {version!r}")
    return [FusionReport.from_dict(report) for report in data["reports"]]
