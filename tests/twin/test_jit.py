"""The JIT route end to end on a CANN of look-alikes: definitions, the runtime, device binaries, GE, the twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jit_support import FAKE, ROOT, Ge, inputs_of, make_cann, older_runtime
from test_artefact import fresh_root
from test_jit_core import MIXED
from test_split import ALL, SOFTMAX

from torchair_autofuse import cache_command, opdef
from torchair_autofuse.cache import sweep
from torchair_autofuse.deliver import jit
from torchair_autofuse.deliver.delivery import Delivery
from torchair_autofuse.deliver.jit.device import BINARY, compile_all, device_kernel
from torchair_autofuse.deliver.jit.folder import place
from torchair_autofuse.deliver.jit.route import _results
from torchair_autofuse.deliver.jit.runtime import build, load
from torchair_autofuse.deliver.route import choose
from torchair_autofuse.dtypes import by_name
from torchair_autofuse.host import kernels
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.messages import AutofuseWarning
from torchair_autofuse.opdef import artefact
from torchair_autofuse.opdef.compare import compare
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.store import to_bytes
from torchair_autofuse.options import Options
from torchair_autofuse.soc.chip import chip

SOC = "Ascend910B1"
STATIC = """\
kernel k(in x: f32[6, 40], in h: f32[40], out y: f32[6, 40], out z: f16[6, 40])
nest n0 [a0: 6, a1: 40]
  v0: f32 = load x[40*a0 + a1]
  v1: f32 = load h[a1]
  v2: f32 = add(v0, v1)
  v3: f16 = cast(v2, rint)
  store y[40*a0 + a1] = v2
  store z[40*a0 + a1] = v3
"""
FLAT = """\
kernel k(in x: f32[s0], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0]
  v0: f32 = load x[a0]
  v1: f32 = mul(v0, v0)
  store y[a0] = v1
"""
TEXTS = {"static": STATIC, "mixed": MIXED, "softmax": SOFTMAX, "all": ALL}
CASES = [
    ("static", {}),
    *(("mixed", {"s0": a, "s1": b}) for a, b in ((1, 1), (5, 8), (300, 700), (0, 3))),
    *(("softmax", {"s0": a, "s1": b}) for a, b in ((4, 33), (1, 200_000), (70, 1000), (0, 9))),
    *(("all", {"s0": a, "s1": b}) for a, b in ((3, 5), (1000, 900), (0, 7))),
]


def build_ops(make_op, texts):
    made = {name: make_op(text) for name, text in texts.items()}
    return made, {name: opdef.build(op, chip(SOC)) for name, op in made.items()}


class Route:
    """What the tests share: a CANN, its GE with all ops registered, and the same ops on the host."""

    def __init__(self, folder, make_op):
        self.root = fresh_root(folder)
        self.cann = make_cann(folder / "cann")
        self.options = Options(enabled=True, cache_dir=str(self.root), soc=SOC)
        generated, self.ops = build_ops(make_op, TEXTS)
        self.missing = {}
        for name, op in self.ops.items():  # two in static graphs, two in dynamic ones
            dynamic = name in ("mixed", "all")
            self.missing |= jit.unavailable([op], self.options, self.cann, dynamic=dynamic)
        self.ge = Ge(self.cann)
        for name, op in self.ops.items():
            artefact.write(self.root, generated[name], chip(SOC), op=op)
        kernels.prepare([op.op_type for op in self.ops.values()], root=self.root)

    def host(self, op, inputs):
        outputs = kernels.load(op.op_type).run(
            [
                torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
                if a.dtype.name == "bfloat16"
                else torch.from_numpy(a)
                for a in inputs
            ]
        )
        return [t.numpy() for t in outputs]


@pytest.fixture(scope="module")
def no_torchair():
    """Tests of the host may have loaded TorchAir into this process: its registry, no GE's, knows none of these ops."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("torch_npu.dynamo.torchair.core._torchair", "torchair.core._torchair"):
            patch.delitem(sys.modules, name, raising=False)
        yield


@pytest.fixture(scope="module")
def route(tmp_path_factory, make_op, no_torchair):
    return Route(tmp_path_factory.mktemp("jit"), make_op)


def test_everything_is_available(route):
    assert route.missing == {}
    for op in route.ops.values():
        names = [",".join(p.name for p in params) for params in (op.input, op.output)]
        assert route.ge.ir(op.op_type) == ">".join(names)
    assert any(device_kernel(op, SOC).meets for op in route.ops.values())
    static, dynamic = ([route.ops[n] for n in names] for names in (("static", "softmax"), ("mixed", "all")))
    assert jit.unavailable(static, route.options, route.cann, dynamic=False) == {}
    assert jit.unavailable(dynamic, route.options, route.cann, dynamic=False) == {}
    reasons = jit.unavailable(list(route.ops.values()), route.options, route.cann, dynamic=True)
    assert set(reasons) == {op.op_type for op in static}
    assert all("this one is dynamic" in r.text and r.code == "AF504" for r in reasons.values())


