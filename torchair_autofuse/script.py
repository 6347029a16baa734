"""Runs a user's script as ``python script args`` would, for the commands that take one."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

ALL_PASSES = "--enable_autofuse=true;--autofuse_enable_pass=all"

Then = Callable[[Mapping[str, Any]], None]


def add_rest(parser: argparse.ArgumentParser) -> None:
    """``args``: all that follows the script, which are the script's own arguments."""
    rest = parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments for the script")
    rest.required = False  # else an error about a missing script asks for them too


def flags() -> str:
    """AUTOFUSE_FLAGS as the user set it, else every pass, and says so."""
    given = os.environ.get("AUTOFUSE_FLAGS")
    if given:
        return given
    print(f'AUTOFUSE_FLAGS is not set: running with AUTOFUSE_FLAGS="{ALL_PASSES}"', flush=True)
    return ALL_PASSES


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Environment variables for the time of a script."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def execute(script: str, args: Sequence[str], then: Then | None = None) -> int:
    """Runs a script; returns its exit status, 1 after an exception.

    ``then`` is called with the script's global names when it has ended, by its end or by ``sys.exit``, but not after
    another exception.
    """
    before = sys.argv[:], sys.path[:]
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        names = runpy.run_path(script, run_name="__main__")
        if then is not None:
            then(names)
    except SystemExit as stop:
        if then is not None:
            then(_globals(stop.__traceback__, script))
        if isinstance(stop.code, int) or stop.code is None:
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except Exception as error:
        _print_error(error)
        return 1
    finally:
        sys.argv, sys.path = before
    return 0


def _globals(frames: TracebackType | None, script: str) -> Mapping[str, Any]:
    """The global names of a script that ended in an exception, from the exception's frames."""
    while frames is not None:
        if frames.tb_frame.f_code.co_filename == script:
            return frames.tb_frame.f_globals
        frames = frames.tb_next
    return {}


def _print_error(error: Exception) -> None:
    """The traceback without the frames that started the script: what ``python script`` prints."""
    frames = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    sys.stdout.flush()
    traceback.print_exception(type(error), error, frames)
