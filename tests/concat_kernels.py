"""Texts of the loop IR that lay several tensors side by side: one nest per part, all storing to the same outputs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from torchair_autofuse.loop import expr

Size = int | str


def _index(axes: Sequence[str], within: Sequence[expr.Expr], offset: expr.Expr = 0) -> str:
    """The flat index of ``axes`` in a tensor whose sizes are ``within``."""
    terms = []
    for k, name in enumerate(axes):
        pitch = expr.product(within[k + 1 :])
        terms.append(name if pitch == 1 else f"({expr.to_str(pitch)})*{name}")
    return " + ".join([*terms, expr.to_str(offset)])


class _Part:
    """The nest of one part: ``work`` values are f32 for halves, else of ``dtype`` itself."""

    def __init__(self, k: int, dtype: str, sizes: Sequence[expr.Expr]) -> None:
        self.k, self.dtype, self.sizes = k, dtype, sizes
        self.half = dtype in ("f16", "bf16")
        self.work = "f32" if self.half else dtype
        self.axes = [f"a{i}" for i in range(len(sizes))]
        self.lines = [f"v: {dtype} = load x{k}[{_index(self.axes, sizes)}]"]

    def raised(self, name: str, value: str) -> str:
        if not self.half:
            return value
        self.lines.append(f"{name}: f32 = cast({value}, rint)")
        return name

    def value(self, name: str, op: str) -> str:
        self.lines.append(f"{name}: {self.work} = {op}")
        if self.half:
            self.lines.append(f"{name}_: {self.dtype} = cast({name}, rint)")
        return f"{name}_" if self.half else name

    def negated(self) -> str:
        return self.value("n", f"{'not' if self.dtype == 'bool' else 'neg'}({self.raised('w', 'v')})")

    def biased(self) -> str:
        self.lines.append(f"b: {self.dtype} = load b{self.k}[{self.axes[-1]}]")
        op = "and" if self.dtype == "bool" else "add"
        return self.value("d", f"{op}({self.raised('u', 'v')}, {self.raised('c', 'b')})")

    def softmax(self) -> str:
        self.lines.append(f"m, s: f32, f32 = reduce maxsumexp({self.raised('z', 'v')}) over ({self.axes[-1]})")
        self.lines += [f"e: f32 = sub({self.raised('q', 'v')}, m)", "f: f32 = exp(e)"]
        return self.value("g", "div(f, s)")

    def filled(self) -> str:
        constant = {"bool": "true", "i32": "7", "i16": "7"}.get(self.dtype, "1.5")
        self.lines = [f"k: {self.dtype} = const {constant}"]
        return "k"


def concat_text(
    dims: Sequence[Size],
    axis: int,
    parts: Sequence[Size],
    dtype: str = "f16",
    *,
    bodies: Sequence[str] = ("copy",),
    outputs: int = 1,
) -> str:
    """``outputs`` concats of inputs x0, x1, ... along ``axis``; ``dims`` are the others' sizes with any at ``axis``.

    The bodies are taken in turn: "copy"; "neg"; "bias" adds a tensor that varies along the last axis; "keep" also
    stores the negated part by itself; "softmax" over the last axis; "fill" stores a constant. The second output has
    the same parts negated.
    """
    before, after = ([expr.parse(str(d)) for d in side] for side in (dims[:axis], dims[axis + 1 :]))
    sizes = [expr.parse(str(p)) for p in parts]
    whole = [*before, expr.add(*sizes), *after]
    ins: list[str] = []
    outs = [f"out y{j}: {dtype}[{', '.join(map(expr.to_str, whole))}]" for j in range(outputs)]
    nests: list[str] = []
    sources: dict[str, str] = {}
    for k, size in enumerate(sizes):
        own = [*before, size, *after]
        shape = ", ".join(map(expr.to_str, own))
        ins.append(f"in x{k}: {dtype}[{shape}]")
        for i, d in enumerate(own):
            if not isinstance(d, int):
                sources.setdefault(str(d), f"x{k}.{i}")
        part, body = _Part(k, dtype, own), bodies[k % len(bodies)]
        if body == "bias":
            ins.append(f"in b{k}: {dtype}[{expr.to_str(own[-1])}]")
        made = {"neg": part.negated, "bias": part.biased, "softmax": part.softmax, "fill": part.filled}
        results = [made[body]() if body in made else "v"]
        if outputs > 1 or body == "keep":
            results.append(results[0] if body in ("fill", "neg") else part.negated())
        offset = expr.mul(expr.add(*sizes[:k]), *after) if k else 0
        for j in range(outputs):
            part.lines.append(f"store y{j}[{_index(part.axes, whole, offset)}] = {results[j]}")
        if body == "keep":
            outs.append(f"out z{k}: {dtype}[{shape}]")
            part.lines.append(f"store z{k}[{_index(part.axes, own)}] = {results[1]}")
        axes = ", ".join(f"{n}: {expr.to_str(s)}" for n, s in zip(part.axes, own))
        nests.append("\n  ".join([f"nest n{k} [{axes}]", *part.lines]))
    where = ", ".join(f"{s} = {of}" for s, of in sources.items())
    head = f"kernel concat({', '.join([*ins, *outs])})" + (f" where {where}" if where else "")
    return "\n".join([head, *nests, ""])


@st.composite
def concats(draw):
    """(text, sizes of s0, s1, s2) of concats of up to five parts, along any of up to three axes."""
    rank = draw(st.integers(1, 3))
    axis = draw(st.integers(0, rank - 1))
    fixed = st.sampled_from((1, 2, 3, 8, 16, 17, 31, 33, 64, 100, 255))
    dims = [draw(st.one_of(st.just("s0"), fixed)) for _ in range(rank)]
    parts = draw(st.lists(st.one_of(st.sampled_from(("s1", "s2", 1, 5)), fixed), min_size=2, max_size=5))
    dtype = draw(st.sampled_from(("f16", "f32", "bf16", "i32", "bool")))
    last = parts if axis == rank - 1 else dims[-1:]  # sizes of what a softmax reduces
    floats = ("softmax",) if "f" in dtype and all(isinstance(n, int) for n in last) else ()
    kinds = st.sampled_from(("copy", "neg", "bias", "fill", "keep", *floats))
    bodies = draw(st.lists(kinds, min_size=1, max_size=3))
    text = concat_text(dims, axis, parts, dtype, bodies=bodies, outputs=draw(st.integers(1, 2)))
    small = st.sampled_from((0, 1, 2, 7, 16, 33, 100, 1000))
    sizes = draw(st.lists(st.tuples(small, small, small), min_size=3, max_size=3))
    return text, [dict(zip(("s0", "s1", "s2"), s)) for s in sizes]
