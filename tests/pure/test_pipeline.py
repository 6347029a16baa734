"""fuse() from end to end: the rewritten graph and its report agree, options, determinism, the captured graphs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from ge_build import GraphBuilder
from plan_build import ALL, barrier, fused, numbers

from benchmarks import graphs
from benchmarks.captured import SMALLEST_SYMBOL, case
from torchair_autofuse import fuse_model_def
from torchair_autofuse.dtypes import F32
from torchair_autofuse.ge.catalogue import has_side_effect, kernels
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.reader import read
from torchair_autofuse.loop.interpret import interpret
from torchair_autofuse.loop.verify import verify
from torchair_autofuse.options import Options
from torchair_autofuse.pipeline import FusionContext, FusionResult, fuse

CAPTURED = ["bert__dynamic__g0", "gan_block__static__g0", "llama_bf16__static__g0", "train_resnetblock__static__g1"]


def two_groups() -> GraphBuilder:
    b = GraphBuilder("two")
    x = b.op("Sin", b.op("Exp", b.data([8]), name="a0"), name="b0")
    b.output(b.op("Sin", b.op("Exp", barrier(b, x), name="a1"), name="b1"))
    return b


def types(result: FusionResult) -> Counter[str]:
    """Op types of the rewritten graph, fused ops as "Autofuse"."""
    return Counter("Autofuse" if op.type.startswith("Autofuse") else op.type for op in result.model_def.graph[0].op)


def test_the_report_counts_what_the_graph_holds() -> None:
    result = fused(two_groups())
    assert types(result) == {"Data": 1, "Const": 1, "Autofuse": 2, "Cumsum": 1, "NetOutput": 1}
    report = result.report
    assert (report.kernels_before, report.kernels_after) == (5, 3)
    assert [f.nodes for f in report.fused] == [("a0", "b0"), ("a1", "b1")]
    assert [f.op_type for f in report.fused] == [g.op_type for g in result.generated]
    axis = 4  # bytes of the operand of Cumsum that says along which
    assert report.gm_bytes_before == 5 * 64 + axis and report.gm_bytes_after == 3 * 64 + axis == report.gm_bytes_floor
    assert report.predicted_us_after is not None and report.predicted_us_before is not None
    assert report.predicted_us_after < report.predicted_us_before


def test_equal_groups_are_one_op_type() -> None:
    result = fused(two_groups())
    assert result.generated[0].op_type == result.generated[1].op_type


def test_the_given_graph_is_not_changed() -> None:
    b = two_groups()
    before = b.model.SerializeToString(deterministic=True)
    fused(b)
    assert b.model.SerializeToString(deterministic=True) == before


def test_run_unfused_plans_and_leaves_the_graph() -> None:
    b = two_groups()
    result = fused(b, run_unfused=True)
    assert result.model_def.SerializeToString() == b.model.SerializeToString()
    assert len(result.report.fused) == 2 and result.report.kernels_after == 3


@pytest.mark.parametrize("fuel", [0, 1, 2])
def test_fuel(fuel: int) -> None:
    result = fused(two_groups(), max_fusions=fuel)
    assert types(result)["Autofuse"] == fuel == len(result.report.fused)
    assert result.report.kernels_after == 5 - fuel
    assert {r.node for r in result.report.refused if r.code == "AF221"} == {
        f"{k}{i}" for i in range(fuel, 2) for k in "ab"
    }


def test_nothing_to_fuse() -> None:
    b = GraphBuilder()
    b.output(barrier(b, b.data([8])))
    result = fused(b)
    assert result.generated == () and result.report.kernels_after == result.report.kernels_before == 1
    assert result.report.gm_bytes_after == result.report.gm_bytes_before


def test_scope_labels_are_carried_over() -> None:
    b = GraphBuilder()
    x = b.op("Exp", b.data([8]), name="n0", _user_stream_label="side")
    b.output(b.op("Sin", x, name="n1", _user_stream_label="side"))
    (op,) = [o for o in fused(b).model_def.graph[0].op if o.type.startswith("Autofuse")]
    assert op.attr["_user_stream_label"].s == b"side"


def test_constants_that_became_immediates_go() -> None:
    b = GraphBuilder()
    x = b.op("Mul", b.data([8]), b.const(2.0, F32), name="n0")
    b.output(b.op("Exp", x, name="n1"))
    assert types(fused(b)) == {"Data": 1, "Autofuse": 1, "NetOutput": 1}


def test_a_view_that_others_read_stays_and_reads_the_fused_op() -> None:
    b = GraphBuilder()
    y = b.op("Exp", b.op("Sin", b.data([8]), name="n0"), name="n1")
    v = b.op("Reshape", y, b.const([2, 4]), name="v")
    b.output(y, v, b.op("Cos", v, name="n2"))
    result = fused(b)
    (view,) = [o for o in result.model_def.graph[0].op if o.name == "v"]
    assert view.input[0].startswith("Autofuse")
    assert types(result) == {"Data": 1, "Const": 1, "Autofuse": 1, "Reshape": 1, "NetOutput": 1}


def test_a_node_with_outputs_that_nobody_reads() -> None:
    """LayerNorm's mean and variance are not stored when only y is read."""
    b = GraphBuilder()
    x, weight = b.data([16, 64]), b.data([64])
    y = b.op("LayerNormV4", x, b.const([64]), weight, b.data([64]), outputs=3, name="norm", epsilon=1e-5)
    b.output(b.op("Exp", y, name="e"))
    result = fused(b)
    for made in result.generated:
        assert all(str(r) == "e:0" for r in made.lowered.outputs)


