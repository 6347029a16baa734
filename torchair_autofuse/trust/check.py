"""Checks the calls of one GE graph: fused against unfused against f64, then every fused op by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from torchair_autofuse.ge.graph import Graph, TensorRef
from torchair_autofuse.ge.reader import parse
from torchair_autofuse.host.executor import FUSED_PREFIX, GraphExecutor
from torchair_autofuse.host.ops.registry import OpCall, OpFunction
from torchair_autofuse.pipeline import FusionResult
from torchair_autofuse.report import FusedOp
from torchair_autofuse.trust.exact import Exact, Unfused, listed, run_exact, run_noisy, run_unfused
from torchair_autofuse.trust.measure import OutputCheck, compare, same_bits
from torchair_autofuse.trust.record import Call, GraphRecord
from torchair_autofuse.trust.subgraph import Subgraph, subgraph

Outputs = Sequence[torch.Tensor]


@dataclass(frozen=True)
class OpCheck:
    """One fused op on the inputs that it gets in the fused run, against its nodes run unfused on the same.

    ``failure``: why it did not run, "" if it did. ``missing``: why it could not be compared, "" if it was.
    """

    op: FusedOp
    graph: str
    node: str
    calls: int = 0
    outputs: tuple[OutputCheck, ...] = ()
    failure: str = ""
    missing: str = ""

    @property
    def ok(self) -> bool:
        return not self.failure and all(o.ok for o in self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {
            "op_type": self.op.op_type, "nodes": list(self.op.nodes), "graph": self.graph, "node": self.node,
            "calls": self.calls, "ok": self.ok, "failure": self.failure, "missing": self.missing,
            "outputs": [o.to_dict() for o in self.outputs],
        }  # fmt: skip


@dataclass(eq=False)
class _Op:
    """A fused op that is being checked. ``inputs``: of its first wrong call, else of its last, the extra ones too."""

    check: OpCheck
    parts: Subgraph
    unfused: GraphExecutor | None
    inputs: tuple[torch.Tensor, ...] = ()


@dataclass(eq=False)
class GraphCheck:
    """What is known of one graph after its calls so far. ``repeats``: runs of the fused graph that must agree bit for
    bit. ``inside``: whether the values inside a graph can be read (on the host) or its outputs alone."""

    record: GraphRecord
    repeats: int = 2
    inside: bool = True
    calls: int = 0
    outputs: dict[str, OutputCheck] = field(default_factory=dict)
    failure: str = ""
    deterministic: bool = True
    notes: dict[str, None] = field(default_factory=dict)
    _ops: dict[str, _Op] = field(default_factory=dict)
    _sequence: dict[str, None] = field(default_factory=dict)
    _data: dict[str, int] = field(default_factory=dict)
    _random: bool = False

    def __post_init__(self) -> None:
        result = self.record.result
        fused = [op for op in parse(self.record.model_def).graph[0].op if op.type.startswith(FUSED_PREFIX)]
        before = result.before if result is not None and fused else None
        self.before = before.SerializeToString() if before is not None else self.record.model_def
        if self.inside and result is not None and result.graph is not None and fused:
            self._find_ops(result, result.graph, {op.name for op in fused})
        # What a fused op's nodes read may be live in the simplified graph alone, where it stands for its equals.
        extra = dict.fromkeys(ref.node for op in self._ops.values() for ref in op.parts.extra)
        self._unfused = self._executor(self.before, [name for name in extra if name not in self._data])
        self._fused = self._executor(self.record.model_def) if self.inside else None

    def _find_ops(self, result: FusionResult, graph: Graph, names: Collection[str]) -> None:
        """``graph``: simplified, which the fused ops were made of; ``names``: of the fused nodes that were loaded."""
        for i, (made, shown) in enumerate(zip(result.generated, result.report.fused)):
            node = f"{made.op_type}_{i}"  # as the pipeline names it
            if node not in names:
                self._note(f"{node} is not in the graph that was loaded: its ops are not compared one by one")
                continue
            parts = subgraph(result.before, graph, made, node)
            check = OpCheck(shown, self.record.name, node)
            executor = part_executor(parts.before)
            if executor is None:
                check = replace(check, missing="the host executor does not know all of its nodes")
            self._ops[node] = _Op(check, parts, executor)
        self._data = {n.name: n.attrs["index"] for n in graph.inputs_of_type("Data", "RefData")}

    @property
    def ops(self) -> tuple[OpCheck, ...]:
        """Those that ran, in the order in which they did, then the others."""
        rank = {node: i for i, node in enumerate(self._sequence)}
        return tuple(sorted((op.check for op in self._ops.values()), key=lambda c: rank.get(c.node, len(rank))))

    @property
    def first_bad(self) -> OpCheck | None:
        return next((check for check in self.ops if not check.ok), None)

    @property
    def ok(self) -> bool:
        good = all(o.ok for o in self.outputs.values()) and self.first_bad is None
        return good and not self.failure and self.deterministic

    def parts_of(self, node: str) -> tuple[Subgraph, tuple[torch.Tensor, ...]]:
        """The subgraph of a fused node, and inputs of it: of its first wrong call, else of its last."""
        return self._ops[node].parts, self._ops[node].inputs

    def add(self, call: Call, unfused_outputs: Outputs | None = None) -> None:
        """Checks one call. ``unfused_outputs``: what the unfused graph gave on the same inputs, inputs as it left them
        at the end; None: the host executor runs it."""
        self.calls += 1
        unfused = self._run_unfused(call)
        if unfused is None and unfused_outputs is None:
            return
        exact = self._run_exact(call, unfused)
        replayed = self._replay(call, unfused)
        given = (*call.outputs, *call.inputs_after) if call.outputs is not None else None
        fused = given if given is not None else replayed
        if call.error:
            self._failed(call, known_to_run=unfused_outputs is not None)
        if fused is None or self._random:
            return
        if replayed is not None and given is not None and not same_bits(replayed, given):
            self.deterministic = False
        want = unfused_outputs
        if want is None:
            assert unfused is not None
            want = (*unfused.outputs, *unfused.inputs)
        self._compare(call, fused, want, exact, unfused)

    def _failed(self, call: Call, known_to_run: bool) -> None:
        """A failure is fusion's only if the unfused graph does not fail too. ``known_to_run``: it did run already."""
        if self._unfused is not None and not known_to_run:
            try:
                self._unfused.run([t.clone() for t in call.inputs])
            except RuntimeError as error:
                self._note(f"does not run without fusion either: {error}")
                return
        self.failure = self.failure or call.error.splitlines()[0]

    def _compare(self, call: Call, fused: Outputs, unfused: Outputs, exact: Exact | None, run: Unfused | None) -> None:
        n = len(self.record.output_dtypes)
        doubles = None if exact is None else (*exact.outputs, *exact.inputs)
        eps = 0.0 if run is None else coarsest_eps(run)
        spread = None if exact is None or run is None else Spread(self._unfused, call.inputs, run, exact.outputs)
        for i, (f, u) in enumerate(zip(fused, unfused)):
            if i < n:
                name = f"{self.record.name}:{i}"
            elif same_bits([f], [call.inputs[i - n]]) and same_bits([u], [call.inputs[i - n]]):
                continue  # nobody wrote into this input
            else:
                name = f"{self.record.name}: input {i - n}, written"
            moved = None if spread is None or i >= n else spread.of(i)
            found = compare(name, f, u, None if doubles is None else doubles[i], eps, moved)
            known = self.outputs.get(name)
            self.outputs[name] = found if known is None else known.merged(found)

    def _run_unfused(self, call: Call) -> Unfused | None:
        if self._unfused is None:
            return None
        wanted = frozenset((ref.node, ref.index) for op in self._ops.values() for ref in op.parts.extra)
        try:
            unfused = run_unfused(self._unfused, call.inputs, wanted)
        except RuntimeError as error:
            self._note(f"the unfused graph does not run on the host executor: {error}")
            return None
        if not same_bits(run_unfused(self._unfused, call.inputs).outputs, unfused.outputs):
            self._random = True
            self._note("the unfused graph gives other values in every run (random numbers?): only its ops are compared")
        return unfused

    def _run_exact(self, call: Call, unfused: Unfused | None) -> Exact | None:
        if self._unfused is None or unfused is None:
            return None
        try:
            exact = run_exact(self._unfused, call.inputs, unfused)
        except RuntimeError as error:
            self._note(f"no f64 evaluation: {error}")
            return None
        if exact.own_types:
            self._note(f"in their own types, not in f64: {', '.join(exact.own_types)}")
        return exact

    def _replay(self, call: Call, unfused: Unfused | None) -> Outputs | None:
        """Runs the fused graph again, each fused op beside its nodes; its outputs and the inputs as it left them. None
        where that cannot be done. A fused op that fails is replaced by its nodes."""
        if self._fused is None:
            return None
        kept = {} if unfused is None else unfused.kept
        failed = False

        def run_node(function: OpFunction, call_: OpCall) -> Outputs:
            nonlocal failed
            op = self._ops.get(call_.name)
            if op is None:
                return listed(function(call_))
            given = [call_.tensor(i) for i in range(len(op.parts.inputs))]
            extra = [self._value(ref, kept, call) for ref in op.parts.extra]
            inputs = tuple(t.contiguous().clone() for t in (*given, *extra))
            try:
                results: Outputs = listed(function(call_))
                failure = ""
            except Exception as error:  # what a kernel may do wrong is not known beforehand
                failed, failure, results = True, f"{type(error).__name__}: {error}", ()
            return self._check_op(op, inputs, results, failure)

        copies = [t.clone() for t in call.inputs]
        try:
            outputs = [*self._fused.handed_out(self._fused.run_by(copies, run_node)), *copies]
        except RuntimeError as error:
            self._note(f"the fused graph cannot be run to its end: {error}")
            return None
        if failed or self._random:
            return None
        for _ in range(self.repeats - 1):
            again = [t.clone() for t in call.inputs]
            found = self._fused.handed_out(self._fused.run_by(again, lambda f, c: f(c)))
            if not same_bits([*found, *again], outputs):
                self.deterministic = False
        return outputs

    def _value(self, ref: TensorRef, kept: Mapping[tuple[str, int], torch.Tensor], call: Call) -> torch.Tensor:
        """A value that an op's nodes read besides its inputs: sizes and the like, the same in both graphs."""
        return call.inputs[self._data[ref.node]] if ref.node in self._data else kept[ref.node, ref.index]

    def _check_op(self, op: _Op, inputs: tuple[torch.Tensor, ...], results: Outputs, failure: str) -> Outputs:
        self._sequence.setdefault(op.check.node)
        check = replace(op.check, calls=op.check.calls + 1, failure=op.check.failure or failure)
        if not (op.inputs and not op.check.ok):
            op.inputs = inputs
        if op.unfused is not None:
            unfused = run_unfused(op.unfused, inputs)
            if failure:
                results = unfused.outputs
            else:
                found = compare_op(op.unfused, inputs, unfused, results)
                merged = [a.merged(b) for a, b in zip(check.outputs, found)] if check.outputs else found
                check = replace(check, outputs=tuple(merged))
        op.check = check
        if failure and op.unfused is None:
            raise RuntimeError(failure)
        return results

    def _note(self, text: str) -> None:
        self.notes.setdefault(text.splitlines()[0])

    def _executor(self, model_def: bytes, also: Iterable[str] = ()) -> GraphExecutor | None:
        try:
            return GraphExecutor(
                model_def,
                output_dtypes=list(self.record.output_dtypes),
                input_placements=[0] * self.record.n_inputs,
                also=also,
            )
        except RuntimeError as error:  # on a device there are ops that the host does not know
            self._note(f"not on the host executor: {error}")
            return None


