"""Names and places in a package: the vendor, files of an op, chips it is for.

The installed tree and its rules are CANN's (public CANN documents and the CMake functions of its package ASC).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchair_autofuse.cache.sweep import PACKAGE
from torchair_autofuse.messages import Reason
from torchair_autofuse.soc.chip import Chip, chip, soc_names

VENDOR = "torchair_autofuse"
"""Vendor of the package. GE looks for ``<folder name>_impl``, so the folder has the same name."""
DEFINITIONS = "afop"
"""Folder of an installed package with the definitions and the manifest."""
MANIFEST = "MANIFEST.json"
INSTALL = "install"
"""Folder below the build folder that CMake installs into."""
TBE = "op_impl/ai_core/tbe"


@dataclass(frozen=True)
class Targets:
    """What a package is for. ``chip``: the one that ops are scheduled for; ``units``: CANN's names of the chip series,
    sorted; ``chips``: every chip of these series, all of one architecture."""

    chip: Chip
    units: tuple[str, ...]
    chips: tuple[Chip, ...]


def targets(socs: Sequence[str]) -> Targets | Reason:
    """Chips by full or short name (``Ascend910B3``, ``ascend910b``); AF306 for an unknown or unsupported one and for
    chips of two architectures. The first is the one that ops are scheduled for."""
    found: list[Chip] = []
    for name in socs:
        one = chip(name)
        if isinstance(one, Reason):
            return one
        found.append(one)
    if not found:
        return Reason("AF306", "no chip is named; expected one such as ascend910b")
    for other in found[1:]:
        if other.npu_arch != found[0].npu_arch:
            first, second = (f"{c.soc} (architecture {c.npu_arch})" for c in (found[0], other))
            return Reason("AF306", f"{first} and {second} need different kernels: build a package for each, each --out")
    units = tuple(sorted({c.addconfig for c in found}))
    known = [c for c in map(chip, soc_names()) if isinstance(c, Chip)]
    return Targets(found[0], units, tuple(c for c in known if c.addconfig in units))


def entry_name(op_type: str) -> str:
    """The name that CANN expects of an op's kernel function and of its files: an underscore before every capital but
    the first, all in lower case; digits start no word (``Conv2DCustom`` -> ``conv2_d_custom``)."""
    return op_type[:1].lower() + re.sub("[A-Z]", lambda m: f"_{m.group().lower()}", op_type[1:])


def package_folder(out: Path) -> Path:
    """Where the package of ``--out`` is: what goes into ASCEND_CUSTOM_OPP_PATH."""
    return out / "vendors" / VENDOR


def default_out(cache_root: str | Path, unit: str) -> Path:
    """The ``--out`` that is looked into when none is named."""
    return Path(cache_root) / PACKAGE / unit


def ops_info(unit: str) -> str:
    """The file, from the package's folder, that tells GE which ops there are for a chip series."""
    return f"{TBE}/config/{unit}/aic-{unit}-ops-info.json"


def proto_library(machine: str) -> str:
    """The library with the ops' registration and inference, from the package's folder."""
    return f"op_proto/lib/linux/{machine}/libcust_opsproto_rt2.0.so"


def tiling_library(machine: str) -> str:
    """The library with the tiling functions, from the package's folder."""
    return f"{TBE}/op_tiling/lib/linux/{machine}/libcust_opmaster_rt2.0.so"


def build_command(unit: str, out: Path, defs: Path | None = None) -> str:
    """The command line that builds a package, to be copied into a shell."""
    words = ["python", "-m", "torchair_autofuse", "build", "--soc", unit]
    words += [] if defs is None else ["--defs", str(defs)]
    return shlex.join([*words, "--out", str(out)])
