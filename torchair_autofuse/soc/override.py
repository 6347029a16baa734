"""Numbers of the cost model that a user knows better: a toml file named by TORCHAIR_AUTOFUSE_COST.

launch_us = 3.5                 # for every chip
load_rate = [9.1, 15.9]
vector.divide = [0.05, 0.05, 30]
[Ascend910B3]                   # for one SoC, or one architecture such as [2201]; the last that fits counts
launch_us = 4.0
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

from torchair_autofuse.messages import Reason
from torchair_autofuse.options.grammar import clip, suggestion
from torchair_autofuse.soc.chip import Chip, Cost, Vector, arch_names, soc_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

Entry = tuple[str, str, tuple[float, ...]]
"""(SoC or architecture, "" for all; name of the number, "vector." before those of instructions; its values)."""

_MOST, _LEAST_RATE = 1e9, 1e-6  # so that times stay finite


@dataclass(frozen=True)
class CostFile:
    """What a cost file holds; ``warnings`` are AF108, one per thing that is wrong with it."""

    entries: tuple[Entry, ...] = ()
    warnings: tuple[Reason, ...] = ()


def read_costs(path: str) -> CostFile:
    """Reads a cost file. Never raises: what cannot be used is left out and reported, the built-in number stays."""
    shown = repr(path)  # whole: the user has to find it
    try:
        full = os.path.expanduser(path)
        if not os.path.isfile(full):
            state = "is not a file" if os.path.exists(full) else "does not exist"
            return CostFile(warnings=(Reason("AF108", f"cost file {shown} {state}; built-in numbers are used"),))
        with open(full, "rb") as file:
            data = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no toml, not UTF-8, or a path no file can have
        text = f"cost file {shown} cannot be read: {error}; built-in numbers are used"
        return CostFile(warnings=(Reason("AF108", text),))
    entries: list[Entry] = []
    warnings: list[Reason] = []
    chips = (*soc_names(), *arch_names())
    for name, value in data.items():
        if not isinstance(value, Mapping) or name == "vector":
            _read(entries, warnings, shown, "", {name: value})
        elif name in chips:
            _read(entries, warnings, shown, name, value)
        else:
            hint = suggestion(name, chips) or f" (expected an SoC such as {chips[0]}, or an architecture such as 2201)"
            warnings.append(Reason("AF108", f"cost file {shown}: [{clip(name)}] is no chip{hint}; it is ignored"))
    return CostFile(tuple(entries), tuple(warnings))


def _read(
    entries: list[Entry], warnings: list[Reason], shown: str, where: str, table: Mapping[str, Any], prefix: str = ""
) -> None:
    counts = _counts()
    for key, value in table.items():
        name = prefix + key
        label = f"{where}.{name}" if where else name
        if isinstance(value, Mapping):
            if name == "vector":
                _read(entries, warnings, shown, where, value, "vector.")
            else:
                warnings.append(Reason("AF108", f"cost file {shown}: {clip(label)} is no table; it is ignored"))
        elif name not in counts:
            warnings.append(
                Reason("AF108", f"cost file {shown}: unknown number {clip(label)} is ignored{suggestion(name, counts)}")
            )
        else:
            values = tuple(value) if isinstance(value, list) else (value,)
            least = _LEAST_RATE if name.endswith("_rate") else 0.0
            usable = len(values) == counts[name] and all(_is_number(v) for v in values)
            if usable and values[0] >= least:
                entries.append((where, name, tuple(float(v) for v in values)))
            else:
                expected = "a number" if counts[name] == 1 else f"{counts[name]} numbers"
                limits = f"from {least:g} to {_MOST:g}"
                text = f"cost file {shown}: {clip(label)}: expected {expected} {limits}, got {_shown(value)}"
                warnings.append(Reason("AF108", f"{text}; the built-in value is used"))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST


def _shown(value: object) -> str:
    try:
        return clip(str(value))
    except ValueError:  # an integer of more digits than Python prints
        return "an integer that is too large"


def _counts() -> dict[str, int]:
    """How many values each number has."""
    hints = get_type_hints(Cost)
    found = {f.name: len(getattr(hints[f.name], "__args__", (0,))) for f in fields(Cost) if f.name != "vector"}
    return {**found, **{f"vector.{f.name}": 3 for f in fields(Vector)}}


def with_costs(chip: Chip, entries: tuple[Entry, ...]) -> Chip:
    """``chip`` with the numbers of a cost file that are for it."""
    cost: dict[str, Any] = {}
    vector: dict[str, Any] = {}
    for where, name, values in entries:
        if where not in ("", chip.soc, str(chip.npu_arch)):
            continue
        if name.startswith("vector."):
            vector[name.removeprefix("vector.")] = values
        else:
            cost[name] = values[0] if len(values) == 1 else values
    if not (cost or vector):
        return chip
    return replace(chip, cost=replace(chip.cost, vector=replace(chip.cost.vector, **vector), **cost))
