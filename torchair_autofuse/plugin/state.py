"""What is kept per process: options given by calls, reports, listeners, and what was warned about already."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from torchair_autofuse.host import loader
from torchair_autofuse.messages import AutofuseWarning, Reason
from torchair_autofuse.options import Options, read_options
from torchair_autofuse.options.read import switched_off
from torchair_autofuse.options.scope import Change, within
from torchair_autofuse.report import FusionReport

_forced: Options | None = None
_imposed: list[Change] = []
_reports: list[FusionReport] = []
_listeners: list[Callable[[Any], None]] = []
_warned: set[str] = set()


def active_options() -> Options:
    """What holds for the next compile here: ``enable()``'s options, else the environment's, read afresh; as the scopes
    that are open change them (``torchair_autofuse.options``).

    GF_AUTOFUSION_DISABLE=1 in the environment keeps fusion off, whatever calls said.
    """
    options = within(read_options() if _forced is None else _forced)
    for change in _imposed:
        options = change(options)
    return options.replace(enabled=False) if options.enabled and switched_off() else options


def impose(change: Change) -> Callable[[], None]:
    """Changes what every compile of this process asks for, whatever calls and scopes say, until what is returned is
    called: for tools that look for a fused op."""
    _imposed.append(change)
    return lambda: _imposed.remove(change)


def enable(
    flags: str | Options | None = None,
    *,
    precision: str | None = None,
    soc: str | None = None,
    planner: str | None = None,
    max_fusions: int | None = None,
) -> None:
    """Turns fusion on for this process, whatever AUTOFUSE_FLAGS says.

    ``flags``: a flag string in the grammar of AUTOFUSE_FLAGS, or Options; None: the environment's. The keywords
    override single options. Raises ValueError naming the option that has a bad value.
    """
    global _forced
    if isinstance(flags, Options):
        options = flags
    else:
        options = read_options() if flags is None else Options.from_flags(flags)
    given = {"precision": precision, "soc": soc, "planner": planner, "max_fusions": max_fusions}
    _forced = options.switched_on().replace(**{k: v for k, v in given.items() if v is not None})
    loader.set_soc(_forced.soc)
    for reason in _forced.warnings:
        warn(reason)


def disable() -> None:
    """Turns fusion off for this process, whatever AUTOFUSE_FLAGS says; ``enable()`` turns it on again."""
    global _forced
    _forced = Options(enabled=False)
    loader.set_soc(None)


def reset() -> None:
    """Back to what the environment says."""
    global _forced
    _forced = None
    loader.set_soc(None)


def reports() -> list[FusionReport]:
    """One report per GE graph compiled with fusion on, oldest first."""
    return list(_reports)


def clear_reports() -> None:
    """Forgets all reports."""
    _reports.clear()


def add_report(report: FusionReport) -> None:
    """Keeps a report for ``reports()``."""
    _reports.append(report)


def notify(result: Any) -> None:
    """Tells the listeners of a graph that was fused."""
    for listener in _listeners:
        listener(result)


def on_fused(listener: Callable[[Any], None]) -> Callable[[], None]:
    """Calls ``listener`` with the pipeline's FusionResult of every graph fused from now on, until what is returned is
    called."""
    _listeners.append(listener)

    def stop() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return stop


def warn_of(options: Options) -> None:
    """Warns of what is wrong in the options."""
    for reason in options.warnings:
        warn(reason)


def warn(reason: Reason) -> None:
    """One warning per process and text, at the line of the user's script that led here."""
    text = str(reason)
    if text not in _warned:
        _warned.add(text)
        level = 2
        frame = sys._getframe()
        files = (getattr(sys.modules.get(name), "__file__", None) for name in ("torch", "torchair"))
        ours = (os.path.dirname(os.path.dirname(__file__)), *(os.path.dirname(f) for f in files if f))
        while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
            frame = frame.f_back
            level += 1
        warnings.warn(text, AutofuseWarning, stacklevel=level - 1)
