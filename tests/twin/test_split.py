"""Reductions that several cores share: values, seams and tails, determinism, and when the split is chosen."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from kernel_runner import Runner, runner, scheduled

from torchair_autofuse.codegen.kernel import generate
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import Chip, chip
from torchair_autofuse.twin.build import build
from torchair_autofuse.twin.launcher import load

ROWS = """kernel autofuse_rows(in in0: f16[s0, s1], out out0: f32[s0], out out1: f16[s0]) where s0 = in0.0, s1 = in0.1
nest n0 [a0: s0, a1: s1]
  v0: f16 = load in0[s1*a0 + a1]
  x: f32 = cast(v0, rint)
  t: f32 = reduce sum(x) over (a1)
  m: f32 = reduce max(x) over (a1)
  y: f16 = cast(m, rint)
  store out0[a0] = t
  store out1[a0] = y
"""
SOFTMAX = """kernel autofuse_sm(in in0: f32[s0, s1], out out0: f32[s0, s1], out out1: f32[s0]) where s0 = in0.0, s1 = in0.1
nest n0 [a0: s0, a1: s1]
  x: f32 = load in0[s1*a0 + a1]
  m, s: f32, f32 = reduce maxsumexp(x) over (a1)
  d: f32 = sub(x, m)
  e: f32 = exp(d)
  y: f32 = div(e, s)
  store out0[s1*a0 + a1] = y
  store out1[a0] = m
"""
PLAIN = SOFTMAX.replace("  store out1[a0] = m\n", "").replace(", out out1: f32[s0]", "").replace("_sm", "_plain")
NORM = """kernel autofuse_ln(in in0: f16[s0, 40016], in in1: f32[40016], out out0: f16[s0, 40016], out out1: f32[s0]) where s0 = in0.0
nest n0 [a0: s0, a1: 40016]
  v0: f16 = load in0[40016*a0 + a1]
  x: f32 = cast(v0, rint)
  m, s: f32, f32 = reduce welford(x) over (a1)
  n: f32 = const 40016.0
  var: f32 = div(s, n)
  eps: f32 = const 0.0009765625
  ve: f32 = add(var, eps)
  r: f32 = rsqrt(ve)
  d: f32 = sub(x, m)
  y: f32 = mul(d, r)
  g: f32 = load in1[a1]
  z: f32 = mul(y, g)
  o: f16 = cast(z, rint)
  store out0[40016*a0 + a1] = o
  store out1[a0] = m
"""
# a flat softmax: tiles follow each other in memory, whatever the size
FLAT = """kernel autofuse_flat(in in0: f32[s0], out out0: f32[s0], out out1: f32[]) where s0 = in0.0
nest n0 [a0: s0]
  x: f32 = load in0[a0]
  m, s: f32, f32 = reduce maxsumexp(x) over (a0)
  d: f32 = sub(x, m)
  e: f32 = exp(d)
  y: f32 = div(e, s)
  store out0[a0] = y
  store out1[0] = s
"""
# kept axes that do not merge: rows of a block end where the outer index changes
KEPT = """kernel autofuse_kept(in in0: f32[3, s0, s1], in in1: f32[s0], out out0: f32[3, s0]) where s0 = in0.1, s1 = in0.2
nest n0 [b: 3, r: s0, c: s1]
  x: f32 = load in0[s0*s1*b + s1*r + c]
  w: f32 = load in1[r]
  z: f32 = mul(x, w)
  t: f32 = reduce min(z) over (c)
  store out0[s0*b + r] = t
"""
# two streamed axes that do not merge
ALL = """kernel autofuse_all(in in0: f32[s0, s1], in in1: f32[s1], out out0: f32[]) where s0 = in0.0, s1 = in0.1
nest n0 [n: s0, w: s1]
  x: f32 = load in0[s1*n + w]
  g: f32 = load in1[w]
  z: f32 = mul(x, g)
  t: f32 = reduce sum(z) over (n, w)
  store out0[0] = t
"""
BATCH = """kernel autofuse_bn(in in0: f32[s0, 6, 200], out out0: f32[6], out out1: f32[s0, 6, 200]) where s0 = in0.0
nest n0 [n: s0, c: 6, w: 200]
  x: f32 = load in0[1200*n + 200*c + w]
  t: f32 = reduce sum(x) over (n, w)
  y: f32 = sub(x, t)
  store out0[c] = t
  store out1[1200*n + 200*c + w] = y
