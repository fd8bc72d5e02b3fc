"""One bounded walk below the writable roots: glob matches, repositories, sockets and names of known objects."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sandboxc import globs
from sandboxc.globs import Glob
from sandboxc.layers import Layer
from sandboxc.survey.gitdirs import is_bare
from sandboxc.survey.look import DIRECTORY, SOCKET, Look

MAX_ENTRIES = 400_000


class Match(NamedTuple):
    """A node that a glob layer matched."""

    layer: Layer
    path: str
    kind: str


class Found(NamedTuple):
    """What a walk saw. ``complete`` is False where its bound was reached or a directory could not be listed."""

    matches: tuple[Match, ...]
    tops: tuple[str, ...]  # directories that hold a `.git`
    bare: tuple[str, ...]  # directories that are a git directory themselves
    sockets: tuple[str, ...]
    names: Mapping[int, tuple[str, ...]]  # inode number -> paths, for the inode numbers asked for
    unlisted: tuple[str, ...]
    exhausted: bool


class _Pattern(NamedTuple):
    layer: Layer
    glob: Glob
    states: frozenset[int]
    below: tuple[str, ...]  # components since the anchor, kept only where exceptions need them


class _Walk:
    def __init__(self, look: Look, inodes: Iterable[int], bound: int) -> None:
        self.look = look
        self.inodes = frozenset(inodes)
        self.left = bound
        self.matches: dict[tuple[Layer, str], Match] = {}
        self.tops: dict[str, None] = {}
        self.bare: dict[str, None] = {}
        self.sockets: dict[str, None] = {}
        self.names: dict[int, dict[str, None]] = {}
        self.unlisted: list[str] = []

    def run(self, root: str, patterns: list[_Pattern], whole: bool) -> None:
        """Walk below ``root``; where ``whole`` is False only as far as a pattern can still match."""
        stack = [(root, patterns)]
        while stack and self.left > 0:
            path, running = stack.pop()
            names = self.look.names(path)
            if names is None:
                self.unlisted.append(path)
                continue
            self.left -= len(names) + 1
            base = path.rstrip("/")
            if whole:
                present = {name.name for name in names}
                if ".git" in present:
                    self.tops[path] = None
                elif is_bare(present) and not base.endswith("/.git"):
                    self.bare[path] = None
            for name in names:
                below = f"{base}/{name.name}"
                if whole and name.kind == SOCKET:
                    self.sockets[below] = None
                if name.ino in self.inodes and name.kind != DIRECTORY:
                    self.names.setdefault(name.ino, {})[below] = None
                moved = [step for step in (self._step(p, name.name, below, name.kind) for p in running) if step]
                if name.kind == DIRECTORY and (whole or moved):
                    stack.append((below, moved))

    def _step(self, pattern: _Pattern, name: str, path: str, kind: str) -> _Pattern | None:
        states = globs.step(pattern.glob.pattern, pattern.states, name)
        if not states:
            return None
        below = (*pattern.below, name) if pattern.glob.excepts else ()
        if len(pattern.glob.pattern) in states:
            spared = any(globs.match_prefix(form, below) for form in pattern.glob.excepts)
            if not spared:
                self.matches[(pattern.layer, path)] = Match(pattern.layer, path, kind)
        return _Pattern(pattern.layer, pattern.glob, states, below)


def walk(
    look: Look,
    roots: Iterable[str],
    layers: Iterable[Layer],
    inodes: Iterable[int] = (),
    bound: int = MAX_ENTRIES,
) -> Found:
    """Return what one walk finds.

    Args:
        look: who answers.
        roots: physical paths to walk whole (the outermost writable roots).
        layers: layers whose place is an anchored glob, anchors physical. One that holds ``everywhere`` is
            looked for below the roots only; an anchored one also outside them.
        inodes: inode numbers whose names are wanted.
        bound: the number of names after which the walk gives up.
    """
    job = _Walk(look, inodes, bound)
    outer = _outermost(roots)
    patterns = [(layer, layer.where) for layer in layers if isinstance(layer.where, Glob)]
    for root in outer:
        start = [p for layer, glob in patterns if (p := _entering(layer, glob, root))]
        job.run(root, start, whole=True)
    for layer, glob in patterns:
        assert glob.anchor is not None
        anchor = glob.anchor.text()
        if glob.within == "everywhere" or any(_inside(anchor, root) for root in outer):
            continue
        job.run(anchor, [_Pattern(layer, glob, globs.start(glob.pattern), ())], whole=False)
    names = {number: tuple(sorted(paths)) for number, paths in job.names.items()}
    return Found(
        tuple(sorted(job.matches.values(), key=lambda m: (m.path, m.layer.text))),
        tuple(sorted(job.tops)),
        tuple(sorted(job.bare)),
        tuple(sorted(job.sockets)),
        names,
        tuple(sorted(job.unlisted)),
        job.left <= 0,
    )


def _entering(layer: Layer, glob: Glob, root: str) -> _Pattern | None:
    """Return the pattern as it stands at a walk's root, or None where it can match nothing below it."""
    anchor = glob.anchor
    assert anchor is not None
    parts = tuple(part for part in root.split("/") if part)
    if parts[: len(anchor.parts)] != anchor.parts:
        return _waiting(layer, glob, root) if _inside(anchor.text(), root) else None
    states = globs.start(glob.pattern)
    below = parts[len(anchor.parts) :]
    for name in below:
        states = globs.step(glob.pattern, states, name)
    return _Pattern(layer, glob, states, below if glob.excepts else ()) if states else None


def _waiting(layer: Layer, glob: Glob, root: str) -> _Pattern:
    """Return a pattern whose anchor lies below the walk's root: the way to the anchor is read literally."""
    assert glob.anchor is not None
    way = glob.anchor.parts[len([part for part in root.split("/") if part]) :]
    literal = tuple(_literal(part) for part in way)
    longer = Glob(glob.anchor, literal + glob.pattern, glob.text, glob.within, ())
    return _Pattern(layer, longer._replace(excepts=_spared(glob, literal)), globs.start(longer.pattern), ())


def _spared(glob: Glob, literal: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(literal + form for form in glob.excepts)


def _literal(part: str) -> str:
    """Return a component as a pattern that matches just itself."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in part)


def _outermost(roots: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for root in sorted(set(roots), key=lambda path: (path.count("/"), path)):
        if not any(_inside(root, outer) for outer in kept):
            kept.append(root)
    return kept


def _inside(path: str, root: str) -> bool:
    return path == root or root == "/" or path.startswith(root + "/")