def compare_op(executor: GraphExecutor, inputs: Outputs, unfused: Unfused, results: Outputs) -> list[OutputCheck]:
    """The outputs of a fused op against those of its nodes and their f64 evaluation, on the same inputs."""
    try:
        exact: Outputs | None = run_exact(executor, inputs, unfused).outputs
    except RuntimeError:
        exact = None
    eps = coarsest_eps(unfused)
    spread = None if exact is None else Spread(executor, inputs, unfused, exact)
    return [
        compare(f"output {i}", f, u, None if exact is None else exact[i], eps, None if spread is None else spread.of(i))
        for i, (f, u) in enumerate(zip(results, unfused.outputs))
    ]


class Spread:
    """How far rounding can move the outputs of a graph: found out when it is first asked for."""

    def __init__(self, executor: GraphExecutor | None, inputs: Outputs, unfused: Unfused, exact: Outputs) -> None:
        self._executor, self._inputs, self._unfused, self._exact = executor, inputs, unfused, exact
        self._found: list[torch.Tensor] | None = None

    def of(self, index: int) -> Callable[[], torch.Tensor]:
        """Gives the spread of one output."""
        return lambda: self._all()[index]

    def _all(self) -> list[torch.Tensor]:
        if self._found is None:
            assert self._executor is not None
            self._found = run_noisy(self._executor, self._inputs, self._unfused, self._exact)
        return self._found


def part_executor(model: Any) -> GraphExecutor | None:
    """The executor of a subgraph; None where it has ops that the host does not know."""
    attrs = model.graph[0].attr
    try:
        return GraphExecutor(
            model.SerializeToString(),
            output_dtypes=list(attrs["_output_dtypes"].list.i),
            input_placements=list(attrs["_input_placements"].list.i),
        )
    except RuntimeError:
        return None


def coarsest_eps(unfused: Unfused) -> float:
    """Machine epsilon of the coarsest float type among what the nodes of a run read."""
    types = {t for node in unfused.types.values() for t in node if t is not None}
    return max((torch.finfo(t).eps for t in types if t.is_floating_point or t.is_complex), default=0.0)
