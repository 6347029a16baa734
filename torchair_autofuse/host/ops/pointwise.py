"""What elementwise ops share: operands of one dtype, half types computed in f32 and rounded once, wrapping integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair_autofuse.host.decode import dtype_name
from torchair_autofuse.host.ops.registry import OpCall, op

FLOAT = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INT = frozenset(
    {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64}
)
BOOL = frozenset({torch.bool})
NUMBER = FLOAT | INT
ORDERED = NUMBER - {torch.uint64}  # u64 is computed in the bits of i64, which order and divide differently

# torch's CPU kernels lack the wide unsigned types: two's complement of a wide enough signed type has the same low bits.
_COMPUTE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
}

Body = Callable[..., torch.Tensor]


def up(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in the dtype it is computed in."""
    wide = _COMPUTE.get(tensor.dtype)
    return tensor if wide is None else tensor.to(wide)


def down(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A result in the dtype of the op: floats rounded to nearest even, integers wrapped."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def common_dtype(call: OpCall, tensors: Sequence[torch.Tensor], kinds: frozenset[torch.dtype]) -> torch.dtype:
    """The one dtype of all operands. Raises ValueError if they differ (few ops promote) or the op lacks it."""
    dtype = tensors[0].dtype
    if any(t.dtype != dtype for t in tensors):
        raise ValueError(
            f"operands must have one dtype, got {', '.join(dtype_name(t.dtype) for t in tensors)}: put a Cast in front"
        )
    if dtype not in kinds:
        known = ", ".join(sorted(dtype_name(k) for k in kinds))
        raise ValueError(f"{call.type} does not take {dtype_name(dtype)}; it takes {known}")
    return dtype


def promoted(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Operands of an op whose IR promotes them (Mul, Pow, Sxpy) in their common type, a 0-d tensor counting in full."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return [t.to(dtype) for t in tensors]


def required_attr(call: OpCall, name: str) -> Any:
    """An attribute without a default in the op's IR. Raises ValueError naming it when the node lacks it."""
    if name not in call.attrs:
        raise ValueError(f"required attribute {name} is missing")
    return call.attrs[name]


def one_element(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """A one-element tensor as a 0-d one. Raises ValueError naming it when it has another size."""
    if tensor.numel() != 1:
        raise ValueError(f"{what} must have one element, its shape is {list(tensor.shape)}")
    return tensor.reshape(())


def pointwise(
    *types: str,
    arity: int,
    kinds: frozenset[torch.dtype] = FLOAT,
    broadcast: bool = True,
    scalars: int = 0,
    promotes: frozenset[torch.dtype] = frozenset(),
) -> Callable[[Body], Body]:
    """Registers ``body(call, *operands)`` for GE op types whose output has the dtype of their operands.

    The first ``arity`` inputs are the operands, required and of one dtype out of ``kinds``; the body sees them in the
    compute dtype and its result is rounded to theirs. ``broadcast``: whether their shapes may differ. The last
    ``scalars`` operands are one-element tensors, seen as 0-d. ``promotes``: dtypes among which operands
    may differ; they are brought to the common one first. The body's own name and order of operations are the op's.
    """

    def register(body: Body) -> Body:
        def run(call: OpCall) -> torch.Tensor:
            operands = [call.tensor(i) for i in range(arity)]
            operands = promoted(operands) if all(t.dtype in promotes for t in operands) else operands
            dtype = common_dtype(call, operands, kinds)
            for i in range(arity - scalars, arity):
                operands[i] = one_element(operands[i], f"input {i}")
            if not broadcast:
                require_equal_shapes(operands)
            return down(body(call, *map(up, operands)), dtype)

        run.__module__ = body.__module__  # the family it belongs to
        op(*types)(run)
        return body

    return register


def require_equal_shapes(operands: Sequence[torch.Tensor]) -> None:
    """Raises ValueError when shapes differ: the op is not documented to broadcast."""
    shapes = [list(t.shape) for t in operands]
    if any(s != shapes[0] for s in shapes):
        raise ValueError(f"operands must have equal shapes, got {', '.join(map(str, shapes))}")
