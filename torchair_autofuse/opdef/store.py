"""Definitions on disk: binary (``.pb``) or text (``.textproto``), told apart by the name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.schema import message_class

BINARY, TEXT = "op.afop.pb", "op.afop.textproto"
"""File names in an artefact folder."""


def load(path: str | Path) -> Any:
    """The FusedOpDef in a file, or in an artefact folder; see ``validate`` for whether it is a good one.

    Raises FileNotFoundError, and OpDefError for a file that holds no definition.
    """
    path = Path(path)
    path = path / BINARY if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such definition; an artefact folder or a file *.afop.pb is expected")
    op = message_class()()
    try:
        if path.suffix == ".textproto":
            text_format.Parse(path.read_text(encoding="utf-8"), op)
        else:
            op.ParseFromString(path.read_bytes())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise OpDefError("", str(path), f"not a FusedOpDef ({error})") from error
    if not op.op_type:
        raise OpDefError("", str(path), "not a FusedOpDef (it has no op_type)")
    return op


def save(op: Any, path: str | Path) -> None:
    """Writes a definition, in one step: readers see the old file or the new. The same bytes for the same message."""
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
    """The definition for people and for diffs; reads back to an equal message."""
    return f"# proto-message: torchair_autofuse.FusedOpDef\n{text_format.MessageToString(op, as_utf8=True)}"
