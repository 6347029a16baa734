"""``inspect``: definitions of fused ops as a person wants to read them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.opdef.check import check_files, content_hash, validate
from torchair_autofuse.opdef.definition import Definition, kernel_of
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.opdef.library import load_library
from torchair_autofuse.opdef.provenance import annotated
from torchair_autofuse.opdef.regenerate import node_attributes, regenerate
from torchair_autofuse.opdef.store import BINARY, load, to_textproto
from torchair_autofuse.schedule.tiling import TilingError

_WIDTH = 100
_LIBRARY = (".afoplib.pb", ".afoplib.textproto")
_SIZES = (1, 17, 4097)  # shown beside the example sizes


@dataclass(frozen=True)
class _Found:
    """A definition, and its artefact folder when it was found in one."""

    op: Any
    folder: Path | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="PATH",
        help="a definition (*.afop.pb, *.afop.textproto), a library (*.afoplib.pb), an op's folder, a folder of these",
    )
    parser.add_argument("--op", default="", metavar="TYPE", help="only ops whose type contains this")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--textproto", action="store_true", help="print the definition itself as text")
    form.add_argument("--kernel", action="store_true", help="print kernel.cpp, regenerated from the definition")
    form.add_argument("--check", action="store_true", help="only say whether it is valid and comes back from itself")


def main(options: argparse.Namespace) -> int:
    """0 when all is well, 1 when a definition breaks a rule or does not come back from itself, 2 when there is none."""
    try:
        found = [f for f in _read(Path(options.path)) if options.op in f.op.op_type]
    except (OpDefError, OSError) as error:
        return _fail(str(error))
    if not found:
        return _fail(f"{options.path}: no definition{f' of a type with {options.op!r}' if options.op else ''} in it")
    if options.textproto:
        for f in found:
            sys.stdout.write(to_textproto(f.op))
        return 0
    if options.kernel:
        return _print_kernels(found)
    console = Console(width=max(_WIDTH, Console().width), highlight=False, markup=False, emoji=False)
    problems = [_problem(f) for f in found]
    if options.check or len(found) > 1:
        _print_list(console, found, problems)
    else:
        _print_one(console, found[0], problems[0])
    return 1 if any(problems) else 0


def _read(path: Path) -> Iterator[_Found]:
    """The definitions at a path. Raises FileNotFoundError, or OpDefError for what holds none."""
    if path.is_dir():
        if (path / BINARY).is_file():
            yield _Found(load(path), path)
            return
        for file in sorted([*path.glob(f"*/{BINARY}"), *path.glob(f"ops/*/{BINARY}")]):  # a cache has ops/
            yield _Found(load(file), file.parent)
        for file in sorted(path.glob("*.afop.pb")):
            yield _Found(load(file))
    elif path.name.endswith(_LIBRARY):
        yield from (_Found(op) for op in load_library(path))
    else:
        yield _Found(load(path), path.parent if path.name == BINARY else None)


def _problem(found: _Found) -> str:
    """What is wrong with a definition, or with the files in its folder, "" if nothing is."""
    op = found.op
    try:
        validate(op)
        regenerate(op)
        if found.folder is not None:
            check_files(op, found.folder, [a.name for a in op.artefact])
    except (OpDefError, ArtefactError) as error:
        return str(error).removeprefix(f"{op.op_type}: ")
    return ""


def _print_kernels(found: Iterable[_Found]) -> int:
    for f in found:
        try:
            validate(f.op)
            print(regenerate(f.op).text.kernel_cpp)
        except OpDefError as error:
            return _fail(str(error))
    return 0


def _print_list(console: Console, found: list[_Found], problems: list[str]) -> None:
    table = Table("op type", "computes", "for", "GE nodes", "state")
    for f, problem in zip(found, problems):
        socs = ", ".join(s.soc for s in f.op.schedule)
        table.add_row(f.op.op_type, _signature(f.op), socs, str(len(f.op.provenance.node)), _state(problem))
    console.print(table)
    for f, problem in zip(found, problems):
        if problem:
            console.print(f"{f.op.op_type}: {problem}", soft_wrap=True)
    good = problems.count("")
    console.print(f"{good} of {len(found)} definitions are valid and regenerate byte-identically")


def _state(problem: str) -> str:
    return "NOT GOOD" if problem else "good"


def _signature(op: Any) -> str:
    """``f32[s0, 64], f16[64] -> f32[s0, 64]``"""
    sides = (", ".join(f"{p.dtype}[{', '.join(p.dim)}]" for p in side) for side in (op.input, op.output))
    return " -> ".join(sides)


def _print_one(console: Console, found: _Found, problem: str) -> None:
    op = found.op
    console.print(f"{op.op_type}   ({(problem and 'NOT GOOD') or 'valid; regenerates byte-identically'})")
    if problem:
        console.print(f"problem: {problem}", soft_wrap=True)
    for part in (_print_params, _print_body, _print_schedules, _print_provenance):
        try:
            part(console, op)
        except (OpDefError, TilingError) as error:  # said above; what can be shown is
            console.print(f"  not shown: {error}", soft_wrap=True)
    _print_digests(console, found)


def _print_params(console: Console, op: Any) -> None:
    made = Definition.of(op)
    example = made.example
    shapes = made.shapes(example)
    table = Table("param", "", "type", "dims", "bytes at example sizes")
    table.columns[4].justify = "right"
    for p in kernel_of(op).params:
        count = p.dtype.itemsize
        for d in shapes[p.name]:
            count *= d
        stated = next(x for x in (*op.input, *op.output) if x.name == p.name)
        table.add_row(p.name, p.kind, p.dtype.name, f"[{', '.join(stated.dim)}]", f"{count:,}")
    console.print(table)
    for s in op.symbol:
        divided = f" / {s.divisor}" if s.divisor != 1 else ""
        console.print(f"  {s.name} = dim {s.dim} of {op.input[s.input].name}{divided}; example {example[s.name]}")


def _print_body(console: Console, op: Any) -> None:
    console.print(f"\nWhat it computes (hash {content_hash(op)}; # from: the GE nodes)")
    console.print(to_text(annotated(op, kernel_of(op))), soft_wrap=True, end="")
    n = op.numeric
    console.print(f"\nNumeric limits: sums in {n.accumulate}, results rounded once ({n.rounding}); a kernel may differ")
    console.print(f"from the IR interpreter by {n.f32_rtol:g} of the largest magnitude in f32, in f16 and bf16")
    console.print(f"by {n.half_ulps} unit in the last place")


def _print_schedules(console: Console, op: Any) -> None:
    for s in op.schedule:
        made = Definition(op, s)
        table = Table("sizes", "cores", "UB bytes", "workspace", "tiling key")
        for column in table.columns[1:]:
            column.justify = "right"
        for sizes in _sample_sizes(made):
            launch = made.launch(sizes)
            at = ", ".join(f"{n}={v}" for n, v in sizes.items()) or "fixed"
            numbers = (launch.block_dim, launch.ub_used, launch.workspace_bytes, launch.tiling_key)
            table.add_row(at, *(f"{n:,}" for n in numbers))
        console.print(f"\n{s.soc} (architecture {s.npu_arch}): {s.template}")
        console.print(f"{s.vector_cores} cores; kernels may take {s.ub_limit_bytes} of {s.ub_bytes} bytes of UB")
        console.print(table)
        buffers = Table(
            "buffer", "layout", "bytes per element", "copies", "holds", title="UB plan", title_justify="left"
        )
        for b in s.buffer:
            holds = ", ".join(dict.fromkeys(b.value)) or "working values"
            buffers.add_row(b.name, b.layout, str(b.itemsize), str(b.copies), holds)
        console.print(buffers)
        values = made.launch(made.example).values
        fields = ", ".join(f"{name}={values[name]}" for name in s.field)
        console.print(f"tiling data at the first sizes: {fields or 'none'}")


def _sample_sizes(made: Definition) -> list[dict[str, int]]:
    example = made.example
    others = [dict.fromkeys(example, size) for size in _SIZES] if example else []
    return [example, *(sizes for sizes in others if sizes != example and made.has_room(sizes))]


def _print_provenance(console: Console, op: Any) -> None:
    nodes = op.provenance.node
    console.print(
        f"\nFrom {len(nodes)} GE node{'s' if len(nodes) != 1 else ''} of the first graph it was generated for"
    )
    names: dict[str, list[str]] = {}
    for n in nodes:
        names.setdefault(n.type, []).append(n.name)
    table = Table("GE op", "number", "nodes")
    for kind, found in names.items():
        shown = ", ".join(found[:8]) + (f", ... {len(found) - 8} more" if len(found) > 8 else "")
        table.add_row(kind, str(len(found)), shown)
    console.print(table)
    rule = node_attributes(op).get("_inference_rule", "none: the op's own inference function is needed")
    console.print(f"GE infers its outputs by _inference_rule {rule}")


def _print_digests(console: Console, found: _Found) -> None:
    op = found.op
    console.print(f"\nGenerated by {op.provenance.generator or 'an unnamed generator'}, digest {op.generator_digest}")
    table = Table("file", "SHA-256", *(("in the folder",) if found.folder else ()))
    for a in op.artefact:
        table.add_row(a.name, a.sha256[:24], *((_file_state(op, found.folder, a.name),) if found.folder else ()))
    console.print(table)


def _file_state(op: Any, folder: Path, name: str) -> str:
    try:
        check_files(op, folder, [name])
    except ArtefactError:
        return "changed" if (folder / name).is_file() else "missing"
    return "as recorded"


def _fail(text: str) -> int:
    print(f"torchair_autofuse: inspect: {text}", file=sys.stderr)
    return 2
