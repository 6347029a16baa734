"""Kernels of several nests on the twin against the interpreter: concatenation along any axis, of any sizes."""

from __future__ import annotations

import pytest
from concat_kernels import concat_text, concats
from hypothesis import HealthCheck, given, settings
from kernel_runner import check, runner, scheduled

from torchair_autofuse.messages import Reason

SOCS = ("Ascend910B1", "Ascend950PR_9599")
ROWS = (1, 2, 47, 49)
MIXES = (
    (1, 1), (1, 15), (16, 16), (16, 17), (17, 16), (31, 33), (32, 32), (33, 1, 15), (15, 16, 17), (31, 32, 33),
    (1, 15, 16, 17, 31, 32, 33), (64, 1, 32), (128, 64, 32, 16),
)  # fmt: skip
BODIES = ("copy", "neg", "bias")


def rows(*counts):
    return [{"s0": n} for n in counts]


# ---- inner ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16", "i32"])
@pytest.mark.parametrize("widths", MIXES, ids=str)
def test_inner_axis(widths, dtype):
    check(concat_text(["s0", 0], 1, widths, dtype, bodies=BODIES), rows(*ROWS))


@pytest.mark.parametrize("widths", MIXES[1::2], ids=str)
def test_inner_axis_of_bools(widths):
    check(concat_text(["s0", 0], 1, widths, "bool", bodies=("copy", "neg")), rows(*ROWS))


@pytest.mark.parametrize("widths", [(16, 17), (32, 64)], ids=str)
def test_the_other_chip(widths):
    check(concat_text(["s0", 0], 1, widths, bodies=BODIES), rows(1, 49, 3000), SOCS[1])


@pytest.mark.parametrize("count", [2, 3, 26, 27, 64])
@pytest.mark.parametrize("width", [5, 32])
def test_many_parts(count, width):
    check(concat_text(["s0", 0], 1, [width] * count), rows(3, 49))


@pytest.mark.parametrize("dtype", ["f16", "i32"])
def test_symbolic_widths(dtype):
    text = concat_text(["s0", 0], 1, ["s1", "s2", 16], dtype, bodies=BODIES)
    sizes = ((1, 1, 1), (47, 15, 17), (49, 16, 32), (50, 0, 16), (50, 16, 0), (50, 0, 0), (0, 5, 5), (3, 9001, 40))
    check(text, [dict(zip(("s0", "s1", "s2"), s)) for s in sizes])


def test_rows_longer_than_ub():
    text = concat_text(["s0", 0], 1, [60000, 33, 60000], bodies=BODIES)
    check(text, rows(1, 3, 49))


@pytest.mark.parametrize("widths", [(300, 301), (257, 1000, 515)], ids=str)
def test_uneven_rows_that_are_long_enough_to_be_stored_one_by_one(widths):
    text = concat_text(["s0", 0], 1, widths, bodies=BODIES)
    assert scheduled(text).template == "sequence"
    check(text, rows(*ROWS, 1000))


# ---- middle and outer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [1, 3, 16, 33])
def test_middle_axis(tail):
    text = concat_text(["s0", 0, tail], 1, [2, "s1", 5], bodies=BODIES)
    check(text, [{"s0": a, "s1": b} for a, b in ((1, 1), (2, 3), (7, 0), (47, 16), (49, 33), (0, 4))])


def test_middle_axis_with_outer_and_inner_symbols():
    text = concat_text(["s0", 3, 0, "s2"], 2, ["s1", 1], "f32", bodies=("bias", "copy"))
    shapes = ((1, 1, 1), (2, 3, 8), (5, 31, 7), (40, 2, 33), (3, 0, 5), (3, 5, 0))
    check(text, [dict(zip(("s0", "s1", "s2"), s)) for s in shapes])


@pytest.mark.parametrize("dtype", ["f16", "f32", "bool"])
def test_outer_axis_of_flat_parts(dtype):
    bodies = ("copy", "neg")
    text = concat_text([0], 0, ["s0", "s1", 7, "s2"], dtype, bodies=bodies)
    shapes = (
        (0, 0, 0), (1, 1, 1), (0, 1, 0), (17, 31, 33), (1000, 10001, 5), (40001, 3, 60000), (100000, 100001, 100002),
    )  # fmt: skip
    check(text, [dict(zip(("s0", "s1", "s2"), s)) for s in shapes])


@pytest.mark.parametrize("tail", [1, 3, 24, 32, "s2"])
def test_outer_axis_with_rows(tail):
    """A bias keeps rows and columns apart, so that a part is tiles of rows at an offset."""
    text = concat_text([0, tail], 0, ["s0", 5, "s1"], bodies=("bias", "copy", "bias"))
    shapes = ((1, 1, 1), (2, 3, 5), (47, 49, 7), (0, 3, 16), (4, 0, 33), (3001, 2002, 24))
    check(text, [dict(zip(("s0", "s1", "s2"), s)) for s in shapes])