@pytest.mark.parametrize(("name", "symbols"), CASES, ids=str)
def test_values(route, name, symbols):
    """Bit for bit what the host executor computes; nothing is launched for empty outputs."""
    op = route.ops[name]
    inputs = inputs_of(op, symbols, seed=3)
    expected, before = route.host(op, inputs), route.ge.launches
    for _ in range(2):  # the second time from the cache of launches
        call = route.ge.execute(op, inputs)
        assert call is not None, route.ge.error()
        found = call.outputs()
        assert [f.shape for f in found] == [e.shape for e in expected]
        assert [f.tobytes() for f in found] == [e.tobytes() for e in expected]
    assert route.ge.launches - before == (2 if any(e.size for e in expected) else 0)
    inferred = route.ge.infer(op, [a.shape for a in inputs])
    assert inferred is not None and [d for _, d in inferred] == [list(e.shape) for e in expected]


def test_inference(route):
    op = route.ops["mixed"]
    assert route.ge.infer(op, [[-1, 8], []]) == [(0, [-1, 8])]
    assert route.ge.infer(op, [[4, -1], []]) == [(0, [4, -1])]
    assert route.ge.infer(op, [[-2], []]) == [(0, [-2])]
    assert route.ge.infer(op, [[4, 7], []]) is None  # an odd size
    assert route.ge.infer(op, [[4, 8, 1], []]) is None
    assert [t for t, _ in route.ge.infer(route.ops["static"], [[6, 40], [40]])] == [0, 1]


def test_wrong_inputs_are_refused(route, capfd):
    op = route.ops["static"]
    x, h = inputs_of(op, {})
    before = route.ge.launches
    assert route.ge.execute(op, [x[:5], h]) is None
    assert route.ge.execute(op, [x, h], types=[1, 0]) is None
    assert route.ge.execute(op, [x]) is None
    told = capfd.readouterr().err
    assert "input x is [5, 40], expected 6 in dim 0" in told and "GE type 1, expected 0" in told and "no input" in told
    assert route.ge.launches == before


def test_threads_and_devices(route):
    """Many calls at once on two devices; the binary is loaded once per device."""
    op = route.ops["mixed"]
    loads = route.ge.acl.twin_acl_loads()
    sizes = [{"s0": 3 + i % 5, "s1": 16 + i % 3} for i in range(24)]
    expected = [route.host(op, inputs_of(op, s, seed=i)) for i, s in enumerate(sizes)]

    def run(i):
        route.ge.acl.twin_acl_set_device(i % 2)
        call = route.ge.execute(op, inputs_of(op, sizes[i], seed=i))
        route.ge.acl.twin_acl_set_device(0)
        return None if call is None else call.outputs()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, range(24)))
    assert all(f is not None for f in found), route.ge.error()
    assert [f[0].tobytes() for f in found] == [e[0].tobytes() for e in expected]
    assert 1 <= route.ge.acl.twin_acl_loads() - loads <= 2


def test_addresses_are_refreshed(route):
    """From CANN 9.2: only the word of the input that moved changes; an op that launched nothing has none."""
    assert load(build(route.cann, route.root)).refreshes_addresses
    for name, symbols in (("static", {}), ("softmax", {"s0": 1, "s1": 200_000}), ("softmax", {"s0": 0, "s1": 3})):
        op = route.ops[name]
        inputs = inputs_of(op, symbols)
        call = route.ge.execute(op, inputs)
        moved = np.array(inputs[0])
        assert route.ge.move_input(call, moved) == (1 if moved.size else 0)
        call.outputs()


def test_registration(route):
    """Once more is no error; another definition or kernel under the same op type is one, and so is another chip."""
    runtime, op = load(build(route.cann, route.root)), route.ops["static"]
    kernel = device_kernel(op, SOC)
    (binary,) = compile_all([kernel], route.cann, route.root)
    data = to_bytes(op)
    assert runtime.registered(op.op_type) and not runtime.registered("AutofuseNone")
    assert runtime.register(data, binary, SOC, False, True) is None
    assert "another definition or kernel" in runtime.register(data, FAKE, SOC, False, True)
    assert "another definition or kernel" in runtime.register(data, binary, SOC, True, True)
    other = type(op)()
    other.CopyFrom(op)
    other.provenance.generator = "somebody else"  # says nothing of what is run
    assert runtime.register(to_bytes(other), binary, SOC, False, True) is None
    other.schedule[0].block_dim = "1"
    assert "another definition or kernel" in runtime.register(to_bytes(other), binary, SOC, False, True)
    assert "there is no schedule for Ascend910B3" in runtime.register(data, binary, "Ascend910B3", False, True)
    other.op_type = "AutofusePointwiseK0123456789ab"
    assert "there is no device binary /none" in runtime.register(to_bytes(other), Path("/none"), SOC, False, True)
    os.environ["TWIN_ACL_SOC"] = "Ascend910B4"
    try:
        assert "made for Ascend910B1, the device is Ascend910B4" in runtime.register(data, binary, SOC, False, True)
    finally:
        del os.environ["TWIN_ACL_SOC"]


