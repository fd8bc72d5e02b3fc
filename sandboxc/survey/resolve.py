"""From bound layers to sites: links followed, globs expanded, repositories found, ties settled."""

from collections.abc import Iterable
from typing import NamedTuple

from sandboxc.diagnostics import Diagnostic, Label, error, note
from sandboxc.globs import Glob
from sandboxc.layers import (
    PROTECTED,
    RANK,
    Ceiling,
    Index,
    Layer,
    Layers,
    ProtectedName,
    SocketRule,
    lock_conflicts,
    ordered,
    protected_below,
    stricter,
)
from sandboxc.places import Place, posix
from sandboxc.policy import CONNECT, DENY, READ, WRITE, Network
from sandboxc.survey.aliases import Aliases, Overrides
from sandboxc.survey.gitdirs import Repository, configured_paths, repository_at
from sandboxc.survey.look import ABSENT, DIRECTORY, FILE, LINK, SOCKET, Look, Node, Walker
from sandboxc.survey.walk import Found, walk


class Site(NamedTuple):
    """One physical place where the access is decided anew, and the layer that decides.

    ``kind`` is a kind of ``survey.look`` (``absent`` where nothing is there); ``missing`` is then the first
    component that is not there. ``node`` identifies the object that was seen. ``above`` is the access of the
    nearest enclosing site (or the baseline), so ``access == above`` means that the site changes nothing.
    ``alias_of`` names the site whose object this is another name of.
    """

    path: str
    access: str
    above: str
    kind: str
    layer: Layer
    node: Node | None = None
    missing: str = ""
    alias_of: str = ""

    @property
    def redundant(self) -> bool:
        """Return whether the site says what its surroundings say."""
        return self.access == self.above

    @property
    def depth(self) -> int:
        """Return the number of components of the path."""
        return len([part for part in self.path.split("/") if part])


class Resolved(NamedTuple):
    """A bound stack on one file system, flattened to literal physical sites, shallow to deep.

    ``links`` are symbolic links that a layer was reached through and that lie where the sandbox may write.
    ``sockets`` are Unix sockets that exist, lie in readable places and may not be connected to;
    ``connectable`` those that a ``socket:`` line opens. ``write_roots`` are the outermost write sites.
    ``incomplete`` says in words where the survey had to stop.
    """

    os: str
    mode: str
    baseline: str
    network: Network
    sites: tuple[Site, ...]
    links: tuple[str, ...]
    sockets: tuple[str, ...]
    connectable: tuple[str, ...]
    repositories: tuple[Repository, ...]
    incomplete: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def write_roots(self) -> tuple[Site, ...]:
        """Return the write sites that no other write site contains without a stricter one between."""
        return tuple(site for site in self.sites if site.access == WRITE and site.above != WRITE)

    def access(self, path: str) -> str:
        """Return the access at an absolute physical path."""
        here = path
        table = {site.path: site.access for site in self.sites}
        while True:
            if here in table:
                return table[here]
            if here == "/":
                return self.baseline
            here = here.rpartition("/")[0] or "/"


def resolve(stack: Layers, look: Look, home: str = "") -> Resolved:
    """Return the sites of a bound stack.

    Args:
        stack: layers without parameter roots, POSIX flavour.
        look: who answers about the file system; asked anew for every call.
        home: the home directory, for ``~/`` in git configuration; empty where there is none.
    """
    return _Survey(stack, look, home).run()


