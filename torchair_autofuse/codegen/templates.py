"""The Jinja2 templates in op_templates/."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import jinja2


def resource(folder: str) -> Path:
    """``op_templates`` or ``proto``: beside the package in a checkout, inside it when installed from a wheel."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package.parent / folder, package / "_resources" / folder):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{folder}: neither beside nor inside the package; reinstall torchair_autofuse")


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Undefined names are errors; nothing is escaped (the output is C++)."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource("op_templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(name: str, **context: object) -> str:
    """The text of template ``name``, without runs of blank lines."""
    text = environment().get_template(name).render(**context)
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() or (lines and lines[-1].strip()):
            lines.append(line.rstrip())
    return "\n".join(lines).rstrip() + "\n"
