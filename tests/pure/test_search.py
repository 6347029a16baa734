"""bisect's search, and its tries of scripts that only pretend to compile something."""

from __future__ import annotations

import argparse
import json
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from torchair_autofuse.cli import main
from torchair_autofuse.trust.attempt import Plan
from torchair_autofuse.trust.bisect_command import _seconds
from torchair_autofuse.trust.search import Attempt, BisectResult, MadeOp, search
from torchair_autofuse.trust.tries import Tries

OPS = tuple(MadeOp("graph_1", f"AutofuseK{i}", (f"Add_{i}",)) for i in range(100))


def model(bad: Callable[[int], bool], total: int = 100) -> tuple[Callable[[int | None], Attempt], list[int | None]]:
    """A model with ``total`` fused ops that is wrong when ``bad(allowed)``, and the fuel of every try of it."""
    tried: list[int | None] = []

    def attempt(fuel: int | None) -> Attempt:
        tried.append(fuel)
        made = OPS[: total if fuel is None else min(fuel, total)]
        wrong = bad(len(made))
        return Attempt(fuel, not wrong, "values differ" if wrong else "", made)

    return attempt, tried


@pytest.mark.parametrize("total", [1, 2, 3, 7, 100])
def test_every_op_is_found(total: int) -> None:
    for culprit in range(total):
        attempt, tried = model(lambda n, culprit=culprit: n > culprit, total)
        result = search(attempt)
        assert (result.outcome, result.op, result.fuel) == ("found", OPS[culprit], culprit + 1)
        assert len(tried) <= 3 + 7 + 2
        assert result.why == "values differ" and OPS[culprit].nodes[0] in str(result)


def test_nothing_wrong() -> None:
    attempt, tried = model(lambda n: False)
    assert search(attempt).outcome == "good" and tried == [0, None, None]
    assert "Nothing is wrong" in str(search(attempt))


def test_wrong_without_fusion() -> None:
    attempt, tried = model(lambda n: True)
    result = search(attempt)
    assert result.outcome == "not fusion" and result.op is None and tried == [0, 0]
    assert "Fusion is not the cause" in str(result)


def test_no_fused_op_at_all() -> None:
    attempt, _ = model(lambda n: False, total=0)
    assert search(attempt).outcome == "good"


def test_wrong_with_fusion_on_but_no_fused_op() -> None:
    def attempt(fuel: int | None) -> Attempt:
        return Attempt(fuel, fuel == 0, "" if fuel == 0 else "it fails")

    result = search(attempt)
    assert result.outcome == "flaky" and "no fused op is made" in str(result)


@pytest.mark.parametrize("flips", [None, 0, 50, 49])
def test_flaky(flips: int | None) -> None:
    """Wrong from 50 ops on, but with ``flips`` ops allowed, every other try says the opposite."""
    seen: list[int] = []

    def attempt(fuel: int | None) -> Attempt:
        made = OPS if fuel is None else OPS[:fuel]
        wrong = len(made) >= 50
        if fuel == flips:
            seen.append(len(made))
            wrong ^= len(seen) % 2 == (1 if flips == 0 else 0)
        return Attempt(fuel, not wrong, "differs" if wrong else "", made)

    result = search(attempt)
    assert result.outcome == "flaky" and "right once and wrong once" in str(result)


def test_an_op_that_changes_others() -> None:
    """With one op less another one may compute more itself: it is new, but not what is looked for."""
    other = MadeOp("graph_1", "AutofuseOther", ("Add_0", "Add_9"))

    def attempt(fuel: int | None) -> Attempt:
        made = OPS[:9] if fuel is None or fuel >= 9 else OPS[:fuel]
        if len(made) == 5:
            made = (other, *made[1:])
        return Attempt(fuel, len(made) < 6, "differs" * (len(made) >= 6), made)

    assert search(attempt).op == OPS[5]


def test_random_failures_end() -> None:
    chance = random.Random(0)
    for _ in range(200):
        attempt, tried = model(lambda n: chance.random() < 0.5, 16)
        assert search(attempt).outcome in ("found", "good", "not fusion", "flaky") and len(tried) < 20


def test_result_as_data() -> None:
    attempt, _ = model(lambda n: n > 3, 6)
    data = json.loads(json.dumps(search(attempt).to_dict()))
    assert data["op"]["op_type"] == "AutofuseK3" and data["outcome"] == "found"
    assert isinstance(search(attempt), BisectResult)


