"""One bounded walk below the writable roots: glob matches, repositories, sockets and every name that is there."""

from collections.abc import Callable, Collection, Iterable, Mapping

from sandboxc import globs
from sandboxc.globs import ANY_DEPTH, Glob
from sandboxc.layers import Layer
from sandboxc.records import NamedTuple
from sandboxc.survey.gitdirs import is_bare
from sandboxc.survey.look import ABSENT, DIRECTORY, LINK, SOCKET, Look, Name, Walker

MAX_ENTRIES = 400_000
#: Kernel views: never walked, because no layer that a walk could find holds there (design rule 12).
VIEWS = ("/proc", "/sys", "/dev")


class Match(NamedTuple):
    """A node that a glob layer matched. ``via`` are the links that the walk went through on the way to it."""

    layer: Layer
    path: str
    kind: str
    via: tuple[str, ...] = ()


class Found(NamedTuple):
    """What a walk saw. ``unlisted`` are directories that could not be listed, ``exhausted`` says that it gave up.

    ``listing`` holds the names of every directory that was walked whole.
    """

    matches: tuple[Match, ...] = ()
    tops: tuple[str, ...] = ()  # directories that hold a `.git`
    bare: tuple[str, ...] = ()  # directories that are a git directory themselves
    sockets: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    exhausted: bool = False
    listing: Mapping[str, tuple[Name, ...]] = {}

    def joined(self, other: "Found") -> "Found":
        """Return what two walks saw together."""
        return Found(
            tuple(dict.fromkeys((*self.matches, *other.matches))),
            tuple(sorted({*self.tops, *other.tops})),
            tuple(sorted({*self.bare, *other.bare})),
            tuple(sorted({*self.sockets, *other.sockets})),
            tuple(sorted({*self.unlisted, *other.unlisted})),
            self.exhausted or other.exhausted,
            {**self.listing, **other.listing},
        )


class _Pattern(NamedTuple):
    """A glob with the number of components that stand before its pattern: where its exceptions start to read."""

    layer: Layer
    pattern: tuple[str, ...]
    excepts: tuple[tuple[str, ...], ...]
    skip: int


#: Which patterns run, and in which states.
_Running = tuple[tuple[int, frozenset[int]], ...]


class _Step(NamedTuple):
    """What runs after one more name, and which patterns are matched there."""

    running: _Running
    done: tuple[int, ...]


class _Machine:
    """What reading one more name does to the running patterns, worked out once for each set of states."""

    __slots__ = ("_cache", "_patterns", "literals", "rest", "tests")

    def __init__(self, running: _Running, patterns: list[_Pattern]) -> None:
        self._patterns = patterns
        self._cache: dict[tuple[tuple[int, int], ...], _Step] = {}
        self.literals: dict[str, list[tuple[int, int]]] = {}
        self.tests: list[tuple[Callable[[str], object], int, int]] = []
        rest: list[tuple[int, frozenset[int]]] = []
        for number, states in running:
            pattern = patterns[number].pattern
            stay = [state for state in states if state < len(pattern) and pattern[state] == ANY_DEPTH]
            if stay:
                rest.append((number, globs.close(pattern, stay)))
            for state in sorted(states):
                if state >= len(pattern) or pattern[state] == ANY_DEPTH:
                    continue
                component = pattern[state]
                if any(char in component for char in "*?["):
                    self.tests.append((globs.component_test(component), number, state + 1))
                else:
                    self.literals.setdefault(component, []).append((number, state + 1))
        self.rest = self._step(tuple(rest))

    def _step(self, running: _Running) -> _Step:
        return _Step(running, tuple(n for n, states in running if len(self._patterns[n].pattern) in states))

    def hits(self, name: str) -> list[tuple[int, int]]:
        """Return the (pattern, state) pairs that a name moves on to by matching a component."""
        found = self.literals.get(name, [])
        if self.tests:
            found = [*found, *((number, state) for test, number, state in self.tests if test(name))]
        return found

    def after(self, hits: list[tuple[int, int]], rest: bool = True) -> _Step:
        """Return what runs after a name with these hits; without ``rest`` only what they themselves lead to."""
        key = tuple(hits) if rest else (*hits, (-1, -1))
        known = self._cache.get(key)
        if known is None:
            states: dict[int, set[int]] = {n: set(held) for n, held in self.rest.running} if rest else {}
            for number, state in hits:
                states.setdefault(number, set()).update(globs.close(self._patterns[number].pattern, (state,)))
            known = self._step(tuple((number, frozenset(states[number])) for number in sorted(states)))
            self._cache[key] = known
        return known


