"""Prints the host side of a fused op for CANN: tiling, inference, and the op's registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchair_autofuse.codegen.names import camel
from torchair_autofuse.codegen.templates import render
from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Kernel
from torchair_autofuse.schedule.tiling import Let, Tree, from_expr, to_cpp
from torchair_autofuse.soc.chip import Chip, chip, soc_names

_GE_NAMES = {
    "f32": "DT_FLOAT", "f16": "DT_FLOAT16", "bf16": "DT_BF16", "f64": "DT_DOUBLE", "i8": "DT_INT8", "u8": "DT_UINT8",
    "i16": "DT_INT16", "u16": "DT_UINT16", "i32": "DT_INT32", "u32": "DT_UINT32", "i64": "DT_INT64",
    "u64": "DT_UINT64", "bool": "DT_BOOL",
}  # fmt: skip


MOST_ELEMENTS = 2**40
"""Of one tensor: larger ones have no room in the memory of any device, and their sizes could overflow in the tiling."""


@dataclass(frozen=True)
class HostPlan:
    """What the host does before a launch. ``fields``: the steps that become tiling data, in order.

    The trees are over the symbols, ``core_num``, ``ub_bytes`` and the steps; ``workspace_bytes`` is what the kernel
    itself needs, ``ub_used`` the bytes of UB it allocates.
    """

    op_type: str
    kernel: Kernel
    npu_arch: int
    steps: tuple[Let, ...]
    fields: tuple[str, ...]
    block_dim: Tree
    tiling_key: Tree
    workspace_bytes: Tree
    ub_used: Tree


@dataclass(frozen=True)
class _Param:
    name: str
    dtype: str
    rank: int
    dims: tuple[str, ...]  # C++; -1 where a symbol it needs is unknown


def op_host_cpp(plan: HostPlan) -> str:
    """op_host.cpp: TilingFunc, InferShape, InferDataType and the OpDef of one fused op.

    Raises TypeError for an output dim that has no C++ form (Min, Max).
    """
    kernel = plan.kernel
    position = {p.name: i for i, p in enumerate(kernel.inputs)}
    sources = [{"name": s.name, "input": position[s.param], "dim": s.dim, "divisor": s.divisor} for s in kernel.symbols]
    return render(
        "op_host.cpp.j2",
        op_type=plan.op_type,
        tiling_part=tiling_part(plan),
        tiling=tiling_struct(kernel),
        inputs=[_param(p.name, p.dtype, p.dims) for p in kernel.inputs],
        outputs=[_param(p.name, p.dtype, p.dims) for p in kernel.outputs],
        symbols=sources,
        sizes=_impossible(kernel),
        most_elements=MOST_ELEMENTS,
        uses_workspace=plan.workspace_bytes != 0,
        readers=sorted({s["input"] for s in sources}, key=str),
        socs=soc_configs(plan.npu_arch),
    )


def _impossible(kernel: Kernel) -> list[str]:
    """C++ conditions under which the sizes are no shapes of tensors: on the symbols of each input, then on outputs."""
    found = []
    for p in kernel.inputs:
        own = [s.name for s in kernel.symbols if s.param == p.name]
        if own:
            single = [f"{name} {bound}" for name in own for bound in ("< 0", "> most")]
            together = [f"1.0 * {' * '.join(own)} > most"] if len(own) > 1 else []
            found.append(" || ".join([*single, *together]))
    for p in kernel.outputs:
        dims = [to_cpp(from_expr(d)) for d in p.dims]
        if any(not isinstance(d, int) for d in p.dims):
            found.append(f"1.0 * {' * '.join(f'({d})' for d in dims)} > most")
    return found


def tiling_part(plan: HostPlan) -> str:
    """The part of op_host.cpp that computes the tiling: plain C++17 that needs tiling.h only."""
    return render(
        "tiling_part.h.j2",
        tiling=tiling_struct(plan.kernel),
        args=[*(s.name for s in plan.kernel.symbols), "core_num", "ub_bytes"],
        steps=[(step.name, to_cpp(step.value)) for step in plan.steps],
        fields=plan.fields,
        results=[to_cpp(t) for t in (plan.block_dim, plan.tiling_key, plan.workspace_bytes, plan.ub_used)],
    )


def tiling_struct(kernel: Kernel) -> str:
    """Name of the tiling struct in tiling.h."""
    return f"{camel(kernel.name)}Tiling"


def soc_configs(npu_arch: int) -> list[str]:
    """The names that AddConfig takes for the chips of an architecture, each once."""
    chips: list[Chip] = [c for c in map(chip, soc_names()) if isinstance(c, Chip) and c.npu_arch == npu_arch]
    return list(dict.fromkeys(c.addconfig for c in chips))


def _param(name: str, dtype: DType, dims: Sequence[Expr]) -> _Param:
    return _Param(name, _GE_NAMES[dtype.name], len(dims), tuple(_dim(d) for d in dims))


def _dim(size: Expr) -> str:
    text = to_cpp(from_expr(size))
    names = sorted(expr.free_symbols(size))
    return f"{' || '.join(f'{n} < 0' for n in names)} ? -1 : {text}" if names else text
