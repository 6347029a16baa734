"""Measures: one per file, each with ``run(settings) -> list[Section]``; torchair_autofuse.bench runs them.

A measure prints what is; it asserts nothing and is never a timed test. What must hold is in tests/.
"""

from __future__ import annotations

MEASURES: dict[str, str] = {
    "graphs": "benchmarks.captured_kernels",
    "dynamic": "benchmarks.dynamic_kernels",
    "growth": "benchmarks.growth",
    "planners": "benchmarks.planners",
    "small": "benchmarks.small_cases",
    "values": "benchmarks.values",
    "twin": "benchmarks.twin_profile",
    "reductions": "benchmarks.reductions",
    "movement": "benchmarks.movement",
    "blocks": "benchmarks.blocks",
    "seconds": "benchmarks.seconds",
    "inductor": "benchmarks.inductor",
    "determinism": "benchmarks.determinism",
    "definitions": "benchmarks.definitions",
}
"""Name on the command line -> module, in the order in which they are printed."""
