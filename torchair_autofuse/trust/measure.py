"""Differences of tensors and the tolerances they are held against (docs/numerics.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

F32_RTOL = 1e-5
"""Of the largest finite magnitude of an output: how far f32 values of the fused and the unfused graph may differ."""
HALF_ULPS = 1
"""Units in the last place by which f16 and bf16 values of the two may differ."""
EXCESS_ULPS = 1
"""Units in the last place by which an error against f64 may exceed the unfused graph's own."""
OWN_ERROR_EPS = 16
"""The unfused graph's largest error counts for all elements up to this many machine epsilons of the largest value."""
SPREAD_FACTOR = 2
MEDIAN_FACTOR = 6
"""Of what rounding can do to an element (trust.exact.run_noisy), and of its median over an output: errors allowed."""

ULP_EDGES: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0, 16.0, 256.0)
"""Upper ends of the histogram's classes; the last class is what is above."""

TOLERANCES = (
    "integers, bools, NaN and infinities: equal to the unfused graph or to f64",
    f"f32, f64: within {F32_RTOL:g} of the output's largest value of the unfused graph",
    f"f16, bf16: within {HALF_ULPS} unit in the last place (ulp) of the unfused graph",
    f"or, for all floats: an error against f64 of no more than the unfused graph's plus {EXCESS_ULPS} ulp, where its "
    f"largest error counts for all elements up to {OWN_ERROR_EPS} epsilons (of the graph's coarsest float type) of the "
    "largest value",
    f"or, where none of that holds: the f64 value moves as far ({SPREAD_FACTOR} times, or {MEDIAN_FACTOR} times the "
    "output's median) when every operand in the graph is moved at random by its rounding",
)
"""What is accepted, in words: an element is right if one of them holds."""


