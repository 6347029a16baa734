"""fuse_model_def: the pipeline on a graph in hand, without TorchAir."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchair_autofuse.loop import expr
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, FusionResult, fuse
from torchair_autofuse.plugin import active_options


def fuse_model_def(
    model_def: Any,
    *,
    symbols: Mapping[int, Sequence[int | str]] | None = None,
    ref_outputs: Mapping[int, int] | None = None,
    options: str | Options | None = None,
) -> FusionResult:
    """Rewrites a GE graph.

    ``model_def``: a ModelDef or its bytes; it is not changed. ``symbols`` maps the index of a Data to its dims, ints or
    size expressions such as ``"s0"`` (all dims, in order); what it leaves out gets symbols of its own. ``ref_outputs``
    maps a graph output to the Data it is written into. ``options``: a flag string, Options, or None for what is active.
    Fusion is on whatever they say of it. Raises ValueError for a graph that cannot be read and for a bad option.
    """
    if options is None:
        chosen = active_options()
    else:
        chosen = options if isinstance(options, Options) else Options.from_flags(options)
    shapes = {
        index: tuple(d if isinstance(d, int) else expr.parse(d) for d in dims)
        for index, dims in (symbols or {}).items()
    }
    context = FusionContext(data_shapes=shapes, ref_outputs=dict(ref_outputs or {}))
    return fuse(model_def, context, chosen.switched_on())
