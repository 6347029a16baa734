"""The pure functions of the HTML report, run in V8: layout, search, numbers. Drawing is checked by .ci/browser."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from py_mini_racer import MiniRacer

from torchair_autofuse.report import html
from torchair_autofuse.report.text import human_bytes, human_us

Call = Callable[..., Any]
WIDTH, SPACE, ROW = 150, 166, 68  # of a node, from node to node, from rank to rank


@pytest.fixture(scope="module")
def call() -> Call:
    engine = MiniRacer()
    for name in ("layout.js", "search.js"):
        engine.eval((html.PAGE / name).read_text(encoding="utf-8"))

    def run(function: str, *arguments: Any) -> Any:
        given = ",".join(json.dumps(a) for a in arguments)
        return json.loads(engine.eval(f"JSON.stringify({function}({given}))"))

    return run


def test_every_script_is_one() -> None:
    engine = MiniRacer()
    for name in html.SCRIPTS:
        text = (html.PAGE / name).read_text(encoding="utf-8")
        engine.eval(f"new Function({json.dumps(text)}); 1")
        assert len(text.splitlines()) < 400
    assert {p.name for p in html.PAGE.glob("*.js")} == set(html.SCRIPTS)


# ---- layout -------------------------------------------------------------------------------------------------------


def random_graph(count: int, seed: int) -> list[list[int]]:
    pick = random.Random(seed)
    return [
        sorted({pick.randrange(max(0, i - 12), i) for _ in range(pick.randrange(3))}) if i else [] for i in range(count)
    ]


GRAPHS = {
    "nothing": [],
    "one": [[]],
    "chain": [[], [0], [1], [2]],
    "diamond": [[], [0], [0], [1, 2]],
    "fan": [[], *([0] for _ in range(40)), list(range(1, 41))],
    "unconnected": [[] for _ in range(9)],
    **{f"random {n}": random_graph(n, n) for n in (7, 60, 500, 3000)},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_layout(call: Call, name: str) -> None:
    """Edges lead down, nodes of a rank lie apart, everything is inside, and the same graph is laid out the same."""
    sources = GRAPHS[name]
    made = call("layered", sources)
    x, y, rank, rows = made["x"], made["y"], made["rank"], made["rows"]
    assert sorted(i for row in rows for i in row) == list(range(len(sources)))
    for i, before in enumerate(sources):
        assert y[i] == ROW * rank[i] and all(rank[j] < rank[i] for j in before)
        assert 0 <= x[i] <= made["width"] - WIDTH and 0 <= y[i] <= made["height"] - ROW // 2
    for k, row in enumerate(rows):
        assert all(rank[i] == k for i in row)
        assert all(x[b] - x[a] >= SPACE - 1 for a, b in itertools.pairwise(row)), "rounded to whole pixels"
    assert call("layered", sources) == made


def test_a_chain_is_straight_and_a_diamond_even(call: Call) -> None:
    assert len(set(call("layered", GRAPHS["chain"])["x"])) == 1
    x = call("layered", GRAPHS["diamond"])["x"]
    assert x[0] == x[3] == (x[1] + x[2]) / 2


def test_weights_stand_above_their_reader(call: Call) -> None:
    sources = [[], [0], [1], [2], [], [4], [3, 5]]  # 4 is a weight, 5 a view of it
    assert call("ranks", sources) == [0, 1, 2, 3, 2, 3, 4]


@pytest.mark.parametrize("wanted", [[0.0, 500.0, 1000.0], [0.0, 0.0, 0.0], [-10.0, 0.0, 5.0, 400.0], [3.5]])
def test_spread(call: Call, wanted: list[float]) -> None:
    """At least so far apart, in order, and no single shift of a group of neighbours brings them nearer to where they
    want to be."""
    found = call("spread", wanted, 100)
    assert all(b - a >= 100 - 1e-9 for a, b in itertools.pairwise(found))

    def cost(at: list[float]) -> float:
        return sum((a - w) ** 2 for a, w in zip(at, wanted))

    for start in range(len(found)):
        for end in range(start + 1, len(found) + 1):
            for step in (-1.0, 1.0):
                moved = [a + step if start <= i < end else a for i, a in enumerate(found)]
                if all(b - a >= 100 - 1e-9 for a, b in itertools.pairwise(moved)):
                    assert cost(moved) >= cost(found)


def test_hidden_nodes_take_their_edges_along(call: Call) -> None:
    nodes = [
        {"k": "const", "i": []},
        {"k": "data", "i": []},
        {"k": "kernel", "i": [[0, 0], [1, 0], [1, 0], None], "w": [1]},
    ]
    found = call("((nodes) => without(nodes, (n) => n.k === 'const'))", nodes)
    assert found == {"keep": [1, 2], "sources": [[], [0]]}


# ---- search -------------------------------------------------------------------------------------------------------

GRAPH = {
    "fused": [
        {
            "op_type": "AutofuseReduceK01",
            "template": "row_resident",
            "nodes": ["Add_1", "Soft"],
            "node_types": ["Add", "SoftmaxV2"],
            "patterns": [],
        },
        {
            "op_type": "AutofusePointwiseK02",
            "template": "pointwise",
            "nodes": ["Mul_3"],
            "node_types": ["Mul"],
            "patterns": ["split-swiglu"],
        },
    ],
    "refused": [
        {"node": "MatMul_2", "other": "", "code": "AF201", "reason": "MatMul has no lowering"},
        {"node": "Add_1", "other": "Mul_3", "code": "AF206", "reason": "a path between"},
    ],
    "pictures": {
        "before": [
            {"n": n, "t": t}
            for n, t in (("Add_1", "Add"), ("Soft", "SoftmaxV2"), ("MatMul_2", "MatMul"), ("Mul_3", "Mul"))
        ],
        "after": [{"n": "AutofuseReduceK01_0", "t": "AutofuseReduceK01", "op": 0}, {"n": "MatMul_2", "t": "MatMul"}],
    },
}
CODES = {"AF201": "op type not fusible", "AF206": "merge would close a cycle"}


@pytest.mark.parametrize("query, before, after, ops, refused", [
    ("softmax", [1], [], [0], []),          # a type
    ("ADD_1", [0], [0], [0], [1]),          # a name, in any case; the fused op that holds it
    ("autofusereduce", [0, 1], [0], [0], []),
    ("swiglu", [3], [], [1], []),           # a named pattern
    ("af206", [0, 3], [], [], [1]),         # a code: its nodes
    ("close a cycle", [0, 3], [], [], [1]),  # and the title of a code
    ("matmul no", [2], [1], [], [0]),
    ("add softmax", [], [], [0], []),       # every word has to match
    ("row_resident  ", [0, 1], [0], [0], []),
    ("nothing like it", [], [], [], []),
])  # fmt: skip
def test_search(
    call: Call, query: str, before: list[int], after: list[int], ops: list[int], refused: list[int]
) -> None:
    text = """((graph, codes, query) => {
        const found = matching(searchIndex(graph, codes), query);
        return Object.fromEntries(Object.entries(found).map(([kind, set]) => [kind, [...set]]));
    })"""
    assert call(text, GRAPH, CODES, query) == {"before": before, "after": after, "ops": ops, "refused": refused}


def test_no_query_shows_all(call: Call) -> None:
    assert call("((g, c) => matching(searchIndex(g, c), '  '))", GRAPH, CODES) is None


def test_a_report_without_pictures_is_searched_too(call: Call) -> None:
    bare = {**GRAPH, "pictures": None}
    text = "((g, c) => [...matching(searchIndex(g, c), 'mul').ops])"
    assert call(text, bare, CODES) == [1]


def test_what_is_said_of_a_search(call: Call) -> None:
    text = "((n, o, r) => matchText({before: new Set(n), ops: new Set(o), refused: new Set(r)}, true))"
    assert call(text, [1], [], [1, 2]) == "1 node, 0 fused ops, 2 refusals found"


def test_refusals_by_code(call: Call) -> None:
    refused = [{"code": c} for c in ("AF216", "AF201", "AF216")]
    assert call("byCode", refused, None) == [["AF201", [1]], ["AF216", [0, 2]]]
    assert call("((r) => byCode(r, new Set([2])))", refused) == [["AF216", [2]]]


# ---- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [None, 0, 1023, 1024, 1536, 5 * 2**20, 5 * 2**30, 3 * 2**50])
def test_bytes_read_as_in_the_text(call: Call, count: int | None) -> None:
    assert call("humanBytes", count) == human_bytes(count)


@pytest.mark.parametrize("us", [None, 0.04, 12.34, 999.9, 1500.0])
def test_times_read_as_in_the_text(call: Call, us: float | None) -> None:
    assert call("humanUs", us) == human_us(us)


def test_changes(call: Call) -> None:
    assert [call("change", a, b) for a, b in ((4, 1), (4, 5), (0, 1), (None, 1), (2, 2))] == [
        "\u221275.0 %", "+25.0 %", "", "", "+0.0 %",
    ]  # fmt: skip


def test_position_under_the_roof(call: Call) -> None:
    """6000 bytes read at 1000 per us take 6 us, 4000 written at 500 take 8: the busier direction counts."""
    machine = {"read_rate": 1000.0, "write_rate": 500.0, "vector_rate": 2000.0}
    picture = {"read_bytes": 6000, "written_bytes": 4000, "vector_elements": 4000}
    at = call("position", {"predicted_us": 16.0}, picture, machine)
    assert at == {"intensity": 0.5, "rate": 250, "memory": 0.5, "vector": 0.125, "bytes": 8000}
    for op, known in (({"predicted_us": None}, picture), ({"predicted_us": 1.0}, {**picture, "read_bytes": None})):
        assert call("position", op, known, machine) is None
