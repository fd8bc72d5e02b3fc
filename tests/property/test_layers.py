"""The algebra of layers agrees with a second, naive evaluator, and keeps the laws of design section 3."""

from typing import Any

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxc.evaluator import Evaluator
from sandboxc.globs import Glob
from sandboxc.layers import (
    ENTRY,
    MODE,
    ORIGINS,
    PROTECTED,
    RANK,
    Index,
    Layer,
    Layers,
    ProtectedName,
    approve,
    bind,
    intersect,
    ordered,
    protect,
    restrict,
)
from sandboxc.places import Place

PINNED = settings(max_examples=100, deadline=None, derandomize=True)

NAMES = ("a", "b", "ab", ".env", ".git", "hooks")
PATTERNS = ("*", "**", "?", "a", "b", ".env", ".e*", "[ab]", "[!a]", "*b", "[a-c]*", ".git", "hooks")

names = st.sampled_from(NAMES)
places = st.lists(names, max_size=5).map(lambda parts: Place("", tuple(parts)))
shallow = st.lists(names, max_size=3).map(lambda parts: Place("", tuple(parts)))
patterns = (
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple).filter(lambda p: p[:2] != ("**", "**"))
)
globs = st.builds(
    lambda anchor, pattern, excepts: Glob(anchor, pattern, "/".join(pattern), "", tuple(excepts)),
    st.lists(names, max_size=2).map(lambda parts: Place("", tuple(parts))),
    patterns,
    st.lists(patterns.map(lambda p: ("**", *p) if p[0] != "**" else p), max_size=1),
)
accesses = st.sampled_from(("deny", "read", "write"))
# A lambda, because `builds` would fill optional fields of a class with values that no layer has.
plain = st.builds(lambda *three: Layer(*three), st.one_of(shallow, globs), accesses, st.sampled_from(ORIGINS))
caps = st.builds(lambda where: Layer(where, "read", PROTECTED, cap=True), st.one_of(shallow, globs))
literal = st.builds(lambda *three: Layer(*three), shallow, accesses, st.sampled_from(ORIGINS))
many = st.lists(st.one_of(plain, plain, caps), max_size=7).map(ordered)
baselines = st.sampled_from(("read", "deny"))
flat = st.builds(lambda baseline, layers: Layers("linux", "workspace-write", baseline, layers), baselines, many)
stacks = st.one_of(
    flat, st.builds(lambda stack, baseline, layers: restrict(stack, baseline, layers), flat, baselines, many)
)
EVERY = [Place("", parts) for parts in ((), ("a",), ("a", "b"), ("b", ".git", "hooks"), ("a", "b", ".env", "ab"))]


@PINNED
@given(stacks, places)
def test_index_agrees_with_the_naive_evaluator(stack: Layers, place: Place) -> None:
    """Literals, globs, exceptions, caps, origins and ceilings give what the slow reading gives."""
    assert Index(stack).access(place) == naive.access(stack, place)


@PINNED
@given(stacks, places)
def test_folding_index_agrees_on_other_spellings(stack: Layers, place: Place) -> None:
    """With folding, a name in capitals is the same name."""
    shouted = Place(place.root, tuple(name.upper() for name in place.parts))
    folded = Index(stack, fold=True)
    if all("[" not in part for layer in stack.layers if isinstance(layer.where, Glob) for part in layer.where.pattern):
        assert folded.access(shouted) == folded.access(place)


@PINNED
@given(stacks, st.randoms(use_true_random=False), places)
def test_order_never_matters(stack: Layers, random: Any, place: Place) -> None:
    """The same layers in another order decide the same, and are kept in the same order."""
    shuffled = list(stack.layers)
    random.shuffle(shuffled)
    assert Index(stack._replace(layers=tuple(shuffled))).decide(place).access == Index(stack).access(place)
    assert ordered(shuffled) == ordered(stack.layers)


@PINNED
@given(stacks, st.one_of(shallow, globs), st.sampled_from(ORIGINS), places)
def test_adding_a_deny_never_widens(stack: Layers, where: Place | Glob, origin: str, place: Place) -> None:
    """A further deny, wherever and of whatever origin, opens nothing."""
    more = stack._replace(layers=ordered((*stack.layers, Layer(where, "deny", origin))))
    assert RANK[Index(more).access(place)] <= RANK[Index(stack).access(place)]


@PINNED
@given(stacks, stacks, places)
def test_intersection_laws(one: Layers, other: Layers, place: Place) -> None:
    """Intersecting is commutative, idempotent, and exactly the stricter of both sides."""
    both = Index(intersect(one, other)).access(place)
    assert both == Index(intersect(other, one)).access(place)
    assert Index(intersect(one, one)).access(place) == Index(one).access(place)
    assert both == min(Index(one).access(place), Index(other).access(place), key=lambda access: RANK[access])


@PINNED
@given(stacks, stacks, stacks, places)
def test_intersection_is_associative(one: Layers, two: Layers, three: Layers, place: Place) -> None:
    """How three stacks are grouped makes no difference."""
    left = intersect(intersect(one, two), three)
    right = intersect(one, intersect(two, three))
    assert Index(left).access(place) == Index(right).access(place)


