"""The order of axes: what is chosen, what is refused, and that no two cores write one block of a transposed output."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from permuted_kernels import permuted_kernel
from test_schedule import assert_plan_is_sound, scheduled, ub_bytes

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.rewrite import canonical
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule.choose import schedule
from torchair_autofuse.schedule.order import orders
from torchair_autofuse.schedule.program import Layout
from torchair_autofuse.soc.chip import chip

CHIP = chip("Ascend910B1")


def heads(width, more=""):
    """Kernel text: [batch, sequence, 12 heads, width] stored as [batch, heads, sequence, width]."""
    return f"""
kernel heads(in x: f16[s0, s1, 12, {width}], out y: f16[s0, 12, s1, {width}]{more}) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1, a2: 12, a3: {width}]
  v0: f16 = load x[12*{width}*s1*a0 + 12*{width}*a1 + {width}*a2 + a3]
  store y[12*{width}*s1*a0 + {width}*s1*a2 + {width}*a1 + a3] = v0
"""


def sizes_of(made):
    return [str(a.size) for a in made.nest.axes]


@pytest.mark.parametrize("width", [64, 17])
def test_rows_are_the_longer_axis_and_the_store_is_dense(width):
    made = scheduled(heads(width))
    assert made.template == "pointwise" and sizes_of(made) == ["s0", "12", "s1", str(width)]


def test_rows_that_are_no_blocks_are_stored_in_their_own_order():
    text = (
        heads(17)
        .replace("x: f16[s0, s1, 12, 17]", "x: f16[s0, 12, s1, 17]")
        .replace("y: f16[s0, 12, s1, 17]", "y: f16[s0, s1, 12, 17]")
    )
    text = text.replace("s0 = x.0, s1 = x.1", "s0 = x.0, s1 = x.2")
    text = text.replace("load x[12*17*s1*a0 + 12*17*a1 + 17*a2 + a3]", "load x[12*17*s1*a0 + 17*s1*a2 + 17*a1 + a3]")
    text = text.replace("store y[12*17*s1*a0 + 17*s1*a2 + 17*a1 + a3]", "store y[12*17*s1*a0 + 12*17*a1 + 17*a2 + a3]")
    assert sizes_of(scheduled(text)) == ["s0", "s1", "12", "17"]
    on_blocks = text.replace("17", "64")
    assert sizes_of(scheduled(on_blocks)) == ["s0", "12", "s1", "64"], "many rows per copy, the store strided"


def test_an_order_that_lets_axes_merge():
    text = """
kernel merged(in x: f32[s0, s1, s2, 8], out y: f32[s2, s0, s1, 8]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s2, a2: s1, a3: 8]
  v0: f32 = load x[8*s1*s2*a0 + 8*s2*a2 + 8*a1 + a3]
  store y[8*s0*s1*a1 + 8*s1*a0 + 8*a2 + a3] = v0
"""
    assert sizes_of(scheduled(text)) == ["s2", "s0*s1", "8"]


def test_orders_keep_what_is_fine():
    nest = canonical(
        parse(
            heads(64).replace(
                "store y[12*64*s1*a0 + 64*s1*a2 + 64*a1 + a3]", "store y[12*64*s1*a0 + 12*64*a1 + 64*a2 + a3]"
            )
        )
    ).nests[0]
    assert orders(nest) == (nest,)


def test_reductions_take_the_order_of_the_output():
    text = """
kernel softmax(in x: f32[s0, s1, 4, s2], out y: f32[s0, 4, s1, s2]) where s0 = x.0, s1 = x.1, s2 = x.3
nest n0 [a0: s0, a1: s1, a2: 4, a3: s2]
  v0: f32 = load x[4*s1*s2*a0 + 4*s2*a1 + s2*a2 + a3]
  m, s: f32, f32 = reduce maxsumexp(v0) over (a3)
  v1: f32 = sub(v0, m)
  v2: f32 = exp(v1)
  v3: f32 = div(v2, s)
  store y[4*s1*s2*a0 + s1*s2*a2 + s2*a1 + a3] = v3
"""
    assert sizes_of(scheduled(text)) == ["s0", "4", "s1", "s2"]
    columns = """