def test_outer_axis_of_many_tiny_parts():
    check(concat_text([0], 0, [1, 2, 3, 30, 1, 1, 15, 700] * 8, bodies=("copy", "neg")), [{}])


# ---- several outputs, shared inputs, reductions ---------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(16, 32), (15, 33, 1)], ids=str)
def test_two_outputs(widths):
    check(concat_text(["s0", 0], 1, widths, bodies=BODIES, outputs=2), rows(*ROWS, 1000))


@pytest.mark.parametrize("dims", [(["s0", 0], 1), ([0, 16], 0), (["s0", 0, 5], 1)], ids=str)
def test_a_part_that_is_stored_by_itself_too(dims):
    parts = (16, 48) if dims[1] == 0 else (15, 17, 16)
    check(concat_text(*dims, parts, bodies=("keep", "fill")), rows(*ROWS))


SHIFTED = """
kernel rotate(in x: f16[s0, {w}], in c: f32[s0, 1], out y: f16[s0, {w}], out z: f32[s0, {w}]) where s0 = x.0
nest n0 [a0: s0, a1: {h}]
  a: f16 = load x[{w}*a0 + a1 + {h}]
  b: f32 = cast(a, rint)
  c: f32 = load c[a0]
  d: f32 = mul(b, c)
  e: f16 = cast(d, rint)
  store y[{w}*a0 + a1] = e
  store z[{w}*a0 + a1] = d
nest n1 [a0: s0, a1: {h}]
  a: f16 = load x[{w}*a0 + a1]
  b: f32 = cast(a, rint)
  store y[{w}*a0 + a1 + {h}] = a
  store z[{w}*a0 + a1 + {h}] = b
"""


@pytest.mark.parametrize("half", [1, 15, 32])
def test_nests_that_load_one_input_at_different_offsets(half):
    check(SHIFTED.format(w=2 * half, h=half), rows(*ROWS, 2000))


LANES = """
kernel lanes(in x: f16[s0, {w}], in z: f32[s1, {h}], out y: f16[s0, {w}],
  out q: f32[s0 + s1, {w}]) where s0 = x.0, s1 = z.0
nest n0 [a0: s0, a1: {h}]
  a: f16 = load x[{w}*a0 + 2*a1 + 1]
  b: f32 = cast(a, rint)
  c: f16 = load x[{w}*a0 + 2*a1]
  d: f32 = cast(c, rint)
  store y[{w}*a0 + a1] = a
  store q[{w}*a0 + 2*a1] = b
  store q[{w}*a0 + 2*a1 + 1] = d
nest n1 [a0: s0, a1: {h}]
  a: f16 = load x[{w}*a0 + 2*a1]
  store y[{w}*a0 + a1 + {h}] = a
nest n2 [a0: s1, a1: {h}]
  a: f32 = load z[{h}*a0 + a1]
  b: f32 = neg(a)
  store q[{w}*a0 + 2*a1 + {w}*s0] = a
  store q[{w}*a0 + 2*a1 + {w}*s0 + 1] = b
"""


@pytest.mark.parametrize("half", [16, 24])
def test_lanes_in_parts(half):
    """Parts that pick every second element, and parts that put elements in turn into an output."""
    check(LANES.format(w=2 * half, h=half), [{"s0": a, "s1": b} for a, b in ((1, 1), (48, 49), (0, 5), (640, 3))])


@pytest.mark.parametrize("dims", [(["s0", 0], 1, (33, 64)), ([0, 24], 0, ("s0", "s1"))], ids=str)
def test_softmax_of_a_part(dims):
    text = concat_text(*dims, bodies=("softmax", "copy"))
    check(text, [{"s0": a, "s1": b} for a, b in ((1, 1), (47, 3), (49, 1000), (0, 4))])


COLUMNS = """
kernel columns(in x: f32[8, 50, 64], in z: f32[8, 64], out y: f32[16, 64])
nest n0 [a0: 8, a1: 50, a2: 64]
  a: f32 = load x[3200*a0 + 64*a1 + a2]
  b: f32 = reduce sum(a) over (a1)
  store y[64*a0 + a2] = b
nest n1 [a0: 8, a1: 64]
  a: f32 = load z[64*a0 + a1]
  store y[64*a0 + a1 + 512] = a
"""


def test_a_column_reduction_beside_a_copy():
    check(COLUMNS, [{}])


