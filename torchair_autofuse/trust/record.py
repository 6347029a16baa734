"""Watches the GE graphs of this process: how each was fused, and what it is run with and gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair_autofuse import plugin
from torchair_autofuse.host import loader
from torchair_autofuse.host.untraced import untraced
from torchair_autofuse.pipeline import FusionResult
from torchair_autofuse.report import FusionReport


@dataclass(eq=False)
class GraphRecord:
    """A GE graph as it was loaded. ``model_def``: serialized; ``output_dtypes``: numbers of GE's C enum; ``result``:
    how it was fused, None when it was not; ``report``: its fusion report, if there is one; ``calls``: runs so far."""

    name: str
    model_def: bytes
    n_inputs: int
    output_dtypes: tuple[int, ...]
    result: FusionResult | None
    report: FusionReport | None
    calls: int = 0


@dataclass(frozen=True, eq=False)
class Call:
    """One run of a graph. ``inputs``: copies on the CPU, made before it; ``outputs``: copies, None after ``error``;
    ``inputs_after``: copies of what ops in place left in the inputs, but for outputs that are written into inputs."""

    graph: GraphRecord
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...] | None
    inputs_after: tuple[torch.Tensor, ...]
    error: str = ""


Listener = Callable[[Call], None]


class Recorder:
    """A context manager; while it is entered, ``on_call`` gets the first ``limit`` calls of each graph (None: all).

    ``graphs``: those loaded since, in order. ``live``: the tensors that graphs returned last, as (graph, output index,
    tensor), for whoever wants to know where they went; cleared by ``forget``. Other calls run as if nobody watched.
    """

    def __init__(self, on_call: Listener, limit: int | None = None) -> None:
        self.graphs: list[GraphRecord] = []
        self.live: list[tuple[GraphRecord, int, torch.Tensor]] = []
        self._on_call, self._limit = on_call, limit
        self._results: dict[str, FusionResult] = {}
        self._by_executor: dict[int, tuple[Any, GraphRecord]] = {}
        self._undo: list[Callable[[], None]] = []
        self._active = False

    def __enter__(self) -> Recorder:
        self._active = True
        self._undo.append(plugin.on_fused(self._fused))
        loader.on_torchair_import(self._patch)
        return self

    def __exit__(self, *error: object) -> None:
        self._active = False
        while self._undo:
            self._undo.pop()()
        self.forget()

    def forget(self) -> None:
        """Lets go of the tensors in ``live``."""
        self.live.clear()

    def _fused(self, result: FusionResult) -> None:
        self._results[result.report.graph_name] = result

    def _patch(self) -> None:
        if not self._active:
            return
        from torchair.core import _backend

        owner = _backend.TorchNpuGraph
        load, run = owner.load, owner.run
        note_load, note_run = untraced(self._loaded), untraced(self._ran)

        @functools.wraps(load)
        def watched_load(graph: Any, ge_graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = load(graph, ge_graph, *args, **kwargs)
            note_load(graph, ge_graph)
            return result

        @functools.wraps(run)
        def watched_run(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            return note_run(graph, inputs, lambda: run(graph, inputs, *args, **kwargs))

        owner.load, owner.run = watched_load, watched_run

        def undo() -> None:
            owner.load, owner.run = load, run

        self._undo.append(undo)

    def _loaded(self, executor: Any, ge_graph: Any) -> None:
        attrs = ge_graph.attr
        result = self._results.get(ge_graph.name)
        report = next((r for r in reversed(plugin.reports()) if r.graph_name == ge_graph.name), None)
        record = GraphRecord(
            str(ge_graph.name),
            bytes(ge_graph.SerializeToString()),
            len(attrs["_input_placements"].list.i),
            tuple(attrs["_output_dtypes"].list.i),
            result if report is None or report.rolled_back is None else None,
            report,
        )
        self.graphs.append(record)
        self._by_executor[id(executor)] = (executor, record)  # kept alive, so that the id stays its own

    def _ran(self, executor: Any, inputs: Sequence[torch.Tensor], run: Callable[[], Any]) -> Any:
        record = self._by_executor.get(id(executor), (None, None))[1]
        if record is None:  # loaded before the watch began
            return run()
        record.calls += 1
        watched = self._limit is None or record.calls <= self._limit
        given = list(inputs)
        before = _copies(given) if watched else ()
        try:
            outputs = run()
        except Exception as error:
            if watched:
                self._on_call(Call(record, before, None, before, f"{type(error).__name__}: {error}"))
            raise
        if watched:
            self.live = [entry for entry in self.live if entry[0] is not record]
            self.live += [(record, i, t) for i, t in enumerate(outputs)]
            assigned = {id(t) for t in outputs}
            after = [old if id(new) in assigned else new for old, new in zip(before, given)]
            self._on_call(Call(record, before, _copies(outputs), _copies(after)))
        return outputs


def _copies(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple(t.detach().to("cpu", copy=True).contiguous() for t in tensors)
