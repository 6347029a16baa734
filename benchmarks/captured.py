"""The captured graphs as input of ``fuse``: symbols, aliases and hints from their manifests; the plan and its graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from benchmarks import graphs
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.ge.simplify import simplify
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, FusionResult, fuse

ALL_PASSES = Options(enabled=True, passes=frozenset(["all"]), strict=True)
"""What every measure runs with; ``strict`` verifies every kernel and raises what would be rolled back."""
SMALLEST_SYMBOL = 2  # Dynamo compiles sizes 0 and 1 apart


@dataclass(frozen=True)
class Case:
    """``original``: as read and inferred; ``simplified``: what is planned on; ``result``: what ``fuse`` made of it."""

    name: str
    context: FusionContext
    original: Graph
    simplified: Graph
    result: FusionResult


def context(name: str) -> FusionContext:
    """The FusionContext of a captured graph, from its manifest; the sizes of the recorded run are the hints."""
    manifest = graphs.manifests()[name]
    recorded, actual = manifest["h1"], manifest["run_inputs"]
    symbol_of = {fx: symbol for symbol, fx in recorded["sym"].items()}
    shapes: dict[int, tuple[Expr, ...]] = {}
    values: dict[int, Expr] = {}
    hints: dict[str, int] = {}
    for spec in recorded["inputs"]:
        index = spec["ge"]
        dims = tuple(expr.parse(d) for d in spec["shape"])
        shapes[index] = dims
        hints.update(
            (d.name, size) for d, size in zip(dims, actual[index]["shape"]) if not isinstance(d, int) and d.is_Symbol
        )
        if spec["fx"] in symbol_of:
            values[index] = expr.symbol(symbol_of[spec["fx"]])
    refs = {int(output): int(data) for output, data in recorded["ref"].items()}
    return FusionContext(shapes, values, SMALLEST_SYMBOL, hints, refs)


@cache
def case(name: str) -> Case:
    """A captured graph, planned with every pass on. Raises what ``fuse`` raises."""
    given = context(name)
    original = infer(read(graphs.model_def(name)), given.data_shapes, given.data_values, given.minimum)
    simplified = simplify(original, tuple(given.ref_outputs.values()))
    return Case(name, given, original, simplified, fuse(graphs.model_def(name), given, ALL_PASSES))
