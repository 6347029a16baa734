"""``python -m torchair_autofuse``: run, explain, and the commands that are modules of their own."""

from __future__ import annotations

import argparse
import gzip
import importlib
import io
import os
import sys
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torchair_autofuse.script import ALL_PASSES, add_rest, execute, flags, variables

_ABOUT = (
    "Fuses small vector ops of the graphs that torch.compile with TorchAir makes for an Ascend NPU. "
    "Without an NPU the same graphs run on the host, fused ops on a CPU twin."
)
_MORE = "COMMAND --help says more about a command, README.md and docs/user-guide.md about the rest."
_BEFORE = "Options go before the script; what follows it are the script's own arguments. "
_FLAGS = _BEFORE + "Where AUTOFUSE_FLAGS is unset every pass is on; what the script gives to enable() wins. "
_OF_SCRIPT = "Exit status: the script's own; 2 for what cannot be read or written."

# A command in a module of its own: name -> (module, help, what its --help says at the end). The module has
# ``add_arguments(parser)`` and ``main(options) -> int``, and is imported when its command is given. bench parses its
# arguments itself.
_COMMANDS = {
    "build": (
        "torchair_autofuse.deliver.package.command",
        "build recorded fused ops as a package for CANN",
        "Without CANN the project is written and nothing built. See docs/deploy-package.md. "
        "Exit status: 0; 1 when the build failed; 2 for bad arguments.",
    ),
    "diff": (
        "torchair_autofuse.diff",
        "say what differs between the reports of two runs, saved with --json",
        "Exit status: 0 when nothing differs, 1 when something does, 2 for a file that holds no reports.",
    ),
    "inspect": (
        "torchair_autofuse.inspection",
        "show the definition of a fused op, or of every op of a library",
        "See docs/definition.md. Exit status: 0; 1 when a definition is not good; 2 when there is none.",
    ),
    "cache": (
        "torchair_autofuse.cache_command",
        "list, prune or clear the cache",
        "The folder is TORCHAIR_AUTOFUSE_CACHE_DIR, by default the user's cache folder.",
    ),
    "patterns": (
        "torchair_autofuse.plan.patterns.command",
        "list the named patterns, with an example each",
        "GF_AUTOFUSION_DISABLE=swiglu,rope keeps ops of these patterns from being fused.",
    ),
    "verify": (
        "torchair_autofuse.trust.verify_command",
        "run a script and compare its graphs fused, unfused and in f64",
        f"{_FLAGS}Exit status: 0; 1 on a difference or when no graph was run; the script's own when it fails.",
    ),
    "bisect": (
        "torchair_autofuse.trust.bisect_command",
        "find the fused op that makes a script wrong or fail",
        f"{_FLAGS}Without --check and --expect-exit graphs are compared as verify does. Exit status: 1 when an op is "
        "found, 0 when nothing is wrong, 3 when it is wrong without fusion too, 4 when it comes and goes, 2 for bad "
        "arguments.",
    ),
    "doctor": (
        "torchair_autofuse.doctor",
        "say what is installed, what works here, what to do about what does not",
        "Exit status: 1 when something that is needed here is missing.",
    ),
    "probe": (
        "torchair_autofuse.probe.command",
        "run the probes of docs/hardware-assumptions.md, write a report to send",
        "Exit status: 0; 1 when something differs or failed; 2 for bad arguments, or without an NPU.",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; 2 for bad arguments, and for what cannot be read or written."""
    if sys.stdout is None:  # closed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal or a file may not have every character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as head, has seen enough
        _drop_output()
        return 1
    except OSError as error:  # of a path that is too long, or may not be looked at; of a disk that is full
        named = f"{error.filename}: " if error.filename is not None else ""
        status = _fail(f"{named}{error.strerror or error}")
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        return status


def _drop_output() -> None:
    """What is still to be written to stdout goes nowhere: Python would fail over it once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torchair_autofuse", description=_ABOUT, epilog=_MORE)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="run a script with fusion on, then print the fusion reports",
        description="Run a script with fusion on, then print the fusion reports.",
        epilog=_FLAGS + _OF_SCRIPT,
        allow_abbrev=False,
    )
    _add_files(run)
    run.add_argument("script", help="a Python script that compiles with torchair.get_npu_backend")
    add_rest(run)

    explain = commands.add_parser(
        "explain",
        help="say what would be fused in a script or a saved graph",
        description="Say what would be fused in a script, which is run unfused, or in a saved graph.",
        epilog=f"{_FLAGS}Options may also follow a saved graph. {_OF_SCRIPT}",
        allow_abbrev=False,
    )
    _add_files(explain)
    explain.add_argument("target", help="script.py, or graph.pb (a serialized ModelDef; .gz is fine)")
    explain.add_argument(
        "--kernels", action="store_true", help="print loop IR and kernel source of every fused op too (before a script)"
    )
    add_rest(explain)

    for name, (_, text, _) in _COMMANDS.items():
        commands.add_parser(name, help=text)
    commands.add_parser(
        "bench", help="print the project's measures (in a checkout; several minutes as a whole)", add_help=False
    )

    if given[:1] == ["bench"]:
        from torchair_autofuse.bench import main as bench

        return bench(given[1:])
    if given and given[0] in _COMMANDS:
        return _command(given[0], given[1:])
    options = parser.parse_args(given)
    if options.command == "run":
        return _run(options)
    return _explain(options)


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="write the reports as one HTML page (before a script)")
    parser.add_argument("--json", metavar="FILE", help="write the reports for diff (before a script)")


