"""A package built by the real CMake with a stand-in for CANN: from definitions to an installed tree that is used."""

import os
import shutil
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

import torchair_autofuse
from tests.package_ops import SUM, definitions, fake_cann
from torchair_autofuse import opdef
from torchair_autofuse.cache.locks import acquire
from torchair_autofuse.cache.sweep import package_lock
from torchair_autofuse.cli import main
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.package import build as build_module
from torchair_autofuse.deliver.package.build import BuildError, build_package, write_project
from torchair_autofuse.deliver.package.installed import Installed, read_installed
from torchair_autofuse.deliver.package.names import entry_name, ops_info, targets
from torchair_autofuse.twin.toolchain import find_compiler

A2 = targets(["ascend910b"])
TBE = "op_impl/ai_core/tbe"


@pytest.fixture(scope="module")
def ops(make_op):
    return definitions(make_op)


def snapshot(folder):
    return {p: (p.lstat().st_ino, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


# ---- building -------------------------------------------------------------------------------------------------------


def test_installed_package_keeps_the_rules(ops, built):
    folder = built / "vendors" / "torchair_autofuse"
    found = read_installed(folder)
    assert isinstance(found, Installed), found
    assert found.units == ("ascend910b",) and found.cann == (8, 5, 0)
    assert dict(found.ops) == {op.op_type: op for op in ops}
    assert sorted(p.name for p in built.iterdir()) == [".lock", "build", "build.log", "project", "vendors"]
    assert not any(p.stat().st_mode & (stat.S_IWOTH | stat.S_IWGRP) for p in folder.rglob("*") if not p.is_symlink())
    assert not os.path.isabs(os.readlink(folder / TBE / "op_tiling" / "liboptiling.so"))


def test_package_for_two_series(ops, cann, tmp_path):
    made = build_package(ops[:1], targets(["Ascend910B3", "ascend910_93"]), tmp_path / "out", cann[0], environ=cann[1])
    found = read_installed(made.package)
    assert found.units == ("ascend910_93", "ascend910b")
    assert (made.package / ops_info("ascend910_93")).is_file()


def test_same_definitions_again_build_nothing(ops, out, cann, package):
    before = snapshot(package)
    made = build_package(ops, A2, out, cann[0], environ=cann[1])
    assert not made.fresh and snapshot(package) == before


def test_ops_that_are_gone_leave_nothing_behind(ops, cann, tmp_path):
    out = tmp_path / "out"
    build_package(ops[:2], A2, out, cann[0], environ=cann[1])
    objects = out / "build" / "op_host" / "CMakeFiles" / "cust_optiling.dir"
    kept = {p.name: p.stat().st_mtime_ns for p in objects.rglob("*.o")}
    made = build_package(ops[1:], A2, out, cann[0], environ=cann[1])
    found = read_installed(made.package)
    assert isinstance(found, Installed) and set(found.ops) == {op.op_type for op in ops[1:]}
    assert not [p for p in made.package.rglob("*") if entry_name(ops[0].op_type) in p.name]
    again = {p.name: p.stat().st_mtime_ns for p in objects.rglob("*.o")}
    assert kept.items() & again.items(), "host code of an op that did not change was compiled again"


@pytest.fixture()
def ready(built, monkeypatch):
    """In place of build.sh: the package as it was built before, changed by the function that is set."""
    changes = []

    def copy(source, build, *rest):
        made = build / "install" / "packages" / "vendors" / "torchair_autofuse"
        shutil.rmtree(build / "install", ignore_errors=True)
        shutil.copytree(built / "vendors" / "torchair_autofuse", made, symlinks=True)
        for change in changes:
            change(made)
        return 0

    monkeypatch.setattr(build_module, "_run", copy)
    return changes


@pytest.mark.parametrize("version", ["9.0.1", "8.5.0-beta.2"])
def test_another_cann_builds_again(ops, out, tmp_path, package, ready, version):
    cann, environ = fake_cann(tmp_path / version, version)
    ready.append(lambda made: (made / "version.info").write_text(f"custom_opp_compiler_version={version}\n"))
    for fresh in (True, False):
        made = build_package(ops, A2, out, cann, environ=environ)
        assert made.fresh is fresh and read_installed(package).cann_text == version == cann.text


def test_failure_names_the_op_and_leaves_the_package(make_op, ops, out, cann, package):
    before = snapshot(package)
    bad = ops[1].op_type
    environ = {**cann[1], "FAKE_CANN_FAIL": bad}
    with pytest.raises(BuildError) as error:
        build_package([*ops, *definitions(make_op, [SUM.replace("sum", "max")])], A2, out, cann[0], environ=environ)
    assert error.value.reason.code == "AF503" and error.value.ops == (bad,)
    for part in (bad, "no such instruction", str(out / "build.log"), "build.sh", f"--without {bad}"):
        assert part in error.value.reason.text
    assert snapshot(package) == before and isinstance(read_installed(package), Installed)
    assert not [p.name for p in out.iterdir() if p.name.startswith(".new")]


def test_a_tree_that_breaks_a_rule_is_not_installed(ops, out, cann, package, ready, monkeypatch):
    monkeypatch.setattr(build_module, "_is_current", lambda *_: False)
    before = snapshot(package)
    ready.append(lambda made: (made / ops_info("ascend910b")).unlink())
    with pytest.raises(BuildError, match=r"AF502: .*aic-ascend910b-ops-info.json: cannot be read"):
        build_package(ops, A2, out, cann[0], environ=cann[1])
    assert snapshot(package) == before
    ready[:] = [shutil.rmtree]
    with pytest.raises(BuildError, match=r"AF502: .*made no such folder"):
        build_package(ops, A2, out, cann[0], environ=cann[1])
    assert snapshot(package) == before


def test_a_package_that_cannot_be_moved_leaves_the_old_one(ops, out, cann, package, ready, monkeypatch):
    monkeypatch.setattr(build_module, "_is_current", lambda *_: False)
    before, replace = snapshot(package), os.replace

    def refuse(source, target):
        if ".new-" in str(source) and "old" not in str(source):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(build_module.os, "replace", refuse)
    with pytest.raises(BuildError, match=r"AF502: .*No space left on device"):
        build_package(ops, A2, out, cann[0], environ=cann[1])
    assert snapshot(package) == before


def test_cmake_that_cannot_configure(ops, cann, tmp_path):
    (tmp_path / "cann").mkdir()
    (tmp_path / "cann" / "set_env.sh").write_text(f"export ASCEND_HOME_PATH={tmp_path}/cann\n")
    broken = Cann(tmp_path / "cann", (8, 5, 0), "8.5.0", cann[0].machine)
    with pytest.raises(BuildError, match=r"AF503: the package did not build .*exit status 1.*find_package"):
        build_package(ops[:1], A2, tmp_path / "out", broken, environ=cann[1])


def test_paths_that_cmake_functions_break_on(ops, cann, tmp_path):
    out = tmp_path / "a b;c$HOME'ä"
    made = build_package(ops[:1], A2, out, cann[0], environ=cann[1])
    assert made.package == out / "vendors" / "torchair_autofuse"
    assert isinstance(read_installed(made.package), Installed)
    assert not (out / "build").exists()


def test_a_path_that_cannot_be_in_the_variable(ops, cann, tmp_path):
    with pytest.raises(BuildError, match=r"AF502: .*ASCEND_CUSTOM_OPP_PATH"):
        build_package(ops, A2, tmp_path / "a:b", cann[0], environ=cann[1])
    assert not list((tmp_path / "a:b").iterdir())


def test_out_that_cannot_be_written_to(ops, cann, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(build_module.tempfile, "TemporaryFile", refuse)  # root may write anywhere
    with pytest.raises(
        BuildError, match=r"AF502: .*out cannot be written to \(Permission denied\); name another --out"
    ):
        build_package(ops, A2, tmp_path / "out", cann[0], environ=cann[1])


@pytest.mark.parametrize("name", ["project", "build"])
def test_folders_of_the_user_are_left_alone(ops, cann, tmp_path, name):
    """``--out .`` in a folder that has a project or a build of its own."""
    mine = tmp_path / name / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("work of a year")
    with pytest.raises(BuildError, match=rf"AF502: .*/{name} was not made by this command"):
        build_package(ops[:1], A2, tmp_path, cann[0], environ=cann[1])
    assert [p.name for p in mine.parent.iterdir()] == ["mine.txt"]


def test_a_project_that_the_disk_had_no_room_for(ops, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "MANIFEST.json").touch()
    assert (write_project(ops[:1], A2, tmp_path) / "build.sh").is_file()


def test_what_is_in_the_way_is_an_error_of_the_build(ops, cann, tmp_path):
    for name in ("project", "vendors", "build.log"):
        out = tmp_path / name
        place = out / name
        out.mkdir()
        place.mkdir() if "." in name else place.touch()
        with pytest.raises(BuildError, match=rf"AF502: .*/{name}"):
            build_package(ops[:1], A2, out, cann[0], environ=cann[1])


def test_a_build_waits_for_the_compilers_of_one_that_was_killed(ops, cann, tmp_path):
    """make goes on when its parent is gone, in the same build folder."""
    out = tmp_path / "out"
    out.mkdir()
    lock = acquire(package_lock(out))
    compiler = subprocess.Popen(["sleep", "1.5"], pass_fds=[lock])
    os.close(lock)  # as when the process that has it is killed
    start = time.monotonic()
    build_package(ops[:1], A2, out, cann[0], environ=cann[1])
    assert compiler.wait() == 0 and time.monotonic() - start > 1.4


def test_two_builds_at_once(ops, cann, tmp_path, capfd):
    made = []

    def one():
        made.append(build_package(ops[:1], A2, tmp_path / "out", cann[0], environ=cann[1]))

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(m.fresh for m in made) == [False, False, True]
    assert "waiting for it" in capfd.readouterr().err


def test_command_builds_where_cann_is(ops, cann, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(cann[0].home))
    monkeypatch.setenv("PATH", cann[1]["PATH"])
    opdef.save(ops[0], tmp_path / "a.afop.pb")
    args = ["build", "--soc", "ascend910b", "--defs", str(tmp_path / "a.afop.pb"), "--out", str(tmp_path / "out")]
    assert main([*args, "--strict", "--jobs", "2"]) == 0
    text = capsys.readouterr().out
    assert (
        "building 1 ops for ascend910b with CANN 8.5.0" in text and f"TORCHAIR_AUTOFUSE_PACKAGE={tmp_path}/out" in text
    )
    assert main(args) == 0 and "is up to date" in capsys.readouterr().out
    monkeypatch.setenv("FAKE_CANN_FAIL", ops[0].op_type)
    shutil.rmtree(tmp_path / "out" / "vendors")
    assert main(args) == 1 and "AF503" in capsys.readouterr().err
    old, _ = fake_cann(tmp_path / "8.3", "8.3.0")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(old.home))
    assert main(args) == 0 and "packages need CANN 8.5" in capsys.readouterr().out


def test_build_script_by_hand(built, cann, tmp_path):
    """What the command tells to do on another machine."""
    shutil.copytree(built / "project", tmp_path / "project")
    line = f"source {cann[0].set_env} && bash build.sh build && mkdir OUT && cp -a build/install/packages/vendors OUT/"
    run = subprocess.run(["bash", "-c", line], cwd=tmp_path / "project", env=cann[1], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    found = read_installed(tmp_path / "project" / "OUT" / "vendors" / "torchair_autofuse")
    assert isinstance(found, Installed), found


def test_host_code_is_cpp11(built):
    """CANN compiles it as that for op_build; the libraries of the package are of a later standard."""
    sources = sorted((built / "project" / "op_host").rglob("*.cpp"))
    include = Path(torchair_autofuse.__file__).parent / "twin" / "cann" / "include"
    command = [find_compiler().compiler, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{include}"]
    run = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
    assert len(sources) == 3 and run.returncode == 0, run.stderr


def test_interrupted_build_leaves_no_process(ops, cann, tmp_path, monkeypatch):
    """Ctrl-C ends the compilers too, and a later build is not in their way."""
    slow, environ = fake_cann(tmp_path / "slow")
    with slow.set_env.open("a") as file:
        file.write(f"echo $$ > {tmp_path}/pid\nsleep 600\n")
    begun = subprocess.Popen.wait

    def interrupt(process, timeout=None):
        if not (tmp_path / "done").exists():
            while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text().strip():
                time.sleep(0.01)
            (tmp_path / "done").touch()
            raise KeyboardInterrupt
        return begun(process, timeout)

    monkeypatch.setattr(build_module.subprocess.Popen, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build_package(ops[:1], A2, tmp_path / "out", slow, environ=environ)
    monkeypatch.undo()
    group = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while running(group) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(group)
    assert build_package(ops[:1], A2, tmp_path / "out", cann[0], environ=cann[1]).fresh


def running(group):
    """Whether a process of the group is left that is no zombie."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgid = file.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # gone meanwhile
            continue
        if int(pgid) == group and state != "Z":
            return True
    return False
