"""From bound layers to sites: links followed, globs expanded, repositories found, ties settled."""

from collections.abc import Iterable
from functools import cached_property

from sandboxc.diagnostics import Diagnostic, Label, error, note
from sandboxc.globs import Glob
from sandboxc.layers import (
    PROTECTED,
    RANK,
    RESTRICTION,
    Ceiling,
    Index,
    Layer,
    Layers,
    ordered,
    stricter,
)
from sandboxc.locks import lock_conflicts
from sandboxc.places import Place, posix
from sandboxc.policy import CONNECT, DENY, WRITE, Network
from sandboxc.records import NamedTuple
from sandboxc.survey.aliases import Override, linked_names, mounted_names
from sandboxc.survey.gitdirs import Repository
from sandboxc.survey.links import Links
from sandboxc.survey.look import ABSENT, DIRECTORY, LINK, SOCKET, Look, Node, Walker
from sandboxc.survey.repositories import repository_layers
from sandboxc.survey.walk import Found, walk


class Site(NamedTuple):
    """One physical place where the access is decided anew, and the layer that decides.

    ``kind`` is a kind of ``survey.look`` (``absent`` where nothing is there); ``missing`` is then the first
    component that is not there. ``node`` identifies the object that was seen. ``above`` is the access of the
    nearest enclosing site (or the baseline), so ``access == above`` means that the site changes nothing.
    ``alias_of`` names the site whose object this is another name of. ``blocker`` is what stands in the way of an
    absent place: something on its path that is no directory.
    """

    path: str
    access: str
    above: str
    kind: str
    layer: Layer
    node: Node | None = None
    missing: str = ""
    alias_of: str = ""
    blocker: str = ""

    @property
    def redundant(self) -> bool:
        """Return whether the site says what its surroundings say."""
        return self.access == self.above

    @property
    def depth(self) -> int:
        """Return the number of components of the path."""
        return len([part for part in self.path.split("/") if part])


class _Fields(NamedTuple):
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
    hops: tuple[tuple[str, str], ...] = ()


