"""Random pointwise kernels that have a schedule, as text of the loop IR, and sizes to run them at."""

from __future__ import annotations

from hypothesis import strategies as st

from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, I64, U8, DType
from torchair_autofuse.loop.ops import POINTWISE
from torchair_autofuse.schedule.isa import FILLS, supports_cast, supports_op

SIZES = (1, 2, 3, 8, 17, "s0", "s1", "s2")
LOADED = (F32, F32, F32, F16, BF16, I32, I32, BOOL, I16, I64, U8, I8)
# results that may differ from the interpreter's in the last bits, and ops that would make a jump out of that
INEXACT = frozenset({"sigmoid", "rsqrt"})
SMOOTH = frozenset({"add", "sub", "mul", "max", "min", "neg", "abs", "select"})
CONSTANTS = {
    "float": (0.0, -0.0, 1.0, -2.5, 0.25, 3.0, float("inf"), float("-inf"), float("nan")),
    "int": (0, 1, -1, 7, -100, -128),
    "uint": (0, 1, 255),
    "bool": (True, False),
}


class _Builder:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.axes = [(f"a{i}", self.pick(SIZES)) for i in range(draw(st.integers(0, 4)))]
        self.params: list[str] = []
        self.lines: list[str] = []
        self.types: dict[str, DType] = {}
        self.domain: dict[str, frozenset[str]] = {}
        self.exact: dict[str, int] = {}  # 0: bit for bit, 1: last bits may differ, 2: rounded to a half after that

    def pick(self, items):
        return self.draw(st.sampled_from(list(items)))

    def chance(self, percent):
        return self.draw(st.integers(0, 99)) < percent

    def place(self, names):
        """(dims, index) of a dense tensor over some axes; axes it lacks may be there with size 1."""
        dims, index, pitch = [], [], []
        for name, size in reversed(self.axes):
            if name in names:
                dims.append(str(size))
                index.append("*".join([*map(str, pitch), name]))
                pitch.append(size)
            elif self.chance(50):
                dims.append("1")
        return f"[{', '.join(reversed(dims))}]", " + ".join(reversed(index)) or "0"

    def define(self, text, dtype, domain, exact=0):
        name = f"v{len(self.types)}"
        self.lines.append(f"  {name}: {dtype} = {text}")
        self.types[name], self.domain[name], self.exact[name] = dtype, domain, exact
        return name

    def load(self, dtype, names):
        dims, index = self.place(names)
        param = f"in{len(self.params)}"
        self.params.append(f"in {param}: {dtype}{dims}")
        return self.define(f"load {param}[{index}]", dtype, frozenset(names))

    def const(self, dtype):
        value = self.pick(CONSTANTS[dtype.kind])
        text = repr(value).lower() if dtype == BOOL else repr(value)
        return self.define(f"const {text}", dtype, frozenset())

    def operand(self, dtype, most):
        pool = [n for n, t in self.types.items() if t == dtype and self.exact[n] <= most]
        if not pool or (self.chance(15) and dtype in FILLS):
            return self.const(dtype)
        return self.pick(pool)

    def op(self):
        dtype = self.pick([t for t in (F32, F32, F32, I32, BOOL, I16) if t in self.types.values()] or [F32])
        op = self.pick([o for o in POINTWISE.values() if supports_op(o.name, dtype) is None])
        most = 1 if op.name in SMOOTH else 0
        args = [self.operand(dtype, most) for _ in range(op.arity)]
        if op.name == "select":
            args[0] = self.operand(BOOL, 0)
        exact = max([self.exact[a] for a in args] + [int(op.name in INEXACT)])
        result = BOOL if op.result == "bool" else dtype
        domain = frozenset().union(*(self.domain[a] for a in args))
        self.define(f"{op.name}({', '.join(args)})", result, domain, exact)

    def cast(self):
        source = self.pick(dict.fromkeys(self.types.values()))
        targets = [t for t in LOADED if supports_cast(source, t) is None]
        if not targets:
            return
        target = self.pick(targets)
        half = target in (F16, BF16)
        arg = self.operand(source, 1 if half else 0)
        if source.is_float and target.is_float:
            mode = "rint"
        else:
            mode = self.pick(("rint", "trunc", "floor", "ceil", "round")) if source == F32 else "rint"
        exact = 2 if half and self.exact[arg] else 0
        self.define(f"cast({arg}, {mode})", target, self.domain[arg], exact)

    def store(self, k):
        value = self.pick(self.types)
        names = set(self.domain[value])
        if self.chance(25) and self.types[value] in (F32, F16, BF16, I32, I16, BOOL):
            names |= {a for a, _ in self.axes if self.chance(50)}
        dims, index = self.place(names)
        self.params.append(f"out out{k}: {self.types[value]}{dims}")
        return f"  store out{k}[{index}] = {value}"

    def text(self):
        every = [a for a, _ in self.axes]
        self.load(F32, every)  # gives every symbol a source
        first = [str(size) for _, size in self.axes]
        self.params[0] = f"in in0: f32[{', '.join(first)}]"
        for _ in range(self.draw(st.integers(2, 6))):
            name = self.load(self.pick(LOADED), [a for a in every if self.chance(60)])
            if self.types[name] in (F16, BF16):
                self.define(f"cast({name}, rint)", F32, self.domain[name])
        for _ in range(self.draw(st.integers(5, 18))):
            (self.cast if self.chance(25) else self.op)()
        stores = [self.store(k) for k in range(self.draw(st.integers(1, 4)))]
        return kernel_text(self.params, first, self.axes, [*self.lines, *stores])


def kernel_text(params, first, axes, lines):
    """A kernel of one nest; ``first``: the sizes of in0, which gives the symbols among them. Inputs come first."""
    symbols = dict.fromkeys(s for s in first if s.startswith("s"))
    where = ", ".join(f"{s} = in0.{first.index(s)}" for s in symbols)
    ordered = sorted(params, key=lambda p: p.startswith("out "))
    head = f"kernel random({', '.join(ordered)})" + (f" where {where}" if where else "")
    nest = ", ".join(f"{a}: {n}" for a, n in axes)
    return "\n".join([head, f"nest n0 [{nest}]", *lines, ""])


@st.composite
def pointwise_kernels(draw):
    """(text, sizes): broadcasts over up to four axes, all types and ops that have instructions, up to four stores."""
    text = _Builder(draw).text()
    small = st.sampled_from((0, 1, 2, 3, 5, 8, 16, 33, 100))
    sizes = draw(st.lists(st.tuples(small, small, small), min_size=3, max_size=3))
    return text, [dict(zip(("s0", "s1", "s2"), s)) for s in sizes]
