"""The protected names of repositories that a walk met, wherever their git directories really are."""

from collections.abc import Iterator

from sandboxc.globs import Glob
from sandboxc.layers import PROTECTED, Index, Layer, Layers, ProtectedName, ordered, protected_below
from sandboxc.places import Place, posix
from sandboxc.policy import READ, WRITE
from sandboxc.survey.gitdirs import Configured, Repository, configured, repository_at
from sandboxc.survey.links import Links
from sandboxc.survey.look import FILE, Look, Walker
from sandboxc.survey.walk import Found, walk

#: Configuration that every repository obeys besides its own; the first two stand below the home directory.
GLOBAL = ("/.gitconfig", "/.config/git/config", "/etc/gitconfig")


def repository_layers(
    stack: Layers, found: Found, home: str, look: Look, walker: Walker, links: Links
) -> tuple[Layers, tuple[Repository, ...]]:
    """Return the stack with the protected names of every repository that was found, and the repositories.

    Args:
        stack: literal layers at physical places.
        found: what the walk of the writable roots saw.
        home: the home directory, empty where there is none.
        look: who answers.
        walker: who follows links, and remembers.
        links: where links on the way to protected names are noted.
    """
    git = tuple(name for name in stack.protected if name.git)
    direct = tuple(name for name in stack.protected if not name.git)
    if not git and not direct:
        return stack, ()
    repositories: dict[str, Repository] = {}
    tops: dict[str, list[str]] = {}  # git directory -> the tops of its working trees
    made: list[Layer] = []
    pointers: list[Layer] = []
    for top in found.tops:
        repository = repository_at(top, look, walker)
        if repository is None:
            continue
        repositories[top] = repository
        made += protected_below(posix(top), direct)
        if repository.pointer and git:
            pointers.append(_cap(repository.pointer, "protected:.git", FILE))
        for directory in repository.directories:
            tops.setdefault(directory, []).append(top)
    for directory in found.bare:
        repositories.setdefault(directory, Repository("", (directory,)))
        tops.setdefault(directory, [])
    if git and tops:
        every = configured([*(home + path for path in GLOBAL[:2] if home), GLOBAL[2]], home, look, walker)
        for directory in sorted(tops):
            own = [directory.removesuffix("/.git")] if directory.endswith("/.git") else []
            trees = sorted({*own, *tops[directory]}) or [directory]
            made += _git_layers(directory, trees, git, every, home, look, walker)
    index = Index(stack)
    literal: dict[Layer, None] = {}
    for layer in (*pointers, *made):
        if isinstance(layer.where, Place) and index.access(layer.where) == WRITE:
            literal[layer] = None
    for layer in made:
        physical = links.layer(layer) if _linked(layer, links.walker) else layer
        if physical is not layer and isinstance(physical.where, Place) and index.access(physical.where) == WRITE:
            literal[physical] = None
    ordered_repositories = tuple(repositories[key] for key in sorted(repositories))
    return stack._replace(layers=ordered((*stack.layers, *literal))), ordered_repositories


def _linked(layer: Layer, walker: Walker) -> bool:
    """Return whether a name is reached through a link, or is one."""
    return isinstance(layer.where, Place) and bool(walker.walk(layer.where.text()).links)


def _git_layers(
    directory: str,
    tops: list[str],
    names: tuple[ProtectedName, ...],
    every: Configured,
    home: str,
    look: Look,
    walker: Walker,
) -> Iterator[Layer]:
    patterns: list[Layer] = []
    for name in names:
        text = "protected:.git/" + "/".join(name.path)
        if any(char in part for part in name.path for char in "*?["):
            glob = Glob(posix(directory), name.path, "/".join(name.path))
            patterns.append(Layer(glob, READ, PROTECTED, text, cap=True, kind=name.kind))
        else:
            path = "/".join((directory, *name.path))
            yield _cap(path, text, name.kind)._replace(occupant=name.occupant)
    for match in walk(look, (), patterns, walker=walker).matches:
        yield match.layer._replace(where=posix(match.path))
    own = configured((f"{directory}/config", f"{directory}/config.worktree"), home, look, walker)
    for source in (own, every):
        for path in source.paths(tops):
            named = walker.walk(path, follow=False).path  # dots and links on the way folded, a last link kept
            yield _cap(named, f"protected:{path}", "")


def _cap(path: str, source: str, kind: str) -> Layer:
    return Layer(posix(path), READ, PROTECTED, source, cap=True, kind=kind)
