"""Installed packages: trees that break a rule, and which package a process uses."""

import json
import os
import shutil

import pytest

from tests.package_ops import RAISE, SCALE, definitions, fake_cann
from torchair_autofuse.cache import lease, sweep
from torchair_autofuse.cli import main
from torchair_autofuse.deliver.package.activate import ActivePackage, activate, record
from torchair_autofuse.deliver.package.installed import Installed, read_installed
from torchair_autofuse.deliver.package.names import entry_name, ops_info, proto_library, tiling_library
from torchair_autofuse.deliver.package.seal import SEAL, seal
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options

TBE = "op_impl/ai_core/tbe"


@pytest.fixture(scope="module")
def ops(make_op):
    return definitions(make_op)


# ---- trees that break a rule ----------------------------------------------------------------------------------------


def edit_info(change):
    def edit(package, op):
        file = package / ops_info("ascend910b")
        content = json.loads(file.read_text())
        change(content, content[op.op_type])
        file.write_text(json.dumps(content))

    return edit


def edit_manifest(change):
    def edit(package, op):
        file = package / "afop" / "MANIFEST.json"
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return edit


def remove(pattern):
    def edit(package, op):
        found = [p for p in package.rglob("*") if p.match(pattern.format(op=op.op_type, entry=entry_name(op.op_type)))]
        assert found
        for path in found:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return edit


def overwrite(pattern, data):
    def edit(package, op):
        (file,) = package.rglob(pattern.format(op=op.op_type, entry=entry_name(op.op_type)))
        file.write_bytes(data)

    return edit


def other_machine(package, op):
    (file,) = package.rglob("libcust_opsproto_rt2.0.so")
    data = bytearray(file.read_bytes())
    data[18:20] = b"\xf3\x00"  # EM_RISCV
    file.write_bytes(bytes(data))


def no_kernel(package, op):
    remove("kernel/ascend910b/{entry}")(package, op)
    remove("dynamic/{entry}.py")(package, op)


def swap_definitions(package, op):
    first, second = sorted((package / "afop").glob("*.pb"))[:2]
    data = first.read_bytes(), second.read_bytes()
    first.write_bytes(data[1])
    second.write_bytes(data[0])


