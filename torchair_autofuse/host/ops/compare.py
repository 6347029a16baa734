"""Comparisons, tests of values and logic: bool results. Comparisons with NaN are false, NotEqual true."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torchair_autofuse.host.ops.pointwise import BOOL, FLOAT, NUMBER, common_dtype, up
from torchair_autofuse.host.ops.registry import OpCall, op

_SIGN_BIT = -(2**63)

_COMPARE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Equal": torch.eq,
    "NotEqual": torch.ne,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Less": torch.lt,
    "LessEqual": torch.le,
}
_LOGICAL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "LogicalAnd": torch.logical_and,
    "LogicalOr": torch.logical_or,
}
_TEST: dict[str, Callable[[Tensor], Tensor]] = {"IsFinite": torch.isfinite, "IsInf": torch.isinf, "IsNan": torch.isnan}


def _comparable(t: Tensor) -> Tensor:
    # u64 sits in the bits of i64; flipping the top bit turns its order into that of signed numbers.
    return up(t) ^ _SIGN_BIT if t.dtype == torch.uint64 else up(t)


def _register_compare(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @op(kind)
    def run(call: OpCall) -> Tensor:
        a, b = call.tensor(0), call.tensor(1)
        common_dtype(call, (a, b), NUMBER | BOOL)
        return function(_comparable(a), _comparable(b))


def _register_logical(kind: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @op(kind)
    def run(call: OpCall) -> Tensor:
        a, b = call.tensor(0), call.tensor(1)
        common_dtype(call, (a, b), BOOL)
        return function(a, b)


def _register_test(kind: str, function: Callable[[Tensor], Tensor]) -> None:
    @op(kind)
    def run(call: OpCall) -> Tensor:
        x = call.tensor(0)
        common_dtype(call, (x,), FLOAT)
        return function(x)


for _kind, _compare in _COMPARE.items():
    _register_compare(_kind, _compare)
for _kind, _logical in _LOGICAL.items():
    _register_logical(_kind, _logical)
for _kind, _test in _TEST.items():
    _register_test(_kind, _test)


@op("LogicalNot")
def _logical_not(call: OpCall) -> Tensor:
    x = call.tensor(0)
    common_dtype(call, (x,), BOOL)
    return torch.logical_not(x)
