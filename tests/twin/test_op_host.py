"""op_host.cpp of fused ops, compiled and run: what it registers, what it infers, and the rules it is held to."""

from __future__ import annotations

import random
import re

import pytest
from host_ops import KERNELS, HostCase

from torchair_autofuse.codegen.op_host import soc_configs
from torchair_autofuse.dtypes import F32
from torchair_autofuse.loop import expr
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.errors import HostRuleError, KernelBuildError
from torchair_autofuse.twin.op_host import UNKNOWN_RANK, Platform, build_op_host, build_op_hosts

TARGET = chip("Ascend910B1")
NAMES = ("rows", "panels", "columns", "sums", "no symbols", "side by side", "few rows", "gather", "statistics")
FLAGS = {
    "DynamicCompileStaticFlag": True, "DynamicFormatFlag": False, "DynamicRankSupportFlag": True,
    "DynamicShapeSupportFlag": True, "NeedCheckSupportFlag": False, "PrecisionReduceFlag": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def ops(make_op):
    cases = [HostCase.of(name, make_op(KERNELS[name]), TARGET) for name in NAMES]
    return {op.name: (op, host) for op, host in zip(cases, build_op_hosts([op.files for op in cases]))}


@pytest.mark.parametrize("name", NAMES)
def test_registration_is_the_definition(ops, name):
    op, host = ops[name]
    found = host.registration
    assert found.op_type == host.op_type == op.made.op.op_type
    for declared, params in ((found.inputs, op.made.kernel.inputs), (found.outputs, op.made.kernel.outputs)):
        assert [(d.name, d.dtypes) for d in declared] == [(p.name, (p.dtype,)) for p in params]
        nd = (2,)
        assert all((d.param_type, d.formats, d.unknown_shape_formats) == ("REQUIRED", nd, nd) for d in declared)
    assert found.configs == dict.fromkeys(soc_configs(TARGET.npu_arch), FLAGS)
    assert len(found.configs) == 2
    inputs = [p.dtype for p in op.made.kernel.inputs]
    assert host.infer_data_types(inputs) == tuple(p.dtype for p in op.made.kernel.outputs)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_inferred_as_the_definition_has_them(ops, name):
    """Some or all sizes are not known yet: then exactly the dims that need them are -1."""
    op, host = ops[name]
    rng = random.Random(name)
    drawn, given = [], []
    for symbols, _ in op.random(rng, 200):
        unknown = {s for s in symbols if rng.random() < 0.3}
        shapes = {
            p.name: tuple(
                -1 if unknown & expr.free_symbols(d) else n for d, n in zip(p.dims, op.made.shapes(symbols)[p.name])
            )
            for p in op.made.kernel.params
        }
        drawn.append(tuple(shapes[p.name] for p in op.made.kernel.outputs))
        given.append([shapes[p.name] for p in op.made.kernel.inputs])
    assert host.infer_shapes(given) == drawn
    assert any(-1 in s for out in drawn for s in out) == (name != "no symbols")


@pytest.mark.parametrize("name", NAMES)
def test_ranks(ops, name):
    """Of an input that sizes are read from: unknown, all outputs have none; wrong, inference and tiling fail."""
    op, host = ops[name]
    readers = {s.param for s in op.made.kernel.symbols}
    _, shapes = next(op.random(random.Random(name), 1))
    platform = Platform.of(TARGET)
    outputs = host.infer_shape(shapes)
    assert host.tiling(shapes, platform) is not None and outputs is not None
    for k, p in enumerate(op.made.kernel.inputs):

        def with_shape(shape, k=k):
            return [*shapes[:k], shape, *shapes[k + 1 :]]

        reads = p.name in readers
        every = (UNKNOWN_RANK,) * len(outputs)
        assert host.infer_shape(with_shape(UNKNOWN_RANK)) == (every if reads else outputs)
        for wrong in ((*shapes[k], 1), shapes[k][:-1]):
            assert (host.infer_shape(with_shape(wrong)) is None) == reads
            assert (host.tiling(with_shape(wrong), platform) is None) == reads
    with pytest.raises(ValueError, match=r"0 inputs given, it takes \d+"):
        host.tiling([], platform)


def test_platform_without_cores_or_ub_fails(ops):
    """No cores, or less UB than the smallest tile needs: the tiling function says so."""
    op, host = ops["gather"]
    _, shapes = next(op.random(random.Random(0), 1))
    whole = Platform.of(TARGET)
    assert host.tiling(shapes, Platform(0, whole.ub_bytes, whole.lib_workspace_bytes)) is None
    assert host.tiling(shapes, Platform(whole.vector_cores, 9000, whole.lib_workspace_bytes)) is None


def test_platforms_as_cann_reports_them():
    assert [Platform.of(chip(s)) for s in ("Ascend910B3", "Ascend910_9391", "Ascend950PR_9599")] == [
        Platform(40, 196352, 16777216), Platform(48, 196352, 16777216), Platform(72, 253952, 16777216),
    ]  # fmt: skip


# Each: pattern -> replacement in op_host.cpp (all occurrences), and what the look-alikes say.
BROKEN_TILING = {
    "block dim": (r"static_cast<uint32_t>\(launch.blockDim\)", "1000", r"block dim 1000 on 48 cores"),
    "no block dim": (r"context->SetBlockDim.*", "", r"did not set the block dim"),
    "no key": (r"context->SetTilingKey.*", "", r"did not set the tiling key"),
    "field": (r"tiling_->(\w+) = \1;\n    return", "return", r"tiling data that is not set"),
    "workspace": (
        r" \+ platform.GetLibApiWorkSpaceSize\(\)",
        "",
        r"a workspace of \d+ bytes does not hold the 16777216",
    ),
    "workspace size": (r"workspaces\[0\] = .*", "", r"a workspace size was asked for and not set"),
    "dim": (r"GetOriginShape\(\).GetDim\(\d\)", "GetOriginShape().GetDim(7)", r"dim 7 of a shape that has 2"),
    "mode": (r"SetScheduleMode\(1\)", "SetScheduleMode(2)", r"schedule mode 2"),
    "memory": (r"CoreMemType::UB", "CoreMemType::L1", r"size of UB only"),
}
BROKEN_REGISTRATION = {
    "columns": (r"\.Format\(\{ge::FORMAT_ND\}\)", ".Format({ge::FORMAT_ND, ge::FORMAT_ND})", r"Format has 2 entries"),
    "no format": (r"\.UnknownShapeFormat\(.*\);", ";", r"UnknownShapeFormat has 0 entries"),
    "name": (r'Output\("y"\)', 'Output("x")', r"'x' like another parameter"),
    "type": (r"\.ParamType\(REQUIRED\)", "", r"no ParamType"),
    "config": (r'(this->AICore\(\).AddConfig\("ascend910b", config\);)', r"\1 \1", r"'ascend910b' is given twice"),
    "soc": (r'AddConfig\("ascend910b"', 'AddConfig("Ascend910B"', r"lower-case short name"),
    "no config": (r"this->AICore\(\).AddConfig.*", "", r"no AddConfig"),
    "flag": (r"config.DynamicCompileStaticFlag", "config.PrecisionReduceFlag", r"PrecisionReduceFlag is given twice"),
    "no tiling": (
        r"this->AICore\(\).SetTiling\(optiling::TilingFunc\);",
        "(void)optiling::TilingFunc;",
        r"SetTiling are",
    ),
}
BROKEN_INFERENCE = {
    "rank": (r"out0->SetDimNum\(1\);\n\s*out0->SetDim\(0, -2\);", "", r"output 0: dim 0 was not set", UNKNOWN_RANK),
    "dim": (r"out0->SetDim\(0, s0 .*", "", r"output 0: dim 0 was not set", (3, 5)),
    "negative": (r"out0->SetDim\(0, s0 .*", "out0->SetDim(0, -7);", r"output 0: dim 0 is -7", (3, 5)),
}


@pytest.fixture(scope="module")
def broken(make_op):
    """The host code of one op with one thing wrong, each under an op type of its own: all in one library."""
    op = HostCase.of("", make_op(KERNELS["softmax"]), TARGET)
    kinds = {"t": BROKEN_TILING, "r": BROKEN_REGISTRATION, "i": BROKEN_INFERENCE}
    edits = {(k, name): rule for k, rules in kinds.items() for name, rule in rules.items()}
    edits["t", "capacity"] = ("$^", "", "")
    edits["d", "type"] = (r"context->SetOutputDataType\(0, \w+\)", "(context ? GRAPH_SUCCESS : GRAPH_FAILED)", "")
    edits["r", "op type"] = ("$^", "", "")
    files = []
    for i, (pattern, text, *_) in enumerate(edits.values()):
        # Names must differ: classes of the same name in one library would be taken for the same.
        key = list(edits)[i]
        op_type = f"not_{i}" if key == ("r", "op type") else f"Broken{i}"
        source = re.sub(rf"\b{op.made.op.op_type}\b", op_type, op.files["op_host.cpp"])
        source, count = re.subn(pattern, text, source)
        assert count or pattern == "$^", key
        header = op.files["tiling.h"]
        if key == ("t", "capacity"):
            header = header.replace("Tiling {", "Tiling {\n    int64_t room[2048];")
        files.append({"op_host.cpp": source, "tiling.h": header})
    return dict(zip(edits, build_op_hosts(files)))


@pytest.mark.parametrize("name", BROKEN_TILING)
def test_broken_tiling(broken, name):
    with pytest.raises(HostRuleError, match=BROKEN_TILING[name][2]) as found:
        broken["t", name].tilings([([(3, 5)], Platform.of(TARGET)), ([(3, 10**7)], Platform.of(TARGET))])
    assert found.value.code == "AF406" and f"op_host.cpp of {broken['t', name].op_type}, case " in str(found.value)


@pytest.mark.parametrize("name", BROKEN_REGISTRATION)
def test_broken_registration(broken, name):
    with pytest.raises(HostRuleError, match=BROKEN_REGISTRATION[name][2]):
        _ = broken["r", name].registration


@pytest.mark.parametrize("name", BROKEN_INFERENCE)
def test_broken_inference(broken, name):
    with pytest.raises(HostRuleError, match=BROKEN_INFERENCE[name][2]):
        broken["i", name].infer_shape([BROKEN_INFERENCE[name][3]])


def test_other_broken_host_code(broken):
    with pytest.raises(HostRuleError, match="the type of output 0 was not set"):
        broken["d", "type"].infer_data_types([F32])
    with pytest.raises(HostRuleError, match=r"is not \[A-Z\]"):
        _ = broken["r", "op type"].registration
    assert broken["t", "capacity"].tiling([(3, 5)], Platform.of(TARGET)) is None  # GetTilingData gives nullptr


def test_what_cannot_be_built(make_op):
    op = HostCase.of("", make_op(KERNELS["flat"]), TARGET)
    source = op.files["op_host.cpp"]
    for bad in (source.replace("GetCoreNumAiv", "GetCoreNumVec"), source.replace("// Generated by", "int unused; //")):
        with pytest.raises(KernelBuildError, match="AF405"):
            build_op_host({**op.files, "op_host.cpp": bad + "static int unused() { return 0; }\n"})
    with pytest.raises(ValueError, match=r"a file op_host\.cpp"):
        build_op_host({"tiling.h": ""})
    twice = build_op_hosts([op.files, {**op.files, "op_host.cpp": source + "\n"}])
    with pytest.raises(HostRuleError, match="is there twice"):
        _ = twice[1].registration


@pytest.mark.parametrize("name", [n for n in NAMES if n != "no symbols"])
def test_sizes_that_are_no_shapes_are_refused(ops, name):
    """Products of them would overflow, and a divisor could come out as zero."""
    op, host = ops[name]
    kernel, platform = op.made.kernel, Platform.of(TARGET)
    fine = {s.name: 3 for s in kernel.symbols}

    def tiled(symbols):
        inputs = [p.name for p in kernel.inputs]
        shapes = {n: tuple(min(d, 2**62) for d in dims) for n, dims in op.made.shapes(symbols).items() if n in inputs}
        return host.tiling([shapes[n] for n in inputs], platform)

    assert tiled(fine) is not None
    for symbol in fine:
        for size in (-1, 2**41, 2**62):
            assert tiled({**fine, symbol: size}) is None, (symbol, size)
    if len(fine) > len({s.param for s in kernel.symbols}):  # several of one tensor
        assert tiled(dict.fromkeys(fine, 2**30)) is None
        assert tiled({**dict.fromkeys(fine, 0), next(iter(fine)): 2**62}) is None
