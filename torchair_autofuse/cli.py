"""``python -m torchair_autofuse``: run, explain, doctor, bench."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ALL_PASSES = "--enable_autofuse=true;--autofuse_enable_pass=all"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m torchair_autofuse", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a script with fusion on, then print the fusion reports")
    run.add_argument("script", help="a Python script that compiles with torchair.get_npu_backend")
    run.add_argument("args", nargs=argparse.REMAINDER, help="arguments for the script")

    explain = commands.add_parser("explain", help="say what would be fused in a script or a saved graph")
    explain.add_argument("target", help="script.py, or graph.pb (a serialized ModelDef; .gz is fine)")
    explain.add_argument(
        "--kernels", action="store_true", help="print loop IR and kernel source of every fused op too (before a script)"
    )
    explain.add_argument("args", nargs=argparse.REMAINDER, help="arguments for the script")

    commands.add_parser("doctor", help="what is installed, what works here, what to do about what does not")
    commands.add_parser("bench", help="print the project's measures (in a checkout)", add_help=False)

    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["bench"]:
        from torchair_autofuse.bench import main as bench

        return bench(given[1:])
    options = parser.parse_args(given)
    if options.command == "run":
        return _run(options.script, options.args)
    if options.command == "explain":
        return _explain(options.target, options.args, options.kernels)
    from torchair_autofuse.doctor import main as doctor

    return doctor()


def _run(script: str, args: Sequence[str]) -> int:
    status = _execute(script, args)
    _print_reports()
    return status


def _explain(target: str, args: Sequence[str], kernels: bool) -> int:
    if target.endswith(".py"):
        from torchair_autofuse import plugin

        os.environ["GF_AUTOFUSION_DEBUG"] = "1"  # plan and report, run unfused: no kernel is built
        made: list[Any] = []
        plugin.on_fused(lambda result: made.extend(result.generated))
        status = _execute(target, args)
        _print_reports()
        if kernels:
            _print_kernels(made)
        return status
    from torchair_autofuse.api import fuse_model_def

    kernels = kernels or "--kernels" in args  # a graph takes no arguments of its own
    unknown = [a for a in args if a != "--kernels"]
    if unknown:
        return _fail(f"explain {target}: unknown argument {unknown[0]!r}; a saved graph takes --kernels only")
    path = Path(target)
    if not path.is_file():
        return _fail(f"{target}: no such file; expected a script (.py) or a saved graph (.pb, .pb.gz)")
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        import gzip

        data = gzip.decompress(data)
    try:
        result = fuse_model_def(data, options=os.environ.get("AUTOFUSE_FLAGS") or ALL_PASSES)
    except ValueError as error:
        return _fail(f"{target}: {error}")
    print(result.report)
    if kernels:
        _print_kernels(result.generated)
    return 0


def _print_kernels(generated: Iterable[Any]) -> None:
    """Loop IR and kernel source, once per op type."""
    from torchair_autofuse.loop.printer import to_text

    for made in {made.op_type: made for made in generated}.values():
        print(f"\n{to_text(made.lowered.kernel)}\n{made.text.kernel_cpp}")


def _execute(script: str, args: Sequence[str]) -> int:
    """Runs a user's script as ``python script args`` would; returns its exit status."""
    path = Path(script)
    if not path.is_file():
        return _fail(f"{script}: no such script")
    if not os.environ.get("AUTOFUSE_FLAGS"):
        os.environ["AUTOFUSE_FLAGS"] = ALL_PASSES
        print(f'AUTOFUSE_FLAGS is not set: running with AUTOFUSE_FLAGS="{ALL_PASSES}"', flush=True)
    before = sys.argv[:], sys.path[:]
    sys.argv = [script, *args]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, int) or stop.code is None:
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    finally:
        sys.argv, sys.path = before
    return 0


def _print_reports() -> None:
    from torchair_autofuse.plugin import reports

    found = reports()
    if not found:
        print("\nNo GE graph was compiled. Does the script call torch.compile with torchair.get_npu_backend(...)?")
    for report in found:
        print(f"\n{report}")


def _fail(text: str) -> int:
    print(f"torchair_autofuse: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
