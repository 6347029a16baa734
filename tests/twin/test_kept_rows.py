"""Rows that several outer indices need: loaded once per tile, for all of these."""

from __future__ import annotations

import pytest
from kernel_runner import check, runner

ROTATED = """
kernel rotated(in x: {0}[{1}, {2}, s1, {3}], in c: {0}[s1, {3}], in s: {0}[s1, {3}],
  out y: {0}[{1}, {2}, s1, {3}]) where {4}s1 = x.2
nest n0 [a0: {1}, a1: {2}, a2: s1, a3: {5}]
  v0: {0} = load x[{3}*s1*{2}*a0 + {3}*s1*a1 + {3}*a2 + a3]
  v1: f32 = cast(v0, rint)
  v2: {0} = load x[{3}*s1*{2}*a0 + {3}*s1*a1 + {3}*a2 + a3 + {5}]
  v3: f32 = cast(v2, rint)
  v4: {0} = load c[{3}*a2 + a3]
  v5: f32 = cast(v4, rint)
  v6: {0} = load s[{3}*a2 + a3 + {5}]
  v7: f32 = cast(v6, rint)
  v8: f32 = mul(v1, v5)
  v9: f32 = mul(v3, v7)
  v10: f32 = sub(v8, v9)
  v11: {0} = cast(v10, rint)
  v12: f32 = mul(v1, v7)
  v13: f32 = add(v12, v3)
  v14: {0} = cast(v13, rint)
  store y[{3}*s1*{2}*a0 + {3}*s1*a1 + {3}*a2 + a3] = v11
  store y[{3}*s1*{2}*a0 + {3}*s1*a1 + {3}*a2 + a3 + {5}] = v14
"""
BATCHED = """
kernel batched(in x: f32[3, s0, 4, 32], in c: f32[3, s0, 64], in b: f32[4, 32],
  out y: f32[3, s0, 4, 32]) where s0 = x.1
nest n0 [a0: 3, a1: 4, a2: s0, a3: 32]
  v0: f32 = load x[128*s0*a0 + 32*a1 + 128*a2 + a3]
  v1: f32 = load c[64*s0*a0 + 64*a2 + a3]
  v2: f32 = exp(v1)
  v3: f32 = load b[32*a1 + a3]
  v4: f32 = mul(v0, v2)
  v5: f32 = add(v4, v3)
  store y[128*s0*a0 + 32*a1 + 128*a2 + a3] = v5
"""


def rotated(dtype: str, batch: str = "s0", heads: int = 3, width: int = 64) -> str:
    text = ROTATED.format(dtype, batch, heads, width, "s0 = x.0, " if batch == "s0" else "", width // 2)
    if dtype != "f32":
        return text
    lines = [line for line in text.splitlines() if "f32 = cast(" not in line and ": f32 = cast" not in line]
    names = {"v1": "v0", "v3": "v2", "v5": "v4", "v7": "v6", "v11": "v10", "v14": "v13"}
    text = "\n".join(lines) + "\n"
    for old, new in names.items():
        text = (
            text.replace(f"({old},", f"({new},").replace(f", {old})", f", {new})").replace(f"= {old}\n", f"= {new}\n")
        )
    return text


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_rotation(dtype: str) -> None:
    text = rotated(dtype)
    assert runner(text).schedule.template == "kept_rows"
    check(text, [{"s0": b, "s1": s} for b in (1, 2, 5) for s in (1, 2, 7, 48, 49, 300)] + [{"s0": 0, "s1": 4}])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_every_tensor_is_read_once_or_little_more(dtype: str) -> None:
    text = rotated(dtype, "2", 8)
    itemsize = 4 if dtype == "f32" else 2
    profile = runner(text).check({"s1": 480})
    used = 2 * 8 * 480 * 64 * 2 + 2 * 480 * 32  # of c the first half of every row, of s the second
    assert used * itemsize <= profile.gm_bytes <= 1.05 * used * itemsize


def test_rows_that_do_not_fit() -> None:
    text = rotated("f32", "2", 2, 40000)
    assert runner(text).schedule.template == "kept_rows"
    check(text, [{"s1": 3}])


def test_outer_axes_that_the_rows_have_and_rows_of_their_own_inside() -> None:
    assert runner(BATCHED).schedule.template == "kept_rows"
    check(BATCHED, [{"s0": n} for n in (1, 5, 16, 33, 200)])
