"""``python -m torchair_autofuse cache``, and the limit that is kept after builds."""

import json
import os
import time

import pytest

from torchair_autofuse import cache_command, opdef
from torchair_autofuse.cache import growth, lease, sweep
from torchair_autofuse.cache.built import Store
from torchair_autofuse.cli import main
from torchair_autofuse.opdef import registry
from torchair_autofuse.opdef.artefact import write
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.toolchain import sources_key

TEXT = """\
kernel k(in x: f32[s0, 64], out y: f32[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f32 = load x[64*a0 + a1]  # from Mul_1
  v1: f32 = mul(v0, v0)  # from Mul_1
  store y[64*a0 + a1] = v1  # from Mul_1
"""


@pytest.fixture(scope="module")
def made(make_op):
    return make_op(TEXT)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    lease.release()


def filled(root, made, count=4, each=1000):
    """An op for two chips, and kernels k0, k1, ... of ``each`` bytes, the first used longest ago."""

    def make(work):
        (work / "out").write_bytes(b"x" * each)
        return work / "out"

    paths = [write(root, made, chip(soc)) for soc in ("Ascend910B4", "Ascend910B1")]
    paths = [root / "variants" / p.name if not p.exists() else p for p in paths]
    store = Store(root, "twin", sources_key())
    now = time.time()
    for n in range(count):
        path = store.once(f"kernels/k{n}.so", make)
        os.utime(path, (now - 86400 * (count - n),) * 2)
    lease.release()
    return paths


def kernels(root):
    return sorted(p.name for p in (root / "twin" / "kernels").glob("*.so"))


