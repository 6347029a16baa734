"""The cost model: predictions are sane, follow the schedule, and take a user's numbers."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest
from ge_build import GraphBuilder
from hypothesis import given
from hypothesis import strategies as st
from plan_build import ALL, graph_of
from test_schedule import scheduled

from torchair_autofuse.dtypes import I32
from torchair_autofuse.options import Options, read_options
from torchair_autofuse.pipeline import FusionContext, fuse
from torchair_autofuse.plan.cost import NodeCosts, Work, predicted_ns
from torchair_autofuse.plan.predict import schedule_ns
from torchair_autofuse.soc.chip import Chip, chip
from torchair_autofuse.soc.override import read_costs, with_costs

SOCS = ("Ascend910B1", "Ascend910B4", "Ascend950PR_9599")
SIZE = st.integers(0, 1 << 32)
WORK = st.builds(Work, SIZE, SIZE, st.floats(0, 1e9), st.floats(0, 1e4), SIZE, st.floats(0, 1e6), st.integers(0, 64))


def target(soc: str = SOCS[0]) -> Chip:
    found = chip(soc)
    assert isinstance(found, Chip)
    return found


def kernel_ns(body: str, soc: str = SOCS[0], **sizes: int) -> int:
    return schedule_ns(scheduled(body, soc), sizes, target(soc))


def chain(rows: int | str, ops: int = 1, op: str = "add", dtype: str = "f32", cols: int = 1024) -> str:
    """``ops`` ops on x [rows, cols]."""
    binary = op in ("add", "mul", "div", "max")
    lines = [f"  v{k + 1}: {dtype} = {op}(v{k}{', v0' if binary else ''})\n" for k in range(ops)]
    where = " where s0 = x.0" if rows == "s0" else ""
    return (
        f"kernel k(in x: {dtype}[{rows}, {cols}], out y: {dtype}[{rows}, {cols}]){where}\n"
        f"nest n0 [a0: {rows}, a1: {cols}]\n  v0: {dtype} = load x[{cols}*a0 + a1]\n"
        f"{''.join(lines)}  store y[{cols}*a0 + a1] = v{ops}\n"
    )


SOFTMAX = """
kernel k(in x: f32[s0, {cols}], out y: f32[s0, {cols}]) where s0 = x.0
nest n0 [a0: s0, a1: {cols}]
  v0: f32 = load x[{cols}*a0 + a1]
  m, s: f32, f32 = reduce maxsumexp(v0) over (a1)
  v1: f32 = sub(v0, m)
  v2: f32 = exp(v1)
  v3: f32 = div(v2, s)
  store y[{cols}*a0 + a1] = v3
"""


@pytest.mark.parametrize("soc", SOCS)
@given(
    work=WORK, field=st.sampled_from([f.name for f in fields(Work) if f.name != "units"]), more=st.integers(1, 1 << 20)
)
def test_more_work_is_never_cheaper(soc: str, work: Work, field: str, more: int) -> None:
    grown = replace(work, **{field: getattr(work, field) + more})
    assert predicted_ns(target(soc), grown) >= predicted_ns(target(soc), work)


@given(work=WORK)
def test_a_kernel_costs_its_launch_and_an_integer(work: Work) -> None:
    ns = predicted_ns(target(), work)
    assert isinstance(ns, int) and ns >= 1000 * target().cost.launch_us


@pytest.mark.parametrize("soc", SOCS)
def test_schedules_grow_with_their_size(soc: str) -> None:
    sizes = [1 << k for k in range(0, 18, 2)]
    for body in (chain("s0", 3), chain("s0", 3, "exp"), SOFTMAX.format(cols=1000), chain("s0", 2, cols=7)):
        made = scheduled(body, soc)
        times = [schedule_ns(made, {"s0": n}, target(soc)) for n in sizes]
        assert all(late >= early - 20 for early, late in pairwise(times)), times  # a core more costs its head
        assert times[-1] > 1.7 * times[0]


@pytest.mark.parametrize("soc", SOCS)
def test_more_instructions_are_never_cheaper(soc: str) -> None:
    for op in ("add", "exp", "div"):
        times = [kernel_ns(chain(4096, n, op), soc) for n in (1, 2, 4, 8, 16)]
        assert times == sorted(times), (op, times)


def test_the_slowest_pipe_counts() -> None:
    """A large copy is bound by memory, so that an instruction more is hidden; an expensive one is not."""
    one, two = (kernel_ns(chain(1 << 16, n)) for n in (1, 2))
    assert two < 1.02 * one
    assert kernel_ns(chain(1 << 16, 8, "erf")) > 3 * one


def test_near_the_bandwidth_of_public_samples() -> None:
    """67 M elements of f16 added on 48 cores take 187 to 307 us in Ascend C's samples (402 MB)."""
    n = 8192 * 8192
    body = f"""
kernel k(in x: f16[{n}], in z: f16[{n}], out y: f16[{n}])
nest n0 [a0: {n}]
  v0: f16 = load x[a0]
  v1: f32 = cast(v0, rint)
  v2: f16 = load z[a0]
  v3: f32 = cast(v2, rint)
  v4: f32 = add(v1, v3)
  v5: f16 = cast(v4, rint)
  store y[a0] = v5
"""
    assert 180_000 < kernel_ns(body) < 330_000


