"""The whole story on one page: read, infer, simplify, plan, lower, schedule, generate, define, write, report.

``fuse`` is a pure function: plugin, command line and tests all call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from torchair_autofuse.causes import causes
from torchair_autofuse.costs import make_report
from torchair_autofuse.explained import remember
from torchair_autofuse.ge.catalogue import has_side_effect, is_pure
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import parse, read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.ge.writer import FusedNode, write
from torchair_autofuse.generated import GeneratedOp, OpMaker, kernel_hints
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef import build as define
from torchair_autofuse.opdef.regenerate import node_attributes
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Costs, Group, without
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.patterns import barred, find, name_ops, patterns
from torchair_autofuse.plan.plan import plan
from torchair_autofuse.report import FusionReport, Refusal
from torchair_autofuse.soc.chip import Chip, chip
from torchair_autofuse.soc.override import with_costs

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

    @property
    def dynamic(self) -> bool:
        """Whether a Data has a symbolic size."""
        return any(not isinstance(d, int) for dims in self.data_shapes.values() for d in dims)


@dataclass(frozen=True)
class FusionResult:
    """``model_def``: the rewritten ModelDef; ``ops``: FusedOpDef messages; ``generated``: the ops as Python data.

    ``before``: the ModelDef as it was; ``graph``: what the ops were made of, ``before`` read and simplified.
    """

    model_def: Any
    report: FusionReport
    ops: tuple[Any, ...] = ()
    generated: tuple[GeneratedOp, ...] = ()
    before: Any = None
    graph: Graph | None = None


Unavailable = Callable[[Sequence[GeneratedOp], Sequence[Any]], Mapping[str, Reason]]
"""Given fused ops and their definitions: op type -> why there is no kernel of it where the graph will run."""


def fuse(
    model_def: Any, context: FusionContext, options: Options, unavailable: Unavailable | None = None
) -> FusionResult:
    """Rewrites one graph.

    ``model_def``: a ModelDef or its bytes; it is not changed. ``unavailable``: which ops cannot be had, None: every op
    can; it is asked again when leaving some out changes others. Raises ValueError for a graph that cannot be read and
    for a chip that kernels are not generated for. What cannot be fused stays, and the report says why.
    """
    target = chip(options.soc)
    if isinstance(target, Reason):
        raise ValueError(str(target))
    target = with_costs(target, options.costs)
    clock = _Clock()
    with clock("read"):
        model = parse(model_def)
        original = infer(read(model), context.data_shapes, context.data_values, context.minimum)
    with clock("simplify"):
        graph = simplify(original, tuple(context.ref_outputs.values()))
    maker = OpMaker(graph, target, options)

    with clock("plan"):
        named = find(graph, tuple(patterns().values()))
        off = barred(named, options.disabled_patterns)
        rules = Context(context.keep, tuple(sorted(context.ref_outputs.items())), off)
        costs = Costs(NodeCosts(graph, context.hints, target), lambda group: maker.predict(group, context.hints))
        planned = plan(graph, rules, options, maker.refuses, costs)
    with clock("generate"):
        definitions = _Definitions(model, graph, target, context.hints)
        groups, generated, ops = _generate(graph, planned.groups, maker, definitions)
    refusals = list(planned.refusals)
    if unavailable is not None:
        with clock("deliver"):
            while missing := unavailable(generated, ops):
                refusals += _withheld(generated, missing)
                gone = [group for group, made in zip(groups, generated) if made.op_type in missing]
                kept = without([group for group in groups if group not in gone], gone, maker.refuses)
                groups, generated, ops = _generate(graph, kept, maker, definitions)
    with clock("write"):
        left = _without_leftovers(graph, generated, context.keep)
        replacements = [_replacement(graph, made, op, i) for i, (made, op) in enumerate(zip(generated, ops))]
        rewritten = write(model, left, replacements) if replacements and not options.run_unfused else model
    after = left if generated else original  # without a fused op nothing is rewritten
    report = make_report(original, after, costs.nodes, generated, refusals, options, clock.seconds)
    details = remember(original, graph, after, generated, ops, context.hints, target)
    fused = [
        replace(op, why=causes(group, made, costs, options.planner))
        for op, group, made in zip(report.fused, groups, generated)
    ]
    report = replace(report, fused=name_ops(fused, named), details=details)
    return FusionResult(rewritten, report, ops, tuple(generated), model, graph)


def _generate(
    graph: Graph, groups: Sequence[Group], maker: OpMaker, definitions: _Definitions
) -> tuple[list[Group], list[GeneratedOp], tuple[Any, ...]]:
    """The groups that have an op, their ops and the definitions of these. An op that makes a uniform tensor does not
    store it for others that make it themselves."""
    everything = frozenset(n.name for g in groups for n in g.nodes)
    makes_uniform = [any(uniform_value(graph, ref) is not None for n in g.nodes for ref in n.outputs) for g in groups]
    kept, generated = [], []
    for group, uniform in zip(groups, makes_uniform):
        made = maker.make(group, everything - {n.name for n in group.nodes}) if uniform else maker.make(group)
        if isinstance(made, GeneratedOp):
            kept.append(group)
            generated.append(made)
    return kept, generated, tuple(definitions.of(made) for made in generated)


def _withheld(generated: Sequence[GeneratedOp], missing: Mapping[str, Reason]) -> list[Refusal]:
    """One refusal per op that cannot be had, at its first node."""
    reasons = [(made.lowered.nodes[0].name, missing.get(made.op_type)) for made in generated]
    return [Refusal(name, "", reason.code, reason.text) for name, reason in reasons if reason is not None]


class _Definitions:
    """The definitions of ops. All ops of a type share that of the first, whose nodes the kernel's text names."""

    def __init__(self, model: Any, graph: Graph, target: Chip, hints: Mapping[str, int]) -> None:
        self.graph, self.target, self.hints = graph, target, hints
        self._nodes = {op.name: op for op in model.graph[0].op}
        self._made: dict[str, Any] = {}

    def of(self, made: GeneratedOp) -> Any:
        if made.op_type not in self._made:
            hints = kernel_hints(made.lowered, self.graph, self.hints)
            self._made[made.op_type] = define(made, self.target, hints, self._nodes)
        return self._made[made.op_type]


