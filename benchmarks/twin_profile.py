"""What the twin measured of every kernel of the small models: traffic, instructions and the peak of UB."""

from __future__ import annotations

from benchmarks.host_runs import Failure, runs
from benchmarks.section import Section, Settings, percent

_COLUMNS = ("model", "op", "cores", "GM bytes", "floor", "of floor %", "mean copy bytes", "mean block bytes", "vector",
            "MTE2", "MTE3", "elements per vector", "UB peak", "UB planned", "barriers")  # fmt: skip


def run(settings: Settings) -> list[Section]:
    """One row per kernel and run; the counts are of one launch, over all cores."""
    rows: list[tuple[object, ...]] = []
    for found in runs(settings):
        if isinstance(found, Failure):
            continue
        for op in found.report.fused:
            p = found.profiles.get(op.op_type)
            if p is None:
                continue
            floor = sum(a.nbytes for a in p.args if a.kind != "workspace")
            per_vector = p.vector_elements / p.vector_instructions if p.vector_instructions else None
            rows.append((
                found.label, op.op_type[-12:], p.block_dim, p.gm_bytes, floor, percent(p.gm_bytes, floor),
                round(p.mean_dma_bytes), round(p.mean_block_bytes), p.vector_instructions, p.mte2_instructions,
                p.mte3_instructions,
                None if per_vector is None else round(per_vector), p.ub_peak_bytes, op.ub_bytes, p.barriers,
            ))  # fmt: skip
    notes = (
        "floor: every input and output of the kernel once; a row that all cores need is read once by each of them",
    )
    return [Section("Small models: kernels on the twin", _COLUMNS, tuple(rows), notes)]
