"""The order of nodes: any topological order of a graph gets a legal plan with right values, and the same one always."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from ge_build import GraphBuilder
from plan_build import ALL, barrier, check_plan, edges_of_groups, fused, has_cycle, node_costs, numbers, run_nodes

from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.generated import lower_group
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan.legality import Context
from torchair_autofuse.plan.plan import plan
from torchair_autofuse.plan.recompute import Group

UNARY = ("Tanh", "Abs", "Neg", "Relu", "Sigmoid")
BINARY = ("Add", "Sub", "Mul", "Maximum", "Minimum")


def random_graph(rng: random.Random) -> GraphBuilder:
    """Up to 24 ops over [4, 12], its row means and [12]; many of them siblings, some behind a barrier."""
    b = GraphBuilder()
    full, rows = [b.data((4, 12)) for _ in range(2)], [b.data((12,))]
    last = b.const([-1])
    for _ in range(rng.randint(6, 24)):
        kind = rng.random()
        x = rng.choice(full[-6:])
        if kind < 0.35:
            full.append(b.op("Tanh", b.op(rng.choice(UNARY), x)) if rng.random() < 0.3 else b.op(rng.choice(UNARY), x))
        elif kind < 0.7:
            full.append(b.op(rng.choice(BINARY), x, rng.choice((*full[-6:], *rows[-2:]))))
        elif kind < 0.8:
            mean = b.op("ReduceMean", x, last, keep_dims=True)
            full.append(b.op("Sub", x, mean))
        elif kind < 0.9:
            rows.append(b.op(rng.choice(UNARY), rng.choice(rows)))
        else:
            full.append(barrier(b, b.op("Abs", x)))
    b.output(*rng.sample(full[2:], min(3, len(full) - 2)), *rows[1:3], full[-1])
    return b


def shuffled(model: Any, rng: random.Random) -> Any:
    """The model with its nodes in another topological order."""
    other = type(model).FromString(model.SerializeToString())
    ops = list(other.graph[0].op)
    waiting = {op.name: {ref.rpartition(":")[0] for ref in op.input if ref} for op in ops}
    by_name = {op.name: op for op in ops}
    ordered = []
    while waiting:
        ready = sorted(name for name, needs in waiting.items() if not needs & waiting.keys())
        name = rng.choice([n for n in ready if by_name[n].type != "NetOutput"] or ready)
        del waiting[name]
        ordered.append(type(ops[0]).FromString(by_name[name].SerializeToString()))
    del other.graph[0].op[:]
    other.graph[0].op.extend(ordered)
    return other


def check(model: Any, planner: str, seed: int) -> None:
    graph = simplify(infer(read(model)))
    options = ALL.replace(planner=planner)

    def fits(group: Group) -> Reason | None:
        made = lower_group(graph, group, options)
        return made if isinstance(made, Reason) else None

    made = plan(graph, Context(), options, fits, node_costs(graph))
    assert not has_cycle(edges_of_groups(graph, made))
    data = [numbers((4, 12), seed), numbers((4, 12), seed + 1), numbers((12,), seed + 2)]
    with np.errstate(all="ignore"):
        check_plan(graph, made, run_nodes(graph, data), ulps=4)


@pytest.mark.parametrize("planner", ["greedy", "partition"])
@pytest.mark.parametrize("seed", range(6))
def test_any_order(seed: int, planner: str) -> None:
    rng = random.Random(seed)
    b = random_graph(rng)
    for _ in range(2):
        check(b.model, planner, seed)
        first, again = (fused(b, planner=planner).model_def.SerializeToString(deterministic=True) for _ in range(2))
        assert first == again
        b.model.CopyFrom(shuffled(b.model, rng))
