"""Artefact folders that rerun alone, and fused ops as the host executor runs them. Few kernels, each built once."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from torchair_autofuse import opdef
from torchair_autofuse.host import kernels
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.opdef import artefact
from torchair_autofuse.opdef import run as opdef_run
from torchair_autofuse.opdef.build import sha256
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.build import default_cache_root
from torchair_autofuse.twin.errors import KernelBuildError, TwinViolation

# y = x + h, z = y * x; h varies along the columns
TEXT = """\
kernel k(in x: f32[s0, s1], in h: f32[s1], out y: f32[s0, s1], out z: f32[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f32 = load x[s1*a0 + a1]  # from Add
  v1: f32 = load h[a1]  # from Add
  v2: f32 = add(v0, v1)  # from Add
  v3: f32 = mul(v2, v0)  # from Mul
  store y[s1*a0 + a1] = v2  # from Add
  store z[s1*a0 + a1] = v3  # from Mul
"""
FLAT = """\
kernel k(in x: f32[s0], in h: f32[s0], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0]
  v0: f32 = load x[a0]  # from Mul
  v1: f32 = load h[a0]  # from Mul
  v2: f32 = mul(v0, v1)  # from Mul
  store y[a0] = v2  # from Mul
"""


TWIN = default_cache_root() / "twin"  # builds are keyed by content: shared, so that the runtime is built once


def fresh_root(folder):
    TWIN.mkdir(parents=True, exist_ok=True)
    (folder / "twin").symlink_to(TWIN, target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Artefacts of its own, used by this process and by the run.py scripts it starts."""
    root = fresh_root(tmp_path_factory.mktemp("cache"))
    old = os.environ.get("TORCHAIR_AUTOFUSE_CACHE_DIR")
    os.environ["TORCHAIR_AUTOFUSE_CACHE_DIR"] = str(root)
    yield root
    os.environ.pop("TORCHAIR_AUTOFUSE_CACHE_DIR")
    if old is not None:
        os.environ["TORCHAIR_AUTOFUSE_CACHE_DIR"] = old
    kernels.clear()


@pytest.fixture(scope="module")
def made(make_op):
    return make_op(TEXT)


@pytest.fixture(scope="module")
def folder(cache, made):
    return artefact.write(cache, made, chip(), opdef.build(made, chip(), {"s0": 33, "s1": 100}))


def mailed(folder, tmp_path, change=lambda text: text):
    """A copy of the folder somewhere else, with an edited kernel."""
    copy = tmp_path / "mailed"
    shutil.copytree(folder, copy)
    source = copy / "kernel.cpp"
    source.write_text(change(source.read_text()))
    return copy


def replaced(old, new):
    def change(text):
        assert old in text
        return text.replace(old, new)

    return change


def test_run_py_as_a_script(folder, tmp_path):
    copy = mailed(folder, tmp_path)
    command = [sys.executable, "run.py", "--seed", "4", "--shape", "s0=17", "s1=40"]
    run = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert lines[-1] == "ok"
    assert "sizes: s0=17, s1=40" in lines
    assert any(line.startswith("y: 680 values agree") for line in lines)
    assert any(line.startswith("GM: ") for line in lines) and any(line.startswith("UB peak: ") for line in lines)


@pytest.mark.parametrize("shape", [["s0=1", "s1=1"], ["s0=5", "s1=1000"], ["s0=300", "s1=7"], ["s0=0"], []])
def test_sizes(folder, capsys, shape):
    args = ["--shape", *shape] if shape else []
    assert opdef_run.main(folder, args) == opdef_run.OK, capsys.readouterr().out
    out = capsys.readouterr().out
    assert ("nothing to launch" in out) == (shape == ["s0=0"])
    if not shape:
        assert "sizes: s0=33, s1=100" in out  # the example sizes


def test_infinities_and_nan_go_through(folder, capsys):
    assert opdef_run.main(folder, ["--special", "--seed", "2"]) == opdef_run.OK, capsys.readouterr().out


@pytest.mark.parametrize("shape", ["s2=4", "s0", "s0=-1", "s0=x", "=3"])
def test_bad_sizes_are_refused(folder, capsys, shape):
    assert opdef_run.main(folder, ["--shape", shape]) == opdef_run.USAGE
    assert f"--shape {shape}: expected <symbol>=<size>; the symbols are s0, s1" in capsys.readouterr().err


def test_a_wrong_value_is_found(folder, tmp_path, capsys):
    copy = mailed(folder, tmp_path, lambda text: text.replace("Mul(", "Add("))
    assert opdef_run.main(copy, ["--seed", "1"]) == opdef_run.WRONG
    out = capsys.readouterr().out
    assert "y: 3300 values agree" in out
    assert "z: " in out and "values are wrong" in out and "first at [0, 0]" in out
    assert "rule:" not in out


def test_a_value_that_is_not_stored_is_found(folder, tmp_path, capsys):
    copy = mailed(folder, tmp_path, replaced("StoreRows(yGm_", "if (GetBlockIdx() > 0) StoreRows(yGm_"))
    assert opdef_run.main(copy, []) == opdef_run.WRONG
    assert "bytes were never written" in capsys.readouterr().out


def test_a_broken_rule_is_named(folder, tmp_path, capsys):
    copy = mailed(folder, tmp_path, lambda text: text.replace("PipeBarrier<PIPE_V>();", ""))
    assert opdef_run.main(copy, []) == opdef_run.RULE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("rule: ") and len(lines[-1].split()) == 2


def test_a_kernel_that_does_not_build(folder, tmp_path, capsys):
    copy = mailed(folder, tmp_path, replaced("Process()\n", "Process(int)\n"))
    assert opdef_run.main(copy, []) == opdef_run.BUILD
    assert "AF405" in capsys.readouterr().err


def test_host_kernel_computes_what_torch_does(folder, made, cache):
    kernel = kernels.load(made.op_type)
    generator = torch.Generator().manual_seed(0)
    for rows, cols in ((3, 5), (64, 256), (2, 3000), (3, 5)):
        x, h = torch.randn(rows, cols, generator=generator), torch.randn(cols, generator=generator)
        y, z = kernel.run([x, h])
        assert torch.equal(y, x + h) and torch.equal(z, (x + h) * x)
        profile = kernels.profiles()[made.op_type]
        assert profile.gm_written_bytes == 2 * x.nbytes
        assert profile.args[0].read == x.nbytes


def test_host_kernel_takes_views_and_empty_tensors(folder, made, cache):
    kernel = kernels.load(made.op_type)
    x, h = torch.randn(6, 4).t(), torch.randn(12)[::2]
    y, _ = kernel.run([x, h])
    assert torch.equal(y, x + h) and y.is_contiguous()
    before = kernel.last_profile
    y, z = kernel.run([torch.empty(0, 6), torch.randn(6)])
    assert y.shape == z.shape == (0, 6)
    assert kernel.last_profile is before  # nothing was launched


INPUTS = [
    ([torch.zeros(2, 3)], "1 inputs given, 2 expected"),
    (
        [torch.zeros(2, 3), torch.zeros(3, dtype=torch.float16)],
        "input h is torch.float16 on cpu",
    ),
    ([torch.zeros(2, 3), torch.zeros(4)], "dim 0 of input h is 4, expected s1 = 3"),
    ([torch.zeros(6), torch.zeros(3)], "input x has shape"),
]


@pytest.mark.parametrize("inputs, problem", INPUTS, ids=[p for _, p in INPUTS])
def test_host_kernel_refuses_other_inputs(folder, made, cache, inputs, problem):
    shapes = ", ".join(str(list(t.shape)) for t in inputs)
    with pytest.raises(ValueError, match=problem) as caught:
        kernels.load(made.op_type).run(inputs)
    for part in (made.op_type, str(folder), f"input shapes {shapes}"):
        assert part in str(caught.value)


def test_kernels_are_loaded_once_until_their_folder_changes(folder, made, cache, tmp_path):
    kernel = kernels.load(made.op_type)
    assert kernels.load(made.op_type) is kernel
    kernels.prepare([made.op_type, made.op_type])
    assert kernels.load(made.op_type) is kernel
    artefact.write(tmp_path, made, chip("Ascend910B4"))
    kernels.set_root(fresh_root(tmp_path))
    try:
        other = kernels.load(made.op_type)
    finally:
        kernels.set_root(None)
    assert other is not kernel and other.definition.schedule.soc == "Ascend910B4"
    assert kernels.load(made.op_type) is kernel


def stored_as_generated(root, made, change):
    """A folder whose kernel is edited and whose definition says that it was generated so."""
    folder = artefact.write(root, made, chip())
    text = change((folder / "kernel.cpp").read_text())
    (folder / "kernel.cpp").write_text(text)
    op = opdef.load(folder)
    next(a for a in op.artefact if a.name == "kernel.cpp").sha256 = sha256(text)
    opdef.save(op, folder / "op.afop.pb")
    return folder


def test_errors_of_host_kernels_name_op_folder_and_shapes(made, make_op, tmp_path):
    flat = make_op(FLAT)
    stored_as_generated(tmp_path, made, lambda text: text.replace("PipeBarrier<PIPE_V>();", ""))
    broken = stored_as_generated(tmp_path, flat, replaced("Process()\n", "Process(int)\n"))
    kernels.set_root(fresh_root(tmp_path))
    try:
        with pytest.raises(KernelBuildError, match=f"{flat.op_type} in {broken}: its kernel did not build"):
            kernels.prepare([made.op_type, flat.op_type])
        kernel = kernels.load(made.op_type)
        with pytest.raises(TwinViolation) as caught:
            kernel.run([torch.randn(4, 8), torch.randn(8)])
    finally:
        kernels.set_root(None)
    for part in ("AF406", caught.value.rule, made.op_type, str(tmp_path), "input shapes [4, 8], [8]"):
        assert part in str(caught.value)


def test_missing_and_damaged_folders(made, tmp_path):
    kernels.set_root(fresh_root(tmp_path))
    try:
        with pytest.raises(opdef.ArtefactError, match="there is no folder"):
            kernels.load(made.op_type)
        folder = artefact.write(tmp_path, made, chip())
        with (folder / "kernel.cpp").open("a") as file:
            file.write("\n")
        with pytest.warns(AutofuseWarning, match=rf"AF506: {made.op_type}: kernel\.cpp is not the file that was gen"):
            kernels.load(made.op_type)  # its definition is good, so it is generated again
        artefact.read(tmp_path, made.op_type)
        with (folder / "op.afop.pb").open("ab") as file:
            file.write(b"\xff")
        with pytest.raises(opdef.OpDefError, match="not a FusedOpDef"):
            kernels.load(made.op_type)
        artefact.write(tmp_path, made, chip())
        assert kernels.load(made.op_type).run([torch.ones(2, 2), torch.ones(2)])[1].tolist() == [[2.0, 2.0]] * 2
    finally:
        kernels.set_root(None)


def test_other_precisions_and_chips(make_op, cache):
    """Half precision in, booleans out, on both architectures."""
    text = """\
kernel k(in x: bf16[s0, 48], in h: f16[s0, 1], out y: f16[s0, 48], out m: bool[s0, 48]) where s0 = x.0
nest n0 [a0: s0, a1: 48]
  v0: bf16 = load x[48*a0 + a1]  # from Mul
  v1: f32 = cast(v0, rint)  # from Mul
  v2: f16 = load h[a0]  # from Mul
  v3: f32 = cast(v2, rint)  # from Mul
  v4: f32 = mul(v1, v3)  # from Mul
  v5: f16 = cast(v4, rint)  # from Mul
  v6: bool = lt(v1, v3)  # from Less
  store y[48*a0 + a1] = v5  # from Mul
  store m[48*a0 + a1] = v6  # from Less
"""
    for soc in ("Ascend910B1", "Ascend950PR_9599"):
        made = make_op(text, soc)
        folder = artefact.write(cache, made, chip(soc))
        assert opdef_run.main(folder, ["--seed", "9", "--shape", "s0=37"]) == opdef_run.OK
        x, h = torch.randn(21, 48).bfloat16(), torch.randn(21, 1).half()
        y, m = kernels.load(made.op_type).run([x, h])
        assert torch.equal(y, (x.float() * h.float()).half()) and torch.equal(m, x.float() < h.float())
        assert m.dtype == torch.bool and np.asarray(m).max() <= 1
