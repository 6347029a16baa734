"""Many definitions in one file, ``*.afoplib.pb`` (or ``*.afoplib.textproto``), in the order of their op types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchair_autofuse.opdef.check import validate
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.limits import MAX_BYTES
from torchair_autofuse.opdef.schema import SCHEMA_VERSION, message_class
from torchair_autofuse.opdef.store import read_message, save

SUFFIX = ".afoplib.pb"


def save_library(ops: Iterable[Any], path: str | Path) -> None:
    """Writes definitions to a library file: the same bytes for the same definitions in any order.

    Raises OpDefError for a definition that breaks a rule, for two of one op type, and for more than fits in a file
    that can be read back.
    """
    library = message_class("FusedOpLibrary")(schema_version=SCHEMA_VERSION)
    library.op.extend(sorted(ops, key=lambda op: str(op.op_type)))
    _check(library, str(path))
    save(library, path)


def load_library(path: str | Path) -> list[Any]:
    """The definitions of a library file, each valid. Raises FileNotFoundError, and OpDefError naming the field."""
    path = Path(path)
    library = read_message(path, "FusedOpLibrary", f"a file *{SUFFIX} is expected")
    _check(library, str(path))
    return list(library.op)


def _check(library: Any, path: str) -> None:
    if library.schema_version != SCHEMA_VERSION:
        problem = f"{library.schema_version}; this release reads {SCHEMA_VERSION}"
        raise OpDefError(path, "schema_version", problem)
    if library.ByteSize() > MAX_BYTES:
        raise OpDefError(path, "op", f"{library.ByteSize()} bytes; a file holds at most {MAX_BYTES}: make several")
    previous = ""
    for i, op in enumerate(library.op):
        if op.op_type <= previous:
            why = "is given twice" if op.op_type == previous else "is out of order: definitions are sorted by op type"
            raise OpDefError(path, f"op[{i}].op_type", f"{op.op_type!r} {why}")
        previous = op.op_type
        try:
            validate(op)
        except OpDefError as error:
            raise OpDefError(path, f"op[{i}].{error.field}", f"{op.op_type[:100]}: {error.problem}") from error
