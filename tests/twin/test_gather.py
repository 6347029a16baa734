"""Rows looked up by loaded indices, on the twin against the interpreter."""

from __future__ import annotations

import gather_kernels as gk
import numpy as np
import pytest
from kernel_runner import check, runner, scheduled

from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.messages import Reason
from torchair_autofuse.twin.errors import TwinError

SOCS = ("Ascend910B1", "Ascend950PR_9599")
WIDTHS = (1, 7, 8, 16, 17, 31, 33, 64, 1000)


@pytest.mark.parametrize("index, wraps", [("i32", False), ("i64", True)])
@pytest.mark.parametrize("dtype", ["f16", "f32", "bf16"])
def test_embedding(dtype, index, wraps):
    sizes = [{"s0": c, "s1": 30, "s2": r} for c in WIDTHS for r in (0, 1, 2, 49)]
    check(gk.embedding(dtype, index, "s2", wraps), [*sizes, {"s0": 30000, "s1": 3, "s2": 5}])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("rows", ["1", "49", "5000"])
def test_embedding_of_known_rows(rows, soc):
    check(gk.embedding("f16", "i64", rows), [{"s0": c, "s1": 1000} for c in (0, 1, 64, 768)], soc)


@pytest.mark.parametrize(
    "text, sizes",
    [
        (gk.BERT, [{"s0": b, "s1": s} for b, s in ((1, 1), (2, 49), (3, 200), (0, 5))]),
        (gk.ONE, [{"s0": 5, "s1": n} for n in (1, 33, 100000)]),
        (gk.OUTER, [dict(zip(("s0", "s1", "s2", "s3"), s)) for s in ((9, 1, 1, 1), (9, 7, 33, 20), (3, 300, 64, 2))]),
        (gk.ROPE, [{"s0": n} for n in (0, 1, 49, 300)]),
        (gk.LANES, [{"s0": r, "s1": 20, "s2": c} for r in (1, 49) for c in (1, 17, 1000)]),
        (gk.TWO, [{"s0": 6, "s1": c, "s2": r} for r in (1, 49) for c in (1, 17, 1000)]),
        (gk.BAG, [dict(zip(("s0", "s1", "s2", "s3"), s)) for s in ((1, 4, 1, 1), (7, 20, 33, 5), (2, 9, 64, 9000))]),
        (gk.NORM, [{"s0": r, "s1": 20, "s2": c} for r, c in ((1, 1), (49, 33), (2, 50000))]),
    ],
    ids=["bert", "one", "outer", "rope", "lanes", "two", "bag", "norm"],
)
@pytest.mark.parametrize("soc", SOCS)
def test_gather(text, sizes, soc):
    check(text, sizes, soc, f32_rtol=1e-4)


def test_copies():
    """A copy per row and one for the indices of a tile; an index that is only looked up by has no queue."""
    built = runner(gk.embedding("f16", "i32", "s2"))
    profile = built.check({"s0": 64, "s1": 30, "s2": 16})
    assert (profile.dma_in, profile.dma_out) == (1 + 16 + 1, 1)
    assert sorted(b.kind for b in built.schedule.program.bufs if b.kind in ("in", "index")) == ["in", "in", "index"]


@pytest.mark.parametrize("wrong", [-1, 30])
def test_row_outside(wrong):
    """As the op itself on the host: an error, not a value."""
    built = runner(gk.embedding("f32", "i32", "s2"))
    ids = np.array([3, wrong, 0], np.int32)
    inputs = {"table": np.ones((30, 8), np.float32), "ids": ids, "b": np.ones(8, np.float32)}
    with pytest.raises(ValueError, match=r"index i of t is not in 0\.\.29"):
        interpret(built.kernel, inputs)
    with pytest.raises(TwinError):
        built.launch(inputs, {"s0": 8, "s1": 30, "s2": 3})


def refused(index, size, lines="", dtype="i32", more=""):
    return (
        f"kernel k(in x: f32[8, 64], in ids: {dtype}[8, 64], out y: f32[8, 64])\nnest n0 [a0: 8, a1: 64]\n{lines}"
        f"  v: f32 = load x[{index}] where 0 <= i < {size}\n{more}  store y[64*a0 + a1] = {'w' if more else 'v'}\n"
    )


PLUS = "  u: f32 = load x[a1]\n  w: f32 = add(u, v)\n"
REFUSED = {
    "inner": (refused("i + 64*a0", 64, "  i: i32 = load ids[64*a0 + a1]\n"), "AF210", "the inner axis"),
    "column": (refused("64*i", 8, "  i: i32 = load ids[a0]\n", more=PLUS), "AF210", "single elements"),
    "strided": (refused("64*i + a1", 8, "  i: i32 = load ids[64*a0]\n"), "AF210", "ids is not contiguous"),
    "computed": (
        refused("64*i + a1", 8, "  j: i32 = load ids[a0]\n  i: i32 = neg(j)\n"), "AF210", "computed in the kernel",
    ),
    "type": (refused("64*i + a1", 8, "  i: u8 = load ids[a0]\n", "u8"), "AF202", "u8 values"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, code, part = REFUSED[name]
    reason = scheduled(text)
    assert isinstance(reason, Reason) and reason.code == code and part in reason.text, reason
