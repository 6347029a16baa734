"""Random valid kernels for property tests, and inputs for them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import BF16, BOOL, F16, F32, I8, I32, I64, U8
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.interpret import bind
from torchair_autofuse.loop.ir import (
    Axis,
    Cast,
    Const,
    Index,
    Iota,
    Kernel,
    Load,
    Nest,
    Param,
    Pointwise,
    Reduce,
    Store,
    Symbol,
)
from torchair_autofuse.loop.ops import COMBINERS, POINTWISE

S = [expr.symbol(f"s{i}") for i in range(3)]
SIZES = [1, 2, 3, 5, S[0], S[1], expr.mul(2, S[2])]
TYPES = [F32, F32, F16, BF16, I32, I64, U8, I8, BOOL]
CONSTANTS = [0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), float("nan"), 1e-3]


class _Builder:
    def __init__(self, draw):
        self.draw = draw
        self.inputs, self.outputs, self.nests = [], [], []
        self.symbols = {}

    def pick(self, items):
        return self.draw(st.sampled_from(list(items)))

    def chance(self, percent=50):
        return self.draw(st.integers(0, 99)) < percent

    def add_input(self, dtype, dims):
        name = f"x{len(self.inputs)}"
        for i, d in enumerate(dims):
            for s in expr.free_symbols(d):
                divisor = expr.quotient(d, expr.symbol(s))  # a dim with padding is no source
                if isinstance(divisor, int):
                    self.symbols.setdefault(s, Symbol(s, name, i, divisor))
        self.inputs.append(Param(name, dtype, tuple(dims), "input"))
        return name

    def nest(self):
        self.axes = [Axis(f"i{k}", self.pick(SIZES)) for k in range(self.draw(st.integers(0, 3)))]
        self.values, self.domain, self.types = [], {}, {}
        self.load(F32, self.axes, padded=False)  # gives every symbol a source
        for _ in range(self.draw(st.integers(1, 3))):
            axes = self.draw(st.permutations(self.axes))[: self.draw(st.integers(0, len(self.axes)))]
            self.load(self.pick(TYPES), axes, padded=self.chance(30))
        for _ in range(self.draw(st.integers(2, 9))):
            self.pick([self.op, self.op, self.op, self.cast, self.const, self.iota, self.reduce, self.lookup])()
        stores = []
        for _ in range(self.draw(st.integers(1, 3))):
            stores += self.store()
        name = f"n{len(self.nests)}"
        self.nests.append(Nest(name, tuple(self.axes), tuple(self.values), tuple(stores)))

    def define(self, value, names, types, domain):
        self.values.append(value)
        for n, t in zip(names, types):
            self.types[n], self.domain[n] = t, domain

    def fresh(self):
        return f"v{len(self.types)}"

    def place(self, axes, padded):
        """(dims, strides in nest order, offset) of a tensor with one dim per axis, perhaps wider than the axis."""
        pads = [self.draw(st.integers(0, 2)) if padded else 0 for _ in axes]
        dims = [expr.add(a.size, p) for a, p in zip(axes, pads)]
        strides, offset, pitch = {}, 0, 1
        for a, p, d in reversed(list(zip(axes, pads, dims))):
            strides[a.name] = pitch
            offset = expr.add(offset, expr.mul(pitch, self.draw(st.integers(0, p))))
            pitch = expr.mul(pitch, d)
        return dims, tuple((a.name, strides[a.name]) for a in self.axes if a.name in strides), offset

    def load(self, dtype, axes, padded):
        dims, strides, offset = self.place(axes, padded)
        param, name = self.add_input(dtype, dims), self.fresh()
        domain = frozenset(a.name for a in axes)
        origin = ("Data_1",) if self.chance() else ('a "b", c', "Add")
        self.define(Load(name, param, strides, offset, dtype, origin=origin), [name], [dtype], domain)
        if dtype in (F16, BF16):
            self.define(Cast(self.fresh(), name, F32), [self.fresh()], [F32], domain)

    def lookup(self):
        """Rows of a table looked up by a value that is known to be one of them."""
        if not self.axes:
            return
        by = self.pick(self.axes)
        axes = self.draw(st.permutations(self.axes))[: self.draw(st.integers(0, len(self.axes)))]
        dims, strides, offset = self.place(axes, padded=False)
        row, domain = self.fresh(), frozenset({by.name, *(a.name for a in axes)})
        self.define(Iota(row, ((by.name, 1),), 0, I32), [row], [I32], frozenset({by.name}))
        index = Index(row, expr.product(dims), by.size, self.chance())
        param, name = self.add_input(I32, [by.size, *dims]), self.fresh()
        self.define(Load(name, param, strides, offset, I32, (index,)), [name], [I32], domain)

    def of_type(self, dtype):
        return [n for n, t in self.types.items() if t == dtype]

    def op(self):
        op = self.pick(POINTWISE.values())
        pool = {t for t in self.types.values() if t.kind in op.kinds and (t == F32 or not t.is_float)}
        if op.name == "select":
            pool = set(self.types.values())
        if not pool or (op.name == "select" and not self.of_type(BOOL)):
            return
        dtype = self.pick(sorted(pool, key=str))
        args = [self.pick(self.of_type(dtype)) for _ in range(op.arity)]
        if op.name == "select":
            args[0] = self.pick(self.of_type(BOOL))
        result, name = BOOL if op.result == "bool" else dtype, self.fresh()
        domain = frozenset().union(*(self.domain[a] for a in args))
        self.define(Pointwise(name, op.name, tuple(args), result), [name], [result], domain)

    def cast(self):
        arg, dtype, name = self.pick(self.types), self.pick(TYPES), self.fresh()
        both = self.types[arg].is_float and dtype.is_float
        mode = "rint" if both else self.pick(["rint", "trunc", "floor", "ceil", "round"])
        self.define(Cast(name, arg, dtype, mode), [name], [dtype], self.domain[arg])

    def const(self):
        dtype, name = self.pick([F32, F16, I32, U8, BOOL]), self.fresh()
        if dtype.is_float:
            value = float(dtype.numpy.type(self.pick(CONSTANTS)))
        else:
            value = self.chance() if dtype == BOOL else self.draw(st.integers(0, 100))
        self.define(Const(name, value, dtype), [name], [dtype], frozenset())

    def iota(self):
        axes = [a for a in self.axes if self.chance()]
        strides = tuple((a.name, self.pick([1, -1, 4, S[0] if "s0" in self.symbols else 7])) for a in axes)
        name, offset = self.fresh(), self.draw(st.integers(-3, 3))
        self.define(Iota(name, strides, offset, I32), [name], [I32], frozenset(a.name for a in axes))

    def reduce(self):
        c = self.pick(COMBINERS.values())
        pool = [
            n for n, t in self.types.items() if t.kind in c.kinds and (t == F32 or not t.is_float) and self.domain[n]
        ]
        if not pool:
            return
        arg = self.pick(pool)
        axes = tuple(a.name for a in self.axes if a.name in self.domain[arg])
        axes = axes[self.draw(st.integers(0, len(axes) - 1)) :]
        dtype, n = self.types[arg], len(self.types)
        types = (dtype, I32) if c.name == "argmax" else (dtype,) * c.results
        names = tuple(f"v{n + i}" for i in range(c.results))
        self.define(Reduce(names, c.name, (arg,), axes, types), names, types, self.domain[arg] - set(axes))

    def store(self):
        value = self.pick(self.types)
        wide = self.chance(25)  # broadcast over axes the value does not vary along
        axes = [a for a in self.axes if wide or a.name in self.domain[value]]
        if self.chance(25):
            axes = self.draw(st.permutations(axes))
        dims, strides, offset = self.place(axes, padded=self.chance(20))
        param = f"y{len(self.outputs)}"
        stores = [Store(param, strides, offset, value, origin=("Out",))]
        if self.chance(25):  # a second store to another slice of a new outermost dim
            step = expr.product(dims)
            stores.append(Store(param, strides, expr.add(offset, step), self.pick(self.of_domain(value)), origin=()))
            dims = [2, *dims]
        self.outputs.append(Param(param, self.types[value], tuple(dims), "output"))
        return stores

    def of_domain(self, value):
        return [n for n in self.of_type(self.types[value]) if self.domain[n] <= self.domain[value]]


@st.composite
def kernels(draw):
    """A kernel that passes verify: broadcasts, views, casts, reductions, several stores and nests."""
    b = _Builder(draw)
    for _ in range(draw(st.integers(1, 2))):
        b.nest()
    return Kernel("k", tuple(b.inputs + b.outputs), tuple(b.symbols.values()), tuple(b.nests))


def random_inputs(kernel, seed, sizes=(0, 1, 2, 3, 4)):
    """Arrays for the inputs: symbols drawn from ``sizes``, floats with some special values among them."""
    rng = np.random.default_rng(seed)
    values = {s.name: int(rng.choice(sizes)) for s in kernel.symbols}
    arrays = {}
    for p in kernel.inputs:
        shape = tuple(expr.evaluate(d, values) for d in p.dims)
        if p.dtype.is_float:
            a = rng.standard_normal(shape) * 3
            special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30], size=shape)
            a = np.where(rng.random(shape) < 0.1, special, a)
        else:
            a = rng.integers(0 if p.dtype.kind != "int" else -50, 2 if p.dtype == dtypes.BOOL else 50, size=shape)
        with np.errstate(all="ignore"):
            arrays[p.name] = np.asarray(a).astype(p.dtype.numpy)
    assert bind(kernel, {n: a.shape for n, a in arrays.items()}) == values
    return arrays


def assert_same(a, b):
    """Equal names, dtypes and values bit for bit, but that any NaN equals any NaN."""
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
        x, y = a[name], b[name]
        if x.dtype.kind not in "biu":
            nan = np.isnan(x) & np.isnan(y)
            zero = np.zeros((), x.dtype)
            x, y = np.where(nan, zero, x), np.where(nan, zero, y)
        assert x.tobytes() == y.tobytes(), name
