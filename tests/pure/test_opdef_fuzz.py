"""Damaged definitions: each is refused with an error that names what is wrong, or is a good one. None hangs."""

from __future__ import annotations

import random
import signal
from contextlib import contextmanager

import pytest
from definition_mutations import STRINGS, damage_message, damage_text, damaged_bytes
from definition_samples import KERNELS

from torchair_autofuse import opdef
from torchair_autofuse.loop import expr
from torchair_autofuse.opdef.schema import message_class
from torchair_autofuse.opdef.store import to_bytes
from torchair_autofuse.soc.chip import chip

SECONDS = 20  # for one definition, on a busy machine; most take milliseconds
ROUNDS = 1200  # of each kind of damage


@contextmanager
def time_limit():
    def stop(*_):
        raise TimeoutError(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def samples(make_op):
    return [to_bytes(opdef.build(make_op(text), chip(), {"s0": 24})) for text in KERNELS.values()]


def outcome(op):
    """The field that a definition is refused for, "" for a good one; anything but an OpDefError is raised."""
    try:
        with time_limit():
            opdef.validate(op)
        return ""
    except opdef.OpDefError as error:
        assert error.field and error.problem and len(str(error)) < 40_000
        return error.field


def fresh(data):
    op = message_class()()
    op.ParseFromString(data)
    return op


@pytest.mark.parametrize("damage", [damage_message, damage_text])
def test_damaged_messages(samples, damage):
    rng = random.Random(damage.__name__)
    found = []
    for _ in range(ROUNDS):
        op = fresh(rng.choice(samples))
        damage(rng, op)
        found.append(outcome(op).split("[")[0].split(".")[0])
        if not found[-1] and rng.random() < 0.1:
            comes_back_or_says_why(op)
    seen = {field: found.count(field) for field in found}
    assert seen[""] < ROUNDS / 3  # most of it is noticed
    assert {"body", "input", "output", "schedule"} <= set(seen)


def comes_back_or_says_why(op):
    try:
        with time_limit():
            opdef.regenerate(op)
    except opdef.OpDefError as error:
        assert error.field


def test_damaged_files(samples, tmp_path):
    rng = random.Random(5)
    undecoded = refused = good = 0
    path = tmp_path / "x.afop.pb"
    for _ in range(ROUNDS):
        path.write_bytes(damaged_bytes(rng, rng.choice(samples)))
        try:
            op = opdef.load(path)
        except opdef.OpDefError as error:
            assert "not a FusedOpDef" in str(error)
            undecoded += 1
            continue
        if outcome(op):
            refused += 1
        else:
            good += 1
    assert undecoded > ROUNDS / 4 and refused > 50 and good < ROUNDS / 4


@pytest.mark.parametrize("text", [t for t in STRINGS if t != "s0"], ids=range(len(STRINGS) - 1))
def test_hostile_texts(samples, text):
    def size(op):
        op.input[0].dim[0] = text

    def axis(op):
        op.body[1] = f"nest n0 [a0: {text}, a1: 64]"

    def step(op):
        op.schedule[0].step[0].value = text

    def node(op):
        op.provenance.node[0].name = text

    # the first step is a size of the kernel: another one may be possible as far as can be seen without regenerating
    expected = {size: ("input[0].dim", "input[0].dim[0]"), axis: ("body", "body[1]"), step: (), node: ()}
    for change, fields in expected.items():
        op = fresh(samples[0])
        change(op)
        field = outcome(op)
        assert field in fields if fields else field.startswith(("schedule[0].", "provenance.node[0]")) or not field


@pytest.mark.parametrize(
    "text",
    [
        "*".join(f"(s{i} + {i + 1})" for i in range(30)), "s0**33", "s0**9**9", "9" * 25, "(s0 + 1)*" * 40 + "s0",
        "floor(s0/2) + " * 30 + "1", "1if s0", "0x10", "2*s0" * 2000, "(" * 300 + "s0" + ")" * 300,
    ],
)  # fmt: skip
def test_sizes_that_would_take_long_are_not_read(text):
    with time_limit(), pytest.raises(ValueError, match="not a size expression"):
        expr.parse(text)


def test_too_much_of_everything(samples):
    rows = [
        (lambda op: [op.symbol.add(name=f"s{i}") for i in range(65)], "symbol"),
        (lambda op: op.body.extend(["x"] * 5000), "body"),
        (lambda op: op.input[0].dim.extend(["1"] * 20), "input[0].dim"),
        (lambda op: op.schedule[0].step.extend([op.schedule[0].step[0]] * 5000), "schedule[0].step"),
        (lambda op: setattr(op, "op_type", "A" * 10**7), "op_type"),
        (lambda op: op.provenance.node.add(name="x" * 5000), "provenance.node[2]"),
        (lambda op: op.provenance.subgraph.extend(["x" * 10**6] * 70), "size"),
    ]
    for change, field in rows:
        op = fresh(samples[1])
        change(op)
        assert outcome(op).startswith(field), field


def test_steps_that_leave_int64_are_found_however_they_grow(samples):
    op = fresh(samples[0])
    steps = op.schedule[0].step
    steps.add(name="g0", value="(core_num * core_num)")
    for i in range(60):
        steps.add(name=f"g{i + 1}", value=f"(g{i} * g{i})")
    assert outcome(op) == f"schedule[0].step[{len(steps) - 58}].value"
