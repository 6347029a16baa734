"""The hash of a definition, and every rule that it must keep."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from torchair_autofuse.codegen.names import camel
from torchair_autofuse.loop import expr, parser
from torchair_autofuse.loop.ir import Kernel
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.loop.verify import VerifyError, verify
from torchair_autofuse.lower.finish import content_digest
from torchair_autofuse.opdef.build import ACCUMULATE, ROUNDING
from torchair_autofuse.opdef.check_schedule import NAME, check_schedules
from torchair_autofuse.opdef.definition import kernel_of, read
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.files import sha256
from torchair_autofuse.opdef.limits import check_limits
from torchair_autofuse.opdef.provenance import annotated, subgraph_text
from torchair_autofuse.opdef.schema import SCHEMA_VERSION
from torchair_autofuse.schedule.tiling import CPP_KEYWORDS

_OP_TYPE = re.compile(r"Autofuse((?:[A-Z][a-z]*){1,4})K([0-9a-f]{12})")
_SYMBOL = re.compile(r"s[0-9]{1,4}")
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_MAX_HINT = 1 << 40
_ARGUMENTS = ("workspace", "tiling")  # what a kernel takes beside its params


def content_hash(op: Any) -> str:
    """12 hex digits over what the op computes: params, symbols and body, computed afresh.

    They end the op type. Chip, schedules, names of GE nodes and example sizes do not enter. Raises OpDefError for a
    definition whose kernel cannot be read.
    """
    return content_digest(kernel_of(op))


def validate(op: Any, folder: str | Path | None = None) -> None:
    """Raises OpDefError naming the first field that breaks a rule (docs/definition.md lists them).

    Checked: schema version, sizes of fields, op type, params and sizes, symbols and their sources, the body
    (loop.verify), the hash, numeric limits, provenance, digests, and of each schedule: chip facts, tiling steps, UB
    and cores at sample sizes, buffers. It takes bounded time whatever the definition holds. With ``folder``, the
    digests of the artefacts in it too: ArtefactError for a file that is missing or differs. Whether the schedule is
    the one that the body gives is up to ``regenerate``.
    """
    check_limits(op)
    if op.schema_version != SCHEMA_VERSION:
        raise OpDefError(op.op_type, "schema_version", _version_problem(op.schema_version))
    match = _OP_TYPE.fullmatch(op.op_type)
    if match is None:
        raise OpDefError(op.op_type, "op_type", f"{op.op_type!r} is not Autofuse<Kind>K<12 hex digits>")
    kernel = kernel_of(op)
    _check_sizes(op, kernel)
    _check_body(op, kernel)
    found = content_digest(kernel)
    if op.content_hash != found:
        raise OpDefError(op.op_type, "content_hash", f"{op.content_hash!r}, but the content gives {found!r}")
    if match.group(2) != found:
        raise OpDefError(op.op_type, "op_type", f"ends in {match.group(2)}, but the content gives {found}")
    _check_numeric(op)
    _check_provenance(op, kernel)
    check_schedules(op)
    _check_artefacts(op)
    if folder is not None:
        check_files(op, Path(folder), [a.name for a in op.artefact])


def _version_problem(version: int) -> str:
    known = f"this release reads {SCHEMA_VERSION}"
    if version < SCHEMA_VERSION:
        return f"{version}; {known}: the file was not written by this package, or is damaged"
    return f"{version}; {known}: install the release that wrote it or a later one, or compile the model again"


def check_files(op: Any, folder: Path, names: Iterable[str]) -> None:
    """Raises ArtefactError unless these files of ``folder`` have the digests that ``op`` records."""
    recorded = {a.name: a.sha256 for a in op.artefact}
    for name in names:
        path = folder / name
        if name not in recorded:
            raise ArtefactError(f"{op.op_type}: {folder} has no recorded digest of {name}")
        if not path.is_file():
            raise ArtefactError(f"{op.op_type}: {path} is missing; delete the folder, it is written again")
        if hashlib.sha256(path.read_bytes()).hexdigest() != recorded[name]:
            raise ArtefactError(
                f"{op.op_type}: {path} is not the file that was generated (its SHA-256 differs from the one in "
                "op.afop.pb); delete the folder, it is written again; run.py runs an edited kernel as it stands"
            )


def _check_sizes(op: Any, kernel: Kernel) -> None:
    _check_names(op, "symbol", (s.name for s in op.symbol), set(), _SYMBOL, "one of s0, s1, ...")
    symbols = {s.name for s in op.symbol}
    if not op.output:
        raise OpDefError(op.op_type, "output", "an op has at least one output")
    _check_names(op, "input", (p.name for p in op.input), set())
    _check_names(op, "output", (p.name for p in op.output), {p.name for p in op.input})
    for p, (field, stated) in zip(kernel.params, _stated(op)):
        for k, dim in enumerate(p.dims):
            unknown = sorted(expr.free_symbols(dim) - symbols)
            if unknown:
                raise OpDefError(op.op_type, f"{field}.dim[{k}]", f"symbol {unknown[0]} is not declared")
            if expr.to_str(dim) != stated.dim[k]:
                problem = f"{stated.dim[k]!r} is not in canonical form: {expr.to_str(dim)!r} is"
                raise OpDefError(op.op_type, f"{field}.dim[{k}]", problem)
    for i, s in enumerate(op.symbol):
        if s.input < len(op.input) and s.dim >= len(op.input[s.input].dim):
            rank = len(op.input[s.input].dim)
            raise OpDefError(op.op_type, f"symbol[{i}].dim", f"{s.dim}, but input {s.input} has {rank} dims")
        if s.divisor < 1:
            raise OpDefError(op.op_type, f"symbol[{i}].divisor", f"{s.divisor}: expected at least 1")


def _stated(op: Any) -> list[tuple[str, Any]]:
    """(field, message) of every param."""
    return [(f"{field}[{i}]", p) for field in ("input", "output") for i, p in enumerate(getattr(op, field))]


def _check_names(
    op: Any, field: str, names: Iterable[str], taken: set[str], form: re.Pattern[str] = NAME, what: str = "a name"
) -> None:
    seen = set(taken)
    for i, name in enumerate(names):
        if not form.fullmatch(name) or name in CPP_KEYWORDS or name in _ARGUMENTS:
            raise OpDefError(op.op_type, f"{field}[{i}].name", f"{name!r} is not {what}")
        if name in seen:
            raise OpDefError(op.op_type, f"{field}[{i}].name", f"{name!r} is taken")
        seen.add(name)


def _check_body(op: Any, kernel: Kernel) -> None:
    body = read(op, "body", parser.parse, "\n".join(op.body) + "\n")
    if camel(body.name) != op.op_type:
        raise OpDefError(op.op_type, "body", f"its kernel is called {body.name}")
    if len(body.params) != len(kernel.params):
        raise OpDefError(op.op_type, "body", f"has {len(body.params)} parameters, the op {len(kernel.params)}")
    for (field, _), stated, inside in zip(_stated(op), kernel.params, body.params):
        for name in ("name", "dtype", "dims", "kind"):
            if getattr(stated, name) != getattr(inside, name):
                problem = f"{getattr(stated, name)}, but the body says {getattr(inside, name)}"
                raise OpDefError(op.op_type, f"{field}.{name.removesuffix('s')}", problem)
    if body.symbols != kernel.symbols:
        raise OpDefError(op.op_type, "symbol", f"differ from the kernel's: {', '.join(s.name for s in body.symbols)}")
    try:
        verify(body)
    except VerifyError as error:
        raise OpDefError(op.op_type, "body", str(error)) from error
    canonical = to_text(body, origin=False).splitlines()
    for i, (line, expected) in enumerate(zip_longest(op.body, canonical)):
        if line != expected:
            raise OpDefError(op.op_type, f"body[{i}]", f"{line!r} is not in canonical form: {expected!r} is")


def _check_numeric(op: Any) -> None:
    n = op.numeric
    for name, value in (("accumulate", ACCUMULATE), ("rounding", ROUNDING)):
        if getattr(n, name) != value:
            raise OpDefError(op.op_type, f"numeric.{name}", f"{getattr(n, name)!r}: kernels know {value!r} only")
    if not 0 < n.f32_rtol <= 1e-3:
        raise OpDefError(op.op_type, "numeric.f32_rtol", f"{n.f32_rtol}: expected more than 0, at most 1e-3")
    if not 0 <= n.half_ulps <= 4:
        raise OpDefError(op.op_type, "numeric.half_ulps", f"{n.half_ulps}: expected at most 4")


def _check_provenance(op: Any, kernel: Kernel) -> None:
    p = op.provenance
    seen: set[str] = set()
    symbols = {s.name for s in op.symbol}
    for i, hint in enumerate(p.hint):
        if hint.symbol not in symbols or hint.symbol in seen or not 0 <= hint.value <= _MAX_HINT:
            problem = f"{hint.symbol} = {hint.value}: no such size, or given twice"
            raise OpDefError(op.op_type, f"provenance.hint[{i}]", problem)
        seen.add(hint.symbol)
    for i, node in enumerate(p.node):
        if not node.name or not node.type:
            raise OpDefError(op.op_type, f"provenance.node[{i}]", "has no name or no type")
    if not p.generator.isprintable():
        raise OpDefError(op.op_type, "provenance.generator", f"{p.generator!r} is not one line of text")
    for i, line in enumerate(p.subgraph):
        if "\n" in line:
            raise OpDefError(op.op_type, f"provenance.subgraph[{i}]", "is more than one line")
    annotated(op, kernel)


def _check_artefacts(op: Any) -> None:
    if not re.fullmatch(r"[0-9a-f]{24}", op.generator_digest):
        raise OpDefError(op.op_type, "generator_digest", f"{op.generator_digest!r} is not 24 hex digits")
    seen: set[str] = set()
    for i, a in enumerate(op.artefact):
        if not _FILE.fullmatch(a.name) or a.name in seen:
            raise OpDefError(op.op_type, f"artefact[{i}].name", f"{a.name!r} is not a file name, or is given twice")
        if not re.fullmatch(r"[0-9a-f]{64}", a.sha256):
            raise OpDefError(op.op_type, f"artefact[{i}].sha256", f"{a.sha256!r} is not a SHA-256")
        if a.name == "subgraph.pbtxt" and a.sha256 != sha256(subgraph_text(op)):
            raise OpDefError(op.op_type, "provenance.subgraph", f"is not what artefact[{i}].sha256 is the digest of")
        seen.add(a.name)
