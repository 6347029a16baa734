"""Fuel: how many fused ops all graphs of a process together may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchair_autofuse import plugin
from torchair_autofuse.options import Options
from torchair_autofuse.trust.search import MadeOp


class Fuel:
    """A context manager: graphs that are compiled in it get ``limit`` fused ops in all, the first ones (None: all).

    ``made``: the fused ops so far. ``on_made`` gets each when it is made, before it runs, with the FusionResult that it
    is in and its place there. ``numbered``: graphs are called by their order here; in one process TorchAir gives the
    graphs of every try other names.
    """

    def __init__(
        self,
        limit: int | None,
        on_made: Callable[[MadeOp, Any, int], None] | None = None,
        *,
        numbered: bool = False,
    ) -> None:
        self.made: list[MadeOp] = []
        self._limit, self._on_made, self._numbered = limit, on_made, numbered
        self._graphs: dict[str, str] = {}
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Fuel:
        self._undo = [plugin.impose(self._options), plugin.on_fused(self._fused)]
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()

    def _options(self, options: Options) -> Options:
        if self._limit is None:
            return options
        left = max(self._limit - len(self.made), 0)
        return options.replace(max_fusions=left if options.max_fusions is None else min(left, options.max_fusions))

    def _fused(self, result: Any) -> None:
        name = result.report.graph_name
        if self._numbered:
            name = self._graphs.setdefault(name, f"graph_{len(self._graphs) + 1}")
        for index, made in enumerate(result.generated):
            op = MadeOp(name, made.op_type, tuple(n.name for n in made.lowered.nodes))
            self.made.append(op)
            if self._on_made is not None:
                self._on_made(op, result, index)
