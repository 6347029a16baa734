"""Own inference of shapes, dtypes and small values, from Data and Const only.

The descriptors of intermediate tensors in a TorchAir GraphDef are wrong as often as not, so none is read. What cannot
be known stays unknown: nothing here guesses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from torchair_autofuse.dtypes import I32, I64, DType, from_numpy
from torchair_autofuse.ge.graph import UNKNOWN, Graph, Node, TensorInfo, TensorRef, constant
from torchair_autofuse.ge.infer import cube, elementwise, generator, move, norm, reduce  # noqa: F401 (they register rules)
from torchair_autofuse.ge.infer import index as _index  # noqa: F401
from torchair_autofuse.ge.infer.registry import (
    MAX_VALUE,
    RULES,
    Call,
    Facts,
    InferRule,
    Shape,
    Unknown,
    eval_dtype,
    eval_shape,
    to_value,
)
from torchair_autofuse.ge.reader import DATA_DTYPE, DATA_HOST, DATA_SHAPE
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr

__all__ = ["infer"]

_NO_OUTPUT = frozenset(("NetOutput",))
_PASSES = 4  # walks over the graph at most; a second one is rare


def infer(
    graph: Graph,
    data_shapes: Mapping[int, Sequence[Expr]] | None = None,
    data_values: Mapping[int, Expr] | None = None,
    minimum: Mapping[str, int] | int = 0,
) -> Graph:
    """``graph`` with ``tensors`` and ``notes`` filled.

    ``data_shapes`` maps the ``index`` of a Data to its dims; they stand where the descriptor says -1 (or has no rank).
    A symbolic dim nobody names becomes the symbol ``d<index>_<dim>``. ``data_values`` maps the index of a 0-d integer
    Data to its value; a host-side one nobody names becomes ``v<index>``. ``minimum`` is a lower bound of the symbols,
    one for all or by name: Dynamo compiles sizes 0 and 1 apart, so its symbols are at least 2. ``notes`` says, per
    node with an unknown output, why. Raises ValueError when the given dims contradict a descriptor.
    """
    facts = Facts(minimum)
    for _ in range(_PASSES):
        known = len(facts)
        tensors, notes = _pass(graph, data_shapes or {}, data_values or {}, facts)
        if len(facts) == known:
            break
    tensors = {ref: _without_symbolic_floats(info) for ref, info in tensors.items()}
    return replace(graph, tensors=MappingProxyType(tensors), notes=MappingProxyType(notes))


def _pass(
    graph: Graph, shapes: Mapping[int, Sequence[Expr]], values: Mapping[int, Expr], facts: Facts
) -> tuple[dict[TensorRef, TensorInfo], dict[str, str]]:
    """One walk over the nodes; equalities that it learns are applied from the next walk on to what came before."""
    tensors: dict[TensorRef, TensorInfo] = {}
    notes: dict[str, str] = {}
    for node in graph.nodes:
        if node.type in _NO_OUTPUT:
            continue
        if node.type in ("Data", "RefData"):
            infos = [_data(node, shapes, values)]
        elif node.type in ("Const", "Constant"):
            infos = [_const(node)]
        else:
            call = Call(node, tuple(None if ref is None else tensors.get(ref, UNKNOWN) for ref in node.inputs), facts)
            rule = RULES.get(node.type)
            if rule is None:
                infos, why = [], "no inference rule for this op type"
            else:
                infos, why = _apply(rule, call)
            if why:
                notes[node.name] = f"{node.type}: {why}"
        for i in range(len(node.output_names)):
            tensors[TensorRef(node.name, i)] = _with(facts, infos[i]) if i < len(infos) else UNKNOWN
    return tensors, notes


def _with(facts: Facts, info: TensorInfo) -> TensorInfo:
    if not facts:
        return info
    shape = None if info.shape is None else tuple(facts.apply(d) for d in info.shape)
    value = None if info.value is None else tuple(facts.apply(e) for e in info.value)
    return replace(info, shape=shape, value=value)


def _without_symbolic_floats(info: TensorInfo) -> TensorInfo:
    """A size cast to a float helps to infer other sizes; it is no constant, and what leaves here says so."""
    if info.value is None or info.dtype is None or not info.dtype.is_float:
        return info
    return info if all(isinstance(e, float) for e in info.value) else replace(info, value=None)


def _data(node: Node, shapes: Mapping[int, Sequence[Expr]], values: Mapping[int, Expr]) -> TensorInfo:
    index = int(node.attrs.get("index", 0))
    dtype: DType | None = node.attrs.get(DATA_DTYPE)
    dims: tuple[int, ...] = node.attrs.get(DATA_SHAPE, ())
    given = shapes.get(index)
    if -2 in dims:  # unknown rank
        return TensorInfo(dtype, None if given is None else tuple(given))
    if given is not None and len(given) != len(dims):
        raise ValueError(
            f"Data {node.name!r} (index {index}) has rank {len(dims)}, but {len(given)} dims were given for it: {given}"
        )
    shape: list[Expr] = []
    for k, d in enumerate(dims):
        if d >= 0:
            if given is not None and isinstance(given[k], int) and given[k] != d:
                raise ValueError(
                    f"Data {node.name!r} (index {index}): dim {k} is {d} in the graph, {given[k]} was given"
                )
            shape.append(d)
        else:
            shape.append(expr.symbol(f"d{index}_{k}") if given is None else given[k])
    value: tuple[Any, ...] | None = None
    if not shape and dtype in (I64, I32):
        if index in values:
            value = (values[index],)
        elif node.attrs.get(DATA_HOST):
            value = (expr.symbol(f"v{index}"),)
    return TensorInfo(dtype, tuple(shape), value)


def _const(node: Node) -> TensorInfo:
    array = constant(node)
    if array is None:
        return UNKNOWN
    value: tuple[Any, ...] | None = None
    if array.size <= MAX_VALUE:
        plain = array.astype("float32") if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array
        value = tuple(plain.reshape(-1).tolist())
    return TensorInfo(from_numpy(array.dtype), array.shape, value)


def _apply(rule: InferRule, call: Call) -> tuple[list[TensorInfo], str]:
    """Infos of all outputs and, where something stayed unknown, why. A rule that fails makes its part unknown."""
    reasons: list[str] = []
    dtypes = _each(rule.dtypes, eval_dtype, call, reasons)
    shapes = _each(rule.shapes, eval_shape, call, reasons)
    value: tuple[Any, ...] | None = None
    if rule.value is not None and dtypes and _small(shapes[0] if shapes else None):
        compute = dtypes[0] or _integer_inputs(call)
        value = None if compute is None else _value(rule, call, compute)
    infos = [
        TensorInfo(
            dtypes[i] if i < len(dtypes) else None,
            shapes[i] if i < len(shapes) else None,
            value if i == 0 else None,
        )
        for i in range(call.n_outputs)
    ]
    if not reasons and any(i.dtype is None or i.shape is None for i in infos):
        reasons.append("depends on data or on the chip")
    return infos, "; ".join(dict.fromkeys(reasons))


def _each(specs: Any, evaluate: Any, call: Call, reasons: list[str]) -> list[Any]:
    if callable(specs):
        try:
            return list(specs(call))
        except Unknown as reason:
            reasons.append(str(reason))
        except Exception as error:  # a malformed node must not stop the others
            reasons.append(f"{type(error).__name__}: {error}")
        return []
    found: list[Any] = []
    for spec in specs:
        try:
            found.append(evaluate(spec, call))
        except Unknown as reason:
            found.append(None)
            reasons.append(str(reason))
        except Exception as error:  # as above
            found.append(None)
            reasons.append(f"{type(error).__name__}: {error}")
    return found


def _integer_inputs(call: Call) -> DType | None:
    """Mixed integer operands: the dtype of the result is unknown, its value is not."""
    integer = all(info is None or info.dtype is None or info.dtype.is_int for info in call.inputs)
    return I64 if integer else None


def _small(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(d, int) for d in shape) and math.prod(shape) <= MAX_VALUE


def _value(rule: InferRule, call: Call, dtype: DType) -> tuple[Any, ...] | None:
    assert rule.value is not None
    if any(info is not None and info.value is None for info in call.inputs) and call.node.type not in _SHAPE_OPS:
        return None  # the usual case, without the cost of an exception
    try:
        found = rule.value(call, dtype)
    except Exception:
        return None
    return None if found is None else to_value(found)


_SHAPE_OPS = frozenset(("Shape", "Size", "Rank", "ZerosLike", "OnesLike"))
