"""The message classes of proto/fused_op.proto, made at run time in a descriptor pool of our own.

There is no generated module, so any protobuf from 3.20 to 7 will do, and nothing is added to protobuf's default pool.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from torchair_autofuse.codegen.templates import resource

SCHEMA_VERSION = 1
"""Goes up when older releases would misread a definition. A field that they may ignore does not change it: they keep
what they do not know."""


@cache
def message_class(name: str = "FusedOpDef") -> Any:
    """The class of message ``torchair_autofuse.<name>``. Raises KeyError for a name the schema does not have."""
    descriptor = _pool().FindMessageTypeByName(f"torchair_autofuse.{name}")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return _old_factory().GetPrototype(descriptor)


@lru_cache(maxsize=1)
def _old_factory() -> Any:
    """protobuf before 4.22"""
    return message_factory.MessageFactory(_pool())


@lru_cache(maxsize=1)
def _pool() -> Any:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString((resource("proto") / "fused_op.desc").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool
