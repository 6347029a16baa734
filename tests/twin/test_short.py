"""Short innermost axes, which are written out: on the twin against the interpreter."""

from __future__ import annotations

import pytest
from kernel_runner import check, runner, scheduled

from torchair_autofuse.schedule.schedule import Schedule

ROWS = [{"s0": n} for n in (0, 1, 7, 33, 1000, 20011)]


def operands(width: int, dtype: str, inner: str = "") -> str:
    """Full, per-row and per-column operands, and a result of each kind; ``inner``: an axis of size 2 in between."""
    dims, axes = ("s0, 2, ", "a0: s0, a1: 2, a2") if inner else ("s0, ", "a0: s0, a1")
    last, row, pitch = ("a2", f"{2 * width}*a0 + {width}*a1", 2) if inner else ("a1", f"{width}*a0", 1)
    cast = "cast(x, rint)" if dtype != "f32" else "max(x, x)"
    index = f"{pitch}*a0" + (" + a1" if inner else "")
    return (
        f"kernel operands(in x: {dtype}[{dims}{width}], in per_row: f32[{dims[:-2]}], in per_col: f32[{width}], "
        f"in mask: bool[{width}], "
        f"out y: {dtype}[{dims}{width}], out g: bool[{dims}{width}], out s: f32[{dims[:-2]}]) where s0 = x.0\n"
        f"nest n0 [{axes}: {width}]\n  x: {dtype} = load x[{row} + {last}]\n  f: f32 = {cast}\n"
        f"  r: f32 = load per_row[{index}]\n  c: f32 = load per_col[{last}]\n  m: bool = load mask[{last}]\n"
        f"  p: f32 = mul(f, r)\n"
        f"  q: f32 = add(p, c)\n  w: f32 = select(m, q, f)\n  g: bool = gt(w, r)\n"
        f"  t: f32 = reduce sum(w) over ({last})\n  u: f32 = sub(w, t)\n"
        f"  y: {dtype} = {'cast(u, rint)' if dtype != 'f32' else 'max(u, u)'}\n"
        f"  store y[{row} + {last}] = y\n  store g[{row} + {last}] = g\n  store s[{index}] = t\n"
    )


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend950PR_9599"])
@pytest.mark.parametrize("width, dtype", [(2, "f16"), (3, "f32"), (5, "bf16"), (7, "f32")])
def test_operands(width, dtype, soc):
    """Seven of everything has more places than a kernel, and stays."""
    text = operands(width, dtype)
    check(text, ROWS, soc, f32_rtol=1e-4)
    assert runner(text, soc).schedule.template == ("row_resident" if width == 7 else "pointwise")


def test_two_axes():
    check(operands(3, "f16", "two"), ROWS)
    assert len(runner(operands(3, "f16", "two")).schedule.nest.axes) == 1


SOFTMAX = """
kernel softmax(in x: f32[s0, 4], in g: f32[4], out y: f32[s0, 4]) where s0 = x.0
nest n0 [a0: s0, a1: 4]
  v: f32 = load x[4*a0 + a1]
  g: f32 = load g[a1]
  m, s: f32, f32 = reduce maxsumexp(v) over (a1)
  d: f32 = sub(v, m)
  e: f32 = exp(d)
  q: f32 = div(e, s)
  z: f32 = mul(q, g)
  store y[4*a0 + a1] = z
"""


def test_softmax():
    check(SOFTMAX, ROWS)


def test_copies():
    """Runs, not rows: one in and one out per tile, and the four values of g for each core."""
    profile = runner(SOFTMAX).check({"s0": 20011})
    assert profile.dma_blocks == profile.dma_in + profile.dma_out
    assert profile.mean_dma_bytes > 1000


@pytest.mark.parametrize(
    "axes, width, why",
    [
        ("s0", 8, "whole blocks"),
        ("s0", 9, "too long"),
        ("20", 3, "few rows"),
    ],
)
def test_stays(axes, width, why):
    where = " where s0 = x.0" if axes == "s0" else ""
    made = scheduled(
        f"kernel k(in x: f32[{axes}, {width}], in b: f32[{width}], out y: f32[{axes}, {width}]){where}\n"
        f"nest n0 [a0: {axes}, a1: {width}]\n  v: f32 = load x[{width}*a0 + a1]\n  b: f32 = load b[a1]\n"
        f"  w: f32 = add(v, b)\n  store y[{width}*a0 + a1] = w\n"
    )
    assert isinstance(made, Schedule) and made.rows is not None, why


def test_types_that_have_no_lanes_stay():
    made = scheduled(
        "kernel k(in x: i64[s0, 3], in b: f32[3], out y: f32[s0, 3]) where s0 = x.0\nnest n0 [a0: s0, a1: 3]\n"
        "  v: i64 = load x[3*a0 + a1]\n  f: f32 = cast(v, rint)\n  b: f32 = load b[a1]\n  w: f32 = add(f, b)\n"
        "  store y[3*a0 + a1] = w\n"
    )
    assert isinstance(made, Schedule) and made.rows is not None
