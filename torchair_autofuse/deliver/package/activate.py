"""Finds the package of this process, checks it, and shows it to GE before GE starts.

GE reads ASCEND_CUSTOM_OPP_PATH once, when TorchAir initialises it: a package that is built or named later needs a new
process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchair_autofuse.cache.lease import hold
from torchair_autofuse.cache.locks import locked
from torchair_autofuse.cache.sweep import PACKAGE, package_lock
from torchair_autofuse.deliver.cann import find_cann
from torchair_autofuse.deliver.package.installed import Installed, read_installed
from torchair_autofuse.deliver.package.names import (
    DEFINITIONS,
    MANIFEST,
    VENDOR,
    build_command,
    default_out,
    package_folder,
)
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.soc.chip import Chip, chip

OPP_PATH = "ASCEND_CUSTOM_OPP_PATH"
_CODE = ("kernel.cpp", "tiling.h", "op_host.cpp")


@dataclass(frozen=True)
class ActivePackage:
    """A package that GE will read. ``chip``: what this process plans for; ``rebuild``: the command line that builds
    the package again from the cache; ``digest``: 16 hex digits of its content, for keys of compiled graphs."""

    installed: Installed
    chip: Chip
    rebuild: str
    digest: str

    @property
    def folder(self) -> Path:
        return self.installed.folder

    @property
    def ops(self) -> Mapping[str, Any]:
        """Op type -> definition."""
        return self.installed.ops

    def unavailable(self, ops: Iterable[Any]) -> dict[str, Reason]:
        """Which of these FusedOpDefs the package does not hold as they are defined: op type -> AF501.

        An op is there when what it computes, its schedule, and the code generated for it are the same.
        """
        missing = {}
        for op in ops:
            problem = self._missing(op)
            if problem:
                text = f"{op.op_type} {problem}; build the package again ({self.rebuild}) and start anew"
                missing[str(op.op_type)] = Reason("AF501", text)
        return missing

    def _missing(self, op: Any) -> str:
        held = self.ops.get(op.op_type)
        if held is None:
            return f"is not in the package in {self.folder}"
        content = ("content_hash", "input", "output", "symbol", "body", "numeric")
        if any(getattr(held, name) != getattr(op, name) for name in content):
            return f"is defined otherwise in the package in {self.folder}"
        if _schedule(held, self.chip) != _schedule(op, self.chip):
            return f"is scheduled otherwise in the package in {self.folder}, by {held.provenance.generator}"
        # The text of a kernel has the names of the GE nodes of its first graph: one release makes the same code of it.
        if held.generator_digest != op.generator_digest and _code(held) != _code(op):
            return f"has older code in the package in {self.folder}, by {held.provenance.generator}"
        return ""


def activate(environ: MutableMapping[str, str], options: Options) -> ActivePackage | Reason | None:
    """The package for this process, at the head of ASCEND_CUSTOM_OPP_PATH in ``environ``; None when there is none.

    Looked for in TORCHAIR_AUTOFUSE_PACKAGE, then in ASCEND_CUSTOM_OPP_PATH as it is, then in ``<cache>/package/<chip
    series>``; the first that exists counts. A Reason (AF306, AF502, AF505) says why it is not used; ``environ`` is as
    it was then. Other packages of this plugin leave the variable: two would register the same op types.
    """
    target = chip(options.soc)
    if isinstance(target, Reason):
        return target
    entries = [e for e in environ.get(OPP_PATH, "").split(":") if e]
    place = _find(options, target, entries)
    if place is None:
        return None
    out, folder = place
    if out == default_out(options.cache_root(), target.addconfig):
        _hold(Path(options.cache_root()), out)
    rebuild = build_command(target.addconfig, out, _definitions(options))
    if not folder.exists():
        return Reason("AF502", f"{folder}: there is no package yet; build it with '{rebuild}' and start anew")
    cann = find_cann(environ)
    if isinstance(cann, Reason):
        return cann
    found = read_installed(folder, cann.machine)
    if not isinstance(found, Installed):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return Reason(found[0].code, f"{found[0].text}{more}")
    if found.cann[:2] != cann.version[:2]:
        text = (
            f"{folder}: was built with CANN {found.cann_text}, {cann.home} has {cann.text}; build it again: {rebuild}"
        )
        return Reason("AF502", text)
    if target.addconfig not in found.units:
        text = f"{folder}: is for {', '.join(found.units)}, this process plans for {target.soc} ({target.addconfig})"
        return Reason("AF502", f"{text}; set TORCHAIR_AUTOFUSE_SOC, or build a package for it")
    others = [e for e in entries if Path(e).name != VENDOR]
    environ[OPP_PATH] = ":".join([str(folder), *others])
    digest = hashlib.sha256((folder / DEFINITIONS / MANIFEST).read_bytes()).hexdigest()[:16]
    return ActivePackage(found, target, rebuild, digest)


def record(ops: Sequence[Any], options: Options) -> Reason:
    """AF501 for a run without a package, whose definitions were written to the cache: says what to do next."""
    count = f"{len(ops)} fused op{'s are' if len(ops) != 1 else ' is'}"
    text = (
        f"{count} recorded and not used yet, the graph runs as it was: build the package with '{build_with(options)}'"
    )
    return Reason("AF501", f"{text} and start anew")


def build_with(options: Options) -> str:
    """The command line that builds a package of what is recorded, where this process will look for it."""
    target = chip(options.soc)
    unit = target.addconfig if isinstance(target, Chip) else options.soc
    return build_command(unit, _out(options, unit), _definitions(options))


def _find(options: Options, target: Chip, entries: Sequence[str]) -> tuple[Path, Path] | None:
    """(--out, the package in it); a package that the user named counts even if it is not there."""
    if options.package:
        out = _out(options, target.addconfig)
        return out, package_folder(out)
    for entry in entries:
        if Path(entry).name == VENDOR:
            return Path(entry).parent.parent, Path(entry)
    out = _out(options, target.addconfig)
    return (out, package_folder(out)) if package_folder(out).exists() else None


def _hold(root: Path, out: Path) -> None:
    """Keeps ``cache clear`` from a package in the cache as long as this process lives; to be called before it is read.

    A build, which puts a package in its place in one step, may have the lock for long: it is not waited for.
    """
    with locked(package_lock(out), shared=True, wait=False):
        hold(root, f"{PACKAGE}/{out.name}")


def _out(options: Options, unit: str) -> Path:
    """TORCHAIR_AUTOFUSE_PACKAGE, which may name the package itself too, else the cache's."""
    if not options.package:
        return default_out(options.cache_root(), unit)
    named = Path(os.path.abspath(os.path.expanduser(options.package)))
    return named.parent.parent if named.name == VENDOR and named.parent.name == "vendors" else named


def _definitions(options: Options) -> Path | None:
    """--defs of the next command: nothing where its default is the same folder."""
    return Path(options.cache_root()) / "ops" if options.cache_dir else None


def _schedule(op: Any, target: Chip) -> Any:
    """The schedule for the chip's architecture without what names the chip; it depends on the architecture alone."""
    for schedule in op.schedule:
        if schedule.npu_arch == target.npu_arch:
            plain = type(schedule)()
            plain.CopyFrom(schedule)
            plain.soc, plain.vector_cores = "", 0
            return plain
    return None


def _code(op: Any) -> dict[str, str]:
    return {a.name: a.sha256 for a in op.artefact if a.name in _CODE}
