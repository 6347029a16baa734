"""What counts as a wrong value when a kernel is compared with the interpreter, and the inputs it is given."""

import ml_dtypes
import numpy as np
import pytest

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I32, I64, U8
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.opdef.compare import compare
from torchair_autofuse.opdef.inputs import random_inputs

NAN, INF = float("nan"), float("inf")
ROWS = [
    # dtype, got, expected, number of wrong values
    (F32, [1.0, 2.0], [1.0, 2.0], 0),
    (F32, [1.0, 2.0 + 1.5e-5], [1.0, 2.0], 0),
    (F32, [1.0, 2.0 + 3e-5], [1.0, 2.0], 1),
    (F32, [1.5e-5, 2.0], [0.0, 2.0], 0),
    (F32, [0.0, 0.0], [0.0, -0.0], 0),
    (F32, [NAN, INF, -INF], [NAN, INF, -INF], 0),
    (F32, [NAN, INF, 1.0], [1.0, -INF, NAN], 3),
    (F32, [1.0, 3e38], [INF, 3e38], 1),
    (F32, [5.0], [INF], 1),
    (F16, [1.0009765625, 1e-7], [1.0, 2e-7], 0),
    (F16, [1.0029296875, 1.0], [1.0, 1.0], 1),
    (F16, [65504.0], [INF], 0),
    (F16, [NAN], [INF], 1),
    (F16, [0.0], [-6e-8], 0),
    (BF16, [1.0078125], [1.0], 0),
    (BF16, [1.015625], [1.0], 1),
    (I32, [1, -5, 7], [1, -5, 8], 1),
    (I64, [2**62 + 1], [2**62], 1),
    (U8, [255], [0], 1),
    (BOOL, [True, False], [True, True], 1),
]


@pytest.mark.parametrize("dtype, got, expected, bad", ROWS, ids=lambda x: str(x))
def test_compare(dtype, got, expected, bad):
    a, b = np.array(got, dtype.numpy), np.array(expected, dtype.numpy)
    found = compare(a, b, dtype, f32_rtol=1e-5, half_ulps=1)
    assert (found.bad, found.ok, found.size) == (bad, bad == 0, len(got))
    assert ("wrong" in str(found)) == (bad > 0)


def test_the_first_wrong_value_is_named():
    a = np.zeros((2, 3), np.float32)
    b = a.copy()
    b[1, 1] = b[1, 2] = 4.0
    found = compare(a, b, F32, f32_rtol=1e-5, half_ulps=1)
    assert (found.first, found.bad, found.max_abs) == ((1, 1), 2, 4.0)
    assert "2 of 6 values are wrong" in str(found) and "first at [1, 1]: 0.0, expected 4.0" in str(found)
    scalar = compare(np.array(1, np.int32), np.array(2, np.int32), I32, f32_rtol=1e-5, half_ulps=1)
    assert scalar.first == ()
    assert compare(a[:0], b[:0], F32, f32_rtol=1e-5, half_ulps=1).ok


INPUTS = """\
kernel k(in a: f32[200], in b: bf16[200], in c: i32[200], in d: u8[200], in e: bool[200], out y: i32[200])
nest n0 [a0: 200]
  v0: i32 = load c[a0]
  v1: i32 = OP(v0, v0)
  store y[a0] = v1
"""


def test_inputs_are_deterministic_and_varied():
    kernel = parse(INPUTS.replace("OP", "add"))
    shapes = {p.name: (200,) for p in kernel.params}
    first, again, other = (random_inputs(kernel, shapes, seed) for seed in (1, 1, 2))
    for p in kernel.inputs:
        assert first[p.name].dtype == p.dtype.numpy
        assert np.array_equal(first[p.name], again[p.name]) and not np.array_equal(first[p.name], other[p.name])
        assert len(set(first[p.name].tolist())) > 1
    assert first["b"].dtype == ml_dtypes.bfloat16
    assert (first["a"] < 0).any() and (first["a"] > 0).any() and np.isfinite(first["a"]).all()
    assert (first["c"] < 0).any() and (first["c"] == 0).any()
    special = random_inputs(kernel, shapes, 1, special=True)["a"]
    assert np.isnan(special).any() and np.isinf(special).any()


def test_divisors_are_not_zero():
    kernel = parse(INPUTS.replace("OP", "floordiv"))
    found = random_inputs(kernel, {p.name: (200,) for p in kernel.params}, 1)
    assert (found["c"] != 0).all()
