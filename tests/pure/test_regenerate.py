"""Everything of a fused op comes back from its definition alone, byte for byte, or the error says what differs."""

from __future__ import annotations

import pytest
from definition_samples import CONCAT, KERNELS, ROWS
from ge_build import GraphBuilder
from plan_build import barrier, fused

from benchmarks import graphs
from benchmarks.captured import case
from benchmarks.definitions import difference
from torchair_autofuse import opdef
from torchair_autofuse.codegen.op_host import op_host_cpp
from torchair_autofuse.opdef.artefact import write
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.regenerate import artefact_files
from torchair_autofuse.opdef.schema import message_class
from torchair_autofuse.opdef.store import to_bytes
from torchair_autofuse.soc.chip import chip

# one of each kind: reductions, movement, bf16, many nests, symbols, training
GRAPHS = (
    "adamw_step__static__g0", "albert__dynamic__g0", "dcn_v2__dynamic__g0", "gn_silu__dynamic__g0",
    "ln_gru__static__g0", "pointwise_long__dynamic__g0", "qwen3_bf16__static__g0", "rope__dynamic__g0",
    "topk_gate__static__g0", "train_resnetblock__static__g1", "yolo_head__dynamic__g0",
)  # fmt: skip


def copy(op):
    made = message_class()()
    made.ParseFromString(to_bytes(op))
    return made


@pytest.fixture(scope="module")
def rows(make_op):
    return make_op(ROWS)


@pytest.fixture()
def op(rows):
    return opdef.build(rows, chip(), {"s0": 24})


@pytest.mark.parametrize("name", GRAPHS)
def test_ops_of_captured_graphs_come_back(name):
    assert name in graphs.names()
    result = case(name).result
    nodes = {o.type: o for o in result.model_def.graph[0].op}
    types = set()
    for made, definition in zip(result.generated, result.ops):
        opdef.validate(definition)
        if made.op_type not in types:
            assert difference(made, definition, nodes[made.op_type]) == ""
        types.add(made.op_type)
    assert types


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910B4", "Ascend950PR_9599"])
def test_the_folder_comes_back(make_op, tmp_path, kernel, soc):
    made = make_op(KERNELS[kernel], soc)
    folder = write(tmp_path, made, chip(soc), opdef.build(made, chip(soc), {"s0": 24}))
    definition = opdef.load(folder)
    files = artefact_files(definition)
    assert files == {p.name: p.read_bytes() for p in folder.iterdir()}
    again = opdef.regenerate(definition)
    assert again.kernel == made.lowered.kernel
    assert again.schedule.steps == made.schedule.steps and again.text == made.text
    assert again.op_host_cpp.encode() == files["op_host.cpp"]
    origins = [v.origin for nest in again.kernel.nests for v in (*nest.values, *nest.stores)]
    assert origins == [v.origin for nest in made.lowered.kernel.nests for v in (*nest.values, *nest.stores)]


def test_names_that_would_leave_their_comment_do_not(make_op):
    made = opdef.build(make_op(ROWS), chip())
    made.provenance.node[0].name = "a\n#error injected\r\u2028"
    text = opdef.retarget(made, chip())
    kernel = opdef.regenerate(text).text.kernel_cpp
    assert "//   Mul (a?#error injected??)\n" in kernel


def damage(name):
    def change(op):
        s = op.schedule[0]
        if name == "step":
            s.step[3].value = "7"
        elif name == "steps":
            del s.step[-1:]
            s.ub_used = "1024"
        elif name == "field":
            s.field.insert(0, s.field.pop())
        elif name == "buffer":
            s.buffer[1].itemsize += 1
        elif name == "template":
            s.template = "columns"
        elif name == "workspace":
            s.workspace_bytes = "32"
        elif name == "digest":
            op.artefact[0].sha256 = "0" * 64
        elif name == "missing":
            del op.artefact[-1]
        elif name == "file":
            op.artefact.add(name="more.cpp", sha256="0" * 64)
        elif name == "origin":
            op.provenance.origin[0].node[0] = "Other"
        elif name == "node":
            op.provenance.node[0].name = "Other"

    return change


