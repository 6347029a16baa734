"""``cache``: what is in the cache, and deleting from it while others use it."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torchair_autofuse.cache import built, sweep
from torchair_autofuse.cache.built import Store
from torchair_autofuse.cache.sweep import Unit
from torchair_autofuse.deliver.jit.folder import runtime_digest
from torchair_autofuse.deliver.package.installed import Installed, read_installed
from torchair_autofuse.deliver.package.names import package_folder
from torchair_autofuse.opdef.registry import Found, inspect
from torchair_autofuse.options import read_options
from torchair_autofuse.options.grammar import parse_size
from torchair_autofuse.twin.toolchain import sources_key

_SHOWN_NODES = 3
_UNRECORDED = "not recorded"
_LABELS = {"kernels": "kernels for the CPU twin", "op_host": "host code", "runtime": "runtimes", "pch": "headers"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``list``, ``prune`` and ``clear``, with the options of each."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="what is in the cache (default)")
    prune = actions.add_parser(
        "prune",
        help="delete what is damaged, made by another release or left by dead processes, then down to the limit",
    )
    prune.add_argument(
        "--limit", type=_bytes, metavar="SIZE", help="such as 500MB (default: TORCHAIR_AUTOFUSE_CACHE_LIMIT)"
    )
    prune.add_argument("--older", type=_days, metavar="DAYS", help="also delete what was not used for so many days")
    clear = actions.add_parser("clear", help="delete everything that is not in use")
    clear.add_argument("--yes", action="store_true", help="do not ask")


def main(options: argparse.Namespace) -> int:
    """Runs the action; 1 when it was not done, 2 when the folder is no cache of ours."""
    settings = read_options()
    root = Path(settings.cache_root())
    action = options.action or "list"
    if not root.is_dir() or not any(root.iterdir()):
        print(f"{root}: there is no cache yet")
        return 0
    root = root.resolve()
    if not sweep.is_ours(root):
        text = f"{root} does not look like a cache of torchair_autofuse (no ops/ or twin/ of ours): nothing is done."
        print(f"torchair_autofuse: {text} Is TORCHAIR_AUTOFUSE_CACHE_DIR right?", file=sys.stderr)
        return 2
    if action == "list":
        return _list(root, settings.cache_limit)
    if action == "prune":
        return _prune(root, settings.cache_limit if options.limit is None else options.limit, options.older)
    return _clear(root, options.yes)


# ---- list ---------------------------------------------------------------------------------------------------------


def _list(root: Path, limit: int) -> int:
    from rich.console import Console
    from rich.table import Table

    found = sweep.units(root)
    ops = [u for u in found if u.kind in sweep.FOLDERS]
    console = Console(width=max(120, Console().width), highlight=False, markup=False, emoji=False)
    table = Table("op", "SoC", "template", "size", "last used", "nodes", "state")
    for column in table.columns:
        column.no_wrap = column.header not in ("template", "nodes")
    damaged = []
    for unit in ops:
        state = inspect(unit.path)
        table.add_row(*_row(unit, state))
        if state.problem:
            damaged.append(f"{unit.path.name}: {state.problem.replace(f'{unit.path}/', '').split(';')[0]}")
    if ops:
        console.print(table)
    for line in damaged:
        console.print(line, soft_wrap=True)
    for label, group in _groups(found):
        counts = Counter(_built_state(root, u, full=False) for u in group)
        states = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
        console.print(f"{label}: {len(group)}, {size(sum(u.size for u in group))} ({states})")
    for unit in (u for u in found if u.kind == sweep.PACKAGE):
        text = f"package for {unit.path.name}: {_package_state(unit)}, {size(unit.size)}"
        console.print(text, soft_wrap=True)
    total = sum(u.size for u in found)
    most = size(limit) if limit else "none"
    console.print(f"{root}: {len(ops)} ops, {size(total)} in all, limit {most}", soft_wrap=True)
    return 0


def _row(unit: Unit, found: Found) -> Iterator[str]:
    op = found.op
    yield unit.path.name.split("@")[0] + (" (variant)" if unit.kind == sweep.VARIANTS else "")
    yield ", ".join(found.socs)
    yield ", ".join(s.template for s in op.schedule) if op is not None else ""
    yield size(unit.size)
    yield ago(time.time() - unit.used)
    nodes = [n.name for n in op.provenance.node] if op is not None else []
    more = f", {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
    yield ", ".join(nodes[:_SHOWN_NODES]) + more
    yield found.state


def _groups(found: Sequence[Unit]) -> Iterator[tuple[str, list[Unit]]]:
    for folder, label in _LABELS.items():
        group = [u for u in found if u.name.startswith(f"{sweep.TWIN}/{folder}/")]
        if group:
            yield label, group
    device = [u for u in found if u.kind == sweep.JIT]
    if device:
        yield "built for the device", device


def _package_state(unit: Unit) -> str:
    folder = package_folder(unit.path)
    if not folder.is_dir():
        return "not built yet"
    found = read_installed(folder)
    return f"{len(found.ops)} ops, ok" if isinstance(found, Installed) else found[0].text.replace(f"{folder}/", "")


def _built_state(root: Path, unit: Unit, full: bool) -> str:
    """As ``registry.inspect`` says it; without ``full`` the file itself is not read, only its record."""
    release = built.release_of(unit.path)
    if release and release != (sources_key() if unit.kind == sweep.TWIN else runtime_digest()):
        return "other release"
    if not release:
        return _UNRECORDED
    if full and Store(root, unit.kind, release).problem(unit.name.removeprefix(f"{unit.kind}/")) is not None:
        return "damaged"
    return "ok"


# ---- prune and clear ----------------------------------------------------------------------------------------------


def _prune(root: Path, limit: int, older: float | None) -> int:
    freed = sweep.remove_leftovers(root)
    _say("leftovers of dead processes", None, freed)
    kept = []
    reasons: dict[str, list[Unit]] = {}
    for unit in (u for u in sweep.units(root) if u.kind != sweep.PACKAGE):
        state = inspect(unit.path).state if unit.kind in sweep.FOLDERS else _built_state(root, unit, full=True)
        if older is not None and time.time() - unit.used > older * 86400:
            state = "not used for long" if state == "ok" else state
        if state == "missing":  # somebody deleted it just now
            continue
        if state != "ok" and sweep.remove(root, unit):
            reasons.setdefault(state, []).append(unit)
        else:
            kept.append(unit)
    if limit:
        over = sweep.trim(root, limit, kept)
        kept = [u for u in kept if u not in over]
        if over:
            reasons["over the limit"] = over
    sweep.remove_leftovers(root)
    for reason, units in sorted(reasons.items()):
        _say(reason, len(units), sum(u.size for u in units))
        freed += sum(u.size for u in units)
    total = sum(u.size for u in kept)
    print(f"{root}: freed {size(freed)}, {size(total)} left in {len(kept)} entries")
    if limit and total > limit:
        print(f"That is more than {size(limit)}: running processes use the rest.")
    return 0


def _say(what: str, count: int | None, freed: int) -> None:
    if freed:
        print(f"{what}: {f'{count} entries, ' if count is not None else ''}{size(freed)}")


def _clear(root: Path, yes: bool) -> int:
    total = sum(u.size for u in sweep.units(root))
    if not yes and not _agreed(f"Delete the cache {root} ({size(total)})? [y/N] "):
        print("torchair_autofuse: nothing was deleted; --yes deletes without asking", file=sys.stderr)
        return 1
    freed, left = sweep.clear(root)
    used = sweep.units(root)
    print(f"{root}: freed {size(freed)}")
    if used:
        print(f"{len(used)} entries are used by running processes and stay")
    strange = [p.name for p in left if p.name not in sweep.PARTS]
    if strange:
        print(f"left alone, since no entry of the cache: {', '.join(strange)}")
    return 0


def _agreed(question: str, ask: Callable[[str], str] = input) -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return ask(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


# ---- texts --------------------------------------------------------------------------------------------------------


def size(count: int) -> str:
    """Bytes for people: ``512 B``, ``1.5 MB``."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            break
    return f"{value:.3g} {unit}"


def ago(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "now"


def _bytes(text: str) -> int:
    found = parse_size(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size such as 500MB, 2GiB or a number of bytes")
    return found


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of days, 0 or more")
    return days
