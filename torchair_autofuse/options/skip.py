"""The skip list named by ``--skip_node_names_cfg``: nodes and op types the user keeps out of every fusion.

[ByNodeName]
Add_12          # one name per line
[ByNodeType]
SoftmaxV2
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from torchair_autofuse.messages import Reason
from torchair_autofuse.options.grammar import clip, suggestion

_SECTIONS = {"bynodename": "ByNodeName", "bynodetype": "ByNodeType"}


@dataclass(frozen=True)
class SkipList:
    """What a skip list holds; ``warnings`` are AF107, one per thing that is wrong with the file."""

    nodes: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    warnings: tuple[Reason, ...] = ()


def read_skip_list(path: str) -> SkipList:
    """Reads a skip list. Never raises: what cannot be read is left out and reported."""
    shown = clip(path)
    try:
        full = os.path.expanduser(path)
        if not os.path.isfile(full):
            state = "is not a file" if os.path.exists(full) else "does not exist"
            return SkipList(warnings=(Reason("AF107", f"skip list {shown} {state}; no node is skipped"),))
        with open(full, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a path no file can have
        return SkipList(warnings=(Reason("AF107", f"skip list {shown} cannot be read: {error}; no node is skipped"),))
    return _parse(lines, shown)


def _parse(lines: list[str], shown: str) -> SkipList:
    found: dict[str, list[str]] = {"bynodename": [], "bynodetype": []}
    warnings: list[Reason] = []
    section: str | None = None
    reported = False  # one warning for all the entries of a bad section
    for number, line in enumerate(lines, 1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        if entry.startswith("[") and entry.endswith("]"):
            title = entry[1:-1].strip()
            section, reported = title.lower(), False
            if section not in found:
                section, reported = None, True
                hint = suggestion(title, _SECTIONS)
                for lower, name in _SECTIONS.items():
                    hint = hint.replace(lower, name)
                hint = hint or " (expected [ByNodeName] or [ByNodeType])"
                warnings.append(
                    Reason("AF107", f"skip list {shown}, line {number}: unknown section {clip(entry)}{hint}")
                )
        elif section is not None:
            found[section].append(entry)
        elif not reported:
            reported = True
            text = f"skip list {shown}, line {number}: {clip(entry)} is in no section; put it below [ByNodeName]"
            warnings.append(Reason("AF107", text + " or [ByNodeType]"))
    return SkipList(frozenset(found["bynodename"]), frozenset(found["bynodetype"]), tuple(warnings))
