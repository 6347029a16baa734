"""Fusion reports as one HTML page without any reference to the outside: style, scripts and data are inline.

The files of ``page/`` are the parts; ``layout.js`` and ``search.js`` are pure functions, the others draw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from torchair_autofuse.messages import CODES, RULES
from torchair_autofuse.report.text import PREDICTED

if TYPE_CHECKING:
    from torchair_autofuse.report.report import FusionReport

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("layout.js", "search.js", "elements.js", "picture.js", "charts.js", "sections.js", "page.js")


def write(reports: Sequence[FusionReport], path: str | Path) -> None:
    """Writes :func:`render` to a file. Raises OSError when it cannot be written."""
    Path(path).write_text(render(reports), encoding="utf-8")


def render(reports: Sequence[FusionReport]) -> str:
    """The page of one report or several, as text. The same reports give the same text."""
    data = {
        "predicted": PREDICTED,
        "codes": {code: CODES[code] for code in sorted({r.code for report in reports for r in _reasons(report)})},
        "rules": RULES,
        "graphs": [_graph(report) for report in reports],
    }
    template = _environment().get_template("page.html")
    names = ", ".join(dict.fromkeys(r.graph_name for r in reports))
    title = f"Fusion of {names}" if names else "Fusion report"
    return template.render(
        title=title, style=_part("style.css"), scripts="\n".join(map(_part, SCRIPTS)), data=embed(data)
    )  # fmt: skip


def embed(data: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: no character of it ends the element or starts a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _graph(report: FusionReport) -> dict[str, Any]:
    data = report.to_dict()
    data["pictures"] = None if report.details is None else report.details.page(report)
    return data


def _reasons(report: FusionReport) -> list[Any]:
    rolled_back = [] if report.rolled_back is None else [report.rolled_back]
    return [*report.refused, *report.warnings, *rolled_back]


def _part(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(PAGE), autoescape=select_autoescape(), undefined=StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
