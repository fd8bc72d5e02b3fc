"""Regions: which parts of a tree get which rights, by rules that only ever add.

Three classes of right are expanded separately: to read, to list, to modify. Landlock's rules hold for a node
and everything below it and none subtracts, so a class is granted on a directory only where nothing below it
may go without; otherwise the directory itself gets nothing and its names are granted one by one. Rights to read
and list are expanded only along what is denied, rights to modify along read layers too.
"""

from collections.abc import Iterable, Iterator

from sandboxc.layers import Layer
from sandboxc.records import NamedTuple
from sandboxc.survey.look import DEVICE, DIRECTORY, LINK, SOCKET, Look, Node

READING, LISTING, MODIFYING = 0, 1, 2
CLASSES = (READING, LISTING, MODIFYING)


class Says(NamedTuple):
    """What is said at one place of each class; None leaves a class as it is above."""

    reading: bool | None = None
    listing: bool | None = None
    modifying: bool | None = None


class Blame(NamedTuple):
    """Whose doing a difference is: the place as a waiver names it, the layer, and whether a preset asks for it."""

    at: str
    layer: Layer | None = None
    preset: bool = False


class Spot:
    """One place where something is said, or a directory above such a place."""

    __slots__ = ("blame", "blocks", "children", "node", "opens", "says")

    def __init__(self, node: Node | None) -> None:
        self.node = node
        self.says = Says()
        self.blame: Blame | None = None
        self.children: list[str] = []
        self.blocks: tuple[list[Blame], list[Blame], list[Blame]] = ([], [], [])  # strictly below
        self.opens = [False, False, False]  # strictly below


class Granted(NamedTuple):
    """A node that gets rights of some classes (bit ``1 << class``); a ``sibling`` was found by its directory."""

    node: Node
    classes: int
    sibling: bool


class Withheld(NamedTuple):
    """A directory that gets no right of a class of its own, and what lies below it that is to blame."""

    path: str
    kind: int
    blames: tuple[Blame, ...]


class Expansion(NamedTuple):
    """What gets rights, by path; what does not; directories that could not be listed; other names left out."""

    granted: dict[str, Granted]
    withheld: tuple[Withheld, ...]
    unlisted: tuple[str, ...]
    aliases: tuple[str, ...]


class Regions:
    """A tree of places, asked once for its expansion."""

    def __init__(self, look: Look, baseline: Says) -> None:
        self._look = look
        self._spots: dict[str, Spot] = {}
        self._spot("/").says = baseline

    def _spot(self, path: str) -> Spot:
        found = self._spots.get(path)
        if found is None:
            found = self._spots[path] = Spot(self._look.node(path))
            here = path
            while here != "/":
                above = here.rpartition("/")[0] or "/"
                known = self._spots.get(above)
                if known is None:
                    self._spots[above] = Spot(self._look.node(above))
                self._spots[above].children.append(here)
                if known is not None:
                    break
                here = above
        return found

    def say(self, path: str, says: Says, blame: Blame | None = None) -> None:
        """Set what holds at and below a path, class by class, over what was said there before."""
        spot = self._spot(path)
        spot.says = Says(*(old if new is None else new for old, new in zip(spot.says, says, strict=True)))
        spot.blame = blame or spot.blame

    def under(self, path: str) -> Says:
        """Return what holds at a path."""
        found: list[bool | None] = [None, None, None]
        here = path
        while True:
            spot = self._spots.get(here)
            if spot is not None:
                found = [old if old is not None else new for old, new in zip(found, spot.says, strict=True)]
            if here == "/":
                return Says(*found)
            here = here.rpartition("/")[0] or "/"

    def expand(self, listed: frozenset[str] = frozenset()) -> Expansion:
        """Return what is to be granted; denied directories blamed on a place in ``listed`` do not stop listing."""
        self._weigh(listed)
        job = _Job(self._look, self._spots)
        for kind in CLASSES:
            job.run(kind)
        return Expansion(job.granted, tuple(job.withheld), tuple(sorted(job.unlisted)), tuple(sorted(job.aliases)))

    def _weigh(self, listed: frozenset[str]) -> None:
        """Tell every directory what lies below it that differs."""
        for path, spot in self._spots.items():
            blocks = [kind for kind in CLASSES if self._blocks(spot, kind, listed)]
            opens = [kind for kind in CLASSES if spot.says[kind] and spot.node is not None]
            here = path
            while (blocks or opens) and here != "/":
                here = here.rpartition("/")[0] or "/"
                above = self._spots[here]
                for kind in blocks:
                    above.blocks[kind].append(spot.blame or Blame(""))
                for kind in opens:
                    above.opens[kind] = True

    def _blocks(self, spot: Spot, kind: int, listed: frozenset[str]) -> bool:
        if spot.says[kind] is not False:
            return False
        if kind == MODIFYING:
            return True  # an absent name too: what is not there must not be made
        if spot.node is None or spot.node.kind == LINK:
            return False
        if kind == READING:
            return True
        return spot.node.kind == DIRECTORY and (spot.blame is None or spot.blame.at not in listed)


