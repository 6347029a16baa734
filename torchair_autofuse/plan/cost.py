"""Predicted time of a kernel from the chip's public cost tables: for people and planners, never a measurement."""

from __future__ import annotations

from torchair_autofuse.soc.chip import Chip

_SMALL = 4096  # bytes of traffic per core below which fewer cores are started


def predicted_us(chip: Chip, read_bytes: int, write_bytes: int) -> float:
    """Microseconds of one kernel: launch, heads, then the slower of loads and stores, which overlap.

    Vector work is not counted. Source of the numbers: soc/chips.toml.
    """
    cost = chip.cost
    cores = min(chip.vector_cores, max(1, (read_bytes + write_bytes) // _SMALL))
    load = read_bytes / cores / cost.load_bytes_per_cycle
    store = write_bytes / cores / cost.store_bytes_per_cycle
    cycles = cost.head_cycles + cost.head_cycles_per_core * cores + max(load, store)
    return cost.launch_us + cycles / chip.clock_mhz
