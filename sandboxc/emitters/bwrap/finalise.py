"""From what a survey found to the plan of one run: which mounts, in which order (pure).

A site becomes a mount where its access differs from its surroundings. Mounts come shallow to deep, because a
later one covers an earlier one below it; the remounts that close the masks come last, deepest first. A
directory between a writable root and a stricter place is bound onto itself, so that it cannot be renamed away
from under that place.
"""

from sandboxc.capability import Table
from sandboxc.diagnostics import Diagnostic, error, note
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.bwrap import capability
from sandboxc.emitters.bwrap.capability import AT_HIDDEN, LANDLOCK_SCOPES
from sandboxc.emitters.bwrap.plan import (
    BIND,
    DEV,
    DIR,
    HIDDEN_MODE,
    MASK,
    MAX_WORDS,
    PIN,
    PROC,
    REMOUNT,
    RO_BIND,
    SHARED_MODE,
    SOCKET,
    SOCKET_MASK,
    SYMLINK,
    THROUGH_MODE,
    TMPFS,
    VIEW,
    WORKSPACE,
    BwrapPlan,
    Occupied,
    Op,
    Step,
    count_words,
)
from sandboxc.facts import Facts
from sandboxc.layers import APPROVAL, ENTRY, MODE, RANK, RESTRICTION, Layer
from sandboxc.losses import Loss
from sandboxc.places import Place
from sandboxc.policy import ALLOW_ALL, DANGER_FULL_ACCESS, DENY, READ, WRITE
from sandboxc.records import NamedTuple
from sandboxc.seccomp import ARCHES
from sandboxc.survey import Node, Resolved, Site
from sandboxc.survey.look import ABSENT, DIRECTORY, LINK

VIEWS = ("/proc", "/dev")
LATE_FROM = 48
WRITTEN = (ENTRY, RESTRICTION, APPROVAL)


class Host(NamedTuple):
    """What a run knows of its host besides the survey.

    ``cwd`` is the absolute physical directory to run in, empty for none. ``disable_userns`` says whether
    ``--disable-userns`` works here. ``late_from`` is the number of mounts from which those that nothing lies
    below are made by late steps (bwrap takes time that grows with their square); 0 never does. ``covers`` are
    further paths below /proc that the user could write, to be shown read-only. ``sys`` says that /sys exists.
    """

    cwd: str = ""
    disable_userns: bool = True
    late_from: int = LATE_FROM
    covers: tuple[str, ...] = ()
    sys: bool = True


def to_create(resolved: Resolved) -> tuple[Occupied, ...]:
    """Return the directories that ``absent: create`` entries ask for; make them, then survey again."""
    found = (site for site in resolved.sites if site.kind == ABSENT and site.layer.absent == "create")
    return tuple(Occupied(site.path, DIRECTORY, why=site.layer.describe()) for site in found if site.access == WRITE)


def finalise(resolved: Resolved, facts: Facts, options: Options, host: Host | None = None) -> BwrapPlan:
    """Return the plan of one run in the world that a survey described.

    Args:
        resolved: the survey; its own diagnostics are not repeated.
        facts: the architecture and the Landlock ABI of the host that will run it.
        options: what else the policy says.
        host: what the run knows besides.
    """
    if resolved.mode == DANGER_FULL_ACCESS:
        return BwrapPlan(False, resolved.network)
    return _Builder(resolved, facts, host or Host()).run()