@PINNED
@given(stacks, baselines, many, places)
def test_a_restriction_never_widens(stack: Layers, baseline: str, layers: tuple[Layer, ...], place: Place) -> None:
    """What an untrusted request asks for only takes away."""
    narrowed = restrict(stack, baseline, layers)
    assert RANK[Index(narrowed).access(place)] <= RANK[Index(stack).access(place)]


@PINNED
@given(flat, shallow, accesses)
def test_an_approval_wins_at_its_place(stack: Layers, where: Place, access: str) -> None:
    """At its own place an approval decides, whatever stood there (no other approval does here)."""
    standing = stack._replace(layers=tuple(layer for layer in stack.layers if layer.origin != "approval"))
    assert Index(approve(standing, [Layer(where, access, ENTRY)])).access(where) == access


@PINNED
@given(flat, shallow, places)
def test_an_approval_leaves_deeper_denials(stack: Layers, where: Place, place: Place) -> None:
    """A broad approval does not reopen what a deeper deny closes."""
    before = Index(stack).decide(place)
    if before.layer and before.layer.access == "deny" and before.depth > len(where.parts):
        assert Index(approve(stack, [Layer(where, "write", ENTRY)])).access(place) == "deny"


PROTECTED_NAMES = (
    ProtectedName(("hooks",), git=True),
    ProtectedName((".env",)),
    ProtectedName(("m", "*", "x"), git=True),
)


@PINNED
@given(flat)
def test_protecting_twice_changes_nothing(stack: Layers) -> None:
    """Protected names are put in place once."""
    once = protect(stack._replace(protected=PROTECTED_NAMES))
    assert protect(once) == once


@PINNED
@given(flat, places)
def test_protected_names_never_widen(stack: Layers, place: Place) -> None:
    """A protected name gives at most what the layers without it give, and at most read."""
    kept = stack._replace(layers=tuple(layer for layer in stack.layers if not layer.cap))
    guarded = protect(kept._replace(protected=PROTECTED_NAMES))
    before, after = Index(kept).access(place), Index(guarded).access(place)
    assert RANK[after] <= RANK[before]
    assert after == before or (before == "write" and after == "read")


@PINNED
@given(st.lists(literal, max_size=6).map(ordered), shallow, places)
def test_binding_moves_the_whole_stack(layers: tuple[Layer, ...], base: Place, place: Place) -> None:
    """A stack that hangs from one parameter says below its value what it said below the parameter."""
    hung = tuple(layer._replace(where=layer.where._replace(root="workspace")) for layer in layers)
    symbolic = Layers("linux", "workspace-write", "read", ordered(hung))
    bound = bind(symbolic, {"workspace": base})
    below = Place("workspace", place.parts)
    assert Index(bound).access(Place(base.root, base.parts + place.parts)) == Index(symbolic).access(below)


@PINNED
@given(stacks, places)
def test_evaluator_agrees_on_reading_and_writing(stack: Layers, place: Place) -> None:
    """Reading needs read, changing content needs write, at the very node and nowhere else."""
    judge = Evaluator(stack, views=False)
    access = naive.access(stack, place)
    assert judge.decide("read", place).allowed == (access != "deny")
    assert judge.decide("list", place).allowed == (access != "deny")
    assert judge.decide("write", place).allowed == (access == "write")
    assert judge.decide("chmod", place).allowed == (access == "write")


@PINNED
@given(stacks, places)
def test_names_need_write_at_the_node_and_its_parent(stack: Layers, place: Place) -> None:
    """The boundary rule: creating and deleting ask both; deleting asks at least as much as creating."""
    judge = Evaluator(stack, views=False)
    both = bool(place.parts) and naive.access(stack, place) == naive.access(stack, place.parent) == "write"
    assert judge.decide("create", place).allowed == both
    assert judge.decide("create", place).allowed or not judge.decide("delete", place).allowed


@PINNED
@given(st.lists(literal, max_size=7).map(ordered), baselines, places, places)
def test_a_rename_carries_nothing_out_from_under_a_rule(
    layers: tuple[Layer, ...], baseline: str, place: Place, to: Place
) -> None:
    """After an allowed rename no path below has more access at its new place than it had at the old one."""
    stack = Layers("linux", "workspace-write", baseline, layers)
    if not Evaluator(stack, views=False).decide("rename", place, to).allowed:
        return
    index = Index(stack)
    for tail in EVERY:
        old, new = place.child(*tail.parts), to.child(*tail.parts)
        assert RANK[index.access(new)] <= RANK[index.access(old)]


class _Counting(Index):
    """An index that counts the tree nodes that a look-up asks for."""

    visits = 0

    def _key(self, name: str) -> str:
        self.visits += 1
        return super()._key(name)


@pytest.mark.parametrize("size", [1, 100, 20_000])
def test_a_look_up_costs_the_depth_of_the_path(size: int) -> None:
    """The number of nodes visited is the number of components, however many layers there are."""
    layers = tuple(Layer(Place("", ("srv", f"n{number}", "x")), "deny", MODE) for number in range(size))
    index = _Counting(Layers("linux", "workspace-write", "read", layers))
    for depth in range(8):
        index.visits = 0
        index.access(Place("", ("srv", "n0", "x", "y", "z", "u", "v", "w")[:depth]))
        assert index.visits <= depth
