"""Definitions of fused ops: building, hashing, checking, storing, and the launch they describe."""

import dataclasses
import random
import runpy
import struct
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, text_format

from tests.definition_samples import FLAT, PANELS, ROWS
from torchair_autofuse import opdef
from torchair_autofuse.codegen.op_host import op_host_cpp
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.store import to_bytes, to_textproto
from torchair_autofuse.soc.chip import chip

PROTO = Path(__file__).resolve().parents[2] / "proto"
KERNELS = {"rows": ROWS, "flat": FLAT, "panels": PANELS}


@pytest.fixture(scope="module")
def rows(make_op):
    return make_op(ROWS)


@pytest.fixture()
def op(rows):
    return opdef.build(rows, chip(), {"s0": 24})


def test_compiled_schema_is_that_of_the_proto_file():
    compiled, stored = descriptor_pb2.FileDescriptorSet(), descriptor_pb2.FileDescriptorSet()
    compiled.ParseFromString(runpy.run_path(str(PROTO / "make_desc.py"))["compile_proto"]())
    stored.ParseFromString((PROTO / "fused_op.desc").read_bytes())
    assert stored == compiled, "run proto/make_desc.py"


def test_message_classes_are_not_in_the_default_pool(op):
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("torchair_autofuse.FusedOpDef")
    assert op.DESCRIPTOR.full_name == "torchair_autofuse.FusedOpDef"


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend950PR_9599"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_built_definitions_are_valid_and_hash_to_their_type(make_op, kernel, soc):
    made = make_op(KERNELS[kernel], soc)
    op = opdef.build(made, chip(soc))
    opdef.validate(op)
    assert opdef.content_hash(op) == op.content_hash == op.op_type[-12:]
    assert made.op_type == op.op_type
    assert op.schedule[0].soc == soc


def test_hash_covers_what_is_computed_and_nothing_else(make_op, rows, op):
    base = opdef.content_hash(op)
    same = [
        opdef.build(make_op(ROWS.replace("Mul_1", "Mul_77")), chip()),
        opdef.build(make_op(ROWS, "Ascend950PR_9599"), chip("Ascend950PR_9599")),
        opdef.build(rows, chip("Ascend910B4"), {"s0": 5}),
        opdef.build(make_op(ROWS.replace("kernel k(", "kernel other(")), chip()),
    ]
    assert {opdef.content_hash(o) for o in same} == {base}
    other = [
        ROWS.replace("64", "96"),
        ROWS.replace("f16", "bf16"),
        ROWS.replace("lt(v3, v4)", "le(v3, v4)"),
        ROWS.replace("mul(v0, v2)", "mul(v2, v0)"),
    ]
    hashes = [opdef.content_hash(opdef.build(make_op(t), chip())) for t in other]
    assert len({base, *hashes}) == 5


def test_hash_follows_params_that_were_changed(op):
    base = opdef.content_hash(op)
    op.input[1].dtype = "bf16"
    assert opdef.content_hash(op) != base


def test_building_twice_gives_the_same_bytes(make_op, op):
    again = opdef.build(make_op(ROWS), chip(), {"s0": 24})
    assert to_bytes(again) == to_bytes(op)
    assert to_textproto(again) == to_textproto(op)


@pytest.mark.parametrize("name", ["op.afop.pb", "op.afop.textproto"])
def test_saved_definitions_load_equal(op, tmp_path, name):
    opdef.save(op, tmp_path / name)
    loaded = opdef.load(tmp_path / name)
    assert loaded == op
    opdef.validate(loaded)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_text_form_shows_the_body_line_by_line(op):
    text = to_textproto(op)
    assert 'body: "  v3: f32 = mul(v0, v2)"\n' in text
    assert "Mul_1" not in text.split("provenance")[0]


