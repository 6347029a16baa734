"""Atoms: digits split into products and cut into parts, made the same, undone; refusals; always a partition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr
from torchair_autofuse.lower.atoms import MAX_PARTS, Atoms, Digits
from torchair_autofuse.lower.strand import Strand

S0, S1 = expr.symbol("s0"), expr.symbol("s1")


def indices(atoms: Atoms, strand: Strand) -> list[int]:
    """The indices of a strand, its axes counted row-major; all sizes are plain."""
    offset = expr.evaluate(strand.offset, {})
    ranges = [range(expr.evaluate(atoms.size(a), {})) for a, _ in strand.steps]
    steps = [expr.evaluate(s, {}) for _, s in strand.steps]
    return [offset + sum(s * i for s, i in zip(steps, at)) for at in itertools.product(*ranges)]


def is_partition(atoms: Atoms, digits: Digits) -> bool:
    """Whether the strands hold every index of the dim exactly once."""
    found = [i for s in atoms.expand(digits) for i in indices(atoms, s)]
    return sorted(found) == list(range(expr.evaluate(atoms.extent(digits), {})))


def layout(atoms: Atoms, digits: Digits) -> list[tuple[Expr, tuple[tuple[Expr, Expr], ...]]]:
    """Offset, and size and step of every axis, of each strand."""
    return [(s.offset, tuple((atoms.size(a), step) for a, step in s.steps)) for s in atoms.expand(digits)]


def runs(atoms: Atoms, digits: Digits) -> list[tuple[Expr, Expr]]:
    """(first index, length) of strands that are one run each."""
    found = layout(atoms, digits)
    assert all(step == 1 for _, axes in found for _, step in axes) and all(len(axes) <= 1 for _, axes in found)
    return [(offset, axes[0][0] if axes else 1) for offset, axes in found]


# ---- cuts ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([(2, 3)], [(0, 2), (2, 3), (5, 5)]),
        ([(0, 3)], [(0, 3), (3, 7)]),
        ([(7, 3)], [(0, 7), (7, 3)]),
        ([(0, 10)], [(0, 10)]),
        ([(2, 3), (2, 3)], [(0, 2), (2, 3), (5, 5)]),
        ([(2, 6), (3, 2)], [(0, 2), (2, 1), (3, 2), (5, 3), (8, 2)]),  # one inside the other
        ([(0, 6), (4, 6)], [(0, 4), (4, 2), (6, 4)]),  # overlapping ones have a part in common
        ([(0, 2), (2, 2), (4, 2), (1, 8)], [(0, 1), (1, 1), (2, 2), (4, 2), (6, 3), (9, 1)]),
    ],
)
def test_cuts_of_one_axis(windows: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    atoms = Atoms()
    whole = atoms.axis(10)
    found = [atoms.cut(whole, *w) for w in windows]
    assert runs(atoms, whole) == expected
    for (start, size), digits in zip(windows, found):
        assert digits is not None and atoms.extent(digits) == size
        inside = [(at - start, n) for at, n in expected if start <= at < start + size]
        assert runs(atoms, digits) == inside  # the window consists of parts of the whole


def test_a_window_over_several_parts_has_their_axes() -> None:
    atoms = Atoms()
    whole = atoms.axis(12)
    first, last = atoms.cut(whole, 0, 4), atoms.cut(whole, 8, 4)
    assert first is not None and last is not None
    over = atoms.cut(whole, 2, 8)
    assert over is not None and runs(atoms, over) == [(0, 2), (2, 4), (6, 2)]
    assert atoms.leaves(over) < atoms.leaves(whole)
    assert atoms.alternatives(whole[0]) == [(a,) for a in sorted(atoms.leaves(whole), key=order_in(atoms, whole))]


def order_in(atoms: Atoms, digits: Digits) -> Callable[[int], int]:
    at = [a for s in atoms.expand(digits) for a, _ in s.steps]
    return at.index


@pytest.mark.parametrize("window", [(0, 0), (5, 6), (-1, 3), (10, 1), (3, -1)])
def test_windows_that_are_none(window: tuple[int, int]) -> None:
    atoms = Atoms()
    whole = atoms.axis(10)
    assert atoms.cut(whole, *window) is None
    assert not atoms.any_cut and len(atoms.undo) == 1


def test_a_dim_of_one_has_no_digits() -> None:
    atoms = Atoms()
    assert atoms.axis(1) == () and atoms.cut((), 0, 1) == ()
    assert atoms.expand(()) == [Strand()]
    assert atoms.cut((), 0, 0) is None


def test_symbolic_windows() -> None:
    atoms = Atoms()
    whole = atoms.axis(expr.add(S0, S1))
    head, tail = atoms.cut(whole, 0, S0), atoms.cut(whole, S0, S1)
    assert head is not None and tail is not None
    assert [(expr.to_str(a), expr.to_str(n)) for a, n in runs(atoms, whole)] == [("0", "s0"), ("s0", "s1")]
    assert atoms.cut(whole, 0, S1) is None  # s1 may end in either part
    assert atoms.cut(whole, 0, expr.mul(2, S0)) is None  # may be beyond the end
    assert atoms.cut(whole, 1, S0) is None
    small = atoms.axis(expr.add(S0, -3))
    assert atoms.cut(small, 0, S0) is None and atoms.cut(small, 0, 2) is None  # 2 <= s0 - 3 is not known


def test_a_cut_of_a_product_goes_along_its_first_digit() -> None:
    atoms = Atoms()
    (a,) = atoms.axis(12)
    assert atoms.split(a, 3, 4) is not None
    digits = atoms.resolve((a,))
    window = atoms.cut(digits, 4, 8)
    assert window is not None
    assert layout(atoms, window) == [(0, ((2, 4), (4, 1)))]
    assert layout(atoms, digits) == [(0, ((4, 1),)), (4, ((2, 4), (4, 1)))]
    assert atoms.cut(digits, 2, 4) is None  # begins inside a row
    assert atoms.cut(digits, 4, 6) is None  # ends inside one
    assert atoms.cut((), 0, 1) == ()


# ---- splits --------------------------------------------------------------------------------------------------------
def test_a_split_of_a_cut_atom_splits_its_parts() -> None:
    atoms = Atoms()
    (a,) = whole = atoms.axis(12)
    window = atoms.cut(whole, 4, 4)
    assert window is not None
    pair = atoms.split(a, 6, 2)
    assert pair is not None and [atoms.size(p) for p in pair] == [6, 2]
    low = pair[1]
    assert layout(atoms, whole) == [(0, ((2, 2), (2, 1))), (4, ((2, 2), (2, 1))), (8, ((2, 2), (2, 1)))]
    assert all(s.steps[-1] == (low, 1) for s in atoms.expand(whole))  # one inner axis for all parts
    assert atoms.resolve(window)[-1] == low
    assert is_partition(atoms, whole)


@pytest.mark.parametrize(("cut", "inner"), [((3, 4), 2), ((0, 2), 4), ((0, 4), 8)])
def test_parts_that_are_no_multiples_are_not_split(cut: tuple[int, int], inner: int) -> None:
    atoms = Atoms()
    (a,) = atoms.axis(16)
    assert atoms.cut((a,), *cut) is not None
    assert atoms.split(a, 16 // inner, inner) is None


def test_a_symbolic_split() -> None:
    atoms = Atoms()
    (a,) = whole = atoms.axis(expr.add(expr.mul(4, S0), expr.mul(8, S1)))
    assert atoms.cut(whole, 0, expr.mul(4, S0)) is not None
    assert atoms.split(a, expr.add(S0, expr.mul(2, S1)), 4) is not None
    text = [(expr.to_str(o), [(expr.to_str(n), expr.to_str(s)) for n, s in x]) for o, x in layout(atoms, whole)]
    assert text == [("0", [("s0", "4"), ("4", "1")]), ("4*s0", [("2*s1", "4"), ("4", "1")])]


def test_regroup_and_tail_of_a_cut_atom() -> None:
    atoms = Atoms()
    whole = atoms.axis(24)
    assert atoms.cut(whole, 0, 12) is not None
    groups = atoms.regroup(whole, (4, 2, 3))
    assert groups is not None and [atoms.extent(g) for g in groups] == [4, 2, 3]
    assert runs(atoms, groups[0]) == [(0, 2), (2, 2)]
    assert atoms.regroup(whole, (24,)) == (atoms.resolve(whole),)
    assert atoms.regroup(whole, (3, 8)) is None and atoms.regroup(whole, (4, 3)) is None
    found = atoms.tail(atoms.resolve(whole), 3)
    assert found is not None and atoms.extent(found[0]) == 8 and found[1] == groups[2]
    assert atoms.tail(groups[2], 6) is None


# ---- the same ------------------------------------------------------------------------------------------------------
def test_unify_gives_a_whole_atom_the_cuts_of_another() -> None:
    for flip in (False, True):
        atoms = Atoms()
        a, b = atoms.axis(10), atoms.axis(10)
        window = atoms.cut(a, 2, 5)
        assert window is not None
        assert atoms.unify(*((b, a) if flip else (a, b)))
        assert atoms.resolve(a) == atoms.resolve(b)
        assert runs(atoms, b) == [(0, 2), (2, 5), (7, 3)]
        assert atoms.cut(b, 2, 5) == atoms.resolve(window)


def test_unify_refines_two_ways_to_cut() -> None:
    atoms = Atoms()
    a, b = atoms.axis(12), atoms.axis(12)
    assert atoms.cut(a, 0, 4) is not None and atoms.cut(b, 6, 3) is not None
    assert atoms.unify(a, b) and atoms.resolve(a) == atoms.resolve(b)
    assert runs(atoms, a) == [(0, 4), (4, 2), (6, 3), (9, 3)]


def test_unify_splits_and_cuts() -> None:
    atoms = Atoms()
    a, b = atoms.axis(24), (*atoms.axis(6), *atoms.axis(4))
    assert atoms.cut(a, 8, 8) is not None
    assert atoms.unify(a, b) and atoms.resolve(a) == atoms.resolve(b)
    assert layout(atoms, b) == [(0, ((2, 4), (4, 1))), (8, ((2, 4), (4, 1))), (16, ((2, 4), (4, 1)))]


def test_halves_become_one_axis() -> None:
    atoms = Atoms()
    whole = atoms.axis(8)
    low, high = atoms.cut(whole, 0, 4), atoms.cut(whole, 4, 4)
    assert low is not None and high is not None and atoms.unify(low, high)
    (one,) = atoms.leaves(whole)
    assert [(s.steps, s.offset) for s in atoms.expand(whole)] == [(((one, 1),), 0), (((one, 1),), 4)]
    assert len({s.key for s in atoms.expand(whole)}) == 2 and is_partition(atoms, whole)


@pytest.mark.parametrize(("size", "shift", "parts"), [(10, 4, 5), (5, 1, 5), (12, 3, 4), (9, 2, 9)])
def test_overlapping_windows_meet_in_parts_of_their_shift(size: int, shift: int, parts: int) -> None:
    """x[:-k] and x[k:] as one tensor's axis: pieces so small that they lie in both."""
    atoms = Atoms()
    whole = atoms.axis(size)
    low, high = atoms.cut(whole, 0, size - shift), atoms.cut(whole, shift, size - shift)
    assert low is not None and high is not None and atoms.unify(low, high)
    assert layout(atoms, low) == layout(atoms, high)
    assert len(atoms.expand(whole)) == parts and is_partition(atoms, whole)