# ---- rows put together ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "dtype", "template"),
    [
        ((16, 17), "f16", "assembled"),
        ((16, 32), "f16", "sequence"),  # all on 32-byte blocks
        ((8, 24), "f32", "sequence"),
        ((3, 4096), "f32", "assembled, sequence"),  # few rows of that size are shared in pieces
        ((257, 300), "f16", "sequence"),  # long enough to be stored one by one
        ((16, 17), "bool", "sequence"),  # no instruction drops pads of one byte
        ((3, 50000), "f32", "sequence"),  # rows do not fit
        (("s1", 16), "f16", "assembled, sequence"),
        (("s1", "s2"), "i64", "sequence"),
    ],
    ids=str,
)
def test_which_rows_are_put_together(parts, dtype, template):
    assert scheduled(concat_text(["s0", 0], 1, parts, dtype)).template == template


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "i32", "i16"])
@pytest.mark.parametrize("widths", [(1, 2), (7, 8, 9), (1, 16, 1), (700, 3, 33), (2040, 1, 2041)], ids=str)
def test_rows_put_together(widths, dtype):
    text = concat_text(["s0", 0], 1, widths, dtype, bodies=("copy", "fill" if dtype == "i16" else "bias"))
    check(text, rows(0, 1, 2, 15, 16, 17, 49, 800))


@pytest.mark.parametrize("dims", [("s0", 0), (2, "s0", 0)], ids=str)
def test_few_long_rows_are_shared_in_pieces(dims):
    made = runner(concat_text(dims, len(dims) - 1, [20001, 3, 4000], "f32", bodies=BODIES))
    for count in (1, 2, 3, 5, 9):
        assert made.check({"s0": count}).block_dim >= min(20 * count, 48)


def test_few_long_rows_of_two_outputs():
    text = concat_text([3, 0], 1, ["s1", 5, "s2"], bodies=BODIES, outputs=2)
    sizes = ((1, 1), (30001, 1), (1, 30001), (20000, 20000), (0, 9999), (255, 257))
    check(text, [{"s1": a, "s2": b} for a, b in sizes])


def test_sizes_decide_whether_rows_are_put_together():
    made = runner(concat_text(["s0", 0], 1, ["s1", "s2"], bodies=BODIES))
    for s1, s2, together in ((16, 17, True), (16, 32, False), (300, 301, False), (0, 3, True), (3, 90000, False)):
        values = made.schedule.tiling({"s0": 99, "s1": s1, "s2": s2}, made.chip.vector_cores, made.chip.ub_bytes)
        ran = [p.template for p in made.schedule.running(values)]
        assert ran == (["assembled"] if together else ["pointwise"] * 2), (s1, s2)
        made.check({"s0": 99, "s1": s1, "s2": s2})


@pytest.mark.parametrize("body", ["softmax", "keep"])
def test_reduced_and_kept_parts_in_rows_put_together(body):
    text = concat_text(["s0", 0], 1, [33, 15, 17], bodies=(body, "copy"))
    assert scheduled(text).template == "assembled"
    check(text, rows(1, 47, 1000))


def test_more_outputs_than_a_queue_has_buffers():
    """A part that is kept beside each of five that are put together: six tiles, stored through one queue."""
    text = concat_text(["s0", 0], 1, [33, 15, 17, 1, 5], bodies=("keep",))
    assert scheduled(text).template == "assembled"
    check(text, rows(1, 47, 1000))


def test_outputs_that_ask_for_different_shares():
    """A part at an odd offset of one output that fills another output from its start is computed for each."""
    for dims, parts in (([0], ["s0", "s1"]), ([0, "s1"], ["s0", 64])):
        text = concat_text(dims, 0, parts, bodies=("keep",))
        assert len(scheduled(text).parts) == 4
        check(text, [{"s0": a, "s1": b} for a, b in ((1, 1), (1, 33), (0, 9), (1001, 1), (33, 700), (7, 1001))])


COLUMN = """
kernel column(in x: f32[s0, 8], in c: f32[s0], in o: f32[1], out y: f32[s0, 5]) where s0 = x.0
nest n0 [a0: s0, a1: 3]
  a: f32 = load x[8*a0 + a1 + 5]
  c: f32 = load c[a0]
  o: f32 = load o[0]
  d: f32 = mul(a, c)
  e: f32 = sub(d, o)
  f: f32 = tanh(e)
  store y[5*a0 + a1] = f
nest n1 [a0: s0]
  a: f32 = load x[8*a0 + 4]
  o: f32 = load o[0]
  d: f32 = add(a, o)
  store y[5*a0 + 3] = d
nest n2 [a0: s0]
  o: f32 = load o[0]
  store y[5*a0 + 4] = o
"""


def test_columns_scalars_and_windows_in_rows_put_together():
    assert scheduled(COLUMN).template == "assembled"
    check(COLUMN, rows(0, 1, 7, 8, 9, 500, 5000))


def test_rows_put_together_are_stored_by_one_copy_per_tile():
    made = runner(concat_text(["s0", 0], 1, [16, 17, 1, 30], bodies=("copy",)))
    profile = made.check({"s0": 48 * 256})
    assert profile.block_dim == 48 and profile.mte3_instructions == 48
    assert profile.mte2_instructions == 4 * 48
    assert profile.gm_read_bytes == profile.gm_written_bytes == 48 * 256 * 64 * 2