"""
COLUMNS = """kernel autofuse_cs(in in0: f32[s0, s1], out out0: f32[s1], out out1: f16[s1]) where s0 = in0.0, s1 = in0.1
nest n0 [a0: s0, a1: s1]
  x: f32 = load in0[s1*a0 + a1]
  q: f32 = mul(x, x)
  t: f32 = reduce sum(q) over (a0)
  m: f32 = reduce max(x) over (a0)
  h: f16 = cast(m, rint)
  store out0[a1] = t
  store out1[a1] = h
"""
COLUMN_SOFTMAX = """kernel autofuse_csm(in in0: f32[2, s0, s1], out out0: f32[2, s0, s1], out out1: f32[2, s1]) where s0 = in0.1, s1 = in0.2
nest n0 [b: 2, a0: s0, a1: s1]
  x: f32 = load in0[s1*s0*b + s1*a0 + a1]
  m, s: f32, f32 = reduce maxsumexp(x) over (a0)
  d: f32 = sub(x, m)
  e: f32 = exp(d)
  y: f32 = div(e, s)
  store out0[s1*s0*b + s1*a0 + a1] = y
  store out1[s1*b + a1] = m
"""
CENTER = """kernel autofuse_cc(in in0: f16[s0, s1], out out0: f16[s0, s1]) where s0 = in0.0, s1 = in0.1
nest n0 [a0: s0, a1: s1]
  v0: f16 = load in0[s1*a0 + a1]
  x: f32 = cast(v0, rint)
  t: f32 = reduce max(x) over (a0)
  y: f32 = sub(x, t)
  o: f16 = cast(y, rint)
  store out0[s1*a0 + a1] = o
"""
L2 = """kernel autofuse_l2(in in0: f32[1024, 1024], out out0: f32[])
nest n0 [n: 1024, w: 1024]
  x: f32 = load in0[1024*n + w]
  q: f32 = mul(x, x)
  t: f32 = reduce sum(q) over (n, w)
  y: f32 = sqrt(t)
  store out0[0] = y
"""
BIAS = """kernel autofuse_bias(in in0: f32[50000, 64], out out0: f32[64])
nest n0 [n: 50000, w: 64]
  x: f32 = load in0[64*n + w]
  t: f32 = reduce sum(x) over (n)
  store out0[w] = t
"""
ONE_ROW = """kernel autofuse_row(in in0: f32[4, 64], out out0: f32[4])
nest n0 [a0: 4, a1: 64]
  x: f32 = load in0[64*a0 + a1]  # from Sum
  t: f32 = reduce sum(x) over (a1)  # from Sum
  store out0[a0] = t  # from Sum
"""
BOTH = ("Ascend910B1", "Ascend950PR_9599")


def leaf(made: Schedule) -> Schedule:
    """The split variant, alone."""
    found = [v for v in made.variants or (made,) if v.shared]
    assert len(found) == 1, made.template
    return replace(found[0], prefix="", tiling_key=1)


@cache
def alone(text: str, soc: str = "Ascend910B1") -> Runner:
    """Runs the split variant for all sizes, whether it pays or not."""
    made = scheduled(text, soc)
    assert isinstance(made, Schedule), made
    made, target = leaf(made), chip(soc)
    assert isinstance(target, Chip)
    printed = generate(made, "Test", ["nodes of a test"])
    sources = {"kernel.cpp": printed.kernel_cpp, "tiling.h": printed.tiling_h}
    library = build(sources, printed.entry, npu_arch=target.npu_arch)
    return Runner(made.kernel, target, made, printed, load(library))


def on(built: Runner, cores: int, ub_bytes: int = 0) -> Runner:
    """The same kernel launched for another number of cores, or for a smaller UB."""
    ub = ub_bytes or built.chip.ub_bytes
    return replace(built, chip=replace(built.chip, vector_cores=cores, ub_bytes=ub))


# text, sizes; a launch for a few numbers of cores each
SEAMS = [
    (ROWS, [(1, 0), (1, 1), (3, 255), (9, 257), (17, 5000), (2, 30011), (40, 4097), (0, 300)]),
    (SOFTMAX, [(1, 8), (4, 2048), (9, 4104), (5, 20000), (3, 0)]),
    (FLAT, [(1,), (255,), (257,), (6151,), (30011,)]),
    (KEPT, [(1, 5000), (5, 4099), (16, 600), (7, 0)]),
    (ALL, [(1, 1), (7, 255), (300, 100), (3, 20011), (0, 5), (1000, 7)]),
    (BATCH, [(1,), (9,), (100,)]),
    (COLUMNS, [(1, 64), (300, 64), (0, 64), (1000, 100), (500, 7), (260, 777), (100, 3000), (33, 0)]),
    (COLUMN_SOFTMAX, [(1, 64), (200, 64), (300, 256), (40, 3000)]),
    (CENTER, [(1, 16), (700, 64), (300, 100), (1000, 17)]),
]  # fmt: skip
NAMES = ["rows", "softmax", "flat", "kept", "all", "batch", "columns", "column_softmax", "center"]


TYPES = """kernel autofuse_types(in in0: i32[s0, s1], in in1: bool[s0, s1], out out0: i32[{k}], out out1: i32[{k}], out out2: bool[{k}], out out3: bool[{k}]) where s0 = in0.0, s1 = in0.1
nest n0 [a0: s0, a1: s1]
  x: i32 = load in0[s1*a0 + a1]
  b: bool = load in1[s1*a0 + a1]
  t: i32 = reduce sum(x) over ({r})
  m: i32 = reduce {c}(x) over ({r})
  e: bool = reduce any(b) over ({r})
  f: bool = reduce all(b) over ({r})
  store out0[{a}] = t
  store out1[{a}] = m
  store out2[{a}] = e
  store out3[{a}] = f
