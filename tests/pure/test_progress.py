"""Progress is for a person at a terminal: seen there while long work runs, and nowhere else."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from torchair_autofuse import progress
from torchair_autofuse.twin import build
from torchair_autofuse.twin.build import BuildJob, build_many
from torchair_autofuse.twin.errors import KernelBuildError


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """stderr is a terminal, nothing asks for silence, and nobody is patient."""
    stream = Terminal()
    monkeypatch.setattr(progress, "_stream", lambda: stream)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    for name in (progress.QUIET, "CI", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return stream


def shown(made: Any) -> None:
    """Waits until it is on the terminal."""
    made._timer.join(10)
    assert made._shown is not None


def test_seen_on_a_terminal_and_wiped(terminal: Terminal) -> None:
    with progress.steps("building kernels", 3) as made:
        shown(made)
        made.done()
        with progress.note("building the twin, once"):
            made._shown.refresh()
            assert "building kernels, building the twin, once" in terminal.getvalue()
        made.done()
        made._shown.refresh()
        assert "2/3" in terminal.getvalue()
    assert made._shown is None and progress._active == []
    assert terminal.getvalue().rstrip().endswith("\x1b[2K"), "its line is erased"


def test_a_note_alone(terminal: Terminal) -> None:
    with progress.note("building the twin, once"):
        shown(progress._active[0])
        assert "building the twin, once" in terminal.getvalue()
    assert progress._active == []


def test_work_that_is_over_at_once_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 60.0)
    with progress.steps("building kernels", 1) as made:
        made.done()
    assert terminal.getvalue() == "" and all(not t.name.startswith("Timer") or not t.is_alive() for t in _timers())


def _timers() -> list[threading.Thread]:
    found = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    for t in found:
        t.join(5)
    return found


def test_after_a_failure_nothing_is_left(terminal: Terminal) -> None:
    with pytest.raises(OSError, match="planted"), progress.steps("building kernels", 2) as made:
        shown(made)
        raise OSError("planted")
    assert progress._active == [] and made._shown is None


QUIET = [(progress.QUIET, "1"), ("CI", "true"), ("TERM", "dumb")]


@pytest.mark.parametrize("name, value", QUIET, ids=[n for n, _ in QUIET])
def test_silent_where_nobody_looks(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert progress.wanted()
    monkeypatch.setenv(name, value)
    assert not progress.wanted()
    with progress.steps("building kernels", 1) as made, progress.note("building the twin, once"):
        made.done()
    assert terminal.getvalue() == "" and progress._active == [] and made._timer is None


@pytest.mark.parametrize("stream", [io.StringIO(), None], ids=["pipe", "none"])
def test_silent_without_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    monkeypatch.setattr(progress, "_stream", lambda: stream)
    assert not progress.wanted()


def test_quiet_may_be_switched_off(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.QUIET, "0")
    assert progress.wanted()


def test_building_many_kernels_counts_each(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do not build are done too; results stay in their order."""
    counted: list[Any] = []

    def build_job(job: BuildJob, root: Path | None) -> Path:
        if job.entry == "k1":
            raise KernelBuildError("k1 did not build", "")
        return Path(job.entry)

    monkeypatch.setattr(build, "build_job", build_job)
    original = progress.Progress.done
    monkeypatch.setattr(progress.Progress, "done", lambda self: (counted.append(self._total), original(self)))
    found = build_many([BuildJob({}, f"k{i}") for i in range(3)])
    assert [type(f).__name__ for f in found] == ["PosixPath", "KernelBuildError", "PosixPath"]
    assert counted == [3, 3, 3] and progress._active == []
