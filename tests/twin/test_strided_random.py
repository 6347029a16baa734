"""Random kernels with lanes, reversed and permuted axes and lookups, on the twin against the interpreter."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kernel_runner import runner, scheduled
from strided_kernels import strided_kernels

from torchair_autofuse.loop.parser import parse
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.messages import Reason


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(strided_kernels(), st.booleans())
def test_random_kernels(kernel, other_chip):
    """What has a schedule computes what the interpreter says; its text reads back."""
    text, sizes = kernel
    soc = "Ascend950PR_9599" if other_chip else "Ascend910B1"
    read = parse(text)
    assert parse(to_text(read)) == read
    made = scheduled(text, soc)
    assume(not isinstance(made, Reason))
    built = runner(text, soc)
    for seed, size in enumerate(sizes):
        built.check(size, seed=seed)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(strided_kernels())
def test_random_refusals(kernel):
    """What has no schedule is refused for its copies, with a reason, never by an error."""
    made = scheduled(kernel[0])
    assert not isinstance(made, Reason) or made.code in ("AF210", "AF212"), made
