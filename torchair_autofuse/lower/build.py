"""From a cluster of GE nodes and its iteration domain to one loop-level kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.dtypes import HALF_FLOATS
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Kernel, Nest, Param, Store, Strides
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.loop.rewrite import drop_dead_values
from torchair_autofuse.lower.builder import NestBuilder
from torchair_autofuse.lower.domain import DimMap, Domain, data_positions
from torchair_autofuse.lower.registry import RULES, OpView, Rule, Val, compute_dtype
from torchair_autofuse.lower.symbols import bind_symbols
from torchair_autofuse.messages import Reason


@dataclass(frozen=True)
class Lowered:
    """A cluster as a kernel. ``inputs`` and ``outputs`` are the GE tensors of the kernel's params, in their order."""

    kernel: Kernel
    op_type: str
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    nodes: tuple[Node, ...]


def op_view(graph: Graph, node: Node) -> OpView:
    """The node with what inference knows of its tensors."""
    inputs = tuple(None if ref is None else graph.info(ref) for ref in node.inputs)
    return OpView(node, inputs, tuple(graph.info(ref) for ref in node.outputs))


def scalar_constant(graph: Graph, ref: TensorRef) -> float | int | bool | None:
    """The value of a one-element tensor that is known when the graph is compiled, else None."""
    info = graph.info(ref)
    if info.value is None or len(info.value) != 1 or not isinstance(info.value[0], (int, float, bool)):
        return None
    return info.value[0]


def real_consumers(graph: Graph, ref: TensorRef) -> list[tuple[Node, int]]:
    """Who reads the tensor's value, looking through views; NetOutput counts."""
    found: list[tuple[Node, int]] = []
    for consumer, i in graph.consumers.get(ref, ()):
        rule = RULES.get(consumer.type)
        if rule is not None and rule.kind == "view" and i in data_positions(consumer, rule):
            found.extend(real_consumers(graph, consumer.outputs[0]))
        else:
            found.append((consumer, i))
    return found


def cluster_outputs(graph: Graph, names: frozenset[str] | set[str], nodes: Sequence[Node]) -> tuple[TensorRef, ...]:
    """Tensors of the cluster that something outside it reads, in node order."""
    return tuple(
        ref
        for node in nodes
        for ref in node.outputs
        if any(c.name not in names for c, _ in graph.consumers.get(ref, ()))
    )


def build(graph: Graph, domain: Domain, *, strict: bool = False) -> Lowered | Reason:
    """The kernel of the cluster in ``domain``.

    ``strict`` rounds after every original op (precision="strict"); otherwise a half-precision result is rounded where
    that is visible: stored, read by several ops, or deciding a predicate (docs/numerics.md).
    """
    nodes = sorted(domain.nodes.values(), key=lambda n: graph.position[n.name])
    names = set(domain.nodes)
    atoms = domain.resolve(domain.widest)
    axes = tuple(Axis(f"a{i}", domain.size(a)) for i, a in enumerate(atoms))
    axis_of = dict(zip(atoms, axes))
    outputs = cluster_outputs(graph, names, nodes)
    builder = NestBuilder()
    env: dict[TensorRef, Val] = {}
    stored: dict[TensorRef, Val] = {}
    inputs: dict[TensorRef, str] = {}

    for node in nodes:
        rule = RULES[node.type]
        builder.origin = (node.name,)
        args: list[Val | None] = [None] * len(node.inputs)
        for i in data_positions(node, rule):
            ref = node.inputs[i]
            assert ref is not None
            if ref in env:
                args[i] = env[ref]
                continue
            found = _external(graph, domain, node, i, ref, axis_of, inputs, builder)
            if isinstance(found, Reason):
                return found
            args[i] = found
        if rule.kind == "view":
            data = args[data_positions(node, rule)[0]]
            assert data is not None
            made: Sequence[Val] = (data,)
        else:
            assert rule.emit is not None
            made = rule.emit(builder, op_view(graph, node), args)
        for ref, val in zip(node.outputs, made):
            env[ref], stored[ref] = _settle(graph, builder, ref, val, rule, names, strict)

    return _finish(graph, domain, nodes, outputs, inputs, stored, builder, axes, axis_of)


