"""The rules of a definition's schedules: chip facts, tiling steps, launches at sample sizes, buffers."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.definition import LAUNCH, MAX_ELEMENTS, PLATFORM, Definition
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.schedule.program import Layout
from torchair_autofuse.schedule.tiling import CPP_KEYWORDS, Op, TilingError, Tree, Var, to_cpp
from torchair_autofuse.soc.chip import chip

NAME = re.compile(r"[a-z](?:[A-Za-z0-9_]*[A-Za-z0-9])?")  # of params and steps; a trailing "_" is the generator's own
_BUFFER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LAYOUTS = (*(layout.value for layout in Layout), "once")
_SIZES = (1, 0, 17, 64, 4097)  # of all symbols at once, when bounds are checked
_RESULTS = ("block_dim", "tiling_key", "workspace_bytes", "ub_used")


def check_schedules(op: Any) -> None:
    """Raises OpDefError naming the first field of a schedule that breaks a rule."""
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
        if not re.fullmatch(r"[a-z_]+(?:, [a-z_]+)*", s.template):
            problem = f"{s.template!r}: expected names of templates, it is empty or holds something else"
            raise OpDefError(op.op_type, f"{field}.template", problem)
        made = Definition(op, s)
        _check_steps(op, field, made)
        _check_launches(op, field, made)
        _check_buffers(op, field, s)


def _check_steps(op: Any, field: str, made: Definition) -> None:
    known = {*PLATFORM, *(s.name for s in op.symbol)}
    plan = made.host_plan
    for i, step in enumerate(made.steps):
        if not NAME.fullmatch(step.name) or step.name in known or step.name in CPP_KEYWORDS:
            raise OpDefError(op.op_type, f"{field}.step[{i}].name", f"{step.name!r} is not a name, or is taken")
        _check_tree(op, f"{field}.step[{i}].value", step.value, known, made.schedule.step[i].value)
        known.add(step.name)
    for name in _RESULTS:
        _check_tree(op, f"{field}.{name}", getattr(plan, name), known, getattr(made.schedule, name))
    steps = {s.name for s in made.steps}
    for i, name in enumerate(made.fields):
        if name not in steps or name in made.fields[:i]:
            raise OpDefError(op.op_type, f"{field}.field[{i}]", f"{name!r} is no step, or is given twice")


def _check_tree(op: Any, field: str, tree: Tree, known: set[str], text: str) -> None:
    _check_names(op, field, tree, known)
    if to_cpp(tree) != text:
        raise OpDefError(op.op_type, field, f"{text!r} is not in canonical form: {to_cpp(tree)!r} is")


def _check_names(op: Any, field: str, tree: Tree, known: set[str]) -> None:
    if isinstance(tree, Var) and tree.name not in known:
        raise OpDefError(op.op_type, field, f"{tree.name} is neither a symbol nor an earlier step")
    if isinstance(tree, Op):
        for arg in tree.args:
            _check_names(op, field, arg, known)


def _check_launches(op: Any, field: str, made: Definition) -> None:
    problem = _impossible(made, made.example)
    if problem is not None:
        at = "provenance.hint" if op.provenance.hint else problem[0]
        raise OpDefError(op.op_type, at, f"{problem[1]}{_at(made.example)}")
    for symbols in (*({s.name: size for s in op.symbol} for size in _SIZES), made.example):
        if _impossible(made, symbols) is None:
            _check_launch(op, field, made, symbols)


def _impossible(made: Definition, symbols: Mapping[str, int]) -> tuple[str, str] | None:
    """(field, why) no call has these sizes: a dim below 0, or a tensor of more elements than there can be."""
    shapes = made.shapes(symbols)
    for i, p in enumerate(made.kernel.params):
        k = i - len(made.kernel.inputs)
        field = f"output[{k}]" if k >= 0 else f"input[{i}]"
        if min(shapes[p.name], default=0) < 0:
            return f"{field}.dim", f"{p.name} has the shape {list(shapes[p.name])}"
        if math.prod(shapes[p.name]) > MAX_ELEMENTS or any(d > MAX_ELEMENTS for d in shapes[p.name]):
            return f"{field}.dim", f"{p.name} has the shape {list(shapes[p.name])}, more than 2^40 elements"
    return None


def _check_launch(op: Any, field: str, made: Definition, symbols: Mapping[str, int]) -> None:
    at, s = _at(symbols), made.schedule
    try:
        launch = made.launch(symbols)
    except TilingError as error:
        name = error.step.removeprefix(LAUNCH)
        steps = {step.name: f"step[{i}].value" for i, step in enumerate(s.step)}
        where = name if error.step != name else steps[name]
        raise OpDefError(op.op_type, f"{field}.{where}", f"cannot be evaluated{at}: {error.problem}") from error
    except struct.error as error:
        raise OpDefError(op.op_type, f"{field}.field", f"is no tiling data{at}: {error}") from error
    if not 0 <= launch.ub_used <= s.ub_limit_bytes:
        problem = f"{launch.ub_used} bytes{at}, {s.soc} has {s.ub_limit_bytes}"
        raise OpDefError(op.op_type, f"{field}.ub_used", problem)
    if not 1 <= launch.block_dim <= s.vector_cores:
        raise OpDefError(op.op_type, f"{field}.block_dim", f"{launch.block_dim}{at}, {s.soc} has {s.vector_cores}")
    if not 0 <= launch.workspace_bytes <= MAX_ELEMENTS:
        raise OpDefError(op.op_type, f"{field}.workspace_bytes", f"{launch.workspace_bytes}{at}")
    if not 0 <= launch.tiling_key < 1 << 31:
        raise OpDefError(op.op_type, f"{field}.tiling_key", f"{launch.tiling_key}{at}")


def _at(symbols: Mapping[str, int]) -> str:
    return f" at {', '.join(f'{n} = {v}' for n, v in symbols.items())}" if symbols else ""


def _check_buffers(op: Any, field: str, s: Any) -> None:
    params = {p.name for p in (*op.input, *op.output)}
    seen: set[str] = set()
    for i, b in enumerate(s.buffer):
        where = f"{field}.buffer[{i}]"
        if not _BUFFER.fullmatch(b.name) or b.name in seen:
            raise OpDefError(op.op_type, f"{where}.name", f"{b.name!r} is not a name, or is given twice")
        seen.add(b.name)
        if b.layout not in _LAYOUTS:
            raise OpDefError(op.op_type, f"{where}.layout", f"{b.layout!r} is not one of {', '.join(_LAYOUTS)}")
        if not 1 <= b.itemsize <= s.ub_limit_bytes:
            raise OpDefError(op.op_type, f"{where}.itemsize", f"{b.itemsize}: expected 1 to {s.ub_limit_bytes} bytes")
        if not 1 <= b.copies <= 2:
            raise OpDefError(op.op_type, f"{where}.copies", f"{b.copies}: expected 1, or 2 for double buffering")
        unknown = [v for v in b.value if v not in params]
        if unknown and b.layout != "once":
            raise OpDefError(op.op_type, f"{where}.value", f"{unknown[0]!r} is no parameter")