#: A directory to read: its path, what runs there, whether it is walked whole, the links on the way, what matched it.
_Todo = tuple[str, _Running, bool, tuple[str, ...], tuple[int, ...]]


class _Walk:
    def __init__(self, look: Look, walker: Walker, places: Collection[str], bound: int) -> None:
        self.look = look
        self.walker = walker
        self.places = places
        self.left = bound
        self.patterns: list[_Pattern] = []
        self.machines: dict[_Running, _Machine] = {}
        self.matches: dict[tuple[Layer, str], Match] = {}
        self.tops: dict[str, None] = {}
        self.bare: dict[str, None] = {}
        self.sockets: dict[str, None] = {}
        self.listing: dict[str, tuple[Name, ...]] = {}
        self.unlisted: dict[str, None] = {}
        self.followed: set[tuple[str, _Running]] = set()

    def add(self, layer: Layer, pattern: tuple[str, ...], excepts: tuple[tuple[str, ...], ...], skip: int) -> int:
        """Take a pattern in and return its number."""
        self.patterns.append(_Pattern(layer, pattern, excepts, skip))
        return len(self.patterns) - 1

    def run(self, root: str, running: _Running, whole: bool) -> None:
        """Walk below ``root``; where ``whole`` is False only as far as a pattern can still match."""
        done = tuple(n for n, states in running if len(self.patterns[n].pattern) in states)
        if done:
            node = self.walker.node(root)
            self._record(done, root, node.kind if node else ABSENT, ())
        stack: list[_Todo] = [(root, running, whole, (), done)]
        while stack and self.left > 0:
            item = stack.pop()
            path, held, full = item[:3]
            names = self.look.names(path)
            if names is None:
                node = self.walker.node(path)
                if node is not None and node.kind == DIRECTORY:
                    self.unlisted[path] = None
                continue
            self.left -= len(names) + 1
            if full:
                self.listing[path] = names
                self._repositories(path, names, path == root)
            machine = self.machines.get(held)
            if machine is None:
                machine = self.machines[held] = _Machine(held, self.patterns)
            self._directory(item, names, machine, stack)

    def _directory(self, item: _Todo, names: tuple[Name, ...], machine: _Machine, stack: list[_Todo]) -> None:
        path, _, full, via, holding = item
        base = path.rstrip("/")
        alone = len(holding) == 1 and path not in self.places
        rest, tests, literals = machine.rest, machine.tests, machine.literals
        quiet = not rest.done
        for name, kind, _ in names:
            hits = machine.hits(name) if tests or name in literals else None
            if quiet and not hits:
                # nothing can match this very name: the case of nearly every file
                if kind == DIRECTORY:
                    below = f"{base}/{name}"
                    if (full or rest.running) and below not in VIEWS:
                        stack.append((below, rest.running, full, via, ()))
                elif kind == SOCKET and full:
                    self.sockets[f"{base}/{name}"] = None
                continue
            below = f"{base}/{name}"
            moved = machine.after(hits) if hits else rest
            if moved.done and not (alone and moved.done == holding and below not in self.places):
                self._record(moved.done, below, kind, via)
            if kind == DIRECTORY:
                if (full or moved.running) and below not in VIEWS:
                    stack.append((below, moved.running, full, via, moved.done))
            elif kind == LINK and hits:
                self._follow(below, machine.after(hits, rest=False).running, via, stack)
            elif kind == SOCKET and full:
                self.sockets[below] = None

    def _record(self, numbers: tuple[int, ...], path: str, kind: str, via: tuple[str, ...]) -> None:
        for number in numbers:
            pattern = self.patterns[number]
            if pattern.excepts:
                below = tuple(part for part in path.split("/") if part)[pattern.skip :]
                if any(globs.match_prefix(form, below) for form in pattern.excepts):
                    continue
            self.matches.setdefault((pattern.layer, path), Match(pattern.layer, path, kind, via))

    def _repositories(self, path: str, names: tuple[Name, ...], is_root: bool) -> None:
        present = {name[0] for name in names}
        if ".git" in present:
            self.tops[path] = None
        elif is_bare(present) and (is_root or not path.endswith("/.git")):
            self.bare[path] = None

    def _follow(self, link: str, held: _Running, via: tuple[str, ...], stack: list[_Todo]) -> None:
        """Go on behind a link that a component matched, as the same name of a path would."""
        going = tuple((number, states) for number, states in held if min(states) < len(self.patterns[number].pattern))
        if not going:
            return
        walked = self.walker.walk(link)
        if walked.node is None or walked.node.kind != DIRECTORY or (walked.path, going) in self.followed:
            return
        self.followed.add((walked.path, going))
        stack.append((walked.path, going, False, (*via, *walked.links), ()))


