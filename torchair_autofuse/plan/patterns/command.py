"""``patterns``: the named patterns as a table, or as the page docs/patterns.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from torchair_autofuse.options.grammar import suggestion
from torchair_autofuse.plan.patterns.library import Pattern, patterns

_HEAD = """\
# Named patterns

Clusters of ops that people have a name for. The general engine fuses with or without a name: patterns have no kernels
of their own. They name what was fused in the report, and switch it off:

```text
GF_AUTOFUSION_DISABLE=swiglu,rope python train.py
```

The ops of every occurrence of a pattern that is switched off stay as they are, also where the occurrence is a part of
a larger pattern; the report says AF214 with the pattern's name. What surrounds them is fused as before. An occurrence
has at least two kernels; constants, views and what GE folds do not count. `python -m torchair_autofuse patterns` prints
names, descriptions and examples; words after it select.

This page is written by `python -m torchair_autofuse patterns --markdown` from the files `*.toml` in
`torchair_autofuse/plan/patterns/`.

## Adding one

A table in one of the files, or a file of its own with a `family`:

| field | holds |
|---|---|
| `about` | one line |
| `graph` | the ops, in the language below |
| `example` | lines of torch, the last one an expression: what tests compile to show the pattern |
| `inputs` | what the example reads: `"x, y: f32[8,64]; mask: bool[8,64]"`; `f32+` for positive numbers |
| `through` | optional: op types that matching looks through besides views, such as `["Transpose"]` |

Then `pytest tests/host/test_patterns_live.py --update-golden` captures the examples' graphs, and
`pytest tests/pure/test_pattern_library.py --update-golden` counts the pattern in the captured models.

## The language

Each pattern has a graph of GE ops: lines `name = expression`, the last one the value of the cluster. The syntax of
expressions is Python's.

| form | stands for |
|---|---|
| `x` | any tensor that is not one number (known, or 0-d); the same name is the same tensor |
| `_` | any tensor or number |
| `vector(b)`, `single(s)` | a tensor of rank 1; one of a single element |
| `0.5`, `sqrt(2)` | that number, up to the rounding of its dtype |

| `Rsqrt(x)` | a GE op by its type and leading operands |
| `ConcatV2(..., x)` | an op with some operands, in their order |
| `ArgMaxWithValue(x)[1]` | the second output of an op |
| `+ - * / **`, `-x` | Add, Sub, Mul, RealDiv, Pow, Neg |
| `< <= > >= == !=`, `& \\|`, `~x` | comparisons, LogicalAnd, LogicalOr, LogicalNot |
| `a or b` | the first that fits |
| `maybe(x * s)` | the op, or its first operand alone |
| `silu(x)` | a definition of the tables `[define]` |
| `Transpose(x, perm=[0, 2, 1, 3])` | an op with an attribute or steering input of a value |
| `Cast(x, source="int", dtype="f32")` | dtype or kind (`int`, `half`, `float`, `bool`) of the operand; of the result |

Add, Mul, Maximum and the like match in either order. Matching looks through views, broadcasts, casts between floating
types, and the op types of a pattern's `through`. Muls counts as Mul by a number, Adds as Add, Div as RealDiv, Square as
Pow by 2, Sxpy as Sub and AxpyV2 as Add where their factor is 1.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="show patterns whose name or description has the words"
    )
    parser.add_argument("--markdown", action="store_true", help="print the page docs/patterns.md instead")


def main(options: argparse.Namespace) -> int:
    """Prints the patterns; 1 if the words select none."""
    if options.markdown:
        print(page(patterns().values()), end="")
        return 0
    words = [word.lower() for word in options.words]
    found = [p for p in patterns().values() if all(w in f"{p.name} {p.family} {p.about}".lower() for w in words)]
    if not found:
        hint = suggestion(" ".join(words).replace(" ", "-"), patterns())
        print(f"torchair_autofuse: no pattern has {' '.join(words)!r} in it{hint}", file=sys.stderr)
        return 1
    _print(found)
    return 0


def _print(found: Iterable[Pattern]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "family", "description", "example in torch", show_lines=True)
    table.columns[0].no_wrap = True
    for p in found:
        table.add_row(*(Text(text) for text in (p.name, p.family, p.about, p.example)))
    console = Console(width=max(110, Console().width))
    console.print(table)


def page(library: Iterable[Pattern]) -> str:
    """The text of docs/patterns.md."""
    families: dict[str, list[Pattern]] = {}
    for p in library:
        families.setdefault(p.family, []).append(p)
    out = [_HEAD]
    count = sum(map(len, families.values()))
    out.append(f"## The patterns\n\n{count} in {len(families)} families.\n")
    for family, found in families.items():
        out.append(f"### {family[0].upper()}{family[1:]}\n")
        for p in found:
            through = f" Looks through {', '.join(sorted(p.through))}." if p.through else ""
            out.append(f"**{p.name}**: {p.about}.{through}\n\n```text\n{p.text}\n```\n\n```python\n{p.example}\n```\n")
    return "\n".join(out)
