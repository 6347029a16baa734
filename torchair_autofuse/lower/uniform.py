"""Tensors all of whose elements are known to be the same number: they become constants wherever they are read."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from torchair_autofuse.dtypes import BOOL, DType
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.registry import RULES, Join, Margin, OpView, data_positions

Scalar = Union[float, int, bool]
GENERATORS: dict[str, int | None] = {"Fill": 1, "FillD": 0, "Fills": None, "ZerosLike": None, "OnesLike": None}
"""Ops that repeat one number -> the input that holds it, None where it is fixed or an attribute."""


def op_view(graph: Graph, node: Node) -> OpView:
    """The node with what inference knows of its tensors."""
    inputs = tuple(None if ref is None else graph.info(ref) for ref in node.inputs)
    return OpView(node, inputs, tuple(graph.info(ref) for ref in node.outputs))


def uniform_value(graph: Graph, ref: TensorRef) -> Scalar | None:
    """The number that every element of the tensor is, as its dtype holds it, or None if there is none or it is unknown.

    Small constants count, and what Fill, ZerosLike, OnesLike and Fills make, also through views and broadcasts.
    """
    info = graph.info(ref)
    if info.dtype is None:
        return None
    if info.value:
        first = info.value[0]
        same = isinstance(first, (int, float, bool)) and len({repr(v) for v in info.value}) == 1
        return _typed(first, info.dtype) if same else None
    node = graph.by_name[ref.node]
    rule = RULES.get(node.type)
    if rule is None or (rule.kind != "view" and node.type not in GENERATORS):
        return None
    view = op_view(graph, node)
    if any(i.dtype is None or i.shape is None for i in (info, *view.inputs) if i) or rule.check(view) is not None:
        return None
    if rule.kind != "view":
        known = _generated(graph, node)
    elif rule.movement is not None and isinstance(rule.movement(view), (Join, Margin)):
        return None  # of several parts each may be another number
    else:
        known = _of_input(graph, node, data_positions(node, rule)[0])
    return None if known is None else _typed(known, info.dtype)


def _generated(graph: Graph, node: Node) -> Scalar | None:
    if node.type in ("ZerosLike", "OnesLike"):
        return int(node.type == "OnesLike")
    position = GENERATORS[node.type]
    if position is not None:
        return _of_input(graph, node, position)
    value: Any = node.attrs.get("value")
    return value if isinstance(value, (int, float, bool)) else None


def _of_input(graph: Graph, node: Node, position: int) -> Scalar | None:
    ref = node.inputs[position] if position < len(node.inputs) else None
    return None if ref is None else uniform_value(graph, ref)


def _typed(value: Any, dtype: DType) -> Scalar:
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return float(dtype.numpy.type(value))
    return bool(value) if dtype == BOOL else int(value)
