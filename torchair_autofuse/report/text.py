"""A fusion report as plain text: ASCII, 120 columns, no colour, so that it prints anywhere and compares in tests."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchair_autofuse.messages import CODES, RULES, counted

if TYPE_CHECKING:
    from torchair_autofuse.report.report import FusedOp, FusionReport, Refusal

WIDTH = 120
PREDICTED = "predicted, not measured"
_ROUTES = {"package": "the installed op package", "jit": "kernels built as the graph is compiled"}
_UNDERLINE = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def human_bytes(count: int | None) -> str:
    """1536 -> "1.50 KiB"; None -> "unknown"."""
    if count is None:
        return "unknown"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{count} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} TiB"


def human_us(us: float | None) -> str:
    """Microseconds as "12.3 us" or "4.56 ms"; None -> "unknown"."""
    if us is None:
        return "unknown"
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.2f} ms"


def render(report: FusionReport) -> str:
    """The text of ``report``; every fused op, refusal and warning is in it."""
    out = io.StringIO()
    # All that rich would otherwise guess from the environment (COLUMNS, FORCE_COLOR, ...) is given.
    console = Console(
        file=out, width=WIDTH, color_system=None, force_terminal=False, force_jupyter=False, force_interactive=False,
        legacy_windows=False, highlight=False, markup=False, emoji=False,
    )  # fmt: skip
    for line in _head(report):
        _line(console, line)
    if report.fused:
        console.print()
        _line(console, f"Fused: {counted(len(report.fused), 'op')} (times are {PREDICTED})")
        console.print(_fused_table(report.fused))
    if any(op.why for op in report.fused):
        console.print()
        _line(console, "Why they exist:")
        for op in report.fused:
            kernels = _kernels(op)
            first = _node(op.nodes[0], op.node_types[0]) if op.nodes else "nothing"
            more = ", ..." if op.nodes[1:] else ""
            _line(console, f"{op.op_type} of {first}{more}{f': {kernels}' if kernels else ''}", 2)
            for why in op.why:
                _line(console, f"{RULES[why.rule]}: {why.text}", 4)
    if report.refused:
        console.print()
        _line(console, f"Not fused: {counted(len(report.refused), 'refusal')} (each code has a page in docs/codes/)")
        for code, group in _by_code(report.refused):
            _line(console, f"{code} {CODES[code]}: {len(group)}", 2)
            for refusal in group:
                other = f" with {refusal.other}" if refusal.other else ""
                _line(console, f"{refusal.node}{other}: {refusal.reason}", 4)
    if report.warnings:
        console.print()
        _line(console, f"Warnings: {len(report.warnings)}")
        for warning in report.warnings:
            _line(console, str(warning), 2)
    if report.seconds:
        console.print()
        stages = ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in report.seconds.items())
        _line(console, f"Seconds: {stages}; together {sum(report.seconds.values()):.3f}")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _head(report: FusionReport) -> Iterable[str]:
    on = f" on {report.soc}" if report.soc else ""
    kernels = f"{report.kernels_before} -> {report.kernels_after}"
    change = _change(report.kernels_before, report.kernels_after)
    before, after = human_bytes(report.gm_bytes_before), human_bytes(report.gm_bytes_after)
    memory = f"{before} -> {after}{_change(report.gm_bytes_before, report.gm_bytes_after)}"
    floor = human_bytes(report.gm_bytes_floor)
    yield f"Fusion of {report.graph_name}{on}: kernels {kernels}{change}, GM bytes {memory}, floor {floor}"
    if report.predicted_us_before is not None or report.predicted_us_after is not None:
        before, after = human_us(report.predicted_us_before), human_us(report.predicted_us_after)
        yield f"Time {before} -> {after}{_change(report.predicted_us_before, report.predicted_us_after)}, {PREDICTED}"
    if report.options:
        yield f"Options: {report.options}"
    if report.route in ("package", "jit"):
        yield f"Fused ops come from {_ROUTES[report.route]}"
    if report.run_unfused:
        yield "Planned only: the graph runs as it was"
    if report.rolled_back is not None:
        yield f"Rolled back, the graph runs as it was: {report.rolled_back}"


def _fused_table(fused: Iterable[FusedOp]) -> Table:
    table = Table(box=_UNDERLINE, width=WIDTH, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("op", "template"):
        table.add_column(title, overflow="fold")
    for title in ("UB", "GM", "GM floor", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("nodes; inputs -> outputs", overflow="fold", ratio=1)
    for op in fused:
        nodes = ", ".join(_node(name, kind) for name, kind in zip(op.nodes, op.node_types))
        flow = f"{', '.join(op.inputs)} -> {', '.join(op.outputs)}" if op.inputs or op.outputs else ""
        moved = _from(None if op.gm_bytes_alone is None else human_bytes(op.gm_bytes_alone), human_bytes(op.gm_bytes))
        time = _from(
            None if op.predicted_us_alone is None else human_us(op.predicted_us_alone), human_us(op.predicted_us)
        )
        template = op.template.replace(", ", "\n")  # several, by tiling key
        lines = (f"{', '.join(op.patterns)}:" if op.patterns else "", nodes, flow)
        numbers = (human_bytes(op.ub_bytes), moved, human_bytes(op.gm_bytes_floor), time)
        cells = (op.op_type, template, *numbers, "\n".join(line for line in lines if line))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _from(alone: str | None, fused: str) -> str:
    """A number of the nodes as kernels of their own, and of the fused op."""
    return fused if alone is None else f"{alone} ->\n{fused}"


def _kernels(op: FusedOp) -> str:
    """How many kernels became one, and what its time goes into."""
    parts = [] if op.kernels_alone is None else [f"{counted(op.kernels_alone, 'kernel')} -> 1"]
    if op.limit:
        parts.append(f"limit {op.limit} ({human_us(op.pipes_us.get(op.limit))} of {human_us(op.predicted_us)})")
    return ", ".join(parts)


def _node(name: str, kind: str) -> str:
    """GE names nodes by their type and a number; the type is told only where the name does not."""
    return name if name == kind or name.startswith(f"{kind}_") else f"{name} ({kind})"


def _by_code(refused: Iterable[Refusal]) -> list[tuple[str, list[Refusal]]]:
    groups: dict[str, list[Refusal]] = {}
    for refusal in refused:
        groups.setdefault(refusal.code, []).append(refusal)
    return sorted(groups.items())


def _line(console: Console, text: str, indent: int = 0) -> None:
    console.print(Padding(Text(text, overflow="fold"), (0, 0, 0, indent)))


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None or before == 0:
        return ""
    return f" ({100 * (after - before) / before:+.1f}%)"
