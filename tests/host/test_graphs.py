"""Every captured graph without gaps runs on the host and gives the shapes and dtypes recorded at its capture."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import torch

from benchmarks import graphs
from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.host.executor import GraphExecutor


def make_inputs(name: str) -> list[torch.Tensor]:
    """One tensor per Data index of a graph, from the recorded dtype, shape and range; the seed is the name's."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return [_tensor(spec, generator) for spec in graphs.manifests()[name]["run_inputs"]]


def _tensor(spec: dict[str, Any], generator: torch.Generator) -> torch.Tensor:
    dtype, shape = getattr(torch, spec["dtype"]), spec["shape"]
    if "range" in spec:
        low, high = (int(v) for v in spec["range"])
        return torch.randint(low, high + 1, shape, generator=generator).to(dtype)
    assert dtype.is_floating_point, f"{spec} needs a range"
    x = torch.randn(shape, generator=generator, dtype=torch.float32) * 0.5
    return (x.abs() + 0.1 if spec.get("nonneg") else x).to(dtype)


def _by_ge_rule(name: str, recorded: dict[str, Any], found: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The record with GE's dtypes for two ops that the recording took from PyTorch.

    Range of mixed dtypes is f32, and mean and rstd of LayerNormV4 are f32 whatever x is; all else stands as recorded.
    """
    rule = dict(recorded)
    for node in ge_ir().ModelDef.FromString(graphs.model_def(name)).graph[0].op:
        first = f"{node.name}:0"
        if node.type == "Range" and first in rule and len({found[i].dtype for i in node.input}) > 1:
            rule[first] = [rule[first][0], "float32"]
        if node.type == "LayerNormV4":
            for key in (f"{node.name}:1", f"{node.name}:2"):
                rule.update({key: [rule[key][0], "float32"]} if key in rule else {})
    return rule


@pytest.mark.parametrize("name", graphs.names(gaps=False))
def test_shapes_and_dtypes(name: str) -> None:
    manifest = graphs.manifests()[name]
    executor = GraphExecutor(
        graphs.model_def(name),
        output_dtypes=manifest["output_dtypes"],
        input_placements=manifest["input_placements"],
    )
    inputs = make_inputs(name)
    found = executor.run_all(inputs)
    expected = _by_ge_rule(name, graphs.shapes()[name], found)
    wrong = {
        key: (list(found[key].shape), str(found[key].dtype), recorded)
        for key, recorded in expected.items()
        if key in found and [list(found[key].shape), str(found[key].dtype)] != [recorded[0], f"torch.{recorded[1]}"]
    }
    assert not wrong
    assert not set(expected) - set(found), "recorded tensors that the executor does not know"
    outputs = executor.run(inputs)
    assert [list(o.shape) for o in outputs] == manifest["hint_outputs"] or manifest["mode"] == "dynamic"
    assert all(o.is_contiguous() for o in outputs)
    assert all(torch.isfinite(o).all() for o in outputs if o.is_floating_point()), "not finite"


@pytest.mark.parametrize("name", graphs.names("static", gaps=False)[:3])
def test_two_runs_give_the_same_bits(name: str) -> None:
    manifest = graphs.manifests()[name]
    results = []
    for _ in range(2):
        executor = GraphExecutor(
            graphs.model_def(name),
            output_dtypes=manifest["output_dtypes"],
            input_placements=manifest["input_placements"],
        )
        results.append(executor.run(make_inputs(name)))
    assert all(torch.equal(a, b) for a, b in zip(*results))
