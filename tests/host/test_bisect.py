"""bisect of models with a planted bug: what is found, and the folder that reproduces it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchair_autofuse
from tests.host.planted import wrong_tanh
from torchair_autofuse.cli import main
from torchair_autofuse.trust import repro

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchair") is None, reason="needs the torch_npu wheel")

ALL = "--enable_autofuse=true;--autofuse_enable_pass=all"


def three(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    a = torch.relu(x * w[0] + 1) @ w
    b = torch.tanh(a * 2) + a
    return torch.exp(-(b @ w) * 0.1) + 1


def values(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return tuple(torch.randn(n, 16, generator=generator).to(dtype) for n in (8, 16))  # type: ignore[return-value]


def bisect(*args: Any, **kwargs: Any) -> Any:
    return torchair_autofuse.bisect(three, *args, options=ALL, **kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_wrong_op_is_found_and_reproduced(
    plugin: Any, tmp_path: Path, dtype: torch.dtype, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with wrong_tanh():
        result = bisect(*values(dtype), out=out)
    assert result.outcome == "found" and "Tanh" in result.op.nodes and result.fuel == 2
    assert [a.fuel for a in result.attempts] == [0, None, None, 1, 2, 2, 1][: len(result.attempts)]
    names = {p.name for p in out.iterdir()}
    assert names >= {
        "README.txt",
        "before.pb",
        "before.pbtxt",
        "after.pb",
        "after.pbtxt",
        "inputs.npz",
        "repro.py",
        "ops",
    }
    assert result.op.op_type in (out / "README.txt").read_text()
    assert (out / "ops" / result.op.op_type / "kernel.cpp").is_file()
    assert repro.main(out) == 1, "the folder holds the wrong kernel"
    printed = capsys.readouterr().out
    assert "WRONG" in printed and "kernel against its own loop.txt" in printed and "values agree" in printed
    with np.load(out / "inputs.npz") as arrays:
        assert sorted(arrays) == ["input_0"] and arrays["input_0"].shape == (8, 16)


def test_nothing_wrong_and_wrong_by_itself(plugin: Any, tmp_path: Path) -> None:
    assert bisect(*values(), repeats=1).outcome == "good"
    assert bisect(*values(), check=lambda y: False, repeats=1).outcome == "not fusion"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not empty"):
        bisect(*values(), out=tmp_path)
    with pytest.raises(ValueError, match="repeats"):
        bisect(*values(), repeats=0)


def test_a_function_of_the_outputs_decides(plugin: Any) -> None:
    x, w = values()
    want = three(x, w)
    with wrong_tanh():
        result = bisect(x, w, check=lambda y: torch.allclose(y, want, rtol=1e-3), repeats=1)
    assert result.outcome == "found" and "Tanh" in result.op.nodes and result.why == "the check is not true"


def test_a_right_op_reproduces_nothing(plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """repro.py is no proof that something is wrong: it compares."""
    out = tmp_path / "out"
    result = bisect(*values(), check=lambda y: not plugin.reports()[-1].fused[1:], repeats=1, out=out)
    assert result.outcome == "found" and repro.main(out) == 0
    assert "ok: the fused op gives what its nodes give" in capsys.readouterr().out
    (out / "inputs.npz").unlink()
    assert repro.main(out) == 2
    assert "inputs.npz is missing" in capsys.readouterr().err


def test_a_script(plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torchair_autofuse, torch, torchair\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.host.planted import wrong_tanh\n"
        "backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())\n"
        "with wrong_tanh():\n"
        "    torch.compile(lambda x: torch.tanh(x * 2) + x, backend=backend, dynamic=False)(torch.ones(8, 16))\n"
    )
    out = tmp_path / "out"
    assert main(["bisect", "--repeats", "1", "--out", str(out), str(script)]) == 1
    printed = capsys.readouterr().out
    assert "Found in 2 tries" in printed and "Tanh" in printed and "values differ" in printed
    done = subprocess.run([sys.executable, str(out / "repro" / "repro.py")], capture_output=True, text=True)
    assert done.returncode == 1 and "WRONG" in done.stdout, done.stdout + done.stderr
    assert f"bisect {script}" in (out / "repro" / "README.txt").read_text()
