"""Whether every fused op of the captured graphs comes back from its definition alone, byte for byte."""

from __future__ import annotations

from typing import Any

from benchmarks import graphs
from benchmarks.captured import case
from benchmarks.section import Section, Settings
from torchair_autofuse.generated import GeneratedOp
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.opdef.files import sha256
from torchair_autofuse.opdef.regenerate import artefact_files, node_attributes
from torchair_autofuse.opdef.schema import message_class
from torchair_autofuse.opdef.store import to_bytes


def run(settings: Settings) -> list[Section]:
    """One row per graph: op types, how many come back, and the first that does not."""
    rows = []
    total = good = 0
    for name in (n for n in graphs.names() if settings.wants(n)):
        result = case(name).result
        first = {op.op_type: (made, op) for made, op in reversed(list(zip(result.generated, result.ops)))}
        nodes = {o.type: o for o in result.model_def.graph[0].op}
        problems = [
            f"{kind}: {why}" for kind, (made, op) in first.items() if (why := difference(made, op, nodes.get(kind)))
        ]
        size = sum(len(to_bytes(op)) for _, op in first.values())
        rows.append((name, len(first), len(first) - len(problems), size, problems[0] if problems else None))
        total, good = total + len(first), good + len(first) - len(problems)
    rows.append(("total", total, good, sum(row[3] for row in rows), None))
    columns = ("graph", "op types", "regenerated", "bytes of definitions", "first difference")
    return [Section("Definitions", columns, tuple(rows), (f"{good} of {total} ops regenerate byte-identically",))]


def difference(made: GeneratedOp, definition: Any, node: Any = None) -> str:
    """How what comes back from the definition's bytes differs from what was generated; "" if it does not.

    ``made``: the first op of its type; ``node``: the OpDef message of it (or another of its type) in the rewritten
    graph.
    """
    op = message_class()()
    op.ParseFromString(to_bytes(definition))
    try:
        files = artefact_files(op)
        attributes = node_attributes(op)
    except OpDefError as error:
        return str(error)
    expected = {
        "kernel.cpp": made.text.kernel_cpp,
        "tiling.h": made.text.tiling_h,
        "loop.txt": to_text(made.lowered.kernel),
    }
    for name, text in expected.items():
        if files[name] != text.encode():
            return f"{name} differs"
    for a in definition.artefact:
        if a.sha256 != sha256(files[a.name].decode()):
            return f"{a.name} differs"
    rule = attributes.get("_inference_rule", "")
    if node is not None and node.attr["_inference_rule"].s.decode() != rule:
        return "_inference_rule differs"
    return ""
