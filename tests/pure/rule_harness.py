"""Runs one lowering rule on arrays: an Emitter that evaluates at once with numpy, independent of the package's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from torchair_autofuse.ge.graph import Node, TensorInfo, TensorRef
from torchair_autofuse.ge.infer import infer  # noqa: F401 (fills the table below)
from torchair_autofuse.ge.infer.registry import RULES as INFERENCE
from torchair_autofuse.ge.infer.registry import Call, eval_dtype, eval_shape
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.ops import COMBINERS, POINTWISE
from torchair_autofuse.lower import RULES
from torchair_autofuse.lower.builder import NestBuilder
from torchair_autofuse.lower.registry import Emitter, IndexSpec, OpView, Val, compute_dtype
from torchair_autofuse.messages import Reason

TORCH = {
    F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16, F64: torch.float64, I8: torch.int8, U8: torch.uint8,
    I16: torch.int16, I32: torch.int32, I64: torch.int64, BOOL: torch.bool,
}  # fmt: skip
OF_TORCH = {t: d for d, t in TORCH.items()}


def _wide(function: Any) -> Any:
    """Through double precision and one rounding: the correctly rounded function, near enough."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _truncdiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a - np.fmod(a, b)) // b


NUMPY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "fmod": np.fmod,
    "floordiv": np.floor_divide, "truncdiv": _truncdiv, "floormod": np.remainder,
    "pow": lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32),
    "max": np.maximum, "min": np.minimum, "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "rint": np.rint, "trunc": np.trunc,
    "exp": _wide(np.exp), "log": _wide(np.log), "sqrt": np.sqrt, "rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "reciprocal": lambda x: np.float32(1) / x, "tanh": _wide(np.tanh), "erf": _wide(_erf),
    "sigmoid": _wide(lambda x: 1 / (1 + np.exp(-x))),
    "sin": _wide(np.sin), "cos": _wide(np.cos), "tan": _wide(np.tan), "asin": _wide(np.arcsin),
    "acos": _wide(np.arccos), "atan": _wide(np.arctan), "sinh": _wide(np.sinh), "cosh": _wide(np.cosh),
    "asinh": _wide(np.arcsinh), "acosh": _wide(np.arccosh), "atanh": _wide(np.arctanh),
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "bitand": np.bitwise_and,
    "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "bitnot": np.invert, "select": np.where,
}  # fmt: skip


class Eager(Emitter):
    """Every value is computed the moment it is emitted; a wrong dtype is an error."""

    def __init__(self, spec: IndexSpec | None = None, symbols: Mapping[str, int] | None = None) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.spec = spec  # of an op with a reduction: then arrays have one dim per dim of it, of size one or its size
        self.sizes = () if spec is None else tuple(expr.evaluate(d, symbols or {}) for d in spec.dims)

    def value(self, array: np.ndarray, dtype: DType) -> Val:
        assert array.dtype == dtype.numpy, (array.dtype, dtype)
        name = f"t{len(self.arrays)}"
        self.arrays[name] = array
        return Val(name, dtype)

    def op(self, name: str, *args: Val) -> Val:
        op = POINTWISE[name]
        data = args[1:] if name == "select" else args
        assert len(args) == op.arity, name
        assert {a.dtype for a in data} == {data[0].dtype} and data[0].dtype.kind in op.kinds, (name, args)
        assert not data[0].dtype.is_float or data[0].dtype == F32, (name, args)
        result = NUMPY[name](*(self.arrays[a.name] for a in args))
        return self.value(np.asarray(result), BOOL if op.result == "bool" else data[0].dtype)

    def const(self, value: float | int | bool, dtype: DType = F32) -> Val:
        return self.value(np.asarray(value, dtype.numpy), dtype)

    def cast(self, value: Val, dtype: DType, mode: str = "rint") -> Val:
        array = self.arrays[value.name]
        if value.dtype.is_float and dtype.is_int:
            assert mode == "trunc"
            return self.value(torch.from_numpy(np.array(array)).to(TORCH[dtype]).numpy(), dtype)
        return self.value(array.astype(dtype.numpy), dtype)

    def reduce(self, combiner: str, *args: Val) -> tuple[Val, ...]:
        (arg,) = args
        op, over = COMBINERS[combiner], self.spec.reduced if self.spec else ()
        assert over, "a reduction over no dim"
        assert arg.dtype.kind in op.kinds and (not arg.dtype.is_float or arg.dtype == F32), (combiner, arg)
        x = self.arrays[arg.name]
        x = np.broadcast_to(x, tuple(self.sizes[p] if p in over else n for p, n in enumerate(x.shape)))
        kept = [p for p in range(x.ndim) if p not in over]
        rows = x.transpose([*kept, *over]).reshape(
            [x.shape[p] for p in kept] + [math.prod(self.sizes[p] for p in over)]
        )
        shape = tuple(1 if p in over else n for p, n in enumerate(x.shape))
        made = [np.asarray(r).reshape(shape) for r in ROWS[combiner](rows)]
        assert len(made) == op.results
        return tuple(self.value(r, I32 if combiner == "argmax" and k else arg.dtype) for k, r in enumerate(made))

    def count(self) -> Val:
        assert self.spec is not None
        return self.const(math.prod(self.sizes[p] for p in self.spec.reduced))


