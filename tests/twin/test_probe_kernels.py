"""Probes: all kernels on the twin, what is wrong is found, and a whole run on a made-up NPU."""

from __future__ import annotations

import dataclasses
import json

import fake_cann
import numpy as np
import pytest

from torchair_autofuse.cli import main
from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.probe import frame, host, record
from torchair_autofuse.probe.check import differences
from torchair_autofuse.probe.device import DeviceError, DeviceSpec, Source, TwinDevice
from torchair_autofuse.probe.families import copies, timing, values
from torchair_autofuse.probe.record import Case, Kernel, Probe, Timing
from torchair_autofuse.probe.registry import PROBES, _Same, select
from torchair_autofuse.probe.runner import Setting, find_npu, run
from torchair_autofuse.probe.samples import sample_ops
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.build import BuildJob, build_many

SOCS = {2201: "Ascend910B1", 3510: "Ascend950PR_9599"}
KERNELS = [p for p in PROBES if isinstance(p.how, Kernel)]


@pytest.mark.parametrize("arch", SOCS)
def test_assumptions_hold_on_the_twin(arch):
    """Few kernels of many cases: it is the number of builds that takes time."""
    device = TwinDevice(SOCS[arch])
    cases = [(p.id, c) for p in KERNELS for c in p.how.cases(device.chip) if arch in p.archs and not p.how.all_cores]
    chunks = [cases[k::2] for k in range(2)] + [[("H30", c) for c in meeting(device.chip)]]
    texts = [frame.source_of([c for _, c in chunk], all_cores=k == 2) for k, chunk in enumerate(chunks)]
    build_many([BuildJob({"kernel.cpp": text}, frame.ENTRY, arch) for text in texts])
    wrong = {}
    for k, (text, chunk) in enumerate(zip(texts, chunks)):
        for i, (name, case) in enumerate(chunk):
            found = differences(case, launched(device, Source(text, frame.ENTRY, k == 2), case, i))
            if found.bad:
                wrong[name, case.name] = found.first
    assert not wrong
    assert len(cases) > 120


def meeting(target):
    (probe,) = (p for p in KERNELS if p.how.all_cores)
    return probe.how.cases(target)


def launched(device, source, case, which=0):
    tiling = frame.tiling(which, case.n, case.m)
    return device.run(
        source, [case.x, case.y], case.out, workspace=case.workspace, block_dim=case.blocks, tiling=tiling
    ).out


@pytest.mark.parametrize("arch", SOCS)
def test_timing_kernels_run(arch):
    """On the twin their times mean nothing; they break no rule. Chains of one instruction are one kernel here."""
    device = TwinDevice(SOCS[arch])
    chains = timing.instructions()
    measures = [*timing.launches(), *timing.heads(), *timing.copies(1 << 19, 1 << 18)]
    groups = [[m] for m in measures if m.all_cores] + [[m for m in measures if not m.all_cores], list(chains)]
    texts = [frame.source([m.body for m in g], all_cores=g[0].all_cores) for g in groups]
    build_many([BuildJob({"kernel.cpp": text}, frame.ENTRY, arch) for text in texts])
    for text, group in zip(texts, groups):
        source = Source(text, frame.ENTRY, group[0].all_cores)
        for k, m in enumerate(group):
            x, out = np.ones(m.x_elements, np.float32), np.zeros(m.out_elements, np.float32)
            for p in {(p.n, p.blocks) for p in m.points}:
                tiling = frame.tiling(k, p[0], 3)
                device.run(source, [x, x[:64]], out, workspace=0, block_dim=min(p[1] or 4, 4), tiling=tiling)


def test_numbers_of_known_times():
    """Seconds made up from the table itself give the table back."""
    target = chip("Ascend910B1")
    cost, second = target.cost, 1 / (target.clock_mhz * 1e6)

    def check(measure, cycles, names=None):
        blocks = tuple(p.blocks or target.vector_cores for p in measure.points)
        seconds = tuple((5000 + cycles(p, b)) * second for p, b in zip(measure.points, blocks))
        rows = measure.numbers(seconds, blocks, target)
        for name, measured, table, _ in rows:
            assert measured == pytest.approx(table), name
        return rows

    for m in timing.instructions():
        k, _, b = getattr(cost.vector, m.name)
        assert len(check(m, lambda p, _, k=k, b=b: p.m * (k * p.n + b))) == 2
    head, sync = timing.heads()
    fixed = cost.kernel_head + cost.small_load_head[0] + cost.store_head
    check(head, lambda p, cores: fixed + cores * cost.small_load_head[1] - 5000)
    check(sync, lambda p, cores: p.m * cost.sync)
    loads, l2, stores, *blocks = timing.copies()
    check(loads, lambda p, n: p.m * (4 * p.n / (cost.load_rate[0] + cost.load_rate[1] / n) + cost.load_copy))
    check(l2, lambda p, n: p.m * (4 * p.n / cost.l2_rate + cost.load_copy))
    check(stores, lambda p, n: p.m * (4 * p.n / (cost.store_rate[0] + cost.store_rate[1] / n) + cost.store_copy))
    named = {m.name: m for m in blocks}
    rows = check(
        named["stores of 4 bytes"], lambda p, n: 64 * p.m * (523 - 7 * 4) * (1 if n > 1 else cost.short_store_alone)
    )
    assert [r[0] for r in rows] == [f"store of 4 bytes on {n} cores, per block" for n in (1, 48)]
    check(named["stores of 100 bytes"], lambda p, n: 64 * p.m * 100 / cost.uneven_store_rate)


