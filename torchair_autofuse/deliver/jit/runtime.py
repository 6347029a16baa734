"""The runtime library (op_templates/runtime): built once per CANN version and machine, loaded once per process."""

from __future__ import annotations

import ctypes
import shutil
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchair_autofuse.cache.safety import CacheError
from torchair_autofuse.codegen.templates import resource
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.jit.command import BuildFailed, run
from torchair_autofuse.deliver.jit.folder import place, runtime_digest, store
from torchair_autofuse.messages import Reason

NAME = "libtorchair_autofuse_rt.so"
_TRY = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


@dataclass(frozen=True)
class Runtime:
    """The library, loaded into this process."""

    path: Path
    library: Any

    def register(self, definition: bytes, binary: Path, soc: str, meets: bool, refreshes: bool) -> str | None:
        """Registers an op with GE, or says why not. ``definition``: a FusedOpDef; ``binary``: its device binary;
        ``soc``: which of its schedules; ``meets``: whether the kernel takes the address where its blocks meet;
        ``refreshes``: whether it is for static graphs only."""
        status = self.library.taf_register(
            definition,
            ctypes.c_size_t(len(definition)),
            str(binary.resolve()).encode(),
            soc.encode(),
            int(meets),
            int(refreshes),
        )
        return None if status == 0 else str(self.library.taf_last_error().decode(errors="replace"))

    def registered(self, op_type: str) -> bool:
        return bool(self.library.taf_registered(op_type.encode()))

    @property
    def refreshes_addresses(self) -> bool:
        """Whether ops for static graphs let GE move their inputs and outputs (CANN 9.2 and later)."""
        return bool(self.library.taf_refreshes_addresses())


def build(cann: Cann, root: Path) -> Path | Reason:
    """The library for ``cann`` in the cache ``root``, built with cmake if it is not there; AF504 when it cannot be.

    A library that was built is loaded by another process first: one that cannot be loaded is a reason, not a crash.
    """
    kept = store(root)
    log = kept.folder / place(cann) / "runtime.log"
    cmake = shutil.which("cmake")

    def make(work: Path) -> Path:
        if cmake is None:
            raise BuildFailed("cmake: command not found; install it (pip install cmake)")
        source, target = str(resource("op_templates") / "runtime"), work / "build"
        commands = [
            [cmake, "-S", source, "-B", str(target), f"-DASCEND_HOME_PATH={cann.home}", "-DCMAKE_BUILD_TYPE=Release"],
            [cmake, "--build", str(target), "--parallel"],
            [sys.executable, "-c", _TRY, str(target / NAME)],
        ]
        run(commands, work, log, {"ASCEND_HOME_PATH": str(cann.home)})
        return target / NAME

    try:
        return kept.once(f"{place(cann)}/rt-{runtime_digest()}/{NAME}", make)
    except BuildFailed as error:
        return Reason("AF504", f"the JIT runtime did not build: {error}; {log} has the whole output")
    except (OSError, CacheError) as error:
        return Reason("AF504", f"the JIT runtime cannot be kept: {error}")


@lru_cache(maxsize=8)
def load(path: Path) -> Runtime | Reason:
    """The library at ``path`` in this process, its symbols global as GE's own are; AF504 when it does not load."""
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        library.taf_last_error.restype = ctypes.c_char_p
        return Runtime(path, library)
    except (OSError, AttributeError) as error:
        return Reason(
            "AF504", f"the JIT runtime does not load: {error}; source CANN's set_env.sh, or delete {path.parent}"
        )
