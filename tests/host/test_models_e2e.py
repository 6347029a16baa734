"""Small models from torch.compile to kernels on the twin: values, kernel counts, shapes around 32-byte tails."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fused_runs import ALL, ELEMENTWISE, check, run
from hypothesis import given
from random_programs import CI, Program, programs

from benchmarks.host_runs import Failure, captured
from benchmarks.models import by_name
from benchmarks.side_by_side import NEAR, measure

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

TAILS = (1, 7, 8, 9, 15, 16, 17, 31, 33)
Function = Callable[..., Any]


def data(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed * 1000 + sum(shape) + len(shape))
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(-9, 10, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


# ---- kernel counts and values of the models everybody has ---------------------------------------------------------


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(15):
        x = torch.sigmoid(x * 1.5 - y) + torch.abs(x) * (0.125 * i)
    return x


def scale_bias(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * a + b)


def gelu_residual(x: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + b, approximate="tanh") + y


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.25 + mask, -1)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


# function, shapes of its inputs, kernels with elementwise fusion, kernels with every pass
MODELS: list[tuple[Function, list[tuple[int, ...]], int, int]] = [
    (chain, [(5, 33), (5, 33)], 1, 1),
    (scale_bias, [(5, 33), (33,), (5, 1)], 1, 1),
    (gelu_residual, [(5, 33), (33,), (5, 33)], 1, 1),
    (layer_norm, [(5, 33), (33,), (33,)], 1, 1),
    (softmax, [(5, 33), (33,)], 2, 1),
    (rms_norm, [(5, 33), (33,)], 3, 1),
]


@pytest.mark.parametrize("function, shapes, elementwise, every", MODELS, ids=[m[0].__name__ for m in MODELS])
def test_kernel_counts(plugin: Any, function: Function, shapes: Any, elementwise: int, every: int) -> None:
    inputs = [data(*s, seed=i) for i, s in enumerate(shapes)]
    for flags, expected in ((ELEMENTWISE, elementwise), (ALL, every)):
        runs = run(plugin, function, inputs, flags=flags)
        check(runs)
        assert [r.kernels_after for r in runs.reports] == [expected], runs.reports[0]


@pytest.mark.parametrize("name", ["relu(x*a+b)", "rms norm"])
def test_graphs_that_the_planners_are_measured_on(plugin: Any, name: str) -> None:
    """The planners' measure plans what the plugin plans, and comes to the numbers of its report."""
    model = by_name(name)
    found = captured.__wrapped__(model, torch.float16)
    assert not isinstance(found, Failure), found.text
    assert found.report.run_unfused and found.graph is not None
    made = measure(model.name, found.graph, {})
    assert made is not None and made.exact is not None
    plan = made.planned["greedy"]
    assert (plan.count, plan.gm_bytes) == (found.report.kernels_after, found.report.gm_bytes_after)
    assert plan.ns == round(1000 * (found.report.predicted_us_after or 0))
    assert made.exact.count == model.kernels and plan.ns <= NEAR * made.exact.ns


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(plugin: Any, dtype: torch.dtype) -> None:
    """All models in one graph, each with inputs of its own."""

    def model(*inputs: torch.Tensor) -> list[torch.Tensor]:
        rest = list(inputs)
        return [function(*(rest.pop(0) for _ in shapes)) for function, shapes, *_ in MODELS]

    inputs = [data(*s, dtype=dtype, seed=i) for _, shapes, *_ in MODELS for i, s in enumerate(shapes)]
    runs = run(plugin, model, inputs)
    check(runs)
    assert runs.reports[0].kernels_after < len(MODELS), runs.reports[0]  # some run side by side


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_dynamic(plugin: Any, dtype: torch.dtype) -> None:
    """Both sizes symbolic, one compile for all of them."""

    def model(x: torch.Tensor, y: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> list[torch.Tensor]:
        return [
            chain(x, y), scale_bias(x, row, column), gelu_residual(x, row, y), layer_norm(x, row, row),
            softmax(x, row), rms_norm(x, row), (x - column).sum(0), (x * row).sum(-1, keepdim=True),
        ]  # fmt: skip

    sizes = [(3, n) for n in (9, 7, 8, 15, 16, 17, 31, 33)] + [(50, 9), (2, 700)]
    inputs = [
        (data(m, n, dtype=dtype), data(m, n, dtype=dtype, seed=1), data(n, dtype=dtype), data(m, 1, dtype=dtype))
        for m, n in sizes
    ]
    runs = run(plugin, model, *inputs, dynamic=True)
    check(runs)
    (report,) = runs.reports
    assert report.fused and report.kernels_after < report.kernels_before


# ---- sizes and layouts --------------------------------------------------------------------------------------------


def _each(function: Function, group: int) -> Function:
    """``function`` on every ``group`` of the inputs: many shapes in one compile."""

    def model(*inputs: torch.Tensor) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for i in range(0, len(inputs), group):
            result = function(*inputs[i : i + group])
            found += list(result) if isinstance(result, (tuple, list)) else [result]
        return found

    return model


def float_step(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> Any:
    return torch.relu(x * row + column) - x, x > column


def integer_step(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> Any:
    return x * row - column + torch.abs(x), torch.maximum(x, column) == x


def bool_step(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> Any:
    return (x & row) | ~column, torch.where(x, row, column)


STEPS: list[tuple[torch.dtype, Function]] = [
    (torch.float32, float_step),
    (torch.float16, float_step),
    (torch.bfloat16, float_step),
    (torch.int32, integer_step),
    (torch.int64, integer_step),
    (torch.bool, bool_step),
]


@pytest.mark.parametrize("dtype, step", STEPS, ids=[str(s[0]) for s in STEPS])
def test_tails(plugin: Any, dtype: torch.dtype, step: Function) -> None:
    shapes = [s for n in TAILS for s in ((3, n), (n,), (3, 1))]
    inputs = [data(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]
    check(run(plugin, _each(step, 3), inputs))


def reductions(x: torch.Tensor) -> Any:
    return torch.softmax(x, -1), x.sum(0), x.mean(-1), x.sum(-1, keepdim=True) * x, x.abs().sum(0), x.max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_tails_of_reductions(plugin: Any, dtype: torch.dtype) -> None:
    check(run(plugin, _each(reductions, 1), [data(3, n, dtype=dtype) for n in (1, 7, 8, 9, 17, 33)]))


def test_ranks_and_empty_tensors(plugin: Any) -> None:
    shapes: list[tuple[int, ...]] = [(), (1,), (1, 1, 5), (1, 1, 1), (0,), (3, 0), (0, 5), (2, 3, 4, 5, 2)]

    def step(x: torch.Tensor) -> Any:
        return torch.relu(x * 2 + 1), torch.exp(-x.abs()).sum(), x.unsqueeze(0) * 0.5

    inputs = [data(*s, seed=i) for i, s in enumerate(shapes)]
    for flags in (ELEMENTWISE, ALL):
        check(run(plugin, _each(step, 1), inputs, flags=flags))


def test_dynamic_sizes_that_turn_out_small(plugin: Any) -> None:
    """Compiled for any size; called with empty and single rows afterwards."""

    def model(x: torch.Tensor, row: torch.Tensor) -> Any:
        return torch.relu(x * row) + 1, (x + row).sum(-1), torch.softmax(x, -1)

    sizes = [(4, 9), (1, 9), (0, 9), (33, 9)]
    check(run(plugin, model, *((data(m, n), data(n)) for m, n in sizes), dynamic=True))


@pytest.mark.parametrize("sizes", [[(129, 1025)], [(2, 9), (1000, 33), (3, 9001)]], ids=["static", "dynamic"])
def test_many_tiles_and_cores(plugin: Any, sizes: list[tuple[int, int]]) -> None:
    def model(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> Any:
        return (
            torch.relu(x * row + column), torch.softmax(x, -1), F.layer_norm(x, x.shape[-1:]), x.sum(0),
            (x * row).mean(-1), x[None].expand(2, -1, -1) + column,
        )  # fmt: skip

    inputs = [(data(m, n), data(n), data(m, 1)) for m, n in sizes]
    runs = run(plugin, model, *inputs, dynamic=len(sizes) > 1)
    check(runs)
    assert len(runs.reports) == 1


def test_inputs_that_are_views(plugin: Any) -> None:
    def step(x: torch.Tensor) -> Any:
        return torch.relu(x * 2 + 1), torch.softmax(x, -1)

    base = data(6, 18)
    inputs = [
        base.t(), base[:, ::2], base[1:], base[:, 3:11], base[2:3].expand(4, 18),
        base.reshape(2, 3, 18).permute(2, 0, 1),
        base.reshape(1, 6, 3, 6).contiguous(memory_format=torch.channels_last), base.flip(0), base.T[1::3, ::2],
    ]  # fmt: skip
    assert not all(t.is_contiguous() for t in inputs)
    check(run(plugin, _each(step, 1), inputs))


def test_conversions(plugin: Any) -> None:
    """Narrowing casts round, and a rounded value is what comparisons see."""

    def model(x: torch.Tensor, h: torch.Tensor, i: torch.Tensor, b: torch.Tensor) -> Any:
        rounded = (x * 3).half().float()
        return (
            rounded, rounded == x * 3, (h * 2).float() + x, i.float() * x, i.half() + h, x.int(), (x * 2).bfloat16(),
            b.float() * x, torch.where(b, x, rounded), torch.where(x > 0, i, -i), (h + x.half()).to(torch.bfloat16),
            x.long() + 1, b.int() + i, (x > 0) & b, x.bool(), x / b.float(),
        )  # fmt: skip

    shapes = [(3, 17), (17,)]
    inputs = [
        (data(*s), data(*s, dtype=torch.float16), data(*s, dtype=torch.int32), data(*s, dtype=torch.bool))
        for s in shapes
    ]
    for one in inputs:
        check(run(plugin, model, one))


def test_special_values(plugin: Any) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (
            torch.relu(x + y), torch.maximum(x, y), torch.where(x > y, x, y), x * y, torch.sigmoid(x) * y,
            x.clamp(-1, 1), torch.sqrt(x), x == y, torch.softmax(x, -1), (x - 1).sum(-1), (x * 0.5).sum(0),
            torch.tanh(x) / y, torch.sign(x),
        )  # fmt: skip

    inf, nan = float("inf"), float("nan")
    x = torch.tensor(
        [[0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 3e38, 1e-40], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]]
    )
    y = torch.tensor([1.0, -0.0, 0.0, inf, -inf, nan, 2.0, 3e38, -1e-40])
    for dtype in (torch.float32, torch.float16):
        check(run(plugin, model, (x.to(dtype), y.to(dtype))), eager=dtype is torch.float32)


# ---- whole modules ------------------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    """A transformer block without attention's matmuls being anything special."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.last = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        weights = torch.softmax(y @ y.transpose(-1, -2) * 0.125 + mask, -1)
        x = x + weights @ y
        return self.last(x + self.down(F.gelu(self.up(x), approximate="tanh")))


@pytest.mark.parametrize("flags", [ELEMENTWISE, ALL])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_block(plugin: Any, flags: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    block = Block(24).requires_grad_(False)
    plugin.enable(flags)
    inputs = [(data(2, n, 24), torch.triu(torch.full((n, n), -1e9), 1)) for n in ((9, 17) if dynamic else (9,))]
    import torchair

    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(block, backend=backend, dynamic=dynamic)
    for one in inputs:
        torch.testing.assert_close(compiled(*one), block(*one), rtol=1e-5, atol=1e-5)
    (report,) = plugin.reports()
    assert report.kernels_after < report.kernels_before and report.fused


# ---- random programs ----------------------------------------------------------------------------------------------

ELEMENTWISE_FAMILIES = ("unary", "binary", "view")
TYPES = (torch.float32, torch.float16, torch.bfloat16)


@CI
@given(programs((*ELEMENTWISE_FAMILIES, "reduce"), TYPES))
def test_random_static_programs(plugin: Any, program: Program) -> None:
    check(run(plugin, program, program.inputs()))


@CI
@given(programs((*ELEMENTWISE_FAMILIES, "reduce"), TYPES[:2]))
def test_random_dynamic_programs(plugin: Any, program: Program) -> None:
    check(run(plugin, program, program.inputs(), dynamic=True))
