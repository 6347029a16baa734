"""UB plans and tilings, checked without the code that makes them: liveness by execution, ownership by enumeration."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from pointwise_kernels import pointwise_kernels

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule.choose import schedule
from torchair_autofuse.schedule.program import Layout
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import chip

SOCS = ("Ascend910B1", "Ascend910B3", "Ascend950PR_9599")
BLOCK = 32


def scheduled(text, soc=SOCS[0]):
    kernel = parse(text)
    verify(kernel)
    made = schedule(kernel, chip(soc))
    assert isinstance(made, Schedule), made
    return made


# ---- UB plan --------------------------------------------------------------------------------------------------------


def assert_plan_is_sound(made, limits):
    """Runs the program over its places twice, every loop three times: each value read must be the one meant."""
    program, plan = made.program, made.plan
    for b in program.bufs:
        slot = plan.slots[plan.place[b.id]]
        assert slot.layout == b.layout and slot.itemsize >= b.itemsize
        assert (slot.queue == b.id) == (b.kind != "tmp")
    holds = {}

    def expect(b, when):
        assert holds.get(plan.place[b]) == b, f"buffer {b} is gone {when}; its place holds {holds.get(plan.place[b])}"

    for segment in program.segments * 2:
        for _ in range(3 if segment.loop else 1):
            holds.update((plan.place[x.buf], x.buf) for x in segment.loads)
            for instr in segment.instrs:
                for b in instr.srcs:
                    expect(b, f"before {instr.api}")
                if not instr.in_place:
                    assert plan.place[instr.dst] not in [plan.place[b] for b in instr.srcs], instr
                holds.update((plan.place[b], b) for b in (instr.work, instr.dst) if b >= 0)
            for x in segment.stores:
                expect(x.buf, f"before the store to {x.param}")
    queued = sorted(b for group in plan.queues for b in group.bufs)
    assert queued == [b.id for b in program.bufs if b.kind != "tmp"]
    for kind in ("in", "out"):  # an event each, 8 per pipe pair
        assert sum(g.num for g in plan.queues if g.kind == kind) <= limits.max_live_tensors


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(pointwise_kernels())
def test_no_live_buffers_share_a_place(kernel):
    for soc in (SOCS[0], SOCS[2]):
        assert_plan_is_sound(scheduled(kernel[0], soc), chip(soc))


def test_the_check_of_plans_finds_a_shared_place():
    text = "kernel k(in x: f32[64], out y: f32[64])\nnest n0 [a0: 64]\n  v0: f32 = load x[a0]\n  v1: f32 = exp(v0)\n"
    made = scheduled(text + "  v2: f32 = abs(v0)\n  v3: f32 = add(v1, v2)\n  store y[a0] = v3\n")
    assert_plan_is_sound(made, chip(SOCS[0]))
    place = list(made.plan.place)
    exp, absolute = (next(i.dst for i in made.program.instrs if i.api == api) for api in ("Exp", "Abs"))
    place[absolute] = place[exp]
    broken = made.plan.__class__(made.plan.slots, tuple(place), made.plan.queues)
    with pytest.raises(AssertionError):
        assert_plan_is_sound(made.__class__(**{**vars(made), "plan": broken}), chip(SOCS[0]))


# ---- tiling ---------------------------------------------------------------------------------------------------------

KERNELS = {
    "flat": """
kernel flat(in x: f16[s0], in o: f32[1], out y: i64[s0], out z: f32[1]) where s0 = x.0
nest n0 [a0: s0]
  v0: f16 = load x[a0]
  v1: f32 = cast(v0, rint)
  v2: f32 = load o[0]
  v3: f32 = mul(v1, v2)
  v4: i64 = cast(v3, trunc)
  v5: f32 = exp(v2)
  store y[a0] = v4
  store z[0] = v5
""",
    "rows": """
