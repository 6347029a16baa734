"""What run.py of an artefact folder does: build the kernel as it stands there, run it on the twin, compare."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.opdef.compare import Difference, compare
from torchair_autofuse.opdef.definition import Definition, Launch
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.inputs import random_inputs
from torchair_autofuse.opdef.store import load
from torchair_autofuse.twin.build import BuildJob, build_job
from torchair_autofuse.twin.errors import TwinError, TwinViolation
from torchair_autofuse.twin.launcher import TwinKernel, TwinProfile, open_built

Array = npt.NDArray[Any]
OK, WRONG, USAGE, RULE, BUILD = 0, 1, 2, 3, 4
"""Exit codes: the values agree; a value is wrong; bad arguments or definition; a broken rule; it does not build."""

_UNWRITTEN = 0x5A  # outputs start as these bytes, so that what nobody writes is not right by chance


@dataclass(frozen=True)
class RunResult:
    """One run: outputs of the kernel and of the interpreter by name, and how they differ."""

    outputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    differences: Mapping[str, Difference]
    launch: Launch
    profile: TwinProfile | None  # None: nothing to launch, all outputs are empty

    @property
    def ok(self) -> bool:
        return all(d.ok for d in self.differences.values())


def main(folder: str | Path, argv: Sequence[str] | None = None) -> int:
    """The command line of run.py; returns the exit code. Arguments are those of the process when ``argv`` is None."""
    parser = argparse.ArgumentParser(
        prog="run.py", description="Builds kernel.cpp as it stands, runs it on the CPU twin, compares with loop.txt."
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs and the order of blocks (default 0)")
    parser.add_argument("--shape", nargs="+", action="extend", default=[], metavar="s0=17", help="sizes of symbols")
    parser.add_argument("--special", action="store_true", help="put zeros, infinities and NaN among the inputs")
    given = parser.parse_args(argv)
    try:
        made = Definition.of(load(folder))
        symbols = symbol_values(made, given.shape)
        print(f"{made.op.op_type} on the twin of {made.schedule.soc}")
        kernel = build_folder(made, Path(folder))
        inputs = random_inputs(made.kernel, made.shapes(symbols), given.seed, given.special)
        result = run(made, kernel, symbols, inputs, given.seed)
    except TwinViolation as error:
        print(error)
        print(f"rule: {error.rule}")
        return RULE
    except TwinError as error:
        print(error, file=sys.stderr)
        return BUILD
    except (OpDefError, FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    for line in report(made, symbols, result):
        print(line)
    return OK if result.ok else WRONG


def symbol_values(made: Definition, given: Sequence[str] = ()) -> dict[str, int]:
    """Sizes of the symbols: as given (``s0=17``), else the example sizes. Raises ValueError for a bad one."""
    values = dict(made.example)
    for text in given:
        name, _, number = text.partition("=")
        if name not in values or not (number.isascii() and number.isdigit()):
            known = ", ".join(values) or "none, all sizes are fixed"
            raise ValueError(f"--shape {text}: expected <symbol>=<size>; the symbols are {known}")
        values[name] = int(number)
    return values


def build_folder(made: Definition, folder: Path) -> TwinKernel:
    """The kernel of the folder's sources as they are now. Raises TwinError (AF404, AF405)."""
    headers = {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.h"))}
    sources = {"kernel.cpp": (folder / "kernel.cpp").read_text(encoding="utf-8"), **headers}
    job = BuildJob(sources, made.entry, made.schedule.npu_arch)
    return open_built(job, build_job(job))


def run(
    made: Definition, kernel: TwinKernel, symbols: Mapping[str, int], inputs: Mapping[str, Array], seed: int = 0
) -> RunResult:
    """Runs the kernel on the twin and the body in the interpreter. Raises TwinViolation for a broken rule."""
    shapes, launch = made.shapes(symbols), made.launch(symbols)
    expected = interpret(made.kernel, inputs)
    outputs = {}
    for p in made.kernel.outputs:
        count = int(np.prod(shapes[p.name], dtype=np.int64))
        outputs[p.name] = np.full(count * p.dtype.itemsize, _UNWRITTEN, np.uint8)
    arrays = {**{name: np.ascontiguousarray(a) for name, a in inputs.items()}, **outputs}
    profile = None
    if any(a.size for a in outputs.values()):
        args = [
            (arrays[p.name].ctypes.data, arrays[p.name].nbytes, "in" if p.kind == "input" else "out")
            for p in made.kernel.params
        ]
        workspace = np.zeros(launch.workspace_bytes, np.uint8)
        if workspace.size:
            args.append((workspace.ctypes.data, workspace.nbytes, "workspace"))
        cores = made.schedule.vector_cores
        profile = kernel.launch(args, launch.tiling, launch.tiling_key, launch.block_dim, seed, max_blocks=cores)
    typed = {p.name: outputs[p.name].view(p.dtype.numpy).reshape(shapes[p.name]) for p in made.kernel.outputs}
    numeric = made.op.numeric
    differences = {
        p.name: compare(
            typed[p.name], expected[p.name], p.dtype, f32_rtol=numeric.f32_rtol, half_ulps=numeric.half_ulps
        )
        for p in made.kernel.outputs
    }
    return RunResult(typed, expected, differences, launch, profile)


def report(made: Definition, symbols: Mapping[str, int], result: RunResult) -> list[str]:
    """What run.py prints: sizes, the profile, and per output how it compares."""
    shapes = made.shapes(symbols)
    params = [f"{p.name} {p.dtype}{list(shapes[p.name])}" for p in made.kernel.params]
    lines = [f"sizes: {', '.join(f'{n}={v}' for n, v in symbols.items()) or 'fixed'}", f"params: {', '.join(params)}"]
    lines += _profile_lines(made, result)
    lines += [f"{name}: {difference}" for name, difference in result.differences.items()]
    return [*lines, "ok" if result.ok else "WRONG"]


def _profile_lines(made: Definition, result: RunResult) -> list[str]:
    p = result.profile
    if p is None:
        return ["nothing to launch: every output is empty"]
    floor = sum(a.nbytes for a in p.args if a.kind != "workspace")
    lines = [
        f"blocks: {p.block_dim} of {made.schedule.vector_cores}",
        f"GM: {p.gm_read_bytes} bytes read, {p.gm_written_bytes} written; inputs and outputs once are {floor}",
        f"copies: {p.dma_in} in, {p.dma_out} out, {p.mean_dma_bytes:.0f} bytes on average, "
        f"in blocks of {p.mean_block_bytes:.0f}",
        f"vector: {p.vector_instructions} instructions, {p.vector_elements} elements, {p.vector_repeats} repeats",
        f"scalar: {p.scalar_instructions} instructions; {p.barriers} barriers, {p.flags} flags",
        f"UB peak: {p.ub_peak_bytes} of {made.schedule.ub_limit_bytes} bytes, planned {result.launch.ub_used}",
    ]
    names = [x.name for x in made.kernel.params]
    return lines + [f"{n}: {a.unwritten} bytes were never written" for n, a in zip(names, p.args) if a.unwritten]