BROKEN = {
    "no manifest": (remove("afop/MANIFEST.json"), "MANIFEST.json: cannot be read"),
    "manifest damaged": (overwrite("MANIFEST.json", b"{"), "MANIFEST.json: is damaged"),
    "manifest of another kind": (overwrite("MANIFEST.json", b"[]"), "MANIFEST.json: has schema list"),
    "manifest of a later schema": (edit_manifest(lambda m: m.update(schema=9)), "has schema 9, this release reads 1"),
    "manifest without units": (edit_manifest(lambda m: m.update(units=[])), "units, ops or files"),
    "no definition": (remove("afop/{entry}.afop.pb"), ".afop.pb: is missing"),
    "definition damaged": (overwrite("{entry}.afop.pb", b"x"), "SHA-256"),
    "definitions swapped": (swap_definitions, "SHA-256"),
    "no version": (overwrite("version.info", b"x\n"), "custom_opp_compiler_version="),
    "no _impl folder": (remove("torchair_autofuse_impl"), "has no folder torchair_autofuse_impl"),
    "no ops-info": (remove("aic-ascend910b-ops-info.json"), "GE finds no op for ascend910b"),
    "ops-info damaged": (overwrite("aic-ascend910b-ops-info.json", b"{"), "ops-info.json: is damaged"),
    "ops-info of another kind": (overwrite("aic-ascend910b-ops-info.json", b"[]"), "not an object"),
    "op not in ops-info": (edit_info(lambda all_, op: op.clear()), "has 0 inputs, the definition 2"),
    "op without a definition": (edit_info(lambda all_, op: all_.update(Other={})), "has Other, which has no defin"),
    "input called otherwise": (edit_info(lambda all_, op: op["input0"].update(name="z")), "input 0 is called z"),
    "inputs swapped": (
        edit_info(lambda all_, op: op.update(input0=op["input1"], input1=op["input0"])), "input 0 is called h"
    ),
    "type": (edit_info(lambda all_, op: op["input1"].update(dtype="float")), "dtype of input h is float, expected"),
    "format": (edit_info(lambda all_, op: op["output0"].update(format="NCHW")), "format of output y is NCHW"),
    "optional": (edit_info(lambda all_, op: op["input0"].update(paramType="optional")), "paramType of input x"),
    "static shapes only": (
        edit_info(lambda all_, op: op.pop("dynamicShapeSupport")), "dynamicShapeSupport is absent, expected true"
    ),
    "precision may be reduced": (
        edit_info(lambda all_, op: op["precision_reduce"].update(flag="true")), "precision_reduce is true"
    ),
    "no registration library": (remove("libcust_opsproto_rt2.0.so"), "was not built on a machine of this architecture"),
    "library is no library": (overwrite("libcust_opsproto_rt2.0.so", b"#!/bin/sh"), "is not a shared library"),
    "library of another machine": (other_machine, "another architecture than this machine's"),
    "no tiling library": (remove("libcust_opmaster_rt2.0.so"), "libcust_opmaster_rt2.0.so: is missing"),
    "no link to it": (remove("liboptiling.so"), "must lead to the tiling library"),
    "no kernel": (no_kernel, "neither binary nor source"),
    "binary without its description": (remove("kernel/ascend910b/{entry}/*.json"), "does not find the kernel"),
    "no list of binaries": (remove("binary_info_config.json"), "binary_info_config.json: is missing"),
    "open to all": (lambda package, op: (package / TBE).chmod(0o777), "every user of this machine may write to it"),
    "file open to all": (lambda package, op: (package / "version.info").chmod(0o646), "version.info: every user"),
    "around it open to all": (lambda package, op: package.parent.chmod(0o777), "vendors: every user"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_tree(ops, package, case, environ, tmp_path):
    change, expected = BROKEN[case]
    change(package, ops[0])
    found = read_installed(package)
    assert isinstance(found, tuple) and {r.code for r in found} == {"AF502"}
    assert any(expected in r.text for r in found), [str(r) for r in found]
    before = dict(environ)
    refused = activate(environ, Options(package=str(package.parent.parent), cache_dir=str(tmp_path / "cache")))
    assert isinstance(refused, Reason) and refused.code == "AF502" and environ == before


def test_folder_called_otherwise(package):
    package.rename(package.parent / "my_ops")
    (found,) = read_installed(package.parent / "my_ops")
    assert "GE looks for my_ops_impl in it; the folder must be called torchair_autofuse" in found.text


def test_places_that_are_none(package, tmp_path, monkeypatch):
    monkeypatch.chdir(package.parent)
    for folder, expected in (("torchair_autofuse", "absolute"), (tmp_path / "x", "no such folder")):
        (found,) = read_installed(folder)
        assert expected in found.text
    (tmp_path / "a:b").mkdir()
    package.rename(tmp_path / "a:b" / "torchair_autofuse")
    (found,) = read_installed(tmp_path / "a:b" / "torchair_autofuse")
    assert "':' separates" in found.text


def test_host_libraries_are_those_of_the_machine(package):
    found = read_installed(package, "aarch64" if os.uname().machine == "x86_64" else "x86_64")
    assert isinstance(found, tuple) and len(found) == 2 and all("is missing" in r.text for r in found)
    machine = os.uname().machine
    assert (package / proto_library(machine)).is_file() and (package / tiling_library(machine)).is_file()


def test_binaries_or_sources_are_enough(ops, package):
    """A source package is compiled by GE, a binary one needs no source."""
    shutil.copytree(package, package.parent / "copy", symlinks=True)
    remove("torchair_autofuse_impl/dynamic")(package, ops[0])
    seal(package)
    assert isinstance(read_installed(package), Installed)
    shutil.rmtree(package)
    (package.parent / "copy").rename(package)
    remove(f"{TBE}/kernel")(package, ops[0])
    seal(package)
    assert isinstance(read_installed(package), Installed)


@pytest.mark.parametrize(
    "pattern", ["*.o", "libcust_opmaster_rt2.0.so", "libcust_opsproto_rt2.0.so", "binary_info*.json"]
)
def test_files_that_were_copied_in_part(package, pattern):
    """They keep the rules of the tree, and GE would load them."""
    file = next(package.rglob(pattern))
    file.write_bytes(file.read_bytes()[:-1])
    (found,) = read_installed(package)
    assert found.code == "AF502" and found.text.startswith(f"{file}: is not the file that was built")


def test_the_seal(package):
    (package / "added").write_text("by somebody else")
    assert isinstance(read_installed(package), Installed)
    source = next(package.rglob("*_tiling.h"))
    source.unlink()
    (found,) = read_installed(package)
    assert found.text == f"{source}: is missing; build the package again"
    file = package / "afop" / SEAL
    for text in ("[]", '{"a": 1}', "[" * 100000, "{"):
        file.write_text(text)
        (found,) = read_installed(package)
        assert found.text == f"{file}: is damaged; build the package again"
    file.unlink()
    assert isinstance(read_installed(package), Installed), "installed by hand"


def test_entries_that_are_no_objects(ops, package):
    edit_info(lambda content, entry: entry.update(input0=[], dynamicShapeSupport="true"))(package, ops[0])
    found = read_installed(package)
    assert any("input 0 is called None" in r.text for r in found)
    assert any("dynamicShapeSupport is absent" in r.text for r in found)


def test_everything_wrong_is_found_at_once(ops, package):
    for case in ("no _impl folder", "no version", "type", "no link to it"):
        BROKEN[case][0](package, ops[0])
    found = read_installed(package)
    assert len(found) == 4
    assert all(str(package) in r.text for r in found)


# ---- activation -----------------------------------------------------------------------------------------------------


def test_named_package(ops, out, package, environ, tmp_path):
    environ["ASCEND_CUSTOM_OPP_PATH"] = "/opt/vendors/theirs:/opt/old/vendors/torchair_autofuse"
    for named in (out, package):
        active = activate(environ, Options(package=str(named)))
        assert isinstance(active, ActivePackage), active
        assert environ["ASCEND_CUSTOM_OPP_PATH"] == f"{package}:/opt/vendors/theirs"  # once, and one of ours
    assert active.folder == package and set(active.ops) == {op.op_type for op in ops}
    assert active.unavailable(ops) == {} and len(active.digest) == 16
    assert f"--out {out}" in active.rebuild


def test_package_of_the_cache(out, environ, tmp_path):
    options = Options(cache_dir=str(tmp_path / "cache"))
    assert activate(environ, options) is None and "ASCEND_CUSTOM_OPP_PATH" not in environ
    (tmp_path / "cache" / "package").mkdir(parents=True)
    out.rename(tmp_path / "cache" / "package" / "ascend910b")
    active = activate(environ, options)
    assert active.folder == tmp_path / "cache/package/ascend910b/vendors/torchair_autofuse"
    assert environ["ASCEND_CUSTOM_OPP_PATH"] == str(active.folder)
    assert activate(environ, options) == active  # in a child process too


def test_the_cache_command_knows_them(out, environ, tmp_path, monkeypatch, capsys):
    """They are listed and counted, no limit touches them, and those that a process uses outlive ``clear``."""
    root = tmp_path / "cache"
    package = root / "package" / "ascend910b"
    package.parent.mkdir(parents=True)
    out.rename(package)
    sweep.mark(root)
    (package.parent / "mine").mkdir()
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(root))

    def cache(*args):
        assert main(["cache", *args]) == 0
        return capsys.readouterr().out

    assert "package for ascend910b: 3 ops, ok, " in cache()
    cache("prune", "--limit", "1", "--older", "0")
    assert isinstance(activate(environ, Options(cache_dir=str(root))), ActivePackage)
    assert "1 entries are used by running processes and stay" in cache("clear", "--yes") and package.is_dir()
    (package / "vendors" / "torchair_autofuse" / "version.info").unlink()
    assert "package for ascend910b: version.info: does not name the CANN" in cache()
    shutil.rmtree(package / "vendors")
    assert "package for ascend910b: not built yet, " in cache()
    lease.release()
    assert "freed " in cache("clear", "--yes")
    assert [p.relative_to(root).as_posix() for p in root.rglob("*") if not p.is_file()] == ["package", "package/mine"]


def test_package_that_is_on_the_path(package, environ, tmp_path):
    environ["ASCEND_CUSTOM_OPP_PATH"] = f"/opt/vendors/theirs:{package}:"
    active = activate(environ, Options(cache_dir=str(tmp_path)))
    assert active.folder == package
    assert environ["ASCEND_CUSTOM_OPP_PATH"] == f"{package}:/opt/vendors/theirs"


def test_package_that_is_not_for_this_process(package, environ, tmp_path, monkeypatch):
    named = Options(package=str(package.parent.parent))
    reason = activate(environ, named.replace(soc="Ascend910_9391"))
    assert reason.code == "AF502" and "is for ascend910b, this process plans for Ascend910_9391" in reason.text
    assert activate(environ, named.replace(soc="Ascend910X")).code == "AF306"
    assert activate(environ, named.replace(soc="Ascend910B4")).chip.vector_cores == 40
    _, later = fake_cann(tmp_path / "9.0", "9.0.0")
    reason = activate(later, named)
    assert reason.code == "AF502" and "built with CANN 8.5.0" in reason.text and "has 9.0.0" in reason.text
    _, patched = fake_cann(tmp_path / "8.5.1", "8.5.1")
    assert isinstance(activate(patched, named), ActivePackage)
    assert activate({"ASCEND_HOME_PATH": str(tmp_path / "none")}, named).code == "AF505"
    absent = activate(environ, Options(package=str(tmp_path / "none")))
    assert (
        absent.code == "AF502" and "there is no package yet; build it with 'python -m torchair_autofuse" in absent.text
    )
    assert f"--out {tmp_path}/none" in absent.text


@pytest.fixture()
def active(package, environ, tmp_path):
    return activate(environ, Options(package=str(package.parent.parent), cache_dir=str(tmp_path / "cache")))


def changed(op, **fields):
    copy = type(op)()
    copy.CopyFrom(op)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def test_ops_that_the_package_does_not_hold(make_op, ops, active, tmp_path):
    other = definitions(make_op, [RAISE.replace("1.5", "2.5")])[0]
    reasons = active.unavailable([*ops, other])
    assert list(reasons) == [other.op_type]
    text = reasons[other.op_type].text
    assert reasons[other.op_type].code == "AF501" and f"is not in the package in {active.folder}" in text
    assert f"--defs {tmp_path}/cache/ops --out {active.folder.parent.parent}" in text


def test_ops_for_another_chip_of_the_series_are_held(make_op, ops, active):
    assert active.unavailable(definitions(make_op, soc="Ascend910B4")) == {}


def test_the_first_models_names_do_not_matter(make_op, active):
    renamed = definitions(make_op, [SCALE.replace("Mul_1", "Mul_77")])[0]
    assert active.unavailable([renamed]) == {}


def test_ops_that_the_package_holds_otherwise(ops, active):
    op = ops[0]
    body = changed(op)
    body.body[-1] += " "
    schedule = changed(op)
    schedule.schedule[0].step[0].value = "1"
    newer = changed(op, generator_digest="f" * 24)
    code = changed(newer)
    next(a for a in code.artefact if a.name == "kernel.cpp").sha256 = "0" * 64
    for made, expected in (
        (body, "is defined otherwise"),
        (schedule, "is scheduled otherwise"),
        (code, "has older code"),
    ):
        reasons = active.unavailable([made])
        assert reasons[op.op_type].code == "AF501" and expected in reasons[op.op_type].text
    assert active.unavailable([newer]) == {}  # another release that generates the same


def test_first_run_is_told_what_to_do(ops, tmp_path):
    reason = record(ops, Options(cache_dir=str(tmp_path), soc="Ascend910B3"))
    assert reason.code == "AF501" and "3 fused ops are recorded" in reason.text
    command = "python -m torchair_autofuse build --soc ascend910b"
    assert f"'{command} --defs {tmp_path}/ops --out {tmp_path}/package/ascend910b'" in reason.text
    named = record(ops[:1], Options(package="/opt/fused"))
    assert "1 fused op is recorded" in named.text and f"'{command} --out /opt/fused'" in named.text
