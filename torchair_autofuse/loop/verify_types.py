"""Type rules of the loop IR: arity, dtypes, cast modes, constants, reduced axes; a check returns a problem or None."""

from __future__ import annotations

import math

from torchair_autofuse.dtypes import BOOL, F32, I32, DType
from torchair_autofuse.loop.ir import Cast, Const, Iota, Kernel, Load, Nest, Pointwise, Reduce, Value
from torchair_autofuse.loop.ops import COMBINERS, POINTWISE

CAST_MODES: tuple[str, ...] = ("rint", "trunc", "floor", "ceil", "round")


def check_value(kernel: Kernel, nest: Nest, v: Value) -> str | None:
    """What is wrong with the types of ``v``, or None. Its arguments and axes are known to exist."""
    if isinstance(v, Load):
        param = kernel.param[v.param]
        return None if v.dtype == param.dtype else f"loads {param.dtype} from {v.param} as {v.dtype}"
    if isinstance(v, Const):
        return _const(v)
    if isinstance(v, Iota):
        return None if v.dtype.is_int else f"iota of type {v.dtype}: expected an integer type"
    if isinstance(v, Pointwise):
        return _pointwise(nest, v)
    if isinstance(v, Cast):
        return _cast(nest, v)
    return _reduce(nest, v)


def _const(v: Const) -> str | None:
    value = v.value
    if v.dtype == BOOL:
        return None if isinstance(value, bool) else f"constant {value!r} of type bool: expected True or False"
    if isinstance(value, bool):
        return f"constant {value!r} of type {v.dtype}: a bool constant has type bool"
    if v.dtype.is_int:
        if not isinstance(value, int):
            return f"constant {value!r} of type {v.dtype}: expected an int"
        low = 0 if v.dtype.kind == "uint" else -(1 << (8 * v.dtype.itemsize - 1))
        high = low + (1 << (8 * v.dtype.itemsize)) - 1
        return None if low <= value <= high else f"constant {value} is outside {v.dtype}"
    if not isinstance(value, float):
        return f"constant {value!r} of type {v.dtype}: expected a float"
    if math.isfinite(value) and abs(value) > _largest(v.dtype):
        return f"constant {value!r} is outside {v.dtype}"
    rounded = float(v.dtype.numpy.type(value))
    exact = math.isnan(value) or rounded == value
    return None if exact else f"constant {value!r} is not rounded to {v.dtype} ({rounded!r} is)"


def _largest(dtype: DType) -> float:
    return {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}.get(dtype.name, math.inf)


def _operand(name: str, dtype: DType, kinds: tuple[str, ...]) -> str | None:
    if dtype.kind not in kinds:
        return f"{name} on {dtype}: expected {' or '.join(kinds)}"
    if dtype.is_float and dtype != F32:
        return f"{name} on {dtype}: float arithmetic is f32, cast first"
    return None


def _pointwise(nest: Nest, v: Pointwise) -> str | None:
    op = POINTWISE.get(v.op)
    if op is None:
        return f"unknown op {v.op!r}"
    if len(v.args) != op.arity:
        return f"{v.op} takes {op.arity} arguments, got {len(v.args)}"
    types = [nest.dtypes[a] for a in v.args]
    if v.op == "select":
        if types[0] != BOOL:
            return f"select on {v.args[0]}, which is {types[0]}: the condition is bool"
        types = types[1:]
    if any(t != types[0] for t in types):
        return f"{v.op} on {' and '.join(t.name for t in types)}: expected one type"
    if v.op != "select":  # a choice does not round, so it may have any type
        problem = _operand(v.op, types[0], op.kinds)
        if problem is not None:
            return problem
    result = BOOL if op.result == "bool" else types[0]
    return None if v.dtype == result else f"{v.op} gives {result}, declared {v.dtype}"


def _cast(nest: Nest, v: Cast) -> str | None:
    if v.mode not in CAST_MODES:
        return f"cast mode {v.mode!r}: expected one of {', '.join(CAST_MODES)}"
    if nest.dtypes[v.arg].is_float and v.dtype.is_float and v.mode != "rint":
        return f"cast of {nest.dtypes[v.arg]} to {v.dtype} with mode {v.mode}: between float types only rint"
    return None


def _reduce(nest: Nest, v: Reduce) -> str | None:
    combiner = COMBINERS.get(v.combiner)
    if combiner is None:
        return f"unknown combiner {v.combiner!r}"
    if len(v.args) != combiner.arity:
        return f"{v.combiner} takes {combiner.arity} arguments, got {len(v.args)}"
    if len(v.names) != combiner.results or len(v.dtypes) != combiner.results:
        return f"{v.combiner} defines {combiner.results} values, got {len(v.names)} names and {len(v.dtypes)} types"
    types = [nest.dtypes[a] for a in v.args]
    problem = _operand(v.combiner, types[0], combiner.kinds)
    if problem is not None:
        return problem
    expected = (types[0], I32) if v.combiner == "argmax" else (types[0],) * combiner.results
    if v.dtypes != expected:
        return f"{v.combiner} gives {', '.join(map(str, expected))}, declared {', '.join(map(str, v.dtypes))}"
    if not v.axes:
        return "reduces over no axis"
    if len(set(v.axes)) != len(v.axes):
        return "reduces over an axis twice"
    domain = {axis for a in v.args for axis in nest.domains[a]}
    outside = [a for a in v.axes if a not in domain]
    return f"reduces over {outside[0]}, along which {', '.join(v.args)} does not vary" if outside else None
