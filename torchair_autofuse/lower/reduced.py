"""What the rules with a reduction share: which dims are reduced, how tensors line up with input 0, means and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from torchair_autofuse.dtypes import F32, I32
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower import formulas as f
from torchair_autofuse.lower.checks import all_of, dims, input_name, present, refuse, same_dims, shape_text
from torchair_autofuse.lower.registry import RULES, Check, Emit, Emitter, IndexSpec, OpView, Rule, Val, register
from torchair_autofuse.messages import Reason

DimMap = tuple[tuple[int, ...], ...]
Over = Callable[[OpView], Union["tuple[int, ...]", Reason]]
"""The reduced dims of input 0 (ascending, in range), or why they are not known."""
Index = Callable[[OpView], IndexSpec]


# ---- reduced dims --------------------------------------------------------------------------------------------------


def rank(op: OpView) -> int:
    info = present(op, 0)
    return 0 if info is None else len(dims(info))


def every_dim(op: OpView) -> tuple[int, ...]:
    return tuple(range(rank(op)))


def normalised(op: OpView, axes: Sequence[object], name: str) -> tuple[int, ...] | Reason:
    """Axes as distinct dims, ascending. As GE has it, a 0-d tensor has the axis 0, which is no dim at all."""
    size = rank(op)
    found: set[int] = set()
    for a in axes:
        if isinstance(a, bool) or not isinstance(a, int):
            return refuse(op, f"{name} holds {a}, expected integers known when the graph is compiled")
        if not -max(size, 1) <= a < max(size, 1):
            return refuse(op, f"{name} holds {a}, which is no dim of a tensor of rank {size}")
        found.add(a % max(size, 1))
    return tuple(sorted(found)) if size else ()


def int_list(op: OpView, name: str, default: Sequence[int] | None = None) -> Sequence[object] | None:
    """A list attribute; a scalar one counts as a list of one. None if it is absent and has no default."""
    value = op.attr(name, default)
    return value if value is None or isinstance(value, (list, tuple)) else (value,)


def _empty_axes(op: OpView, name: str, noop: bool | None) -> tuple[int, ...] | Reason:
    noop = op.attr("noop_with_empty_axes", noop)
    if noop is None:
        text = f"{name} is empty and noop_with_empty_axes is not given: whether that reduces all dims is up to the chip"
        return refuse(op, text)
    return () if noop else every_dim(op)


def axes_input(position: int) -> Over:
    """Axes are a constant integer input; an empty one obeys the attribute noop_with_empty_axes."""

    def over(op: OpView) -> tuple[int, ...] | Reason:
        values = op.ints(position)
        name = input_name(op, position)
        if values is None:
            return refuse(op, f"{name} (the axes) is not a constant")
        return normalised(op, values, name) if values else _empty_axes(op, name, None)

    return over


def axes_attr(name: str, default: Sequence[int] | None = None, *, noop: bool | None = False) -> Over:
    """Axes are a list attribute. ``noop``: whether an empty one reduces nothing if the op does not say (None: open)."""

    def over(op: OpView) -> tuple[int, ...] | Reason:
        values = int_list(op, name, default)
        if values is None:
            return refuse(op, f"required attribute {name} is absent")
        return normalised(op, values, f"attribute {name}") if values else _empty_axes(op, f"attribute {name}", noop)

    return over


def all_but_channels(op: OpView) -> tuple[int, ...] | Reason:
    """Every dim but 1, that of the channels."""
    if rank(op) < 2:
        return refuse(op, f"input 0 has rank {rank(op)}, expected the channels in dim 1")
    return (0, *range(2, rank(op)))


# ---- index maps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axes:
    """Dims of input 0 without those of size one. ``parts``: the positions in ``dims`` of each of its dims."""

    dims: tuple[Expr, ...]
    parts: DimMap

    def positions(self, over: Sequence[int]) -> tuple[int, ...]:
        """The positions of some dims of input 0."""
        return tuple(p for d in over for p in self.parts[d])


def refine(shape: Sequence[Expr], split: Mapping[int, tuple[Expr, ...]] | None = None) -> Axes:
    """The dims of ``shape``, those in ``split`` replaced by their row-major factors."""
    found: list[Expr] = []
    parts: list[tuple[int, ...]] = []
    for k, size in enumerate(shape):
        part: list[int] = []
        for factor in (split or {}).get(k, (size,)):
            if factor != 1:
                part.append(len(found))
                found.append(factor)
        parts.append(tuple(part))
    return Axes(tuple(found), tuple(parts))


Form = Callable[[OpView, Axes, "tuple[int, ...]", "tuple[Expr, ...]"], DimMap]
"""Index map of a tensor: of (the node, the axes of input 0, its reduced dims, the shape of the tensor)."""


def full(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """The dims of input 0."""
    return axes.parts


def kept(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """The dims of input 0, the reduced ones as one."""
    return tuple(() if d in over else part for d, part in enumerate(axes.parts))


def dropped(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """The dims of input 0 that are not reduced."""
    return tuple(part for d, part in enumerate(axes.parts) if d not in over)


def keep_by(name: str) -> Form:
    """Reduced dims stay as one if attribute ``name`` is true (its default is false)."""

    def form(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
        return (kept if op.attr(name, False) else dropped)(op, axes, over, shape)

    return form


def tail(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """The last dims of input 0, as many as the tensor has."""
    return axes.parts[max(0, len(axes.parts) - len(shape)) :]


def aligned(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """Broadcast to input 0: dims aligned from the right, each that of input 0 or one."""
    missing = len(shape) - len(axes.parts)
    parts = (((),) * missing + axes.parts)[max(0, -missing) :]
    return tuple(() if d == 1 else part for d, part in zip(shape, parts))


def channel(op: OpView, axes: Axes, over: tuple[int, ...], shape: tuple[Expr, ...]) -> DimMap:
    """One value per channel (dim 1 of input 0): [C], or the rank of input 0 with the other dims one."""
    if len(shape) == 1:
        return (axes.parts[1],)
    return tuple(part if d == 1 else () for d, part in enumerate(axes.parts))


def index_by(over: Over, inputs: Mapping[int, Form], outputs: Sequence[Form]) -> Index:
    """The IndexSpec of tensors in these forms; absent optional inputs are left out."""

    def index(op: OpView) -> IndexSpec:
        info, reduced = present(op, 0), over(op)
        assert info is not None and not isinstance(reduced, Reason)
        axes = refine(dims(info))
        return spec(op, axes, axes.positions(reduced), reduced, inputs, outputs)

    return index


def spec(
    op: OpView,
    axes: Axes,
    positions: tuple[int, ...],
    over: tuple[int, ...],
    inputs: Mapping[int, Form],
    outputs: Sequence[Form],
) -> IndexSpec:
    """As :func:`index_by`, for axes and reduced ``positions`` that the op refines itself."""
    found: dict[int, DimMap] = {}
    for i, form in inputs.items():
        info = present(op, i)
        if info is not None:
            found[i] = form(op, axes, over, dims(info))
    results = tuple(form(op, axes, over, dims(info)) for form, info in zip(outputs, op.outputs))
    return IndexSpec(axes.dims, positions, found, results)


def lines_up(over: Over, index: Index) -> Check:
    """The reduced dims are known and every tensor has the dims that the index maps give it (AF204)."""

    def check(op: OpView) -> Reason | None:
        reduced = over(op)
        if isinstance(reduced, Reason):
            return reduced
        made = index(op)
        tensors = [(input_name(op, i), present(op, i), dim_map) for i, dim_map in made.inputs.items()]
        tensors += [(f"result {k}", info, dim_map) for k, (info, dim_map) in enumerate(zip(op.outputs, made.outputs))]
        for name, info, dim_map in tensors:
            assert info is not None
            expected = tuple(expr.product(made.dims[p] for p in positions) for positions in dim_map)
            if not same_dims(dims(info), expected):
                text = f"{name} has shape {shape_text(dims(info))}, expected {shape_text(expected)}"
                return refuse(op, text, "AF204")
        return None

    return check


def reduction(
    kind: str,
    emit: Emit,
    check: Check,
    over: Over,
    inputs: Mapping[int, Form],
    outputs: Sequence[Form],
    *,
    index: Index | None = None,
    predicate: bool = False,
) -> None:
    """Registers a rule of kind "reduce". ``check`` looks at dtypes and attributes, dims are checked here."""
    made = index or index_by(over, inputs, outputs)
    register(
        Rule(kind, "reduce", all_of(check, lines_up(over, made)), emit, tuple(inputs), predicate=predicate, index=made)
    )


# ---- emission ------------------------------------------------------------------------------------------------------


def spec_of(op: OpView) -> IndexSpec:
    index = RULES[op.node.type].index
    assert index is not None
    return index(op)


def reduce(e: Emitter, op: OpView, combiner: str, x: Val) -> tuple[Val, ...]:
    """The components of a reduction of ``x``; where no dim is reduced, what the combiner makes of one element."""
    if spec_of(op).reduced:
        return e.reduce(combiner, x)
    if combiner == "welford":
        rest = e.op("sub", x, x)  # NaN where x is not finite, as the deviation from its mean is
        return x, e.op("mul", rest, rest)
    if combiner == "maxsumexp":
        return x, e.const(1.0, F32)  # where x is not finite, x - maximum is NaN already
    return (x, e.const(0, I32)) if combiner == "argmax" else (x,)


def total(e: Emitter, op: OpView, x: Val) -> Val:
    """The sum of ``x``."""
    return reduce(e, op, "sum", x)[0]


def known_count(op: OpView) -> int | None:
    """The number of elements that one reduction takes in, if it is no symbolic size."""
    made = spec_of(op)
    count = expr.product(made.dims[p] for p in made.reduced)
    return count if isinstance(count, int) else None


def per_element(e: Emitter, op: OpView, x: Val, correction: int = 0) -> Val:
    """``x`` divided by max(0, number of reduced elements - correction); 0 / 0 is NaN."""
    count = known_count(op)
    if count is not None:
        return f.divide(e, x, float(max(0, count - correction)))
    if not correction:
        return e.op("div", x, e.count())
    return e.op("div", x, e.op("max", f.shift(e, e.count(), -float(correction)), e.const(0.0, F32)))


def mean(e: Emitter, op: OpView, x: Val) -> Val:
    return per_element(e, op, total(e, op, x))


def moments(e: Emitter, op: OpView, x: Val) -> tuple[Val, Val]:
    """(mean, biased variance) of ``x``, without the cancellation of E[x^2] - E[x]^2."""
    centre, squares = reduce(e, op, "welford", x)
    return centre, per_element(e, op, squares)


def rstd(e: Emitter, variance: Val, epsilon: float) -> Val:
    """1 / sqrt(variance + epsilon)."""
    return e.op("rsqrt", f.shift(e, variance, epsilon))


def affine(e: Emitter, x: Val, gamma: Val | None, beta: Val | None) -> Val:
    """x * gamma + beta, each where it is given."""
    x = x if gamma is None else e.op("mul", x, gamma)
    return x if beta is None else e.op("add", x, beta)


def optional(args: Sequence[Val | None], i: int) -> Val | None:
    return args[i] if i < len(args) else None
