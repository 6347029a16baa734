"""Special values, attributes and integer edges of the elementwise host ops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from opcall import F64, INF, NAN, gelu, gradient, run


@pytest.mark.parametrize(
    ("kind", "inputs", "want"),
    [
        ("Relu", [[NAN, -INF, INF, -1.0]], [NAN, 0, INF, 0]),
        ("Relu6", [[NAN, INF, -INF]], [NAN, 6, 0]),
        ("Maximum", [[NAN, 1, INF], [1, NAN, 2]], [NAN, NAN, INF]),
        ("Minimum", [[NAN, 1, -INF], [1, NAN, 2]], [NAN, NAN, -INF]),
        ("ClipByValueV2", [[NAN, 9, -9, INF], [-1] * 4, [1] * 4], [NAN, 1, -1, 1]),
        ("ClipByValueV2", [[0], [3], [-3]], [-3]),
        ("Sign", [[NAN, INF, -0.0]], [0, 1, 0]),
        ("LeakyRelu", [[NAN, -INF]], [NAN, NAN]),  # -inf times the default slope of 0
        ("Round", [[0.5, 1.5, 2.5, -0.5, -1.5, NAN]], [0, 2, 2, 0, -2, NAN]),
        ("RealDiv", [[1, -1, 0], [0, 0, 0]], [INF, -INF, NAN]),
        ("FloorMod", [[-7, 7, 1], [3, -3, 0]], [2, -2, NAN]),
        ("Mod", [[-7, 7, 1], [3, -3, 0]], [-1, 1, NAN]),
        ("FloorDiv", [[1.0, -7], [0.1, 2]], [10, -4]),  # the floor of the rounded quotient
        ("DivNoNan", [[1, 0], [0, 0]], [0, 0]),
        ("MulNoNan", [[INF, NAN, 2], [0, 0, 3]], [0, 0, 6]),
        ("Xdivy", [[0, 1], [0, 0]], [0, INF]),
        ("Xlogy", [[0, 0, 1], [0, NAN, 0]], [0, NAN, -INF]),
        ("Equal", [[NAN, 1], [NAN, 1]], [False, True]),
        ("NotEqual", [[NAN, 1], [NAN, 1]], [True, False]),
        ("GreaterEqual", [[NAN, 1], [1, 1]], [False, True]),
        ("IsInf", [[NAN, INF, -INF, 1]], [False, True, True, False]),
        ("IsNan", [[NAN, INF]], [True, False]),
        ("IsFinite", [[NAN, INF, -INF, 1]], [False, False, False, True]),
        ("Sigmoid", [[-INF, INF, NAN]], [0, 1, NAN]),
        ("Softplus", [[-INF, 1000.0]], [0, 1000]),
        ("Mish", [[1000.0]], [1000]),
        ("LogSigmoid", [[-1000.0, 1000.0]], [-1000, 0]),
        ("Elu", [[1000.0, -INF, NAN]], [1000, -1, NAN]),
        ("ReluGrad", [[1, 1, 1], [NAN, 0, 2]], [0, 0, 1]),
        ("SoftShrink", [[NAN, 1]], [NAN, 0.5]),
        ("HardShrink", [[NAN, 0.5]], [NAN, 0]),
        ("GeluGradV2", [[2, 2], [INF, -INF]], [2, 0]),
        ("Pow", [[-8, 0, NAN, -2], [1 / 3, 0, 0, 3]], [NAN, 1, 1, -8]),
    ],
)
def test_special_values(kind: str, inputs: list[list[float]], want: list[float]) -> None:
    got = run(kind, *(torch.tensor(i, dtype=torch.float32) for i in inputs))
    torch.testing.assert_close(got, torch.tensor(want, dtype=got.dtype), rtol=0, atol=0, equal_nan=True)


def test_attributes_of_exp_and_log() -> None:
    x = torch.tensor([0.5, 2.0])
    torch.testing.assert_close(run("Exp", x, base=2.0, scale=3.0, shift=1.0), 2 ** (3 * x + 1))
    torch.testing.assert_close(run("Exp", x, base=-1.0, scale=3.0, shift=1.0), torch.exp(3 * x + 1))
    torch.testing.assert_close(run("Log", x, base=2.0), torch.log2(x))
    torch.testing.assert_close(run("Log", x, base=-1.0, scale=3.0, shift=1.0), torch.log(3 * x + 1))
    assert run("Log", torch.tensor([8], dtype=torch.int32)).dtype == torch.float32
    for kind in ("Exp", "Log"):
        with pytest.raises(ValueError, match="base must be positive, or -1 for e, not -2"):
            run(kind, x, base=-2.0)


def test_attribute_operands() -> None:
    assert run("Muls", torch.tensor([3, -3], dtype=torch.int32), value=0.5).tolist() == [1, -1]
    half = torch.tensor([1.001], dtype=torch.float16)
    assert run("Muls", half, value=0.1) == (half.float() * 0.1).half()
    assert run("Adds", torch.tensor([200], dtype=torch.uint8), value=100.0).tolist() == [44]
    assert run("Axpy", torch.tensor([3], dtype=torch.int32), torch.tensor([5], dtype=torch.int32), alpha=0.5) == 5
    assert run("Sxpy", torch.tensor([3]), torch.tensor([5])).tolist() == [-2]
    assert run("Round", torch.tensor([1.25, -1.35]), decimals=1).tolist() == pytest.approx([1.2, -1.4])
    assert run("HardSigmoid", torch.tensor([1], dtype=torch.int32)).item() == pytest.approx(2 / 3)
    x, dy = torch.linspace(-3, 3, 9, dtype=F64), torch.ones(9, dtype=F64)
    torch.testing.assert_close(run("Swish", x, scale=2.0), x * torch.sigmoid(2 * x))
    torch.testing.assert_close(
        run("SwishGrad", dy, x, x, scale=2.0), gradient(lambda t: t * torch.sigmoid(2 * t))(dy, x)
    )
    y = F.elu(x, 2.0) * 3
    torch.testing.assert_close(
        run("EluGradV2", dy, y, alpha=2.0, scale=3.0, is_result=True), gradient(lambda t: 3 * F.elu(t, 2.0))(dy, x)
    )
    torch.testing.assert_close(run("MishGrad", dy, x, torch.tanh(F.softplus(x))), gradient(F.mish)(dy, x))
    for kind, forward in (("GeluV2", gelu), ("GeluGradV2", lambda t: gradient(gelu)(dy, t))):
        inputs = (x,) if kind == "GeluV2" else (dy, x)
        torch.testing.assert_close(run(kind, *inputs, approximate="tanh"), forward(x))
        with pytest.raises(ValueError, match="approximate must be none or tanh, not 'erf'"):
            run(kind, *inputs, approximate="erf")
    with pytest.raises(ValueError, match="required attribute value is missing"):
        run("Muls", x)
    with pytest.raises(ValueError, match=r"input 2 must have one element, its shape is \[2\]"):
        run("AxpyV2", x, x, torch.ones(2, dtype=F64))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_integer_edges(dtype: torch.dtype) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    a = torch.tensor([low, high, -7, 7, 5], dtype=dtype)
    b = torch.tensor([-1, -1, 2, -2, 0], dtype=dtype)
    assert run("FloorDiv", a, b).tolist() == [low, -high, -4, -4, -1]
    assert run("TruncateDiv", a, b).tolist() == run("Div", a, b).tolist() == [low, -high, -3, -3, -1]
    assert run("RealDiv", a, b).dtype == dtype
    assert run("FloorMod", a, b).tolist() == [0, 0, 1, -1, -1]
    assert run("Mod", a, b).tolist() == [0, 0, -1, 1, -1]
    assert run("Add", a[1:2], -b[:1]).tolist() == [low] and run("Neg", a[:1]).tolist() == [low]


def test_unsigned_edges() -> None:
    a, b = torch.tensor([250, 7], dtype=torch.uint8), torch.tensor([10, 0], dtype=torch.uint8)
    assert run("Add", a, b).tolist() == [4, 7] and run("Sub", b, a).tolist() == [16, 249]
    assert run("FloorDiv", a, b).tolist() == [25, 255] and run("Mod", a, b).tolist() == [0, 255]
    big = torch.tensor([2**63 + 5, 3], dtype=torch.uint64)
    small = torch.tensor([1, 4], dtype=torch.uint64)
    assert run("Greater", big, small).tolist() == [True, False]
    assert run("Add", big, big).dtype == torch.uint64 and run("Add", big, big).tolist() == [10, 6]
    with pytest.raises(ValueError, match="Div does not take u64"):
        run("Div", big, small)
    assert run("RealDiv", torch.tensor([True]), torch.tensor([True])).dtype == torch.float32
