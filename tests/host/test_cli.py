"""The command line: scripts, saved graphs, doctor."""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from host_process import run as run_process

from benchmarks import graphs as captured
from torchair_autofuse import doctor
from torchair_autofuse.cli import ALL_PASSES, main
from torchair_autofuse.report import files

wheel = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

SCRIPT = """
import sys
import torch
import torchair
import helper_beside_the_script

def model(x, y):
    return torch.relu(x * y + 1)

print("arguments", sys.argv[1:], "main", __name__, "file", __file__ == sys.argv[0])
backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
x, y = torch.randn(4, 8), torch.randn(8)
torch.testing.assert_close(torch.compile(model, backend=backend, dynamic=False)(x, y), model(x, y))
print("values agree")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    (tmp_path / "helper_beside_the_script.py").write_text("")
    sys.modules.pop("helper_beside_the_script", None)
    return path


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


# ---- scripts ------------------------------------------------------------------------------------------------------


@wheel
def test_run(plugin: Any, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.argv[:], sys.path[:], dict(os.environ)
    assert main(["run", str(script), "--size", "3", "-v"]) == 0
    assert (sys.argv, sys.path, dict(os.environ)) == before
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == f'AUTOFUSE_FLAGS is not set: running with AUTOFUSE_FLAGS="{ALL_PASSES}"'
    assert lines[1] == "arguments ['--size', '3', '-v'] main __main__ file True"
    assert lines[2] == "values agree"
    assert "kernels 3 -> 1 (-66.7%)" in out and "AutofusePointwiseK" in out and err == ""


@wheel
def test_run_with_the_users_flags(
    plugin: Any, script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", "--enable_autofuse=true;--max_fusion_size=2")
    assert main(["run", str(script)]) == 0
    out = capsys.readouterr().out
    assert "is not set" not in out and "kernels 3 -> 2" in out and "AF213" in out
    for name, value, why in [
        ("AUTOFUSE_FLAGS", "--enable_autofuse=false", "neither AUTOFUSE_FLAGS nor the script"),
        ("GF_AUTOFUSION_DISABLE", "1", "GF_AUTOFUSION_DISABLE is set"),
    ]:
        plugin.clear_reports()
        monkeypatch.setenv(name, value)
        assert main(["run", str(script)]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"No report: fusion is off, {why}")


@wheel
def test_in_a_fresh_process(script: Path, kernel_cache: Path) -> None:
    """The script imports torch alone: the command makes that work without CANN."""
    out = run_process(
        f"""
        import sys
        from torchair_autofuse.cli import main
        sys.exit(main(["explain", "--kernels", {str(script)!r}, "an argument"]))
        """,
        TORCHAIR_AUTOFUSE_CACHE_DIR=str(kernel_cache / "never"),
    )
    assert "arguments ['an argument']" in out and "values agree" in out and "kernels 3 -> 1" in out
    assert "kernel autofuse_pointwise_k" in out, "the loop IR"
    assert "DataCopyPad" in out or "DataCopy" in out, "the kernel source"
    assert not (kernel_cache / "never").exists(), "explain builds nothing"


ENDS = [
    ("", 0, "", ""),
    ("import sys; sys.exit()", 0, "", ""),
    ("import sys; sys.exit(3)", 3, "", ""),
    ("import sys; sys.exit('no data')", 1, "", "no data\n"),
    ("def f():\n    raise OSError('planted')\nprint('so far')\nf()", 1, "so far", "OSError: planted\n"),
    ("x = = 1", 1, "", "SyntaxError"),
]


@pytest.mark.parametrize("text, status, said, error", ENDS, ids=[e[0][-12:] or "empty" for e in ENDS])
def test_how_a_script_ends(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, said: str, error: str
) -> None:
    before = sys.argv[:], sys.path[:]
    name = write(tmp_path / "s.py", text)
    assert main(["run", name]) == status
    assert (sys.argv, sys.path) == before
    out, err = capsys.readouterr()
    assert said in out and (error in err if error else err == "")
    assert "No GE graph was compiled" in out
    if "planted" in text:
        shown = [line for line in err.splitlines() if line.startswith("  File")]
        assert all(name in line for line in shown) and len(shown) == 2, "none of our own frames"


# ---- saved graphs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph() -> bytes:
    return captured.model_def("pointwise_long__static__g0")


@pytest.mark.parametrize("name, pack", [("g.pb", bytes), ("g.pb.gz", gzip.compress), ("g.dat", gzip.compress)])
@pytest.mark.parametrize("order", ["none", "before", "after"])
def test_explain_a_graph(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: bytes, name: str, pack: Any, order: str
) -> None:
    path = tmp_path / name
    path.write_bytes(pack(graph))
    kernels = ["--kernels"]
    assert main(["explain", *kernels * (order == "before"), str(path), *kernels * (order == "after")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Fusion of ") and err == ""
    assert ("__aicore__" in out) is (order != "none")


def test_explain_a_graph_with_the_users_flags(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.pb").write_bytes(graph)
    monkeypatch.setenv("AUTOFUSE_FLAGS", "--enable_autofuse=true;--max_fusion_size=0")
    assert main(["explain", str(tmp_path / "g.pb")]) == 0
    out = capsys.readouterr().out
    assert "AF213" in out and "Fused: 0" not in out.replace("Fused: none", "")


def test_what_explain_cannot_read(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that names the file, and status 2."""
    good = tmp_path / "good.pb"
    good.write_bytes(graph)
    files = {
        "text.pb": b"this is no graph\n",
        "empty.pb": b"",
        "half.pb": graph[: len(graph) // 2],
        "half.pb.gz": gzip.compress(graph)[:-20],
        "bad.pb.gz": b"\x1f\x8b" + b"\x00" * 40,
        "crc.pb.gz": gzip.compress(graph)[:-8] + b"\x00" * 8,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    cases: list[tuple[list[str], str]] = [([str(tmp_path / name)], name) for name in files]
    cases += [
        ([str(tmp_path / "none.pb")], "no such file"),
        ([str(tmp_path / "none.py")], "no such script"),
        ([str(tmp_path)], "no such file"),
        ([str(good), "--kernel"], "unknown argument '--kernel'"),
        ([str(good), "more"], "unknown argument 'more'"),
    ]
    for args, said in cases:
        assert main(["explain", *args]) == 2, args
        out, err = capsys.readouterr()
        assert said in err and len(err.splitlines()) == 1 and out == "", (args, err)
        assert err.startswith("torchair_autofuse: ")
    assert main(["run", str(tmp_path / "none.py")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == f"torchair_autofuse: {tmp_path / 'none.py'}: no such script\n"
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_SOC", "Ascend310P3")
    assert main(["explain", str(good)]) == 2
    assert "AF306" in capsys.readouterr().err


def test_a_graph_without_permission(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "g.pb").write_bytes(b"")
    monkeypatch.setattr(Path, "read_bytes", refuse)  # root, as in many containers, may read everything
    assert main(["explain", str(tmp_path / "g.pb")]) == 2
    err = capsys.readouterr().err
    assert "Permission denied" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "args", [[], ["explain"], ["run"], ["fuse"], ["doctor", "more"], ["explain", "--kernel", "x.pb"]]
)
def test_bad_arguments(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2 and "usage: python -m torchair_autofuse" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0 and all(f"    {c} " in out for c in ("run", "explain", "diff", "doctor", "bench"))
    for command in re.findall(r"^    (\w+) ", out, re.MULTILINE):
        with pytest.raises(SystemExit) as stop:
            raise SystemExit(main([command, "--help"]))
        text = capsys.readouterr().out
        assert stop.value.code == 0 and f"usage: python -m torchair_autofuse {command} " in text
        assert "`" not in out + text, "a help text is no page"


# ---- files of reports ---------------------------------------------------------------------------------------------


def test_a_graph_as_page_and_json(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files may be named on either side of a graph, and diff reads what two runs wrote."""
    path, page, first, second = (tmp_path / n for n in ("g.pb", "page.html", "a.json", "b.json"))
    path.write_bytes(graph)
    assert main(["explain", "--html", str(page), str(path), "--json", str(first)]) == 0
    assert capsys.readouterr().out.startswith("Fusion of ")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "__aicore__" in text and '"before":[{' in text
    monkeypatch.setenv("AUTOFUSE_FLAGS", "--enable_autofuse=true;--max_fusion_size=2")
    assert main(["explain", f"--json={second}", str(path)]) == 0
    capsys.readouterr()
    assert main(["diff", str(first), str(second)]) == 1
    assert "+ refusal AF213" in capsys.readouterr().out
    assert main(["diff", str(second), str(second)]) == 0


@wheel
@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_script_as_page_and_json(
    plugin: Any, script: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    page, data = tmp_path / "page.html", tmp_path / "reports.json"
    assert main([command, "--html", str(page), "--json", str(data), str(script), "--html", "its own"]) == 0
    assert "arguments ['--html', 'its own']" in capsys.readouterr().out
    (report,) = files.load(data)
    assert report.kernels_after == 1 and report == plugin.reports()[0]
    assert report.run_unfused is (command == "explain")
    assert report.fused[0].op_type in page.read_text(encoding="utf-8")


def test_files_that_cannot_be_written(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: bytes
) -> None:
    """Told before a script runs where the folder is missing, else when it is tried; status 2."""
    path = tmp_path / "g.pb"
    path.write_bytes(graph)
    name = write(tmp_path / "s.py", "print('it ran')")
    for args in (["run"], ["explain"]):
        assert main([*args, "--json", str(tmp_path / "none" / "r.json"), name]) == 2
        out, err = capsys.readouterr()
        assert "it ran" not in out and "there is no folder" in err and len(err.splitlines()) == 1
    assert main(["explain", str(path), "--html", str(tmp_path / "none" / "p.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main(["explain", str(path), "--html", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err
    assert main(["explain", str(path), "--html"]) == 2
    assert "expected one argument" in capsys.readouterr().err


# ---- doctor -------------------------------------------------------------------------------------------------------


def _rows(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("│┃").split("│")] for line in out.splitlines() if "│" in line]


@wheel
def test_doctor_is_content(
    plugin: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kernel_cache: Path
) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", "--enable_autofuse=true;--autofuse_enable_pass=reduce")
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["doctor"]) == 0
    rows = {row[0]: row[1:] for row in _rows(capsys.readouterr().out) if row[0]}
    assert rows["torchair"] == ["ok", "imports from the torch_npu wheel, on the host", ""]
    assert rows["CANN"][:2] == [
        "note",
        "no CANN is installed here: neither ASCEND_HOME_PATH nor a usual folder names one",
    ]
    text = "host: there is no NPU: graphs run on the host, fused ops on the CPU twin"
    assert rows["route"] == ["ok", text, ""]
    assert rows["C++ compiler"][0] == "ok" and "g++" in rows["C++ compiler"][1]
    assert rows["chip"][1].startswith("Ascend910B1: architecture 2201")
    assert rows["cache"] == ["ok", str(kernel_cache), ""]
    assert rows["flags"] == ["ok", "fusion on; passes: reduce", ""]


WRONG: list[tuple[dict[str, str], str, str, str]] = [
    ({"TORCHAIR_AUTOFUSE_SOC": "Ascend310P3"}, "chip", "missing", "TORCHAIR_AUTOFUSE_SOC"),
    ({"CXX": "/no/such/compiler"}, "C++ compiler", "missing", "g++"),
    ({"TORCHAIR_AUTOFUSE_CACHE_DIR": "/proc/none"}, "cache", "missing", "TORCHAIR_AUTOFUSE_CACHE_DIR"),
    ({"AUTOFUSE_FLAGS": ""}, "flags", "note", "--enable_autofuse=true"),
    ({"AUTOFUSE_FLAGS": "--enable_autofus=true"}, "flags", "note", "docs/codes/AF101.md"),
]


@wheel
@pytest.mark.parametrize("env, what, state, advice", WRONG, ids=[next(iter(w[0])) for w in WRONG])
def test_doctor_says_what_to_do(
    plugin: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    env: dict[str, str],
    what: str,
    state: str,
    advice: str,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    found = [f for f in doctor.findings() if f.what == what]
    assert any(f.state == state and advice in f.advice for f in found), found
    assert main(["doctor"]) == (1 if state == "missing" else 0)
    assert what in capsys.readouterr().out


def test_doctor_knows_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(name: str) -> str:
        if name == "torch_npu":
            raise importlib.metadata.PackageNotFoundError(name)
        return "2.99.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = {f.what: f for f in doctor.findings()}
    assert found["torch_npu"].state == "missing" and "[host]" in found["torch_npu"].advice
    assert found["torch"].state == "note" and "2.13.0" in found["torch"].advice
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor"]) == 1
    rows = [line for line in capsys.readouterr().out.splitlines() if "torch_npu" in line and "│" in line]
    assert "pip install -e '.[host]'" in rows[0]  # what is in brackets is no markup


@wheel
def test_doctor_prints_a_long_cache_path_whole(
    tmp_path: Path, plugin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / ("a" * 80)
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(cache))
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["doctor"]) == 0
    assert f"cache: {cache}\n" in capsys.readouterr().out


def test_a_reader_that_has_seen_enough(tmp_path: Path, graph: bytes) -> None:
    (tmp_path / "g.pb").write_bytes(graph)
    command = [sys.executable, "-m", "torchair_autofuse", "explain", "--kernels", str(tmp_path / "g.pb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchair_autofuse", "explain", "none.pb"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("torchair_autofuse: none.pb: no such")
