"""Checks a kernel against the rules of docs/loop-ir.md. Run between all steps in tests, and once on what is emitted.

Types are in loop.verify_types, index ranges and disjoint stores in loop.verify_memory.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Iota, Kernel, Load, Nest, Reduce, Store, Strides, arguments, defined_names
from torchair_autofuse.loop.verify_memory import (
    check_bounds,
    check_disjoint,
    check_injective,
    kernel_facts,
    side_by_side,
)
from torchair_autofuse.loop.verify_types import check_value

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


class VerifyError(ValueError):
    """A kernel that breaks a rule: ``where`` (kernel, nest and node) and ``problem``."""

    def __init__(self, where: str, problem: str = "") -> None:
        # TorchAir raises what leaves a compile again as type(error)(text)
        super().__init__(f"{where}: {problem}" if problem else where)
        self.where, self.problem = where, problem


def verify(kernel: Kernel) -> None:
    """Raises VerifyError naming the first node that breaks a rule. What cannot be proved counts as broken."""
    _names(kernel)
    _symbols(kernel)
    facts = kernel_facts(kernel)
    for nest in kernel.nests:
        _structure(kernel, nest)
        for v in nest.values:
            where = _where(kernel, nest, ", ".join(defined_names(v)))
            _raise(where, check_value(kernel, nest, v))
            if isinstance(v, Load):
                _raise(where, check_bounds(kernel.param[v.param], nest, v, facts))
        for s in nest.stores:
            where = _where(kernel, nest, f"store {s.param}")
            _store(kernel, nest, s, where)
            _raise(where, check_bounds(kernel.param[s.param], nest, s, facts))
            _raise(where, check_injective(nest, s, facts))
    _disjoint(kernel, facts)


def _raise(where: str, problem: str | None) -> None:
    if problem is not None:
        raise VerifyError(where, problem)


def _where(kernel: Kernel, nest: Nest, node: str) -> str:
    return f"kernel {kernel.name}, nest {nest.name}, {node}"


def _check_names(where: str, what: str, names: Iterable[str], in_sizes: bool = False) -> None:
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise VerifyError(where, f"{what} name {name!r} is not an identifier")
        if in_sizes and (name in expr.RESERVED or keyword.iskeyword(name)):
            raise VerifyError(where, f"{what} name {name!r} is reserved")
        if name in seen:
            raise VerifyError(where, f"two {'axes' if what == 'axis' else what + 's'} are called {name!r}")
        seen.add(name)


def _names(kernel: Kernel) -> None:
    where = f"kernel {kernel.name}"
    _check_names(where, "kernel", [kernel.name])
    _check_names(where, "parameter", (p.name for p in kernel.params))
    _check_names(where, "symbol", (s.name for s in kernel.symbols), in_sizes=True)
    _check_names(where, "nest", (n.name for n in kernel.nests))
    if not kernel.outputs:
        raise VerifyError(where, "no output parameter")
    for p, following in zip(kernel.params, (*kernel.params[1:], None)):
        at = f"{where}, parameter {p.name}"
        if p.kind not in ("input", "output"):
            raise VerifyError(at, f'kind {p.kind!r}: expected "input" or "output"')
        if p.kind == "output" and following is not None and following.kind == "input":
            raise VerifyError(f"{where}, parameter {following.name}", "inputs come before outputs")
        if p.space != "gm":
            raise VerifyError(at, f'space {p.space!r}: only "gm" is supported')
    symbols = {s.name for s in kernel.symbols}
    for nest in kernel.nests:
        at = f"{where}, nest {nest.name}"
        _check_names(at, "axis", (a.name for a in nest.axes), in_sizes=True)
        _check_names(at, "value", (n for v in nest.values for n in defined_names(v)))
        for a in nest.axes:
            if a.name in symbols:
                raise VerifyError(at, f"axis {a.name} has the name of a symbol")


def _expressions(kernel: Kernel) -> Iterable[tuple[str, Expr]]:
    for p in kernel.params:
        yield from ((f"kernel {kernel.name}, parameter {p.name}", d) for d in p.dims)
    for nest in kernel.nests:
        yield from ((_where(kernel, nest, f"axis {a.name}"), a.size) for a in nest.axes)
        for node in (*nest.values, *nest.stores):
            if isinstance(node, (Load, Iota, Store)):
                where = _where(kernel, nest, f"store {node.param}" if isinstance(node, Store) else node.name)
                yield from ((where, e) for _, e in node.strides)
                yield where, node.offset
                if isinstance(node, Load):
                    yield from ((where, e) for i in node.indices for e in (i.pitch, i.size))


def _symbols(kernel: Kernel) -> None:
    known = {s.name for s in kernel.symbols}
    for where, e in _expressions(kernel):
        if isinstance(e, bool) or not (isinstance(e, int) or e.is_integer):
            raise VerifyError(where, f"not an integer expression: {e}")
        unknown = sorted(expr.free_symbols(e) - known)
        if unknown:
            raise VerifyError(where, f"symbol {unknown[0]} of {expr.to_str(e)} has no source")
    for s in kernel.symbols:
        where = f"kernel {kernel.name}, symbol {s.name}"
        p = kernel.param.get(s.param)
        if p is None or p.kind != "input":
            raise VerifyError(where, f"its source {s.param!r} is not an input")
        if not 0 <= s.dim < len(p.dims):
            raise VerifyError(where, f"{s.param} has {len(p.dims)} dims, none is dim {s.dim}")
        if s.divisor < 1:
            raise VerifyError(where, f"divisor {s.divisor}: expected at least 1")
        if not expr.equal(expr.floordiv(p.dims[s.dim], s.divisor), expr.symbol(s.name)):
            found = expr.to_str(p.dims[s.dim])
            raise VerifyError(where, f"dim {s.dim} of {s.param} is {found}, which // {s.divisor} is not {s.name}")
    for where, size in [(w, e) for w, e in _expressions(kernel) if ", axis " in w or ", parameter " in w]:
        if isinstance(size, int) and size < 0:
            raise VerifyError(where, f"negative size {size}")


def _structure(kernel: Kernel, nest: Nest) -> None:
    """SSA order, known parameters and axes, well-formed strides."""
    defined: set[str] = set()
    for v in nest.values:
        where = _where(kernel, nest, ", ".join(defined_names(v)))
        for arg in arguments(v):
            if arg not in defined:
                later = arg in {n for w in nest.values for n in defined_names(w)}
                raise VerifyError(where, f"argument {arg} is {'defined only later' if later else 'not defined'}")
        if isinstance(v, Load):
            param = kernel.param.get(v.param)
            if param is None or param.kind != "input":
                raise VerifyError(where, f"loads {v.param!r}, which is not an input")
            _indices(kernel, nest, v, where)
        if isinstance(v, (Load, Iota)):
            _strides(nest, v.strides, where)
        if isinstance(v, Reduce):
            unknown = [a for a in v.axes if a not in nest.axis]
            if unknown:
                raise VerifyError(where, f"reduces over unknown axis {unknown[0]}")
        defined.update(defined_names(v))
    for s in nest.stores:
        where = _where(kernel, nest, f"store {s.param}")
        param = kernel.param.get(s.param)
        if param is None or param.kind != "output":
            raise VerifyError(where, f"stores to {s.param!r}, which is not an output")
        if s.value not in defined:
            raise VerifyError(where, f"stores {s.value}, which is not defined")
        _strides(nest, s.strides, where)


def _indices(kernel: Kernel, nest: Nest, load: Load, where: str) -> None:
    names = [i.value for i in load.indices]
    taken = {s.name for s in kernel.symbols} | set(nest.axis)
    for k, i in enumerate(load.indices):
        if i.value in taken:
            raise VerifyError(where, f"index {i.value} has the name of a symbol or an axis")
        if i.value in names[:k]:
            raise VerifyError(where, f"index {i.value} is given twice: add the pitches")
        if i.pitch == 0:
            raise VerifyError(where, f"zero pitch of {i.value}: leave it out")
        if not nest.dtypes[i.value].is_int:
            raise VerifyError(where, f"index {i.value} is {nest.dtypes[i.value]}: expected an integer type")


def _strides(nest: Nest, strides: Strides, where: str) -> None:
    order = {a.name: i for i, a in enumerate(nest.axes)}
    last = -1
    for axis, stride in strides:
        if axis not in order:
            raise VerifyError(where, f"stride of unknown axis {axis}")
        if order[axis] <= last:
            raise VerifyError(where, f"stride of {axis} is given twice or out of axis order")
        if stride == 0:
            raise VerifyError(where, f"zero stride of {axis}: leave it out")
        last = order[axis]


def _store(kernel: Kernel, nest: Nest, s: Store, where: str) -> None:
    param = kernel.param[s.param]
    if nest.dtypes[s.value] != param.dtype:
        raise VerifyError(where, f"{s.value} is {nest.dtypes[s.value]}, {s.param} is {param.dtype}: cast it first")
    covered = {a for a, _ in s.strides}
    for axis in nest.domains[s.value]:
        if axis not in covered and nest.axis[axis].size != 1:
            raise VerifyError(where, f"{s.value} varies along {axis}, for which the store has no stride")


def _disjoint(kernel: Kernel, facts: tuple[Expr, ...]) -> None:
    stores: dict[str, list[tuple[Nest, Store]]] = {p.name: [] for p in kernel.outputs}
    for nest in kernel.nests:
        for s in nest.stores:
            stores[s.param].append((nest, s))
    for name, found in stores.items():
        if not found:
            raise VerifyError(f"kernel {kernel.name}, parameter {name}", "no nest stores to this output")
        if len(found) > 2 and side_by_side(kernel.param[name], found, facts):
            continue
        for i, (nest, s) in enumerate(found):
            for other_nest, other in found[:i]:
                problem = check_disjoint(kernel.param[name], (other_nest, other), (nest, s), facts)
                _raise(_where(kernel, nest, f"store {name}"), problem)
