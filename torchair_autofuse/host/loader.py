"""Makes ``import torchair`` work on a machine without CANN, and tells others when TorchAir has been imported.

The real TorchAir front end inside the installed torch_npu wheel is loaded under its own name ``torchair``; only its
native modules are replaced, by ``host.native``. No file of the wheel is touched. torch_npu itself cannot be imported
without CANN, so it is made to look absent: libraries that probe for it go their CPU way, and TorchAir takes its own
branches for a process without torch_npu. Where CANN is present nothing changes, except that TorchAir's import is
observed.

This module does not import torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torchair_autofuse.messages import AutofuseWarning, Reason
from torchair_autofuse.options.scope import scoped_soc

DEFAULT_SOC = "Ascend910B1"
NATIVE_MODULES = ("_torchair", "_npu_graph_executor", "_npu_utils", "_abi_compat_ge_apis")  # of torchair.core

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_TORCHAIR_IN_WHEEL = Path("torch_npu", "dynamo", "torchair")
# With torch_npu, sys.modules["torchair"] is a lazy proxy whose package is imported under the second name.
_FRONT_ENDS = ("torchair", "torch_npu.dynamo.torchair")
_soc: str | None = None


def soc_name() -> str:
    """The chip graphs are made for on the host: a scope's, set_soc's, TORCHAIR_AUTOFUSE_SOC, else Ascend910B1."""
    return scoped_soc() or _soc or os.environ.get("TORCHAIR_AUTOFUSE_SOC") or DEFAULT_SOC


def set_soc(name: str | None) -> None:
    """Chooses the chip, e.g. "Ascend910B1"; None goes back to the environment. Raises ValueError for an empty name."""
    global _soc
    if name is not None and not name.strip():
        raise ValueError("the SoC name is empty; give one like 'Ascend910B1', or None for the default")
    _soc = name


def cann_present() -> bool:
    """Whether torch_npu can use CANN here: then TorchAir is left alone.

    TORCHAIR_AUTOFUSE_HOST=1 says no and =0 says yes without looking. Otherwise CANN counts as present when its runtime
    library can be loaded as torch_npu would load it, or when there is an NPU (then torch_npu's own error about the
    missing library is what the user needs to see). Raises ValueError for another value of the variable.
    """
    forced = os.environ.get("TORCHAIR_AUTOFUSE_HOST", "").strip()
    if forced not in ("", "0", "1"):
        raise ValueError(f"TORCHAIR_AUTOFUSE_HOST={forced!r}: expected 1 (run on the host), 0 (use CANN) or nothing")
    if forced:
        return forced == "0"
    if "torch_npu" in sys.modules or Path("/dev/davinci_manager").exists():
        return True
    try:
        ctypes.CDLL("libascendcl.so")
    except OSError:
        return False
    return True


def on_torchair_import(callback: Callable[[], None]) -> None:
    """Calls ``callback`` once, after the import of TorchAir's front end is complete; at once if it already is.

    Works on the host and on a device, where ``torchair`` may be a proxy: a callback imports the modules it needs
    (``torchair._ge_concrete_graph.fx2ge_converter``, ...) and finds all of them. An exception from a callback becomes a
    warning, AF302, and is raised only with TORCHAIR_AUTOFUSE_STRICT=1: what we add never breaks ``import torchair``.
    """
    if any(_imported(name) for name in _FRONT_ENDS):
        _call(callback)
    else:
        _callbacks.append(callback)


def on_import(module: str, callback: Callable[[], None]) -> None:
    """Calls ``callback`` once, after the import of ``module`` is complete; at once if it already is. As for TorchAir,
    an exception from it becomes a warning."""
    if _imported(module):
        _call(callback)
    else:
        _watching.setdefault(module, []).append(callback)


def install() -> None:
    """Called by ``import torchair_autofuse``, before torch is imported. A second call does nothing.

    Observes the import of TorchAir; with a torch_npu wheel and without CANN also makes ``import torch`` and
    ``import torchair`` work: it sets TORCH_DEVICE_BACKEND_AUTOLOAD=0 (for child processes too), hides torch_npu from
    the import system and serves torchair from the wheel. Raises ValueError for a bad TORCHAIR_AUTOFUSE_HOST.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    folder = None if cann_present() else _find_wheel()
    if folder is not None:
        os.environ[_AUTOLOAD] = "0"
        _hide_torch_npu()
        on_torchair_import(_patch_host)
    sys.meta_path.insert(0, _Finder(folder))


_callbacks: list[Callable[[], None]] = []
_watching: dict[str, list[Callable[[], None]]] = {}


