"""The files of a custom-op project for CANN: a function of definitions, chips and this release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchair_autofuse.codegen.templates import render
from torchair_autofuse.deliver.package.names import DEFINITIONS, INSTALL, MANIFEST, VENDOR, Targets, entry_name
from torchair_autofuse.opdef.build import version
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.regenerate import regenerate, retarget
from torchair_autofuse.opdef.store import to_bytes, to_textproto
from torchair_autofuse.soc.chip import Chip

SCHEMA = 1
"""Version of MANIFEST.json."""
_SIZES = (1, 0, 17, 64, 4097)  # of all symbols at once, when a schedule is tried on a chip
_TEMPLATES = {
    "CMakeLists.txt": "CMakeLists.txt.j2",
    "CMakePresets.json": "CMakePresets.json.j2",
    "build.sh": "build.sh.j2",
    "op_host/CMakeLists.txt": "op_host_cmake.txt.j2",
    "op_kernel/CMakeLists.txt": "op_kernel_cmake.txt.j2",
}


@dataclass(frozen=True)
class _Op:
    op_type: str
    entry: str
    content_hash: str


def project(ops: Sequence[Any], targets: Targets) -> dict[str, bytes]:
    """Path -> content of every file, MANIFEST.json among them. The same input gives the same bytes.

    ``ops``: FusedOpDefs, each op type once; those that this release has not scheduled for the architecture are
    scheduled anew. Raises OpDefError naming a definition that cannot be used on one of the chips.
    """
    files: dict[str, bytes] = {}
    named: list[_Op] = []
    for recorded in sorted(ops, key=lambda op: str(op.op_type)):
        op = for_targets(recorded, targets)
        made = regenerate(op)
        entry = made.text.entry
        if entry_name(op.op_type) != entry:
            problem = f"CANN looks for a kernel {entry_name(op.op_type)}, this one is {entry}"
            raise OpDefError(op.op_type, "op_type", problem)
        named.append(_Op(op.op_type, entry, op.content_hash))
        # Kernels of all ops may be installed side by side, so the header has the op's name.
        header = f"{entry}_tiling.h"
        files |= {
            f"op_def/{entry}.afop.pb": to_bytes(op),
            f"op_def/{entry}.afop.textproto": to_textproto(op).encode(),
            f"op_host/{entry}/{entry}_host.cpp": _including(
                made.op_host_cpp, f"../../op_kernel/{entry}/{header}"
            ).encode(),
            f"op_kernel/{entry}/{entry}.cpp": _including(made.text.kernel_cpp, header).encode(),
            f"op_kernel/{entry}/{header}": made.text.tiling_h.encode(),
        }
    context = {"ops": named, "units": targets.units, "vendor": VENDOR, "install": INSTALL, "definitions": DEFINITIONS}
    for path, template in _TEMPLATES.items():
        files[path] = render(f"package/{template}", **context).encode()
    files[MANIFEST] = _manifest(named, targets, files)
    return dict(sorted(files.items()))


def for_targets(op: Any, targets: Targets) -> Any:
    """The definition with one schedule, that of the targets' architecture, tried at sample sizes on each of its chips.

    A schedule depends on the architecture alone; cores and UB enter its tiling when the op runs.
    """
    kept = op
    if [s.npu_arch for s in op.schedule] != [targets.chip.npu_arch] or op.generator_digest != generator_digest():
        kept = retarget(op, targets.chip)
    for one in targets.chips:
        _check_on(kept, one)
    return kept


def _check_on(op: Any, on: Chip) -> None:
    made = Definition.of(op)
    for size in _SIZES:
        launch = made.launch({s.name: size for s in op.symbol}, on.vector_cores, on.ub_bytes)
        if not 1 <= launch.block_dim <= on.vector_cores:
            problem = f"{launch.block_dim} blocks at sizes of {size}, {on.soc} has {on.vector_cores} cores"
            raise OpDefError(op.op_type, "schedule[0].block_dim", problem)
        if launch.ub_used > on.ub_plan_bytes:
            problem = f"{launch.ub_used} bytes at sizes of {size}, {on.soc} has {on.ub_plan_bytes}"
            raise OpDefError(op.op_type, "schedule[0].ub_used", problem)


def _including(text: str, header: str) -> str:
    line = '#include "tiling.h"\n'
    if text.count(line) != 1:
        raise ValueError(f"expected one line {line.strip()} in generated source")
    return text.replace(line, f'#include "{header}"\n')


def _manifest(ops: Sequence[_Op], targets: Targets, files: Mapping[str, bytes]) -> bytes:
    content = {
        "schema": SCHEMA,
        "vendor": VENDOR,
        "producer": f"torchair_autofuse {version()}",
        "generator_digest": generator_digest(),
        "npu_arch": targets.chip.npu_arch,
        "units": list(targets.units),
        "ops": {op.op_type: {"entry": op.entry, "content_hash": op.content_hash} for op in ops},
        "files": {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())},
    }
    return (json.dumps(content, indent=1) + "\n").encode()
