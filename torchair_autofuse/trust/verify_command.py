"""``python -m torchair_autofuse verify``: every graph of a script fused, unfused and in f64, on its own inputs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from torchair_autofuse.script import add_rest, execute, flags, variables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command; its own come before the script."""
    parser.add_argument("--calls", type=_count, default=3, metavar="N", help="calls of each graph to check (default 3)")
    parser.add_argument(
        "--repeats", type=_count, default=2, metavar="N", help="runs that must agree bit for bit (default 2)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON too")
    parser.add_argument("script", help="a Python script that compiles with torchair.get_npu_backend")
    add_rest(parser)


def main(options: argparse.Namespace) -> int:
    """Returns 0 when all is right, 1 on a difference or when nothing was compared, else the script's exit status."""
    if not Path(options.script).is_file():
        print(f"torchair_autofuse: {options.script}: no such script", file=sys.stderr)
        return 2
    if options.json is not None and not Path(options.json).resolve().parent.is_dir():
        print(f"torchair_autofuse: {options.json}: there is no folder for it", file=sys.stderr)
        return 2
    from torchair_autofuse.trust.session import Session

    session = Session(limit=options.calls, repeats=options.repeats)
    with variables(AUTOFUSE_FLAGS=flags()), session:
        status = execute(options.script, options.args)
    report = session.report()
    print(f"\n{report}")
    if status:
        print(f"\nThe script ended with exit status {status}.")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    return status if report.ok else status or 1


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)
