"""What a GeConcreteGraph knows beyond its GraphDef: symbolic sizes, values and aliases."""

from __future__ import annotations

from typing import Any

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.pipeline import FusionContext


def fusion_context(concrete: Any) -> FusionContext:
    """The symbolic dims, values and aliases of a GeConcreteGraph after its own passes."""
    shapes: dict[int, tuple[Expr, ...]] = {}
    values: dict[int, Expr] = {}
    hints: dict[str, int] = {}
    minimum: dict[str, int] = {}
    symbol_of = {index: e for e, index in concrete._all_sym_input_idx.items()}
    for ge_index, info in enumerate(concrete._input_info_list):
        fx_index = getattr(info.func, "fx_input_idx", None)
        meta = concrete._all_meta_tensor_input.get(fx_index)
        if meta is not None:
            dims = list(meta.size())
            shapes[ge_index] = tuple(_dim(d, f"d{ge_index}_{k}", hints, minimum) for k, d in enumerate(dims))
        elif fx_index in symbol_of:
            value = _parse(symbol_of[fx_index])
            if value is not None:
                values[ge_index] = value
    return FusionContext(
        data_shapes=shapes,
        data_values=values,
        minimum=minimum,
        hints=hints,
        ref_outputs=dict(concrete._graph_output_ref_input),
        keep=frozenset(str(getattr(op, "name", op)) for op in concrete.graph.must_keep_ops),
    )


def _dim(size: Any, fallback: str, hints: dict[str, int], minimum: dict[str, int]) -> Expr:
    """A size as an int or an expression in Dynamo's symbols; ``fallback`` names one that cannot be read."""
    if isinstance(size, int):
        return size
    node = size.node
    found = _parse(node.expr)
    if found is None:
        found = expr.symbol(fallback)
    if isinstance(found, int):
        return found
    for name in expr.free_symbols(found):
        minimum.setdefault(name, _lower_bound(node, name))
    if found.is_Symbol:
        hint = getattr(node, "hint", None)
        if isinstance(hint, int):
            hints[found.name] = hint
    return found


def _lower_bound(node: Any, name: str) -> int:
    ranges = getattr(getattr(node, "shape_env", None), "var_to_range", {})
    for key, bounds in ranges.items():
        if str(key) == name:
            lower = getattr(bounds, "lower", 0)
            return int(lower) if getattr(lower, "is_finite", True) and int(lower) > 0 else 0
    return 0


def _parse(value: Any) -> Expr | None:
    try:
        return expr.parse(str(value))
    except ValueError:
        return None