kernel columns(in x: f32[s0, s1], out y: f32[s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s1, a1: s0]
  v0: f32 = load x[s1*a1 + a0]
  s: f32 = reduce sum(v0) over (a1)
  store y[a0] = s
"""
    made = scheduled(columns)
    assert made.template.startswith("column_resident") and sizes_of(made) == ["s0", "s1"]


TRANSPOSE = """
kernel transpose(in x: {t}[s0, s1, s2], out y: {t}[s0, s2, s1]{more}) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s1, a2: s2]
  v0: {t} = load x[s1*s2*a0 + s2*a1 + a2]
{store}  store y[s1*s2*a0 + s1*a2 + a1] = v0
"""


def transpose_text(dtype, *, both=False):
    more, store = (", out z: {t}[s0, s1, s2]", "  store z[s1*s2*a0 + s2*a1 + a2] = v0\n") if both else ("", "")
    return TRANSPOSE.format(t=dtype, more=more.format(t=dtype), store=store)


def test_what_is_loaded_is_transposed_unless_outputs_differ():
    made = scheduled(transpose_text("f16"))
    assert made.template == "transpose" and sizes_of(made) == ["s0", "s2", "s1"]
    assert [made.program.bufs[x.buf].layout for x in made.program.loads] == [Layout.TURNED]
    made = scheduled(transpose_text("f16", both=True))
    assert [made.program.bufs[x.buf].layout for x in made.program.loads] == [Layout.FULL]
    assert sorted(made.program.bufs[x.buf].layout.name for x in made.program.stores) == ["FULL", "TURNED"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (transpose_text("i64"), "AF202", "transposes int64_t"),
        (
            "kernel k(in x: f32[s0, 8, 16], in z: f32[16, s0, 8], out y: f32[8, 16, s0]) where s0 = x.0\n"
            "nest n0 [a0: s0, a1: 8, a2: 16]\n  v0: f32 = load x[128*a0 + 16*a1 + a2]\n"
            "  v1: f32 = load z[8*s0*a2 + 8*a0 + a1]\n  v2: f32 = add(v0, v1)\n  store y[16*s0*a1 + s0*a2 + a0] = v2\n",
            "AF210",
            "x [a0: s0, a1: 8, a2: 16] and z [a2: 16, a0: s0, a1: 8]",
        ),
    ],
)
def test_refusals(text, code, words):
    kernel = parse(text)
    verify(kernel)
    made = schedule(kernel, CHIP)
    assert isinstance(made, Reason) and made.code == code and words in made.text, made


# ---- ownership ------------------------------------------------------------------------------------------------------


def assert_blocks_have_one_owner(made, sizes):
    """Every element of every output is stored once, and no 32-byte block by two cores; by enumeration."""
    values = made.tiling(sizes, CHIP.vector_cores, CHIP.ub_bytes)
    assert ub_bytes(made, values) == values["ub_used"] <= CHIP.ub_plan_bytes, (sizes, values)
    assert 1 <= values["block_dim"] <= CHIP.vector_cores and values["tile_cols"] >= 1
    axes = (*made.outer, made.rows, made.cols)
    counts = [expr.evaluate(a.size, sizes) for a in axes]
    index = np.indices(counts).reshape(len(axes), -1)
    owner = owners(made, values, counts, index)
    assert owner.size == 0 or owner.max() < values["block_dim"]
    stored = {}
    for store in made.program.stores:
        param = made.kernel.param[store.param]
        strides = {a: expr.evaluate(s, sizes) for a, s in store.strides}
        once = np.ones(owner.size, bool)
        at = np.full(owner.size, expr.evaluate(store.offset, sizes), np.int64)
        for axis, i in zip(axes, index):
            once &= (i == 0) | (axis.name in strides)
            at += strides.get(axis.name, 0) * i
        at = (at[once][:, None] + np.arange(store.lanes)).ravel()  # lanes are stored whole
        mine = np.stack([at, at * param.dtype.itemsize // 32, np.repeat(owner[once], store.lanes)])
        stored.setdefault(store.param, []).append(mine)
    for param in made.kernel.outputs:
        at, *blocks = np.concatenate(stored[param.name], axis=1)
        assert (np.sort(at) == np.arange(np.prod([expr.evaluate(d, sizes) for d in param.dims]))).all(), param.name
        pairs = np.unique(blocks, axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1], (param.name, sizes, values)


def owners(made, values, counts, index):
    """The core of every element of the nest."""
    row = np.arange(index.shape[1]) // max(counts[-1], 1)
    if not made.inside:
        return row // values["core_rows"] * values["col_cores"] + index[-1] // values["core_cols"]
    outer = row // max(counts[-2], 1)
    around, inner = outer // max(values["inside"], 1), outer % max(values["inside"], 1)
    block = around * values["row_tiles"] + index[-2] // values["tile_rows"]
    return (block * values["inside"] + inner) // values["core_units"]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "f32", "bool"])
def test_transposed_outputs_have_one_owner_per_block(dtype, both):
    made = scheduled(transpose_text(dtype, both=both))
    for shape in itertools.product((1, 3, 16), (1, 7, 16, 33, 100, 256), (1, 8, 17, 64, 250)):
        assert_blocks_have_one_owner(made, dict(zip(("s0", "s1", "s2"), shape)))


CHANNELS = """
kernel channels(in x: f16[s0, s1, 3], out y: f16[s0, 3, s1], out z: f32[s0, s1, 3],
  out w: f16[s1, 3]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1, a2: 3]
  v0: f16 = load x[3*s1*a0 + 3*a1 + a2]
  v1: f32 = cast(v0, rint)
  k: f16 = const 1.0
  store y[3*s1*a0 + s1*a2 + a1] = v0
  store z[3*s1*a0 + 3*a1 + a2] = v1
  store w[3*a1 + a2] = k
