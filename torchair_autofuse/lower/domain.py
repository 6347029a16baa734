"""Iteration domain of a cluster: every tensor's dims as digits over shared atoms, grown node by node, with undo.

Views only regroup digits (lower.atoms): a reshape splits atoms into a common refinement, a transpose reorders dims, a
broadcast leaves dims without digits, a slice or concat cuts atoms into parts. A reduction, and a slice, has a *frame*,
a map of its own dims, of which its tensors' maps are parts. A tensor inside a cluster has exactly one map; a second,
different one is refused. Tensors from outside may be read through several; the first is remembered, so that two
readers of one input share its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torchair_autofuse.ge.graph import Node, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower import index_maps
from torchair_autofuse.lower.atoms import MAX_PARTS, Digits
from torchair_autofuse.lower.checks import shape_text
from torchair_autofuse.lower.index_maps import DimMap
from torchair_autofuse.lower.maps import Maps
from torchair_autofuse.lower.registry import (
    RULES,
    IndexSpec,
    Join,
    Margin,
    Permute,
    Rows,
    Rule,
    Windows,
    data_positions,
)
from torchair_autofuse.lower.uniform import uniform_value
from torchair_autofuse.messages import Reason


@dataclass
class Domain(Maps):
    """A cluster that grows: nodes are added with the index maps of what they produce. Mutable, with checkpoints."""

    outside: dict[TensorRef, DimMap] = field(default_factory=dict)  # first map of each input of the cluster
    widest: Digits = ()

    def __post_init__(self) -> None:
        self.atoms.meet = self._meet

    # ---- public -------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A checkpoint for :meth:`rollback`."""
        return len(self.atoms.undo)

    def rollback(self, mark: int) -> None:
        """Undoes everything since ``mark``."""
        while len(self.atoms.undo) > mark:
            self.atoms.undo.pop()()

    def try_add(self, node: Node) -> Reason | None:
        """Adds ``node``; on refusal the domain is as before."""
        mark = self.mark()
        reason = self._looks_up_inside(node) or self._add(node) or self._reduces_parts() or self._stores_backwards()
        if reason is not None:
            self.rollback(mark)
        return reason

    def _reduces_parts(self) -> Reason | None:
        """Refuses a reduction over an axis whose parts cannot be one loop: they differ in size."""
        for name in self.frames if self.atoms.any_cut else ():
            node = self.nodes[name]
            for atom in self.reduced(node) if RULES[node.type].kind == "reduce" else ():
                sizes = [self.atoms.extent(p) for p in self.atoms.alternatives(atom)]
                if not all(expr.equal(s, sizes[0]) for s in sizes):
                    return Reason(
                        "AF210", f"{name} reduces over an axis that has parts of different sizes, {shape_text(sizes)}"
                    )
        return None

    def _stores_backwards(self) -> Reason | None:
        """Refuses a tensor that is computed from its end on and read outside: it would be stored so."""
        for ref, dims in self.maps.items() if self.atoms.any_mirror else ():
            if any(self.atoms.is_mirror(a) for a in self.flat(dims)):
                outside = [c for c, _ in self.graph.consumers.get(ref, ()) if c.name not in self.nodes]
                if outside:
                    return Reason(
                        "AF205", f"{ref} is computed backwards for a flip, and {outside[0].name} reads it too"
                    )
        return None

    def _looks_up_inside(self, node: Node) -> Reason | None:
        """Refuses a lookup in, or by, what the cluster makes: rows are read from memory, and so are their numbers."""
        readers = [c for ref in node.outputs for c, _ in self.graph.consumers.get(ref, ()) if c.name in self.nodes]
        for other in (node, *readers):
            if isinstance(self.movement(other), Rows):
                refs = [r for r in (other.inputs[i] for i in self.reads(other)) if r is not None]
                made = [r for r in refs if r.node in self.nodes or r.node == node.name]
                if made:
                    return Reason("AF210", f"{other.name} looks up rows, and {made[0]} is made in the same cluster")
                if any(uniform_value(self.graph, r) is not None for r in refs[1:]):
                    return Reason("AF218", f"{other.name} looks up rows by a tensor of one constant")
        return None

    def share(self) -> None:
        """Makes one axis of parts of equal size that never meet, so that one loop runs over all of them."""
        for atom in sorted(self.atoms.closure(self.widest)):
            parts = self.atoms.alternatives(atom)
            for i, part in enumerate(parts):
                for other in parts[:i]:
                    mark = self.mark()
                    if self.atoms.unify(part, other):
                        break
                    self.rollback(mark)

    # ---- adding -------------------------------------------------------------------------------------------------

    def _add(self, node: Node) -> Reason | None:
        rule = RULES[node.type]
        if rule.kind == "reduce":
            return self._add_reduction(node, rule)
        if isinstance(self.movement(node), Windows):
            return self._add_windows(node)
        return self._add_plain(node, rule)

    def _place(self, node: Node, results: Sequence[DimMap], frame: DimMap | None = None) -> None:
        """Notes the node and the maps of its outputs."""
        self.nodes[node.name] = node
        self.maps.update(zip(node.outputs, results))
        if frame is not None:
            self.frames[node.name] = frame

        def back() -> None:
            del self.nodes[node.name]
            self.frames.pop(node.name, None)
            for ref in node.outputs:
                self.maps.pop(ref, None)

        self.atoms.undo.append(back)

    def _add_plain(self, node: Node, rule: Rule) -> Reason | None:
        out_ref = node.outputs[0]
        wanted = self._wanted_by_consumers(node.outputs)
        if isinstance(wanted, Reason):
            return wanted
        if wanted is None:
            wanted = self._from_producers(node, rule, self._shape(out_ref))
            if isinstance(wanted, Reason):
                return wanted
        self._place(node, [wanted] * len(node.outputs))
        conflict = self._match_inputs(node)
        return conflict if conflict is not None else self._widen(self.maps[out_ref], out_ref)

    def _match_inputs(self, node: Node) -> Reason | None:
        """Makes the maps of the operands that the cluster produces those that ``node`` needs; notes the others."""
        for i in self.reads(node):
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
            elif not self._reads_apart(node, i):
                self._note_outside(source, need)
        return None

    def _reads_apart(self, node: Node, index: int) -> bool:
        """Whether an input is read at other indices than its own axes: a window, or rows that are looked up."""
        moved = self.movement(node)
        return isinstance(moved, Windows) or (isinstance(moved, Rows) and index == 0)

    def _note_outside(self, source: TensorRef, need: DimMap) -> None:
        self.outside[source] = need
        self.atoms.undo.append(lambda: self.outside.pop(source))

    def _add_windows(self, node: Node) -> Reason | None:
        """A slice, or all the slices of a split: a frame of the operand's dims, with a window per result.

        What cannot be said of the operand's dims (a step that does not divide one, a bound that may lie anywhere in a
        symbolic one) is no obstacle to reading memory at an offset: only an operand that the cluster makes needs it.
        """
        moved = self.movement(node)
        assert isinstance(moved, Windows)
        position = data_positions(node, RULES[node.type])[0]
        source = node.inputs[position]
        assert source is not None
        shape = self._shape(source)
        inside = source.node in self.nodes
        frame = self.maps[source] if inside else self._completed([None] * len(shape), shape)
        results: list[DimMap] = []
        loose: Reason | None = None
        for ref, starts, steps in zip(node.outputs, moved.starts, moved.steps):
            sizes = index_maps.with_dim(self._shape(ref), moved.dropped, 1)
            dims: list[Digits] = []
            for k, (digits, start, step, size) in enumerate(zip(frame, starts, steps, sizes)):
                window = index_maps.window(self.atoms, digits, shape[k], start, step, size)
                if window is None:
                    every = "" if step == 1 else f" with step {step}" if step > 0 else ", backwards,"
                    text = (
                        f"{expr.to_str(size)} of {expr.to_str(shape[k])} elements from {expr.to_str(start)} on{every}"
                    )
                    loose = Reason(
                        "AF205", f"{node.name}: {text} are not known to be whole parts of the axes of {source}"
                    )
                    if inside:
                        return loose
                    window = self.atoms.axis(size)
                dims.append(window)
            results.append(index_maps.without_dim(dims, moved.dropped))
        self._place(node, results, frame)
        if loose is not None:
            self._loose[node.name] = loose
            self.atoms.undo.append(lambda: self._loose.pop(node.name))
        for ref in node.outputs:
            wanted = self._wanted_by_consumers([ref])
            if isinstance(wanted, Reason):
                return wanted
            conflict = None if wanted is None else self._unify(self.maps[ref], wanted, ref)
            if conflict is not None:
                return conflict
        if len(node.outputs) > 1 and loose is None:
            return self._widen(self.frames[node.name], source)
        widened = (self._widen(self.maps[ref], ref) for ref in node.outputs)
        return next((reason for reason in widened if reason is not None), None)

    def _add_reduction(self, node: Node, rule: Rule) -> Reason | None:
        spec = self.spec(node)
        frame: list[Digits | None] = [() if d == 1 else None for d in spec.dims]
        wanted: list[tuple[TensorRef, DimMap]] = []
        for ref, parts in zip(node.outputs, spec.outputs):
            for consumer, i in self.graph.consumers.get(ref, ()):
                if consumer.name in self.nodes and i in self.reads(consumer):
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
        whole = self._completed(frame, spec.dims)
        self._place(node, [index_maps.part_of(whole, parts) for parts in spec.outputs], whole)
        for ref, need in wanted:
            conflict = self._unify(need, self.maps[ref], ref)
            if conflict is not None:
                return conflict
        conflict = self._match_inputs(node)
        return conflict if conflict is not None else self._widen(self.frames[node.name], node.outputs[0])

    def _fill(
        self, frame: list[Digits | None], spec: IndexSpec, parts: tuple[tuple[int, ...], ...], known: DimMap
    ) -> Reason | None:
        """Takes from the map of one tensor what is still unknown of a frame."""
        for positions, digits in zip(parts, known):
            if not positions or all(frame[p] is not None for p in positions):
                continue
            sizes = tuple(spec.dims[p] for p in positions)
            groups = index_maps.regrouped(self.atoms, (digits,), (expr.product(sizes),), sizes)
            if isinstance(groups, Reason):
                return groups
            for p, group in zip(positions, groups):
                if frame[p] is None:
                    frame[p] = group
        return None

    def _wanted_by_consumers(self, outputs: Sequence[TensorRef]) -> DimMap | Reason | None:
        wanted: DimMap | None = None
        for ref in outputs:
            for consumer, i in self.graph.consumers.get(ref, ()):
                if consumer.name not in self.nodes or i not in self.reads(consumer):
                    continue  # only its shape or its known value may matter there
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
        moved = self.movement(node)
        if isinstance(moved, Join):
            refs = [node.inputs[i] for i in self.reads(node)]
            parts = [(self._shape(r), self.maps.get(r) if r is not None else None) for r in refs]
            return self._completed(index_maps.joined(self.atoms, moved, parts, out_shape), out_shape)
        if isinstance(moved, Rows):
            return self._rows(node, moved, out_shape)
        digits: list[Digits | None] = [() if d == 1 else None for d in out_shape]
        for i in data_positions(node, rule):
            ref = node.inputs[i]
            if ref is None or ref.node not in self.nodes:
                continue
            shape, known = self._shape(ref), self.maps[ref]
            if isinstance(moved, Permute):
                return tuple(known[p] for p in moved.perm)
            if isinstance(moved, Margin):
                return index_maps.framed(self.atoms, moved, shape, known)
            if rule.view == "reshape":
                return index_maps.regrouped(self.atoms, known, shape, out_shape)
            offset = len(out_shape) - len(shape)
            for k, (dim, d) in enumerate(zip(shape, known)):
                if dim != 1 and digits[k + offset] is None:
                    if not expr.equal(dim, out_shape[k + offset]):
                        texts = f"{shape_text(shape)} and {shape_text(out_shape)}"
                        return Reason("AF204", f"dims of {ref} {texts} are not known to be equal or one")
                    digits[k + offset] = d
        if any(d is None for d in digits) and rule.kind == "pointwise":
            self._learn(node, rule, out_shape, digits)
        return self._completed(digits, out_shape)

    def _rows(self, node: Node, moved: Rows, out_shape: tuple[Expr, ...]) -> DimMap:
        """The map of looked-up rows; the axes of indices that are read already are those of their readers."""
        digits: list[Digits | None] = [() if d == 1 else None for d in out_shape]
        end = len(out_shape) - len(self._shape(node.inputs[0])) + moved.axes[-1] + 1  # of the dims of the indices
        for i in self.reads(node)[1:]:
            ref = node.inputs[i]
            known = self.outside.get(ref, ()) if ref is not None else ()
            for k, d in enumerate(known, end - len(known)):
                if d:
                    self._take(digits, k, d)
        return self._completed(digits, out_shape)

    def _learn(self, node: Node, rule: Rule, out_shape: tuple[Expr, ...], digits: list[Digits | None]) -> None:
        """Takes the axes of dims that no producer fixes from inputs that the cluster reads already."""
        for i in data_positions(node, rule):
            ref = node.inputs[i]
            if ref is None or ref.node in self.nodes or ref not in self.outside:
                continue
            shape = self._shape(ref)
            offset = len(out_shape) - len(shape)
            for k, (dim, d) in enumerate(zip(shape, self.outside[ref])):
                if dim != 1 and offset >= 0 and expr.equal(dim, out_shape[k + offset]):
                    self._take(digits, k + offset, d)

    def _take(self, digits: list[Digits | None], k: int, known: Digits) -> None:
        """Gives dim ``k`` the axes that an input has, unless it has some, or another dim varies over one of these."""
        taken = {a for other in digits if other is not None for a in self.atoms.closure(other)}
        if digits[k] is None and not taken & self.atoms.closure(known):
            digits[k] = known

    def _unify(self, a: DimMap, b: DimMap, ref: TensorRef) -> Reason | None:
        """Makes two maps of one tensor the same, by splitting atoms or by sharing axes that never meet in a tensor."""
        for da, db in zip(a, b):
            if not self.atoms.unify(da, db):
                return Reason("AF211", f"{ref} is read through two different index maps")
        return None

    def _meet(self, x: int, y: int) -> bool:
        """Whether some tensor of the cluster varies over both atoms."""
        return any(self.atoms.together(self.flat(m), x, y) for m in (*self.maps.values(), *self.frames.values()))

    def _widen(self, dims: DimMap, ref: TensorRef) -> Reason | None:
        """Keeps the invariant that one tensor's digits, and the parts they are cut into, cover those of every other."""
        mine = self.flat(dims)
        if self.atoms.repeats(mine):
            return Reason("AF211", f"{ref} varies over one axis in two dims")
        if self.atoms.count(mine) > MAX_PARTS:
            return Reason("AF213", f"{ref} is made of {self.atoms.count(mine)} parts, more than {MAX_PARTS}")
        for attempt in (True, False):
            mine, widest = self.resolve(mine), self.resolve(self.widest)
            if self.atoms.leaves(mine) <= self.atoms.closure(widest):
                return None
            if self.atoms.leaves(widest) <= self.atoms.closure(mine):
                self._set_widest(mine)
                return None
            if attempt:
                self._share(mine, widest)
        own, rest = (shape_text([self.size(a) for a in digits]) for digits in (mine, widest))
        return Reason("AF210", f"{ref} iterates over axes {own}, the rest of the cluster over others: {rest}")

    def _set_widest(self, digits: Digits) -> None:
        before = self.widest
        self.widest = digits

        def back() -> None:
            self.widest = before

        self.atoms.undo.append(back)

    def _share(self, mine: Digits, widest: Digits) -> None:
        """Makes one axis of two of equal size that never meet: two loops over as many elements become one."""
        for these, others in ((mine, widest), (widest, mine)):
            for x in sorted(self.atoms.closure(these) - self.atoms.closure(others)):
                for y in sorted(self.atoms.closure(others)):
                    mark = self.mark()
                    same = self.resolve((x,)) != (x,)  # a part of what has been shared already
                    if same or (expr.equal(self.size(x), self.size(y)) and self.atoms.unify((x,), (y,))):
                        break
                    self.rollback(mark)

    # ---- helpers ------------------------------------------------------------------------------------------------

    def _completed(self, digits: Sequence[Digits | None], shape: Sequence[Expr]) -> DimMap:
        """A map with axes of their own for dims of which nothing is known."""
        return tuple(d if d is not None else self.atoms.axis(size) for d, size in zip(digits, shape))
