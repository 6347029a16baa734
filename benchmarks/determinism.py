"""Whether two processes with different hash seeds make the same ops and the same kernels, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import graphs
from benchmarks.section import Section, Settings

SEEDS = ("0", "4242")
_ROOT = Path(__file__).resolve().parent.parent


def run(settings: Settings) -> list[Section]:
    """One row per static graph: the number of ops, and whether both processes agree."""
    names = [name for name in graphs.names("static") if settings.wants(name)]
    first, second = (digests(names, seed) for seed in SEEDS)
    rows = [
        (name, first[name][0], first[name][1][:12], second[name][1][:12], first[name] == second[name]) for name in names
    ]
    different = [row[0] for row in rows if not row[4]]
    notes = (f"{len(names) - len(different)} of {len(names)} are the same with PYTHONHASHSEED={' and '.join(SEEDS)}",)
    shown = [row for row in rows if not row[4]] or [("all", sum(row[1] for row in rows), "", "", True)]
    title = "Op types, kernels and rewritten graphs of two processes"
    return [Section(title, ("graph", "ops", "first", "second", "same"), tuple(shown), notes)]


def digests(names: Sequence[str], seed: str) -> dict[str, tuple[int, str]]:
    """Graph name -> (number of fused ops, digest of them), from a process of its own with this PYTHONHASHSEED.

    Raises RuntimeError with the process's own words when it fails.
    """
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-m", "benchmarks.determinism", *names]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:3])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return {name: (count, digest) for name, (count, digest) in json.loads(done.stdout).items()}


def digest(name: str) -> tuple[int, str]:
    """The number of fused ops of a captured graph, and a digest of types, loop IR, kernels and the rewritten graph."""
    from benchmarks.captured import case
    from torchair_autofuse.loop.printer import to_text

    result = case(name).result
    state = hashlib.sha256(result.model_def.SerializeToString(deterministic=True))
    for made in result.generated:
        for text in (made.op_type, to_text(made.lowered.kernel), repr(made.text)):
            state.update(text.encode() + b"\0")
    return len(result.generated), state.hexdigest()


if __name__ == "__main__":
    json.dump({name: digest(name) for name in sys.argv[1:]}, sys.stdout)
