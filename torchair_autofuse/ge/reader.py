"""Reads a serialized GE ModelDef into the typed, topologically ordered Graph."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from torchair_autofuse import dtypes
from torchair_autofuse.ge.graph import AttrValue, Graph, Node, TensorRef
from torchair_autofuse.ge.proto import ge_ir

# Attributes that only repeat what the descriptors say, or that are for people: not kept on nodes.
_BOOKKEEPING = frozenset(
    ("_input_name_key", "_input_name_value", "_output_name_key", "_output_name_value", "_readable_value")
)
# String attributes beginning with "_" that are not labels the user put on a scope.
_NOT_SCOPE = frozenset(("_inference_rule", "_origin_data_name", "_iterator_name", "_kernel", "_fx_tensor_name"))
# Labels of torchair.scope that are not strings.
_BOOL_SCOPE = frozenset(("_op_exec_never_timeout", "_enable_inner_parallel"))

_SCALAR_FIELDS = ("i", "f", "b")
_LIST_FIELD_OF_TYPE = {1: "s", 2: "i", 3: "f", 4: "b", 10: "dt"}  # AttrDef.ListValue.val_type
_LIST_FIELDS = ("i", "f", "b", "s", "bt", "t", "dt")


def parse(model_def: Any) -> Any:
    """The ModelDef message of serialized bytes; a message is returned as it is. Raises ValueError for other bytes."""
    if not isinstance(model_def, (bytes, bytearray, memoryview)):
        return model_def
    message = ge_ir().ModelDef()
    try:
        message.ParseFromString(bytes(model_def))
    except Exception as error:
        raise ValueError(f"not a serialized GE ModelDef ({len(model_def)} bytes): {error}") from error
    return message


def read(model_def: Any) -> Graph:
    """The graph of a ModelDef (message or bytes) as typed data; tensors are not inferred yet.

    Nodes come in topological order over data and control edges, ties by their position in the GraphDef. NetOutput is a
    node; its data inputs are ``Graph.outputs``. Raises ValueError that names the node for a missing producer, an output
    index that does not exist, a duplicate name, a cycle, or a number of descriptors that differs from the inputs.
    """
    message = parse(model_def)
    if len(message.graph) != 1:
        raise ValueError(f"a ModelDef with exactly one graph is expected, this one has {len(message.graph)}")
    graph = message.graph[0]
    nodes: dict[str, Node] = {}
    for op in graph.op:
        if op.name in nodes:
            raise ValueError(f"two nodes are called {op.name!r} (types {nodes[op.name].type} and {op.type})")
        nodes[op.name] = _node(op)
    _check_edges(nodes)
    ordered = topological(tuple(nodes.values()))
    return Graph(name=graph.name, nodes=ordered, outputs=_net_outputs(ordered))


def _net_outputs(nodes: Sequence[Node]) -> tuple[TensorRef, ...]:
    found = [n for n in nodes if n.type == "NetOutput"]
    if len(found) > 1:
        raise ValueError(f"several NetOutput nodes: {', '.join(n.name for n in found)}")
    return tuple(ref for n in found for ref in n.inputs if ref is not None)


def _node(op: Any) -> Node:
    data: list[TensorRef | None] = []
    controls: list[str] = []
    for text in op.input:
        if text == "":
            data.append(None)
            continue
        producer, colon, index = text.rpartition(":")
        if not colon or not producer or not index.lstrip("-").isdigit():
            raise ValueError(f"node {op.name!r} ({op.type}): input {text!r} is not of the form <node>:<output index>")
        if int(index) < 0:
            controls.append(producer)
        else:
            data.append(TensorRef(producer, int(index)))
    if op.type not in ("Data", "RefData") and len(data) != len(op.input_desc):
        # Data has a descriptor for the value that is fed to it, but no input.
        raise ValueError(
            f"node {op.name!r} ({op.type}): {len(data)} data inputs but {len(op.input_desc)} input descriptors"
        )
    attrs = {k: decode_attr(v) for k, v in sorted(op.attr.items()) if k not in _BOOKKEEPING and v.WhichOneof("value")}
    return Node(
        name=op.name,
        type=op.type,
        inputs=tuple(data),
        input_names=tuple(desc.name for desc in op.input_desc) if data else (),
        output_names=tuple(desc.name for desc in op.output_desc),
        attrs=MappingProxyType(attrs | _data_attrs(op)),
        controls=tuple(dict.fromkeys(controls)),
        scope=_scope(attrs),
        origin=_origin(op),
    )


def _data_attrs(op: Any) -> dict[str, AttrValue]:
    """For graph inputs the descriptor is the only source of dtype and shape: kept as attributes of our own."""
    if op.type not in ("Data", "RefData") or not op.output_desc:
        return {}
    desc = op.output_desc[0]
    return {
        DATA_DTYPE: dtypes.from_ge_proto(desc.dtype),
        DATA_SHAPE: tuple(int(d) for d in desc.shape.dim),
        DATA_HOST: desc.device_type == "CPU",
    }


DATA_DTYPE = "desc.dtype"
"""Attribute of a Data node: DType of its descriptor, None if it has no counterpart in dtypes."""
DATA_SHAPE = "desc.shape"
"""Attribute of a Data node: dims of its descriptor; -1 is symbolic, (-2,) an unknown rank."""
DATA_HOST = "desc.host"
"""Attribute of a Data node: whether it lives in host memory (sizes do)."""


def _scope(attrs: Mapping[str, AttrValue]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (k, str(v))
        for k, v in sorted(attrs.items())
        if k in _BOOL_SCOPE or (k.startswith("_") and isinstance(v, str) and k not in _NOT_SCOPE)
    )


def _origin(op: Any) -> str:
    for desc in op.output_desc:
        if "_fx_tensor_name" in desc.attr:
            return _text(desc.attr["_fx_tensor_name"].s).rpartition(".OUTPUT.")[0]
    return ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="surrogateescape")


def decode_attr(attr: Any) -> AttrValue:
    """An AttrDef as a Python value.

    str, int, float, bool, DType (``dt``; its C number if unknown), a list of these, np.ndarray (``t``), a list of
    lists, or None for what has no counterpart (functions, subgraphs).
    """
    kind = attr.WhichOneof("value")
    if kind in _SCALAR_FIELDS:
        return getattr(attr, kind)
    if kind == "s":
        return _text(attr.s)
    if kind == "list":
        return _decode_list(attr.list)
    if kind == "t":
        return tensor_value(attr.t)
    if kind == "dt":
        return _ge_c(attr.dt)
    if kind in ("list_list_int", "list_list_float"):
        inner = getattr(attr, kind)
        rows = inner.list_list_i if kind == "list_list_int" else inner.list_list_f
        return [list(r.list_i if kind == "list_list_int" else r.list_f) for r in rows]
    if kind in ("bt", "expression"):
        value = getattr(attr, kind)
        return value if isinstance(value, str) else _text(value)
    return None


def _ge_c(number: int) -> Any:
    return dtypes.from_ge_c(number) or number


def _decode_list(values: Any) -> list[Any]:
    field = _LIST_FIELD_OF_TYPE.get(values.val_type)
    if field is None or not getattr(values, field):  # val_type is not always set
        field = next((f for f in _LIST_FIELDS if getattr(values, f)), None)
    if field is None:
        return []
    raw = getattr(values, field)
    if field in ("s", "bt"):
        return [_text(v) for v in raw]
    if field == "dt":
        return [_ge_c(v) for v in raw]
    if field == "t":
        return [tensor_value(v) for v in raw]
    return list(raw)


def tensor_value(tensor: Any) -> np.ndarray[Any, np.dtype[Any]] | None:
    """The array of a TensorDef (little-endian storage); None when its dtype is unknown or its data are left out."""
    dtype = dtypes.from_ge_proto(tensor.desc.dtype)
    shape = tuple(int(d) for d in tensor.desc.shape.dim)
    count = 1
    for d in shape:
        count *= d
    if dtype is None or len(tensor.data) != count * dtype.itemsize:
        return None
    array = np.frombuffer(tensor.data, dtype=dtype.numpy.newbyteorder("<") if dtype.itemsize > 1 else dtype.numpy)
    return array.reshape(shape)


def _check_edges(nodes: Mapping[str, Node]) -> None:
    for node in nodes.values():
        for ref in node.inputs:
            if ref is None:
                continue
            producer = nodes.get(ref.node)
            if producer is None:
                raise ValueError(f"node {node.name!r} ({node.type}) reads {ref}, but no node is called {ref.node!r}")
            if ref.index >= len(producer.output_names):
                raise ValueError(
                    f"node {node.name!r} ({node.type}) reads {ref}, but {producer.type} {ref.node!r} has "
                    f"{len(producer.output_names)} outputs"
                )
        for name in node.controls:
            if name not in nodes:
                raise ValueError(
                    f"node {node.name!r} ({node.type}) has a control edge from {name!r}, which does not exist"
                )


def topological(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """``nodes`` sorted by data and control edges, ties by the given order. Raises ValueError naming a cycle's nodes."""
    position = {n.name: i for i, n in enumerate(nodes)}
    waits: list[int] = []
    feeds: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        producers = {ref.node for ref in node.inputs if ref is not None} | set(node.controls)
        waits.append(len(producers))
        for p in producers:
            feeds[position[p]].append(i)
    ready = [i for i, w in enumerate(waits) if w == 0]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for j in feeds[i]:
            waits[j] -= 1
            if waits[j] == 0:
                heapq.heappush(ready, j)
    if len(order) < len(nodes):
        raise ValueError(f"the graph has a cycle: {' -> '.join(_cycle(nodes, position, waits))}")
    return tuple(order)


def _cycle(nodes: Sequence[Node], position: Mapping[str, int], waits: Sequence[int]) -> list[str]:
    """Names along one cycle, in the direction of the data."""
    node = nodes[next(i for i, w in enumerate(waits) if w > 0)]
    path: list[str] = []
    while node.name not in path:
        path.append(node.name)
        producers = [ref.node for ref in node.inputs if ref is not None] + list(node.controls)
        node = nodes[position[next(p for p in producers if waits[position[p]] > 0)]]
    return [*path[path.index(node.name) :], node.name][::-1]
