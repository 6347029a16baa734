"""What the combiners of the loop IR mean on numpy arrays. Float sums are pairwise; an empty set gives the identity."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def reduce(combiner: str, x: Array, axes: tuple[int, ...]) -> tuple[Array, ...]:
    """The components of ``combiner`` over ``axes`` (positions), which stay as dims of size 1.

    Call under np.errstate(all="ignore"). Identities: sum 0, prod 1, max/min the extreme of the type, any false,
    all true, argmax (extreme, 0), welford (0, 0), maxsumexp (-inf, 0). The index of argmax counts the reduced
    axes as one, outermost first; NaN counts as greatest, as in max.
    """
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    rows = int(np.prod([x.shape[i] for i in kept], dtype=np.int64))
    length = int(np.prod([x.shape[i] for i in axes], dtype=np.int64))
    # reduced axes innermost and contiguous: this is where numpy sums pairwise
    flat = np.ascontiguousarray(x.transpose([*kept, *sorted(axes)])).reshape(rows, length)
    return tuple(r.reshape(shape) for r in _COMBINERS[combiner](flat))


def _sum(x: Array) -> Array:
    return np.asarray(np.add.reduce(x, axis=-1, dtype=x.dtype))


def _prod(x: Array) -> Array:
    return np.asarray(np.multiply.reduce(x, axis=-1, dtype=x.dtype))


def _extreme(dtype: np.dtype[Any], greatest: bool) -> Any:
    if dtype.kind == "f":
        return dtype.type(np.inf if greatest else -np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.max if greatest else info.min)


def _max(x: Array) -> Array:
    return np.asarray(np.maximum.reduce(x, axis=-1, initial=_extreme(x.dtype, greatest=False)))


def _min(x: Array) -> Array:
    return np.asarray(np.minimum.reduce(x, axis=-1, initial=_extreme(x.dtype, greatest=True)))


def _argmax(x: Array) -> tuple[Array, Array]:
    index = np.argmax(x, axis=-1) if x.shape[-1] else np.zeros(x.shape[:-1])
    return _max(x), index.astype(np.int32)


def _welford(x: Array) -> tuple[Array, Array]:
    if x.shape[-1] == 0:
        zero = np.zeros(x.shape[:-1], x.dtype)
        return zero, zero
    mean = _sum(x) / x.dtype.type(x.shape[-1])
    deviation = x - mean[..., None]
    return mean, _sum(deviation * deviation)


def _maxsumexp(x: Array) -> tuple[Array, Array]:
    m = _max(x)
    exponentials = np.exp((x - m[..., None]).astype(np.float64)).astype(x.dtype)
    return m, _sum(exponentials)


_COMBINERS: dict[str, Any] = {
    "sum": lambda x: (_sum(x),),
    "prod": lambda x: (_prod(x),),
    "max": lambda x: (_max(x),),
    "min": lambda x: (_min(x),),
    "any": lambda x: (np.logical_or.reduce(x, axis=-1),),
    "all": lambda x: (np.logical_and.reduce(x, axis=-1),),
    "argmax": _argmax,
    "welford": _welford,
    "maxsumexp": _maxsumexp,
}
