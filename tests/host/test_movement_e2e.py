"""Data movement from torch.compile to kernels on the twin: concat, split, slice, transpose, rope, pad, lookups.

Values of the fused graph against the unfused one and eager, static and with symbolic sizes.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from concat_cases import CONCAT
from fused_runs import check, run
from hypothesis import given
from layout_cases import SPLIT, TRANSPOSE
from movement_case import F32, FLOATS, WIDTHS, Case, Tensor, values
from random_programs import CI, Program, programs
from rope_cases import GATHER, ROPE

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

FAMILIES = {"concat": CONCAT, "split": SPLIT, "transpose": TRANSPOSE, "rope": ROPE, "gather": GATHER}
STATIC = [
    pytest.param(c, d, id=f"{family}: {c.name}-{str(d).removeprefix('torch.')}")
    for family, cases in FAMILIES.items()
    for c in cases
    for d in c.dtypes
]
DYNAMIC = [
    pytest.param(c, widths, id=f"{family}: {c.name}{', all' if widths else ''}")
    for family, cases in FAMILIES.items()
    for c in cases
    if c.dynamic
    for widths in ((False, True) if c.widths else (False,))
]


GOLDEN = Path(__file__).parent / "golden" / "movement_kernels.json"


def _golden() -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    return found


@pytest.mark.parametrize("case,dtype", STATIC)
def test_static(
    plugin: Any, case: Case, dtype: torch.dtype, update_golden: bool, request: pytest.FixtureRequest
) -> None:
    """Values, and kernels before and after: golden/movement_kernels.json, made anew with --update-golden."""
    runs = run(plugin, case.function, case.inputs(dtype, 3, 21))
    (report,) = runs.reports
    assert report.rolled_back is None, report
    name, counts = request.node.callspec.id, [report.kernels_before, report.kernels_after]
    if update_golden:
        GOLDEN.parent.mkdir(exist_ok=True)
        made = dict(sorted({**_golden(), name: counts}.items()))
        GOLDEN.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    else:
        assert counts == _golden()[name], report
    check(runs)


def test_golden_names(update_golden: bool) -> None:
    names = {str(p.id) for p in STATIC}
    if update_golden:
        made = {name: counts for name, counts in _golden().items() if name in names}
        GOLDEN.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    assert sorted(_golden()) == sorted(names)


@pytest.mark.parametrize("case,widths", DYNAMIC)
def test_dynamic(plugin: Any, case: Case, widths: bool) -> None:
    """One compile, several batches and sequences."""
    sizes = ((3, 21), (2, 64), (5, 9))
    runs = run(plugin, case.function, *(case.inputs(case.dtypes[0], *s, widths) for s in sizes), dynamic=True)
    assert all(r.rolled_back is None for r in runs.reports), runs.reports
    check(runs)


# ---- widths around a block of 32 bytes ----------------------------------------------------------------------------
TYPES = (F32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool, torch.int8, torch.uint8)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", TYPES, ids=[str(t).removeprefix("torch.") for t in TYPES])
def test_widths_of_parts(plugin: Any, dtype: torch.dtype, dim: int) -> None:
    """Every width beside 17, in both orders."""

    def model(*parts: Tensor) -> list[Tensor]:
        fixed, *others = parts
        pairs = [(fixed, p) for p in others] + [(p, fixed) for p in others]
        return [torch.cat([torch.where(a == b.flatten()[0], b.flatten()[0], a), b], dim) for a, b in pairs]

    sizes = [[2, 3, 17] for _ in range(len(WIDTHS) + 1)]
    for size, width in zip(sizes, (17, *WIDTHS)):
        size[dim] = width
    check(run(plugin, model, [values(s, dtype, seed=i) for i, s in enumerate(sizes)]))


@pytest.mark.parametrize("dtype", TYPES[:3], ids=[str(t).removeprefix("torch.") for t in TYPES[:3]])
def test_widths_of_transposed(plugin: Any, dtype: torch.dtype) -> None:
    def model(*inputs: Tensor) -> list[Tensor]:
        return [(x * 2).transpose(1, 2).contiguous() + 1 for x in inputs]

    sizes = [[2, n, w] for n, w in zip(WIDTHS, (33, 16, 1, 31, 17, 32, 15))]
    check(run(plugin, model, [values(s, dtype, seed=i) for i, s in enumerate(sizes)]))


@pytest.mark.parametrize("dtype", TYPES[:3], ids=[str(t).removeprefix("torch.") for t in TYPES[:3]])
def test_widths_of_slices(plugin: Any, dtype: torch.dtype) -> None:
    """Parts that begin and end away from blocks."""

    def model(x: Tensor) -> list[Tensor]:
        found = []
        for start in (0, 1, 7, 8, 15, 16):
            for width in WIDTHS:
                found.append(x[..., start : start + width] * 2 + x[..., :width])
        return found

    check(run(plugin, model, [values([2, 3, 50], dtype, seed=0)]))


# ---- random programs ----------------------------------------------------------------------------------------------


@CI
@given(programs(("unary", "binary", "move"), FLOATS))
def test_random_moves(plugin: Any, program: Program) -> None:
    check(run(plugin, program, program.inputs()))


@CI
@given(programs(("unary", "binary", "view", "reduce", "move"), FLOATS[:2]))
def test_random_dynamic_programs(plugin: Any, program: Program) -> None:
    check(run(plugin, program, program.inputs(), dynamic=True))
