"""Simplified graphs give the same bits; inferred shapes, dtypes and sizes are those of a run, at other sizes too."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import torch

from benchmarks import graphs
from torchair_autofuse import dtypes
from torchair_autofuse.ge.graph import TensorRef
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.ge.writer import write_bytes
from torchair_autofuse.host.executor import GraphExecutor
from torchair_autofuse.loop import expr

# dynamic graphs, and sizes of their symbols other than the recorded ones
OTHER_SIZES = {
    "bert__dynamic__g0": {"s10": 3, "s21": 17},
    "llama_bf16__dynamic__g0": {"s10": 1, "s21": 9},
    "opt__dynamic__g0": {"s10": 4, "s21": 5},
    "rope__dynamic__g0": {"s85": 3, "s34": 2, "s0": 7, "s77": 10},
    "gn_silu__dynamic__g0": {"s33": 5, "s69": 3},
    "resnet__dynamic__g0": {"s10": 3, "s25": 31},
    "topk_gate__dynamic__g0": {"s15": 3, "s21": 11},
}


def _dims(name: str) -> dict[int, tuple[Any, ...]]:
    return {
        spec["ge"]: tuple(int(d) if d.isdigit() else expr.parse(d) for d in spec["shape"])
        for spec in graphs.manifests()[name]["h1"]["inputs"]
    }


def _sizes(name: str) -> dict[str, int]:
    """The recorded value of each symbol, overlaid with OTHER_SIZES."""
    found: dict[str, int] = {}
    for index, dims in _dims(name).items():
        for d, actual in zip(dims, graphs.manifests()[name]["run_inputs"][index]["shape"]):
            if not isinstance(d, int) and d.is_Symbol:
                found[d.name] = actual
    return found | OTHER_SIZES.get(name, {})


def _inputs(name: str, sizes: dict[str, int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    made = []
    for index, spec in enumerate(graphs.manifests()[name]["run_inputs"]):
        shape = [expr.evaluate(d, sizes) for d in _dims(name)[index]]
        dtype = getattr(torch, spec["dtype"])
        if "range" in spec:
            low, high = (int(v) for v in spec["range"])
            made.append(torch.randint(low, high + 1, shape, generator=generator).to(dtype))
        else:
            x = torch.randn(shape, generator=generator) * 0.5
            made.append((x.abs() + 0.1 if spec.get("nonneg") else x).to(dtype))
    return made


def _executor(name: str, model: bytes) -> GraphExecutor:
    manifest = graphs.manifests()[name]
    return GraphExecutor(model, output_dtypes=manifest["output_dtypes"], input_placements=manifest["input_placements"])


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).contiguous().view(torch.uint8)


@pytest.mark.parametrize("name", sorted({*graphs.names("static", gaps=False), *OTHER_SIZES}))
def test_simplified_graph_gives_the_same_bits(name: str) -> None:
    raw = graphs.model_def(name)
    clean = write_bytes(raw, simplify(infer(read(raw), _dims(name), minimum=2)))
    inputs = _inputs(name, _sizes(name))
    before, after = (_executor(name, m).run(inputs) for m in (raw, clean))
    for a, b in zip(before, after, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(_bytes(a), _bytes(b))


@pytest.mark.parametrize("name", sorted({*OTHER_SIZES, "train_bert__static__g1", "unet2dcond__static__g0"}))
def test_inference_agrees_with_a_run(name: str) -> None:
    raw = graphs.model_def(name)
    graph = infer(read(raw), _dims(name), minimum=2)
    sizes = _sizes(name)
    wrong, compared = [], 0
    for key, tensor in _executor(name, raw).run_all(_inputs(name, sizes)).items():
        node, _, index = key.rpartition(":")
        info = graph.info(TensorRef(node, int(index)))
        if info.shape is not None and [expr.evaluate(d, sizes) for d in info.shape] != list(tensor.shape):
            wrong.append((key, info.shape, tensor.shape))
        if info.dtype is not None and tensor.dtype != getattr(torch, _TORCH[info.dtype.name]):
            wrong.append((key, info.dtype, tensor.dtype))
        sized = info.value is not None and info.dtype in (dtypes.I64, dtypes.I32)
        if sized and [expr.evaluate(v, sizes) for v in info.value or ()] != tensor.reshape(-1).tolist():
            wrong.append((key, info.value, tensor))
        compared += 1
    assert compared > 10
    assert wrong == []


_TORCH = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i64": "int64", "i32": "int32",
    "i8": "int8", "u8": "uint8", "bool": "bool",
}  # fmt: skip
