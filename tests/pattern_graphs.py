"""The examples of the named patterns as TorchAir lowers them: pure/golden/pattern_graphs.json.gz.

``pytest tests/host/test_patterns_live.py --update-golden`` captures them anew.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import parse, read
from torchair_autofuse.ge.simplify import simplify

FILE = Path(__file__).parent / "pure" / "golden" / "pattern_graphs.json.gz"


@dataclass(frozen=True)
class Captured:
    """``example`` and ``inputs`` as they were when the graph was captured; ``model_def``: the serialized ModelDef."""

    example: str
    inputs: str
    model_def: bytes

    def graph(self) -> Graph:
        """Inferred and simplified."""
        return simplify(infer(read(parse(self.model_def))))


@cache
def captured() -> dict[str, Captured]:
    """By pattern name."""
    found = json.loads(gzip.decompress(FILE.read_bytes()))
    return {name: Captured(example, inputs, base64.b64decode(data)) for name, (example, inputs, data) in found.items()}


def save(graphs: dict[str, Captured]) -> None:
    text = json.dumps(
        {n: [c.example, c.inputs, base64.b64encode(c.model_def).decode()] for n, c in sorted(graphs.items())}
    )
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
