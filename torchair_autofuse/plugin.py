"""The hook in TorchAir: the only module that touches its internals. Checks for drift, takes a snapshot, rolls back.

Hook point: after ``GeConcreteGraph.optimize_graph_without_runtime`` the GE graph is final but for run-time facts; it is
what is compiled just in time, saved by ``cache_compile`` and exported.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from torchair_autofuse.host import loader
from torchair_autofuse.host.untraced import untraced
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.messages import AutofuseWarning, Reason
from torchair_autofuse.options import Options, read_options
from torchair_autofuse.options.read import switched_off
from torchair_autofuse.report import FusionReport

_NPUGRAPH_EX = "npugraph_ex.npu_fx_compiler"  # the backend that stays in FX, a package of its own in torch_npu

_forced: Options | None = None
_reports: list[FusionReport] = []
_listeners: list[Callable[[Any], None]] = []
_warned: set[str] = set()


def active_options() -> Options:
    """What holds for the next compile: ``enable()``'s options, else the environment's, read afresh.

    GF_AUTOFUSION_DISABLE=1 in the environment keeps fusion off, whatever ``enable()`` said.
    """
    if _forced is None:
        return read_options()
    return _forced.replace(enabled=False) if _forced.enabled and switched_off() else _forced


def enable(
    flags: str | Options | None = None,
    *,
    precision: str | None = None,
    soc: str | None = None,
    planner: str | None = None,
    max_fusions: int | None = None,
) -> None:
    """Turns fusion on for this process, whatever AUTOFUSE_FLAGS says.

    ``flags``: a flag string in the grammar of AUTOFUSE_FLAGS, or Options; None: the environment's. The keywords
    override single options. Raises ValueError naming the option that has a bad value.
    """
    global _forced
    if isinstance(flags, Options):
        options = flags
    else:
        options = read_options() if flags is None else Options.from_flags(flags)
    given = {"precision": precision, "soc": soc, "planner": planner, "max_fusions": max_fusions}
    _forced = options.switched_on().replace(**{k: v for k, v in given.items() if v is not None})
    loader.set_soc(_forced.soc)
    for reason in _forced.warnings:
        _warn(reason)


def disable() -> None:
    """Turns fusion off for this process, whatever AUTOFUSE_FLAGS says; ``enable()`` turns it on again."""
    global _forced
    _forced = Options(enabled=False)
    loader.set_soc(None)


def reset() -> None:
    """Back to what the environment says."""
    global _forced
    _forced = None
    loader.set_soc(None)


def reports() -> list[FusionReport]:
    """One report per GE graph compiled with fusion on, oldest first."""
    return list(_reports)


def clear_reports() -> None:
    """Forgets all reports."""
    _reports.clear()


def on_fused(listener: Callable[[Any], None]) -> None:
    """Calls ``listener`` with the pipeline's FusionResult of every graph fused from now on."""
    _listeners.append(listener)


def install() -> None:
    """Arranges for TorchAir to be patched as soon as it is imported; a second call changes nothing."""
    loader.on_torchair_import(_patch)
    loader.on_import(_NPUGRAPH_EX, _patch_npugraph_ex)


# ---- patching -----------------------------------------------------------------------------------------------------


def _patch() -> None:
    """Wraps TorchAir's methods; refuses with AF302 and leaves TorchAir alone where it is not as expected."""
    try:
        import torchair._ge_concrete_graph.fx2ge_converter as converter
        import torchair.npu_fx_compiler as compiler
        from torchair.inference import _cache_compiler
    except ImportError as error:
        problem = str(error)
    else:
        problem = _drift(converter, compiler, _cache_compiler)
    if problem:
        _warn(Reason("AF302", f"{problem}; fusion stays off. Is this torch_npu newer than this plugin?"))
        return
    _wrap_optimize(converter)
    _wrap_run(converter)
    _wrap_compiler(compiler)
    _wrap_cache_key(_cache_compiler)


def _patch_npugraph_ex() -> None:
    """That backend builds no GE graph: whoever uses it with fusion on is told so."""
    compiler = sys.modules[_NPUGRAPH_EX]
    if callable(getattr(getattr(compiler, "_NpuFxCompiler", None), "_gen_compiled_gm", None)):
        _wrap_compiler(compiler)
    else:
        _warn(Reason("AF302", f"{_NPUGRAPH_EX}._NpuFxCompiler._gen_compiled_gm is gone; that backend fuses nothing"))


