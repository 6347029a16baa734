"""A GE graph evaluated in double precision: every float tensor is raised to f64, and nothing is rounded in between.

It is the unfused graph that is evaluated, node by node, by the host executor's ops: what GE means, where eager PyTorch
may mean something else. An op that has no meaning in f64 (it reads bits, or quantises) runs in its own types, and its
results are raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from torchair_autofuse.ge.catalogue import IN_PLACE, op_class
from torchair_autofuse.host.executor import GraphExecutor
from torchair_autofuse.host.ops.registry import OpCall, OpFunction
from torchair_autofuse.trust.measure import real_parts

Outputs = Sequence[torch.Tensor]
_RAISED = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip
_TYPE_ATTRS = ("dst_type", "dtype")
_LOW_CODES = (0, 1, 27)  # f32, f16, bf16 in GE's C enum
_F64_CODE = 11
# What an op reads or writes is not a number that has a more exact form: bits, or steps of a quantisation.
_OWN_TYPES = frozenset(("Bitcast", "AscendQuant", "AscendQuantV2", "Quantize"))


@dataclass
class Unfused:
    """One run of the unfused graph. ``inputs``: as the run left them; ``types``: node -> dtypes of its inputs;
    ``kept``: the values that were asked for."""

    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    types: Mapping[str, tuple[torch.dtype | None, ...]]
    kept: Mapping[tuple[str, int], torch.Tensor] = field(default_factory=dict)


def run_unfused(
    executor: GraphExecutor, inputs: Sequence[torch.Tensor], wanted: frozenset[tuple[str, int]] = frozenset()
) -> Unfused:
    """Runs a graph on copies of ``inputs``. ``wanted``: outputs of nodes, as (node, index), to keep."""
    types: dict[str, tuple[torch.dtype | None, ...]] = {}
    kept: dict[tuple[str, int], torch.Tensor] = {}
    names = {name for name, _ in wanted}

    def watch(function: OpFunction, call: OpCall) -> Sequence[torch.Tensor]:
        types[call.name] = tuple(None if t is None else t.dtype for t in call.inputs)
        results = listed(function(call))
        if call.name in names:
            kept.update(((call.name, i), t.clone()) for i, t in enumerate(results) if (call.name, i) in wanted)
        return results

    copies = [t.clone() for t in inputs]
    outputs = executor.handed_out(executor.run_by(copies, watch))
    return Unfused(outputs, copies, types, kept)


@dataclass
class Exact:
    """``outputs`` and ``inputs`` (what ops in place left there) in f64 where they are floats; ``own_types``: op types
    that ran in their own types."""

    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    own_types: list[str]


def run_exact(executor: GraphExecutor, inputs: Sequence[torch.Tensor], unfused: Unfused) -> Exact:
    """Evaluates a graph in f64 on copies of ``inputs``; ``unfused``: its run in its own types, on the same inputs.

    Raises RuntimeError naming the node that can be evaluated neither in f64 nor in its own types.
    """
    own: dict[str, None] = {}

    def raised(function: OpFunction, call: OpCall) -> Outputs:
        results, in_own = _wide(function, call, unfused)
        if in_own:
            own.setdefault(call.type)
        return results

    copies = [_float(t.clone()) for t in inputs]
    outputs = [_float(t) for t in executor.run_by(copies, raised)]
    return Exact(outputs, copies, list(own))


def _wide(function: OpFunction, call: OpCall, unfused: Unfused) -> tuple[Outputs, bool]:
    """What a node gives in f64, and whether it had to run in its own types."""
    if call.type not in _OWN_TYPES:
        wide = replace(call, inputs=[raise_floats(t) for t in call.inputs], attrs=_raised_attrs(call.attrs))
        try:
            return [_float(t) for t in listed(function(wide))], False
        except Exception:  # the op takes no f64: it runs as it is, below, and fails there if it must
            pass
    types = unfused.types[call.name]
    back = [None if t is None else t if d is None else t.to(d) for t, d in zip(call.inputs, types)]
    return [_float(t) for t in listed(function(replace(call, inputs=back)))], True


TRIALS = 16
"""Evaluations with noise that tell how far rounding can move an output."""
_NOISE = {torch.float32: 4.0, torch.complex64: 4.0, torch.float16: 1.0, torch.bfloat16: 1.0}
# Machine epsilons that operands are moved by. f32 ops round many times inside; half ones are computed in f32.

_ROUNDING = frozenset(("elementwise", "broadcast", "reduce", "norm", "cube", "loss", "index", "other"))
_PREDICATES = "Equal NotEqual Greater GreaterEqual Less LessEqual IsNan IsInf IsFinite"
_JUMPS = "Sign Floor Ceil Round Rint Trunc LogicalNot LogicalAnd LogicalOr"
_SELECTS = "Abs Neg Relu Maximum Minimum ClipByValue ClipByValueV2 Select SelectV2 MaskedFill ReduceMax ReduceMin"
_PICKS = (
    "Gather GatherElements GatherNd GatherV2 Index IndexByTensor MaskedSelect AsStrided Real Imag Complex Tril Triu"
)
_EXACT = frozenset(f"{_PREDICATES} {_JUMPS} {_SELECTS} {_PICKS} ReduceMaxD ReduceMinD ReduceAny ReduceAll".split())


def run_noisy(
    executor: GraphExecutor, inputs: Sequence[torch.Tensor], unfused: Unfused, exact: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """How far rounding can move each output: the largest distance from ``exact`` in ``TRIALS`` evaluations in f64, in
    which every operand of what rounds is moved at random by as much as it would be rounded.

    f64 tensors of the shapes of the outputs' ``real_parts``; infinite where an output jumps, which any change of an
    integer is.
    """
    parts = [real_parts(t) for t in exact]
    spread = [torch.zeros(t.shape, dtype=torch.float64) for t in parts]
    for seed in range(TRIALS):
        generator = torch.Generator().manual_seed(seed)

        def noisy(function: OpFunction, call: OpCall, generator: torch.Generator = generator) -> Outputs:
            moved = call
            if op_class(call.type) in _ROUNDING and call.type not in _EXACT and call.type not in IN_PLACE:
                pairs = zip(call.inputs, unfused.types[call.name])
                moved = replace(call, inputs=[_moved(t, d, generator) for t, d in pairs])
            return _wide(function, moved, unfused)[0]

        outputs = executor.run_by([_float(t.clone()) for t in inputs], noisy)
        for i, (t, e) in enumerate(zip((real_parts(_float(t)) for t in outputs), parts)):
            if t.shape != e.shape:
                spread[i].fill_(torch.inf)
            elif e.is_floating_point():
                apart = (t - e).abs()
                spread[i] = torch.maximum(spread[i], torch.where(apart.isnan() & ~e.isnan(), torch.inf, apart))
            else:
                spread[i][t != e] = torch.inf
    return spread


def _moved(tensor: torch.Tensor | None, dtype: torch.dtype | None, generator: torch.Generator) -> torch.Tensor | None:
    if tensor is None or dtype not in _NOISE:
        return tensor
    parts = real_parts(tensor)
    noise = torch.rand(parts.shape, generator=generator, dtype=torch.float64) * 2 - 1
    moved = parts * (1 + noise * (_NOISE[dtype] * torch.finfo(dtype).eps))
    return torch.view_as_complex(moved) if tensor.is_complex() else moved


def raise_floats(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """f16, bf16 and f32 as f64, which holds all their values, complex64 as complex128; others as they are."""
    return None if tensor is None else _float(tensor)


def listed(results: torch.Tensor | Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """What a node gives, as a list."""
    return (results,) if isinstance(results, torch.Tensor) else results


def _float(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_RAISED.get(tensor.dtype, tensor.dtype))


def _raised_attrs(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Attributes that name a result type name f64 for floats; a softmax does not go back to f32."""
    changed: dict[str, Any] = {
        k: _F64_CODE for k in _TYPE_ATTRS if k in attrs and type(attrs[k]) is int and attrs[k] in _LOW_CODES
    }
    if attrs.get("half_to_float"):
        changed["half_to_float"] = False
    return {**attrs, **changed} if changed else attrs
