"""Helpers for tests of the planner: small graphs to plans and kernels, and a graph run node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from ge_build import GraphBuilder

from torchair_autofuse.dtypes import I32
from torchair_autofuse.ge.graph import Graph, Node, constant
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.generated import OpMaker, lower_group
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.lower.outputs import is_free_view
from torchair_autofuse.lower.registry import data_positions
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, FusionResult, fuse
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.group import Costs, Group
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import Plan, plan
from torchair_autofuse.soc.chip import Chip, chip

Array = npt.NDArray[Any]
ALL = Options(enabled=True, passes=frozenset(["all"]), strict=True)
BARRIER = "Cumsum"  # an op type that is a kernel and is never fused


def shapes(**by_index: Sequence[int | str]) -> dict[int, tuple[Expr, ...]]:
    """``shapes(d0=("s0", 64))``: dims of Data 0, symbols and sizes over them as text."""
    return {int(k[1:]): tuple(d if isinstance(d, int) else expr.parse(d) for d in v) for k, v in by_index.items()}


def graph_of(b: GraphBuilder, **by_index: Sequence[int | str]) -> Graph:
    """The inferred graph of a builder."""
    return infer(b.read(), shapes(**by_index), minimum=2)


def barrier(b: GraphBuilder, x: str) -> str:
    return b.op(BARRIER, x, b.const(0, I32))


def plan_of(
    graph: Graph, context: Context | None = None, hints: Mapping[str, int] | None = None, **options: Any
) -> Plan:
    """The plan of a graph, where every group that can be lowered fits."""
    chosen = ALL.replace(**options)

    def fits(group: Group) -> Reason | None:
        made = lower_group(graph, group, chosen)
        return made if isinstance(made, Reason) else None

    return plan(graph, context or Context(), chosen, fits, node_costs(graph, hints))


def priced(graph: Graph, options: Options = ALL, context: Context | None = None) -> tuple[Plan, OpMaker]:
    """The plan of a graph as the pipeline makes it."""
    target = chip(options.soc)
    assert isinstance(target, Chip)
    maker = OpMaker(graph, target, options)
    costs = Costs(NodeCosts(graph, {}, target), lambda group: maker.predict(group, {}))
    return plan(graph, context or Context(), options, maker.refuses, costs), maker


def node_costs(graph: Graph, hints: Mapping[str, int] | None = None) -> Costs:
    """Predicted times of the nodes alone."""
    target = chip()
    assert isinstance(target, Chip)
    return Costs(NodeCosts(graph, hints or {}, target))


def fused(b: GraphBuilder, context: FusionContext | None = None, **options: Any) -> FusionResult:
    return fuse(b.model, context or FusionContext(), ALL.replace(**options))


def groups(made: Plan) -> list[list[str]]:
    return [[n.name for n in g.nodes] for g in made.groups]


def codes(made: Plan) -> set[tuple[str, str, str]]:
    """(node, other, code) of every refusal."""
    return {(r.node, r.other, r.code) for r in made.refusals}


def lower(graph: Graph, *names: str, **options: Any) -> Lowered | Reason:
    """The kernel of these nodes, verified."""
    nodes = tuple(n for n in graph.nodes if n.name in names)
    assert len(nodes) == len(names)
    return lower_group(graph, Group(nodes), ALL.replace(**options))


def kernel_of(graph: Graph, *names: str, **options: Any) -> Lowered:
    made = lower(graph, *names, **options)
    assert isinstance(made, Lowered), made
    return made


def run_nodes(graph: Graph, inputs: Sequence[Array], sizes: Mapping[str, int] | None = None) -> dict[str, Array]:
    """Every tensor of the graph by ``node:index``, each node run by itself: nothing is fused, all is rounded."""
    values: dict[str, Array] = {}
    for node in graph.nodes:
        if node.type in ("NetOutput",):
            continue
        if node.type == "Data":
            values[f"{node.name}:0"] = np.asarray(inputs[node.attrs["index"]])
            continue
        const = constant(node)
        if const is not None:
            values[f"{node.name}:0"] = const
            continue
        first = node.inputs[0]
        assert first is not None
        if node.type == "Shape":
            values[f"{node.name}:0"] = np.array(values[str(first)].shape, np.int32)
        elif node.type == BARRIER:
            values[f"{node.name}:0"] = (values[str(first)].astype(np.float32) * 0.5 + 1).astype(
                values[str(first)].dtype
            )
        elif is_free_view(graph, node):
            shape = graph.info(node.outputs[0]).shape
            assert shape is not None
            values[f"{node.name}:0"] = values[str(first)].reshape([expr.evaluate(d, dict(sizes or {})) for d in shape])
        else:
            assert node.type in RULES, node.type
            made = lower_group(graph, Group((node,)), ALL)
            if isinstance(made, Reason):  # a reduction of a constant, say
                made = lower_group(_without_values(graph, node), Group((node,)), ALL)
            assert isinstance(made, Lowered), made
            results = interpret(made.kernel, [values[str(r)] for r in made.inputs])
            for p, ref in zip(made.kernel.outputs, made.outputs):
                values[str(ref)] = results[p.name]
    return values


def _without_values(graph: Graph, node: Node) -> Graph:
    """The graph as if ``node`` read graph inputs of unknown values."""
    refs = {node.inputs[i] for i in data_positions(node, RULES[node.type])}
    stand_ins = {r.node for r in refs if r is not None}
    nodes = tuple(replace(n, type="Data", inputs=()) if n.name in stand_ins else n for n in graph.nodes)
    tensors = {r: replace(info, value=None) if r in refs else info for r, info in graph.tensors.items()}
    return replace(graph, nodes=nodes, tensors=tensors)


def check_values(graph: Graph, lowered: Lowered, values: Mapping[str, Array], ulps: int = 0) -> None:
    """The kernel's outputs are those of ``values``, exactly or within so many units in the last place (halves)."""
    verify(lowered.kernel)
    results = interpret(lowered.kernel, [values[str(r)] for r in lowered.inputs])
    for p, ref in zip(lowered.kernel.outputs, lowered.outputs):
        actual, expected = results[p.name], values[str(ref)]
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        if ulps == 0:
            assert actual.tobytes() == np.ascontiguousarray(expected).tobytes(), f"{ref} differs"
        else:
            unit = {np.dtype(np.float16): 2.0**-10, np.dtype(ml_dtypes.bfloat16): 2.0**-7}.get(actual.dtype, 2.0**-23)
            wide = expected.astype(np.float64)
            assert np.abs(actual.astype(np.float64) - wide).max() <= ulps * unit * np.abs(wide).max(), f"{ref} differs"


