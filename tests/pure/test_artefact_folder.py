"""Artefact folders: what is in them, when they are written again, and what is refused."""

import os
import shutil
import threading

import pytest
from google.protobuf import text_format

from tests.definition_samples import GAIN
from torchair_autofuse import opdef
from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.opdef import artefact, generator
from torchair_autofuse.opdef.artefact import read, write
from torchair_autofuse.soc.chip import chip

FILES = {
    "kernel.cpp", "tiling.h", "op_host.cpp", "op.afop.pb", "op.afop.textproto", "loop.txt", "schedule.txt",
    "subgraph.pbtxt", "run.py",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(make_op):
    return make_op(GAIN)


@pytest.fixture()
def folder(made, tmp_path):
    return write(tmp_path, made, chip(), opdef.build(made, chip(), {"s0": 24}))


def identity(folder):
    return {p.name: (p.stat().st_ino, p.read_bytes()) for p in folder.iterdir()}


def test_contents(made, folder, tmp_path):
    assert folder == tmp_path / "ops" / made.op_type
    assert {p.name for p in folder.iterdir()} == FILES
    assert {p.name for p in folder.parent.iterdir() if not p.name.endswith(".lock")} == {made.op_type}
    op = opdef.load(folder)
    opdef.validate(op, folder)
    assert opdef.load(folder / "op.afop.textproto") == op
    assert {a.name for a in op.artefact} == FILES - {"op.afop.pb", "op.afop.textproto"}
    assert op.generator_digest == opdef.generator_digest()
    kernel = (folder / "kernel.cpp").read_text()
    assert '#include "tiling.h"' in kernel
    assert f"void {made.text.entry}(" in kernel
    assert f"struct {made.op_type}Tiling" in (folder / "tiling.h").read_text()
    loop = (folder / "loop.txt").read_text()
    assert parse(loop) == made.lowered.kernel
    assert "# from Mul_1" in loop
    assert f"OP_ADD({made.op_type})" in (folder / "op_host.cpp").read_text()


def test_schedule_is_readable(folder):
    text = (folder / "schedule.txt").read_text()
    assert "template    pointwise" in text
    assert "at s0 = 24" in text
    assert "* total_rows   = s0  -> 24" in text
    assert "of 188416 bytes" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("  x ", "  h "))]
    assert rows == [["x", "full", "4", "2", "x"], ["h", "row", "4", "1", "h"]]


def test_subgraph_is_a_graph_def(made, tmp_path):
    model = ge_ir().ModelDef()
    graph = model.graph.add(name="g")
    for name, kind in (("Data_0", "Data"), ("Mul_1", "Mul"), ("Out", "NetOutput")):
        graph.op.add(name=name, type=kind, input=["Data_0:0"] if name != "Data_0" else [])
    for i, nodes in enumerate(({op.name: op for op in graph.op}, None)):
        folder = write(tmp_path / str(i), made, chip(), opdef.build(made, chip(), nodes=nodes))
        found = text_format.Parse((folder / "subgraph.pbtxt").read_text(), ge_ir().GraphDef())
        assert found.name == made.op_type
        assert [(op.name, op.type) for op in found.op] == [("Mul_1", "Mul")]
        assert list(found.op[0].input) == (["Data_0:0"] if nodes is not None else [])


def test_current_folder_stays(made, folder, tmp_path):
    before = identity(folder)
    assert write(tmp_path, made, chip()) == folder
    assert identity(folder) == before


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("damage", ["changed", "deleted"])
def test_damaged_folder_is_written_again(made, folder, tmp_path, name, damage):
    good = {n: data for n, (_, data) in identity(folder).items()}
    if damage == "deleted":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"# edited\n" + (folder / name).read_bytes())
    with pytest.warns(AutofuseWarning, match=rf"AF506: {made.op_type}: .*{name}\b.*; the entry was made again"):
        write(tmp_path, made, chip(), opdef.build(made, chip(), {"s0": 24}))
    assert {n: data for n, (_, data) in identity(folder).items()} == good


def test_folder_of_another_chip_is_replaced(made, folder, tmp_path):
    write(tmp_path, made, chip("Ascend910B4"))
    assert [s.soc for s in opdef.load(folder).schedule] == ["Ascend910B4"]


def test_folder_of_another_generator_is_replaced(made, folder, tmp_path, monkeypatch):
    op = opdef.load(folder)
    op.generator_digest = "0" * 24
    opdef.save(op, folder / "op.afop.pb")
    write(tmp_path, made, chip())
    assert opdef.load(folder).generator_digest == opdef.generator_digest()