# ---- what is wrong is found ---------------------------------------------------------------------------------------


def on_twin(probe, seconds=60.0):
    return run(probe, Setting(DeviceSpec("twin"), None, seconds))


def one_case(case):
    return Probe("H1", "made up", "something wrong", Kernel(_Same(lambda: (case,))))


def test_a_wrong_expectation_differs():
    good = values.nan_of_max_min()[0]
    want = good.want.copy()
    want[3:5] = 2.5
    made = on_twin(one_case(dataclasses.replace(good, want=want)))
    assert made.state == record.DIFFERS
    assert made.notes == ("0 of 1 cases hold", f"{good.name}: 2 of 64 elements differ (launch 1)")
    first = made.first[0]
    assert first["index"] == "3" and first["expected"] == "2.5 (0x40200000)" and first["got"].startswith("nan (0x7f")
    assert first["input"] == "-inf (0xff800000), nan (0x7fc00000)"


def test_tolerance_is_in_units_of_the_last_place():
    case = next(c for c in values.exp_and_log() if c.ulps)
    off = np.nextafter(np.nextafter(case.want, np.float32(np.inf)), np.float32(np.inf))
    assert differences(case, case.want).bad == 0
    found = differences(case, off)
    assert found.bad > 0.9 * found.size and 1.4 < found.ulps < 2.7


def test_bits_are_compared_where_asked():
    case = values.select_moves_bits()[0]
    changed = case.want.copy()
    changed[0] ^= 1 << 22  # another NaN
    assert differences(case, changed).bad == 1
    plain = dataclasses.replace(case, out=case.out.view(np.float32), want=case.want.view(np.float32))
    assert differences(dataclasses.replace(plain, bits=False), changed.view(np.float32)).bad == 0
    zero = np.zeros(4, np.float32)
    assert differences(Case("sign of zero", "", zero, zero), -zero).bad == 4


def test_a_hanging_kernel_is_ended():
    case = dataclasses.replace(copies.in_place_input()[0], body="    volatile int i = 0;\n    while (i == 0) {}\n")
    made = on_twin(one_case(case), 4.0)
    assert made.state == record.FAILED
    assert made.notes[0].startswith("no answer within 4 s") and made.notes[0].endswith("; the process was ended")


def test_a_broken_rule_fails():
    case = copies.in_place_input()[0]
    made = on_twin(one_case(dataclasses.replace(case, body=case.body.replace("PipeBarrier<PIPE_V>();", ""))))
    assert made.state == record.FAILED and "pipe-hazard" in made.notes[0]


def test_a_tolerance_needs_a_reason():
    zero = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="a reason"):
        Case("x", "", zero, zero, ulps=1.0)
    with pytest.raises(ValueError, match="differ in shape or dtype"):
        Case("x", "", zero, zero[:2])


# ---- a made-up NPU ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return fake_cann.make(tmp_path_factory.mktemp("cann") / "home")


@pytest.fixture
def cann(home, monkeypatch):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    found = find_cann()
    assert isinstance(found, Cann)
    return found


