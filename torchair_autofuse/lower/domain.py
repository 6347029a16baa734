"""Iteration domain of a cluster: every tensor's dims as digits over shared atoms, grown node by node, with undo.

A tensor dim is the row-major mixed-radix number of its *digits*; each digit is an atom, a loop dimension of symbolic
size. Views only regroup digits: a reshape splits atoms into a common refinement, a broadcast leaves dims without
digits. A reduction has a *frame*, a map of its own refined dims, of which its tensors' maps are parts. A tensor inside
a cluster has exactly one map; a second, different one is refused. Tensors from outside may be read through several; the
first is remembered, so that two readers of one input share its axes.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.registry import RULES, IndexSpec, Rule
from torchair_autofuse.lower.uniform import op_view, uniform_value
from torchair_autofuse.messages import Reason

Digits = tuple[int, ...]
DimMap = tuple[Digits, ...]
"""One tuple of atom ids per dim; a dim of size one, or one the value does not vary over, has none."""


@dataclass
class _Atom:
    size: Expr
    forward: Digits | None = None  # replaced by these atoms


@dataclass
class Domain:
    """The nodes of one cluster and the index maps of the tensors they produce. Mutable, with checkpoints."""

    graph: Graph
    nodes: dict[str, Node] = field(default_factory=dict)
    maps: dict[TensorRef, DimMap] = field(default_factory=dict)
    frames: dict[str, DimMap] = field(default_factory=dict)  # of nodes with a reduction
    outside: dict[TensorRef, DimMap] = field(default_factory=dict)  # first map of each input of the cluster
    widest: Digits = ()
    _atoms: list[_Atom] = field(default_factory=list)
    _specs: dict[str, IndexSpec] = field(default_factory=dict)
    _trail: list[tuple[str, object]] = field(default_factory=list)

    # ---- public -------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A checkpoint for :meth:`rollback`."""
        return len(self._trail)

    def rollback(self, mark: int) -> None:
        """Undoes everything since ``mark``."""
        while len(self._trail) > mark:
            kind, what = self._trail.pop()
            if kind == "node":
                node = self.nodes.pop(str(what))
                self.frames.pop(node.name, None)
                for ref in node.outputs:
                    self.maps.pop(ref, None)
            elif kind == "outside":
                assert isinstance(what, TensorRef)
                del self.outside[what]
            elif kind == "atom":
                self._atoms.pop()
            elif kind == "forward":
                self._atoms[int(str(what))].forward = None
            else:
                assert isinstance(what, tuple)
                self.widest = what

    def try_add(self, node: Node) -> Reason | None:
        """Adds ``node``; on refusal the domain is as before."""
        mark = self.mark()
        reason = self._add(node)
        if reason is not None:
            self.rollback(mark)
        return reason

    def resolve(self, digits: Sequence[int]) -> Digits:
        """The digits in terms of atoms that are not split further."""
        out: list[int] = []
        for a in digits:
            forward = self._atoms[a].forward
            out.extend((a,) if forward is None else self.resolve(forward))
        return tuple(out)

    def size(self, atom: int) -> Expr:
        return self._atoms[atom].size

    def map_of(self, ref: TensorRef) -> DimMap:
        """The resolved index map of a tensor that the cluster produces."""
        return tuple(self.resolve(d) for d in self.maps[ref])

    def flat(self, dims: DimMap) -> Digits:
        """An index map as one row-major sequence of digits: two tensors of equally many elements with the same one are
        indexed alike in memory."""
        return self.resolve([a for d in dims for a in d])

    def operand_map(self, node: Node, index: int) -> DimMap | Reason:
        """The index map through which ``node``, already in the domain, reads its input ``index``; may split atoms."""
        found = self._need(node, index)
        return found if isinstance(found, Reason) else tuple(self.resolve(d) for d in found)

    def spec(self, node: Node) -> IndexSpec:
        """How a node with a reduction sees its tensors."""
        if node.name not in self._specs:
            index = RULES[node.type].index
            assert index is not None
            self._specs[node.name] = index(op_view(self.graph, node))
        return self._specs[node.name]

    def reduced(self, node: Node) -> Digits:
        """The atoms that a node with a reduction reduces over."""
        return self.resolve([a for p in self.spec(node).reduced for a in self.frames[node.name][p]])

    # ---- adding -------------------------------------------------------------------------------------------------

    def _add(self, node: Node) -> Reason | None:
        rule = RULES[node.type]
        if rule.kind == "reduce":
            return self._add_reduction(node, rule)
        out_ref = node.outputs[0]
        out_shape = self._shape(out_ref)
        wanted = self._wanted_by_consumers(node)
        if isinstance(wanted, Reason):
            return wanted
        if wanted is None:
            wanted = self._from_producers(node, rule, out_shape)
            if isinstance(wanted, Reason):
                return wanted
        for ref in node.outputs:
            self.maps[ref] = wanted
        self.nodes[node.name] = node
        self._trail.append(("node", node.name))
        conflict = self._match_inputs(node, rule)
        return conflict if conflict is not None else self._widen(self.maps[out_ref], out_ref)

    def _match_inputs(self, node: Node, rule: Rule) -> Reason | None:
        """Makes the maps of the operands that the cluster produces those that ``node`` needs; notes the others."""
        for i in data_positions(node, rule):
            source = node.inputs[i]
            assert source is not None
            inside = source.node in self.nodes
            if not inside and (source in self.outside or uniform_value(self.graph, source) is not None):
                continue
            need = self._need(node, i)
            if isinstance(need, Reason):
                return need
            if inside:
                conflict = self._unify(need, self.maps[source], source)
                if conflict is not None:
                    return conflict
            else:
                self.outside[source] = need
                self._trail.append(("outside", source))
        return None

    def _add_reduction(self, node: Node, rule: Rule) -> Reason | None:
        spec = self.spec(node)
        frame: list[Digits | None] = [() if d == 1 else None for d in spec.dims]
        wanted: list[tuple[TensorRef, DimMap]] = []
        for ref, parts in zip(node.outputs, spec.outputs):
            for consumer, i in self.graph.consumers.get(ref, ()):
                if consumer.name in self.nodes and i in data_positions(consumer, RULES[consumer.type]):
                    need = self._need(consumer, i)
                    if isinstance(need, Reason):
                        return need
                    wanted.append((ref, need))
                    reason = self._fill(frame, spec, parts, need)
                    if reason is not None:
                        return reason
        for known in (self.maps, self.outside):
            for i in data_positions(node, rule):
                source = node.inputs[i]
                if source in known and (known is self.maps or source.node not in self.nodes):
                    assert source is not None
                    reason = self._fill(frame, spec, spec.inputs[i], known[source])
                    if reason is not None and known is self.maps:
                        return reason
        whole = tuple(d if d is not None else (self._new_atom(size),) for d, size in zip(frame, spec.dims))
        self.frames[node.name] = whole
        self.nodes[node.name] = node
        self._trail.append(("node", node.name))
        for ref, parts in zip(node.outputs, spec.outputs):
            self.maps[ref] = _part(whole, parts)
        for ref, need in wanted:
            conflict = self._unify(need, self.maps[ref], ref)
            if conflict is not None:
                return conflict
        conflict = self._match_inputs(node, rule)
        return conflict if conflict is not None else self._widen(self.frames[node.name], node.outputs[0])

    def _fill(
        self, frame: list[Digits | None], spec: IndexSpec, parts: tuple[tuple[int, ...], ...], known: DimMap
    ) -> Reason | None:
        """Takes from the map of one tensor what is still unknown of a frame."""
        for positions, digits in zip(parts, known):
            if not positions or all(frame[p] is not None for p in positions):
                continue
            sizes = tuple(spec.dims[p] for p in positions)
            groups = self._regroup((digits,), (expr.product(sizes),), sizes)
            if isinstance(groups, Reason):
                return groups
            for p, group in zip(positions, groups):
                if frame[p] is None:
                    frame[p] = group
        return None

    def _wanted_by_consumers(self, node: Node) -> DimMap | Reason | None:
        wanted: DimMap | None = None
        for ref in node.outputs:
            for consumer, i in self.graph.consumers.get(ref, ()):
                if consumer.name not in self.nodes:
                    continue
                rule = RULES[consumer.type]
                if i not in data_positions(consumer, rule):
                    continue  # only its shape or its known value matters there
                need = self._need(consumer, i)
                if isinstance(need, Reason):
                    return need
                if wanted is not None:
                    conflict = self._unify(need, wanted, ref)
                    if conflict is not None:
                        return conflict
                # a broadcast consumer may read this tensor with fewer digits than another one: keep the first
                wanted = wanted if wanted is not None else need
        return wanted

    def _from_producers(self, node: Node, rule: Rule, out_shape: tuple[Expr, ...]) -> DimMap | Reason:
        digits: list[Digits | None] = [() if d == 1 else None for d in out_shape]
        for i in data_positions(node, rule):
            ref = node.inputs[i]
            if ref is None or ref.node not in self.nodes:
                continue
            shape, known = self._shape(ref), self.maps[ref]
            if rule.kind == "view" and rule.view == "reshape":
                return self._regroup(known, shape, out_shape)
            offset = len(out_shape) - len(shape)
            for k, (dim, d) in enumerate(zip(shape, known)):
                if dim != 1 and digits[k + offset] is None:
                    if not expr.equal(dim, out_shape[k + offset]):
                        return _dims(ref, shape, out_shape)
                    digits[k + offset] = d
        if any(d is None for d in digits) and rule.kind == "pointwise":
            self._learn(node, rule, out_shape, digits)
        return tuple(d if d is not None else (self._new_atom(size),) for d, size in zip(digits, out_shape))

    def _learn(self, node: Node, rule: Rule, out_shape: tuple[Expr, ...], digits: list[Digits | None]) -> None:
        """Takes the axes of dims that no producer fixes from inputs that the cluster reads already."""
        for i in data_positions(node, rule):
            ref = node.inputs[i]
            if ref is None or ref.node in self.nodes or ref not in self.outside:
                continue
            shape = self._shape(ref)
            offset = len(out_shape) - len(shape)
            for k, (dim, d) in enumerate(zip(shape, self.outside[ref])):
                taken = {a for other in digits if other is not None for a in self.resolve(other)}
                fits = dim != 1 and offset >= 0 and expr.equal(dim, out_shape[k + offset])
                if fits and digits[k + offset] is None and not taken & set(self.resolve(d)):
                    digits[k + offset] = d

    def _need(self, node: Node, index: int) -> DimMap | Reason:
        """The index map through which ``node``, already in the domain, reads its input ``index``."""
        if node.name in self.frames:
            return _part(self.frames[node.name], self.spec(node).inputs[index])
        ref = node.inputs[index]
        assert ref is not None
        out_ref = node.outputs[0]
        return self._backward(RULES[node.type], self._shape(ref), self._shape(out_ref), self.maps[out_ref])

    def _backward(
        self, rule: Rule, shape: tuple[Expr, ...], out_shape: tuple[Expr, ...], out_map: DimMap
    ) -> DimMap | Reason:
        """Map of an operand of ``shape`` given the map of the result."""
        if rule.kind == "view" and rule.view == "reshape":
            return self._regroup(out_map, out_shape, shape)
        offset = len(out_shape) - len(shape)
        if offset < 0:
            return Reason("AF204", f"operand of rank {len(shape)} broadcast to rank {len(out_shape)}")
        found: list[Digits] = []
        for k, dim in enumerate(shape):
            if dim == 1:
                found.append(())
            elif expr.equal(dim, out_shape[k + offset]):
                found.append(out_map[k + offset])
            else:
                return Reason("AF204", f"dims {_text(shape)} and {_text(out_shape)} are not known to be equal or one")
        return tuple(found)

    def _regroup(self, known: DimMap, shape: tuple[Expr, ...], target: tuple[Expr, ...]) -> DimMap | Reason:
        """The digits of a tensor of ``shape`` dealt out to the dims of ``target`` (same elements, row-major)."""
        queue = list(self.flat(known))
        failed = Reason("AF205", f"reshape of {_text(shape)} to {_text(target)} has no common refinement of axes")
        groups: list[Digits] = []
        for dim in target:
            group: list[int] = []
            rest: Expr = dim
            while rest != 1:
                if not queue:
                    return failed
                atom = queue.pop(0)
                size = self._atoms[atom].size
                if expr.equal(size, rest):
                    group.append(atom)
                    rest = 1
                    continue
                whole = expr.quotient(rest, size)
                if whole is not None:
                    group.append(atom)
                    rest = whole
                    continue
                inner = expr.quotient(size, rest)
                if inner is None:
                    return failed
                hi, lo = self._split(atom, rest, inner)
                group.append(hi)
                queue.insert(0, lo)
                rest = 1
            groups.append(tuple(group))
        return failed if queue else tuple(groups)

    def _unify(self, a: DimMap, b: DimMap, ref: TensorRef) -> Reason | None:
        """Makes two maps of one tensor the same, by splitting atoms or by sharing axes that never meet in a tensor."""
        for da, db in zip(a, b):
            left, right = list(self.resolve(da)), list(self.resolve(db))
            while left and right:
                x, y = left[0], right[0]
                if x == y:
                    left.pop(0), right.pop(0)
                    continue
                sx, sy = self._atoms[x].size, self._atoms[y].size
                if expr.equal(sx, sy):
                    if self._meet(x, y):
                        break
                    self._forward(x, (y,))
                    left.pop(0), right.pop(0)
                    left, right = list(self.resolve(left)), list(self.resolve(right))
                elif (q := expr.quotient(sx, sy)) is not None:
                    left[:1] = self._split(x, sy, q)
                elif (q := expr.quotient(sy, sx)) is not None:
                    right[:1] = self._split(y, sx, q)
                else:
                    break
            if left or right:
                return Reason("AF211", f"{ref} is read through two different index maps")
        return None

    def _meet(self, x: int, y: int) -> bool:
        """Whether some tensor of the cluster varies over both atoms."""
        return any({x, y} <= set(self.flat(m)) for m in (*self.maps.values(), *self.frames.values()))

    def _widen(self, dims: DimMap, ref: TensorRef) -> Reason | None:
        """Keeps the invariant that one tensor's digits cover those of every other."""
        mine = self.flat(dims)
        if len(set(mine)) != len(mine):
            return Reason("AF211", f"{ref} varies over one axis in two dims")
        widest = self.resolve(self.widest)
        if not (set(mine) <= set(widest) or set(widest) <= set(mine)):
            self._share(mine, widest)
            mine, widest = self.resolve(mine), self.resolve(widest)
        if set(mine) <= set(widest):
            pass
        elif set(widest) <= set(mine):
            self._trail.append(("widest", self.widest))
            self.widest = mine
        else:
            return Reason("AF210", f"{ref} iterates over axes that the rest of the cluster does not have")
        return None

    def _share(self, mine: Digits, widest: Digits) -> None:
        """Makes one axis of two of equal size that never meet: two loops over as many elements become one."""
        for x in (a for a in mine if a not in widest):
            for y in (a for a in widest if a not in mine):
                if expr.equal(self._atoms[x].size, self._atoms[y].size) and not self._meet(x, y):
                    self._forward(x, (y,))
                    mine = self.resolve(mine)
                    break

    # ---- atoms --------------------------------------------------------------------------------------------------

    def _new_atom(self, size: Expr) -> int:
        self._atoms.append(_Atom(size))
        self._trail.append(("atom", None))
        return len(self._atoms) - 1

    def _forward(self, atom: int, to: Digits) -> None:
        self._atoms[atom].forward = to
        self._trail.append(("forward", atom))

    def _split(self, atom: int, outer: Expr, inner: Expr) -> tuple[int, int]:
        pair = (self._new_atom(outer), self._new_atom(inner))
        self._forward(atom, pair)
        return pair

    def _shape(self, ref: TensorRef) -> tuple[Expr, ...]:
        shape = self.graph.info(ref).shape
        assert shape is not None, f"{ref} has no known shape"
        return shape