@pytest.mark.parametrize(
    "name, data, expected",
    [
        ("a.pb", b"\xff\xff\xff\xff", "not a FusedOpDef"),
        ("a.pb", b"", "no op_type"),
        ("a.textproto", b'op_type: "X" nonsense: 3', "nonsense"),
        ("a.textproto", b"\xff\xfe", "not a FusedOpDef"),
    ],
)
def test_files_that_hold_no_definition(tmp_path, name, data, expected):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(opdef.OpDefError, match=expected):
        opdef.load(tmp_path / name)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such definition"):
        opdef.load(tmp_path / "x.pb")
    with pytest.raises(FileNotFoundError, match=r"op\.afop\.pb"):
        opdef.load(tmp_path)


def set_field(path, value):
    def change(op):
        *parents, last = path.split(".")
        target = op
        for part in parents:
            name, _, index = part.rstrip("]").partition("[")
            target = getattr(target, name)
            target = target[int(index)] if index else target
        name, _, index = last.rstrip("]").partition("[")
        if index:
            getattr(target, name)[int(index)] = value
        else:
            setattr(target, name, value)

    return change


def body(old, new):
    def change(op):
        lines = [line.replace(old, new) for line in op.body]
        assert lines != list(op.body)
        del op.body[:]
        op.body.extend(lines)

    return change


def step(name, value):
    def change(op):
        next(s for s in op.schedule[0].step if s.name == name).value = value

    return change


BROKEN = [
    (set_field("schema_version", 2), "schema_version", "this release reads 1"),
    (set_field("op_type", "Add"), "op_type", "is not Autofuse"),
    (set_field("op_type", "AutofusePointwiseK0123456789ab"), "body", "its kernel is called"),
    (set_field("content_hash", "0123456789ab"), "content_hash", "the content gives"),
    (set_field("input[0].name", "9x"), "input[0].name", "is not a name"),
    (set_field("input[0].name", "float"), "input[0].name", "is not a name"),
    (set_field("output[0].name", "workspace"), "output[0].name", "is not a name"),
    (set_field("input[1].name", "x"), "input[1].name", "is taken"),
    (set_field("output[0].name", "c"), "output[0].name", "is taken"),
    (set_field("input[1].dtype", "f8"), "input[1].dtype", "unknown type"),
    (set_field("input[1].dtype", "bf16"), "input[1].dtype", "the body says f16"),
    (set_field("input[0].dim[0]", "s0 +"), "input[0].dim[0]", "not a size expression"),
    (set_field("output[0].dim[0]", "s7"), "output[0].dim[0]", "symbol s7 is not declared"),
    (set_field("output[0].dim[1]", "65"), "output[0].dim", "the body says"),
    (lambda op: op.output.pop(), "body", "has 5 parameters, the op 4"),
    (set_field("symbol[0].name", "n"), "symbol[0].name", "is not one of s0, s1"),
    (set_field("symbol[0].input", 9), "symbol[0].input", "there are 3 inputs"),
    (set_field("symbol[0].dim", 2), "symbol[0].dim", "input 0 has 2 dims"),
    (set_field("symbol[0].divisor", 0), "symbol[0].divisor", "at least 1"),
    (set_field("symbol[0].divisor", 2), "symbol", "differ from the kernel's"),
    (body("mul(v0, v2)", "mul(v0"), "body", "line "),
    (body("mul(v0, v2)", "mul(v0, v9)"), "body", "v9 is not defined"),
    (body("64*a0 + a1] = v6", "64*a0 + a1 + 1] = v6"), "body", "store y"),
    (body("mul(v0, v2)", "add(v0, v2)"), "content_hash", "the content gives"),
    (set_field("numeric.f32_rtol", 0.5), "numeric.f32_rtol", "at most 1e-3"),
    (lambda op: op.schedule.pop(), "schedule", "there is none"),
    (set_field("schedule[0].soc", "Ascend999"), "schedule[0].soc", "unknown SoC"),
    (set_field("schedule[0].soc", "ascend910b1"), "schedule[0].soc", "full name"),
    (lambda op: op.schedule.add().CopyFrom(op.schedule[0]), "schedule[1].soc", "each once"),
    (set_field("schedule[0].npu_arch", 3510), "schedule[0].npu_arch", "has 2201"),
    (set_field("schedule[0].vector_cores", 100), "schedule[0].vector_cores", "has 48"),
    (set_field("schedule[0].ub_bytes", 1 << 20), "schedule[0].ub_bytes", "has 196608"),
    (set_field("schedule[0].ub_limit_bytes", 1 << 20), "schedule[0].ub_limit_bytes", "has 188416"),
    (set_field("schedule[0].template", ""), "schedule[0].template", "is empty"),
    (set_field("schedule[0].step[1].value", "1 +"), "schedule[0].step[1].value", "not a tiling expression"),
    (set_field("schedule[0].step[1].name", "s0"), "schedule[0].step[1].name", "taken"),
    (set_field("schedule[0].step[1].name", "double"), "schedule[0].step[1].name", "is not a name"),
    (set_field("schedule[0].step[0].value", "ub_used"), "schedule[0].step[0].value", "nor an earlier step"),
    (set_field("schedule[0].field[0]", "nothing"), "schedule[0].field[0]", "is no step"),
    (set_field("schedule[0].field[1]", "size0"), "schedule[0].field[1]", "given twice"),
    (set_field("schedule[0].block_dim", "blocks"), "schedule[0].block_dim", "nor an earlier step"),
    (step("block_dim", "(core_num + 1)"), "schedule[0].block_dim", "49 at s0 = 1, Ascend910B1 has 48"),
    (step("ub_used", "ub_bytes"), "schedule[0].ub_used", "196608 bytes at s0 = 1, Ascend910B1 has 188416"),
    (step("ub_used", "((s0 + 1) * 1000)"), "schedule[0].ub_used", "at s0 = 4097"),
    (step("ub_used", "(1 / s0)"), "schedule[0].step[26].value", "cannot be evaluated at s0 = 0"),
    (set_field("schedule[0].workspace_bytes", "-1"), "schedule[0].workspace_bytes", "-1"),
    (set_field("artefact[0].name", "../kernel.cpp"), "artefact[0].name", "not a file name"),
    (set_field("artefact[1].name", "kernel.cpp"), "artefact[1].name", "given twice"),
    (set_field("artefact[0].sha256", "12"), "artefact[0].sha256", "not a SHA-256"),
    (set_field("provenance.hint[0].symbol", "s1"), "provenance.hint[0]", "no such size"),
]


