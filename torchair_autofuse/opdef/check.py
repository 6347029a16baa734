"""The hash of a definition, and every rule that it must keep."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchair_autofuse.codegen.names import camel
from torchair_autofuse.loop import expr, parser
from torchair_autofuse.loop.verify import VerifyError, verify
from torchair_autofuse.lower.finish import content_digest
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.definition import PLATFORM, Definition, kernel_of, read
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.schema import SCHEMA_VERSION
from torchair_autofuse.schedule.tiling import CPP_KEYWORDS, Op, Tree, Var
from torchair_autofuse.soc.chip import chip

_OP_TYPE = re.compile(r"Autofuse(?:[A-Z][a-z]*)+K([0-9a-f]{12})")
_NAME = re.compile(r"[a-z](?:[A-Za-z0-9_]*[A-Za-z0-9])?")  # of params and steps; a trailing "_" is the generator's own
_SYMBOL = re.compile(r"s[0-9]{1,4}")
_SIZES = (1, 0, 17, 64, 4097)  # of all symbols at once, when bounds are checked


def content_hash(op: Any) -> str:
    """12 hex digits over what the op computes: params, symbols and body, computed afresh.

    They end the op type. Chip, schedules, names of GE nodes and example sizes do not enter. Raises OpDefError for a
    definition whose kernel cannot be read.
    """
    return content_digest(kernel_of(op))


def validate(op: Any, folder: str | Path | None = None) -> None:
    """Raises OpDefError naming the first field that breaks a rule.

    Checked: schema version, op type, params and sizes, symbols and their sources, the body (loop.verify), the hash,
    numeric limits, and of each schedule: chip facts, tiling steps, UB and cores at sample sizes. With ``folder``, the
    digests of the artefacts in it too: ArtefactError for a file that is missing or differs.
    """
    if op.schema_version != SCHEMA_VERSION:
        known = f"this release reads {SCHEMA_VERSION}"
        raise OpDefError(op.op_type, "schema_version", f"{op.schema_version}; {known}")
    match = _OP_TYPE.fullmatch(op.op_type)
    if match is None:
        raise OpDefError(op.op_type, "op_type", f"{op.op_type!r} is not Autofuse<Kind>K<12 hex digits>")
    _check_sizes(op)
    _check_body(op)
    found = content_hash(op)
    if op.content_hash != found:
        raise OpDefError(op.op_type, "content_hash", f"{op.content_hash!r}, but the content gives {found!r}")
    if match.group(1) != found:
        raise OpDefError(op.op_type, "op_type", f"ends in {match.group(1)}, but the content gives {found}")
    if not (0 < op.numeric.f32_rtol <= 1e-3):
        raise OpDefError(op.op_type, "numeric.f32_rtol", f"{op.numeric.f32_rtol}: expected more than 0, at most 1e-3")
    _check_schedules(op)
    _check_artefacts(op)
    symbols = {s.name for s in op.symbol}
    for i, hint in enumerate(op.provenance.hint):
        if hint.symbol not in symbols or hint.value < 0:
            raise OpDefError(op.op_type, f"provenance.hint[{i}]", f"{hint.symbol} = {hint.value}: no such size")
    if folder is not None:
        check_files(op, Path(folder), [a.name for a in op.artefact])


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


def _check_sizes(op: Any) -> None:
    _check_names(op, "symbol", (s.name for s in op.symbol), set(), _SYMBOL, "one of s0, s1, ...")
    symbols = {s.name for s in op.symbol}
    if not op.output:
        raise OpDefError(op.op_type, "output", "an op has at least one output")
    _check_names(op, "input", (p.name for p in op.input), set())
    _check_names(op, "output", (p.name for p in op.output), {p.name for p in op.input})
    for p, field in zip(kernel_of(op).params, _fields(op)):
        for k, dim in enumerate(p.dims):
            unknown = sorted(expr.free_symbols(dim) - symbols)
            if unknown:
                raise OpDefError(op.op_type, f"{field}.dim[{k}]", f"symbol {unknown[0]} is not declared")
    for i, s in enumerate(op.symbol):
        if s.input < len(op.input) and s.dim >= len(op.input[s.input].dim):
            rank = len(op.input[s.input].dim)
            raise OpDefError(op.op_type, f"symbol[{i}].dim", f"{s.dim}, but input {s.input} has {rank} dims")
        if s.divisor < 1:
            raise OpDefError(op.op_type, f"symbol[{i}].divisor", f"{s.divisor}: expected at least 1")


def _fields(op: Any) -> list[str]:
    return [f"{field}[{i}]" for field in ("input", "output") for i in range(len(getattr(op, field)))]


def _check_names(
    op: Any, field: str, names: Iterable[str], taken: set[str], form: re.Pattern[str] = _NAME, what: str = "a name"
) -> None:
    seen = set(taken)
    for i, name in enumerate(names):
        if not form.fullmatch(name) or name in CPP_KEYWORDS:
            raise OpDefError(op.op_type, f"{field}[{i}].name", f"{name!r} is not {what}")
        if name in seen:
            raise OpDefError(op.op_type, f"{field}[{i}].name", f"{name!r} is taken")
        seen.add(name)


def _check_body(op: Any) -> None:
    kernel = kernel_of(op)
    body = read(op, "body", parser.parse, "\n".join(op.body) + "\n")
    if camel(body.name) != op.op_type:
        raise OpDefError(op.op_type, "body", f"its kernel is called {body.name}")
    if len(body.params) != len(kernel.params):
        raise OpDefError(op.op_type, "body", f"has {len(body.params)} parameters, the op {len(kernel.params)}")
    for field, stated, inside in zip(_fields(op), kernel.params, body.params):
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


def _check_schedules(op: Any) -> None:
    if not op.schedule:
        raise OpDefError(op.op_type, "schedule", "there is none")
    socs: set[str] = set()
    for i, s in enumerate(op.schedule):
        field = f"schedule[{i}]"
        facts = chip(s.soc)
        if isinstance(facts, Reason):
            raise OpDefError(op.op_type, f"{field}.soc", facts.text)
        if facts.soc != s.soc or s.soc in socs:
            raise OpDefError(op.op_type, f"{field}.soc", f"{s.soc}: expected the full name of a chip, each once")
        socs.add(s.soc)
        expected = {"npu_arch": facts.npu_arch, "vector_cores": facts.vector_cores, "ub_bytes": facts.ub_bytes}
        for name, value in {**expected, "ub_limit_bytes": facts.ub_plan_bytes}.items():
            if getattr(s, name) != value:
                raise OpDefError(op.op_type, f"{field}.{name}", f"{getattr(s, name)}; {s.soc} has {value}")
        if not s.template:
            raise OpDefError(op.op_type, f"{field}.template", "is empty")
        _check_steps(op, field, Definition(op, s))


def _check_steps(op: Any, field: str, made: Definition) -> None:
    known = {*PLATFORM, *(s.name for s in op.symbol)}
    plan = made.host_plan
    for i, step in enumerate(made.steps):
        if not _NAME.fullmatch(step.name) or step.name in known or step.name in CPP_KEYWORDS:
            raise OpDefError(op.op_type, f"{field}.step[{i}].name", f"{step.name!r} is not a name, or is taken")
        _check_names_of(op, f"{field}.step[{i}].value", step.value, known)
        known.add(step.name)
    for name in ("block_dim", "tiling_key", "workspace_bytes", "ub_used"):
        _check_names_of(op, f"{field}.{name}", getattr(plan, name), known)
    steps = {s.name for s in made.steps}
    for i, name in enumerate(made.fields):
        if name not in steps or name in made.fields[:i]:
            raise OpDefError(op.op_type, f"{field}.field[{i}]", f"{name!r} is no step, or is given twice")
    hints = {h.symbol: h.value for h in op.provenance.hint}
    for size in _SIZES:
        _check_launch(op, field, made, {s.name: size for s in op.symbol})
    _check_launch(op, field, made, {s.name: hints.get(s.name, 64) for s in op.symbol})


def _check_names_of(op: Any, field: str, tree: Tree, known: set[str]) -> None:
    if isinstance(tree, Var) and tree.name not in known:
        raise OpDefError(op.op_type, field, f"{tree.name} is neither a symbol nor an earlier step")
    if isinstance(tree, Op):
        for arg in tree.args:
            _check_names_of(op, field, arg, known)


def _check_launch(op: Any, field: str, made: Definition, symbols: dict[str, int]) -> None:
    at = f" at {', '.join(f'{n} = {v}' for n, v in symbols.items())}" if symbols else ""
    try:
        launch = made.launch(symbols)
    except (ZeroDivisionError, struct.error) as error:
        raise OpDefError(op.op_type, f"{field}.step", f"cannot be evaluated{at}: {error}") from error
    s = made.schedule
    if not 0 <= launch.ub_used <= s.ub_limit_bytes:
        problem = f"{launch.ub_used} bytes{at}, {s.soc} has {s.ub_limit_bytes}"
        raise OpDefError(op.op_type, f"{field}.ub_used", problem)
    if not 1 <= launch.block_dim <= s.vector_cores:
        raise OpDefError(op.op_type, f"{field}.block_dim", f"{launch.block_dim}{at}, {s.soc} has {s.vector_cores}")
    if launch.workspace_bytes < 0 or launch.tiling_key < 0:
        raise OpDefError(op.op_type, f"{field}.workspace_bytes", f"{launch.workspace_bytes}{at}")


def _check_artefacts(op: Any) -> None:
    seen: set[str] = set()
    for i, a in enumerate(op.artefact):
        if Path(a.name).name != a.name or a.name in seen or a.name.startswith("."):
            raise OpDefError(op.op_type, f"artefact[{i}].name", f"{a.name!r} is not a file name, or is given twice")
        if not re.fullmatch(r"[0-9a-f]{64}", a.sha256):
            raise OpDefError(op.op_type, f"artefact[{i}].sha256", f"{a.sha256!r} is not a SHA-256")
        seen.add(a.name)