def test_list(root, made, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    filled(root, made)
    (root / "ops" / made.op_type / "kernel.cpp").write_text("")
    assert main(["cache"]) == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [row[:3] + row[4:] for row in rows] == [
        [made.op_type, "Ascend910B1", "pointwise", "now", "Mul_1", "damaged"],
        [f"{made.op_type} (variant)", "Ascend910B4", "pointwise", "now", "Mul_1", "ok"],
    ]
    assert all(row[3].endswith(" kB") for row in rows)
    assert f"{made.op_type}: kernel.cpp is not the file that was generated" in " ".join(out.split())
    assert "kernels for the CPU twin: 4, " in out and "(4 ok)" in out
    assert f"{root}: 2 ops, " in out and "limit 2 GB" in out
    assert main(["cache", "list"]) == 0 and capsys.readouterr().out == out


def test_nothing_there(root, capsys):
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{root}: there is no cache yet\n"


@pytest.mark.parametrize("action", [["list"], ["prune"], ["clear", "--yes"]])
def test_a_folder_that_is_no_cache_is_left_alone(root, capsys, action):
    (root / "ops" / "thesis").mkdir(parents=True)
    (root / "ops" / "thesis" / "text").write_text("years of work")
    assert main(["cache", *action]) == 2
    assert "does not look like a cache of torchair_autofuse" in capsys.readouterr().err
    assert (root / "ops" / "thesis" / "text").exists()


def test_prune(root, made, capsys):
    _, current = filled(root, made)
    twin = root / "twin" / "kernels"
    (twin / "k0.so").write_bytes(b"y" * 1000)  # same size, other content
    record = json.loads((twin / "k1.so.json").read_text())
    (twin / "k1.so.json").write_text(json.dumps(record | {"release": "old"}))
    (twin / "k9.so.json").write_text("{}")
    (twin / ".k2.so-abcdef").mkdir()
    (twin / ".k2.so-abcdef" / "part").write_bytes(b"z" * 500)
    (root / "ops" / f".{made.op_type}-abcdef").mkdir()
    (current / "tiling.h").unlink()
    (variant,) = (root / "variants").iterdir()
    op = opdef.load(variant)
    op.generator_digest = "e" * 24
    opdef.save(op, variant / "op.afop.pb")
    assert registry.inspect(variant).state == "other release"
    assert main(["cache", "prune"]) == 0
    out = capsys.readouterr().out
    assert kernels(root) == ["k2.so", "k3.so"]
    assert not current.exists() and not variant.exists()
    assert "damaged: 2 entries, " in out and "other release: 2 entries, " in out
    assert "leftovers of dead processes: 502 B" in out
    assert "left in 2 entries" in out and "freed " in out
    left = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    assert {p for p in left if ".locks" not in p} == {
        "CACHEDIR.TAG", *(f"twin/kernels/{n}.so{end}" for n in ("k2", "k3") for end in ("", ".json")),
    }  # fmt: skip
    assert {p for p in left if ".locks" in p} == {f"twin/.locks/kernels+k{n}.so.lock" for n in (2, 3)}


def test_prune_to_a_limit_takes_the_least_recently_used(root, made, capsys):
    filled(root, made, each=100_000)
    total = sum(u.size for u in sweep.units(root))
    assert main(["cache", "prune", "--limit", str(total - 150_000)]) == 0
    assert kernels(root) == ["k2.so", "k3.so"]
    assert "over the limit: 2 entries, 200 kB" in capsys.readouterr().out
    assert main(["cache", "prune", "--older", "1.5"]) == 0
    assert kernels(root) == ["k3.so"]
    assert "not used for long: 1 entries, 100 kB" in capsys.readouterr().out
    assert sum(u.size for u in sweep.units(root)) < total - 300_000


@pytest.mark.parametrize("args", [["--limit", "much"], ["--older", "-1"], ["--older", "x"]])
def test_bad_arguments(root, args, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["cache", "prune", *args])
    assert stop.value.code == 2 and "expected a " in capsys.readouterr().err


def test_what_is_in_use_stays(root, made, capsys):
    _, current = filled(root, made)
    store = Store(root, "twin", sources_key())
    assert store.find("kernels/k0.so") is not None
    assert main(["cache", "prune", "--limit", "1"]) == 0
    assert "running processes use the rest" in capsys.readouterr().out
    assert kernels(root) == ["k0.so"] and not current.exists()
    assert main(["cache", "clear", "--yes"]) == 0
    assert "1 entries are used by running processes and stay" in capsys.readouterr().out
    assert kernels(root) == ["k0.so"]


def test_clear_deletes_ours_and_nothing_else(root, made, capsys, monkeypatch):
    filled(root, made)
    outside = root.parent / "outside"
    (outside / "kernels").mkdir(parents=True)
    (outside / "kernels" / "a.so").write_text("")
    assert main(["cache", "clear"]) == 1  # nobody to ask
    assert "--yes" in capsys.readouterr().err and kernels(root)
    (root / "mine.txt").write_text("")
    (root / "ops" / "notes").mkdir()
    assert main(["cache", "clear", "--yes"]) == 0
    assert "left alone, since no entry of the cache: mine.txt" in capsys.readouterr().out
    assert {p.relative_to(root).as_posix() for p in root.rglob("*")} == {
        "CACHEDIR.TAG", "mine.txt", "ops", "ops/notes"
    }  # fmt: skip
    (root / "mine.txt").unlink()
    (root / "ops" / "notes").rmdir()
    (root / "twin").symlink_to(outside)
    assert main(["cache", "clear", "--yes"]) == 0
    assert (outside / "kernels" / "a.so").exists()


def test_the_prompt(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = {"y": True, "YES ": True, "": False, "n": False}
    assert {a: cache_command._agreed("?", lambda _, a=a: a) for a in answers} == answers


def test_the_limit_is_kept_after_builds(root, made):
    filled(root, made, each=100_000)
    total = sum(u.size for u in sweep.units(root))
    sweep.keep_within(root, 0)  # no limit
    assert len(kernels(root)) == 4
    sweep.keep_within(root, total - 50_000)
    assert kernels(root) == ["k1.so", "k2.so", "k3.so"]
    sweep.keep_within(root, 1)  # nothing was built since: not looked at
    assert len(kernels(root)) == 3
    growth.add(root, 10)
    sweep.keep_within(root, 1000)  # little was built, and the size was looked at just now
    assert len(kernels(root)) == 3
    os.utime(root / ".swept", (1, 1))
    growth.add(root, 10)
    sweep.keep_within(root, 1000)
    assert kernels(root) == [] and sweep.units(root) == []


def test_the_limit_is_kept_after_the_clock_was_set_back(root, made):
    filled(root, made, each=100_000)
    (root / ".swept").touch()
    os.utime(root / ".swept", (2**32, 2**32))
    growth.add(root, 10)
    sweep.keep_within(root, 1000)
    assert sweep.units(root) == []
