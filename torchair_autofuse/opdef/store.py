"""Definitions on disk: binary (``.pb``) or text (``.textproto``), told apart by the name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.limits import MAX_BYTES
from torchair_autofuse.opdef.schema import message_class

BINARY, TEXT = "op.afop.pb", "op.afop.textproto"
"""File names in an artefact folder."""


def load(path: str | Path) -> Any:
    """The FusedOpDef in a file, or in an artefact folder; see ``validate`` for whether it is a good one.

    Fields that this release does not know are kept, and saved again in the binary form. Raises FileNotFoundError, and
    OpDefError for a file that holds no definition.
    """
    path = Path(path)
    path = path / BINARY if path.is_dir() else path
    op = read_message(path, "FusedOpDef", "an artefact folder or a file *.afop.pb is expected")
    if not op.op_type:
        raise OpDefError("", str(path), "not a FusedOpDef (it has no op_type)")
    return op


def read_message(path: Path, name: str, expected: str) -> Any:
    """The message of a file. Raises FileNotFoundError, and OpDefError for a file that holds something else."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such definition; {expected}")
    if path.stat().st_size > MAX_BYTES:
        raise OpDefError("", str(path), f"not a {name} (more than {MAX_BYTES} bytes)")
    message = message_class(name)()
    try:
        if path.suffix == ".textproto":
            text_format.Parse(path.read_text(encoding="utf-8"), message)
        else:
            message.ParseFromString(path.read_bytes())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise OpDefError("", str(path), f"not a {name} ({error})") from error
    return message


def save(op: Any, path: str | Path) -> None:
    """Writes a definition (or a library), in one step: readers see the old file or the new. The same bytes for the
    same message."""
    path = Path(path)
    data = to_textproto(op).encode() if path.suffix == ".textproto" else to_bytes(op)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def to_bytes(op: Any) -> bytes:
    return bytes(op.SerializeToString(deterministic=True))


def to_textproto(op: Any) -> str:
    """The definition for people and for diffs; reads back to an equal message, but for fields of newer releases."""
    return f"# proto-message: {op.DESCRIPTOR.full_name}\n{text_format.MessageToString(op, as_utf8=True)}"
