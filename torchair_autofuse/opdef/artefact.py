"""The artefact folder of a fused op: everything needed to read it, run it again and mail it to a colleague.

``<cache root>/ops/<op_type>/`` holds kernel.cpp, tiling.h, op_host.cpp, op.afop.pb, op.afop.textproto, loop.txt (the
loop-level IR), schedule.txt, subgraph.pbtxt (the GE nodes it replaces) and run.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchair_autofuse.opdef import registry
from torchair_autofuse.opdef.build import GeneratedOp, build
from torchair_autofuse.opdef.regenerate import artefact_files
from torchair_autofuse.opdef.registry import Stored, is_current
from torchair_autofuse.soc.chip import Chip

__all__ = ["Stored", "is_current", "read", "repaired", "write"]


def write(root: str | Path, generated: GeneratedOp, chip: Chip, op: Any = None, *, cache: bool = True) -> Path:
    """Writes the folder of an op under the cache ``root`` and returns it.

    A folder that is there already stays when it was made by this generator for this chip and all its files are as
    recorded; else it is replaced, and kept among the variants (opdef.registry) when it is another chip's or release's.
    Readers see the old folder or the new one. A damaged one gives a warning AF506. ``op``: its definition,
    None for one without hints and nodes. ``cache``: False for a folder that is the user's. Raises ArtefactError when
    others could write to the folder.
    """

    def files() -> Mapping[str, bytes]:
        return artefact_files(build(generated, chip) if op is None else op, generated.text)

    return registry.put(Path(root), generated.op_type, chip, files, cache=cache)


def read(root: str | Path, op_type: str, soc: str | None = None) -> Stored:
    """The folder of an op, with the kernel sources checked against the definition's digests.

    With ``soc`` the one that this release made for that chip if there is one, else the one in ``ops/``. Raises
    ArtefactError when it is missing or damaged or others could have written to it, OpDefError when its definition
    breaks a rule.
    """
    return registry.read(Path(root), op_type, soc)


def repaired(root: str | Path, op_type: str, soc: str | None = None) -> Stored:
    """:func:`read`; a folder with damaged files is first made again from its definition, with a warning AF506.

    Raises what ``read`` does when the definition is damaged too, or is another release's.
    """
    return registry.read(Path(root), op_type, soc, remake=artefact_files)