class _Builder:
    def __init__(self, resolved: Resolved, facts: Facts, host: Host) -> None:
        self.resolved = resolved
        self.facts = facts
        self.host = host
        self.table: Table = capability.table(facts)
        self.access = {site.path: site.access for site in resolved.sites}
        self.sites = {site.path: site for site in resolved.sites}
        self.items: dict[str, Op] = {}  # mounts and links, one a place
        self.strict: dict[str, int] = {}  # place that is stricter than above -> how many ancestors it pins
        self.links: dict[str, None] = {}
        self.occupants: dict[str, Occupied] = {}
        self.losses: dict[Loss, None] = {}
        self.problems: list[Diagnostic] = []

    def run(self) -> BwrapPlan:
        resolved = self.resolved
        self._root()
        for site in resolved.sites:
            if site.path != "/":
                self._site(site)
        for path in resolved.links:
            self.links[path] = None
            self.strict.setdefault(path, -1)
        self._sockets()
        self._hops()
        self._occupy()
        self._pins()
        ops, steps = self._late(self._ordered())
        plan = BwrapPlan(
            True,
            resolved.network,
            ops,
            steps,
            tuple(self.occupants[path] for path in sorted(self.occupants)),
            self.facts.arch in ARCHES,
            resolved.network.mode == ALLOW_ALL and self.facts.landlock_abi >= LANDLOCK_SCOPES,
            self.host.cwd,
            self.host.disable_userns,
            tuple(self.losses),
            tuple(self.problems),
        )
        words = count_words(plan)
        if words > MAX_WORDS:
            problem = error(
                capability.BUDGET,
                f"this policy needs {words} words of bubblewrap here, and bubblewrap takes {MAX_WORDS}",
                help="deny a directory in place of the many names in it, or split the run",
            )
            plan = plan._replace(diagnostics=(*plan.diagnostics, problem))
        return plan

    # -- what lies where ---------------------------------------------------------------------------------

    def _enclosing(self, path: str) -> str:
        """Return the access of the nearest site above a place, or the baseline."""
        while path != "/":
            path = _parent(path)
            if path in self.access:
                return self.access[path]
        return self.resolved.baseline

    def _at(self, path: str) -> str:
        return self.access[path] if path in self.access else self._enclosing(path)

    @property
    def base(self) -> str:
        return self.access.get("/", self.resolved.baseline)

    def _root(self) -> None:
        node = self.sites["/"].node if "/" in self.sites else None
        if self.base == DENY:
            self.items["/"] = Op(TMPFS, "/", THROUGH_MODE, why="baseline")
        else:
            self.items["/"] = Op(BIND if self.base == WRITE else RO_BIND, "/", node=node, why="baseline")
        if self.base != READ and self.host.sys and "/sys" not in self.access:
            self.items["/sys"] = Op(RO_BIND, "/sys", why="view", role=VIEW)

    def _site(self, site: Site) -> None:
        if _is_view(site) and (site.access != DENY or _inside(site.path, "/dev")):
            if site.layer.span is not None and not site.redundant:
                self._note_view(site)
            return
        if site.layer.private and site.access == WRITE:  # made for the run, after the survey
            self.items[site.path] = Op(BIND, site.path, node=site.node, why=site.layer.describe())
            return
        if site.kind == ABSENT:
            self._absent(site)
            return
        if site.kind == LINK:
            if RANK[site.access] < RANK[site.above]:
                self._link(site)
            elif site.above == DENY and site.node is not None and site.access != DENY:
                self.items[site.path] = Op(SYMLINK, site.path, text=site.node.target, why=site.layer.describe())
            return
        if site.redundant:
            return
        why = site.layer.describe()
        if site.access == DENY:
            mask = TMPFS if site.kind == DIRECTORY else MASK
            mode = HIDDEN_MODE if mask == TMPFS else ""
            self.items[site.path] = Op(mask, site.path, mode, node=site.node, why=why)
        else:
            verb = BIND if site.access == WRITE else RO_BIND
            self.items[site.path] = Op(verb, site.path, node=site.node, why=why, role=_role(site.layer))
        if RANK[site.access] < RANK[site.above]:
            self.strict[site.path] = pinned_ancestors(site)

    def _link(self, site: Site) -> None:
        if self._at(_parent(site.path)) == WRITE:
            self.links[site.path] = None
            self.strict[site.path] = pinned_ancestors(site)

    def _note_view(self, site: Site) -> None:
        if narrows_view(site.layer):
            self._lose("views", site, site.layer.spelled())
            return
        words = f"`{site.layer.spelled()}` lies in a view, which every confining mode shows as it is"
        self.problems.append(note(capability.VIEWS, words, site.layer.span))

    # -- absent places (design rule 9) -------------------------------------------------------------------

    def _absent(self, site: Site) -> None:
        if site.access == WRITE and site.above != WRITE:
            if site.layer.span is not None or site.layer.origin in WRITTEN:
                self._lose("write-absent", site, site.layer.spelled())
            return
        if site.redundant or RANK[site.access] > RANK[site.above]:
            return  # nothing to hold: the surroundings are at least as strict
        missing = site.missing or site.path
        if self._at(_parent(missing)) != WRITE:
            return
        layer = site.layer
        if site.blocker:  # something that is no directory holds the name: as long as it stays, nothing can appear there
            self.items.setdefault(site.blocker, Op(BIND, site.blocker, why=f"holds the name `{missing}`"))
            self.strict.setdefault(site.blocker, -1)
            return
        if layer.occupant is not None and missing == site.path:
            self._want(Occupied(site.path, "file", layer.occupant, layer.describe()))
        elif layer.cap or layer.origin not in WRITTEN or (layer.absent or "placeholder") != "placeholder":
            written = layer.origin in WRITTEN and not layer.cap
            feature = "entry-absent" if written else "preset-absent"
            self._lose(feature, site, layer.spelled() if written else self._preset_at(site))
        else:
            directory = missing != site.path or layer.kind == DIRECTORY
            if missing != site.path:
                words = f"`{missing}` is held empty during the run, because `{site.path}` below it is absent and held"
                self.problems.append(note(capability.HELD_DIRECTORY, words, layer.span))
            self._want(Occupied(missing, DIRECTORY if directory else "file", "", layer.describe()))

    def _want(self, occupant: Occupied) -> None:
        known = self.occupants.get(occupant.path)
        if known is None or (known.kind != DIRECTORY and occupant.kind == DIRECTORY):
            self.occupants[occupant.path] = occupant

    def _preset_at(self, site: Site) -> str:
        """Return the place that the losses of a preset name: the spelling of the root it lies below, or `hidden`."""
        if not site.layer.cap:
            return AT_HIDDEN
        path = site.path
        while path != "/":
            path = _parent(path)
            root = self.sites.get(path)
            if root is not None and root.access == WRITE and not root.layer.cap:
                return root.layer.spelled()
        return AT_HIDDEN

    def _lose(self, feature: str, site: Site, at: str) -> None:
        loss = self.table.loss(feature, at, span=site.layer.span)
        if loss is not None:
            self.losses[loss._replace(conditional=False)] = None

    def _occupy(self) -> None:
        """Show occupants read-only; what lies below an occupied directory needs no name of its own."""
        for path in sorted(self.occupants):
            if any(path != other and _inside(path, other) for other in self.occupants):
                del self.occupants[path]
                continue
            self.items[path] = Op(RO_BIND, path, why=self.occupants[path].why)
            self.strict[path] = -1

    # -- sockets and links -------------------------------------------------------------------------------

    def _sockets(self) -> None:
        for path in self.resolved.sockets:
            if not any(_inside(path, view) for view in VIEWS) and self._at(path) != DENY:
                self.items[path] = Op(MASK, path, why="socket of an outside process", role=SOCKET_MASK)
        for path in self.resolved.connectable:
            if not any(_inside(path, view) for view in VIEWS) and self._at(path) == DENY:
                self.items[path] = Op(RO_BIND, path, why="socket", role=SOCKET)

    def _hops(self) -> None:
        """Recreate the links that granted places are spelled through, where what holds them is masked."""
        for path, text in self.resolved.hops:
            if path in self.items or any(_inside(path, view) for view in VIEWS):
                continue
            if self._at(path) == DENY and self._at(_parent(path)) == DENY:
                self.items[path] = Op(SYMLINK, path, text=text, why="link")

    # -- pins --------------------------------------------------------------------------------------------

    def _pins(self) -> None:
        for path in sorted(self.strict):
            left = self.strict[path]
            at = _parent(path)
            while at != "/" and left != 0 and self._at(at) == WRITE:
                if at not in self.items:
                    self.items[at] = Op(BIND, at, why=f"pins `{path}`", role=PIN)
                at = _parent(at)
                left -= 1

    # -- order -------------------------------------------------------------------------------------------

    def _ordered(self) -> list[Op]:
        """Return the operations in order: shallow to deep, then the remounts, deepest first."""
        closing = {"/dev": Op(REMOUNT, "/dev", why="view", role=VIEW)}
        made: dict[str, Op] = {}
        for path in sorted(self.items, key=_order):
            op = self.items[path]
            above = self._mount_above(path)
            if above is not None and above.verb == TMPFS:
                self._way(above.path, path, made)
                if above.mode == HIDDEN_MODE:
                    opened = above._replace(mode=THROUGH_MODE)
                    self.items[above.path] = made[above.path] = opened
            made[path] = op
            if op.verb == TMPFS:
                closing[path] = Op(REMOUNT, path, why=op.why, role=op.role)
        views = [Op(PROC, "/proc"), Op(RO_BIND, "/proc/sys", why="view", role=VIEW)]
        views += [Op(RO_BIND, path, why="view", role=VIEW) for path in self.host.covers]
        views += [Op(DEV, "/dev"), Op(TMPFS, "/dev/shm", SHARED_MODE, why="view", role=VIEW)]  # noqa: S108
        inner = [made[path] for path in sorted(made, key=_order)]
        last = [closing[path] for path in sorted(closing, key=_order, reverse=True)]
        return [inner[0], *views, *inner[1:], *last]

    def _mount_above(self, path: str) -> Op | None:
        while path != "/":
            path = _parent(path)
            op = self.items.get(path)
            if op is not None and op.verb != SYMLINK:
                return op
        return None

    def _way(self, mask: str, path: str, made: dict[str, Op]) -> None:
        """Make the directories between a mask and what is put back below it: passable, not listable."""
        at = _parent(path)
        while at != mask:
            made.setdefault(at, Op(DIR, at, THROUGH_MODE))
            at = _parent(at)

    def _late(self, ops: list[Op]) -> tuple[tuple[Op, ...], tuple[Step, ...]]:
        """Return the operations with those that a late step does better taken out, and the steps."""
        heavy = [op for op in ops if op.verb in (BIND, RO_BIND, MASK, REMOUNT)]
        pinned = [Step("pin-link", path, self._node(path)) for path in sorted(self.links)]
        if not self.host.late_from or len(heavy) < self.host.late_from:
            return tuple(ops), ((Step("private"), *pinned) if pinned else ())
        leaves = self._leaves(ops)
        moved: list[Step] = []
        kept: list[Op] = []
        keep_pins = self._holding_kept(ops, leaves)
        for op in ops:
            if op.path in leaves:
                if op.verb != REMOUNT:
                    moved.append(_late_step(op))
            elif op.role == PIN and op.path not in keep_pins:
                moved.append(Step("pin-dir", op.path))
            else:
                kept.append(op)
        pin_steps = [step for step in moved if step.verb == "pin-dir"]
        others = [step for step in moved if step.verb != "pin-dir"]
        steps = (*pin_steps, *others, *pinned)
        return tuple(kept), ((Step("private"), *steps) if steps else ())

    def _leaves(self, ops: list[Op]) -> set[str]:
        """Return the places of masks and read-only binds that nothing else is mounted below."""
        inner: set[str] = set()
        for op in ops:
            if op.verb != REMOUNT:
                at = op.path
                while at != "/":
                    at = _parent(at)
                    inner.add(at)
        fit = (op for op in ops if op.verb in (RO_BIND, MASK) or (op.verb == TMPFS and op.mode == HIDDEN_MODE))
        return {
            op.path
            for op in fit
            if op.path not in inner
            and op.role not in (VIEW, SOCKET)
            and op.path not in self.occupants
            and self._on_host(op.path)
        }

    def _on_host(self, path: str) -> bool:
        """Return whether a place is shown from the host, not put into a mask (where bwrap must make its name)."""
        above = self._mount_above(path)
        return above is not None and above.verb in (BIND, RO_BIND)

    def _holding_kept(self, ops: list[Op], leaves: set[str]) -> set[str]:
        """Return the places above something that bwrap itself mounts: a pin there must come before that."""
        found: set[str] = set()
        for op in ops:
            if op.path not in leaves and op.role != PIN:
                at = op.path
                while at != "/":
                    at = _parent(at)
                    found.add(at)
        return found

    def _node(self, path: str) -> Node | None:
        site = self.sites.get(path)
        return site.node if site is not None else None


