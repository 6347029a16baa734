"""Random kernels that move data as they compute, as text of the loop IR: lanes, reversed and permuted axes, lookups."""

from __future__ import annotations

from hypothesis import strategies as st
from pointwise_kernels import kernel_text

SIZES = (1, 2, 3, 8, 17, "s0", "s1", "s2")
TYPES = ("f32", "f32", "f16", "bf16")
TABLE = 6  # rows of a table


class _Builder:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.axes = [(f"a{i}", self.pick(SIZES)) for i in range(draw(st.integers(1, 3)))]
        self.params: list[str] = []
        self.lines: list[str] = []
        self.sums: list[tuple[str, frozenset[str]]] = []  # f32 values and what they vary over

    def pick(self, items):
        return self.draw(st.sampled_from(list(items)))

    def chance(self, percent):
        return self.draw(st.integers(0, 99)) < percent

    def subset(self, names, percent=60):
        return [a for a in names if self.chance(percent)]

    def place(self, names, width, member, *, back=True):
        """(dims, index) of a tensor with one dim per axis, in any order, some reversed; ``width`` more behind them."""
        order = [a for a in self.axes if a[0] in names]
        if self.chance(30):
            order = list(self.draw(st.permutations(order)))
        dims, terms, offset, pitch = [str(width)] if width > 1 else [], [], [str(member)], str(width)
        for name, size in reversed(order):
            reversed_axis = back and self.chance(15)
            terms.insert(0, f"{'-' if reversed_axis else ''}{pitch}*{name}")
            offset += [f"{pitch}*({size} - 1)"] if reversed_axis else []
            dims.insert(0, str(size))
            pitch = f"{pitch}*{size}"
        return dims, " + ".join([*terms, *offset]), pitch

    def load(self, names):
        dtype, width = self.pick(TYPES), self.pick((1, 1, 1, 2, 3, 4, 8))
        members = sorted({self.draw(st.integers(0, width - 1)) for _ in range(2)})
        param = f"in{len(self.params)}"
        dims, index, pitch = self.place(names, width, 0)
        where, rows = "", []
        if self.chance(30):
            rows = self.subset([a for a, _ in (self.axes if self.chance(20) else self.axes[:-1])], 60)
            ids, at, _ = self.place(rows, 1, 0, back=False)
            self.params.append(f"in ids{len(self.params)}: {self.pick(('i32', 'i64'))}[{', '.join(ids)}]")
            name, kind = self.params[-1].split(":")[0].removeprefix("in "), self.params[-1].split(": ")[1][:3]
            self.lines.append(f"  r{name}: {kind} = load {name}[{at}]")
            dims, where = [str(TABLE), *dims], f" where {self.pick((0, f'-{TABLE}'))} <= r{name} < {TABLE}"
            index = f"{pitch}*r{name} + {index}"
        self.params.append(f"in {param}: {dtype}[{', '.join(dims)}]")
        for m in members:
            value = f"v{len(self.lines)}"
            self.lines.append(f"  {value}: {dtype} = load {param}[{index} + {m}]{where}")
            if dtype != "f32":
                self.lines.append(f"  f{value}: f32 = cast({value}, rint)")
            self.sums.append((value if dtype == "f32" else f"f{value}", frozenset([*names, *rows])))

    def add(self, a, b):
        name = f"w{len(self.lines)}"
        self.lines.append(f"  {name}: f32 = {self.pick(('add', 'sub', 'max'))}({a[0]}, {b[0]})")
        self.sums.append((name, a[1] | b[1]))

    def store(self, k):
        width = self.pick((1, 1, 2, 3))
        values = [self.pick(self.sums) for _ in range(width)]
        names = frozenset().union(*(names for _, names in values))
        if self.chance(20):
            names |= {a for a, _ in self.axes}
        dtype = self.pick(TYPES)
        dims, index, _ = self.place(names, width, 0, back=False)
        self.params.append(f"out out{k}: {dtype}[{', '.join(dims)}]")
        stores = []
        for m, (value, _) in enumerate(values):
            if dtype != "f32":
                cast = f"c{len(self.lines)}"
                self.lines.append(f"  {cast}: {dtype} = cast({value}, rint)")
                value = cast
            stores.append(f"  store out{k}[{index} + {m}] = {value}")
        return stores

    def text(self):
        every = [a for a, _ in self.axes]
        sizes = [str(size) for _, size in self.axes]
        self.params.append(f"in in0: f32[{', '.join(sizes)}]")
        index, pitch = [], "1"
        for name, size in reversed(self.axes):
            index.insert(0, f"{pitch}*{name}")
            pitch = f"{pitch}*{size}"
        self.lines.append(f"  v: f32 = load in0[{' + '.join(index)}]")
        self.sums.append(("v", frozenset(every)))
        for _ in range(self.draw(st.integers(1, 4))):
            self.load(self.subset(every))
        for _ in range(self.draw(st.integers(2, 6))):
            self.add(self.pick(self.sums), self.pick(self.sums))
        stores = [line for k in range(self.draw(st.integers(1, 3))) for line in self.store(k)]
        return kernel_text(self.params, sizes, self.axes, [*self.lines, *stores])


@st.composite
def strided_kernels(draw):
    """(text, sizes): up to three axes, up to five loaded tensors, up to three outputs."""
    text = _Builder(draw).text()
    small = st.sampled_from((1, 2, 3, 5, 8, 16, 33, 100))
    sizes = draw(st.lists(st.tuples(small, small, small), min_size=3, max_size=3))
    return text, [dict(zip(("s0", "s1", "s2"), s)) for s in sizes]
