"""op_host.cpp of fused ops, compiled and run: its tiling against the steps in Python and against the kernel itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
from host_ops import KERNELS, OTHER_CHIP, SOCS, HostCase, captured, platforms

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.opdef.compare import compare
from torchair_autofuse.opdef.inputs import random_inputs
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.build import BuildJob, build_many
from torchair_autofuse.twin.launcher import open_built
from torchair_autofuse.twin.op_host import Platform, build_op_hosts

SHAPES = 12000  # in all
LAUNCHED = (
    "rows", "kept rows", "columns", "sums", "softmax", "no symbols", "side by side", "end to end", "few rows", "gather",
    "bag", "interleave", "turned",
)  # fmt: skip


@pytest.fixture(scope="module")
def cases(make_op):
    def written(soc, names):
        return [HostCase.of(n, make_op(KERNELS[n], soc), chip(soc)) for n in names]

    first, second = SOCS
    found = {first: [*written(first, KERNELS), *captured(chip(first))], second: written(second, OTHER_CHIP)}
    return {soc: list(zip(ops, build_op_hosts([op.files for op in ops]))) for soc, ops in found.items()}


def test_templates_are_all_there(cases):
    templates = {t for pairs in cases.values() for op, _ in pairs for t in op.made.schedule.template.split(", ")}
    assert templates >= {
        "pointwise", "kept_rows", "row_resident", "row_streaming", "row_split", "column_resident", "column_streaming",
        "column_split", "sequence", "assembled", "transpose",
    }  # fmt: skip


@pytest.mark.parametrize("soc", SOCS)
def test_cpp_and_python_agree(cases, soc):
    rng, target = random.Random(soc), chip(soc)
    chips = platforms(target)
    total = sum(bool(op.made.kernel.symbols) for pairs in cases.values() for op, _ in pairs)
    largest = 0
    for op, host in cases[soc]:
        count = -(-SHAPES // total) if op.made.kernel.symbols else len(chips)
        drawn = [(symbols, shapes, chips[k % len(chips)]) for k, (symbols, shapes) in enumerate(op.random(rng, count))]
        blocks = set()
        for (symbols, shapes, p), found in zip(drawn, host.tilings([(s, p) for _, s, p in drawn])):
            launch = op.made.launch(symbols, p.vector_cores, p.ub_bytes)
            assert found is not None, (op.name, symbols, p, launch.ub_used)
            assert found.tiling == launch.tiling, (op.name, symbols, p)
            assert (found.tiling_key, found.block_dim) == (launch.tiling_key, launch.block_dim), (op.name, symbols, p)
            assert found.workspace_bytes == launch.workspace_bytes, (op.name, symbols, p)
            assert found.schedule_mode == (launch.workspace_bytes > 0), (op.name, symbols, p)
            assert 1 <= found.block_dim <= p.vector_cores, (op.name, symbols, p)
            assert launch.ub_used <= p.ub_bytes - target.ub_reserved_bytes, (op.name, symbols, p)
            assert all(-(2**63) <= v < 2**63 for v in launch.values.values()), (op.name, symbols, p)
            assert all(launch.values[f] >= 0 for f in op.made.fields), (op.name, symbols, p)
            blocks.add(found.block_dim)
            largest = max(largest, *(int(np.prod(s, dtype=object)) for s in shapes))
        assert len(blocks) > 3 or not op.made.kernel.symbols, (op.name, blocks)
    assert largest > 2**32


@pytest.fixture(scope="module")
def kernels(cases):
    soc = SOCS[0]
    chosen = [(op, host) for op, host in cases[soc] if op.name in LAUNCHED]
    jobs = []
    for op, _ in chosen:
        sources = {n: op.files[n] for n in ("kernel.cpp", "tiling.h")}
        jobs.append(BuildJob(sources, op.made.entry, op.made.schedule.npu_arch))
    return {
        op.name: (op, host, open_built(job, built)) for (op, host), job, built in zip(chosen, jobs, build_many(jobs))
    }


@pytest.mark.parametrize("name", LAUNCHED)
def test_kernels_run_with_the_tiling_of_their_host_code(kernels, name):
    """The twin adds what tiling alone does not show: every element is stored, no 32 bytes by two blocks, values right.

    Half of the launches are tiled for fewer cores than the chip has.
    """
    op, host, kernel = kernels[name]
    rng, target = random.Random(name), chip(SOCS[0])
    whole = Platform.of(target)
    for k, (symbols, shapes) in enumerate(small(op, rng, 6 if op.made.kernel.symbols else 1)):
        cores = whole.vector_cores if k % 2 == 0 else rng.choice((1, 3, 40))
        found = host.tiling(shapes, Platform(cores, whole.ub_bytes, whole.lib_workspace_bytes))
        inputs = random_inputs(op.made.kernel, op.made.shapes(symbols), k)
        every = op.made.shapes(symbols)
        arrays = {n: np.ascontiguousarray(a) for n, a in inputs.items()}
        arrays |= {p.name: np.full(every[p.name], 7, p.dtype.numpy) for p in op.made.kernel.outputs}
        args = [(arrays[p.name].ctypes.data, arrays[p.name].nbytes, p.kind[:-3]) for p in op.made.kernel.params]
        workspace = np.zeros(found.workspace_bytes, np.uint8)
        if workspace.size:
            args.append((workspace.ctypes.data, workspace.nbytes, "workspace"))
        profile = kernel.launch(args, found.tiling, found.tiling_key, found.block_dim, k, max_blocks=cores)
        assert [a.unwritten for a in profile.args if a.kind == "out"] == [0] * len(op.made.kernel.outputs)
        for output, expected in interpret(op.made.kernel, inputs).items():
            dtype = op.made.kernel.param[output].dtype
            difference = compare(arrays[output], expected, dtype, f32_rtol=1e-4, half_ulps=1)
            assert difference.ok, (symbols, cores, output, difference)


def small(op, rng, count):
    """Sizes with at most 2**18 elements in a nest."""
    while count > 0:
        symbols = op.sizes(rng, 2 ** rng.choice((4, 8, 12, 18)))
        shapes = op.made.shapes(symbols)
        nests = [[expr.evaluate(a.size, symbols) for a in nest.axes] for nest in op.made.kernel.nests]
        if not symbols or all(
            min(s, default=0) >= 0 and np.prod(s, dtype=object) <= 2**18 for s in (*shapes.values(), *nests)
        ):
            count -= 1
            yield symbols, [shapes[p.name] for p in op.made.kernel.inputs]
