"""The GE graph as typed, frozen data. Made by ge.reader, rewritten by ge.simplify, written back by ge.writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop.expr import Expr


@dataclass(frozen=True, order=True)
class TensorRef:
    """The ``index``-th output of node ``node``, written ``node:index`` in a GraphDef."""

    node: str
    index: int

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


AttrValue = Any
"""A Python value: str (bytes decoded), int, float, bool, DType, list of these, or np.ndarray for a tensor attr."""


@dataclass(frozen=True, eq=False)
class Node:
    """One GE op. ``inputs`` are the data inputs in descriptor order; None stands for an absent optional input."""

    name: str
    type: str
    inputs: tuple[TensorRef | None, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]  # one per output, "" where the GraphDef has none (Const)
    attrs: Mapping[str, AttrValue] = field(default_factory=lambda: MappingProxyType({}))
    controls: tuple[str, ...] = ()  # names of the nodes this one has a control edge from
    scope: tuple[tuple[str, str], ...] = ()  # user stream, super kernel and other scope labels, sorted
    origin: str = ""  # model line or FX node it came from, if known

    @property
    def outputs(self) -> tuple[TensorRef, ...]:
        return tuple(TensorRef(self.name, i) for i in range(len(self.output_names)))

    def input(self, name: str) -> TensorRef | None:
        """The data input whose descriptor is called ``name``, or None if absent."""
        for n, ref in zip(self.input_names, self.inputs):
            if n == name:
                return ref
        return None


@dataclass(frozen=True)
class TensorInfo:
    """What inference knows of a tensor; None means unknown.

    ``shape``: dims (0-d is ``()``). ``value``: all elements, flat and row-major, ints or sympy expressions for integer
    tensors, floats or bools otherwise; kept for small tensors only.
    """

    dtype: DType | None = None
    shape: tuple[Expr, ...] | None = None
    value: tuple[Any, ...] | None = None


UNKNOWN = TensorInfo()


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in topological order (ties by their position in the GraphDef), and what inference found about them."""

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[TensorRef, ...]  # data inputs of NetOutput, in order
    tensors: Mapping[TensorRef, TensorInfo] = field(default_factory=lambda: MappingProxyType({}))
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # node -> why inference gave up

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        return MappingProxyType({n.name: n for n in self.nodes})

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Topological position of each node."""
        return MappingProxyType({n.name: i for i, n in enumerate(self.nodes)})

    @cached_property
    def consumers(self) -> Mapping[TensorRef, tuple[tuple[Node, int], ...]]:
        """For each tensor the (node, input index) pairs that read it, in topological order. NetOutput counts."""
        found: dict[TensorRef, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for i, ref in enumerate(node.inputs):
                if ref is not None:
                    found.setdefault(ref, []).append((node, i))
        return MappingProxyType({ref: tuple(uses) for ref, uses in found.items()})

    @cached_property
    def controlled(self) -> frozenset[str]:
        """Names of the nodes that have or feed a control edge."""
        fed = frozenset(n.name for n in self.nodes if n.controls)
        return fed | frozenset(c for n in self.nodes for c in n.controls)

    def info(self, ref: TensorRef) -> TensorInfo:
        return self.tensors.get(ref, UNKNOWN)

    def inputs_of_type(self, *types: str) -> Iterator[Node]:
        return (n for n in self.nodes if n.type in types)


def constant(node: Node) -> np.ndarray[Any, np.dtype[Any]] | None:
    """The value of a Const node as an array (bfloat16 through ml_dtypes), or None if the node is not a constant."""
    if node.type not in ("Const", "Constant"):
        return None
    value = node.attrs.get("value")
    return value if isinstance(value, np.ndarray) else None