@pytest.fixture
def fresh(route, tmp_path):
    """Options with a cache of their own."""
    return replace(route.options, cache_dir=str(fresh_root(tmp_path)))


def test_one_kernel_that_does_not_compile(route, make_op, monkeypatch):
    """It leaves the others; its folder has everything to see why. It is not tried again."""
    _, ops = build_ops(make_op, {"flat": FLAT, "twice": FLAT.replace("mul", "add")})
    monkeypatch.setenv("FAKE_BISHENG_REFUSES", Definition.of(ops["twice"]).entry)
    missing = jit.unavailable(list(ops.values()), route.options, route.cann)
    assert list(missing) == [ops["twice"].op_type]
    reason = missing[ops["twice"].op_type]
    assert reason.code == "AF503" and "bisheng: kernel.cpp:7: error: no such thing" in reason.text
    folder = Path(re.search(r"\(in (.*)\)$", reason.text)[1])
    assert {"kernel.cpp", "tiling.h", "kernel.asc", "build.log"} <= {p.name for p in folder.iterdir()}
    assert "--npu-arch=dav-2201" in (folder / "build.log").read_text()
    x = np.arange(9, dtype=np.float32)
    assert route.ge.execute(ops["flat"], [x]).outputs()[0].tolist() == (x * x).tolist()
    assert route.ge.execute(ops["twice"], [x]) is None
    monkeypatch.delenv("FAKE_BISHENG_REFUSES")
    assert jit.unavailable(list(ops.values()), route.options, route.cann) == missing


def test_ge_is_asked(route, make_op, monkeypatch):
    """Where TorchAir can say what GE knows, it is believed."""
    op = opdef.build(make_op(FLAT.replace("mul", "min")), chip(SOC))
    fake = SimpleNamespace(get_registered_ir_def=lambda op_type: ("ERROR", [], [], []))
    monkeypatch.setitem(sys.modules, "torchair.core._torchair", fake)
    (reason,) = jit.unavailable([op], route.options, route.cann).values()
    assert reason.code == "AF504" and "GE does not know it" in reason.text


def test_what_a_machine_may_lack(route, fresh, monkeypatch, tmp_path):
    """Nothing raises; each reason says what to do."""
    op = route.ops["static"]
    monkeypatch.setenv("PATH", str(tmp_path))
    bare = replace(route.cann, home=tmp_path / "bare", text="9.2.0 (bare)")
    bare.home.mkdir()

    def reason(options, cann):
        _results.clear()
        return str(jit.unavailable([op], options, cann)[op.op_type])

    assert "AF504: the JIT runtime did not build: cmake: command not found; install it" in reason(fresh, bare)
    monkeypatch.undo()
    text = reason(fresh, bare)
    assert "AF504" in text and "runtime.log has the whole output" in text
    assert "has no libgraph.so" in (tmp_path / "jit" / place(bare) / "runtime.log").read_text()
    (found,) = compile_all([device_kernel(op, SOC)], bare, tmp_path)
    assert str(found).startswith(f"AF503: {op.op_type}: bisheng: not in {bare.home}")
    assert "AF503" in reason(replace(route.options, soc="Ascend910B3"), route.cann)
    assert "AF306" in reason(replace(route.options, soc="Ascend910A"), route.cann)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert "may be written by every user" in reason(replace(fresh, cache_dir=str(open_to_all)), route.cann)
    (tmp_path / "file").write_text("")
    assert "AF504: the JIT runtime cannot be kept" in reason(
        replace(fresh, cache_dir=str(tmp_path / "file")), route.cann
    )


def test_other_chips(make_op):
    """Kernels of 950 are compiled as such; those that meet have no place to do so there."""
    soc = "Ascend950PR_9599"
    flat, whole = (opdef.build(make_op(text, soc), chip(soc)) for text in (FLAT, ALL))
    kernel = device_kernel(flat, soc)
    assert (kernel.npu_arch, kernel.meets) == (3510, False)
    assert "blocks wait for each other is not available on Ascend950PR_9599" in device_kernel(whole, soc).text


