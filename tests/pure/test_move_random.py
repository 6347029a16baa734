"""Random graphs of elementwise ops, views, movement and reductions: fusing never raises and never changes a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from ge_build import GraphBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from move_build import cat, padded, reshaped, sliced, split, turned, unbound
from plan_build import Array, check_values, fused, graph_of, run_nodes

from torchair_autofuse.dtypes import F16, F32, DType

Tensor = tuple[str, tuple[int, ...]]
MOST = 160  # elements of a tensor


@dataclass
class _Random:
    """A graph under construction. Values are small integers, so that every order of summation gives the same."""

    draw: st.DrawFn
    b: GraphBuilder = field(default_factory=GraphBuilder)
    tensors: list[Tensor] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)

    def inputs(self, dtype: DType) -> None:
        for i in range(self.draw(st.integers(1, 3))):
            shape = tuple(self.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3)))
            self.tensors.append((self.b.data(shape, dtype), shape))
            self.arrays.append(np.random.default_rng(i).integers(-4, 5, shape).astype(dtype.numpy))

    def pick(self) -> Tensor:
        """Any tensor, more often a late one."""
        late = self.draw(st.booleans())
        return self.draw(st.sampled_from(self.tensors[-4:] if late else self.tensors))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def add(self, text: str, shape: tuple[int, ...]) -> None:
        self.tensors.append((text, shape))

    # ---- ops ----------------------------------------------------------------------------------------------------

    def unary(self) -> None:
        x, shape = self.pick()
        self.add(self.b.op(self.draw(st.sampled_from(["Neg", "Abs", "Relu"])), x), shape)

    def binary(self) -> None:
        (x, a), (y, c) = self.pick(), self.pick()
        try:
            shape = np.broadcast_shapes(a, c)
        except ValueError:
            y, shape = x, a
        if int(np.prod(shape)) <= MOST and len(shape) <= 3:
            self.add(self.b.op(self.draw(st.sampled_from(["Add", "Sub", "Maximum"])), x, y), shape)

    def twins(self) -> None:
        """Of tensors of one shape, which slices and splits make."""
        x, shape = self.pick()
        y = self.draw(st.sampled_from([t for t, s in self.tensors if s == shape]))
        self.add(self.b.op("Sub", x, y), shape)

    def reshape(self) -> None:
        x, shape = self.pick()
        dims, rest = [], int(np.prod(shape))
        while rest > 1 and len(dims) < 2:
            dims.append(self.draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
            rest //= dims[-1]
        made = (*dims, rest)
        self.add(reshaped(self.b, x, made), made)

    def transpose(self) -> None:
        x, shape = self.pick()
        perm = self.draw(st.permutations(range(len(shape))))
        self.add(turned(self.b, x, perm), tuple(shape[p] for p in perm))

    def slice(self) -> None:
        x, shape = self.pick()
        at = self.number(0, len(shape) - 1)
        begin = self.number(0, shape[at] - 1)
        end, step = self.number(begin + 1, shape[at]), self.draw(st.sampled_from([1, 1, 1, 2]))
        made = len(range(begin, end, step))
        self.add(sliced(self.b, x, at, begin, end, step), (*shape[:at], made, *shape[at + 1 :]))

    def split(self) -> None:
        x, shape = self.pick()
        at = self.number(0, len(shape) - 1)
        if shape[at] == 1:
            return
        size = self.number(1, shape[at] - 1)
        sizes = [size, shape[at] - size] if shape[at] % 2 or self.number(0, 1) else [shape[at] // 2] * 2
        for text, n in zip(split(self.b, x, sizes, at), sizes):
            self.add(text, (*shape[:at], n, *shape[at + 1 :]))

    def unpack(self) -> None:
        x, shape = self.pick()
        at = self.number(0, len(shape) - 1)
        if len(shape) > 1:
            for text in unbound(self.b, x, shape[at], at):
                self.add(text, (*shape[:at], *shape[at + 1 :]))

    def concat(self) -> None:
        x, shape = self.pick()
        at = self.number(0, len(shape) - 1)
        fits = [
            (t, s) for t, s in self.tensors
            if len(s) == len(shape) and s[:at] == shape[:at] and s[at + 1 :] == shape[at + 1 :]
        ]  # fmt: skip
        parts = [(x, shape), *(self.draw(st.sampled_from(fits)) for _ in range(self.number(1, 2)))]
        made = (*shape[:at], sum(s[at] for _, s in parts), *shape[at + 1 :])
        if int(np.prod(made)) <= MOST:
            self.add(cat(self.b, [t for t, _ in parts], at), made)

    def pack(self) -> None:
        x, shape = self.pick()
        at = self.number(0, len(shape))
        y = self.draw(st.sampled_from([t for t, s in self.tensors if s == shape]))
        if len(shape) < 3 and int(np.prod(shape)) * 2 <= MOST:
            self.add(self.b.op("Pack", x, y, axis=at, N=2), (*shape[:at], 2, *shape[at:]))

    def pad(self) -> None:
        x, shape = self.pick()
        pairs = [(self.number(0, 2), self.number(0, 1)) for _ in shape]
        made = tuple(a + d + c for d, (a, c) in zip(shape, pairs))
        if int(np.prod(made)) <= MOST:
            self.add(padded(self.b, x, pairs), made)

    def reduce(self) -> None:
        x, shape = self.pick()
        at, keep = self.number(0, len(shape) - 1), self.draw(st.booleans())
        if keep or len(shape) > 1:
            kind = self.draw(st.sampled_from(["ReduceSum", "ReduceMax"]))
            made = (*shape[:at], *([1] if keep else []), *shape[at + 1 :])
            self.add(self.b.op(kind, x, self.b.const([at]), keep_dims=keep), made)

    def finish(self) -> None:
        """All that nothing reads is a result, and some other tensors."""
        made = [t for t, _ in self.tensors[len(self.arrays) :]]
        read = {text for op in self.b.graph.op for text in op.input}
        ends = [t for t in made if t not in read or self.number(0, 7) == 0]
        self.b.output(*(dict.fromkeys(ends or made) or [self.b.op("Neg", self.tensors[0][0])]))


KINDS: tuple[Callable[[_Random], None], ...] = (
    *(_Random.unary, _Random.binary, _Random.binary, _Random.twins, _Random.twins, _Random.reshape, _Random.transpose),
    *(_Random.slice, _Random.slice, _Random.split, _Random.unpack, _Random.concat, _Random.concat, _Random.pack),
    *(_Random.pad, _Random.reduce),
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_fusing_changes_no_value(data: st.DataObject) -> None:
    made = _Random(data.draw)
    made.inputs(data.draw(st.sampled_from([F32, F16])))
    for _ in range(data.draw(st.integers(4, 14))):
        data.draw(st.sampled_from(KINDS))(made)
    made.finish()
    result = fused(made.b, precision="strict")
    graph = graph_of(made.b)
    values = run_nodes(graph, made.arrays)
    for fused_op in result.generated:
        check_values(graph, fused_op.lowered, values, ulps=1)
