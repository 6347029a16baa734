"""Definitions of fused ops (proto/fused_op.proto): the single source of truth of what an op is and how it runs."""

from torchair_autofuse.opdef.build import build
from torchair_autofuse.opdef.check import content_hash, validate
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.store import load, save

__all__ = [
    "ArtefactError", "OpDefError", "build", "content_hash", "generator_digest", "load", "save", "validate",
]  # fmt: skip
