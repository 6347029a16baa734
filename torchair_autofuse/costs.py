"""What a graph costs before and after fusion: kernels, GM bytes, predicted time; the numbers of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torchair_autofuse.ge.catalogue import gm_bytes, is_kernel, kernels, tensor_bytes
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.ge.simplify import live
from torchair_autofuse.generated import GeneratedOp, kernel_hints
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Load, Param
from torchair_autofuse.options import Options
from torchair_autofuse.plan.cost import NodeCosts
from torchair_autofuse.plan.predict import schedule_pipes
from torchair_autofuse.report import FusedOp, FusionReport, Refusal


def make_report(
    original: Graph,
    graph: Graph,
    alone: NodeCosts,
    generated: Sequence[GeneratedOp],
    refusals: Sequence[Refusal],
    options: Options,
    seconds: Mapping[str, float],
) -> FusionReport:
    """The report of a graph. ``original``: as read. ``graph``: simplified, without nodes that nothing reads any
    more, the ``generated`` ops not yet in place. ``alone``: costs of all nodes of the simplified graph.

    Chip and sizes of symbols are those of ``alone``; a number that depends on a symbol without one is None.
    """
    hints, target = alone.hints, alone.chip
    alive = live(original.nodes)
    before = [n for n in kernels(original) if n.name in alive]
    inside = {n.name for made in generated for n in made.lowered.nodes}
    # what is inside may read nodes that have gone: the op makes those itself
    left = [n for n in graph.nodes if n.name not in inside and is_kernel(n, graph)] if generated else before
    fused = [_fused_op(graph, made, alone) for made in generated]
    return FusionReport(
        graph_name=original.name,
        kernels_before=len(before),
        kernels_after=len(left) + len(fused),
        gm_bytes_before=_total(gm_bytes(n, original, hints) for n in before),
        gm_bytes_after=_total([*(gm_bytes(n, graph, hints) for n in left), *(f.gm_bytes for f in fused)]),
        gm_bytes_floor=_total([*(gm_bytes(n, graph, hints) for n in left), *(f.gm_bytes_floor for f in fused)]),
        predicted_us_before=_us(NodeCosts(original, hints, target).total_ns(before)),
        predicted_us_after=_total(
            [_us(NodeCosts(graph, hints, target).total_ns(left)), *(f.predicted_us for f in fused)]
        ),
        fused=tuple(fused),
        refused=tuple(refusals),
        seconds=seconds,
        soc=target.soc,
        warnings=options.warnings,
        run_unfused=options.run_unfused,
        options=options.planning(),
    )


def _total(parts: Any) -> Any:
    found = list(parts)
    return None if any(p is None for p in found) else sum(found)


def _us(ns: int | None) -> float | None:
    return None if ns is None else ns / 1000


def _fused_op(graph: Graph, made: GeneratedOp, alone: NodeCosts) -> FusedOp:
    hints, target = alone.hints, alone.chip
    lowered, scheduled = made.lowered, made.schedule
    loaded = {v.param for nest in lowered.kernel.nests for v in nest.values if isinstance(v, Load)}
    read = [(r, p) for r, p in zip(lowered.inputs, lowered.kernel.inputs) if p.name in loaded]
    whole = [tensor_bytes(r, graph, hints) for r, _ in read]
    written = _total(tensor_bytes(r, graph, hints) for r in lowered.outputs)
    sizes = kernel_hints(lowered, graph, hints)
    tiling = scheduled.tiling(sizes, target.vector_cores, target.ub_bytes)
    passes = [_read_bytes(made, p, sizes, tiling) for _, p in read]
    # a size without a hint is unknown, whatever the kernel would do at the size that stands for it
    moved = _total([written, *(None if n is None else m for n, m in zip(whole, passes))])
    floor = _total([written, *(None if n is None else min(n, m) for n, m in zip(whole, passes))])
    pipes = None if moved is None else schedule_pipes(scheduled, sizes, target)
    alone_bytes = _total(gm_bytes(n, alone.graph, hints) for n in lowered.nodes if is_kernel(n, alone.graph))
    return FusedOp(
        op_type=lowered.op_type,
        nodes=tuple(n.name for n in lowered.nodes),
        node_types=tuple(n.type for n in lowered.nodes),
        template=scheduled.template,
        ub_bytes=tiling["ub_used"],
        gm_bytes=moved,
        gm_bytes_floor=floor,
        predicted_us=None if pipes is None else _us(pipes.ns),
        predicted_us_alone=_us(alone.total_ns(lowered.nodes)),
        inputs=tuple(_tensor_text(graph, r) for r in lowered.inputs),
        outputs=tuple(_tensor_text(graph, r) for r in lowered.outputs),
        kernels_alone=sum(is_kernel(n, alone.graph) for n in lowered.nodes),
        gm_bytes_alone=alone_bytes,
        pipes_us={} if pipes is None else {name: ns / 1000 for name, ns in pipes.times.items()},
        limit="" if pipes is None else pipes.limit,
    )


def _read_bytes(made: GeneratedOp, param: Param, sizes: Mapping[str, int], tiling: Mapping[str, int]) -> int:
    """Bytes of an input that the kernel reads, in all loops and index maps, at the example sizes."""
    elements = 0
    for piece in (nest for p in made.schedule.running(tiling) for nest in p.nests):
        axes = {a.name: a.size for a in (*piece.nest.axes, *piece.empty)}  # those that may be empty with true sizes
        loads = {x.buf: x for x in piece.program.loads}
        for load in (x for x in loads.values() if x.param == param.name):
            rows = piece.rows.name if piece.rows is not None else ""
            # rows that lie within the lanes are elements which the covering run has already
            own = [a for a, s in load.strides if a != rows or not (isinstance(s, int) and abs(s) < load.lanes)]
            names = dict.fromkeys([*own, *(a for y in load.lookups for a, _ in loads[y.buf].strides)])
            lanes = math.prod(expr.evaluate(axes[a], sizes) for a in names)
            elements += lanes * load.lanes - (load.lanes - load.span if lanes else 0)
    return elements * param.dtype.itemsize


def _tensor_text(graph: Graph, ref: TensorRef) -> str:
    info = graph.info(ref)
    assert info.shape is not None
    return f"{info.dtype}[{','.join(expr.to_str(d) for d in info.shape)}]"
