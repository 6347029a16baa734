"""``python -m torchair_autofuse bench``: takes the measures in ``benchmarks/`` and prints them as one set of tables."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
"""The checkout: the folder that holds the package and benchmarks/."""
_WIDTH = 150


def main(argv: Sequence[str]) -> int:
    """Runs the command; 0 on success, 1 when a measure failed, 2 for bad arguments or outside a checkout.

    A measure that this machine cannot take says so in its place and is no failure.
    """
    if not (ROOT / "benchmarks" / "__init__.py").is_file():
        print(
            f"bench: no folder benchmarks/ beside the package in {ROOT}. The measures and their graphs are not "
            "installed with it: run from a checkout of the repository (pip install -e .).",
            file=sys.stderr,
        )
        return 2
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    measures: dict[str, str] = importlib.import_module("benchmarks").MEASURES
    parser = _parser(measures)
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    console = Console(width=max(_WIDTH, Console().width) if args.width is None else args.width, highlight=False)
    settings = importlib.import_module("benchmarks.section").Settings(tuple(args.graph))
    found: dict[str, Any] = {}
    failed = False
    for name in [n for n in measures if not args.only or n in args.only]:
        found[name], ok = _take(name, measures[name], settings, console)
        failed |= not ok
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _parser(measures: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchair_autofuse bench",
        description="Take the measures of the folder benchmarks/ and print them as tables; several minutes as a whole.",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=list(measures), default=[], help="only these, of: %(choices)s"
    )
    parser.add_argument("--json", metavar="FILE", help="write the tables there too")
    parser.add_argument(
        "--graph", nargs="+", metavar="PART", default=[], help="graphs and models with this in their name"
    )
    parser.add_argument("--width", type=int, metavar="N", help=f"columns of the output (default: at least {_WIDTH})")
    return parser


def _take(name: str, module: str, settings: Any, console: Console) -> tuple[dict[str, Any], bool]:
    """One measure, printed; (its JSON form, whether it ran or said why it cannot)."""
    unavailable = importlib.import_module("benchmarks.section").Unavailable
    start = time.perf_counter()
    try:
        sections = importlib.import_module(module).run(settings)
    except unavailable as reason:
        console.print(f"\n{name}: not measured: {reason}", markup=False)
        return {"unavailable": str(reason)}, True
    except Exception as error:  # one measure must not take the others with it
        console.print(f"\n{name}: failed: {traceback.format_exc()}", markup=False)
        return {"failed": f"{type(error).__name__}: {error}"}, False
    for section in sections:
        section.print(console)
    seconds = round(time.perf_counter() - start, 2)
    console.print(f"  ({name}: {seconds} s)")
    return {"sections": [s.to_dict() for s in sections], "seconds": seconds}, True
