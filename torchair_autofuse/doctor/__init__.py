"""``doctor``: what is installed, what works here, and what to do about what does not."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from torchair_autofuse.doctor.device import delivery
from torchair_autofuse.doctor.finding import Finding
from torchair_autofuse.doctor.host import chosen, installed
from torchair_autofuse.options import read_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``doctor``."""
    parser.add_argument(
        "--ascendc-include", type=Path, action="append", default=[], metavar="DIR",
        help="type-check generated kernels against the Ascend C headers in DIR (may be given several times)",
    )  # fmt: skip
    parser.add_argument(
        "--compiler", default="", metavar="PROGRAM",
        help="what checks them: bisheng of CANN (default where it is found) or a C++ compiler",
    )  # fmt: skip
    parser.add_argument(
        "--compiler-flag", action="append", default=[], metavar="FLAG", help="an additional flag for it"
    )


def main(options: argparse.Namespace) -> int:
    """Prints the findings; 1 if something that is needed here is missing, or a kernel is refused; 2: bad arguments."""
    if options.ascendc_include:
        from torchair_autofuse.doctor.typecheck import typecheck

        return typecheck(options.ascendc_include, options.compiler, options.compiler_flag)
    from rich.console import Console
    from rich.table import Column, Table

    table = Table("what", "state", *(Column(title, overflow="fold") for title in ("found", "what to do")))
    found = list(findings())
    for f in found:
        table.add_row(f.what, f.state, f.text, f.advice)
    console = Console(width=max(100, Console().width), highlight=False, markup=False, emoji=False)
    console.print(table)
    for f in found:
        if any(len(word) > 30 for word in f.text.split()):  # a cell of the table may break it: a path to copy
            console.print(f"{f.what}: {f.text}", soft_wrap=True)
        if len(f.advice) > 20:
            console.print(f"{f.what}: {f.advice}", soft_wrap=True)
    return 1 if any(f.state == "missing" for f in found) else 0


def findings() -> Iterator[Finding]:
    """Everything the package depends on, in the order it matters."""
    options = read_options()
    yield from installed()
    yield from delivery(options)
    yield from chosen(options)
