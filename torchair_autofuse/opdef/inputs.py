"""Random inputs for a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from torchair_autofuse.dtypes import DType
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret import bind
from torchair_autofuse.loop.ir import Kernel, Load, Pointwise

Array = npt.NDArray[Any]
_INTEGER_DIVISIONS = frozenset({"floordiv", "truncdiv", "floormod"})
_SPECIAL = (0.0, -0.0, float("inf"), float("-inf"), float("nan"))


def random_inputs(
    kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], seed: int, special: bool = False
) -> dict[str, Array]:
    """Input name -> array, the same for the same arguments.

    Floats are of both signs and several magnitudes; ``special`` mixes in zeros, infinities and NaN. Integers are small,
    without 0 where the kernel divides integers; those that look up rows are rows.
    """
    rng = np.random.default_rng(seed)
    divides = any(isinstance(v, Pointwise) and v.op in _INTEGER_DIVISIONS for nest in kernel.nests for v in nest.values)
    made = {p.name: _array(rng, p.dtype, shapes[p.name], special, divides) for p in kernel.inputs}
    for param, (size, wraps) in _lookups(kernel, shapes).items():
        low = -size if wraps else 0
        made[param] = np.asarray(rng.integers(low, max(size, low + 1), shapes[param])).astype(made[param].dtype)
    return made


def _lookups(kernel: Kernel, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, bool]]:
    """Inputs whose values look up rows -> (how many rows there are, whether they count from the end too)."""
    symbols = bind(kernel, shapes)
    found: dict[str, tuple[int, bool]] = {}
    for nest in kernel.nests:
        for i in (i for v in nest.values if isinstance(v, Load) for i in v.indices):
            source = nest.defs[i.value]
            if isinstance(source, Load):
                size, wraps = found.get(source.param, (expr.evaluate(i.size, symbols), True))
                found[source.param] = min(size, expr.evaluate(i.size, symbols)), wraps and i.wraps
    return found


def _array(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], special: bool, divides: bool) -> Array:
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape), dtype=np.bool_)
    if dtype.is_int:
        found = np.asarray(rng.integers(0 if dtype.kind == "uint" else -100, 100, shape))
        return np.where(found == 0, 1, found).astype(dtype.numpy) if divides else found.astype(dtype.numpy)
    values = np.asarray(rng.standard_normal(shape) * np.exp2(rng.integers(-3, 3, shape)))
    if special:
        values = np.where(rng.random(shape) < 0.1, rng.choice(_SPECIAL, shape), values)
    return values.astype(dtype.numpy)
