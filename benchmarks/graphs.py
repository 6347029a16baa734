"""The captured GE graphs in benchmarks/data/graphs: serialized ModelDefs, manifests and true run-time shapes."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "graphs"


def names(mode: str | None = None, *, gaps: bool = True) -> list[str]:
    """Graph names, sorted; ``mode``: "static", "dynamic" or None for both; ``gaps=False``: none with mock ops."""
    return [n for n, m in sorted(manifests().items()) if mode in (None, m["mode"]) and (gaps or not m["fallback_ops"])]


def model_def(name: str) -> bytes:
    """The serialized ModelDef of a graph."""
    return gzip.decompress((FOLDER / f"{name}.pb.gz").read_bytes())


@cache
def manifests() -> dict[str, dict[str, Any]]:
    """name -> what was recorded at capture: inputs, run inputs, options, symbolic dims (``h1``), ..."""
    return _read("manifests.json.gz")


@cache
def shapes() -> dict[str, dict[str, tuple[list[int], str]]]:
    """name -> {"op:index": (shape, torch dtype name)} as seen at run time."""
    return _read("shapes.json.gz")


def _read(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / file).read_bytes()))
    return found