def _part(frame: DimMap, parts: tuple[tuple[int, ...], ...]) -> DimMap:
    """The map of a tensor whose dims are row-major products of dims of a frame."""
    return tuple(tuple(a for p in positions for a in frame[p]) for positions in parts)


def data_positions(node: Node, rule: Rule) -> tuple[int, ...]:
    """Positions of the inputs that are tensors of the computation (present ones only)."""
    positions = rule.data_inputs if rule.data_inputs is not None else range(len(node.inputs))
    return tuple(i for i in positions if i < len(node.inputs) and node.inputs[i] is not None)


def connected_order(graph: Graph, nodes: Sequence[Node], inside: Container[str] = ()) -> list[Node]:
    """``nodes`` so that each is a neighbour of one before it or of a node named in ``inside``, as far as there is one.

    A domain learns a node's axes from its neighbours, so this is the order to add nodes in. Tensors of more dims lead
    first: two readers of one scalar have no axes in common until what joins them otherwise is there.
    """
    waiting = {n.name: n for n in nodes}
    order: list[Node] = []
    frontier: list[tuple[int, int, str]] = []
    pushed = 0

    def push(name: str, ref: TensorRef) -> None:
        nonlocal pushed
        shape = graph.info(ref).shape
        rank = sum(d != 1 for d in shape) if shape is not None else 0
        heapq.heappush(frontier, (-rank, pushed, name))
        pushed += 1

    for node in nodes:
        for name, ref in _neighbours(graph, node):
            if name in inside:
                push(node.name, ref)
    names = frozenset(waiting)
    while waiting:
        name = heapq.heappop(frontier)[2] if frontier else _sibling(graph, waiting, names, inside)
        if name in waiting:
            node = waiting.pop(name)
            order.append(node)
            for other, ref in _neighbours(graph, node):
                if other in waiting:
                    push(other, ref)
    return order


