"""The places of a stack as trees of names, one for the file system's root and one for each parameter.

How the trees of different roots lie in one another is known only when the parameters have values, so the profile
itself puts them together when it is loaded. What is known now, the places below one root, is folded here.
"""

from collections.abc import Iterable, Iterator

from sandboxc.emitters.seatbelt.patterns import (
    Token,
    fold_name,
    literal_regex,
    load_key,
    matcher_text,
    token,
    token_text,
)
from sandboxc.emitters.seatbelt.printer import MAX_LITERAL, form, quoted_list, string
from sandboxc.globs import ANY_DEPTH, Glob
from sandboxc.layers import ORIGINS, Layer
from sandboxc.places import Place
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.records import NamedTuple

NONE = -1
_STRICTNESS = {WRITE: 0, READ: 1, DENY: 2}
_ACCESSES = (WRITE, READ, DENY)
_ROOT_LINKS = ("tmp", "var", "etc")
_DATA_VOLUME = ("System", "Volumes", "Data")
#: Directories of the data volume that show at the root; their other spelling matches nothing.
_FIRMLINKS = ("Applications", "Library", "Users", "Volumes", "cores", "opt", "private")
#: Nodes in one quoted list; readers drop a form that is much larger.
_CHUNK = 120


class Scores(NamedTuple):
    """What a layer says for reading and for writing, as the numbers that the profile compares; -1 is nothing."""

    read: int
    write: int


def score(origin: str, access: str, literal: bool) -> int:
    """Return the number of a layer: the higher one decides where two stand at one place (design rules 1 and 2)."""
    return ORIGINS.index(origin) * 6 + (3 if literal else 0) + _STRICTNESS[access]


def scores(layer: Layer) -> Scores:
    """Return the numbers of a layer; a protected name says nothing about reading."""
    value = score(layer.origin, layer.access, isinstance(layer.where, Place))
    return Scores(NONE if layer.cap else value, value)