class _Survey:
    def __init__(self, stack: Layers, look: Look, home: str) -> None:
        self.stack = stack
        self.look = look
        self.walker = Walker(look)
        self.home = home
        self.problems: list[Diagnostic] = []
        self.incomplete: list[str] = []
        self.links: dict[str, list[Layer]] = {}
        self.repositories: dict[str, Repository] = {}
        self.overrides: Overrides = {}

    def run(self) -> Resolved:
        stack = self._physical(self.stack)
        roots = self._write_roots(stack)
        aliases = Aliases(self.look, self.walker)
        suspects = aliases.linked_objects(stack)
        found = walk(self.look, roots, self._globs(stack), {ino for _, ino in suspects})
        self._note_limits(found, stack)
        stack = self._with_matches(stack, found)
        stack = self._with_repositories(stack, found)
        self._check_locks(stack)
        self._check_granting_links(stack)
        aliases.find(roots, stack, found, suspects)
        aliases.find_mounted(stack)
        self.overrides = aliases.overrides
        self.incomplete += aliases.incomplete
        index = Index(stack)
        sites = self._sites(stack, index)
        result = Resolved(
            stack.os,
            stack.mode,
            stack.baseline,
            stack.network,
            sites,
            self._writable_links(sites),
            (),
            (),
            tuple(self.repositories[key] for key in sorted(self.repositories)),
            tuple(self.incomplete),
            tuple(self.problems),
        )
        denied, opened = self._sockets(result, found)
        return result._replace(sockets=denied, connectable=opened)

    # -- links -------------------------------------------------------------------------------------------

    def _physical(self, stack: Layers) -> Layers:
        """Return the stack with every literal place and glob anchor moved to where its links lead."""
        moved = tuple(self._physical_layer(layer) for layer in stack.layers)
        ceilings = tuple(Ceiling(c.baseline, tuple(map(self._physical_layer, c.layers))) for c in stack.ceilings)
        sockets = tuple(rule._replace(where=self._place(rule.where, None)) for rule in stack.sockets)
        return stack._replace(layers=ordered(moved), ceilings=ceilings, sockets=sockets)

    def _physical_layer(self, layer: Layer) -> Layer:
        if isinstance(layer.where, Glob):
            anchor = layer.where.anchor
            return layer if anchor is None else layer._replace(where=layer.where.at(self._place(anchor, layer)))
        return layer._replace(where=self._place(layer.where, layer))

    def _place(self, place: Place, layer: Layer | None) -> Place:
        walked = self.walker.walk(place.text())
        if walked.loop and layer is not None:
            self.problems.append(
                error("SBX711", f"`{layer.describe()}` runs through a loop of symbolic links", layer.span)
            )
        if layer is not None:
            for link in walked.links:
                self.links.setdefault(link, []).append(layer)
        return posix(walked.path)

    def _check_granting_links(self, stack: Layers) -> None:
        """Refuse a layer that grants through a link which this policy lets the sandbox replace."""
        index = Index(stack)
        for link, layers in sorted(self.links.items()):
            parent = posix(link.rpartition("/")[0])
            if index.access(parent) != WRITE:
                continue
            for layer in layers:
                if layer.cap or layer.access == DENY or not isinstance(layer.where, Place):
                    continue
                target = self._place(layer.where, None)
                others = tuple(o for o in stack.layers if o.source != layer.source or o.span != layer.span)
                without = Index(stack._replace(layers=others)).access(target)
                if RANK[layer.access] > RANK[without]:
                    self.problems.append(
                        error(
                            "SBX712",
                            f"`{layer.describe()}` grants `{layer.access}` at `{target.text()}` through the link `{link}`, "
                            "which the sandbox may replace",
                            layer.span,
                            f"write the entry for `{target.text()}` itself, or deny writing to the link",
                        )
                    )

    def _writable_links(self, sites: tuple[Site, ...]) -> tuple[str, ...]:
        table = _Table(sites, self.stack.baseline)
        return tuple(link for link in sorted(self.links) if table.access(link.rpartition("/")[0] or "/") == WRITE)

    # -- globs and repositories --------------------------------------------------------------------------

    def _write_roots(self, stack: Layers) -> list[str]:
        roots: list[str] = []
        for layer in stack.layers:
            if layer.access == WRITE and isinstance(layer.where, Place) and not layer.private:
                path = layer.where.text()
                node = self.walker.node(path)
                if path != "/" and node is not None and node.kind == DIRECTORY:
                    roots.append(path)
        return roots

    def _globs(self, stack: Layers) -> list[Layer]:
        every = [*stack.layers, *(layer for ceiling in stack.ceilings for layer in ceiling.layers)]
        return [layer for layer in every if isinstance(layer.where, Glob) and layer.where.anchor is not None]

    def _note_limits(self, found: Found, stack: Layers) -> None:
        if found.exhausted:
            self.incomplete.append("a writable tree holds more names than one look may read")
            for layer in stack.layers:
                if isinstance(layer.where, Glob) and layer.span is not None and not layer.cap:
                    self.problems.append(
                        error(
                            "SBX713",
                            f"the trees below the writable roots are too large to look for `{layer.where.text}`",
                            layer.span,
                            "narrow the roots, or name the paths",
                        )
                    )
        self.incomplete += [f"`{path}` cannot be listed" for path in found.unlisted]

    def _with_matches(self, stack: Layers, found: Found) -> Layers:
        """Return the stack with each glob layer replaced by a literal layer at every match (links: at both ends)."""
        made: dict[Layer, list[Layer]] = {}
        for match in found.matches:
            places = [posix(match.path)]
            if match.kind == LINK:
                walked = self.walker.walk(match.path)
                self.links.setdefault(match.path, []).append(match.layer._replace(where=places[0]))
                places.append(posix(walked.path))
            for place in places:
                made.setdefault(match.layer, []).append(match.layer._replace(where=place, kind=match.kind))
        self._check_link_matches(made, found)

        def literal(layers: Iterable[Layer]) -> tuple[Layer, ...]:
            kept = [layer for layer in layers if isinstance(layer.where, Place)]
            taken = {(layer.where, layer.origin) for layer in kept if not layer.cap}  # a literal beats a glob
            for layer in layers:
                kept += [item for item in made.get(layer, ()) if (item.where, item.origin) not in taken]
            return tuple(kept)

        ceilings = tuple(Ceiling(c.baseline, literal(c.layers)) for c in stack.ceilings)
        return stack._replace(layers=ordered(literal(stack.layers)), ceilings=ceilings)

    def _check_link_matches(self, made: dict[Layer, list[Layer]], found: Found) -> None:
        for match in found.matches:
            if match.kind == LINK and match.layer.access != DENY and not match.layer.cap:
                target = self.walker.walk(match.path).path
                made[match.layer] = [item for item in made[match.layer] if item.where != posix(target)]

    def _with_repositories(self, stack: Layers, found: Found) -> Layers:
        git = tuple(name for name in stack.protected if name.git)
        direct = tuple(name for name in stack.protected if not name.git)
        if not git and not direct:
            return stack
        index = Index(stack)
        made: list[Layer] = []
        for top in found.tops:
            repository = repository_at(top, self.look, self.walker)
            if repository is None:
                continue
            self.repositories[top] = repository
            made += list(protected_below(posix(top), direct))
            if repository.pointer and git:
                made.append(_cap(repository.pointer, "protected:.git", FILE))
            for directory in repository.directories:
                made += self._git_layers(directory, git)
        for directory in found.bare:
            self.repositories[directory] = Repository("", (directory,))
            made += self._git_layers(directory, git)
        useful = [layer for layer in made if isinstance(layer.where, Place) and index.access(layer.where) == WRITE]
        return stack._replace(layers=ordered((*stack.layers, *useful)))

    def _git_layers(self, directory: str, names: tuple[ProtectedName, ...]) -> list[Layer]:
        if not names:
            return []
        found: list[Layer] = []
        patterns: list[Layer] = []
        for name in names:
            text = "protected:.git/" + "/".join(name.path)
            if any(char in part for part in name.path for char in "*?["):
                glob = Glob(posix(directory), name.path, "/".join(name.path))
                patterns.append(Layer(glob, READ, PROTECTED, text, cap=True, kind=name.kind))
            else:
                path = "/".join((directory, *name.path))
                found.append(_cap(path, text, name.kind)._replace(occupant=name.occupant))
        for match in walk(self.look, (), patterns).matches:
            found.append(match.layer._replace(where=posix(match.path)))
        for path in configured_paths(directory, self.home, self.look):
            walked = self.walker.walk(path)
            found.append(_cap(walked.path, f"protected:{path}", ""))
        return found

    # -- sites -------------------------------------------------------------------------------------------

    def _check_locks(self, stack: Layers) -> None:
        for lock, layer in lock_conflicts(stack):
            labels = [Label(lock.span, f"locked at `{lock.access}` here")] if lock.span else []
            self.problems.append(
                error(
                    "SBX345",
                    f"`{layer.describe()}` is bound below `{lock.describe()}`, which is locked at `{lock.access}`",
                    layer.span or lock.span,
                    "bind it elsewhere, or remove the lock",
                    labels,
                )
            )

    def _sites(self, stack: Layers, index: Index) -> tuple[Site, ...]:
        places: dict[str, None] = {}
        file_roots = self._file_roots(stack)
        for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
            for layer in layers:
                if isinstance(layer.where, Place) and not self._below_file(layer, file_roots):
                    places[layer.where.text()] = None
        for path in self.overrides:
            places[path] = None
        table: dict[str, str] = {}
        sites: list[Site] = []
        for path in sorted(places, key=lambda path: (path.count("/") if path != "/" else 0, path)):
            above = _enclosing(path, table, stack.baseline)
            decision = index.decide(posix(path))
            access, alias = decision.access, ""
            decided: Layer | None = decision.layer
            override = self.overrides.get(path)
            if override is not None and RANK[override[0]] < RANK[access]:
                access, decided, alias = stricter(access, override[0]), override[1], override[2]
            if decided is None:
                continue
            walked = self.walker.walk(path, follow=False)
            kind = walked.node.kind if walked.node else ABSENT
            table[path] = access
            sites.append(Site(path, access, above, kind, decided, walked.node, walked.missing, alias))
        self._report_workspace(sites)
        return tuple(sites)

    def _file_roots(self, stack: Layers) -> tuple[str, ...]:
        """Return the write roots that are files: those get no protected children."""
        found: list[str] = []
        for layer in stack.layers:
            if layer.access == WRITE and isinstance(layer.where, Place):
                node = self.walker.node(layer.where.text())
                if node is not None and node.kind != DIRECTORY:
                    found.append(layer.where.text())
        return tuple(found)

    def _below_file(self, layer: Layer, roots: tuple[str, ...]) -> bool:
        assert isinstance(layer.where, Place)
        path = layer.where.text()
        return layer.cap and any(path.startswith(root + "/") for root in roots)

    def _report_workspace(self, sites: list[Site]) -> None:
        for site in sites:
            if site.layer.source == "workspace" and site.above == DENY:
                self.problems.append(
                    note(
                        "SBX714",
                        f"the workspace `{site.path}` lies inside a hidden path and stays reachable",
                        site.layer.span,
                    )
                )

    # -- sockets -----------------------------------------------------------------------------------------

    def _sockets(self, resolved: Resolved, found: Found) -> tuple[tuple[str, ...], tuple[str, ...]]:
        rules: dict[str, SocketRule] = {rule.where.text(): rule for rule in self.stack.sockets}
        rules = {self.walker.walk(path).path: rule for path, rule in rules.items()}
        table = _Table(resolved.sites, resolved.baseline)
        denied: list[str] = []
        opened: list[str] = []
        for path in sorted({*found.sockets, *self.look.sockets(), *rules}):
            walked = self.walker.walk(path)
            if walked.node is None or walked.node.kind != SOCKET:
                continue
            rule = rules.get(walked.path)
            if rule is not None and rule.access == CONNECT:
                opened.append(walked.path)
            elif table.access(walked.path) != DENY:
                denied.append(walked.path)
        return tuple(dict.fromkeys(denied)), tuple(dict.fromkeys(opened))


class _Table:
    """Access look-ups on a tuple of sites."""

    def __init__(self, sites: tuple[Site, ...], baseline: str) -> None:
        self._table = {site.path: site.access for site in sites}
        self._baseline = baseline

    def access(self, path: str) -> str:
        return self._table[path] if path in self._table else _enclosing(path, self._table, self._baseline)


def _enclosing(path: str, table: dict[str, str], baseline: str) -> str:
    here = path
    while here and here != "/":
        here = here.rpartition("/")[0] or "/"
        if here in table:
            return table[here]
    return baseline


def _cap(path: str, source: str, kind: str) -> Layer:
    return Layer(posix(path), READ, PROTECTED, source, cap=True, kind=kind)
