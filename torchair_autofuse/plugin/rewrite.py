"""Rewrites one graph of TorchAir in place, or leaves it as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.plugin import device
from torchair_autofuse.plugin.state import add_report, notify, warn, warn_of
from torchair_autofuse.report import FusionReport, Refusal


def rewrite(concrete: Any, converter: Any, options: Options) -> None:
    """Fuses one graph in place; after any failure the graph is as it was (strict: the failure is raised)."""
    warn_of(options)
    snapshot = b""
    try:
        options = device.settle(options)
        snapshot = concrete.graph._model.SerializeToString(deterministic=True)
        _fuse(concrete, converter, options, snapshot)
    except Exception as error:
        _restore(concrete.graph, snapshot)
        if options.strict:
            raise
        reason = Reason("AF301", f"{concrete.graph.name}: {type(error).__name__}: {error}")
        _leave(concrete, snapshot, options, reason)


def _leave(concrete: Any, snapshot: bytes, options: Options, reason: Reason) -> None:
    """Reports that the graph runs as it was."""
    kernels = _kernel_count(snapshot)
    add_report(FusionReport(concrete.graph.name, kernels, kernels, soc=options.soc, rolled_back=reason))
    warn(reason)


def _restore(graph: Any, snapshot: bytes) -> None:
    """Puts a graph back, if it was changed at all. In place: parsing into the ModelDef would detach ``graph._proto``,
    and TorchAir's later changes would go to a message that nothing reads."""
    if snapshot and graph._model.SerializeToString(deterministic=True) != snapshot:
        graph._proto.CopyFrom(type(graph._model).FromString(snapshot).graph[0])


def _fuse(concrete: Any, converter: Any, options: Options, snapshot: bytes) -> None:
    from torchair_autofuse.pipeline import fuse
    from torchair_autofuse.plugin.context import fusion_context

    context = fusion_context(concrete)
    deliver = None if options.run_unfused else device.deliver(options, dynamic=context.dynamic)
    if isinstance(deliver, Reason):
        _leave(concrete, snapshot, options, deliver)
        return
    result = fuse(snapshot, context, options, deliver)
    if options.keep_sources and options.debug_dir:
        _keep(options.debug_dir, snapshot, result)
    if result.generated and deliver is not None:
        concrete.graph._proto.CopyFrom(result.model_def.graph[0])
        converter._normalize_ge_graph(concrete.graph)
        device.made_available(op.op_type for op in result.ops)
    notify(result)
    report = result.report
    if deliver is not None:
        report = replace(report, route=deliver.route.name, warnings=(*report.warnings, *device.notes()))
    add_report(report)
    _tell_withheld(report)


def _tell_withheld(report: FusionReport) -> None:
    """One warning per kind of op that could not be had; the report has all of them."""
    withheld: dict[str, list[Refusal]] = {}
    for refusal in report.refused:
        if refusal.code.startswith("AF5"):
            withheld.setdefault(refusal.code, []).append(refusal)
    for code, group in sorted(withheld.items()):
        more = f" (and {len(group) - 1} more, see the report)" if len(group) > 1 else ""
        warn(Reason(code, f"{group[0].reason}{more}"))


def _keep(directory: str, snapshot: bytes, result: Any) -> None:
    """Keeps sources where the user asked for them; what goes wrong there is not worth the fusion."""
    from torchair_autofuse import debug_dir
    from torchair_autofuse.opdef.errors import ArtefactError

    try:
        debug_dir.keep(directory, snapshot, result)
    except (OSError, ArtefactError) as error:
        warn(Reason("AF103", f"AUTOFUSE_DFX_FLAGS: --debug_dir={directory} cannot be written to: {error}"))


def _kernel_count(snapshot: bytes) -> int:
    from torchair_autofuse.ge.catalogue import kernels
    from torchair_autofuse.ge.infer import infer
    from torchair_autofuse.ge.reader import read

    try:
        return len(kernels(infer(read(snapshot))))
    except Exception:  # the graph itself may be what cannot be read
        return 0
