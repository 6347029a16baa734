"""A digest of everything that decides what is generated: the key that old artefacts are told from new ones by."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from torchair_autofuse.codegen.templates import resource
from torchair_autofuse.digests import files_digest

_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = ("codegen", "loop", "lower", "opdef", "schedule", "soc")


@lru_cache(maxsize=1)
def generator_digest() -> str:
    """24 hex digits over the generating sources, chip facts, templates and schema; computed once per process."""
    files = [(f"{f}/{p.name}", p) for f in _FOLDERS for p in (_PACKAGE / f).glob("*") if p.suffix in (".py", ".toml")]
    files.append(("dtypes.py", _PACKAGE / "dtypes.py"))
    templates = resource("op_templates")
    files += [(f"op_templates/{p.relative_to(templates).as_posix()}", p) for p in templates.rglob("*.j2")]
    files.append(("proto", resource("proto") / "fused_op.desc"))
    return files_digest(files)
