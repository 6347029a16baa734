"""The cache of artefact folders under crashes, other chips, other releases and other users."""

import os
import shutil
import signal
import sys
import warnings
from contextlib import contextmanager

import pytest

from tests.definition_samples import GAIN
from torchair_autofuse import opdef
from torchair_autofuse.cache import lease, notice, sweep
from torchair_autofuse.cache.built import Store
from torchair_autofuse.cache.locks import locked
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.opdef import registry
from torchair_autofuse.opdef.artefact import read, repaired, write
from torchair_autofuse.soc.chip import chip

B1, B4 = chip("Ascend910B1"), chip("Ascend910B4")


@pytest.fixture(scope="module")
def made(make_op):
    return make_op(GAIN)


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(notice, "_told", set())
    yield
    lease.release()


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def socs(folder):
    return [s.soc for s in opdef.load(folder).schedule]


def work_folders(root):
    return [p for p in root.rglob(".*-*") if p.parent.name != ".leases"]


# ---- crashes ------------------------------------------------------------------------------------------------------


def killed_at(step, root, action):
    """Runs ``action`` in a fork that kills itself just before its file operation number ``step`` under ``root``;
    False when it was done before."""
    pid = os.fork()
    if pid == 0:
        left = step

        def hook(event, args):
            nonlocal left
            operations = ("open", "os.rename", "os.mkdir", "os.chmod", "os.remove", "os.rmdir", "os.utime")
            if event in operations and any(str(a).startswith(str(root)) for a in args[:2]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            action()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def damage(folder):
    (folder / "kernel.cpp").write_text("")


STARTS = {
    "empty": lambda root, made: None,
    "damaged": lambda root, made: damage(write(root, made, B1)),
    "another chip": lambda root, made: write(root, made, B4),
    "a damaged variant": lambda root, made: damage([write(root, made, t) for t in (B1, B4, B1)][-1]),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_writer_killed_at_any_point_leaves_nothing_half_valid(made, tmp_path, start):
    good = contents(write(tmp_path / "good", made, B1))

    def put(root):
        """As ``write`` does, but that the files are not generated again each time."""
        return registry.put(root, made.op_type, B1, lambda: good)

    template = tmp_path / "template"
    template.mkdir()
    STARTS[start](template, made)
    lease.release()
    seen = set()
    for step in range(1000):
        root = tmp_path / "cache"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        if not killed_at(step, root, lambda root=root: put(root)):
            break
        try:
            stored = read(root, made.op_type, B1.soc)
            seen.add(tuple(socs(stored.folder)))
        except opdef.ArtefactError as error:
            said = str(error)
            seen.add("missing" if "there is no folder" in said else "damaged")
            assert "there is no folder" in said or start == "damaged"
        if start in ("another chip", "a damaged variant") and (root / "ops" / made.op_type).exists():
            assert read(root, made.op_type, B4.soc).op.schedule[0].soc == B4.soc  # what the others have is not lost
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AutofuseWarning)
            folder = put(root)
        assert contents(folder) == good
        lease.release()
        sweep.remove_leftovers(root)
        assert not work_folders(root), step
    assert step > 25
    expected = {"empty": {"missing", (B1.soc,)}, "another chip": {"missing", (B1.soc,), (B4.soc,)}}
    assert seen == expected.get(start, seen) and (B1.soc,) in seen


def test_a_builder_killed_at_any_point_leaves_nothing_half_valid(tmp_path):
    def make(work):
        for n in range(3):
            (work / "part").write_bytes(b"x" * n)
        (work / "out").write_bytes(b"good")
        return work / "out"

    for step in range(200):
        root = tmp_path / f"cache{step}"
        store = Store(root, "twin", "r")
        if not killed_at(step, root, lambda store=store: store.once("kernels/a.so", make)):
            break
        target = root / "twin/kernels/a.so"
        found = store.find("kernels/a.so")
        assert found is None or found.read_bytes() == b"good"
        assert store.once("kernels/a.so", make).read_bytes() == b"good"
        lease.release()
        sweep.remove_leftovers(root)
        assert {p.name for p in target.parent.iterdir()} == {"a.so", "a.so.json"}
    assert step > 15


@contextmanager
def stuck(action):
    """A fork in which ``action(wait)`` has come to its wait(); it is killed in the end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:

        def wait():
            os.write(writing, b"x")
            signal.pause()

        try:
            action(wait)
        finally:
            os._exit(1)
    assert os.read(reading, 1) == b"x"
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)


def test_work_of_the_living_stays(made, tmp_path, monkeypatch):
    root = tmp_path / "cache"
    store = Store(root, "twin", "r")

    def make(work, wait):
        (work / "part").write_text("half")
        wait()

    def write_half(wait):
        monkeypatch.setattr(registry, "_set_aside", lambda *args: wait())
        write(root, made, B1)

    write(root, made, B4)
    with stuck(lambda wait: store.once("kernels/a.so", lambda w: make(w, wait))), stuck(write_half):
        before = sorted(work_folders(root))
        assert len(before) == 2
        sweep.remove_leftovers(root)
        sweep.clear(root)
        assert sorted(work_folders(root)) == before
        assert not any(sweep.remove(root, u) for u in sweep.units(root))
    assert sweep.remove_leftovers(root) > 0
    assert not work_folders(root)
    assert store.find("kernels/a.so") is None
    assert socs(read(root, made.op_type).folder) == [B4.soc]


# ---- chips and releases -------------------------------------------------------------------------------------------


def test_chips_do_not_replace_each_other(made, tmp_path):
    first = write(tmp_path, made, B1)
    assert write(tmp_path, made, B4) == first == tmp_path / "ops" / made.op_type
    assert socs(first) == [B4.soc]
    kept = write(tmp_path, made, B1)
    assert kept.parent == tmp_path / "variants" and kept.name.startswith(f"{made.op_type}@{B1.soc}-")
    before = {p: p.stat().st_ino for p in (first, kept)}
    for _ in range(3):
        assert (write(tmp_path, made, B4), write(tmp_path, made, B1)) == (first, kept)
    assert {p: p.stat().st_ino for p in (first, kept)} == before  # nobody writes over another's
    for target in (B1, B4):
        assert read(tmp_path, made.op_type, target.soc).op.schedule[0].soc == target.soc
    assert read(tmp_path, made.op_type).folder == first
    assert {p.name for p in first.parent.iterdir()} == {made.op_type, f".{made.op_type}.lock"}


def test_releases_do_not_replace_each_other(made, tmp_path, monkeypatch):
    first = write(tmp_path, made, B1)
    ours = contents(first)
    with monkeypatch.context() as patch:
        patch.setattr(registry, "generator_digest", lambda: "f" * 24)
        op = opdef.load(first)
        op.generator_digest = "f" * 24
        write(tmp_path, made, B1, op=op)
        assert opdef.load(first).generator_digest == "f" * 24
        theirs = contents(first)
    kept = write(tmp_path, made, B1)
    assert kept.parent.name == "variants" and contents(kept) == ours
    assert contents(first) == theirs
    assert read(tmp_path, made.op_type, B1.soc).folder == kept
    assert registry.inspect(first).state == "other release"


def test_a_damaged_variant_is_made_again(made, tmp_path):
    write(tmp_path, made, B1)
    first = write(tmp_path, made, B4)
    kept = write(tmp_path, made, B1)
    damage(kept)
    with pytest.warns(AutofuseWarning, match=r"AF506: Autofuse.*@.*kernel\.cpp is not the file"):
        assert write(tmp_path, made, B1) == first
    assert socs(first) == [B1.soc]
    assert socs(write(tmp_path, made, B4)) == [B4.soc]
    assert not kept.exists()


# ---- damage -------------------------------------------------------------------------------------------------------


def test_damage_is_told_once_per_entry(made, tmp_path):
    folder = write(tmp_path, made, B1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            damage(folder)
            write(tmp_path, made, B1)
        (folder / "loop.txt").unlink()
        assert repaired(tmp_path, made.op_type).op.op_type == made.op_type  # only the sources count for a reader
    assert [str(w.message) for w in caught] == [
        f"AF506: {made.op_type}: kernel.cpp is not the file that was generated; the entry was made again ({folder})"
    ]
    assert issubclass(caught[0].category, AutofuseWarning)


def test_a_damaged_folder_is_made_again_from_its_definition(made, tmp_path):
    folder = write(tmp_path, made, B1)
    good = contents(folder)
    (folder / "tiling.h").unlink()
    with pytest.raises(opdef.ArtefactError, match=r"tiling\.h is missing"):
        read(tmp_path, made.op_type)
    with pytest.warns(AutofuseWarning, match=r"AF506: .*tiling\.h is missing"):
        assert repaired(tmp_path, made.op_type).folder == folder
    assert contents(folder) == good
    (folder / "op.afop.pb").write_bytes(b"\xff\xff")
    with pytest.raises(opdef.OpDefError, match="not a FusedOpDef"):
        repaired(tmp_path, made.op_type)


# ---- locks and leases ---------------------------------------------------------------------------------------------


def test_a_lock_that_was_deleted_is_not_held_twice(tmp_path):
    path = tmp_path / "lock"
    with locked(path) as first:
        assert first
        with locked(path, wait=False) as second, locked(path, shared=True, wait=False) as third:
            assert not second and not third
        path.unlink()
        with locked(path) as other:
            assert other
    with locked(path, shared=True) as a, locked(path, shared=True) as b, locked(path, wait=False) as c:
        assert (a, b, c) == (True, True, False)


def test_readers_lock_a_cache_they_cannot_write(made, tmp_path, monkeypatch):
    write(tmp_path, made, B1)
    real = os.open

    def refuse(path, flags, *args, **kwargs):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(13, "read-only", str(path))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    with locked(sweep.op_lock(tmp_path, made.op_type), shared=True) as ours:
        assert ours
    assert read(tmp_path, made.op_type).op.op_type == made.op_type
    (tmp_path / "ops" / f".{made.op_type}.lock").unlink()
    with locked(sweep.op_lock(tmp_path, made.op_type), shared=True) as ours:
        assert not ours
    assert read(tmp_path, made.op_type).op.op_type == made.op_type


def test_a_reader_without_a_lock_waits_for_the_folder(made, tmp_path, monkeypatch):
    folder = write(tmp_path, made, B1)
    aside = tmp_path / "aside"
    folder.rename(aside)
    waits = []

    @contextmanager
    def none(*args, **kwargs):
        yield False

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            aside.rename(folder)

    monkeypatch.setattr(registry, "locked", none)
    monkeypatch.setattr(registry.time, "sleep", sleep)
    assert read(tmp_path, made.op_type).folder == folder
    assert len(waits) == 2 and sum(waits) < 1
    folder.rename(aside)
    waits.extend([0.0] * 3)
    with pytest.raises(opdef.ArtefactError, match="there is no folder"):
        read(tmp_path, made.op_type)


def test_what_a_live_process_holds_is_not_deleted(made, tmp_path):
    folder = write(tmp_path, made, B1)
    lease.release()

    def use(wait):
        read(tmp_path, made.op_type)
        wait()

    with stuck(use):
        assert sweep.held(tmp_path) == {f"ops/{made.op_type}"}
        assert sweep.trim(tmp_path, 1) == [] and folder.is_dir()
    assert [u.path for u in sweep.trim(tmp_path, 1)] == [folder]
    assert not folder.exists() and not any((tmp_path / ".leases").iterdir())
    assert {p.name for p in (tmp_path / "ops").iterdir()} == set()
