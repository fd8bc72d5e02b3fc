"""From layers to steps: which entry stands on which object, symbolic or bound.

Each place where the access changes gets explicit entries on its own object, and inheritance does the rest: on
any object an explicit entry precedes an inherited one, and what a nearer ancestor passes on precedes what comes
from a farther one. So the deepest layer decides however the parameters nest, and no step needs to know its
surroundings. What does depend on nesting is said in the step itself, as a condition on paths:

* ``below``: the step matters only where its path lies inside one of these roots, and is left out elsewhere;
* ``chain``: the entry belongs on every directory strictly between the path and such a root (a pin whose
  directories are not known before binding).

Where two parameters meet at one place, deny entries precede allow entries, so the stricter holds: never wider
than the layers, and exact once ``build`` has seen the bound stack, which settles such ties by origin first.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from sandboxc.diagnostics import Diagnostic, PolicyError, error
from sandboxc.emitters.windows import sddl
from sandboxc.emitters.windows.sddl import ALLOW, BELOW, ITSELF, REFUSE, TREE, Ace
from sandboxc.emitters.windows.sids import canonical_path, derive_guard, root_sid
from sandboxc.globs import ANY_DEPTH, Glob, match
from sandboxc.layers import ENTRY, PROTECTED, Index, Layer, Layers
from sandboxc.places import RUN_BASE, RUN_TMP, Place
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.records import NamedTuple

DIRECTORY = "directory"
FILE = "file"
ABSENT = "absent"

SKIP = "skip"  # nothing is done where the path is absent
OCCUPY = "occupy"  # the path is made for the run, missing parents too
OCCUPY_IN_PARENT = "occupy-in-parent"  # the same, but only where its directory exists
HOME = Place("home", ())
CREATE = "create"  # the path is made and stays

_SYSTEM = re.compile(r"system:[A-Za-z]:")  # a preset's directory on a drive, not one in a home


class Seen(NamedTuple):
    """What a look at one host's tree found, for a bound stack.

    ``kind`` answers ``directory``, ``file`` or ``absent`` for a place. ``matches`` are the places that globs and
    found repositories name; ``links`` are links on the way to a layer's place, held themselves.
    """

    kind: Callable[[Place], str]
    matches: tuple[Place, ...] = ()
    links: tuple[tuple[Place, Layer], ...] = ()


class Step(NamedTuple):
    """One entry on one object.

    ``ace`` is the entry for a directory; a file takes ``ace.on_file()``. ``kind`` is the kind of object that was
    seen or is assumed (``known`` tells which), ``layer`` the layer that asks for it. ``below`` and ``chain`` are
    explained above; ``strictly`` leaves out the place of such a root itself.
    """

    place: Place
    ace: Ace
    layer: Layer
    kind: str = DIRECTORY
    known: bool = False
    absent: str = SKIP
    occupant: str = FILE
    content: str = ""
    below: tuple[Place, ...] = ()
    strictly: bool = False
    chain: bool = False
    link: bool = False  # the entry belongs on the link that stands at the place, not on where it leads
    reason: str = ""  # why applying it may rewrite a large tree


class Plan(NamedTuple):
    """The steps in the order to apply, the roots that have a SID of their own, and the guard SID, if any."""

    steps: tuple[Step, ...] = ()
    roots: tuple[Place, ...] = ()
    guard: str = ""
    missing: tuple[Layer, ...] = ()  # layers whose literal place a look did not find


def build(stack: Layers, fold: bool, reads: str = "standard", seen: Seen | None = None, home: Place = HOME) -> Plan:
    """Return the plan of a stack, whose parameters may be open.

    Args:
        stack: layers of os ``windows``.
        fold: whether names compare without regard to case.
        reads: ``standard`` or ``strict``.
        seen: what was found on the host, for a stack whose parameters are all bound.
        home: the home directory, which strict reads open under a readable baseline.

    Raises:
        PolicyError: a layer stands where no access control list of this machine reaches.
    """
    _refuse_unreachable(stack)
    return _Builder(stack, fold, reads, seen, home).run()


def _refuse_unreachable(stack: Layers) -> None:
    problems: list[Diagnostic] = []
    for layer in _all_layers(stack):
        where = layer.where if isinstance(layer.where, Place) else layer.where.anchor
        if where is None:
            continue
        if where.root.startswith("//"):
            message = f"`{layer.describe()}` lies on a share, and a server does not see the restricted token"
            problems.append(error("SBX480", message, layer.span, "name a path on a local drive"))
        elif not where.root and isinstance(layer.where, Place):
            message = f"`{layer.describe()}` spans every drive, which no entry can"
            problems.append(error("SBX480", message, layer.span, "name the drives or directories"))
    if problems:
        raise PolicyError(problems)


def _all_layers(stack: Layers) -> Iterator[Layer]:
    yield from stack.layers
    for ceiling in stack.ceilings:
        yield from ceiling.layers


class _Site(NamedTuple):
    place: Place
    access: str
    above: str  # empty where the surroundings are not known
    layer: Layer | None


class _Builder:
    """One pass over the sites of a stack; collects steps by what they do."""

    def __init__(self, stack: Layers, fold: bool, reads: str, seen: Seen | None, home: Place) -> None:
        self.stack = stack
        self.fold = fold
        self.strict = reads == "strict"
        self.seen = seen
        self.home = home
        self.index = Index(stack, fold)
        self.refusals: dict[tuple[object, str, int], Step] = {}
        self.chains: dict[str, Step] = {}
        self.grants: list[Step] = []
        self.missing: dict[Layer, None] = {}
        self.pinned: dict[object, bool] = {}
        self.plain = {
            self._key(layer.where) for layer in _all_layers(stack) if isinstance(layer.where, Place) and not layer.cap
        }
        self.sites = self._sites()
        self.settled = all(site.place.is_bound for site in self.sites)
        self.roots = tuple(self._write_roots())

    def run(self) -> Plan:
        """Return the plan."""
        for site in self.sites:
            if site.layer is None:
                continue
            if site.access == WRITE:
                self._write(site, site.layer)
            else:
                self._refuse(site, site.layer)
                if self.strict and site.access == READ and not self._readable(site):
                    self._grant(site.place, site.layer, ((TREE, sddl.GRANT_READ),))
        for place, layer in self.seen.links if self.seen else ():
            if self.index.access(place.parent) == WRITE:
                self._add_refusal(Step(place, Ace(REFUSE, ITSELF, sddl.REFUSE_WRITE, ""), layer, FILE, True, link=True))
                self._pin_above(place, layer, False)
        return self._finish()

    def _finish(self) -> Plan:
        refusals = sorted((*self.refusals.values(), *self.chains.values()), key=self._order)
        refusals = self._present(refusals)
        guard = ""
        if refusals:
            guard = derive_guard(
                f"{step.ace.mask:x} {step.ace.flags} {step.chain:d} {canonical_path(step.place)}" for step in refusals
            )
        refusals = [step._replace(ace=step.ace._replace(sid=guard)) for step in refusals]
        grants = self._present(sorted(self.grants, key=self._order))
        named: dict[Place, None] = {}
        for step in grants:
            named[step.place] = None
        return Plan((*refusals, *grants), tuple(named), guard, tuple(self.missing))

    def _order(self, step: Step) -> tuple[object, ...]:
        key = self._key(step.place)
        return (len(step.place.parts), key, step.chain, -step.ace.mask, step.ace.flags)

    def _key(self, place: Place) -> tuple[str, tuple[str, ...]]:
        return place.root, tuple(part.casefold() for part in place.parts) if self.fold else place.parts

    # -- sites -------------------------------------------------------------------------------------------

    def _sites(self) -> tuple[_Site, ...]:
        places: dict[object, Place] = {}
        for layer in _all_layers(self.stack):
            if isinstance(layer.where, Place):
                places.setdefault(self._key(layer.where), layer.where)
        for place in self.seen.matches if self.seen else ():
            places.setdefault(self._key(place), place)
        named = self.home.is_bound or any(place.root == self.home.root for place in places.values())
        if self.strict and self.stack.baseline == READ and named:
            places.setdefault(self._key(self.home), self.home)
        found: list[_Site] = []
        for key in sorted(places, key=str):
            place = places[key]
            decision = self.index.decide(place)
            above = self.index.access(place.parent) if place.parts else ""
            if place.is_bound and not place.parts:
                above = self.stack.baseline
            decider = decision.layer or self._ceiling_layer(place)
            if decider is None and place == self.home:
                decider = Layer(place, READ, PROTECTED, "baseline", kind=DIRECTORY)
            found.append(_Site(place, decision.access, above, decider))
        return tuple(found)

    def _ceiling_layer(self, place: Place) -> Layer | None:
        """Return a layer to name where a restriction's baseline decides at a place that has layers."""
        key = self._key(place)
        for layer in _all_layers(self.stack):
            if isinstance(layer.where, Place) and self._key(layer.where) == key:
                return layer
        return None

    def _write_roots(self) -> Iterator[Place]:
        """Yield the topmost writable places; a private temp directory holds no place of a policy."""
        for site in self.sites:
            if site.access == WRITE and site.above != WRITE and site.place.root != RUN_TMP:
                yield site.place

    def _foreign(self, place: Place) -> tuple[Place, ...]:
        """Return the writable roots that may turn out to contain a place whose relation to them is open."""
        if place.root == RUN_TMP:
            return ()
        found = [root for root in self.roots if root.root != place.root and not (root.is_bound and place.is_bound)]
        return tuple(root for root in found if not any(root != other and other.contains(root) for other in found))

    # -- refusals ----------------------------------------------------------------------------------------

    def _refuse(self, site: _Site, layer: Layer) -> None:
        mask = sddl.REFUSE_WRITE
        reading = self.strict and site.access == DENY
        if reading:
            mask |= sddl.REFUSE_READ
        foreign = () if site.above == WRITE or reading else self._foreign(site.place)
        if site.above != WRITE and not foreign and not reading:
            return
        absent, occupant = _absent(layer, site)
        step = Step(
            site.place,
            Ace(REFUSE, TREE, mask, ""),
            layer,
            layer.kind or DIRECTORY,
            absent=absent,
            occupant=occupant,
            content=layer.occupant or "",
            below=foreign,
            reason=_reason(layer, "entry"),
        )
        self._add_refusal(step)
        if isinstance(layer.where, Glob) and layer.where.pattern[0] == ANY_DEPTH:
            self._pin_prefixes(site.place, layer, layer.where)
        else:
            self._pin_above(site.place, layer, absent == OCCUPY)

    def _pin_prefixes(self, place: Place, layer: Layer, glob: Glob) -> None:
        """Pin what a floating pattern needs: directories that match a proper prefix of what follows its ``**``.

        The match itself keeps its entry wherever a directory above it is moved to.
        """
        start = len(glob.anchor.parts) if glob.anchor else 0
        for depth in range(start + 1, len(place.parts)):
            parts = place.parts[start:depth]
            prefixes = (glob.pattern[:end] for end in range(2, len(glob.pattern)))
            above = Place(place.root, place.parts[:depth])
            writable = self.index.access(above) == self.index.access(above.parent) == WRITE
            if writable and any(match(prefix, parts, self.fold) for prefix in prefixes):
                self._add_refusal(Step(above, Ace(REFUSE, ITSELF, sddl.DELETE, ""), layer))

    def _pin_above(self, place: Place, layer: Layer, occupied: bool) -> None:
        """Pin the ancestors of a stricter place that lie inside a writable root, as far as its own root shows."""
        pin = Ace(REFUSE, ITSELF, sddl.DELETE, "")
        absent = OCCUPY if occupied else SKIP
        for depth in range(len(place.parts) - 1, -1, -1):
            above = Place(place.root, place.parts[:depth])
            if above.is_bound and not depth:
                return
            key = self._key(above)
            earlier = self.pinned.get(key)
            if earlier or (earlier is False and not occupied):
                return
            self.pinned[key] = occupied
            held = depth > 0 and self.index.access(above) == self.index.access(above.parent) == WRITE
            foreign = () if held else self._foreign(above)
            if held or foreign:
                step = Step(above, pin, layer, absent=absent, occupant=DIRECTORY, below=foreign, strictly=True)
                self._add_refusal(step)
        if not place.is_bound and (foreign := self._foreign(place)):
            start = Place(place.root, ())
            chain = Step(start, pin, layer, below=foreign, strictly=True, chain=True)
            self.chains.setdefault(place.root, chain)

    def _add_refusal(self, step: Step) -> None:
        key = (self._key(step.place), step.ace.flags, step.ace.mask)
        known = self.refusals.get(key)
        if known is None or (known.absent == SKIP and step.absent != SKIP):
            self.refusals[key] = step

    # -- grants ------------------------------------------------------------------------------------------

    def _readable(self, site: _Site) -> bool:
        """Return whether a place needs no read entry of its own.

        That is so for the system's own directories, which are open to all users and which only an administrator
        could change, where a layer's entry opens the directory above, and, as long as parameters are open, for a
        protected name: it never opens what the layers around it do not.
        """
        if site.layer is not None and _SYSTEM.match(site.layer.source):
            return True
        if not self.settled:
            return site.layer is not None and site.layer.cap and self._key(site.place) not in self.plain
        if not site.place.parts:
            return False
        decision = self.index.decide(site.place.parent)
        return decision.access != DENY and decision.layer is not None

    def _write(self, site: _Site, layer: Layer) -> None:
        if site.above == WRITE and self.settled:
            return
        mask = sddl.GRANT_WRITE | (sddl.GRANT_READ if self.strict else 0)
        self._grant(site.place, layer, ((TREE, mask), (BELOW, sddl.DELETE)))

    def _grant(self, place: Place, layer: Layer, entries: Iterable[tuple[str, int]]) -> None:
        sid = root_sid(place)
        create = layer.origin == ENTRY and layer.absent == CREATE
        for flags, mask in entries:
            step = Step(
                place,
                Ace(ALLOW, flags, mask, sid),
                layer,
                layer.kind or DIRECTORY,
                absent=CREATE if create else SKIP,
                occupant=FILE if layer.kind == FILE else DIRECTORY,
                reason="" if place.root == RUN_TMP or layer.private else _reason(layer, "root"),
            )
            self.grants.append(step)

    # -- what a look tells -------------------------------------------------------------------------------

    def _present(self, steps: list[Step]) -> list[Step]:
        """Return the steps with the kind of their object as seen; those on absent objects go or say what is made."""
        if self.seen is None:
            return steps
        kept: list[Step] = []
        for step in steps:
            kind = self.seen.kind(step.place)
            if kind == ABSENT:
                parent = self.seen.kind(step.place.parent)
                if self._blocked(step.place):
                    continue
                if step.absent == SKIP or (step.absent == OCCUPY_IN_PARENT and parent != DIRECTORY):
                    if step.ace.mask != sddl.DELETE:
                        self.missing[step.layer] = None
                    continue
                kind = step.occupant
            elif step.absent != SKIP:
                step = step._replace(absent=SKIP)
            if kind == FILE and step.ace.on_file() is None:
                continue
            kept.append(step._replace(kind=kind, known=True, reason="" if kind == FILE else step.reason))
        return kept

    def _blocked(self, place: Place) -> bool:
        """Return whether a file, itself pinned, stands where a directory on the way to an absent place would be."""
        assert self.seen is not None
        above = place.parent
        while above.parts and (kind := self.seen.kind(above)) == ABSENT:
            above = above.parent
        return bool(above.parts) and kind == FILE


def _absent(layer: Layer, site: _Site) -> tuple[str, str]:
    """Return what a refusal does where its path is absent, and the kind of object made for it."""
    kind = DIRECTORY if layer.kind == DIRECTORY else FILE
    if isinstance(layer.where, Glob) or layer.where.root == RUN_BASE:
        return SKIP, kind
    if layer.origin == ENTRY and layer.absent == "placeholder" and not layer.cap:
        return OCCUPY, kind
    if layer.cap and layer.occupant is not None:
        return OCCUPY_IN_PARENT, FILE
    return SKIP, kind


def _reason(layer: Layer, role: str) -> str:
    if layer.kind == FILE:
        return ""
    if role == "root":
        return "an inheritable entry on a root rewrites the list of every object below, once"
    store = isinstance(layer.where, Place) and layer.where.parts[-1:] in ((".git",), (".hg",), (".svn",))
    if layer.origin == ENTRY or store:
        return "an inheritable entry rewrites the list of every object below, once"
    return ""  # the other names of presets hold little