def test_generator_digest_covers_sources_and_templates(tmp_path, monkeypatch):
    before = generator.generator_digest.__wrapped__()
    assert before == opdef.generator_digest()
    package = tmp_path / "torchair_autofuse"
    source = generator._PACKAGE
    for name in generator._FOLDERS:
        shutil.copytree(source / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(source / "dtypes.py", package)
    monkeypatch.setattr(generator, "_PACKAGE", package)
    assert generator.generator_digest.__wrapped__() == before
    for name in ("schedule/tiling.py", "soc/chips.toml", "dtypes.py"):
        (package / name).write_text((package / name).read_text() + "# changed\n")
        changed = generator.generator_digest.__wrapped__()
        assert changed != before
        before = changed


def test_read_gives_checked_sources(made, folder, tmp_path):
    stored = read(tmp_path, made.op_type)
    assert stored.folder == folder
    assert stored.sources == {"kernel.cpp": made.text.kernel_cpp, "tiling.h": made.text.tiling_h}
    (folder / "loop.txt").write_text("")  # not what a kernel is built from
    read(tmp_path, made.op_type)


@pytest.mark.parametrize("name", ["kernel.cpp", "tiling.h"])
def test_read_refuses_a_changed_kernel(made, folder, tmp_path, name):
    with (folder / name).open("a") as file:
        file.write("// edited\n")
    with pytest.raises(opdef.ArtefactError, match=f"{made.op_type}: .*{name} is not the file that was generated"):
        read(tmp_path, made.op_type)
    with pytest.raises(opdef.ArtefactError, match=name):
        opdef.validate(opdef.load(folder), folder)
    (folder / name).unlink()
    with pytest.raises(opdef.ArtefactError, match=f"{name} is missing"):
        read(tmp_path, made.op_type)


def test_read_refuses_what_is_not_the_op(made, folder, tmp_path):
    with pytest.raises(opdef.ArtefactError, match=r"AutofuseX: there is no folder .*AutofuseX"):
        read(tmp_path, "AutofuseX")
    folder.rename(folder.parent / "AutofuseX")
    with pytest.raises(opdef.ArtefactError, match=f"holds the definition of {made.op_type}"):
        read(tmp_path, "AutofuseX")
    (folder.parent / "AutofuseX" / "op.afop.pb").unlink()
    with pytest.raises(opdef.ArtefactError, match="no such definition"):
        read(tmp_path, "AutofuseX")


def test_read_refuses_a_definition_that_breaks_a_rule(made, folder, tmp_path):
    op = opdef.load(folder)
    op.schedule[0].block_dim = "(core_num * 2)"
    opdef.save(op, folder / "op.afop.pb")
    with pytest.raises(opdef.OpDefError, match="block_dim: 96"):
        read(tmp_path, made.op_type)


def test_a_file_in_place_of_the_cache_folder(made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(opdef.ArtefactError, match=r"cannot be made .*set TORCHAIR_AUTOFUSE_CACHE_DIR to a folder"):
        write(tmp_path / "file", made, chip())


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX files")
@pytest.mark.parametrize("part", [".", "ops", "ops/{op_type}"])
def test_world_writable_folders_are_refused(made, folder, tmp_path, part):
    target = tmp_path / part.format(op_type=made.op_type)
    target.chmod(0o777)
    with pytest.raises(opdef.ArtefactError, match="may be written by every user"):
        read(tmp_path, made.op_type)
    if part.startswith("ops/"):
        with pytest.warns(AutofuseWarning, match="AF506: .* it may be written by every user"):
            write(tmp_path, made, chip())  # it is ours again
        assert not target.stat().st_mode & 0o022
    else:
        with pytest.raises(opdef.ArtefactError, match="may be written by every user"):
            write(tmp_path, made, chip())


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX files")
def test_new_folders_are_safe_under_any_umask(made, tmp_path):
    old = os.umask(0)
    try:
        folder = write(tmp_path / "cache", made, chip())
    finally:
        os.umask(old)
    for path in (tmp_path / "cache", folder.parent, folder, *folder.iterdir()):
        assert not path.stat().st_mode & 0o022, path


def test_writers_at_once(made, tmp_path):
    errors = []

    def work(soc):
        try:
            for _ in range(4):
                write(tmp_path, made, chip(soc))
                read(tmp_path, made.op_type)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(soc,)) for soc in ("Ascend910B1", "Ascend910B4", "Ascend910B1")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert {p.name for p in (tmp_path / "ops").iterdir()} == {made.op_type, f".{made.op_type}.lock"}
    assert artefact.is_current(tmp_path / "ops" / made.op_type, chip(read(tmp_path, made.op_type).op.schedule[0].soc))