def _external(
    graph: Graph,
    domain: Domain,
    node: Node,
    index: int,
    ref: TensorRef,
    axis_of: dict[int, Axis],
    inputs: dict[TensorRef, str],
    builder: NestBuilder,
) -> Val | Reason:
    info = graph.info(ref)
    assert info.dtype is not None and info.shape is not None
    scalar = scalar_constant(graph, ref)
    if scalar is not None:
        return builder.const(scalar, compute_dtype(info.dtype))
    dims = domain.operand_map(node, index)
    if isinstance(dims, Reason):
        return dims
    param = inputs.setdefault(ref, f"in{len(inputs)}")
    loaded = builder.load(param, _strides(dims, info.shape, axis_of), 0, info.dtype)
    return builder.cast(loaded, compute_dtype(info.dtype))


def _settle(
    graph: Graph,
    builder: NestBuilder,
    ref: TensorRef,
    val: Val,
    rule: Rule,
    names: set[str],
    strict: bool,
) -> tuple[Val, Val]:
    """(value inside the cluster, value as stored) of a result, rounded to its GE dtype where that is visible."""
    dtype = graph.info(ref).dtype
    assert dtype is not None
    if dtype not in HALF_FLOATS:
        return val, val
    if rule.kind == "view" or builder.is_exact(val, dtype):
        return val, builder.cast(val, dtype)
    readers = real_consumers(graph, ref)
    visible = (
        strict
        or rule.rounds
        or len(readers) != 1
        or any(c.name not in names for c, _ in readers)
        or any(RULES[c.type].predicate for c, _ in readers if c.type in RULES)
    )
    if not visible:
        return val, val
    narrow = builder.cast(val, dtype)
    return builder.cast(narrow, compute_dtype(dtype)), narrow


def _strides(dims: DimMap, shape: tuple[Expr, ...], axis_of: dict[int, Axis]) -> Strides:
    """Flat element strides of a dense tensor read through an index map."""
    strides: dict[str, Expr] = {}
    pitch: Expr = 1
    for digits, size in zip(reversed(dims), reversed(shape)):
        place = pitch
        for atom in reversed(digits):
            axis = axis_of[atom]
            strides[axis.name] = expr.add(strides.get(axis.name, 0), place)
            place = expr.mul(place, axis.size)
        pitch = expr.mul(pitch, size)
    order = {a.name: i for i, a in enumerate(axis_of.values())}
    return tuple(sorted(strides.items(), key=lambda item: order[item[0]]))


def _finish(
    graph: Graph,
    domain: Domain,
    nodes: Sequence[Node],
    outputs: Sequence[TensorRef],
    inputs: dict[TensorRef, str],
    stored: dict[TensorRef, Val],
    builder: NestBuilder,
    axes: tuple[Axis, ...],
    axis_of: dict[int, Axis],
) -> Lowered | Reason:
    params = [_param(graph, ref, name, "input") for ref, name in inputs.items()]
    stores: list[Store] = []
    for k, ref in enumerate(outputs):
        params.append(_param(graph, ref, f"out{k}", "output"))
        shape = graph.info(ref).shape
        assert shape is not None
        val = stored[ref]
        origin = (ref.node,)
        stores.append(Store(f"out{k}", _strides(domain.map_of(ref), shape, axis_of), 0, val.name, origin=origin))
    nest = Nest("n0", axes, tuple(builder.values), tuple(stores))
    nest = drop_dead_values(nest)
    bound = bind_symbols(Kernel("autofuse", tuple(params), (), (nest,)))
    if isinstance(bound, Reason):
        return bound
    digest = content_digest(bound)
    kernel = replace(bound, name=f"autofuse_pointwise_k{digest}")
    return Lowered(kernel, f"AutofusePointwiseK{digest}", tuple(inputs), tuple(outputs), tuple(nodes))


def content_digest(kernel: Kernel) -> str:
    """12 hex digits over what the kernel computes: not its name, not the nodes it came from."""
    text = to_text(replace(kernel, name="autofuse"), origin=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _param(graph: Graph, ref: TensorRef, name: str, kind: str) -> Param:
    info = graph.info(ref)
    assert info.dtype is not None and info.shape is not None
    return Param(name, info.dtype, info.shape, kind)