@pytest.mark.parametrize("size", [100, 5000])
def test_overlapping_windows_are_not_cut_into_single_elements(size: int) -> None:
    atoms = Atoms()
    whole = atoms.axis(size)
    low, high = atoms.cut(whole, 0, size - 1), atoms.cut(whole, 1, size - 1)
    assert low is not None and high is not None
    mark = len(atoms.undo)
    assert not atoms.unify(low, high)
    while len(atoms.undo) > mark:
        atoms.undo.pop()()
    assert atoms.unify(atoms.axis(size), whole)  # the limit is one of this refinement, not of later ones


def test_what_meets_is_not_shared() -> None:
    atoms = Atoms()
    a, b = atoms.axis(4), atoms.axis(4)
    atoms.meet = lambda x, y: atoms.together((*a, *b), x, y)
    assert not atoms.unify(a, b) and atoms.unify(a, a)
    other = atoms.axis(4)
    assert atoms.unify(a, other) and not atoms.unify(b, other)
    assert not atoms.unify(a, atoms.axis(5)) and not atoms.unify((*a, *b), atoms.axis(4))


def test_a_part_of_what_is_shared_may_not_meet_it() -> None:
    """A tensor of dims (row, column): the column may not be cut into parts of which the row is one."""
    for flip in (False, True):
        atoms = Atoms()
        row, column = atoms.axis(2), atoms.axis(6)
        atoms.meet = lambda x, y, t=(*row, *column), of=atoms: of.together(t, x, y)
        parts, apart = atoms.joined((row, atoms.axis(4))), atoms.joined((atoms.axis(2), atoms.axis(4)))
        assert not atoms.unify(*((parts, column) if flip else (column, parts)))
        assert atoms.unify(column, apart)