def test_damaged_binary_is_built_again(route, fresh):
    kernel, root = device_kernel(route.ops["static"], SOC), Path(fresh.cache_root())
    (binary,) = compile_all([kernel], route.cann, root)
    whole, stamp = binary.read_bytes(), binary.stat().st_mtime_ns
    assert compile_all([kernel], route.cann, root) == [binary] and binary.stat().st_mtime_ns == stamp
    binary.write_bytes(whole[:1000])
    with pytest.warns(AutofuseWarning, match="AF506"):
        assert compile_all([kernel], route.cann, root) == [binary]
    assert binary.read_bytes() == whole


def test_the_cache_command_knows_them(route, fresh, monkeypatch, capsys):
    """Device binaries are listed and deleted with what lies beside them; what this process uses stays."""
    root = Path(fresh.cache_root())
    (binary,) = compile_all([device_kernel(route.ops["static"], SOC)], route.cann, root)
    (unit,) = [u for u in sweep.units(root) if u.kind == sweep.JIT]
    assert unit.path == binary and unit.name.startswith("jit/9.2.0-") and unit.size > binary.stat().st_size
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(root))
    cache_command.main(Namespace(action="list"))
    assert "built for the device: 1" in capsys.readouterr().out
    assert not sweep.remove(root, unit) and binary.exists()
    monkeypatch.setattr(sweep, "held", lambda root: set())
    assert sweep.remove(root, unit) and not binary.parent.exists()
    (root / "twin").unlink()  # it is everybody's
    sweep.clear(root)
    assert not (root / "jit").exists()


def test_the_limit_of_the_cache_is_kept(route, make_op):
    """A build for the device makes room: what was not used for longest goes."""
    unused = route.root / "jit" / place(route.cann) / "k" / "unused" / BINARY
    unused.parent.mkdir()
    unused.write_bytes(bytes(1_000_000))
    os.utime(unused, (1, 1))
    (route.root / ".swept").unlink(missing_ok=True)  # its size was looked at long ago
    limit = sum(u.size for u in sweep.units(route.root))
    generated = make_op(FLAT.replace("mul", "sub"))
    op = opdef.build(generated, chip(SOC))
    delivery = Delivery(choose("jit", route.cann, on_device=True), route.options.replace(cache_limit=limit), True)
    assert delivery([generated], [op]) == {}
    assert not unused.exists()
    names = {u.name.rpartition("/")[2] for u in sweep.units(route.root)}
    assert op.op_type in names and {BINARY, "libtorchair_autofuse_rt.so"} <= names


def test_two_processes_compile_once(route, fresh, monkeypatch, tmp_path):
    op, root = tmp_path / "op.afop.pb", Path(fresh.cache_root())
    op.write_bytes(to_bytes(route.ops["mixed"]))
    monkeypatch.setenv("FAKE_BISHENG_LOG", str(tmp_path / "runs"))
    script = (
        "import sys; from pathlib import Path; from torchair_autofuse import opdef;"
        "from torchair_autofuse.deliver.cann import find_cann; from torchair_autofuse.deliver.jit.device import *;"
        "kernel = device_kernel(opdef.load(sys.argv[1]), sys.argv[2]);"
        "print(*compile_all([kernel] * 3, find_cann(), Path(sys.argv[3])))"
    )
    environ = {**os.environ, "ASCEND_HOME_PATH": str(route.cann.home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, str(op), SOC, str(root)]
    both = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = {p.communicate()[0] for p in both}
    assert [p.returncode for p in both] == [0, 0] and len(told) == 1
    assert (tmp_path / "runs").read_text() == "kernel.asc\n"


def test_cann_9_1(route, make_op, tmp_path):
    """Without address refresh the arguments go from the host."""
    runtime = load(older_runtime(route.cann, tmp_path / "older.so"))
    assert not runtime.refreshes_addresses
    for text, symbols in (
        (FLAT.replace("mul", "max"), {"s0": 1000}),
        (ALL.replace("mul(x, g)", "sub(x, g)"), {"s0": 1000, "s1": 900}),
    ):
        op = opdef.build(make_op(text), chip(SOC))
        kernel = device_kernel(op, SOC)
        (binary,) = compile_all([kernel], route.cann, route.root)
        assert runtime.register(to_bytes(op), binary, SOC, kernel.meets, True) is None
        inputs = inputs_of(op, symbols)
        call = route.ge.execute(op, inputs)
        assert call is not None, route.ge.error()
        (found,), made = call.outputs(), Definition.of(op)
        expected = interpret(made.kernel, dict(zip([p.name for p in op.input], inputs)))
        (name,) = [p.name for p in op.output]
        assert compare(found, expected[name], by_name("f32"), f32_rtol=1e-5, half_ulps=1).ok
