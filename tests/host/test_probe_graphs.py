"""The checks of probes that need TorchAir, run on the host: what they try works there, and they see what is wrong."""

from __future__ import annotations

import pytest

import torchair_autofuse
from torchair_autofuse.probe import graph
from torchair_autofuse.probe.record import Graph
from torchair_autofuse.probe.registry import PROBES


@pytest.fixture(autouse=True)
def fused(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOFUSE_FLAGS", "--enable_autofuse=true;--autofuse_enable_pass=all")
    yield
    torchair_autofuse.clear_reports()


CHECKS = [p.how.check for p in PROBES if isinstance(p.how, Graph) and p.how.check is not graph.addresses]


@pytest.mark.parametrize("check", dict.fromkeys(CHECKS), ids=lambda c: c.__name__)
def test_values_of_fused_ops(check):
    found = check("cpu")
    assert found and all(f.ok is True and "fused ops, largest error" in f.text for f in found), found


def test_no_fused_op_decides_nothing(monkeypatch):
    monkeypatch.setenv("GF_AUTOFUSION_DISABLE", "1")
    (found,) = graph.unregistered_op("cpu")
    assert found.ok is None and found.text.startswith("no fused op came out")


def test_wrong_values_and_shapes_are_seen():
    import torch

    given = [(torch.linspace(0, 1, 64), torch.linspace(1, 2, 64))]
    runs = iter([False, True])

    def other(x, y):  # called for what is expected, then traced
        return (x + y) * 2 if next(runs, True) else x + y

    (found,) = graph._fused("values", "cpu", other, given, dynamic=False)
    assert found.ok is False, found
    runs = iter([False, True])

    def shaped(x, y):
        return (x + y).reshape(8, 8) if next(runs, True) else x + y

    (found,) = graph._fused("shapes", "cpu", shaped, given, dynamic=False)
    assert found.ok is False and found.text == "the shape is [8, 8], expected [64]"


def test_addresses():
    found, unknown = graph.addresses("cpu")
    assert found.ok is True and "all 0" in found.text and unknown.ok is None
