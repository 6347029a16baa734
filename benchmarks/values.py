"""Values of the small models: fused and unfused graph, eager and an f64 evaluation against each other.

Differences are relative to the largest value of an output; for half types also in units in the last place of the exact
value, where the contract is: no more than the unfused graph's error plus one, element by element.
"""

from __future__ import annotations

from typing import Any

from benchmarks.host_runs import Failure, HostRun, runs
from benchmarks.section import Section, Settings

F32_TARGET = 1e-5
_F32 = ("model", "fused : unfused", "fused : eager", "fused : f64", "unfused : f64", "eager : f64", "ok")
_HALF = ("model", "fused : f64", "unfused : f64", "eager : f64", "fused mean ulp", "unfused mean ulp",
         "worst excess ulp", "ok")  # fmt: skip


def run(settings: Settings) -> list[Section]:
    """Two tables, f32 and half types; a run that failed has its error in the notes."""
    f32: list[tuple[object, ...]] = []
    half: list[tuple[object, ...]] = []
    failures: list[str] = []
    for found in runs(settings):
        if isinstance(found, Failure):
            failures.append(f"{found.label}: {found.text}")
        elif found.report.rolled_back is not None:
            failures.append(f"{found.label}: {found.report.rolled_back}")
        elif found.dtype.itemsize == 4:
            f32.append(_f32_row(found))
        else:
            half.append(_half_row(found))
    notes = (f"relative to the largest value; target of fused : unfused <= {F32_TARGET:g}", *failures)
    half_notes = (
        "ulp: units in the last place of the exact value; excess: the fused error beyond the unfused one, element by "
        "element; target <= 1",
    )
    return [
        Section("Small models: values in f32", _F32, tuple(f32), notes),
        Section("Small models: values in half types", _HALF, tuple(half), half_notes),
    ]


def _f32_row(found: HostRun) -> tuple[object, ...]:
    sides = (found.unfused, found.eager, found.exact)
    fused = [relative(found.fused, side, found.exact) for side in sides]
    others = [relative(side, found.exact, found.exact) for side in (found.unfused, found.eager)]
    return (found.label, *fused, *others, fused[0] <= F32_TARGET)


def relative(a: list[Any], b: list[Any], scale: list[Any]) -> float:
    """The largest difference of two lists of tensors, relative to the largest value of each in ``scale``."""
    worst = 0.0
    for x, y, s in zip(a, b, scale):
        largest = float(s.double().abs().max()) or 1.0
        worst = max(worst, float((x.double() - y.double()).abs().max()) / largest)
    return worst


def _half_row(found: HostRun) -> tuple[object, ...]:
    errors = [relative(side, found.exact, found.exact) for side in (found.fused, found.unfused, found.eager)]
    fused, unfused = (ulps(side, found.exact) for side in (found.fused, found.unfused))
    means = [max(float(e.mean()) for e in side) for side in (fused, unfused)]
    excess = max(float((f - u).max()) for f, u in zip(fused, unfused))
    return (found.label, *errors, *means, excess, excess <= 1)


def ulps(side: list[Any], exact: list[Any]) -> list[Any]:
    """Errors of each output, element by element, in units of the last place of its own dtype at the exact value."""
    return [(x.double() - e.double()).abs() / _ulp(e.double(), x.dtype) for x, e in zip(side, exact)]


def _ulp(exact: Any, dtype: Any) -> Any:
    """The distance of neighbouring numbers of ``dtype`` around ``exact`` (1 for a dtype that is no float)."""
    import torch

    if not dtype.is_floating_point:
        return torch.ones_like(exact)
    info = torch.finfo(dtype)
    exponent = torch.floor(torch.log2(exact.abs().clamp_min(info.tiny)))
    return info.eps * torch.exp2(exponent)