def _imported(name: str) -> bool:
    """Whether a real module of this name is there and complete (the proxy is no module)."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None) if isinstance(module, ModuleType) else None
    return spec is not None and not getattr(spec, "_initializing", False)


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception as error:
        if os.environ.get("TORCHAIR_AUTOFUSE_STRICT") == "1":
            raise
        reason = Reason("AF302", f"{callback.__module__}.{callback.__qualname__}: {type(error).__name__}: {error}")
        warnings.warn(str(reason), AutofuseWarning, stacklevel=2)


def _call_all() -> None:
    while _callbacks:
        _call(_callbacks.pop(0))


def _call_watching(module: str) -> None:
    for callback in _watching.pop(module, ()):
        _call(callback)


def _patch_host() -> None:
    from torchair_autofuse.host import patches

    patches.apply()


def _find_wheel() -> Path | None:
    """The folder of TorchAir inside an installed torch_npu, or None. Nothing is imported."""
    spec = importlib.machinery.PathFinder.find_spec("torch_npu")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(location).parent / _TORCHAIR_IN_WHEEL
        if (folder / "__init__.py").is_file():
            return folder
    return None


class _WithoutTorchNpu(importlib.machinery.FileFinder):
    """Finds what is in a folder, torch_npu excepted."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        return None if fullname == "torch_npu" else super().find_spec(fullname, target)


def _hide_torch_npu() -> None:
    """Makes find_spec("torch_npu") None and importing it a ModuleNotFoundError.

    A finder on sys.meta_path cannot say "absent", only "ask the next one", and None in sys.modules would make TorchAir
    think that torch_npu is there; so the finder of the folder that holds the wheel is exchanged.
    """
    machinery = importlib.machinery
    kinds: list[tuple[Any, list[str]]] = [
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    ]

    def hook(entry: str) -> _WithoutTorchNpu:
        if not (Path(entry) / _TORCHAIR_IN_WHEEL).is_dir():
            raise ImportError("not a folder with torch_npu", path=entry)
        return _WithoutTorchNpu(entry, *kinds)

    sys.path_hooks.insert(0, hook)
    for entry in list(sys.path_importer_cache):
        if (Path(entry) / _TORCHAIR_IN_WHEEL).is_dir():
            del sys.path_importer_cache[entry]


class _Finder(importlib.abc.MetaPathFinder):
    """Serves torchair and its native modules from ``folder`` (host), or only observes the import of TorchAir (None)."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in _watching:
            return self._watched(fullname, path, target, lambda: _call_watching(fullname))
        if self._folder is None:
            return self._watched(fullname, path, target, _call_all) if fullname in _FRONT_ENDS else None
        if fullname == "torch" and "torch._C" in sys.modules:
            raise ImportError(str(_TORCH_FIRST), name="torch")
        if fullname == "torchair":
            spec = importlib.util.spec_from_file_location(
                fullname, self._folder / "__init__.py", submodule_search_locations=[str(self._folder)]
            )
            return None if spec is None else _after(spec, _call_all, around=_process_state_kept)
        if fullname == "torchair._utils.check_platform":
            return self._watched(fullname, path, target, _patch_platform)
        parent, _, name = fullname.rpartition(".")
        if parent == "torchair.core" and name in NATIVE_MODULES:
            return importlib.machinery.ModuleSpec(fullname, _NativeLoader(), origin="torchair_autofuse.host.native")
        return None

    def _watched(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None, then: Callable[[], None]
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                return _after(spec, then)
        return None


_TORCH_FIRST = Reason(
    "AF403",
    "torch was imported before torchair_autofuse and failed: a torch_npu wheel is installed and CANN is not. It "
    "cannot be imported again in this process: start a new one, with 'import torchair_autofuse' before 'import torch' "
    "or with TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment",
)


def _patch_platform() -> None:
    """TorchAir asks torch_npu whether the chip is an Ascend 950; without torch_npu the chosen SoC answers."""
    module = sys.modules["torchair._utils.check_platform"]
    module.is_arch35 = lambda: soc_name().startswith(("Ascend950", "Ascend910_95"))  # type: ignore[attr-defined]


@contextlib.contextmanager
def _process_state_kept() -> Iterator[None]:
    """Puts back what importing TorchAir changes in the whole process: signal handlers and the logger class."""
    main = threading.current_thread() is threading.main_thread()
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)} if main else {}
    logger_class = logging.getLoggerClass()
    try:
        yield
    finally:
        logging.setLoggerClass(logger_class)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:  # None: not set from Python
                signal.signal(number, handler)


class _NativeLoader(importlib.abc.Loader):
    """Fills a module of torchair.core with the stand-ins of the same native module."""

    def exec_module(self, module: ModuleType) -> None:
        from torchair_autofuse.host import native

        native.populate(module)


def _after(
    spec: importlib.machinery.ModuleSpec,
    then: Callable[[], None],
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> importlib.machinery.ModuleSpec:
    """The spec, with ``then`` called when the module has been executed, inside ``around``."""
    if spec.loader is not None:
        spec.loader = _AfterLoader(spec.loader, then, around)
    return spec


class _AfterLoader(importlib.abc.Loader):
    """Executes a module by its own loader, which it puts back first, and then calls back."""

    def __init__(
        self,
        inner: Any,
        then: Callable[[], None],
        around: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._inner, self._then, self._around = inner, then, around

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        with self._around():
            self._inner.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:  # get_source, get_filename, is_package, ...
        return getattr(self._inner, name)
