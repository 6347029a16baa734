"""``python -m torchair_autofuse bisect``: finds the one fused op that makes a script wrong or fail."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from torchair_autofuse.script import add_rest, flags, variables
from torchair_autofuse.trust.attempt import Plan
from torchair_autofuse.trust.bisect import empty_folder
from torchair_autofuse.trust.repro import write_readme
from torchair_autofuse.trust.search import Attempt, BisectResult, search
from torchair_autofuse.trust.tries import Tries

FOUND, GOOD, USAGE, NOT_FUSION, FLAKY = 1, 0, 2, 3, 4
"""Exit codes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command; its own come before the script."""
    by = parser.add_mutually_exclusive_group()
    by.add_argument("--check", metavar="EXPR", help="right if this is true of the script's global names at its end")
    by.add_argument("--expect-exit", action="store_true", help="the exit status alone decides; graphs are not compared")
    parser.add_argument("--status", type=int, default=0, metavar="N", help="the exit status that is right (default 0)")
    parser.add_argument(
        "--out",
        default="autofuse_bisect",
        metavar="DIR",
        help="new folder for logs and the reproduction (default: autofuse_bisect)",
    )
    parser.add_argument("--timeout", type=_seconds, metavar="S", help="seconds of one try, after which it hangs "
                        "(default: ten times the try without fused ops, at least 60)")  # fmt: skip
    parser.add_argument(
        "--repeats", type=int, default=2, metavar="N", help="how often deciding tries are made (default 2)"
    )
    parser.add_argument(
        "--calls", type=int, default=3, metavar="N", help="calls of each graph that are compared (default 3)"
    )
    parser.add_argument("script", help="a Python script that compiles with torchair.get_npu_backend")
    add_rest(parser)


def main(options: argparse.Namespace) -> int:
    """Returns 1 when an op was found, 0 when nothing is wrong, 3 when fusion is not the cause, 4 when it is flaky."""
    try:
        if not Path(options.script).is_file():
            raise ValueError(f"{options.script}: no such script")
        if options.repeats < 1 or options.calls < 1:
            raise ValueError("--repeats and --calls take a number of at least 1")
        if options.check is not None:
            compile(options.check, "--check", "eval")
        folder = empty_folder(Path(options.out).absolute())
    except SyntaxError as error:
        print(f"torchair_autofuse: bisect: --check is no expression: {error.msg}: {options.check!r}", file=sys.stderr)
        return USAGE
    except (ValueError, OSError) as error:
        print(f"torchair_autofuse: bisect: {error}", file=sys.stderr)
        return USAGE
    by = "check" if options.check is not None else "exit" if options.expect_exit else "verify"
    plan = Plan(
        options.script, tuple(options.args), "", by=by, check=options.check or "", calls=options.calls,
        status=options.status,
    )  # fmt: skip
    (folder / "tries").mkdir()
    tries = Tries(plan, folder / "tries", options.timeout)
    with variables(AUTOFUSE_FLAGS=flags()):
        result = _search(tries, options.repeats)
        if result.op is not None:
            result = _reproduce(tries, result, folder, options)
    (folder / "bisect.json").write_text(json.dumps(result.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(f"\n{result}\nlogs of the tries: {folder / 'tries'}")
    return {"found": FOUND, "good": GOOD, "not fusion": NOT_FUSION, "flaky": FLAKY}[result.outcome]


def _search(tries: Tries, repeats: int) -> BisectResult:
    def attempt(fuel: int | None) -> Attempt:
        made = tries(fuel)
        _say(made)
        return made

    return search(attempt, repeats)


def _say(made: Attempt) -> None:
    allowed = f"all {len(made.ops)}" if made.fuel is None else str(made.fuel)
    ops = "fused op" if allowed.split()[-1] == "1" else "fused ops"
    print(f"{allowed} {ops}: {'right' if made.good else made.why} ({made.seconds:.1f} s)", flush=True)


def _reproduce(tries: Tries, result: BisectResult, folder: Path, options: argparse.Namespace) -> BisectResult:
    """Runs the script once more with the op, and has it leave the folder."""
    op = result.op
    assert op is not None
    place = folder / "repro"
    tries(result.fuel, repro=str(place), graph=op.graph, nodes=op.nodes)
    if not place.is_dir():
        return replace(result, why=f"{result.why}; it was not made again in the try for the reproduction")
    write_readme(place, op, result.why, shlex.join(["bisect", options.script, *options.args]))
    return replace(result, folder=str(place))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return value
