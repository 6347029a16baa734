"""The CANN-free half of the JIT runtime against the Python that it mirrors, under the address sanitizer."""

from __future__ import annotations

import random
import re
import subprocess

import pytest
from test_split import ALL, SOFTMAX

from torchair_autofuse import dtypes, opdef
from torchair_autofuse.codegen.templates import resource
from torchair_autofuse.loop import expr
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.store import to_bytes
from torchair_autofuse.schedule import tiling
from torchair_autofuse.schedule.tiling import Let, Op, Var
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.toolchain import find_compiler

SOC = "Ascend910B1"
INT64 = 2**63
MIXED = """\
kernel k(in in0: f32[s0, 2*s1], in in1: bf16[], out out0: f32[s0, 2*s1]) where s0 = in0.0, s1 = in0.1 / 2
nest n0 [a0: s0, a1: 2*s1]
  v0: f32 = load in0[2*s1*a0 + a1]
  v1: bf16 = load in1[0]
  v2: f32 = cast(v1, rint)
  v3: f32 = mul(v0, v2)
  store out0[2*s1*a0 + a1] = v3
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """``core(lines) -> answers``; a sanitizer's finding fails the test."""
    out = tmp_path_factory.mktemp("core") / "core"
    runtime = resource("op_templates") / "runtime"
    sources = [runtime / f"{name}.cpp" for name in ("definition", "expression", "plan", "wire")]
    flags = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{runtime}"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    parts = [out.with_suffix(f".{i}.o") for i in range(5)]
    jobs = [
        subprocess.Popen([find_compiler().compiler, *flags, "-c", str(s), "-o", str(p)])
        for s, p in zip([*sources, resource("op_templates").parent / "tests/twin/jit_core.cpp"], parts)
    ]
    assert [job.wait() for job in jobs] == [0] * 5
    subprocess.run([find_compiler().compiler, *flags, *map(str, parts), "-o", str(out)], check=True)

    def ask(lines):
        done = subprocess.run([str(out)], input="\n".join(lines) + "\n", capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        answers = done.stdout.splitlines()
        assert len(answers) == len(lines)
        return answers

    return ask


def random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([Var(rng.choice(["s0", "s1", "core_num"])), rng.choice([0, 1, 2, 7, 32, 4095, 2**31, 2**40])])
    kind = rng.choice(
        ["add", "sub", "mul", "floordiv", "ceildiv", "mod", "min", "max", "roundup", "rounddown", "select", "flooring"]
    )
    return Op(kind, tuple(random_tree(rng, depth - 1) for _ in range(3 if kind == "select" else 2)))


def outcome(tree, values):
    """The value in 64 bits, None where the runtime has to refuse."""
    parts = []

    def visit(t):
        if isinstance(t, Op):
            for a in t.args:
                visit(a)
        parts.append(t)

    visit(tree)
    try:
        found = [tiling.evaluate([Let("v", t)], values)["v"] for t in parts]
    except ZeroDivisionError:
        return None
    return found[-1] if all(-INT64 <= v < INT64 for v in found) else None


def test_tiling_expressions(core):
    rng = random.Random(7)
    lines, expected = [], []
    for _ in range(4000):
        tree = random_tree(rng, rng.randint(0, 4))
        values = {n: rng.choice([0, 1, 3, 8, 17, 100, 4097, 2**33]) for n in ("s0", "s1", "core_num")}
        text = rng.choice([tiling.to_cpp, tiling.to_text])(tree)
        lines.append(f"t|{','.join(f'{n}={v}' for n, v in values.items())}|{text}")
        expected.append(outcome(tree, values))
    answers = core(lines)
    assert sum(e is not None for e in expected) > 2500
    assert sum(e is None for e in expected) > 100
    for line, answer, value in zip(lines, answers, expected):
        if value is not None:
            assert answer == str(value), line
        else:  # roundup and mod may pass through numbers that Python's formula has not
            assert answer.startswith("error") or "Round" in line or "%" in line, (line, answer)


def test_size_expressions(core):
    rng = random.Random(8)
    names = ["s0", "s1", "s2"]

    def size(depth):
        if depth == 0:
            return rng.choice([expr.symbol(rng.choice(names)), rng.randint(0, 9)])
        a, b, n = size(depth - 1), size(depth - 1), rng.randint(1, 9)
        return rng.choice([
            lambda: expr.add(a, b), lambda: expr.mul(a, b), lambda: expr.floordiv(a, n), lambda: expr.ceildiv(a, n),
            lambda: expr.mod(a, n), lambda: expr.add(a, expr.mul(-1, b)),
            lambda: expr.parse(f"Min({expr.to_str(a)}, {expr.to_str(b)}, {n})"),
            lambda: expr.parse(f"Max({expr.to_str(a)}, {n})"),
        ])()  # fmt: skip

    lines, expected = [], []
    for _ in range(400):
        made = size(rng.randint(0, 3))
        values = {n: rng.choice([0, 1, 2, 5, 17, 1000]) for n in names}
        lines.append(f"s|{','.join(f'{n}={v}' for n, v in values.items())}|{expr.to_str(made)}")
        expected.append(str(expr.evaluate(made, values)))
    assert core(lines) == expected
    assert sum("/" in line for line in lines) > 40 and any("**" in line for line in lines)


OTHER = (
    "", "(", "s0 +", "s0 s1", "q", "Foo(1, 2)", "1.5", "9" * 20, "1x", "é", "(" * 400 + "s0" + ")" * 400, "x" * 20000,
    "s0 // 2", "Min(", "Mod(s0)", ")",
)  # fmt: skip
OTHER_TILING = ("(s0 > 1 ? 2 : 3)", "s0 * s1 * s0", "Min(s0)")
OTHER_SIZES = ("s0**17", "s0**s1", "s0/2", "Min()", "s0/0")


@pytest.mark.parametrize(("kind", "texts"), [("t", OTHER + OTHER_TILING), ("s", OTHER + OTHER_SIZES)])
def test_other_texts_are_refused(core, kind, texts):
    answers = core([f"{kind}|s0=3,s1=4|{text}" for text in texts])
    assert [a for a in answers if not a.startswith("error: ")] == []


@pytest.fixture(scope="module")
def ops(make_op):
    made = []
    for text in (SOFTMAX, ALL, MIXED):
        op = make_op(text.replace("autofuse_", ""))
        made.append(opdef.build(op, chip(SOC)))
    return made


def test_launches(core, ops):
    rng = random.Random(9)
    lines, expected = [], []
    for op in ops:
        made = Definition.of(op)
        for _ in range(150):
            symbols = {
                s.name: rng.choice([0, 1, 2, 3, 8, 33, 100, 1000, 4099, 70000, 10**6]) for s in made.kernel.symbols
            }
            shapes, launch = made.shapes(symbols), made.launch(symbols)
            outputs = [shapes[p.name] for p in made.kernel.outputs]
            words = [launch.tiling[i : i + 8] for i in range(0, len(launch.tiling), 8)]
            parts = [launch.block_dim, launch.tiling_key, launch.workspace_bytes]
            if all(0 in s for s in outputs):
                words, parts = [], [0, 0, 0]
            tiles = ",".join(str(int.from_bytes(w, "little", signed=True)) for w in words)
            inputs = ";".join(",".join(map(str, shapes[p.name])) for p in made.kernel.inputs)
            lines.append(f"l|{SOC}|{to_bytes(op).hex()}|{inputs}")
            texts = [made.entry, *map(str, parts), tiles, *(",".join(map(str, s)) for s in outputs)]
            expected.append("|".join(texts))
    assert core(lines) == expected
    assert any("|0|0|0||" in e for e in expected)
    assert len({e.split("|")[2] for e in expected}) > 2  # several tiling keys


def test_shapes_that_are_not_known(core, ops):
    data = to_bytes(ops[2]).hex()
    found = core([f"i|{SOC}|{data}|{s}" for s in ("5,8;", "-1,8;", "5,-1;", "?;", "5,8;?", "5,7;", "5;", "5,8;3")])
    assert [f.split("|")[1:] for f in found[:5]] == [["5,8"], ["-1,8"], ["5,-1"], ["?"], ["?"]]
    assert "expected 6 in dim 1" in found[5]
    assert all(f.startswith("error: ") for f in found[5:])


def test_bad_definitions_are_told(core, ops):
    def told(change, soc=SOC):
        op = type(ops[2])()
        op.CopyFrom(ops[2])
        change(op)
        return core([f"l|{soc}|{op.SerializeToString().hex()}|5,8;"])[0]

    assert not told(lambda op: None).startswith("error")
    assert "schema version 9" in told(lambda op: setattr(op, "schema_version", 9))
    assert "no schedule for Ascend910B3; recorded: Ascend910B1" in told(lambda op: None, "Ascend910B3")
    assert "unknown type 'f7'" in told(lambda op: setattr(op.input[0], "dtype", "f7"))
    assert "from an input" in told(lambda op: setattr(op.symbol[0], "input", 4))
    assert "is taken" in told(lambda op: setattr(op.symbol[1], "name", "s0"))
    assert "neither a symbol nor" in told(lambda op: setattr(op.schedule[0].step[0], "value", "nothing"))
    assert "does not fit the chip" in told(lambda op: setattr(op.schedule[0], "block_dim", "49"))
    assert "is no step" in told(lambda op: op.schedule[0].field.append("core_num"))
    assert "divided by zero" in told(lambda op: setattr(op.schedule[0].step[0], "value", "s0 / 0"))


def test_types_are_those_of_the_package():
    text = (resource("op_templates") / "runtime" / "definition.cpp").read_text()
    found = {n: (int(c), int(size)) for n, c, size in re.findall(r'\{"(\w+)", (\d+), (\d+)\}', text)}
    assert found == {d.name: (d.ge_c, d.itemsize) for d in dtypes.ALL}


def test_fuzzed_definitions(core, ops):
    """Whatever the bytes, there is an answer. New fields are skipped."""
    rng = random.Random(10)
    lines, whole = [], [to_bytes(op) for op in ops]
    for _ in range(2500):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 4)):
            at, kind = rng.randrange(len(data)), rng.randrange(4)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del data[at : at + rng.randint(1, 30)]
            elif kind == 2:
                data[at:at] = rng.randbytes(rng.randint(1, 9))
            else:
                data[at : at + 1] = b"\xff" * rng.randint(1, 11)
            if not data:
                data = bytearray(b"\x08")
        lines.append(f"{rng.choice('li')}|{SOC}|{bytes(data).hex()}|5,8;{rng.choice(['', '8'])}")
    lines += [f"l|{SOC}|{rng.randbytes(rng.randint(0, 60)).hex()}|1" for _ in range(500)]
    answers = core(lines)
    assert sum(a.startswith("error") for a in answers) > 1200
    extra = bytes([0xA2, 0x06, 2, 1, 2, 0xA8, 0x06, 5, 0xB1, 0x06, *range(8), 0xBD, 0x06, *range(4)])  # fields 100..103
    plain, more = (core([f"l|{SOC}|{(to_bytes(ops[2]) + e).hex()}|5,8;"])[0] for e in (b"", extra))
    assert plain == more and not plain.startswith("error")
