"""Lowering of GE ops to loop IR: importing this package makes the table of rules complete."""

from torchair_autofuse.lower import (
    activation,
    arithmetic,
    cast,
    compare,
    gather,
    generator,
    grad,
    logical,
    loss,
    move,
    norm,
    norm_grad,
    reduce,
    rounding,
    select,
    transcendental,
    view,
)
from torchair_autofuse.lower.registry import RULES

__all__ = [
    "RULES",
    "activation",
    "arithmetic",
    "cast",
    "compare",
    "gather",
    "generator",
    "grad",
    "logical",
    "loss",
    "move",
    "norm",
    "norm_grad",
    "reduce",
    "rounding",
    "select",
    "transcendental",
    "view",
]