kernel rows(in x: f16[s0, s1], in r: f16[s1], in c: f32[s0, 1], out y: f16[s0, s1], out z: u8[s0, s1], out w: f32[s0],
  out v: f16[s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f16 = load x[s1*a0 + a1]
  v1: f32 = cast(v0, rint)
  v2: f16 = load r[a1]
  v3: f32 = cast(v2, rint)
  v4: f32 = load c[a0]
  v5: f32 = sub(v4, v3)
  v6: f32 = mul(v5, v1)
  v7: f16 = cast(v6, rint)
  v8: bool = lt(v6, v1)
  v9: u8 = cast(v8, rint)
  v10: f32 = erf(v4)
  store y[s1*a0 + a1] = v7
  store z[s1*a0 + a1] = v9
  store w[a0] = v10
  store v[a1] = v2
""",
    "fixed width": """
kernel fixed(in x: f32[s0, 24], in r: f32[24], out y: f16[s0, 24]) where s0 = x.0
nest n0 [a0: s0, a1: 24]
  v0: f32 = load x[24*a0 + a1]
  v1: f32 = load r[a1]
  v2: f32 = pow(v0, v1)
  v3: f16 = cast(v2, rint)
  store y[24*a0 + a1] = v3
""",
    "outer": """
kernel outer(in x: f32[s0, 3, s1, s2], in m: f16[s0, 1, s1, s2], out y0: f32[s0, 3, s1, s2], out y1: f16[s0, 1, s1, s2],
  out y2: f32[3, s1, 1], out y3: f32[s0, 1, 1, s2]) where s0 = x.0, s1 = x.2, s2 = x.3
nest n0 [a0: s0, a1: 3, a2: s1, a3: s2]
  v0: f32 = load x[3*s1*s2*a0 + s1*s2*a1 + s2*a2 + a3]
  v1: f16 = load m[s1*s2*a0 + s2*a2 + a3]
  v2: f32 = cast(v1, rint)
  v3: f32 = mul(v0, v2)
  c: f32 = const 2.0
  store y0[3*s1*s2*a0 + s1*s2*a1 + s2*a2 + a3] = v3
  store y1[s1*s2*a0 + s2*a2 + a3] = v1
  store y2[s1*a1 + a2] = c
  store y3[s2*a0 + a3] = c
""",
}


def random_sizes(rng):
    """Sizes of any magnitude, rows and columns of one tensor a million elements together at most."""
    while True:
        sizes = {s: int(2 ** rng.uniform(-0.5, 17)) for s in ("s0", "s1", "s2")}
        if rng.random() < 0.3:
            sizes[rng.choice(("s0", "s1", "s2"))] = rng.choice((0, 1, 1, 32, 64, 256, 4095, 4096))
        if np.prod([max(n, 1) for n in sizes.values()]) <= 1 << 20:
            return sizes


def ub_bytes(made, values):
    """What InitBuffer takes for all queues and temporary buffers."""
    full = values.get("cap_full", 0)
    capacity = {
        Layout.FULL: full, Layout.TURNED: full, Layout.ROW: values.get("cap_row", 0),
        Layout.COL: values.get("cap_col", 0), Layout.ONE: 256, Layout.COLB: values.get("cap_colb", 0), Layout.ONEB: 8,
    }  # fmt: skip
    copies = {b: group.num for group in made.plan.queues for b in group.bufs}
    total = sum(copies.get(s.queue, 1) * capacity[s.layout] * s.itemsize for s in made.plan.slots)
    total += sum(table.bytes for table in made.plan.tables)
    scratch = made.program.scratch
    return total + (scratch * (capacity[Layout.FULL] + 256) + 512 if scratch else 0)


def assert_tiling_is_sound(made, target, sizes):
    values = made.tiling(sizes, target.vector_cores, target.ub_bytes)
    assert all(0 <= values[f] < 2**63 for f in made.fields), (sizes, values)
    assert 1 <= values["block_dim"] <= target.vector_cores, (sizes, values)
    assert values["tile_cols"] >= 1 and values.get("tile_rows", 1) >= 1, (sizes, values)
    assert values.get("tile_rows", 1) <= target.max_block_count
    assert ub_bytes(made, values) == values["ub_used"] <= target.ub_plan_bytes, (sizes, values)
    if made.rows is None:
        assert (values["block_dim"] - 1) * values["core_cols"] < max(values["total"], 1)
        assert values["total"] <= values["block_dim"] * values["core_cols"]
        assert values["core_cols"] % 256 == 0 and values["tile_cols"] <= values["cap_full"]
        return
    width = min(values["tile_cols"], values["total_cols"])
    pitch = -(-width // made.align) * made.align
    assert values["tile_rows"] * pitch <= values["cap_full"] and width <= values["cap_row"]
    assert values["tile_rows"] <= values["cap_col"] and values["tile_rows"] <= values["cap_colb"]
    assert_blocks_are_owned(made, values, sizes)


def assert_blocks_are_owned(made, values, sizes):
    """Every element of every output is stored once, and no 32-byte block by two cores."""
    counts = [expr.evaluate(a.size, sizes) for a in (*made.outer, made.rows)]
    row = np.arange(int(np.prod(counts)))
    index = np.unravel_index(row, counts)
    cores = values["col_cores"]
    starts = np.arange(cores) * values["core_cols"]
    ends = np.minimum(starts + values["core_cols"], values["total_cols"])
    assert starts[-1] < max(values["total_cols"], 1) and ends[-1] == values["total_cols"]
    assert row.size <= values["block_dim"] // cores * values["core_rows"]
    for store in made.program.stores:
        strides = {a: expr.evaluate(s, sizes) for a, s in store.strides}
        param = made.kernel.param[store.param]
        elements = int(np.prod([expr.evaluate(d, sizes) for d in param.dims]))
        if elements == 0:
            continue
        once = np.ones(row.size, bool)
        at = np.zeros(row.size, np.int64)
        for axis, i in zip((*made.outer, made.rows), index):
            if axis.name in strides:
                at += strides[axis.name] * i
            else:
                once &= i == 0
        owner = row // values["core_rows"] * cores
        has_cols = made.cols.name in strides
        first = (at[once][:, None] + (starts if has_cols else [0])).ravel()
        last = (at[once][:, None] + (ends if has_cols else [1])).ravel()
        owner = (owner[once][:, None] + np.arange(cores if has_cols else 1)).ravel()
        order = np.argsort(first, kind="stable")
        first, last, owner = first[order], last[order], owner[order]
        assert first[0] == 0 and last[-1] == elements and (first[1:] == last[:-1]).all(), (store.param, sizes)
        size = param.dtype.itemsize
        seam = owner[1:] != owner[:-1]
        assert (first[1:][seam] * size % BLOCK == 0).all(), (store.param, sizes, values)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("name", KERNELS)
def test_tilings(name, soc):
    made, target, rng = scheduled(KERNELS[name], soc), chip(soc), random.Random(1)
    for _ in range(120 if made.rows else 1000):
        assert_tiling_is_sound(made, target, random_sizes(rng))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(pointwise_kernels())
def test_tilings_of_random_kernels(kernel):
    made, rng = scheduled(kernel[0]), random.Random(2)
    for _ in range(10):
        assert_tiling_is_sound(made, chip(SOCS[0]), random_sizes(rng))


def test_tilings_use_the_cores():
    """A large tensor is shared by all cores, a small one starts few."""
    for name, made in ((n, scheduled(t)) for n, t in KERNELS.items()):
        blocks = [
            made.tiling({"s0": n, "s1": 64, "s2": 64}, 48, chip(SOCS[0]).ub_bytes)["block_dim"]
            for n in (1, 10, 100, 4000, 400000)
        ]
        assert all(a <= b for a, b in pairwise(blocks)) and blocks[0] <= 12, (name, blocks)
        assert blocks[-1] >= 40 or name == "outer", (name, blocks)


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("v0: f32 = load x[65*a1]\n  store y[64*a0 + a1] = v0", "AF210", "stride of 65"),
        ("v0: f32 = load x[a0 + a1]\n  store y[64*a0 + a1] = v0", "AF210", "overlap"),
        ("v0: i32 = iota a0 + a1\n  v1: f32 = cast(v0, rint)\n  store y[64*a0 + a1] = v1", "AF202", "index"),
        ("v0: f32 = load x[64*a0 + a1]\n  v1: f32 = tan(v0)\n  store y[64*a0 + a1] = v1", "AF202", "tan"),
        ("v0: i64 = const 4294967296\n  v1: f32 = cast(v0, rint)\n  store y[64*a0 + a1] = v1", "AF202", "constant"),
        ("v0: u8 = load b[a0]\n  store u[64*a0 + a1] = v0", "AF202", "repeats uint8_t"),
    ],
)
def test_refusals(body, code, words):
    out = "out u: u8[64, 64]" if "store u" in body else "out y: f32[64, 64]"
    text = f"kernel k(in x: f32[64, 64], in b: u8[64, 1], {out})\nnest n0 [a0: 64, a1: 64]\n  {body}\n"
    kernel = parse(text)
    verify(kernel)
    made = schedule(kernel, chip(SOCS[0]))
    assert isinstance(made, Reason) and made.code == code and words in made.text, made


def test_a_nest_that_needs_too_much_ub_is_refused():
    loads = "\n".join(f"  v{i}: f32 = load x{i}[a0]" for i in range(60))
    outs = "\n".join(f"  store y{i}[a0] = e{i}" for i in range(60))
    exps = "\n".join(f"  e{i}: f32 = exp(v{i})" for i in range(60))
    params = ", ".join([*(f"in x{i}: f32[64]" for i in range(60)), *(f"out y{i}: f32[64]" for i in range(60))])
    kernel = parse(f"kernel k({params})\nnest n0 [a0: 64]\n{loads}\n{exps}\n{outs}\n")
    made = schedule(kernel, chip(SOCS[0]))
    assert isinstance(made, Reason) and made.code == "AF212", made
