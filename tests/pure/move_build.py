"""GE graphs that move data, for tests: slices, splits, joins and the like in few words, and kernels as short texts."""

from __future__ import annotations

from collections.abc import Sequence

from ge_build import GraphBuilder
from plan_build import Array, kernel_of

from torchair_autofuse.ge.graph import Graph, constant
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.ir import Load
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.lower.finish import Lowered

END = 2**31 - 1


def sliced(b: GraphBuilder, x: str, at: int, begin: int, end: int = END, step: int = 1, name: str = "") -> str:
    """x[begin:end:step] along dim ``at``."""
    bounds = (b.const([v]) for v in (begin, end, at, step))
    return b.op("StridedSliceV2", x, *bounds, name=name)


def split(b: GraphBuilder, x: str, sizes: Sequence[int], at: int, name: str = "") -> list[str]:
    first = b.op("SplitV", x, b.const(list(sizes)), b.const(at), outputs=len(sizes), name=name, num_split=len(sizes))
    return [f"{first[:-2]}:{i}" for i in range(len(sizes))]


def unbound(b: GraphBuilder, x: str, number: int, at: int, name: str = "") -> list[str]:
    first = b.op("Unpack", x, outputs=number, name=name, axis=at, num=number)
    return [f"{first[:-2]}:{i}" for i in range(number)]


def cat(b: GraphBuilder, parts: Sequence[str], at: int, name: str = "") -> str:
    return b.op("ConcatV2", *parts, b.const(at), name=name)


def turned(b: GraphBuilder, x: str, perm: Sequence[int], name: str = "") -> str:
    return b.op("Transpose", x, b.const(list(perm)), name=name)


def reshaped(b: GraphBuilder, x: str, shape: Sequence[int], name: str = "") -> str:
    return b.op("Reshape", x, b.const(list(shape)), name=name)


def padded(b: GraphBuilder, x: str, pairs: Sequence[tuple[int, int]], value: str = "", name: str = "") -> str:
    flat = [n for pair in pairs for n in pair]
    return b.op("PadV3", x, b.const(flat), *([value] if value else []), name=name, mode="constant")


def worked(graph: Graph) -> list[str]:
    """The names of all nodes that are neither inputs, constants nor the output."""
    return [n.name for n in graph.nodes if n.type not in ("Data", "NetOutput", "Shape") and constant(n) is None]


def whole(graph: Graph, *without: str) -> Lowered:
    """The kernel of all nodes of a graph but for some."""
    return kernel_of(graph, *(n for n in worked(graph) if n not in without))


def outputs(lowered: Lowered, graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """What the kernel of a cluster that reads graph inputs alone makes of them, by ``node:index``."""
    verify(lowered.kernel)
    given = {f"{n.name}:0": arrays[n.attrs["index"]] for n in graph.inputs_of_type("Data")}
    found = interpret(lowered.kernel, [given[str(r)] for r in lowered.inputs])
    return {str(r): found[p.name] for p, r in zip(lowered.kernel.outputs, lowered.outputs)}


def transfers(lowered: Lowered) -> list[list[str]]:
    """Per nest its axes, then its loads and stores: ``a0:4 a1:8``, ``in0[8*a0 + a1 + 3]``, ``out0[a0]``."""
    found = []
    for nest in lowered.kernel.nests:
        lines = [" ".join(f"{a.name}:{expr.to_str(a.size)}" for a in nest.axes)]
        for t in (*(v for v in nest.values if isinstance(v, Load)), *nest.stores):
            terms = [a if s == 1 else f"{expr.to_str(s)}*{a}" for a, s in t.strides]
            terms += [expr.to_str(t.offset)] if t.offset != 0 or not terms else []
            lines.append(f"{t.param}[{' + '.join(terms)}]")
        found.append(lines)
    return found
