"""Writes a rewritten graph back into a copy of its ModelDef: clusters become custom nodes, dead nodes go.

Everything not named here is copied as it is, unknown protobuf fields included. Data nodes and their indices, the order
and number of NetOutput's inputs, and the attributes of the graph never change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.graph import AttrValue, Graph, Node, TensorRef
from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.ge.reader import parse, read
from torchair_autofuse.loop.expr import Expr

_BOOL_SCOPE = frozenset(("_op_exec_never_timeout", "_enable_inner_parallel"))
_ND = 2  # FORMAT_ND
_REQUIRED = 0  # the kind of an input or output in _ir_inputs_value and _ir_outputs_value
_LIST_TYPES: tuple[tuple[type, str, int], ...] = ((bool, "b", 4), (int, "i", 2), (float, "f", 3), (str, "s", 1))


@dataclass(frozen=True)
class FusedNode:
    """One custom node and what it stands for.

    ``inputs`` and ``outputs`` are tensors of the graph before the rewrite, in parameter order; ``removed`` the nodes
    that go, which produce all of ``outputs``. ``output_shapes`` may be symbolic. ``scope`` are labels of the removed
    nodes to carry over.
    """

    op_type: str
    name: str
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    output_dtypes: tuple[DType, ...]
    output_shapes: tuple[tuple[Expr, ...], ...]
    removed: frozenset[str]
    input_param_names: tuple[str, ...]
    output_param_names: tuple[str, ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=lambda: MappingProxyType({}))
    scope: tuple[tuple[str, str], ...] = ()


def write(model_def: Any, graph: Graph, replacements: Sequence[FusedNode] = ()) -> Any:
    """A new ModelDef: ``model_def`` (message or bytes) with the nodes of ``graph`` only, rewired, clusters replaced.

    ``graph`` is what ge.simplify (or ge.infer) made of ``model_def``: a subset of its nodes under their own names, with
    ``tensors`` that tell the dtypes and shapes of the fused nodes' inputs. Raises ValueError that names the node when
    the replacements are not consistent with the graph (a tensor that is still read, a name in use, a cycle, ...).
    """
    message = ge_ir().ModelDef()
    message.CopyFrom(parse(model_def))
    proto = message.graph[0]
    _check(proto, graph, replacements)
    owner = {name: r.name for r in replacements for name in r.removed}
    moved = {ref: TensorRef(r.name, i) for r in replacements for i, ref in enumerate(r.outputs)}
    last = _last_positions(proto, replacements)
    ops: list[Any] = []
    for position, op in enumerate(proto.op):
        node = graph.by_name.get(op.name)
        if node is not None and op.name not in owner:
            _rewire(op, node, moved, owner)
            ops.append(op)
        ops.extend(_fused_op(r, graph, moved, owner) for r in last.get(position, ()))
    if len(ops) != len(proto.op) or replacements:
        ops = [_copy(op) for op in ops]
        del proto.op[:]
        proto.op.extend(ops)
    read(message)  # a cycle or a missing producer is an error here, not in GE
    return message


def write_bytes(model_def: bytes, graph: Graph, replacements: Sequence[FusedNode] = ()) -> bytes:
    """:func:`write` on serialized bytes; the very same bytes when nothing changes. Output is deterministic."""
    message = write(model_def, graph, replacements)
    if message == parse(model_def):
        return model_def
    return bytes(message.SerializeToString(deterministic=True))


def _copy(op: Any) -> Any:
    made = ge_ir().OpDef()
    made.CopyFrom(op)
    return made


def _last_positions(proto: Any, replacements: Sequence[FusedNode]) -> dict[int, list[FusedNode]]:
    """Position in the op list -> the fused nodes to put there: each where the last of its nodes was."""
    position = {op.name: i for i, op in enumerate(proto.op)}
    found: dict[int, list[FusedNode]] = {}
    for r in replacements:
        found.setdefault(max(position[name] for name in r.removed), []).append(r)
    return found


def _rewire(op: Any, node: Node, moved: Mapping[TensorRef, TensorRef], owner: Mapping[str, str]) -> None:
    inputs: list[str] = []
    data = iter(node.inputs)
    for text in op.input:
        if text.endswith(":-1"):
            name = text[: -len(":-1")]
            inputs.append(f"{owner.get(name, name)}:-1")
        else:
            ref = next(data)
            inputs.append("" if ref is None else str(moved.get(ref, ref)))
    unique = [t for i, t in enumerate(inputs) if not (t.endswith(":-1") and t in inputs[:i])]
    if unique != list(op.input):
        del op.input[:]
        op.input.extend(unique)


def _fused_op(r: FusedNode, graph: Graph, moved: Mapping[TensorRef, TensorRef], owner: Mapping[str, str]) -> Any:
    op = ge_ir().OpDef(name=r.name, type=r.op_type)
    for name, ref in zip(r.input_param_names, r.inputs):
        info = graph.info(ref)
        if info.dtype is None or info.shape is None:
            raise ValueError(f"fused node {r.name!r}: dtype or shape of its input {ref} is unknown")
        op.input.append(str(moved.get(ref, ref)))
        _describe(op.input_desc.add(), name, info.dtype, info.shape, _fx_name(graph, ref))
    outputs = zip(r.output_param_names, r.output_dtypes, r.output_shapes, r.outputs)
    for name, dtype, shape, ref in outputs:
        _describe(op.output_desc.add(), name, dtype, shape, _fx_name(graph, ref))
    removed = [n for n in graph.nodes if n.name in r.removed]
    controls = [owner.get(c, c) for n in removed for c in n.controls if c not in r.removed]
    op.input.extend(f"{c}:-1" for c in dict.fromkeys(controls))
    attrs: dict[str, AttrValue] = {**signature(r.input_param_names, r.output_param_names), **r.attrs}
    for name, value in sorted(attrs.items()):
        encode_attr(op.attr[name], value)
    for label, text in r.scope:
        encode_attr(op.attr[label], text == "True" if label in _BOOL_SCOPE else text)
    return op


def signature(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, list[str] | list[int]]:
    """What TorchAir writes on every op, and the node's own signature for a GE that has none registered."""
    ins, outs = list(inputs), list(outputs)
    return {
        "_input_name_key": ins,
        "_input_name_value": list(range(len(ins))),
        "_output_name_key": outs,
        "_output_name_value": list(range(len(outs))),
        "_ir_inputs_key": ins,
        "_ir_inputs_value": [_REQUIRED] * len(ins),
        "_ir_outputs_key": outs,
        "_ir_outputs_value": [_REQUIRED] * len(outs),
    }