"""


def test_lanes_have_one_owner_per_block():
    made = scheduled(CHANNELS)
    assert made.template == "transpose" and [x.lanes for x in made.program.stores] == [1, 3, 3]
    for shape in itertools.product((1, 3, 16, 50), (1, 7, 16, 33, 100, 4096)):
        sizes = dict(zip(("s0", "s1"), shape))
        assert_blocks_have_one_owner(made, sizes)
        values = made.tiling(sizes, CHIP.vector_cores, CHIP.ub_bytes)
        assert values["core_rows"] % 3 == 0 and values["tile_rows"] >= 3, "a tile has all rows of its lanes"


@pytest.mark.parametrize("first", range(0, 200, 40))
def test_random_outputs_have_one_owner_per_block(first):
    kinds = set()
    for seed in range(first, first + 40):
        text, sizes = permuted_kernel(seed)
        kernel = parse(text)
        verify(kernel)
        made = schedule(kernel, CHIP)
        if isinstance(made, Reason):
            assert made.code == "AF210" and " and " in made.text, made
            continue
        kinds.add(made.template)
        assert_plan_is_sound(made, CHIP)
        for size in sizes if made.rows is not None else ():
            assert_blocks_have_one_owner(made, size)
    assert kinds == {"pointwise", "transpose"}


KEPT = """
kernel rotated(in x: {0}[s0, 12, s1, 64], in c: {0}[s1, 64], out y: {0}[s0, 12, s1, 64]) where s0 = x.0, s1 = x.2
nest n0 [a0: s0, a1: 12, a2: s1, a3: 64]
  v0: {0} = load x[768*s1*a0 + 64*s1*a1 + 64*a2 + a3]
  v1: f32 = cast(v0, rint)
  v2: {0} = load c[64*a2 + a3]
  v3: f32 = cast(v2, rint)
  v4: f32 = mul(v1, v3)
  v5: {0} = cast(v4, rint)
  store y[768*s1*a0 + 64*s1*a1 + 64*a2 + a3] = v5
"""


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_kept_rows_have_one_owner_per_block(dtype):
    made = scheduled(KEPT.format(dtype))
    assert made.template == "pointwise", "rows and columns are one axis: it is shared by all"
    turned = KEPT.format(dtype).replace(f"in c: {dtype}[s1, 64]", f"in c: {dtype}[s1, 128]")
    made = scheduled(turned.replace("load c[64*a2 + a3]", "load c[128*a2 + a3]"))
    assert made.template == "kept_rows" and sizes_of(made) == ["12*s0", "s1", "64"]
    for shape in itertools.product((1, 2, 5), (1, 2, 7, 48, 49, 1000)):
        sizes = dict(zip(("s0", "s1"), shape))
        assert_blocks_have_one_owner(made, sizes)
        values = made.tiling(sizes, CHIP.vector_cores, CHIP.ub_bytes)
        if shape[1] >= 48:
            most = 1 + values["inside"] * 4 // (25 * 2)
            assert values["core_units"] % -(-values["inside"] // most) == 0, "no more cores read a tile of rows"
            assert values["block_dim"] >= 24


def test_transpositions_use_the_cores():
    made = scheduled(transpose_text("f16"))
    for shape in ((1, 1024, 1024), (8, 512, 64), (8, 64, 512), (1, 1001, 1001), (300, 17, 17)):
        values = made.tiling(dict(zip(("s0", "s1", "s2"), shape)), CHIP.vector_cores, CHIP.ub_bytes)
        assert values["block_dim"] >= 32, (shape, values)
    both = scheduled(transpose_text("f16", both=True))
    values = both.tiling({"s0": 96, "s1": 501, "s2": 64}, CHIP.vector_cores, CHIP.ub_bytes)
    assert values["block_dim"] == 48, values
