"""Grant layers: the intermediate representation that every later step reads.

A stack of layers answers, for any place, which access holds there and which layer decided. Nothing here
does I/O; every value is immutable and every function returns a new stack.
"""

from collections.abc import Iterable, Iterator, Mapping

from sandboxc import globs
from sandboxc.globs import Glob
from sandboxc.places import POSIX, WINDOWS, Place
from sandboxc.policy import ALLOW_ALL, DANGER_FULL_ACCESS, DENY, READ, WRITE, Network
from sandboxc.records import NamedTuple
from sandboxc.source import Span

MODE = "mode"
PROTECTED = "protected"
ENTRY = "entry"
RESTRICTION = "restriction"
APPROVAL = "approval"
ORIGINS = (MODE, PROTECTED, ENTRY, RESTRICTION, APPROVAL)

RANK = {DENY: 0, READ: 1, WRITE: 2}
_ORIGIN_RANK = {origin: rank for rank, origin in enumerate(ORIGINS)}


class Layer(NamedTuple):
    """One (where, access) of a stack.

    ``cap`` marks a protected name: its access is the stricter of ``read`` and what the other layers say.
    ``source`` names what made a layer that no entry wrote (``workspace``, ``temp``, ``hidden:~/.ssh``,
    ``protected:.git/hooks``, ``system:/usr``). ``kind`` is ``file``, ``directory`` or empty where unknown.
    ``occupant`` is the content of the file that holds an absent preset name, None where it has none.
    ``private`` marks the private temp root of a run. ``text`` is the path as written.
    """

    where: Place | Glob
    access: str
    origin: str
    source: str = ""
    cap: bool = False
    locked: bool = False
    kind: str = ""
    absent: str = ""
    occupant: str | None = None
    private: bool = False
    text: str = ""
    reason: str = ""
    span: Span | None = None

    def describe(self) -> str:
        """Return a short name of the layer for messages: where it stands, or what made it."""
        return self.source or self.text or (self.where.text() if isinstance(self.where, Place) else self.where.text)

    def spelled(self) -> str:
        """Return the policy's spelling of the place, as a waiver names it: the same on every target, bound or not."""
        if self.text:
            return self.text
        preset = self.source.partition(":")[2]
        return preset or (self.where.text() if isinstance(self.where, Place) else self.where.text)


class SocketRule(NamedTuple):
    """A ``socket:`` line: ``deny``, ``connect`` or ``bind`` at a literal place."""

    where: Place
    access: str
    origin: str
    text: str = ""
    span: Span | None = None

    def describe(self) -> str:
        """Return a short name of the line for messages."""
        return "socket " + (self.text or self.where.text())


class ProtectedName(NamedTuple):
    """A name that is kept readable only below a writable root (``git``: below its git directory)."""

    path: tuple[str, ...]
    kind: str = ""
    git: bool = False
    occupant: str | None = None


class Ceiling(NamedTuple):
    """A second stack that the first is intersected with."""

    baseline: str
    layers: tuple[Layer, ...]


