"""Atoms: the loop dimensions that tensor dims are numbers over, refined as nodes are added, with undo.

A dim of a tensor is the row-major mixed-radix number of its *digits*, each an atom. Two refinements replace an atom:

* a *split* makes a product of it, outer times inner (a reshape);
* a *cut* makes a sum of it: consecutive parts, each with digits of its own (a slice, a concat). A tensor that varies
  over a cut atom is computed part by part; two parts may share their digits, and a part may be a dim of another tensor.

An atom may be the *mirror* of another: its index counts from the last one of the other's on (a flip). Neither of the
two is split or cut any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.bounds import nonnegative
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.strand import Strand

Digits = tuple[int, ...]
Meet = Callable[[int, int], bool]
MAX_PARTS = 128
"""Parts that one tensor may have."""
MAX_NESTED = 16
"""Cuts inside cuts that are refined in one go: windows of an axis against the same axis shifted by a few elements would
be cut into single elements."""


@dataclass
class _Atom:
    size: Expr
    forward: Digits | None = None  # replaced by these atoms
    cut: tuple[Digits, ...] | None = None  # the parts it consists of, in order
    mirror: int | None = None  # what it is the mirror of


def _never(x: int, y: int) -> bool:
    return False


@dataclass
class Atoms:
    """All atoms of one domain. What refines them returns None or False when it cannot; the caller then rolls back.

    ``meet(x, y)``: whether two atoms may not become one, since some tensor varies over both.
    """

    meet: Meet = _never
    _atoms: list[_Atom] = field(default_factory=list)
    undo: list[Callable[[], object]] = field(default_factory=list)
    _mirrors: list[int] = field(default_factory=list)
    _nesting: int = 0  # alignments under way

    # ---- reading ------------------------------------------------------------------------------------------------

    def resolve(self, digits: Sequence[int]) -> Digits:
        """The digits in terms of atoms that are not split further."""
        out: list[int] = []
        for a in digits:
            forward = self._atoms[a].forward
            out.extend((a,) if forward is None else self.resolve(forward))
        return tuple(out)

    def size(self, atom: int) -> Expr:
        return self._atoms[atom].size

    def extent(self, digits: Sequence[int]) -> Expr:
        """Elements along a dim of these digits."""
        return expr.product(self._atoms[a].size for a in digits)

    def parts(self, atom: int) -> tuple[Digits, ...] | None:
        """The resolved parts of a cut atom, None for one that is whole."""
        cut = self._atoms[atom].cut
        return None if cut is None else tuple(self.resolve(p) for p in cut)

    @property
    def any_cut(self) -> bool:
        return any(a.cut is not None for a in self._atoms)

    @property
    def any_mirror(self) -> bool:
        return bool(self._mirrors)

    def is_mirror(self, atom: int) -> bool:
        return self._atoms[atom].mirror is not None

    def alternatives(self, atom: int) -> list[Digits]:
        """The parts of a cut atom with those that are cut atoms themselves replaced by theirs; none for a whole one."""
        found: list[Digits] = []
        for part in self.parts(atom) or ():
            found += (self.alternatives(part[0]) if len(part) == 1 else None) or [part]
        return found

    def closure(self, digits: Sequence[int]) -> set[int]:
        """The resolved digits and, for those that are cut, all their parts'."""
        found: set[int] = set()
        for a in self.resolve(digits):
            found.add(a)
            for part in (*(self.parts(a) or ()), *self._mirrored(a)):
                found |= self.closure(part)
        return found

    def leaves(self, digits: Sequence[int]) -> set[int]:
        """The atoms of :meth:`closure` that are whole: those that loops run over."""
        return {a for a in self.closure(digits) if self._atoms[a].cut is None and self._atoms[a].mirror is None}

    def together(self, digits: Sequence[int], x: int, y: int) -> bool:
        """Whether one element of a tensor with these digits has an index along both atoms: they are no alternatives."""
        whole = self.resolve(digits)
        inside = [self.closure((a,)) for a in whole]
        with_x = [i for i, c in enumerate(inside) if x in c]
        with_y = [i for i, c in enumerate(inside) if y in c]
        if any(i != j for i in with_x for j in with_y):
            return True
        for i in with_x:
            if i in with_y and (whole[i] in (x, y) or any(self.together(p, x, y) for p in self.parts(whole[i]) or ())):
                return True
        return False

    def repeats(self, digits: Sequence[int]) -> bool:
        """Whether some atom counts twice in one element's index."""
        whole = self.resolve(digits)
        seen: set[int] = set()
        for a in whole:
            inside = self.closure((a,))
            if inside & seen or any(self.repeats(p) for p in self.parts(a) or ()):
                return True
            seen |= inside
        return False

    def count(self, digits: Sequence[int]) -> int:
        """Number of pieces that a tensor with these digits is computed in."""
        total = 1
        for a in self.resolve(digits):
            parts = self.parts(a)
            total *= 1 if parts is None else sum(self.count(p) for p in parts)
        return total

    def _mirrored(self, atom: int) -> tuple[Digits, ...]:
        """What the atom is the mirror of, as digits; none for another one."""
        base = self._atoms[atom].mirror
        return () if base is None else ((base,),)

    def _is_fixed(self, atom: int) -> bool:
        """Whether the atom is a mirror or has one, so that it cannot be refined."""
        return any(atom in (m, *self.resolve(base)) for m in self._mirrors for base in self._mirrored(m))

    # ---- making -------------------------------------------------------------------------------------------------

    def new(self, size: Expr, cut: tuple[Digits, ...] | None = None, mirror: int | None = None) -> int:
        self._atoms.append(_Atom(size, cut=cut, mirror=mirror))
        self.undo.append(self._atoms.pop)
        if mirror is not None:
            self._mirrors.append(len(self._atoms) - 1)
            self.undo.append(self._mirrors.pop)
        return len(self._atoms) - 1

    def axis(self, size: Expr) -> Digits:
        """Digits of a dim that nothing is known of."""
        return () if size == 1 else (self.new(size),)

    def joined(self, parts: Sequence[Digits]) -> Digits:
        """Digits of a dim that consists of ``parts``, in order."""
        if len(parts) == 1:
            return parts[0]
        return (self.new(expr.add(*(self.extent(p) for p in parts)), tuple(parts)),)

    def forward(self, atom: int, to: Digits) -> None:
        """Replaces an atom by others of as many elements, wherever it is a digit."""
        made = self._atoms[atom]
        made.forward = to

        def back() -> None:
            made.forward = None

        self.undo.append(back)

    def _set_cut(self, atom: int, parts: tuple[Digits, ...]) -> None:
        made = self._atoms[atom]
        before = made.cut
        made.cut = parts

        def back() -> None:
            made.cut = before

        self.undo.append(back)

    # ---- mirrors ------------------------------------------------------------------------------------------------

    def flip(self, digits: Sequence[int]) -> Digits | None:
        """Digits of the same dim counted from its end; loops run over these, and the given ones become their mirrors.

        None where one is cut.
        """
        found: list[int] = []
        for atom in self.resolve(digits):
            if self._atoms[atom].cut is not None:
                return None
            base = self._atoms[atom].mirror
            if base is None:
                base = self.new(self.size(atom))
                self.forward(atom, (self.new(self.size(atom), mirror=base),))
            found.append(base)
        return self.resolve(found)

    # ---- products -----------------------------------------------------------------------------------------------

    def split(self, atom: int, outer: Expr, inner: Expr) -> tuple[int, int] | None:
        """Makes (outer, inner) of an atom; every part of a cut one has to be a multiple of ``inner``."""
        if self._is_fixed(atom):
            return None
        parts = self.parts(atom)
        if parts is None:
            pair = (self.new(outer), self.new(inner))
        else:
            low = self.new(inner)
            heads: list[Digits] = []
            for part in parts:
                found = self.tail(part, inner)
                if found is None or not self.unify(found[1], (low,)):
                    return None
                heads.append(found[0])
            pair = (self.new(outer, tuple(heads)), low)
        self.forward(atom, pair)
        return pair

    def tail(self, digits: Digits, inner: Expr) -> tuple[Digits, Digits] | None:
        """The digits as (those before, the last ones of ``inner`` elements)."""
        outer = expr.quotient(self.extent(digits), inner)
        groups = None if outer is None else self.regroup(digits, (outer, inner))
        return None if groups is None else (groups[0], groups[1])

    def regroup(self, digits: Sequence[int], sizes: Sequence[Expr]) -> tuple[Digits, ...] | None:
        """The digits dealt out to dims of these sizes (same elements, row-major)."""
        queue = list(self.resolve(digits))
        groups: list[Digits] = []
        for dim in sizes:
            group: list[int] = []
            rest: Expr = dim
            while rest != 1:
                if not queue:
                    return None
                atom = queue.pop(0)
                size = self.size(atom)
                if expr.equal(size, rest):
                    group.append(atom)
                    break
                whole = expr.quotient(rest, size)
                if whole is not None:
                    group.append(atom)
                    rest = whole
                    continue
                inner = expr.quotient(size, rest)
                pair = None if inner is None else self.split(atom, rest, inner)
                if pair is None:
                    return None
                group.append(pair[0])
                queue.insert(0, pair[1])
                break
            groups.append(tuple(group))
        return None if queue else tuple(groups)

    # ---- sums ---------------------------------------------------------------------------------------------------

    def cut(self, digits: Digits, start: Expr, size: Expr) -> Digits | None:
        """Digits of the window ``start .. start+size`` of a dim, whose own are refined so that it is whole parts."""
        whole = self.resolve(digits)
        if expr.equal(start, 0) and expr.equal(size, self.extent(whole)):
            return whole
        if not whole or size == 0:
            return None
        inner = self.extent(whole[1:])
        first, length = _over(start, inner), _over(size, inner)
        if first is None or length is None:
            return None
        part = self._cut(whole[0], first, length)
        return None if part is None else self.resolve((*part, *whole[1:]))

    def _cut(self, atom: int, start: Expr, size: Expr) -> Digits | None:
        total = self.size(atom)
        if expr.equal(start, 0) and expr.equal(size, total):
            return (atom,)
        end = expr.add(start, size)
        if not (nonnegative(start) and nonnegative(size) and _at_most(end, total)):
            return None
        parts = self.parts(atom)
        if self._is_fixed(atom):
            return None
        if parts is None:
            after = 0 if expr.equal(end, total) else expr.add(total, expr.mul(-1, end))
            sizes = (start, size, after)
            made = [self.axis(s) for s in sizes]
            self._set_cut(atom, tuple(d for d, s in zip(made, sizes) if s != 0))
            return made[1]
        if self.count((atom,)) > MAX_PARTS:  # cuts nest: the rest is cut by the next window
            return None
        inside: list[Digits] = []
        at: Expr = 0
        for part in parts:
            length = self.extent(part)
            stop = expr.add(at, length)
            if inside and _at_most(end, at):
                break  # and so are all after it
            if _at_most(stop, start) or _at_most(end, at):
                at = stop
                continue
            low = start if _at_most(at, start) else at if _at_most(start, at) else None
            high = end if _at_most(end, stop) else stop if _at_most(stop, end) else None
            if low is None or high is None:
                return None  # which part a bound falls into is not known
            window = self.cut(part, expr.add(low, expr.mul(-1, at)), expr.add(high, expr.mul(-1, low)))
            if window is None:
                return None
            inside.append(window)
            at = stop
        return self.joined(inside) if inside else None

    # ---- the same -----------------------------------------------------------------------------------------------

    def unify(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Makes two digit sequences of one dim the same: atoms are split, cut alike, and shared."""
        left, right = list(self.resolve(a)), list(self.resolve(b))
        while left and right:
            x, y = left[0], right[0]
            if x == y:
                left.pop(0), right.pop(0)
                continue
            sx, sy = self.size(x), self.size(y)
            if expr.equal(sx, sy):
                if self._nested(x, y) or self.meet(x, y) or not self._align(x, y):
                    return False
                left, right = list(self.resolve(left)), list(self.resolve(right))
                if left[0] != right[0]:  # aligning may have made one of them another
                    x, y = left[0], right[0]
                    if not expr.equal(self.size(x), self.size(y)) or self._nested(x, y):
                        return False
                    if not self._merge(x, y):
                        return False
                    left, right = list(self.resolve(left)), list(self.resolve(right))
            elif (q := expr.quotient(sx, sy)) is not None:
                pair = self.split(x, sy, q)
                if pair is None:
                    return False
                left[:1] = pair
            elif (q := expr.quotient(sy, sx)) is not None:
                pair = self.split(y, sx, q)
                if pair is None:
                    return False
                right[:1] = pair
            else:
                return False
        return not left and not right

    def _merge(self, x: int, y: int) -> bool:
        """Makes one of two atoms of equal size, a mirror if either is one."""
        first, second = self._mirrored(x), self._mirrored(y)
        if first and second and not self.unify(first[0], second[0]):
            return False
        if first and not second:
            x, y = y, x
        self.forward(x, (y,))
        return True

    def _nested(self, x: int, y: int) -> bool:
        return x in self.closure((y,)) or y in self.closure((x,))

    def _align(self, x: int, y: int) -> bool:
        """Gives two atoms of equal size the same parts."""
        left, right = self.parts(x), self.parts(y)
        if (left is None) != (right is None) and (self._is_fixed(x) or self._is_fixed(y)):
            return False
        if left is None or right is None:
            # the whole one gets the other's parts, each of which some tensor may vary over beside it
            whole, cut = (x, y) if left is None else (y, x)
            if any(self.meet(whole, a) for a in self.closure((cut,))):
                return False
            if left is not None:
                self._set_cut(y, left)
            return True
        if self._nesting == MAX_NESTED:
            return False
        self._nesting += 1
        try:
            return self._align_parts(list(left), list(right))
        finally:
            self._nesting -= 1

    def _align_parts(self, a: list[Digits], b: list[Digits]) -> bool:
        while a and b:
            if len(a) + len(b) > MAX_PARTS:
                return False
            p, q = self.extent(a[0]), self.extent(b[0])
            if expr.equal(p, q):
                if not self.unify(a.pop(0), b.pop(0)):
                    return False
                continue
            longer, shorter = (a, b) if _at_most(q, p) else (b, a)
            size, whole = self.extent(shorter[0]), self.extent(longer[0])
            if not _at_most(size, whole):
                return False
            head = self.cut(longer[0], 0, size)
            rest = self.cut(longer[0], size, expr.add(whole, expr.mul(-1, size)))
            if head is None or rest is None:
                return False
            longer[:1] = [head, rest]
        return not a and not b

    # ---- pieces -------------------------------------------------------------------------------------------------

    def expand(self, digits: Sequence[int]) -> list[Strand]:
        """What a dim of these digits is made of, in order of the index: one strand per combination of parts."""
        strands = [Strand()]
        for atom in self.resolve(digits):
            size = self.size(atom)
            strands = [s.times(size).plus(t) for s in strands for t in self._strands(atom)]
        return strands

    def _strands(self, atom: int) -> list[Strand]:
        parts = self.parts(atom)
        for base in self._mirrored(atom):
            last = expr.add(self.size(atom), -1)
            return [s.times(-1).plus(Strand(offset=last)) for s in self.expand(base)]
        if parts is None:
            return [Strand(steps=((atom, 1),))]
        found: list[Strand] = []
        at: Expr = 0
        for i, part in enumerate(parts):
            for s in self.expand(part):
                found.append(Strand(s.key | {(atom, i)}, s.steps, expr.add(at, s.offset)))
            at = expr.add(at, self.extent(part))
        return found


def _over(value: Expr, inner: Expr) -> Expr | None:
    return 0 if value == 0 else expr.quotient(value, inner)


def _at_most(a: Expr, b: Expr) -> bool:
    """Whether a <= b is proved."""
    return a <= b if isinstance(a, int) and isinstance(b, int) else nonnegative(expr.add(b, expr.mul(-1, a)))