@pytest.mark.parametrize("change, field, problem", BROKEN, ids=lambda x: x if isinstance(x, str) else "")
def test_a_broken_definition_names_the_field(op, change, field, problem):
    opdef.validate(op)
    change(op)
    with pytest.raises(opdef.OpDefError) as caught:
        opdef.validate(op)
    assert caught.value.field == field
    assert problem in str(caught.value)
    assert op.op_type in str(caught.value)


@pytest.mark.parametrize("kernel", KERNELS)
def test_launch_is_what_the_schedule_computes(make_op, kernel):
    made = make_op(KERNELS[kernel])
    target = chip()
    op = opdef.build(made, target)
    definition = Definition.of(text_format.Parse(to_textproto(op), type(op)()))
    rng = random.Random(7)
    for _ in range(40):
        symbols = {s.name: rng.choice([0, 1, 3, 17, 256, 1000, 5000]) for s in made.lowered.kernel.symbols}
        expected = made.schedule.tiling(symbols, target.vector_cores, target.ub_bytes)
        launch = definition.launch(symbols)
        assert {n: launch.values[n] for n in expected} == expected
        assert launch.block_dim == expected["block_dim"]
        assert launch.ub_used == expected["ub_used"]
        packed = struct.unpack(f"<{len(made.schedule.fields)}q", launch.tiling)
        assert packed == tuple(expected[f] for f in made.text.fields)


