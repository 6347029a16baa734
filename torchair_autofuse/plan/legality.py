"""What may be fused at all: rules on one node, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from torchair_autofuse.dtypes import HALF_FLOATS, I8, U8, DType
from torchair_autofuse.ge.catalogue import has_side_effect, op_class
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop.ir import Cast, Pointwise, Reduce, Value
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.builder import NestBuilder
from torchair_autofuse.lower.checks import shape_text
from torchair_autofuse.lower.registry import Join, OpView, Rule, Val, compute_dtype, data_positions
from torchair_autofuse.lower.uniform import op_view, uniform_value
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.schedule.isa import supports_cast, supports_op, supports_reduce


@dataclass(frozen=True)
class Context:
    """What a GraphDef does not hold.

    ``keep``: nodes that must stay; ``ref_outputs``: graph output index -> index of the Data it is written into.
    ``barred``: further nodes that must stay, with the reason (patterns that are switched off).
    """

    keep: frozenset[str] = frozenset()
    ref_outputs: tuple[tuple[int, int], ...] = ()
    barred: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))


_MOVE_PASSES = (
    *(("Concat", "concat"), ("Pack", "concat"), ("Pad", "concat"), ("Split", "split"), ("Unpack", "split")),
    *(("StridedSlice", "slice"), ("Slice", "slice"), ("Reverse", "slice")),
    *(("Transpose", "transpose"), ("Gather", "gather"), ("IndexByTensor", "gather")),
)


def pass_of(op_type: str) -> str:
    """The pass that has to be enabled for an op type, "" if elementwise, broadcast or never fused."""
    if op_class(op_type) in ("reduce", "norm", "loss"):
        return "reduce"
    return next((name for prefix, name in _MOVE_PASSES if op_type.startswith(prefix)), "")


def node_reason(graph: Graph, node: Node, context: Context, options: Options) -> Reason | None:
    """Why ``node`` cannot be part of any fused op, or None if it can."""
    lists = (("keep", context.keep), ("skip_nodes", options.skip_nodes), ("skip_types", options.skip_types))
    for name, kept in lists:
        word = node.type if name == "skip_types" else node.name
        if word in kept:
            return Reason("AF214", f"{node.name} ({node.type}) is kept by the user: {name} has {word}")
    if node.name in context.barred:
        return context.barred[node.name]
    needed = pass_of(node.type)
    if needed and needed not in options.passes:
        return Reason("AF215", f"{node.type} needs --autofuse_enable_pass={needed}")
    rule = RULES.get(node.type)
    if rule is None:
        return Reason("AF201", f"{node.type} has no lowering")
    if node.name in graph.controlled or has_side_effect(node.type):
        what = "a control edge" if node.name in graph.controlled else "a side effect"
        return Reason("AF208", f"{node.name} ({node.type}) has {what}")
    view = op_view(graph, node)
    refs = [r for r in (*(node.inputs[i] for i in data_positions(node, rule)), *node.outputs) if r is not None]
    for ref in refs:
        info = graph.info(ref)
        if info.dtype is None or info.shape is None:
            what = "dtype" if info.dtype is None else "shape"
            return Reason("AF203", f"{what} of {ref} is unknown{_first_unknown(graph, ref)}")
    for ref in refs:
        empty = any(d == 0 for d in graph.info(ref).shape or ())
        if empty and (ref.node == node.name or not _joins(view, rule)):
            return Reason("AF216", f"{ref} is empty: its shape is {shape_text(graph.info(ref).shape or ())}")
    reason = rule.check(view)
    return reason if reason is not None else _chip_reason(graph, node, rule)


def _first_unknown(graph: Graph, ref: TensorRef) -> str:
    """Where inference gave up first on the way to the tensor, and why; empty if there is no note of it."""
    node = graph.by_name[ref.node]
    while (
        earlier := next((r for r in node.inputs if r is not None and r.node in graph.notes), None)
    ) is not None and node.name in graph.notes:
        node = graph.by_name[earlier.node]
    note = graph.notes.get(node.name)
    return "" if note is None else f": {node.name}: {note.removeprefix(f'{node.type}: ')}"


def _joins(view: OpView, rule: Rule) -> bool:
    """Whether an empty operand is one part of several."""
    return rule.movement is not None and rule.check(view) is None and isinstance(rule.movement(view), Join)


def emit_alone(graph: Graph, node: Node) -> tuple[Sequence[Value], Sequence[Val]]:
    """What ``node`` is by itself: the values of a loop nest, and which of them are its results."""
    rule = RULES[node.type]
    builder = NestBuilder()
    args: list[Val | None] = [None] * len(node.inputs)
    for i in data_positions(node, rule):
        ref = node.inputs[i]
        assert ref is not None
        dtype = graph.info(ref).dtype
        assert dtype is not None
        known = uniform_value(graph, ref)
        if known is not None:
            args[i] = builder.const(known, compute_dtype(dtype))
        else:
            args[i] = builder.cast(builder.load(f"in{i}", (), 0, dtype), compute_dtype(dtype))
    if rule.kind == "view":
        data = args[data_positions(node, rule)[0]]
        return builder.values, () if data is None else (data,)
    assert rule.emit is not None
    builder.reduced = ("r",) if rule.kind == "reduce" else ()
    return builder.values, rule.emit(builder, op_view(graph, node), args)


def _chip_reason(graph: Graph, node: Node, rule: Rule) -> Reason | None:
    """Emits the node by itself and asks the instruction table about every op and conversion in it."""
    values, made = emit_alone(graph, node)
    casts: list[tuple[DType, DType]] = []
    repeated = [v.dtype for v in made] if rule.kind == "view" and rule.view == "broadcast" else []
    for dtype in repeated:
        if dtype.itemsize not in (1, 2, 4) or dtype in (I8, U8):
            return Reason("AF202", f"{node.type}: no instruction repeats {dtype} values in UB")
    for ref, val in zip(node.outputs, made):
        expected = graph.info(ref).dtype
        assert expected is not None
        if expected in HALF_FLOATS and val.dtype != expected:
            casts.append((val.dtype, expected))
        elif val.dtype != expected:
            return Reason("AF202", f"{node.type} gives {val.dtype} where the graph has {expected}")
    dtypes: dict[str, DType] = {}
    for value in values:
        dtypes.update(zip(value.names, value.dtypes) if isinstance(value, Reduce) else [(value.name, value.dtype)])
    for value in values:
        if isinstance(value, Cast):
            casts.append((dtypes[value.arg], value.dtype))
        elif isinstance(value, Reduce):
            reason = supports_reduce(value.combiner, dtypes[value.args[0]])
            if reason is not None:
                return Reason(reason.code, f"{node.type}: {reason.text}")
        elif isinstance(value, Pointwise):
            reason = supports_op(value.op, dtypes[value.args[-1]])
            if reason is not None:
                return Reason(reason.code, f"{node.type}: {reason.text}")
    for source, target in casts:
        reason = supports_cast(source, target)
        if reason is not None:
            return Reason(reason.code, f"{node.type}: {reason.text}")
    return None
