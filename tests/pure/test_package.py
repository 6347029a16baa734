"""The project of a package: names, chips, files, the definitions it is made of, and the command where CANN is not."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.package_ops import RAISE, SCALE, definitions
from torchair_autofuse import opdef
from torchair_autofuse.cli import main
from torchair_autofuse.codegen.names import camel
from torchair_autofuse.deliver.package.build import BuildError, failed_ops, write_project
from torchair_autofuse.deliver.package.names import build_command, entry_name, targets
from torchair_autofuse.deliver.package.project import for_targets, project
from torchair_autofuse.deliver.package.recorded import read_recorded
from torchair_autofuse.messages import Reason
from torchair_autofuse.soc.chip import Chip, chip, soc_names

A2 = targets(["ascend910b"])


@pytest.fixture(scope="module")
def ops(make_op):
    return definitions(make_op)


@pytest.fixture(scope="module")
def files(ops):
    return project(ops, A2)


@pytest.fixture(autouse=True)
def no_cann(monkeypatch):
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "TORCHAIR_AUTOFUSE_PACKAGE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "op_type, name",
    [
        ("AddCustom", "add_custom"), ("MatmulCustom", "matmul_custom"), ("ReduceMaxCustom", "reduce_max_custom"),
        ("Conv2DCustom", "conv2_d_custom"), ("GatherV2Custom", "gather_v2_custom"), ("GatherV2X", "gather_v2_x"),
        ("AutofuseReduceK0f52c1a9d3e7", "autofuse_reduce_k0f52c1a9d3e7"), ("A", "a"), ("", ""),
    ],
)  # fmt: skip
def test_names_by_the_documented_examples(op_type, name):
    assert entry_name(op_type) == name


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["Pointwise", "Reduce", "Move"]), st.from_regex("[0-9a-f]{12}", fullmatch=True))
def test_every_hash_gives_the_name_of_the_kernel(kind, digits):
    """Whatever the digits: no capital follows the K, so no rule for runs of capitals can part the hash either."""
    entry = f"autofuse_{kind.lower()}_k{digits}"
    assert entry_name(f"Autofuse{kind}K{digits}") == entry
    assert camel(entry) == f"Autofuse{kind}K{digits}"


@pytest.mark.parametrize(
    "names, planned, units, count",
    [
        (["ascend910b"], "Ascend910B1", ("ascend910b",), 6),
        (["Ascend910B3"], "Ascend910B3", ("ascend910b",), 6),
        (["ascend910_93", "ascend910b"], "Ascend910_9391", ("ascend910_93", "ascend910b"), 13),
        (["ASCEND950"], "Ascend950PR_9599", ("ascend950",), 9),
    ],
)
def test_targets(names, planned, units, count):
    found = targets(names)
    assert (found.chip.soc, found.units, len(found.chips)) == (planned, units, count)
    assert {c.npu_arch for c in found.chips} == {found.chip.npu_arch}


@pytest.mark.parametrize(
    "names, expected",
    [
        (["ascend910b", "ascend950"], "build a package for each"),
        (["Ascend910X9"], "unknown SoC"),
        (["ascend310p"], "DataCopyPad"),
        ([], "no chip"),
    ],
)
def test_targets_that_are_refused(names, expected):
    found = targets(names)
    assert isinstance(found, Reason) and found.code == "AF306" and expected in found.text


def test_files_of_a_project(ops, files):
    entries = [entry_name(op.op_type) for op in sorted(ops, key=lambda op: op.op_type)]
    assert set(files) == {
        "CMakeLists.txt", "CMakePresets.json", "build.sh", "MANIFEST.json", "op_host/CMakeLists.txt",
        "op_kernel/CMakeLists.txt",
        *(f"op_host/{e}/{e}_host.cpp" for e in entries),
        *(f"op_kernel/{e}/{e}.cpp" for e in entries),
        *(f"op_kernel/{e}/{e}_tiling.h" for e in entries),
        *(f"op_def/{e}.afop.{form}" for e in entries for form in ("pb", "textproto")),
    }  # fmt: skip
    assert list(files) == sorted(files)
    for e in entries:
        kernel, host = files[f"op_kernel/{e}/{e}.cpp"].decode(), files[f"op_host/{e}/{e}_host.cpp"].decode()
        assert f'#include "{e}_tiling.h"\n' in kernel and f"void {e}(" in kernel
        assert f'#include "../../op_kernel/{e}/{e}_tiling.h"\n' in host
        assert '"tiling.h"' not in kernel + host


def test_project_is_the_golden_one(ops, files, update_golden):
    """Its fixed files for two ops, with their hashes taken out."""
    two = sorted(ops, key=lambda op: op.op_type)[:2]
    made = project(two, targets(["ascend910b", "ascend910_93"]))
    fixed = [p for p in made if "CMake" in p or p == "build.sh"]
    text = "".join(f"==== {path}\n{made[path].decode()}" for path in fixed)
    for i, op in enumerate(two):
        text = text.replace(op.content_hash, f"00000000000{i}")
    golden = Path(__file__).parent / "golden" / "package_project.txt"
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_cmake_text(ops, files):
    first, *_, last = sorted(op.op_type for op in ops)
    top = files["CMakeLists.txt"].decode()
    assert top.index("set(ASCEND_COMPUTE_UNIT ascend910b)") < top.index("find_package(ASC REQUIRED")
    assert "ENABLE_CPACK False" in top and "INSTALL_PATH ${CMAKE_BINARY_DIR}/install" in top
    kernels = files["op_kernel/CMakeLists.txt"].decode()
    assert kernels.index(f"OP_TYPE {first}\n") < kernels.index(f"OP_TYPE {last}\n")
    assert kernels.count("npu_op_kernel_sources(") == len(ops)
    host = files["op_host/CMakeLists.txt"].decode()
    assert host.index("npu_op_code_gen(") < host.index("npu_op_library(cust_optiling TILING")
    assert json.loads(files["CMakePresets.json"])["configurePresets"][0]["generator"] == "Unix Makefiles"
    two = project(ops, targets(["ascend910b", "Ascend910_9381"]))
    assert "set(ASCEND_COMPUTE_UNIT ascend910_93 ascend910b)" in two["CMakeLists.txt"].decode()


def test_build_script_is_a_shell_script(files, tmp_path):
    (tmp_path / "build.sh").write_bytes(files["build.sh"])
    assert subprocess.run(["bash", "-n", str(tmp_path / "build.sh")]).returncode == 0
    run = subprocess.run(
        ["bash", str(tmp_path / "build.sh")], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert run.returncode != 0 and "source the set_env.sh" in run.stderr


def test_manifest_names_every_file_with_its_digest(ops, files):
    manifest = json.loads(files["MANIFEST.json"])
    assert {"schema": 1, "vendor": "torchair_autofuse", "npu_arch": 2201, "units": ["ascend910b"]}.items() <= (
        manifest.items()
    )
    assert manifest["generator_digest"] == opdef.generator_digest()
    assert list(manifest["ops"]) == sorted(op.op_type for op in ops)
    expected = {p: hashlib.sha256(data).hexdigest() for p, data in files.items() if p != "MANIFEST.json"}
    assert manifest["files"] == expected


def test_the_same_ops_give_the_same_bytes(make_op, ops, files):
    assert project(list(reversed(ops)), A2) == files
    assert project(definitions(make_op), A2) == files


def test_an_op_for_another_architecture_is_scheduled_anew(make_op, ops, files):
    again = project(definitions(make_op, soc="Ascend950PR_9599"), A2)
    assert again == files
    for op in ops:
        other = for_targets(op, targets(["ascend950"]))
        assert [s.soc for s in other.schedule] == ["Ascend950PR_9599"] and other.content_hash == op.content_hash


def test_an_op_of_another_release_is_scheduled_anew(ops):
    old = type(ops[0])()
    old.CopyFrom(ops[0])
    old.generator_digest = "0" * 24
    assert for_targets(old, A2) == ops[0]
    assert for_targets(ops[0], A2) is ops[0]


@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend910_9391", "Ascend950DT_9571"])
def test_schedules_depend_on_the_architecture_alone(make_op, soc):
    """One package serves a whole series: cores and UB enter the tiling when the op runs."""
    family = [c for c in map(chip, soc_names()) if isinstance(c, Chip) and c.npu_arch == chip(soc).npu_arch]
    for text in (SCALE, RAISE):
        made = [definitions(make_op, [text], c.soc)[0].schedule[0] for c in family]
        for s in made:
            s.soc, s.vector_cores = "", 0
        assert all(s == made[0] for s in made)
    assert len({c.ub_bytes for c in family}) == 1 and len({c.vector_cores for c in family}) > 1


def test_an_op_that_asks_for_too_many_cores_is_refused(ops):
    op = type(ops[0])()
    op.CopyFrom(ops[0])
    op.schedule[0].block_dim = "48"  # right on the chip it is recorded for, too many on those with 40 cores
    opdef.validate(op)
    with pytest.raises(opdef.OpDefError, match=r"block_dim: 48 blocks .* has 40 cores"):
        for_targets(op, A2)


# ---- definitions ----------------------------------------------------------------------------------------------------


@pytest.fixture()
def cache(ops, tmp_path):
    for op in ops:
        folder = tmp_path / "cache" / "ops" / op.op_type
        folder.mkdir(parents=True)
        opdef.save(op, folder / "op.afop.pb")
    return tmp_path / "cache"


def test_sources_of_definitions(ops, cache, tmp_path):
    types = sorted(op.op_type for op in ops)
    plain = tmp_path / "plain"
    plain.mkdir()
    for op in ops:
        opdef.save(op, plain / f"{op.op_type}.afop.pb")
    (cache / "ops" / ".half-written").mkdir()
    (cache / "ops" / ".half-written" / "op.afop.pb").write_bytes(b"x")
    for source in (cache, cache / "ops", plain):
        found = read_recorded(source)
        assert [op.op_type for op in found.ops] == types and not found.problems
    one = cache / "ops" / types[0]
    assert [op.op_type for op in read_recorded(one).ops] == types[:1]
    assert [op.op_type for op in read_recorded(one / "op.afop.pb").ops] == types[:1]
    opdef.save_library(ops, tmp_path / "all.afoplib.pb")
    assert [op.op_type for op in read_recorded(tmp_path / "all.afoplib.pb").ops] == types
    assert [op.op_type for op in read_recorded(tmp_path).ops] == types
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_recorded(tmp_path / "nowhere")


def test_of_two_definitions_of_one_op_this_releases_is_taken(ops, tmp_path):
    old = type(ops[0])()
    old.CopyFrom(ops[0])
    old.generator_digest = "0" * 24
    opdef.save(old, tmp_path / "a.afop.pb")
    opdef.save(ops[0], tmp_path / "b.afop.pb")
    assert read_recorded(tmp_path).ops == (ops[0],)


@pytest.mark.parametrize("name", ["a.afop.pb", "a.afoplib.pb", "a.afop.textproto"])
def test_files_that_hold_no_definition(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xff\xff")
    found = read_recorded(tmp_path / name)
    assert not found.ops and len(found.problems) == 1 and str(tmp_path / name) in found.problems[0]


# ---- files on disk --------------------------------------------------------------------------------------------------


def test_unchanged_files_are_not_touched_and_old_ones_go(ops, tmp_path):
    folder = write_project(ops, A2, tmp_path / "out")
    stamp = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    write_project(ops, A2, tmp_path / "out")
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == stamp
    write_project(ops[:1], A2, tmp_path / "out")
    left = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert left == set(project(ops[:1], A2))
    assert len(list((folder / "op_kernel").iterdir())) == 2


def test_out_that_is_a_file(ops, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(BuildError, match=r"AF502: .*out cannot be written to"):
        write_project(ops, A2, tmp_path / "out")


def test_ops_that_a_log_names(ops):
    first, second, third = (op.op_type for op in ops)
    log = (
        f"[ 5%] Built target {first}_ascend910b\n"
        f"{entry_name(second)}.cpp:7: error: no such call\n"
        f"Kernel Compilation Error: OpType {second} Kernel File x!\n"
        f"make: *** [op_kernel/CMakeFiles/{third}_ascend910b.dir/build.make:70] Error 1\n"
    )
    assert failed_ops(log, [first, second, third]) == (second, third)
    assert failed_ops("error", []) == () == failed_ops("CMake Error: no ASC", [first])


# ---- the command ----------------------------------------------------------------------------------------------------


def run(capsys, *args):
    status = main(["build", *map(str, args)])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_without_cann_the_project_is_written(ops, cache, tmp_path, capsys):
    args = ("--soc", "ascend910b", "--defs", cache / "ops", "--out", tmp_path / "out")
    status, out, _ = run(capsys, *args)
    assert status == 0 and f"{tmp_path}/out/project: 3 ops for ascend910b" in out
    assert "Not built: AF505" in out and "bash build.sh build" in out
    assert (tmp_path / "out/project/MANIFEST.json").read_bytes() == project(ops, A2)["MANIFEST.json"]
    assert run(capsys, *args, "--strict")[0] == 1
    status, out, _ = run(capsys, *args, "--strict", "--project-only")
    assert status == 0 and "Not built" not in out


def test_the_caches_definitions_are_the_default(cache, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(cache))
    assert run(capsys, "--soc", "Ascend910B3", "--out", tmp_path / "out")[0] == 0


def test_no_definitions(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path))
    status, _, err = run(capsys, "--soc", "ascend910b", "--out", tmp_path / "out")
    assert status == 1 and "Run the model once" in err and not (tmp_path / "out").exists()
    (tmp_path / "ops").mkdir()
    status, _, err = run(capsys, "--soc", "ascend910b", "--out", tmp_path / "out")
    assert status == 1 and "holds no definition" in err
    status, _, err = run(capsys, "--soc", "ascend910b", "--out", tmp_path / "out", "--defs", tmp_path / "x")
    assert status == 2 and "no such file" in err


def test_an_invalid_definition_is_named_and_nothing_is_written(ops, cache, tmp_path, capsys):
    bad = type(ops[0])()
    bad.CopyFrom(ops[0])
    bad.input[0].dtype = "f16"
    opdef.save(bad, cache / "ops" / bad.op_type / "op.afop.pb")
    status, _, err = run(capsys, "--soc", "ascend910b", "--defs", cache, "--out", tmp_path / "out")
    assert status == 1 and f"{bad.op_type}/op.afop.pb: {bad.op_type}: input[0].dtype" in err
    assert not (tmp_path / "out").exists()


def test_ops_can_be_left_out(ops, cache, tmp_path, capsys):
    out = tmp_path / "out"
    args = ("--soc", "ascend910b", "--defs", cache, "--out", out)
    assert run(capsys, *args, "--without", ops[0].op_type)[0] == 0
    assert ops[0].op_type not in json.loads((out / "project/MANIFEST.json").read_text())["ops"]
    status, _, err = run(capsys, *args, "--without", "Nothing")
    assert status == 2 and "no such definition" in err
    every = [word for op in ops for word in ("--without", op.op_type)]
    assert run(capsys, *args, *every)[0] == 1


def test_chips_that_are_refused(cache, tmp_path, capsys):
    status, _, err = run(
        capsys, "--soc", "ascend910b", "--soc", "ascend950", "--defs", cache, "--out", tmp_path / "out"
    )
    assert status == 2 and "AF306" in err and not (tmp_path / "out").exists()


def test_schedule_that_is_not_regenerated_is_an_error(ops, cache, tmp_path, capsys):
    changed = type(ops[0])()
    changed.CopyFrom(ops[0])
    changed.artefact[0].sha256 = "0" * 64
    opdef.save(changed, cache / "ops" / changed.op_type / "op.afop.pb")
    status, _, err = run(capsys, "--soc", "ascend910b", "--defs", cache, "--out", tmp_path / "out")
    assert status == 1 and "artefact[0].sha256" in err and not (tmp_path / "out").exists()


def test_command_line_for_people(tmp_path):
    assert build_command("ascend910b", tmp_path / "a b").endswith(f"--out '{tmp_path}/a b'")
