"""Runs a GE graph on the host: the data side of TorchAir's ``TorchNpuGraphBase``, on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.host.decode import TORCH_OF_PROTO, decode_attrs, dtype_name, tensor_name, torch_dtype
from torchair_autofuse.host.ops import OPS
from torchair_autofuse.host.ops.registry import OpCall, OpFunction

_DATA = frozenset({"Data", "RefData"})
_CONST = frozenset({"Const", "Constant"})
FUSED_PREFIX = "Autofuse"
RunNode = Callable[[OpFunction, OpCall], "torch.Tensor | Sequence[torch.Tensor]"]
"""Runs one node, given what its op type does: ``function(call)`` or something in its place."""
_MAX_LISTED = 20  # unknown types spelled out in one message


@dataclass(frozen=True)
class _Input:
    """A live Data: its place in the input list and what its descriptor promises (None: nothing)."""

    name: str
    index: int
    slot: int
    dtype: torch.dtype | None
    dims: tuple[int, ...] | None  # -1: any size


@dataclass(frozen=True)
class _Step:
    """One live node, ready to run. A slot is a place in the list of values; -1 stands for an absent input."""

    type: str
    name: str
    origin: str
    function: OpFunction
    inputs: tuple[int, ...]
    input_names: tuple[str, ...]
    attrs: Mapping[str, Any]
    n_outputs: int
    first_output: int
    free: tuple[int, ...]


class GraphExecutor:
    """A loaded GE graph.

    ``model_def``: serialized ModelDef, of which ``graph[0]`` is run. ``output_dtypes``: dtype of each output, as a
    number of GE's C enum. ``input_placements``: one entry per input (0 host, 1 device); the host has one kind of
    memory, so only their number counts. ``also``: names of nodes that are live though no output needs them. Raises
    RuntimeError for a malformed graph and, with code AF401, for live ops it does not know, all of them at once.
    """

    def __init__(
        self, model_def: bytes, *, output_dtypes: list[int], input_placements: list[int], also: Iterable[str] = ()
    ) -> None:
        graph = _graph_of(model_def)
        self.name: str = graph.name
        self._n_inputs = len(input_placements)
        ops = _by_name(graph)
        output = _net_output(ops)
        order = _schedule(ops, output, also)
        _refuse_unknown(ops, order)
        slots: dict[str, int] = {}  # node -> slot of its output 0
        self._slot_names: list[str] = []
        for name in order:
            slots[name] = len(self._slot_names)
            self._slot_names += [f"{name}:{i}" for i in range(len(ops[name].output_desc))]

        def slot(consumer: str, ref: str) -> int:
            if not ref:
                return -1
            producer, index = _split_ref(consumer, ref)
            count = len(ops[producer].output_desc)
            if not 0 <= index < count:
                raise RuntimeError(f"{consumer} reads {ref}, but {producer} has {count} outputs")
            return slots[producer] + index

        self._outputs = [slot(output.name, r) for r in _data_refs(output)]
        if -1 in self._outputs:
            raise RuntimeError(f"output {self._outputs.index(-1)} of graph {self.name} is not connected")
        if len(self._outputs) != len(output_dtypes):
            raise RuntimeError(
                f"graph {self.name} has {len(self._outputs)} outputs, but {len(output_dtypes)} output dtypes were given"
            )
        self._output_dtypes = [torch_dtype(d) for d in output_dtypes]
        self._inputs: list[_Input] = []
        self._constants: list[tuple[int, torch.Tensor]] = []
        self._steps = self._compile(ops, order, slots, slot)

    def _compile(
        self, ops: dict[str, Any], order: list[str], slots: dict[str, int], slot: Callable[[str, str], int]
    ) -> list[_Step]:
        kept = set(self._outputs)
        last_use: dict[int, str] = {}
        reads = {name: tuple(slot(name, r) for r in _data_refs(ops[name])) for name in order}
        for name in order:
            last_use.update((s, name) for s in reads[name])
        frees: dict[str, list[int]] = {}
        for s, name in last_use.items():
            if s >= 0 and s not in kept:
                frees.setdefault(name, []).append(s)
        steps = []
        for name in order:
            op = ops[name]
            try:
                attrs = decode_attrs(op)
            except ValueError as error:
                raise RuntimeError(f"{op.type} {name}: {error}") from error
            if op.type in _DATA:
                self._inputs.append(self._input(op, attrs, slots[name]))
                continue
            if op.type in _CONST:
                value = attrs.get("value")
                if not isinstance(value, torch.Tensor):
                    raise RuntimeError(f"{op.type} {name}: attribute value is not a tensor")
                self._constants.append((slots[name], value))
                continue
            n_outputs = len(op.output_desc)
            unread = [s for s in range(slots[name], slots[name] + n_outputs) if s not in last_use and s not in kept]
            names = tuple(d.name for d in op.input_desc)
            steps.append(
                _Step(
                    type=op.type,
                    name=name,
                    origin=_origin(op),
                    function=_function(op.type),
                    inputs=reads[name],
                    input_names=names + ("",) * (len(reads[name]) - len(names)),
                    attrs=attrs,
                    n_outputs=n_outputs,
                    first_output=slots[name],
                    free=tuple(frees.get(name, []) + unread),
                )
            )
        return steps

    def _input(self, op: Any, attrs: Mapping[str, Any], slot: int) -> _Input:
        index = attrs.get("index", 0)
        if not 0 <= index < self._n_inputs:
            raise RuntimeError(f"{op.type} {op.name} has index {index}, but the graph has {self._n_inputs} inputs")
        desc = op.output_desc[0] if op.output_desc else None
        if desc is None:
            raise RuntimeError(f"{op.type} {op.name} has no output descriptor")
        dims = tuple(desc.shape.dim)
        return _Input(op.name, index, slot, TORCH_OF_PROTO.get(desc.dtype), None if -2 in dims else dims)

    def run(self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None] = ()) -> list[torch.Tensor]:
        """The graph's outputs, in NetOutput order.

        ``inputs``: one CPU tensor per Data index. ``assigned``: empty, or per output None or the tensor to write it
        into, which is then what is returned. Other outputs are fresh dense tensors that share memory with nothing.
        Raises RuntimeError naming the input, node or output that is wrong.
        """
        self._check_inputs(inputs)
        if assigned and len(assigned) != len(self._outputs):
            raise RuntimeError(
                f"{len(assigned)} assigned outputs given, but the graph has {len(self._outputs)} outputs"
            )
        with torch.no_grad():
            values = self._execute(inputs, keep_all=False)
            return self._collect(values, inputs, assigned)

    def run_all(self, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Every live tensor by its name ``node:index``, Data and Const included. They may share memory."""
        self._check_inputs(inputs)
        with torch.no_grad():
            values = self._execute(inputs, keep_all=True)
        return {name: v for name, v in zip(self._slot_names, values) if v is not None}

    def run_by(self, inputs: Sequence[torch.Tensor], run_node: RunNode) -> list[torch.Tensor]:
        """The graph's outputs with every node but Data and Const run by ``run_node(function, call)``, in order.

        For those who watch or change what nodes do: neither inputs nor outputs are checked, inputs may be of other
        dtypes than the graph was built for, ops in place write into them, and outputs may share memory.
        """
        with torch.no_grad():
            values = self._execute(inputs, keep_all=False, run_node=run_node)
        found = [values[slot] for slot in self._outputs]
        return [v for v in found if v is not None]

    def handed_out(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Outputs of ``run_by`` in the dtypes in which ``run`` gives them."""
        return [_rounded(t, dtype) for t, dtype in zip(outputs, self._output_dtypes)]

    def _check_inputs(self, inputs: Sequence[torch.Tensor]) -> None:
        if len(inputs) != self._n_inputs:
            raise RuntimeError(f"graph {self.name} takes {self._n_inputs} inputs, {len(inputs)} given")
        for d in self._inputs:
            x = inputs[d.index]
            what = f"input {d.index} ({d.name})"
            if type(x) not in (torch.Tensor, torch.nn.Parameter):
                raise RuntimeError(f"{what} must be a plain torch.Tensor, not {type(x).__name__}")
            if x.device.type != "cpu":
                raise RuntimeError(f"{what} is on {x.device}: the host executor takes CPU tensors")
            wrong = d.dtype is not None and x.dtype != d.dtype
            if d.dims is not None and not wrong:
                wrong = x.dim() != len(d.dims) or any(n not in (-1, m) for n, m in zip(d.dims, x.shape))
            if wrong:
                dtype = "" if d.dtype is None else dtype_name(d.dtype)
                dims = "" if d.dims is None else list(d.dims)
                raise RuntimeError(f"{what} is {tensor_name(x)}, the graph was built for {dtype}{dims}")

    def _execute(
        self, inputs: Sequence[torch.Tensor], keep_all: bool, run_node: RunNode | None = None
    ) -> list[torch.Tensor | None]:
        values: list[torch.Tensor | None] = [None] * len(self._slot_names)
        for d in self._inputs:
            values[d.slot] = inputs[d.index].detach()
        for slot, constant in self._constants:
            values[slot] = constant
        for step in self._steps:
            arguments = [values[s] if s >= 0 else None for s in step.inputs]
            call = OpCall(step.type, step.name, arguments, step.input_names, step.attrs, step.n_outputs)
            try:
                results = step.function(call) if run_node is None else run_node(step.function, call)
            except Exception as error:
                raise RuntimeError(f"{_where(step, arguments)}: {error}") from error
            if isinstance(results, torch.Tensor):
                results = (results,)
            if len(results) < step.n_outputs:
                raise RuntimeError(f"{_where(step, arguments)}: gave {len(results)} of {step.n_outputs} outputs")
            values[step.first_output : step.first_output + step.n_outputs] = results[: step.n_outputs]
            if not keep_all:
                for s in step.free:
                    values[s] = None
        return values

    def _collect(
        self, values: list[torch.Tensor | None], inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor]:
        taken = {_memory(t) for t in (*inputs, *assigned, *(c for _, c in self._constants)) if t is not None}
        fresh = []
        for i, (slot, dtype) in enumerate(zip(self._outputs, self._output_dtypes)):
            value = values[slot]
            assert value is not None
            value = _rounded(value, dtype)
            if value.dtype != dtype:
                raise RuntimeError(
                    f"output {i} of graph {self.name} ({self._slot_names[slot]}) is {tensor_name(value)}, "
                    f"but {dtype_name(dtype)} is expected"
                )
            if _memory(value) in taken or not _is_whole(value):
                value = value.clone(memory_format=torch.contiguous_format)
            taken.add(_memory(value))
            fresh.append(value)
        # Every value is in memory of its own by now, so that writing one into an input cannot change another.
        for i, target in enumerate(assigned):
            if target is None:
                continue
            if target.shape != fresh[i].shape or target.dtype != fresh[i].dtype:
                raise RuntimeError(
                    f"output {i} of graph {self.name} is {tensor_name(fresh[i])}, "
                    f"but is to be written into {tensor_name(target)}"
                )
            target.detach().copy_(fresh[i])
            fresh[i] = target
        return fresh


def _rounded(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An output in its declared dtype where that is a half and the value f32, else as it is.

    The declared dtype is PyTorch's for tensors on the CPU, where the mean and rstd of a half x, or the gradients of a
    half batch norm, are halves; GE's ops give them in f32 (on an NPU PyTorch declares f32 too).
    """
    halves = (torch.float16, torch.bfloat16)
    return value.to(dtype) if value.dtype == torch.float32 and dtype in halves else value


def _memory(tensor: torch.Tensor) -> int:
    """An identity of the memory behind a tensor (an empty one has no address)."""
    storage = tensor.untyped_storage()
    return int(storage.data_ptr() or storage._cdata)


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is dense row-major and its storage holds nothing else."""
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if stride != expected:
            return False
        expected *= max(size, 1)
    return bool(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size())


def _where(step: _Step, arguments: Sequence[torch.Tensor | None]) -> str:
    origin = f" (from {step.origin})" if step.origin else ""
    return f"{step.type} {step.name}{origin} on ({', '.join(map(tensor_name, arguments))})"


def _graph_of(model_def: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        model = ge_ir().ModelDef.FromString(model_def)
    except DecodeError as error:
        raise RuntimeError(f"not a serialized ModelDef: {error}") from error
    if not model.graph:
        raise RuntimeError("the ModelDef holds no graph")
    return model.graph[0]


def _by_name(graph: Any) -> dict[str, Any]:
    ops: dict[str, Any] = {}
    for op in graph.op:
        if op.name in ops:
            raise RuntimeError(f"two nodes of graph {graph.name} are called {op.name}")
        ops[op.name] = op
    return ops


def _net_output(ops: dict[str, Any]) -> Any:
    found = [op for op in ops.values() if op.type == "NetOutput"]
    if len(found) != 1:
        raise RuntimeError(f"a graph has one NetOutput, this one has {len(found)}")
    return found[0]


def _split_ref(consumer: str, ref: str) -> tuple[str, int]:
    producer, colon, index = ref.rpartition(":")
    if not colon or not index.lstrip("-").isdigit():
        raise RuntimeError(f"{consumer} has a malformed input {ref!r}: expected node:index")
    return producer, int(index)


def _data_refs(op: Any) -> list[str]:
    """The data inputs in descriptor order, "" for an absent one; control edges (index -1) left out."""
    return [r for r in op.input if not r.endswith(":-1")]


def _schedule(ops: dict[str, Any], output: Any, also: Iterable[str]) -> list[str]:
    """Live nodes without NetOutput, each after what it reads or waits for; iterative, in the order of the inputs."""
    done: set[str] = set()
    open_: set[str] = set()
    order: list[str] = []
    stack = [(name, False) for name in (output.name, *also)]  # NetOutput is the last to be left
    while stack:
        name, leaving = stack.pop()
        if leaving:
            open_.discard(name)
            done.add(name)
            order.append(name)
            continue
        if name in done:
            continue
        if name in open_:
            raise RuntimeError(f"graph has a cycle through {name}")
        open_.add(name)
        stack.append((name, True))
        for ref in reversed(ops[name].input):
            if not ref:
                continue
            producer = _split_ref(name, ref)[0]
            if producer not in ops:
                raise RuntimeError(f"{name} reads {ref}, but no node is called {producer}")
            if producer in open_:
                raise RuntimeError(f"graph has a cycle through {producer} and {name}")
            if producer not in done:
                stack.append((producer, False))
    return order[:-1]


def _refuse_unknown(ops: dict[str, Any], order: list[str]) -> None:
    unknown: dict[str, list[str]] = {}
    for name in order:
        kind = ops[name].type
        if kind not in _DATA | _CONST and kind not in OPS and not kind.startswith(FUSED_PREFIX):
            unknown.setdefault(kind, []).append(name)
    if not unknown:
        return
    lines = []
    for kind in sorted(unknown)[:_MAX_LISTED]:
        first = unknown[kind][0]
        origin = _origin(ops[first])
        more = f" and {len(unknown[kind]) - 1} more" if len(unknown[kind]) > 1 else ""
        lines.append(f"  {kind}: node {first}{f' (from {origin})' if origin else ''}{more}")
    if len(unknown) > _MAX_LISTED:
        lines.append(f"  and {len(unknown) - _MAX_LISTED} more types")
    raise RuntimeError(
        "AF401: op types not known to the host executor; register them with torchair_autofuse.host.ops.registry.op, "
        "or run on an NPU:\n" + "\n".join(lines)
    )


def _origin(op: Any) -> str:
    """The FX node a GE node came from, e.g. ``mul_1-aten.mul.Tensor``, or "" where TorchAir left no trace."""
    for desc in op.output_desc:
        if "_fx_tensor_name" in desc.attr:
            return str(desc.attr["_fx_tensor_name"].s.decode("utf-8", "replace").split(".OUTPUT.")[0])
    return ""


def _function(kind: str) -> OpFunction:
    if not kind.startswith(FUSED_PREFIX):
        return OPS[kind]
    # Imported late: only a graph with fused nodes needs the kernel builder.
    kernel = import_module("torchair_autofuse.host.kernels").load(kind)

    def run(call: OpCall) -> Sequence[torch.Tensor]:
        results: Sequence[torch.Tensor] = kernel.run([call.tensor(i).contiguous() for i in range(len(call.inputs))])
        return results

    return run
