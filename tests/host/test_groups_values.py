"""Every fused group of the captured graphs: its loop-level kernel against the host executor on the unfused graph.

The executor (torch) and the interpreter of the loop IR (numpy) share no implementation of an op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from test_graphs import make_inputs

from benchmarks import graphs
from benchmarks.captured import ALL_PASSES, SMALLEST_SYMBOL, Case, case
from torchair_autofuse.dtypes import BF16, F16, DType, from_numpy
from torchair_autofuse.ge.graph import TensorRef
from torchair_autofuse.host import executor as executor_module
from torchair_autofuse.host.executor import GraphExecutor
from torchair_autofuse.host.ops.registry import OpCall, OpFunction
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Kernel
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.finish import Lowered
from torchair_autofuse.messages import Reason
from torchair_autofuse.pipeline import FusionResult, fuse

Array = npt.NDArray[np.generic]

NAMES = [
    *("adamw_step__static__g0", "bert_fp16__static__g0", "gan_block__static__g0", "llama_bf16__dynamic__g0"),
    *("pointwise_long__dynamic__g0", "pointwise_long__static__g0", "rope__dynamic__g0", "sgd_clip__static__g0"),
    *("swiglu_mlp__dynamic__g0", "unet2dcond__dynamic__g0", "whisper_enc__static__g0", "yolo_head__dynamic__g0"),
    *("convnext__dynamic__g0", "t5__dynamic__g0", "qwen3_bf16__static__g0", "train_bert__static__g1"),
]


def to_numpy(t: torch.Tensor) -> Array:
    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:
        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return np.asarray(t.numpy())


def to_torch(a: Array) -> torch.Tensor:
    if a.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(a.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(a.copy())


@cache
def _values(name: str) -> Mapping[str, torch.Tensor]:
    manifest = graphs.manifests()[name]
    executor = GraphExecutor(
        graphs.model_def(name), output_dtypes=manifest["output_dtypes"], input_placements=manifest["input_placements"]
    )
    return executor.run_all(make_inputs(name))


_PLAIN = executor_module._function
_UNITS = {F16: 2.0**-10, BF16: 2.0**-7}


def error(actual: Array, expected: Array, dtype: DType, unit: float) -> float:
    """The largest error as a multiple of ``unit`` of the largest element; the number of wrong elements of integers."""
    if not dtype.is_float:
        return float(np.count_nonzero(actual != expected))
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(e)) or not np.array_equal(np.isinf(a), np.isinf(e)):
        return np.inf
    finite = np.isfinite(e)
    if not finite.any():
        return 0.0
    assert np.array_equal(a[~finite & ~np.isnan(e)], e[~finite & ~np.isnan(e)])
    largest = float(np.abs(e[finite]).max()) or 1.0
    return float(np.abs(a[finite] - e[finite]).max()) / (unit * largest)


def _compare(c: Case, lowered: Lowered, *, strict: bool) -> None:
    """f32: 1e-5 of the largest. Halves: one unit where every op rounds as in the graph (``strict``), else a few.

    Without ``strict`` an f32 result may follow from a half-precision one that the fused op did not have to round.
    """
    values = _values(c.name)
    results = interpret(lowered.kernel, [to_numpy(values[str(ref)]) for ref in lowered.inputs])
    halves = {c.simplified.info(r).dtype for n in lowered.nodes for r in (*n.inputs, *n.outputs) if r} & set(_UNITS)
    coarse = max((_UNITS[d] for d in halves if d is not None), default=1e-5)
    for p, ref in zip(lowered.kernel.outputs, lowered.outputs):
        expected = to_numpy(values[str(ref)])
        where = f"{c.name} {lowered.op_type} {ref}"
        assert (results[p.name].shape, results[p.name].dtype) == (expected.shape, expected.dtype), where
        if not p.dtype.is_float:
            limit = 0.0
        elif strict:
            limit = 1.0
        else:
            limit = 4.0 if halves else 1.0
        found = error(results[p.name], expected, p.dtype, _UNITS.get(p.dtype, 1e-5) if strict else coarse)
        assert found <= limit, f"{where}: error {found}, allowed {limit}"


@pytest.mark.parametrize("name", NAMES)
def test_groups_compute_what_the_graph_does(name: str) -> None:
    c = case(name)
    assert c.result.generated, "no group: nothing is tested"
    for made in c.result.generated:
        verify(made.lowered.kernel)
        _compare(c, made.lowered, strict=False)


@pytest.mark.parametrize("name", ["bert_fp16__static__g0", "llama_bf16__dynamic__g0", "qwen3_bf16__static__g0"])
def test_strict_rounds_as_the_graph_does(name: str) -> None:
    c = case(name)
    result = fuse(graphs.model_def(name), c.context, ALL_PASSES.replace(precision="strict"))
    assert result.generated
    for made in result.generated:
        _compare(c, made.lowered, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_rewritten_graph_gives_the_outputs_of_the_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole rewritten graph on the host, each fused op by the interpreter: wiring, leftovers and duplicates.

    With ``precision="strict"``, so that half-precision models do not differ by their own noise.
    """
    result = fuse(graphs.model_def(name), case(name).context, ALL_PASSES.replace(precision="strict"))
    _check_rewritten(name, result, monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_graphs_without_some_ops_give_the_outputs_of_the_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ops cannot be had, the others store what the nodes that stay have to read."""
    options = ALL_PASSES.replace(precision="strict")
    everything = fuse(graphs.model_def(name), case(name).context, options)
    types = list(dict.fromkeys(made.op_type for made in everything.generated))
    for left_out in (types[::2], types[1::2], types[1:], types[:-1], types):
        missing = {t: Reason("AF501", f"{t} is not in the package") for t in left_out}

        def unavailable(_: Any, ops: Sequence[Any], missing: Mapping[str, Reason] = missing) -> Mapping[str, Reason]:
            return {op.op_type: missing[op.op_type] for op in ops if op.op_type in missing}

        result = fuse(graphs.model_def(name), case(name).context, options, unavailable)
        assert not missing.keys() & {op.op_type for op in result.ops}
        told = {r.reason for r in result.report.refused if r.code == "AF501"}
        assert told == {missing[t].text for t in left_out}
        assert (result.report.kernels_after < result.report.kernels_before) == bool(result.ops)
        _check_rewritten(name, result, monkeypatch)


def _check_rewritten(name: str, result: FusionResult, monkeypatch: pytest.MonkeyPatch) -> None:
    c = case(name)
    kernels = {made.op_type: made.lowered.kernel for made in result.generated}

    def function(kind: str) -> OpFunction:
        return _PLAIN(kind) if kind not in kernels else partial(_run_kernel, kernels[kind])

    monkeypatch.setattr(executor_module, "_function", function)
    manifest = graphs.manifests()[name]
    rewritten = GraphExecutor(
        result.model_def.SerializeToString(),
        output_dtypes=manifest["output_dtypes"],
        input_placements=manifest["input_placements"],
    )
    found = rewritten.run(make_inputs(name))
    values = _values(name)
    for i, (ref, actual) in enumerate(zip(c.original.outputs, found)):
        expected = to_numpy(values[str(ref)])
        dtype = from_numpy(expected.dtype)
        assert (tuple(actual.shape), to_numpy(actual).dtype) == (expected.shape, expected.dtype)
        limit = 1e-4 if dtype.itemsize == 4 else 4 * _UNITS.get(dtype, 0.0)  # of the largest element
        wrong = error(to_numpy(actual), expected, dtype, limit)
        assert wrong <= (1.0 if dtype.is_float else 0.0), f"{name}: output {i} ({ref}): {wrong}"


def _run_kernel(kernel: Kernel, call: OpCall) -> list[torch.Tensor]:
    results = interpret(kernel, [to_numpy(call.tensor(i)) for i in range(len(call.inputs))])
    return [to_torch(results[p.name]) for p in kernel.outputs]


def test_the_symbols_of_dynamic_graphs_take_other_sizes() -> None:
    """No example size is baked into a kernel: its symbols cover every symbolic dim of its params."""
    for name in NAMES:
        if not name.endswith("dynamic__g0"):
            continue
        c = case(name)
        assert c.context.minimum == SMALLEST_SYMBOL
        for made in c.result.generated:
            for p, ref in zip(made.lowered.kernel.params, (*made.lowered.inputs, *made.lowered.outputs)):
                shape = c.simplified.info(TensorRef(ref.node, ref.index)).shape
                assert shape is not None
                assert [isinstance(d, int) for d in shape] == [isinstance(d, int) for d in p.dims]
