"""Several schedules of one kernel behind one tiling: the first whose guard holds for the sizes at hand runs."""

from __future__ import annotations

from dataclasses import replace

from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.pointwise import Schedule
from torchair_autofuse.schedule.tiling import Let, Op, Tree, Var


def combine(first: Schedule, guard: str, second: Schedule) -> Schedule:
    """``first`` where its tiling value ``guard`` is positive, else ``second``, which must be total.

    The tiling values of the two get the prefixes ``a_`` and ``b_``; ``tiling_key`` is 1 or 2.
    """
    holds = Var(f"a_{guard}")
    variants = (replace(first, prefix="a_", tiling_key=1), replace(second, prefix="b_", tiling_key=2))
    steps = [step for v in variants for step in _prefixed(v)]
    for name in ("block_dim", "ub_used", "tile_rows", "tile_cols"):
        steps.append(Let(name, t.select(holds, Var(f"a_{name}"), Var(f"b_{name}"))))
    steps.append(Let("tiling_key", t.select(holds, 1, 2)))
    return replace(
        first,
        template=f"{first.template}, {second.template}",
        steps=tuple(steps),
        tiling_key="tiling_key",
        variants=variants,
    )


def _prefixed(schedule: Schedule) -> list[Let]:
    names = {step.name for step in schedule.steps}

    def rename(tree: Tree) -> Tree:
        if isinstance(tree, Var):
            return Var(schedule.prefix + tree.name) if tree.name in names else tree
        return Op(tree.kind, tuple(rename(a) for a in tree.args)) if isinstance(tree, Op) else tree

    return [Let(schedule.prefix + s.name, rename(s.value), s.field) for s in schedule.steps]
