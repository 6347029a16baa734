"""Random kernels that reduce: hypothesis strategy of (text, sizes), for the twin."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

STATIC = (2, 3, 5, 8, 16, 33, 64, 100, 300, 9000)
SIZES = (0, 1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 255, 257, 700, 1023, 4096, 20000)
COMBINERS = ("sum", "sum", "max", "min", "welford", "maxsumexp", "prod", "any", "all")
OPS = ("add", "sub", "mul", "max", "min", "exp", "abs", "div", "select", "scale")
MOST = 300_000  # elements of a nest


class _Maker:
    """Writes one kernel. Values are names with the axes (positions) that they vary over."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        rank = self.one(1, 2, 2, 2, 3, 3, 4)
        self.dims = [f"s{d}" if draw(st.booleans()) else self.one(*STATIC) for d in range(rank)]
        self.all = tuple(range(rank))
        self.over = tuple(d for d in self.all if draw(st.booleans())) or (self.one(*self.all),)
        self.params: list[str] = []
        self.lines: list[str] = []
        self.pool: list[tuple[str, tuple[int, ...]]] = []
        self.results: list[tuple[str, tuple[int, ...]]] = []
        self.truths: list[tuple[str, tuple[int, ...]]] = []
        self.stores: list[str] = []

    def one(self, *choices):
        return self.draw(st.sampled_from(choices))

    def index(self, axes: Sequence[int]) -> str:
        terms = ["*".join([*(str(self.dims[e]) for e in axes if e > d), f"a{d}"]) for d in axes]
        return " + ".join(terms) or "0"

    def shape(self, axes: Sequence[int]) -> str:
        return f"[{', '.join(str(self.dims[d]) for d in axes) or 1}]"

    def write(self, op: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name}: {'bool' if op.split('(')[0] in ('lt', 'gt') else 'f32'} = {op}")
        return name

    def keep(self, name: str, *axes: Sequence[int]) -> None:
        self.pool.append((name, tuple(sorted(set().union(*axes)))))

    def load(self, axes: Sequence[int]) -> None:
        dtype, name = self.one("f32", "f32", "f16", "bf16"), f"x{len(self.params)}"
        self.params.append(f"in {name}: {dtype}{self.shape(axes)}")
        value = f"load {name}[{self.index(axes)}]"
        if dtype != "f32":
            self.lines.append(f"{name}_: {dtype} = {value}")
            value = f"cast({name}_, rint)"
        self.keep(self.write(value), axes)

    def pointwise(self) -> None:
        op, (a, of_a), (b, of_b) = self.one(*OPS), self.one(*self.pool), self.one(*self.pool)
        if op == "exp":
            most = self.write("const 3.0")
            self.keep(self.write(f"exp({self.write(f'min({a}, {most})')})"), of_a)
        elif op == "abs":
            self.keep(self.write(f"abs({a})"), of_a)
        elif op == "scale":
            self.keep(self.write(f"mul({a}, {self.write('const 0.75')})"), of_a)
        elif op == "div":
            by = self.write(f"add({self.write(f'abs({b})')}, {self.write('const 1.5')})")
            self.keep(self.write(f"div({a}, {by})"), of_a, of_b)
        elif op == "select":
            self.keep(self.write(f"select({self.write(f'lt({a}, {b})')}, {a}, {b})"), of_a, of_b)
        else:
            self.keep(self.write(f"{op}({a}, {b})"), of_a, of_b)

    def reduce(self) -> None:
        combiner = self.one(*COMBINERS)
        a, of_a = self.one(*(p for p in self.pool if set(self.over) <= set(p[1])))
        rest, k = tuple(d for d in of_a if d not in self.over), len(self.lines)
        names = [f"r{k}", f"q{k}"] if combiner in ("welford", "maxsumexp") else [f"r{k}"]
        dtype = "f32"
        if combiner in ("any", "all"):
            a, dtype = self.write(f"{self.one('lt', 'gt')}({a}, {self.one(*self.pool_within(of_a))})"), "bool"
        elif combiner == "prod":  # factors near 1: no overflow in whatever order
            low = self.write(f"min({a}, {self.write('const 1.0009765625')})")
            a = self.write(f"max({low}, {self.write('const 0.9990234375')})")
        over = ", ".join(f"a{d}" for d in self.over)
        self.lines.append(
            f"{', '.join(names)}: {', '.join([dtype] * len(names))} = reduce {combiner}({a}) over ({over})"
        )
        if dtype == "f32":
            self.pool += [(n, rest) for n in names]
            self.results += [(n, rest) for n in names]
            return
        self.truths.append((names[0], rest))
        b, of_b = self.one(*self.pool)
        c, of_c = self.one(*self.pool)
        self.keep(self.write(f"select({names[0]}, {b}, {c})"), rest, of_b, of_c)
        self.results.append(self.pool[-1])

    def pool_within(self, axes: Sequence[int]) -> list[str]:
        return [n for n, of in self.pool if set(of) <= set(axes)]

    def store(self, value: str, axes: Sequence[int], dtype: str) -> None:
        name = f"y{len(self.stores)}"
        self.params.append(f"out {name}: {dtype}{self.shape(axes)}")
        if dtype in ("f16", "bf16"):
            self.lines.append(f"w{name}: {dtype} = cast({value}, rint)")
            value = f"w{name}"
        self.stores.append(f"store {name}[{self.index(axes)}] = {value}")

    def text(self) -> str:
        self.load(self.all)
        for _ in range(self.one(0, 1, 2)):
            self.load([d for d in self.all if self.draw(st.booleans())])
        for _ in range(self.one(0, 1, 2)):
            self.pointwise()
        for _ in range(self.one(1, 1, 2, 3)):
            self.reduce()
            for _ in range(self.one(0, 1, 2)):
                self.pointwise()
        chosen = [self.pool[-1], self.one(*self.results), *(self.one(*self.pool) for _ in range(self.one(0, 1)))]
        for value, axes in chosen:
            self.store(value, axes, self.one("f32", "f32", "f16", "bf16"))
        for value, axes in self.truths[:1]:
            self.store(value, axes, "bool")
        used = {d: i for i, d in reversed(list(enumerate(self.dims))) if isinstance(d, str)}
        where = ", ".join(f"{s} = x0.{i}" for s, i in used.items())
        axes = ", ".join(f"a{i}: {d}" for i, d in enumerate(self.dims))
        body = "\n  ".join([*self.lines, *self.stores])
        head = f"kernel random({', '.join(self.params)}){' where ' + where if where else ''}"
        return f"{head}\nnest n0 [{axes}]\n  {body}\n"


@st.composite
def reduction_kernels(draw: st.DrawFn) -> tuple[str, list[dict[str, int]]]:
    """A kernel with a reduction, and sizes to run it with."""
    maker = _Maker(draw)
    text = maker.text()
    found = []
    for _ in range(4):
        sizes: dict[str, int] = {}
        total = 1
        for d in maker.dims:
            total *= d if isinstance(d, int) else 1
        for d in maker.dims:
            if isinstance(d, str):
                n = draw(st.sampled_from(SIZES))
                sizes[d] = n if total * n <= MOST else n % 4
                total *= max(sizes[d], 1)
        found.append(sizes)
    return text, found