def _sibling(graph: Graph, waiting: Mapping[str, Node], names: Container[str], inside: Container[str]) -> str:
    """The node that shares an input, of most dims, with one placed already or one of ``inside``; or the first."""

    def rank(node: Node) -> int:
        best = 0
        for ref in node.inputs:
            shape = graph.info(ref).shape if ref is not None else None
            if ref is None or shape is None:
                continue
            readers = (c.name for c, _ in graph.consumers.get(ref, ()))
            if any(n in inside or (n in names and n not in waiting) for n in readers):
                best = max(best, sum(d != 1 for d in shape))
        return best

    return max(waiting, key=lambda name: rank(waiting[name]))


def _neighbours(graph: Graph, node: Node) -> Iterator[tuple[str, TensorRef]]:
    """Producers and consumers of a node, each with the tensor between the two."""
    for ref in node.inputs:
        if ref is not None:
            yield ref.node, ref
    for ref in node.outputs:
        for consumer, _ in graph.consumers.get(ref, ()):
            yield consumer.name, ref


def _text(shape: Sequence[Expr]) -> str:
    return "[" + ", ".join(expr.to_str(d) for d in shape) + "]"


def _dims(ref: TensorRef, shape: Sequence[Expr], out: Sequence[Expr]) -> Reason:
    return Reason("AF204", f"dims of {ref} {_text(shape)} and {_text(out)} are not known to be equal or one")