def _drift(converter: Any, compiler: Any, cache_compiler: Any) -> str:
    """What is missing from TorchAir's internals, "" if all is as expected."""
    graph_class = getattr(converter, "GeConcreteGraph", None)
    hook = getattr(graph_class, "optimize_graph_without_runtime", None)
    if hook is None:
        return "GeConcreteGraph.optimize_graph_without_runtime is gone"
    kinds = {p.kind for p in inspect.signature(hook).parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return "GeConcreteGraph.optimize_graph_without_runtime takes other parameters"
    if "__call__" not in vars(graph_class):
        return "GeConcreteGraph.__call__ is gone"
    if not callable(getattr(converter, "_normalize_ge_graph", None)):
        return "fx2ge_converter._normalize_ge_graph is gone"
    if not callable(getattr(getattr(compiler, "_NpuFxCompiler", None), "_gen_compiled_gm", None)):
        return "_NpuFxCompiler._gen_compiled_gm is gone"
    if not callable(getattr(cache_compiler, "_get_str_options", None)):
        return "_cache_compiler._get_str_options is gone"
    return ""


def _wrap_optimize(converter: Any) -> None:
    original = converter.GeConcreteGraph.optimize_graph_without_runtime
    if getattr(original, "_autofuse", False):
        return
    options_of, rewrite, warn_of = untraced(active_options), untraced(_rewrite), untraced(_warn_of)

    @functools.wraps(original)
    def optimize_graph_without_runtime(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        options = options_of()
        if options.enabled:
            self._autofuse = True
            rewrite(self, converter, options)
        elif options.warnings:  # a misspelt switch leaves fusion off
            warn_of(options)
        return result

    optimize_graph_without_runtime._autofuse = True  # type: ignore[attr-defined]
    converter.GeConcreteGraph.optimize_graph_without_runtime = optimize_graph_without_runtime


def _wrap_run(converter: Any) -> None:
    """Hides the run of a graph compiled with fusion on: what TorchAir does to its inputs would become graphs too."""
    original = converter.GeConcreteGraph.__call__
    if getattr(original, "_autofuse", False):
        return
    run = untraced(original)

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (run if hasattr(self, "_autofuse") else original)(self, *args, **kwargs)

    __call__._autofuse = True  # type: ignore[attr-defined]
    converter.GeConcreteGraph.__call__ = __call__


def _wrap_compiler(compiler: Any) -> None:
    original = compiler._NpuFxCompiler._gen_compiled_gm
    if getattr(original, "_autofuse", False):
        return
    options_of = untraced(active_options)

    @untraced
    def compile_with_fusion(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = getattr(self, "config", None)
        mode = getattr(getattr(config, "mode", None), "value", "max-autotune")
        if compiler.__name__ == _NPUGRAPH_EX:
            mode = "npugraph_ex"
        if mode != "max-autotune":
            _warn(Reason("AF303", f"mode {mode!r} builds no GE graph: nothing is fused; use the default mode"))
        return original(self, *args, **kwargs)

    @functools.wraps(original)
    def _gen_compiled_gm(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (compile_with_fusion if options_of().enabled else original)(self, *args, **kwargs)

    _gen_compiled_gm._autofuse = True  # type: ignore[attr-defined]
    compiler._NpuFxCompiler._gen_compiled_gm = _gen_compiled_gm


def _wrap_cache_key(cache_compiler: Any) -> None:
    original = cache_compiler._get_str_options
    if getattr(original, "_autofuse", False):
        return

    @functools.wraps(original)
    def _get_str_options(options: Any, *args: Any, **kwargs: Any) -> Any:
        text = original(options, *args, **kwargs)
        active = active_options()
        if not active.enabled:
            return text
        from torchair_autofuse.opdef import generator_digest

        return f"{text}|torchair_autofuse={active.digest()}:{generator_digest()}"

    _get_str_options._autofuse = True  # type: ignore[attr-defined]
    cache_compiler._get_str_options = _get_str_options


# ---- rewriting ----------------------------------------------------------------------------------------------------


def _rewrite(concrete: Any, converter: Any, options: Options) -> None:
    """Fuses one graph in place; after any failure the graph is as it was (strict: the failure is raised)."""
    _warn_of(options)
    snapshot = b""
    try:
        if loader.cann_present():
            _warn(Reason("AF304", "fused ops cannot be delivered to this device yet; the graph is left as it is"))
            return
        snapshot = concrete.graph._model.SerializeToString(deterministic=True)
        _fuse(concrete, converter, options, snapshot)
    except Exception as error:
        _restore(concrete.graph, snapshot)
        if options.strict:
            raise
        reason = Reason("AF301", f"{concrete.graph.name}: {type(error).__name__}: {error}")
        kernels = _kernel_count(snapshot)
        _reports.append(FusionReport(concrete.graph.name, kernels, kernels, soc=options.soc, rolled_back=reason))
        _warn(reason)


def _warn_of(options: Options) -> None:
    for reason in options.warnings:
        _warn(reason)


def _restore(graph: Any, snapshot: bytes) -> None:
    """Puts a graph back, if it was changed at all. In place: parsing into the ModelDef would detach ``graph._proto``,
    and TorchAir's later changes would go to a message that nothing reads."""
    if snapshot and graph._model.SerializeToString(deterministic=True) != snapshot:
        graph._proto.CopyFrom(type(graph._model).FromString(snapshot).graph[0])


def _fuse(concrete: Any, converter: Any, options: Options, snapshot: bytes) -> None:
    from torchair_autofuse.pipeline import fuse

    result = fuse(snapshot, fusion_context(concrete), options)
    if options.keep_sources and options.debug_dir:
        _keep(options.debug_dir, snapshot, result)
    if result.generated and not options.run_unfused:
        _deliver_on_host(result, options, snapshot)
        concrete.graph._proto.CopyFrom(result.model_def.graph[0])
        converter._normalize_ge_graph(concrete.graph)
    for listener in _listeners:
        listener(result)
    _reports.append(result.report)


def _keep(directory: str, snapshot: bytes, result: Any) -> None:
    """Keeps sources where the user asked for them; what goes wrong there is not worth the fusion."""
    from torchair_autofuse import debug_dir
    from torchair_autofuse.opdef.errors import ArtefactError

    try:
        debug_dir.keep(directory, snapshot, result)
    except (OSError, ArtefactError) as error:
        _warn(Reason("AF103", f"AUTOFUSE_DFX_FLAGS: --debug_dir={directory} cannot be written to: {error}"))


def _deliver_on_host(result: Any, options: Options, snapshot: bytes) -> None:
    """Stores the artefacts of the fused ops and builds their kernels for the CPU twin."""
    from torchair_autofuse.host import kernels
    from torchair_autofuse.opdef import artefact
    from torchair_autofuse.soc.chip import chip

    target = chip(options.soc)
    assert not isinstance(target, Reason)
    root = options.cache_root()
    for made, op in zip(result.generated, result.ops):
        artefact.write(root, made, target, model_def=snapshot, op=op)
    kernels.prepare([made.op_type for made in result.generated], root=root, options=options)


def _kernel_count(snapshot: bytes) -> int:
    from torchair_autofuse.ge.catalogue import kernels
    from torchair_autofuse.ge.infer import infer
    from torchair_autofuse.ge.reader import read

    try:
        return len(kernels(infer(read(snapshot))))
    except Exception:  # the graph itself may be what cannot be read
        return 0


def fusion_context(concrete: Any) -> Any:
    """The symbolic dims, values and aliases of a GeConcreteGraph after its own passes, as a FusionContext."""
    from torchair_autofuse.pipeline import FusionContext

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


def _warn(reason: Reason) -> None:
    """One warning per process and text, at the line of the user's script that led here."""
    text = str(reason)
    if text not in _warned:
        _warned.add(text)
        level = 2
        frame = sys._getframe()
        files = (getattr(sys.modules.get(name), "__file__", None) for name in ("torch", "torchair"))
        ours = (os.path.dirname(__file__), *(os.path.dirname(f) for f in files if f))
        while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
            frame = frame.f_back
            level += 1
        warnings.warn(text, AutofuseWarning, stacklevel=level - 1)