def _fx_name(graph: Graph, ref: TensorRef) -> str:
    """TorchAir's name of a tensor in the user's model, "" if it gave none."""
    node = graph.by_name.get(ref.node)
    return f"{node.origin}.OUTPUT.{ref.index}" if node is not None and node.origin else ""


def _describe(desc: Any, name: str, dtype: DType, shape: Sequence[Expr], fx_name: str) -> None:
    """Shape, dtype and format, and the same as "origin", or GE would take them for unknown; symbolic dims are -1."""
    desc.name = name
    desc.dtype = dtype.ge_proto
    desc.layout = "ND"
    desc.shape.SetInParent()
    dims = [d if isinstance(d, int) else -1 for d in shape]
    desc.shape.dim.extend(dims)
    for key, value in (
        ("format_for_int", _ND),
        ("origin_format", "ND"),
        ("origin_format_for_int", _ND),
        ("origin_shape", dims),
        ("origin_shape_initialized", True),
        ("origin_data_type", ge_ir().DataType.Name(dtype.ge_proto)),
        *((("_fx_tensor_name", fx_name),) if fx_name else ()),
    ):
        encode_attr(desc.attr[key], value)


def encode_attr(attr: Any, value: AttrValue) -> None:
    """Puts a Python value into an AttrDef: the inverse of ge.reader.decode_attr for str, bool, int, float, DType and
    lists of one of these. Raises TypeError for anything else."""
    if isinstance(value, DType):
        attr.dt = value.ge_c
    elif isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, float):
        attr.f = value
    elif isinstance(value, str):
        attr.s = value.encode("utf-8", errors="surrogateescape")
    elif isinstance(value, (list, tuple)):
        _encode_list(attr.list, value)
    else:
        raise TypeError(f"an attribute cannot hold {type(value).__name__}: {value!r}")


def _encode_list(target: Any, values: Sequence[Any]) -> None:
    target.SetInParent()
    if not values:
        target.val_type = 2
        return
    for kind, name, number in _LIST_TYPES:
        if all(isinstance(v, kind) for v in values):
            encoded = [v.encode("utf-8", errors="surrogateescape") if kind is str else v for v in values]
            getattr(target, name).extend(encoded)
            target.val_type = number
            return
    raise TypeError(f"a list attribute holds values of one type, not {values!r}")


# -- consistency -----------------------------------------------------------------------------------------------------
def _check(proto: Any, graph: Graph, replacements: Sequence[FusedNode]) -> None:
    names = {op.name for op in proto.op}
    for node in graph.nodes:
        if node.name not in names:
            raise ValueError(f"node {node.name!r} ({node.type}) of the graph is not in the ModelDef")
    for op in proto.op:
        if op.type in ("Data", "RefData", "NetOutput") and op.name not in graph.by_name:
            raise ValueError(f"{op.type} {op.name!r} is missing from the graph; inputs and outputs must stay")
    seen: dict[str, str] = {}
    for r in replacements:
        _check_one(r, graph, names)
        for name in sorted(r.removed):
            if name in seen:
                raise ValueError(f"node {name!r} is in two fused nodes: {seen[name]!r} and {r.name!r}")
            seen[name] = r.name
        names.add(r.name)


def _check_one(r: FusedNode, graph: Graph, names: set[str]) -> None:
    what = f"fused node {r.name!r}"
    if r.name in names or not r.name or ":" in r.name:
        raise ValueError(f"{what}: the name is in use, empty, or contains ':'")
    if not r.removed or not r.outputs:
        raise ValueError(f"{what}: it removes no node or has no output")
    if not len(r.outputs) == len(r.output_dtypes) == len(r.output_shapes) == len(r.output_param_names):
        raise ValueError(f"{what}: outputs, dtypes, shapes and names differ in number")
    if len(r.inputs) != len(r.input_param_names):
        raise ValueError(f"{what}: {len(r.inputs)} inputs but {len(r.input_param_names)} input names")
    for name in sorted(r.removed):
        node = graph.by_name.get(name)
        if node is None:
            raise ValueError(f"{what}: removed node {name!r} is not in the graph")
        if node.type in ("Data", "RefData", "NetOutput"):
            raise ValueError(f"{what}: {node.type} {name!r} cannot be removed")
    for ref in r.inputs:
        if ref.node in r.removed:
            raise ValueError(f"{what}: its input {ref} is produced by a node it removes")
    for ref in r.outputs:
        if ref.node not in r.removed:
            raise ValueError(f"{what}: its output {ref} is not produced by a node it removes")
    produced = set(r.outputs)
    for ref, uses in graph.consumers.items():
        if ref.node in r.removed and ref not in produced:
            outside = next((user for user, _ in uses if user.name not in r.removed), None)
            if outside is not None:
                raise ValueError(f"{what}: {ref} is read by {outside.name!r} but is not one of its outputs")
