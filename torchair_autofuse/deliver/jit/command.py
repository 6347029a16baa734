"""Runs the programs of a build, with a log of what was run and what it said."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT = 1800  # seconds; a kernel takes a few
_LINES = 6  # of a compiler's output in a message


class BuildFailed(Exception):
    """A command that failed: the gist of what it said."""


class MissingTool(BuildFailed):
    """A program that a build needs is not there."""


def run(commands: Sequence[Sequence[str]], work: Path, log: Path, extra: Mapping[str, str] | None = None) -> None:
    """Runs ``commands`` in ``work`` one after the other, until one fails, and writes ``log``.

    ``extra``: additional environment. Raises BuildFailed with the first lines that name an error.
    """
    text = ""
    problem = None
    for command in commands:
        text += f"$ {shlex.join(command)}\n"
        try:
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT,
                env={**os.environ, **(extra or {})},
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            text += f"{error}\n"
            problem = f"{command[0]}: {error}"
            break
        text += done.stdout + done.stderr
        if done.returncode != 0:
            problem = f"{Path(command[0]).name}: {gist((done.stderr or done.stdout).replace(f'{work}/', ''))}"
            break
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8")
    if problem is not None:
        raise BuildFailed(problem)


def gist(text: str) -> str:
    """The first lines of a program's output that name an error, else the first lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower()] or lines
    return "; ".join(told[:_LINES]) or "it failed without a word"
