"""From a cluster of GE nodes and its iteration domain to one loop-level kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from torchair_autofuse.dtypes import HALF_FLOATS
from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.loop.ir import Axis, Index, Store
from torchair_autofuse.lower.builder import NestBuilder
from torchair_autofuse.lower.bundle import Bundle, Part, PartsBuilder
from torchair_autofuse.lower.domain import Domain
from torchair_autofuse.lower.finish import Nested
from torchair_autofuse.lower.index_maps import DimMap
from torchair_autofuse.lower.nests import nests_of
from torchair_autofuse.lower.outputs import cluster_outputs, real_consumers
from torchair_autofuse.lower.pieces import POINT, Key, Piece, in_loop_order, pieces, restrict, strides
from torchair_autofuse.lower.registry import (
    RULES,
    Join,
    Margin,
    Rows,
    Rule,
    Val,
    Windows,
    compute_dtype,
    data_positions,
)
from torchair_autofuse.lower.uniform import op_view, uniform_value
from torchair_autofuse.messages import Reason

Table = list[tuple[Sequence[Expr], Val]]
"""(index of the first element, value) of pieces of a tensor."""


def nested(
    graph: Graph,
    domain: Domain,
    *,
    strict: bool = False,
    copies: Collection[str] = (),
    elsewhere: Collection[str] = (),
    unstored: Collection[TensorRef] = (),
) -> Nested | Reason:
    """The loop nests of the cluster in ``domain``, to be finished (lower.finish).

    ``strict`` rounds after every original op (precision="strict"); otherwise a half-precision result is rounded where
    that is visible: stored, read by several ops, or deciding a predicate (docs/numerics.md). ``copies``,
    ``elsewhere`` and ``unstored``: see :func:`lower.outputs.cluster_outputs`. Refuses a cluster that nothing outside
    reads (AF216), and a reduction that several loop nests need (AF210).
    """
    nodes = sorted(domain.nodes.values(), key=lambda n: graph.position[n.name])
    outputs, kept = cluster_outputs(graph, nodes, copies, elsewhere, unstored)
    if not outputs:
        return Reason("AF216", f"nothing outside the cluster of {nodes[0].name} reads a result of it")
    domain.share()
    outer = _outer_maps(graph, domain, nodes)  # before the axes are taken: an index map may split an atom
    if isinstance(outer, Reason):
        return outer
    emission = _Emission(graph, domain, outer, _axes(domain), frozenset(domain.nodes), strict)
    for node in nodes:
        emission.add(node)
    stores = [s for k, ref in enumerate(outputs) for s in emission.stores(f"out{k}", ref)]
    cut = any(len(found) > 1 for found in emission.env.values())
    nests = nests_of(tuple(emission.axis_of.values()), emission.builder.values, stores, cut=cut)
    if isinstance(nests, Reason):
        return nests
    replaced = tuple(n for n in nodes if n.name not in kept and n.name not in copies)
    inputs = {name: ref for ref, name in emission.inputs.items()}
    return Nested(tuple(nodes), nests, inputs, outputs, replaced)


def _axes(domain: Domain) -> dict[int, Axis]:
    """The whole atoms of the widest tensor's pieces as axes, in an order that every piece has them in."""
    order: list[int] = []
    for strand in domain.atoms.expand(domain.widest):
        at = len(order)
        for atom, _ in reversed(strand.steps):
            if atom in order:
                at = order.index(atom)
            else:
                order.insert(at, atom)
    return {atom: Axis(f"a{i}", domain.size(atom)) for i, atom in enumerate(order)}


def _outer_maps(graph: Graph, domain: Domain, nodes: Sequence[Node]) -> dict[tuple[str, int], DimMap] | Reason:
    """(node, input position) -> index map of each operand that comes from outside and is no constant, resolved."""
    found: dict[tuple[str, int], DimMap] = {}
    for node in nodes:
        for i in domain.reads(node):
            ref = node.inputs[i]
            assert ref is not None
            outside = ref.node not in domain.nodes and uniform_value(graph, ref) is None
            if not outside or isinstance(domain.movement(node), Windows):
                found[node.name, i] = ()
                continue
            dims = domain.operand_map(node, i)
            if isinstance(dims, Reason):
                return dims
            found[node.name, i] = dims
    return found


