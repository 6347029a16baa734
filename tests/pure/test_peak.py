"""The peak of live bytes of a whole plan: ops that make too much at once are made smaller."""

from __future__ import annotations

import pytest
from ge_build import GraphBuilder
from plan_build import barrier, graph_of, priced

from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.messages import Reason
from torchair_autofuse.plan import memory
from torchair_autofuse.plan.alias import Writes
from torchair_autofuse.plan.contraction import of_groups
from torchair_autofuse.plan.group import Group
from torchair_autofuse.plan.memory import FLOOR, SHARE, at_peaks, peak_bytes
from torchair_autofuse.plan.peak import keep_peak
from torchair_autofuse.plan.plan import Plan


def fan(width: int, side: int) -> Graph:
    """``width`` results of one value, each used up by a matmul before the next one is made."""
    b = GraphBuilder()
    a = b.op("Abs", b.data((side, side)), name="a")
    acc = b.data((side, side))
    for i in range(width):
        acc = b.op("MatMulV2", acc, b.op("Muls", a, value=float(i + 2), name=f"m{i}"), name=f"acc{i}")
    b.output(acc)
    return graph_of(b)


def peaks(graph: Graph, made: Plan) -> tuple[int, int]:
    return tuple(  # type: ignore[return-value]
        peak_bytes(graph, of_groups(graph, groups, Writes()), {}) for groups in ([], made.groups)
    )


def test_an_op_that_makes_too_much_at_once_is_made_smaller() -> None:
    graph = fan(8, 1024)
    made, _ = priced(graph)
    before, after = peaks(graph, made)
    assert before < after <= before + max(before * SHARE // 100, FLOOR) or after <= before
    reasons = [r.reason for r in made.refusals if r.code == "AF224"]
    assert reasons and all(f"bytes instead of {before}, more than" in r for r in reasons)
    assert not any(len(g.nodes) > 5 for g in made.groups)


def test_what_is_little_may_be_made_at_once() -> None:
    made, _ = priced(fan(8, 64))
    assert [len(g.nodes) for g in made.groups] == [9]


@pytest.mark.parametrize("width", [2, 5, 8])
def test_the_share_holds_for_small_tensors_too(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FLOOR", 0)
    before, after = peaks(graph := fan(width, 16), priced(graph)[0])
    assert after <= before * (100 + SHARE) // 100


def test_what_lives_at_the_peak() -> None:
    graph = fan(2, 16)
    blocks = of_groups(graph, [], Writes())
    peak = peak_bytes(graph, blocks, {})
    (there,) = at_peaks(graph, blocks, {}, peak - 1)
    assert sum(there.values()) == peak and "a" in there
    assert at_peaks(graph, blocks, {}, peak) == []


def test_what_readers_compute_again_is_not_in_memory_but_what_they_read_for_it_is() -> None:
    b = GraphBuilder()
    big = barrier(b, b.data((256,)))  # 1024 bytes
    n = b.op("ReduceSum", big, b.const([0]), keep_dims=True, name="n")
    p = b.op("Add", n, b.data((256,)), name="p")
    late = barrier(b, barrier(b, p))
    b.output(b.op("Abs", b.op("Add", n, late, name="s"), name="t"))
    graph = graph_of(b)
    nodes = graph.by_name
    apart = [Group((nodes["n"], nodes["p"])), Group((nodes["s"], nodes["t"]))]
    # n is stored: it, p and what comes next; big is gone by then
    assert peak_bytes(graph, of_groups(graph, apart, Writes()), {}) == 2 * 1024 + 4
    again = [apart[0], Group((nodes["n"], nodes["s"], nodes["t"]), copies=frozenset(["n"]))]
    blocks = of_groups(graph, again, Writes())
    assert peak_bytes(graph, blocks, {}) == 3 * 1024
    assert set(at_peaks(graph, blocks, {}, 3 * 1024 - 1)[0]) == {big.split(":")[0], "p", late_source(graph, "p")}


def test_a_value_that_is_computed_again_in_one_reader_and_read_by_another_stays() -> None:
    """n is a copy in one op; what stays of the other one, which leads to the first, reads n from memory."""
    b = GraphBuilder()
    n = b.op("Neg", b.data((256,)), name="n")
    r = b.op("Exp", n, name="r")
    s = b.op("Add", n, barrier(b, r), name="s")
    b.output(b.op("Abs", s, name="t"))
    graph = graph_of(b)
    group = Group(tuple(graph.by_name[name] for name in "nst"), copies=frozenset("n"))
    blocks = of_groups(graph, [group], Writes())
    assert blocks.of["n"].nodes == [graph.by_name["n"]]
    assert [[n.name for n in b.nodes] for b in sorted(blocks, key=lambda b: b.rank)][:2] == [["n"], ["r"]]
    assert peak_bytes(graph, blocks, {}) == 2 * 1024  # n is gone once r has run


def late_source(graph: Graph, name: str) -> str:
    (reader,) = (c for ref in graph.by_name[name].outputs for c, _ in graph.consumers[ref])
    return reader.name


def layers(count: int, side: int = 1024) -> Graph:
    """In each layer one op that makes too much at once, and a harmless one whose result lives meanwhile."""
    b = GraphBuilder()
    x = b.data((side, side))
    for k in range(count):
        calm = b.op("Exp", b.op("Neg", b.op("MatMulV2", x, x), name=f"neg{k}"), name=f"exp{k}")
        y = b.op("MatMulV2", calm, x)
        x = b.op("MatMulV2", y, y)
        for i in range(6):
            x = b.op("MatMulV2", x, b.op("Muls", y, value=float(i + 2), name=f"m{k}_{i}"))
        x = b.op("MatMulV2", x, calm)
    b.output(x)
    return graph_of(b)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_layers_lose_the_op_that_is_to_blame_alone(count: int) -> None:
    graph = layers(count)
    made, _ = priced(graph)
    found = [[n.name for n in g.nodes] for g in made.groups]
    assert [names for names in found if names[0].startswith("neg")] == [[f"neg{k}", f"exp{k}"] for k in range(count)]
    assert len(found) % count == 0 and len({len(g) for g in found}) <= 2
    before, after = peaks(graph, made)
    assert after <= before + max(before * SHARE // 100, FLOOR)


def test_halves_that_are_no_ops_are_not_made() -> None:
    graph = fan(8, 1024)
    whole = Group(tuple(n for n in graph.nodes if n.type in ("Abs", "Muls")))

    def fits(group: Group) -> Reason | None:
        return None if group == whole else Reason("AF210", "not by itself")

    made, undone = keep_peak(graph, [whole], Writes(), {}, fits)
    assert made == [] and [(node.name, reason.code) for node, reason in undone] == [("a", "AF224")]
