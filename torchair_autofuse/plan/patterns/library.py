"""The named patterns as they are in the toml files of this folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torchair_autofuse.ge.catalogue import CLASS_OF
from torchair_autofuse.options.grammar import suggestion
from torchair_autofuse.plan.patterns.form import Form, needed_types, root_types
from torchair_autofuse.plan.patterns.parse import Definition, PatternError, parse_graph, parse_head

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

FOLDER = Path(__file__).parent
_FIELDS = ("about", "graph", "example", "inputs", "through")


@dataclass(frozen=True)
class Pattern:
    """A cluster of ops that people have a name for.

    ``name`` is in kebab case and unique; ``family`` the title of its file. ``text``: its graph in the language of
    ``parse``; ``graph``: the same, parsed. ``example``: lines of torch, the last one an expression, whose graph holds
    the pattern; ``inputs``: what the example reads, such as ``"x, y: f32[8,64]; mask: bool[8,64]"``. ``through``: op
    types that matching looks through besides views. ``roots``: op types the last node may have; ``needs``: op types
    without which there is no occurrence.
    """

    name: str
    family: str
    about: str
    text: str
    graph: Form
    example: str
    inputs: str
    through: frozenset[str] = frozenset()

    @cached_property
    def roots(self) -> tuple[str, ...]:
        return tuple(sorted(root_types(self.graph)))

    @cached_property
    def needs(self) -> frozenset[str]:
        return needed_types(self.graph)


@cache
def patterns() -> Mapping[str, Pattern]:
    """All patterns by name, in the order of the files and within them. Raises PatternError."""
    return read_library({path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.toml"))})


def read_library(files: Mapping[str, str]) -> Mapping[str, Pattern]:
    """The patterns of toml texts by file name. Raises PatternError, which names file and pattern."""
    tables = {file: _toml(file, text) for file, text in files.items()}
    definitions: dict[str, Definition] = {}
    for file, table in tables.items():
        for head, body in table.pop("define", {}).items():
            with _Place(file, f"define {head}"):
                name, parameters = parse_head(head)
                if name in definitions:
                    raise PatternError(f"{name} is defined already")
                definitions[name] = Definition(parameters, _text(body, "a definition"))
    found: dict[str, Pattern] = {}
    for file, table in tables.items():
        if not table:
            continue  # definitions alone
        with _Place(file, "family"):
            family = _text(table.pop("family", None), "family")
        for name, fields in table.items():
            with _Place(file, name):
                if name in found:
                    raise PatternError("there is a pattern of this name already")
                found[name] = _pattern(name, family, fields, definitions)
    return MappingProxyType(found)


def _pattern(name: str, family: str, fields: Any, definitions: Mapping[str, Definition]) -> Pattern:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise PatternError("a name is of lower-case words joined by '-'")
    if not isinstance(fields, Mapping):
        raise PatternError(f"expected a table of {', '.join(_FIELDS)}")
    for key in fields:
        if key not in _FIELDS:
            raise PatternError(f"unknown field {key!r}{suggestion(key, _FIELDS)}")
    about, graph, example, inputs = (_text(fields.get(key), key) for key in _FIELDS[:4])
    through = fields.get("through", [])
    if not isinstance(through, list) or not all(t in CLASS_OF for t in through):
        raise PatternError(f"through: expected a list of op types, got {through!r}")
    return Pattern(name, family, about, graph, parse_graph(graph, definitions), example, inputs, frozenset(through))


def _toml(file: str, text: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(text)
        return table
    except ValueError as error:
        raise PatternError(f"{file}: {error}") from None


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise PatternError(f"{what}: expected a text, got {value!r}")
    return value.strip()


class _Place:
    """Puts file and pattern before the text of a PatternError."""

    def __init__(self, file: str, name: str) -> None:
        self._where = f"{file}: {name}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PatternError):
            raise PatternError(f"{self._where}: {error}") from None