@dataclass
class _Emission:
    """The values of a cluster, node by node and piece by piece."""

    graph: Graph
    domain: Domain
    outer: Mapping[tuple[str, int], DimMap]
    axis_of: dict[int, Axis]
    names: frozenset[str]
    strict: bool
    builder: NestBuilder = field(default_factory=NestBuilder)
    inputs: dict[TensorRef, str] = field(default_factory=dict)
    env: dict[TensorRef, dict[Key, Val]] = field(default_factory=dict)
    stored: dict[TensorRef, dict[Key, Val]] = field(default_factory=dict)
    parts: dict[DimMap, dict[Key, Piece]] = field(default_factory=dict)  # of operands: asked for once per piece

    def add(self, node: Node) -> None:
        """Emits all pieces of a node's results."""
        rule = RULES[node.type]
        self.builder.origin = (node.name,)
        moved = self.domain.movement(node)
        if isinstance(moved, Windows):
            self._windows(node, moved)
        elif isinstance(moved, Join):
            self._join(node, moved)
        elif isinstance(moved, Margin):
            self._margin(node, moved)
        elif isinstance(moved, Rows):
            self._rows(node, moved)
        elif rule.kind == "reduce":
            self._reduction(node, rule)
        else:
            ref = node.outputs[0]
            for piece in pieces(self.domain, self.domain.map_of(ref)):
                for made, val in zip(node.outputs, self._results(node, rule, piece.key)):
                    self._settle(made, piece.key, val, rule)

    def stores(self, param: str, ref: TensorRef) -> list[Store]:
        """The stores of all pieces of a result."""
        found = []
        for piece in pieces(self.domain, self.domain.map_of(ref)):
            moves, offset = strides(piece, self._shape(ref), self.axis_of)
            found.append(Store(param, moves, offset, self.stored[ref][piece.key].name, (ref.node,)))
        return found

    # ---- one node -----------------------------------------------------------------------------------------------

    def _results(self, node: Node, rule: Rule, key: Key) -> Sequence[Val]:
        args: list[Val | None] = [None] * len(node.inputs)
        positions = data_positions(node, rule)
        for i in positions:
            args[i] = self._operand(node, i, key)
        if rule.kind == "view":
            data = args[positions[0]]
            assert data is not None
            return (data,)
        assert rule.emit is not None
        return rule.emit(self.builder, op_view(self.graph, node), args)

    def _reduction(self, node: Node, rule: Rule) -> None:
        """A reduction for every piece of what it keeps; over an axis of several parts, of all of them at once."""
        spec, frame = self.domain.spec(node), self.domain.frames[node.name]
        over = tuple(frame[p] for p in spec.reduced)
        kept = tuple(d for p, d in enumerate(frame) if p not in spec.reduced)
        reduced = pieces(self.domain, over)
        parts = [self._part(p) for p in reduced]
        view = op_view(self.graph, node)
        assert rule.emit is not None
        for key in dict.fromkeys(p.key for p in pieces(self.domain, kept)):
            if len(parts) == 1:
                self.builder.reduced, self.builder.reduced_size = parts[0].axes, parts[0].size
                results = self._results(node, rule, key)
            else:
                args: list[Val | None] = [None] * len(node.inputs)
                for i in data_positions(node, rule):
                    args[i] = _bundled([self._operand(node, i, key | p.key) for p in reduced])
                results = rule.emit(PartsBuilder(self.builder, parts), view, args)
            for ref, val in zip(node.outputs, results):
                for n, p in enumerate(reduced):
                    one = val.parts[n] if isinstance(val, Bundle) else val
                    self._settle(ref, restrict(self.domain, key | p.key, self.domain.maps[ref]), one, rule)

    def _part(self, piece: Piece) -> Part:
        """The axes, in loop order, and the elements of one part of what is reduced over."""
        axes = {a.name: a.size for a in (self.axis_of[atom] for strand in piece.dims for atom, _ in strand.steps)}
        return Part(tuple(in_loop_order(axes, self.axis_of)), expr.product(axes.values()))

    def _windows(self, node: Node, moved: Windows) -> None:
        """Every result of a slice or split is at other indices of the operand."""
        position = data_positions(node, RULES[node.type])[0]
        source = node.inputs[position]
        assert source is not None
        table = self._table(node, position) if source in self.env else []
        for ref, starts, steps in zip(node.outputs, moved.starts, moved.steps):
            for piece in pieces(self.domain, self.domain.map_of(ref)):
                wide = piece
                if moved.dropped is not None:
                    at = moved.dropped
                    wide = Piece(piece.key, (*piece.dims[:at], POINT, *piece.dims[at:]))
                val: Val | None
                if source in self.env:
                    first = [expr.add(b, expr.mul(s, o)) for b, s, o in zip(starts, steps, wide.offsets)]
                    val = _at(table, first)
                    assert val is not None, f"{ref} begins inside a piece of {source}"
                else:
                    val = self._load(source, wide, starts, steps)
                self._settle(ref, piece.key, val, RULES[node.type])

    def _join(self, node: Node, moved: Join) -> None:
        """Every piece of the result is a piece of one operand."""
        ref = node.outputs[0]
        number = {i: n for n, i in enumerate(data_positions(node, RULES[node.type]))}
        table: Table = []
        for i in self.domain.reads(node):
            for offsets, val in self._table(node, i):
                first = list(offsets)
                if moved.added:
                    first.insert(moved.axis, 0)
                first[moved.axis] = expr.add(first[moved.axis], moved.starts[number[i]])
                table.append((first, val))
        for piece in pieces(self.domain, self.domain.map_of(ref)):
            part = _at(table, piece.offsets)
            assert part is not None, f"a piece of {ref} is in none of its parts"
            self._settle(ref, piece.key, part, RULES[node.type])

    def _margin(self, node: Node, moved: Margin) -> None:
        """Every piece of the result is a piece of the operand or a constant."""
        ref = node.outputs[0]
        position = data_positions(node, RULES[node.type])[0]
        table: Table = [
            ([expr.add(b, o) for b, o in zip(moved.before, offsets)], val)
            for offsets, val in self._table(node, position)
        ]
        dtype = self.graph.info(ref).dtype
        assert dtype is not None
        for piece in pieces(self.domain, self.domain.map_of(ref)):
            val = _at(table, piece.offsets) or self.builder.const(moved.value, compute_dtype(dtype))
            self._settle(ref, piece.key, val, RULES[node.type])

    def _rows(self, node: Node, moved: Rows) -> None:
        """Every piece of the result is one of the rows that a piece of the indices names."""
        refs, ref = [node.inputs[i] for i in self.domain.reads(node)], node.outputs[0]
        begin, count = moved.axes[0], len(moved.axes)
        table = refs[0]
        assert table is not None
        shape = self._shape(table)
        for piece in pieces(self.domain, self.domain.map_of(ref)):
            end = len(piece.dims) - len(shape) + begin + count
            indices = []
            for at, numbers in zip(moved.axes, refs[1:]):
                assert numbers is not None
                sizes = self._shape(numbers)
                strands = [s if d != 1 else POINT for d, s in zip(sizes, piece.dims[end - len(sizes) : end])]
                row = self._load(numbers, Piece(piece.key, tuple(strands)))
                indices.append(Index(row.name, expr.product(shape[at + 1 :]), shape[at], moved.wraps))
            wide = Piece(piece.key, (*piece.dims[:begin], *[POINT] * count, *piece.dims[end:]))
            self._settle(ref, piece.key, self._load(table, wide, indices=indices), RULES[node.type])

    def _table(self, node: Node, i: int) -> Table:
        """The pieces of an operand."""
        source = node.inputs[i]
        assert source is not None
        if source in self.env:
            found = pieces(self.domain, self.domain.map_of(source))
            return [(p.offsets, self.env[source][p.key]) for p in found]
        dims = self.outer[node.name, i]
        if not dims:  # a constant, or a tensor without dims
            dims = self._need(node, i)
        return [(p.offsets, self._load(source, p)) for p in pieces(self.domain, dims)]

    def _need(self, node: Node, i: int) -> DimMap:
        dims = self.domain.operand_map(node, i)
        assert not isinstance(dims, Reason)
        return dims

    # ---- values -------------------------------------------------------------------------------------------------

    def _operand(self, node: Node, i: int, key: Key) -> Val:
        ref = node.inputs[i]
        assert ref is not None
        if ref in self.env:
            return self.env[ref][restrict(self.domain, key, self.domain.maps[ref])]
        dims = self.outer[node.name, i]
        mine = restrict(self.domain, key, dims)
        if dims not in self.parts:
            self.parts[dims] = {p.key: p for p in pieces(self.domain, dims)}
        return self._load(ref, self.parts[dims][mine])

    def _load(
        self,
        ref: TensorRef,
        piece: Piece,
        starts: Sequence[Expr] | None = None,
        steps: Sequence[int] | None = None,
        indices: Sequence[Index] = (),
    ) -> Val:
        """A piece of a tensor from outside, raised to its compute dtype."""
        dtype = self.graph.info(ref).dtype
        assert dtype is not None
        known = uniform_value(self.graph, ref)
        if known is not None:
            return self.builder.const(known, compute_dtype(dtype))
        param = self.inputs.setdefault(ref, f"in{len(self.inputs)}")
        moves, offset = strides(piece, self._shape(ref), self.axis_of, starts, steps)
        return self.builder.cast(self.builder.load(param, moves, offset, dtype, tuple(indices)), compute_dtype(dtype))

    def _settle(self, ref: TensorRef, key: Key, val: Val, rule: Rule) -> None:
        """Notes the value inside the cluster, and as stored, of a piece of a result: rounded where that is visible."""
        inside, kept = self._rounded(ref, val, rule)
        self.env.setdefault(ref, {})[key] = inside
        self.stored.setdefault(ref, {})[key] = kept

    def _rounded(self, ref: TensorRef, val: Val, rule: Rule) -> tuple[Val, Val]:
        dtype = self.graph.info(ref).dtype
        assert dtype is not None
        if dtype not in HALF_FLOATS:
            return val, val
        if rule.kind == "view" or self.builder.is_exact(val, dtype):
            return val, self.builder.cast(val, dtype)
        readers = real_consumers(self.graph, ref)
        visible = (
            self.strict
            or rule.rounds
            or len(readers) != 1
            or any(c.name not in self.names for c, _ in readers)
            or any(RULES[c.type].predicate for c, _ in readers if c.type in RULES)
        )
        if not visible:
            return val, val
        narrow = self.builder.cast(val, dtype)
        return self.builder.cast(narrow, compute_dtype(dtype)), narrow

    def _shape(self, ref: TensorRef) -> tuple[Expr, ...]:
        shape = self.graph.info(ref).shape
        assert shape is not None
        return shape


def _bundled(values: Sequence[Val]) -> Val:
    """The values of all parts as one, or the value that they share."""
    same = all(v == values[0] for v in values)
    return values[0] if same else Bundle("", values[0].dtype, tuple(values))


def _at(table: Table, first: Sequence[Expr]) -> Val | None:
    """The value of the piece that begins at an index, if there is one."""
    return next((v for offsets, v in table if all(expr.equal(a, b) for a, b in zip(offsets, first))), None)
