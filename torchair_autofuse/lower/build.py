"""From a cluster of GE nodes and its iteration domain to one loop-level kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.dtypes import HALF_FLOATS
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Kernel, Load, Nest, Param, Reduce, Store, Strides, defined_names
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.loop.rewrite import drop_dead_values, rename_values
from torchair_autofuse.lower.builder import NestBuilder
from torchair_autofuse.lower.checks import ALL as LOADABLE
from torchair_autofuse.lower.domain import DimMap, Domain, data_positions
from torchair_autofuse.lower.outputs import cluster_outputs, real_consumers
from torchair_autofuse.lower.registry import RULES, Rule, Val, compute_dtype
from torchair_autofuse.lower.symbols import bind_symbols
from torchair_autofuse.lower.uniform import op_view, uniform_value
from torchair_autofuse.messages import Reason


@dataclass(frozen=True)
class Lowered:
    """A cluster as a kernel.

    ``inputs`` and ``outputs`` are the GE tensors of the kernel's params, in their order. ``nodes`` are the GE nodes it
    stands for (topological order): those of the cluster without views that stay in the graph and without copies.
    """

    kernel: Kernel
    op_type: str
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    nodes: tuple[Node, ...]


def build(
    graph: Graph,
    domain: Domain,
    *,
    strict: bool = False,
    copies: Collection[str] = (),
    elsewhere: Collection[str] = (),
    unstored: Collection[TensorRef] = (),
) -> Lowered | Reason:
    """The kernel of the cluster in ``domain``.

    ``strict`` rounds after every original op (precision="strict"); otherwise a half-precision result is rounded where
    that is visible: stored, read by several ops, or deciding a predicate (docs/numerics.md). ``copies``,
    ``elsewhere`` and ``unstored``: see :func:`lower.outputs.cluster_outputs`. Refuses a cluster that nothing outside
    reads (AF216) and one with a symbol that no input gives (AF217).
    """
    nodes = sorted(domain.nodes.values(), key=lambda n: graph.position[n.name])
    names = set(domain.nodes)
    outputs, kept = cluster_outputs(graph, nodes, copies, elsewhere, unstored)
    if not outputs:
        return Reason("AF216", f"nothing outside the cluster of {nodes[0].name} reads a result of it")
    outer = _outer_maps(graph, domain, nodes)  # before the axes are taken: an index map may split an atom
    if isinstance(outer, Reason):
        return outer
    atoms = domain.resolve(domain.widest)
    axis_of = {atom: Axis(f"a{i}", domain.size(atom)) for i, atom in enumerate(atoms)}
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
            args[i] = (
                env[ref] if ref in env else _external(graph, domain, ref, outer[node.name, i], axis_of, inputs, builder)
            )
        if rule.kind == "view":
            data = args[data_positions(node, rule)[0]]
            assert data is not None
            made: Sequence[Val] = (data,)
        else:
            assert rule.emit is not None
            if rule.kind == "reduce":
                _set_reduction(builder, domain, node, axis_of)
            made = rule.emit(builder, op_view(graph, node), args)
        for ref, val in zip(node.outputs, made):
            env[ref], stored[ref] = _settle(graph, builder, ref, val, rule, names, strict)
    stores = [
        Store(f"out{k}", _strides(domain.map_of(ref), _shape(graph, ref), axis_of), 0, stored[ref].name, (ref.node,))
        for k, ref in enumerate(outputs)
    ]
    nest = Nest("n0", tuple(axis_of.values()), tuple(builder.values), tuple(stores))
    replaced = tuple(n for n in nodes if n.name not in kept and n.name not in copies)
    return _finish(graph, nodes, nest, {name: ref for ref, name in inputs.items()}, outputs, replaced)


def _set_reduction(builder: NestBuilder, domain: Domain, node: Node, axis_of: Mapping[int, Axis]) -> None:
    """Tells the builder what ``node`` reduces over."""
    axes = [axis_of[a] for a in domain.reduced(node)]
    order = {a.name: i for i, a in enumerate(axis_of.values())}
    builder.reduced = tuple(sorted((a.name for a in axes), key=order.__getitem__))
    builder.reduced_size = expr.product(a.size for a in axes)


def _outer_maps(graph: Graph, domain: Domain, nodes: Sequence[Node]) -> dict[tuple[str, int], DimMap] | Reason:
    """(node, input position) -> index map of each operand that comes from outside and is no constant, resolved."""
    found: dict[tuple[str, int], DimMap] = {}
    for node in nodes:
        for i in data_positions(node, RULES[node.type]):
            ref = node.inputs[i]
            assert ref is not None
            if ref.node in domain.nodes or uniform_value(graph, ref) is not None:
                found[node.name, i] = ()
                continue
            dims = domain.operand_map(node, i)
            if isinstance(dims, Reason):
                return dims
            found[node.name, i] = dims
    return found


def _external(
    graph: Graph,
    domain: Domain,
    ref: TensorRef,
    dims: DimMap,
    axis_of: dict[int, Axis],
    inputs: dict[TensorRef, str],
    builder: NestBuilder,
) -> Val:
    dtype = graph.info(ref).dtype
    assert dtype is not None
    known = uniform_value(graph, ref)
    if known is not None:
        return builder.const(known, compute_dtype(dtype))
    param = inputs.setdefault(ref, f"in{len(inputs)}")
    resolved = tuple(domain.resolve(d) for d in dims)
    loaded = builder.load(param, _strides(resolved, _shape(graph, ref), axis_of), 0, dtype)
    return builder.cast(loaded, compute_dtype(dtype))


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
    nodes: Sequence[Node],
    nest: Nest,
    inputs: Mapping[str, TensorRef],
    outputs: Sequence[TensorRef],
    replaced: tuple[Node, ...],
) -> Lowered | Reason:
    """The kernel of one nest: no dead values, only the inputs it needs, symbols bound, names in order."""
    nest = _number_values(drop_dead_values(nest))
    repeated = _reduces_repeats(nest)
    if repeated is not None:
        return repeated
    loaded = list(dict.fromkeys(v.param for v in nest.values if isinstance(v, Load)))
    refs = [inputs[name] for name in loaded]
    bound = _bind(graph, nest, loaded, refs, outputs)
    # A symbol that no loaded tensor has may be a dim of one whose values do not matter.
    for ref in _shape_sources(graph, nodes, inputs, refs) if isinstance(bound, Reason) else ():
        refs.append(ref)
        bound = _bind(graph, nest, loaded, refs, outputs)
        if isinstance(bound, Kernel):
            break
    if isinstance(bound, Reason):
        return bound
    bound, refs = _without_idle(graph, bound, nest, loaded, refs, outputs)
    digest = content_digest(bound)
    kind = "Reduce" if any(isinstance(v, Reduce) for v in nest.values) else "Pointwise"
    kernel = replace(bound, name=f"autofuse_{kind.lower()}_k{digest}")
    return Lowered(kernel, f"Autofuse{kind}K{digest}", tuple(refs), tuple(outputs), replaced)


def _reduces_repeats(nest: Nest) -> Reason | None:
    """Refuses a reduction over an axis that its operand is only repeated along: there is no loop over the repeats."""
    for v in nest.values:
        if isinstance(v, Reduce):
            for arg in v.args:
                if not set(v.axes) <= set(nest.domains[arg]):
                    return Reason(
                        "AF210", f"{', '.join(v.origin)} reduces over axes that its operand is broadcast along"
                    )
    return None


def _bind(
    graph: Graph, nest: Nest, loaded: Sequence[str], refs: Sequence[TensorRef], outputs: Sequence[TensorRef]
) -> Kernel | Reason:
    """The kernel with ``refs`` as its inputs in0, in1, ..., of which the first are those the nest calls ``loaded``."""
    names = {name: f"in{i}" for i, name in enumerate(loaded)}
    values = tuple(replace(v, param=names[v.param]) if isinstance(v, Load) else v for v in nest.values)
    params = [_param(graph, ref, f"in{i}", "input") for i, ref in enumerate(refs)]
    params += [_param(graph, ref, f"out{i}", "output") for i, ref in enumerate(outputs)]
    return bind_symbols(Kernel("autofuse", tuple(params), (), (replace(nest, values=values),)))


def _shape_sources(
    graph: Graph, nodes: Sequence[Node], inputs: Mapping[str, TensorRef], refs: Sequence[TensorRef]
) -> list[TensorRef]:
    """Tensors with symbolic dims that a kernel could take as inputs without reading them.

    Those of loads that turned out dead, those that a node reads for their shape only, then the graph's own inputs.
    """
    names = {n.name for n in nodes}
    found = list(inputs.values())
    for node in nodes:
        data = data_positions(node, RULES[node.type])
        found += [r for i, r in enumerate(node.inputs) if r is not None and i not in data and r.node not in names]
    found += [TensorRef(n.name, 0) for n in graph.inputs_of_type("Data")]
    return [ref for ref in dict.fromkeys(found) if ref not in refs and _is_shape_source(graph, ref)]


def _is_shape_source(graph: Graph, ref: TensorRef) -> bool:
    info = graph.info(ref)
    symbolic = any(not isinstance(d, int) for d in info.shape or ())
    return symbolic and info.dtype in LOADABLE and uniform_value(graph, ref) is None


def _without_idle(
    graph: Graph,
    kernel: Kernel,
    nest: Nest,
    loaded: Sequence[str],
    refs: list[TensorRef],
    outputs: Sequence[TensorRef],
) -> tuple[Kernel, list[TensorRef]]:
    """Drops shape sources that turned out not to be needed."""
    for ref in refs[len(loaded) :]:
        fewer = [r for r in refs if r != ref]
        bound = _bind(graph, nest, loaded, fewer, outputs)
        if isinstance(bound, Kernel):
            kernel, refs = bound, fewer
    return kernel, refs


def _number_values(nest: Nest) -> Nest:
    """The nest with its values called v0, v1, ... in order, so that what was dropped leaves no trace in the text."""
    names = {n: f"v{i}" for i, n in enumerate(n for v in nest.values for n in defined_names(v))}
    values = tuple(
        replace(v, names=tuple(names[n] for n in v.names)) if isinstance(v, Reduce) else replace(v, name=names[v.name])
        for v in (rename_values(v, names) for v in nest.values)
    )
    return replace(nest, values=values, stores=tuple(replace(s, value=names[s.value]) for s in nest.stores))


def _shape(graph: Graph, ref: TensorRef) -> tuple[Expr, ...]:
    shape = graph.info(ref).shape
    assert shape is not None
    return shape


def content_digest(kernel: Kernel) -> str:
    """12 hex digits over what the kernel computes: not its name, not the nodes it came from."""
    text = to_text(replace(kernel, name="autofuse"), origin=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _param(graph: Graph, ref: TensorRef, name: str, kind: str) -> Param:
    info = graph.info(ref)
    assert info.dtype is not None and info.shape is not None
    return Param(name, info.dtype, info.shape, kind)