def test_a_run_on_the_device(cann, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_ACL_MAGIC", "1")
    ids = ["h13", "H31", "H33", "H22"]
    assert main(["probe", *ids, "--out", str(tmp_path / "out"), "--seconds", "60"]) == 0
    out = capsys.readouterr().out
    assert "2 hold, 1 measured, 1 not run" in out and "2 of 2 cases hold" in out
    data = json.loads((tmp_path / "out" / "probe-report.json").read_text())
    assert [r["id"] for r in data["results"]] == ["H13", "H22", "H31", "H33"]
    env = data["environment"]
    assert (env["device"], env["SoC"], env["CANN"]) == ("NPU", "Ascend910B3", "9.1.0")
    ((name, measured, table, unit),) = data["results"][-1]["numbers"]
    assert name.startswith("launch_us") and measured > 0 and (table, unit) == (2.0, "us")
    text = (tmp_path / "out" / "probe-report.md").read_text()
    assert "| H13 | loads stay in their block | holds | 2 of 2 cases hold |" in text
    assert str(cann.home) not in text and "The twin" not in text


def test_all_cores_meet_on_the_device(cann):
    spec = find_npu(cann, 60)
    assert isinstance(spec, DeviceSpec) and spec.soc == "Ascend910B3"
    (probe,) = (p for p in KERNELS if p.how.all_cores)
    small = dataclasses.replace(meeting(chip("Ascend910B1"))[2], launches=2)
    assert small.blocks == 2
    made = run(dataclasses.replace(probe, how=Kernel(_Same(lambda: (small,)), all_cores=True)), Setting(spec, cann, 60))
    assert (made.state, made.notes) == (record.HOLDS, ("1 of 1 cases hold",))


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (
            "FAKE_ACL_STATUS",
            "507015",
            "device error 507015 of aclrtSynchronizeStream: the vector core took an exception in",
        ),
        ("FAKE_ACL_CRASH", "1", "signal 6"),
    ],
)
def test_a_device_error_is_a_result(cann, tmp_path, capsys, monkeypatch, variable, value, told):
    monkeypatch.setenv(variable, value)
    assert main(["probe", "H2", "--out", str(tmp_path)]) == 1
    (made,) = json.loads((tmp_path / "probe-report.json").read_text())["results"]
    assert made["state"] == record.FAILED and made["notes"][0].startswith(told), made
    assert "1 failed" in capsys.readouterr().out


def test_a_kernel_that_the_compiler_refuses(cann, monkeypatch):
    case = dataclasses.replace(copies.in_place_input()[0], body="    NoSuchThing();\n")
    made = run(one_case(case), Setting(find_npu(cann, 60), cann, 60))
    assert made.state == record.FAILED and made.notes[0].startswith("the kernel does not compile: bisheng")
    assert "NoSuchThing" in made.notes[0]


def test_checks_with_the_runtime(cann, tmp_path, monkeypatch):
    spec = find_npu(cann, 60)
    load, name = select(["H53", "H56"])
    for probe in (load, name):
        assert run(probe, Setting(spec, cann, 60)).state == record.HOLDS
        assert run(probe, Setting(DeviceSpec("twin"), cann, 60)).notes == ("needs an NPU",)
    monkeypatch.setenv("FAKE_ACL_MAGIC", "1")
    made = run(load, Setting(spec, cann, 60))
    assert made.state == record.DIFFERS and "error 107001 of aclrtBinaryLoadFromFile: what cores" in made.notes[0]
    (unknown,) = host.soc_name(cann, "Ascend999", tmp_path)
    assert unknown.ok is False and "AF306" in unknown.text


def test_generated_kernels_and_the_compiler(cann, tmp_path, monkeypatch):
    (good,) = host.direct_entry(cann, "Ascend910B3", tmp_path / "a")
    assert good.ok is True, good
    monkeypatch.setenv("FAKE_BISHENG_REFUSES", sample_ops()["columns and rows"].text.entry)
    (bad,) = host.direct_entry(cann, "Ascend910B3", tmp_path / "b")
    assert bad.ok is False and "no such thing" in bad.text
    (library,) = host.runtime_library(cann, "", tmp_path / "c")  # there are no headers of GE
    assert library.ok is False and "AF504" in library.text


def test_no_device(cann, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_ACL_COUNT", "0")
    assert main(["probe", "H2", "--out", str(tmp_path)]) == 2
    assert "no NPU here (the runtime sees no NPU); --device twin" in capsys.readouterr().err
    monkeypatch.setenv("FAKE_ACL_COUNT", "1")
    monkeypatch.setenv("FAKE_ACL_SOC", "Ascend310P3")
    assert main(["probe", "H2", "--out", str(tmp_path)]) == 0  # a chip that kernels are not made for
    (made,) = json.loads((tmp_path / "probe-report.json").read_text())["results"]
    assert made["state"] == record.NOT_RUN and "AF306" in made["notes"][0]


def test_no_cann(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
    assert main(["probe", "--out", str(tmp_path)]) == 2
    assert "--device twin" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_what_the_twin_cannot_say(tmp_path):
    for probe in PROBES:
        if isinstance(probe.how, Timing):
            assert on_twin(probe).notes == ("needs an NPU",)


def test_the_other_architecture_is_left_out():
    probe = dataclasses.replace(KERNELS[0], archs=(3510,))
    assert on_twin(probe).notes == ("for architecture 3510 only",)


def test_twin_errors_are_told():
    case = copies.store_is_exact()[0]
    source = Source(frame.source_of([dataclasses.replace(case, body=case.body.replace("[5]", "[5000]"))]), frame.ENTRY)
    with pytest.raises(DeviceError, match="gm-bounds"):
        launched(TwinDevice(), source, case)
