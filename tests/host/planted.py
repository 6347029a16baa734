"""A wrong lowering rule, put in place by tests: kernels then compute sigmoid where the graph says tanh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace


@contextmanager
def wrong_tanh() -> Iterator[None]:
    from torchair_autofuse.lower import activation  # noqa: F401  (registers the rules)
    from torchair_autofuse.lower.registry import RULES

    right = RULES["Tanh"]
    RULES["Tanh"] = replace(right, emit=RULES["Sigmoid"].emit)
    try:
        yield
    finally:
        RULES["Tanh"] = right
