"""The last steps of lowering: nests become a kernel with its parameters, symbols and name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop.ir import Kernel, Load, Nest, Param, Reduce, defined_names
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.loop.rewrite import drop_dead_values, rename_values
from torchair_autofuse.loop.verify import VerifyError, verify
from torchair_autofuse.lower.checks import ALL as LOADABLE
from torchair_autofuse.lower.checks import shape_text
from torchair_autofuse.lower.registry import RULES, Permute, data_positions
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


Nests = tuple[Nest, ...]


@dataclass(frozen=True)
class Nested:
    """The loop nests of a cluster. ``inputs``: what the params that they load are called -> their tensors; they store
    to out0, out1, ..., the ``outputs``. ``replaced``: those of ``nodes`` that the kernel stands for."""

    nodes: tuple[Node, ...]
    nests: Nests
    inputs: Mapping[str, TensorRef]
    outputs: tuple[TensorRef, ...]
    replaced: tuple[Node, ...]


def side_by_side(graph: Graph, parts: Sequence[Nested]) -> Nested:
    """The nests of several clusters, none of which reads what another makes, as those of one kernel.

    A tensor that several load is one param.
    """
    names: dict[TensorRef, str] = {}
    nests: list[Nest] = []
    outputs: list[TensorRef] = []
    for part in parts:
        loads = {name: names.setdefault(ref, f"x{len(names)}") for name, ref in part.inputs.items()}
        stores = {f"out{i}": f"out{i + len(outputs)}" for i in range(len(part.outputs))}
        for nest in part.nests:
            values = tuple(replace(v, param=loads[v.param]) if isinstance(v, Load) else v for v in nest.values)
            stored = tuple(replace(s, param=stores[s.param]) for s in nest.stores)
            nests.append(Nest(f"n{len(nests)}", nest.axes, values, stored))
        outputs += part.outputs

    def in_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
        return tuple(sorted({n.name: n for n in nodes}.values(), key=lambda n: graph.position[n.name]))

    return Nested(
        in_order(n for p in parts for n in p.nodes),
        tuple(nests),
        {name: ref for ref, name in names.items()},
        tuple(outputs),
        in_order(n for p in parts for n in p.replaced),
    )


def finish(graph: Graph, made: Nested) -> Lowered | Reason:
    """The kernel of the nests: no dead values, only the inputs it needs, symbols bound, names in order."""
    nodes, inputs, outputs = made.nodes, made.inputs, made.outputs
    nests = tuple(_number_values(drop_dead_values(n)) for n in made.nests)
    for nest in nests:
        repeated = _reduces_repeats(nest)
        if repeated is not None:
            return repeated
    loaded = list(dict.fromkeys(v.param for n in nests for v in n.values if isinstance(v, Load)))
    refs = [inputs[name] for name in loaded]
    bound = _bind(graph, nests, loaded, refs, outputs)
    # A symbol that no loaded tensor has may be a dim of one whose values do not matter.
    for ref in _shape_sources(graph, nodes, inputs, refs) if isinstance(bound, Reason) else ():
        refs.append(ref)
        bound = _bind(graph, nests, loaded, refs, outputs)
        if isinstance(bound, Kernel):
            break
    if isinstance(bound, Reason):
        return bound
    bound, refs = _without_idle(graph, bound, nests, loaded, refs, outputs)
    unproved = _unproved_window(graph, nodes, bound)
    if unproved is not None:
        return with_tensors(unproved, graph, bound, (*refs, *outputs))
    digest = content_digest(bound)
    kind = _kind(nests)
    kernel = replace(bound, name=f"autofuse_{kind.lower()}_k{digest}")
    return Lowered(kernel, f"Autofuse{kind}K{digest}", tuple(refs), outputs, made.replaced)


def _kind(nests: Nests) -> str:
    """The word that the op type has for what its kernel does."""
    values = [v for n in nests for v in n.values]
    if any(isinstance(v, Reduce) for v in values):
        return "Reduce"
    return "Move" if all(isinstance(v, Load) for v in values) else "Pointwise"


def _unproved_window(graph: Graph, nodes: Sequence[Node], kernel: Kernel) -> Reason | None:
    """Refuses windows, and tensors of clamped sizes, that are not proved to be inside and apart for all sizes."""
    moves = (RULES[n.type].movement for n in nodes)
    still = all(m is None or isinstance(m(op_view(graph, n)), Permute) for n, m in zip(nodes, moves))
    plain = all(isinstance(d, int) or d.is_polynomial() for p in kernel.params for d in p.dims)
    if not kernel.symbols or (still and plain):
        return None
    try:
        verify(kernel)
    except VerifyError as error:
        return Reason("AF223", error.problem)
    return None


def with_tensors(reason: Reason, graph: Graph, kernel: Kernel, refs: Sequence[TensorRef]) -> Reason:
    """The reason with the tensors of the graph that the params named in it are; ``refs``: of all params, in order."""
    words = set(re.findall(r"\w+", reason.text))
    found = [
        f"{p.name} is {ref} {shape_text(graph.info(ref).shape or ())}"
        for p, ref in zip(kernel.params, refs)
        if p.name in words
    ]
    return replace(reason, text=f"{reason.text} ({', '.join(found)})") if found else reason


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
    graph: Graph, nests: Nests, loaded: Sequence[str], refs: Sequence[TensorRef], outputs: Sequence[TensorRef]
) -> Kernel | Reason:
    """The kernel with ``refs`` as its inputs in0, in1, ..., of which the first are those the nests call ``loaded``."""
    names = {name: f"in{i}" for i, name in enumerate(loaded)}

    def renamed(nest: Nest) -> Nest:
        values = (replace(v, param=names[v.param]) if isinstance(v, Load) else v for v in nest.values)
        return replace(nest, values=tuple(values))

    params = [_param(graph, ref, f"in{i}", "input") for i, ref in enumerate(refs)]
    params += [_param(graph, ref, f"out{i}", "output") for i, ref in enumerate(outputs)]
    return bind_symbols(Kernel("autofuse", tuple(params), (), tuple(renamed(n) for n in nests)))


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
    nests: Nests,
    loaded: Sequence[str],
    refs: list[TensorRef],
    outputs: Sequence[TensorRef],
) -> tuple[Kernel, list[TensorRef]]:
    """Drops shape sources that turned out not to be needed."""
    for ref in refs[len(loaded) :]:
        fewer = [r for r in refs if r != ref]
        bound = _bind(graph, nests, loaded, fewer, outputs)
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


def content_digest(kernel: Kernel) -> str:
    """12 hex digits over what the kernel computes: not its name, not the nodes it came from."""
    text = to_text(replace(kernel, name="autofuse"), origin=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _param(graph: Graph, ref: TensorRef, name: str, kind: str) -> Param:
    info = graph.info(ref)
    assert info.dtype is not None and info.shape is not None
    return Param(name, info.dtype, info.shape, kind)