# ---- what it costs --------------------------------------------------------------------------------------------------


def test_aligned_parts_are_copied_in_large_tiles():
    made = runner(concat_text(["s0", 0], 1, [64, 128, 32]))
    profile = made.check({"s0": 48 * 64})
    tiles = 3 * 48
    assert profile.block_dim == 48
    assert (profile.mte2_instructions, profile.mte3_instructions) == (tiles, tiles)
    assert profile.mean_dma_bytes == 64 * 2 * 224 / 3
    assert profile.gm_read_bytes == profile.gm_written_bytes == 48 * 64 * 224 * 2


UNLIKE = """
kernel k(in a: f16[s0, s1], in b: f16[s1], out y: f16[s0, s1], out z: f16[s0, 2*s1]) where s0 = a.0, s1 = a.1
nest n0 [a0: s0, a1: s1]
  v: f16 = load a[s1*a0 + a1]
  store z[2*s1*a0 + a1] = v
  store y[s1*a0 + a1] = v
nest n1 [a0: s1, a1: s0]
  v: f16 = load b[a0]
  store z[2*s1*a1 + a0 + s1] = v
"""


@pytest.mark.parametrize("turned", [False, True])
def test_parts_with_axes_in_unlike_orders(turned):
    text = UNLIKE
    if turned:  # the second part also stores an output in its own order
        text = text.replace(", out z", ", out w: f16[s1, s0], out z") + "  store w[s0*a0 + a1] = v\n"
    check(text, [{"s0": r, "s1": w} for r, w in ((1, 1), (3, 5), (100, 17), (333, 64), (7, 1000), (7, 0))])


def test_parts_use_different_cores():
    """Small parts, of one core each, run side by side."""
    made = runner(concat_text([0, 1024], 0, [8] * 6))
    profile = made.check({})
    assert profile.block_dim == 48


# ---- random ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(concats())
def test_random_concats(kernel):
    check(*kernel)


# ---- refusals -------------------------------------------------------------------------------------------------------

SHEARED = """
kernel k(in a: f16[s2], in b: f16[s0, s1], in c: f16[s1], out y: f16[s0*s1 + s2]) where s0 = b.0, s1 = b.1, s2 = a.0
nest n0 [a0: s2]
  v: f16 = load a[a0]
  store y[a0] = v
nest n1 [a0: s0, a1: s1]
  v: f16 = load b[s1*a0 + a1]
  w: f32 = cast(v, rint)
  c: f16 = load c[a1]
  d: f32 = cast(c, rint)
  e: f32 = add(w, d)
  f: f16 = cast(e, rint)
  store y[s1*a0 + a1 + s2] = f
"""


def test_rows_at_an_offset_that_is_no_multiple_of_them_are_refused():
    made = scheduled(SHEARED)
    assert isinstance(made, Reason) and made.code == "AF210" and "block of y" in made.text, made


def test_too_many_parts_are_refused():
    made = scheduled(concat_text(["s0", 0], 1, [8] * 65))
    assert isinstance(made, Reason) and made.code == "AF213" and "65" in made.text, made


# ---- side by side ---------------------------------------------------------------------------------------------------

APART = """
kernel unlike(in x: f32[s0, 40], in z: f16[1000], in c: f32[], in w: bf16[8, s1],
  out y: f32[s0], out u: f16[1000], out d: f32[], out v: bf16[8, s1], out m: f32[1000]) where s0 = x.0, s1 = w.1
nest n0 [a0: s0, a1: 40]
  v0: f32 = load x[40*a0 + a1]
  t: f32 = reduce sum(v0) over (a1)
  store y[a0] = t
nest n1 [a0: 1000]
  v0: f16 = load z[a0]
  v1: f32 = cast(v0, rint)
  v2: f32 = exp(v1)
  v3: f16 = cast(v2, rint)
  store u[a0] = v3
  store m[a0] = v2
nest n2 []
  v0: f32 = load c[0]
  v1: f32 = mul(v0, v0)
  store d[0] = v1
nest n3 [a0: 8, a1: s1]
  v0: bf16 = load w[s1*a0 + a1]
  v1: f32 = cast(v0, rint)
  v2: f32 = load c[0]
  v3: f32 = add(v1, v2)
  v4: bf16 = cast(v3, rint)
  store v[s1*a0 + a1] = v4
"""


@pytest.mark.parametrize("soc", SOCS)
def test_unlike_nests_side_by_side(soc):
    check(APART, [{"s0": a, "s1": b} for a, b in ((1, 1), (7, 33), (200, 512), (3000, 17), (0, 5), (5, 0))], soc)