@pytest.mark.parametrize(
    "name, field, problem",
    [
        ("step", "schedule[0].step[3]", "but the body gives"),
        ("steps", "schedule[0].step", "entries, but the body gives"),
        ("field", "schedule[0].field[0]", "but the body gives"),
        ("buffer", "schedule[0].buffer[1]", "but the body gives"),
        ("template", "schedule[0].template", "columns, but the body gives pointwise"),
        ("workspace", "schedule[0].workspace_bytes", "32, but the body gives 0"),
        ("digest", "artefact[0].sha256", "the kernel.cpp that the definition gives has"),
        ("missing", "artefact", "run.py is not among the recorded files"),
        ("file", "artefact[7].name", "no such file is generated"),
        ("origin", "artefact[3].sha256", "loop.txt"),
        ("node", "artefact[0].sha256", "kernel.cpp"),
    ],
)
def test_damage_that_keeps_the_rules_is_found(op, name, field, problem):
    damage(name)(op)
    opdef.validate(op)
    for use in (opdef.regenerate, artefact_files):
        with pytest.raises(opdef.OpDefError) as caught:
            use(op)
        assert (caught.value.field, problem in caught.value.problem) == (field, True)


def test_another_release_is_told_from_damage(op):
    op.generator_digest = "0" * 24
    opdef.regenerate(op)  # it generates the same
    op.provenance.generator = "torchair_autofuse 0.0.9"
    op.schedule[0].step[3].value = "7"
    with pytest.raises(opdef.OpDefError, match=r"another release \(torchair_autofuse 0\.0\.9, 0{24}") as caught:
        opdef.regenerate(op)
    assert caught.value.field == "generator_digest" and "schedule[0].step[3]" in str(caught.value)
    opdef.regenerate(opdef.retarget(op, chip()))


@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend950PR_9599"])
def test_retargeted_definitions_are_those_of_that_chip(make_op, op, soc):
    other = opdef.retarget(op, chip(soc))
    opdef.validate(other)
    assert other == opdef.build(make_op(ROWS, soc), chip(soc), {"s0": 24})
    assert other.content_hash == op.content_hash and [s.soc for s in other.schedule] == [soc]
    assert opdef.regenerate(other).schedule.npu_arch == chip(soc).npu_arch
    assert opdef.retarget(other, chip()) == op


def test_a_second_schedule_is_regenerated_too(op):
    op.schedule.add().CopyFrom(opdef.retarget(op, chip("Ascend910B4")).schedule[0])
    opdef.validate(op)
    made = opdef.regenerate(op, "Ascend910B4")
    assert made.op_host_cpp == op_host_cpp(Definition.of(op, "Ascend910B4").host_plan)
    with pytest.raises(opdef.OpDefError, match="none for Ascend910B2; recorded: Ascend910B1, Ascend910B4"):
        opdef.regenerate(op, "Ascend910B2")
    op.schedule[1].step[3].value = "7"
    opdef.regenerate(op)
    with pytest.raises(opdef.OpDefError, match=r"schedule\[1\]\.step\[3\]"):
        opdef.regenerate(op, "Ascend910B4")


def test_node_attributes_follow_from_the_definition(make_op, op):
    found = opdef.node_attributes(op)
    assert found["_ir_inputs_key"] == ["x", "h", "c"] and found["_ir_outputs_value"] == [0, 0]
    assert found["_input_name_value"] == [0, 1, 2] and found["_output_name_key"] == ["y", "m"]
    rule = (
        '{"shape": {"inputs": [["s0", "64"], null, null], "outputs": [["s0", "64"], ["s0", "64"]]}, "dtype": [1, 12]}'
    )
    assert found["_inference_rule"] == rule
    concat = opdef.node_attributes(opdef.build(make_op(CONCAT), chip()))
    assert '"outputs": [["s0", "(8 + s2)"]]' in concat["_inference_rule"]