def _sum(x: np.ndarray) -> np.ndarray:
    """Of the last dim; floats in double precision, rounded once."""
    return x.sum(-1, dtype=np.float64).astype(np.float32) if x.dtype.kind == "f" else x.sum(-1, dtype=x.dtype)


def _extreme(x: np.ndarray, greatest: bool) -> np.ndarray:
    limits = np.finfo(np.float32) if x.dtype.kind == "f" else np.iinfo(x.dtype)
    least = (-INF, INF) if x.dtype.kind == "f" else (limits.min, limits.max)
    return x.max(-1, initial=least[0]) if greatest else x.min(-1, initial=least[1])


def _welford(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = _sum(x) / np.float32(max(x.shape[-1], 1))
    return mean, _sum((x - mean[..., None]) ** 2)


def _maxsumexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    m = _extreme(x, True)
    return m, _sum(np.exp((x - m[..., None]).astype(np.float64)).astype(np.float32))


ROWS: dict[str, Any] = {
    "sum": lambda x: [_sum(x)],
    "prod": lambda x: [x.prod(-1, dtype=x.dtype)],
    "max": lambda x: [_extreme(x, True)],
    "min": lambda x: [_extreme(x, False)],
    "any": lambda x: [x.any(-1)],
    "all": lambda x: [x.all(-1)],
    "argmax": lambda x: (_extreme(x, True), (x.argmax(-1) if x.shape[-1] else np.zeros(x.shape[:-1])).astype(np.int32)),
    "welford": _welford,
    "maxsumexp": _maxsumexp,
}


def _numpy(t: torch.Tensor) -> np.ndarray:
    """The tensor in the type it is computed in."""
    return t.float().numpy() if t.dtype in (torch.float16, torch.bfloat16) else t.numpy()


def view(
    kind: str,
    inputs: Sequence[torch.Tensor | None],
    attrs: dict[str, Any] | None = None,
    *,
    constants: Sequence[int] = (),
    out: torch.dtype | None = None,
    shape: tuple[Any, ...] | None = None,
    shapes: Sequence[tuple[Any, ...]] | None = None,
    names: Sequence[str] | None = None,
    outputs: Sequence[tuple[torch.dtype, tuple[Any, ...]]] | str | None = None,
) -> OpView:
    """A node of type ``kind`` with these inputs; those at ``constants`` are known when the graph is compiled.

    ``outputs``: dtype and shape of each, or "inferred"; otherwise there is one, of dtype ``out`` and shape ``shape``.
    """
    infos: list[TensorInfo | None] = []
    for i, t in enumerate(inputs):
        if t is None:
            infos.append(None)
            continue
        known = tuple(t.reshape(-1).tolist()) if i in constants else None
        infos.append(TensorInfo(OF_TORCH[t.dtype], tuple(t.shape) if shapes is None else shapes[i], known))
    if shape is None:
        present = [tuple(t.shape) for t in inputs if t is not None]
        try:
            shape = np.broadcast_shapes(*present)
        except ValueError:
            shape = present[0]
    first = next(t for t in inputs if t is not None)
    result = TensorInfo(OF_TORCH[out or first.dtype], shape)
    refs = tuple(None if t is None else TensorRef(f"x{i}", 0) for i, t in enumerate(inputs))
    labels = tuple(names or (f"x{i}" for i in range(len(inputs))))
    results: Sequence[TensorInfo] = (result,)
    if outputs == "inferred":
        results = inferred(Node("node", kind, refs, labels, (), MappingProxyType(attrs or {})), infos)
    elif outputs is not None:
        assert not isinstance(outputs, str)
        results = [TensorInfo(OF_TORCH[d], s) for d, s in outputs]
    node = Node("node", kind, refs, labels, tuple(f"y{k}" for k in range(len(results))), MappingProxyType(attrs or {}))
    return OpView(node, tuple(infos), tuple(results))


def inferred(node: Node, infos: Sequence[TensorInfo | None]) -> list[TensorInfo]:
    """What inference says about the results of a node."""
    rule, call = INFERENCE[node.type], Call(node, tuple(infos))
    assert isinstance(rule.shapes, tuple) and isinstance(rule.dtypes, tuple)
    found = zip(rule.dtypes, rule.shapes)
    return [TensorInfo(eval_dtype(dtype, call), eval_shape(shape, call)) for dtype, shape in found]


def refusal(op: OpView) -> Reason | None:
    return RULES[op.node.type].check(op)


def run(op: OpView, inputs: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """The result of the rule on ``inputs``, in the dtype and shape that the node declares."""
    rule = RULES[op.node.type]
    reason = rule.check(op)
    assert reason is None, str(reason)
    assert rule.emit is not None
    eager, builder = Eager(), NestBuilder()
    args: list[Val | None] = [None] * len(inputs)
    symbolic: list[Val | None] = [None] * len(inputs)
    for i, t in enumerate(inputs):
        if t is None or (rule.data_inputs is not None and i not in rule.data_inputs):
            continue
        dtype = OF_TORCH[t.dtype]
        args[i] = eager.value(_numpy(t), compute_dtype(dtype))
        scalar = op.scalar(i)
        if scalar is None:
            symbolic[i] = builder.cast(builder.load(f"in{i}", (("a0", 1),), 0, dtype), compute_dtype(dtype))
        else:
            symbolic[i] = builder.const(scalar, compute_dtype(dtype))
    with np.errstate(all="ignore"):
        (made,) = rule.emit(eager, op, args)
    (built,) = rule.emit(builder, op, symbolic)  # the real builder takes the same dtypes
    assert made.dtype == built.dtype == compute_dtype(op.out_dtype())
    shape = tuple(int(d) for d in op.outputs[0].shape or ())
    array = np.array(np.broadcast_to(eager.arrays[made.name], shape))
    return torch.from_numpy(array).to(TORCH[op.out_dtype()])


def run_reduce(
    op: OpView, inputs: Sequence[torch.Tensor | None], symbols: Mapping[str, int] | None = None
) -> list[torch.Tensor]:
    """All results of a rule of kind "reduce", in the dtypes and shapes that the node declares."""
    rule = RULES[op.node.type]
    reason = rule.check(op)
    assert reason is None, str(reason)
    assert rule.kind == "reduce" and rule.emit is not None and rule.index is not None
    spec = rule.index(op)
    assert_consistent(op, spec)
    eager, builder = Eager(spec, symbols), NestBuilder()
    builder.reduced, builder.reduced_size = (
        tuple(f"a{p}" for p in spec.reduced),
        expr.product(spec.dims[p] for p in spec.reduced),
    )
    args: list[Val | None] = [None] * len(inputs)
    symbolic: list[Val | None] = [None] * len(inputs)
    for i, t in enumerate(inputs):
        if t is not None and (rule.data_inputs is None or i in rule.data_inputs):
            dtype = OF_TORCH[t.dtype]
            args[i] = eager.value(_spread(_numpy(t), spec.inputs[i], eager.sizes), compute_dtype(dtype))
            symbolic[i] = builder.cast(builder.load(f"in{i}", (("a0", 1),), 0, dtype), compute_dtype(dtype))
    with np.errstate(all="ignore"):
        made = rule.emit(eager, op, args)
    built = rule.emit(builder, op, symbolic)  # the real builder takes the same dtypes
    assert len(made) == len(op.outputs) and [v.dtype for v in built] == [v.dtype for v in made]
    results: list[torch.Tensor] = []
    for k, (value, info) in enumerate(zip(made, op.outputs)):
        assert info.dtype is not None and value.dtype == compute_dtype(info.dtype), (k, value, info)
        flat = [p for part in spec.outputs[k] for p in part]
        array = eager.arrays[value.name]
        if not array.ndim:  # a constant
            array = array.reshape([1] * len(eager.sizes))
        rest = [p for p in range(len(eager.sizes)) if p not in flat]
        assert all(array.shape[p] == 1 for p in rest), f"result {k} varies over dims that its tensor does not have"
        array = np.broadcast_to(array, [eager.sizes[p] if p in flat else 1 for p in range(array.ndim)])
        array = array.transpose([*flat, *rest]).reshape([expr.evaluate(d, symbols or {}) for d in info.shape or ()])
        results.append(torch.from_numpy(np.array(array)).to(TORCH[info.dtype]))
    return results


def _spread(array: np.ndarray, parts: Sequence[Sequence[int]], sizes: Sequence[int]) -> np.ndarray:
    """A tensor as an array with one dim per dim of the IndexSpec."""
    flat = [p for part in parts for p in part]
    array = array.reshape([sizes[p] for p in flat])
    order = sorted(range(len(flat)), key=lambda k: flat[k])
    return array.transpose(order).reshape([n if p in flat else 1 for p, n in enumerate(sizes)])


def assert_consistent(op: OpView, spec: IndexSpec) -> None:
    """Positions are distinct and in range, and their products are the dims of each tensor."""
    positions = range(len(spec.dims))
    assert len(set(spec.reduced)) == len(spec.reduced) and set(spec.reduced) <= set(positions)
    assert all(d != 1 for d in spec.dims)
    data = RULES[op.node.type].data_inputs or ()
    assert set(spec.inputs) == {i for i in data if i < len(op.inputs) and op.inputs[i] is not None}
    assert len(spec.outputs) == len(op.outputs)
    tensors = [(op.inputs[i], parts) for i, parts in spec.inputs.items()] + list(zip(op.outputs, spec.outputs))
    for info, parts in tensors:
        assert info is not None and info.shape is not None and len(parts) == len(info.shape)
        flat = [p for part in parts for p in part]
        assert len(set(flat)) == len(flat) and set(flat) <= set(positions)
        for part, dim in zip(parts, info.shape):
            assert expr.equal(expr.product(spec.dims[p] for p in part), dim), (parts, info.shape)
    first = spec.inputs.get(0)
    assert first is not None and sorted(p for part in first for p in part) == list(positions)


# ---- operands ------------------------------------------------------------------------------------------------------

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, *HALVES)
INTS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)
INF, NAN = math.inf, math.nan

