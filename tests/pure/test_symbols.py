"""Symbols of a kernel: every one has a source, relations between dims survive, names leave no trace."""

from __future__ import annotations

import pytest
from ge_build import GraphBuilder
from plan_build import graph_of, kernel_of

from torchair_autofuse.dtypes import F32
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ir import Axis, Kernel, Load, Nest, Param, Store
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.finish import content_digest
from torchair_autofuse.lower.symbols import bind_symbols
from torchair_autofuse.messages import Reason


def copy_kernel(inputs: list[tuple[str, ...]], output: tuple[str, ...]) -> Kernel:
    """Input 0 is copied to the output, axis by axis of the output; other inputs give their dims only."""
    dims = [tuple(expr.parse(d) for d in p) for p in inputs]
    out = tuple(expr.parse(d) for d in output)
    strides = []
    pitch: expr.Expr = 1
    for i, size in reversed(list(enumerate(out))):
        strides.append((f"a{i}", pitch))
        pitch = expr.mul(pitch, size)
    order = tuple(reversed(strides))
    axes = tuple(Axis(f"a{i}", d) for i, d in enumerate(out))
    nest = Nest("n0", axes, (Load("v0", "in0", order, 0, F32),), (Store("out0", order, 0, "v0"),))
    params = [Param(f"in{i}", F32, d, "input") for i, d in enumerate(dims)]
    return Kernel("k", (*params, Param("out0", F32, out, "output")), (), (nest,))


@pytest.mark.parametrize(
    ("inputs", "output", "sources"),
    [
        ([("x", "y")], ("x", "y"), ["s0=in0.0", "s1=in0.1"]),
        ([("64*x",)], ("x", "64"), ["s0=in0.0/64"]),
        ([("64*x",), ("x",)], ("x", "64"), ["s0=in1.0"]),  # the symbol itself before a multiple
        ([("x*y",)], ("x*y",), ["s0=in0.0"]),
        ([("x*y",), ("x",)], ("x*y",), ["s0=in0.0", "s1=in1.0"]),
        ([("6*x*y",)], ("x*y", "6"), ["s0=in0.0/6"]),
        ([("x*y",), ("x",), ("y",)], ("x", "y"), ["s0=in1.0", "s1=in2.0"]),
        ([("x + 1",)], ("x + 1",), ["s0=in0.0"]),
        ([("x + 1", "x + 1")], ("x + 1", "x + 1"), ["s0=in0.0"]),
        ([("x**2 + 2*x + 1",), ("x + 1",)], ("x + 1", "x + 1"), ["s0=in1.0"]),
        ([("floor(x/2) + 1", "8")], ("floor(x/2) + 1", "8"), ["s0=in0.0"]),
        ([("x", "floor(x/2)")], ("x", "floor(x/2)"), ["s0=in0.0"]),
        ([("y*floor(x/2)**2 + 2*y*floor(x/2) + y",), ("y", "floor(x/2) + 1")],
         ("y", "floor(x/2) + 1", "floor(x/2) + 1"), ["s0=in1.0", "s1=in1.1"]),
        ([("floor(x/2)**2 + 2*floor(x/2) + 1", "4")], ("floor(x/2)**2 + 2*floor(x/2) + 1", "4"), ["s0=in0.0"]),
        ([("n0*m", "2")], ("n0*m", "2"), ["s0=in0.0"]),  # a user's symbol called like one of ours
        ([("4", "8")], ("4", "8"), []),
    ],
)  # fmt: skip
def test_sources(inputs: list[tuple[str, ...]], output: tuple[str, ...], sources: list[str]) -> None:
    bound = bind_symbols(copy_kernel(inputs, output))
    assert isinstance(bound, Kernel), bound
    found = [f"{s.name}={s.param}.{s.dim}" + (f"/{s.divisor}" if s.divisor > 1 else "") for s in bound.symbols]
    assert found == sources
    names = {s.name for s in bound.symbols}
    for p in bound.params:
        assert all(expr.free_symbols(d) <= names for d in p.dims)
    verify(bound)


@pytest.mark.parametrize(
    ("inputs", "output"), [([("x*y",)], ("x", "y")), ([("x*y",), ("x*z",)], ("x", "y")), ([("floor(x/2)",)], ("x",))]
)
def test_a_symbol_without_source_is_refused(inputs: list[tuple[str, ...]], output: tuple[str, ...]) -> None:
    reason = bind_symbols(copy_kernel(inputs, output))
    assert isinstance(reason, Reason) and reason.code == "AF217"
    assert "x" in reason.text


@pytest.mark.parametrize(
    "swap", [{"x": "y", "y": "x"}, {"x": "z9", "y": "a1"}, {"x": "n0", "y": "q0"}, {"x": "s1", "y": "s0"}]
)
@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        ([("x*y", "4"), ("x",), ("y",)], ("x", "y", "4")),
        ([("2*x", "x*y"), ("y",)], ("2*x", "x*y")),
        ([("3*x*y",), ("x*y*y",), ("y",)], ("3*x*y",)),
        ([("x + y",), ("y",)], ("x + y",)),
        ([("floor(x/2) + 1", "y"), ("y",)], ("floor(x/2) + 1", "y")),
    ],
)
def test_the_hash_does_not_depend_on_symbol_names(
    inputs: list[tuple[str, ...]], output: tuple[str, ...], swap: dict[str, str]
) -> None:
    def renamed(dims: tuple[str, ...]) -> tuple[str, ...]:
        change = {expr.symbol(a): expr.symbol(c) for a, c in swap.items()}
        exprs = [expr.parse(d) for d in dims]
        return tuple(str(e if isinstance(e, int) else e.xreplace(change)) for e in exprs)

    first = bind_symbols(copy_kernel(inputs, output))
    second = bind_symbols(copy_kernel([renamed(d) for d in inputs], renamed(output)))
    assert isinstance(first, Kernel) and isinstance(second, Kernel)
    assert content_digest(first) == content_digest(second)


def test_the_op_type_depends_on_neither_node_nor_symbol_names() -> None:
    def make(prefix: str, symbols: tuple[str, str]) -> str:
        b = GraphBuilder()
        x, y = b.data([-1, -1], name=f"{prefix}x"), b.data([-1], name=f"{prefix}y")
        e = b.op("Exp", x, name=f"{prefix}e")
        b.output(b.op("Add", e, y, name=f"{prefix}a"))
        graph = graph_of(b, d0=symbols, d1=symbols[1:])
        return kernel_of(graph, f"{prefix}e", f"{prefix}a").op_type

    names = {make("p", ("s0", "s1")), make("zz", ("s1", "s0")), make("a", ("k", "b"))}
    assert len(names) == 1