class Layers(NamedTuple):
    """A whole stack for one operating system, with the rules that do not speak of files.

    ``ceilings`` are intersected with ``layers``: the access at a place is the strictest that any of them gives.
    ``protected`` is kept so that writable roots which come later (approvals) get their protected names too.
    """

    os: str
    mode: str
    baseline: str
    layers: tuple[Layer, ...] = ()
    sockets: tuple[SocketRule, ...] = ()
    network: Network = Network()
    protected: tuple[ProtectedName, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()

    @property
    def flavour(self) -> str:
        """Return the path flavour of the operating system."""
        return WINDOWS if self.os == "windows" else POSIX

    @property
    def confines(self) -> bool:
        """Return whether the stack asks for any confinement."""
        return self.mode != DANGER_FULL_ACCESS


class Decision(NamedTuple):
    """Which access holds at a place, the layer that decided (None: the baseline) and those it beat."""

    access: str
    layer: Layer | None
    beaten: tuple[Layer, ...] = ()
    depth: int = -1


def stricter(one: str, other: str) -> str:
    """Return the stricter of two accesses."""
    return one if RANK[one] <= RANK[other] else other


def beats(one: Layer, other: Layer) -> bool:
    """Return whether ``one`` decides over ``other`` where both stand at the same node (design rule 2)."""
    ranks = _ORIGIN_RANK[one.origin], _ORIGIN_RANK[other.origin]
    if ranks[0] != ranks[1]:
        return ranks[0] > ranks[1]
    literal = isinstance(one.where, Place), isinstance(other.where, Place)
    if literal[0] != literal[1]:
        return literal[0]
    return RANK[one.access] < RANK[other.access]


class _Node:
    __slots__ = ("children", "globs", "layers")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.layers: list[Layer] = []
        self.globs: list[tuple[Layer, Glob]] = []


class Index:
    """A look-up structure over one stack: a question costs the depth of its path, not the number of layers.

    ``fold`` compares names without regard to case, for targets whose volumes do.
    """

    def __init__(self, layers: Layers, fold: bool = False) -> None:
        self._fold = fold
        self._composes = layers.os == "macos"  # its volumes take composed and decomposed names for one
        self._stacks = [(layers.baseline, self._build(layers.layers))]
        self._stacks += [(ceiling.baseline, self._build(ceiling.layers)) for ceiling in layers.ceilings]

    def _build(self, layers: Iterable[Layer]) -> dict[str, _Node]:
        roots: dict[str, _Node] = {}
        for layer in layers:
            where = layer.where
            if isinstance(where, Place):
                self._node(roots, where).layers.append(layer)
            elif where.anchor is not None:
                self._node(roots, where.anchor).globs.append((layer, where))
        return roots

    def _key(self, name: str) -> str:
        if self._composes and not name.isascii():
            from unicodedata import normalize

            name = normalize("NFC", name)
        return name.casefold() if self._fold else name

    def _node(self, roots: dict[str, _Node], place: Place) -> _Node:
        node = roots.get(place.root)
        if node is None:
            node = roots[place.root] = _Node()
        for name in place.parts:
            key = self._key(name) if self._fold or self._composes else name
            below = node.children.get(key)
            if below is None:
                below = node.children[key] = _Node()
            node = below
        return node

    def decide(self, place: Place) -> Decision:
        """Return the decision at a place."""
        answers = [self._decide(baseline, roots, place) for baseline, roots in self._stacks]
        return min(answers, key=lambda answer: RANK[answer.access])

    def access(self, place: Place) -> str:
        """Return just the access at a place."""
        return self.decide(place).access

    def _decide(self, baseline: str, roots: dict[str, _Node], place: Place) -> Decision:
        best: Layer | None = None  # deepest of all
        depth = -1
        under = baseline  # what the layers without the protected names say
        beaten: list[Layer] = []
        for at, found in self._along(roots, place):
            plain = [layer for layer in found if not layer.cap]
            if plain:
                under = _winner(plain).access
            winner = _winner(found)
            beaten += [best] if best else []
            beaten += [layer for layer in found if layer is not winner]
            best, depth = winner, at
        if best is None:
            return Decision(baseline, None)
        access = stricter(READ, under) if best.cap else best.access
        return Decision(access, best, tuple(reversed(beaten)), depth)

    def _along(self, roots: dict[str, _Node], place: Place) -> Iterator[tuple[int, list[Layer]]]:
        """Yield, from the root down to the place, the layers that stand at each node on the way."""
        node = roots.get(place.root)
        running: list[tuple[Layer, Glob, frozenset[int]]] = []
        if place.root and "" in roots:
            # a pattern that holds everywhere hangs from the POSIX root, and holds below every other root as well
            every = (item for item in roots[""].globs if item[1].within == "everywhere")
            running += [(layer, glob, globs.start(glob.pattern)) for layer, glob in every]
        for depth in range(len(place.parts) + 1):
            found: list[Layer] = []
            if depth:
                name = place.parts[depth - 1]
                node = node.children.get(self._key(name)) if node else None
                if running:
                    moved = ((a, g, globs.step(g.pattern, s, name, self._fold)) for a, g, s in running)
                    running = [item for item in moved if item[2]]
            if node:
                found += node.layers
                running += [(layer, glob, globs.start(glob.pattern)) for layer, glob in node.globs]
            for layer, glob, states in running:
                if len(glob.pattern) in states and not self._spared(glob, place.parts[:depth]):
                    found.append(layer)
            if found:
                yield depth, found

    def _spared(self, glob: Glob, parts: tuple[str, ...]) -> bool:
        anchor = glob.anchor
        below = parts[len(anchor.parts) :] if anchor else parts
        return any(globs.match_prefix(spared, below, self._fold) for spared in glob.excepts)


def _winner(found: list[Layer]) -> Layer:
    best = found[0]
    for layer in found[1:]:
        if beats(layer, best):
            best = layer
    return best


def sort_key(layer: Layer) -> tuple[object, ...]:
    """Return the key under which stacks are kept: by place, then origin, so that writing order never shows."""
    where = layer.where
    tail = (layer.text, layer.cap, layer.locked, layer.kind, layer.absent, layer.private, layer.reason)
    if isinstance(where, Place):
        return (where.root, where.parts, 0, _ORIGIN_RANK[layer.origin], layer.access, layer.source, *tail)
    anchor = where.anchor or Place("", ())
    return (
        anchor.root,
        (*anchor.parts, *where.pattern),
        1,
        _ORIGIN_RANK[layer.origin],
        layer.access,
        layer.source,
        *tail,
        len(anchor.parts),
        where.text,
        where.within,
        where.excepts,
    )


def ordered(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return the layers in canonical order, exact repetitions dropped."""
    return tuple(sorted(dict.fromkeys(layers), key=sort_key))


def protect(stack: Layers) -> Layers:
    """Return the stack with the protected names and floating globs of every writable root in place.

    Repeating it changes nothing; it is called again whenever a layer is added.
    """
    base = [layer for layer in stack.layers if not layer.cap]
    roots = [layer for layer in base if layer.access == WRITE]
    # what is protected for itself, such as the policy file, hangs from no writable root and is kept
    made = [layer for layer in stack.layers if layer.cap]
    for root in roots:
        if not root.private:
            made += protected_below(root.where, stack.protected)
    for layer in base:
        if isinstance(layer.where, Glob) and layer.where.anchor is None:
            made += _anchored(layer, layer.where, roots)
    return stack._replace(layers=ordered((*base, *made)))


def _anchored(layer: Layer, glob: Glob, roots: list[Layer]) -> Iterator[Layer]:
    """Yield a floating glob's layer once for each place that it holds below."""
    if glob.within == "everywhere":
        yield layer._replace(where=glob.at(Place("", ())))
        return
    for root in roots:
        if isinstance(root.where, Place):
            yield layer._replace(where=glob.at(root.where))
        elif root.where.anchor is not None:
            joined = Glob(root.where.anchor, root.where.pattern + glob.pattern, glob.text, "", glob.excepts)
            yield layer._replace(where=joined)


def protected_below(root: Place | Glob, names: Iterable[ProtectedName]) -> Iterator[Layer]:
    """Yield the layers that keep the protected names below one writable root."""
    if isinstance(root, Glob) and root.anchor is None:
        return
    inside = isinstance(root, Place) and ".git" in root.parts
    itself = isinstance(root, Place) and root.parts[-1:] == (".git",)
    for name in names:
        if inside and not (itself and name.git):
            continue  # a part of a git directory holds no names of its own; a git directory those of git
        path = (".git", *name.path) if name.git and not itself else name.path
        where: Place | Glob
        if isinstance(root, Glob):
            where = Glob(root.anchor, root.pattern + path, root.text)
        elif any(char in part for part in path for char in "*?["):
            head = next(i for i, part in enumerate(path) if any(char in part for char in "*?["))
            where = Glob(root.child(*path[:head]), path[head:], "/".join(path))
        else:
            where = root.child(*path)
        yield Layer(
            where,
            READ,
            PROTECTED,
            "protected:" + "/".join((".git", *name.path) if name.git else path),
            cap=True,
            kind=name.kind,
            occupant=name.occupant,
        )


def restrict(stack: Layers, baseline: str, layers: Iterable[Layer]) -> Layers:
    """Return the stack narrowed to the stricter of itself and the given layers at every place.

    A floating pattern among them holds below the writable roots of both.
    """
    asked = [layer._replace(origin=RESTRICTION) for layer in layers]
    roots = [layer for layer in (*stack.layers, *asked) if layer.access == WRITE and not layer.cap]
    for layer in tuple(asked):
        if isinstance(layer.where, Glob) and layer.where.anchor is None:
            asked += _anchored(layer, layer.where, roots)
    return stack._replace(ceilings=(*stack.ceilings, Ceiling(baseline, ordered(asked))))


def intersect(one: Layers, other: Layers) -> Layers:
    """Return a stack that gives at every place the stricter of what the two give."""
    ceilings = dict.fromkeys((*one.ceilings, Ceiling(other.baseline, other.layers), *other.ceilings))
    own = Ceiling(one.baseline, one.layers)
    return one._replace(ceilings=tuple(ceiling for ceiling in ceilings if ceiling != own))


def approve(stack: Layers, layers: Iterable[Layer], network: Network | None = None) -> Layers:
    """Return the stack with approvals layered last: at one place they win, a deeper denial stays."""
    granted = tuple(layer._replace(origin=APPROVAL) for layer in layers)
    ceilings = tuple(Ceiling(c.baseline, ordered((*c.layers, *granted))) for c in stack.ceilings)
    wider = protect(stack._replace(layers=ordered((*stack.layers, *granted)), ceilings=ceilings))
    return wider._replace(network=network) if network else wider


def approve_full_access(stack: Layers) -> Layers:
    """Return the stack under an approved ``danger-full-access``: ``write /`` and the whole network, as approvals."""
    root = Layer(Place("", ()), WRITE, APPROVAL, "approved danger-full-access")
    return approve(stack, [root], Network(ALLOW_ALL))


def bind(stack: Layers, values: Mapping[str, Place]) -> Layers:
    """Return the stack with every parameter root replaced; layers of a parameter without a value are dropped."""

    def bound(layers: Iterable[Layer]) -> tuple[Layer, ...]:
        found: list[Layer] = []
        for layer in layers:
            where = bind_where(layer.where, values)
            if where is not None:
                found.append(Layer(where, *layer[1:]))
        return ordered(found)

    sockets = []
    for rule in stack.sockets:
        place = rule.where.bind(values)
        if place is not None:
            sockets.append(rule._replace(where=place))
    ceilings = tuple(Ceiling(c.baseline, bound(c.layers)) for c in stack.ceilings)
    return stack._replace(layers=bound(stack.layers), sockets=tuple(sockets), ceilings=ceilings)


def bind_where(where: Place | Glob, values: Mapping[str, Place]) -> Place | Glob | None:
    """Return a place or glob with its parameter root replaced, or None where that parameter has no value."""
    if isinstance(where, Place):
        return where.bind(values)
    if where.anchor is None:
        return where
    anchor = where.anchor.bind(values)
    return None if anchor is None else where.at(anchor)