def test_narrow_types_and_short_rows() -> None:
    assert kernel_ns(chain(1 << 14, dtype="i16", op="add")) < kernel_ns(chain(1 << 14, dtype="i32", op="add"))
    picked = "kernel k(in x: f32[8192, 64], out y: f32[8192, 4])\nnest n0 [a0: 8192, a1: 4]\n"
    picked += "  v0: f32 = load x[64*a0 + a1]\n  store y[4*a0 + a1] = v0\n"
    dense = "kernel k(in x: f32[32768], out y: f32[32768])\nnest n0 [a0: 32768]\n"
    dense += "  v0: f32 = load x[a0]\n  store y[a0] = v0\n"
    assert kernel_ns(picked) > 1.5 * kernel_ns(dense)


def test_every_pass_is_counted() -> None:
    """Rows that do not fit in UB are read twice; with L2 out of the way that costs a second load."""
    cold = replace(target(), l2_bytes=0)
    made = scheduled("""
kernel k(in x: f32[s0, 131072], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0, a1: 131072]
  v0: f32 = load x[131072*a0 + a1]
  t: f32 = reduce sum(v0) over (a1)
  v1: f32 = sub(v0, t)
  u: f32 = reduce max(v1) over (a1)
  store y[a0] = u
""")
    assert schedule_ns(made, {"s0": 64}, cold) > 1.2 * schedule_ns(made, {"s0": 64}, target())


def test_heads_grow_with_the_cores() -> None:
    costly = replace(target(), cost=replace(target().cost, load_head=(1575.0, 1000.0)))
    made = scheduled(chain("s0"))
    more = [schedule_ns(made, {"s0": n}, costly) - schedule_ns(made, {"s0": n}, target()) for n in (16, 512)]
    assert 0 < more[0] < more[1]


def test_kernels_of_several_parts_run_side_by_side() -> None:
    def parts(n: int) -> str:
        params = "".join(f"in x{k}: f32[65536], out y{k}: f32[65536], " for k in range(n))
        ins = ", ".join(p for p in params.split(", ") if p.startswith("in"))
        outs = ", ".join(p for p in params.split(", ") if p.startswith("out"))
        nests = "".join(
            f"nest n{k} [a0: 65536]\n  v0: f32 = load x{k}[a0]\n  v1: f32 = exp(v0)\n  store y{k}[a0] = v1\n"
            for k in range(n)
        )
        return f"kernel k({ins}, {outs})\n{nests}"

    one, four = kernel_ns(parts(1)), kernel_ns(parts(4))
    assert one < four < 4 * one


# ---- GE ops ---------------------------------------------------------------------------------------------------------


def costs_of(b: GraphBuilder, **hints: int) -> NodeCosts:
    return NodeCosts(graph_of(b), hints, target())


def test_ge_ops_cost_what_they_compute() -> None:
    b = GraphBuilder()
    x = b.data((4096, 4096))
    names = [b.op(kind, x).split(":")[0] for kind in ("Neg", "Tanh", "Erf")]
    b.output(*(f"{n}:0" for n in names))
    costs = costs_of(b)
    neg, tanh, erf = (costs.ns(costs.graph.by_name[n]) for n in names)
    assert neg is not None and tanh is not None and erf is not None
    assert neg <= tanh < erf and costs.total_ns([costs.graph.by_name[n] for n in names]) == neg + tanh + erf


def test_unknown_sizes_have_no_time() -> None:
    b = GraphBuilder()
    x = b.data((-1, 64))
    b.output(b.op("Neg", x))
    graph = graph_of(b, d0=("s0", 64))
    node = next(n for n in graph.nodes if n.type == "Neg")
    assert NodeCosts(graph, {}, target()).ns(node) is None
    assert NodeCosts(graph, {}, target()).total_ns([node]) is None
    assert NodeCosts(graph, {"s0": 8}, target()).ns(node) is not None