@dataclass(frozen=True)
class Errors:
    """How far a tensor is from another, its reference.

    ``max_abs``; ``max_rel``: of the reference's largest finite magnitude; ``max_ulp``: in units in the last place of
    the tensor's own dtype at the reference's value (1 for integers): all over elements that are finite in both.
    ``histogram``: elements by ulp, see ``ULP_EDGES``. ``special``: elements that are NaN or infinite in one of the two
    and not, or otherwise, in the other.
    """

    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    histogram: tuple[int, ...] = (0,) * (len(ULP_EDGES) + 1)
    special: int = 0

    def merged(self, other: Errors) -> Errors:
        """The larger of each, the histograms added."""
        counts = tuple(a + b for a, b in zip(self.histogram, other.histogram))
        return Errors(
            max(self.max_abs, other.max_abs),
            max(self.max_rel, other.max_rel),
            max(self.max_ulp, other.max_ulp),
            counts,
            self.special + other.special,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; ``histogram`` maps the class's name, such as ``<=0.5``, to its count."""
        return {**asdict(self), "histogram": dict(zip(class_names(), self.histogram))}


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element: where it is, and its value in the fused and unfused graph and in f64 ("" unknown)."""

    index: tuple[int, ...]
    fused: str
    unfused: str
    exact: str = ""

    def __str__(self) -> str:
        return f"at {list(self.index)}: {self.fused}, unfused {self.unfused}" + (
            f", f64 {self.exact}" * bool(self.exact)
        )


@dataclass(frozen=True)
class OutputCheck:
    """One output over all calls. ``dtype``, ``shape``: of the last call. ``bad`` of ``size`` elements are wrong;
    ``spared`` would be, but for what rounding can do to them.

    ``between``: fused against unfused; ``fused``, ``unfused``: each against f64, None where there is no f64 value;
    ``eager``: fused against eager PyTorch, which may mean something else and does not count, None where not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    bad: int
    between: Errors
    fused: Errors | None = None
    unfused: Errors | None = None
    eager: Errors | None = None
    first: Mismatch | None = None
    spared: int = 0

    @property
    def ok(self) -> bool:
        return self.bad == 0

    @property
    def max_abs(self) -> float | None:
        """Of the fused graph against f64, as the two that follow."""
        return None if self.fused is None else self.fused.max_abs

    @property
    def max_rel(self) -> float | None:
        return None if self.fused is None else self.fused.max_rel

    @property
    def max_ulp(self) -> float | None:
        return None if self.fused is None else self.fused.max_ulp

    def merged(self, other: OutputCheck) -> OutputCheck:
        """This output with a later call of it."""

        def both(a: Errors | None, b: Errors | None) -> Errors | None:
            return a.merged(b) if a is not None and b is not None else a or b

        return replace(
            other, size=self.size + other.size, bad=self.bad + other.bad, between=self.between.merged(other.between),
            fused=both(self.fused, other.fused), unfused=both(self.unfused, other.unfused),
            eager=both(self.eager, other.eager), first=self.first or other.first, spared=self.spared + other.spared,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        found: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "ok": self.ok}
        found |= {"size": self.size, "bad": self.bad, "spared": self.spared}
        found |= {"first": None if self.first is None else asdict(self.first)}
        for name in ("between", "fused", "unfused", "eager"):
            value = getattr(self, name)
            found[name] = None if value is None else value.to_dict()
        return found


def class_names() -> tuple[str, ...]:
    """The names of the histogram's classes."""
    return (*(f"<={edge:g}" if edge else "0" for edge in ULP_EDGES), f">{ULP_EDGES[-1]:g}")


def compare(
    name: str,
    fused: torch.Tensor,
    unfused: torch.Tensor,
    exact: torch.Tensor | None,
    eps: float = 0.0,
    spread: Callable[[], torch.Tensor] | None = None,
) -> OutputCheck:
    """One output of one call. Tensors on the CPU; ``exact``: the value in f64, None if unknown; ``eps``: machine
    epsilon of the coarsest float type that the output may have been computed in; ``spread``: gives how far rounding can
    move each element (trust.exact), asked for only where elements would be wrong without it.

    An output whose dtype or shape is not the unfused one's is all wrong.
    """
    dtype = str(unfused.dtype).removeprefix("torch.")
    shape = tuple(unfused.shape)
    if fused.dtype != unfused.dtype or fused.shape != unfused.shape:
        is_, want = (f"{t.dtype}{list(t.shape)}".removeprefix("torch.") for t in (fused, unfused))
        size = unfused.numel()
        return OutputCheck(name, dtype, shape, size, max(size, 1), Errors(), first=Mismatch((), is_, want))
    if exact is not None and exact.shape != unfused.shape:
        exact = None  # sizes that follow from values, which are others in f64
    parts = (real_parts(fused), real_parts(unfused), None if exact is None else real_parts(exact))
    bad = wrong(*parts, eps)
    suspects = int(_elements(bad, fused).sum())
    if parts[2] is not None and spread is not None and suspects:
        bad &= ~_within(parts[0], parts[2], spread())
    bad = _elements(bad, fused)
    count = int(bad.sum())
    ours, theirs = (None if exact is None else errors(side, exact) for side in (fused, unfused))
    first = _first(bad, fused, unfused, exact) if count else None
    return OutputCheck(
        name,
        dtype,
        shape,
        unfused.numel(),
        count,
        errors(fused, unfused),
        ours,
        theirs,
        first=first,
        spared=suspects - count,
    )


def wrong(fused: torch.Tensor, unfused: torch.Tensor, exact: torch.Tensor | None, eps: float = 0.0) -> torch.Tensor:
    """Elements of ``fused``, real ones, that no rule of ``TOLERANCES`` accepts; ``eps`` as for :func:`compare`."""
    if not fused.is_floating_point():
        differ = fused != unfused
        return differ if exact is None else differ & (fused != exact)
    ok = _same(fused, unfused)
    f, u = fused.double(), unfused.double()
    finite = torch.isfinite(f) & torch.isfinite(u)
    if fused.dtype.itemsize > 2:  # f64 is not fused: such an output is what an f32 one was converted to
        ok |= finite & ((f - u).abs() <= F32_RTOL * _largest(u))
    else:
        ok |= finite & ((f - u).abs() <= HALF_ULPS * ulp(u, fused.dtype))
    if exact is not None:
        e = exact.double()
        rounded = e.to(fused.dtype)
        ok |= _same(fused, rounded)
        own = torch.where(torch.isfinite(u) & torch.isfinite(e), (u - e).abs(), 0.0)
        most = OWN_ERROR_EPS * max(eps, torch.finfo(fused.dtype).eps) * _largest(e)
        worst = min(float(own.max()) if own.numel() else 0.0, most)
        allowed = torch.clamp(own, min=worst) + EXCESS_ULPS * ulp(e, fused.dtype)
        ok |= torch.isfinite(f) & torch.isfinite(e) & ((f - e).abs() <= allowed)
    return ~ok


def real_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of real ones, along one more dim; others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _elements(parts: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """For each element of ``of`` whether any of its ``real_parts`` is true in ``parts``."""
    return parts.any(-1) if of.is_complex() else parts


def _within(fused: torch.Tensor, exact: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Elements that are as near to f64 as rounding lets them be."""
    if not fused.is_floating_point():
        return torch.isinf(spread)
    finite = spread[torch.isfinite(spread)]
    typical = float(finite.median()) if finite.numel() else 0.0
    allowed = torch.clamp(SPREAD_FACTOR * spread, min=MEDIAN_FACTOR * typical) + ulp(exact, fused.dtype)
    return (fused.double() - exact).abs() <= allowed


def errors(tensor: torch.Tensor, reference: torch.Tensor) -> Errors:
    """How far ``tensor`` is from ``reference``, of the same shape."""
    tensor, reference = real_parts(tensor), real_parts(reference)
    x, r = tensor.double(), reference.double()
    if tensor.is_floating_point():
        rounded = reference.to(tensor.dtype)
        finite = torch.isfinite(x) & torch.isfinite(r)
        special = int((~finite & ~_same(tensor, rounded)).sum())
    else:
        finite, special = torch.ones_like(x, dtype=torch.bool), 0
    apart = torch.where(finite, (x - r).abs(), 0.0)
    units = apart / torch.where(finite, ulp(r, tensor.dtype), 1.0)
    edges = torch.tensor(ULP_EDGES, dtype=torch.float64)
    counts = torch.bincount(torch.bucketize(units[finite], edges), minlength=len(ULP_EDGES) + 1)
    largest = _largest(r)
    worst = float(apart.max()) if apart.numel() else 0.0
    most = float(units.max()) if units.numel() else 0.0
    relative = worst / largest if largest else worst
    return Errors(worst, relative, most, tuple(int(c) for c in counts), special)


def same_bits(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether two lists of tensors are equal bit for bit, NaN and the sign of zero included."""
    return len(a) == len(b) and all(_bits_equal(x, y) for x, y in zip(a, b))


def _bits_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    raw = [t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
    return bool(torch.equal(raw[0], raw[1]))


def ulp(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of ``dtype`` around f64 values; 1 for a dtype that is no float."""
    if not dtype.is_floating_point:
        return torch.ones_like(value)
    info = torch.finfo(dtype)
    magnitude = torch.nan_to_num(value.abs(), 0.0, info.max, info.max).clamp(info.tiny, info.max)
    _, exponent = torch.frexp(magnitude)  # magnitude = m * 2**exponent with m in [0.5, 1)
    return info.eps * torch.pow(2.0, exponent.double() - 1)


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _largest(values: torch.Tensor) -> float:
    finite = torch.where(torch.isfinite(values), values.abs(), 0.0)
    return float(finite.max()) if finite.numel() else 0.0


def _first(bad: torch.Tensor, fused: torch.Tensor, unfused: torch.Tensor, exact: torch.Tensor | None) -> Mismatch:
    index = tuple(int(i) for i in torch.nonzero(bad)[0])
    return Mismatch(index, _text(fused[index]), _text(unfused[index]), "" if exact is None else _text(exact[index]))


def _text(value: torch.Tensor) -> str:
    found = value.item()
    return f"{found:.9g}" if isinstance(found, float) else str(found)
