"""doctor where CANN is present, and its check of kernels against headers of the user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchair_autofuse import doctor
from torchair_autofuse.cli import main
from torchair_autofuse.deliver.package import activate as package
from torchair_autofuse.doctor import device
from torchair_autofuse.doctor.finding import Finding
from torchair_autofuse.host import loader
from torchair_autofuse.messages import Reason

TWIN = Path(doctor.__file__).parents[1] / "twin" / "include"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Finding]]:
    """What doctor finds on a machine with CANN of a version and these of its programs."""
    home = tmp_path / "cann"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(loader, "cann_present", lambda: True)
    monkeypatch.setattr(device.shutil, "which", lambda name: None)

    def find(version: str, *programs: str) -> dict[str, Finding]:
        (home / "version.info").write_text(f"Version={version}\n")
        for name in programs:
            (home / "bin" / name).write_text("#!/bin/sh\n")
            (home / "bin" / name).chmod(0o755)
        return {f.what: f for f in doctor.findings()}

    return find


def test_a_machine_for_packages(machine: Any, tmp_path: Path) -> None:
    found = machine("8.5.0", "bisheng")
    assert found["CANN"].state == "ok" and found["CANN"].text.startswith("8.5.0 for ")
    assert found["bisheng"] == Finding("bisheng", "ok", str(tmp_path / "cann/bin/bisheng"))
    assert found["cmake"] == Finding("cmake", "missing", "not found", "pip install cmake")
    assert found["NPU driver"].state == "missing" and "install the driver" in found["NPU driver"].advice
    assert "op package" not in found
    assert found["route"].text == "package: CANN 8.5.0 reads ops when it starts only"
    assert found["route"].advice.startswith(
        "run the model once, then: python -m torchair_autofuse build --soc ascend910b"
    )


def test_a_machine_for_jit(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine("9.2.0")
    assert found["bisheng"].state == "missing" and "set_env.sh" in found["bisheng"].advice
    assert found["route"] == Finding("route", "ok", "jit: CANN 9.2.0 finds new ops at any time", "")
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_ROUTE", "off")
    assert machine("9.2.0")["route"].state == "note"


def test_a_machine_without_a_route(machine: Any) -> None:
    found = machine("8.2.0")
    assert found["route"].state == "missing" and "fused ops need CANN 8.5 or later" in found["route"].text
    assert main(["doctor"]) == 1


def test_a_package_of_no_use(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "activate", lambda environ, options: Reason("AF502", "/opt/fused: was renamed"))
    found = machine("8.5.0")
    assert found["op package"] == Finding(
        "op package", "missing", "AF502: /opt/fused: was renamed", "see docs/deploy-package.md"
    )
    assert package.activate is not device.activate


def test_kernels_against_headers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The twin's headers stand for CANN's."""
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["doctor", "--ascendc-include", str(TWIN), "--compiler", "g++"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith(f"checks {len(out) - 2} kernels") and len(out) > 10
    assert all(line.endswith(": ok") for line in out[1:-1])
    assert out[-1] == f"{len(out) - 2} of {len(out) - 2} kernels compile"


def test_headers_that_kernels_do_not_compile_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    headers = tmp_path / "include"
    headers.mkdir()
    (headers / "kernel_operator.h").write_text("#define __aicore__\n#define __global__\n#define GM_ADDR char*\n")
    assert main(["doctor", "--ascendc-include", str(headers), "--compiler", "g++"]) == 1
    out = capsys.readouterr().out
    assert "error" in out and "0 of " in out and "the headers of CANN are for its own compiler" in out


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--ascendc-include", str(tmp_path / "none")]) == 2
    assert "none: no such folder" in capsys.readouterr().err
    assert main(["doctor", "--ascendc-include", str(TWIN), "--compiler", "no-such-compiler"]) == 2
    assert "no-such-compiler: not found; name one with --compiler" in capsys.readouterr().err
