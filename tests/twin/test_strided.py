"""Strides along the inner axis on the twin against the interpreter: picking, interleaving, reversing."""

from __future__ import annotations

import lane_kernels as lk
import pytest
from kernel_runner import check, runner, scheduled

from torchair_autofuse.messages import Reason

SIZES = (0, 1, 7, 8, 16, 17, 31, 33, 64, 1000)
SOCS = ("Ascend910B1", "Ascend950PR_9599")


def sizes(*more):
    return [{"s0": n} for n in (*SIZES, *more)]


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16", "i32", "bool"])
@pytest.mark.parametrize("width, members", [(2, (0, 1)), (2, (1,)), (3, (0, 2)), (4, (0, 3)), (5, (2,)), (8, (1, 2))])
def test_pick(width, members, dtype):
    check(lk.pick(width, members, dtype), sizes(20011)[1:])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("width", [6, 63, 64])
def test_pick_wide(width, soc):
    check(lk.pick(width, (0, width - 1), "f16"), sizes(3001), soc)


@pytest.mark.parametrize("rows", [1, 2, 49])
@pytest.mark.parametrize("width, members, dtype", [(2, (0, 1), "f16"), (3, (1,), "f32"), (4, (0, 1, 3), "bf16")])
def test_pick_rows(width, members, dtype, rows):
    """Rows apart, columns shared by rows, and a column of every few elements."""
    check(lk.pick_rows(width, members, dtype, rows), sizes())


@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16", "i32", "bool"])
@pytest.mark.parametrize("width", [2, 3, 4, 5, 8])
def test_stack(width, dtype):
    check(lk.stack(width, dtype), sizes(20011))


@pytest.mark.parametrize("rows", [1, 2, 49])
@pytest.mark.parametrize("width, dtype", [(2, "f32"), (3, "i32"), (4, "f16")])
def test_stack_rows(width, dtype, rows):
    check(lk.stack(width, dtype, rows), sizes())


@pytest.mark.parametrize("soc", SOCS)
def test_stack_many(soc):
    check(lk.stack(20, "f16"), sizes(3001), soc)


@pytest.mark.parametrize("dtype", ["f16", "f32", "i32", "bool"])
@pytest.mark.parametrize("width, members", [(1, (0,)), (2, (0, 1)), (3, (1,))])
def test_reverse(width, members, dtype):
    check(lk.reverse(width, members, dtype), sizes(20011))


@pytest.mark.parametrize("rows", [1, 2, 49])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_reverse_rows(dtype, rows):
    check(lk.reverse_rows(dtype, rows), sizes(5000))


@pytest.mark.parametrize("rows", [2, 49])
@pytest.mark.parametrize("dtype, width", [("f16", 1), ("f32", 2), ("bf16", 3)])
def test_reverse_outer(dtype, width, rows):
    """Rows from the last to the first, copied one by one."""
    check(lk.reverse_outer(dtype, width, rows), sizes(5000))


@pytest.mark.parametrize("soc", SOCS)
def test_rope(soc):
    """Both members of x come with one copy per tile, both members of y go with one."""
    built = runner(lk.ROPE, soc)
    for n in (0, 1, 2, 49, 300):
        built.check({"s0": n}, f32_rtol=1e-4)
    assert len(built.schedule.program.loads) == 3
    assert len(built.schedule.program.stores) == 1


def test_copies():
    """One copy in and one out per tile and member's buffer, however many lanes there are."""
    built = runner(lk.pick(3, (0, 1, 2), "f32"))
    profile = built.check({"s0": 256})
    assert (profile.dma_in, profile.dma_out) == (1, 3)


@pytest.mark.parametrize("text", [lk.NORM, lk.COLUMNS], ids=["norm", "columns"])
@pytest.mark.parametrize("soc", SOCS)
def test_reductions(text, soc):
    """Rows and columns in UB, and passes over tiles."""
    check(text, [{"s0": r, "s1": c} for r, c in ((1, 1), (2, 7), (49, 33), (300, 64), (2, 30000), (5000, 3))], soc)


def test_statistics():
    """Results of reductions, one per row, interleaved."""
    check(lk.STATISTICS, [{"s0": r, "s1": c} for r, c in ((1, 1), (2, 7), (49, 33), (1000, 64), (3, 100000))])


REFUSED = {
    "gap": (
        "kernel k(in x: f32[s0], out y: f32[s0, 2]) where s0 = x.0\nnest n0 [a0: s0]\n  v: f32 = load x[a0]\n"
        "  store y[2*a0] = v\n",
        "AF210",
        "with gaps",
    ),
    "long": (lk.pick(65, (0,), "f32"), "AF210", "a stride of 65"),
    "type": (lk.pick(2, (0,), "i64"), "AF202", "int64_t"),
    "back": (
        "kernel k(in x: f32[s0], out y: f32[s0]) where s0 = x.0\nnest n0 [a0: s0]\n  v: f32 = load x[a0]\n"
        "  store y[-a0 + s0 - 1] = v\n",
        "AF210",
        "backwards",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, code, part = REFUSED[name]
    reason = scheduled(text)
    assert isinstance(reason, Reason) and reason.code == code and part in reason.text, reason