"""


@pytest.mark.parametrize("soc", BOTH)
@pytest.mark.parametrize("over", ["a0", "a1"])
def test_integers_and_conditions(over, soc):
    kept = {"k": "s1", "a": "a1"} if over == "a0" else {"k": "s0", "a": "a0"}
    built = alone(TYPES.format(r=over, c="prod" if over == "a0" else "min", **kept), soc)
    rng = np.random.default_rng(5)
    for few, many, cores in [(3, 9000, 48), (40, 2500, 7), (1, 1, 48), (2, 0, 3), (65, 600, 40)]:
        s0, s1 = (many, few) if over == "a0" else (few, many)
        odd = rng.integers(-(2**31), 2**31, (s0, s1)).astype(np.int32) | 1  # wraps, and stays away from 0
        rare = rng.random((s0, s1)) < 1e-4
        rare[:, : s1 // 2] ^= True
        on(built, cores).check({"s0": s0, "s1": s1}, {"in0": odd, "in1": rare})


@pytest.mark.parametrize("soc", BOTH)
@pytest.mark.parametrize("text, sizes", SEAMS, ids=NAMES)
def test_every_split_gives_the_right_values(text, sizes, soc):
    built = alone(text, soc)
    counts = (1, 2, 7, 40, built.chip.vector_cores)
    for i, given in enumerate(sizes):
        size = {f"s{k}": n for k, n in enumerate(given)}
        for cores in counts[i % 2 :: 2] if i else counts:
            on(built, cores).check(size, seed=i)


@pytest.mark.parametrize("text, sizes", SEAMS, ids=NAMES)
def test_small_ub_makes_several_rounds_and_tiles(text, sizes):
    built = alone(text)
    values = {}
    for i, given in enumerate(sizes):
        size = {f"s{k}": n for k, n in enumerate(given)}
        small = on(built, 12, 90000)
        values = small.schedule.tiling(size, 12, 90000)
        if values["ub_used"] <= small.chip.ub_plan_bytes:
            small.check(size, seed=i, special=i % 2 == 0)


def test_rounds_and_parts_are_as_the_sizes_ask_for():
    def tiling(text: str, *sizes: int, cores: int = 48, ub: int = 196608) -> dict[str, int]:
        return alone(text).schedule.tiling({f"s{k}": n for k, n in enumerate(sizes)}, cores, ub)

    # without a stored row, single rows are shared out; f32 results of rows are owned by eights
    shares = {2: (2, 24), 4: (4, 12), 7: (7, 6), 30: (15, 3), 48: (48, 1), 100: (34, 1)}
    for rows, share in shares.items():
        found = tiling(PLAIN, rows, 48 * 2560)
        assert (found["groups"], found["parts"]) == share, rows
    assert [tiling(SOFTMAX, n, 48 * 2560)["groups"] for n in (1, 8, 9, 40)] == [1, 1, 2, 5]
    assert [tiling(COLUMNS, 50000, n)[k] for n in (64, 768, 5120) for k in ("groups", "parts")] == [1, 48, 3, 16, 20, 2]
    assert [tiling(SOFTMAX, n, 48 * 2560)["rounds"] for n in (1, 4, 8, 16)] == [1, 1, 1, 1]
    uneven = tiling(COLUMNS, 3000, 20001)
    assert uneven["groups"] == 1 and uneven["rounds"] > 1
    assert tiling(KEPT, 16, 50000, cores=1)["rounds"] > 3


# outputs that only a few of the kept units make: their neighbours in memory belong to the same core
LACKING = """kernel autofuse_lack(in in0: f32[s0, 12, 5000], in in1: f32[s0], out out0: f32[s0, 12], out out1: f32[s0]) where s0 = in0.0
nest n0 [b: s0, r: 12, c: 5000]
  x: f32 = load in0[60000*b + 5000*r + c]
  w: f32 = load in1[b]
  z: f32 = mul(x, w)
  t: f32 = reduce max(z) over (c)
  u: f32 = neg(w)
  store out0[12*b + r] = t
  store out1[b] = u
