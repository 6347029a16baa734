"""Random pointwise kernels on the twin against the interpreter, special values among their inputs."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_runner import runner
from pointwise_kernels import pointwise_kernels


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(pointwise_kernels(), st.booleans(), st.booleans())
def test_random_kernels(kernel, special, other_chip):
    text, sizes = kernel
    built = runner(text, "Ascend950PR_9599" if other_chip else "Ascend910B1")
    for seed, size in enumerate(sizes):
        built.check(size, seed=seed, special=special)
