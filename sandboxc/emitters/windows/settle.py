"""A bound stack meets one tree: links are followed, patterns expanded, repositories found, kinds told."""

from collections.abc import Iterator, Mapping

from sandboxc import globs
from sandboxc.diagnostics import Diagnostic, PolicyError, error
from sandboxc.emitters.windows.plan import ABSENT, DIRECTORY, FILE, Seen
from sandboxc.emitters.windows.sids import native
from sandboxc.globs import Glob
from sandboxc.layers import (
    PROTECTED,
    Ceiling,
    Index,
    Layer,
    Layers,
    ProtectedName,
    ordered,
    protected_below,
)
from sandboxc.places import WINDOWS, PathProblem, Place, Spelled, parse_place
from sandboxc.policy import READ, WRITE
from sandboxc.records import NamedTuple, Protocol

LINK = "link"
MAX_LINKS = 63  # reparse points that Windows follows in one path
MAX_NAMES = 1_000_000

_Running = tuple[Layer, Glob, frozenset[int]]


class Tree(Protocol):
    """Answers about the files of one host. Paths are native and absolute (``C:\\a\\b``); nothing is followed."""

    def kind(self, path: str) -> str:
        """Return ``directory``, ``file``, ``link`` (symbolic link or junction) or ``absent``."""

    def target(self, path: str) -> str:
        """Return the target of a link, absolute or relative to the link's directory."""

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory; none where it cannot be listed."""

    def content(self, path: str) -> str | None:
        """Return the text of a small file, or None."""


class DescribedTree:
    """A ``Tree`` over a mapping of native paths to ``{"type": ..., "target": ..., "content": ...}``.

    Names compare without regard to case; parents are directories without being named.
    """

    def __init__(self, paths: Mapping[str, Mapping[str, str]]) -> None:
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._names: dict[str, dict[str, str]] = {}
        for path in sorted(paths):
            parts = [part for part in path.replace("/", "\\").split("\\") if part]
            for depth in range(1, len(parts) + 1):
                key = "\\".join(parts[:depth]).casefold()
                self._nodes.setdefault(key, {"type": DIRECTORY})
                if depth > 1:
                    below = self._names.setdefault("\\".join(parts[: depth - 1]).casefold(), {})
                    below.setdefault(parts[depth - 1].casefold(), parts[depth - 1])
            self._nodes["\\".join(parts).casefold()] = paths[path]

    def _node(self, path: str) -> Mapping[str, str]:
        return self._nodes.get(path.rstrip("\\").casefold(), {"type": ABSENT})

    def kind(self, path: str) -> str:
        """Return the described kind."""
        return self._node(path).get("type", FILE)

    def target(self, path: str) -> str:
        """Return the described target."""
        return self._node(path).get("target", "")

    def names(self, path: str) -> tuple[str, ...]:
        """Return the described names."""
        return tuple(sorted(self._names.get(path.rstrip("\\").casefold(), {}).values()))

    def content(self, path: str) -> str | None:
        """Return the described content."""
        return self._node(path).get("content")


class Settled(NamedTuple):
    """A stack whose places are physical, and what the plan needs to know of the tree."""

    stack: Layers
    seen: Seen


def settle(stack: Layers, tree: Tree, fold: bool, everything: bool = False) -> Settled:
    """Return the physical stack; ``everything`` looks for matches outside writable roots too.

    Raises:
        PolicyError: a parameter is open, or the tree holds something that a policy may not name.
    """
    return _Settling(stack, tree, fold, everything).run()


class _Settling:
    def __init__(self, stack: Layers, tree: Tree, fold: bool, everything: bool) -> None:
        self.stack = stack
        self.tree = tree
        self.fold = fold
        self.everything = everything
        self.problems: list[Diagnostic] = []
        self.links: dict[Place, Layer] = {}
        self.matches: dict[Place, None] = {}
        self.left = MAX_NAMES

    def run(self) -> Settled:
        self._check_bound()
        stack = self._physical(self.stack)
        stack = self._with_repositories(stack)
        self._match(stack)
        if self.problems:
            raise PolicyError(self.problems)
        seen = Seen(self._kind, tuple(self.matches), tuple(self.links.items()))
        return Settled(stack, seen)

    def _kind(self, place: Place) -> str:
        found = self.tree.kind(native(place))
        return FILE if found == LINK else found

    def _check_bound(self) -> None:
        for layers in (self.stack.layers, *(ceiling.layers for ceiling in self.stack.ceilings)):
            for layer in layers:
                where = layer.where if isinstance(layer.where, Place) else layer.where.anchor
                if where is not None and where.root and not where.is_bound:
                    self.problems.append(error("SBX703", f"parameter `{where.root}` has no value"))
        if self.problems:
            raise PolicyError(self.problems)

    # -- links -------------------------------------------------------------------------------------------

    def _physical(self, stack: Layers) -> Layers:
        drives = sorted(
            {layer.where.root for layer in stack.layers if isinstance(layer.where, Place) and layer.where.root}
        )
        index = Index(stack, self.fold)

        def moved(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
            found: list[Layer] = []
            for layer in layers:
                if isinstance(layer.where, Place):
                    found.append(self._moved(layer, layer.where, index))
                elif layer.where.anchor is None:
                    continue
                elif not layer.where.anchor.root:
                    found += [layer._replace(where=layer.where.at(Place(drive, ()))) for drive in drives]
                else:
                    place, links = self._follow(layer.where.anchor, layer)
                    found.append(layer._replace(where=layer.where.at(place)) if links else layer)
            return ordered(found)

        ceilings = tuple(Ceiling(c.baseline, moved(c.layers)) for c in stack.ceilings)
        return stack._replace(layers=moved(stack.layers), ceilings=ceilings)

    def _moved(self, layer: Layer, where: Place, index: Index) -> Layer:
        place, links = self._follow(where, layer)
        if not links:
            return layer
        if layer.access == WRITE and index.access(place) != WRITE:
            planted = [link for link in links if index.access(link.parent) == WRITE]
            if planted:
                message = f"`{layer.describe()}` opens `{native(place)}` through a link in a writable directory"
                self.problems.append(error("SBX712", message, layer.span, "name the place itself, or remove the link"))
        return layer._replace(where=place)

    def _follow(self, place: Place, layer: Layer) -> tuple[Place, tuple[Place, ...]]:
        """Return where a place leads and the links on the way, which are remembered as held."""
        links: list[Place] = []
        todo = list(reversed(place.parts))
        here = Place(place.root, ())
        while todo:
            below = here.child(todo.pop())
            if self.tree.kind(native(below)) != LINK:
                here = below
                continue
            links.append(below)
            target = self._target(below)
            if len(links) > MAX_LINKS or target is None:
                message = f"`{layer.describe()}` runs through a loop of links or one that leads nowhere"
                self.problems.append(error("SBX711", message, layer.span, "remove the link"))
                return place, ()
            todo += list(reversed(target.parts))
            here = Place(target.root, ())
        for link in links:
            self.links.setdefault(link, layer)
        return here, tuple(links)

    def _target(self, link: Place) -> Place | None:
        text = self.tree.target(native(link))
        spelled: Spelled | PathProblem = parse_place(text, WINDOWS, ()) if text else PathProblem("", "", "", 0, 0)
        if isinstance(spelled, PathProblem) and text:
            base = native(link.parent).rstrip("\\")
            spelled = parse_place(f"{base}\\{text}".replace("$", "$$"), WINDOWS, ())
        return spelled.place if isinstance(spelled, Spelled) else None

    # -- repositories and patterns -----------------------------------------------------------------------

    def _write_roots(self, stack: Layers) -> list[Place]:
        """Return the topmost writable directories that are there."""
        index = Index(stack, self.fold)
        found: dict[Place, None] = {}
        for layer in stack.layers:
            where = layer.where
            if not isinstance(where, Place) or layer.private or index.access(where) != WRITE:
                continue
            if where.parts and index.access(where.parent) == WRITE:
                continue
            if self.tree.kind(native(where)) == DIRECTORY:
                found[where] = None
        return list(found)

    def _walk(self, top: Place) -> Iterator[tuple[Place, str]]:
        """Yield everything below a directory with its kind, no link followed; parents come first."""
        pending = [top]
        while pending:
            here = pending.pop()
            for name in sorted(self.tree.names(native(here)), reverse=True):
                self.left -= 1
                if self.left < 0:
                    self.problems.append(
                        error("SBX713", f"`{native(top)}` holds more than {MAX_NAMES} names", None, "narrow it")
                    )
                    return
                place = here.child(name)
                kind = self.tree.kind(native(place))
                yield place, kind
                if kind == DIRECTORY:
                    pending.append(place)

    def _with_repositories(self, stack: Layers) -> Layers:
        git = tuple(name for name in stack.protected if name.git)
        direct = tuple(name for name in stack.protected if not name.git)
        if not git and not direct:
            return stack
        made: list[Layer] = []
        for root in self._write_roots(stack):
            entries = [(root.child(".git"), self.tree.kind(native(root.child(".git"))))]
            entries += [(p, kind) for p, kind in self._walk(root) if p.parts[-1].casefold() == ".git"]
            for place, kind in dict.fromkeys(entries):
                if kind == ABSENT or ".git" in place.parts[:-1]:
                    continue
                made += protected_below(place.parent, direct)
                if kind == DIRECTORY:
                    made += _git_layers(place, git)
                    continue
                made.append(Layer(place, READ, PROTECTED, "protected:.git", cap=True, kind=FILE))
                for directory in self._pointed(place):
                    made += _git_layers(directory, git)
        return stack._replace(layers=ordered((*stack.layers, *made)))

    def _pointed(self, place: Place) -> list[Place]:
        """Return the git directories that a ``.git`` file leads to: its own, and the common one."""
        text = self.tree.content(native(place)) or ""
        if not text.startswith("gitdir:"):
            return []
        own = self._beside(place.parent, text[len("gitdir:") :].strip())
        if own is None:
            return []
        common = self.tree.content(native(own.child("commondir")))
        shared = self._beside(own, common.strip()) if common else None
        return [own] if shared is None else [own, shared]

    def _beside(self, base: Place, text: str) -> Place | None:
        """Return the place that a path in a git file names, relative ones taken from ``base``."""
        spelled = parse_place(text.replace("$", "$$"), WINDOWS, (), base) if text else None
        if not isinstance(spelled, Spelled):
            parts = list(base.parts)
            for name in text.replace("\\", "/").split("/"):
                if name == ".." and parts:
                    parts.pop()
                elif name not in ("", ".", ".."):
                    parts.append(name)
            return Place(base.root, tuple(parts)) if text else None
        return spelled.place

    def _match(self, stack: Layers) -> None:
        """Collect the places that patterns name: below writable roots and, for what opens, wherever it is anchored."""
        layers = [
            layer
            for group in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings))
            for layer in group
            if isinstance(layer.where, Glob)
        ]
        if not layers:
            return
        tops = self._write_roots(stack)
        for layer in layers:
            opens = self.everything or layer.access == WRITE
            if opens and isinstance(layer.where, Glob) and layer.where.anchor:
                tops.append(layer.where.anchor)
        anchored: dict[Place, list[tuple[Layer, Glob]]] = {}
        for layer in layers:
            if isinstance(layer.where, Glob) and layer.where.anchor is not None:
                anchored.setdefault(self._folded(layer.where.anchor), []).append((layer, layer.where))
        for top in dict.fromkeys(tops):
            self._match_below(top, anchored)

    def _folded(self, place: Place) -> Place:
        return Place(place.root, tuple(name.casefold() for name in place.parts)) if self.fold else place

    def _match_below(self, top: Place, anchored: Mapping[Place, list[tuple[Layer, Glob]]]) -> None:
        """Walk below one directory; each pattern is carried along as far as it can still match."""
        here: list[_Running] = []
        for depth in range(len(top.parts) + 1):
            place = Place(top.root, top.parts[:depth])
            here = [*(self._step(here, place) if depth else ()), *self._started(anchored, place)]
        if any(len(glob.pattern) in states for _, glob, states in here):
            self.matches[top] = None
        live = {top: here}
        for place, kind in self._walk(top):
            running = self._step(live.get(place.parent, []), place)
            for layer, glob, states in running:
                if len(glob.pattern) in states and glob.matches(place.parts[_depth(glob) :], self.fold):
                    if kind == LINK:
                        self.links.setdefault(place, layer)
                    else:
                        self.matches[place] = None
            if kind == DIRECTORY:
                started = self._started(anchored, place)
                if any(len(glob.pattern) in states for _, glob, states in started):
                    self.matches[place] = None  # a pattern such as `**` names its own anchor as well
                live[place] = [*running, *started]

    def _started(self, anchored: Mapping[Place, list[tuple[Layer, Glob]]], place: Place) -> list[_Running]:
        found = anchored.get(self._folded(place), [])
        return [(layer, glob, globs.start(glob.pattern)) for layer, glob in found]

    def _step(self, running: list[_Running], place: Place) -> list[_Running]:
        name = place.parts[-1]
        moved = ((layer, glob, globs.step(glob.pattern, states, name, self.fold)) for layer, glob, states in running)
        return [item for item in moved if item[2]]


def _depth(glob: Glob) -> int:
    return len(glob.anchor.parts) if glob.anchor else 0


def _git_layers(directory: Place, names: tuple[ProtectedName, ...]) -> Iterator[Layer]:
    """Yield the layers of the git part of the protected names for one git directory."""
    for name in names:
        where: Place | Glob = directory.child(*name.path)
        if any(char in part for part in name.path for char in "*?["):
            where = Glob(directory, name.path, "/".join(name.path))
        source = "protected:.git/" + "/".join(name.path)
        yield Layer(where, READ, PROTECTED, source, cap=True, kind=name.kind, occupant=name.occupant)


__all__ = ["DescribedTree", "Settled", "Tree", "settle"]
