"""Test-wide set-up: torchair_autofuse goes first, so that torch does not try to load the NPU backend without CANN."""

from __future__ import annotations

import dataclasses
import os

import pytest

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
os.environ.setdefault("TORCHAIR_AUTOFUSE_STRICT", "1")
os.environ.setdefault("TORCHAIR_AUTOFUSE_QUIET", "1")


@pytest.fixture(scope="session")
def make_op():
    """``make_op(text, soc="Ascend910B1") -> GeneratedOp`` of the loop-level text of a kernel, under its hashed name."""

    def make(text, soc="Ascend910B1"):
        from torchair_autofuse.codegen.kernel import generate, node_line
        from torchair_autofuse.codegen.names import camel
        from torchair_autofuse.ge.graph import Node
        from torchair_autofuse.generated import GeneratedOp
        from torchair_autofuse.loop.parser import parse
        from torchair_autofuse.loop.verify import verify
        from torchair_autofuse.lower.finish import Lowered, content_digest
        from torchair_autofuse.messages import Reason
        from torchair_autofuse.schedule.choose import schedule
        from torchair_autofuse.soc.chip import chip

        kernel = parse(text)
        kernel = dataclasses.replace(kernel, name=f"autofuse_pointwise_k{content_digest(kernel)}")
        verify(kernel)
        made = schedule(kernel, chip(soc))
        assert not isinstance(made, Reason), made
        names = dict.fromkeys(n for nest in kernel.nests for v in (*nest.values, *nest.stores) for n in v.origin)
        nodes = tuple(Node(n, n.rstrip("_0123456789"), (), (), ("y",)) for n in names)
        op_type = camel(kernel.name)
        lines = [node_line(n.type, n.name) for n in nodes]
        return GeneratedOp(Lowered(kernel, op_type, (), (), nodes), made, generate(made, op_type, lines))

    return make


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the files in golden/ folders anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden"):  # golden files are written by one process
        config.option.dist, config.option.tx = "no", []


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether the user asked for golden files to be written rather than compared."""
    return bool(request.config.getoption("--update-golden"))