def test_bad_chip() -> None:
    with pytest.raises(ValueError, match="NoSuchChip"):
        fused(two_groups(), soc="NoSuchChip")


def test_fuse_model_def_with_symbols() -> None:
    b = GraphBuilder()
    x, y = b.data([-1, 8]), b.data([-1, 1])
    b.output(b.op("Exp", b.op("Add", x, y, name="n0"), name="n1"))
    options = Options(enabled=True, strict=True)
    result = fuse_model_def(b.model.SerializeToString(), symbols={0: ("s0", 8), 1: ("s0", 1)}, options=options)
    (made,) = result.generated
    assert len(made.lowered.kernel.symbols) == 1
    out = interpret(made.lowered.kernel, [numbers((3, 8)), numbers((3, 1), 1)])["out0"]
    assert out.shape == (3, 8)
    unrelated = fuse_model_def(b.model, symbols={0: ("s0", 8), 1: ("s1", 1)}, options=options)
    assert not unrelated.generated, "dims that are not known to be equal"


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_graphs(name: str) -> None:
    """Kernels verify, the rewritten graph reads back and holds the kernels the report says, refusals are complete."""
    c = case(name)
    result, report = c.result, c.result.report
    again = infer(read(result.model_def), c.context.data_shapes, c.context.data_values, SMALLEST_SYMBOL)
    held = [n for n in again.nodes if n.type.startswith("Autofuse")]
    assert Counter(n.type for n in held) == Counter(f.op_type for f in report.fused)
    inside = {n for f in report.fused for n in f.nodes}
    vanished = {n.name for n in c.simplified.nodes} - {n.name for n in again.nodes} - inside
    left = [n.name for n in kernels(c.simplified) if n.name not in inside | vanished]
    assert report.kernels_after == len(left) + len(held)
    for made in result.generated:
        verify(made.lowered.kernel)
        assert len(set(made.lowered.inputs)) == len(made.lowered.inputs)
    named = {n for r in report.refused for n in (r.node, r.other)}
    silent = [n for n in left if n not in named and not has_side_effect(c.simplified.by_name[n].type)]
    assert not silent, f"kernels that stayed unfused without a word: {silent}"
    assert len(set(report.refused)) == len(report.refused)


_PROGRAM = """
import hashlib, sys
from benchmarks import graphs
from benchmarks.captured import ALL_PASSES, context
from torchair_autofuse.pipeline import fuse
for name in sys.argv[1:]:
    result = fuse(graphs.model_def(name), context(name), ALL_PASSES)
    print(name, [m.op_type for m in result.generated], [m.text for m in result.generated])
    print(hashlib.sha256(result.model_def.SerializeToString(deterministic=True)).hexdigest(), result.report.refused)
"""


def test_two_processes_make_the_same_ops() -> None:
    outputs = []
    for seed in ("1", "77"):
        environ = {**os.environ, "PYTHONHASHSEED": seed, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        command = [
            sys.executable,
            "-c",
            _PROGRAM,
            "bert_fp16__dynamic__g0",
            "adamw_step__static__g0",
            "rope__static__g0",
        ]
        run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout)
    assert "Autofuse" in outputs[0]
    assert outputs[0] == outputs[1]


def test_op_types_do_not_depend_on_node_names() -> None:
    model = read(graphs.model_def("rope__static__g0"))
    first = case("rope__static__g0").result
    names = {n.name: f"{(i * 7919) % 10007}_{n.name[::-1].replace(':', '_')}" for i, n in enumerate(model.nodes)}
    message = type(first.model_def).FromString(graphs.model_def("rope__static__g0"))
    for op in message.graph[0].op:
        op.name = names[op.name]
        for i, text in enumerate(op.input):
            if text:
                producer, _, index = text.rpartition(":")
                op.input[i] = f"{names[producer]}:{index}"
    second = fuse(message, case("rope__static__g0").context, ALL)
    assert [m.op_type for m in second.generated] == [m.op_type for m in first.generated]
    assert [[names[n.name] for n in m.lowered.nodes] for m in first.generated] == [
        [n.name for n in m.lowered.nodes] for m in second.generated
    ]


def test_a_kept_node_stays_even_where_nobody_reads_it() -> None:
    b = GraphBuilder()
    x = b.data([8])
    one = b.op("OnesLike", x, name="one")
    b.output(b.op("Exp", b.op("Add", x, one, name="n0"), name="n1"))
    assert types(fused(b)) == {"Data": 1, "Autofuse": 1, "NetOutput": 1}
    kept = fuse(b.model, FusionContext(keep=frozenset(["one"])), ALL)
    assert types(kept) == {"Data": 1, "OnesLike": 1, "Autofuse": 1, "NetOutput": 1}
    assert kept.report.kernels_after == 2


def test_bytes_of_rows_within_lanes() -> None:
    """What one copy covers counts once for all rows in it, and again for every index around."""
    b = GraphBuilder()
    x = b.op("Relu", b.data((8, 3, 16, 5, 8)))
    b.output(b.op("Exp", b.op("Transpose", x, b.const((3, 1, 4, 0, 2)))))
    report = fused(b).report
    assert report.kernels_after == 1 and report.gm_bytes_floor == 2 * 4 * 15360
    assert report.gm_bytes_after is not None and report.gm_bytes_after <= 3 * report.gm_bytes_floor
