"""Several schedules of one kernel behind one tiling: the first whose guard holds for the sizes at hand runs."""

from __future__ import annotations

from dataclasses import replace

from torchair_autofuse.schedule import tiling as t
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.schedule.tiling import Let, Op, Tree, Var


def combine(first: Schedule, guard: str, second: Schedule) -> Schedule:
    """``first`` where its tiling value ``guard`` is positive, else ``second``, which must be total.

    The tiling values of the two get the prefixes ``a_`` and ``b_``; ``tiling_key`` is 1, or that of ``second`` plus 1
    where that is several variants itself.
    """
    holds = Var(f"a_{guard}")
    more = [replace(v, prefix=f"b_{v.prefix}", tiling_key=k + 2) for k, v in enumerate(second.variants or (second,))]
    steps = [*prefixed(first, "a_"), *prefixed(second, "b_")]
    for name in ("block_dim", "ub_used", "tile_rows", "tile_cols"):
        steps.append(Let(name, t.select(holds, Var(f"a_{name}"), Var(f"b_{name}"))))
    workspaces = [
        Var(f"{p}{s.workspace_bytes}") if s.workspace_bytes != "0" else 0 for p, s in (("a_", first), ("b_", second))
    ]
    if workspaces != [0, 0]:
        steps.append(Let("workspace_bytes", t.select(holds, *workspaces)))
    key = t.add(Var("b_tiling_key"), 1) if second.variants else 2
    steps.append(Let("tiling_key", t.select(holds, 1, key)))
    return replace(
        first,
        template=f"{first.template}, {second.template}",
        steps=tuple(steps),
        tiling_key="tiling_key",
        variants=(replace(first, prefix="a_", tiling_key=1), *more),
    )


def prefixed(schedule: Schedule, prefix: str) -> list[Let]:
    """The tiling steps of a schedule with a prefix before all of their names."""
    names = {step.name for step in schedule.steps}

    def rename(tree: Tree) -> Tree:
        if isinstance(tree, Var):
            return Var(prefix + tree.name) if tree.name in names else tree
        return Op(tree.kind, tuple(rename(a) for a in tree.args)) if isinstance(tree, Op) else tree

    return [Let(prefix + s.name, rename(s.value), s.field) for s in schedule.steps]
