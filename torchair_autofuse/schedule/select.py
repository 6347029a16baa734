"""Instruction selection: the values of a pointwise nest as vector instructions over virtual buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchair_autofuse.dtypes import BOOL, F32, I32, DType
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Cast, Const, Load, Nest, Pointwise, Reduce, Store, Value
from torchair_autofuse.schedule import isa
from torchair_autofuse.schedule.emit import EXACT
from torchair_autofuse.schedule.lanes import LaneSelector
from torchair_autofuse.schedule.literals import literal
from torchair_autofuse.schedule.program import Layout, Program, Segment, Transfer
from torchair_autofuse.schedule.sizes import size_text

_SPREAD = {Layout.COL: Layout.COLB, Layout.ONE: Layout.ONEB}


class Selector(LaneSelector):
    """Selects instructions for one nest whose tile has the axes ``rows`` (None: a flat tile) and ``cols``."""

    def __init__(self, nest: Nest, rows: str | None, cols: str | None) -> None:
        super().__init__(nest, rows, cols)
        self._at: dict[str, int] = {}  # SSA name -> buffer of a numeric value
        self._bits: dict[str, int] = {}  # SSA name -> buffer of a bool value's bit mask
        self._halves: dict[str, int] = {}  # SSA name -> buffer of a loaded bool as half 0 or 1
        self._consts: dict[str, Const] = {}
        self._sizes: dict[str, Expr] = {}  # SSA name -> a count known on the host, as i32 or f32
        self._out: set[int] = set()

    def program(self) -> Program:
        """The whole nest. Raises KeyError or ValueError for what schedule.isa does not list (legality comes first)."""
        for value in self._nest.values:
            self._enter(value)
            if isinstance(value, Const):
                self._consts[value.name] = value
            elif isinstance(value, Load):
                self._load(value)
            elif isinstance(value, Cast):
                self._cast(value)
            elif isinstance(value, Pointwise):
                self._pointwise(value)
            elif isinstance(value, Reduce):
                self._reduce(value)
            elif value.strides:
                raise ValueError(f"{value.name}: an iota that varies has no instructions yet")
            else:
                self._sizes[value.name] = value.offset
        for store in self._nest.stores:
            self._enter(store)
            self._store(store)
        return self._finish(("panel", "tile"), (False, True))

    def _enter(self, item: Value | Store) -> None:
        """What follows is for a value or store of the nest."""
        self._origin = ", ".join(item.origin)

    def _finish(self, names: Sequence[str], loops: Sequence[bool]) -> Program:
        parts = zip(names, loops, self._loads, self._instrs, self._stores)
        segments = (
            Segment(name, loop, tuple(ld), tuple(ins), tuple(st), keeps=not loop) for name, loop, ld, ins, st in parts
        )
        return Program(tuple(self._bufs), tuple(segments))

    # ---- loads, stores ------------------------------------------------------------------------------------------

    def _load(self, load: Load) -> None:
        if self._is_index(load):
            return  # see _index
        layout = self.layout(self._nest.domains[load.name])
        if self._lanes_of(load) is not None:
            (self._halves if load.dtype == BOOL else self._at)[load.name] = self._pick(load, layout)
            return
        buf = self._new(load.dtype.cpp, layout, "in")
        moved = Transfer(
            buf,
            load.param,
            load.strides,
            load.offset,
            lookups=self._lookups(load),
            single=self._single(load.strides, layout),
        )
        self._loads[self._bufs[buf].segment].append(moved)
        if load.dtype == BOOL:
            half = self._emit("Cast", "half", layout, [buf], scalars=EXACT, in_place=False)
            self._halves[load.name] = half
        else:
            self._at[load.name] = buf

    def _is_index(self, load: Load) -> bool:
        """Whether rows are looked up by a load, and nothing else is done with it."""
        users = self._nest.users[load.name]
        return bool(users) and all(isinstance(u, Load) for u in users)

    def _store(self, store: Store) -> None:
        layout = self.layout([a for a, _ in store.strides])
        dtype = self._nest.dtypes[store.value]
        if self._lanes_of(store) is not None:
            self._interleave(
                store, self._half(store.value, layout) if dtype == BOOL else self._in_layout(store.value, layout)
            )
            return
        if dtype == BOOL:
            ones = self._half(store.value, layout)
            buf = self._emit("Cast", "uint8_t", layout, [ones], scalars=EXACT, in_place=False)
        else:
            buf = self._in_layout(store.value, layout)
            b = self._bufs[buf]
            later = (i for instrs in self._instrs[b.segment + 1 :] for i in instrs)
            read_later = any(buf in i.srcs for i in later)  # a queue buffer is gone once stored
            if buf in self._out or b.kind == "in" or read_later:
                buf = self._emit("DataCopy", dtype.cpp, layout, [buf], in_place=False)
        self._out.add(buf)
        self._send_out(buf, Transfer(buf, store.param, store.strides, store.offset))

    # ---- layouts ------------------------------------------------------------------------------------------------

    def _spread(self, buf: int) -> int:
        """A COL or ONE buffer with every value filling one 32-byte block; others as they are."""
        b = self._bufs[buf]
        if b.layout not in _SPREAD:
            return buf
        layout = _SPREAD[b.layout]
        return self._cached(
            ("spread", buf), lambda: self._emit("Brcb", b.cpp, layout, [buf], form="brcb", in_place=False)
        )

    def _in_layout(self, name: str, layout: Layout) -> int:
        """The numeric value written out in ``layout``."""
        if name in self._consts or name in self._sizes:
            return self._operand(name, layout)
        return self._expand(self._at[name], layout)

    def _expand(self, buf: int, layout: Layout) -> int:
        if self._bufs[buf].layout == layout:
            return buf
        return self._cached(
            ("expand", buf, layout),
            lambda: self._emit("Copy", self._bufs[buf].cpp, layout, [self._spread(buf)], form="expand", in_place=False),
        )

    def _operand(self, name: str, layout: Layout) -> int:
        """The numeric value in its own layout, or a constant written out in ``layout``."""
        if name in self._sizes:
            dtype = self._nest.dtypes[name]
            text = f"static_cast<{dtype.cpp}>({size_text(self._nest, self._sizes[name])})"
            return self._fill(dtype.cpp, text, layout)
        return self._at[name] if name in self._at else self._duplicate(self._consts[name], layout)

    def _duplicate(self, const: Const, layout: Layout) -> int:
        filled, mode = isa.FILLS[const.dtype]
        buf = self._fill(filled.cpp, literal(const.value, filled), layout)
        if not mode:
            return buf
        round_mode = f"RoundMode::CAST_{mode}"
        return self._emit("Cast", const.dtype.cpp, layout, [buf], scalars=(round_mode,), in_place=False)

    def _fill(self, cpp: str, text: str, layout: Layout) -> int:
        # filled again for every use: keeping a constant in UB for the whole tile costs more than the instruction
        return self._emit("Duplicate", cpp, layout, [], scalars=(text,))

    # ---- casts --------------------------------------------------------------------------------------------------

    def _cast(self, cast: Cast) -> None:
        if cast.arg in self._sizes and cast.dtype == F32:
            self._sizes[cast.name] = self._sizes[cast.arg]
            return
        source = self._nest.dtypes[cast.arg]
        layout = self.layout(self._nest.domains[cast.arg])
        if cast.dtype == BOOL:
            self._bits[cast.name] = self._to_bits(cast.arg, source, layout)
            return
        if source == BOOL:
            self._at[cast.name] = self._from_bits(cast.arg, cast.dtype, layout)
            return
        chain = isa.cast_chain(source, cast.dtype)
        if chain is None:
            raise KeyError(f"cast {source} to {cast.dtype}")
        buf = self._in_layout(cast.arg, layout)
        for cpp, mode in chain:
            round_mode = f"RoundMode::CAST_{mode or cast.mode.upper()}"
            buf = self._emit("Cast", cpp, layout, [buf], scalars=(round_mode,), in_place=False)
        self._at[cast.name] = buf

    def _to_bits(self, arg: str, source: DType, layout: Layout) -> int:
        buf = self._in_layout(arg, layout)
        if source == I32:
            equal = self._compare_scalar(buf, "eq", "0", layout)
            return self._bitwise("Not", [equal], layout)
        while self._bufs[buf].cpp not in ("float", "half"):
            step = {"int64_t": ("float", "RINT"), "int16_t": ("float", "NONE")}.get(
                self._bufs[buf].cpp, ("half", "NONE")
            )
            buf = self._emit("Cast", step[0], layout, [buf], scalars=(f"RoundMode::CAST_{step[1]}",), in_place=False)
        zero = "0.0f" if self._bufs[buf].cpp == "float" else "(half)0"
        return self._compare_scalar(buf, "ne", zero, layout)

    def _from_bits(self, arg: str, target: DType, layout: Layout) -> int:
        if target.itemsize == 1:
            half = self._half(arg, layout)
            return self._emit("Cast", target.cpp, layout, [half], scalars=EXACT, in_place=False)
        if arg in self._halves and target in (F32, I32):
            mode = "NONE" if target == F32 else "TRUNC"
            half = self._half(arg, layout)
            return self._emit("Cast", target.cpp, layout, [half], scalars=(f"RoundMode::CAST_{mode}",), in_place=False)
        ones = self._fill("float", "1.0f", layout)
        buf = self._select_scalar(self._mask(arg, layout), ones, "0.0f", layout)
        if target in (F32,):
            return buf
        return self._emit("Cast", target.cpp, layout, [buf], scalars=("RoundMode::CAST_TRUNC",), in_place=False)

    # ---- bool ---------------------------------------------------------------------------------------------------

    def _half(self, name: str, layout: Layout) -> int:
        """A bool value as half 0 or 1 in ``layout``."""
        if name in self._consts:
            return self._fill("half", "(half)1" if self._consts[name].value else "(half)0", layout)
        if name in self._halves:
            return self._expand(self._halves[name], layout)
        ones = self._fill("half", "(half)1", layout)
        return self._select_scalar(self._mask(name, layout), ones, "(half)0", layout)

    def _mask(self, name: str, layout: Layout) -> int:
        """The bit mask of a bool value in ``layout``."""
        if name in self._consts:
            return self._compare_scalar(self._half(name, layout), "ne", "(half)0", layout)
        if name in self._halves:
            return self._cached(
                ("mask", name, layout), lambda: self._compare_scalar(self._half(name, layout), "ne", "(half)0", layout)
            )
        bits = self._bits[name]
        own = self._bufs[bits].layout
        if own == layout:
            return bits
        return self._cached(
            ("mask", name, layout),
            lambda: self._compare_scalar(self._expand(self._half(name, own), layout), "ne", "(half)0", layout),
        )

    def _compare_scalar(self, buf: int, op: str, scalar: str, layout: Layout) -> int:
        return self._emit(
            "CompareScalar", "bits", layout, [buf], scalars=(scalar, f"CMPMODE::{isa.COMPARE[op]}"), in_place=False
        )

    def _bitwise(self, api: str, bits: Sequence[int], layout: Layout) -> int:
        return self._emit(api, "bits", layout, bits, view="uint16_t")

    def _select_scalar(self, mask: int, source: int, scalar: str, layout: Layout) -> int:
        """source where the mask is set, else the scalar."""
        mode = "SELMODE::VSEL_TENSOR_SCALAR_MODE"
        cpp = self._bufs[source].cpp
        return self._emit("Select", cpp, layout, [mask, source], scalars=(scalar, mode), in_place=False)

    def _bool_op(self, op: str, names: Sequence[str], layout: Layout) -> int:
        masks = [self._mask(n, layout) for n in names]
        if op == "not":
            return self._bitwise("Not", masks, layout)
        if op in ("and", "or"):
            return self._bitwise(op.capitalize(), masks, layout)
        if op == "select":
            chosen = self._bitwise("And", [masks[0], masks[1]], layout)
            other = self._bitwise("And", [self._bitwise("Not", [masks[0]], layout), masks[2]], layout)
            return self._bitwise("Or", [chosen, other], layout)
        differ = self._exclusive_or(masks, layout, "bits")
        return differ if op == "ne" else self._bitwise("Not", [differ], layout)

    def _exclusive_or(self, sources: Sequence[int], layout: Layout, cpp: str) -> int:
        def bit(api: str, srcs: Sequence[int]) -> int:
            return self._emit(api, cpp, layout, srcs, view="uint16_t")

        return bit("And", [bit("Or", sources), bit("Not", [bit("And", sources)])])

    # ---- reductions ---------------------------------------------------------------------------------------------

    def _reduce(self, reduce: Reduce) -> None:
        """One value per row: rows fold to 64 lanes, halves onto halves, and one instruction reduces these."""
        if reduce.axes != (self._cols,):
            raise ValueError(f"{reduce.names[0]}: reduced over {', '.join(reduce.axes)}, not over the columns")
        layout = self.layout(self._nest.domains[reduce.args[0]])
        target = {Layout.FULL: Layout.COL, Layout.ROW: Layout.ONE}[layout]
        self._reduced(reduce.names[0], self._fold(reduce.combiner, self._folded(reduce.args[0], layout), target))

    def _folded(self, name: str, layout: Layout) -> int:
        """The value as what a reduction folds: bool as half 0 or 1."""
        return self._half(name, layout) if self._nest.dtypes[name] == BOOL else self._in_layout(name, layout)

    def _fold(self, combiner: str, x: int, target: Layout) -> int:
        """One value per row (``target`` COL, or ONE of a single row) or per column (ROW) of a buffer."""
        api, cpp, layout = isa.REDUCE[combiner][0], self._bufs[x].cpp, self._bufs[x].layout
        work = self._new(cpp, layout)
        if target == Layout.ROW:
            return self._emit(api, cpp, target, [x], form="reduce_down", work=work)
        if isa.reduces_lanes(combiner, cpp):
            return self._emit(api, cpp, target, [x], form="reduce", work=work)
        more: dict[str, Any] = {"updates": (self._new(cpp, layout),), "scalars": (isa.IDENTITY[combiner, cpp],)}
        return self._emit(api, cpp, target, [x], form="reduce_compact", work=work, **more)

    def _reduced(self, name: str, buf: int) -> None:
        """Binds the result of a reduction."""
        (self._halves if self._nest.dtypes[name] == BOOL else self._at)[name] = buf

    # ---- arithmetic ---------------------------------------------------------------------------------------------

    def _pointwise(self, value: Pointwise) -> None:
        layout = self.layout(self._nest.domains[value.name])
        dtype = self._nest.dtypes[value.args[-1]]
        if dtype == BOOL:
            self._bits[value.name] = self._bool_op(value.op, value.args, layout)
        elif value.op in isa.COMPARE:
            self._bits[value.name] = self._compare(value.op, value.args, dtype, layout)
        elif value.op == "select":
            self._at[value.name] = self._select(value.args, dtype, layout)
        elif value.op in isa.BINARY:
            self._at[value.name] = self._binary(value.op, value.args, dtype, layout)
        elif value.op in ("pow", "fmod"):
            self._at[value.name] = self._two_source_call(value.op, value.args, layout)
        elif value.op in ("bitand", "bitor", "bitxor", "bitnot"):
            sources = [self._in_layout(n, layout) for n in value.args]
            api = {"bitand": "And", "bitor": "Or", "bitnot": "Not"}.get(value.op)
            self._at[value.name] = (
                self._exclusive_or(sources, layout, dtype.cpp)
                if api is None
                else self._emit(api, dtype.cpp, layout, sources, view="uint16_t")
            )
        else:
            self._at[value.name] = self._unary(value.op, self._in_layout(value.args[0], layout), dtype, layout)

    def _binary(self, op: str, args: Sequence[str], dtype: DType, layout: Layout) -> int:
        a, b = args
        const_a, const_b = self._consts.get(a), self._consts.get(b)
        if const_b is not None and const_a is None:
            return self._with_scalar(op, self._operand(a, layout), const_b, dtype, layout)
        if const_a is not None and const_b is None and op != "div":
            if op == "sub":  # c - x = -x + c
                negated = self._scalar("Muls", self._operand(b, layout), literal(-1, dtype), dtype, layout)
                return self._scalar("Adds", negated, literal(const_a.value, dtype), dtype, layout)
            return self._with_scalar(op, self._operand(b, layout), const_a, dtype, layout)
        x, y = (self._operand(n, layout) for n in args)
        cost = "divide" if op == "div" else "simple"
        if self._bufs[x].layout == self._bufs[y].layout == layout:
            return self._emit(isa.BINARY[op], dtype.cpp, layout, [x, y], cost=cost)
        spread = [b if self._bufs[b].layout == layout else self._spread(b) for b in (x, y)]
        return self._emit(isa.BINARY[op], dtype.cpp, layout, spread, form="tile", cost=cost)

    def _with_scalar(self, op: str, buf: int, const: Const, dtype: DType, layout: Layout) -> int:
        c = const.value
        if op == "sub":  # x - c = x + (-c), exactly (integers wrap, the least one is its own negation)
            op, c = "add", c if dtype.is_int and c == -(1 << (8 * dtype.itemsize - 1)) else -c
        if op == "div":
            if c != 0 and math.isfinite(c) and abs(math.frexp(c)[0]) == 0.5 and 2.0**-126 <= abs(1 / c) <= 2.0**126:
                return self._scalar("Muls", buf, literal(1 / c, dtype), dtype, layout)  # a power of two: exact
            divisor = self._fill(dtype.cpp, literal(c, dtype), layout)
            return self._emit("Div", dtype.cpp, layout, [buf, divisor], cost="divide")
        return self._scalar(isa.BINARY_SCALAR[op], buf, literal(c, dtype), dtype, layout)

    def _scalar(self, api: str, buf: int, text: str, dtype: DType, layout: Layout) -> int:
        return self._emit(api, dtype.cpp, layout, [buf], scalars=(text,))

    def _unary(self, op: str, x: int, dtype: DType, layout: Layout) -> int:
        cpp = dtype.cpp
        if op == "neg":
            return self._scalar("Muls", x, literal(-1, dtype), dtype, layout)
        if op == "abs" and dtype != F32:
            negated = self._scalar("Muls", x, literal(-1, dtype), dtype, layout)
            return self._emit("Max", cpp, layout, [x, negated])
        if op in isa.UNARY:
            cost = "simple" if op == "abs" else "transcendental"
            return self._emit(isa.UNARY[op], cpp, layout, [x], cost=cost)
        if op in isa.ROUNDING:
            return self._emit("Cast", cpp, layout, [x], scalars=(f"RoundMode::{isa.ROUNDING[op]}",))
        if op == "rsqrt":
            return self._one_over(self._emit("Sqrt", cpp, layout, [x], cost="transcendental"), layout)
        if op == "reciprocal":
            return self._one_over(x, layout)
        if op == "sigmoid":  # 1 / (1 + exp(-x)); exp overflows to inf and the quotient is then 0
            e = self._emit("Exp", cpp, layout, [self._scalar("Muls", x, "-1.0f", F32, layout)], cost="transcendental")
            return self._one_over(self._scalar("Adds", e, "1.0f", F32, layout), layout)
        api, factor = isa.HIGH_LEVEL[op]
        return self._emit(api, cpp, layout, [x], scratch=4 * factor, in_place=False, cost="api")

    def _one_over(self, x: int, layout: Layout) -> int:
        return self._emit("Div", "float", layout, [self._fill("float", "1.0f", layout), x], cost="divide")

    def _two_source_call(self, op: str, args: Sequence[str], layout: Layout) -> int:
        api, scratch = {"pow": ("Power", 20), "fmod": ("Fmod", 4)}[op]
        if op == "pow" and args[1] in self._consts and args[0] not in self._consts:
            text = literal(self._consts[args[1]].value, F32)
            base = self._in_layout(args[0], layout)
            return self._emit(
                api, "float", layout, [base], scalars=(text,), scratch=scratch, in_place=False, cost="api"
            )
        sources = [self._in_layout(n, layout) for n in args]
        return self._emit(api, "float", layout, sources, scratch=scratch, in_place=False, cost="api")

    def _compare(self, op: str, args: Sequence[str], dtype: DType, layout: Layout) -> int:
        a, b = args
        if a in self._consts and b not in self._consts:
            a, b, op = b, a, isa.SWAPPED[op]
        if dtype == I32:
            return self._compare_i32(op, a, b, layout)
        x = self._in_layout(a, layout)
        if b in self._consts:
            return self._compare_scalar(x, op, literal(self._consts[b].value, dtype), layout)
        mode = (f"CMPMODE::{isa.COMPARE[op]}",)
        return self._emit("Compare", "bits", layout, [x, self._in_layout(b, layout)], scalars=mode, in_place=False)

    def _compare_i32(self, op: str, a: str, b: str, layout: Layout) -> int:
        """int32 has only EQ: a <= b is min(a, b) == a, a >= b is max(a, b) == a, the rest are their opposites."""
        x, y = self._in_layout(a, layout), self._in_layout(b, layout)
        if op in ("le", "gt"):
            y = self._emit("Min", "int32_t", layout, [x, y], in_place=False)
        elif op in ("ge", "lt"):
            y = self._emit("Max", "int32_t", layout, [x, y], in_place=False)
        equal = self._emit("Compare", "bits", layout, [y, x], scalars=("CMPMODE::EQ",), in_place=False)
        return equal if op in ("eq", "le", "ge") else self._bitwise("Not", [equal], layout)

    def _select(self, args: Sequence[str], dtype: DType, layout: Layout) -> int:
        condition, a, b = args
        mask = self._mask(condition, layout)
        cpp, view = dtype.cpp, "" if dtype == F32 else "float"  # int32 bits move through the float form unchanged
        if dtype == F32 and b in self._consts:
            return self._select_scalar(mask, self._in_layout(a, layout), literal(self._consts[b].value, dtype), layout)
        if dtype == F32 and a in self._consts:
            inverse = self._bitwise("Not", [mask], layout)
            return self._select_scalar(
                inverse, self._in_layout(b, layout), literal(self._consts[a].value, dtype), layout
            )
        sources = [mask, self._in_layout(a, layout), self._in_layout(b, layout)]
        mode = ("SELMODE::VSEL_TENSOR_TENSOR_MODE",)
        return self._emit("Select", cpp, layout, sources, scalars=mode, view=view, in_place=False)
