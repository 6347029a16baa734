"""A FusedOpDef as Python data: its kernel, and the launch it asks for at given sizes."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from torchair_autofuse import dtypes
from torchair_autofuse.codegen.op_host import HostPlan
from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop import expr, parser
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.interpret import bind
from torchair_autofuse.loop.ir import Kernel, Param, Symbol
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.schedule import tiling
from torchair_autofuse.schedule.tiling import Let, Tree, Var

T = TypeVar("T")
MAX_ELEMENTS = 1 << 40
"""Of a tensor; int64 has room for all that is computed with such sizes."""
LAUNCH = "launch."
"""What the names of a launch's own values have before them, when an error names one instead of a step."""
PLATFORM = ("core_num", "ub_bytes")
"""Names that the steps may use beside the symbols."""


@dataclass(frozen=True)
class Launch:
    """One launch: ``tiling`` is the packed tiling data, ``values`` all tiling values by name. Sizes in bytes."""

    tiling: bytes
    tiling_key: int
    block_dim: int
    workspace_bytes: int
    ub_used: int
    values: Mapping[str, int]


@dataclass(frozen=True)
class Definition:
    """``op``: the message; ``schedule``: the one of its schedules that is used. Reading a malformed one raises
    OpDefError naming the field."""

    op: Any
    schedule: Any

    @classmethod
    def of(cls, op: Any, soc: str | None = None) -> Definition:
        """The definition with its schedule for ``soc``, by default its first."""
        for schedule in op.schedule:
            if soc is None or schedule.soc.lower() == soc.lower():
                return cls(op, schedule)
        known = ", ".join(s.soc for s in op.schedule) or "none"
        raise OpDefError(op.op_type, "schedule", f"there is none{f' for {soc}' if soc else ''}; recorded: {known}")

    @cached_property
    def kernel(self) -> Kernel:
        return kernel_of(self.op)

    @cached_property
    def index(self) -> int:
        """Position of the schedule in the definition."""
        return list(self.op.schedule).index(self.schedule)

    @property
    def entry(self) -> str:
        """Name of the kernel function."""
        return self.kernel.name

    @cached_property
    def steps(self) -> tuple[Let, ...]:
        fields = set(self.schedule.field)
        return tuple(
            Let(s.name, self._tree(f"step[{i}].value", s.value), s.name in fields)
            for i, s in enumerate(self.schedule.step)
        )

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.schedule.field)

    @cached_property
    def host_plan(self) -> HostPlan:
        s = self.schedule
        named = {n: self._tree(n, getattr(s, n)) for n in ("block_dim", "tiling_key", "workspace_bytes", "ub_used")}
        return HostPlan(self.op.op_type, self.kernel, s.npu_arch, self.steps, self.fields, **named)

    @cached_property
    def _dims(self) -> tuple[tuple[Callable[[Mapping[str, int]], int], ...], ...]:
        return tuple(tuple(_evaluator(d) for d in p.dims) for p in self.kernel.params)

    @cached_property
    def example(self) -> dict[str, int]:
        """Sizes of the symbols to show: as recorded, others 64, or less where tensors would be too large."""
        known = {h.symbol: h.value for h in self.op.provenance.hint}
        for size in (64, 16, 4):
            sizes = {s.name: known.get(s.name, size) for s in self.op.symbol}
            if self.has_room(sizes):
                return sizes
        return {s.name: known.get(s.name, 1) for s in self.op.symbol}

    def has_room(self, symbols: Mapping[str, int]) -> bool:
        """Whether no tensor has more than MAX_ELEMENTS at these sizes."""
        return all(math.prod(shape) <= MAX_ELEMENTS for shape in self.shapes(symbols).values())

    def symbols(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """Symbol values for input shapes in argument order. Raises ValueError naming an input that does not fit."""
        if len(shapes) != len(self.kernel.inputs):
            raise ValueError(f"{self.op.op_type}: {len(shapes)} inputs given, it takes {len(self.kernel.inputs)}")
        return bind(self.kernel, {p.name: s for p, s in zip(self.kernel.inputs, shapes)})

    def shapes(self, symbols: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Param name -> shape, inputs and outputs."""
        return {p.name: tuple(f(symbols) for f in dims) for p, dims in zip(self.kernel.params, self._dims)}

    def launch(self, symbols: Mapping[str, int], core_num: int = 0, ub_bytes: int = 0) -> Launch:
        """The launch for these sizes; ``core_num`` and ``ub_bytes`` default to those of the recorded SoC.

        Raises TilingError naming the step, or the result, that is no int64 for them.
        """
        platform = {"core_num": core_num or self.schedule.vector_cores, "ub_bytes": ub_bytes or self.schedule.ub_bytes}
        plan = self.host_plan
        results = {"block_dim": plan.block_dim, "tiling_key": plan.tiling_key}
        results |= {"workspace_bytes": plan.workspace_bytes, "ub_used": plan.ub_used}
        steps = [*plan.steps, *(Let(f"{LAUNCH}{n}", tree) for n, tree in results.items())]
        values = tiling.evaluate(steps, {**symbols, **platform}, checked=True)
        found = {n: values.pop(f"{LAUNCH}{n}") for n in results}
        packed = struct.pack(f"<{len(plan.fields)}q", *(values[f] for f in plan.fields))
        return Launch(packed, values=values, **found)

    def _tree(self, field: str, text: str) -> Tree:
        return read(self.op, f"schedule[{self.index}].{field}", tiling.parse, text)


def kernel_of(op: Any) -> Kernel:
    """The kernel of a definition: nests from its body, params and symbols from their own fields."""
    body = read(op, "body", parser.parse, "\n".join(op.body) + "\n")
    params = [
        Param(p.name, _dtype(op, f"{field}[{i}].dtype", p.dtype), _dims(op, f"{field}[{i}]", p), field)
        for field in ("input", "output")
        for i, p in enumerate(getattr(op, field))
    ]
    symbols = []
    for i, s in enumerate(op.symbol):
        if s.input >= len(op.input):
            raise OpDefError(op.op_type, f"symbol[{i}].input", f"{s.input}, but there are {len(op.input)} inputs")
        symbols.append(Symbol(s.name, op.input[s.input].name, s.dim, s.divisor))
    return Kernel(body.name, tuple(params), tuple(symbols), body.nests)


def read(op: Any, field: str, parse: Callable[[str], T], text: str) -> T:
    """``parse(text)``; a ValueError becomes an OpDefError that names the field."""
    try:
        return parse(text)
    except ValueError as error:
        raise OpDefError(op.op_type, field, str(error)) from error


def _dims(op: Any, field: str, param: Any) -> tuple[Expr, ...]:
    return tuple(read(op, f"{field}.dim[{k}]", expr.parse, d) for k, d in enumerate(param.dim))


def _dtype(op: Any, field: str, name: str) -> DType:
    try:
        return dtypes.by_name(name)
    except KeyError:
        known = ", ".join(d.name for d in dtypes.ALL)
        raise OpDefError(op.op_type, field, f"unknown type {name!r}; known: {known}") from None


def _evaluator(size: Expr) -> Callable[[Mapping[str, int]], int]:
    """Evaluates a size; integer trees where it has that form, since substituting in sympy takes milliseconds."""
    if isinstance(size, int):
        return lambda values: size
    try:
        tree = tiling.from_expr(size)
    except TypeError:
        return lambda values: expr.evaluate(size, values)
    if isinstance(tree, Var):
        name = tree.name
        return lambda values: values[name]
    step = Let("size", tree)
    return lambda values: tiling.evaluate([step], values)["size"]
