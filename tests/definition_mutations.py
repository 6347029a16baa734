"""Random damage to definitions, for tests: to their bytes, to any field of the message, to their texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

INTS = (0, 1, 2, 3, 7, 16, 255, 4096, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
BIG = (*INTS, 1 << 40, (1 << 63) - 1, -1, -(1 << 31), -(1 << 63))
FLOATS = (0.0, -1.0, 1e-9, 1e-5, 0.5, 1e300, float("inf"), float("-inf"), float("nan"))
STRINGS = (
    "", " ", "x", "s0", "s1", "s9999", "f32", "f16", "i64", "bool", "-1", "0", "1", "4097", str(2**31), str(2**63),
    "9" * 30, "9" * 5000, "s0*s0", "s0**16", "s0**64", "s0**999999999", "2**64", "9**9**9", "(s0**16)**16",
    "*".join(["s0"] * 60), "*".join(f"(s{i} + {i + 1})" for i in range(40)), "(" * 900 + "s0" + ")" * 900,
    "-" * 3000 + "1",
    "floor(" * 60 + "s0/3" + ")" * 60, "Min(" + ", ".join(f"s{i}*{i + 2}" for i in range(16)) + ")",
    "Mod(Mod(Mod(s0*s0 + 1, 7*s1 + 1), 5), 3)", "Max(s0, Min(s0 - 64, 64 - s0))", "floor(s0/2)*floor((s0 + 1)/2)",
    "s0/0", "s0/3",
    "1/s0", "0*s0", "s0 - s0", "s0 - 4097", "core_num", "ub_bytes", "block_dim", "(core_num * core_num)",
    "(s0 * 9223372036854775807)",
    "(1 / 0)", "(0 - s0)", "RoundUp(s0, 0)", "Min(s0, core_num)", "(s0 > 0 ? 1 : 48)", "__import__('os')",
    "lambda: 0", "a" * 2000,
    "../../etc/passwd", "kernel.cpp", "a\nb", "a\0b", "\u202e\u2028", "ß", "Ascend910B1", "Ascend910B4",
    "Ascend950PR_9599", "pointwise",
    "nan", "inf", "1e999", "store y[0] = v0", "nest n9 [a0: s0]", "kernel k()", "  v0: f32 = const nan",
    "  v0: f32 = load x[a0]",
)  # fmt: skip
TOKENS = (
    "v0", "v1", "v99", "a0", "a1", "s0", "s1", "x", "y", "0", "1", "2", "64", "-1", str(2**31), str(2**64), "f32",
    "f16", "i32",
    "bool", "add", "mul", "div", "exp", "select", "cast", "rint", "floor", "reduce sum", "reduce argmax", "over",
    "load", "iota",
    "const", "store", "nest", "where", "(", ")", "[", "]", ",", ":", "=", "*", "+", "-", "/", "<", "<=", "%", "#",
    "\n", " ", "\t", "nan", "inf",
    "**", "**9", "Min(", "Mod(", "# from A", '# from "\\x"', "a0*a0", "s0*a0", "s0*s0*s0", "floor(a0/2)",
)  # fmt: skip


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to a few flips, cuts, repeats or insertions."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at, length = rng.randrange(len(made) + 1), rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(made):
            made[at] = rng.randrange(256)
        elif kind == 2:
            del made[at : at + length]
        elif kind == 3:
            made[at:at] = made[at : at + length]
        elif kind == 4:
            made[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif rng.random() < 0.2:
            del made[at:]
    return bytes(made)


def damage_message(rng: random.Random, op: Any) -> None:
    """One to a few fields anywhere in the message set, cleared, repeated, removed or swapped."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(list(_changes(rng, op)))()


def damage_text(rng: random.Random, op: Any) -> None:
    """Tokens of the body, of sizes or of tiling expressions replaced, removed, inserted or moved."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        lists = [op.body, *(p.dim for p in (*op.input, *op.output) if p.dim)]
        if rng.random() < 0.6:
            found = rng.choice([x for x in lists if x] or [op.body])
            if not found:
                return
            i = rng.randrange(len(found))
            found[i] = _edit(rng, found[i])
            if rng.random() < 0.1:
                lines = list(found)
                rng.shuffle(lines)
                found[:] = lines
        elif op.schedule and op.schedule[0].step:
            step = rng.choice(op.schedule[0].step)
            step.value = _edit(rng, step.value)


def _edit(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.choice((0, 0, 1, 1, 2, 6)))
    if rng.random() < 0.15:
        return text[:at] + text[end:]
    if rng.random() < 0.1:
        return text[:at] + text[at:end] * rng.choice((2, 50, 400)) + text[end:]
    if rng.random() < 0.1:
        return rng.choice(STRINGS)
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    if digits and rng.random() < 0.3:
        i = rng.choice(digits)
        return text[:i] + str(rng.choice(BIG)) + text[i + 1 :]
    return text[:at] + rng.choice(TOKENS) + text[end:]


def _changes(rng: random.Random, message: Any) -> Iterator[Callable[[], object]]:
    """Something to do to each field of a message and of those in it."""
    for descriptor in message.DESCRIPTOR.fields:
        name = descriptor.name
        value = getattr(message, name)
        yield lambda name=name: message.ClearField(name)
        if hasattr(value, "DESCRIPTOR"):
            yield from _changes(rng, value)
        elif isinstance(value, (str, int, float)):
            yield lambda name=name, value=value: _set(rng, message, name, value)
        elif len(value):
            yield lambda value=value: _change_list(rng, value)
            for entry in rng.sample(list(value), min(len(value), 4)):
                if hasattr(entry, "DESCRIPTOR"):
                    yield from _changes(rng, entry)


def _set(rng: random.Random, message: Any, name: str, value: Any) -> None:
    try:
        setattr(message, name, _other(rng, value))
    except ValueError:  # not in the range of the field
        setattr(message, name, rng.choice(INTS))


def _other(rng: random.Random, value: Any) -> Any:
    if isinstance(value, str):
        kind = rng.randrange(4)
        return rng.choice(STRINGS) if kind < 2 else _edit(rng, value) if kind == 2 else value + rng.choice(STRINGS)
    if isinstance(value, int):
        return rng.choice((*BIG, value + 1, value - 1, value * 2))
    return rng.choice(FLOATS)


def _change_list(rng: random.Random, value: Any) -> None:
    i, kind = rng.randrange(len(value)), rng.randrange(5)
    if kind == 0:
        del value[i]
    elif kind == 1:
        entries = list(value)
        rng.shuffle(entries)
        _replace(value, entries)
    elif kind == 2:
        _replace(value, list(value) * (rng.choice((2, 3)) if len(value) < 64 else 2))
    elif kind == 3:
        entries = list(value)
        entries.insert(i, entries[rng.randrange(len(entries))])
        _replace(value, entries)
    elif isinstance(value[i], str):
        value[i] = _other(rng, value[i])
    else:
        del value[i:]


def _replace(value: Any, entries: list[Any]) -> None:
    copies = [e if isinstance(e, str) else _copy(e) for e in entries]
    del value[:]
    value.extend(copies)


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made