def test_shapes_bind_symbols_and_give_outputs(make_op):
    definition = Definition.of(opdef.build(make_op(PANELS), chip()))
    symbols = definition.symbols([(2, 3, 5), (3, 1)])
    assert symbols == {"s0": 2, "s1": 3, "s2": 5}
    assert definition.shapes(symbols)["y"] == (2, 3, 5)
    with pytest.raises(ValueError, match="input g is 4, expected s1 = 3"):
        definition.symbols([(2, 3, 5), (4, 1)])
    with pytest.raises(ValueError, match="1 inputs given, it takes 2"):
        definition.symbols([(2, 3, 5)])
    with pytest.raises(opdef.OpDefError, match="none for Ascend910B2; recorded: Ascend910B1"):
        Definition.of(definition.op, "Ascend910B2")


def test_build_refuses_a_chip_of_another_architecture(rows):
    with pytest.raises(ValueError, match="is scheduled for 2201, Ascend950PR_9599 is 3510"):
        opdef.build(rows, chip("Ascend950PR_9599"))


HOST_TEXT = [
    'this->Input("x")\n            .ParamType(REQUIRED)\n            .DataType({ge::DT_FLOAT})',
    'this->Input("h")\n            .ParamType(REQUIRED)\n            .DataType({ge::DT_FLOAT16})',
    'this->Output("m")\n            .ParamType(REQUIRED)\n            .DataType({ge::DT_BOOL})',
    'this->AICore().AddConfig("ascend910b", config);',
    'this->AICore().AddConfig("ascend910_93", config);',
    "config.DynamicCompileStaticFlag(true)",
    ".PrecisionReduceFlag(false)",
    "const int64_t s0 = shape0->GetOriginShape().GetDim(0);",
    "out0->SetDimNum(2);\n    out0->SetDim(0, s0 < 0 ? -1 : s0);\n    out0->SetDim(1, 64);",
    "context->SetOutputDataType(0, DT_FLOAT16)",
    "context->SetOutputDataType(1, DT_BOOL)",
    "workspaces[0] = static_cast<size_t>(launch.workspaceBytes) + platform.GetLibApiWorkSpaceSize();",
    '#include "tiling.h"',
]


def test_host_source(op):
    text = op_host_cpp(Definition.of(op).host_plan)
    for part in [*HOST_TEXT, f"OP_ADD({op.op_type});", f"GetTilingData<{op.op_type}Tiling>()"]:
        assert part in text
    assert "ascend950" not in text


def test_host_source_of_another_architecture(make_op):
    made = make_op(FLAT, "Ascend950PR_9599")
    text = op_host_cpp(Definition.of(opdef.build(made, chip("Ascend950PR_9599"))).host_plan)
    assert 'AddConfig("ascend950", config)' in text
    assert "ascend910" not in text
    assert "KnownDim" not in text  # nothing is symbolic


def test_scaled_symbols_are_divided(make_op):
    text = PANELS.replace("x: f32[s0,", "x: f32[2*s0,").replace("y: f32[s0,", "y: f32[2*s0,")
    text = text.replace("s0 = x.0", "s0 = x.0 / 2").replace("a0: s0", "a0: 2*s0")
    op = opdef.build(make_op(text), chip())
    opdef.validate(op)
    assert op.symbol[0].divisor == 2
    source = op_host_cpp(Definition.of(op).host_plan)
    assert "s0 = shape0->GetOriginShape().GetDim(0) / 2;" in source
    assert "KnownDim(shape0->GetDim(0), 2)" in source
    assert Definition.of(op).symbols([(6, 3, 5), (3, 1)])["s0"] == 3


def test_names_of_nodes_are_kept_outside_the_hash(rows, op):
    assert [(n.name, n.type) for n in op.provenance.node][:2] == [("Mul_1", "Mul"), ("Cast", "Cast")]
    assert dataclasses.replace(rows.lowered, nodes=()).op_type == op.op_type
