"""Patches TorchAir: where graphs are rewritten, run and cached.

Hook point: after ``GeConcreteGraph.optimize_graph_without_runtime`` the GE graph is final but for run-time facts; it is
what is compiled just in time, saved by ``cache_compile`` and exported.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from torchair_autofuse.host import loader
from torchair_autofuse.host.untraced import untraced
from torchair_autofuse.messages import Reason
from torchair_autofuse.plugin.device import before_load, saved_key, start
from torchair_autofuse.plugin.rewrite import rewrite
from torchair_autofuse.plugin.state import active_options, warn, warn_of

_NPUGRAPH_EX = "npugraph_ex.npu_fx_compiler"  # the backend that stays in FX, a package of its own in torch_npu


def install() -> None:
    """Arranges for TorchAir to be patched as soon as it is imported; a second call changes nothing."""
    loader.on_torchair_import(_patch)
    loader.on_import(_NPUGRAPH_EX, _patch_npugraph_ex)


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
        warn(Reason("AF302", f"{problem}; fusion stays off. Is this torch_npu newer than this plugin?"))
        return
    _wrap_optimize(converter)
    _wrap_run(converter)
    _wrap_compiler(compiler)
    _wrap_cache_key(_cache_compiler)
    _wrap_load(converter.GeGraph)
    _wrap_start(converter)


def _patch_npugraph_ex() -> None:
    """That backend builds no GE graph: whoever uses it with fusion on is told so."""
    compiler = sys.modules[_NPUGRAPH_EX]
    if callable(getattr(getattr(compiler, "_NpuFxCompiler", None), "_gen_compiled_gm", None)):
        _wrap_compiler(compiler)
    else:
        warn(Reason("AF302", f"{_NPUGRAPH_EX}._NpuFxCompiler._gen_compiled_gm is gone; that backend fuses nothing"))


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
    if not callable(getattr(getattr(converter, "GeGraph", None), "load", None)):
        return "GeGraph.load is gone"
    if not callable(getattr(converter, "initialize_graph_engine", None)):
        return "fx2ge_converter.initialize_graph_engine is gone"
    return ""


def _wrap_optimize(converter: Any) -> None:
    original = converter.GeConcreteGraph.optimize_graph_without_runtime
    if getattr(original, "_autofuse", False):
        return
    options_of, rewrite_it, tell = untraced(active_options), untraced(rewrite), untraced(warn_of)

    @functools.wraps(original)
    def optimize_graph_without_runtime(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        options = options_of()
        if options.enabled:
            self._autofuse = True
            rewrite_it(self, converter, options)
        elif options.warnings:  # a misspelt switch leaves fusion off
            tell(options)
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
            warn(Reason("AF303", f"mode {mode!r} builds no GE graph: nothing is fused; use the default mode"))
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
        return f"{text}|torchair_autofuse={saved_key(active)}"

    _get_str_options._autofuse = True  # type: ignore[attr-defined]
    cache_compiler._get_str_options = _get_str_options


def _wrap_load(graph_class: Any) -> None:
    original = graph_class.load
    if getattr(original, "_autofuse", False):
        return
    prepare = untraced(before_load)

    @functools.wraps(original)
    def load(self: Any, *args: Any, **kwargs: Any) -> Any:
        prepare(self)
        return original(self, *args, **kwargs)

    load._autofuse = True  # type: ignore[attr-defined]
    graph_class.load = load


def _wrap_start(converter: Any) -> None:
    """GE reads its op packages when TorchAir initialises it. Code that TorchAir saved looks the function up where it is
    defined."""
    from torchair.core import _backend

    original = converter.initialize_graph_engine
    if getattr(original, "_autofuse", False):
        return
    prepare = untraced(start)

    @functools.wraps(original)
    def initialize_graph_engine(*args: Any, **kwargs: Any) -> Any:
        prepare()
        return original(*args, **kwargs)

    initialize_graph_engine._autofuse = True  # type: ignore[attr-defined]
    converter.initialize_graph_engine = _backend.initialize_graph_engine = initialize_graph_engine