class _Job:
    def __init__(self, look: Look, spots: dict[str, Spot]) -> None:
        self.look = look
        self.spots = spots
        self.nodes: dict[str, Node | None] = {}
        self.granted: dict[str, Granted] = {}
        self.withheld: list[Withheld] = []
        self.unlisted: set[str] = set()
        self.aliases: set[str] = set()

    def run(self, kind: int) -> None:
        """Walk the spots from the root down and grant one class."""
        guarded = frozenset(self._guarded(kind))
        stack = [("/", False)]
        while stack:
            path, above = stack.pop()
            spot = self.spots[path]
            said = spot.says[kind]
            value = above if said is None else said
            if not value:
                stack += [(child, False) for child in spot.children if self._opens(child, kind)]
            elif not spot.blocks[kind] or (spot.node is not None and spot.node.kind != DIRECTORY):
                self._grant(path, spot.node, kind, guarded, sibling=spot.says == Says())
            elif spot.node is not None:
                self.withheld.append(Withheld(path, kind, tuple(dict.fromkeys(spot.blocks[kind]))))
                stack += [(child, True) for child in self._siblings(path, kind, guarded)]

    def _opens(self, path: str, kind: int) -> bool:
        spot = self.spots[path]
        return bool(spot.says[kind]) or spot.opens[kind]

    def _siblings(self, path: str, kind: int, guarded: frozenset[tuple[int, int]]) -> Iterable[str]:
        """Grant the names in a directory of which nothing is said, and yield the others."""
        names = self.look.names(path)
        if names is None:
            self.unlisted.add(path)
        base = path.rstrip("/")
        for name in names or ():
            below = f"{base}/{name.name}"
            if below in self.spots or name.kind in (LINK, SOCKET, DEVICE):
                continue
            if kind != LISTING or name.kind == DIRECTORY:
                self._grant(below, self._node(below), kind, guarded, sibling=True)
        return self.spots[path].children

    def _node(self, path: str) -> Node | None:
        """Return the node of a sibling, asked for once for all classes."""
        if path not in self.nodes:
            self.nodes[path] = self.look.node(path)
        return self.nodes[path]

    def _grant(
        self, path: str, node: Node | None, kind: int, guarded: frozenset[tuple[int, int]], *, sibling: bool
    ) -> None:
        if node is None or node.kind == LINK or (kind == LISTING and node.kind != DIRECTORY):
            return
        if (node.dev, node.ino) in guarded:
            self.aliases.add(path)
            return
        before = self.granted.get(path)
        classes = (before.classes if before else 0) | 1 << kind
        self.granted[path] = Granted(node, classes, sibling)

    def _guarded(self, kind: int) -> Iterator[tuple[int, int]]:
        """Yield the objects that no rule may name: what goes without the class, and what lies above it."""
        for spot in self.spots.values():
            if spot.node is None:
                continue
            above = spot.node.kind == DIRECTORY and spot.blocks[kind]
            if above or (spot.says[kind] is False and spot.node.kind != LINK):
                yield (spot.node.dev, spot.node.ino)
