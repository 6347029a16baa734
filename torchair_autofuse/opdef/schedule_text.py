"""schedule.txt: a definition's schedule for people."""

from __future__ import annotations

from typing import Any

from torchair_autofuse.opdef.definition import Definition, Launch
from torchair_autofuse.schedule.tiling import parse, to_text


def schedule_text(made: Definition) -> str:
    """Template, UB plan, tiling steps and the values they take at the example sizes, for one SoC."""
    op, s = made.op, made.schedule
    symbols = made.example
    launch = made.launch(symbols)
    at = ", ".join(f"{n} = {v}" for n, v in symbols.items())
    lines = [
        f"{op.op_type} on {s.soc} (architecture {s.npu_arch})",
        "",
        f"template    {s.template}",
        f"cores       {launch.block_dim} of {s.vector_cores}{f' at {at}' if at else ''}",
        f"UB          {launch.ub_used} of {s.ub_limit_bytes} bytes{f' at {at}' if at else ''}",
        f"workspace   {launch.workspace_bytes} bytes",
        f"tiling key  {launch.tiling_key}",
        "",
        "UB plan, bytes per element (per row or column where the layout says so):",
        "  buffer      layout  bytes  copies  holds",
        *(f"  {b.name:<10}  {b.layout:<6}  {b.itemsize:>5}  {b.copies:>6}  {_holds(b)}".rstrip() for b in s.buffer),
        "",
        f"tiling steps (values at core_num = {s.vector_cores}, ub_bytes = {s.ub_bytes}{f', {at}' if at else ''};"
        " * is read by the kernel):",
        *(_step(made, step, launch) for step in s.step),
    ]
    return "\n".join(lines) + "\n"


def _holds(buffer: Any) -> str:
    return ", ".join(dict.fromkeys(buffer.value)) or "working values"


def _step(made: Definition, step: Any, launch: Launch) -> str:
    mark = "*" if step.name in made.fields else " "
    return f"{mark} {step.name:<12} = {to_text(parse(step.value))}  -> {launch.values[step.name]}"