def test_tails_that_meet_are_not_split_off_as_one() -> None:
    """cat(x, y) as rows of 3 gives x and y one axis, which x[:, None] + y does not allow."""
    atoms = Atoms()
    x, y, u, v = (atoms.axis(3) for _ in range(4))
    atoms.meet = lambda a, b: atoms.together((*x, *y), a, b)
    assert atoms.regroup(atoms.joined((x, y)), (2, 3)) is None
    assert atoms.regroup(atoms.joined((u, v)), (2, 3)) is not None


def test_a_part_is_not_the_whole() -> None:
    """An axis of s0 elements cannot be made one with a cut atom that it is a part of."""
    atoms = Atoms()
    inner = atoms.axis(S0)
    outer = atoms.joined((inner, atoms.axis(expr.mul(0, S0))))
    assert atoms.extent(outer) == S0
    assert not atoms.unify(inner, outer)


def test_cuts_at_bounds_of_unknown_order_are_not_unified() -> None:
    atoms = Atoms()
    a, b = atoms.axis(expr.add(S0, S1)), atoms.axis(expr.add(S0, S1))
    assert atoms.cut(a, 0, S0) is not None and atoms.cut(b, 0, S1) is not None
    assert not atoms.unify(a, b)


# ---- reading -------------------------------------------------------------------------------------------------------
def test_alternatives_meet_never_but_digits_do() -> None:
    atoms = Atoms()
    a, b, other = atoms.axis(3), atoms.axis(5), atoms.axis(7)
    whole = (*atoms.joined((a, b)), *other)
    assert not atoms.together(whole, a[0], b[0])
    assert atoms.together(whole, a[0], other[0]) and atoms.together(whole, other[0], b[0])
    assert atoms.together(whole, whole[0], a[0])
    assert atoms.leaves(whole) == {a[0], b[0], other[0]} and atoms.closure(whole) == {*atoms.leaves(whole), whole[0]}
    assert atoms.count(whole) == 2 and not atoms.repeats(whole)
    assert atoms.repeats((*whole, *a)) and atoms.repeats((*other, *other))
    assert not atoms.repeats(atoms.joined((a, a)))  # the same part twice: alternatives
    assert atoms.repeats(atoms.joined(((*a, *a), b)))


