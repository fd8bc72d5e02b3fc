"""Finalising: a resolved stack on one file system becomes a bound rule set."""

from collections.abc import Iterable, Mapping

from sandboxc import landlock_abi, seccomp
from sandboxc.capability import Table
from sandboxc.diagnostics import Diagnostic, error
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.landlock.capability import (
    AT_TARGET,
    LISTING_OPEN,
    NO_LANDLOCK,
    PORTS_OPEN,
    PROTECTED_OPEN,
    TARGET,
    table,
)
from sandboxc.emitters.landlock.names import blame_of, waived_places
from sandboxc.emitters.landlock.network import network_part
from sandboxc.emitters.landlock.regions import (
    LISTING,
    MODIFYING,
    READING,
    Blame,
    Expansion,
    Regions,
    Says,
    Withheld,
)
from sandboxc.facts import Facts
from sandboxc.layers import stricter
from sandboxc.losses import Loss
from sandboxc.policy import DANGER_FULL_ACCESS, DENY, READ, WRITE
from sandboxc.records import Any, NamedTuple
from sandboxc.survey.look import DEVICE, DIRECTORY, FIFO, FILE, SOCKET, Look, Node
from sandboxc.survey.resolve import Resolved, Site

FORMAT_VERSION = 1
MAX_RULES = 100_000
TOO_MANY_RULES = "SBX405"

#: Device nodes that every confining mode has (design rule 12), with the access that they are given.
VIEWS: Mapping[str, str] = {
    "/dev/null": WRITE,
    "/dev/zero": WRITE,
    "/dev/full": WRITE,
    "/dev/random": READ,
    "/dev/urandom": READ,
    "/dev/tty": WRITE,
    "/dev/ptmx": WRITE,
}

_KINDS = {
    DIRECTORY: "directory",
    FILE: "file",
    FIFO: "fifo",
    SOCKET: "socket",
    DEVICE: "char-device",
}
_SAYS = {
    DENY: Says(False, False, False),
    READ: Says(True, True, False),
    WRITE: Says(True, True, True),
}


_WITHHELD = {
    MODIFYING: "nothing can be made, removed or renamed directly in {}",
    LISTING: "no listing of {}",
    READING: "what is made later directly in {} is unreadable",
}


class Rule(NamedTuple):
    """Rights on one node and, if it is a directory, on what is below it.

    ``kind`` is one of ``landlock_abi.KINDS``, ``rights`` a mask of ``landlock_abi.FS_BITS``. ``optional`` marks a
    node that was found by listing its directory: if it is gone or another one when the rules are made, it is left
    out, which only narrows; any other rule that does not fit its node stops the run.
    """

    path: str
    kind: str
    rights: int
    dev: int
    ino: int
    optional: bool = False


class LandlockPlan(NamedTuple):
    """A bound rule set with its companion, and what occurred while it was made.

    The masks are those of ``landlock_abi``. ``losses`` are those that binding decided (``emit`` lists the others);
    with an error among ``diagnostics`` the plan must not be used. ``confined`` is False for
    ``danger-full-access`` only.
    """

    abi: int
    confined: bool
    network: str
    handled_fs: int
    handled_net: int
    scoped: int
    rules: tuple[Rule, ...]
    ports: tuple[tuple[int, int], ...]
    losses: tuple[Loss, ...]
    diagnostics: tuple[Diagnostic, ...]

    def ruleset(self) -> dict[str, Any] | None:
        """Return the rule set as ``sandboxc.runtime.landlock_exec`` takes it; None where nothing is confined."""
        if not self.confined:
            return None
        return {
            "abi": self.abi,
            "handled_fs": self.handled_fs,
            "handled_net": self.handled_net,
            "scoped": self.scoped,
            "rules": [rule._asdict() for rule in self.rules],
            "ports": [{"port": port, "rights": rights} for port, rights in self.ports],
        }

    def seccomp(self, arch: str) -> bytes | None:
        """Return the companion filter for ``x86_64`` or ``aarch64``; None where nothing is confined.

        Raises:
            ValueError: there is no filter for the architecture.
        """
        if not self.confined:
            return None
        return seccomp.landlock_filter(arch, network=self.network, abi=self.abi, tcp_ports=bool(self.ports))

    def to_data(self) -> dict[str, Any]:
        """Return the bound plan as a JSON object, rights by name."""
        return {
            "format_version": FORMAT_VERSION,
            "target": TARGET,
            "bound": True,
            "confined": self.confined,
            "abi": self.abi,
            "handled_fs": list(landlock_abi.names(self.handled_fs)),
            "handled_net": list(landlock_abi.names(self.handled_net, landlock_abi.NET_BITS)),
            "scoped": list(landlock_abi.names(self.scoped, landlock_abi.SCOPE_BITS)),
            "rules": [{**rule._asdict(), "rights": list(landlock_abi.names(rule.rights))} for rule in self.rules],
            "ports": [
                {"port": port, "rights": list(landlock_abi.names(rights, landlock_abi.NET_BITS))}
                for port, rights in self.ports
            ],
            "seccomp": {"network": self.network, "tcp_ports": bool(self.ports)},
            "losses": [_loss_data(loss) for loss in self.losses],
        }

    def text(self) -> str:
        """Return the bound plan as JSON text: ASCII (names need not be UTF-8), sorted keys, one final newline."""
        import json

        return json.dumps(self.to_data(), indent=1, sort_keys=True) + "\n"