def spellings(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the physical place of a path below the file system's root, then the spelled one if it differs.

    Source: /tmp, /var and /etc link into /private, /home into the data volume, whose directories show at the root.
    """
    physical = parts
    if parts[:1] and parts[0] in _ROOT_LINKS:
        physical = ("private", *parts)
    elif parts[:1] == ("home",):
        physical = (*_DATA_VOLUME, *parts)
    elif parts[:3] == _DATA_VOLUME and (parts[3:4] and (parts[3] in _FIRMLINKS or parts[3:5] == ("usr", "local"))):
        physical = parts[3:]
    return (physical,) if physical == parts else (physical, parts)


def forms(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the components as written and, where they differ, composed and decomposed.

    macOS volumes take these for one name and show the one that was made; a filter is compared as it is written.
    """
    if all(name.isascii() for name in parts):
        return (parts,)
    from unicodedata import normalize

    composed, apart = (tuple(normalize(form, name) for name in parts) for form in ("NFC", "NFD"))
    return tuple(dict.fromkeys((parts, composed, apart)))


def link_nodes(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the root link that a path below the file system's root goes through, if it does."""
    return ((parts[0],),) if parts[:1] and parts[0] in (*_ROOT_LINKS, "home") else ()


class Node:
    """A name, what the layers at it say, marks for the profile, and the names below it."""

    __slots__ = ("children", "marks", "name", "scores")

    def __init__(self, name: str) -> None:
        self.name = name
        self.scores = Scores(NONE, NONE)
        self.marks: list[str] = []
        self.children: dict[str, Node] = {}

    def add(self, found: Scores) -> None:
        """Note what one more layer says here; the higher numbers stay."""
        self.scores = Scores(max(self.scores.read, found.read), max(self.scores.write, found.write))

    def size(self) -> int:
        """Return the number of nodes, this one included."""
        return 1 + sum(child.size() for child in self.children.values())


class Patterns(NamedTuple):
    """Patterns that hang at one anchor together. ``anchored`` says whether the anchor itself is pinned."""

    scores: Scores
    anchored: bool
    patterns: tuple[tuple[str, ...], ...]
    excepts: tuple[tuple[str, ...], ...]
    follows: bool  # a directory below ``**`` must stay where it is


class Forest:
    """The trees of one stack, by root."""

    def __init__(self, fold: bool) -> None:
        self.fold = fold
        self.roots: dict[str, Node] = {"": Node("")}

    def node(self, root: str, parts: tuple[str, ...]) -> Node:
        """Return the node at a place, made where it is not there yet."""
        node = self.roots.setdefault(root, Node(""))
        for name in parts:
            node = node.children.setdefault(fold_name(name, self.fold), Node(name))
        return node

    def nodes(self, place: Place) -> Iterator[Node]:
        """Yield the node of each spelling of a place, once; the root link on the way may be looked at."""
        for written in forms(place.parts):
            for parts in (written,) if place.root else spellings(written):
                yield self.node(place.root, parts)
        if place.root:
            return
        for parts in link_nodes(place.parts):
            self.node("", parts).marks.append("stat")

    def place(self, place: Place, found: Scores, mark: str = "") -> None:
        """Note what a layer says at a place."""
        for node in self.nodes(place):
            node.add(found)
            if mark:
                node.marks.append(mark)

    def sites(self) -> int:
        """Return how many places may change access, of the operation that has more of them."""
        return max(self._sites(0), self._sites(1))

    def _sites(self, operation: int) -> int:
        count = 0
        stack = [(root, -1) for root in self.roots.values()]
        while stack:
            node, last = stack.pop()
            value = node.scores[operation]
            now = last
            if value >= 0:
                now = int(value % 3 == 0) if operation else int(value % 3 < 2)
                count += now != last
            stack += [(child, now) for child in node.children.values()]
        return count


def hang(forest: Forest, layers: Iterable[Layer], groups: list[Patterns]) -> None:
    """Hang the patterns of a stack at their anchors; groups with the same content are shared."""
    writable = {layer.where for layer in layers if layer.access == WRITE and isinstance(layer.where, Place)}
    merged: dict[tuple[Place, tuple[str, ...], tuple[tuple[str, ...], ...]], tuple[Scores, bool]] = {}
    for layer in layers:
        where = layer.where
        if not isinstance(where, Glob) or where.anchor is None:
            continue
        excepts = tuple(_trimmed(each) for each in where.excepts)
        if () in excepts:
            continue  # everything is spared
        found, anchored = scores(layer), not where.within
        key = (where.anchor, _single(where.pattern), excepts)
        if key in merged:
            old, was = merged[key]
            found = Scores(max(old.read, found.read), max(old.write, found.write))
            anchored = anchored or was
        merged[key] = (found, anchored)
    together: dict[tuple[Place, Scores, bool, bool, tuple[tuple[str, ...], ...]], list[tuple[str, ...]]] = {}
    for (anchor, pattern, excepts), (found, anchored) in merged.items():
        follows = anchored and anchor not in writable
        together.setdefault((anchor, found, anchored, follows, excepts), []).append(pattern)
    for (anchor, found, anchored, follows, excepts), patterns in sorted(together.items()):
        group = Patterns(found, anchored, tuple(sorted(patterns)), excepts, follows)
        if group not in groups:
            groups.append(group)
        for node in forest.nodes(anchor):
            node.marks.append(str(groups.index(group)))


def _single(pattern: tuple[str, ...]) -> tuple[str, ...]:
    """Return a pattern with each run of ``**`` made one."""
    return tuple(p for i, p in enumerate(pattern) if p != ANY_DEPTH or pattern[i - 1 : i] != (ANY_DEPTH,))


def _trimmed(pattern: tuple[str, ...]) -> tuple[str, ...]:
    """Return an exception without trailing ``**``: what it matches covers everything below anyway."""
    while pattern and pattern[-1] == ANY_DEPTH:
        pattern = pattern[:-1]
    return pattern


def group_text(group: Patterns, fold: bool) -> str:
    """Return the Scheme expression of a group."""
    pins: list[tuple[str, ...]] = []
    stays: list[tuple[str, ...]] = []
    for pattern in group.patterns:
        for end in range(1, len(pattern)):
            if pattern[end - 1] == ANY_DEPTH:
                if end > 1 or group.follows:
                    stays.append((*pattern[: end - 1], ANY_DEPTH))
            else:
                pins.append(pattern[:end])
    lasts = [string(_token(each[-1], fold).regex) for each in group.excepts]
    return form(
        "sbx-group",
        str(group.scores.read),
        str(group.scores.write),
        "#t" if group.anchored else "#f",
        _patterns(group.patterns, fold),
        _patterns(group.excepts, fold),
        quoted_list(lasts),
        _patterns(dict.fromkeys(pins), fold),
        _patterns(dict.fromkeys(stays), fold),
        _heads(group.patterns, fold),
    )


def _heads(patterns: Iterable[tuple[str, ...]], fold: bool) -> str:
    """Return the matchers behind a leading ``**``, where every pattern has one and goes on."""
    found: list[str] = []
    for pattern in patterns:
        if pattern[0] != ANY_DEPTH or len(pattern) < 2:
            return "#f"
        found.append(matcher_text(_token(pattern[1], fold)))
    return quoted_list(dict.fromkeys(found))


def _token(component: str, fold: bool) -> Token:
    if any(char in component for char in "*?["):
        return token(component, fold)
    return Token(literal_regex(component, fold), load_key(component, fold), "")


def _patterns(patterns: Iterable[tuple[str, ...]], fold: bool) -> str:
    return quoted_list(
        quoted_list("'any" if part == ANY_DEPTH else token_text(_token(part, fold)) for part in pattern)
        for pattern in patterns
    )


class TreeText:
    """Prints trees: small ones as quoted data, large ones in parts that are defined before them."""

    def __init__(self, fold: bool) -> None:
        self.fold = fold
        self.parts: list[str] = []
        self.kinds: dict[str, Scores] = {}

    def expression(self, node: Node) -> str:
        """Return the Scheme expression of a tree; parts that must be defined first are added to ``parts``."""
        if node.size() <= _CHUNK and not _long(node):
            return "'" + self._datum(node, 1)
        name = self._name(node)
        head = form("cons", *name) if isinstance(name, tuple) else name
        return form("cons", head, form("cons", "'" + self._info(node), self._children(node)))

    def _children(self, node: Node) -> str:
        lists: list[str] = []
        chunk: list[Node] = []
        size = 0
        for key in sorted(node.children):
            child = node.children[key]
            if child.size() > _CHUNK or _long(child):
                lists.append(form("list", self.expression(child)))
                continue
            if size + child.size() > _CHUNK:
                lists.append(self._part(chunk))
                chunk, size = [], 0
            chunk.append(child)
            size += child.size()
        if chunk:
            lists.append(self._part(chunk))
        while len(lists) > 20:
            lists = [self._define(form("append", *lists[i : i + 20])) for i in range(0, len(lists), 20)]
        return form("append", *lists)

    def _part(self, nodes: list[Node]) -> str:
        return self._define("'(" + "\n   ".join(self._datum(node, 2) for node in nodes) + ")")

    def _define(self, expression: str) -> str:
        name = f"sbx-part-{len(self.parts)}"
        self.parts.append(form("define", name, "\n  " + expression))
        return name

    def _datum(self, node: Node, depth: int) -> str:
        name = self._name(node)
        head = f"({name[0]} . {name[1]})" if isinstance(name, tuple) else name
        lead = "\n" + "  " * depth
        below = "".join(lead + self._datum(node.children[key], depth + 1) for key in sorted(node.children))
        return f"({head} {self._info(node)}{below})"

    def _info(self, node: Node) -> str:
        name = kind(node.scores)
        if node.scores == (NONE, NONE) and not node.marks:
            return "()"
        self.kinds[name] = node.scores
        return form(name, *dict.fromkeys(node.marks)) if node.marks else name

    def _name(self, node: Node) -> str | tuple[str, str]:
        key = load_key(node.name, self.fold)
        return string(node.name) if key == node.name else (string(key), string(node.name))


def _long(node: Node) -> bool:
    own = len(string(node.name).encode()) > MAX_LITERAL - 5
    return own or any(_long(child) for child in node.children.values())


def kind(found: Scores) -> str:
    """Return the symbol that stands for a pair of numbers in a profile."""
    if found == (NONE, NONE):
        return "nothing"
    if found.read == found.write:
        origin, access = divmod(found.read, 6)
        return f"{_ACCESSES[access % 3]}-{ORIGINS[origin]}" + ("" if access > 2 else "-pattern")
    if found.read == NONE and found.write % 3 == 1:
        return f"keep-{ORIGINS[found.write // 6]}"
    return f"reads{found.read}-writes{found.write}".replace("-1", "0")
