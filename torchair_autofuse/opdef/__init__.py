"""Definitions of fused ops (proto/fused_op.proto): the single source of truth of what an op is and how it runs."""

from torchair_autofuse.opdef.build import build
from torchair_autofuse.opdef.check import content_hash, validate
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.generator import generator_digest
from torchair_autofuse.opdef.library import load_library, save_library
from torchair_autofuse.opdef.regenerate import node_attributes, regenerate, retarget
from torchair_autofuse.opdef.store import load, save

__all__ = [
    "ArtefactError", "OpDefError", "build", "content_hash", "generator_digest", "load", "load_library",
    "node_attributes", "regenerate", "retarget", "save", "save_library", "validate",
]  # fmt: skip
