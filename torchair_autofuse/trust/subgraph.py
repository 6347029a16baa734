"""The GE nodes that a fused op replaces, and the op itself, as graphs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.ge.reader import parse
from torchair_autofuse.ge.writer import encode_attr
from torchair_autofuse.generated import GeneratedOp
from torchair_autofuse.loop.expr import Expr

_CONSTANTS = ("Const", "Constant")
_HOST = 0  # where an input is; the host executor has one kind of memory


@dataclass(frozen=True)
class Subgraph:
    """``before``: the op's nodes as a ModelDef; its first inputs are the fused op's, then come ``extra``: values that
    the nodes read and the op does not, such as sizes. ``after``: the fused op alone. Outputs are the same in both."""

    before: Any
    after: Any
    inputs: tuple[TensorRef, ...]
    extra: tuple[TensorRef, ...]
    output_dtypes: tuple[DType, ...]
    node: str  # name of the fused node in the rewritten graph


def subgraph(model_def: Any, graph: Graph, made: GeneratedOp, node: str) -> Subgraph:
    """The two graphs of a fused op. ``model_def``: the graph before the rewrite; ``graph``: simplified, which the
    fused ops were made of; ``node``: name of the fused node."""
    lowered = made.lowered
    ops = {op.name: op for op in parse(model_def).graph[0].op}
    inside = {n.name for n in lowered.nodes}
    constants: dict[str, None] = {}
    extra: dict[TensorRef, None] = {}
    for n in lowered.nodes:
        for ref in n.inputs:
            if ref is None or ref in lowered.inputs or ref.node in inside:
                continue
            if graph.by_name[ref.node].type in _CONSTANTS:
                constants.setdefault(ref.node)
            else:
                extra.setdefault(ref)
    feeds = {ref: f"input_{i}" for i, ref in enumerate((*lowered.inputs, *extra))}
    before = _model(f"{node}_unfused")
    for i, (ref, name) in enumerate(feeds.items()):
        before.graph[0].op.append(_data(name, i, graph, ref))
    for name in constants:
        before.graph[0].op.add().CopyFrom(ops[name])
    for n in lowered.nodes:
        op = before.graph[0].op.add()
        op.CopyFrom(ops[n.name])
        del op.input[:]
        op.input.extend("" if ref is None else _source(ref, feeds) for ref in n.inputs)
    outputs = [str(ref) for ref in lowered.outputs]
    _finish(before, len(feeds), outputs, graph, lowered.outputs)

    after = _model(node)
    for i, ref in enumerate(lowered.inputs):
        after.graph[0].op.append(_data(f"input_{i}", i, graph, ref))
    fused = after.graph[0].op.add(name=node, type=made.op_type)
    fused.input.extend(f"input_{i}:0" for i in range(len(lowered.inputs)))
    for ref, param in zip(lowered.inputs, lowered.kernel.inputs):
        _describe(fused.input_desc.add(), param.name, graph, ref)
    for ref, param in zip(lowered.outputs, lowered.kernel.outputs):
        _describe(fused.output_desc.add(), param.name, graph, ref)
    _finish(after, len(lowered.inputs), [f"{node}:{i}" for i in range(len(lowered.outputs))], graph, lowered.outputs)
    dtypes = tuple(d for d in (graph.info(ref).dtype for ref in lowered.outputs) if d is not None)
    return Subgraph(before, after, lowered.inputs, tuple(extra), dtypes, node)


def _source(ref: TensorRef, feeds: dict[TensorRef, str]) -> str:
    """Where a node of the subgraph reads. What the fused op takes in comes from outside, though a node of it may
    compute the same tensor for others."""
    return f"{feeds[ref]}:0" if ref in feeds else str(ref)


def _model(name: str) -> Any:
    model = ge_ir().ModelDef()
    model.graph.add(name=name)
    return model


def _data(name: str, index: int, graph: Graph, ref: TensorRef) -> Any:
    op = ge_ir().OpDef(name=name, type="Data")
    encode_attr(op.attr["index"], index)
    _describe(op.input_desc.add(), "x", graph, ref)
    _describe(op.output_desc.add(), "y", graph, ref)
    return op


def _describe(desc: Any, name: str, graph: Graph, ref: TensorRef) -> None:
    info = graph.info(ref)
    desc.name = name
    desc.layout = "ND"
    if info.dtype is not None:
        desc.dtype = info.dtype.ge_proto
    dims: Sequence[Expr] = (-2,) if info.shape is None else info.shape
    desc.shape.SetInParent()
    desc.shape.dim.extend(d if isinstance(d, int) else -1 for d in dims)


def _finish(model: Any, n_inputs: int, outputs: Sequence[str], graph: Graph, refs: Sequence[TensorRef]) -> None:
    net = model.graph[0].op.add(name="NetOutput", type="NetOutput")
    net.input.extend(outputs)
    for i, ref in enumerate(refs):
        _describe(net.input_desc.add(), f"input{i}", graph, ref)
    dtypes = [graph.info(ref).dtype for ref in refs]
    encode_attr(model.graph[0].attr["_output_dtypes"], [0 if d is None else d.ge_c for d in dtypes])
    encode_attr(model.graph[0].attr["_input_placements"], [_HOST] * n_inputs)