# ---- tries of scripts ---------------------------------------------------------------------------------------------

PRETEND = """
import os, signal, sys, time
from types import SimpleNamespace as Some
from torchair_autofuse.plugin import state

def compiled(graph, *ops):
    "Says that a graph was fused, as the plugin does."
    limit = state.active_options().max_fusions
    made = ops[:limit]
    nodes = [Some(op_type=f"Autofuse{o}", lowered=Some(nodes=[Some(name=o)])) for o in made]
    state.notify(Some(report=Some(graph_name=graph), generated=nodes))
    return made

made = compiled("graph_1", "a", "b") + compiled("graph_2", "c", "d")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(PRETEND + text)
        return path

    return write


@pytest.mark.parametrize(
    "text, why", [("sys.exit(3 if 'c' in made else 0)", "exit status 3"), ("while 'c' in made: pass", "it hangs")],
    ids=["exit", "hang"],
)  # fmt: skip
def test_the_command(script: Callable[[str], Path], text: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(text)
    timeout = ["--timeout", "4"] if "hangs" in why else []
    assert main(["bisect", "--expect-exit", "--repeats", "1", *timeout, str(path)]) == 1
    out = capsys.readouterr().out
    assert "op: Autofusec" in out and "graph: graph_2" in out and why in out
    found = json.loads(Path("autofuse_bisect/bisect.json").read_text())
    assert found["fuel"] == 3 and found["op"]["nodes"] == ["c"]
    assert main(["bisect", str(path)]) == 2
    assert "is not empty" in capsys.readouterr().err


def tries(script: Path, by: str = "exit", check: str = "", status: int = 0) -> Tries:
    folder = script.parent / "tries"
    folder.mkdir(exist_ok=True)
    return Tries(Plan(str(script), ("x",), "", by=by, check=check, status=status), folder)


@pytest.mark.parametrize(
    "text, why",
    [
        ("raise KeyError('c')", "exit status 1"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process was ended by signal SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 6)", f"ended by signal {signal.SIGRTMIN + 6}"),
        ("os._exit(7)", "the process ended before the script did, exit status 7"),
        ("os._exit(0)", ""),
    ],
)
def test_ways_to_end(script: Callable[[str], Path], text: str, why: str) -> None:
    made = tries(script(text))(3)
    assert (made.good, len(made.ops)) == (not why, 3)
    assert made.why.endswith(why) if why else not made.why
    assert "KeyError" not in text or "KeyError: 'c'" in Path(made.log).read_text()


def test_an_expression_decides(script: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = script("answer = len(made)\nsys.exit(0 if sys.argv[1:] == ['x'] else 9)")
    assert main(["bisect", "--check", "answer < 2", "--repeats", "1", str(path), "x"]) == 1
    assert "op: Autofuseb" in capsys.readouterr().out
    made = tries(path, "check", "answer < wrong")(0)
    assert not made.good and "the check fails: NameError" in made.why


def test_what_counts_as_flaky(script: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = script(
        "from pathlib import Path\n"
        "n = Path('n'); count = len(n.read_text()) if n.exists() else 0; n.write_text('x' * (count + 1))\n"
        "sys.exit(count == 1)"
    )
    assert main(["bisect", "--expect-exit", str(path)]) == 4
    assert "It is flaky" in capsys.readouterr().out


def test_another_status_may_be_right(script: Callable[[str], Path]) -> None:
    attempt = tries(script("sys.exit(5 if len(made) < 2 else 0)"), status=5)
    assert attempt(1).good and not attempt(2).good
    assert len(attempt(None).ops) == 4


def test_bad_arguments(script: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = script("")
    assert main(["bisect", "none.py"]) == 2
    assert main(["bisect", "--repeats", "0", str(path)]) == 2
    assert "no such script" in capsys.readouterr().err
    for check in ("x ==", ""):
        assert main(["bisect", "--check", check, str(path)]) == 2
        assert "--check is no expression" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["bisect", "--check", "x", "--expect-exit", str(path)])
    for text in ("0", "-1", "soon", "nan"):
        with pytest.raises(argparse.ArgumentTypeError):
            _seconds(text)