def _without_leftovers(graph: Graph, generated: Sequence[GeneratedOp], keep: frozenset[str]) -> Graph:
    """``graph`` without nodes that nothing reads once the ops are fused: what they compute again themselves."""
    owner = {n.name: made for made in generated for n in made.lowered.nodes}
    live: set[str] = set()
    reached: set[int] = set()
    rooted = keep | graph.controlled
    stack = [n.name for n in graph.nodes if n.type in _ROOTS or n.name in rooted or has_side_effect(n.type)]
    while stack:
        name = stack.pop()
        if name in live:
            continue
        live.add(name)
        node = graph.by_name[name]
        stack += node.controls
        made = owner.get(name)
        if made is None:
            stack += [ref.node for ref in node.inputs if ref is not None]
        elif id(made) not in reached:  # once per op, not once per node of it
            reached.add(id(made))
            stack += [ref.node for ref in made.lowered.inputs]
            stack += [n.name for n in made.lowered.nodes]
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
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = time.perf_counter() - start


def _replacement(graph: Graph, made: GeneratedOp, op: Any, index: int) -> FusedNode:
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
        attrs=MappingProxyType({"_autofuse_nodes": " ".join(n.name for n in lowered.nodes), **node_attributes(op)}),
        removed=frozenset(n.name for n in lowered.nodes) - _unstored(graph, lowered),
        scope=lowered.nodes[0].scope,
        input_param_names=tuple(p.name for p in params.inputs),
        output_param_names=tuple(p.name for p in params.outputs),
    )
