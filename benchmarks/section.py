"""What a measure returns: titled tables of plain values, printed for people or written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True)
class Settings:
    """``only_graphs``: substrings of captured graph or model names to restrict a measure to; empty: all."""

    only_graphs: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Whether a graph or model of this name is to be measured."""
        return not self.only_graphs or any(part in name for part in self.only_graphs)


class Unavailable(Exception):
    """A measure, or a part of one, cannot be taken on this machine; the text says why and what to do."""


@dataclass(frozen=True)
class Section:
    """One table. A cell is a str, int, float, bool or None (unknown); all rows have one cell per column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(self.columns)} columns, but a row has {len(row)} cells: {row}")

    def to_dict(self) -> dict[str, Any]:
        """Ready for json.dumps: one dict per row."""
        rows = [dict(zip(self.columns, row)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}

    def print(self, console: Console) -> None:
        """The table on ``console``: text on the left, numbers on the right."""
        table = Table(title=escape(self.title), title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
        for i, column in enumerate(self.columns):
            number = any(isinstance(row[i], (int, float)) for row in self.rows)
            table.add_column(escape(column), justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(escape(cell_text(value)) for value in row))
        console.print()
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", markup=False, highlight=False)


def cell_text(value: Any) -> str:
    """4 significant digits for a float, thousands separated for an int, "-" for what is unknown."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def percent(part: float | None, whole: float | None) -> float | None:
    """``part`` in percent of ``whole``, to one decimal; None where either is unknown or ``whole`` is 0."""
    return None if part is None or not whole else round(100 * part / whole, 1)


def total(values: Sequence[Any]) -> Any:
    """The sum of what is known; None if nothing is."""
    known = [v for v in values if v is not None]
    return sum(known) if known else None
