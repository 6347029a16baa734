"""How large a definition may be: checked before anything in it is read, so that checking it takes bounded time."""

from __future__ import annotations

from typing import Any

from torchair_autofuse.opdef.errors import OpDefError

MAX_BYTES = 64 << 20
"""Of a file that holds one definition or a library of them."""

_ENTRIES = {
    "input": 256, "output": 256, "dim": 16, "symbol": 64, "body": 2048, "schedule": 16, "step": 4096, "field": 4096,
    "buffer": 1024, "value": 256, "artefact": 64, "node": 4096, "hint": 64, "origin": 4096, "subgraph": 1 << 20,
}  # fmt: skip
"""Entries of repeated fields, many times what the largest ops of real models have."""
_LENGTH = {"body": 8192, "value": 16384, "subgraph": 1 << 20}
_OTHER_LENGTH = 1024
"""Characters of a string: of other fields, enough for the name of a GE node."""


def check_limits(op: Any) -> None:
    """Raises OpDefError that names the first field with too many entries or too long a string."""
    size = op.ByteSize()
    if size > MAX_BYTES:
        raise OpDefError(op.op_type[:_OTHER_LENGTH], "size", f"{size} bytes, at most {MAX_BYTES} are expected")
    _walk(op, op, "")


def _walk(op: Any, message: Any, path: str) -> None:
    for descriptor in message.DESCRIPTOR.fields:
        name = descriptor.name
        value, where = getattr(message, name), f"{path}{name}"
        if hasattr(value, "DESCRIPTOR"):
            _walk(op, value, f"{where}.")
        elif isinstance(value, str):
            _length(op, where, name, value)
        elif not isinstance(value, (int, float)):
            if len(value) > _ENTRIES[name]:
                raise OpDefError(_named(op), where, f"{len(value)} entries, at most {_ENTRIES[name]} are expected")
            for i, entry in enumerate(value):
                if isinstance(entry, str):
                    _length(op, f"{where}[{i}]", name, entry)
                else:
                    _walk(op, entry, f"{where}[{i}].")


def _length(op: Any, where: str, name: str, text: str) -> None:
    most = _LENGTH.get(name, _OTHER_LENGTH)
    if len(text) > most:
        raise OpDefError(_named(op), where, f"{len(text)} characters, at most {most} are expected")


def _named(op: Any) -> str:
    return str(op.op_type)[:_OTHER_LENGTH]