def _loss_data(loss: Loss) -> dict[str, Any]:
    return {"code": loss.code, "kind": loss.kind, "at": loss.at, "message": loss.message}


def finalise(resolved: Resolved, look: Look, facts: Facts, options: Options) -> LandlockPlan:
    """Return the bound rule set of a resolved stack.

    Args:
        resolved: what ``survey.resolve`` made of the bound stack, with the same ``look``.
        look: asked for the names in directories above carve-outs and for the identity of their nodes.
        facts: ``landlock_abi`` is the ABI to use; one newer than ``landlock_abi.LATEST`` counts as that.
        options: its waivers for this target decide what is not expanded.
    """
    abi = min(facts.landlock_abi, landlock_abi.LATEST)
    capabilities = table(facts)
    if resolved.mode == DANGER_FULL_ACCESS:
        return LandlockPlan(abi, False, resolved.network.mode, 0, 0, 0, (), (), (), ())
    problems: list[Diagnostic] = []
    if abi == 0:
        problems.append(error(NO_LANDLOCK, "this kernel has no Landlock", help="use another target"))
        return LandlockPlan(0, True, resolved.network.mode, 0, 0, 0, (), (), (), tuple(problems))
    job = _Binding(resolved, look, abi, capabilities, options)
    rules = job.rules()
    if len(rules) > MAX_RULES:
        problems.append(
            error(
                TOO_MANY_RULES,
                f"the directories above carve-outs hold {len(rules)} names, more than {MAX_RULES} rules",
                help="narrow the carve-outs, or use another target",
            )
        )
    net = network_part(resolved.network, abi, waived_places(options.waivers, PORTS_OPEN))
    losses = [*job.losses, *_socket_losses(resolved, capabilities, abi)]
    return LandlockPlan(
        abi,
        True,
        resolved.network.mode,
        landlock_abi.handled_fs(abi),
        net.handled,
        landlock_abi.scopes(abi),
        rules,
        net.ports,
        tuple(sorted(set(losses), key=lambda loss: (loss.code, loss.at, loss.message))),
        tuple(problems),
    )


def _socket_losses(resolved: Resolved, capabilities: Table, abi: int) -> Iterable[Loss]:
    if landlock_abi.connect_rights(abi) or resolved.network.mode == "allow-all":
        return
    for path in resolved.connectable:
        loss = capabilities.loss("network-deny", path, f"the socket `{path}` cannot be connected to")
        if loss is not None:
            yield loss._replace(standing=False)


