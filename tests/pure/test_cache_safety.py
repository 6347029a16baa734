"""Whose folders and files code is loaded from."""

import os

import pytest

from tests.definition_samples import GAIN
from torchair_autofuse import opdef
from torchair_autofuse.cache import lease, notice, safety
from torchair_autofuse.cache.built import Store
from torchair_autofuse.cache.safety import CacheError
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.opdef.artefact import read, write
from torchair_autofuse.soc.chip import chip

B1 = chip("Ascend910B1")


@pytest.fixture(scope="module")
def made(make_op):
    return make_op(GAIN)


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(notice, "_told", set())
    yield
    lease.release()


def test_links_and_other_users(tmp_path, monkeypatch):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    link, bad_link = tmp_path / "link", tmp_path / "bad"
    link.symlink_to(ours)
    bad_link.symlink_to(ours)
    safety.check_folder(link)
    real = os.lstat, os.stat

    def foreign(found, path):
        fields = list(found)
        fields[4] = 4321 if os.fspath(path) in (str(theirs), str(bad_link)) else fields[4]
        return os.stat_result(fields)

    monkeypatch.setattr(os, "lstat", lambda path, **kw: foreign(real[0](path, **kw), path))
    with pytest.raises(CacheError, match=r"theirs belongs to another user \(uid 4321\)"):
        safety.check_folder(theirs)
    with pytest.raises(CacheError, match="bad belongs to another user"):  # a link that another put there
        safety.check_folder(bad_link)
    safety.check_folder(link)
    (ours / "file").write_text("")
    (ours / "link").symlink_to(ours / "file")
    safety.check_file(ours / "file")
    with pytest.raises(CacheError, match="not a plain file"):
        safety.check_file(ours / "link")
    with pytest.raises(CacheError, match="is not a folder"):
        safety.check_folder(ours / "file")


def test_a_sticky_root_is_fine_what_is_in_it_is_checked(made, tmp_path):
    tmp_path.chmod(0o1777)
    folder = write(tmp_path, made, B1)
    assert read(tmp_path, made.op_type).folder == folder
    (tmp_path / "ops").chmod(0o1777)
    with pytest.raises(opdef.ArtefactError, match="ops may be written by every user"):
        read(tmp_path, made.op_type)
    (tmp_path / "ops").chmod(0o755)
    (folder / "kernel.cpp").chmod(0o666)
    with pytest.raises(opdef.ArtefactError, match=r"kernel\.cpp may be written by every user"):
        read(tmp_path, made.op_type)
    with pytest.warns(AutofuseWarning, match="AF506"):
        write(tmp_path, made, B1)
    read(tmp_path, made.op_type)


@pytest.mark.parametrize("part", [".", "twin", "twin/kernels"])
def test_folders_of_built_files_are_checked(tmp_path, part):
    def make(work):
        (work / "out").write_text("good")
        return work / "out"

    store = Store(tmp_path / "cache", "twin", "r")
    store.once("kernels/a.so", make)
    (tmp_path / "cache" / part).chmod(0o777)
    fresh = Store(tmp_path / "cache", "twin", "r")
    os.utime(tmp_path / "cache/twin/kernels/a.so", (1, 1))  # looked at anew
    for action in (lambda: fresh.find("kernels/a.so"), lambda: fresh.once("kernels/b.so", make)):
        with pytest.raises(CacheError, match="may be written by every user"):
            action()
