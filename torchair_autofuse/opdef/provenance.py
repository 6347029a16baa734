"""Where a definition came from, and what of it comes back: origins of values, GE nodes. None of it is hashed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf import text_format

from torchair_autofuse.codegen.kernel import node_line
from torchair_autofuse.ge.graph import Node
from torchair_autofuse.loop.ir import Kernel, Nest, Store, Value
from torchair_autofuse.opdef.errors import OpDefError


def fill(op: Any, kernel: Kernel, nodes: Iterable[Node], messages: Mapping[str, Any]) -> None:
    """Records the GE nodes and the origins of the kernel's values.

    ``messages``: OpDef messages of the nodes by name; of a node without one, name and type are kept only.
    """
    lines = [f'name: "{op.op_type}"']
    for node in nodes:
        op.provenance.node.add(name=node.name, type=node.type)
        if node.name in messages:
            body = text_format.MessageToString(messages[node.name], as_utf8=True, indent=2).rstrip("\n")
        else:
            body = f"  name: {json.dumps(node.name)}\n  type: {json.dumps(node.type)}"
        lines += ["op {", *body.split("\n"), "}"]
    op.provenance.subgraph.extend(lines)
    for number, statement in enumerate(_statements(kernel)):
        if statement.origin:
            op.provenance.origin.add(statement=number, node=statement.origin)


def subgraph_text(op: Any) -> str:
    """The replaced nodes as a GraphDef in text form."""
    return "".join(f"{line}\n" for line in op.provenance.subgraph)


def node_lines(op: Any) -> list[str]:
    """What the kernel's header comment says of the GE nodes."""
    return [node_line(n.type, n.name) for n in op.provenance.node]


def annotated(op: Any, kernel: Kernel) -> Kernel:
    """``kernel``, the one of ``op``, with the recorded origins. Raises OpDefError for one of no statement."""
    count = sum(1 for _ in _statements(kernel))
    origins: dict[int, tuple[str, ...]] = {}
    for i, origin in enumerate(op.provenance.origin):
        if origin.statement >= count or origin.statement in origins:
            problem = f"{origin.statement}: the body has {count} values and stores, each with one origin"
            raise OpDefError(op.op_type, f"provenance.origin[{i}].statement", problem)
        origins[origin.statement] = tuple(origin.node)
    at = 0
    nests: list[Nest] = []
    for nest in kernel.nests:
        values, stores = len(nest.values), len(nest.stores)
        nests.append(
            replace(
                nest,
                values=tuple(replace(v, origin=origins.get(at + k, ())) for k, v in enumerate(nest.values)),
                stores=tuple(replace(s, origin=origins.get(at + values + k, ())) for k, s in enumerate(nest.stores)),
            )
        )
        at += values + stores
    return replace(kernel, nests=tuple(nests))


def _statements(kernel: Kernel) -> Iterable[Value | Store]:
    for nest in kernel.nests:
        yield from nest.values
        yield from nest.stores
