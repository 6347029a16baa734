"""Index maps of the tensors of a cluster, and what its nodes make of them: the reading side of lower.domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower import index_maps
from torchair_autofuse.lower.atoms import Atoms, Digits
from torchair_autofuse.lower.checks import shape_text
from torchair_autofuse.lower.index_maps import DimMap
from torchair_autofuse.lower.registry import (
    RULES,
    IndexSpec,
    Join,
    Margin,
    Movement,
    Permute,
    Rows,
    Windows,
    data_positions,
)
from torchair_autofuse.lower.uniform import op_view
from torchair_autofuse.messages import Reason


@dataclass
class Maps:
    """The nodes of one cluster, the index maps of the tensors they produce, and the axes these are numbers over."""

    graph: Graph
    nodes: dict[str, Node] = field(default_factory=dict)
    maps: dict[TensorRef, DimMap] = field(default_factory=dict)
    frames: dict[str, DimMap] = field(default_factory=dict)  # of nodes with a reduction, and of slices
    atoms: Atoms = field(default_factory=Atoms)
    _loose: dict[str, Reason] = field(default_factory=dict)  # slices that only a tensor in memory can be read through
    _specs: dict[str, IndexSpec] = field(default_factory=dict)
    _movements: dict[str, Movement] = field(default_factory=dict)

    def map_of(self, ref: TensorRef) -> DimMap:
        """The resolved index map of a tensor that the cluster produces."""
        return self._resolved(self.maps[ref])

    def operand_map(self, node: Node, index: int) -> DimMap | Reason:
        """The index map through which ``node``, already in the domain, reads its input ``index``; may split atoms."""
        found = self._need(node, index)
        return found if isinstance(found, Reason) else self._resolved(found)

    def resolve(self, digits: Sequence[int]) -> Digits:
        """The digits in terms of atoms that are not split further."""
        return self.atoms.resolve(digits)

    def size(self, atom: int) -> Expr:
        return self.atoms.size(atom)

    def flat(self, dims: DimMap) -> Digits:
        """An index map as one row-major sequence of digits: two tensors of equally many elements with the same one are
        indexed alike in memory."""
        return self.resolve([a for d in dims for a in d])

    def spec(self, node: Node) -> IndexSpec:
        """How a node with a reduction sees its tensors."""
        if node.name not in self._specs:
            index = RULES[node.type].index
            assert index is not None
            self._specs[node.name] = index(op_view(self.graph, node))
        return self._specs[node.name]

    def movement(self, node: Node) -> Movement | None:
        """How a view moves its elements; None for other nodes and for reshapes and broadcasts."""
        if node.name not in self._movements:
            movement = RULES[node.type].movement
            if movement is None:
                return None
            self._movements[node.name] = movement(op_view(self.graph, node))
        return self._movements[node.name]

    def reduced(self, node: Node) -> Digits:
        """The atoms that a node with a reduction reduces over."""
        return self.resolve([a for p in self.spec(node).reduced for a in self.frames[node.name][p]])

    def reads(self, node: Node) -> tuple[int, ...]:
        """Positions of the inputs that ``node`` takes elements from: its data inputs but for empty parts of a join, and
        the index of a slice."""
        positions = data_positions(node, RULES[node.type])
        if RULES[node.type].view != "move":
            return positions
        if isinstance(self.movement(node), Windows):
            return positions[:1]
        return tuple(i for i in positions if all(d != 0 for d in self._shape(node.inputs[i])))

    def _need(self, node: Node, index: int) -> DimMap | Reason:
        """The index map through which ``node``, already in the domain, reads its input ``index``."""
        moved = self.movement(node)
        if isinstance(moved, Windows):
            return self._loose.get(node.name, self.frames[node.name])
        if node.name in self.frames:
            return index_maps.part_of(self.frames[node.name], self.spec(node).inputs[index])
        ref = node.inputs[index]
        assert ref is not None
        shape, out_shape, out_map = self._shape(ref), self._shape(node.outputs[0]), self.maps[node.outputs[0]]
        if isinstance(moved, Permute):
            return index_maps.permuted_operand(moved, out_map)
        if isinstance(moved, Rows):
            rank = len(self._shape(node.inputs[0]))
            return index_maps.looked_up_operand(moved, index, shape, rank, out_shape, out_map)
        found: DimMap | None
        if isinstance(moved, Margin):
            found = index_maps.framed_operand(self.atoms, moved, shape, out_map)
        elif isinstance(moved, Join):
            number = data_positions(node, RULES[node.type]).index(index)
            found = index_maps.joined_operand(self.atoms, moved, number, shape, out_map)
        elif RULES[node.type].view == "reshape":
            return index_maps.regrouped(self.atoms, out_map, out_shape, shape)
        else:
            return index_maps.broadcast_operand(shape, out_shape, out_map)
        if found is None:
            text = shape_text(out_shape)
            return Reason("AF205", f"{node.name}: the axes of its result {text} do not give the part that {ref} is")
        return found

    def _resolved(self, dims: DimMap) -> DimMap:
        return tuple(self.resolve(d) for d in dims)

    def _shape(self, ref: TensorRef | None) -> tuple[Expr, ...]:
        assert ref is not None
        shape = self.graph.info(ref).shape
        assert shape is not None, f"{ref} has no known shape"
        return shape
