"""Runs a script in a process of its own, where the import state matters."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run(script: str, *, path: Path | None = None, **variables: str) -> str:
    """The standard output of a Python script, which must succeed without a word on standard error.

    TORCH_DEVICE_BACKEND_AUTOLOAD and the project's variables are unset unless given; ``path`` goes onto sys.path.
    """
    inherited = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("TORCHAIR_AUTOFUSE_") and k != "TORCH_DEVICE_BACKEND_AUTOLOAD"
    }
    root = str(Path(__file__).parents[2])
    environment = {**inherited, "PYTHONPATH": os.pathsep.join([root, *([str(path)] if path else [])]), **variables}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
