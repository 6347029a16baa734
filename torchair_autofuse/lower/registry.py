"""How GE ops become loop IR: one ``Rule`` per op type, registered by the family files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from torchair_autofuse.dtypes import BF16, F16, F32, DType
from torchair_autofuse.ge.graph import Node, TensorInfo
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.messages import Reason


@dataclass(frozen=True)
class OpView:
    """A GE node with what inference knows of its tensors. All infos have dtype and shape when a rule sees them."""

    node: Node
    inputs: tuple[TensorInfo | None, ...]  # None: absent optional input
    outputs: tuple[TensorInfo, ...]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attrs.get(name, default)

    def dtype(self, i: int) -> DType:
        """dtype of input ``i``; call only for inputs that are present and known."""
        info = self.inputs[i]
        assert info is not None and info.dtype is not None
        return info.dtype

    def out_dtype(self, i: int = 0) -> DType:
        dtype = self.outputs[i].dtype
        assert dtype is not None
        return dtype

    def scalar(self, i: int) -> int | float | bool | None:
        """The value of input ``i`` if it is a known constant with one element, else None."""
        info = self.inputs[i] if i < len(self.inputs) else None
        if info is None or info.value is None or len(info.value) != 1:
            return None
        value = info.value[0]
        return value if isinstance(value, (int, float, bool)) else None

    def ints(self, i: int) -> tuple[Any, ...] | None:
        """The elements of small integer input ``i`` (ints or sympy expressions), or None if unknown."""
        info = self.inputs[i] if i < len(self.inputs) else None
        return None if info is None else info.value


@dataclass(frozen=True)
class Val:
    """An SSA value under construction: its name in the kernel and its dtype."""

    name: str
    dtype: DType


class Emitter:
    """What a rule may emit. Implemented by lower.build; equal nodes are shared (hash-consed)."""

    def op(self, name: str, *args: Val) -> Val:
        """A Pointwise of loop.ops; the dtype follows from the op and its arguments."""
        raise NotImplementedError

    def const(self, value: float | int | bool, dtype: DType = F32) -> Val:
        raise NotImplementedError

    def cast(self, value: Val, dtype: DType, mode: str = "rint") -> Val:
        """A conversion; the value itself when it has that dtype already."""
        raise NotImplementedError

    def reduce(self, combiner: str, *args: Val) -> tuple[Val, ...]:
        """A Reduce of loop.ops over the reduced dims of the node being lowered; one value per component.

        The results vary over the other dims only. Float arguments are f32.
        """
        raise NotImplementedError

    def count(self) -> Val:
        """The number of elements that one reduction of the node takes in, as f32 (exact below 2^24)."""
        raise NotImplementedError


def compute_dtype(dtype: DType) -> DType:
    """The type arithmetic on ``dtype`` is done in: fp16 and bf16 are raised to fp32 (docs/numerics.md)."""
    return F32 if dtype in (F16, BF16) else dtype


@dataclass(frozen=True)
class IndexSpec:
    """How an op with a reduction sees its tensors.

    ``dims`` are the sizes of a common refinement of the dims of input 0 (its shape, or finer: group norm splits the
    channels), ``reduced`` the positions in it that are reduced over. ``inputs`` gives for each data input, ``outputs``
    for each output, one tuple per dim of that tensor: the positions in ``dims`` whose row-major product the dim is,
    ``()`` for a dim of size one.
    """

    dims: tuple[Expr, ...]
    reduced: tuple[int, ...]
    inputs: Mapping[int, tuple[tuple[int, ...], ...]]
    outputs: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class Permute:
    """Dim ``k`` of the result is dim ``perm[k]`` of the operand."""

    perm: tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """Result ``k`` is a window of the operand: ``starts[k]`` and ``steps[k]`` per dim of the operand.

    Its sizes are the result's dims; a result lacks the dim ``dropped``, whose window has one element.
    """

    starts: tuple[tuple[Expr, ...], ...]
    steps: tuple[tuple[int, ...], ...]
    dropped: int | None = None


@dataclass(frozen=True)
class Join:
    """The operands one after the other along dim ``axis`` of the result, the ``i``-th data input from ``starts[i]`` on.

    ``added``: they lack that dim and take up one index each (Pack).
    """

    axis: int
    starts: tuple[Expr, ...]
    added: bool = False


@dataclass(frozen=True)
class Margin:
    """The operand with ``before`` and ``after`` elements of ``value`` around it, per dim."""

    before: tuple[Expr, ...]
    after: tuple[Expr, ...]
    value: float | int | bool


@dataclass(frozen=True)
class Rows:
    """Rows of input 0 along its dims ``axes`` (adjacent ones), looked up by the inputs after it, one per dim.

    In place of those dims the result has what these inputs broadcast to. ``wraps``: negative values count from the end.
    """

    axes: tuple[int, ...]
    wraps: bool


Movement = Union[Permute, Windows, Join, Margin, Rows]
"""Where the elements of a view's result are in its operands."""

Check = Callable[[OpView], "Reason | None"]
Emit = Callable[[Emitter, OpView, Sequence["Val | None"]], Sequence[Val]]


@dataclass(frozen=True)
class Rule:
    """How one GE op type is lowered.

    ``kind``: "pointwise" (inputs broadcast against each other by numpy's rule; every output has the broadcast shape),
    "view" (data inputs are re-indexed; ``view`` names how: "reshape", "broadcast" or "move", as ``movement`` says) or
    "reduce" (``index`` says over what; such rules need the pass of that name). ``data_inputs`` are the positions that
    are tensors of the computation; other inputs (shapes, axes) must be known constants and are read through ``OpView``.
    ``check`` returns why this node cannot be lowered, or None. ``emit`` gets the data inputs in their compute dtype
    (fp16/bf16 already raised to f32) and returns one value per output in the compute dtype of that output;
    narrowing to the GE dtype, where it is visible, is the builder's work. ``predicate`` marks ops whose low
    precision inputs must be rounded before use (comparisons, conditions). ``rounds`` marks ops whose result is
    already rounded to the output dtype (explicit narrowing Cast).
    """

    type: str
    kind: str
    check: Check
    emit: Emit | None = None
    data_inputs: tuple[int, ...] | slice | None = None  # None: all present inputs; a slice of their positions
    view: str = ""
    predicate: bool = False
    rounds: bool = False
    index: Callable[[OpView], IndexSpec] | None = None  # of kind "reduce"; called only when ``check`` found nothing
    movement: Callable[[OpView], Movement] | None = None  # of view "move"; called only when ``check`` found nothing


RULES: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Adds a rule. Raises ValueError if the type has one already."""
    if rule.type in RULES:
        raise ValueError(f"two lowering rules for {rule.type}")
    RULES[rule.type] = rule
    return rule


def data_positions(node: Node, rule: Rule) -> tuple[int, ...]:
    """Positions of the inputs that are tensors of the computation (present ones only)."""
    chosen = range(len(node.inputs)) if rule.data_inputs is None else rule.data_inputs
    positions = range(len(node.inputs))[chosen] if isinstance(chosen, slice) else chosen
    return tuple(i for i in positions if i < len(node.inputs) and node.inputs[i] is not None)