def _late_step(op: Op) -> Step:
    verb = {RO_BIND: "read-only", MASK: "mask-file", TMPFS: "mask-dir"}[op.verb]
    return Step(verb, op.path, op.node)


def pinned_ancestors(site: Site) -> int:
    """Return how many directories above a site must keep their names; -1 means every one up to the write root.

    A pattern that starts with ``**/`` pins just those that match what precedes its last component, because its
    matches move with their directories and stay what they are.
    """
    text = site.layer.text or site.layer.source.partition(":")[2]
    head, _, tail = text.partition("/")
    parts = tail.split("/")
    literal = head != "**" or "**" in site.path.split("/")
    if literal or not tail or "**" in parts or (len(parts) > 1 and any(char in tail for char in "{}")):
        return -1
    return len(parts) - 1


def narrows_view(layer: Layer) -> bool:
    """Return whether a bound layer asks for less inside /dev or /proc than bubblewrap shows there.

    Denies inside /proc hold; to read a whole view is what a view is for.
    """
    where = layer.where
    if (
        not isinstance(where, Place)
        or where.root
        or layer.access == WRITE
        or where.parts[:1] not in (("dev",), ("proc",))
    ):
        return False
    if layer.access == DENY:
        return where.parts[0] == "dev"
    return len(where.parts) > 1


def _is_view(site: Site) -> bool:
    return any(_inside(site.path, view) for view in VIEWS)


def _inside(path: str, root: str) -> bool:
    return path == root or root == "/" or path.startswith(root + "/")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _order(path: str) -> tuple[int, str]:
    return (0 if path == "/" else path.count("/"), path)


def _role(layer: Layer) -> str:
    return WORKSPACE if layer.origin == MODE and layer.source == "workspace" else ""
