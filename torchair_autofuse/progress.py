"""Progress of long work on a terminal: on stderr, and only where a person looks at it.

Nothing is shown where stderr is no terminal, in CI, with ``TORCHAIR_AUTOFUSE_QUIET=1``, or for work that is over at
once. What is shown is wiped when the work ends.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

QUIET = "TORCHAIR_AUTOFUSE_QUIET"
_PATIENCE = 0.4  # seconds of work before something is shown: kernels found in the cache take less

_active: list[Progress] = []  # innermost last; steps may run in threads of their own


def wanted() -> bool:
    """Whether progress is to be shown: a person sits at a terminal and has not asked for silence."""
    if os.environ.get(QUIET, "").strip() not in ("", "0") or os.environ.get("CI"):
        return False
    stream = _stream()
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") != "dumb"


def _stream() -> Any:
    return sys.stderr  # None where a process has none


class Progress:
    """Steps of one piece of work, counted from any thread. Made by :func:`steps`."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._shown: Any = None
        self._task: Any = None
        self._timer: threading.Timer | None = None

    def done(self) -> None:
        """One more step is done."""
        with self._lock:
            self._done += 1
            self._update()

    @contextmanager
    def note(self, text: str) -> Iterator[None]:
        """Says what else goes on, such as work that is done once, while it does."""
        with self._lock:
            self._notes.append(text)
            self._update()
        try:
            yield
        finally:
            with self._lock:
                self._notes.remove(text)
                self._update()

    def _start(self) -> None:
        self._timer = threading.Timer(_PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with self._lock:
            if self._timer is None:  # over in the meantime
                return
            # the streams of the user's script stay as they are
            self._shown = Bars(
                *columns, console=Console(file=_stream()), transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self._shown.add_task(self._text(), total=self._total, completed=self._done)
            self._shown.start()

    def _stop(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._shown is not None:
                self._shown.stop()
                self._shown = None

    def _text(self) -> str:
        return ", ".join([self._what, *self._notes[:1]])

    def _update(self) -> None:
        if self._shown is not None:
            self._shown.update(self._task, description=self._text(), completed=self._done)


@contextmanager
def steps(what: str, total: int) -> Iterator[Progress]:
    """Shows that ``total`` steps of ``what`` are being done, while they are. Work inside such work adds notes to it."""
    made = Progress(what, total)
    if _active or not wanted():
        yield made
        return
    _active.append(made)
    made._start()
    try:
        yield made
    finally:
        _active.remove(made)
        made._stop()


@contextmanager
def note(text: str) -> Iterator[None]:
    """Says that ``text`` goes on: beside the steps that are shown, else by itself."""
    if _active:
        with _active[-1].note(text):
            yield
    else:
        with steps(text, 1):
            yield