"""
LACKING_COLUMNS = """kernel autofuse_lackc(in in0: f32[s0, 3, 900, 17], in in1: f32[s0, 17], out out0: f32[s0, 3, 17], out out1: f32[s0, 17]) where s0 = in0.0
nest n0 [b: s0, r: 3, n: 900, c: 17]
  x: f32 = load in0[45900*b + 15300*r + 17*n + c]
  w: f32 = load in1[17*b + c]
  z: f32 = mul(x, w)
  t: f32 = reduce sum(z) over (n)
  u: f32 = neg(w)
  store out0[51*b + 17*r + c] = t
  store out1[17*b + c] = u
"""


@pytest.mark.parametrize("text", [LACKING, LACKING_COLUMNS], ids=["rows", "columns"])
def test_outputs_that_lack_a_kept_axis(text):
    made = scheduled(text)
    assert isinstance(made, Schedule) and not any(v.shared for v in (made, *made.variants))
    for n in (1, 5, 20):
        runner(text).check({"s0": n})


PAYS = [
    (SOFTMAX, (4, 131072), True), (SOFTMAX, (4, 131073), False), (SOFTMAX, (4, 16384), False),
    (SOFTMAX, (480, 131072), False), (ROWS, (2, 1000001), True), (ROWS, (2, 0), False),
    (COLUMNS, (50000, 64), True), (COLUMNS, (50000, 100), True), (COLUMNS, (100, 64), False),
    (COLUMNS, (50000, 12288), False), (COLUMN_SOFTMAX, (4096, 64), True), (COLUMN_SOFTMAX, (4096, 65), False),
    (CENTER, (50000, 65), True), (FLAT, (1000001,), True), (FLAT, (20000,), False), (ALL, (5000, 100), True),
]  # fmt: skip


@pytest.mark.parametrize("text, given, pays", PAYS)
def test_the_split_is_chosen_when_it_pays(text, given, pays):
    made = scheduled(text)
    assert isinstance(made, Schedule)
    values = made.tiling({f"s{k}": n for k, n in enumerate(given)}, 48, 196608)
    chosen = made.variants[values["tiling_key"] - 1]
    assert chosen.shared == pays
    assert (values["workspace_bytes"] > 0) == pays


@pytest.mark.parametrize("soc", BOTH)
@pytest.mark.parametrize(
    "text, given, shared",
    [(SOFTMAX, (2, 100000), True), (NORM, (3,), True), (COLUMNS, (4500, 64), True), (COLUMNS, (3, 64), False),
     (SOFTMAX, (2, 512), False), (SOFTMAX, (100, 40000), True), (PLAIN, (144, 40000), False)],
)  # fmt: skip
def test_variants_of_one_kernel(text, given, shared, soc):
    built = runner(text, soc)
    size = {f"s{k}": n for k, n in enumerate(given)}
    profile = built.check(size)
    assert (profile.sync_alls > 0) == shared
    if shared:
        assert profile.block_dim >= 0.7 * built.chip.vector_cores


@pytest.mark.parametrize(
    "text, given", [(SOFTMAX, (3, 40000)), (COLUMNS, (2000, 264)), (ALL, (50, 3001)), (NORM, (2,))]
)
def test_bits_do_not_depend_on_the_order_of_blocks(text, given):
    built = alone(text)
    size = {f"s{k}": n for k, n in enumerate(given)}
    rng = np.random.default_rng(1)
    inputs = {p.name: rng.standard_normal(built.shape(p.name, size)).astype(p.dtype.numpy) for p in built.kernel.inputs}
    runs = [built.launch(inputs, size, seed)[0] for seed in range(4)]
    for name in runs[0]:
        assert len({r[name].tobytes() for r in runs}) == 1, name


def test_nan_and_infinity_pass_through_every_part():
    for text, sizes in ((SOFTMAX, (8, 8192)), (ROWS, (8, 8192)), (COLUMN_SOFTMAX, (500, 64)), (NORM, (2,))):
        for seed in range(3):
            alone(text).check({f"s{k}": n for k, n in enumerate(sizes)}, seed=seed, special=True)
    row = np.full((2, 40000), -np.inf, np.float32)
    row[1, 39999] = 1.0
    alone(SOFTMAX).check({"s0": 2, "s1": 40000}, {"in0": row})


def test_sums_are_as_exact_as_pairwise_ones():
    x = np.random.default_rng(0).random((50000, 8)).astype(np.float32) + np.float32(0.5)
    size = {"s0": 50000, "s1": 8}
    got, _ = alone(COLUMNS).launch({"in0": x}, size)
    exact = (x.astype(np.float64) ** 2).sum(0)
    assert np.abs(got["out0"] / exact - 1).max() < 3e-7


@pytest.mark.parametrize("soc", BOTH)
@pytest.mark.parametrize("text", [L2, BIAS], ids=["l2", "bias"])
def test_one_read_by_all_cores(text, soc):
    built = runner(text, soc)
    profile = built.check({})
    floor = sum(a.nbytes for a in profile.args if a.kind != "workspace")
    assert profile.block_dim > 0.95 * built.chip.vector_cores
    assert profile.sync_alls == profile.block_dim
    assert profile.gm_read_bytes + profile.gm_written_bytes <= 1.05 * floor
    assert profile.args[0].read == profile.args[0].nbytes


def test_only_kernels_with_a_split_ask_for_resident_blocks():
    assert "KERNEL_TYPE_MIX_AIV_1_0" in runner(L2).text.kernel_cpp
    few = L2.replace("1024", "64").replace("autofuse_l2", "autofuse_few")
    made = scheduled(few)
    assert isinstance(made, Schedule) and made.workspace_bytes == "0"
    assert "KERNEL_TYPE_AIV_ONLY" in generate(made, "Test", []).kernel_cpp


def test_definition_host_source_and_host_run(make_op, tmp_path, monkeypatch, capsys):
    """The workspace reaches the definition, op_host.cpp, run.py and the host executor."""
    import torch

    from torchair_autofuse import opdef
    from torchair_autofuse.host import kernels
    from torchair_autofuse.opdef import artefact
    from torchair_autofuse.opdef import run as opdef_run
    from torchair_autofuse.twin.build import default_cache_root

    (tmp_path / "twin").symlink_to(default_cache_root() / "twin", target_is_directory=True)
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path))
    made = make_op(COLUMNS)
    folder = artefact.write(tmp_path, made, chip(), opdef.build(made, chip(), {"s0": 5000, "s1": 64}))
    opdef.validate(opdef.load(folder), folder)
    assert "SetScheduleMode(1)" in (folder / "op_host.cpp").read_text()
    assert "SetScheduleMode" not in (artefact.write(tmp_path, make_op(ONE_ROW), chip()) / "op_host.cpp").read_text()
    for sizes in (["s0=5000"], ["s0=9", "s1=7"]):
        assert opdef_run.main(folder, ["--shape", *sizes]) == opdef_run.OK, capsys.readouterr().out
    x = torch.rand(5000, 64)
    kernel = kernels.load(made.op_type)
    total, most = kernel.run([x])
    assert kernel.last_profile.sync_alls == kernel.last_profile.block_dim == 48
    torch.testing.assert_close(total, (x.double() ** 2).sum(0).float(), rtol=1e-6, atol=0)
    assert torch.equal(most, x.amax(0).half())
    kernels.clear()
