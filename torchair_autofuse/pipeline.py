"""The whole story on one page: read, infer, simplify, plan, lower, schedule, generate, define, write, report.

``fuse`` is a pure function: plugin, command line and tests all call it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from torchair_autofuse.codegen.kernel import KernelText, generate
from torchair_autofuse.ge.catalogue import gm_bytes, has_side_effect, is_pure, kernels, tensor_bytes
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.inference_rule import inference_rule
from torchair_autofuse.ge.reader import parse, read
from torchair_autofuse.ge.simplify import live, simplify
from torchair_autofuse.ge.writer import FusedNode, write
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Load
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.build import Lowered, build
from torchair_autofuse.lower.domain import Domain, connected_order
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef import build as define
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cost import predicted_us
from torchair_autofuse.plan.greedy import plan
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.recompute import Group
from torchair_autofuse.report import FusedOp, FusionReport
from torchair_autofuse.schedule.choose import schedule
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import Chip, chip

_ROOTS = ("Data", "RefData", "NetOutput")


@dataclass(frozen=True)
class FusionContext:
    """What the GraphDef does not hold; see ge.infer for the first two.

    ``data_shapes``, ``data_values``: symbolic dims and values of each Data by its index. ``minimum``: lower bound of
    the symbols. ``hints``: example sizes of the symbols, for reports and for ordering merges only. ``ref_outputs``:
    graph output index -> index of the Data it is written into. ``keep``: names of nodes that must stay.
    """

    data_shapes: Mapping[int, Sequence[Expr]] = field(default_factory=dict)
    data_values: Mapping[int, Expr] = field(default_factory=dict)
    minimum: Mapping[str, int] | int = 0
    hints: Mapping[str, int] = field(default_factory=dict)
    ref_outputs: Mapping[int, int] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GeneratedOp:
    """One fused op, from its GE nodes to its kernel text."""

    lowered: Lowered
    schedule: Schedule
    text: KernelText

    @property
    def op_type(self) -> str:
        return self.lowered.op_type


@dataclass(frozen=True)
class FusionResult:
    """``model_def``: the rewritten ModelDef; ``ops``: FusedOpDef messages; ``generated``: the ops as Python data."""

    model_def: Any
    report: FusionReport
    ops: tuple[Any, ...] = ()
    generated: tuple[GeneratedOp, ...] = ()


def fuse(model_def: Any, context: FusionContext, options: Options) -> FusionResult:
    """Rewrites one graph.

    ``model_def``: a ModelDef or its bytes; it is not changed. Raises ValueError for a graph that cannot be read and
    for a chip that kernels are not generated for. What cannot be fused stays, and the report says why.
    """
    target = chip(options.soc)
    if isinstance(target, Reason):
        raise ValueError(str(target))
    clock = _Clock()
    with clock("read"):
        model = parse(model_def)
        original = infer(read(model), context.data_shapes, context.data_values, context.minimum)
    with clock("simplify"):
        graph = simplify(original, tuple(context.ref_outputs.values()))
    maker = OpMaker(graph, target, options)

    with clock("plan"):
        rules = Context(context.keep, tuple(sorted(context.ref_outputs.items())))
        planned = plan(graph, rules, options, context.hints, maker.refuses)
    with clock("generate"):
        generated = _generate(graph, planned.groups, maker)
    with clock("write"):
        left = _without_leftovers(graph, generated, context.keep)
        replacements = [_replacement(graph, made, i) for i, made in enumerate(generated)]
        rewritten = write(model, left, replacements) if replacements and not options.run_unfused else model
    with clock("define"):
        ops = tuple(define(made, target, kernel_hints(made, graph, context.hints)) for made in generated)
    after = left if generated else original  # without a fused op nothing is rewritten
    report = _report(original, after, generated, planned.refusals, context.hints, options, target, clock.seconds)
    return FusionResult(rewritten, report, ops, tuple(generated))


class OpMaker:
    """Makes fused ops of groups. What depends on the op type alone is made once for all groups of that type."""

    def __init__(self, graph: Graph, target: Chip, options: Options) -> None:
        self.graph, self.target, self.options = graph, target, options
        self._lowered: dict[tuple[Group, frozenset[str]], Lowered | Reason] = {}
        self._schedules: dict[str, Schedule | Reason] = {}
        self._texts: dict[str, KernelText] = {}

    def refuses(self, group: Group) -> Reason | None:
        """Why there is no fused op of the group, or None if there is."""
        lowered = self.lower(group)
        if isinstance(lowered, Reason):
            return lowered
        scheduled = self._schedule(lowered)
        return scheduled if isinstance(scheduled, Reason) else None

    def make(self, group: Group, elsewhere: frozenset[str] = frozenset()) -> GeneratedOp | Reason:
        """The fused op of a group, or why there is none. ``elsewhere``: nodes of other fused ops (lower.outputs)."""
        lowered = self.lower(group, elsewhere)
        if isinstance(lowered, Reason):
            return lowered
        scheduled = self._schedule(lowered)
        if isinstance(scheduled, Reason):
            return scheduled
        if lowered.op_type not in self._texts:
            lines = [f"{n.type} ({n.name})" for n in lowered.nodes]
            self._texts[lowered.op_type] = generate(scheduled, lowered.op_type, lines)
        return GeneratedOp(lowered, scheduled, self._texts[lowered.op_type])

    def lower(self, group: Group, elsewhere: frozenset[str] = frozenset()) -> Lowered | Reason:
        key = (group, elsewhere)
        if key not in self._lowered:
            self._lowered[key] = lower_group(self.graph, group, self.options, elsewhere)
        return self._lowered[key]

    def _schedule(self, lowered: Lowered) -> Schedule | Reason:
        if lowered.op_type not in self._schedules:
            self._schedules[lowered.op_type] = schedule(lowered.kernel, self.target)
        return self._schedules[lowered.op_type]


def lower_group(
    graph: Graph, group: Group, options: Options, elsewhere: frozenset[str] = frozenset()
) -> Lowered | Reason:
    """The loop-level kernel of a group, or why there is none; verified where ``options.strict``."""
    domain = Domain(graph)
    for node in connected_order(graph, group.nodes):
        reason = domain.try_add(node)
        if reason is not None:
            return reason
    strict = options.precision == "strict"
    lowered = build(graph, domain, strict=strict, copies=group.copies, elsewhere=elsewhere, unstored=group.unstored)
    if options.strict and isinstance(lowered, Lowered):
        verify(lowered.kernel)
    return lowered


def _generate(graph: Graph, groups: Sequence[Group], maker: OpMaker) -> list[GeneratedOp]:
    """The ops of all groups. One that makes a uniform tensor does not store it for others that make it themselves."""
    everything = frozenset(n.name for g in groups for n in g.nodes)
    makes_uniform = [any(uniform_value(graph, ref) is not None for n in g.nodes for ref in n.outputs) for g in groups]
    generated = []
    for group, uniform in zip(groups, makes_uniform):
        made = maker.make(group, everything - {n.name for n in group.nodes}) if uniform else maker.make(group)
        if isinstance(made, GeneratedOp):
            generated.append(made)
    return generated


def _without_leftovers(graph: Graph, generated: Sequence[GeneratedOp], keep: frozenset[str]) -> Graph:
    """``graph`` without nodes that nothing reads once the ops are fused: what they compute again themselves."""
    owner = {n.name: made for made in generated for n in made.lowered.nodes}
    live: set[str] = set()
    rooted = keep | graph.controlled
    stack = [n.name for n in graph.nodes if n.type in _ROOTS or n.name in rooted or has_side_effect(n.type)]
    while stack:
        name = stack.pop()
        if name in live:
            continue
        live.add(name)
        node = graph.by_name[name]
        inputs = owner[name].lowered.inputs if name in owner else node.inputs
        stack += [ref.node for ref in inputs if ref is not None]
        stack += node.controls
        if name in owner:
            stack += [n.name for n in owner[name].lowered.nodes if n.name not in live]
    live -= {name for made in generated for name in _unstored(graph, made.lowered)}
    kept = tuple(n for n in graph.nodes if n.name in live or not is_pure(n.type))
    return graph if len(kept) == len(graph.nodes) else replace(graph, nodes=kept)


def _unstored(graph: Graph, lowered: Lowered) -> set[str]:
    """Nodes of an op that others read but the op does not store, since the others make the value themselves."""
    names = {n.name for n in lowered.nodes}
    return {
        node.name
        for node in lowered.nodes
        for ref in node.outputs
        if ref not in lowered.outputs and any(c.name not in names for c, _ in graph.consumers.get(ref, ()))
    }


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def _replacement(graph: Graph, made: GeneratedOp, index: int) -> FusedNode:
    lowered = made.lowered
    infos = [graph.info(ref) for ref in lowered.outputs]
    params = lowered.kernel
    return FusedNode(
        op_type=lowered.op_type,
        name=f"{lowered.op_type}_{index}",
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        output_dtypes=tuple(i.dtype for i in infos if i.dtype is not None),
        output_shapes=tuple(i.shape for i in infos if i.shape is not None),
        attrs=MappingProxyType(_attributes(graph, lowered)),
        removed=frozenset(n.name for n in lowered.nodes) - _unstored(graph, lowered),
        scope=lowered.nodes[0].scope,
        input_param_names=tuple(p.name for p in params.inputs),
        output_param_names=tuple(p.name for p in params.outputs),
    )


def _attributes(graph: Graph, lowered: Lowered) -> dict[str, str]:
    """What the node says of itself: the nodes it replaces, and how GE infers its outputs, where it can."""
    attrs = {"_autofuse_nodes": " ".join(n.name for n in lowered.nodes)}
    infos = [graph.info(ref) for ref in lowered.outputs]
    dims = [graph.info(ref).shape for ref in lowered.inputs]
    with suppress(ValueError):  # a size that GE's rules have no word for: the op's own inference function is needed
        attrs["_inference_rule"] = inference_rule(
            dims, [i.shape for i in infos if i.shape is not None], [i.dtype for i in infos if i.dtype is not None]
        )
    return attrs


def _report(
    original: Graph,
    graph: Graph,
    generated: Sequence[GeneratedOp],
    refusals: Sequence[Any],
    hints: Mapping[str, int],
    options: Options,
    target: Chip,
    seconds: Mapping[str, float],
) -> FusionReport:
    alive = live(original.nodes)
    before = [n for n in kernels(original) if n.name in alive]
    inside = {n.name for made in generated for n in made.lowered.nodes}
    left = [n for n in kernels(graph) if n.name not in inside] if generated else before
    fused = [_fused_op(graph, made, hints, target) for made in generated]
    return FusionReport(
        graph_name=original.name,
        kernels_before=len(before),
        kernels_after=len(left) + len(fused),
        gm_bytes_before=_total(gm_bytes(n, original, hints) for n in before),
        gm_bytes_after=_total([*(gm_bytes(n, graph, hints) for n in left), *(f.gm_bytes for f in fused)]),
        gm_bytes_floor=_total([*(gm_bytes(n, graph, hints) for n in left), *(f.gm_bytes_floor for f in fused)]),
        predicted_us_before=_total(_node_us(n, original, hints, target) for n in before),
        predicted_us_after=_total(
            [*(_node_us(n, graph, hints, target) for n in left), *(f.predicted_us for f in fused)]
        ),
        fused=tuple(fused),
        refused=tuple(refusals),
        seconds=seconds,
        soc=target.soc,
        warnings=options.warnings,
    )


def _total(parts: Any) -> Any:
    found = list(parts)
    return None if any(p is None for p in found) else sum(found)


def _node_us(node: Node, graph: Graph, hints: Mapping[str, int], target: Chip) -> float | None:
    moved = gm_bytes(node, graph, hints)
    written = _total(tensor_bytes(r, graph, hints) for r in node.outputs)
    return None if moved is None or written is None else predicted_us(target, moved - written, written)


def _fused_op(graph: Graph, made: GeneratedOp, hints: Mapping[str, int], target: Chip) -> FusedOp:
    lowered, scheduled = made.lowered, made.schedule
    loaded = {v.param for nest in lowered.kernel.nests for v in nest.values if isinstance(v, Load)}
    read = [(r, p.name) for r, p in zip(lowered.inputs, lowered.kernel.inputs) if p.name in loaded]
    read_bytes = _total(tensor_bytes(r, graph, hints) for r, _ in read)
    written = _total(tensor_bytes(r, graph, hints) for r in lowered.outputs)
    floor = None if read_bytes is None or written is None else read_bytes + written
    sizes = kernel_hints(made, graph, hints)
    tiling = scheduled.tiling(sizes, target.vector_cores, target.ub_bytes)
    moved = _total([written, *(_passes_bytes(graph, made, r, p, tiling, hints) for r, p in read)])
    return FusedOp(
        op_type=lowered.op_type,
        nodes=tuple(n.name for n in lowered.nodes),
        node_types=tuple(n.type for n in lowered.nodes),
        template=scheduled.template,
        ub_bytes=tiling["ub_used"],
        gm_bytes=moved,
        gm_bytes_floor=floor,
        predicted_us=None if moved is None else predicted_us(target, moved - written, written),
        inputs=tuple(_tensor_text(graph, r) for r in lowered.inputs),
        outputs=tuple(_tensor_text(graph, r) for r in lowered.outputs),
    )


def _passes_bytes(
    graph: Graph, made: GeneratedOp, ref: TensorRef, param: str, tiling: Mapping[str, int], hints: Mapping[str, int]
) -> int | None:
    """Bytes of an input times the number of loops and index maps it is read in, at the example sizes."""
    scheduled = made.schedule
    if scheduled.variants:
        scheduled = scheduled.variants[tiling["tiling_key"] - 1]
    size = tensor_bytes(ref, graph, hints)
    return None if size is None else size * sum(x.param == param for x in scheduled.program.loads)


def kernel_hints(made: GeneratedOp, graph: Graph, hints: Mapping[str, int]) -> dict[str, int]:
    """Example values of the kernel's own symbols; 64 where the graph's symbols have no hint."""
    values: dict[str, int] = {}
    for s in made.lowered.kernel.symbols:
        index = next(i for i, p in enumerate(made.lowered.kernel.inputs) if p.name == s.param)
        shape = graph.info(made.lowered.inputs[index]).shape
        assert shape is not None
        dim = shape[s.dim]
        known = {n: hints.get(n, 64) for n in expr.free_symbols(dim)}
        values[s.name] = expr.evaluate(dim, known) // s.divisor
    return values


def _tensor_text(graph: Graph, ref: TensorRef) -> str:
    info = graph.info(ref)
    assert info.shape is not None
    return f"{info.dtype}[{','.join(expr.to_str(d) for d in info.shape)}]"