class _Binding:
    """One finalising: places and what is said there, then rules, then what that lost."""

    def __init__(self, resolved: Resolved, look: Look, abi: int, capabilities: Table, options: Options) -> None:
        self.resolved = resolved
        self.look = look
        self.abi = abi
        self.table = capabilities
        self.open_roots = waived_places(options.waivers, PROTECTED_OPEN)
        self.listed = waived_places(options.waivers, LISTING_OPEN)
        self.losses: list[Loss] = []
        self.sites = {site.path: site for site in resolved.sites}
        self.regions = Regions(look, _SAYS[resolved.baseline])
        self._views()
        for site in resolved.sites:
            self._say(site)
        self._links()

    # -- what is said ------------------------------------------------------------------------------------

    def _views(self) -> None:
        """Say what holds of kernel file systems, before the layers say more (design rule 12)."""
        view = Blame("")
        self.regions.say("/dev", Says(False, True, False), view)
        self.regions.say("/proc", Says(True, True, False), view)
        self.regions.say("/sys", Says(True, True, False), view)

    def _say(self, site: Site) -> None:
        root = self._root(site.path)
        if site.layer.cap and site.access == READ and root is not None:
            place = root.layer.spelled()
            if place in self.open_roots:
                message = f"`{place}` keeps full rights, so protected names below it are writable"
                self._lose("protected-names", Blame(place, root.layer), message)
                return
        says = _SAYS[site.access]
        blame = blame_of(site.layer, root.layer if root is not None else None)
        if site.access == WRITE and (site.path == "/proc" or site.path.startswith("/proc/")):
            says = _SAYS[READ]
            self._lose("carve-out", blame, f"`{site.path}` is a view of the kernel and stays read-only")
        opens = site.access == WRITE and site.above != WRITE and not site.layer.private
        if opens and self.look.node(site.path) is None:
            message = f"`{site.path}` does not exist, so nothing can be written there"
            self._lose("write-absent", blame, message)
        self.regions.say(site.path, says, blame)

    def _root(self, path: str) -> Site | None:
        """Return the write site that encloses a path."""
        here = path
        while here != "/":
            here = here.rpartition("/")[0] or "/"
            site = self.sites.get(here)
            if site is not None and site.access == WRITE and not site.layer.cap:
                return site
        return None

    def _links(self) -> None:
        """Keep the links that a layer was reached through from being replaced."""
        names = {site.layer.source.removeprefix("protected:") for site in self.resolved.sites if site.layer.cap}
        heads = {part for name in names for part in name.split("/")}
        for link in self.resolved.links:
            root = self._root(link)
            name = link.rpartition("/")[2]
            if root is not None and root.layer.spelled() in self.open_roots and name in heads:
                written = (s.layer.text for s in self.resolved.sites if s.layer.span and not s.layer.cap)
                if not any(name in text.split("/") for text in written):
                    continue
            layer = root.layer if root is not None else None
            self.regions.say(link, Says(None, None, False), Blame(layer.spelled() if layer else "", layer))

    # -- rules -------------------------------------------------------------------------------------------

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules, by path; what the expansion lost is then in ``losses``."""
        expansion = self.regions.expand(self.listed)
        self._explain(expansion)
        masks: dict[str, tuple[int, Node, bool]] = {}
        for path, granted in expansion.granted.items():
            mask = self._mask(path, granted.classes)
            masks[path] = (mask, granted.node, granted.sibling)
        for path, access in VIEWS.items():
            node = self.look.node(path)
            if node is not None and node.kind == DEVICE:
                mask = self._view_mask(path, access)
                old = masks.get(path)
                masks[path] = (mask | old[0] if old else mask, node, True)
        connect = landlock_abi.connect_rights(self.abi)
        for path in self.resolved.connectable if connect else ():
            node = self.look.node(path)
            if node is not None:
                old = masks.get(path)
                masks[path] = (connect | old[0] if old else connect, node, False)
        return tuple(_reduced(masks))

    def _mask(self, path: str, classes: int) -> int:
        mask = 0
        if classes & 1 << READING:
            mask |= landlock_abi.bits(("execute", "read_file"))
        if classes & 1 << LISTING:
            mask |= landlock_abi.bits(("read_dir",))
        if classes & 1 << MODIFYING:
            mask |= landlock_abi.modify_rights(self.abi)
            if path.startswith("/dev/"):
                mask |= landlock_abi.device_rights(self.abi)
        return mask & landlock_abi.handled_fs(self.abi)

    def _view_mask(self, path: str, access: str) -> int:
        """Return the rights on a device that every mode has, unless a layer there says less."""
        site = self.sites.get(path)
        above = self.sites.get("/dev")
        if site is not None:
            access = stricter(access, site.access)
        elif above is not None and above.access == DENY:
            access = DENY
        if access == WRITE:
            return landlock_abi.device_rights(self.abi)
        return landlock_abi.bits(("read_file",)) if access == READ else 0

    # -- losses ------------------------------------------------------------------------------------------

    def _lose(self, feature: str, blame: Blame, message: str = "") -> None:
        span = blame.layer.span if blame.layer is not None else None
        loss = self.table.loss(feature, blame.at, message, span)
        if loss is not None:
            self.losses.append(loss._replace(preset=loss.preset or blame.preset, conditional=False))

    def _explain(self, expansion: Expansion) -> None:
        by_blame: dict[tuple[Blame, int], list[str]] = {}
        for item in expansion.withheld:
            for blame in self._blames(item):
                by_blame.setdefault((blame, item.kind), []).append(item.path)
        for (blame, kind), paths in by_blame.items():
            shown = _shown(sorted(set(paths)))
            self._lose("carve-out" if kind == MODIFYING else "read", blame, _WITHHELD[kind].format(shown))
        for place in sorted(self.listed):
            layer = next((s.layer for s in self.resolved.sites if blame_of(s.layer, None).at == place), None)
            if layer is not None:
                self._lose("deny-directory", Blame(place, layer))
        for path in expansion.unlisted:
            self._lose("carve-out", Blame(path), f"`{path}` cannot be listed, so nothing in it is granted")
        for path in expansion.aliases:
            message = f"`{path}` is another name of a node that goes without the right, and gets no rule"
            self._lose("carve-out", Blame(path), message)

    def _blames(self, item: Withheld) -> Iterable[Blame]:
        """Yield whom to blame; a view below a write layer is blamed on that layer, otherwise on nobody."""
        for blame in item.blames:
            if blame.at:
                yield blame
            elif item.kind == MODIFYING:
                site = self.sites.get(item.path) or self._root(item.path)
                if site is not None:
                    yield Blame(site.layer.spelled() or AT_TARGET, site.layer)


def _shown(paths: list[str], most: int = 3) -> str:
    words = ", ".join(f"`{path}`" for path in paths[:most])
    return words if len(paths) <= most else f"{words} and {len(paths) - most} more"


def _reduced(masks: Mapping[str, tuple[int, Node, bool]]) -> Iterable[Rule]:
    """Yield a rule for each node that gets a right which no directory above it has already."""
    for path in sorted(masks):
        mask, node, sibling = masks[path]
        here = path
        while here != "/":
            here = here.rpartition("/")[0] or "/"
            above = masks.get(here)
            if above is not None:
                mask &= ~above[0]
        kind = _KINDS[node.kind]
        mask = landlock_abi.mask_for_kind(mask, kind)
        if mask:
            yield Rule(path, kind, mask, node.dev, node.ino, sibling)
