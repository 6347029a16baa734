"""Shares of the parts of a kernel: every element stored once, no 32-byte block by two cores, over random sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from concat_kernels import concat_text, concats
from hypothesis import HealthCheck, given, settings
from test_schedule import scheduled

from torchair_autofuse import opdef
from torchair_autofuse.loop import expr
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.schedule_text import schedule_text
from torchair_autofuse.soc.chip import chip

SOCS = ("Ascend910B1", "Ascend910B3", "Ascend950PR_9599")
KERNELS = {
    "aligned": concat_text(["s0", 0], 1, [16, 32, 48], bodies=("copy", "bias")),
    "unaligned": concat_text(["s0", 0], 1, [15, 1, 17], "f32", bodies=("copy", "bias")),
    "halves": concat_text(["s0", 0], 1, [15, 700, 17, 1], bodies=("copy", "bias", "neg")),
    "few rows": concat_text([3, 0], 1, ["s1", 5, "s2"], "f32", bodies=("copy", "bias"), outputs=2),
    "long": concat_text(["s0", 0], 1, [257, 300], bodies=("copy", "bias")),
    "bytes": concat_text(["s0", 0], 1, ["s1", 3, "s2"], "bool"),
    "symbolic": concat_text(["s0", 0], 1, ["s1", "s2"], bodies=("keep", "bias"), outputs=2),
    "middle": concat_text(["s0", 2, 0, "s2"], 2, ["s1", 3], bodies=("bias", "copy")),
    "outer": concat_text([0], 0, ["s0", "s1", "s2", 7], "f32"),
    "outer rows": concat_text([0, 3], 0, ["s0", "s1", "s2"], bodies=("bias", "copy")),
    "outer rows of symbols": concat_text([0, "s2"], 0, ["s0", 4, "s1"], "bf16", bodies=("copy", "bias")),
    "outer aligned": concat_text([0, 32], 0, ["s0", "s1", 5], bodies=("bias", "keep")),
}


def random_sizes(rng, most):
    while True:
        sizes = {s: int(2 ** rng.uniform(-1, 16)) for s in ("s0", "s1", "s2")}
        if rng.random() < 0.3:
            sizes[rng.choice(("s0", "s1", "s2"))] = rng.choice((0, 1, 31, 32, 33, 256))
        if np.prod([max(n, 1) for n in sizes.values()]) <= most:
            return sizes


def shares(part, values):
    """(core, first row, last row, first column, last column) of every share, as the kernel computes them."""
    values = {name.removeprefix(part.prefix): v for name, v in values.items() if name.startswith(part.prefix)}
    phase = values.get("phase", 0)
    for core in range(values["block_dim"]):
        if part.rows is None:
            begin = core * values["core_cols"] - phase if core else 0
            yield core, 0, 1, begin, min((core + 1) * values["core_cols"] - phase, values["total"])
            continue
        if "span" in values:
            yield from spans(core, values)
            continue
        row, col = divmod(core, values["col_cores"])
        begin = row * values["core_rows"] - phase if row else 0
        first = col * values["core_cols"]
        end = min((row + 1) * values["core_rows"] - phase, values["total_rows"])
        yield core, begin, end, first, min(first + values["core_cols"], values["total_cols"])


def spans(core, values):
    """The rectangles of a part that lie in a core's run of the output, one row at a time."""
    begin = core * values["run"]
    end = min(begin + values["run"], values["total_rows"] * values["span"])
    for row in range(begin // values["span"], -(-end // values["span"])) if end > begin else ():
        edges = (max(min(x - row * values["span"] - values["at"], values["total_cols"]), 0) for x in (begin, end))
        yield core, row, row + 1, *edges


def stored(made, piece, param, values, sizes):
    """(core of the launch, first element, last element) of every run of an output that a piece stores."""
    if values[f"{piece.prefix}cores"] == 0:
        return
    if not piece.members:
        for store in piece.program.stores:
            if store.param == param:
                yield from runs(store, piece, values, sizes)
        return
    places = [i.scalars[0] for m in piece.members for i in m.program.instrs if i.form == "place"]
    width, share, total = (values[f"{piece.prefix}{n}"] for n in (f"{param}_cols", "core_rows", "total_rows"))
    for core in range(values[f"{piece.prefix}block_dim"]) if param in places else ():
        first, last = (min(n * share, total) * width for n in (core, core + 1))
        if last > first:
            yield (core + values[f"{piece.prefix}first"]) % values["block_dim"], first, last


def runs(store, part, values, sizes):
    axes = [*part.outer, *([part.rows] if part.rows else [])]
    counts = [expr.evaluate(a.size, sizes) for a in axes]
    strides = {a: expr.evaluate(s, sizes) for a, s in store.strides}
    offset = expr.evaluate(store.offset, sizes)
    for core, first, last, begin, end in shares(part, values):
        rows = np.arange(first, max(first, last))
        if end <= begin or rows.size == 0 or 0 in counts:
            continue
        at = np.full(rows.size, offset, np.int64)
        for axis, i in zip(axes, np.unravel_index(rows, counts) if counts else ()):
            at += strides.get(axis.name, 0) * i
        assert part.cols is None or part.cols.name in strides
        core = (core + values[f"{part.prefix}first"]) % values["block_dim"]
        yield from zip(np.full(rows.size, core), at + begin, at + end)


def assert_blocks_have_one_core(made, target, sizes):
    """Also that the tiling keeps to the chip's limits. Returns its values."""
    values = made.tiling(sizes, target.vector_cores, target.ub_bytes)
    assert all(0 <= values[f] < 2**63 for f in made.fields), sizes
    assert 1 <= values["block_dim"] <= target.vector_cores
    running = made.running(values)
    assert values["ub_used"] == max(values[f"{p.prefix}ub_used"] for p in running) <= target.ub_plan_bytes
    assert all(1 <= values[f"{p.prefix}tile_rows"] <= target.max_block_count for p in running if p.rows)
    for param in made.kernel.outputs:
        elements = int(np.prod([expr.evaluate(d, sizes) for d in param.dims]))
        found = np.array(
            [run for piece in made.parts for run in stored(made, piece, param.name, values, sizes)], np.int64
        ).reshape(-1, 3)
        core, first, last = found[np.argsort(found[:, 1], kind="stable")].T
        assert (first[1:] == last[:-1]).all() and (elements == 0 or (first[0] == 0 and last[-1] == elements))
        seam = core[1:] != core[:-1]
        assert (first[1:][seam] * param.dtype.itemsize % 32 == 0).all(), (param.name, sizes, values)
    return values


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_block_of_an_output_has_one_core(name, soc):
    made, target, rng = scheduled(KERNELS[name], soc), chip(soc), random.Random(f"{name} {soc}")
    assert len({step.name for step in made.steps}) == len(made.steps)
    seen, ran = set(), set()
    for _ in range(25):
        values = assert_blocks_have_one_core(made, target, random_sizes(rng, 1 << 18))
        seen.add(values["block_dim"])
        ran |= {piece.template for piece in made.running(values)}
    assert max(seen) > 5, seen
    assert ("assembled" in ran) == (name in ("unaligned", "halves", "symbolic", "few rows")), ran


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(concats())
def test_every_block_of_random_concats_has_one_core(kernel):
    made, rng = scheduled(kernel[0]), random.Random(kernel[0])
    for sizes in (*kernel[1], *(random_sizes(rng, 1 << 14) for _ in range(5))):
        assert_blocks_have_one_core(made, chip(SOCS[0]), sizes)


@pytest.mark.parametrize("name", ["aligned", "unaligned", "symbolic", "outer rows", "few rows"])
def test_definitions_of_several_nests_are_valid(name, make_op):
    op = opdef.build(make_op(KERNELS[name]), chip(SOCS[0]))
    opdef.validate(op)
    buffers = [b.name for b in op.schedule[0].buffer]
    assert len(set(buffers)) == len(buffers) and all(b.startswith("p") for b in buffers), buffers
    text = schedule_text(Definition.of(op))
    assert all(line in text for line in (*buffers, op.schedule[0].template, "p0_cores"))


def test_parts_begin_on_the_core_after_the_last():
    """Four parts of 12 cores each run side by side on 48."""
    made, target = scheduled(concat_text([0, 1024], 0, [48] * 4, "f16", bodies=("bias",))), chip(SOCS[0])
    values = made.tiling({}, target.vector_cores, target.ub_bytes)
    cores = [values[f"p{k}_block_dim"] for k in range(4)]
    assert [values[f"p{k}_first"] for k in range(4)] == [sum(cores[:k]) % 48 for k in range(4)]
    assert values["block_dim"] == 48