def test_ops_of_one_type_share_the_definition_of_the_first():
    b = GraphBuilder("two")
    first = b.op("Sin", b.op("Exp", b.data([8]), name="a0"), name="b0")
    b.output(b.op("Sin", b.op("Exp", barrier(b, first), name="a1"), name="b1"))
    result = fused(b)
    one, other = result.ops
    assert one is other and [n.name for n in one.provenance.node] == ["a0", "b0"]
    assert difference(result.generated[0], one) == ""
    assert [made.lowered.nodes[0].name for made in result.generated] == ["a0", "a1"]
    assert result.generated[1].text == opdef.regenerate(one).text
    written = [o for o in result.model_def.graph[0].op if o.type == one.op_type]
    assert [o.attr["_autofuse_nodes"].s for o in written] == [b"a0 b0", b"a1 b1"]
    assert 'name: "a0"' in "\n".join(one.provenance.subgraph)


def test_fields_of_newer_releases_are_kept(op, tmp_path):
    extra = bytes([(100 << 3 | 2) & 0x7F | 0x80, (100 << 3 | 2) >> 7, 3]) + b"new"  # field 100, a string
    path = tmp_path / "op.afop.pb"
    path.write_bytes(to_bytes(op) + extra)
    loaded = opdef.load(path)
    opdef.validate(loaded)
    opdef.regenerate(loaded)
    opdef.save(loaded, tmp_path / "again.afop.pb")
    assert (tmp_path / "again.afop.pb").read_bytes() == path.read_bytes()
    assert extra in to_bytes(opdef.retarget(loaded, chip("Ascend910B4")))
    loaded.schema_version = 2
    with pytest.raises(opdef.OpDefError, match="install the release that wrote it or a later one"):
        opdef.validate(loaded)
    loaded.schema_version = 0
    with pytest.raises(opdef.OpDefError, match="was not written by this package, or is damaged"):
        opdef.validate(loaded)


def test_libraries(make_op, tmp_path):
    ops = [opdef.build(make_op(text), chip()) for text in KERNELS.values()]
    for name in ("a.afoplib.pb", "a.afoplib.textproto"):
        path, other = tmp_path / name, tmp_path / f"other_{name}"
        opdef.save_library(ops, path)
        opdef.save_library(reversed(ops), other)
        assert path.read_bytes() == other.read_bytes()
        assert opdef.load_library(path) == sorted(ops, key=lambda op: op.op_type)
    assert "# proto-message: torchair_autofuse.FusedOpLibrary\n" in path.read_text()
    opdef.save_library([], path)
    assert opdef.load_library(path) == []


def test_libraries_hold_good_definitions_once(make_op, op, tmp_path):
    path = tmp_path / "a.afoplib.pb"
    other = opdef.build(make_op(CONCAT), chip())
    with pytest.raises(opdef.OpDefError, match=r"op\[[12]\]\.op_type: .* is given twice"):
        opdef.save_library([op, other, copy(op)], path)
    assert not path.exists()
    library = message_class("FusedOpLibrary")(schema_version=1)
    library.op.extend(sorted([op, other], key=lambda o: o.op_type, reverse=True))
    path.write_bytes(to_bytes(library))
    with pytest.raises(opdef.OpDefError, match=r"op\[1\]\.op_type: .* out of order"):
        opdef.load_library(path)
    library.op.reverse()
    library.op[1].schedule[0].vector_cores = 7
    path.write_bytes(to_bytes(library))
    with pytest.raises(
        opdef.OpDefError, match=r"a\.afoplib\.pb: op\[1\]\.schedule\[0\]\.vector_cores: Autofuse.* has 48"
    ):
        opdef.load_library(path)
    library.schema_version = 2
    path.write_bytes(to_bytes(library))
    with pytest.raises(opdef.OpDefError, match="schema_version: 2"):
        opdef.load_library(path)
    path.write_bytes(b"\xff\xff")
    with pytest.raises(opdef.OpDefError, match="not a FusedOpLibrary"):
        opdef.load_library(path)
    with pytest.raises(FileNotFoundError, match=r"a file \*\.afoplib\.pb is expected"):
        opdef.load_library(tmp_path / "none.afoplib.pb")
