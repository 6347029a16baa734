"""Finds patterns in a graph: from the last op of a pattern upward through its operands.

Candidates are looked up by the op type of the last op, and the search at each is bounded, so that the time grows about
linearly with the graph. The result depends on the graph alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Union

from torchair_autofuse.dtypes import BF16, F16, HALF_FLOATS, DType
from torchair_autofuse.ge.catalogue import host_nodes, is_kernel, op_class
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.plan.patterns.form import (
    COMMUTATIVE,
    Either,
    Form,
    Literal,
    Named,
    Number,
    Op,
    Tensor,
)
from torchair_autofuse.plan.patterns.library import Pattern

STEPS = 4000
"""Forms tried at one candidate before it is given up."""

_SAME = {"Div": "RealDiv", "DivNoNan": "RealDiv", "AddV2": "Add", "Select": "SelectV2", "ConcatD": "ConcatV2"}
_BY_ATTRIBUTE = {"Muls": "Mul", "Adds": "Add", "Pows": "Pow"}  # the second operand is the attribute "value"
_BY_ALPHA = {"Sxpy": "Sub", "AxpyV2": "Add"}  # with a third operand of 1
_REPEATS = frozenset(("BroadcastTo", "BroadcastToD", "Expand", "ExpandD"))
_ROUNDING = {F16: 2.0**-10, BF16: 2.0**-7}

Operand = Union[TensorRef, float, None]


@dataclass(frozen=True)
class Match:
    """An occurrence of a pattern: its kernels, in graph order; views between them and what GE folds are left out."""

    pattern: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class _State:
    bound: Mapping[str, TensorRef]
    nodes: tuple[str, ...] = ()


class _TooLong(Exception):
    """The search at one candidate took too many steps."""


def find(graph: Graph, wanted: Sequence[Pattern]) -> tuple[Match, ...]:
    """Every occurrence of ``wanted`` of at least two kernels: the larger ones first, then in graph order.

    One per pattern and last node. A smaller pattern is found inside a larger one too. ``graph`` is inferred and
    simplified.
    """
    return _Matcher(graph).find(wanted)


class _Matcher:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._through: frozenset[str] = frozenset()
        self._steps = 0
        self._uniform: dict[TensorRef, float | None] = {}
        self._bases: dict[TensorRef, TensorRef] = {}
        self._operands: dict[str, tuple[str, tuple[Operand, ...]]] = {}

    @cached_property
    def _folded(self) -> frozenset[str]:
        return host_nodes(self.graph)

    @cached_property
    def _by_type(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            if node.name not in self._folded:
                found.setdefault(self._seen(node)[0], []).append(node)
        return found

    def find(self, wanted: Sequence[Pattern]) -> tuple[Match, ...]:
        position = self.graph.position
        present = frozenset(self._by_type)
        found: list[tuple[int, int, int, Match]] = []
        for index, pattern in enumerate(wanted):
            if not pattern.needs <= present:
                continue
            if pattern.through != self._through:
                self._through = pattern.through
                self._bases = {}
            for kind in pattern.roots:
                for node in self._by_type.get(kind, ()):
                    names = self._at(pattern, node)
                    if len(names) > 1:
                        ordered = tuple(sorted(names, key=position.__getitem__))
                        found.append((-len(names), position[node.name], index, Match(pattern.name, ordered)))
        return tuple(match for *_, match in sorted(found, key=lambda f: f[:3]))

    def _at(self, pattern: Pattern, node: Node) -> tuple[str, ...]:
        """The kernels of the occurrence whose last node is ``node``, () if there is none."""
        self._steps = STEPS
        try:
            for ref in node.outputs:
                for state in self._form(pattern.graph, ref, _State({}), last=True):
                    kernels = dict.fromkeys(n for n in state.nodes if self._is_kernel(n))
                    if node.name in kernels:
                        return tuple(kernels)
        except _TooLong:
            pass
        return ()

    def _is_kernel(self, name: str) -> bool:
        return is_kernel(self.graph.by_name[name], self.graph)

    # ---- forms ----------------------------------------------------------------------------------------------------

    def _form(self, form: Form, operand: Operand, state: _State, *, last: bool = False) -> Iterator[_State]:
        """States in which ``operand`` is what ``form`` says; ``last``: the node itself, not one behind a view."""
        self._steps -= 1
        if self._steps < 0:
            raise _TooLong
        if isinstance(form, Either):
            for option in form.options:
                yield from self._form(option, operand, state, last=last)
        elif isinstance(form, Number):
            if self._is_number(form, operand):
                yield state
        elif not isinstance(operand, TensorRef):
            return
        elif isinstance(form, Tensor):
            yield from self._tensor(form, operand, state)
        elif isinstance(form, Named):
            base = self._base(operand)
            if form.name in state.bound:
                if state.bound[form.name] == base:
                    yield state
                return
            for found in self._form(form.of, operand, state, last=last):
                yield _State({**found.bound, form.name: base}, found.nodes)
        else:
            yield from self._op(form, operand, state, last)

    def _tensor(self, form: Tensor, operand: TensorRef, state: _State) -> Iterator[_State]:
        base = self._base(operand)
        shape = self.graph.info(base).shape
        if self._number(operand) is not None or (shape == () and form.kind != "single"):
            return
        if form.kind == "vector" and (shape is None or len(shape) != 1 or shape[0] == 1):
            return
        if form.kind == "single" and (shape is None or any(d != 1 for d in shape)):
            return
        if not form.name:
            yield state
        elif form.name not in state.bound:
            yield _State({**state.bound, form.name: base}, state.nodes)
        elif state.bound[form.name] == base:
            yield state

    def _op(self, form: Op, operand: TensorRef, state: _State, last: bool) -> Iterator[_State]:
        ref: TensorRef | None = operand
        while ref is not None:
            node = self.graph.by_name[ref.node]
            kind, operands = self._seen(node)
            if node.name in self._folded:
                return
            if kind == form.type and form.output in (None, ref.index) and self._has(node, ref, form.needs):
                grown = _State(state.bound, (*state.nodes, node.name))
                if form.rest:
                    yield from self._some(form.args, operands, grown)
                elif len(form.args) <= len(operands):
                    yield from self._all(form.args, operands, grown)
                    if kind in COMMUTATIVE and len(form.args) == 2:
                        yield from self._all(form.args, operands[1::-1], grown)
            ref = None if last else self._behind(node)

    def _all(self, forms: Sequence[Form], operands: Sequence[Operand], state: _State) -> Iterator[_State]:
        if not forms:
            yield state
            return
        for found in self._form(forms[0], operands[0], state):
            yield from self._all(forms[1:], operands[1:], found)

    def _some(self, forms: Sequence[Form], operands: Sequence[Operand], state: _State) -> Iterator[_State]:
        """``forms`` are some of ``operands``, in order."""
        if not forms:
            yield state
            return
        for i in range(len(operands) - len(forms) + 1):
            for found in self._form(forms[0], operands[i], state):
                yield from self._some(forms[1:], operands[i + 1 :], found)

    # ---- what a node and a tensor are -------------------------------------------------------------------------------

    def _seen(self, node: Node) -> tuple[str, tuple[Operand, ...]]:
        """Type and operands of a node, as those of the op that means the same."""
        known = self._operands.get(node.name)
        if known is None:
            known = self._operands[node.name] = self._canonical(node)
        return known

    def _canonical(self, node: Node) -> tuple[str, tuple[Operand, ...]]:
        kind, refs = node.type, node.inputs
        value = node.attrs.get("value")
        if kind in _BY_ATTRIBUTE and isinstance(value, (int, float)):
            return _BY_ATTRIBUTE[kind], (refs[0], float(value))
        if kind == "Square":
            return "Pow", (refs[0], 2.0)
        if kind in _BY_ALPHA and len(refs) == 3 and refs[2] is not None and self._number(refs[2]) == 1:
            return _BY_ALPHA[kind], refs[:2]
        return _SAME.get(kind, kind), refs

    def _behind(self, node: Node) -> TensorRef | None:
        """What a node that is looked through passes on, None for any other."""
        if not node.inputs or node.inputs[0] is None:
            return None
        if op_class(node.type) == "view" or node.type in _REPEATS or node.type in self._through:
            return node.inputs[0]
        if node.type == "Cast":
            dtypes = [self.graph.info(ref).dtype for ref in (node.inputs[0], node.outputs[0])]
            if dtypes[0] == dtypes[1] or all(d is not None and d.is_float for d in dtypes):
                return node.inputs[0]
        return None

    def _base(self, ref: TensorRef) -> TensorRef:
        """The tensor behind all that is looked through."""
        passed = []
        while ref not in self._bases:
            passed.append(ref)
            behind = self._behind(self.graph.by_name[ref.node])
            if behind is None:
                break
            ref = behind
        base = self._bases.get(ref, ref)
        self._bases.update(dict.fromkeys(passed, base))
        return base

    def _number(self, ref: TensorRef) -> float | None:
        if ref not in self._uniform:
            known = self.graph.info(ref).value is not None
            value = uniform_value(self.graph, ref if known else self._base(ref))
            self._uniform[ref] = None if value is None else float(value)
        return self._uniform[ref]

    def _is_number(self, form: Number, operand: Operand) -> bool:
        if not isinstance(operand, TensorRef):
            value, dtype = operand, None
        else:
            value, dtype = self._number(operand), self.graph.info(operand).dtype
        if value is None:  # a 0-d tensor is a number that is known when the graph runs
            unknown = isinstance(operand, TensorRef) and self.graph.info(self._base(operand)).shape == ()
            return form.low < form.high and unknown
        unit = 1e-6 if dtype is None else _ROUNDING.get(dtype, 1e-6)
        return form.low - abs(form.low) * unit <= value <= form.high + abs(form.high) * unit

    def _has(self, node: Node, ref: TensorRef, needs: Sequence[tuple[str, Literal]]) -> bool:
        return all(self._need(node, ref, name, wanted) for name, wanted in needs)

    def _need(self, node: Node, ref: TensorRef, name: str, wanted: Literal) -> bool:
        if name == "dtype":
            return str(self.graph.info(ref).dtype) == wanted
        if name == "source":
            dtype = None if not node.inputs or node.inputs[0] is None else self.graph.info(node.inputs[0]).dtype
            return dtype is not None and wanted in _kinds(dtype)
        source = node.input(name)
        value = node.attrs.get(name) if source is None else self.graph.info(source).value
        if isinstance(wanted, str) or value is None:
            return bool(value == wanted)
        have = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        want = wanted if isinstance(wanted, tuple) else (wanted,)
        shape = None if not node.inputs or node.inputs[0] is None else self.graph.info(node.inputs[0]).shape
        if shape and name in ("axes", "axis", "concat_dim", "perm"):
            if not all(isinstance(v, int) for v in have):
                return False
            have, want = (tuple(int(v) % len(shape) for v in dims) for dims in (have, want))
        return have == want


def _kinds(dtype: DType) -> tuple[str, ...]:
    """What ``source`` may call a dtype."""
    return (str(dtype), "int" if dtype.is_int else dtype.kind, "half" if dtype in HALF_FLOATS else "")
