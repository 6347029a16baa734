"""Patches TorchAir: where graphs are rewritten, run and cached.

Hook point: after ``GeConcreteGraph.optimize_graph_without_runtime`` the GE graph is final but for run-time facts; it is
what is compiled just in time, saved by ``cache_compile`` and exported.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
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
        from torchair.core import _backend
        from torchair.inference import _cache_compiler
    except ImportError as error:
        problem = str(error)
    else:
        problem = _drift(converter, compiler, _cache_compiler)
    if problem:
        warn(Reason("AF302", f"{problem}; fusion stays off. Is this torch_npu newer than this plugin?"))
        return
    _wrap(converter.GeConcreteGraph, "optimize_graph_without_runtime", _optimize(converter))
    _wrap(converter.GeConcreteGraph, "__call__", _run)
    _wrap(compiler._NpuFxCompiler, "_gen_compiled_gm", _compile(compiler))
    _wrap(_cache_compiler, "_get_str_options", _cache_key)
    _wrap(converter.GeGraph, "load", _load)
    _wrap(converter, "initialize_graph_engine", _start)
    # Code that TorchAir saved looks the function up where it is defined.
    _backend.initialize_graph_engine = converter.initialize_graph_engine


def _patch_npugraph_ex() -> None:
    """That backend builds no GE graph: whoever uses it with fusion on is told so."""
    compiler = sys.modules[_NPUGRAPH_EX]
    if callable(getattr(getattr(compiler, "_NpuFxCompiler", None), "_gen_compiled_gm", None)):
        _wrap(compiler._NpuFxCompiler, "_gen_compiled_gm", _compile(compiler))
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


def _wrap(owner: Any, name: str, wrapper_of: Callable[[Any], Any]) -> None:
    """Puts ``wrapper_of(original)`` in the place of ``owner.name``, once."""
    original = getattr(owner, name)
    if not getattr(original, "_autofuse", False):
        wrapper: Any = functools.wraps(original)(wrapper_of(original))
        wrapper._autofuse = True
        setattr(owner, name, wrapper)


def _optimize(converter: Any) -> Callable[[Any], Any]:
    options_of, rewrite_it, tell = untraced(active_options), untraced(rewrite), untraced(warn_of)

    def wrapper_of(original: Any) -> Any:
        def optimize_graph_without_runtime(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            options = options_of()
            if options.enabled:
                self._autofuse = True
                rewrite_it(self, converter, options)
            elif options.warnings:  # a misspelt switch leaves fusion off
                tell(options)
            return result

        return optimize_graph_without_runtime

    return wrapper_of


def _run(original: Any) -> Any:
    """Hides the run of a graph compiled with fusion on: what TorchAir does to its inputs would become graphs too."""
    run = untraced(original)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (run if hasattr(self, "_autofuse") else original)(self, *args, **kwargs)

    return __call__


def _compile(compiler: Any) -> Callable[[Any], Any]:
    options_of = untraced(active_options)

    def wrapper_of(original: Any) -> Any:
        @untraced
        def compile_with_fusion(self: Any, *args: Any, **kwargs: Any) -> Any:
            config = getattr(self, "config", None)
            mode = getattr(getattr(config, "mode", None), "value", "max-autotune")
            if compiler.__name__ == _NPUGRAPH_EX:
                mode = "npugraph_ex"
            if mode != "max-autotune":
                warn(Reason("AF303", f"mode {mode!r} builds no GE graph: nothing is fused; use the default mode"))
            return original(self, *args, **kwargs)

        def _gen_compiled_gm(self: Any, *args: Any, **kwargs: Any) -> Any:
            return (compile_with_fusion if options_of().enabled else original)(self, *args, **kwargs)

        return _gen_compiled_gm

    return wrapper_of


def _cache_key(original: Any) -> Any:
    def _get_str_options(options: Any, *args: Any, **kwargs: Any) -> Any:
        text = original(options, *args, **kwargs)
        active = active_options()
        return f"{text}|torchair_autofuse={saved_key(active)}" if active.enabled else text

    return _get_str_options


def _load(original: Any) -> Any:
    prepare = untraced(before_load)

    def load(self: Any, *args: Any, **kwargs: Any) -> Any:
        prepare(self)
        return original(self, *args, **kwargs)

    return load


def _start(original: Any) -> Any:
    """GE reads its op packages when TorchAir initialises it."""
    prepare = untraced(start)

    def initialize_graph_engine(*args: Any, **kwargs: Any) -> Any:
        prepare()
        return original(*args, **kwargs)

    return initialize_graph_engine