class Resolved(_Fields):
    """A bound stack on one file system, flattened to literal physical sites, shallow to deep.

    ``links`` are symbolic links that a layer was reached through and that lie where the sandbox may write.
    ``sockets`` are Unix sockets that exist, lie in readable places and may not be connected to;
    ``connectable`` those that a ``socket:`` line opens. ``incomplete`` says in words where the survey had to stop.
    ``hops`` are the links, with their texts, that a layer which opens something was spelled through. ``baseline``
    is the strictest baseline of the stack and its ceilings.
    """

    @property
    def write_roots(self) -> tuple[Site, ...]:
        """Return the write sites whose surroundings are not writable: workspace, temp, entries, islands."""
        return tuple(site for site in self.sites if site.access == WRITE and site.above != WRITE)

    @cached_property
    def _table(self) -> dict[str, str]:
        return {site.path: site.access for site in self.sites}

    def access(self, path: str) -> str:
        """Return the access at an absolute physical path."""
        table = self._table
        return table[path] if path in table else _enclosing(path, table, self.baseline)


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
        self.home = home
        self.walker = Walker(look)
        self.links = Links(self.walker)
        self.problems: list[Diagnostic] = []
        self.incomplete: list[str] = []
        self.seen: dict[str, str] = {}  # what patterns matched, with its kind

    def run(self) -> Resolved:
        stack = self.links.physical(self.stack)
        found = self._look_around(stack)
        matched = self._with_matches(stack, found)
        more = [root for root in self._write_roots(matched) if root not in found.listing]
        if more:  # writable roots that only a pattern brought in
            found = found.joined(self._walk(stack, more))
            matched = self._with_matches(stack, found)
        stack, repositories = repository_layers(matched, found, self.home, self.look, self.walker, self.links)
        self._note_limits(found, stack)
        index = Index(stack)
        self.problems += self.links.problems(stack, index)
        self._check_locks(stack)
        self._report_meetings(stack)
        names, stopped = linked_names(stack, index, self.look, self.walker, found)
        self.incomplete += stopped
        overrides = {**mounted_names(stack, index, self.look.mounts()), **self._unseen(stack, found)}
        for path, override in names.items():
            known = overrides.get(path)
            if known is None or RANK[override.access] < RANK[known.access]:
                overrides[path] = override
        baseline = stack.baseline
        for ceiling in stack.ceilings:
            baseline = stricter(baseline, ceiling.baseline)
        sites = self._sites(stack, index, baseline, overrides)
        result = Resolved(
            stack.os,
            stack.mode,
            baseline,
            stack.network,
            sites,
            (),
            (),
            (),
            repositories,
            tuple(self.incomplete),
            (),
            self.links.hops(),
        )
        denied, opened = self._sockets(result, found)
        return result._replace(
            links=self.links.replaceable(result.access),
            sockets=denied,
            connectable=opened,
            diagnostics=tuple(dict.fromkeys(self.problems)),
        )

    # -- what is there -----------------------------------------------------------------------------------

    def _look_around(self, stack: Layers) -> Found:
        return self._walk(stack, self._write_roots(stack))

    def _walk(self, stack: Layers, roots: list[str]) -> Found:
        every = [*stack.layers, *(layer for ceiling in stack.ceilings for layer in ceiling.layers)]
        globs = [layer for layer in every if isinstance(layer.where, Glob) and layer.where.anchor is not None]
        places = {layer.where.text() for layer in every if isinstance(layer.where, Place)}
        return walk(self.look, roots, globs, places, walker=self.walker)

    def _write_roots(self, stack: Layers) -> list[str]:
        roots: list[str] = []
        for layer in stack.layers:
            if layer.access == WRITE and isinstance(layer.where, Place) and not layer.private:
                path = layer.where.text()
                node = self.walker.node(path)
                if path != "/" and node is not None and node.kind == DIRECTORY:
                    roots.append(path)
        return roots

    def _note_limits(self, found: Found, stack: Layers) -> None:
        self.incomplete += [f"`{path}` cannot be listed" for path in found.unlisted if not self.look.closed(path)]
        if any(layer.access == WRITE and layer.where == posix("/") for layer in stack.layers):
            words = "`/` is writable: repositories and second names are looked for below the other writable roots only"
            self.incomplete.append(words)
        if not found.exhausted:
            return
        self.incomplete.append("a writable tree holds more names than one look may read")
        for layer in self.stack.layers:
            where = layer.where
            if isinstance(where, Glob) and where.anchor is not None and layer.span is not None and not layer.cap:
                self.problems.append(
                    error(
                        "SBX713",
                        f"the trees below the writable roots are too large to look for `{where.text}`",
                        layer.span,
                        "narrow the roots, or name the paths",
                    )
                )

    def _with_matches(self, stack: Layers, found: Found) -> Layers:
        """Return the stack with each glob layer replaced by a literal layer at every match (links: at both ends)."""
        index = Index(stack)
        made: dict[Layer, list[Layer]] = {}
        for match in found.matches:
            self.seen[match.path] = match.kind
            layer = match.layer._replace(where=posix(match.path), kind=match.kind)
            into = made.setdefault(match.layer, [])
            via = match.via
            if match.kind == LINK:
                into.append(layer)
                walked = self.walker.walk(match.path)
                if walked.loop:
                    continue
                layer = layer._replace(where=posix(walked.path), kind=walked.node.kind if walked.node else ABSENT)
                via = (*via, *walked.links)
            if not via or self.links.follows(layer, via, index):
                into.append(layer)

        def literal(layers: Iterable[Layer]) -> tuple[Layer, ...]:
            kept = [layer for layer in layers if isinstance(layer.where, Place)]
            taken = {(layer.where, layer.origin) for layer in kept if not layer.cap}  # a literal beats a glob
            for layer in layers:
                kept += [item for item in made.get(layer, ()) if (item.where, item.origin) not in taken]
            return tuple(kept)

        ceilings = tuple(Ceiling(c.baseline, literal(c.layers)) for c in stack.ceilings)
        return stack._replace(layers=ordered(literal(stack.layers)), ceilings=ceilings)

    def _unseen(self, stack: Layers, found: Found) -> dict[str, Override]:
        """Return a denial for every directory that hides from this look what the sandbox could get at.

        A run may have taken the right to list or search from a directory, so that the next one takes what is held
        in it for absent, and could give it back.
        """
        shut = {path for path in found.unlisted if self.look.closed(path)}
        places = {layer.where.text() for layer in stack.layers if isinstance(layer.where, Place)}
        above = {_parent(walked.missing) for walked in map(self.walker.walk, places) if walked.missing}
        shut |= {path for path in above if self.look.closed(path) == "search"}
        words = "cannot be listed and searched, so nothing below it is open to the run"
        self.incomplete += [f"`{path}` {words}" for path in sorted(shut)]
        return {path: Override(DENY, Layer(posix(path), DENY, PROTECTED, "unseen"), "") for path in shut}

    # -- what is wrong -----------------------------------------------------------------------------------

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

    def _report_meetings(self, stack: Layers) -> None:
        """Report entries with different accesses that came to stand at one place only here (design rule 1)."""
        said: dict[tuple[Place, str], Layer] = {}
        for layer in stack.layers:
            if not isinstance(layer.where, Place) or layer.cap or layer.span is None:
                continue
            earlier = said.setdefault((layer.where, layer.origin), layer)
            if earlier.access != layer.access and earlier.text != layer.text:
                strict = min(earlier, layer, key=lambda item: RANK[item.access])
                self.problems.append(
                    note(
                        "SBX715",
                        f"`{earlier.describe()}` and `{layer.describe()}` are both `{layer.where.text()}` here, "
                        f"so the stricter one holds: `{strict.access}`",
                        strict.span,
                    )
                )

    # -- sites -------------------------------------------------------------------------------------------

    def _sites(self, stack: Layers, index: Index, baseline: str, overrides: dict[str, Override]) -> tuple[Site, ...]:
        places: dict[str, None] = {}
        for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
            for layer in layers:
                if isinstance(layer.where, Place):
                    path = layer.where.text()
                    if path not in places and not (layer.cap and self._blocker(path)):
                        places[path] = None
        for path in overrides:
            places[path] = None
        table: dict[str, str] = {}
        deciders: dict[str, Layer] = {}
        sites: list[Site] = []
        for path in sorted(places, key=lambda path: (path.count("/") if path != "/" else 0, path)):
            above = _enclosing(path, table, baseline)
            decision = index.decide(posix(path))
            access, alias = decision.access, ""
            decided = decision.layer
            override = overrides.get(path)
            if override is not None and RANK[override.access] < RANK[access]:
                access, decided, alias = override.access, override.layer, override.of
            if decided is None:
                if access == above:
                    continue
                decided = Layer(posix(path), access, RESTRICTION, "the baseline of a restriction")
            walked = self.walker.walk(path, follow=False)
            node = walked.node
            if node is None and path in self.seen:
                node = Node(self.seen[path])  # it was there a moment ago: no node is this one, so no run starts
            kind = node.kind if node else ABSENT
            table[path] = access
            deciders[path] = decided
            if decided.source == "workspace" and above == DENY and self._hidden(path, deciders):
                words = f"the workspace `{path}` lies inside a hidden path and stays reachable"
                self.problems.append(note("SBX714", words, decided.span))
            blocker = "" if node else self._blocker(path)
            missing = "" if node else walked.missing
            sites.append(Site(path, access, above, kind, decided, node, missing, alias, blocker))
        return tuple(sites)

    def _blocker(self, path: str) -> str:
        """Return what an absent path runs through that is there and is no directory, or an empty text."""
        walked = self.walker.walk(path, follow=False)
        if walked.node is not None or not walked.missing:
            return ""
        above = walked.missing.rpartition("/")[0] or "/"
        node = self.walker.node(above)
        return above if node is not None and node.kind != DIRECTORY else ""

    def _hidden(self, path: str, deciders: dict[str, Layer]) -> bool:
        while path != "/":
            path = path.rpartition("/")[0] or "/"
            if path in deciders:
                return deciders[path].source.startswith("hidden:") or deciders[path].span is not None
        return False

    # -- sockets -----------------------------------------------------------------------------------------

    def _sockets(self, resolved: Resolved, found: Found) -> tuple[tuple[str, ...], tuple[str, ...]]:
        rules = self.links.socket_rules(self.stack.sockets, resolved.access, self.problems)
        denied: dict[str, None] = {}
        opened: dict[str, None] = {}
        for path in sorted({*found.sockets, *self.look.sockets(), *rules}):
            walked = self.walker.walk(path)
            if walked.node is None or walked.node.kind != SOCKET:
                continue
            rule = rules.get(walked.path)
            if rule is not None and rule.access == CONNECT:
                opened[walked.path] = None
            elif resolved.access(walked.path) != DENY:
                denied[walked.path] = None
        return tuple(sorted(denied)), tuple(sorted(opened))


def _enclosing(path: str, table: dict[str, str], baseline: str) -> str:
    here = path
    while here and here != "/":
        here = here.rpartition("/")[0] or "/"
        if here in table:
            return table[here]
    return baseline


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
