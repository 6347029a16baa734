"""Probes without a device: page and registry agree, reports, what CANN's files say, processes that end badly."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path

import pytest

from torchair_autofuse.cli import main
from torchair_autofuse.codegen import kernel as printer
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.probe import host, record, report
from torchair_autofuse.probe.device import DeviceSpec
from torchair_autofuse.probe.record import Finding, Host, NoProbe, Probe, Result
from torchair_autofuse.probe.registry import PROBES, select
from torchair_autofuse.probe.runner import Setting, ask, run
from torchair_autofuse.probe.samples import KERNELS, sample_ops
from torchair_autofuse.probe.worker import Job

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hardware-assumptions.md"


def entries() -> dict[str, str]:
    """Number -> text of every entry of the page, the rows of its table included."""
    text = PAGE.read_text(encoding="utf-8")
    starts = [(m.start(), m.group(1)) for m in re.finditer(r"\*\*(H\d+)\b", text)]
    return {i: " ".join(text[at:end].split()) for (at, i), end in zip(starts, [*(s for s, _ in starts[1:]), len(text)])}


def test_every_assumption_has_one_probe() -> None:
    """A new entry of the page needs a record in torchair_autofuse/probe/registry.py, and the other way round."""
    assert [p.id for p in PROBES] == list(entries())


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: p.id)
def test_the_page_says_how_to_check(probe: Probe) -> None:
    assert f"`probe {probe.id}`" in entries()[probe.id], f"the check of {probe.id} does not name `probe {probe.id}`"


def test_selection() -> None:
    assert [p.id for p in select(["h3", "H1"])] == ["H1", "H3"]
    assert select([]) == list(PROBES)
    with pytest.raises(ValueError, match="no probe 'H999'; there are H1 to H"):
        select(["H999"])


def test_list_and_bad_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(f" {p.id} " in shown for p in PROBES)
    assert main(["probe", "H0"]) == 2 and "no probe 'H0'" in capsys.readouterr().err
    assert main(["probe", "--seconds", "0"]) == 2 and "above 0" in capsys.readouterr().err


# ---- the report ---------------------------------------------------------------------------------------------------

SHOWN = {"case": "a|b", "index": "3", "input": "nan", "expected": "1", "got": "2 (0x40000000)"}
RESULTS = (
    Result("H1", record.DIFFERS, ("1 of 2 cases hold", f"no /home/{getpass.getuser()}/x/kernel.cpp"), first=(SHOWN,)),
    Result("H6", record.HOLDS, numbers=(("largest error", 0.5, None, "ulp"),)),
    Result("H33", record.MEASURED, numbers=(("launch_us", 3.25, 2.0, "us"), ("rate", float("inf"), 9.0, "b"))),
)


def test_report(tmp_path: Path) -> None:
    probes = select([r.id for r in RESULTS])
    driver = tmp_path / "version.info"
    driver.write_text("package=driver\nVersion=25.2.0\n")
    cann = Cann(tmp_path, (9, 1, 0), "9.1.0", "aarch64")
    env = report.environment(DeviceSpec("npu", "Ascend910B3"), cann, driver)
    assert (env["driver"], env["CANN"], env["SoC"], env["device"]) == ("25.2.0", "9.1.0", "Ascend910B3", "NPU")
    markdown, as_json = report.write(tmp_path / "new" / "folder", env, probes, RESULTS)
    text = markdown.read_text()
    assert "1 hold, 1 differ, 1 measured" in text
    assert "| H1 | NaN in Max and Min | differs | 1 of 2 cases hold; no kernel.cpp |" in text
    assert "| a\\|b | 3 | nan | 1 | 2 (0x40000000) |" in text
    assert "| H33 | launch_us | 3.25 | 2 | us |" in text and "| H6 | largest error | 0.5 |  | ulp |" in text
    data = json.loads(as_json.read_text())
    assert data["schema"] == 1 and data["environment"] == env
    assert [r["id"] for r in data["results"]] == ["H1", "H6", "H33"]
    assert data["results"][0]["first"] == [SHOWN] and data["results"][0]["assumed"] == probes[0].assumed
    assert data["results"][2]["numbers"][1] == ["rate", None, 9.0, "b"] and "| H33 | rate | inf | 9 | b |" in text
    for private in (str(tmp_path), f"/{getpass.getuser()}/", platform.node()):
        assert private not in text and private not in as_json.read_text()


def test_names_and_paths_are_left_out() -> None:
    user, node = getpass.getuser(), platform.node()
    assert report.clean("In /tmp/afprobe-1x/kernel.cpp:3:5: error") == "In kernel.cpp:3:5: error"
    assert report.clean(f"{user} on {node}: 3/4 of float/half") == "... on ...: 3/4 of float/half"


# ---- CANN's files -------------------------------------------------------------------------------------------------

INI = """[version]
SoC_version={soc}
NpuArch=2201
[SoCInfo]
vector_core_cnt={cores}
l2_size=201326592  # 192 MiB
[AICoreSpec]
cube_freq=1800
ub_size=196608
"""


def fake(home: Path) -> Cann:
    return Cann(home, (9, 1, 0), "9.1.0", platform.machine())


def test_platform(tmp_path: Path) -> None:
    folder = tmp_path / "x86_64-linux" / "data" / "platform_config"
    folder.mkdir(parents=True)
    (nothing,) = host.platform(fake(tmp_path), "", tmp_path)
    assert nothing.ok is None
    (folder / "Ascend910B2.ini").write_text(INI.format(soc="Ascend910B2", cores=48))
    (folder / "Ascend910B3.ini").write_text(INI.format(soc="Ascend910B3", cores=48))
    (folder / "Ascend910B4.ini").write_text("[SoCInfo]\n")
    good, wrong, silent = host.platform(fake(tmp_path), "", tmp_path)
    assert good == Finding("Ascend910B2", True, "NpuArch=2201, vector_core_cnt=48, ub_size=196608, cube_freq=1800")
    assert wrong == Finding("Ascend910B3", False, "vector_core_cnt is 48, chips.toml has 40")
    assert silent.ok is None and "none of the keys" in silent.text
    assert host.platform(fake(tmp_path), "Ascend910B2", tmp_path) == [good]


SIZES = """#pragma once
#include <cstdint>
namespace AscendC {
"""


def helpers(home: Path, power: str) -> Cann:
    """Headers and libraries with the helpers of temporary buffers, in a folder that looks like CANN."""
    (home / "include" / "graph").mkdir(parents=True)
    (home / "include" / "tiling").mkdir()
    (home / "include" / "graph" / "tensor.h").write_text(
        "#pragma once\n#include <cstdint>\n#include <vector>\nnamespace ge { struct Shape { int64_t n; "
        "explicit Shape(const std::vector<int64_t>& dims) : n(dims[0]) {} }; }\n"
    )
    text = SIZES
    factors = {"Tanh": 1, "Erf": 3, "Sin": 3, "Cos": 3, "Atan": 5, "Sinh": 1, "Cosh": 2, "Fmod": 1}
    for name, factor in factors.items():
        text += (
            f"inline void Get{name}MaxMinTmpSize(const ge::Shape& s, uint32_t, bool, uint32_t& most, uint32_t& least)"
        )
        text += f" {{ most = 4 * {factor} * (s.n > 64 ? s.n : 64); least = {factor} * 256; }}\n"
    text += "inline void GetPowerMaxMinTmpSize(const ge::Shape& s, const ge::Shape&, bool, uint32_t, bool, "
    text += f"uint32_t& most, uint32_t& least) {{ most = {power}; least = 1280; }}\n}}\n"
    (home / "include" / "tiling" / "tiling_api.h").write_text(text)
    (home / "lib64").mkdir()
    for library in ("tiling_api", "register", "platform"):
        subprocess.run(["ar", "rc", str(home / "lib64" / f"lib{library}.a")], check=True)
    return fake(home)


def test_temporaries(tmp_path: Path) -> None:
    """Formulas of the public helpers, and one that takes more."""
    good = helpers(tmp_path / "good", "4 * 4 * s.n + 256")
    assert all(f.ok for f in host.temporaries(good, "", tmp_path))
    more = helpers(tmp_path / "more", "6 * 4 * s.n + 256")
    wrong = {f.name: f.text for f in host.temporaries(more, "", tmp_path) if f.ok is False}
    assert (
        list(wrong) == ["Power"]
        and "4096 elements take 98560 bytes at full speed, kernels have 82432" in wrong["Power"]
    )
    (none,) = host.temporaries(fake(tmp_path / "none"), "", tmp_path)
    assert none.ok is None and "does not build" in none.text


def test_host_code_that_does_not_compile(tmp_path: Path) -> None:
    found = host.host_code(fake(tmp_path), "", tmp_path)
    assert [f.name for f in found] == list(host.HOST_SAMPLES)
    assert all(f.ok is False and "error" in f.text for f in found)


def test_cmake_functions(tmp_path: Path) -> None:
    (none,) = host.cmake_functions(fake(tmp_path), "", tmp_path)
    assert none.ok is False and "ASCConfig.cmake" in none.text
    folder = tmp_path / "lib64" / "cmake" / "ASC"
    folder.mkdir(parents=True)
    (folder / "ASCConfig.cmake").write_text("include(func.cmake)\n")
    (folder / "func.cmake").write_text("function(npu_op_package name)\nendfunction()\n macro( npu_other )\n")
    found = {f.name: f.ok for f in host.cmake_functions(fake(tmp_path), "", tmp_path)}
    assert [n for n, ok in found.items() if ok] == ["npu_op_package"] and len(found) == 6


def test_host_code_in_both_standards(tmp_path: Path) -> None:
    """Against the look-alikes of CANN's headers."""
    cann = fake(tmp_path)
    (tmp_path / "include").symlink_to(ROOT / "torchair_autofuse" / "twin" / "cann" / "include")
    found = [*host.host_code(cann, "", tmp_path), *host.both_standards(cann, "", tmp_path)]
    assert [f for f in found if not f.ok] == []
    assert [f.name for f in found][-2:] == ["columns and rows, c++11", "columns and rows, c++17"]


def test_samples_use_every_helper() -> None:
    """A helper is told by a line that no other helper has."""
    folder = ROOT / "op_templates" / "helpers"
    plain = {
        n: {
            line
            for line in (folder / f"{n}.h.j2").read_text().splitlines()
            if "{" + "%" not in line and "{{" not in line
        }
        for n in printer._HELPERS
    }
    texts = [set(op.files["kernel.cpp"].splitlines()) for op in sample_ops().values()]
    for name, lines in plain.items():
        own = lines - set().union(*(other for n, other in plain.items() if n != name))
        assert any(own & text for text in texts), name
    assert {p.name for p in folder.iterdir()} == {f"{n}.h.j2" for n in printer._HELPERS}
    assert len(sample_ops("Ascend950PR_9599")) == len(KERNELS)
    with pytest.raises(ValueError, match="AF306"):
        sample_ops("Ascend310P3")


# ---- processes ----------------------------------------------------------------------------------------------------


def test_processes_that_end_badly() -> None:
    assert ask(Job("check", check=os.abort), 60).end.startswith("signal 6")
    assert ask(Job("check", check=os._exit, arguments=(3,)), 60).end == "exit status 3"
    start = time.monotonic()
    assert ask(Job("check", check=time.sleep, arguments=(600,)), 1.5).end == "no answer within 1.5 s"
    assert time.monotonic() - start < 60


def test_findings_become_results(tmp_path: Path) -> None:
    cann = fake(tmp_path)
    probe = Probe("H24", "chip facts", "", Host(host.platform))
    assert run(probe, Setting(None, None, 60)).notes == ("needs CANN",)
    made = run(probe, Setting(None, cann, 60))
    assert (made.state, made.notes) == (
        record.NOT_RUN,
        ("platform_config: no known SoC.ini in CANN's data/platform_config",),
    )
    folder = tmp_path / "data" / "platform_config"
    folder.mkdir(parents=True)
    (folder / "Ascend910B2.ini").write_text(INI.format(soc="Ascend910B2", cores=48))
    assert run(probe, Setting(None, cann, 60)).state == record.HOLDS
    (folder / "Ascend910B3.ini").write_text(INI.format(soc="Ascend910B3", cores=48))
    assert run(probe, Setting(None, cann, 60)).state == record.DIFFERS
    broken = run(dataclasses.replace(probe, how=Host(os.listdir)), Setting(None, cann, 60))  # wants one argument
    assert broken.state == record.FAILED and "TypeError" in broken.notes[0]
    assert run(Probe("H22", "", "", NoProbe("why")), Setting(None, cann, 60)).notes == ("why",)
