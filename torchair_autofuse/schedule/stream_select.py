"""Instruction selection for nests that stream over what they reduce: passes over tiles, accumulators in between.

The tile has a *kept* axis, along which every reduction keeps its results, and a streamed one. A pass is a loop over
the tiles of the streamed axes; what a reduction gives is known after its pass, and later passes compute again from
global memory what they need over the full tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchair_autofuse.dtypes import BOOL
from torchair_autofuse.loop.ir import (
    Cast,
    Const,
    Iota,
    Load,
    Nest,
    Pointwise,
    Reduce,
    Store,
    Value,
    arguments,
    defined_names,
)
from torchair_autofuse.schedule import isa
from torchair_autofuse.schedule.emit import Unstreamable
from torchair_autofuse.schedule.program import Layout, Program, Segment, Transfer
from torchair_autofuse.schedule.select import Selector

LEVELS = 4  # sums keep this many partial sums: tile i of a pass is added like a carry, so errors grow with log(tiles)
LOWEST = "-3.40282347e+38f"  # lowest finite: exp(-inf - lowest) is 0, where exp(-inf - -inf) would be NaN


class StreamSelector(Selector):
    """Selects one nest. ``rows``, ``cols``: the tile's axes; ``streamed``: names of all reduced axes.

    ``shared``: several cores have a part of every pass; they exchange the results of its reductions after it.
    """

    def __init__(self, nest: Nest, rows: str, cols: str, streamed: frozenset[str], *, shared: bool = False) -> None:
        super().__init__(nest, rows, cols)
        self._shared = shared
        self._streamed = streamed
        self._kept = Layout.COL if cols in streamed else Layout.ROW
        self._loads, self._stores, self._instrs = [[]], [[]], [[]]
        self._names, self._loops = ["begin"], [False]
        self._current = 0
        self._lasting: dict[str, int] = {}  # results of reductions and what follows from them alone
        self._level = _levels(nest)
        self._pending: list[list[int]] = []  # levels of sums whose pass is not over
        self._sent: dict[str, int] = {}  # results of the last pass -> their numbers in workspace

    def _home(self, layout: Layout) -> int:
        return self._current

    def _cached(self, key: tuple[object, ...], make: Callable[[], int]) -> int:
        return super()._cached((self._current, *key), make)

    # ---- the whole nest -----------------------------------------------------------------------------------------

    def program(self) -> Program:
        """All passes. Raises Unstreamable for what they cannot express."""
        for value in self._nest.values:
            if isinstance(value, Const):
                self._consts[value.name] = value
            elif isinstance(value, Iota):
                self._sizes[value.name] = value.offset
        last = max(self._level.values(), default=0)
        for store in self._nest.stores:
            over = self._streamed & {a for a, _ in store.strides}
            if over and (over != self._streamed or self._store_layout(store) != Layout.FULL):
                raise Unstreamable(f"{store.param} varies over reduced axes, but not over all axes of a tile")
        stores = [(s, self._store_layout(s)) for s in self._nest.stores]
        for level in range(last + 1):
            reductions = [v for v in self._nest.values if isinstance(v, Reduce) and self._level[v.args[0]] == level]
            tiles = [s for s, layout in stores if layout == Layout.FULL and self._level[s.value] == level]
            if reductions or tiles:
                self._pass(level, reductions, tiles)
            kept = [s for s, layout in stores if layout != Layout.FULL and self._level[s.value] == level + 1]
            kept += [s for s, layout in stores if layout != Layout.FULL and self._level[s.value] == 0 and level == last]
            self._after(level, reductions, kept)
        segments = tuple(
            Segment(name, loop, tuple(ld), tuple(ins), tuple(st))
            for name, loop, ld, ins, st in zip(self._names, self._loops, self._loads, self._instrs, self._stores)
        )
        return Program(tuple(self._bufs), segments)

    def _store_layout(self, store: Store) -> Layout:
        return self.layout([a for a, _ in store.strides])

    def _open(self, name: str, *, loop: bool) -> None:
        self._names.append(name)
        self._loops.append(loop)
        for lists in (self._loads, self._stores, self._instrs):
            lists.append([])
        self._current = len(self._names) - 1
        self._at, self._bits = dict(self._lasting), {}

    def _pass(self, level: int, reductions: Sequence[Reduce], tiles: Sequence[Store]) -> None:
        self._open(f"pass{level}", loop=True)
        wanted = [v.args[0] for v in reductions] + [s.value for s in tiles]
        self._compute(wanted)
        for value in reductions:
            self._origin = ", ".join(value.origin)
            self._accumulate(value)
        for store in tiles:
            self._origin = ", ".join(store.origin)
            self._store(store)

    def _after(self, level: int, reductions: Sequence[Reduce], stores: Sequence[Store]) -> None:
        """What follows from the reductions of a pass alone: computed once per block, kept for later passes."""
        follow = [
            n
            for v in self._nest.values
            if not isinstance(v, (Reduce, Const, Iota, Load))
            for n in defined_names(v)
            if self._level[n] == level + 1 and not self._streamed & set(self._nest.domains[n])
        ]
        if not (reductions or stores):
            return
        if self._shared and reductions:
            self._send(level, reductions)
        self._open(f"finish{level}", loop=False)
        for value in reductions:
            self._origin = ", ".join(value.origin)
            if self._shared:
                self._receive(value)
            else:
                self._settle(value)
        self._compute([*follow, *(s.value for s in stores)])
        for n in follow:
            if n in self._bits:
                self._at[n] = self._half(n, self.layout(self._nest.domains[n]))
            self._last(n, self._at[n])
        for store in stores:
            self._origin = ", ".join(store.origin)
            self._store(store)

    def _compute(self, wanted: Sequence[str]) -> None:
        """Emits into the open segment what the wanted values need and is not there."""
        needed: set[str] = set()
        stack = list(wanted)
        while stack:
            name = stack.pop()
            if name in needed or name in self._at or name in self._consts or name in self._sizes:
                continue
            needed.add(name)
            value = self._nest.defs[name]
            if isinstance(value, Reduce):
                raise Unstreamable(f"{name} is needed before its pass is over")
            stack.extend(arguments(value))
        for value in self._nest.values:
            if needed & set(defined_names(value)):
                self._emit_value(value)

    def _emit_value(self, value: Value) -> None:
        self._origin = ", ".join(value.origin)
        if isinstance(value, Load):
            self._load(value)
        elif isinstance(value, Cast):
            self._cast(value)
        elif isinstance(value, Pointwise):
            self._pointwise(value)

    def _store(self, store: Store) -> None:
        """A kept value that is stored may be needed after that: its queue buffer gets a copy."""
        layout = self._store_layout(store)
        value = store.value
        lasts = value in self._lasting and self._nest.dtypes[value] != BOOL
        dense = self._lanes_of(store) is None
        if dense and layout != Layout.FULL and lasts and self._bufs[self._at[value]].layout == layout:
            buf = self._copy(self._at[value], layout)
            self._out.add(buf)
            self._send_out(buf, Transfer(buf, store.param, store.strides, store.offset))
        else:
            super()._store(store)

    def _copy(self, buf: int, layout: Layout) -> int:
        return self._emit("DataCopy", self._bufs[buf].cpp, layout, [buf], in_place=False)

    # ---- reductions ---------------------------------------------------------------------------------------------

    def _begin(self, text: str, cpp: str = "float") -> int:
        """An accumulator that every block starts with ``text``."""
        current, self._current = self._current, 0
        buf = self._fill(cpp, text, self._kept)
        self._current = current
        return buf

    def _into(self, api: str, dst: int, srcs: Sequence[int], **more: object) -> None:
        self._instrs[self._current].append(self._instr(api, dst, srcs, **more))

    def _partial(self, combiner: str, x: int) -> int:
        """One value per kept index of a tile."""
        return self._fold(combiner, x, self._kept)

    def _accumulate(self, value: Reduce) -> None:
        domain = self._nest.domains[value.args[0]]
        if self.layout(domain) != Layout.FULL:
            raise Unstreamable(f"{value.args[0]} does not vary over both axes of a tile")
        missing = [a.name for a in self._nest.axes if a.name in value.axes and a.name not in domain]
        if missing:
            raise Unstreamable(f"{value.args[0]} does not vary over {', '.join(missing)}")
        x = self._folded(value.args[0], Layout.FULL)
        names, cpp = value.names, self._bufs[x].cpp
        if value.combiner == "sum" and cpp == "float":
            levels = [self._begin("0.0f") for _ in range(LEVELS)]
            partial = self._partial("sum", x)
            self._into("AddTile", partial, [partial, *levels], form="carry", updates=tuple(levels))
            self._lasting[names[0]] = -1 - len(self._pending)
            self._pending.append(levels)
        elif (value.combiner, cpp) in isa.IDENTITY:
            acc = self._begin(isa.IDENTITY[value.combiner, cpp], cpp)
            self._into(isa.REDUCE[value.combiner][0], acc, [acc, self._partial(value.combiner, x)])
            self._lasting[names[0]] = acc
        elif value.combiner == "maxsumexp":
            self._online(names, x)
        else:
            raise Unstreamable(f"no passes for {value.combiner}")

    def _online(self, names: tuple[str, ...], x: int) -> None:
        """Running maximum m and sum s of exp(x - m); when m grows, s shrinks by exp(old - new)."""
        m, s = self._begin("-__builtin_inff()"), self._begin("0.0f")
        kept = self._kept
        new = self._emit("Max", "float", kept, [m, self._partial("max", x)])
        finite, old = (self._emit("Maxs", "float", kept, [b], scalars=(LOWEST,), in_place=False) for b in (new, m))
        shifted = self._emit("Sub", "float", Layout.FULL, [x, self._spread(finite)], form="tile")
        e = self._emit("Exp", "float", Layout.FULL, [shifted], cost="transcendental")
        shrink = self._emit("Sub", "float", kept, [old, finite])
        shrink = self._emit("Exp", "float", kept, [shrink], cost="transcendental")
        total = self._partial("sum", e)
        self._into("Mul", s, [s, shrink])
        self._into("Add", s, [s, total])
        self._into("Max", m, [m, new])
        self._lasting[names[0]], self._lasting[names[1]] = m, s

    def _settle(self, value: Reduce) -> None:
        """The result of a reduction after its pass."""
        known = self._lasting[value.names[0]]
        if known < 0:
            levels = self._pending[-1 - known]
            total = self._emit("AddLevels", "float", self._kept, levels, form="levels", in_place=False)
            self._lasting[value.names[0]] = total
        for n in value.names:
            self._last(n, self._lasting[n])

    def _last(self, name: str, buf: int) -> None:
        """Binds a value that stays for the segments to come; a bool one as half."""
        self._lasting[name] = self._at[name] = buf
        if self._nest.dtypes[name] == BOOL:
            self._halves[name] = buf

    # ---- results whose parts are on several cores ----------------------------------------------------------------

    def _send(self, level: int, reductions: Sequence[Reduce]) -> None:
        """Leaves what this core has of the results in workspace."""
        self._open(f"send{level}", loop=False)
        self._sent = {}
        for value in reductions:
            self._origin = ", ".join(value.origin)
            self._settle(value)
            for n in value.names:
                number = self._sent[n] = len(self._sent)
                part = self._bufs[self._lasting[n]]
                source = part.id if part.itemsize == 4 else self._recast(part.id, "float", "NONE")
                send = self._instr("DataCopy", -1, [source], form="send", scalars=(str(number),))
                self._instrs[self._current].append(send)

    def _receive(self, value: Reduce) -> None:
        """The results of all parts."""
        combiner = "max" if value.combiner == "maxsumexp" else value.combiner
        numbers = tuple(str(self._sent[n]) for n in value.names)
        cpp = self._bufs[self._lasting[value.names[0]]].cpp
        api, sent = isa.REDUCE[combiner][0], "int32_t" if cpp == "int32_t" else "float"
        found = [self._emit(api, sent, self._kept, [], form="receive", scalars=numbers[:1])]
        if value.combiner == "maxsumexp":
            finite = self._emit("Maxs", "float", self._kept, found, scalars=(LOWEST,), in_place=False)
            found.append(
                self._emit("Add", "float", self._kept, [finite], form="receive", scalars=numbers, in_place=False)
            )
        for n, buf in zip(value.names, found):
            self._last(n, buf if cpp == sent else self._recast(buf, cpp, "RINT"))

    def _recast(self, buf: int, cpp: str, mode: str) -> int:
        return self._emit("Cast", cpp, self._kept, [buf], scalars=(f"RoundMode::CAST_{mode}",), in_place=False)


def _levels(nest: Nest) -> dict[str, int]:
    """SSA name -> number of passes that have to be over before it is known."""
    found: dict[str, int] = {}
    for v in nest.values:
        level = max((found[a] for a in arguments(v)), default=0) + isinstance(v, Reduce)
        found.update((n, level) for n in defined_names(v))
    return found
