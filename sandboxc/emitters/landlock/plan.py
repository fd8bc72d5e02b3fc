"""Emission: the symbolic plan of a policy for Landlock, and the losses that show without a host."""

from collections.abc import Iterable, Iterator, Mapping

from sandboxc import landlock_abi, seccomp
from sandboxc.capability import Table
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.landlock.capability import (
    AT_NETWORK,
    AT_TARGET,
    LISTING_OPEN,
    PORTS_OPEN,
    PROTECTED_OPEN,
    TARGET,
    table,
)
from sandboxc.emitters.landlock.finalise import FORMAT_VERSION, VIEWS
from sandboxc.emitters.landlock.names import blame_of, waived_places
from sandboxc.emitters.landlock.network import network_losses, network_part
from sandboxc.emitters.landlock.regions import Blame
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers
from sandboxc.losses import Loss
from sandboxc.places import Place
from sandboxc.policy import ACCESSES, ALLOW_ALL, BIND, CONNECT, DENY, READ, WRITE
from sandboxc.records import Any

PLAN_FILE = "landlock.json"


def filter_file(arch: str) -> str:
    """Return the name of the companion's file for an architecture."""
    return f"landlock-seccomp-{arch}.bpf"


def emit(stack: Layers, facts: Facts, options: Options) -> Artefact:
    """Return the symbolic plan, the companion filters and the losses of a stack.

    What a carve-out costs depends on the names that exist at binding, so the plan says what each place is to
    have, and ``finalise`` makes the rules.
    """
    capabilities = table(facts)
    abi = min(facts.landlock_abi, landlock_abi.LATEST)
    losses = stack_losses(stack, capabilities, options)
    net = network_part(stack.network, abi, waived_places(options.waivers, PORTS_OPEN))
    filters: dict[str, bytes] = {}
    if stack.confines:
        for arch in seccomp.ARCHES:
            filters[filter_file(arch)] = seccomp.landlock_filter(
                arch, network=stack.network.mode, abi=abi, tcp_ports=net.opened
            )
    handled_net = landlock_abi.names(net.handled, landlock_abi.NET_BITS) if stack.confines else ()
    data: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "target": TARGET,
        "bound": False,
        "confined": stack.confines,
        "name": options.name,
        "policy": options.digest,
        "facts": {"landlock_abi": facts.landlock_abi},
        "abi": abi,
        "handled_fs": list(landlock_abi.names(landlock_abi.handled_fs(abi))) if stack.confines else [],
        "handled_net": list(handled_net),
        "scoped": _scopes(abi) if stack.confines else [],
        "rights": _rights(abi),
        "type_differs": (
            "a node that was found by listing its directory and has another kind or identity when the rules are "
            "made gets no rule; any other one stops the run"
        ),
        "baseline": stack.baseline,
        "layers": _places(stack.layers),
        "ceilings": [{"baseline": ceiling.baseline, "layers": _places(ceiling.layers)} for ceiling in stack.ceilings],
        "sockets": {
            access: sorted(rule.where.text() for rule in stack.sockets if rule.access == access)
            for access in (DENY, CONNECT, BIND)
        },
        "views": dict(sorted(VIEWS.items())),
        "not_expanded": sorted(waived_places(options.waivers, PROTECTED_OPEN)),
        "listed": sorted(waived_places(options.waivers, LISTING_OPEN)),
        "network": {
            "mode": stack.network.mode,
            "ports": sorted(set(stack.network.ports)),
            "opened": [port for port, _ in net.ports],
        },
        "seccomp": {"files": sorted(filters), "tcp_ports": net.opened},
        "losses": [{"code": loss.code, "kind": loss.kind, "at": loss.at, "message": loss.message} for loss in losses],
    }
    import json

    native = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return Artefact(TARGET, native, {PLAN_FILE: native.encode(), **filters}, losses)


def stack_losses(stack: Layers, capabilities: Table, options: Options) -> tuple[Loss, ...]:
    """Return every loss of a stack that shows without a host, the conditional ones included, sorted."""
    return tuple(sorted(set(_losses(stack, capabilities, options)), key=_loss_key))


def _loss_key(loss: Loss) -> tuple[str, str, str]:
    return (loss.code, loss.at, loss.message)


def _scopes(abi: int) -> list[str]:
    return list(landlock_abi.names(landlock_abi.scopes(abi), landlock_abi.SCOPE_BITS))