def check_plan(graph: Graph, made: Plan, values: Mapping[str, Array], ulps: int = 0, **options: Any) -> None:
    """Every group computes what the nodes do."""
    for group in made.groups:
        lowered = lower_group(graph, group, ALL.replace(**options))
        assert isinstance(lowered, Lowered), lowered
        check_values(graph, lowered, values, ulps)


def numbers(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(dtype)


def edges_of_groups(graph: Graph, made: Plan) -> set[tuple[int, int]]:
    """Edges of the graph with each group as one node; a copy is read where it is made."""
    owner = {n.name: -1 - i for i, g in enumerate(made.groups) for n in g.nodes if n.name not in g.copies}
    found = set()
    for node in graph.nodes:
        mine = owner.get(node.name, graph.position[node.name])
        for ref in node.inputs:
            if ref is None:
                continue
            if mine < 0 and ref.node in made.groups[-1 - mine].copies:
                continue
            found.add((owner.get(ref.node, graph.position[ref.node]), mine))
    for i, g in enumerate(made.groups):
        for node in g.nodes:
            if node.name in g.copies:
                refs = (r for r in node.inputs if r is not None and r.node not in g.copies)
                found |= {(owner.get(r.node, graph.position[r.node]), -1 - i) for r in refs}
    return {(a, c) for a, c in found if a != c}


def has_cycle(pairs: set[tuple[int, int]]) -> bool:
    """By removing nodes without predecessors until none is left."""
    nodes = {i for pair in pairs for i in pair}
    rest = set(pairs)
    while nodes:
        free = nodes - {c for _, c in rest}
        if not free:
            return True
        nodes -= free
        rest = {(a, c) for a, c in rest if a not in free}
    return False
