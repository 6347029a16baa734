"""``probe``: runs the probes of docs/hardware-assumptions.md and writes a report to send."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.options import read_options
from torchair_autofuse.probe import record, report
from torchair_autofuse.probe.device import DeviceSpec
from torchair_autofuse.probe.record import Probe, Result
from torchair_autofuse.probe.registry import select
from torchair_autofuse.probe.runner import Setting, find_npu, run
from torchair_autofuse.soc.chip import Chip, chip

_COLUMNS = ("id", "assumption", "result", "")
_STYLES = {record.HOLDS: "green", record.DIFFERS: "bold red", record.FAILED: "red", record.MEASURED: "cyan"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("ids", nargs="*", metavar="H1", help="probes to run (default: all)")
    parser.add_argument("--list", action="store_true", help="say what each probe does and stop")
    parser.add_argument(
        "--device", choices=("npu", "twin"), default="npu",
        help="npu (default), or twin: the CPU twin, which checks the probes rather than the hardware",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where the report goes (default: here)")
    parser.add_argument("--seconds", type=float, default=300.0, metavar="N", help="limit of one probe (default 300)")


def main(options: argparse.Namespace) -> int:
    """0: nothing differs; 1: something differs or failed; 2: bad arguments, or no NPU."""
    try:
        probes = select(options.ids)
    except ValueError as error:
        return _fail(str(error))
    if options.seconds <= 0:
        return _fail(f"--seconds {options.seconds:g}: expected a number above 0")
    console = Console(width=max(100, Console().width))
    if options.list:
        console.print(_listed(probes))
        return 0
    found = find_cann()
    cann = found if isinstance(found, Cann) else None
    device = _twin() if options.device == "twin" else _npu(cann, str(found), options.seconds)
    if isinstance(device, str):
        return _fail(device)
    results = _run_all(probes, Setting(device, cann, options.seconds), console)
    env = report.environment(device, cann)
    try:
        files = report.write(options.out, env, probes, results)
    except OSError as error:
        return _fail(f"the report cannot be written to {options.out}: {error.strerror}")
    console.print(f"{report.counts(results)}; {files[0]} and {files[1].name} are written", markup=False)
    return 1 if any(r.state in (record.DIFFERS, record.FAILED) for r in results) else 0


def _twin() -> DeviceSpec | str:
    options = read_options()
    target = chip(options.soc)
    if not isinstance(target, Chip):
        return str(target)
    return DeviceSpec("twin", target.soc, cache=str(options.cache_root()))


def _npu(cann: Cann | None, why: str, seconds: float) -> DeviceSpec | str:
    found = find_npu(cann, min(seconds, 120.0)) if cann is not None else why
    if isinstance(found, DeviceSpec):
        return found
    return f"there is no NPU here ({found}); --device twin runs the probes on the CPU twin"


def _run_all(probes: list[Probe], setting: Setting, console: Console) -> list[Result]:
    """Runs one after the other; prints a row of a table when each is done."""
    widths = (4, 28, 9, console.width - 54)
    console.print(_table(widths, [], head=True), end="")
    results = []
    for probe in probes:
        with console.status(f"{probe.id} {probe.title}"):
            result = run(probe, setting)
        results.append(result)
        console.print(_table(widths, [(probe, result)]), end="")
    return results


def _table(widths: tuple[int, ...], rows: list[tuple[Probe, Result]], *, head: bool = False) -> Table:
    """One piece of the table: its columns have fixed widths, so that pieces fit together."""
    table = Table(show_header=head, box=None, padding=(0, 1))
    for title, width in zip(_COLUMNS, widths):
        table.add_column(title, width=width, overflow="fold")
    for probe, r in rows:
        shown = list(r.notes) or [
            f"{n}: {v:.4g}{'' if t is None else f', table {t:.4g}'} {u}" for n, v, t, u in r.numbers
        ]
        style = _STYLES.get(r.state, "")
        table.add_row(
            probe.id, probe.title, f"[{style}]{r.state}[/]" if style else r.state, _escaped("\n".join(shown[:4]))
        )
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _listed(probes: list[Probe]) -> Table:
    table = Table("id", "kind", "architectures", "what is assumed")
    for p in probes:
        table.add_row(p.id, p.how.device, ", ".join(map(str, p.archs)), p.assumed)
    return table


def _fail(text: str) -> int:
    print(f"torchair_autofuse: probe: {text}", file=sys.stderr)
    return 2