def _rights(abi: int) -> dict[str, list[str]]:
    """Return what each access grants, on directories and on other nodes."""
    named = {
        "read": landlock_abi.read_rights(abi),
        "write": landlock_abi.write_rights(abi),
        "device": landlock_abi.device_rights(abi),
        "connect": landlock_abi.connect_rights(abi),
        "file": landlock_abi.file_rights(abi),
    }
    return {name: list(landlock_abi.names(mask)) for name, mask in named.items()}


def _places(layers: Iterable[Layer]) -> dict[str, Any]:
    """Return the layers of one stack folded by access: places as texts, protected names by their root."""
    literal: dict[str, set[str]] = {access: set() for access in ACCESSES}
    globs: dict[str, set[str]] = {access: set() for access in ACCESSES}
    protected: set[str] = set()
    kinds: dict[str, str] = {}
    for layer in layers:
        where = layer.where
        if isinstance(where, Glob):
            if where.anchor is not None:
                (protected if layer.cap else globs[layer.access]).add(where.describe())
        elif layer.cap:
            protected.add(where.text())
        else:
            literal[layer.access].add(where.text())
            if layer.kind and layer.access != DENY:
                kinds[where.text()] = layer.kind
    return {
        "places": {access: sorted(found) for access, found in literal.items()},
        "globs": {access: sorted(found) for access, found in globs.items()},
        "protected": sorted(protected),
        "kinds": dict(sorted(kinds.items())),
    }


def _losses(stack: Layers, capabilities: Table, options: Options) -> Iterator[Loss]:
    if not stack.confines:
        return
    found: list[Loss | None] = [
        capabilities.loss(feature, AT_TARGET)
        for feature in (
            "rename-across-pins",
            "metadata",
            "existence",
            "truncate",
            "host-changes",
            "signals",
            "terminal",
            "shared-objects",
        )
    ]
    if capabilities.row("read").code == capabilities.row("write").code:
        yield from (loss for loss in [capabilities.loss("read", AT_TARGET)] if loss is not None)
        return
    if stack.network.mode == ALLOW_ALL:
        found += [capabilities.loss(name, AT_TARGET) for name in ("sockets-existing", "sockets-abstract")]
    roots = [layer for layer in stack.layers if layer.access == WRITE and not layer.cap]
    if roots:
        found.append(capabilities.loss("baseline-links", AT_TARGET))
    yield from (loss for loss in found if loss is not None)
    ports = waived_places(options.waivers, PORTS_OPEN)
    opened = AT_NETWORK in ports and bool(stack.network.ports) and capabilities.row("network-ports").code == PORTS_OPEN
    yield from network_losses(stack.network, capabilities, opened)
    yield from _socket_losses(stack, capabilities)
    yield from _root_losses(stack, roots, capabilities, waived_places(options.waivers, PROTECTED_OPEN))
    yield from _listing_losses(stack, capabilities, waived_places(options.waivers, LISTING_OPEN))
    yield from _entry_losses(stack, roots, capabilities)


def _socket_losses(stack: Layers, capabilities: Table) -> Iterator[Loss]:
    literal = _by_place(layer for layer in stack.layers if isinstance(layer.where, Place))
    for rule in stack.sockets:
        if rule.access == DENY and stack.network.mode == ALLOW_ALL:
            loss = capabilities.loss("sockets-existing", rule.text, span=rule.span)
        elif rule.access == CONNECT and stack.network.mode != ALLOW_ALL:
            message = f"`{rule.text}` cannot be connected to: below ABI 9 no Unix socket can be made"
            loss = capabilities.loss("network-deny", rule.text, message, rule.span)
        elif rule.access == BIND and not _is_writable(literal, rule.where.parent):
            message = f"`{rule.text}` cannot be bound: the right to make sockets is one of the whole directory"
            loss = capabilities.loss("carve-out", rule.text, message, rule.span)
        else:
            continue
        if loss is not None:
            yield loss._replace(standing=False)


def _by_place(layers: Iterable[Layer]) -> dict[Place, Layer]:
    """Return the first layer of each place, a pattern's being its anchor."""
    found: dict[Place, Layer] = {}
    for layer in layers:
        where = layer.where if isinstance(layer.where, Place) else layer.where.anchor
        if where is not None:
            found.setdefault(where, layer)
    return found


def _deepest(known: Mapping[Place, Layer], place: Place) -> Layer | None:
    """Return what stands at a place or nearest above it."""
    for depth in range(len(place.parts), -1, -1):
        found = known.get(Place(place.root, place.parts[:depth]))
        if found is not None:
            return found
    return None


def _is_writable(known: Mapping[Place, Layer], place: Place) -> bool:
    deepest = _deepest(known, place)
    return deepest is not None and deepest.access == WRITE


