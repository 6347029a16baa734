"""The cache under many processes, crashes and damage: compiled code is built once, checked, and never half there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from twin_support import HEAD, TILING_H

from torchair_autofuse.cache import sweep
from torchair_autofuse.opdef import artefact
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin import build as build_module
from torchair_autofuse.twin.build import BuildJob, build_job
from torchair_autofuse.twin.toolchain import find_compiler

ONE = """\
kernel k(in x: f32[s0], in h: f32[s0], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0]
  v0: f32 = load x[a0]  # from Mul
  v1: f32 = load h[a0]  # from Mul
  v2: f32 = mul(v0, v1)  # from Mul
  store y[a0] = v2  # from Mul
"""
TWO = ONE.replace("mul(v0", "sub(v0").replace("Mul", "Sub")
BODY = """
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    LocalTensor<float> f;
    if (GetBlockNum() < 0) { Add(f, f, f, 8); }
}
"""
SOURCES = {"kernel.cpp": HEAD + BODY, "tiling.h": TILING_H}
RANKS = 16

# What a rank does with the definitions that are stored in the folder of argv[1], in the cache argv[2].
RANK = """
import sys, time
from pathlib import Path
from torchair_autofuse.cache import sweep
from torchair_autofuse.opdef import load, registry
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.regenerate import artefact_files
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.build import BuildJob, build_many
from torchair_autofuse.twin.launcher import open_built

ops = [load(p) for p in sorted(Path(sys.argv[1]).glob("*.pb"))]
root = Path(sys.argv[2])
made = []
def files(op):
    made.append(op.op_type)
    return artefact_files(op)
written = []
replace = registry._replace
registry._replace = lambda root, folder, files: (written.append(folder.name), replace(root, folder, files))
for op in ops:
    registry.put(root, op.op_type, chip(), lambda op=op: files(op))
jobs = []
for op in ops:
    stored = registry.read(root, op.op_type, chip().soc)
    made = Definition.of(stored.op)
    jobs.append(BuildJob(stored.sources, made.entry, made.schedule.npu_arch))
for job, built in zip(jobs, build_many(jobs, cache_root=root)):
    assert open_built(job, built, root).entry == job.entry
print(",".join(written))
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """The compiler behind a script that notes every call in a log, and saves the time of optimising the runtime."""
    folder = tmp_path_factory.mktemp("compiler")
    real, script = find_compiler().compiler, folder / "logging-c++"
    script.write_text(f"""#!/bin/bash
printf "%s\\n" "$*" >> "${{LOG_OF_CALLS:-/dev/null}}"
exec {real} "${{@/-O3/-O0}}"
""")
    script.chmod(0o755)
    old = os.environ.get("CXX")
    os.environ["CXX"] = str(script)
    yield script
    os.environ.pop("CXX")
    if old is not None:
        os.environ["CXX"] = old


@pytest.fixture
def calls(compiler, tmp_path, monkeypatch):
    """What was compiled since, name -> times."""
    log = tmp_path / "calls"
    log.touch()
    monkeypatch.setenv("LOG_OF_CALLS", str(log))

    def read():
        found = (line.split() for line in log.read_text().splitlines())
        names = (next(w for w in words if w.endswith((".cpp", ".h", ".o"))) for words in found if len(words) > 1)
        return Counter("link" if name.endswith(".o") else Path(name).name for name in names)

    return read


@pytest.fixture(scope="module")
def filled(tmp_path_factory, compiler):
    """A cache with one kernel, to be copied: nothing in it depends on where it is."""
    root = tmp_path_factory.mktemp("filled")
    root.chmod(0o755)
    return root, build_job(BuildJob(SOURCES, "k"), root).relative_to(root)


@pytest.fixture
def copied(filled, tmp_path):
    root = tmp_path / "cache"
    shutil.copytree(filled[0], root)
    return root, root / filled[1]


def in_process(script, *args, check=True, **kwargs):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)], capture_output=True, text=True, **kwargs
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def test_16_processes_build_everything_once(make_op, tmp_path, calls):
    (tmp_path / "defs").mkdir()
    types = []
    for text in (ONE, TWO):
        folder = artefact.write(tmp_path / "elsewhere", make_op(text), chip())
        types.append(folder.name)
        shutil.copy(folder / "op.afop.pb", tmp_path / "defs" / f"{folder.name}.pb")
    command = [sys.executable, "-c", RANK, str(tmp_path / "defs"), str(tmp_path / "cache")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(RANKS)]
    outputs = [run.communicate(timeout=300) for run in runs]
    assert [(run.returncode, err) for run, (_, err) in zip(runs, outputs)] == [(0, "")] * RANKS
    assert sorted(name for out, _ in outputs for name in out.strip().split(",") if name) == sorted(types)
    sources = [p.name for p in build_module.RUNTIME.glob("*.cpp")]
    assert calls() == Counter([*sources, "link", "kernel_operator.h", "twin_wrapper_.cpp", "twin_wrapper_.cpp"])
    assert not list((tmp_path / "cache").rglob(".*-*"))
    assert sweep.held(tmp_path / "cache") == set() and not any((tmp_path / "cache" / ".leases").iterdir())


OPEN = """
import json, sys
from pathlib import Path
from torchair_autofuse.twin.build import BuildJob, build_job
from torchair_autofuse.twin.launcher import open_built
job = BuildJob(json.loads(sys.argv[2]), "k")
print(open_built(job, build_job(job, Path(sys.argv[1])), Path(sys.argv[1])).arch)
"""
DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-50] + b"\x01" + path.read_bytes()[-49:]),
    "open to all": lambda path: path.chmod(0o666),
    "another record": lambda path: path.with_name(path.name + ".json").write_text('{"bytes": 1, "sha256": ""}'),
    "no record": lambda path: path.with_name(path.name + ".json").unlink(),
}


CASES = [("kernels/*.so", damage) for damage in DAMAGES] + [("runtime/*/libtwin_rt.so", "one bit")]


@pytest.mark.parametrize("part, damage", CASES)
def test_damaged_libraries_are_built_anew(copied, part, damage):
    root, _ = copied
    (path,) = (root / "twin").glob(part)
    DAMAGES[damage](path)
    done = in_process(OPEN, root, json.dumps(SOURCES))
    assert done.stdout == "2201\n"
    if damage == "no record":  # of an earlier release: nothing says what it should be
        assert done.stderr == ""
    else:
        assert done.stderr.count("AF506") == 1 and f"AF506: {path.name}: " in done.stderr
        assert "the entry was made again" in done.stderr
    assert in_process(OPEN, root, json.dumps(SOURCES)).stderr == ""
    assert not path.stat().st_mode & 0o022