SPECIAL = [
    0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 6.0, 20.0, -20.0, 88.0, -88.0, 104.0, -104.0,
    1e-3, -1e-3, 1e-5, -1e-5, 1e-10, -1e-10, 1e-20, -1e-20, 1e-30, 1.2e-38, -1.2e-38, 1e-40, -1e-40, 1e4, -1e4, 1e15,
    -1e15, 1e20, -1e20, 3.4e38, -3.4e38, 0.9999999, 1.0000001, -0.9999999, 16777216.0, 2.5, 3.5, -2.5,
]  # fmt: skip


def samples(
    dtype: torch.dtype, seed: int, *, special: bool = True, low: float = -INF, high: float = INF
) -> torch.Tensor:
    """Special values, and numbers of all sizes, dense around zero and between -20 and 20."""
    g = torch.Generator().manual_seed(seed)
    parts = [torch.tensor(SPECIAL)] if special else []
    for size in (1e-4, 0.03, 0.3, 1.0, 4.0, 12.0):
        parts.append(torch.randn(300, generator=g) * size)
    parts.append(torch.linspace(-20, 20, 801) + 0.01)
    x = torch.cat(parts).to(dtype)
    return x[~((x < low) | (x > high))]


def ints(dtype: torch.dtype, seed: int, *, nonzero: bool = False) -> torch.Tensor:
    """Small numbers, numbers of the whole range, and its ends."""
    limits = torch.iinfo(dtype)
    g = torch.Generator().manual_seed(seed)
    small = torch.randint(max(-9, limits.min), 10, (200,), generator=g)
    wide = torch.randint(limits.min, limits.max, (200,), generator=g)
    ends = torch.tensor([limits.min, limits.max, 0, 1])
    x = torch.cat([small, wide, ends]).to(dtype)
    x = x[torch.randperm(len(x), generator=g)]
    return torch.where(x == 0, torch.ones_like(x), x) if nonzero else x


def bools(seed: int, shape: tuple[int, ...] = (64,)) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5


# ---- references ----------------------------------------------------------------------------------------------------


def fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """In f64 (torch's f32 version is wrong for subnormal divisors); an f32 remainder is exact."""
    return torch.fmod(a.double(), b.double()).to(a.dtype)


def floor_mod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.remainder(a.double(), b.double()).to(a.dtype)


# ---- error in units in the last place ------------------------------------------------------------------------------

_DIGITS = {torch.float32: (24, -126), torch.float16: (11, -14), torch.bfloat16: (8, -126)}


def ulps(actual: torch.Tensor, exact: torch.Tensor, at_least: torch.Tensor) -> torch.Tensor:
    """|actual - exact| in ulp of actual's dtype at max(|exact|, at_least); 0 where one of the two is not finite."""
    digits, least = _DIGITS[actual.dtype]
    exponent = torch.frexp(torch.maximum(exact.abs(), at_least))[1].double() - 1
    unit = torch.exp2(torch.clamp(exponent, min=least) - digits + 1)
    error = (actual.double() - exact).abs() / unit
    return torch.where(torch.isfinite(actual.double()) & torch.isfinite(exact), error, torch.zeros_like(error))


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