def _command(name: str, args: Sequence[str]) -> int:
    where, text, more = _COMMANDS[name]
    module = importlib.import_module(where)
    about = f"{text[0].upper()}{text[1:]}."
    parser = argparse.ArgumentParser(prog=f"python -m torchair_autofuse {name}", description=about, epilog=more)
    module.add_arguments(parser)
    status: int = module.main(parser.parse_args(args))
    return status


def _run(options: argparse.Namespace) -> int:
    if not Path(options.script).is_file():
        return _fail(f"{options.script}: no such script")
    if problem := _no_folder(options):
        return _fail(problem)
    with variables(AUTOFUSE_FLAGS=flags()):
        status = execute(options.script, options.args)
        _print_reports()
    return _save(_reports(), options) or status


def _explain(options: argparse.Namespace) -> int:
    target, args = options.target, options.args
    if not target.endswith(".py"):
        return _explain_graph(target, args, options)
    if not Path(target).is_file():
        return _fail(f"{target}: no such script")
    if problem := _no_folder(options):
        return _fail(problem)
    from torchair_autofuse import plugin

    made: list[Any] = []
    plugin.on_fused(lambda result: made.extend(result.generated))
    # plan and report, run unfused: no kernel is built
    with variables(AUTOFUSE_FLAGS=flags(), GF_AUTOFUSION_DEBUG="1"):
        status = execute(target, args)
        _print_reports()
    if options.kernels:
        _print_kernels(made)
    return _save(_reports(), options) or status


def _explain_graph(target: str, args: Sequence[str], options: argparse.Namespace) -> int:
    from torchair_autofuse.api import fuse_model_def

    # a graph takes no arguments of its own: what follows it is ours
    after = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    after.add_argument("--kernels", action="store_true")
    _add_files(after)
    try:
        _, unknown = after.parse_known_args(args, options)
    except argparse.ArgumentError as error:
        return _fail(f"explain {target}: {error}")
    if unknown:
        text = "a saved graph takes --kernels, --html and --json only"
        return _fail(f"explain {target}: unknown argument {unknown[0]!r}; {text}")
    path = Path(target)
    if not path.is_file():
        return _fail(f"{target}: no such file; expected a script (.py) or a saved graph (.pb, .pb.gz)")
    if problem := _no_folder(options):
        return _fail(problem)
    try:
        result = fuse_model_def(_read(path), options=os.environ.get("AUTOFUSE_FLAGS") or ALL_PASSES)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        return _fail(f"{target}: {' '.join(str(error).split())}")
    print(result.report)
    if options.kernels:
        _print_kernels(result.generated)
    return _save([result.report], options)


def _no_folder(options: argparse.Namespace) -> str:
    """Why a file that is asked for cannot be written, "" if it can: told before a script runs for long."""
    for name in (options.html, options.json):
        if name is not None and not Path(name).resolve().parent.is_dir():
            return f"{name}: there is no folder {Path(name).resolve().parent}"
    return ""


def _save(reports: Sequence[Any], options: argparse.Namespace) -> int:
    """Writes the files that are asked for; 2 where one cannot be written."""
    from torchair_autofuse.report import files, html

    for name, write in ((options.html, html.write), (options.json, files.save)):
        if name is not None:
            try:
                write(reports, name)
            except OSError as error:
                return _fail(f"{name}: {error}")
    return 0


def _reports() -> list[Any]:
    from torchair_autofuse.plugin import reports

    return reports()


def _read(path: Path) -> bytes:
    """A file's bytes, unpacked when it is a gzip file. Raises OSError, EOFError or zlib.error for what is neither."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _print_kernels(generated: Iterable[Any]) -> None:
    """Loop IR and kernel source, once per op type."""
    from torchair_autofuse.loop.printer import to_text

    for made in {made.op_type: made for made in generated}.values():
        print(f"\n{to_text(made.lowered.kernel)}\n{made.text.kernel_cpp}")


def _print_reports() -> None:
    from torchair_autofuse.options.read import GF_DISABLE, switched_off
    from torchair_autofuse.plugin import active_options, reports

    found = reports()
    if not found and not active_options().enabled:
        asked = f"{GF_DISABLE} is set" if switched_off() else "neither AUTOFUSE_FLAGS nor the script turns it on"
        print(f"\nNo report: fusion is off, {asked}.")
    elif not found:
        print("\nNo GE graph was compiled. Does the script call torch.compile with torchair.get_npu_backend(...)?")
    for report in found:
        print(f"\n{report}")


def _fail(text: str) -> int:
    print(f"torchair_autofuse: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
