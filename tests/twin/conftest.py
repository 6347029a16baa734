"""An installed package, built once per process with a stand-in for CANN (tests/fake_cann)."""

import shutil

import pytest

from tests.package_ops import definitions, fake_cann
from torchair_autofuse.deliver.package.build import build_package
from torchair_autofuse.deliver.package.names import targets


@pytest.fixture(scope="session")
def cann(tmp_path_factory):
    """(Cann, variables) of a CANN 8.5.0."""
    return fake_cann(tmp_path_factory.mktemp("cann") / "8.5.0")


@pytest.fixture(scope="session")
def built(make_op, cann, tmp_path_factory):
    """An ``--out`` with a package of ``definitions``; not to be changed."""
    out = tmp_path_factory.mktemp("built") / "out"
    made = build_package(definitions(make_op), targets(["ascend910b"]), out, cann[0], environ=cann[1])
    assert made.fresh
    return out


@pytest.fixture()
def out(built, tmp_path):
    """A copy of it, to be changed."""
    shutil.copytree(built, tmp_path / "out", symlinks=True, ignore=shutil.ignore_patterns("build", ".lock"))
    return tmp_path / "out"


@pytest.fixture()
def package(out):
    return out / "vendors" / "torchair_autofuse"


@pytest.fixture()
def environ(cann):
    return dict(cann[1])