def _preset(loss: Loss | None, blame: Blame) -> Iterator[Loss]:
    if loss is not None:
        yield loss._replace(preset=loss.preset or blame.preset)


def _root_losses(stack: Layers, roots: list[Layer], capabilities: Table, waived: frozenset[str]) -> Iterator[Loss]:
    """Yield what the protected names cost at each write root."""
    known = _by_place(roots)
    owned: dict[int, list[Layer]] = {}
    for layer in stack.layers:
        owner = _owner(layer, known) if layer.cap else None
        if owner is not None:
            owned.setdefault(id(owner), []).append(layer)
    for root in roots:
        names = owned.get(id(root))
        if not names:
            continue
        at = root.spelled()
        if at in waived:
            message = f"{len(names)} protected names below `{at}` are writable"
            yield from _preset(capabilities.loss("protected-names", at, message, root.span), Blame(at))
            continue
        blame = Blame(at, root, True)
        message = f"nothing can be made, removed or renamed directly in `{at}` and in directories above protected names"
        yield from _preset(capabilities.loss("carve-out", at, message, root.span), blame)
        if any(".git" in _parts(layer) for layer in names):
            yield from _preset(capabilities.loss("new-repositories", at), blame)
        if any(isinstance(layer.where, Glob) for layer in names):
            yield from _preset(capabilities.loss("preset-glob", at), blame)


def _parts(layer: Layer) -> tuple[str, ...]:
    where = layer.where
    if isinstance(where, Place):
        return where.parts
    return (*(where.anchor.parts if where.anchor else ()), *where.pattern)


def _owner(name: Layer, roots: Mapping[Place, Layer]) -> Layer | None:
    """Return the deepest write root that a protected name lies below."""
    place = name.where if isinstance(name.where, Place) else name.where.anchor
    return None if place is None else _deepest(roots, place)


def _elsewhere(root: Layer, place: Place) -> bool:
    """Return whether a write root hangs from another symbolic root than a place."""
    where = root.where if isinstance(root.where, Place) else root.where.anchor
    return where is not None and not root.private and where.root != place.root


def _listing_losses(stack: Layers, capabilities: Table, waived: frozenset[str]) -> Iterator[Loss]:
    """Yield, for each denied directory (or what may be one), that what is above it cannot be listed."""
    seen: set[str] = set()
    for layer in stack.layers:
        if layer.access != DENY or layer.kind == "file" or (isinstance(layer.where, Glob) and not layer.where.anchor):
            continue
        blame = blame_of(layer, None)
        if blame.at in seen:
            continue
        seen.add(blame.at)
        span = blame.layer.span if blame.layer is not None else None
        if blame.at in waived:
            yield from _preset(capabilities.loss("deny-directory", blame.at, span=span), Blame(blame.at))
            continue
        subject = "hidden paths" if blame.layer is None else f"`{blame.at}`"
        message = f"directories above {subject} cannot be listed"
        yield from _preset(capabilities.loss("read", blame.at, message, span), blame)


def _entry_losses(stack: Layers, roots: list[Layer], capabilities: Table) -> Iterator[Loss]:
    """Yield what single entries and patterns lose."""
    known = _by_place(roots)
    literal = _by_place(layer for layer in stack.layers if isinstance(layer.where, Place))
    for layer in stack.layers:
        if layer.cap:
            continue
        at = blame_of(layer, None).at
        if isinstance(layer.where, Glob):
            if layer.span is not None:
                yield from _preset(capabilities.loss("glob", at, span=layer.span), Blame(at))
            else:
                yield from _preset(capabilities.loss("preset-glob", layer.describe()), Blame(at, None, True))
        elif (
            layer.access == WRITE
            and layer.absent in ("report", "create")
            and not _is_writable(literal, layer.where.parent)
        ):
            yield from _preset(capabilities.loss("write-absent", at, span=layer.span), Blame(at))
        elif layer.access in (DENY, READ) and layer.span is not None:
            owner = _owner(layer, known)
            if owner is not None:
                way = f"the directories from `{owner.spelled()}` to `{at}`"
                message = f"nothing can be made, removed or renamed directly in {way}"
                yield from _preset(capabilities.loss("carve-out", at, message, layer.span), Blame(at))
            elif any(_elsewhere(root, layer.where) for root in roots):  # binding decides how they nest
                loss = capabilities.loss("carve-out", at, span=layer.span)
                yield from _preset(loss._replace(conditional=True) if loss else None, Blame(at))
