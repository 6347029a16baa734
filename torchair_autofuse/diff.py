"""``diff A B``: what differs between the fusion reports of two runs, before and after a change of flags or version."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchair_autofuse.messages import CODES, counted
from torchair_autofuse.report import FusedOp, FusionReport, Refusal
from torchair_autofuse.report.compare import TOTALS, Change, GraphDiff, OpChange, ReportsDiff, compare
from torchair_autofuse.report.files import load
from torchair_autofuse.report.text import PREDICTED, WIDTH, human_bytes, human_us

_TITLES = {
    "kernels_before": "kernels unfused", "kernels_after": "kernels", "gm_bytes_before": "GM bytes unfused",
    "gm_bytes_after": "GM bytes", "gm_bytes_floor": "GM floor", "predicted_us_before": "time unfused",
    "predicted_us_after": "time", "op_type": "op", "ub_bytes": "UB", "gm_bytes": "GM", "predicted_us": "time",
    "predicted_us_alone": "time of its nodes alone",
}  # fmt: skip
_SHOWN = ("kernels_after", "gm_bytes_after", "predicted_us_after")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two files, and whether to print JSON."""
    text = "reports as JSON: what run --json or explain --json wrote, or a fusion.json of a debug folder"
    parser.add_argument("before", metavar="A", help=text)
    parser.add_argument("after", metavar="B", help="the same, after the change")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")


def main(options: argparse.Namespace) -> int:
    """Prints the differences; 0 when there are none, 1 when there are, 2 when a file is no report."""
    sides: list[list[FusionReport]] = []
    for path in (options.before, options.after):
        try:
            sides.append(load(path))
        except (OSError, ValueError, RecursionError) as error:
            print(f"torchair_autofuse: {path}: {' '.join(str(error).split())}", file=sys.stderr)
            return 2
    found = compare(*sides)
    if options.json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        # A pipe or a file has no width of its own: what is cut off there is lost.
        width = max(WIDTH, Console().width)
        console = Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)
        _print(console, found, dict(zip(_names(sides[1]), sides[1])))
    return 0 if found.equal else 1


def _names(reports: list[FusionReport]) -> list[str]:
    """The names that ``compare`` gives to the graphs of one side."""
    return [g.name for g in compare(reports, reports).graphs]


def _print(console: Console, found: ReportsDiff, after: dict[str, FusionReport]) -> None:
    if found.equal:
        console.print(f"No difference in {counted(len(found.graphs), 'graph')}.")
        return
    table = Table("graph", *(_TITLES[name] for name in _SHOWN), box=None, pad_edge=False, header_style="bold")
    for graph in found.graphs:
        changes = {c.name: c for c in graph.totals}
        cells = [_total(name, changes.get(name), getattr(after[graph.name], name)) for name in _SHOWN]
        table.add_row(Text(graph.name), *cells)
    for word, names in (("only in B", found.added), ("only in A", found.removed)):
        for name in names:
            table.add_row(Text(name), Text(word, "yellow"), "", "")
    console.print(table)
    console.print(f"Times are {PREDICTED}.")
    for graph in found.graphs:
        if not graph.equal:
            console.print()
            console.print(Text(graph.name, "bold"))
            for line in _lines(graph):
                console.print(line)


def _total(name: str, change: Change | None, value: object) -> Text:
    if change is None:
        return Text(_value(name, value))
    text = f"{_value(name, change.before)} -> {_value(name, change.after)}{_percent(change)}"
    worse = isinstance(change.before, (int, float)) and isinstance(change.after, (int, float))
    style = "" if not worse else "red" if change.after > change.before else "green"
    return Text(text, style)


def _percent(change: Change) -> str:
    if not isinstance(change.before, (int, float)) or not isinstance(change.after, (int, float)) or not change.before:
        return ""
    if isinstance(change.before, bool):  # "run unfused"
        return ""
    return f" ({100 * (change.after - change.before) / change.before:+.1f}%)"


def _value(name: str, value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "unknown" if name in TOTALS or name in _TITLES else "none"
    if "bytes" in name and isinstance(value, int):
        return human_bytes(value)
    return human_us(value) if "predicted_us" in name and isinstance(value, (int, float)) else str(value)


def _lines(graph: GraphDiff) -> Iterator[Text]:
    for c in (*graph.state, *(c for c in graph.totals if c.name not in _SHOWN)):
        yield Text(f"  {_change(c)}")
    for sign, style, ops in (("+", "green", graph.appeared), ("-", "red", graph.vanished)):
        for op in ops:
            yield Text(f"  {sign} fused op {_op(op)}", style)
    for changed in graph.changed:
        yield Text(f"  ~ fused op {_op(changed.after)}", "yellow")
        yield from _op_lines(changed)
    for sign, style, refusals in (("+", "red", graph.refused), ("-", "green", graph.no_longer_refused)):
        for r in refusals:
            yield Text(f"  {sign} refusal {_refusal(r)}", style)
    for before, after in graph.reworded:
        yield Text(f"  ~ refusal {_refusal(after)}", "yellow")
        yield Text(f"      was: {before.reason}")


def _op_lines(changed: OpChange) -> Iterator[Text]:
    for sign, nodes in (("+", changed.gained), ("-", changed.lost)):
        if nodes:
            yield Text(f"      {sign} {', '.join(nodes)}")
    for c in changed.changes:
        yield Text(f"      {_change(c)}")


def _change(c: Change) -> str:
    title = _TITLES.get(c.name, c.name.replace("_", " "))
    return f"{title}: {_value(c.name, c.before)} -> {_value(c.name, c.after)}{_percent(c)}"


def _op(op: FusedOp) -> str:
    return f"{op.op_type} ({op.template}): {', '.join(op.nodes)}"


def _refusal(r: Refusal) -> str:
    return f"{r.code} {CODES[r.code]}: {r.node}{f' with {r.other}' if r.other else ''}: {r.reason}"
