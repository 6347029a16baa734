"""Chip facts as frozen records, read from chips.toml."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from torchair_autofuse.messages import Reason

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

DEFAULT_SOC = "Ascend910B1"


Pair = tuple[float, float]
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Vector:
    """Cycles of one vector instruction, k * elements + b, by kind: (k of 32 bit elements, k of 16 bit ones, b)."""

    simple: Triple
    scalar: Triple
    cast: Triple
    fill: Triple
    compare: Triple
    select: Triple
    transcendental: Triple
    divide: Triple
    tanh: Triple
    sigmoid: Triple
    api: Triple
    gather: Triple
    pick: Triple
    spread: Triple
    transpose: Triple
    reduce: Triple


@dataclass(frozen=True)
class Cost:
    """Numbers of the cost model: what each means, and where it is from, is in chips.toml.

    Cycles and bytes per cycle of one vector core, where not said otherwise. (a, b) is a + b * cores of a head, and
    a + b / cores of a rate.
    """

    launch_us: float
    kernel_head: float
    load_head: Pair
    small_load_head: Pair
    small_load_bytes: float
    store_head: float
    load_rate: Pair
    small_load_rate: Pair
    store_rate: Pair
    l2_rate: float
    load_copy: float
    store_copy: float
    load_gap: float
    store_gap: float
    short_load_bytes: float
    short_store: Pair
    short_store_alone: float
    uneven_store_rate: float
    uneven_store_bytes: float
    uneven_store: float
    sync: float
    vector: Vector


@dataclass(frozen=True)
class Chip:
    """One SoC. Sizes in bytes, ``clock_mhz`` in MHz, ``vector_cores`` and ``l2_bytes`` per device."""

    soc: str
    short: str
    npu_arch: int
    addconfig: str
    vector_cores: int
    clock_mhz: int
    l2_bytes: int
    ub_bytes: int
    ub_reserved_bytes: int
    block_bytes: int
    repeat_bytes: int
    max_repeat: int
    max_block_count: int
    max_block_bytes: int
    max_stride_blocks: int
    max_live_tensors: int
    v_barrier: bool
    cost: Cost

    @property
    def ub_plan_bytes(self) -> int:
        """What a kernel may allocate when it uses instructions that need the reserved part."""
        return self.ub_bytes - self.ub_reserved_bytes


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((Path(__file__).parent / "chips.toml").read_text(encoding="utf-8"))
    return data


def _supported() -> tuple[str, ...]:
    data = _data()
    rows = [(name, row) for name, row in data["soc"].items() if "refused" not in data["arch"][row[1]]]
    return tuple(dict.fromkeys([*(row[0] for _, row in rows), *(name for name, _ in rows)]))


def soc_names() -> tuple[str, ...]:
    """All SoC names known, supported or not."""
    return tuple(_data()["soc"])


def arch_names() -> tuple[str, ...]:
    """All architectures that have numbers of the cost model."""
    return tuple(name for name, facts in _data()["arch"].items() if "cost" in facts)


@cache
def chip(soc: str = DEFAULT_SOC) -> Chip | Reason:
    """The chip called ``soc`` (``Ascend910B1``, case ignored; a short name such as ``Ascend910_93`` gives its first).

    Returns AF306 for a chip that is unknown or that kernels are not generated for.
    """
    table = _data()["soc"]
    wanted = soc.strip().lower()
    name = next((n for n in table if n.lower() == wanted), None)
    name = name or next((n for n, row in table.items() if row[0].lower() == wanted), None)
    if name is None:
        close = difflib.get_close_matches(soc, table, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(_supported())}"
        return Reason("AF306", f"unknown SoC {soc!r}{hint}")
    short, arch, addconfig, cores, clock, l2_mib = table[name]
    facts = dict(_data()["arch"][arch])
    if "refused" in facts:
        return Reason("AF306", f"{name}: {facts['refused']}")
    given: dict[str, Any] = facts.pop("cost")
    cost = Cost(vector=Vector(**_numbers(given["vector"])), **_numbers(given))
    return Chip(
        name,
        short,
        addconfig=addconfig,
        vector_cores=cores,
        clock_mhz=clock,
        l2_bytes=l2_mib << 20,
        cost=cost,
        **facts,
    )


def _numbers(table: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items() if not isinstance(v, dict)}
