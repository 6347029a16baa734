"""ReverseV2: a tensor in memory is read backwards, whatever reads it; what the op makes is computed so."""

from __future__ import annotations

import numpy as np
import pytest
from ge_build import GraphBuilder
from plan_build import graph_of, groups, kernel_of, lower, numbers, plan_of

from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Load
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.messages import Reason


@pytest.mark.parametrize("over", [(0,), (-1,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_values(over: tuple[int, ...], symbolic: bool) -> None:
    b = GraphBuilder()
    x = b.data((-1, -1, 5) if symbolic else (3, 4, 5), name="x")
    y = b.op("ReverseV2", x, b.const(list(over)), name="y")
    b.output(b.op("Add", b.op("Abs", y, name="abs"), b.op("Neg", x, name="neg"), name="add"))
    made = kernel_of(graph_of(b, **({"d0": ("s0", "s1", 5)} if symbolic else {})), "y", "abs", "neg", "add")
    verify(made.kernel)
    array = numbers((3, 4, 5))
    (got,) = interpret(made.kernel, [array]).values()
    np.testing.assert_array_equal(got, np.abs(np.flip(array, over)) - array)


def test_what_the_cluster_makes_is_computed_backwards() -> None:
    b = GraphBuilder()
    made = b.op("Exp", b.data((3, 4)), name="exp")
    b.output(b.op("Sin", b.op("ReverseV2", made, b.const([0]), name="y"), name="sin"))
    kernel = kernel_of(graph := graph_of(b), "exp", "y", "sin").kernel
    (load,) = [v for v in kernel.nests[0].values if isinstance(v, Load)]
    assert dict(load.strides)["a0"] == -4 and load.offset == 8
    assert groups(plan_of(graph)) == [["exp", "y", "sin"]]


def test_what_others_read_too_is_not() -> None:
    b = GraphBuilder()
    made = b.op("Exp", b.data((3, 4)), name="exp")
    b.output(b.op("Sin", b.op("ReverseV2", made, b.const([0]), name="y"), name="sin"), made)
    graph = graph_of(b)
    reason = lower(graph, "exp", "y", "sin")
    assert isinstance(reason, Reason) and reason.code == "AF205" and "backwards" in reason.text
    assert groups(plan_of(graph)) == [["y", "sin"]]


def test_pass() -> None:
    b = GraphBuilder()
    b.output(b.op("Sin", b.op("ReverseV2", b.data((3, 4)), b.const([0]), name="y"), name="sin"))
    graph = graph_of(b)
    assert not groups(plan_of(graph, passes=frozenset(["reduce"])))
    assert groups(plan_of(graph, passes=frozenset(["slice"]))) == [["y", "sin"]]
