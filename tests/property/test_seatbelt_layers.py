"""Random stacks, bound at random: the profile says what the layers say, under every reading of rule order."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator

import pytest

from sandboxc import globs
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.seatbelt import definitions, emit, with_repositories
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import ENTRY, MODE, PROTECTED, Ceiling, Index, Layer, Layers, ProtectedName, bind, ordered, protect
from sandboxc.places import Place, posix
from tests.judges.seatbelt import Profile, decide_all, read_profile

pytestmark = pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")

NAMES = ("a", "b", "c", ".env", ".git", "hooks", "q.x+", "E")
ROOTS = ("", "workspace", "home", "cache")
PATTERNS = (
    ("**", ".env"),
    ("**", ".git", "hooks"),
    ("*",),
    ("b*", "a"),
    ("**", "a", "**", "b"),
    ("c", "**"),
    ("[a-c]", "?"),
    ("a", "[!a-c]*"),
    ("**",),
    ("q*+",),
)
PROTECTED_NAMES = (
    ProtectedName((".env",)),
    ProtectedName(("a", "hooks")),
    ProtectedName(("hooks",), git=True),
    ProtectedName(("b", "*", "c"), git=True),
)


def random_stack(rng: random.Random, patterns: bool, ceilings: bool = False) -> Layers:
    """A stack over few names, so that layers often meet."""
    layers = list(random_layers(rng, patterns))
    names = rng.sample(PROTECTED_NAMES, rng.randint(0, 3))
    stack = protect(
        Layers("macos", "workspace-write", rng.choice(("read", "deny")), ordered(layers), protected=tuple(names))
    )
    if ceilings:
        asked = ordered(layer for layer in random_layers(rng, patterns))
        stack = stack._replace(ceilings=(Ceiling(rng.choice(("read", "deny", "write")), asked),))
    return stack


def random_layers(rng: random.Random, patterns: bool) -> Iterator[Layer]:
    """Layers at random places of random roots."""
    for _ in range(rng.randint(2, 9)):
        root = rng.choice(ROOTS)
        parts = tuple(rng.choice(NAMES) for _ in range(rng.randint(0 if root else 1, 3)))
        if not root:
            parts = ("Users", *parts)
        origin = rng.choice((ENTRY, ENTRY, ENTRY, PROTECTED, MODE))
        access = rng.choice(("deny", "read", "write", "write"))
        yield Layer(Place(root, parts), access, origin)
    for _ in range(rng.randint(1, 3) if patterns else 0):
        anchor = Place(rng.choice(ROOTS), ())
        if not anchor.root:
            anchor = Place("", ("Users",))
        pattern = rng.choice(PATTERNS)
        if pattern[0] == "**" and rng.random() < 0.5:
            where = Glob(None, pattern, "/".join(pattern), "writable")
        else:
            where = Glob(anchor, pattern, "/".join(pattern))
        yield Layer(where, rng.choice(("deny", "read", "write")), ENTRY)


def random_binding(rng: random.Random) -> dict[str, Place]:
    """Values that often lie in one another."""
    values: dict[str, Place] = {}
    known = [posix("/Users"), posix("/Users/a")]
    for name in rng.sample(ROOTS[1:], 3):
        base = rng.choice(known)
        place = base.child(*(rng.choice(NAMES) for _ in range(rng.randint(0, 2))))
        values[name] = place
        known.append(place)
    return values


def questions(rng: random.Random, bound: Layers, count: int) -> set[tuple[str, ...]]:
    """Places at, above and below the layers, and a few others."""
    found: set[tuple[str, ...]] = set()
    places = [layer.where.anchor if isinstance(layer.where, Glob) else layer.where for layer in bound.layers]
    parts_of = [place.parts for place in places if place is not None]
    while len(found) < count:
        parts = rng.choice(parts_of)
        parts = parts[: rng.randint(1, len(parts) + 1)]
        parts += tuple(rng.choice(NAMES) for _ in range(rng.randint(0, 3)))
        found.add(parts or ("Users",))
    return found


def one_answer(profile: Profile, operation: str, path: str, fold: bool) -> bool:
    """The answer that all readings give, for a directory and for a file."""
    answers = set(decide_all(profile, operation, path, vnode="FIFO", fold_case=fold).values())
    answers |= set(
        decide_all(profile, operation, path, vnode="FIFO", fold_case=fold, subpath_covers_file=False).values()
    )
    assert len(answers) == 1, f"{operation} {path}: readings differ"
    return answers.pop()


def same(one: tuple[str, ...], other: tuple[str, ...], fold: bool) -> bool:
    """Whether two lists of names are one to the volume."""
    return [n.lower() if fold else n for n in one] == [n.lower() if fold else n for n in other]


def matched(bound: Layers, parts: tuple[str, ...], fold: bool) -> set[str]:
    """The accesses of the patterns that match somewhere on the way to a place."""
    found = set()
    for stack in (bound.layers, *(c.layers for c in bound.ceilings)):
        for layer in stack:
            where = layer.where
            if isinstance(where, Glob) and where.anchor is not None:
                head = where.anchor.parts
                if same(parts[: len(head)], head, True) and globs.match_prefix(where.pattern, parts[len(head) :], fold):
                    found.add("cap" if layer.cap else layer.access)
    return found


def compare(seed: int, patterns: bool, fold: bool, ceilings: bool = False, paths: int = 40) -> int:
    """Compare one random stack under one random binding; returns the number of questions."""
    rng = random.Random(seed)
    stack = random_stack(rng, patterns, ceilings)
    values = random_binding(rng)
    artefact = emit(stack, Facts(fold_case=fold), Options())
    words = definitions(stack, values)
    params = dict(word.split("=", 1) for word in words[1::2])
    profile = read_profile(artefact.native, params)
    bound = bind(with_repositories(stack), values)
    index = Index(bound, fold)
    # A layer pins what is above it where its own stack is stricter there.
    alone = [(bound.baseline, bound.layers), *((c.baseline, c.layers) for c in bound.ceilings)]
    stacks = [(Index(Layers("macos", bound.mode, baseline, layers), fold), layers) for baseline, layers in alone]
    asked = 0
    for parts in sorted(questions(rng, bound, paths)):
        shown = tuple(name.swapcase() if fold and rng.random() < 0.2 else name for name in parts)
        path, place = "/" + "/".join(shown), Place("", shown)
        access = index.access(place)
        accesses = matched(bound, shown, fold)
        for operation, allowed, mixed in (
            ("file-read-data", access != "deny", "deny" in accesses and bool(accesses & {"read", "write"})),
            ("file-write-data", access == "write", "write" in accesses and bool(accesses - {"write"})),
        ):
            answer = one_answer(profile, operation, path, fold)
            asked += 1
            if mixed:  # patterns that cannot alternate: never wider
                assert allowed or not answer, f"seed {seed}: {operation} {path} is wider"
            else:
                assert answer == allowed, f"seed {seed}: {operation} {path}: {answer}, layers: {allowed}"
        if not patterns:
            reach = any(
                index.access(layer.where) != "deny"
                for each in (bound.layers, *(c.layers for c in bound.ceilings))
                for layer in each
                if isinstance(layer.where, Place) and len(layer.where.parts) > len(shown)
                and same(layer.where.parts[: len(shown)], shown, fold)
            )  # fmt: skip
            look = one_answer(profile, "file-read-metadata", path, fold)
            if len(shown) > 1 and not ceilings:  # the base lets /Users itself be looked at
                assert look == (access != "deny" or reach), f"seed {seed}: metadata {path}"
        create = one_answer(profile, "file-write-create", path, fold)
        unlink = one_answer(profile, "file-write-unlink", path, fold)
        pinned = any(
            own.access(layer.where) != "write"
            for own, layers in stacks
            for layer in layers
            if isinstance(layer.where, Place)
            and same(layer.where.parts[: len(shown)], shown, fold)
            and len(layer.where.parts) > len(shown)
        )
        may = access == "write" and index.access(place.parent) == "write" and not pinned
        assert may or not create, f"seed {seed}: create {path}"
        assert may or not unlink, f"seed {seed}: unlink {path}"
        if not patterns and not stack.protected:
            assert create == unlink == may, f"seed {seed}: create and unlink {path}: {create} {unlink}, layers: {may}"
        asked += 2
    return asked


@pytest.mark.parametrize("seed", range(12))
def test_literal_layers_agree_under_every_nesting(seed: int) -> None:
    """Read, write, create and unlink follow the layers for random literal stacks and bindings."""
    compare(seed, patterns=False, fold=bool(seed % 2))


@pytest.mark.parametrize("seed", range(100, 112))
def test_patterns_agree_under_every_nesting(seed: int) -> None:
    """With patterns, the profile equals the layers where patterns do not mix, and is never wider."""
    compare(seed, patterns=True, fold=bool(seed % 2))


@pytest.mark.parametrize("seed", range(200, 206))
def test_ceilings_are_intersected(seed: int) -> None:
    """A second stack narrows the first at every place, whatever the nesting."""
    compare(seed, patterns=bool(seed % 2), fold=False, ceilings=True)
