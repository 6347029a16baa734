"""Tensors all of whose elements are known to be the same number: they become constants wherever they are read."""

from __future__ import annotations

from typing import Any, Union
from weakref import WeakKeyDictionary

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
    known = _KNOWN.setdefault(graph, {})
    chain: list[TensorRef] = []  # each is made of the next
    here: TensorRef | None = ref
    value: Scalar | None = None
    while here is not None:
        if here in known:
            value = known[here]
            break
        chain.append(here)
        value, here = _step(graph, here)
    for made in reversed(chain):
        dtype = graph.info(made).dtype
        value = known[made] = None if value is None or dtype is None else _typed(value, dtype)
    return value


_KNOWN: WeakKeyDictionary[Graph, dict[TensorRef, Scalar | None]] = WeakKeyDictionary()


def _step(graph: Graph, ref: TensorRef) -> tuple[Scalar | None, TensorRef | None]:
    """The number that the tensor holds, or the tensor whose number it holds; neither where that is not known."""
    info = graph.info(ref)
    if info.dtype is None:
        return None, None
    if info.value:
        first = info.value[0]
        same = isinstance(first, (int, float, bool)) and len({repr(v) for v in info.value}) == 1
        return (first if same else None), None
    node = graph.by_name[ref.node]
    rule = RULES.get(node.type)
    if rule is None or (rule.kind != "view" and node.type not in GENERATORS):
        return None, None
    view = op_view(graph, node)
    if any(i.dtype is None or i.shape is None for i in (info, *view.inputs) if i) or rule.check(view) is not None:
        return None, None
    if rule.kind != "view":
        return _generated(node)
    if rule.movement is not None and isinstance(rule.movement(view), (Join, Margin)):
        return None, None  # of several parts each may be another number
    return None, _input(node, data_positions(node, rule)[0])


def _generated(node: Node) -> tuple[Scalar | None, TensorRef | None]:
    if node.type in ("ZerosLike", "OnesLike"):
        return int(node.type == "OnesLike"), None
    position = GENERATORS[node.type]
    if position is not None:
        return None, _input(node, position)
    value: Any = node.attrs.get("value")
    return (value if isinstance(value, (int, float, bool)) else None), None


def _input(node: Node, position: int) -> TensorRef | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _typed(value: Any, dtype: DType) -> Scalar:
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return float(dtype.numpy.type(value))
    return bool(value) if dtype == BOOL else int(value)