def walk(
    look: Look,
    roots: Iterable[str],
    layers: Iterable[Layer],
    places: Collection[str] = frozenset(),
    bound: int = MAX_ENTRIES,
    walker: Walker | None = None,
) -> Found:
    """Return what one walk finds.

    Args:
        look: who answers.
        roots: physical paths to walk whole (the outermost writable roots).
        layers: layers whose place is an anchored glob, anchors physical; each is also looked for outside the roots.
        places: the paths at which a literal layer stands. A pattern that ends in ``**`` matches every node below a
            match; such nodes are left out as long as nothing else is said at them or at their directory.
        bound: the number of names after which the walk gives up.
        walker: who follows links, and remembers.
    """
    job = _Walk(look, walker or Walker(look), places, bound)
    outer = outermost(roots)
    globbed = [(layer, layer.where) for layer in layers if isinstance(layer.where, Glob)]
    for root in outer:
        start = [held for layer, glob in globbed if (held := _entering(job, layer, glob, root))]
        job.run(root, tuple(start), whole=True)
    for layer, glob in globbed:
        assert glob.anchor is not None
        anchor = glob.anchor.text()
        if not any(inside(anchor, root) for root in outer):
            number = job.add(layer, glob.pattern, glob.excepts, len(glob.anchor.parts))
            job.run(anchor, ((number, globs.start(glob.pattern)),), whole=False)
    return Found(
        tuple(sorted(job.matches.values(), key=lambda m: (m.path, m.layer.text, m.layer.source))),
        tuple(sorted(job.tops)),
        tuple(sorted(job.bare)),
        tuple(sorted(job.sockets)),
        tuple(sorted(job.unlisted)),
        job.left <= 0,
        job.listing,
    )


def _entering(job: _Walk, layer: Layer, glob: Glob, root: str) -> tuple[int, frozenset[int]] | None:
    """Return the pattern as it stands at a walk's root, or None where it can match nothing there or below."""
    anchor = glob.anchor
    assert anchor is not None
    parts = tuple(part for part in root.split("/") if part)
    if parts[: len(anchor.parts)] != anchor.parts:
        if not inside(anchor.text(), root):
            return None
        # the anchor lies below the root: the way to it is read literally
        way = tuple(_literal(part) for part in anchor.parts[len(parts) :])
        number = job.add(layer, way + glob.pattern, glob.excepts, len(anchor.parts))
        return (number, globs.start(way + glob.pattern))
    states = globs.start(glob.pattern)
    for name in parts[len(anchor.parts) :]:
        states = globs.step(glob.pattern, states, name)
    if not states:
        return None
    return (job.add(layer, glob.pattern, glob.excepts, len(anchor.parts)), states)


def _literal(part: str) -> str:
    """Return a component as a pattern that matches just itself."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in part)


def outermost(roots: Iterable[str]) -> list[str]:
    """Return the paths that no other of them contains, shallow first."""
    kept: list[str] = []
    for root in sorted(set(roots), key=lambda path: (path.count("/"), path)):
        if not any(inside(root, outer) for outer in kept):
            kept.append(root)
    return kept


def inside(path: str, root: str) -> bool:
    """Return whether a path is a root or lies below it."""
    return path == root or root == "/" or path.startswith(root + "/")
