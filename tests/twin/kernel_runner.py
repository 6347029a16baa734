"""Runs kernels given as loop-level text on the twin and compares them with the interpreter of the loop IR."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from torchair_autofuse.codegen.kernel import KernelText, generate
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Kernel
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.compare import compare
from torchair_autofuse.opdef.inputs import random_inputs
from torchair_autofuse.schedule.choose import schedule
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import Chip, chip
from torchair_autofuse.twin.build import build
from torchair_autofuse.twin.launcher import TwinKernel, TwinProfile, load

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


@dataclasses.dataclass(frozen=True)
class Runner:
    """A kernel, its schedule, its text, and the built library."""

    kernel: Kernel
    chip: Chip
    schedule: Schedule
    text: KernelText
    twin: TwinKernel

    def shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(int(expr.evaluate(d, sizes)) for d in self.kernel.param[name].dims)

    def launch(self, inputs: Arrays, sizes: Mapping[str, int], seed: int = 0) -> tuple[Arrays, TwinProfile]:
        """The outputs for these inputs, and what the launch did."""
        values = self.schedule.tiling(dict(sizes), self.chip.vector_cores, self.chip.ub_bytes)
        fields = [values[f] for f in self.text.fields]
        assert all(abs(v) < 2**63 for v in fields) and 1 <= values["block_dim"] <= self.chip.vector_cores, values
        outputs = {p.name: np.full(self.shape(p.name, sizes), 7, p.dtype.numpy) for p in self.kernel.outputs}
        args = [(inputs[p.name].ctypes.data, inputs[p.name].nbytes, "in") for p in self.kernel.inputs]
        args += [(a.ctypes.data, a.nbytes, "out") for a in outputs.values()]
        workspace = np.zeros(values.get("workspace_bytes", 0), np.uint8)
        if workspace.size:
            args.append((workspace.ctypes.data, workspace.nbytes, "workspace"))
        key = self.schedule.tiling_key
        profile = self.twin.launch(
            args,
            struct.pack(f"<{len(fields)}q", *fields),
            key if isinstance(key, int) else values[key],
            values["block_dim"],
            seed=seed,
            max_blocks=self.chip.vector_cores,
        )
        assert profile.ub_peak_bytes == values["ub_used"] <= self.chip.ub_plan_bytes
        assert [a.unwritten for a in profile.args if a.kind != "workspace"] == [0] * len(self.kernel.params)
        return outputs, profile

    def check(
        self,
        sizes: Mapping[str, int],
        inputs: Arrays | None = None,
        *,
        seed: int = 0,
        special: bool = False,
        f32_rtol: float = 1e-5,
    ) -> TwinProfile:
        """Asserts that every output is the interpreter's: integers exactly, halves within 1 unit in the last place."""
        shapes = {p.name: self.shape(p.name, sizes) for p in self.kernel.inputs}
        given = {**random_inputs(self.kernel, shapes, seed, special), **(inputs or {})}
        given = {n: np.asarray(a, order="C") for n, a in given.items()}
        got, profile = self.launch(given, sizes, seed)
        for name, expected in interpret(self.kernel, given).items():
            found = compare(got[name], expected, self.kernel.param[name].dtype, f32_rtol=f32_rtol, half_ulps=1)
            assert found.ok, f"{self.kernel.name} {self.chip.soc} {dict(sizes)}: {name}: {found}"
        return profile


def scheduled(kernel: Kernel | str, soc: str = "Ascend910B1") -> Schedule | Reason:
    """The schedule of a kernel (or its text), which must pass the verifier."""
    kernel = parse(kernel) if isinstance(kernel, str) else kernel
    verify(kernel)
    target = chip(soc)
    assert isinstance(target, Chip)
    return schedule(kernel, target)


@cache
def runner(kernel: Kernel | str, soc: str = "Ascend910B1") -> Runner:
    """Schedules, generates and builds a kernel, once per text and chip."""
    made = scheduled(kernel, soc)
    assert isinstance(made, Schedule), made
    target = chip(soc)
    assert isinstance(target, Chip)
    text = generate(made, "Test", ["nodes of a test"])
    library = build({"kernel.cpp": text.kernel_cpp, "tiling.h": text.tiling_h}, text.entry, npu_arch=target.npu_arch)
    return Runner(made.kernel, target, made, text, load(library))


def check(kernel: Kernel | str, sizes: Iterable[Mapping[str, int]], soc: str = "Ascend910B1", **options: Any) -> None:
    """Builds a kernel and checks it for every one of ``sizes``; ``options`` as of :meth:`Runner.check`."""
    built = runner(kernel, soc)
    for i, size in enumerate(sizes):
        built.check(size, **{"seed": i, **options})