def test_joined_parts() -> None:
    atoms = Atoms()
    a, b = atoms.axis(3), atoms.axis(5)
    assert atoms.joined((a,)) == a
    nested = atoms.joined((atoms.joined((a, b)), (), a))
    assert atoms.extent(nested) == 12 and atoms.count(nested) == 4
    assert runs(atoms, nested) == [(0, 3), (3, 5), (8, 1), (9, 3)]
    assert atoms.alternatives(nested[0]) == [a, b, (), a]
    assert is_partition(atoms, nested)


def test_more_than_the_allowed_parts() -> None:
    atoms = Atoms()
    most, more = (atoms.joined([atoms.axis(2) for _ in range(n)]) for n in (MAX_PARTS, MAX_PARTS + 1))
    assert atoms.cut(most, 0, 4) is not None and atoms.cut(more, 0, 4) is None
    pairs = [atoms.joined([atoms.axis(2) for _ in range(n)]) for n in (MAX_PARTS // 2, MAX_PARTS // 2 + 1)]
    twins = [atoms.joined([atoms.axis(2) for _ in range(n)]) for n in (MAX_PARTS // 2, MAX_PARTS // 2 + 1)]
    assert [atoms.unify(a, b) for a, b in zip(pairs, twins)] == [True, False]


# ---- undo ----------------------------------------------------------------------------------------------------------
def rolled_back(atoms: Atoms, change: Callable[[], object]) -> None:
    """Makes a change, undoes it, and compares."""
    before, mark = deepcopy(atoms._atoms), len(atoms.undo)
    change()
    assert atoms._atoms != before
    while len(atoms.undo) > mark:
        atoms.undo.pop()()
    assert atoms._atoms == before


def test_undo_restores_everything() -> None:
    atoms = Atoms()
    a, b = atoms.axis(24), atoms.axis(24)
    assert atoms.cut(a, 8, 8) is not None and atoms.cut(b, 4, 4) is not None
    rolled_back(atoms, lambda: atoms.cut(a, 2, 12))
    rolled_back(atoms, lambda: atoms.split(a[0], 6, 4))
    rolled_back(atoms, lambda: atoms.split(a[0], 2, 12))  # refused half way
    rolled_back(atoms, lambda: atoms.unify(a, b))
    rolled_back(atoms, lambda: atoms.unify(a, atoms.axis(25)))
    rolled_back(atoms, lambda: atoms.regroup(b, (3, 2, 4)))
    rolled_back(atoms, lambda: atoms.joined((a, b)))


# ---- always --------------------------------------------------------------------------------------------------------
@st.composite
def changes(draw: st.DrawFn) -> tuple[list[int], list[tuple[str, int, int, int]]]:
    sizes = draw(st.lists(st.sampled_from([4, 6, 8, 12]), min_size=2, max_size=3))
    kinds = st.sampled_from(["cut", "cut", "split", "unify", "join", "pair", "unify parts"])
    small = st.integers(0, 11)
    return sizes, draw(st.lists(st.tuples(kinds, small, small, small), min_size=2, max_size=7))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(changes())
def test_strands_are_always_a_partition(drawn: tuple[list[int], list[tuple[str, int, int, int]]]) -> None:
    """Every index of every dim once, whatever was refined; and what was undone leaves no trace."""
    sizes, steps = drawn
    atoms = Atoms()
    dims: list[Digits] = [atoms.axis(s) for s in sizes]
    atoms.meet = lambda x, y: any(atoms.together(d, x, y) for d in dims)

    def pick(k: int) -> Digits:
        return atoms.resolve(dims[k % len(dims)])

    for kind, i, j, k in steps:
        before, mark = deepcopy(atoms._atoms), len(atoms.undo)
        here, total = pick(i), expr.evaluate(atoms.extent(pick(i)), {})
        made: Sequence[Digits] | bool | None
        if kind == "cut":
            window = atoms.cut(here, j % total, 1 + k % total)
            made = None if window is None else [window]
            assert window is not None or j % total + 1 + k % total > total or len(here) > 1
        elif kind == "split":
            made = atoms.regroup(here, (total // (2 + j % 2), 2 + j % 2)) if here else None
        elif kind == "join":
            made = [atoms.joined((here, pick(j)))] if total <= 24 else None
        elif kind == "pair":
            pair = (*here, *pick(j))
            made = None if atoms.repeats(pair) or total > 12 else [pair]
        elif kind == "unify":
            made = atoms.unify(here, pick(j))
            assert not made or atoms.resolve(here) == pick(j)
        else:
            parts = [d for a in here for d in atoms.alternatives(a)] or [here]
            made = atoms.unify(parts[j % len(parts)], parts[k % len(parts)])
        if not made:
            while len(atoms.undo) > mark:
                atoms.undo.pop()()
            assert atoms._atoms == before
        elif made is not True:
            dims += [d for d in made if d not in dims][: max(0, 9 - len(dims))]
        for d in dims:
            assert not atoms.repeats(d) and is_partition(atoms, d)
            assert atoms.count(d) == len(atoms.expand(d))


def test_parts_of_clamped_sizes_leave_no_rest() -> None:
    """As of a dim that is what a slice from 20 on and one up to 20 are put together to."""
    for bound in (2, 20):
        low, high = (expr.parse(t) for t in (f"Max(0, s0 - {bound})", f"Min({bound}, s0)"))
        atoms = Atoms()
        whole = atoms.axis(S0)
        assert atoms.cut(whole, 0, low) is not None and atoms.cut(whole, low, high) is not None
        assert [offset for offset, _ in layout(atoms, whole)] == [0, low]