def test_a_lookup_of_short_rows_pays_for_its_blocks() -> None:
    times = []
    for width in (4, 128):
        b = GraphBuilder()
        table, index = b.data((1000, width)), b.data((8192 // width,), I32)
        b.output(b.op("GatherV2", table, index, b.const(0, I32), batch_dims=0))
        graph = graph_of(b)
        times.append(NodeCosts(graph, {}, target()).ns(next(n for n in graph.nodes if n.type == "GatherV2")))
    assert times[0] > times[1]


def test_the_report_has_both_times() -> None:
    b = GraphBuilder()
    b.output(b.op("Exp", b.op("Neg", b.data((64, 64)))))
    report = fuse(b.model, FusionContext(), ALL).report
    (op,) = report.fused
    assert op.predicted_us is not None and op.predicted_us_alone is not None
    assert report.predicted_us_after == op.predicted_us < op.predicted_us_alone == report.predicted_us_before
    assert f"{op.predicted_us_alone:.1f} us ->" in str(report) and "predicted, not measured" in str(report)


# ---- numbers of the user's own --------------------------------------------------------------------------------------


def test_every_number_has_a_place_in_the_documents() -> None:
    text = (Path(__file__).parents[2] / "docs" / "hardware-assumptions.md").read_text()
    for name in ("launch_us", "kernel_head", "load_rate", "store_rate", "short_*", "l2_rate", "sync", "vector"):
        assert f"`{name}`" in text


def test_a_cost_file(tmp_path: Path) -> None:
    path = tmp_path / "cost.toml"
    path.write_text('launch_us = 5\nvector.divide = [1, 2, 3]\n["Ascend910B3"]\nlaunch_us = 7\n[3510]\nload_copy = 9\n')
    options = read_options({"TORCHAIR_AUTOFUSE_COST": str(path), "AUTOFUSE_FLAGS": "--enable_autofuse=true"})
    assert not options.warnings and options.cost_file == str(path)
    assert options.digest() != options.replace(costs=()).digest() == Options(enabled=True).digest()
    assert read_options(options.to_environ()) == options
    assert with_costs(target(), options.costs).cost.launch_us == 5
    assert with_costs(target(), options.costs).cost.vector.divide == (1, 2, 3)
    assert with_costs(target("Ascend910B3"), options.costs).cost.launch_us == 7
    assert with_costs(target("Ascend950PR_9599"), options.costs).cost.load_copy == 9
    assert with_costs(target(), ()) is target()
    b = GraphBuilder()
    b.output(b.op("Exp", b.op("Neg", b.data((64, 64)))))
    own, plain = (fuse(b.model, FusionContext(), ALL.replace(costs=c)).report for c in (options.costs, ()))
    assert own.predicted_us_after == pytest.approx((plain.predicted_us_after or 0) + 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lunch_us = 3", "unknown number 'lunch_us' is ignored (did you mean 'launch_us'?)"),
        ("launch_us = -1", "'launch_us': expected a number from 0 to 1e+09, got '-1'"),
        ("launch_us = true", "expected a number"),
        ("load_rate = 10.2", "'load_rate': expected 2 numbers from 1e-06 to 1e+09, got '10.2'"),
        ("store_rate = [0, 1]", "'store_rate': expected 2 numbers from 1e-06"),
        ("launch_us = nan", "'launch_us': expected a number"),
        ("launch_us = 1e308", "'launch_us': expected a number from 0 to 1e+09"),
        (f"launch_us = {'9' * 400}", "'launch_us': expected a number from 0 to 1e+09"),
        (f"launch_us = 0x{'f' * 6000}", "an integer that is too large"),
        ("l2_rate = 5e-324", "'l2_rate': expected a number from 1e-06"),
        (f"launch_us = {'[' * 100000}", "cannot be read"),
        ("vector.divide = [1, 2]", "'vector.divide': expected 3 numbers"),
        ("vector.div = [1, 2, 3]", "unknown number 'vector.div' is ignored"),
        ("[Ascend910B9]\nlaunch_us = 3", "'Ascend910B9'] is no chip (did you mean"),
        ("[2201]\nlaunch = {}", "'2201.launch' is no table"),
        ("launch_us = = 3", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_cost_file(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "cost.toml"
    path.write_text(f"{text}\n")
    found = read_costs(str(path))
    assert not found.entries and [w.code for w in found.warnings] == ["AF108"]
    assert said in found.warnings[0].text and str(path) in found.warnings[0].text


def test_a_cost_file_that_is_none(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "none.toml", "does not exist"), (tmp_path, "is not a file")):
        assert said in read_costs(str(path)).warnings[0].text
