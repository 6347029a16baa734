"""The installed CANN, and the route that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.deliver.route import Route, choose
from torchair_autofuse.messages import Reason


def cann(text: str, home: str = "/opt/cann") -> Cann:
    major, minor, patch = (int(n) for n in text.split("-")[0].split("."))
    return Cann(Path(home), (major, minor, patch), text, "x86_64")


def test_a_home_that_cannot_be_looked_at() -> None:
    found = find_cann({"ASCEND_HOME_PATH": "/" + "x" * 300})
    assert isinstance(found, Reason) and found.code == "AF505" and "cannot be read: File name too long" in found.text


@pytest.mark.parametrize(
    ("line", "version", "text"),
    [
        ("Version=8.5.0", (8, 5, 0), "8.5.0"),
        ("Version=9.2.0-beta.1\nversion_dir=x", (9, 2, 0), "9.2.0-beta.1"),
        ("# a comment\nVersion = [9.1.0.B012]", (9, 1, 0), "9.1.0.B012"),
        ("Version=9.0", (9, 0, 0), "9.0"),
    ],
)
def test_version(tmp_path: Path, line: str, version: tuple[int, int, int], text: str) -> None:
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler" / "version.info").write_text(f"{line}\n")
    found = find_cann({"ASCEND_HOME_PATH": str(tmp_path)})
    assert isinstance(found, Cann)
    assert (found.home, found.version, found.text) == (tmp_path, version, text)


def test_tools_of_cann_come_before_those_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other" / "bisheng"
    other.parent.mkdir()
    other.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    (tmp_path / "version.info").write_text("Version=9.1.0\n")
    program = tmp_path / "compiler" / "ccec_compiler" / "bin" / "bisheng"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    found = find_cann({"ASCEND_TOOLKIT_HOME": str(tmp_path)})
    assert isinstance(found, Cann)
    assert found.tool("bisheng") == other, "that of CANN may not be executed"
    program.chmod(0o755)
    assert found.tool("bisheng") == program
    assert found.tool("ld.lld") is None


def test_without_cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchair_autofuse.deliver.cann.DEFAULT_HOMES", (str(tmp_path / "none"),))
    absent = find_cann({})
    assert isinstance(absent, Reason) and absent.code == "AF505" and "no CANN is installed" in absent.text
    wrong = find_cann({"ASCEND_HOME_PATH": str(tmp_path / "gone")})
    assert isinstance(wrong, Reason) and "gone, which is not a folder" in wrong.text
    empty = find_cann({"ASCEND_HOME_PATH": str(tmp_path)})
    assert isinstance(empty, Reason) and "compiler/version.info" in empty.text
    (tmp_path / "version.info").write_text("nothing of use\n")
    unread = find_cann({"ASCEND_HOME_PATH": str(tmp_path)})
    assert isinstance(unread, Reason) and "no line Version=" in unread.text


@pytest.mark.parametrize(
    ("asked", "version", "package", "expected"),
    [
        ("auto", "8.5.0", False, "package"),
        ("auto", "9.0.1", False, "package"),
        ("auto", "9.1.0", False, "jit"),
        ("auto", "9.2.0-beta.1", False, "jit"),
        ("auto", "9.2.0", True, "package"),
        ("package", "9.2.0", False, "package"),
        ("jit", "9.1.0", True, "jit"),
        ("jit", "9.0.1", False, "route 'jit' needs CANN 9.1 or later, /opt/cann has 9.0.1; the package route works"),
        ("auto", "8.3.0", False, "fused ops need CANN 8.5 or later, /opt/cann has 8.3.0"),
        ("package", "8.3.0", False, "fused ops need CANN 8.5 or later, /opt/cann has 8.3.0"),
        ("host", "9.2.0", False, "TORCHAIR_AUTOFUSE_HOST=1 makes them do so"),
    ],
)
def test_on_a_device(asked: str, version: str, package: bool, expected: str) -> None:
    found = choose(asked, cann(version), on_device=True, has_package=package)
    if isinstance(found, Route):
        assert found.name == expected and found.cann == cann(version) and found.why
    else:
        assert found.code == "AF505" and expected in found.text


def test_on_the_host() -> None:
    absent = Reason("AF505", "no CANN is installed here")
    for asked in ("auto", "host"):
        found = choose(asked, absent, on_device=False)
        assert isinstance(found, Route) and (found.name, found.cann) == ("host", None)
        found = choose(asked, cann("9.1.0"), on_device=False)
        assert isinstance(found, Route) and found.name == "host", "CANN is there, but the graph runs on the host"
    for asked in ("package", "jit"):
        refused = choose(asked, absent, on_device=False)
        assert isinstance(refused, Reason) and "needs an NPU" in refused.text


def test_a_device_without_a_readable_cann() -> None:
    absent = Reason("AF505", "no CANN is installed here")
    assert choose("auto", absent, on_device=True) == absent
